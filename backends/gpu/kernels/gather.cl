// Indices count from the end where they are negative; those outside are taken at the edge.
__kernel void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  long index = LOAD1(AT1);
  if (index < 0) index += EXTENT;
  index = index < 0 ? 0 : index >= EXTENT ? EXTENT - 1 : index;
  const T0 value = LOAD0(AT0 + (int)index * STEP);
  FINISH;
}
