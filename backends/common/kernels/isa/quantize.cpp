// SPDX-License-Identifier: Apache-2.0
// Between f32 and stored integers. Quantize and Dequantize give what cpu-reference gives, bit by bit; Requantize
// multiplies by the quotient of the scales: at most one quantum from exact arithmetic, and only next to ties.
#include "backends/common/kernels/isa/int_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr std::uint64_t kGrain = 32768;

// NaN becomes the zero point.
QR_INLINE VecI quantise(VecF quotient, VecF lo, VecF hi, std::int32_t zero) noexcept {
  const VecF v = select(quotient == quotient, quotient, VecF{});
  return round_to_int(min(max(v, lo), hi)) + zero;
}

}  // namespace

void run_Quantize(const Call &call) {
  const auto &p = call.as<Quantize>();
  const float *const x = call.operand<const float>(0);
  const std::int32_t zero = p.y.zero;
  const VecF lo = splat(static_cast<float>(quant_low(p.y.dtype) - zero)),
             hi = splat(static_cast<float>(quant_high(p.y.dtype) - zero)), scale = splat(p.y.scale);
  with_dtype(p.y.dtype, [&](auto tag) {
    auto *const y = call.operand<decltype(tag)>(1);
    call.threads.run(static_cast<std::uint64_t>(p.count), kGrain,
                     [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                       std::uint64_t i = begin;
                       // A division, as the reference has it: a product with the reciprocal would round ties otherwise.
                       for (; i + kLanes <= end; i += kLanes)
                         narrow(y + i, quantise(load(x + i) / scale, lo, hi, zero));
                       if (i < end) {
                         const int left = static_cast<int>(end - i);
                         narrow_part(y + i, quantise(load_part(x + i, left) / scale, lo, hi, zero), left);
                       }
                     });
  });
}

void run_Dequantize(const Call &call) {
  const auto &p = call.as<Dequantize>();
  float *const y = call.operand<float>(1);
  const std::int32_t zero = p.x.zero;
  const float scale = p.x.scale;
  with_dtype(p.x.dtype, [&](auto tag) {
    const auto *const x = call.operand<const decltype(tag)>(0);
    call.threads.run(static_cast<std::uint64_t>(p.count), kGrain,
                     [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                       std::uint64_t i = begin;
                       for (; i + kLanes <= end; i += kLanes) store(y + i, to_float(widen(x + i) - zero) * scale);
                       if (i < end) {
                         const int left = static_cast<int>(end - i);
                         store_part(y + i, to_float(widen_part(x + i, left) - zero) * scale, left);
                       }
                     });
  });
}

void run_Requantize(const Call &call) {
  const auto &p = call.as<Requantize>();
  const std::int32_t x_zero = p.x.zero, y_zero = p.y.zero;
  const VecF lo = splat(static_cast<float>(p.lo - y_zero)), hi = splat(static_cast<float>(p.hi - y_zero));
  const float scale = p.x.scale / p.y.scale;
  const auto convert = [&](VecI v) { return round_to_int(clamp(to_float(v - x_zero) * scale, lo, hi)) + y_zero; };
  with_dtype(p.x.dtype, [&](auto x_tag) {
    with_dtype(p.y.dtype, [&](auto y_tag) {
      const auto *const x = call.operand<const decltype(x_tag)>(0);
      auto *const y = call.operand<decltype(y_tag)>(1);
      call.threads.run(static_cast<std::uint64_t>(p.count), kGrain,
                       [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                         std::uint64_t i = begin;
                         for (; i + kLanes <= end; i += kLanes) narrow(y + i, convert(widen(x + i)));
                         if (i < end) {
                           const int left = static_cast<int>(end - i);
                           narrow_part(y + i, convert(widen_part(x + i, left)), left);
                         }
                       });
    });
  });
}

}  // namespace quarry::kernels::QR_ISA
