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

class Inference {
 public:
  // `left`: nodes of bodies, of which this is one where inputs are given.
  Inference(Graph &graph, std::uint64_t *left)
      : graph_(graph), left_(left), values_(graph.tensors.size()), failed_(graph.tensors.size(), 0) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (graph.tensors[i].is_constant) values_[i] = graph.tensors[i].data;
  }

  Status bind(const Vector<InferValue> &inputs);
  Status run(bool in_body);

 private:
  bool in_graph(std::int32_t i) const { return i >= 0 && index_of(i) < values_.size(); }
  Status check_operands(const Node &node) const;
  bool read_inputs(const Node &node);
  bool infer(Node &node);
  void set_outputs(const Node &node, bool sound);

  Graph &graph_;
  std::uint64_t *left_;
  Vector<Bytes> values_;
  Vector<std::uint8_t> failed_;
  Failures failures_;
  Vector<InferValue> arguments_;  // of the node that is looked at
  Vector<InferType> results_;
};

Status Inference::bind(const Vector<InferValue> &inputs) {
  if (inputs.size() != graph_.inputs.size())
    return Status::errorf(ErrorId::qir_bad, "graph '%s': %zu inputs, but %zu are passed in", printable(graph_.name),
                          graph_.inputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InferValue &value = inputs[i];
    if (!in_graph(graph_.inputs[i]) || !value.present)
      return Status::errorf(ErrorId::qir_bad, "graph '%s': input %zu is absent", printable(graph_.name), i);
    Tensor &tensor = at(graph_, graph_.inputs[i]);
    tensor.dtype = value.dtype;
    tensor.shape = value.shape;
    tensor.quant = value.quant ? *value.quant : std::nullopt;
    values_[index_of(graph_.inputs[i])] = value.value;
  }
  return {};
}

Status Inference::run(bool in_body) {
  for (Node &node : graph_.nodes) {
    QR_RETURN_IF_ERROR(stop_status("inference"));
    if (in_body && (*left_)-- == 0) {
      *left_ = 0;
      return Status::hinted(
          ErrorId::qir_limit,
          "loops within loops carry values whose shapes change from one time to the next: let them hold still",
          "graph '%s': inference has looked at more than %u nodes of bodies, expected at most so many",
          printable(graph_.name).c_str(), kMaxInferredNodes);
    }
    QR_RETURN_IF_ERROR(check_operands(node));
    // What depends on a failed node has no types to look at.
    set_outputs(node, read_inputs(node) && infer(node));
  }
  return failures_.take();
}

Status Inference::check_operands(const Node &node) const {
  for (const Vector<std::int32_t> *list : {&node.inputs, &node.outputs})
    for (const std::int32_t i : *list)
      if (i != kAbsent && !in_graph(i))
        return node_error(node, ErrorId::qir_bad, "tensor %d is outside the graph's %zu", i, values_.size());
  return {};
}

// Whether all of them were inferred.
bool Inference::read_inputs(const Node &node) {
  bool sound = true;
  arguments_.assign(node.inputs.size(), {});
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kAbsent) continue;
    const Tensor &tensor = at(graph_, node.inputs[i]);
    arguments_[i] = {true, tensor.dtype, tensor.shape, &tensor.quant, values_[index_of(node.inputs[i])]};
    sound &= failed_[index_of(node.inputs[i])] == 0;
  }
  return sound;
}

bool Inference::infer(Node &node) {
  Status status = node.subgraphs.empty() ? Status() : infer_subgraphs(node, arguments_, left_);
  if (node.op == Op::Custom) stated_types(graph_, node, &results_);
  if (status.ok()) status = infer_node(node, arguments_, results_);
  if (status.ok()) return true;
  failures_.add(std::move(status));
  return false;
}

void Inference::set_outputs(const Node &node, bool sound) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kAbsent) continue;
    Tensor &tensor = at(graph_, node.outputs[i]);
    failed_[index_of(node.outputs[i])] = !sound;
    if (!sound) continue;
    if (!tensor.quant) tensor.dtype = results_[i].dtype;
    tensor.shape = results_[i].shape;
  }
}

}  // namespace

Status infer_graph(Graph &graph) {
  std::uint64_t left = kMaxInferredNodes;
  return Inference(graph, &left).run(false);
}
Status infer_body(Graph &graph, const Vector<InferValue> &inputs, std::uint64_t *left) {
  Inference inference(graph, left);
  QR_RETURN_IF_ERROR(inference.bind(inputs));
  return inference.run(true);
}

}  // namespace quarry::qir
