// HOW: 0 sum, 1 mean, 2 product, 3 largest, 4 least, 5 sum of magnitudes, 6 root of the sum of squares, 7 sum of
// squares, 8 logarithm of the sum, 9 logarithm of the sum of exponentials.
__kernel void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int at = AT0;
#if HOW == 2
  T0 value = 1;
#elif HOW == 3
  T0 value = LOWEST;
#elif HOW == 4
  T0 value = HIGHEST;
#elif HOW == 9
  T0 greatest = LOWEST, value = 0;
  for (int i = 0; i < EXTENT_0; ++i)
    for (int j = 0; j < EXTENT_1; ++j)
      for (int k = 0; k < EXTENT_2; ++k)
        for (int l = 0; l < EXTENT_3; ++l) {
          const T0 v = LOAD0(at + i * STEP_0 + j * STEP_1 + k * STEP_2 + l * STEP_3);
          greatest = v > greatest || v != v ? v : greatest;
        }
#else
  T0 value = 0;
#endif
  for (int i = 0; i < EXTENT_0; ++i)
    for (int j = 0; j < EXTENT_1; ++j)
      for (int k = 0; k < EXTENT_2; ++k)
        for (int l = 0; l < EXTENT_3; ++l) {
          const T0 v = LOAD0(at + i * STEP_0 + j * STEP_1 + k * STEP_2 + l * STEP_3);
#if HOW == 2
          value *= v;
#elif HOW == 3
          if (value == value && (v > value || v != v)) value = v;
#elif HOW == 4
          if (value == value && (v < value || v != v)) value = v;
#elif HOW == 5
          value += v < 1 && v != 0 && !(v > 0) ? 0 - v : v;
#elif HOW == 6 || HOW == 7
          value += v * v;
#elif HOW == 9
          value += isinf(greatest) ? (T0)0 : exp(v - greatest);
#else
          value += v;
#endif
        }
#if HOW == 1
  value /= EXTENT_0 * EXTENT_1 * EXTENT_2 * EXTENT_3;
#elif HOW == 6
  value = ROOT(value);
#elif HOW == 8
  value = log(value);
#elif HOW == 9
  value = isinf(greatest) ? greatest : greatest + log(value);
#endif
  FINISH;
}
