// SPDX-License-Identifier: Apache-2.0
// f32 and f64 operands that are read as doubles whatever they are: statistics, biases, masks, states.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "kernels/reference/tensors.h"

namespace quarry::reference {

inline double real_at(const View &view, std::int64_t index) noexcept {
  return view.dtype == DType::F64 ? view.as<const double>()[index] : static_cast<double>(view.as<const float>()[index]);
}
inline void set_real(const View &view, std::int64_t index, double value) noexcept {
  if (view.dtype == DType::F64) view.as<double>()[index] = value;
  else view.as<float>()[index] = static_cast<float>(value);
}
inline bool is_real(const View &view) noexcept { return view.dtype == DType::F32 || view.dtype == DType::F64; }

// The whole operand as doubles, in scratch memory where it is something else; nullptr: of a type that has no business
// here.
inline const double *as_doubles(Context &context, const View &view) {
  if (view.dtype == DType::F64) return view.as<const double>();
  double *values = static_cast<double *>(context.scratch(static_cast<std::uint64_t>(view.count) * sizeof(double)));
  const bool known = dispatch<float, std::int8_t, std::uint8_t, std::int32_t>(view.dtype, [&](auto tag) {
    for (std::int64_t i = 0; i < view.count; ++i) values[i] = static_cast<double>(view.as<const decltype(tag)>()[i]);
  });
  return known ? values : nullptr;
}

// Refuses an operand (absent ones pass) that is no f32 or f64, or has not this shape.
inline Status check_real(const Context &context, const View *view, const char *what,
                         std::initializer_list<std::int64_t> dims) {
  if (!view) return {};
  if (!is_real(*view)) return type_error(context, view->dtype);
  if (std::equal(dims.begin(), dims.end(), view->dims, view->dims + view->rank)) return {};
  return qir::node_error(context.node(), ErrorId::run_value, "%s is %s, expected %s", what,
                         shape_text(view->dims, view->rank), shape_text(dims.begin(), dims.size()));
}

// A parameter with one value for all or one per index: scales, zero points.
struct Values {
  const double *data = nullptr;
  std::int64_t count = 0;
  double fallback = 0;
  double operator[](std::int64_t i) const noexcept { return data ? data[count == 1 ? 0 : i] : fallback; }
};

// Refuses an input whose number of entries is neither 1 nor one of `counts`.
inline Status read_values(Context &context, std::uint32_t input, const char *what,
                          std::initializer_list<std::int64_t> counts, double fallback, Values *out) {
  *out = {nullptr, 0, fallback};
  const View *view = context.input(input);
  if (!view) return {};
  if (view->count != 1 && std::find(counts.begin(), counts.end(), view->count) == counts.end()) {
    return qir::node_error(context.node(), ErrorId::run_value, "%s has %lld entries, expected %s%lld", what,
                           view->count, counts.size() == 0 ? "" : "1 or ", counts.size() == 0 ? 1 : *counts.begin());
  }
  *out = {as_doubles(context, *view), view->count, fallback};
  return out->data ? Status() : type_error(context, view->dtype);
}

}  // namespace quarry::reference
