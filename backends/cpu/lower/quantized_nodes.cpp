// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/lower/quantized_nodes.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/cpu/params.h"

namespace quarry::cpu {

using qir::at;
using qir::Op;

namespace {

// Weights of a product: constant, 8 or 16 bits, one scale or one per output channel.
bool quantized_weights(const qir::Tensor &w, std::int64_t channel_axis) {
  if (!w.is_constant || !w.quant || !integer_dtype(w.dtype)) return false;
  const qir::Quantization &q = *w.quant;
  return q.per_tensor() || (q.block_size == 0 && q.axis == channel_axis &&
                            q.scales.size() == static_cast<std::size_t>(w.shape[index_of(channel_axis)]));
}

// Of one scale, an activation or a constant.
bool quantized_operand(const qir::Tensor &tensor) {
  return integer_dtype(tensor.dtype) && tensor.quant && tensor.quant->per_tensor();
}

// Without their zero points the weights have at most 15 bits and a sign: the kernel of depthwise convolutions holds no
// more.
bool fit_16_bits(const qir::Tensor &w) {
  const qir::Quantization &q = *w.quant;
  const std::int64_t channels = q.per_tensor() ? 1 : w.shape[0],
                     count = static_cast<std::int64_t>(w.data.size / (dtype_bits(w.dtype) / 8));
  const Vector<std::int32_t> stored = qir::stored_integers(w, static_cast<std::uint64_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    if (std::abs(stored[index_of(i)] - q.zero_points[index_of(i / (count / channels))]) > 32767) return false;
  return true;
}

bool integer_contraction(const qir::Graph &graph, const qir::Node &node) {
  const qir::Tensor &x = at(graph, node.inputs[0]), &w = at(graph, node.inputs[1]);
  if (!quantized_activation(x) || !quantized_activation(at(graph, node.outputs[0]))) return false;
  if (const std::int32_t b = node.inputs[2]; b != qir::kAbsent) {
    const qir::Tensor &bias = at(graph, b);
    const qir::Shape &made = at(graph, node.outputs[0]).shape;
    const std::int64_t channels = node.op == Op::Conv ? made[1] : made.back();
    if (!bias.is_constant || !qir::bias_counts_products(node, x, w, bias) ||
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
         (node.inputs[2] == qir::kAbsent || node.get_float("beta", 1) == 1) &&
         quantized_weights(w, node.get_int("transB", 0) ? 0 : 1);
}

}  // namespace

bool integer_dtype(DType dtype) noexcept {
  return dtype == DType::U8 || dtype == DType::I8 || dtype == DType::U16 || dtype == DType::I16;
}

bool quantized_activation(const qir::Tensor &tensor) noexcept {
  return !tensor.is_constant && integer_dtype(tensor.dtype) && tensor.quant && tensor.quant->per_tensor();
}

bool byte_function(const qir::Graph &graph, const qir::Node &node) {
  if (!qir::is_elementwise_function(node.op) || dtype_bits(at(graph, node.inputs[0]).dtype) != 8 ||
      dtype_bits(at(graph, node.outputs[0]).dtype) != 8)
    return false;
  if (!quantized_activation(at(graph, node.inputs[0])) || !quantized_activation(at(graph, node.outputs[0])))
    return false;
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                     [&](std::int32_t id) { return id == qir::kAbsent || at(graph, id).is_constant; });
}

bool integer_matrices(const qir::Graph &graph, const qir::Node &node) {
  if (node.op != Op::MatMulInteger) return false;
  const auto is_byte = [](const qir::Tensor &tensor) {
    return (tensor.dtype == DType::U8 || tensor.dtype == DType::I8) && !tensor.quant;
  };
  const qir::Tensor &a = at(graph, node.inputs[0]), &b = at(graph, node.inputs[1]), &y = at(graph, node.outputs[0]);
  if (!is_byte(a) || !is_byte(b) || y.dtype != DType::I32 || y.quant || a.shape.size() < 2 || b.shape.size() < 2 ||
      y.shape.size() > 2 + kernels::kBatchRank)
    return false;
  // One for all, or one for each row of a, for each column of b.
  const auto usable = [&](std::int32_t id, const qir::Tensor &of, std::int64_t each) {
    if (id == qir::kAbsent) return true;
    const qir::Tensor &zeros = at(graph, id);
    const qir::Shape &shape = zeros.shape;
    const bool one = std::ranges::all_of(shape, [](std::int64_t extent) { return extent == 1; });
    return zeros.dtype == of.dtype && !zeros.quant && (one || (shape.size() == 1 && shape[0] == each));
  };
  return usable(node.inputs[2], a, a.shape[a.shape.size() - 2]) && usable(node.inputs[3], b, b.shape.back());
}

bool runs_in_integers(const qir::Graph &graph, const qir::Node &node) {
  if (node.inputs.empty() || node.inputs[0] == qir::kAbsent) return false;
  const qir::Tensor &x = at(graph, node.inputs[0]), &y = at(graph, node.outputs[0]);
  if (node.op != Op::Concat && node.op != Op::MaxPool && qir::moves_real_values(graph, node))
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](std::int32_t id) { return id == qir::kAbsent || same_quantization(x, at(graph, id)); });
  switch (node.op) {
    case Op::Conv:
    case Op::Gemm:
    case Op::MatMul: return integer_contraction(graph, node);
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
      return quantized_operand(x) && quantized_operand(at(graph, node.inputs[1])) && quantized_activation(y);
    case Op::Concat:
      return quantized_activation(y) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](std::int32_t id) {
               return quantized_activation(at(graph, id)) || same_quantization(at(graph, id), y);
             });
    case Op::MaxPool:
      return quantized_activation(x) && same_quantization(x, y) && node.outputs.size() == 1 && x.shape.size() <= 4;
    case Op::AveragePool:
    case Op::GlobalAveragePool:
      return quantized_activation(x) && quantized_activation(y) && x.shape.size() >= 3 && x.shape.size() <= 4;
    default: return byte_function(graph, node);
  }
}

}  // namespace quarry::cpu
