// A work item has one pixel and TILE channels of the result. Weights lie [block][channel][tap][TILE] (PACKED), or as
// ONNX has them.
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int y1 = (int)get_global_id(0), block = (int)get_global_id(1);
  uint g = (uint)get_global_id(2);
  if (y1 >= INNER_LAST) return;
  COORDINATES
  const int z = y1 / (OUT_1 * OUT_2), y = y1 / OUT_2 % OUT_1, x = y1 % OUT_2;
  const int first_z = z * STRIDE_0 - PAD_0, first_y = y * STRIDE_1 - PAD_1, first_x = x * STRIDE_2 - PAD_2;
  int y0 = 0;
  T0 sum[TILE];
  #pragma unroll
  for (int i = 0; i < TILE; ++i) sum[i] = 0;
  const int at_x = AT0, at_w = AT1;
  for (int c = 0; c < CHANNELS; ++c) {
    for (int kz = 0; kz < KERNEL_0; ++kz) {
      const int iz = first_z + kz * DILATION_0;
      for (int ky = 0; ky < KERNEL_1; ++ky) {
        const int iy = first_y + ky * DILATION_1;
        for (int kx = 0; kx < KERNEL_2; ++kx) {
          const int ix = first_x + kx * DILATION_2;
          const int tap = (c * KERNEL_0 + kz) * KERNEL_1 * KERNEL_2 + ky * KERNEL_2 + kx;
          // Without a branch, which keeps compilers from doing several pixels at once.
          const int in = iz >= 0 && iz < IN_0 && iy >= 0 && iy < IN_1 && ix >= 0 && ix < IN_2;
          const T0 read = LOAD0(at_x + c * X_CHANNEL + (in ? iz * X_0 + iy * X_1 + ix * X_2 : 0));
          const T0 v = in ? read : 0;
          #pragma unroll
          for (int i = 0; i < TILE; ++i) {
#if PACKED
            const T0 w = LOAD1(at_w + (block * CHANNELS * KERNEL_0 * KERNEL_1 * KERNEL_2 + tap) * TILE + i);
#else
            const T0 w = LOAD1(at_w + min(block * TILE + i, INNER_FIRST - 1) * (CHANNELS * KERNEL_0 * KERNEL_1 * KERNEL_2) + tap);
#endif
            sum[i] += v * w;
          }
        }
      }
    }
  }
  #pragma unroll
  for (int i = 0; i < TILE; ++i) {
    y0 = block * TILE + i;
    if (y0 < INNER_FIRST) {
      const T0 value = sum[i];
      FINISH;
    }
  }
}
