// Products of integers, summed in integers (WIDE: of 64 bits). A work item has one pixel and TILE channels of the result;
// weights lie [block][channel][tap][TILE], without their zero points.
#if WIDE
#define SUM long
#else
#define SUM int
#endif
__kernel void KERNEL(ARGUMENTS) {
  const int y1 = (int)get_global_id(0), block = (int)get_global_id(1);
  uint g = (uint)get_global_id(2);
  if (y1 >= INNER_LAST) return;
  COORDINATES
  const int first_z = WINDOW_Z(y1), first_y = WINDOW_Y(y1), first_x = WINDOW_X(y1);
  int y0 = 0;
  SUM sum[TILE];
  #pragma unroll
  for (int i = 0; i < TILE; ++i) sum[i] = 0;
  const int at_x = AT0, at_w = AT1 + block * CHANNELS * WINDOW_TAPS * TILE;
  for (int c = 0; c < CHANNELS; ++c) {
    for (int kz = 0; kz < KERNEL_0; ++kz) {
      const int iz = first_z + kz * DILATION_0;
      if (iz < 0 || iz >= IN_0) continue;
      for (int ky = 0; ky < KERNEL_1; ++ky) {
        const int iy = first_y + ky * DILATION_1;
        if (iy < 0 || iy >= IN_1) continue;
        for (int kx = 0; kx < KERNEL_2; ++kx) {
          const int ix = first_x + kx * DILATION_2;
          if (ix < 0 || ix >= IN_2) continue;
          const int tap = ((c * KERNEL_0 + kz) * KERNEL_1 + ky) * KERNEL_2 + kx;
          const SUM v = (int)LOAD0(at_x + c * X_CHANNEL + IMAGE_AT(iz, iy, ix)) - X_ZERO;
          #pragma unroll
          for (int i = 0; i < TILE; ++i) sum[i] += v * LOAD1(at_w + tap * TILE + i);
        }
      }
    }
  }
  #pragma unroll
  for (int i = 0; i < TILE; ++i) STORE_ROW(block * TILE + i, SUM, sum[i])
}
#undef SUM
