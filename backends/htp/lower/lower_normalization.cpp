// SPDX-License-Identifier: Apache-2.0
// Normalisations, and softmax.
#include <algorithm>
#include <cmath>

#include "backends/htp/lower/rules.h"

namespace quarry::htp::rules {

using qir::Op;
using qnn::DataType;

Status batch_normalization(Lowering &l, const qir::Node &node) {
  const qir::Tensor &x = l.tensor(node.inputs[0]);
  if (node.get_int("training_mode", 0) != 0) return refuse(ErrorId::backend_limit, "training_mode 1, expected 0");
  const float *values[4];
  for (std::size_t i = 0; i < 4; ++i) {
    values[i] = qir::constant_floats(l.graph(), node.inputs[i + 1]);
    if (!values[i] || x.quant || x.dtype != DType::F32)
      return refuse(ErrorId::backend_type,
                    format("parameter %zu is no f32 constant, expected one beside f32 data", i + 1));
  }
  const std::size_t channels = static_cast<std::size_t>(x.shape.size() > 1 ? x.shape[1] : x.shape[0]);
  Vector<float> weight(channels), bias(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    weight[c] = values[0][c] / std::sqrt(values[3][c] + node.get_float("epsilon", 1e-5f));
    bias[c] = values[1][c] - values[2][c] * weight[c];
  }
  const Order order = channels_last(x.shape.size());
  const Vector<std::uint32_t> dims = {static_cast<std::uint32_t>(channels)};
  const std::int32_t from = l.stored(node.inputs[0], order);
  const std::int32_t w = l.constant(node.name + ".weight", DataType::F32, dims, weight.data(), channels * 4);
  const std::int32_t b = l.constant(node.name + ".bias", DataType::F32, dims, bias.data(), channels * 4);
  l.node("Batchnorm", {from, w, b}, {l.result(node.outputs[0], order)});
  return {};
}

Status instance_normalization(Lowering &l, const qir::Node &node) {
  if (l.soc().arch == 68 && !l.tensor(node.inputs[0]).quant)  // the library cannot prepare its own
    return group_normalization(l, node);
  const Order order = channels_last(l.rank(node.inputs[0]));
  const std::int32_t x = l.stored(node.inputs[0], order), scale = l.natural(node.inputs[1]),
                     bias = l.natural(node.inputs[2]);
  DraftNode &made = l.node("InstanceNorm", {x, scale, bias}, {l.result(node.outputs[0], order)});
  l.param(made, "epsilon", node.get_float("epsilon", 1e-5f));
  return {};
}

Status layer_normalization(Lowering &l, const qir::Node &node) {
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != qir::kAbsent)
      return refuse(ErrorId::backend_limit, "mean or deviation are asked for, expected the first output alone");
  const bool rms = node.op == Op::RMSNormalization;
  const std::size_t rank = l.rank(node.inputs[0]), first = axis_of(node, "axis", -1, rank);
  const std::int32_t x = l.natural(node.inputs[0]), scale = l.natural(node.inputs[1]);
  const std::int32_t shift = rms || qir::input_of(node, 2) == qir::kAbsent ? -1 : l.natural(node.inputs[2]);
  DraftNode &made = l.node(rms ? "RmsNorm" : "LayerNorm", {x, scale, shift}, {l.result(node.outputs[0])});
  l.param(made, "epsilon", node.get_float("epsilon", 1e-5f));
  Vector<std::uint32_t> axes;
  for (std::size_t i = first; i < rank; ++i) axes.push_back(static_cast<std::uint32_t>(i));
  l.param(made, "axes", axes);
  return {};
}

// Over the axis that is stored last.
Status softmax(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", -1, rank);
  Order order = l.order(node.inputs[0]);
  if (const std::uint32_t place = place_of(order, axis); place + 1 != rank) {
    order.erase(order.begin() + place);
    order.push_back(static_cast<std::uint8_t>(axis));
  }
  const std::int32_t x = l.stored(node.inputs[0], order);
  DraftNode &made =
      l.node(node.op == Op::LogSoftmax ? "LogSoftmax" : "Softmax", {x}, {l.result(node.outputs[0], order)});
  l.param(made, "axis", static_cast<std::uint32_t>(rank - 1));
  return {};
}

}  // namespace quarry::htp::rules
