// SPDX-License-Identifier: Apache-2.0
// Pools: every output position sums up the part of one channel's plane that its window covers.
#include "base/real/real.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/reals.h"

namespace quarry::reference {

namespace {

using qir::Window;

// Where a window's taps fall along one axis.
struct Span {
  std::int64_t start;        // of tap 0, may lie in the padding
  std::int64_t first, last;  // the taps [first, last) that hit the input
  std::int64_t padded;       // how many taps hit the input or its padding (ceil_mode windows may reach past both)
};

Span span_of(const Window &w, std::uint32_t axis, std::int64_t position) noexcept {
  const std::int64_t start = position * w.stride[axis] - w.pad_begin[axis], step = w.dilation[axis];
  // The number of taps below index `end`.
  const auto taps_below = [&](std::int64_t end) {
    return std::clamp<std::int64_t>((end - start + step - 1) / step, 0, w.kernel[axis]);
  };
  return {start, start < 0 ? taps_below(0) : 0, start >= w.in[axis] ? 0 : taps_below(w.in[axis]),
          start >= w.in[axis] + w.pad_end[axis] ? 0 : taps_below(w.in[axis] + w.pad_end[axis])};
}

// A window of so many taps asks whether to stop while it is summed up, after slices of so many.
constexpr std::int64_t kGiantWindow = 1 << 20, kSlice = 1 << 16;

// Calls row(index of the first element in the plane, elements between taps, taps) for every row of taps that hits the
// input, in row-major order; rows of a giant window in slices. Returns the number of taps that hit the input or its
// padding.
template <class Row>
std::int64_t for_window(const Context &context, const Window &w, const std::int64_t *position, Row &&row) {
  Span spans[qir::kMaxSpatial];
  std::int64_t outer[qir::kMaxSpatial], padded = 1, taps = 1;
  bool empty = false;
  for (std::uint32_t i = 0; i < w.rank; ++i) {
    spans[i] = span_of(w, i, position[i]);
    outer[i] = spans[i].last - spans[i].first;
    padded *= spans[i].padded;
    taps *= outer[i];
    empty = empty || outer[i] <= 0;
  }
  if (empty) return padded;
  const std::uint32_t last = w.rank - 1;
  const bool is_giant = taps >= kGiantWindow;
  const std::int64_t step = w.dilation[last], slice = is_giant ? std::min(kSlice, outer[last]) : outer[last];
  Poll poll(context);
  for (Odometer at(outer, last); !at.done(); at.next()) {
    std::int64_t index = 0;
    for (std::uint32_t i = 0; i < w.rank; ++i) {
      const std::int64_t tap = spans[i].first + (i == last ? 0 : at[i]);
      index = index * w.in[i] + spans[i].start + tap * w.dilation[i];
    }
    for (std::int64_t from = 0; from < outer[last]; from += slice) {
      row(index + from * step, step, std::min(slice, outer[last] - from));
      if (is_giant && poll.stopped(slice)) return padded;
    }
  }
  return padded;
}

// Calls body(plane, output index, position) for every output; planes are spread over the threads.
template <class Body>
void for_outputs(Context &context, const Window &w, std::int64_t planes, Body &&body) {
  const std::int64_t out_size = product(w.out, 0, w.rank), taps = product(w.kernel, 0, w.rank);
  parallel(context, planes, [&](std::int64_t plane) {
    if (context.stopped()) return;
    std::int64_t index = plane * out_size;
    Poll poll(context);
    for (Odometer at(w.out, w.rank); !at.done() && !poll.stopped(taps); at.next()) body(plane, index++, at.index());
  });
}

// Global pools are pools with one window as large as the space.
Status global_window(const Context &context, const View &x, Window *w) {
  if (x.rank < 2) {
    return qir::node_error(context.node(), ErrorId::run_value, "X is %s, expected [N,C,...]",
                           shape_text(x.dims, x.rank));
  }
  w->rank = 1;
  w->in[0] = w->kernel[0] = product(x.dims, 2, x.rank);
  w->stride[0] = w->dilation[0] = w->out[0] = 1;
  return {};
}

// pool(window, plane data, position) gives the result of one window.
template <class Pool>
Status pool_reals(Context &context, bool global, Pool &&pool) {
  const View &x = *context.input(0);
  View *y = context.output(0);
  Window w;
  QR_RETURN_IF_ERROR(global ? global_window(context, x, &w) : qir::resolve_pool(context.node(), dims_of(x), &w));
  if (!y) return {};
  const std::int64_t in_size = product(w.in, 0, w.rank);
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    for_outputs(context, w, x.dims[0] * x.dims[1],
                [&](std::int64_t plane, std::int64_t index, const std::int64_t *position) {
                  y->as<T>()[index] = static_cast<T>(pool(w, x.as<const T>() + plane * in_size, position));
                });
  });
  return known ? Status() : type_error(context, x.dtype);
}

// The mean of the taps that hit the input; `with_padding`: of those that hit the padding too, which is 0. Without any
// tap it is 0, but the global mean of nothing is NaN.
Status average(Context &context, bool global) {
  const bool with_padding = context.node().get_int("count_include_pad", 0) != 0;
  return pool_reals(context, global, [=, &context](const Window &w, const auto *plane, const std::int64_t *position) {
    double sum = 0;
    std::int64_t hits = 0;
    const std::int64_t padded =
        for_window(context, w, position, [&](std::int64_t index, std::int64_t step, std::int64_t taps) {
          for (std::int64_t i = 0; i < taps; ++i) sum += static_cast<double>(plane[index + i * step]);
          hits += taps;
        });
    const std::int64_t count = with_padding ? padded : hits;
    return count == 0 && !global ? 0.0 : sum / static_cast<double>(count);
  });
}

Status lp(Context &context, bool global) {
  const double p = static_cast<double>(context.node().get_int("p", 2));
  return pool_reals(context, global, [=, &context](const Window &w, const auto *plane, const std::int64_t *position) {
    double sum = 0;
    for_window(context, w, position, [&](std::int64_t index, std::int64_t step, std::int64_t taps) {
      for (std::int64_t i = 0; i < taps; ++i) {
        const double value = std::abs(static_cast<double>(plane[index + i * step]));
        sum += p == 1 ? value : p == 2 ? value * value : real::pow(value, p);
      }
    });
    return p == 1 ? sum : p == 2 ? std::sqrt(sum) : real::pow(sum, 1 / p);
  });
}

// The largest value under the window, the first of equals; NaN is larger than all. Without any tap it is the type's
// lowest value, at index 0. `indices` (may be nullptr) gets the position in X: counted row-major, or column-major
// within the plane.
template <class T>
void max_of_windows(Context &context, const Window &w, const View &x, T *y, std::int64_t *indices, bool column_major) {
  const std::int64_t in_size = product(w.in, 0, w.rank), out_size = product(w.out, 0, w.rank);
  const std::uint32_t last = w.rank - 1;
  const std::int64_t row = w.out[last], rows = row == 0 ? 0 : out_size / row, step = w.dilation[last];
  // What is the same for all planes is found once: the taps of the last axis, and the rows of taps of some rows of
  // windows.
  constexpr std::int64_t kListed = 1 << 16;
  std::int64_t most = 1;
  for (std::uint32_t i = 0; i < last; ++i) most *= std::min(w.kernel[i], w.in[i]);
  const std::int64_t listed = row <= kListed ? row : 0;  // of long rows each is found when it is wanted
  auto *const taps = static_cast<Span *>(context.scratch(static_cast<std::uint64_t>(listed) * sizeof(Span)));
  const std::int64_t together = std::clamp<std::int64_t>(kListed / (most + 1), 1, std::max<std::int64_t>(rows, 1));
  auto *const begins_of_rows = static_cast<std::int64_t *>(context.scratch(
      static_cast<std::uint64_t>(together) * static_cast<std::uint64_t>(most + 1) * sizeof(std::int64_t)));
  for (std::int64_t i = 0; i < listed; ++i) taps[i] = span_of(w, last, i);
  const auto list_row = [&](const Odometer &at, std::int64_t *list) {
    Span spans[qir::kMaxSpatial];
    std::int64_t counts[qir::kMaxSpatial];
    for (std::uint32_t i = 0; i < last; ++i) {
      spans[i] = span_of(w, i, at[i]);
      counts[i] = spans[i].last - spans[i].first;
    }
    *list = 0;  // how many there are, and then where they begin
    for (Odometer tap(counts, last); !tap.done(); tap.next()) {
      std::int64_t index = 0;
      for (std::uint32_t i = 0; i < last; ++i)
        index = index * w.in[i] + spans[i].start + (spans[i].first + tap[i]) * w.dilation[i];
      list[++*list] = index * w.in[last];
    }
  };
  const auto pool_rows = [&](std::int64_t plane, std::int64_t first_row, std::int64_t row_count) {
    const T *const data = x.as<const T>() + plane * in_size;
    std::int64_t index = plane * out_size + first_row * row;
    Poll asked(context);
    for (std::int64_t r = 0; r < row_count; ++r) {
      const std::int64_t *const begins = begins_of_rows + r * (most + 1), count = *begins;
      for (std::int64_t i = 0; i < row && !asked.stopped(count * w.kernel[last]); ++i, ++index) {
        const Span span = listed > 0 ? taps[i] : span_of(w, last, i);
        const std::int64_t first = span.start + span.first * step, width = span.last - span.first;
        T best = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
        std::int64_t best_at = 0;
        if (count > 0 && width > 0) best = data[best_at = begins[1] + first];
        const bool is_giant = count * width >= kGiantWindow;
        const std::int64_t slice = is_giant ? std::min(kSlice, width) : width;
        for (std::int64_t l = 1; l <= count && best == best; ++l) {
          const std::int64_t begin = begins[l] + first;
          for (std::int64_t from = 0; from < width && best == best; from += slice) {
            const std::int64_t end = std::min(width, from + slice);
            for (std::int64_t k = from; k < end; ++k) {  // no branch on which is more, which is chance
              const T value = data[begin + k * step];
              if (value != value) {
                best = value, best_at = begin + k * step;
                break;
              }
              best_at = value > best ? begin + k * step : best_at;
              best = value > best ? value : best;
            }
            if (is_giant && asked.stopped(slice)) return;
          }
        }
        y[index] = best;
        if (!indices) continue;
        if (column_major) {
          std::int64_t rest = best_at, positions[qir::kMaxSpatial];
          for (std::uint32_t a = w.rank; a-- > 0; rest /= w.in[a]) positions[a] = rest % w.in[a];
          best_at = 0;
          for (std::uint32_t a = w.rank; a-- > 0;) best_at = best_at * w.in[a] + positions[a];
        }
        indices[index] = plane * in_size + best_at;
      }
    }
  };
  Odometer at(w.out, last);
  for (std::int64_t first_row = 0; first_row < rows && !context.stopped(); first_row += together) {
    const std::int64_t row_count = std::min(together, rows - first_row);
    for (std::int64_t r = 0; r < row_count; ++r, at.next()) list_row(at, begins_of_rows + r * (most + 1));
    parallel(context, x.dims[0] * x.dims[1], [&](std::int64_t plane) {
      if (!context.stopped()) pool_rows(plane, first_row, row_count);
    });
  }
}

Status max(Context &context, bool global) {
  const View &x = *context.input(0);
  View *y = context.output(0), *indices = context.output(1);
  Window w;
  QR_RETURN_IF_ERROR(global ? global_window(context, x, &w) : qir::resolve_pool(context.node(), dims_of(x), &w));
  if (!y && !indices) return {};
  const bool known = dispatch<float, double, std::int8_t, std::uint8_t>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    T *values =
        y ? y->as<T>() : static_cast<T *>(context.scratch(static_cast<std::uint64_t>(indices->count) * sizeof(T)));
    max_of_windows<T>(context, w, x, values, indices ? indices->as<std::int64_t>() : nullptr,
                      context.node().get_int("storage_order", 0) != 0);
  });
  return known ? Status() : type_error(context, x.dtype);
}

}  // namespace

Status kernel_average_pool(Context &context) { return average(context, false); }
Status kernel_global_average_pool(Context &context) { return average(context, true); }
Status kernel_lp_pool(Context &context) { return lp(context, false); }
Status kernel_global_lp_pool(Context &context) { return lp(context, true); }
Status kernel_max_pool(Context &context) { return max(context, false); }
Status kernel_global_max_pool(Context &context) { return max(context, true); }

}  // namespace quarry::reference
