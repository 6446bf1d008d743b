// Of several updates of one place the last counts: the result, which is -1 everywhere before, takes the greatest number of
// those that go there, whatever order they come in. An update's number is coordinate AXIS; its place is named by COUNT_OF
// indices, which count from the end where they are negative; those outside go nowhere, and are
// reported where CHECKED.
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int all[] = {ALL_COORDINATES};
  const int extents[] = {EXTENT_0, EXTENT_1, EXTENT_2, EXTENT_3, EXTENT_4, EXTENT_5, EXTENT_6, EXTENT_7};
  const int steps[] = {STEP_0, STEP_1, STEP_2, STEP_3, STEP_4, STEP_5, STEP_6, STEP_7};
  const int indices = AT0;
  int at = ATY, inside = 1;
  for (int d = 0; d < COUNT_OF; ++d) {
    CHECK_INDEX(LOAD0(indices + d * TUPLE_STEP), extents[d])
    int index = (int)LOAD0(indices + d * TUPLE_STEP);
    index += index < 0 ? extents[d] : 0;
    inside &= index >= 0 && index < extents[d];
    at += index * steps[d];
  }
  if (inside) atomic_max(PLACEY(at), all[AXIS]);
}
