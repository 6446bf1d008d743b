// A work item has ROWS pixels of the result and a vector of COLS channels. Weights lie [panel of 16 channels][tap][channel
// of the input][16], with zeros behind the last. With LOCAL a group brings what it reads for LOCAL steps, of taps and
// channels, into local memory first; results are the same to the bit. FLOAT16_STEPS: matmul_tile.cl.
// IMAGES: the weights are an image, a panel after the other and a row for each step.
#define STEPS (WINDOW_TAPS * CHANNELS)
#if FLOAT16_STEPS && defined(cl_khr_fp16)
#define IN_HALVES 1
#define NEAR half
#define READ0(i) HALF0(i)
#define READ1(i) HALF1(i)
#define VREAD1(i) VHALF1(i)
#define PER_PART (LOCAL ? LOCAL : FLOAT16_STEPS)
#define READ_TEXEL read_imageh
#else
#define IN_HALVES 0
#define NEAR T0
#define READ0(i) LOAD0(i)
#define READ1(i) LOAD1(i)
#define VREAD1(i) VLOAD1(i)
#define PER_PART CHANNELS
#define READ_TEXEL read_imagef
#endif
__kernel GROUP void KERNEL(ARGUMENTS) {
  const int first = (int)get_global_id(0) * ROWS, channel = (int)get_global_id(1) * COLS;
  uint g = (uint)get_global_id(2);
#if !LOCAL
  if (first >= INNER_LAST || channel >= INNER_FIRST) return;
#endif
  COORDINATES
  int y0 = 0, y1 = 0;
  const int at_x = AT0;
  VECTOR(T0, COLS) sum[ROWS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) sum[i] = 0;
#if IN_HALVES
  VECTOR(half, COLS) part[ROWS];
#define BEGIN_PART for (int i = 0; i < ROWS; ++i) part[i] = 0;
#define END_PART for (int i = 0; i < ROWS; ++i) sum[i] += QR_JOIN(convert_float, COLS)(part[i]);
#else
#define part sum
#define BEGIN_PART
#define END_PART
#endif
#if LOCAL
  __local NEAR pixels[LOCAL * GROUP_X * ROWS], weights[LOCAL * GROUP_Y * COLS];
  const int lane = (int)(get_local_id(1) * GROUP_X + get_local_id(0)), at_w = AT1;
  const int group_pixel = (int)get_group_id(0) * (GROUP_X * ROWS), group_channel = (int)get_group_id(1) * (GROUP_Y * COLS);
  for (int begin = 0; begin < STEPS; begin += LOCAL) {
    for (int t = lane; t < LOCAL * GROUP_X * ROWS; t += GROUP_X * GROUP_Y) {
      const int k = begin + t / (GROUP_X * ROWS), p = min(group_pixel + t % (GROUP_X * ROWS), INNER_LAST - 1);
      const int tap = k / CHANNELS, kz = tap / (KERNEL_1 * KERNEL_2), ky = tap / KERNEL_2 % KERNEL_1, kx = tap % KERNEL_2;
      const int iz = WINDOW_Z(p) + kz * DILATION_0, iy = WINDOW_Y(p) + ky * DILATION_1, ix = WINDOW_X(p) + kx * DILATION_2;
      const int in = k < STEPS && IN_IMAGE(iz, iy, ix);
      pixels[t] = in ? READ0(at_x + IMAGE_AT(iz, iy, ix) + k % CHANNELS * X_CHANNEL) : (NEAR)0;
    }
    for (int t = lane; t < LOCAL * GROUP_Y * COLS; t += GROUP_X * GROUP_Y) {
      const int k = begin + t / (GROUP_Y * COLS), c = group_channel + t % (GROUP_Y * COLS);
      weights[t] = k < STEPS && c < INNER_FIRST ? READ1(at_w + c / 16 * (STEPS * 16) + k * 16 + c % 16) : (NEAR)0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    BEGIN_PART
    for (int k = 0; k < LOCAL; ++k) {
      const VECTOR(NEAR, COLS) w = QR_JOIN(vload, COLS)(0, weights + (k * GROUP_Y + (int)get_local_id(1)) * COLS);
      #pragma unroll
      for (int i = 0; i < ROWS; ++i) part[i] += pixels[(k * GROUP_X + (int)get_local_id(0)) * ROWS + i] * w;
    }
    END_PART
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (first >= INNER_LAST || channel >= INNER_FIRST) return;
#else
#if IMAGES
  const sampler_t texels = QR_SAMPLER;
  const int w_x = (AT1 / (STEPS * 16) + channel / 16) * 4 + channel % 16 / 4;
#define WEIGHTS(c) QR_JOIN(QR_TEXELS_, COLS)(NEAR, READ_TEXEL, p1, w_x, w_at + (c))
#else
  const int at_w = AT1 + channel / 16 * (STEPS * 16) + channel % 16;
#define WEIGHTS(c) VREAD1(w_at + (c) * 16)
#endif
  int first_z[ROWS], first_y[ROWS], first_x[ROWS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const int p = min(first + i, INNER_LAST - 1);
    first_z[i] = WINDOW_Z(p), first_y[i] = WINDOW_Y(p), first_x[i] = WINDOW_X(p);
  }
  for (int kz = 0; kz < KERNEL_0; ++kz)
    for (int ky = 0; ky < KERNEL_1; ++ky)
      for (int kx = 0; kx < KERNEL_2; ++kx) {
#if IMAGES
        const int w_at = ((kz * KERNEL_1 + ky) * KERNEL_2 + kx) * CHANNELS;
#else
        const int w_at = at_w + ((kz * KERNEL_1 + ky) * KERNEL_2 + kx) * (CHANNELS * 16);
#endif
        int from[ROWS];
#if WINDOW_LEAVES
        int in[ROWS], all = 1;
#endif
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
          const int iz = first_z[i] + kz * DILATION_0, iy = first_y[i] + ky * DILATION_1, ix = first_x[i] + kx * DILATION_2;
          from[i] = at_x + IMAGE_AT(iz, iy, ix);
#if WINDOW_LEAVES
          in[i] = IN_IMAGE(iz, iy, ix);
          all &= in[i];
          if (!in[i]) from[i] = at_x;
#endif
        }
        for (int begin = 0; begin < CHANNELS; begin += PER_PART) {
          const int end = min(begin + PER_PART, CHANNELS);
          BEGIN_PART
#if WINDOW_LEAVES
          if (!all) {
            for (int c = begin; c < end; ++c) {
              const VECTOR(NEAR, COLS) w = WEIGHTS(c);
              #pragma unroll
              for (int i = 0; i < ROWS; ++i) {
                const NEAR v = READ0(from[i] + c * X_CHANNEL);
                part[i] += (in[i] ? v : (NEAR)0) * w;
              }
            }
            END_PART
            continue;
          }
#endif
          for (int c = begin; c < end; ++c) {
            const VECTOR(NEAR, COLS) w = WEIGHTS(c);
            #pragma unroll
            for (int i = 0; i < ROWS; ++i) part[i] += READ0(from[i] + c * X_CHANNEL) * w;
          }
          END_PART
        }
      }
#endif
  T0 done[ROWS * COLS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) VSTORE(sum[i], done + i * COLS);
  for (int j = 0; j < COLS; ++j) {
    y0 = channel + j;
    if (y0 >= INNER_FIRST) break;
    for (int i = 0; i < ROWS; ++i) {
      y1 = first + i;
      if (y1 >= INNER_LAST) break;
      const T0 value = done[i * COLS + j];
      FINISH;
    }
  }
}
#undef part
#undef WEIGHTS
#undef READ_TEXEL
#undef BEGIN_PART
#undef END_PART
#undef PER_PART
#undef VREAD1
#undef READ1
#undef READ0
#undef NEAR
#undef IN_HALVES
#undef STEPS
