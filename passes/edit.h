// SPDX-License-Identifier: Apache-2.0
// What passes that write nodes share: a list of nodes that grows in order, with new tensors and constants.
#pragma once

#include <cstring>
#include <span>

#include "base/stop.h"
#include "passes/passes.h"

namespace quarry::passes {

// Stands in front of a graph whose nodes were taken out and are put back one by one, some of them as others.
class Rewriting {
 public:
  Rewriting(qir::Graph &graph, Store &store) : graph(graph), store(store), old(std::move(graph.nodes)) {
    graph.nodes = {};
    graph.nodes.reserve(old.size());  // to move a great many to a larger place takes long
  }

  qir::Graph &graph;
  Store &store;
  Vector<qir::Node> old;
  qir::Names names{graph};
  bool has_infinities = false;  // of the backend's reals

  void keep(qir::Node &&node) { graph.nodes.push_back(std::move(node)); }
  std::int32_t tensor(std::string_view name, DType dtype, const qir::Shape &shape) {
    qir::Tensor made;
    made.name = names.fresh(name);
    made.dtype = dtype;
    made.shape = shape;
    graph.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(graph.tensors.size() - 1);
  }
  std::int32_t integers(std::string_view name, std::span<const std::int64_t> values) {
    const std::int32_t id = tensor(name, DType::I64, {static_cast<std::int64_t>(values.size())});
    qir::at(graph, id).is_constant = true;
    qir::at(graph, id).data = store.copy(values.data(), values.size_bytes());
    return id;
  }
  // A node that stands for `like`, or for a part of it.
  qir::Node &emit(qir::Op op, const qir::Node &like, Vector<std::int32_t> inputs, std::int32_t output) {
    qir::Node node;
    node.op = op;
    node.name = like.name;
    node.source = like.source;
    node.inputs = std::move(inputs);
    node.outputs = {output};
    return graph.nodes.emplace_back(std::move(node));
  }
};

}  // namespace quarry::passes
