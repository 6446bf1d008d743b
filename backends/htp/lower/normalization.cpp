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

namespace {

// The library has no scale of s8 beside u8 or u16: the same numbers as u8.
std::int32_t unsigned_scale(Lowering &l, std::int32_t scale) {
  const DraftTensor from = l.drafted(scale);
  if (from.dtype != DataType::SQ8 || from.type != qnn::TensorType::Static || from.encoding.scales.size() != 1)
    return scale;
  auto *const bytes = static_cast<std::uint8_t *>(l.store().allocate(from.data.size));
  for (std::uint64_t i = 0; i < from.data.size; ++i)
    bytes[i] = static_cast<const std::uint8_t *>(from.data.data)[i] ^ 0x80;
  Encoding encoding = from.encoding;
  encoding.zero_points[0] += 128;
  return l.constant(from.name, DataType::UQ8, from.dims, {bytes, from.data.size}, std::move(encoding));
}

// The library rounds what is normalised and its shift to steps of the result one by one, which is another step in a
// quarter of the elements of 8 bits, and what reads them (other norms, attention) makes more of it. Of 16 bits it is
// none.
Encoding in_256ths(Encoding encoding) {
  for (float &scale : encoding.scales) scale /= 256;
  for (std::int32_t &zero_point : encoding.zero_points) zero_point *= 256;
  return encoding;
}

}  // namespace

Status layer_normalization(Lowering &l, const qir::Node &node) {
  const bool rms = node.op == Op::RMSNormalization;
  const std::size_t rank = l.rank(node.inputs[0]), first = axis_of(node, "axis", -1, rank);
  const std::int32_t x = l.natural(node.inputs[0]);
  std::int32_t scale = unsigned_scale(l, l.natural(node.inputs[1]));
  std::int32_t shift = rms || node.inputs[2] == qir::kAbsent ? -1 : l.natural(node.inputs[2]);
  Vector<std::uint32_t> axes;
  for (std::size_t i = first; i < rank; ++i) axes.push_back(static_cast<std::uint32_t>(i));
  // The library has rows with one scale for each element, so several axes become one; and its RmsNorm is wrong in every
  // batch but the first.
  const Vector<std::uint32_t> all = l.drafted(x).dims;
  const auto given_elements = [&](std::int32_t operand) {
    const DraftTensor &given = l.drafted(operand);
    return tensor_bytes(given) / std::max<std::size_t>(element_bytes(given.dtype), 1);
  };
  const bool has_batches =
      rank > 2 && std::any_of(all.begin(), all.end() - 2, [](std::uint32_t extent) { return extent != 1; });
  const bool one_axis = axes.size() == 1 && !(rms && has_batches) && given_elements(scale) == all.back() &&
                        (shift < 0 || given_elements(shift) == all.back());
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
      if (given_elements(*operand) == 1 && rows[1] != 1) {  // one for all
        const std::int32_t number = l.reshaped(*operand, {1});
        *operand = l.between(given.name, given.dtype, {rows[1]}, given.encoding);
        l.param(l.node("Tile", {number}, {*operand}), "multiples", Vector<std::uint32_t>{rows[1]});
        continue;
      }
      if (given_elements(*operand) != rows[1])
        return refuse(ErrorId::backend_limit,
                      "a scale or bias of other elements than are normalised, expected as many, or one for all",
                      "multiply and add behind the node, which then has a scale of ones");
      if (given.type == qnn::TensorType::Static) {
        *operand = l.constant(given.name, given.dtype, {rows[1]}, given.data, given.encoding);
      } else {
        *operand = l.between(given.name, given.dtype, {rows[1]}, given.encoding);
        l.node("Reshape", {l.natural(node.inputs[operand == &scale ? 1 : 2])}, {*operand});
      }
    }
  }
  const std::int32_t narrow = to;
  if (shift >= 0 && l.drafted(from).dtype == DataType::UQ8 && l.drafted(to).dtype == DataType::UQ8) {
    const DraftTensor x8 = l.drafted(from), y8 = l.drafted(to);
    const std::int32_t wide = l.between(x8.name + "~16", DataType::UQ16, x8.dims, in_256ths(x8.encoding));
    l.node("Convert", {from}, {wide});
    from = wide, to = l.between(y8.name + "~16", DataType::UQ16, y8.dims, in_256ths(y8.encoding));
  }
  DraftNode &made = l.node(rms ? "RmsNorm" : "LayerNorm", {from, scale, shift}, {to});
  l.param(made, "epsilon", node.get_float("epsilon", 1e-5f));
  l.param(made, "axes", one_axis ? axes : Vector<std::uint32_t>{1});
  if (to != narrow) l.node("Convert", {to}, {narrow});
  if (!one_axis) l.node("Reshape", {narrow}, {l.result(node.outputs[0])});
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
