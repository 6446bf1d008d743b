// The first of three steps of a convolution by Winograd's form, F(STEP x STEP, 3 x 3): of each patch of SIDE x SIDE pixels
// and each channel a matrix of as many numbers. They lie [number][panel of 16 patches][channel][16], which is what a product
// reads (matmul_tile.cl), with zeros behind the last patch.
#define STEP STRIDE_1
#define SIDE KERNEL_1
#define PATCHES (OUT_1 * OUT_2)
#define PANELS ((DIM_0 * PATCHES + 15) / 16)
void FN(turn)(T0 *v, const int s) {
#if SIDE == 4
  const T0 v0 = v[0] - v[2 * s], v1 = v[s] + v[2 * s], v2 = v[2 * s] - v[s], v3 = v[s] - v[3 * s];
  v[0] = v0, v[s] = v1, v[2 * s] = v2, v[3 * s] = v3;
#else
  const T0 a = v[4 * s] - 4 * v[2 * s], b = v[3 * s] - 4 * v[s], c = v[4 * s] - v[2 * s], d = 2 * (v[3 * s] - v[s]);
  const T0 v0 = 4 * v[0] - 5 * v[2 * s] + v[4 * s], v5 = 4 * v[s] - 5 * v[3 * s] + v[5 * s];
  v[0] = v0, v[s] = a + b, v[2 * s] = a - b, v[3 * s] = c + d, v[4 * s] = c - d, v[5 * s] = v5;
#endif
}
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int t = (int)get_global_id(0), y0 = (int)get_global_id(1), y1 = 0;
  if (t >= PANELS * 16) return;
  uint g = (uint)min(t / PATCHES, DIM_0 - 1);
  COORDINATES
  const int at_x = AT0, first_y = t % PATCHES / OUT_2 * STEP - PAD_1, first_x = t % OUT_2 * STEP - PAD_2;
  T0 v[SIDE * SIDE];
  #pragma unroll
  for (int i = 0; i < SIDE * SIDE; ++i) {
    const int iy = first_y + i / SIDE, ix = first_x + i % SIDE;
    const int in = t < DIM_0 * PATCHES && iy >= 0 && iy < IN_1 && ix >= 0 && ix < IN_2;
    const T0 read = LOAD0(at_x + (in ? iy * X_1 + ix * X_2 : 0));
    v[i] = in ? read : 0;
  }
  #pragma unroll
  for (int i = 0; i < SIDE; ++i) FN(turn)(v + i, SIDE);
  #pragma unroll
  for (int i = 0; i < SIDE; ++i) FN(turn)(v + i * SIDE, 1);
  #pragma unroll
  for (int i = 0; i < SIDE * SIDE; ++i) STORE(((i * PANELS + t / 16) * INNER_FIRST + y0) * 16 + t % 16, v[i]);
}
#undef PANELS
#undef PATCHES
#undef SIDE
#undef STEP
