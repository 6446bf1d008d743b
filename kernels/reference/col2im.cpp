// SPDX-License-Identifier: Apache-2.0
// Col2Im: windows that lie in columns are added up where they belong in the image.
#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {

using qir::kMaxRank;

namespace {

// A row of positions that adds to a row of pixels: pixel x in [begin, end) gets element `at` + x.
struct AddedRow {
  std::int64_t at, begin, end;
};

// A row of pixels: what is added is summed up in the order of the rows, a few of them at a time where all of those are.
template <class T>
void sum_rows(const View &in, std::int64_t first, const AddedRow *rows, std::int64_t count, std::int64_t width,
              const View &out, std::int64_t pixel) {
  const T *__restrict const from = in.as<const T>() + first;
  T *__restrict const to = out.as<T>() + pixel;
  std::fill_n(to, width, T{});
  constexpr std::int64_t kFew = 3;
  std::int64_t r = 0;
  for (; r + kFew <= count; r += kFew) {
    const T *const a = from + rows[r].at, *const b = from + rows[r + 1].at, *const c = from + rows[r + 2].at;
    std::int64_t begin = 0, end = width;
    for (std::int64_t k = 0; k < kFew; ++k)
      begin = std::max(begin, rows[r + k].begin), end = std::min(end, rows[r + k].end);
    end = std::max(begin, end);
    for (std::int64_t x = begin; x < end; ++x) to[x] = add(add(add(to[x], a[x]), b[x]), c[x]);
    for (std::int64_t k = 0; k < kFew; ++k) {
      const T *const row = from + rows[r + k].at;
      for (std::int64_t x = rows[r + k].begin; x < std::min(begin, rows[r + k].end); ++x) to[x] = add(to[x], row[x]);
      for (std::int64_t x = std::max(end, rows[r + k].begin); x < rows[r + k].end; ++x) to[x] = add(to[x], row[x]);
    }
  }
  for (; r < count; ++r) {
    const T *const row = from + rows[r].at;
    for (std::int64_t x = rows[r].begin; x < rows[r].end; ++x) to[x] = add(to[x], row[x]);
  }
}

// What is added to row `y` of pixels, in the order of taps.
std::int64_t list_added(const qir::Window &window, const Odometer &y, AddedRow *added) {
  const std::uint32_t last = window.rank - 1;
  const std::int64_t row = window.out[last], width = window.in[last], positions = product(window.out, 0, window.rank);
  std::int64_t number = 0, count = 0;
  for (Odometer tap(window.kernel, last); !tap.done(); tap.next(), number += window.kernel[last]) {
    std::int64_t position = 0;
    bool hit = true;
    for (std::uint32_t i = 0; i < last && hit; ++i) {
      const std::int64_t x = y[i] + window.pad_begin[i] - tap[i] * window.dilation[i], step = window.stride[i];
      hit = x >= 0 && x % step == 0 && x / step < window.out[i];
      position = position * window.out[i] + x / step;
    }
    for (std::int64_t k = 0; hit && k < window.kernel[last]; ++k) {
      const std::int64_t start = k * window.dilation[last] - window.pad_begin[last];
      added[count++] = {(number + k) * positions + position * row - start, std::max<std::int64_t>(0, start),
                        std::min(width, start + row)};
    }
  }
  return count;
}

// The row of pixels that a tap of a row of positions adds to, from `start` on; nothing where it lies outside.
std::optional<std::int64_t> pixel_of(const qir::Window &window, const Odometer &position, const Odometer &tap,
                                     const std::int64_t *strides, std::int64_t start) {
  std::int64_t pixel = start;
  bool inside = true;
  for (std::uint32_t i = 0; i + 1 < window.rank; ++i) {
    const std::int64_t x = position[i] * window.stride[i] + tap[i] * window.dilation[i] - window.pad_begin[i];
    inside &= x >= 0 && x < window.in[i];
    pixel += x * strides[i];
  }
  return inside ? std::optional(pixel) : std::nullopt;
}

// Element i * step of the row of pixels gets position i.
template <class T>
void add_positions(const View &in, std::int64_t first, std::int64_t begin, std::int64_t end, const View &out,
                   std::int64_t pixel, std::int64_t step) {
  const T *const from = in.as<const T>() + first;
  T *const to = out.as<T>() + pixel;
  for (std::int64_t i = begin; i < end; ++i) to[i * step] = add(to[i * step], from[i]);
}

}  // namespace

Status kernel_col2im(Context &context) {
  const View &in = *context.input(0);
  qir::IntList image, block;
  QR_RETURN_IF_ERROR(read_list(context, 1, &image));
  QR_RETURN_IF_ERROR(read_list(context, 2, &block));
  qir::Window window;
  QR_RETURN_IF_ERROR(qir::resolve_col2im(context.node(), dims_of(in), image, block, &window));
  const std::uint32_t space = window.rank, last = space - 1;
  const std::int64_t taps = product(window.kernel, 0, space), pixels = product(window.in, 0, space),
                     row = window.out[last];
  std::int64_t dims[kMaxRank] = {in.dims[0], taps > 0 ? in.dims[1] / taps : 0}, strides[kMaxRank];
  std::copy_n(window.in, space, dims + 2);
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, space + 2, &out));
  if (out->count == 0) return {};
  std::memset(out->data, 0, out->bytes());
  dense_strides(window.in, space, strides);
  // What is added to some rows of pixels, of which each plane is then made.
  constexpr std::int64_t kRows = 32;
  auto *const rows =
      static_cast<AddedRow *>(context.scratch(static_cast<std::uint64_t>(kRows * taps) * sizeof(AddedRow)));
  decltype(sum_rows<float>) *sum = nullptr;
  decltype(add_positions<float>) *add_row = nullptr;
  // Sums of signed and unsigned integers are the same bits.
  dispatch<float, double, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool>(
      unsigned_of(in.dtype), [&](auto tag) { sum = sum_rows<decltype(tag)>, add_row = add_positions<decltype(tag)>; });
  if (!sum) return type_error(context, in.dtype);
  if (window.stride[last] == 1) {
    const std::int64_t width = window.in[last], positions = product(window.out, 0, space);
    std::int64_t pixel = 0, counts[kRows];
    for (Odometer y(window.in, last); !y.done() && !context.stopped();) {
      std::int64_t taken = 0;
      for (; taken < kRows && !y.done(); y.next(), ++taken) counts[taken] = list_added(window, y, rows + taken * taps);
      for (std::int64_t plane = 0; plane < dims[0] * dims[1]; ++plane)
        for (std::int64_t r = 0; r < taken; ++r)
          sum(in, plane * taps * positions, rows + r * taps, counts[r], width, *out,
              plane * pixels + pixel + r * width);
      pixel += taken * width;
    }
    return {};
  }
  std::int64_t from = 0;
  for (std::int64_t plane = 0; plane < dims[0] * dims[1]; ++plane) {
    for (Odometer tap(window.kernel, space); !tap.done(); tap.next()) {
      // The positions of a row that lie in the image.
      const std::int64_t start = tap[last] * window.dilation[last] - window.pad_begin[last], step = window.stride[last],
                         begin = start < 0 ? std::min(row, (step - 1 - start) / step) : 0,
                         end = start >= window.in[last]
                                   ? begin
                                   : std::max(begin, std::min(row, (window.in[last] - start + step - 1) / step));
      for (Odometer position(window.out, last); !position.done(); position.next(), from += row)
        if (const auto pixel = pixel_of(window, position, tap, strides, start))
          add_row(in, from, begin, end, *out, plane * pixels + *pixel, step);
    }
  }
  return {};
}

}  // namespace quarry::reference
