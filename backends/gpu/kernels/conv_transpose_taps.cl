// The text of conv_transpose and conv_transpose_integer: each pixel of the result gathers what the taps bring to it, in SUM.
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int y1 = (int)get_global_id(0), y0 = (int)get_global_id(1);
  uint g = (uint)get_global_id(2);
  if (y1 >= INNER_LAST) return;
  COORDINATES
  const int z = y1 / (OUT_1 * OUT_2) + PAD_0, y = y1 / OUT_2 % OUT_1 + PAD_1, x = y1 % OUT_2 + PAD_2;
  SUM value = 0;
  const int at_x = AT0, at_w = AT1 + y0 * W_OUT;
  for (int kz = 0; kz < KERNEL_0; ++kz) {
    const int tz = z - kz * DILATION_0, iz = tz / STRIDE_0;
    if (tz < 0 || tz % STRIDE_0 != 0 || iz >= IN_0) continue;
    for (int ky = 0; ky < KERNEL_1; ++ky) {
      const int ty = y - ky * DILATION_1, iy = ty / STRIDE_1;
      if (ty < 0 || ty % STRIDE_1 != 0 || iy >= IN_1) continue;
      for (int kx = 0; kx < KERNEL_2; ++kx) {
        const int tx = x - kx * DILATION_2, ix = tx / STRIDE_2;
        if (tx < 0 || tx % STRIDE_2 != 0 || ix >= IN_2) continue;
        const int from = at_x + IMAGE_AT(iz, iy, ix);
        const int with = at_w + (kz * KERNEL_1 + ky) * KERNEL_2 + kx;
        for (int c = 0; c < CHANNELS; ++c) value += LEFT(from + c * X_CHANNEL) * LOAD1(with + c * W_CHANNEL);
      }
    }
  }
  FINISH;
}
#undef LEFT
#undef SUM
