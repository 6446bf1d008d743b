// SPDX-License-Identifier: Apache-2.0
// A small network with everything that QIR can say: constants, quantisation per tensor and per channel, every kind of
// attribute, optional inputs that are absent, subgraphs. Its constants lie in the object itself.
#pragma once

#include <cstring>

#include "graph/graph.h"

namespace quarry::test {

struct SampleGraph {
  Vector<float> weights, bias;
  Vector<std::int8_t> classifier;
  Vector<std::int64_t> shape{1, 256};
  Vector<std::uint8_t> condition{1};
  qir::Graph graph;

  SampleGraph() {
    using qir::Graph;
    using qir::Node;
    using qir::Op;
    for (int i = 0; i < 4 * 9; ++i) weights.push_back(0.125f * static_cast<float>(i % 7 - 3));
    for (int i = 0; i < 4; ++i) bias.push_back(0.5f * static_cast<float>(i));
    for (int i = 0; i < 256 * 3; ++i) classifier.push_back(static_cast<std::int8_t>(i * 37));
    graph.name = "sample";
    const auto image = tensor(graph, "image", DType::F32, {1, 1, 8, 8});
    const auto w = constant(graph, "conv.weight", DType::F32, {4, 1, 3, 3}, weights.data(), weights.size() * 4);
    const auto b = constant(graph, "conv.bias", DType::F32, {4}, bias.data(), bias.size() * 4);
    const auto conv = tensor(graph, "conv_out", DType::F32, {1, 4, 8, 8});
    const auto relu = tensor(graph, "relu_out", DType::U8, {1, 4, 8, 8});
    graph.tensors[static_cast<std::size_t>(relu)].quant = qir::Quantization{{0.05f}, {3}, 0, 0};
    const auto to = constant(graph, "shape", DType::I64, {2}, shape.data(), 16);
    const auto flat = tensor(graph, "flat", DType::U8, {1, 256});
    graph.tensors[static_cast<std::size_t>(flat)].quant = qir::Quantization{{0.05f}, {3}, 0, 0};
    const auto fc = constant(graph, "fc.weight", DType::I8, {256, 3}, classifier.data(), classifier.size());
    graph.tensors[static_cast<std::size_t>(fc)].quant = qir::Quantization{{0.01f, 0.02f, 0.03f}, {0, 0, 1}, 1, 0};
    const auto logits = tensor(graph, "logits", DType::F32, {1, 3});
    const auto yes = constant(graph, "yes", DType::Bool, {}, condition.data(), 1);
    const auto chosen = tensor(graph, "chosen", DType::F32, {1, 3});
    const auto limited = tensor(graph, "limited", DType::F32, {1, 3});

    Node &n = node(graph, Op::Conv, "conv", {image, w, b}, {conv});
    n.set("kernel_shape", Vector<std::int64_t>{3, 3});
    n.set("pads", Vector<std::int64_t>{1, 1, 1, 1});
    n.set("auto_pad", std::string_view("NOTSET"));
    n.set("group", std::int64_t{1});
    node(graph, Op::Relu, "relu", {conv}, {relu});
    node(graph, Op::Reshape, "flatten", {relu, to}, {flat});
    node(graph, Op::MatMul, "classify", {flat, fc}, {logits});
    Node &choose = node(graph, Op::If, "choose", {yes, logits}, {chosen});
    for (const char *body : {"then", "else"}) {
      Graph &g = choose.subgraphs.emplace_back();
      g.name = body;
      const auto in = tensor(g, "in", DType::F32, {1, 3}), out = tensor(g, "out", DType::F32, {1, 3});
      Node &leaky = node(g, Op::LeakyRelu, "leaky", {in}, {out});
      leaky.set("alpha", -0.0f);
      g.inputs = {in};
      g.outputs = {out};
    }
    node(graph, Op::Clip, "limit", {chosen, qir::kAbsent, qir::kAbsent}, {limited});
    graph.inputs = {image};
    graph.outputs = {limited};
  }
  SampleGraph(const SampleGraph &) = delete;
  SampleGraph &operator=(const SampleGraph &) = delete;

  qir::Tensor &find(std::string_view name) {
    for (qir::Tensor &t : graph.tensors)
      if (t.name == name) return t;
    std::abort();
  }
  qir::Node &find_node(std::string_view name) {
    for (qir::Node &n : graph.nodes)
      if (n.name == name) return n;
    std::abort();
  }

  static std::int32_t tensor(qir::Graph &graph, const char *name, DType dtype, qir::Shape shape) {
    qir::Tensor &t = graph.tensors.emplace_back();
    t.name = name;
    t.dtype = dtype;
    t.shape = std::move(shape);
    return static_cast<std::int32_t>(graph.tensors.size() - 1);
  }
  static std::int32_t constant(qir::Graph &graph, const char *name, DType dtype, qir::Shape shape, const void *data,
                               std::uint64_t size) {
    const std::int32_t index = tensor(graph, name, dtype, std::move(shape));
    graph.tensors.back().is_constant = true;
    graph.tensors.back().data = {data, size};
    return index;
  }
  static qir::Node &node(qir::Graph &graph, qir::Op op, const char *name, Vector<std::int32_t> inputs,
                         Vector<std::int32_t> outputs) {
    qir::Node &n = graph.nodes.emplace_back();
    n.op = op;
    n.name = name;
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    return n;
  }
};

// 64-byte aligned memory for the bytes of a pool.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::uint64_t size) : data_(allocate_block(static_cast<std::size_t>(size), 64)), size_(size) {}
  AlignedBytes(const void *from, std::uint64_t size) : AlignedBytes(size) {
    if (size) std::memcpy(data_, from, static_cast<std::size_t>(size));
  }
  ~AlignedBytes() { free_block(data_); }
  AlignedBytes(const AlignedBytes &) = delete;
  AlignedBytes &operator=(const AlignedBytes &) = delete;
  std::uint8_t *data() { return static_cast<std::uint8_t *>(data_); }
  std::uint64_t size() const { return size_; }
  qir::Bytes bytes() const { return {data_, size_}; }

 private:
  void *data_;
  std::uint64_t size_;
};

}  // namespace quarry::test
