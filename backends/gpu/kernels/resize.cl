// Up to four axes with taps: for each output coordinate TAPS indices (operand 1) and weights (operand 2).
#define RESIZE_PLACE(axis, t) (TABLE_##axis + coordinate[axis] * TAPS_##axis + t)
#define RESIZE_INDEX(axis, t) clamp((int)LOAD1(RESIZE_PLACE(axis, t)), 0, IN_##axis - 1)
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int all[] = {ALL_COORDINATES};
  const int coordinate[4] = {all[AXIS_0], all[AXIS_1], all[AXIS_2], all[AXIS_3]};
  const int x = AT0;
#if TAPS_0 * TAPS_1 * TAPS_2 * TAPS_3 == 1
  const T0 value = LOAD0(x + RESIZE_INDEX(0, 0) * STEP_0 + RESIZE_INDEX(1, 0) * STEP_1 + RESIZE_INDEX(2, 0) * STEP_2 +
                         RESIZE_INDEX(3, 0) * STEP_3);
#else
  float total = 0;
  for (int i = 0; i < TAPS_0; ++i) {
    const float wi = LOAD2(RESIZE_PLACE(0, i));
    const int xi = x + RESIZE_INDEX(0, i) * STEP_0;
    for (int j = 0; j < TAPS_1; ++j) {
      const float wj = wi * LOAD2(RESIZE_PLACE(1, j));
      const int xj = xi + RESIZE_INDEX(1, j) * STEP_1;
      for (int k = 0; k < TAPS_2; ++k) {
        const float wk = wj * LOAD2(RESIZE_PLACE(2, k));
        const int xk = xj + RESIZE_INDEX(2, k) * STEP_2;
        for (int l = 0; l < TAPS_3; ++l) {
          const float w = wk * LOAD2(RESIZE_PLACE(3, l));
          if (w != 0) total += w * LOAD0(xk + RESIZE_INDEX(3, l) * STEP_3);
        }
      }
    }
  }
  const T0 value = ROUNDED(total);
#endif
  FINISH;
}
#undef RESIZE_PLACE
#undef RESIZE_INDEX
