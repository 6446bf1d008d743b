// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/stop.h"
#include "graph/edit/graph_edit.h"
#include "graph/ops/quantization.h"
#include "passes/passes.h"

namespace quarry::passes {
namespace {

using qir::Op;

// Where the output channels of a weight lie: index = (outer * channels + channel) * inner + rest, channel = group *
// per_group + c.
struct WeightLayout {
  std::int64_t channels = 0;
  std::int64_t outer = 1, per_group = 0, inner = 1;  // of one group's block
};

// Of the operators that take a normalisation over: those with weights at input 1 and a bias at 2 (qir::takes_bias).
bool layout_of(const qir::Node &node, const qir::Shape &weight, WeightLayout *out) {
  std::int64_t rest = 1;
  for (std::size_t i = 2; i < weight.size(); ++i) rest *= weight[i];
  switch (node.op) {
    case Op::Conv:  // [M, C/group, ...]
      *out = {weight[0], 1, weight[0], weight[1] * rest};
      return true;
    case Op::ConvTranspose: {  // [C, M/group, ...]: the groups follow one another along C
      const std::int64_t groups = node.get_int("group", 1);
      *out = {weight[1] * groups, weight[0] / groups, weight[1], rest};
      return true;
    }
    case Op::Gemm:
      if (node.get_float("alpha", 1) != 1 || node.get_float("beta", 1) != 1 || weight.size() != 2) return false;
      if (node.get_int("transB", 0)) *out = {weight[0], 1, weight[0], weight[1]};
      else *out = {weight[1], weight[0], weight[1], 1};
      return true;
    default: return false;
  }
}

bool fold_into(qir::Graph &graph, Store &store, qir::Names &names, const qir::Uses &uses, qir::Node &conv,
               const qir::Node &norm) {
  if (!qir::takes_bias(conv.op) || norm.get_int("training_mode", 0) != 0 || norm.outputs.size() != 1) return false;
  if (!uses.used_once(conv.outputs[0])) return false;
  const float *weight = constant_floats(graph, conv.inputs[1]);
  const std::int32_t bias_id = conv.inputs[2];
  const float *bias = constant_floats(graph, bias_id);
  const float *scale = constant_floats(graph, norm.inputs[1]), *shift = constant_floats(graph, norm.inputs[2]);
  const float *mean = constant_floats(graph, norm.inputs[3]), *variance = constant_floats(graph, norm.inputs[4]);
  if (!weight || !scale || !shift || !mean || !variance || (bias_id != qir::kAbsent && !bias)) return false;
  WeightLayout layout;
  const qir::Shape shape = at(graph, conv.inputs[1]).shape;
  if (!layout_of(conv, shape, &layout) || layout.channels <= 0) return false;
  const auto channels = static_cast<std::uint64_t>(layout.channels);
  if (at(graph, norm.inputs[1]).shape != qir::Shape{layout.channels}) return false;
  if (bias && at(graph, bias_id).shape != qir::Shape{layout.channels}) return false;

  const std::uint64_t bytes = at(graph, conv.inputs[1]).data.size;
  auto *new_weight = static_cast<float *>(store.allocate(bytes));
  auto *new_bias = static_cast<float *>(store.allocate(channels * sizeof(float)));
  Vector<double> factor(channels);
  const double epsilon = norm.get_float("epsilon", 1e-5f);
  for (std::uint64_t c = 0; c < channels; ++c) {
    factor[c] = scale[c] / std::sqrt(static_cast<double>(variance[c]) + epsilon);
    new_bias[c] = static_cast<float>(((bias ? bias[c] : 0.0) - mean[c]) * factor[c] + shift[c]);
  }
  // Rows of inner elements, those of one channel after another.
  const std::int64_t rows = layout.channels * layout.outer;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t group = row / (layout.outer * layout.per_group);
    const double by = factor[index_of(group * layout.per_group + row % layout.per_group)];
    for (std::int64_t i = row * layout.inner; i < (row + 1) * layout.inner; ++i)
      new_weight[i] = static_cast<float>(weight[i] * by);
  }

  const auto add = [&](std::int32_t like, std::string_view name, qir::Shape dims, const void *data,
                       std::uint64_t size) {
    qir::Tensor tensor;
    tensor.name = names.fresh(String(name.empty() ? std::string_view(at(graph, like).name) : name) + "/folded");
    tensor.dtype = DType::F32;
    tensor.shape = std::move(dims);
    tensor.is_constant = true;
    tensor.data = {data, size};
    graph.tensors.push_back(std::move(tensor));
    return static_cast<std::int32_t>(graph.tensors.size() - 1);
  };
  conv.inputs.resize(3, qir::kAbsent);
  conv.inputs.set(1, add(conv.inputs[1], "", shape, new_weight, bytes));
  conv.inputs.set(2,
                  add(bias_id, bias ? "" : conv.name + "/bias", {layout.channels}, new_bias, channels * sizeof(float)));
  return true;
}

}  // namespace

void fold_batch_normalization(qir::Graph &graph, Store &store) {
  const qir::Uses uses(graph);
  qir::Names names(graph);
  Vector<bool> dead(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size() && !stop_asked(); ++i) {
    for (qir::Graph &body : graph.nodes[i].subgraphs) fold_batch_normalization(body, store);
    if (graph.nodes[i].op != Op::BatchNormalization) continue;
    const std::int32_t maker = uses.maker(graph.nodes[i].inputs[0]);
    if (maker == qir::Uses::kNobody) continue;
    qir::Node &conv = graph.nodes[index_of(maker)];
    if (!fold_into(graph, store, names, uses, conv, graph.nodes[i])) continue;
    conv.outputs.set(0, graph.nodes[i].outputs[0]);
    dead[i] = true;
  }
  compact(graph, dead);
}

}  // namespace quarry::passes
