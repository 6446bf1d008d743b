// SPDX-License-Identifier: Apache-2.0
// A tensor as it lies in memory: dimensions in ONNX's order, and a stride for each. Layouts are strides: an image that
// is channels-last has stride 1 along dimension 1. Transposes, slices, splits, reshapes and expansions are made here,
// without a step, wherever strides can say it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/alloc.h"

namespace quarry::strided {

using Dims = Vector<std::int64_t>;

inline constexpr std::int32_t kNoValue = -1;

struct View {
  std::int32_t value = kNoValue;  // of the plan
  std::int64_t offset = 0;        // elements
  Dims dims, strides;             // elements; 0 where a dimension is repeated

  std::size_t rank() const noexcept { return dims.size(); }
};

std::int64_t count_of(const Dims &dims) noexcept;
Dims row_major(const Dims &dims);
// Strides of a dense tensor whose dimensions lie in `order`, outermost first.
Dims dense_strides(const Dims &dims, std::span<const std::size_t> order);
// The dimensions by falling stride (of equal ones and of those of 1, in ONNX's order): how the tensor lies in memory.
Vector<std::size_t> memory_order(const View &view);

bool is_row_major(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides) noexcept;
bool is_row_major(const View &view) noexcept;  // dense, in ONNX's order
bool is_dense(const View &view) noexcept;      // dense in some order, nothing repeated
// Dense but for the distance between pixels: strides (h * w * s, 1, w * s, s) with s >= c. `out_pixel` gets s. Rank 3
// (n, c, w) and 4.
bool is_channels_last(const View &view, std::int64_t *out_pixel) noexcept;
Vector<std::size_t> channels_last_order(std::size_t rank);

View transposed(const View &view, std::span<const std::int64_t> perm);
// Nothing where the elements of the new shape do not lie at even distances.
std::optional<View> reshaped(const View &view, const Dims &dims);
View sliced(const View &view, std::size_t axis, std::int64_t start, std::int64_t count, std::int64_t step = 1);
View without(const View &view, std::size_t axis, std::int64_t index);  // one index of an axis, which goes
View broadcast(const View &view, const Dims &dims);                    // NumPy's rule; the caller knows that it fits

// A loop nest over several views of equal shape: dimensions of 1 go, neighbours that all can be walked as one
// are merged. The order is that of the first view's memory. False where more than `most` dimensions are left.
struct Nest {
  Dims dims;
  Vector<Dims> strides;  // per view
};
bool make_nest(std::span<const View *const> views, std::size_t most, Nest &out);

}  // namespace quarry::strided
