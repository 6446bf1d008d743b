// SPDX-License-Identifier: Apache-2.0
// TopK by counting, for devices whose own gives equal values in any order: how many elements go before each one is its
// place. Pairs of elements are compared, so it is for few of them.
#include "base/checked.h"
#include "graph/edit/graph_edit.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::Op;

namespace {

constexpr std::int64_t kMostPairs = std::int64_t{1} << 18;

class Counted {
 public:
  // Integers of 8 and 16 bits are counted, and summed, as ones of 32.
  Counted(Decomposer &s, std::size_t axis, std::int64_t k)
      : s_(s), axis_(axis), k_(k), dtype_(is_small(s.in(0).dtype) ? DType::I32 : s.in(0).dtype) {}

  static bool is_small(DType dtype) noexcept {
    return dtype == DType::I8 || dtype == DType::I16 || dtype == DType::U8 || dtype == DType::U16;
  }

  void run() {
    const qir::Shape shape = s_.in(0).shape;
    const std::int64_t n = shape[axis_], rows = element_count(shape.data(), shape.size()).value_or(0) / n;
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (i != axis_) perm_.push_back(static_cast<std::int64_t>(i));
    perm_.push_back(static_cast<std::int64_t>(axis_));
    const bool moved = axis_ + 1 != shape.size();
    const std::int32_t given = dtype_ == s_.in(0).dtype ? s_.node().inputs[0] : s_.cast(s_.node().inputs[0], dtype_);
    const std::int32_t x = moved ? s_.transpose(given, perm_) : given;
    const std::int32_t each = s_.reshape(x, {rows, n, 1}), other = s_.reshape(x, {rows, 1, n});
    const bool largest = s_.node().get_int("largest", 1) != 0;
    const qir::Shape pairs = {rows, n, n};
    // Those behind go before where they are better, those in front where they are as good.
    Vector<float> in_front;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) in_front.push_back(j < i ? 1.0f : 0.0f);
    const std::int32_t better = real(s_.of(largest ? Op::Greater : Op::Less, {other, each}, DType::Bool, pairs)),
                       as_good = real(s_.of(Op::Equal, {other, each}, DType::Bool, pairs));
    const std::int32_t before = s_.of(Op::Add, {better, s_.of(Op::Mul, {as_good, s_.floats({1, n, n}, in_front)})});
    const std::int32_t place = s_.reshape(sum(before, rows, n), {rows, 1, n});
    Vector<float> places, numbers;
    for (std::int64_t i = 0; i < k_; ++i) places.push_back(static_cast<float>(i));
    for (std::int64_t i = 0; i < n; ++i) numbers.push_back(static_cast<float>(i));
    const std::int32_t is_at = s_.of(Op::Equal, {s_.floats({1, k_, 1}, places), place}, DType::Bool, {rows, k_, n});
    if (s_.node().outputs[0] != qir::kAbsent) {
      const qir::Shape full = {rows, k_, n};
      const std::int32_t chosen = s_.of(Op::Where, {is_at, other, s_.number(dtype_, 0)}, dtype_, full);
      const std::int32_t values = sum(chosen, rows, k_);
      give(dtype_ == s_.in(0).dtype ? values : s_.cast(values, s_.in(0).dtype), s_.node().outputs[0]);
    }
    if (s_.node().outputs.size() > 1 && s_.node().outputs[1] != qir::kAbsent) {
      const std::int32_t number = s_.of(Op::Mul, {real(is_at), s_.floats({1, 1, n}, numbers)});
      give(s_.cast(sum(number, rows, k_), DType::I64), s_.node().outputs[1]);
    }
  }

 private:
  std::int32_t real(std::int32_t flags) { return s_.cast(flags, dtype_ == DType::F16 ? DType::F16 : DType::F32); }
  // Over the last axis.
  std::int32_t sum(std::int32_t x, std::int64_t rows, std::int64_t columns) {
    const std::int64_t last[] = {2};
    const std::int32_t made = s_.of(Op::ReduceSum, {x, s_.integers(last)}, s_.tensor(x).dtype, {rows, columns});
    s_.last_made().set("keepdims", std::int64_t{0});
    return made;
  }
  // [rows, k] as the operator's result.
  void give(std::int32_t x, std::int32_t output) {
    qir::Shape shape;
    for (const std::int64_t axis : perm_) shape.push_back(s_.in(0).shape[index_of(axis)]);
    shape.back() = k_;
    Vector<std::int64_t> back(perm_.size());
    for (std::size_t i = 0; i < perm_.size(); ++i) back[index_of(perm_[i])] = static_cast<std::int64_t>(i);
    const std::int32_t shaped = s_.reshape(x, shape);
    s_.emit(Op::Identity, {axis_ + 1 == perm_.size() ? shaped : s_.transpose(shaped, back)}, output);
  }

  Decomposer &s_;
  const std::size_t axis_;
  const std::int64_t k_;
  const DType dtype_;
  Vector<std::int64_t> perm_;
};

}  // namespace

bool decompose_order(Decomposer &s) {
  const qir::Node &node = s.node();
  const DType dtype = s.in(0).dtype;
  if (node.op != Op::TopK || s.in(0).quant ||
      (dtype != DType::F32 && dtype != DType::F16 && dtype != DType::I32 && dtype != DType::I64 &&
       !Counted::is_small(dtype)))
    return false;
  const qir::Shape &shape = s.in(0).shape;
  const std::int64_t given = node.get_int("axis", -1), rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t axis = given < 0 ? given + rank : given;
  const std::int32_t result = node.outputs[0] != qir::kAbsent ? node.outputs[0] : node.outputs[1];
  if (axis < 0 || axis >= rank) return false;
  const std::int64_t n = shape[index_of(axis)], k = s.tensor(result).shape[index_of(axis)];
  const std::optional<std::int64_t> count = element_count(shape.data(), shape.size());
  // f16 counts to 2048.
  if (!count || *count < 1 || n > 2048 || k < 1 || k > n || *count > kMostPairs / n) return false;
  Counted(s, index_of(axis), k).run();
  return true;
}

}  // namespace quarry::passes
