// SPDX-License-Identifier: Apache-2.0
// Between the stored form of a tensor (packed, quantised, small floats) and the forms that kernels work on.
#pragma once

#include <cstdint>

#include "kernels/reference/kernel.h"

namespace quarry::reference {

// The form in which a kernel gets a tensor.
enum class Form : std::uint8_t {
  Stored,
  Unpacked,     // under 8 bits: one element per byte, sign-extended
  RawUnpacked,  // under 8 bits: one element per byte, as it is
  Widened,      // a small float as f32
  Real,         // dequantised, f32
};
Form form_of(DType dtype, bool quantized, Handling handling) noexcept;
inline std::uint32_t form_width(DType dtype, Form form) noexcept {
  return form == Form::Widened || form == Form::Real ? 4 : (dtype_bits(dtype) + 7) / 8;
}

// Which entry of scales and zero points an element has. Elements are walked as [outer][axis][inner].
struct EntryMap {
  std::int64_t outer = 1, axis = 1, inner = 1;
  std::int64_t block =
      0;  // 0: one entry per index of the axis; otherwise entries are [outer][ceil(axis / block)][inner]
  std::int64_t entries() const noexcept { return block == 0 ? axis : outer * ((axis + block - 1) / block) * inner; }

  static EntryMap per_tensor(std::int64_t count) noexcept { return {1, 1, count, 0}; }
  static EntryMap along(const std::int64_t *dims, std::size_t rank, std::size_t axis, std::int64_t block) noexcept;
};
EntryMap entry_map(const qir::Quantization &quant, const std::int64_t *dims, std::size_t rank) noexcept;

// Elements of 4 and 2 bits, the first in the lowest bits, to and from one byte each. Signed ones are sign-extended
// unless `raw`.
void unpack(DType dtype, bool raw, const void *packed, std::int64_t count, std::uint8_t *out) noexcept;
void pack(DType dtype, const std::uint8_t *elements, std::int64_t count, void *packed) noexcept;

// Floats of 16 bits and less to and from f32; those of 4 bits come one to a byte. Narrowing rounds to nearest even;
// small floats saturate.
void widen(DType dtype, const void *elements, std::int64_t count, float *out) noexcept;
void narrow(DType dtype, const float *values, std::int64_t count, void *elements) noexcept;

// real = (element - zero_point) * scale in f32. `zero_points` may be nullptr. Elements under 8 bits come one to a byte;
// f32 stands for small floats that were widened.
void dequantize(DType dtype, const EntryMap &map, const float *scales, const std::int32_t *zero_points,
                const void *elements, float *out) noexcept;
// ONNX QuantizeLinear: element = saturate(round_half_even(value / scale) + zero_point). NaN becomes the zero point.
void quantize(DType dtype, const EntryMap &map, const float *scales, const std::int32_t *zero_points,
              const float *values, void *elements, bool saturate_floats = true) noexcept;

}  // namespace quarry::reference
