// SPDX-License-Identifier: Apache-2.0
// Between f32 and stored integers. Quantize and Dequantize give what cpu-reference gives, bit by bit; Requantize
// multiplies by the quotient of the scales: at most one quantum from exact arithmetic, and only next to ties.
#include "kernels/cpu/loops/activate_array.h"
#include "kernels/cpu/vector/int_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr std::uint64_t kGrain = 32768;

// round(x / scale) + zero within [low, high] as one division and its rounding give it, of which a product with the
// reciprocal would round ties otherwise. Where products are fused the quotient is made of them, in half of the time: a
// product with the reciprocal in two parts is within a place of it, and one step by the exact remainder rounds it right
// (Markstein, given the reciprocal's first part rounded right and nothing out of range). NaN becomes the zero point.
struct Quantiser {
  VecF scale, lo, hi, inverse, inverse_rest;
  std::int32_t zero;
  bool divides;

  explicit Quantiser(const Quant &q) noexcept : zero(q.zero) {
    const float low = static_cast<float>(quant_low(q.dtype) - zero),
                high = static_cast<float>(quant_high(q.dtype) - zero);
    divides = !kFusesProducts || !(q.scale > 1e-24f && q.scale < 1e24f);
    scale = splat(q.scale);
    // Before the division, where infinities would make NaN of a remainder: their quotients round to the same bounds.
    lo = splat(divides ? low : low * q.scale), hi = splat(divides ? high : high * q.scale);
    const VecF one = splat(1.0f);
    inverse = one / scale, inverse_rest = fused(-inverse, scale, one) * inverse;
  }
  // Without the zero point.
  template <bool division>
  __attribute__((always_inline)) VecI rounded(VecF x) const noexcept {
    const auto bounded = [this](VecF v) __attribute__((always_inline)) {
      return min(max(select(v == v, v, VecF{}), lo), hi);
    };
    if constexpr (division) return round_to_int(bounded(x / scale));
    return quick(bounded(x));
  }
  // Of numbers not far beyond the bounds.
  __attribute__((always_inline)) VecI quick(VecF v) const noexcept {
    const VecF q = fused(v, inverse, v * inverse_rest);
    return round_to_int(fused(fused(-q, scale, v), inverse, q));
  }
};

template <bool division, class T>
__attribute__((noinline)) void quantise_part(const Quantiser &by, const float *x, void *to,
                                             std::int64_t count) noexcept {
  T *const y = static_cast<T *>(to);
  const Quantiser q = by;
  const std::int32_t zero = q.zero;
  std::int64_t i = 0;
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  if constexpr (sizeof(T) == 1) {
    const VecH halves_zero = static_cast<std::int16_t>(zero) - VecH{},
               least = static_cast<std::int16_t>(T(-1) < T(0) ? -128 : 0) - VecH{},
               most = static_cast<std::int16_t>(T(-1) < T(0) ? 127 : 255) - VecH{};
    // Packs saturate, so nothing is bounded before them but what conversions and remainders cannot take.
    const __m512 much = reinterpret_cast<__m512>(splat(1048576.0f) * q.scale);
    for (; i + kBytes <= count; i += kBytes) {
      VecF f[4];
      VecI v[4];
      QR_UNROLL for (int k = 0; k < 4; ++k) f[k] = load(x + i + k * kLanes);
      unsigned odd = division;
      if constexpr (!division)
        QR_UNROLL for (int k = 0; k < 4; ++k) odd |=
            _mm512_cmp_ps_mask(reinterpret_cast<__m512>(abs(f[k])), much, _CMP_NLT_UQ);
      if (odd) QR_UNROLL for (int k = 0; k < 4; ++k) v[k] = q.template rounded<division>(f[k]);
      else QR_UNROLL for (int k = 0; k < 4; ++k) v[k] = q.quick(f[k]);
      const VecB bytes = in_order(pack_bytes<T>(v, halves_zero, least, most));
      std::memcpy(y + i, &bytes, sizeof bytes);
    }
  }
#endif
  for (; i + kLanes <= count; i += kLanes) narrow(y + i, q.template rounded<division>(load(x + i)) + zero);
  if (i < count) {
    const int left = static_cast<int>(count - i);
    narrow_part(y + i, q.template rounded<division>(load_part(x + i, left)) + zero, left);
  }
}

using QuantisePart = decltype(&quantise_part<false, std::uint8_t>);
QuantisePart quantise_part_of(std::uint32_t dtype, bool divides) noexcept {
  QuantisePart part = nullptr;
  with_dtype(dtype, [&](auto tag) {
    part = divides ? quantise_part<true, decltype(tag)> : quantise_part<false, decltype(tag)>;
  });
  return part;
}

void quantise_all(const Call &call, const float *x, std::int64_t count, const Quant &to) noexcept {
  const Quantiser by(to);
  const QuantisePart part = quantise_part_of(to.dtype, by.divides);
  auto *const y = call.operand<std::byte>(1);
  call.threads.run(static_cast<std::uint64_t>(count), kGrain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     part(by, x + begin, y + begin * static_cast<std::uint64_t>(quant_bytes(to.dtype)),
                          static_cast<std::int64_t>(end - begin));
                   });
}

// Quotients by a scale and rounded sums with a zero point for each element.
template <class T>
__attribute__((noinline)) void quantise_each(const float *x, const float *scales, const void *given_zeros, void *to,
                                             std::int64_t count) noexcept {
  const T *const zeros = static_cast<const T *>(given_zeros);
  T *const y = static_cast<T *>(to);
  constexpr bool is_signed = T(-1) < T(0);
  constexpr std::int32_t most = (1 << (8 * sizeof(T) - (is_signed ? 1 : 0))) - 1, least = is_signed ? -most - 1 : 0;
  const auto one = [](VecF v, VecF scale, VecI zero) __attribute__((always_inline)) {
    const VecF q = v / scale;
    const VecF bounded = min(max(select(q == q, q, VecF{}), to_float(least - zero)), to_float(most - zero));
    return round_to_int(bounded) + zero;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    narrow(y + i, one(load(x + i), load(scales + i), zeros ? widen(zeros + i) : VecI{}));
  if (const int left = static_cast<int>(count - i); left > 0)
    narrow_part(y + i,
                one(load_part(x + i, left), load_part(scales + i, left), zeros ? widen_part(zeros + i, left) : VecI{}),
                left);
}

// Elements of 32 bits as they are.
template <class T>
QR_INLINE VecI whole(const T *p, int count) noexcept {
  if constexpr (sizeof(T) == 4) {
    VecI v{};
    if (count == kLanes) std::memcpy(&v, p, sizeof v);
    else std::memcpy(&v, p, bytes_of<T>(count));
    return v;
  } else {
    return count == kLanes ? widen(p) : widen_part(p, count);
  }
}
template <class T>
__attribute__((noinline)) void dequantise_part(const std::byte *from, float one_scale, std::int32_t one_zero, float *y,
                                               std::int64_t count) noexcept {
  const T *const x = reinterpret_cast<const T *>(from);
  const VecF scale = splat(one_scale);
  const VecI zero = splat(one_zero);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, to_float(whole(x + i, kLanes) - zero) * scale);
  if (const int left = static_cast<int>(count - i); left > 0)
    store_part(y + i, to_float(whole(x + i, left) - zero) * scale, left);
}
// The same with a scale, and a zero point if there are any, for each element.
template <class T>
__attribute__((noinline)) void dequantise_each(const std::byte *from, const float *scales, const std::byte *given_zeros,
                                               float *y, std::int64_t count) noexcept {
  const T *const x = reinterpret_cast<const T *>(from), *const zeros = reinterpret_cast<const T *>(given_zeros);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const int n = static_cast<int>(min_of<std::int64_t>(kLanes, count - i));
    VecI v = whole(x + i, n);
    if (zeros) v -= whole(zeros + i, n);
    if (n == kLanes) store(y + i, to_float(v) * load(scales + i));
    else store_part(y + i, to_float(v) * load_part(scales + i, n), n);
  }
}
// body(T{}) for these.
template <class Body>
QR_INLINE void with_whole(std::uint32_t dtype, Body &&body) noexcept {
  if (dtype == kI32) body(std::int32_t{});
  else with_dtype(dtype, body);
}

// From one scale and zero point to others; Y by width (stored_flip()).
struct Rescale {
  float lo, hi, scale;
  std::int32_t x_zero, y_zero, flip;
};
template <class X, class Y>
__attribute__((noinline)) void rescale_part(const Rescale &by, const std::byte *from, std::byte *to,
                                            std::int64_t count) noexcept {
  const X *const x = reinterpret_cast<const X *>(from);
  Y *const y = reinterpret_cast<Y *>(to);
  const VecF lo = splat(by.lo), hi = splat(by.hi), scale = splat(by.scale);
  const VecI x_zero = splat(by.x_zero), y_zero = splat(by.y_zero), flip = splat(by.flip);
  const auto convert = [&](VecI v) __attribute__((always_inline)) {
    return (round_to_int(clamp(to_float(v - x_zero) * scale, lo, hi)) + y_zero) ^ flip;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) narrow(y + i, convert(widen(x + i)));
  if (const int left = static_cast<int>(count - i); left > 0)
    narrow_part(y + i, convert(widen_part(x + i, left)), left);
}

std::int32_t stored_at(const std::byte *at, std::uint32_t dtype) noexcept {
  std::int32_t value = 0;
  with_whole(dtype, [&](auto tag) {
    std::memcpy(&tag, at, sizeof tag);
    value = tag;
  });
  return value;
}

// body(first element, how many, first of its scales) for what rows have of the elements of each task.
template <class Body>
void for_rows(const Call &call, const QuantizeRows &p, Body &&body) noexcept {
  call.threads.run(static_cast<std::uint64_t>(p.rows * p.length), kGrain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const auto last = static_cast<std::int64_t>(end);
                     for (auto at = static_cast<std::int64_t>(begin); at < last;) {
                       const std::int64_t row = at / p.length, from = at - row * p.length,
                                          count = min_of(p.length - from, last - at);
                       const std::int64_t group = row / p.repeat % p.groups;
                       body(at, count, p.each ? group * p.length + from : group);
                       at += count;
                     }
                   });
}

}  // namespace

void run_QuantizeRows(const Call &call) {
  const auto &p = call.as<QuantizeRows>();
  const float *const x = call.operand<const float>(0), *const scales = call.operand<const float>(1);
  const std::byte *const zeros = p.has_zeros ? call.operands[2] : nullptr;
  std::byte *const y = call.operands[p.has_zeros ? 3 : 2];
  const std::int64_t bytes = quant_bytes(p.dtype);
  auto *each = quantise_each<std::uint8_t>;
  with_dtype(p.dtype, [&](auto tag) { each = quantise_each<decltype(tag)>; });
  for_rows(call, p, [&](std::int64_t at, std::int64_t count, std::int64_t entry) {
    const std::byte *const zero = zeros ? zeros + entry * bytes : nullptr;
    if (p.each) return each(x + at, scales + entry, zero, y + at * bytes, count);
    const Quantiser by({p.dtype, zero ? stored_at(zero, p.dtype) : 0, scales[entry], 0});
    quantise_part_of(p.dtype, by.divides)(by, x + at, y + at * bytes, count);
  });
}

void run_DequantizeRows(const Call &call) {
  const auto &p = call.as<QuantizeRows>();
  const float *const scales = call.operand<const float>(1);
  const std::byte *const x = call.operands[0], *const zeros = p.has_zeros ? call.operands[2] : nullptr;
  float *const y = call.operand<float>(p.has_zeros ? 3 : 2);
  const std::int64_t bytes = p.dtype == kI32 ? 4 : quant_bytes(p.dtype);
  auto *part = dequantise_part<std::int32_t>;
  auto *each = dequantise_each<std::int32_t>;
  with_whole(p.dtype, [&](auto tag) { part = dequantise_part<decltype(tag)>, each = dequantise_each<decltype(tag)>; });
  for_rows(call, p, [&](std::int64_t at, std::int64_t count, std::int64_t entry) {
    const std::byte *const zero = zeros ? zeros + entry * bytes : nullptr;
    if (p.each) each(x + at * bytes, scales + entry, zero, y + at, count);
    else part(x + at * bytes, scales[entry], zero ? stored_at(zero, p.dtype) : 0, y + at, count);
  });
}

void run_Quantize(const Call &call) {
  const auto &p = call.as<Quantize>();
  quantise_all(call, call.operand<const float>(0), p.count, p.y);
}

void run_DynamicQuantize(const Call &call) {
  const auto &p = call.as<DynamicQuantize>();
  const float *const x = call.operand<const float>(0);
  for (std::uint32_t i = 0; i < call.threads.workers; ++i) {
    float *const found = reinterpret_cast<float *>(call.worker_scratch(i));
    found[0] = found[1] = 0;
  }
  call.threads.run(static_cast<std::uint64_t>(p.count), kGrain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     float *const found = reinterpret_cast<float *>(call.worker_scratch(worker));
                     // A NaN is neither: the comparison with it is false.
                     VecF low[4] = {}, high[4] = {};
                     std::uint64_t i = begin;
                     const auto take = [&](int k, VecF v) __attribute__((always_inline)) {
                       low[k] = min(v, low[k]), high[k] = max(v, high[k]);
                     };
                     for (; i + 4 * kLanes <= end; i += 4 * kLanes)
                       for (int k = 0; k < 4; ++k) take(k, load(x + i + k * kLanes));
                     for (; i + kLanes <= end; i += kLanes) take(0, load(x + i));
                     if (i < end) take(0, load_part(x + i, static_cast<int>(end - i)));
                     const float least = -largest(max(max(-low[0], -low[1]), max(-low[2], -low[3]))),
                                 most = largest(max(max(high[0], high[1]), max(high[2], high[3])));
                     found[0] = min_of(found[0], least), found[1] = max_of(found[1], most);
                   });
  float low = 0, high = 0;
  for (std::uint32_t i = 0; i < call.threads.workers; ++i) {
    const float *const found = reinterpret_cast<const float *>(call.worker_scratch(i));
    low = min_of(low, found[0]), high = max_of(high, found[1]);
  }
  const float scale = (high - low) / 255;
  const float wanted = scale > 0 ? __builtin_nearbyintf(min_of(max_of(-low / scale, 0.0f), 255.0f)) : 0.0f;
  const std::int32_t zero = wanted >= 0 ? static_cast<std::int32_t>(wanted) : 0;
  *call.operand<float>(2) = scale;
  *call.operand<std::uint8_t>(3) = static_cast<std::uint8_t>(zero);
  quantise_all(call, x, p.count, {kU8, zero, scale, 0});
}

void run_Dequantize(const Call &call) {
  const auto &p = call.as<Dequantize>();
  const std::byte *const x = call.operands[0];
  float *const y = call.operand<float>(1);
  const std::int64_t bytes = quant_bytes(p.x.dtype);
  auto *part = dequantise_part<std::uint8_t>;
  with_dtype(p.x.dtype, [&](auto tag) { part = dequantise_part<decltype(tag)>; });
  call.threads.run(static_cast<std::uint64_t>(p.count), kGrain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     part(x + static_cast<std::int64_t>(begin) * bytes, p.x.scale, p.x.zero, y + begin,
                          static_cast<std::int64_t>(end - begin));
                   });
}

void run_UnaryInt(const Call &call) {
  const auto &p = call.as<UnaryInt>();
  const std::byte *const x = call.operands[0];
  std::byte *const y = call.operands[1];
  const std::int64_t x_bytes = quant_bytes(p.x.dtype), y_bytes = quant_bytes(p.y.dtype);
  auto *widen_part_of = dequantise_part<std::uint8_t>;
  with_dtype(p.x.dtype, [&](auto tag) { widen_part_of = dequantise_part<decltype(tag)>; });
  const Quantiser by(p.y);
  const QuantisePart narrow_part_of = quantise_part_of(p.y.dtype, by.divides);
  // The floats between stay in the nearest cache.
  constexpr std::int64_t kTile = 1024;
  call.threads.run(static_cast<std::uint64_t>(p.count), kGrain / 4,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     float floats[kTile];
                     const auto last = static_cast<std::int64_t>(end);
                     for (auto at = static_cast<std::int64_t>(begin); at < last; at += kTile) {
                       const std::int64_t count = min_of(kTile, last - at);
                       widen_part_of(x + at * x_bytes, p.x.scale, p.x.zero, floats, count);
                       activate_array(p.act, floats, floats, count);
                       narrow_part_of(by, floats, y + at * y_bytes, count);
                     }
                   });
}

void run_Requantize(const Call &call) {
  const auto &p = call.as<Requantize>();
  const Rescale by{static_cast<float>(p.lo - p.y.zero),
                   static_cast<float>(p.hi - p.y.zero),
                   p.x.scale / p.y.scale,
                   p.x.zero,
                   p.y.zero + stored_flip(p.y.dtype),
                   stored_flip(p.y.dtype)};
  const std::byte *const x = call.operands[0];
  std::byte *const y = call.operands[1];
  const std::int64_t x_bytes = quant_bytes(p.x.dtype), y_bytes = quant_bytes(p.y.dtype);
  auto *part = rescale_part<std::uint8_t, std::uint8_t>;
  with_dtype(p.x.dtype, [&](auto tag) {
    part = y_bytes == 1 ? rescale_part<decltype(tag), std::uint8_t> : rescale_part<decltype(tag), std::int16_t>;
  });
  call.threads.run(static_cast<std::uint64_t>(p.count), kGrain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const auto at = static_cast<std::int64_t>(begin);
                     part(by, x + at * x_bytes, y + at * y_bytes, static_cast<std::int64_t>(end) - at);
                   });
}

}  // namespace quarry::kernels::QR_ISA
