// The last of three steps (winograd_input.cl): of the numbers [number][channel][patch] of a channel and patch, STEP x STEP
// pixels of the result.
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
  #pragma unroll
  for (int i = 0; i < STEP * STEP; ++i) {
    const int y = first_y + i / STEP, x = first_x + i % STEP;
    if (y >= OUT_0 || x >= OUT_1) continue;
    y1 = y * OUT_1 + x;
    const T0 value = done[i];
    FINISH;
  }
}
#undef PATCHES
#undef SIDE
