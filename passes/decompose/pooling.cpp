// SPDX-License-Identifier: Apache-2.0
// Pools of powers by averages; and MaxPool by slices: of each place of the window the elements that it sees, and the
// larger ones of them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/real/real.h"
#include "graph/infer/infer.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::Op;

namespace {

constexpr std::int64_t kMostPlaces = 64;  // of a window whose indices are asked for

class MaxPool {
 public:
  MaxPool(Decomposer &s, const qir::Window &w)
      : s_(s), w_(w), dtype_(s.in(0).dtype), first_(w.rank == 3 ? 1 : 2), in_(s.in(0).shape), out_(s.out().shape) {
    if (first_ == 2) return;
    for (qir::Shape *const shape : {&in_, &out_}) {  // channels as images: of five axes devices have no maximum
      (*shape)[1] *= (*shape)[0];
      shape->erase(shape->begin());
    }
  }

  // Axis by axis.
  void run() {
    std::int32_t x = padded();
    for (std::uint32_t axis = 0; axis < w_.rank; ++axis) {
      std::int32_t largest = qir::kAbsent;
      for (std::int64_t k = 0; k < w_.kernel[axis]; ++k) {
        const std::int32_t seen = places(x, axis, k);
        largest = k == 0 ? seen : s_.of(Op::Max, {largest, seen});
      }
      x = largest;
    }
    s_.give(Op::Identity, {s_.reshape(x, s_.out().shape)});
  }

  // With the place of the first of the largest ones in the whole input.
  void run_with_indices() {
    const std::int32_t x = padded();
    const qir::Shape full = out_;
    std::int32_t largest = qir::kAbsent, index = qir::kAbsent;
    std::int64_t count = 1;
    for (std::uint32_t axis = 0; axis < w_.rank; ++axis) count *= w_.kernel[axis];
    for (std::int64_t place = 0; place < count; ++place) {
      std::int64_t at[qir::kMaxSpatial] = {}, rest = place;
      for (std::uint32_t axis = w_.rank; axis-- > 0;) at[axis] = rest % w_.kernel[axis], rest /= w_.kernel[axis];
      std::int32_t seen = x;
      for (std::uint32_t axis = 0; axis < w_.rank; ++axis) seen = places(seen, axis, at[axis]);
      const std::int32_t from = indices(at);
      if (place == 0) {
        largest = seen;
        index = s_.of(Op::Expand, {from, s_.integers(full)}, DType::I64, full);
        continue;
      }
      const std::int32_t larger = s_.of(Op::Greater, {seen, largest}, DType::Bool, full);
      index = s_.of(Op::Where, {larger, from, index}, DType::I64, full);
      largest = s_.of(Op::Max, {largest, seen});
    }
    const qir::Shape given = s_.out().shape;
    s_.give(Op::Identity, {s_.reshape(largest, given)});
    const std::int32_t whole = s_.of(Op::Add, {index, planes()});
    s_.emit(Op::Identity, {s_.reshape(whole, given)}, s_.node().outputs[1]);
  }

 private:
  std::int64_t beyond(std::uint32_t axis) const {
    const std::int64_t reach = (w_.out[axis] - 1) * w_.stride[axis] + (w_.kernel[axis] - 1) * w_.dilation[axis] + 1;
    return std::max<std::int64_t>(reach - w_.in[axis] - w_.pad_begin[axis], 0);
  }
  std::int32_t padded() {
    const std::int32_t x = s_.reshape(s_.node().inputs[0], in_);
    qir::Shape shape = in_;
    Vector<std::int64_t> amounts(2 * shape.size());
    bool any = false;
    for (std::uint32_t axis = 0; axis < w_.rank; ++axis) {
      amounts[axis + first_] = w_.pad_begin[axis], amounts[shape.size() + axis + first_] = beyond(axis);
      shape[axis + first_] += w_.pad_begin[axis] + beyond(axis);
      any |= shape[axis + first_] != w_.in[axis];
    }
    if (!any) return x;
    const double least = dtype_ == DType::F16 ? -65504 : static_cast<double>(std::numeric_limits<float>::lowest());
    const std::int32_t pads = s_.integers(amounts);
    return s_.of(Op::Pad, {x, pads, s_.number(dtype_, least)}, dtype_, shape);
  }
  // What the windows have at one of their places along an axis.
  std::int32_t places(std::int32_t x, std::uint32_t axis, std::int64_t k) {
    const std::int64_t from = k * w_.dilation[axis], end = from + (w_.out[axis] - 1) * w_.stride[axis] + 1;
    return s_.slice(x, axis + first_, from, end, w_.stride[axis]);
  }
  // How far apart two elements of an axis are, counting rows or columns first.
  std::int64_t distance(std::uint32_t axis) const {
    std::int64_t product = 1;
    const bool columns = s_.node().get_int("storage_order", 0) != 0;
    for (std::uint32_t other = 0; other < w_.rank; ++other)
      if (columns ? other < axis : other > axis) product *= w_.in[other];
    return product;
  }
  std::int32_t indices(const std::int64_t *at) {
    qir::Shape shape(w_.rank + first_, 1);
    std::int64_t count = 1;
    for (std::uint32_t axis = 0; axis < w_.rank; ++axis) shape[axis + first_] = w_.out[axis], count *= w_.out[axis];
    Vector<std::int64_t> values;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t value = 0, rest = i;
      for (std::uint32_t axis = w_.rank; axis-- > 0;) {
        const std::int64_t o = rest % w_.out[axis];
        rest /= w_.out[axis];
        value += (o * w_.stride[axis] - w_.pad_begin[axis] + at[axis] * w_.dilation[axis]) * distance(axis);
      }
      values.push_back(value);
    }
    return s_.integers(shape, values);
  }
  // Where each channel begins.
  std::int32_t planes() {
    qir::Shape shape(in_.size(), 1);
    std::int64_t plane = 1, count = 1;
    for (std::size_t i = 0; i < first_; ++i) shape[i] = in_[i], count *= in_[i];
    for (std::uint32_t axis = 0; axis < w_.rank; ++axis) plane *= w_.in[axis];
    Vector<std::int64_t> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(i * plane);
    return s_.integers(shape, values);
  }

  Decomposer &s_;
  const qir::Window w_;
  const DType dtype_;
  const std::size_t first_;  // of the axes that windows have
  qir::Shape in_, out_;
};

}  // namespace

namespace {

// The root of a mean, which has room in f16 where a sum has none, times that of the window's elements.
bool lp_pool(Decomposer &s) {
  const qir::Node &node = s.node();
  const std::int64_t p = node.get_int("p", 2);
  const Vector<std::int64_t> *const kernel = node.get_ints("kernel_shape");
  if (s.in(0).quant || (s.in(0).dtype != DType::F32 && s.in(0).dtype != DType::F16) || p < 1 || p > 4 || !kernel ||
      node.get_int("ceil_mode", 0) != 0)
    return false;
  const std::int32_t x = p % 2 == 0 ? node.inputs[0] : s.of(Op::Abs, {node.inputs[0]});
  const std::int32_t square = p == 1 ? x : s.of(Op::Mul, {x, x});
  const std::int32_t power = p < 3 ? square : s.of(Op::Mul, {square, p == 3 ? x : square});
  const qir::Tensor out = s.out();
  std::int32_t mean = s.of(Op::AveragePool, {power}, out.dtype, out.shape);
  for (const qir::Attribute &attribute : node.attributes)
    if (attribute.name != "p") s.last_made().attributes.push_back(attribute);
  s.last_made().set("count_include_pad", std::int64_t{1});
  if (p % 2 == 0) mean = s.of(Op::Sqrt, {mean});
  if (p == 4) mean = s.of(Op::Sqrt, {mean});
  if (p == 3) mean = s.with(Op::Pow, mean, 1.0 / 3);
  double count = 1;
  for (const std::int64_t extent : *kernel) count *= static_cast<double>(extent);
  s.give(Op::Mul, {mean, s.number(out.dtype, real::pow(count, 1 / static_cast<double>(p)))});
  return true;
}

}  // namespace

bool decompose_pools(Decomposer &s) {
  const qir::Node &node = s.node();
  if (node.op == Op::LpPool) return lp_pool(s);
  if (node.op != Op::MaxPool || s.in(0).quant || (s.in(0).dtype != DType::F32 && s.in(0).dtype != DType::F16))
    return false;
  qir::Window w;
  if (!qir::resolve_pool(node, s.in(0).shape, &w).ok() || w.rank == 0) return false;
  const bool indices = node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent;
  std::int64_t most = 1;
  for (std::uint32_t axis = 0; axis < w.rank; ++axis) {
    if (w.out[axis] < 1 || w.kernel[axis] < 1 || w.kernel[axis] > kMostPlaces) return false;
    most *= w.kernel[axis];
    if (indices && most > kMostPlaces) return false;
  }
  if (indices) MaxPool(s, w).run_with_indices();
  else MaxPool(s, w).run();
  return true;
}

}  // namespace quarry::passes
