// The last of three steps (winograd_input.cl): of the numbers [number][channel][patch] of a channel and patch, STEP x STEP
// pixels of the result.
//
// An infinity, a NaN or numbers near the greatest spoil all pixels of their patch, not only those whose taps reach them:
// where a pixel is not finite all of the patch are summed once more, tap by tap, from the image (operand 1) and filters
// (operand 2) that come back from their numbers.
#define SIDE (STEP + 2)
#define PATCHES (PATCHES_0 * PATCHES_1)
void FN(turn)(const T0 *v, const int s, T0 *to, const int step) {
#if STEP == 2
  to[0] = v[0] + v[s] + v[2 * s], to[step] = v[s] - v[2 * s] - v[3 * s];
#else
  const T0 a = v[s] + v[2 * s], b = v[s] - v[2 * s], c = v[3 * s] + v[4 * s], d = v[3 * s] - v[4 * s];
  to[0] = v[0] + a + c, to[step] = b + 2 * d, to[2 * step] = a + 4 * c, to[3 * step] = b + 8 * d + v[5 * s];
#endif
}
#if STEP == 2
#define EDGE 1
#define MIDDLE 1
#else
#define EDGE 4
#define MIDDLE (-3)
#endif
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int patch = (int)get_global_id(0);
  int y0 = (int)get_global_id(1), y1 = 0;
  if (patch >= PATCHES) return;
  uint g = (uint)get_global_id(2);
  const int from = y0 * (DIM_0 * PATCHES) + (int)g * PATCHES + patch;
  COORDINATES
  T0 v[SIDE * SIDE], half_way[STEP * SIDE], done[STEP * STEP];
  #pragma unroll
  for (int i = 0; i < SIDE * SIDE; ++i) v[i] = LOAD0(i * (INNER_FIRST * DIM_0 * PATCHES) + from);
  #pragma unroll
  for (int i = 0; i < SIDE; ++i) FN(turn)(v + i, SIDE, half_way + i, SIDE);
  #pragma unroll
  for (int i = 0; i < STEP; ++i) FN(turn)(half_way + i * SIDE, 1, done + i * STEP, 1);
  const int first_y = patch / PATCHES_1 * STEP, first_x = patch % PATCHES_1 * STEP;
  T0 strange = 0;
  #pragma unroll
  for (int i = 0; i < STEP * STEP; ++i) strange += done[i] * 0;  // of what is finite: 0
  const int at_x = AT1, at_w = AT2 + y0 * CHANNELS;
  #pragma unroll
  for (int i = 0; i < STEP * STEP; ++i) {
    const int y = first_y + i / STEP, x = first_x + i % STEP;
    if (y >= OUT_0 || x >= OUT_1) continue;
    y1 = y * OUT_1 + x;
    T0 value = done[i];
    if (strange != 0) {
      value = 0;
      for (int tap = 0; tap < 9 * CHANNELS; ++tap) {
        const int c = tap / 9, ky = tap / 3 % 3, kx = tap % 3;
        const int iy = y + ky - PAD_0, ix = x + kx - PAD_1;
        if (iy < 0 || iy >= IN_0 || ix < 0 || ix >= IN_1) continue;
        // The first tap of an axis is the first number, times EDGE; the last the last; that between of the second, and
        // of the third with the other sign.
        T0 w = 0;
        for (int a = 0; a < 1 + (ky == 1); ++a)
          for (int b = 0; b < 1 + (kx == 1); ++b) {
            const int row = ky == 0 ? 0 : ky == 2 ? SIDE - 1 : 1 + a, column = kx == 0 ? 0 : kx == 2 ? SIDE - 1 : 1 + b;
            const int down = ky == 0 ? EDGE : ky == 2 ? 1 : a ? -(MIDDLE) : MIDDLE;
            const int across = kx == 0 ? EDGE : kx == 2 ? 1 : b ? -(MIDDLE) : MIDDLE;
            w += LOAD2(at_w + (row * SIDE + column) * (INNER_FIRST * CHANNELS) + c) * (down * across);
          }
        value += LOAD1(at_x + c * X_CHANNEL + iy * X_0 + ix * X_1) * w;
      }
    }
    FINISH;
  }
}
#undef MIDDLE
#undef EDGE
#undef PATCHES
#undef SIDE
