// Each place is named by COUNT_OF indices, which count from the end where they are negative; those outside are taken at
// the edge, and reported where CHECKED.
#define GATHER_AXIS(axis) { CHECK_INDEX(LOAD1(from + axis * I_STEP), EXTENT_##axis) const int i = (int)LOAD1(from + axis * I_STEP); at += clamp(i + (i < 0 ? EXTENT_##axis : 0), 0, EXTENT_##axis - 1) * STEP_##axis; }
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int from = AT1;
  int at = AT0;
  EACH_AXIS(COUNT_OF, GATHER_AXIS)
  const T0 value = LOAD0(at);
  FINISH;
}
#undef GATHER_AXIS
