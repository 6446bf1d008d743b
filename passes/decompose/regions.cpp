// SPDX-License-Identifier: Apache-2.0
// MaxRoiPool: for each row of bins the largest element of the rows that it reaches over, and of these for each column
// of bins that of the columns. Which they are is said by integers, of regions that are rounded to whole elements.
#include <limits>

#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::Op;

namespace {

// Numbers that one of the steps may have together.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 24, kMostBins = 64;

class MaxRoiPool {
 public:
  explicit MaxRoiPool(Decomposer &s)
      : s_(s), dtype_(s.in(0).dtype), in_(s.in(0).shape), out_(s.out().shape), regions_(s.in(1).shape[0]) {}

  bool run() {
    if (out_[2] > kMostBins || out_[3] > kMostBins || regions_ > kMostNumbers / (in_[1] * in_[2] * in_[3]))
      return false;
    const Edges rows = edges(2, 4), columns = edges(1, 3);
    std::int32_t x = images();
    std::int32_t full[2];
    x = reduced(x, 2, rows, full[0]);
    x = reduced(x, 3, columns, full[1]);
    const std::int32_t is_full = s_.of(Op::And, {full[0], full[1]}, DType::Bool, {regions_, 1, out_[2], out_[3]});
    s_.give(Op::Where, {is_full, x, s_.number(dtype_, 0)});
    return true;
  }

 private:
  // Where a region begins along an axis, and how many elements it has there: [regions, 1, 1, 1].
  struct Edges {
    std::int32_t begin, extent;
  };

  // To the nearest whole number, of two the one further from 0.
  std::int32_t edge(std::int64_t place) {
    const qir::Shape shape{regions_, 1, 1, 1};
    const std::int32_t at = s_.reshape(s_.slice(s_.node().inputs[1], 1, place, place + 1, 1), shape);
    const std::int32_t scaled = s_.with(Op::Mul, at, static_cast<double>(s_.node().get_float("spatial_scale", 1)));
    const std::int32_t nearest = s_.of(Op::Round, {scaled}), sign = s_.of(Op::Sign, {scaled});
    const std::int32_t rest = s_.of(Op::Mul, {s_.of(Op::Sub, {scaled, nearest}), sign});
    const std::int32_t is_half = s_.of(Op::Equal, {rest, s_.number(dtype_, 0.5)}, DType::Bool, shape);
    const std::int32_t chosen = s_.of(Op::Where, {is_half, s_.of(Op::Add, {nearest, sign}), nearest}, dtype_, shape);
    return s_.cast(chosen, DType::I32);
  }
  Edges edges(std::int64_t first, std::int64_t last) {
    const std::int32_t begin = edge(first), end = edge(last);
    return {begin, s_.with(Op::Max, s_.with(Op::Add, s_.of(Op::Sub, {end, begin}), 1), 1)};
  }

  // The image of each region.
  std::int32_t images() {
    if (in_[0] == 1) return s_.node().inputs[0];
    const std::int32_t which = s_.cast(s_.reshape(s_.slice(s_.node().inputs[1], 1, 0, 1, 1), {regions_}), DType::I32);
    const std::int32_t made =
        s_.of(Op::Gather, {s_.node().inputs[0], which}, dtype_, {regions_, in_[1], in_[2], in_[3]});
    s_.last_made().set("axis", std::int64_t{0});
    return made;
  }

  // Bins along an axis; `full`: whether they have an element.
  std::int32_t reduced(std::int32_t x, std::size_t axis, const Edges &edges, std::int32_t &full) {
    const std::int64_t extent = in_[axis], bins = out_[axis];
    qir::Shape along{1, 1, 1, 1}, mask{regions_, 1, 1, 1}, wide = s_.tensor(x).shape;
    along[axis] = mask[axis] = extent, wide[0] = regions_;
    Vector<std::int32_t> indices;
    for (std::int64_t i = 0; i < extent; ++i) indices.push_back(static_cast<std::int32_t>(i));
    const std::int32_t at = s_.constant(along, indices.data(), indices.size() * sizeof(std::int32_t), DType::I32);
    // A bin reaches from floor(i * e / n) up to ceil((i + 1) * e / n), which the element before it does not.
    const std::int32_t inside = s_.of(Op::Sub, {at, edges.begin}, DType::I32, mask);
    const std::int32_t ends = s_.with(Op::Mul, inside, static_cast<double>(bins)),
                       next = s_.with(Op::Add, ends, static_cast<double>(bins));
    Vector<std::int32_t> parts, has;
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      const std::int32_t begin = s_.with(Op::Mul, edges.extent, static_cast<double>(bin)),
                         end = s_.with(Op::Mul, edges.extent, static_cast<double>(bin + 1));
      const std::int32_t is_in =
          s_.of(Op::And,
                {s_.of(Op::Greater, {next, begin}, DType::Bool, mask), s_.of(Op::Less, {ends, end}, DType::Bool, mask)},
                DType::Bool, mask);
      const double least = dtype_ == DType::F16 ? -65504 : static_cast<double>(std::numeric_limits<float>::lowest());
      const std::int32_t seen = s_.of(Op::Where, {is_in, x, s_.number(dtype_, least)}, dtype_, wide);
      parts.push_back(largest(seen, axis));
      has.push_back(largest(s_.cast(is_in, dtype_), axis));
    }
    const std::int32_t count = s_.concat(std::move(has), static_cast<std::int64_t>(axis));
    full = s_.of(Op::Greater, {count, s_.number(dtype_, 0.5)}, DType::Bool, s_.tensor(count).shape);
    return s_.concat(std::move(parts), static_cast<std::int64_t>(axis));
  }
  std::int32_t largest(std::int32_t x, std::size_t axis) {
    qir::Shape shape = s_.tensor(x).shape;
    shape[axis] = 1;
    const std::int64_t axes[] = {static_cast<std::int64_t>(axis)};
    const std::int32_t made = s_.of(Op::ReduceMax, {x, s_.integers(axes)}, dtype_, shape);
    s_.last_made().set("keepdims", std::int64_t{1});
    return made;
  }

  Decomposer &s_;
  const DType dtype_;
  const qir::Shape in_, out_;
  const std::int64_t regions_;
};

}  // namespace

bool decompose_regions(Decomposer &s) {
  if (s.node().op != Op::MaxRoiPool) return false;
  const DType dtype = s.in(0).dtype;
  if (s.in(0).quant || (dtype != DType::F32 && dtype != DType::F16) || s.in(1).dtype != dtype ||
      s.in(0).shape.size() != 4 || s.in(1).shape.size() != 2 || elements(s.out().shape) == 0)
    return false;
  return MaxRoiPool(s).run();
}

}  // namespace quarry::passes
