// A work item has ROWS pixels of the result and a vector of COLS channels. Weights lie [panel of 16 channels][tap][channel
// of the input][16], with zeros behind the last.
#define CONV_CHECKED (PAD_0 > 0 || PAD_1 > 0 || PAD_2 > 0 || (OUT_0 - 1) * STRIDE_0 - PAD_0 + (KERNEL_0 - 1) * DILATION_0 >= IN_0 || \
  (OUT_1 - 1) * STRIDE_1 - PAD_1 + (KERNEL_1 - 1) * DILATION_1 >= IN_1 || (OUT_2 - 1) * STRIDE_2 - PAD_2 + (KERNEL_2 - 1) * DILATION_2 >= IN_2)
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int first = (int)get_global_id(0) * ROWS, channel = (int)get_global_id(1) * COLS;
  uint g = (uint)get_global_id(2);
  if (first >= INNER_LAST || channel >= INNER_FIRST) return;
  COORDINATES
  int y0 = 0, y1 = 0;
  const int at_x = AT0, at_w = AT1 + channel / 16 * (KERNEL_0 * KERNEL_1 * KERNEL_2 * CHANNELS * 16) + channel % 16;
  int first_z[ROWS], first_y[ROWS], first_x[ROWS];
  VECTOR(T0, COLS) sum[ROWS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const int p = min(first + i, INNER_LAST - 1);
    first_z[i] = p / (OUT_1 * OUT_2) * STRIDE_0 - PAD_0;
    first_y[i] = p / OUT_2 % OUT_1 * STRIDE_1 - PAD_1;
    first_x[i] = p % OUT_2 * STRIDE_2 - PAD_2;
    sum[i] = 0;
  }
  for (int kz = 0; kz < KERNEL_0; ++kz)
    for (int ky = 0; ky < KERNEL_1; ++ky)
      for (int kx = 0; kx < KERNEL_2; ++kx) {
        const int w_at = at_w + ((kz * KERNEL_1 + ky) * KERNEL_2 + kx) * (CHANNELS * 16);
        int from[ROWS];
#if CONV_CHECKED
        int in[ROWS], all = 1;
#endif
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
          const int iz = first_z[i] + kz * DILATION_0, iy = first_y[i] + ky * DILATION_1, ix = first_x[i] + kx * DILATION_2;
          from[i] = at_x + iz * X_0 + iy * X_1 + ix * X_2;
#if CONV_CHECKED
          in[i] = iz >= 0 && iz < IN_0 && iy >= 0 && iy < IN_1 && ix >= 0 && ix < IN_2;
          all &= in[i];
          if (!in[i]) from[i] = at_x;
#endif
        }
#if CONV_CHECKED
        if (!all) {
          for (int c = 0; c < CHANNELS; ++c) {
            const VECTOR(T0, COLS) w = VLOAD1(w_at + c * 16);
            #pragma unroll
            for (int i = 0; i < ROWS; ++i) {
              const T0 v = LOAD0(from[i] + c * X_CHANNEL);
              sum[i] += (in[i] ? v : 0) * w;
            }
          }
          continue;
        }
#endif
        for (int c = 0; c < CHANNELS; ++c) {
          const VECTOR(T0, COLS) w = VLOAD1(w_at + c * 16);
          #pragma unroll
          for (int i = 0; i < ROWS; ++i) sum[i] += LOAD0(from[i] + c * X_CHANNEL) * w;
        }
      }
  T0 done[ROWS * COLS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) VSTORE(sum[i], done + i * COLS);
  for (int j = 0; j < COLS; ++j) {
    y0 = channel + j;
    if (y0 >= INNER_FIRST) break;
    for (int i = 0; i < ROWS; ++i) {
      y1 = first + i;
      if (y1 >= INNER_LAST) break;
      const T0 value = done[i * COLS + j];
      FINISH;
    }
  }
}
#undef CONV_CHECKED
