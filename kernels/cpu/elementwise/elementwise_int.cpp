// SPDX-License-Identifier: Apache-2.0
// Binary operators on quantised tensors.
// BinaryInt computes in f32 (each operand times its scale over the output's): at most one quantum from exact
// arithmetic, and only next to ties.
#include "kernels/cpu/vector/int_vec.h"

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
template <bool Product>
__attribute__((noinline)) std::int64_t apply_bytes(const Operator &op, bool is_signed, const std::byte *a,
                                                   const std::byte *b, bool one_b, std::byte *y,
                                                   std::int64_t count) noexcept {
  const std::int32_t sign = is_signed ? 128 : 0;  // signed ones are unsigned ones with the upper bit turned over
  // What is rounded must fit an integer: it is clamped as one.
  const float most_a = 255 * op.a_scale, most_b = Product ? 255.0f : 255 * __builtin_fabsf(op.b_scale);
  if (!((Product ? most_a * most_b : most_a + most_b) < 1e9f)) return 0;
  // A byte under the exponent of 2^23 is a float 2^23 above it.
  const VecB exponent = VecB{} + std::int8_t{0x4b}, flip = VecB{} + static_cast<std::int8_t>(sign);
  const VecF a_zero = splat(static_cast<float>(8388608 + op.a_zero + sign)),
             b_zero = splat(static_cast<float>(8388608 + op.b_zero + sign)),
             b_value = splat(static_cast<float>((static_cast<std::int32_t>(*b) ^ sign) - sign - op.b_zero)),
             b_scale = splat(op.b_scale);
  const auto zero = static_cast<std::int16_t>(op.y_zero + sign) - VecH{},
             low = static_cast<std::int16_t>(static_cast<std::int32_t>(op.lo) + op.y_zero + sign) - VecH{},
             high = static_cast<std::int16_t>(static_cast<std::int32_t>(op.hi) + op.y_zero + sign) - VecH{};
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
    store_bytes(y + i, ~ByteMask{}, pack_bytes<std::uint8_t>(d, zero, low, high) ^ flip);
  }
  return i;
}
#endif

// Whole vectors of one type, which lie side by side or of which one is repeated. Returns how many elements it did.
template <bool Product, class T>
__attribute__((noinline)) std::int64_t apply_vectors(const Operator &given, const T *a, bool one_a, const T *b,
                                                     bool one_b, T *y, std::int64_t count) noexcept {
  const Operator op = given;
  const auto all = [&](auto &&left, auto &&right) __attribute__((always_inline)) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) narrow(y + i, op.apply<Product>(left(i), right(i)));
    return i;
  };
  const auto each_a = [&](std::int64_t i) __attribute__((always_inline)) { return widen(a + i); };
  const auto each_b = [&](std::int64_t i) __attribute__((always_inline)) { return widen(b + i); };
  const VecI one = splat(static_cast<std::int32_t>(one_a ? *a : *b));
  const auto same = [&](std::int64_t) __attribute__((always_inline)) { return one; };
  if (one_a) return all(same, each_b);
  return one_b ? all(each_a, same) : all(each_a, each_b);
}
// The same of less than a vector.
template <class T>
__attribute__((noinline)) void apply_part(const Operator &op, bool product, const T *a, bool one_a, const T *b,
                                          bool one_b, T *y, int count) noexcept {
  const VecI va = one_a ? splat(static_cast<std::int32_t>(*a)) : widen_part(a, count),
             vb = one_b ? splat(static_cast<std::int32_t>(*b)) : widen_part(b, count);
  narrow_part(y, product ? op.apply<true>(va, vb) : op.apply<false>(va, vb), count);
}

// Operands of different types, or with other strides, which are rare: by way of i32, a block at a time, so that each
// type is compiled once and not each triple.
constexpr std::int64_t kBlock = 256;  // elements, a multiple of every vector

template <class T>
void read_block(const std::byte *operand, std::int64_t at, std::int64_t stride, std::int32_t *to,
                std::int64_t count) noexcept {
  const T *const from = reinterpret_cast<const T *>(operand) + at;
  for (std::int64_t i = 0; i < count; ++i) {
    asm volatile("");  // (vectors of it would be the most of this source)
    to[i] = from[i * stride];
  }
  while (count % kLanes != 0) to[count++] = 0;
}
using ReadBlock = decltype(&read_block<std::uint8_t>);
ReadBlock read_block_of(std::uint32_t dtype) noexcept {
  ReadBlock read = nullptr;
  with_dtype(dtype, [&](auto tag) { read = read_block<decltype(tag)>; });
  return read;
}

// A row of y, or a piece of one, and what of a and b belongs to it.
struct Piece {
  std::int64_t a, b, y, count;  // elements
};

void apply_blocks(const Operator &op, const BinaryInt &p, const Call &call, const Piece &piece) noexcept {
  const int last = static_cast<int>(p.rank) - 1;
  const std::int64_t as = p.a[last], bs = p.b[last];
  const bool bytes = quant_bytes(p.qy.dtype) == 1;
  const std::int32_t flip = stored_flip(p.qy.dtype);
  const ReadBlock read_a = read_block_of(p.qa.dtype), read_b = read_block_of(p.qb.dtype);
  std::byte *y = call.operands[2] + piece.y * (bytes ? 1 : 2);
  alignas(64) std::int32_t a[kBlock], b[kBlock];
  for (std::int64_t done = 0; done < piece.count; done += kBlock) {
    const std::int64_t n = min_of(kBlock, piece.count - done);
    read_a(call.operands[0], piece.a + done * as, as, a, n);
    read_b(call.operands[1], piece.b + done * bs, bs, b, n);
    for (std::int64_t i = 0; i < n; i += kLanes, y += kLanes * (bytes ? 1 : 2)) {
      const VecI va = load(a + i), vb = load(b + i);
      const VecI v = p.op == BinaryOp::Mul ? op.apply<true>(va, vb) : op.apply<false>(va, vb);
      put_stored(y, bytes, (v + flip) ^ flip, static_cast<int>(min_of<std::int64_t>(kLanes, n - i)));
    }
  }
}

template <class T>
void apply_same(const Operator &op, const BinaryInt &p, const Call &call, const Piece &piece) noexcept {
  const int last = static_cast<int>(p.rank) - 1;
  const bool product = p.op == BinaryOp::Mul, one_a = p.a[last] == 0, one_b = p.b[last] == 0;
  const T *const a = call.operand<const T>(0) + piece.a, *const b = call.operand<const T>(1) + piece.b;
  T *const y = call.operand<T>(2) + piece.y;
  std::int64_t i = 0;
#if QR_ISA_BYTES == 64
  if constexpr (sizeof(T) == 1) {
    if (!one_a)
      i = (product ? apply_bytes<true> : apply_bytes<false>)(op, T(-1) < T(0), reinterpret_cast<const std::byte *>(a),
                                                             reinterpret_cast<const std::byte *>(b), one_b,
                                                             reinterpret_cast<std::byte *>(y), piece.count);
  }
#endif
  const auto rest_a = [&] { return one_a ? a : a + i; };
  const auto rest_b = [&] { return one_b ? b : b + i; };
  if (i + kLanes <= piece.count)
    i += (product ? apply_vectors<true, T> : apply_vectors<false, T>)(op, rest_a(), one_a, rest_b(), one_b, y + i,
                                                                      piece.count - i);
  if (i < piece.count)
    apply_part(op, product, rest_a(), one_a, rest_b(), one_b, y + i, static_cast<int>(piece.count - i));
}

}  // namespace

void run_BinaryInt(const Call &call) {
  const auto &p = call.as<BinaryInt>();
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
  const auto beside = [](std::int64_t stride) { return stride == 0 || stride == 1; };
  auto *apply = apply_blocks;
  if (p.qa.dtype == p.qy.dtype && p.qb.dtype == p.qy.dtype && beside(p.a[last]) && beside(p.b[last]) &&
      p.a[last] + p.b[last] > 0)
    with_dtype(p.qy.dtype, [&](auto tag) { apply = apply_same<decltype(tag)>; });
  constexpr std::int64_t kPiece = 8192;
  const std::int64_t pieces = ceil_div(inner, kPiece);
  const std::int64_t piece_cost = min_of(inner, kPiece) + 16;
  call.threads.run(
      static_cast<std::uint64_t>(rows * pieces), static_cast<std::uint64_t>(ceil_div<std::int64_t>(32768, piece_cost)),
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
        for (std::uint64_t task = begin; task < end; ++task) {
          const std::int64_t row = static_cast<std::int64_t>(task) / pieces,
                             from = static_cast<std::int64_t>(task) % pieces * kPiece;
          std::int64_t rest = row;
          Piece piece{from * p.a[last], from * p.b[last], row * inner + from, min_of(kPiece, inner - from)};
          for (int i = last; i-- > 0; rest /= p.dims[i]) {
            piece.a += rest % p.dims[i] * p.a[i];
            piece.b += rest % p.dims[i] * p.b[i];
          }
          apply(op, p, call, piece);
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
