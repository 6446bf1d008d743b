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
  const int z = y1 / (OUT_1 * OUT_2), y = y1 / OUT_2 % OUT_1, x = y1 % OUT_2;
  const int first_z = z * STRIDE_0 - PAD_0, first_y = y * STRIDE_1 - PAD_1, first_x = x * STRIDE_2 - PAD_2;
  int y0 = 0;
  SUM sum[TILE];
  #pragma unroll
  for (int i = 0; i < TILE; ++i) sum[i] = 0;
  const int at_x = AT0, at_w = AT1 + block * CHANNELS * KERNEL_0 * KERNEL_1 * KERNEL_2 * TILE;
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
          const SUM v = (int)LOAD0(at_x + c * X_CHANNEL + iz * X_0 + iy * X_1 + ix * X_2) - X_ZERO;
          #pragma unroll
          for (int i = 0; i < TILE; ++i) sum[i] += v * LOAD1(at_w + tap * TILE + i);
        }
      }
    }
  }
  #pragma unroll
  for (int i = 0; i < TILE; ++i) {
    y0 = block * TILE + i;
    if (y0 < INNER_FIRST) {
      const SUM value = sum[i];
      FINISH;
    }
  }
}
#undef SUM
