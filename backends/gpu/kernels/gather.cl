// Indices count from the end where they are negative; those outside are taken at the edge, and reported where CHECKED.
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  CHECK_INDEX(LOAD1(AT1), EXTENT)
  const int given = (int)LOAD1(AT1);
  const int index = clamp(given + (given < 0 ? EXTENT : 0), 0, EXTENT - 1);
  const T0 value = LOAD0(AT0 + index * STEP);
  FINISH;
}
