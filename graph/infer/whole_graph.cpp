// SPDX-License-Identifier: Apache-2.0
// Inference of a whole graph, node by node, going on past failures so that all of them are reported at once.
#include <algorithm>

#include "base/stop.h"
#include "graph/infer/rules.h"
#include "graph/limits.h"

namespace quarry::qir {
namespace {

class Failures {
 public:
  void add(Status status) {
    ++count_;
    if (first_.ok()) first_ = std::move(status);
    else rest_.push_back(std::move(status));
  }
  Status take() {
    if (count_ < 2) return std::move(first_);
    Status all = Status::foreign(first_.code(), first_.id(),
                                 format("%zu nodes do not fit their inputs; the first: %.*s", count_, first_.message()),
                                 first_.hint());
    all.with("reason", first_.message());
    for (const Status &status : rest_) all.with("reason", status.message());
    return all;
  }

 private:
  Status first_;
  Vector<Status> rest_;
  std::size_t count_ = 0;
};

// `left`: nodes of bodies, of which this is one where inputs are given.
Status infer_all(Graph &graph, const Vector<InferValue> *inputs, std::uint64_t *left) {
  const std::size_t count = graph.tensors.size();
  const auto in_graph = [count](std::int32_t i) { return i >= 0 && static_cast<std::size_t>(i) < count; };
  const auto tensor_of = [&graph](std::int32_t i) -> Tensor & { return at(graph, i); };
  Vector<Bytes> values(count);
  Vector<std::uint8_t> failed(count, 0);
  for (std::size_t i = 0; i < count; ++i)
    if (graph.tensors[i].is_constant) values[i] = graph.tensors[i].data;
  if (inputs) {
    if (inputs->size() != graph.inputs.size())
      return Status::errorf(ErrorId::qir_bad, "graph '%s': %zu inputs, but %zu are passed in", printable(graph.name),
                            graph.inputs.size(), inputs->size());
    for (std::size_t i = 0; i < inputs->size(); ++i) {
      const InferValue &value = (*inputs)[i];
      if (!in_graph(graph.inputs[i]) || !value.present)
        return Status::errorf(ErrorId::qir_bad, "graph '%s': input %zu is absent", printable(graph.name), i);
      Tensor &tensor = tensor_of(graph.inputs[i]);
      tensor.dtype = value.dtype;
      tensor.shape = value.shape;
      tensor.quant = value.quant ? *value.quant : std::nullopt;
      values[index_of(graph.inputs[i])] = value.value;
    }
  }
  Failures failures;
  Vector<InferValue> arguments;
  Vector<InferType> results;
  for (Node &node : graph.nodes) {
    QR_RETURN_IF_ERROR(stop_status("inference"));
    if (inputs && (*left)-- == 0) {
      *left = 0;
      return Status::hinted(
          ErrorId::qir_limit,
          "loops within loops carry values whose shapes change from one time to the next: let them hold still",
          "graph '%s': inference has looked at more than %u nodes of bodies, expected at most so many",
          printable(graph.name).c_str(), kMaxInferredNodes);
    }
    for (const Vector<std::int32_t> *list : {&node.inputs, &node.outputs})
      for (const std::int32_t i : *list)
        if (i != kAbsent && !in_graph(i))
          return node_error(node, ErrorId::qir_bad, "tensor %d is outside the graph's %zu", i, count);
    bool sound = true;
    arguments.assign(node.inputs.size(), {});
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kAbsent) continue;
      const Tensor &tensor = tensor_of(node.inputs[i]);
      arguments[i] = {true, tensor.dtype, tensor.shape, &tensor.quant, values[index_of(node.inputs[i])]};
      sound &= failed[index_of(node.inputs[i])] == 0;
    }
    if (sound) {  // what depends on a failed node has no types to look at
      Status status = node.subgraphs.empty() ? Status() : infer_subgraphs(node, arguments, left);
      if (node.op == Op::Custom) stated_types(graph, node, &results);
      if (status.ok()) status = infer_node(node, arguments, results);
      sound = status.ok();
      if (!sound) failures.add(std::move(status));
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kAbsent) continue;
      Tensor &tensor = tensor_of(node.outputs[i]);
      failed[index_of(node.outputs[i])] = !sound;
      if (!sound) continue;
      if (!tensor.quant) tensor.dtype = results[i].dtype;
      tensor.shape = results[i].shape;
    }
  }
  return failures.take();
}

}  // namespace

Status infer_graph(Graph &graph) {
  std::uint64_t left = kMaxInferredNodes;
  return infer_all(graph, nullptr, &left);
}
Status infer_body(Graph &graph, const Vector<InferValue> &inputs, std::uint64_t *left) {
  return infer_all(graph, &inputs, left);
}

}  // namespace quarry::qir
