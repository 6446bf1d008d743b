// Where each element of a row comes when the row is sorted: of the first TOP, the element's index is stored there.
// NaN is greater than all; of equal ones the first comes first.
#define RANK_GREATER(a, b) ((a) > (b) || ((a) != (a) && (b) == (b)))
__kernel GROUP void KERNEL(ARGUMENTS) {
  int y0 = 0;
  uint g = (uint)get_global_id(1);
  COORDINATES
  const int x = AT0, y = ATY;
  y0 = (int)get_global_id(0);
  if (y0 >= INNER_LAST) return;
  const T0 own = LOAD0(x + y0 * STEP);
  int rank = 0;
  for (int i = 0; i < INNER_LAST; ++i) {
    const T0 v = LOAD0(x + i * STEP);
    const int same = v == own || (v != v && own != own);
    rank += (same ? i < y0 : GREATEST ? RANK_GREATER(v, own) : RANK_GREATER(own, v)) ? 1 : 0;
  }
  if (rank < TOP) { STORE(y + rank * Y_STEP, (long)y0); }
}
#undef RANK_GREATER
