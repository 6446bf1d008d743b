// SPDX-License-Identifier: Apache-2.0
// Writing one operator as several: what the files of decompose_unsupported share.
#pragma once

#include "passes/arithmetic.h"

namespace quarry::passes {

class Decomposer : public Arithmetic {
 public:
  using Arithmetic::cast;
  using Arithmetic::concat;
  using Arithmetic::constant;
  using Arithmetic::floats;
  using Arithmetic::reshape;
  using Arithmetic::transpose;

  Decomposer(Rewriting &to, const qir::Node &node, DType dtype) : Arithmetic(to, node, dtype) {}

  const qir::Node &node() const { return node_; }
  Rewriting &rewriting() { return to_; }
  const qir::Tensor &tensor(std::int32_t id) const { return qir::at(to_.graph, id); }
  const qir::Tensor &in(std::size_t i) const { return tensor(node_.inputs[i]); }
  const qir::Tensor &out() const { return tensor(node_.outputs[0]); }

  // A number in a type: f32, f16, or an integer of 32 or 64 bits.
  std::int32_t number(DType dtype, double value);
  std::int32_t integers(std::span<const std::int64_t> values) { return ints(values); }
  std::int32_t integers(const qir::Shape &shape, std::span<const std::int64_t> values) {
    return constant(shape, values.data(), values.size_bytes(), DType::I64);
  }
  // With the name, type and quantisation of another tensor.
  std::int32_t constant_like(const qir::Tensor &like, const qir::Shape &shape, const void *data, std::size_t bytes);

  // A value between two nodes, of this type and shape.
  std::int32_t of(qir::Op what, Vector<std::int32_t> inputs, DType dtype, const qir::Shape &shape) {
    return op(what, std::move(inputs), shape, dtype);
  }
  // Of the type and shape of its first input.
  std::int32_t of(qir::Op what, Vector<std::int32_t> inputs) {
    const qir::Tensor first = tensor(inputs[0]);
    return of(what, std::move(inputs), first.dtype, first.shape);
  }
  std::int32_t with(qir::Op what, std::int32_t x, double number_behind) {
    return of(what, {x, number(tensor(x).dtype, number_behind)});
  }
  // The part from `from` to `end` of an axis, each `step`-th of it.
  std::int32_t slice(std::int32_t x, std::size_t axis, std::int64_t from, std::int64_t end, std::int64_t step);
  // Its attributes are the caller's to set.
  qir::Node &last_made() { return to_.graph.nodes.back(); }

  // The node that gives the operator's result.
  qir::Node &give(qir::Op what, Vector<std::int32_t> inputs) {
    return to_.emit(what, node_, std::move(inputs), node_.outputs[0]);
  }
  // Another result than the first, or a node as it should be.
  void emit(qir::Op what, Vector<std::int32_t> inputs, std::int32_t output) {
    to_.emit(what, node_, std::move(inputs), output);
  }
  void keep(qir::Node &&node) { to_.keep(std::move(node)); }
  // The result is known: numbers in its type. False: a type that they are not written in.
  bool give_constant(std::span<const float> values);
};

// Operand i as integers; an operand that is not there is none. Nothing: it is no constant of integers.
std::optional<Vector<std::int64_t>> constant_integers(const Decomposer &s, std::size_t i);

// Each node that `decompose` has a form for as others. It is asked for those of known shapes with elements, without
// quantised tensors, whose first input and output are there; a node that `stays` stays.
void decompose_nodes(qir::Graph &graph, Store &store, NodeTest stays, bool (*decompose)(Decomposer &));

// False: there is no other form for the node, and nothing was written.
bool decompose_composites(Decomposer &s);
bool decompose_elements(Decomposer &s);
bool decompose_contractions(Decomposer &s);
bool decompose_pools(Decomposer &s);
bool decompose_order(Decomposer &s);
bool decompose_integers(Decomposer &s);
bool decompose_bits(Decomposer &s);
bool decompose_regions(Decomposer &s);
bool decompose_losses(Decomposer &s);
bool decompose_movement(Decomposer &s);
bool decompose_signals(Decomposer &s);
bool decompose_float16_quantize(Decomposer &s);

}  // namespace quarry::passes
