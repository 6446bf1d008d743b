// Each place is named by COUNT_OF indices, which count from the end where they are negative; those outside are taken at
// the edge.
#define GATHER_AXIS(axis) { const int i = (int)LOAD1(from + axis * I_STEP); at += clamp(i + (i < 0 ? EXTENT_##axis : 0), 0, EXTENT_##axis - 1) * STEP_##axis; }
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int from = AT1;
  int at = AT0;
#if COUNT_OF > 0
  GATHER_AXIS(0)
#endif
#if COUNT_OF > 1
  GATHER_AXIS(1)
#endif
#if COUNT_OF > 2
  GATHER_AXIS(2)
#endif
#if COUNT_OF > 3
  GATHER_AXIS(3)
#endif
#if COUNT_OF > 4
  GATHER_AXIS(4)
#endif
#if COUNT_OF > 5
  GATHER_AXIS(5)
#endif
#if COUNT_OF > 6
  GATHER_AXIS(6)
#endif
#if COUNT_OF > 7
  GATHER_AXIS(7)
#endif
  const T0 value = LOAD0(at);
  FINISH;
}
#undef GATHER_AXIS
