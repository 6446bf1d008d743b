// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/quantized.h"

#include <algorithm>
#include <cstdlib>

namespace quarry::cpu {

using qir::at;
using qir::input_of;
using qir::Op;

namespace {

bool moves(Op op) {
  switch (op) {
    case Op::Identity:
    case Op::Dropout:
    case Op::Reshape:
    case Op::Flatten:
    case Op::Squeeze:
    case Op::Unsqueeze:
    case Op::Transpose:
    case Op::Expand:
    case Op::Slice:
    case Op::Split:
    case Op::DepthToSpace:
    case Op::SpaceToDepth:
    case Op::Pad:
    case Op::Gather:
    case Op::Concat: return true;
    default: return false;
  }
}

bool unary(Op op) {
  switch (op) {
    case Op::Abs:
    case Op::Ceil:
    case Op::Celu:
    case Op::Clip:
    case Op::Cos:
    case Op::Elu:
    case Op::Erf:
    case Op::Exp:
    case Op::Floor:
    case Op::Gelu:
    case Op::HardSigmoid:
    case Op::HardSwish:
    case Op::LeakyRelu:
    case Op::Log:
    case Op::Mish:
    case Op::Neg:
    case Op::QuickGelu:
    case Op::Reciprocal:
    case Op::Relu:
    case Op::Round:
    case Op::Selu:
    case Op::Sigmoid:
    case Op::Sign:
    case Op::Sin:
    case Op::Softplus:
    case Op::Softsign:
    case Op::Sqrt:
    case Op::Swish:
    case Op::Tanh:
    case Op::ThresholdedRelu: return true;
    default: return false;
  }
}

bool same_quant(const qir::Tensor &a, const qir::Tensor &b) {
  return a.dtype == b.dtype && a.quant == b.quant && a.quant && a.quant->per_tensor();
}

// Weights of a product: constant, 8 or 16 bits, one scale or one per output channel.
bool quantized_weights(const qir::Tensor &w, std::int64_t channel_axis) {
  if (!w.is_constant || !w.quant || !integer_dtype(w.dtype)) return false;
  const qir::Quantization &q = *w.quant;
  if (q.per_tensor()) return true;
  const std::int64_t rank = static_cast<std::int64_t>(w.shape.size()), axis = q.axis < 0 ? q.axis + rank : q.axis;
  return q.block_size == 0 && axis == channel_axis &&
         q.scales.size() == static_cast<std::size_t>(w.shape[static_cast<std::size_t>(axis)]);
}

// Without their zero points the weights have at most 15 bits and a sign: the kernel of depthwise convolutions holds no
// more.
bool fit_16_bits(const qir::Tensor &w) {
  const qir::Quantization &q = *w.quant;
  const std::int64_t channels = q.per_tensor() ? 1 : w.shape[0],
                     count = static_cast<std::int64_t>(w.data.size / (dtype_bits(w.dtype) / 8));
  for (std::int64_t i = 0; i < count; ++i)
    if (std::abs(stored(w, i) - q.zero_points[static_cast<std::size_t>(i / (count / channels))]) > 32767) return false;
  return true;
}

bool integer_product(const qir::Graph &graph, const qir::Node &node) {
  const qir::Tensor &x = at(graph, node.inputs[0]), &w = at(graph, node.inputs[1]);
  if (!quantized_activation(x) || !quantized_activation(at(graph, node.outputs[0]))) return false;
  if (const std::int32_t b = input_of(node, 2); b != qir::kAbsent) {
    // In units of scale(x) * scale(w), see graph.h.
    const qir::Tensor &bias = at(graph, b);
    const qir::Shape &made = at(graph, node.outputs[0]).shape;
    const std::int64_t channels = node.op == Op::Conv ? made[1] : made.back();
    if (!bias.is_constant || bias.dtype != DType::I32 ||
        (bias.data.size != 4 && bias.data.size != static_cast<std::uint64_t>(channels) * 4))
      return false;
  }
  if (node.op == Op::Conv) {
    if (w.shape.size() < 3 || w.shape.size() > 4 || !quantized_weights(w, 0)) return false;
    const std::int64_t groups = node.get_int("group", 1);
    return dtype_bits(w.dtype) == 8 || groups == 1 || groups != x.shape[1] || groups != w.shape[0] || fit_16_bits(w);
  }
  if (w.shape.size() != 2 || x.shape.size() < 2) return false;
  if (node.op == Op::MatMul) return quantized_weights(w, 1);
  return node.get_int("transA", 0) == 0 && node.get_float("alpha", 1) == 1 &&
         (input_of(node, 2) == qir::kAbsent || node.get_float("beta", 1) == 1) &&
         quantized_weights(w, node.get_int("transB", 0) ? 0 : 1);
}

}  // namespace

bool integer_dtype(DType dtype) noexcept {
  return dtype == DType::U8 || dtype == DType::I8 || dtype == DType::U16 || dtype == DType::I16;
}

bool quantized_activation(const qir::Tensor &tensor) noexcept {
  return !tensor.is_constant && integer_dtype(tensor.dtype) && tensor.quant && tensor.quant->per_tensor();
}

std::int32_t stored(const qir::Tensor &tensor, std::int64_t index) noexcept {
  const void *data = tensor.data.data;
  switch (tensor.dtype) {
    case DType::U8: return static_cast<const std::uint8_t *>(data)[index];
    case DType::I8: return static_cast<const std::int8_t *>(data)[index];
    case DType::U16: return static_cast<const std::uint16_t *>(data)[index];
    default: return static_cast<const std::int16_t *>(data)[index];
  }
}

bool byte_function(const qir::Graph &graph, const qir::Node &node) {
  if (!unary(node.op) || dtype_bits(at(graph, node.inputs[0]).dtype) != 8 ||
      dtype_bits(at(graph, node.outputs[0]).dtype) != 8)
    return false;
  if (!quantized_activation(at(graph, node.inputs[0])) || !quantized_activation(at(graph, node.outputs[0])))
    return false;
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                     [&](std::int32_t id) { return id == qir::kAbsent || at(graph, id).is_constant; });
}

bool integer_way(const qir::Graph &graph, const qir::Node &node) {
  if (node.inputs.empty() || node.inputs[0] == qir::kAbsent) return false;
  const qir::Tensor &x = at(graph, node.inputs[0]), &y = at(graph, node.outputs[0]);
  if (moves(node.op) && node.op != Op::Concat)
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](std::int32_t id) { return id == qir::kAbsent || same_quant(x, at(graph, id)); });
  switch (node.op) {
    case Op::Conv:
    case Op::Gemm:
    case Op::MatMul: return integer_product(graph, node);
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
      return quantized_activation(x) && quantized_activation(at(graph, node.inputs[1])) && quantized_activation(y);
    case Op::Concat:
      return quantized_activation(y) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](std::int32_t id) {
               return quantized_activation(at(graph, id)) || same_quant(at(graph, id), y);
             });
    case Op::MaxPool:
      return quantized_activation(x) && same_quant(x, y) && node.outputs.size() == 1 && x.shape.size() <= 4;
    case Op::AveragePool:
    case Op::GlobalAveragePool:
      return quantized_activation(x) && quantized_activation(y) && x.shape.size() >= 3 && x.shape.size() <= 4;
    default: return byte_function(graph, node);
  }
}

}  // namespace quarry::cpu
