// MODE: a constant (operand 1), reflected, the edge, wrapped.
#if MODE == PADDING_CONSTANT
#define PAD_AXIS(c, begin, in, step) { const int i = c - begin; outside |= i < 0 || i >= in; at += clamp(i, 0, in - 1) * step; }
#elif MODE == PADDING_REFLECT
#define PAD_AXIS(c, begin, in, step) { const int period = max(2 * (in - 1), 1); int i = (c - begin) % period; i = i < 0 ? i + period : i; at += (i < in ? i : period - i) * step; }
#elif MODE == PADDING_EDGE
#define PAD_AXIS(c, begin, in, step) { at += clamp(c - begin, 0, in - 1) * step; }
#else
#define PAD_AXIS(c, begin, in, step) { int i = (c - begin) % in; at += (i < 0 ? i + in : i) * step; }
#endif
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  int at = 0, outside = 0;
#if RANK > 0
  PAD_AXIS(c0, BEGIN_0, IN_0, X_0)
#endif
#if RANK > 1
  PAD_AXIS(c1, BEGIN_1, IN_1, X_1)
#endif
#if RANK > 2
  PAD_AXIS(c2, BEGIN_2, IN_2, X_2)
#endif
#if RANK > 3
  PAD_AXIS(c3, BEGIN_3, IN_3, X_3)
#endif
#if RANK > 4
  PAD_AXIS(c4, BEGIN_4, IN_4, X_4)
#endif
#if RANK > 5
  PAD_AXIS(c5, BEGIN_5, IN_5, X_5)
#endif
#if RANK > 6
  PAD_AXIS(c6, BEGIN_6, IN_6, X_6)
#endif
#if RANK > 7
  PAD_AXIS(c7, BEGIN_7, IN_7, X_7)
#endif
  const T0 value = outside ? (T0)LOAD1(AT1) : LOAD0(at);
  FINISH;
}
#undef PAD_AXIS
