// A row of LENGTH elements by each work item, or by a group of LANES of them. HOW: around the mean, or around zero. Scale
// and bias change every PIECE elements.
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0) / LANES;
  const int lane = (int)get_local_id(0) % LANES;
#if LANES > 1
  __local T0 parts[LANES];
#else
  if (g >= COUNT) return;
#endif
  COORDINATES
  const int x = AT0, y = ATY, scale = AT1, bias = AT2;
  // rest: what is left of a mean that was rounded, which is much where elements differ by little.
  T0 mean = 0, spread = 0, rest = 0;
#if HOW == NORMALIZATION_AROUND_MEAN
  for (int i = lane; i < LENGTH; i += LANES) mean += LOAD0(x + i);
#if LANES > 1
  TOGETHER(parts, mean, parts[lane] + parts[lane + s])
#endif
  mean /= LENGTH;
#endif
  for (int i = lane; i < LENGTH; i += LANES) {
    const T0 d = LOAD0(x + i) - mean;
    spread += d * d;
    rest += d;
  }
#if LANES > 1
  TOGETHER(parts, spread, parts[lane] + parts[lane + s])
#endif
#if HOW == NORMALIZATION_AROUND_MEAN
#if LANES > 1
  TOGETHER(parts, rest, parts[lane] + parts[lane + s])
#endif
  rest /= LENGTH;
  const T0 variance = max(spread / LENGTH - rest * rest, (T0)0);
#else
  rest = 0;
  const T0 variance = spread / LENGTH;
#endif
  const T0 factor = 1 / sqrt(variance + as_float(EPSILON));
  for (int i = lane; i < LENGTH; i += LANES) {
    const int p = i / PIECE;
    STORE(y + i, ((LOAD0(x + i) - mean) - rest) * factor * LOAD1(scale + p * SCALE_STEP) + LOAD2(bias + p * BIAS_STEP));
  }
}
