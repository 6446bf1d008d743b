// Indices count from the end where they are negative; those outside are taken at the edge.
__kernel void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const long given = LOAD1(AT1);
  const int index = (int)clamp(given + (given < 0 ? (long)EXTENT : 0L), 0L, (long)EXTENT - 1);
  const T0 value = LOAD0(AT0 + index * STEP);
  FINISH;
}
