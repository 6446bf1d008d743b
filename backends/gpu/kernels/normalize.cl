// A line of LENGTH elements by each work item. HOW: 0 around the mean, 1 around zero, 2 by the magnitudes' sum, 3 by the
// root of the squares' sum. Scale and bias change every PIECE elements.
__kernel void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int x = AT0, y = ATY, scale = AT1, bias = AT2;
  T0 mean = 0, spread = 0;
#if HOW == 0
  for (int i = 0; i < LENGTH; ++i) mean += LOAD0(x + i);
  mean /= LENGTH;
#endif
  for (int i = 0; i < LENGTH; ++i) {
    const T0 d = LOAD0(x + i) - mean;
    spread += d * d;
  }
  const T0 factor = 1 / sqrt(spread / LENGTH + as_float(EPSILON));
  for (int i = 0; i < LENGTH; ++i) {
    const int p = i / PIECE;
    STORE(y + i, (LOAD0(x + i) - mean) * factor * LOAD1(scale + p * SCALE_STEP) + LOAD2(bias + p * BIAS_STEP));
  }
}
