// MODE: nearest, linear, cubic. PADDING: zeros, the border, reflection. Up to three axes of space; those that
// are not there have one element.
#define GRID_LOW (ALIGNED ? 0.0f : -0.5f)
#define GRID_HIGH(extent) (ALIGNED ? (float)(extent) - 1 : (float)(extent) - 0.5f)
float FN(reflect)(float x, float low, float high) {
  const float range = high - low;
  if (range <= 0) return low;
  if (x >= low && x <= high) return x;
  const float beyond = x < low ? low - x : x - high;
  const float turns = floor(beyond / range), rest = beyond - turns * range;
  const int from_low = (x < low) == (fmod(turns, 2.0f) == 0);
  return from_low ? low + rest : high - rest;
}
float FN(place)(float at, int extent) {
  const float length = (float)extent;
  float x = ALIGNED ? (at + 1) / 2 * (length - 1) : ((at + 1) * length - 1) / 2;
#if MODE == GRID_MODE_NEAREST
  x = rint(x);
#endif
  if (x < GRID_LOW || x > GRID_HIGH(extent)) {
#if PADDING == GRID_PADDING_BORDER
    const float reach = MODE == GRID_MODE_CUBIC ? 4.0f : 0.0f;  // cubic taps go to the border each by itself
    x = clamp(x, -reach, max(length - 1, 0.0f) + reach);
#elif PADDING == GRID_PADDING_REFLECTION
    x = FN(reflect)(x, GRID_LOW, GRID_HIGH(extent));
#endif
  }
  return fabs(x) < 1e9f ? x : -1e9f;
}
int FN(source)(int index, int extent) {
  if (index >= 0 && index < extent) return index;
#if PADDING == GRID_PADDING_ZEROS
  return -1;
#elif PADDING == GRID_PADDING_REFLECTION
  index = (int)FN(reflect)((float)index, GRID_LOW, GRID_HIGH(extent));
#endif
  return clamp(index, 0, extent - 1);
}
float FN(weight)(int t, float ratio) {
#if MODE == GRID_MODE_NEAREST
  return 1;
#elif MODE == GRID_MODE_LINEAR
  return t == 0 ? 1 - ratio : ratio;
#else
  const float x = fabs((float)t - ratio), a = -0.75f;
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
#endif
}
#define GRID_FIRST (MODE == GRID_MODE_CUBIC ? -1 : 0)
#define GRID_TAPS(extent, there) (there ? (MODE == GRID_MODE_NEAREST ? 1 : MODE == GRID_MODE_LINEAR ? 2 : 4) : 1)
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int x = AT0, at = AT1;
  const float pz = SPACE > 2 ? FN(place)(LOAD1(at + 2 * GRID_STEP), IN_0) : 0;
  const float py = SPACE > 1 ? FN(place)(LOAD1(at + GRID_STEP), IN_1) : 0;
  const float px = FN(place)(LOAD1(at), IN_2);
  const int z = (int)floor(pz), y = (int)floor(py), w = (int)floor(px);
  float sum = 0;
  for (int i = 0; i < GRID_TAPS(IN_0, SPACE > 2); ++i) {
    const int iz = SPACE > 2 ? FN(source)(z + GRID_FIRST + i, IN_0) : 0;
    const float wz = SPACE > 2 ? FN(weight)(GRID_FIRST + i, pz - z) : 1;
    for (int j = 0; j < GRID_TAPS(IN_1, SPACE > 1); ++j) {
      const int iy = SPACE > 1 ? FN(source)(y + GRID_FIRST + j, IN_1) : 0;
      const float wy = SPACE > 1 ? FN(weight)(GRID_FIRST + j, py - y) : 1;
      for (int k = 0; k < GRID_TAPS(IN_2, 1); ++k) {
        const int ix = FN(source)(w + GRID_FIRST + k, IN_2);
        const float weight = wz * wy * FN(weight)(GRID_FIRST + k, px - w);
        if (iz < 0 || iy < 0 || ix < 0 || weight == 0) continue;
        sum += weight * LOAD0(x + iz * X_0 + iy * X_1 + ix * X_2);
      }
    }
  }
  const T0 value = TRUNCATED(sum);
  FINISH;
}
#undef GRID_LOW
#undef GRID_HIGH
#undef GRID_FIRST
#undef GRID_TAPS
