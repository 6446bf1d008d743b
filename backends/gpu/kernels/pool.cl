// HOW: the largest, the mean, the Lp norm (EXPONENT). Without branches, which keep compilers from doing several
// pixels at once.
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int y0 = (int)get_global_id(0);
  uint g = (uint)get_global_id(1);
  if (y0 >= INNER_LAST) return;
  COORDINATES
  const int first_z = WINDOW_Z(y0), first_y = WINDOW_Y(y0), first_x = WINDOW_X(y0);
  const int at = AT0;
#if HOW == POOLING_MAX
  T0 value = LOWEST;
#else
  T0 value = 0;
  int hits = 0, padded = 0;
#endif
  for (int kz = 0; kz < KERNEL_0; ++kz) {
    const int iz = first_z + kz * DILATION_0;
    for (int ky = 0; ky < KERNEL_1; ++ky) {
      const int iy = first_y + ky * DILATION_1;
      for (int kx = 0; kx < KERNEL_2; ++kx) {
        const int ix = first_x + kx * DILATION_2;
#if HOW != POOLING_MAX
        padded += iz < IN_0 + PAD_END_0 && iy < IN_1 + PAD_END_1 && ix < IN_2 + PAD_END_2;
#endif
        const int in = !WINDOW_LEAVES || IN_IMAGE(iz, iy, ix);
        const T0 v = LOAD0(at + (in ? IMAGE_AT(iz, iy, ix) : 0));
#if HOW == POOLING_MAX
        value = in && (v > value || v != v) ? v : value;
#elif HOW == POOLING_AVERAGE
        value += in ? v : 0;
        hits += in;
#elif EXPONENT == 1
        value += in ? fabs(v) : 0;
#elif EXPONENT == 2
        value += in ? v * v : 0;
#else
        value += in ? pow(fabs(v), (T0)EXPONENT) : 0;
#endif
      }
    }
  }
#if HOW == POOLING_AVERAGE
  const int count = WITH_PADDING ? padded : hits;
  value = count == 0 ? 0 : value / count;
#elif HOW == POOLING_LP && EXPONENT == 2
  value = sqrt(value);
#elif HOW == POOLING_LP && EXPONENT != 1
  value = pow(value, (T0)1 / EXPONENT);
#endif
  FINISH;
}
