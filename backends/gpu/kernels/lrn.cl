__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int x = AT0, begin = c1 - min(c1, (SIZE - 1) / 2), end = c1 + min(CHANNELS - 1 - c1, SIZE / 2) + 1;
  T0 squares = 0;
  for (int i = begin; i < end; ++i) {
    const T0 v = LOAD0(x + (i - c1) * STEP);
    squares += v * v;
  }
  const T0 value = LOAD0(x) / pow(as_float(BIAS) + as_float(ALPHA) * squares, (T0)as_float(BETA));
  FINISH;
}
