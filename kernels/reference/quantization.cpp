// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear as nodes. Quantised types of tensors are the interpreter's
// business; both use convert.h.
#include <algorithm>
#include <cmath>

#include "base/float16.h"
#include "kernels/reference/convert.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {
namespace {

// Which scale an element of `data` has.
Status read_entries(Context &context, const View &data, const View &scale, EntryMap *out) {
  const std::int64_t block = context.node().get_int("block_size", 0);
  *out = EntryMap::per_tensor(data.count);
  if (scale.count != 1 || block != 0) {
    std::size_t axis = 0;
    QR_RETURN_IF_ERROR(read_axis(context, 1, data.rank, &axis));
    *out = EntryMap::along(data.dims, data.rank, axis, block);
  }
  if (scale.count == out->entries() || data.count == 0) return {};
  return qir::node_error(context.node(), ErrorId::run_value, "found %lld scales, expected %lld", scale.count,
                         out->entries());
}

// Any numeric operand as f32, without copying f32.
const float *as_floats(Context &context, const View &view) {
  if (view.dtype == DType::F32) return view.as<const float>();
  float *values = static_cast<float *>(context.scratch(static_cast<std::uint64_t>(view.count) * sizeof(float)));
  if (is_float(view.dtype)) widen(view.dtype, view.data, view.count, values);
  else if (view.dtype == DType::I32)
    for (std::int64_t i = 0; i < view.count; ++i) values[i] = static_cast<float>(view.as<const std::int32_t>()[i]);
  return values;
}

// Integer zero points; nullptr where there are none (or floats, whose only zero point is 0). Raw elements under 8 bits
// get their sign.
Status read_zero_points(Context &context, std::uint32_t input, const View &scale, const std::int32_t **out) {
  *out = nullptr;
  const View *view = context.input(input);
  if (!view || is_float(view->dtype)) return {};
  if (view->count != scale.count) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %lld zero points for %lld scales", view->count,
                           scale.count);
  }
  auto *values =
      static_cast<std::int32_t *>(context.scratch(static_cast<std::uint64_t>(view->count) * sizeof(std::int32_t)));
  dispatch<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t>(view->dtype, [&](auto tag) {
    for (std::int64_t i = 0; i < view->count; ++i) values[i] = view->as<const decltype(tag)>()[i];
  });
  const int sign = view->dtype == DType::I4 ? 8 : view->dtype == DType::I2 ? 2 : 0;
  for (std::int64_t i = 0; sign != 0 && i < view->count; ++i) values[i] = ((values[i] & (2 * sign - 1)) ^ sign) - sign;
  *out = values;
  return {};
}

// What goes with the scale: which entry is for which element, and the zero points.
struct Parameters {
  EntryMap map;
  const std::int32_t *zero_points = nullptr;
};
Status read_parameters(Context &context, const View &x, const View &scale, Parameters *out) {
  QR_RETURN_IF_ERROR(read_entries(context, x, scale, &out->map));
  return read_zero_points(context, 2, scale, &out->zero_points);
}

// Quotients of the precision of f16 or bf16.
void divide_narrowly(const EntryMap &map, const float *values, const float *scales, DType precision, float *quotients) {
  std::int64_t at = 0;
  const std::int64_t blocks = map.block == 0 ? 0 : (map.axis + map.block - 1) / map.block;
  for (std::int64_t o = 0; o < map.outer; ++o)
    for (std::int64_t a = 0; a < map.axis; ++a)
      for (std::int64_t i = 0; i < map.inner; ++i, ++at) {
        const float quotient = values[at] / scales[map.block == 0 ? a : (o * blocks + a / map.block) * map.inner + i];
        quotients[at] = precision == DType::F16 ? f16_to_f32(f32_to_f16(quotient)) : bf16_to_f32(f32_to_bf16(quotient));
      }
}

}  // namespace

Status kernel_quantize_linear(Context &context) {
  const View &x = *context.input(0), &scale = *context.input(1);
  View *out = context.output(0);
  if (!out) return {};
  Parameters parameters;
  QR_RETURN_IF_ERROR(read_parameters(context, x, scale, &parameters));
  const auto &[map, zero_points] = parameters;
  const float *values = as_floats(context, x);
  const float *scales = as_floats(context, scale);
  const bool saturate = context.node().get_int("saturate", 1) != 0;

  // The quotient has the precision of the scale unless the node says another.
  DType precision = static_cast<DType>(context.node().get_int("precision", 0));
  if (precision == DType::Unknown) precision = scale.dtype;
  if (precision == DType::F16 || precision == DType::BF16) {
    // Divides here, and leaves only rounding: a quotient by 1 is itself.
    auto *quotients = static_cast<float *>(context.scratch(static_cast<std::uint64_t>(x.count) * sizeof(float)));
    auto *ones = static_cast<float *>(context.scratch(static_cast<std::uint64_t>(scale.count) * sizeof(float)));
    std::fill_n(ones, scale.count, 1.0f);
    divide_narrowly(map, values, scales, precision, quotients);
    quantize(out->dtype, map, ones, zero_points, quotients, out->data, saturate);
    return {};
  }
  quantize(out->dtype, map, scales, zero_points, values, out->data, saturate);
  return {};
}

Status kernel_dequantize_linear(Context &context) {
  const View &x = *context.input(0), &scale = *context.input(1);
  View *out = context.output(0);
  if (!out) return {};
  Parameters parameters;
  QR_RETURN_IF_ERROR(read_parameters(context, x, scale, &parameters));
  const auto &[map, zero_points] = parameters;
  if (scale.dtype != DType::F32 || out->dtype != DType::F32) return type_error(context, scale.dtype);
  dequantize(x.dtype, map, scale.as<const float>(), zero_points, x.data, out->as<float>());
  return {};
}

Status kernel_dynamic_quantize_linear(Context &context) {
  const View &x = *context.input(0);
  const float *values = x.as<const float>();
  float low = 0, high = 0;
  for (std::int64_t i = 0; i < x.count; ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  const float scale = (high - low) / 255;
  const float zero = scale > 0 ? std::nearbyint(std::clamp(-low / scale, 0.0f, 255.0f)) : 0.0f;
  const std::int32_t zero_point = static_cast<std::int32_t>(zero);
  if (View *y = context.output(0))
    quantize(DType::U8, EntryMap::per_tensor(x.count), &scale, &zero_point, values, y->data);
  if (View *y_scale = context.output(1)) *y_scale->as<float>() = scale;
  if (View *y_zero = context.output(2)) *y_zero->as<std::uint8_t>() = static_cast<std::uint8_t>(zero_point);
  return {};
}

}  // namespace quarry::reference
