// y[m, n] = sum over k of a[m, k] * b[k, n]: a work item has ROWS rows and a vector of COLS columns. The columns of b lie
// side by side, or in panels of PANEL columns, row behind row, with zeros behind the last column. With LOCAL a group
// brings what it reads for LOCAL steps of k into local memory first; results are the same to the bit. With FLOAT16_STEPS, products
// of f16 are multiplied and so many of them (or LOCAL) summed in 16 bits, and those sums in 32, where the device does that.
// IMAGES (kernel.h): 1: the rows of a are those of an image; 2: the panels of b lie beside each other in one, a row for each k; 4: b,
// and 8: a, as it lies in memory, cut into rows of ROW_TEXELS texels.
#if FLOAT16_STEPS && defined(cl_khr_fp16)
#define IN_HALVES 1
#define NEAR half
#define READ_TEXEL read_imageh
#else
#define IN_HALVES 0
#define NEAR T0
#define READ_TEXEL read_imagef
#endif
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int column = (int)get_global_id(0) * COLS, first = (int)get_global_id(1) * ROWS;
  uint g = (uint)get_global_id(2);
#if !LOCAL
  if (column >= INNER_LAST || first >= INNER_FIRST) return;
#endif
  COORDINATES
  int y0, y1, at[ROWS];
  VECTOR(T0, COLS) sum[ROWS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    y0 = min(first + i, INNER_FIRST - 1);
    at[i] = AT0;
    sum[i] = 0;
  }
#if LOCAL
  __local NEAR left[GROUP_Y * ROWS * LOCAL], right[LOCAL * GROUP_X * COLS];
  const int lane = (int)(get_local_id(1) * GROUP_X + get_local_id(0)), from = column;
  const int group_row = (int)get_group_id(1) * (GROUP_Y * ROWS), group_column = (int)get_group_id(0) * (GROUP_X * COLS);
  for (int begin = 0; begin < K; begin += LOCAL) {
    for (int t = lane; t < GROUP_Y * ROWS * LOCAL; t += GROUP_X * GROUP_Y) {
      const int k = begin + t % LOCAL;
      y0 = min(group_row + t / LOCAL, INNER_FIRST - 1);
#if IN_HALVES
      left[t] = k < K ? HALF0(AT0 + k * A_K) : (half)0;
#else
      left[t] = k < K ? LOAD0(AT0 + k * A_K) : 0;
#endif
    }
    for (int t = lane; t < LOCAL * GROUP_X * COLS; t += GROUP_X * GROUP_Y) {
      const int k = begin + t / (GROUP_X * COLS);
      y1 = min(group_column + t % (GROUP_X * COLS), INNER_LAST - 1);
#if PANEL
      const int b = AT1 + y1 / PANEL * (K * PANEL) + y1 % PANEL;
#else
      const int b = AT1;
#endif
#if IN_HALVES
      right[t] = k < K ? HALF1(b + k * B_K) : (half)0;
#else
      right[t] = k < K ? LOAD1(b + k * B_K) : 0;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#if IN_HALVES
    VECTOR(half, COLS) part[ROWS];
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) part[i] = 0;
#else
#define part sum
#endif
    for (int k = 0; k < LOCAL; ++k) {
      const VECTOR(NEAR, COLS) w = QR_JOIN(vload, COLS)(0, right + (k * GROUP_X + (int)get_local_id(0)) * COLS);
      #pragma unroll
      for (int i = 0; i < ROWS; ++i) part[i] += left[((int)get_local_id(1) * ROWS + i) * LOCAL + k] * w;
    }
#if IN_HALVES
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) sum[i] += QR_JOIN(convert_float, COLS)(part[i]);
#else
#undef part
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (column >= INNER_LAST || first >= INNER_FIRST) return;
#else
#if PANEL
  const int from = column;
  const int b = AT1 + column / PANEL * (K * PANEL) + column % PANEL;
#else
  // The last vector begins before the end of the others, and stores what they do not.
  const int from = min(column, INNER_LAST - COLS);
  y1 = from;
  const int b = AT1;
#endif
#if IMAGES
  const sampler_t texels = QR_SAMPLER;
#endif
#if IMAGES & 2
  const int b_x = b / (K * PANEL) * 4 + b % PANEL / 4;
#define RIGHT(k) QR_JOIN(QR_TEXELS_, COLS)(NEAR, READ_TEXEL, p1, b_x, k)
#elif IMAGES & 4
#define RIGHT(k) QR_JOIN(QR_LINE_, COLS)(NEAR, READ_TEXEL, p1, b / 4 + (k) * (B_K / 4))
#elif IN_HALVES
#define RIGHT(k) VHALF1(b + (k) * B_K)
#else
#define RIGHT(k) VLOAD1(b + (k) * B_K)
#endif
#if IMAGES & 1
#define LEFT(i, k) QR_AT(READ_TEXEL, p0, (k) / 4, at[i] / K)
#else
#define LEFT(i, k) QR_ON(READ_TEXEL, p0, (at[i] + (k)) / 4)
#endif
#define TEXEL_STEP(j)                                                    \
  if (K % 4 == 0 || k + j < K) {                                         \
    const VECTOR(NEAR, COLS) w = RIGHT(k + j);                           \
    for (int i = 0; i < ROWS; ++i) part[i] += left[i].s##j * w;          \
  }
#if IN_HALVES
#define PER_PART FLOAT16_STEPS
#else
#define PER_PART K
#define part sum
#endif
  for (int begin = 0; begin < K; begin += PER_PART) {
    const int end = min(begin + PER_PART, K);
#if IN_HALVES
    VECTOR(half, COLS) part[ROWS];
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) part[i] = 0;
#endif
#if IMAGES & 9
    for (int k = begin; k < end; k += 4) {
      VECTOR(NEAR, 4) left[ROWS];
      #pragma unroll
      for (int i = 0; i < ROWS; ++i) left[i] = LEFT(i, k);
      TEXEL_STEP(0) TEXEL_STEP(1) TEXEL_STEP(2) TEXEL_STEP(3)
    }
#else
    for (int k = begin; k < end; ++k) {
      const VECTOR(NEAR, COLS) w = RIGHT(k);
      #pragma unroll
#if IN_HALVES
      for (int i = 0; i < ROWS; ++i) part[i] += HALF0(at[i] + k * A_K) * w;
#else
      for (int i = 0; i < ROWS; ++i) part[i] += LOAD0(at[i] + k * A_K) * w;
#endif
    }
#endif
#if IN_HALVES
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) sum[i] += QR_JOIN(convert_float, COLS)(part[i]);
#else
#undef part
#endif
  }
#undef PER_PART
#undef TEXEL_STEP
#undef LEFT
#undef RIGHT
#endif
  T0 done[ROWS * COLS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) VSTORE(sum[i], done + i * COLS);
  for (int i = 0; i < ROWS; ++i) {
    y0 = first + i;
    if (y0 >= INNER_FIRST) break;
    for (int j = 0; j < COLS; ++j) {
      y1 = from + j;
      if (y1 < column || y1 >= INNER_LAST) continue;
      const T0 value = done[i * COLS + j];
      FINISH;
    }
  }
}
#undef READ_TEXEL
#undef NEAR
#undef IN_HALVES
