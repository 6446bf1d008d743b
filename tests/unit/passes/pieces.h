// SPDX-License-Identifier: Apache-2.0
// Graphs for the tests of passes, written as the formulas that they are; and what cpu-reference gives for them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "backends/cpu-reference/interpreter.h"
#include "graph/ops/quantization.h"
#include "passes/fuse/compose.h"
#include "passes/passes.h"
#include "tests/support/check.h"

namespace quarry::test {

using i32 = std::int32_t;
using Ints = Vector<std::int64_t>;
using qir::Op;

// Shapes are inferred. Nodes are numbered (Node::source) as they are added.
class Pieces {
 public:
  qir::Graph graph;
  qir::Store store;

  Pieces() { graph.name = "test"; }

  i32 tensor(DType dtype, qir::Shape shape) {
    qir::Tensor &made = graph.tensors.emplace_back();
    made.name = format("t%zu", graph.tensors.size());
    made.dtype = dtype;
    made.shape = std::move(shape);
    return static_cast<i32>(graph.tensors.size() - 1);
  }
  i32 input(qir::Shape shape, DType dtype = DType::F32) {
    return graph.inputs.emplace_back(tensor(dtype, std::move(shape)));
  }
  template <class T>
  i32 constant(DType dtype, qir::Shape shape, const std::vector<T> &values) {
    const i32 made = tensor(dtype, std::move(shape));
    at(made).is_constant = true;
    at(made).data = store.copy(values.data(), values.size() * sizeof(T));
    return made;
  }
  i32 scalar(float value) { return constant<float>(DType::F32, {}, {value}); }
  i32 integers(const std::vector<std::int64_t> &values) {
    return constant(DType::I64, {static_cast<std::int64_t>(values.size())}, values);
  }
  // Numbers between 0.5 and 1.5, each another.
  i32 column(std::int64_t count, qir::Shape shape = {}) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(0.5f + static_cast<float>(i * 7 % count) / static_cast<float>(count));
    return constant(DType::F32, shape.empty() ? qir::Shape{count} : std::move(shape), values);
  }
  // Gives the first of the outputs.
  i32 node(Op op, Vector<i32> inputs, const Vector<qir::Attribute> &attributes = {}, std::size_t outputs = 1) {
    qir::Node &made = graph.nodes.emplace_back();
    made.op = op;
    made.name = format("%s%zu", qir::op_name(op), graph.nodes.size());
    made.source = static_cast<i32>(graph.nodes.size() - 1);
    made.inputs = std::move(inputs);
    made.attributes = attributes;
    Vector<qir::InferValue> values;
    for (const i32 id : made.inputs) {
      qir::InferValue &value = values.emplace_back();
      if (id != qir::kAbsent)
        value = {true, at(id).dtype, at(id).shape, &at(id).quant, at(id).is_constant ? at(id).data : qir::Bytes{}};
    }
    Vector<qir::InferType> types(outputs);
    const auto first = static_cast<i32>(graph.tensors.size());
    for (std::size_t i = 0; i < outputs; ++i) made.outputs.push_back(first + static_cast<i32>(i));
    REQUIRE_OK(qir::infer_node(made, values, types));
    for (const qir::InferType &type : types) tensor(type.dtype, type.shape);
    return first;
  }
  template <class T>
  static qir::Attribute attribute(std::string_view name, T value) {
    qir::Node node;
    node.set(name, value);
    return node.attributes[0];
  }
  // The tensor gets a quantised type.
  i32 quantized(i32 id, DType dtype, Vector<float> scales, Vector<i32> zero_points, i32 axis = 0) {
    at(id).dtype = dtype;
    at(id).quant = qir::Quantization{std::move(scales), std::move(zero_points), axis, 0};
    return id;
  }

  i32 add(i32 a, i32 b) { return node(Op::Add, {a, b}); }
  i32 sub(i32 a, i32 b) { return node(Op::Sub, {a, b}); }
  i32 mul(i32 a, i32 b) { return node(Op::Mul, {a, b}); }
  i32 div(i32 a, i32 b) { return node(Op::Div, {a, b}); }
  // With a number: 1.0, for 1 is a tensor.
  i32 add(i32 a, double b) { return add(a, scalar(static_cast<float>(b))); }
  i32 mul(i32 a, double b) { return mul(a, scalar(static_cast<float>(b))); }
  i32 div(i32 a, double b) { return div(a, scalar(static_cast<float>(b))); }
  i32 pow(i32 a, double b) { return node(Op::Pow, {a, scalar(static_cast<float>(b))}); }
  i32 of(Op op, i32 a) { return node(op, {a}); }
  i32 clip(i32 a, double low, double high) {
    return node(Op::Clip, {a, scalar(static_cast<float>(low)), scalar(static_cast<float>(high))});
  }
  i32 mean(i32 a, std::int64_t axis = -1, std::int64_t keepdims = 1) {
    return node(Op::ReduceMean, {a, integers({axis})}, {attribute("keepdims", keepdims)});
  }
  i32 transpose(i32 a, Ints perm) { return node(Op::Transpose, {a}, {attribute("perm", std::move(perm))}); }

  qir::Tensor &at(i32 id) { return graph.tensors[index_of(id)]; }
  Pieces &gives(std::initializer_list<i32> outputs) {
    graph.outputs.assign(outputs);
    return *this;
  }
};

inline std::size_t count(const qir::Graph &graph, Op op) {
  return static_cast<std::size_t>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const qir::Node &node) { return node.op == op; }));
}

// "Mul Add", in order.
inline std::string ops(const qir::Graph &graph) {
  std::string text;
  for (const qir::Node &node : graph.nodes) (text += text.empty() ? "" : " ") += qir::op_name(node.op);
  return text;
}

inline qir::Attribute number(const char *name, std::int64_t value) { return Pieces::attribute(name, value); }

// The first output as cpu-reference gives it: reals as they are, stored integers as numbers. Inputs are numbers of
// [-4, 4], or the whole range of an integer type, the same for graphs with the same inputs.
std::vector<double> run(const qir::Graph &graph);
// The largest difference of two results, as a part of the largest number among them.
double difference(const std::vector<double> &a, const std::vector<double> &b);

}  // namespace quarry::test
