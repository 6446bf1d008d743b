// The place of the greatest or the least; NaN is more extreme than all. LAST: of equal ones the last.
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int at = AT0;
  T0 best = LOAD0(at);
  long value = 0;
  for (int i = 1; i < EXTENT; ++i) {
    const T0 v = LOAD0(at + i * STEP);
    int better = GREATEST ? v > best : v < best;
    if (LAST) better |= v == best;
    if (best != best) better = LAST && v != v;
    else if (v != v) better = 1;
    if (better) {
      best = v;
      value = i;
    }
  }
  FINISH;
}
