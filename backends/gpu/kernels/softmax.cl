// A row by each work item, or by a group of LANES of them: the greatest, the sum, the result.
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0) / LANES;
  const int lane = (int)get_local_id(0) % LANES;
#if LANES > 1
  __local T0 parts[LANES];
#else
  if (g >= COUNT) return;
#endif
  COORDINATES
  const int x = AT0, y = ATY;
  T0 greatest = -QR_INFINITY, sum = 0;
  for (int i = lane; i < LENGTH; i += LANES) greatest = fmax(greatest, LOAD0(x + i * X_STEP));
#if LANES > 1
  TOGETHER(parts, greatest, fmax(parts[lane], parts[lane + s]))
#endif
  for (int i = lane; i < LENGTH; i += LANES) sum += exp(LOAD0(x + i * X_STEP) - greatest);
#if LANES > 1
  TOGETHER(parts, sum, parts[lane] + parts[lane + s])
#endif
#if LOGARITHM
  const T0 shift = log(sum) + greatest;
  for (int i = lane; i < LENGTH; i += LANES) { STORE(y + i * Y_STEP, LOAD0(x + i * X_STEP) - shift); }
#else
  const T0 factor = 1 / sum;
  for (int i = lane; i < LENGTH; i += LANES) { STORE(y + i * Y_STEP, exp(LOAD0(x + i * X_STEP) - greatest) * factor); }
#endif
}
