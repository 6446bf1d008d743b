// SPDX-License-Identifier: Apache-2.0
#include "tools/conformance/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/console/command.h"

namespace tools {
namespace {

double range_of(const std::vector<double> &values) {
  double low = 0, high = 0;
  for (double value : values)
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  return high - low;
}

}  // namespace

double value_range(const TensorData &tensor) {
  return range_of(to_doubles(tensor.dtype, tensor.bytes.data(), element_count(tensor.dims)));
}

Difference compare(const TensorData &expected, qr_dtype dtype, const std::vector<int64_t> &dims, const void *data,
                   const Tolerance &tolerance, double floor_range) {
  Difference out;
  const std::string found_type = std::string(qr_dtype_name(dtype)) + shape_text(dims);
  const std::string expected_type = std::string(qr_dtype_name(expected.dtype)) + shape_text(expected.dims);
  if (dtype != expected.dtype || dims != expected.dims) {
    out.same_type = out.within_float = out.within_quantized = false;
    out.text = "found " + found_type + ", expected " + expected_type;
    return out;
  }
  const int64_t count = element_count(dims);
  const std::vector<double> a = to_doubles(dtype, data, count), b = to_doubles(dtype, expected.bytes.data(), count);
  const bool is_float =
      dtype == QR_DTYPE_F32 || dtype == QR_DTYPE_F64 || dtype == QR_DTYPE_F16 || dtype == QR_DTYPE_BF16;
  const double range = range_of(b);
  const double rtol = !is_float ? 0 : dtype == QR_DTYPE_BF16 ? std::max(tolerance.rtol, 0x1p-6) : tolerance.rtol;
  const double floor = is_float ? std::max(tolerance.atol, tolerance.range_floor * std::max(range, floor_range)) : 0;
  int64_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = a[static_cast<size_t>(i)], y = b[static_cast<size_t>(i)];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double difference = std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : INFINITY;
    if (difference > out.worst) out.worst = difference, out.worst_at = i;
    // A part of an infinity is one: what is not finite is right where it is the same, and nowhere else.
    if (!std::isfinite(difference) || !(difference <= floor + rtol * std::fabs(y))) ++bad;
  }
  // Doubles do not distinguish 64-bit integers: those are compared as they are.
  if ((dtype == QR_DTYPE_I64 || dtype == QR_DTYPE_U64) && bad == 0 && count > 0 &&
      std::memcmp(data, expected.bytes.data(), expected.bytes.size()) != 0)
    bad = 1, out.worst_at = 0;
  out.worst_of_range = range > 0 ? out.worst / range : out.worst > 0 ? INFINITY : 0;
  out.within_float = bad == 0;
  out.within_quantized = is_float ? out.worst_of_range <= tolerance.quantized_range : bad == 0;
  if (is_float && count > 1 && dims.size() >= 1 && dims.size() <= 2 && element_count(dims) == dims.back()) {
    const auto top = [](const std::vector<double> &row) {
      return std::max_element(row.begin(), row.end()) - row.begin();
    };
    if (top(a) != top(b)) out.within_quantized = false;
  }
  if (bad) {
    const size_t at = static_cast<size_t>(std::max<int64_t>(out.worst_at, 0));
    char text[200];
    std::snprintf(text, sizeof text,
                  "%lld of %lld values differ; worst at %zu: found %.9g, expected %.9g (%.3g of the range)",
                  static_cast<long long>(bad), static_cast<long long>(count), at, a[at], b[at], out.worst_of_range);
    out.text = text;
  }
  return out;
}

}  // namespace tools
