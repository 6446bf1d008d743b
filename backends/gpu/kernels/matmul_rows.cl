// The text of matmul and matmul_integer: y[m, n] = sum over k of LEFT of a[m, k] * RIGHT of b[k, n], in SUM. A work item has one
// column and TILE rows.
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int y1 = (int)get_global_id(0), first = (int)get_global_id(1) * TILE;
  uint g = (uint)get_global_id(2);
  if (y1 >= INNER_LAST) return;
  COORDINATES
  int y0, at[TILE];
  SUM sum[TILE];
  #pragma unroll
  for (int i = 0; i < TILE; ++i) {
    y0 = min(first + i, INNER_FIRST - 1);
    at[i] = AT0;
    sum[i] = 0;
  }
  const int b = AT1;
  for (int k = 0; k < K; ++k) {
    const SUM w = RIGHT(b + k * B_K);
    #pragma unroll
    for (int i = 0; i < TILE; ++i) sum[i] += LEFT(at[i] + k * A_K) * w;
  }
  #pragma unroll
  for (int i = 0; i < TILE; ++i) STORE_ROW(first + i, SUM, sum[i])
}
#undef LEFT
#undef RIGHT
#undef SUM
