// MODE: a constant (operand 1), reflected, the edge, wrapped.
#if MODE == PADDING_CONSTANT
#define PAD_AXIS(d) { const int i = c##d - BEGIN_##d; outside |= i < 0 || i >= IN_##d; at += clamp(i, 0, IN_##d - 1) * X_##d; }
#elif MODE == PADDING_REFLECT
#define PAD_AXIS(d) { const int period = max(2 * (IN_##d - 1), 1); int i = (c##d - BEGIN_##d) % period; i = i < 0 ? i + period : i; at += (i < IN_##d ? i : period - i) * X_##d; }
#elif MODE == PADDING_EDGE
#define PAD_AXIS(d) { at += clamp(c##d - BEGIN_##d, 0, IN_##d - 1) * X_##d; }
#else
#define PAD_AXIS(d) { int i = (c##d - BEGIN_##d) % IN_##d; at += (i < 0 ? i + IN_##d : i) * X_##d; }
#endif
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  int at = 0, outside = 0;
  EACH_AXIS(RANK, PAD_AXIS)
  const T0 value = outside ? (T0)LOAD1(AT1) : LOAD0(at);
  FINISH;
}
#undef PAD_AXIS
