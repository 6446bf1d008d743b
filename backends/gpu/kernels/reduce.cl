// A reduction (HOW) by each work item, or by a group of LANES. L1: the sum of magnitudes; L2: the root of the sum of squares.
#if HOW == REDUCTION_PROD
#define REDUCE_FIRST 1
#define REDUCE_TAKE(v) value *= v;
#define REDUCE_JOINED(a, b) ((a) * (b))
#elif HOW == REDUCTION_MAX
#define REDUCE_FIRST LOWEST
#define REDUCE_TAKE(v) if (value == value && (v > value || v != v)) value = v;
#define REDUCE_JOINED(a, b) ((a) == (a) && ((b) > (a) || (b) != (b)) ? (b) : (a))
#elif HOW == REDUCTION_MIN
#define REDUCE_FIRST HIGHEST
#define REDUCE_TAKE(v) if (value == value && (v < value || v != v)) value = v;
#define REDUCE_JOINED(a, b) ((a) == (a) && ((b) < (a) || (b) != (b)) ? (b) : (a))
#else
#define REDUCE_FIRST 0
#define REDUCE_JOINED(a, b) ((a) + (b))
#if HOW == REDUCTION_L1
#define REDUCE_TAKE(v) value += v < 1 && v != 0 && !(v > 0) ? 0 - v : v;
#elif HOW == REDUCTION_L2 || HOW == REDUCTION_SUM_SQUARE
#define REDUCE_TAKE(v) value += v * v;
#elif HOW == REDUCTION_LOG_SUM_EXP
#define REDUCE_TAKE(v) value += isinf(greatest) ? (T0)0 : exp(v - greatest);
#else
#define REDUCE_TAKE(v) value += v;
#endif
#endif
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0) / LANES;
#if LANES > 1
  __local T0 parts[LANES];
  const int lane = (int)get_local_id(0);
#else
  if (g >= COUNT) return;
#endif
  COORDINATES
  const int at = AT0;
  T0 value = REDUCE_FIRST;
#if HOW == REDUCTION_LOG_SUM_EXP
  T0 greatest = LOWEST;
  for (int i = 0; i < EXTENT_0; ++i)
    for (int j = 0; j < EXTENT_1; ++j)
      for (int k = 0; k < EXTENT_2; ++k)
        for (int l = 0; l < EXTENT_3; ++l) {
          const T0 v = LOAD0(at + i * STEP_0 + j * STEP_1 + k * STEP_2 + l * STEP_3);
          greatest = v > greatest || v != v ? v : greatest;
        }
#endif
#if LANES > 1
  for (int t = lane; t < EXTENT_0 * EXTENT_1 * EXTENT_2 * EXTENT_3; t += LANES) {
    const T0 v = LOAD0(at + t / (EXTENT_1 * EXTENT_2 * EXTENT_3) * STEP_0 + t / (EXTENT_2 * EXTENT_3) % EXTENT_1 * STEP_1 +
                       t / EXTENT_3 % EXTENT_2 * STEP_2 + t % EXTENT_3 * STEP_3);
    REDUCE_TAKE(v)
  }
  TOGETHER(parts, value, REDUCE_JOINED(parts[lane], parts[lane + s]))
#else
  for (int i = 0; i < EXTENT_0; ++i)
    for (int j = 0; j < EXTENT_1; ++j)
      for (int k = 0; k < EXTENT_2; ++k)
        for (int l = 0; l < EXTENT_3; ++l) {
          const T0 v = LOAD0(at + i * STEP_0 + j * STEP_1 + k * STEP_2 + l * STEP_3);
          REDUCE_TAKE(v)
        }
#endif
#if HOW == REDUCTION_MEAN
  value /= EXTENT_0 * EXTENT_1 * EXTENT_2 * EXTENT_3;
#elif HOW == REDUCTION_L2
  value = ROOT(value);
#elif HOW == REDUCTION_LOG_SUM
  value = log(value);
#elif HOW == REDUCTION_LOG_SUM_EXP
  value = isinf(greatest) ? greatest : greatest + log(value);
#endif
#if LANES > 1
  if (lane > 0) return;
#endif
  FINISH;
}
#undef REDUCE_FIRST
#undef REDUCE_TAKE
#undef REDUCE_JOINED
