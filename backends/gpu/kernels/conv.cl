// A work item has one pixel and TILE channels of the result. Weights lie [block][channel][tap][TILE] (PACKED), or as
// ONNX has them.
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int y1 = (int)get_global_id(0), block = (int)get_global_id(1);
  uint g = (uint)get_global_id(2);
  if (y1 >= INNER_LAST) return;
  COORDINATES
  const int first_z = WINDOW_Z(y1), first_y = WINDOW_Y(y1), first_x = WINDOW_X(y1);
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
          const int in = IN_IMAGE(iz, iy, ix);
          const T0 read = LOAD0(at_x + c * X_CHANNEL + (in ? IMAGE_AT(iz, iy, ix) : 0));
          const T0 v = in ? read : 0;
          #pragma unroll
          for (int i = 0; i < TILE; ++i) {
#if PACKED
            const T0 w = LOAD1(at_w + (block * CHANNELS * WINDOW_TAPS + tap) * TILE + i);
#else
            const T0 w = LOAD1(at_w + min(block * TILE + i, INNER_FIRST - 1) * (CHANNELS * WINDOW_TAPS) + tap);
#endif
            sum[i] += v * w;
          }
        }
      }
    }
  }
  #pragma unroll
  for (int i = 0; i < TILE; ++i) STORE_ROW(block * TILE + i, T0, sum[i])
}
