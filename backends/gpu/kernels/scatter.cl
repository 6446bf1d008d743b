// Each element of the result takes the updates that go to it, in their order: of several the last counts, or all do.
// HOW: replaces, adds, multiplies, the greatest, the least. UPDATES updates lie U_STEP apart; each is named by
// COUNT_OF indices, of the coordinates from AXIS on, which count from the end where they are negative; those outside go
// nowhere, and are reported where CHECKED.
__kernel void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int all[] = {ALL_COORDINATES};
  const int extents[] = {EXTENT_0, EXTENT_1, EXTENT_2, EXTENT_3, EXTENT_4, EXTENT_5, EXTENT_6, EXTENT_7};
  const int indices = AT1, updates = AT2;
  T0 value = LOAD0(AT0);
  for (int p = 0; p < UPDATES; ++p) {
    int hit = 1;
    for (int d = 0; d < COUNT_OF; ++d) {
      CHECK_INDEX(LOAD1(indices + p * I_STEP + d * TUPLE_STEP), extents[d])
      const int index = (int)LOAD1(indices + p * I_STEP + d * TUPLE_STEP);
      hit &= index + (index < 0 ? extents[d] : 0) == all[AXIS + d];
    }
    if (hit) {
      const T0 v = LOAD2(updates + p * U_STEP);
#if HOW == SCATTERING_REPLACE
      value = v;
#elif HOW == SCATTERING_ADD
      value += v;
#elif HOW == SCATTERING_MUL
      value *= v;
#elif HOW == SCATTERING_MAX
      value = value > v || value != value ? value : v;
#else
      value = value < v || value != value ? value : v;
#endif
    }
  }
  FINISH;
}
