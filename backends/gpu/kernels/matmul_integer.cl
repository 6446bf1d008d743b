// y[m, n] = sum over k of (a[m, k] - A_ZERO) * (b[k, n] - B_ZERO), in integers (WIDE: of 64 bits): a work item has one
// column and TILE rows.
#if WIDE
#define SUM long
#else
#define SUM int
#endif
__kernel void KERNEL(ARGUMENTS) {
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
    const SUM w = (int)LOAD1(b + k * B_K) - B_ZERO;
    #pragma unroll
    for (int i = 0; i < TILE; ++i) sum[i] += ((int)LOAD0(at[i] + k * A_K) - A_ZERO) * w;
  }
  #pragma unroll
  for (int i = 0; i < TILE; ++i) {
    y0 = first + i;
    if (y0 < INNER_FIRST) {
      const SUM value = sum[i];
      FINISH;
    }
  }
}
#undef SUM
