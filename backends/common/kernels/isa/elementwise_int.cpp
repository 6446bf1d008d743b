// SPDX-License-Identifier: Apache-2.0
// Binary operators on quantised tensors.
// BinaryInt computes in f32 (each operand times its scale over the output's): at most one quantum from exact
// arithmetic, and only next to ties.
#include "backends/common/kernels/isa/int_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Operator {
  std::int32_t a_zero, b_zero;
  float a_scale, b_scale;  // Sub: b negated; Mul: a has all
  float lo, hi;
  std::int32_t y_zero;

  template <bool Product>
  QR_MEMBER VecI apply(VecI a, VecI b) const noexcept {
    const VecF fa = to_float(a - a_zero), fb = to_float(b - b_zero);
    const VecF v = Product ? fa * fb * a_scale : fma(fb, splat(b_scale), fa * a_scale);
    return round_to_int(clamp(v, splat(lo), splat(hi))) + y_zero;
  }
};

// Whole vectors of bytes, as packs want them: the same numbers. Returns how many bytes it did.
#if QR_ISA_BYTES == 64
template <bool Product, class T>
QR_INLINE std::int64_t apply_bytes(const Operator &op, const T *a, const T *b, bool one_b, T *y,
                                   std::int64_t count) noexcept {
  constexpr std::int32_t sign = T(-1) < T(0) ? 128 : 0;  // signed ones are unsigned ones with the upper bit turned over
  // What is rounded must fit an integer: it is clamped as one.
  const float most_a = 255 * op.a_scale, most_b = Product ? 255.0f : 255 * __builtin_fabsf(op.b_scale);
  if (!((Product ? most_a * most_b : most_a + most_b) < 1e9f)) return 0;
  // A byte under the exponent of 2^23 is a float 2^23 above it.
  const VecB exponent = VecB{} + std::int8_t{0x4b}, flip = VecB{} + static_cast<std::int8_t>(sign);
  const VecF a_zero = splat(static_cast<float>(8388608 + op.a_zero + sign)),
             b_zero = splat(static_cast<float>(8388608 + op.b_zero + sign)),
             b_value = splat(static_cast<float>(static_cast<std::int32_t>(*b) - op.b_zero)),
             b_scale = splat(op.b_scale);
  const auto zero = static_cast<std::int16_t>(op.y_zero) - VecH{},
             low = static_cast<std::int16_t>(static_cast<std::int32_t>(op.lo) + op.y_zero) - VecH{},
             high = static_cast<std::int16_t>(static_cast<std::int32_t>(op.hi) + op.y_zero) - VecH{};
  std::int64_t i = 0;
  for (; i + kBytes <= count; i += kBytes) {
    VecB wide_a[4], wide_b[4];
    VecI d[4];
    interleave_four(load_bytes(a + i, ~ByteMask{}) ^ flip, VecB{}, VecB{}, exponent, wide_a);
    if (!one_b) interleave_four(load_bytes(b + i, ~ByteMask{}) ^ flip, VecB{}, VecB{}, exponent, wide_b);
    QR_UNROLL
    for (int v = 0; v < 4; ++v) {
      const VecF fa = reinterpret_cast<VecF>(wide_a[v]) - a_zero,
                 fb = one_b ? b_value : reinterpret_cast<VecF>(wide_b[v]) - b_zero;
      d[v] = round_to_int(Product ? fa * fb * op.a_scale : fma(fb, b_scale, fa * op.a_scale));
    }
    // What was taken apart within 16 bytes is put together there.
    store_bytes(y + i, ~ByteMask{}, pack_bytes<T>(d, zero, low, high));
  }
  return i;
}
#endif

// y[i] = a[i * as] op b[i * bs], all of one type
template <bool Product, class T>
QR_INLINE void apply_row(const Operator &op, const T *a, std::int64_t as, const T *b, std::int64_t bs, T *y,
                         std::int64_t count) noexcept {
  const auto get = [](const T *from, std::int64_t stride, std::int64_t i, int lanes) {
    if (stride == 1) return lanes == kLanes ? widen(from + i) : widen_part(from + i, lanes);
    if (stride == 0) return splat(static_cast<std::int32_t>(*from));
    VecI v{};
    for (int j = 0; j < lanes; ++j) v[j] = from[(i + j) * stride];
    return v;
  };
  std::int64_t i = 0;
#if QR_ISA_BYTES == 64
  if constexpr (sizeof(T) == 1) {
    if (as == 1 && bs == 1) i = apply_bytes<Product>(op, a, b, false, y, count);
    else if (as == 1 && bs == 0) i = apply_bytes<Product>(op, a, b, true, y, count);
  }
#endif
  if (as == 1 && bs == 1) {
    for (; i + kLanes <= count; i += kLanes) narrow(y + i, op.apply<Product>(widen(a + i), widen(b + i)));
  } else if (as == 1 && bs == 0) {
    const VecI vb = splat(static_cast<std::int32_t>(*b));
    for (; i + kLanes <= count; i += kLanes) narrow(y + i, op.apply<Product>(widen(a + i), vb));
  } else {
    for (; i + kLanes <= count; i += kLanes)
      narrow(y + i, op.apply<Product>(get(a, as, i, kLanes), get(b, bs, i, kLanes)));
  }
  if (i < count) {
    const int left = static_cast<int>(count - i);
    narrow_part(y + i, op.apply<Product>(get(a, as, i, left), get(b, bs, i, left)), left);
  }
}

// The same for operands of different types, which are rare: by way of i32, a block at a time, so that each type is
// compiled once and not each triple.
constexpr std::int64_t kBlock = 256;  // elements, a multiple of every vector

template <class T>
QR_INLINE void read_block(const T *from, std::int64_t stride, std::int32_t *to, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

template <class T>
QR_INLINE void apply_mixed(const Operator &op, const BinaryInt &p, const Call &call, std::int64_t at_a,
                           std::int64_t at_b, T *y, std::int64_t count) noexcept {
  const int last = static_cast<int>(p.rank) - 1;
  alignas(64) std::int32_t a[kBlock]{}, b[kBlock]{};
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t n = min_of(kBlock, count - done);
    const auto fetch = [&](std::uint32_t dtype, std::size_t operand, std::int64_t at, std::int64_t stride,
                           std::int32_t *to) {
      with_dtype(dtype, [&](auto tag) {
        read_block(call.operand<const decltype(tag)>(operand) + at + done * stride, stride, to, n);
      });
    };
    fetch(p.qa.dtype, 0, at_a, p.a[last], a);
    fetch(p.qb.dtype, 1, at_b, p.b[last], b);
    for (std::int64_t i = 0; i < n; i += kLanes) {
      VecI va, vb;
      std::memcpy(&va, a + i, sizeof va);
      std::memcpy(&vb, b + i, sizeof vb);
      const VecI v = p.op == BinaryOp::Mul ? op.apply<true>(va, vb) : op.apply<false>(va, vb);
      const int left = static_cast<int>(n - i);
      if (left >= kLanes) narrow(y + done + i, v);
      else narrow_part(y + done + i, v, left);
    }
  }
}

template <class T>
void run_binary(const Call &call, const BinaryInt &p) noexcept {
  const T *const a = call.operand<const T>(0), *const b = call.operand<const T>(
                                                   1);  // where `same`; other types are read by apply_mixed()
  T *const y = call.operand<T>(2);
  const bool same = p.qa.dtype == p.qy.dtype && p.qb.dtype == p.qy.dtype;
  Operator op{p.qa.zero,
              p.qb.zero,
              p.qa.scale / p.qy.scale,
              p.qb.scale / p.qy.scale,
              static_cast<float>(p.lo - p.qy.zero),
              static_cast<float>(p.hi - p.qy.zero),
              p.qy.zero};
  if (p.op == BinaryOp::Sub) op.b_scale = -op.b_scale;
  if (p.op == BinaryOp::Mul)
    op.a_scale = static_cast<float>(static_cast<double>(p.qa.scale) * static_cast<double>(p.qb.scale) /
                                    static_cast<double>(p.qy.scale));
  const int last = static_cast<int>(p.rank) - 1;
  std::int64_t rows = 1;
  for (int i = 0; i < last; ++i) rows *= p.dims[i];
  const std::int64_t inner = p.dims[last];
  if (rows == 0 || inner == 0) return;
  constexpr std::int64_t kPiece = 8192;
  const std::int64_t pieces = ceil_div(inner, kPiece);
  const std::int64_t piece_cost = min_of(inner, kPiece) + 16;
  call.threads.run(static_cast<std::uint64_t>(rows * pieces),
                   static_cast<std::uint64_t>(ceil_div<std::int64_t>(32768, piece_cost)),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (std::uint64_t task = begin; task < end; ++task) {
                       const std::int64_t row = static_cast<std::int64_t>(task) / pieces,
                                          from = static_cast<std::int64_t>(task) % pieces * kPiece;
                       std::int64_t rest = row, at_a = from * p.a[last], at_b = from * p.b[last];
                       for (int i = last; i-- > 0; rest /= p.dims[i]) {
                         at_a += rest % p.dims[i] * p.a[i];
                         at_b += rest % p.dims[i] * p.b[i];
                       }
                       const std::int64_t count = min_of(kPiece, inner - from);
                       if (!same) apply_mixed(op, p, call, at_a, at_b, y + row * inner + from, count);
                       else if (p.op == BinaryOp::Mul)
                         apply_row<true>(op, a + at_a, p.a[last], b + at_b, p.b[last], y + row * inner + from, count);
                       else
                         apply_row<false>(op, a + at_a, p.a[last], b + at_b, p.b[last], y + row * inner + from, count);
                     }
                   });
}

}  // namespace

void run_BinaryInt(const Call &call) {
  const auto &p = call.as<BinaryInt>();
  with_dtype(p.qy.dtype, [&](auto tag) { run_binary<decltype(tag)>(call, p); });
}

}  // namespace quarry::kernels::QR_ISA
