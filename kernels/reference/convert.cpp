// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/convert.h"

#include <cmath>
#include <limits>

#include "base/float16.h"
#include "graph/ops/quantization.h"

namespace quarry::reference {
namespace {

const SmallFloat *small_float(DType dtype) noexcept {
  switch (dtype) {
    case DType::F8E4M3FN: return &kF8E4M3FN;
    case DType::F8E4M3FNUZ: return &kF8E4M3FNUZ;
    case DType::F8E5M2: return &kF8E5M2;
    case DType::F8E5M2FNUZ: return &kF8E5M2FNUZ;
    case DType::F4E2M1: return &kF4E2M1;
    default: return nullptr;
  }
}

// Calls run(first element, length, entry) for stretches of elements that share an entry.
template <class Run>
void for_entries(const EntryMap &map, Run &&run) {
  std::int64_t at = 0;
  if (map.block == 0) {
    for (std::int64_t o = 0; o < map.outer; ++o)
      for (std::int64_t a = 0; a < map.axis; ++a, at += map.inner) run(at, map.inner, a);
    return;
  }
  const std::int64_t blocks = (map.axis + map.block - 1) / map.block;
  for (std::int64_t o = 0; o < map.outer; ++o)
    for (std::int64_t a = 0; a < map.axis; ++a) {
      const std::int64_t entry = (o * blocks + a / map.block) * map.inner;
      for (std::int64_t i = 0; i < map.inner; ++i) run(at++, std::int64_t{1}, entry + i);
    }
}

// Adding and taking away 1.5 * 2^52 rounds to the nearest integer, ties to even, for everything up to 2^51; it
// vectorises.
inline double round_even(double value) noexcept { return (value + 0x1.8p52) - 0x1.8p52; }

}  // namespace

Form form_of(DType dtype, bool quantized, Handling handling) noexcept {
  const bool small = dtype_bits(dtype) < 8;
  if (handling == Handling::Move) return small ? Form::Unpacked : Form::Stored;
  if (quantized) return Form::Real;
  if (handling == Handling::Raw) return small ? Form::RawUnpacked : Form::Stored;
  if (is_float(dtype) && dtype_bits(dtype) < 32) return Form::Widened;
  return small ? Form::Unpacked : Form::Stored;
}

EntryMap EntryMap::along(const std::int64_t *dims, std::size_t rank, std::size_t axis, std::int64_t block) noexcept {
  EntryMap map{1, dims[axis], 1, block};
  for (std::size_t i = 0; i < axis; ++i) map.outer *= dims[i];
  for (std::size_t i = axis + 1; i < rank; ++i) map.inner *= dims[i];
  return map;
}

EntryMap entry_map(const qir::Quantization &quant, const std::int64_t *dims, std::size_t rank) noexcept {
  if (!quant.per_tensor()) return EntryMap::along(dims, rank, index_of(quant.axis), quant.block_size);
  std::int64_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) count *= dims[i];
  return EntryMap::per_tensor(count);
}

void unpack(DType dtype, bool raw, const void *packed, std::int64_t count, std::uint8_t *out) noexcept {
  const auto *bytes = static_cast<const std::uint8_t *>(packed);
  const unsigned bits = dtype_bits(dtype), per_byte = 8 / bits, mask = (1u << bits) - 1u;
  const unsigned sign = !raw && dtype_kind(dtype) == DTypeKind::Signed ? 1u << (bits - 1) : 0u;
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned element = bytes[i / per_byte] >> (static_cast<unsigned>(i % per_byte) * bits) & mask;
    out[i] = static_cast<std::uint8_t>((element ^ sign) - sign);
  }
}

void pack(DType dtype, const std::uint8_t *elements, std::int64_t count, void *packed) noexcept {
  auto *bytes = static_cast<std::uint8_t *>(packed);
  const unsigned bits = dtype_bits(dtype), per_byte = 8 / bits, mask = (1u << bits) - 1u;
  for (std::int64_t i = 0; i < count; i += per_byte) {
    unsigned byte = 0;
    for (unsigned j = 0; j < per_byte && i + j < count; ++j) byte |= (elements[i + j] & mask) << (j * bits);
    bytes[i / per_byte] = static_cast<std::uint8_t>(byte);
  }
}

void widen(DType dtype, const void *elements, std::int64_t count, float *out) noexcept {
  const auto *bytes = static_cast<const std::uint8_t *>(elements);
  const auto *halves = static_cast<const std::uint16_t *>(elements);
  if (dtype == DType::F16) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = f16_to_f32(halves[i]);
  } else if (dtype == DType::BF16) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = bf16_to_f32(halves[i]);
  } else if (dtype == DType::F8E8M0) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = e8m0_to_f32(bytes[i]);
  } else if (const SmallFloat *type = small_float(dtype)) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = small_to_f32(*type, bytes[i]);
  }
}

void narrow(DType dtype, const float *values, std::int64_t count, void *elements) noexcept {
  auto *bytes = static_cast<std::uint8_t *>(elements);
  auto *halves = static_cast<std::uint16_t *>(elements);
  if (dtype == DType::F16) {
    for (std::int64_t i = 0; i < count; ++i) halves[i] = f32_to_f16(values[i]);
  } else if (dtype == DType::BF16) {
    for (std::int64_t i = 0; i < count; ++i) halves[i] = f32_to_bf16(values[i]);
  } else if (dtype == DType::F8E8M0) {
    for (std::int64_t i = 0; i < count; ++i) bytes[i] = f32_to_e8m0(values[i], E8M0Round::Nearest, true);
  } else if (const SmallFloat *type = small_float(dtype)) {
    for (std::int64_t i = 0; i < count; ++i) bytes[i] = f32_to_small(*type, values[i], true);
  }
}

void dequantize(DType dtype, const EntryMap &map, const float *scales, const std::int32_t *zero_points,
                const void *elements, float *out) noexcept {
  if (const SmallFloat *type = small_float(dtype)) {
    const auto *bytes = static_cast<const std::uint8_t *>(elements);
    for_entries(map, [&](std::int64_t at, std::int64_t length, std::int64_t entry) {
      for (std::int64_t i = at; i < at + length; ++i) out[i] = small_to_f32(*type, bytes[i]) * scales[entry];
    });
    return;
  }
  dispatch<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, float>(
      dtype, [&](auto tag) {
        using T = decltype(tag);
        using Wide = std::conditional_t<std::is_same_v<T, float>, float,
                                        std::conditional_t<sizeof(T) < 4, std::int32_t, std::int64_t>>;
        const T *in = static_cast<const T *>(elements);
        for_entries(map, [&](std::int64_t at, std::int64_t length, std::int64_t entry) {
          const float scale = scales[entry];
          const Wide zero = zero_points ? static_cast<Wide>(zero_points[entry]) : Wide{0};
          for (std::int64_t i = at; i < at + length; ++i)
            out[i] = static_cast<float>(static_cast<Wide>(in[i]) - zero) * scale;
        });
      });
}

void quantize(DType dtype, const EntryMap &map, const float *scales, const std::int32_t *zero_points,
              const float *values, void *elements, bool saturate_floats) noexcept {
  if (const SmallFloat *type = small_float(dtype)) {
    auto *bytes = static_cast<std::uint8_t *>(elements);
    for_entries(map, [&](std::int64_t at, std::int64_t length, std::int64_t entry) {
      for (std::int64_t i = at; i < at + length; ++i)
        bytes[i] = f32_to_small(*type, values[i] / scales[entry], saturate_floats);
    });
    return;
  }
  const qir::IntegerRange range = qir::integer_range(dtype);
  dispatch<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t>(dtype, [&](auto tag) {
    using T = decltype(tag);
    using Wide = std::conditional_t<sizeof(T) < 4, std::int32_t, std::int64_t>;
    T *out = static_cast<T *>(elements);
    for_entries(map, [&](std::int64_t at, std::int64_t length, std::int64_t entry) {
      const float scale = scales[entry];
      const double zero = zero_points ? zero_points[entry] : 0;
      // Clamping the quotient first (its bounds are integers) keeps rounding and conversion in range.
      const double low = static_cast<double>(range.low) - zero, high = static_cast<double>(range.high) - zero;
      for (std::int64_t i = at; i < at + length; ++i) {
        double quotient = static_cast<double>(values[i] / scale);
        quotient = quotient < low ? low : quotient;
        quotient = quotient > high ? high : quotient;
        quotient = quotient == quotient ? quotient : 0.0;
        out[i] = static_cast<T>(static_cast<Wide>(round_even(quotient) + zero));
      }
    });
  });
}

}  // namespace quarry::reference
