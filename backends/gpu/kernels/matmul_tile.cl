// y[m, n] = sum over k of a[m, k] * b[k, n]: a work item has ROWS rows and a vector of COLS columns. The columns of b lie
// side by side, or in panels of PANEL columns, row behind row, with zeros behind the last column.
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int column = (int)get_global_id(0) * COLS, first = (int)get_global_id(1) * ROWS;
  uint g = (uint)get_global_id(2);
  if (column >= INNER_LAST || first >= INNER_FIRST) return;
  COORDINATES
  int y0, y1, at[ROWS];
  VECTOR(T0, COLS) sum[ROWS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    y0 = min(first + i, INNER_FIRST - 1);
    at[i] = AT0;
    sum[i] = 0;
  }
#if PANEL
  const int from = column;
  const int b = AT1 + column / PANEL * (K * PANEL) + column % PANEL;
#else
  // The last vector begins before the end of the others, and stores what they do not.
  const int from = min(column, INNER_LAST - COLS);
  y1 = from;
  const int b = AT1;
#endif
  for (int k = 0; k < K; ++k) {
    const VECTOR(T0, COLS) w = VLOAD1(b + k * B_K);
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) sum[i] += LOAD0(at[i] + k * A_K) * w;
  }
  T0 done[ROWS * COLS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) VSTORE(sum[i], done + i * COLS);
  for (int i = 0; i < ROWS; ++i) {
    y0 = first + i;
    if (y0 >= INNER_FIRST) break;
    for (int j = 0; j < COLS; ++j) {
      y1 = from + j;
      if (y1 < column || y1 >= INNER_LAST) continue;
      const T0 value = done[i * COLS + j];
      FINISH;
    }
  }
}
