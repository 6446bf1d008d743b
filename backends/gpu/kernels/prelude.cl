// What every kernel may use.
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#define QR_JOIN_NOW(a, b) a##b
#define QR_JOIN(a, b) QR_JOIN_NOW(a, b)
#define VECTOR(type, n) QR_JOIN(type, n)
// Operands as images (kernel.h): texels of four elements, zeros outside; vectors of them by the place of the first. A row is
// ROW_TEXELS texels in each row.
#define QR_SAMPLER (CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST)
#define QR_AT(read, p, x, y) read(p, texels, (int2)(x, y))
#define QR_TEXELS_4(type, read, p, x, y) QR_AT(read, p, x, y)
#define QR_TEXELS_8(type, read, p, x, y) ((VECTOR(type, 8))(QR_AT(read, p, x, y), QR_AT(read, p, (x) + 1, y)))
#define QR_TEXELS_16(type, read, p, x, y) \
  ((VECTOR(type, 16))(QR_AT(read, p, x, y), QR_AT(read, p, (x) + 1, y), QR_AT(read, p, (x) + 2, y), QR_AT(read, p, (x) + 3, y)))
#define QR_ON(read, p, t) QR_AT(read, p, (t) % ROW_TEXELS, (t) / ROW_TEXELS)
#define QR_LINE_4(type, read, p, t) QR_ON(read, p, t)
#define QR_LINE_8(type, read, p, t) ((VECTOR(type, 8))(QR_ON(read, p, t), QR_ON(read, p, (t) + 1)))
#define QR_LINE_16(type, read, p, t) \
  ((VECTOR(type, 16))(QR_ON(read, p, t), QR_ON(read, p, (t) + 1), QR_ON(read, p, (t) + 2), QR_ON(read, p, (t) + 3)))
// The values of a group's LANES work items become one, in an order that is always the same: `joined` of parts[lane] and
// parts[lane + s].
#define TOGETHER(parts, value, joined)             \
  barrier(CLK_LOCAL_MEM_FENCE);                    \
  parts[lane] = value;                             \
  for (int s = LANES / 2; s > 0; s /= 2) {         \
    barrier(CLK_LOCAL_MEM_FENCE);                  \
    if (lane < s) parts[lane] = joined;            \
  }                                                \
  barrier(CLK_LOCAL_MEM_FENCE);                    \
  value = parts[0];
// `m` of each of the first n axes: 0, 1, ...
#define QR_AXES_0(m)
#define QR_AXES_1(m) m(0)
#define QR_AXES_2(m) QR_AXES_1(m) m(1)
#define QR_AXES_3(m) QR_AXES_2(m) m(2)
#define QR_AXES_4(m) QR_AXES_3(m) m(3)
#define QR_AXES_5(m) QR_AXES_4(m) m(4)
#define QR_AXES_6(m) QR_AXES_5(m) m(5)
#define QR_AXES_7(m) QR_AXES_6(m) m(6)
#define QR_AXES_8(m) QR_AXES_7(m) m(7)
#define EACH_AXIS(n, m) QR_JOIN(QR_AXES_, n)(m)
// Of a window (kernels.inc, WINDOW): where it begins in the image for pixel p of the result, whether a position lies in the
// image and at which distance, how many taps there are, and whether some lie outside for some pixel.
#define WINDOW_Z(p) ((p) / (OUT_1 * OUT_2) * STRIDE_0 - PAD_0)
#define WINDOW_Y(p) ((p) / OUT_2 % OUT_1 * STRIDE_1 - PAD_1)
#define WINDOW_X(p) ((p) % OUT_2 * STRIDE_2 - PAD_2)
#define IN_IMAGE(z, y, x) ((z) >= 0 && (z) < IN_0 && (y) >= 0 && (y) < IN_1 && (x) >= 0 && (x) < IN_2)
#define IMAGE_AT(z, y, x) ((z) * X_0 + (y) * X_1 + (x) * X_2)
#define WINDOW_TAPS (KERNEL_0 * KERNEL_1 * KERNEL_2)
#define QR_LEAVES(d) (PAD_##d > 0 || (OUT_##d - 1) * STRIDE_##d - PAD_##d + (KERNEL_##d - 1) * DILATION_##d >= IN_##d)
#define WINDOW_LEAVES (QR_LEAVES(0) || QR_LEAVES(1) || QR_LEAVES(2))
// An index that names no element is reported (kernel.h, checks_indices): that there is one, and one of them.
#define CHECK_INDEX(index, extent)                                                \
  if (CHECKED) {                                                                  \
    const long found = (long)(index);                                             \
    if (found < -(long)(extent) || found >= (extent)) REPORT_INDEX(found);        \
  }
// Stores what a work item has for a row of the result, where the result has that row.
#define STORE_ROW(row, type, sum)     \
  {                                   \
    y0 = row;                         \
    if (y0 < INNER_FIRST) {           \
      const type value = sum;         \
      FINISH;                         \
    }                                 \
  }
#define VSTORE(v, p) QR_JOIN(vstore, COLS)(v, 0, p)
#define QR_INFINITY as_float(0x7f800000u)
#define QR_NAN as_float(0x7fc00000u)
float qr_from_bf16(ushort v) { return as_float((uint)v << 16); }
ushort qr_to_bf16(float v) {
  uint bits = as_uint(v);
  if (v != v) return 0x7fc0;
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
float qr_as_f16(float v) {
  ushort bits[1];
  vstore_half_rte(v, 0, (half *)bits);
  return vload_half(0, (const half *)bits);
}
// A real as an integer of a scale, without its zero point; NaN: that. Halves go to the even one.
int qr_stored(float v, float scale, int low, int high) {
  const float steps = rint(v / scale);
  return steps != steps ? 0 : (int)clamp(steps, (float)low, (float)high);
}
// Products of four integers of 8 bits, summed: of the device where it has them, to the same bit.
#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
#define qr_dot(a, b) dot_4x8packed_ss_int(a, b)
#else
int qr_dot(uint a, uint b) {
  const int4 v = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
  return (v.x + v.y) + (v.z + v.w);
}
#endif
// Towards zero, to the nearest value that there is; NaN: 0.
long qr_to_long(float v) {
  if (v != v) return 0;
  if (v >= 9223372036854775808.0f) return 0x7fffffffffffffffL;
  if (v <= -9223372036854775808.0f) return -0x7fffffffffffffffL - 1;
  return (long)v;
}
ulong qr_to_ulong(float v) {
  if (v >= 18446744073709551616.0f) return 0xfffffffffffffffful;
  return v >= 9223372036854775808.0f ? (ulong)v : (ulong)qr_to_long(v);
}
// Of integers: wraps around; 1 / base^n is towards zero.
long qr_power(long base, long exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? ((exponent & 1) ? -1 : 1) : 0;
  ulong result = 1, factor = (ulong)base;
  for (ulong n = (ulong)exponent; n != 0; n >>= 1, factor *= factor)
    if (n & 1) result *= factor;
  return (long)result;
}
#ifdef QR_DOUBLES
long qr_to_long_double(double v) {
  if (v != v) return 0;
  if (v >= 9223372036854775808.0) return 0x7fffffffffffffffL;
  if (v <= -9223372036854775808.0) return -0x7fffffffffffffffL - 1;
  return (long)v;
}
ulong qr_to_ulong_double(double v) {
  if (v >= 18446744073709551616.0) return 0xfffffffffffffffful;
  return v >= 9223372036854775808.0 ? (ulong)v : (ulong)qr_to_long_double(v);
}
#endif
