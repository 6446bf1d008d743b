// Sums (or products) of all that comes before, along a row.
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int x = AT0, y = ATY;
  T0 total = PRODUCT;
  for (int n = 0; n < LENGTH; ++n) {
    const int i = REVERSE ? LENGTH - 1 - n : n;
    const T0 v = LOAD0(x + i * X_STEP);
    if (EXCLUSIVE) { STORE(y + i * Y_STEP, total); }
    total = PRODUCT ? total * v : total + v;
    if (!EXCLUSIVE) { STORE(y + i * Y_STEP, total); }
  }
}
