// Products of integers of 8 bits, four channels of the input at a time. A work item has ROWS pixels of the result and COLS
// channels. Weights lie [panel of 16 channels][tap][four channels of the input][16][4] without their zero points, with
// zeros behind the last, and behind each panel for its 16 channels what the zero point of the input adds, which stands for
// what is outside the image, too. SIGNED makes integers without a sign such with one, 128 less: that is what devices
// multiply fastest, and weights' sums know of it. Sums wrap around on their way.
#define FOURS ((CHANNELS + 3) / 4)
#define PANEL_OF_DOTS ((WINDOW_TAPS * FOURS + 1) * 64)
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int first = (int)get_global_id(0) * ROWS, channel = (int)get_global_id(1) * COLS;
  uint g = (uint)get_global_id(2);
  if (first >= INNER_LAST || channel >= INNER_FIRST) return;
  COORDINATES
  int y0 = 0, y1 = 0;
  const int at_x = AT0, at_w = AT1 + channel / 16 * PANEL_OF_DOTS + channel % 16 * 4;
  const uint outside = SIGNED((uint)(X_ZERO & 255) * 0x01010101u);
  int first_z[ROWS], first_y[ROWS], first_x[ROWS];
  uint sum[ROWS * COLS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const int p = min(first + i, INNER_LAST - 1);
    first_z[i] = WINDOW_Z(p), first_y[i] = WINDOW_Y(p), first_x[i] = WINDOW_X(p);
  }
  #pragma unroll
  for (int i = 0; i < ROWS * COLS; ++i) sum[i] = 0;
  for (int kz = 0; kz < KERNEL_0; ++kz)
    for (int ky = 0; ky < KERNEL_1; ++ky)
      for (int kx = 0; kx < KERNEL_2; ++kx) {
        const int w_at = at_w + ((kz * KERNEL_1 + ky) * KERNEL_2 + kx) * (FOURS * 64);
        int from[ROWS], in[ROWS];
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
          const int iz = first_z[i] + kz * DILATION_0, iy = first_y[i] + ky * DILATION_1, ix = first_x[i] + kx * DILATION_2;
          in[i] = IN_IMAGE(iz, iy, ix);
          from[i] = at_x + (in[i] ? IMAGE_AT(iz, iy, ix) : 0);
        }
        for (int c = 0; c < FOURS; ++c) {
          uint x[ROWS];
          #pragma unroll
          for (int i = 0; i < ROWS; ++i) {
            // Behind the last channel weights are zero, and any other will do.
            const int at = from[i] + c * 4 * X_CHANNEL, last = CHANNELS - 1 - c * 4;
            const uchar4 four = (uchar4)((uchar)LOAD0(at), (uchar)LOAD0(at + min(1, last) * X_CHANNEL),
                                         (uchar)LOAD0(at + min(2, last) * X_CHANNEL), (uchar)LOAD0(at + min(3, last) * X_CHANNEL));
            x[i] = in[i] ? SIGNED(as_uint(four)) : outside;
          }
          #pragma unroll
          for (int j = 0; j < COLS; ++j) {
            const uint w = WORD1(w_at + c * 64 + j * 4);
            #pragma unroll
            for (int i = 0; i < ROWS; ++i) sum[i * COLS + j] += (uint)qr_dot(x[i], w);
          }
        }
      }
  for (int j = 0; j < COLS; ++j) {
    y0 = channel + j;
    if (y0 >= INNER_FIRST) break;
    for (int i = 0; i < ROWS; ++i) {
      y1 = first + i;
      if (y1 >= INNER_LAST) break;
      const int value = (int)(sum[i * COLS + j] - WORD1(at_w + PANEL_OF_DOTS - 64 + j * 4));
      FINISH;
    }
  }
}
#undef PANEL_OF_DOTS
#undef FOURS
