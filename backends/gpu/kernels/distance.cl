// The distance of a row of a and a row of b: the sum of the squares of their differences, or its root.
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int a = AT0, b = AT1;
  // The root may lie among the numbers where the squares do not: they are those of parts of the greatest difference.
  T0 greatest = 0;
  if (EUCLIDEAN)
    for (int k = 0; k < K; ++k) greatest = fmax(greatest, fabs(LOAD0(a + k * A_K) - LOAD1(b + k * B_K)));
  const bool scaled = EUCLIDEAN && greatest > 0 && isfinite(greatest);
  T0 sum = 0;
  for (int k = 0; k < K; ++k) {
    const T0 whole = LOAD0(a + k * A_K) - LOAD1(b + k * B_K), difference = scaled ? whole / greatest : whole;
    sum += difference * difference;
  }
  const T0 value = EUCLIDEAN ? ROOT(sum) * (scaled ? greatest : (T0)1) : sum;
  FINISH;
}
