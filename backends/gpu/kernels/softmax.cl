// One line by each work item: the greatest, the sum, the result.
__kernel void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int x = AT0, y = ATY;
  T0 greatest = -QR_INFINITY, sum = 0;
  for (int i = 0; i < LENGTH; ++i) greatest = fmax(greatest, LOAD0(x + i * X_STEP));
  for (int i = 0; i < LENGTH; ++i) sum += exp(LOAD0(x + i * X_STEP) - greatest);
#if LOGARITHM
  const T0 shift = log(sum) + greatest;
  for (int i = 0; i < LENGTH; ++i) { STORE(y + i * Y_STEP, LOAD0(x + i * X_STEP) - shift); }
#else
  const T0 factor = 1 / sum;
  for (int i = 0; i < LENGTH; ++i) { STORE(y + i * Y_STEP, exp(LOAD0(x + i * X_STEP) - greatest) * factor); }
#endif
}
