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

namespace {

// The outputs of LayerNormalization that training wants: mean, and one over the deviation.
Status statistics(Lowering &l, const qir::Node &node, std::int32_t x, const Vector<std::uint32_t> &axes) {
  const auto wanted = [&](std::size_t i) { return i < node.outputs.size() && node.outputs[i] != qir::kAbsent; };
  if (!wanted(1) && !wanted(2)) return {};
  if (l.tensor(node.inputs[0]).quant)
    return refuse(ErrorId::backend_limit,
                  "mean or deviation of quantised data are asked for, expected the first output alone");
  const Vector<std::uint32_t> full = l.drafted(x).dims;
  Vector<std::uint32_t> kept = full;
  for (const std::uint32_t axis : axes) kept[axis] = 1;
  const auto mean_of = [&](std::int32_t from, std::int32_t to) {
    DraftNode &made = l.node("ReduceMean", {from}, {to});
    l.param(made, "axes", axes);
    l.param(made, "keep_dims", true);
  };
  const auto step = [&](const char *type, std::initializer_list<std::int32_t> inputs,
                        const Vector<std::uint32_t> &dims) {
    const std::int32_t made = l.between(node.inputs[0], "~statistics", dims);
    l.node(type, inputs, {made});
    return made;
  };
  const std::int32_t mean = wanted(1) ? l.result(node.outputs[1]) : l.between(node.inputs[0], "~mean", kept);
  mean_of(x, mean);
  if (!wanted(2)) return {};
  const std::int32_t off = step("ElementWiseSubtract", {x, mean}, full),
                     square = step("ElementWiseMultiply", {off, off}, full),
                     variance = l.between(node.inputs[0], "~variance", kept);
  mean_of(square, variance);
  const std::int32_t epsilon = scalar_like(l, node.inputs[0], "epsilon", node.get_float("epsilon", 1e-5f)),
                     one = scalar_like(l, node.inputs[0], "one", 1);
  const std::int32_t root = step("ElementWiseSquareRoot", {step("ElementWiseAdd", {variance, epsilon}, kept)}, kept);
  l.node("ElementWiseDivide", {one, root}, {l.result(node.outputs[2])});
  return {};
}

}  // namespace

Status layer_normalization(Lowering &l, const qir::Node &node) {
  const bool rms = node.op == Op::RMSNormalization;
  const std::size_t rank = l.rank(node.inputs[0]), first = axis_of(node, "axis", -1, rank);
  const std::int32_t x = l.natural(node.inputs[0]);
  std::int32_t scale = l.natural(node.inputs[1]);
  std::int32_t shift = rms || qir::input_of(node, 2) == qir::kAbsent ? -1 : l.natural(node.inputs[2]);
  Vector<std::uint32_t> axes;
  for (std::size_t i = first; i < rank; ++i) axes.push_back(static_cast<std::uint32_t>(i));
  // The library has rows with one scale for each element, so several axes become one.
  const bool one_axis = axes.size() == 1;
  std::int32_t from = x, to = -1;
  if (one_axis) {
    to = l.result(node.outputs[0]);
  } else {
    Vector<std::uint32_t> rows = {1, 1};
    for (std::size_t i = 0; i < rank; ++i) rows[i < first ? 0 : 1] *= l.drafted(x).dims[i];
    from = l.between(node.inputs[0], "~rows", rows), to = l.between(node.outputs[0], "~rows", rows);
    l.node("Reshape", {x}, {from});
    for (std::int32_t *const operand : {&scale, &shift}) {
      if (*operand < 0) continue;
      const DraftTensor given = l.drafted(*operand);
      if (tensor_bytes(given) != rows[1] * element_bytes(given.dtype))
        return refuse(ErrorId::backend_limit,
                      "a scale or bias of fewer elements than are normalised, expected as many");
      if (given.type == qnn::TensorType::Static) {
        *operand = l.constant(given.name, given.dtype, {rows[1]}, given.data, given.encoding);
      } else {
        *operand = l.between(given.name, given.dtype, {rows[1]}, given.encoding);
        l.node("Reshape", {l.natural(node.inputs[operand == &scale ? 1 : 2])}, {*operand});
      }
    }
  }
  DraftNode &made = l.node(rms ? "RmsNorm" : "LayerNorm", {from, scale, shift}, {to});
  l.param(made, "epsilon", node.get_float("epsilon", 1e-5f));
  l.param(made, "axes", one_axis ? axes : Vector<std::uint32_t>{1});
  if (!one_axis) l.node("Reshape", {to}, {l.result(node.outputs[0])});
  return rms ? Status() : statistics(l, node, x, axes);
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
