// y[m, n] = sum over k of (a[m, k] - a's zero point) * b[k, n] of integers of 8 bits, four steps of k at a time: a work item
// has ROWS rows and COLS columns. b lies [panel of 16 columns][four of k][16][4] without its zero point, with zeros behind
// the last, and behind each panel for its 16 columns what the zero point of a adds (SIGNED: conv_dot.cl). Sums wrap around on their way.
#define FOURS ((K + 3) / 4)
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int column = (int)get_global_id(0) * COLS, first = (int)get_global_id(1) * ROWS;
  uint g = (uint)get_global_id(2);
  if (column >= INNER_LAST || first >= INNER_FIRST) return;
  COORDINATES
  int y0, y1 = 0, at[ROWS];
  uint sum[ROWS * COLS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    y0 = min(first + i, INNER_FIRST - 1);
    at[i] = AT0;
  }
  #pragma unroll
  for (int i = 0; i < ROWS * COLS; ++i) sum[i] = 0;
  const int b = AT1 + column / 16 * ((FOURS + 1) * 64) + column % 16 * 4;
  for (int k = 0; k < FOURS; ++k) {
    uint x[ROWS];
#if K % 4
    if (k == FOURS - 1) {
      #pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        const int from = at[i] + k * 4;
        x[i] = SIGNED(as_uint((uchar4)((uchar)LOAD0(from), (uchar)(K % 4 > 1 ? LOAD0(from + min(1, K % 4 - 1)) : 0),
                                (uchar)(K % 4 > 2 ? LOAD0(from + min(2, K % 4 - 1)) : 0), 0)));
      }
    } else
#endif
    {
      #pragma unroll
      for (int i = 0; i < ROWS; ++i) x[i] = SIGNED(FOUR0(at[i] + k * 4));
    }
    #pragma unroll
    for (int j = 0; j < COLS; ++j) {
      const uint w = WORD1(b + k * 64 + j * 4);
      #pragma unroll
      for (int i = 0; i < ROWS; ++i) sum[i * COLS + j] += (uint)qr_dot(x[i], w);
    }
  }
  for (int i = 0; i < ROWS; ++i) {
    y0 = first + i;
    if (y0 >= INNER_FIRST) break;
    for (int j = 0; j < COLS; ++j) {
      y1 = column + j;
      if (y1 >= INNER_LAST) break;
      const int value = (int)(sum[i * COLS + j] - WORD1(b + FOURS * 64 + j * 4));
      FINISH;
    }
  }
}
#undef FOURS
