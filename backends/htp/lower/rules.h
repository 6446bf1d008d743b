// SPDX-License-Identifier: Apache-2.0
// The rules of operators.inc, one file a family, and what they share. A rule refuses before it writes: after its first
// node or tensor it cannot fail any more.
#pragma once

#include "backends/htp/lower/lowering.h"
#include "graph/infer/infer.h"

namespace quarry::htp::rules {

#define QR_HTP_OP(op, rule, types, refuses) Status rule(Lowering &l, const qir::Node &node);
#include "backends/htp/lower/operators.inc"
#undef QR_HTP_OP

// The order in which an operator on elements gives its result: that of the largest operand which is not a constant.
Order common_order(Lowering &l, const qir::Node &node);
// An axis attribute, from 0.
inline std::size_t axis_of(const qir::Node &node, const char *name, std::int64_t fallback, std::size_t rank) {
  const std::int64_t axis = node.get_int(name, fallback);
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}
// An f32 constant of one element, however it is shaped; nothing otherwise.
std::optional<float> scalar_of(const Lowering &l, std::int32_t id);
// One number as an operand beside a tensor: in its type, quantised where that is.
std::int32_t scalar_like(Lowering &l, std::int32_t like, const char *name, float value);
// Indices from 0, of data that has these dimensions (indexing.cpp). A refusal comes before anything is written.
Result<std::int32_t> indices_of(Lowering &l, const qir::Node &node, std::size_t input,
                                std::span<const std::int64_t> extents);
// [N, space..., C]: padding that reaches over a whole window becomes a Pad of its own, and the window has none: the
// library computes something else for such padding. `lowest`: of the least number, not of 0.
std::int32_t padded_apart(Lowering &l, std::int32_t x, qir::Window &window, bool lowest = false);
// Padding for which the library's average gives wrong numbers, or crashes. `counts`: padding counts.
bool has_odd_edges(const qir::Window &w, bool counts);
// Of an axis with one position: which elements it sees, and which of the kernel see them. The library is wrong of some
// that are padded or dilated (of images of one column or one channel, of several batches): without either they are
// whole windows. (contraction.cpp)
struct OnePosition {
  std::int64_t from = 0, step = 1, first = 0, count = 0;  // count 0: the axis is left as it is
};
OnePosition take_one_position(qir::Window &w, std::uint32_t i);
bool is_column_of(const qir::Window &w);
void lay_column(qir::Window &w);
// Of a result that is one column of one channel the library gives other elements, or zeros, where rows are padded; of
// one row it does not: rows and columns are exchanged.
bool wants_turn(const qir::Window &w, std::int64_t channels);
void turn(qir::Window &w);
// Weights [k, k, 1, C] of a depthwise convolution, of kernels as wide as the stride: the library is wrong where a
// stride leaves elements out (contraction.cpp).
std::int32_t as_wide_as_stride(Lowering &l, std::int32_t weights, qir::Window &window);
// movement.cpp: a constant of one stored number (its bits) in the type of a drafted tensor; it before and
// behind the elements of each stored axis, beside them; begin, end and step
// of each stored axis, and a bit for each that ends before its first element; the elements from `from` to `to` of one;
// one from its last element to its first.
std::int32_t filled_like(Lowering &l, std::int32_t like, const Vector<std::uint32_t> &dims, std::int32_t stored);
std::int32_t padded_by_parts(Lowering &l, std::int32_t x, const Vector<std::uint32_t> &amounts, std::int32_t stored);
void clip_nothing(Lowering &l, std::int32_t x, std::int32_t y);
void strided_slice(Lowering &l, std::int32_t x, const Vector<std::int32_t> &ranges, std::uint32_t open, std::int32_t y);
std::int32_t part_of(Lowering &l, std::int32_t x, std::size_t place, std::uint32_t from, std::uint32_t to);
// Of one axis every so many-th element.
struct Steps {
  std::int64_t from, step, count;
};
std::int32_t part_by_steps(Lowering &l, std::int32_t x, std::size_t place, const Steps &steps);
void backwards(Lowering &l, std::int32_t x, std::size_t place, std::int32_t y);
// The product along an axis, whose dimension is 1 then (statistics.cpp).
std::int32_t product_along(Lowering &l, std::int32_t x, std::size_t place);
// The logarithm of Softmax of floats along a stored axis (composed.cpp).
void log_softmax(Lowering &l, const qir::Node &node, std::int32_t x, std::uint32_t axis, std::int32_t y);
// A shape as the library has it.
Vector<std::uint32_t> unsigned_of(std::span<const std::int64_t> values);

}  // namespace quarry::htp::rules
