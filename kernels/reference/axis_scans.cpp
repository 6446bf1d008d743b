// SPDX-License-Identifier: Apache-2.0
// Operators along an axis of a tensor: positions of extremes (ArgMax, ArgMin), running sums and products (CumSum,
// CumProd).
//
// ArgMax and ArgMin both stop at a NaN, as numpy's do.
#include "kernels/reference/axis_scans.h"

#include <algorithm>

#include "kernels/reference/kernels.h"
#include "kernels/reference/rows.h"

namespace quarry::reference {
namespace {

// The tensor as one of those types, whose elements order as its own do; a copy where it is of another type.
View as_ordered(Context &context, const View &view) {
  View copy = view;
  copy.dtype = loop_dtype(view.dtype);
  if (dispatch_ordered(copy.dtype, [](auto) {})) return copy;
  const bool bytes = view.width == 1;
  copy.dtype = bytes ? DType::U8 : DType::I64;
  copy.width = bytes ? 1 : 8;
  copy.data = context.scratch(static_cast<std::uint64_t>(view.count) * copy.width);
  if (bytes) {
    const std::uint8_t flip = dtype_kind(view.dtype) == DTypeKind::Signed ? 0x80 : 0;
    for (std::int64_t i = 0; i < view.count; ++i)
      copy.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(view.as<const std::uint8_t>()[i] ^ flip);
    return copy;
  }
  const std::int64_t flip = view.dtype == DType::U64 ? std::numeric_limits<std::int64_t>::min() : 0;
  load_integers(view, 0, 1, view.count, copy.as<std::int64_t>());
  for (std::int64_t i = 0; flip != 0 && i < view.count; ++i) copy.as<std::int64_t>()[i] ^= flip;
  return copy;
}

// The positions of the best of some neighbouring rows: `at` counts along the rows. NaN is better than any number,
// whichever way the comparison goes.
constexpr std::int64_t kRowsTogether = 64;
template <bool largest, bool last, class T>
void best_of_rows(Poll &poll, const T *x, std::int64_t extent, std::int64_t step, std::int64_t count, T *best,
                  std::int32_t *at) {
  for (std::int64_t j = 0; j < count; ++j) best[j] = x[j], at[j] = 0;
  for (std::int64_t i = 1; i < extent && !poll.stopped(count); ++i) {
    const T *const from = x + i * step;
    const auto position = static_cast<std::int32_t>(i);
    for (std::int64_t j = 0; j < count; ++j) {  // without branches
      const T a = last ? best[j] : from[j], b = last ? from[j] : best[j], value = from[j];
      const bool better = (largest ? a > b : a < b) | ((a != a) & (b == b)), take = better != last;
      best[j] = take ? value : best[j];
      at[j] = take ? position : at[j];
    }
  }
}
// One row of neighbouring elements: its elements as a few rows side by side, of whose best the first (or last) is
// taken.
template <bool largest, bool last, class T>
std::int64_t best_of_row(Poll &poll, const T *x, std::int64_t extent) {
  constexpr std::int64_t kWide = 16;
  T best[kWide];
  std::int32_t at[kWide];
  const std::int64_t length = extent / kWide;
  std::int64_t found = 0, i = 0;
  T champion = x[0];
  const auto offer = [&](T value, std::int64_t index) {
    const auto better = [](T a, T b) { return (largest ? a > b : a < b) | ((a != a) & (b == b)); };
    const bool equal = !better(value, champion) && !better(champion, value);
    if (better(value, champion) || (equal && (last ? index > found : index < found))) champion = value, found = index;
  };
  if (length > 1) {
    best_of_rows<largest, last>(poll, x, length, kWide, kWide, best, at);
    for (std::int64_t k = 0; k < kWide; ++k) offer(best[k], at[k] * kWide + k);
    i = length * kWide;
  }
  for (; i < extent; ++i) offer(x[i], i);
  return found;
}

// The positions of the best of all rows.
template <class T, bool largest, bool last>
void best_of(const Context &context, const void *data, const AxisRows &rows, std::int64_t *to) {
  Poll poll(context);
  for (std::int64_t o = 0; o < rows.outer && !poll.stopped(rows.extent); ++o) {
    const T *const block = static_cast<const T *>(data) + o * rows.extent * rows.inner;
    if (rows.inner == 1) {
      *to++ = best_of_row<largest, last>(poll, block, rows.extent);
      continue;
    }
    T best[kRowsTogether];
    std::int32_t at[kRowsTogether];
    for (std::int64_t j = 0; j < rows.inner && !poll.stopped(kRowsTogether * rows.extent); j += kRowsTogether) {
      const std::int64_t count = std::min(kRowsTogether, rows.inner - j);
      best_of_rows<largest, last>(poll, block + j, rows.extent, rows.inner, count, best, at);
      for (std::int64_t k = 0; k < count; ++k) *to++ = at[k];
    }
  }
}

Status arg_extreme(Context &context, bool largest) {
  const View &in = *context.input(0);
  View &out = *context.output(0);
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, 0, in.rank, &axis));
  const AxisRows rows(in, axis);
  if (out.count != rows.outer * rows.inner || (out.count > 0 && rows.extent == 0) ||
      rows.extent > std::numeric_limits<std::int32_t>::max()) {
    return qir::node_error(context.node(), ErrorId::run_value, "axis %zu of %s has nothing to choose from", axis,
                           shape_text(in.dims, in.rank));
  }
  if (out.count == 0) return {};
  if (!is_loadable(in.dtype)) return type_error(context, in.dtype);
  const bool last = context.node().get_int("select_last_index", 0) != 0;
  const View ordered = as_ordered(context, in);
  dispatch_ordered(ordered.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto best = largest ? last ? best_of<T, true, true> : best_of<T, true, false>
                      : last ? best_of<T, false, true>
                              : best_of<T, false, false>;
    best(context, ordered.data, rows, out.as<std::int64_t>());
  });
  return {};
}

// Running sums (or products) of each row; integers wrap around, floats accumulate in double.
template <class T, bool products>
void cumulate_rows(const Context &context, const void *data, void *made, const AxisRows &rows, bool exclusive,
                   bool reverse) {
  Poll poll(context);
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  const T *const from = static_cast<const T *>(data);
  T *const to = static_cast<T *>(made);
  for (std::int64_t o = 0; o < rows.outer; ++o) {
    for (std::int64_t j = 0; j < rows.inner && !poll.stopped(1); ++j) {
      Sum sum = products ? 1 : 0;
      std::int64_t at = (o * rows.extent + (reverse ? rows.extent - 1 : 0)) * rows.inner + j;
      const std::int64_t step = reverse ? -rows.inner : rows.inner;
      const auto run = [&](auto excludes) {
        for (std::int64_t i = 0; i < rows.extent && !poll.stopped(1); ++i, at += step) {
          const auto given = static_cast<Sum>(from[at]);
          const Sum next = products ? multiply(sum, given) : add(sum, given);
          to[at] = static_cast<T>(decltype(excludes)::value ? sum : next);
          sum = next;
        }
      };
      if (exclusive) run(std::true_type());
      else run(std::false_type());
    }
  }
}

template <bool products>
Status cumulate(Context &context) {
  const View &in = *context.input(0);
  View &out = *context.output(0);
  std::int64_t given;
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(read_integer(context, 1, 0, &given));
  if (in.rank > 0) QR_RETURN_IF_ERROR(qir::resolve_axis(context.node(), given, in.rank, &axis));
  const bool exclusive = context.node().get_int("exclusive", 0) != 0,
             reverse = context.node().get_int("reverse", 0) != 0;
  View whole = in;  // a scalar is a row of one
  if (in.rank == 0) whole.rank = 1, whole.dims[0] = 1;
  const AxisRows rows(whole, axis);
  const bool known = dispatch<float, double, std::uint32_t, std::uint64_t>(unsigned_of(in.dtype), [&](auto tag) {
    cumulate_rows<decltype(tag), products>(context, in.data, out.data, rows, exclusive, reverse);
  });
  return known ? Status() : type_error(context, in.dtype);
}

}  // namespace

Status kernel_arg_max(Context &context) { return arg_extreme(context, true); }
Status kernel_arg_min(Context &context) { return arg_extreme(context, false); }

Status kernel_cum_sum(Context &context) { return cumulate<false>(context); }
Status kernel_cum_prod(Context &context) { return cumulate<true>(context); }

}  // namespace quarry::reference
