// SPDX-License-Identifier: Apache-2.0
#include "tools/conformance/half_precision.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tools {
namespace {

bool is_wide_float(qr_dtype dtype) { return dtype == QR_DTYPE_F32 || dtype == QR_DTYPE_F64; }

double nearest_half(double value) {
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 11, -24));
  const double rounded = std::nearbyint(value / step) * step;
  return std::fabs(rounded) > 65504 ? std::copysign(INFINITY, value) : rounded;
}

}  // namespace

std::string beyond_half(const TensorData &tensor) {
  if (!is_wide_float(tensor.dtype) && tensor.dtype != QR_DTYPE_F16) return "";
  const std::vector<double> values = to_doubles(tensor.dtype, tensor.bytes.data(), element_count(tensor.dims));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(nearest_half(values[i]))) continue;
    char text[80];
    std::snprintf(text, sizeof text, "%.9g at %zu", values[i], i);
    return text;
  }
  return "";
}

bool round_to_half(TensorData &tensor) {
  if (!is_wide_float(tensor.dtype)) return false;
  std::vector<double> values = to_doubles(tensor.dtype, tensor.bytes.data(), element_count(tensor.dims));
  bool changed = false;
  for (double &value : values) {
    const double rounded = nearest_half(value);
    changed |= rounded != value && !std::isnan(value);
    value = rounded;
  }
  if (changed) tensor.bytes = from_doubles(tensor.dtype, values);
  return changed;
}

bool within_a_step(const TensorData &expected, qr_dtype dtype, const std::vector<int64_t> &dims, const void *data) {
  const bool small = dtype == QR_DTYPE_U8 || dtype == QR_DTYPE_I8 || dtype == QR_DTYPE_U16 || dtype == QR_DTYPE_I16;
  if (!small || dtype != expected.dtype || dims != expected.dims) return false;
  const std::vector<double> found = to_doubles(dtype, data, element_count(dims)),
                            wanted = to_doubles(dtype, expected.bytes.data(), element_count(dims));
  return std::equal(found.begin(), found.end(), wanted.begin(),
                    [](double a, double b) { return std::fabs(a - b) <= 1; });
}

}  // namespace tools
