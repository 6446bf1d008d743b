// HOW: 0 the largest, 1 the mean, 2 the Lp norm (EXPONENT).
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int y0 = (int)get_global_id(0);
  uint g = (uint)get_global_id(1);
  if (y0 >= INNER_LAST) return;
  COORDINATES
  const int z = y0 / (OUT_1 * OUT_2), y = y0 / OUT_2 % OUT_1, x = y0 % OUT_2;
  const int first_z = z * STRIDE_0 - PAD_0, first_y = y * STRIDE_1 - PAD_1, first_x = x * STRIDE_2 - PAD_2;
  const int at = AT0;
#if HOW == 0
  T0 value = LOWEST;
  int found = 0;
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
#if HOW != 0
        padded += iz < IN_0 + PAD_END_0 && iy < IN_1 + PAD_END_1 && ix < IN_2 + PAD_END_2;
#endif
        if (iz < 0 || iz >= IN_0 || iy < 0 || iy >= IN_1 || ix < 0 || ix >= IN_2) continue;
        const T0 v = LOAD0(at + iz * X_0 + iy * X_1 + ix * X_2);
#if HOW == 0
        if (!found || v > value || (v != v && value == value)) value = v;
        found = 1;
#elif HOW == 1
        value += v;
        ++hits;
#elif EXPONENT == 1
        value += fabs(v);
#elif EXPONENT == 2
        value += v * v;
#else
        value += pow(fabs(v), (T0)EXPONENT);
#endif
      }
    }
  }
#if HOW == 1
  const int count = WITH_PADDING ? padded : hits;
  value = count == 0 ? 0 : value / count;
#elif HOW == 2 && EXPONENT == 2
  value = sqrt(value);
#elif HOW == 2 && EXPONENT != 1
  value = pow(value, (T0)1 / EXPONENT);
#endif
  FINISH;
}
