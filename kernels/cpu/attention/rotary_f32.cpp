// SPDX-License-Identifier: Apache-2.0
// Pairs of elements turned by angles (RotaryEmbedding): a row of a head is read and written once.
#include "kernels/cpu/shapes/elements_shape.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Two {
  VecF a, b;
};
// Elements of even and of odd places of two vectors that lie side by side; and back.
QR_INLINE Two unzip(VecF a, VecF b) noexcept {
#if QR_ISA_BYTES == 64
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)};
#elif QR_ISA_BYTES == 32
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
#else
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7)};
#endif
}
QR_INLINE Two zip(VecF a, VecF b) noexcept {
#if QR_ISA_BYTES == 64
  return {__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
          __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)};
#elif QR_ISA_BYTES == 32
  return {__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11),
          __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)};
#else
  return {__builtin_shufflevector(a, b, 0, 4, 1, 5), __builtin_shufflevector(a, b, 2, 6, 3, 7)};
#endif
}
QR_INLINE Two turn(VecF a, VecF b, VecF c, VecF s) noexcept { return {c * a - s * b, s * a + c * b}; }

template <bool interleaved>
QR_INLINE void turn_row(const RotaryF32 &p, const float *x, const float *cosines, const float *sines,
                        float *y) noexcept {
  const std::int64_t half = p.half;
  std::int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const VecF c = load(cosines + i), s = load(sines + i);
    if constexpr (interleaved) {
      const Two pairs = unzip(load(x + 2 * i), load(x + 2 * i + kLanes)), turned = turn(pairs.a, pairs.b, c, s),
                both = zip(turned.a, turned.b);
      store(y + 2 * i, both.a), store(y + 2 * i + kLanes, both.b);
    } else {
      const Two turned = turn(load(x + i), load(x + half + i), c, s);
      store(y + i, turned.a), store(y + half + i, turned.b);
    }
  }
  if (const int rest = static_cast<int>(half - i); rest > 0) {
    const VecF c = load_part(cosines + i, rest), s = load_part(sines + i, rest);
    if constexpr (interleaved) {
      const float *const from = x + 2 * i;
      float *const to = y + 2 * i;
      const int first = 2 * rest < kLanes ? 2 * rest : kLanes, second = 2 * rest - first;
      const VecF low = first == kLanes ? load(from) : load_part(from, first),
                 high = second > 0 ? load_part(from + kLanes, second) : VecF{};
      const Two pairs = unzip(low, high), turned = turn(pairs.a, pairs.b, c, s), both = zip(turned.a, turned.b);
      if (first == kLanes) store(to, both.a);
      else store_part(to, both.a, first);
      if (second > 0) store_part(to + kLanes, both.b, second);
    } else {
      const Two turned = turn(load_part(x + i, rest), load_part(x + half + i, rest), c, s);
      store_part(y + i, turned.a, rest), store_part(y + half + i, turned.b, rest);
    }
  }
  std::int64_t k = 2 * half;
  for (; k + kLanes <= p.size; k += kLanes) store(y + k, load(x + k));
  if (const int rest = static_cast<int>(p.size - k); rest > 0) store_part(y + k, load_part(x + k, rest), rest);
}

}  // namespace

void run_RotaryF32(const Call &call) {
  const auto &p = call.as<RotaryF32>();
  const float *const cosines = call.operand<const float>(1), *const sines = call.operand<const float>(2);
  const std::byte *const positions = p.has_positions ? call.operands[3] : nullptr;
  const auto position_at = [&](std::int64_t i) {
    std::int64_t position;
    std::memcpy(&position, positions + i * 8, sizeof position);
    return position;
  };
  const auto at = [](std::byte *operand, NumberType type, std::int64_t element) {
    return operand + element * (type == NumberType::F32 ? 4 : 2);
  };
  std::byte *const x = call.operands[0], *const y = call.operands[p.has_positions ? 4 : 3];
  if (positions) {
    for (std::int64_t i = 0; i < p.batches * p.length; ++i) {
      const std::int64_t position = position_at(i);
      if (position >= 0 && position < p.positions) continue;
      call.bad_index[0] = position, call.bad_index[1] = i;
      return;
    }
  }
  // Rows in the order in which x lies.
  const bool heads_first = p.x[1] >= p.x[2];
  const std::int64_t inner = heads_first ? p.length : p.heads, rows = p.batches * p.heads * p.length;
  const std::int64_t grain = max_of<std::int64_t>(1, 8192 / p.size);
  // Numbers of 16 bits are made f32, turned where they then are, and rounded: as many rows at a time as lie side by
  // side.
  const bool wide = p.x_type == NumberType::F32 && p.y_type == NumberType::F32;
  const std::int64_t *const strides[] = {p.x, p.y};
  bool adjacent = !wide;
  for (const std::int64_t *const of : strides) adjacent &= of[heads_first ? 2 : 1] == p.size;
  const std::int64_t most = adjacent ? rotary_floats(p) / p.size : 1;
  call.threads.run(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     auto *const scratch = wide ? nullptr : reinterpret_cast<float *>(call.worker_scratch(worker));
                     const std::int64_t per_batch = p.heads * p.length, last = static_cast<std::int64_t>(end);
                     auto row = static_cast<std::int64_t>(begin);
                     std::int64_t b = row / per_batch, o = row % per_batch / inner, i = row % inner;
                     while (row < last) {
                       const std::int64_t count = min_of(most, min_of(last - row, inner - i));
                       const std::int64_t first_h = heads_first ? o : i, first_l = heads_first ? i : o;
                       std::byte *const from = at(x, p.x_type, b * p.x[0] + first_h * p.x[1] + first_l * p.x[2]),
                                        *const to = at(y, p.y_type, b * p.y[0] + first_h * p.y[1] + first_l * p.y[2]);
                       const float *source = reinterpret_cast<const float *>(from);
                       float *turned = p.y_type == NumberType::F32 ? reinterpret_cast<float *>(to) : scratch;
                       if (p.x_type != NumberType::F32) {
                         widen_weights(p.x_type, reinterpret_cast<const std::uint16_t *>(from), scratch,
                                       count * p.size);
                         source = scratch;
                       }
                       for (std::int64_t n = 0; n < count; ++n) {
                         const std::int64_t token = b * p.length + (heads_first ? i + n : o),
                                            angle = (positions ? position_at(token) : token) * p.half;
                         const float *const of = source + n * p.size;
                         if (p.interleaved) turn_row<true>(p, of, cosines + angle, sines + angle, turned + n * p.size);
                         else turn_row<false>(p, of, cosines + angle, sines + angle, turned + n * p.size);
                       }
                       if (p.y_type != NumberType::F32)
                         narrow_numbers(p.y_type, scratch, reinterpret_cast<std::uint16_t *>(to), count * p.size);
                       row += count;
                       if ((i += count) == inner) {
                         i = 0;
                         if (++o == (heads_first ? p.heads : p.length)) o = 0, ++b;
                       }
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
