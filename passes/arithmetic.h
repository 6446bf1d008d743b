// SPDX-License-Identifier: Apache-2.0
// What a pass writes that puts many simple nodes in the place of one: products, operators on elements, moves.
#pragma once

#include "base/checked.h"
#include "base/float16.h"
#include "passes/edit.h"

namespace quarry::passes {

inline std::int64_t elements(const qir::Shape &shape) { return element_count(shape.data(), shape.size()).value_or(0); }
// Integers that half precision has all of.
inline bool is_small(DType dtype) { return dtype == DType::U8 || dtype == DType::I8; }

class Arithmetic {
 protected:
  // `dtype`: F32 or F16, of every number that is written and of every result that says no other.
  Arithmetic(Rewriting &to, const qir::Node &node, DType dtype = DType::F32) : to_(to), node_(node), dtype_(dtype) {}

  DType dtype() const { return dtype_; }
  bool wants(std::size_t output) const {
    return output < node_.outputs.size() && node_.outputs[output] != qir::kAbsent;
  }
  const qir::Shape &shape_of(std::int32_t id) const { return qir::at(to_.graph, id).shape; }

  std::int32_t fresh(const qir::Shape &shape, DType dtype) { return to_.tensor(next_name().c_str(), dtype, shape); }
  std::int32_t fresh(const qir::Shape &shape) { return fresh(shape, dtype_); }
  std::int32_t op(qir::Op what, Vector<std::int32_t> inputs, const qir::Shape &shape) {
    return op(what, std::move(inputs), shape, dtype_);
  }
  std::int32_t op(qir::Op what, Vector<std::int32_t> inputs, const qir::Shape &shape, DType dtype) {
    const std::int32_t made = fresh(shape, dtype);
    to_.emit(what, node_, std::move(inputs), made);
    return made;
  }
  // On elements.
  std::int32_t op(qir::Op what, std::int32_t a) { return op(what, {a}, qir::Shape(shape_of(a))); }
  std::int32_t op(qir::Op what, std::int32_t a, std::int32_t b) {
    const qir::Shape shape = broadcast(shape_of(a), shape_of(b));
    return op(what, {a, b}, shape);
  }
  std::int32_t compare(qir::Op what, std::int32_t a, std::int32_t b) {
    const qir::Shape shape = broadcast(shape_of(a), shape_of(b));
    return op(what, {a, b}, shape, DType::Bool);
  }
  std::int32_t integers(qir::Op what, std::int32_t a, std::int32_t b) {
    const qir::Shape shape = broadcast(shape_of(a), shape_of(b));
    return op(what, {a, b}, shape, DType::I32);
  }
  std::int32_t where(std::int32_t condition, std::int32_t yes, std::int32_t no) {
    const qir::Shape shape = broadcast(shape_of(condition), broadcast(shape_of(yes), shape_of(no)));
    return op(qir::Op::Where, {condition, yes, no}, shape);
  }
  std::int32_t matmul(std::int32_t a, std::int32_t b) {
    const qir::Shape left = shape_of(a), right = shape_of(b);
    qir::Shape shape = broadcast({left.begin(), left.end() - 2}, {right.begin(), right.end() - 2});
    shape.push_back(left[left.size() - 2]);
    shape.push_back(right.back());
    return op(qir::Op::MatMul, {a, b}, shape);
  }
  std::int32_t cast(std::int32_t id, DType dtype) {
    if (qir::at(to_.graph, id).dtype == dtype) return id;
    const std::int32_t made = op(qir::Op::Cast, {id}, qir::Shape(shape_of(id)), dtype);
    to_.graph.nodes.back().set("to", static_cast<std::int64_t>(dtype));
    return made;
  }

  // Constants. Equal numbers are one tensor.
  std::int32_t number(float value) {
    const auto found = numbers_.find(value);
    if (found != numbers_.end()) return found->second;
    const std::int32_t made = floats({}, std::span(&value, 1));
    numbers_.emplace(value, made);
    return made;
  }
  std::int32_t floats(const qir::Shape &shape, std::span<const float> values) {
    if (dtype_ == DType::F32) return constant(shape, values.data(), values.size_bytes(), dtype_);
    Vector<std::uint16_t> halves;
    for (const float value : values) halves.push_back(f32_to_f16(value));
    return constant(shape, halves.data(), halves.size() * 2, dtype_);
  }
  std::int32_t constant(const qir::Shape &shape, const void *data, std::uint64_t bytes, DType dtype) {
    const std::int32_t made = fresh(shape, dtype);
    qir::at(to_.graph, made).is_constant = true;
    qir::at(to_.graph, made).data = to_.store.copy(data, bytes);
    return made;
  }
  std::int32_t ints(std::span<const std::int64_t> values) { return to_.integers(next_name().c_str(), values); }
  std::int32_t ints(std::initializer_list<std::int64_t> values) { return ints({values.begin(), values.size()}); }

  // Moves.
  std::int32_t reshape(std::int32_t id, const qir::Shape &shape) {
    if (shape_of(id) == shape) return id;
    return op(qir::Op::Reshape, {id, ints(shape)}, shape, qir::at(to_.graph, id).dtype);
  }
  std::int32_t transpose(std::int32_t id, Vector<std::int64_t> perm) {
    qir::Shape shape;
    for (const std::int64_t axis : perm) shape.push_back(shape_of(id)[index_of(axis)]);
    const std::int32_t made = op(qir::Op::Transpose, {id}, shape, qir::at(to_.graph, id).dtype);
    to_.graph.nodes.back().set("perm", std::move(perm));
    return made;
  }
  std::int32_t slice(std::int32_t id, std::int64_t axis, std::int64_t from, std::int64_t to) {
    qir::Shape shape = shape_of(id);
    if (from == 0 && to == shape[index_of(axis)]) return id;
    shape[index_of(axis)] = to - from;
    const std::int32_t starts = ints({from}), ends = ints({to}), axes = ints({axis});
    return op(qir::Op::Slice, {id, starts, ends, axes}, shape, qir::at(to_.graph, id).dtype);
  }
  std::int32_t concat(Vector<std::int32_t> parts, std::int64_t axis) {
    if (parts.size() == 1) return parts[0];
    qir::Shape shape = shape_of(parts[0]);
    std::int64_t &extent = shape[index_of(axis)] = 0;
    for (const std::int32_t part : parts) extent += shape_of(part)[index_of(axis)];
    const std::int32_t made = op(qir::Op::Concat, std::move(parts), shape);
    to_.graph.nodes.back().set("axis", axis);
    return made;
  }
  Vector<std::int32_t> split(std::int32_t id, std::int64_t axis, std::int64_t parts) {
    if (parts == 1) return {id};
    qir::Shape shape = shape_of(id);
    shape[index_of(axis)] /= parts;
    Vector<std::int32_t> made;
    for (std::int64_t i = 0; i < parts; ++i) made.push_back(fresh(shape));
    const Vector<std::int64_t> sizes(static_cast<std::size_t>(parts), shape[index_of(axis)]);
    qir::Node &written = to_.emit(qir::Op::Split, node_, {id, ints(sizes)}, made[0]);
    written.outputs = made;
    written.set("axis", axis);
    return made;
  }
  // The tensor as an output of the node.
  void give(std::size_t output, std::int32_t id) {
    if (wants(output)) to_.emit(qir::Op::Identity, node_, {id}, node_.outputs[output]);
  }

  Rewriting &to_;
  const qir::Node &node_;

 private:
  String next_name() { return node_.name + format("/%d", ++count_).c_str(); }
  static qir::Shape broadcast(const qir::Shape &a, const qir::Shape &b) {
    qir::Shape made = a.size() >= b.size() ? a : b;
    const qir::Shape &other = a.size() >= b.size() ? b : a;
    for (std::size_t i = 0; i < other.size(); ++i)
      if (std::int64_t &extent = made[made.size() - other.size() + i]; extent == 1) extent = other[i];
    return made;
  }

  const DType dtype_;
  int count_ = 0;
  OrderedMap<float, std::int32_t> numbers_;
};

}  // namespace quarry::passes
