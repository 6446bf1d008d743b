// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/quantization.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/checked.h"

namespace quarry::qir {

bool may_have_quantization(DType dtype) noexcept { return is_integer(dtype) && dtype_bits(dtype) <= 32; }

IntegerRange integer_range(DType dtype) noexcept {
  const std::uint32_t bits = dtype_bits(dtype);
  if (dtype_kind(dtype) == DTypeKind::Unsigned) return {0, (std::int64_t{1} << bits) - 1};
  return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
}

std::int64_t stored_integer(DType dtype, const void *packed, std::uint64_t index) noexcept {
  const auto *bytes = static_cast<const std::uint8_t *>(packed);
  const std::uint32_t bits = dtype_bits(dtype);
  std::int64_t value = 0;
  if (bits < 8) value = (bytes[index * bits / 8] >> (index * bits % 8)) & ((1 << bits) - 1);
  else std::memcpy(&value, bytes + index * (bits / 8), bits / 8);
  if (bits < 64 && dtype_kind(dtype) == DTypeKind::Signed && (value >> (bits - 1)) & 1)
    value -= std::int64_t{1} << bits;
  return value;
}

Vector<std::int32_t> stored_integers(const Tensor &constant, std::uint64_t count) {
  Vector<std::int32_t> out(count);
  const auto copy = [&](auto element) {
    const auto *from = static_cast<const decltype(element) *>(constant.data.data);
    std::copy_n(from, count, out.begin());
  };
  switch (constant.dtype) {
    case DType::U8: copy(std::uint8_t{}); break;
    case DType::I8: copy(std::int8_t{}); break;
    case DType::U16: copy(std::uint16_t{}); break;
    case DType::I16: copy(std::int16_t{}); break;
    case DType::I32: copy(std::int32_t{}); break;
    default:
      for (std::uint64_t i = 0; i < count; ++i)
        out[i] = static_cast<std::int32_t>(stored_integer(constant.dtype, constant.data.data, i));
  }
  return out;
}

std::int64_t quantized_value(float real, float scale, std::int32_t zero_point, DType dtype) noexcept {
  const IntegerRange range = integer_range(dtype);
  const double low = static_cast<double>(range.low - zero_point), high = static_cast<double>(range.high - zero_point);
  // The quotient is clamped first: its bounds are integers, so rounding stays within them.
  const double quotient = static_cast<double>(real / scale);
  if (std::isnan(quotient)) return zero_point;
  return static_cast<std::int64_t>(std::nearbyint(std::clamp(quotient, low, high))) + zero_point;
}

std::optional<Quantization> read_quantization(const Graph &graph, const Node &node) {
  const bool quantizes = node.op == Op::QuantizeLinear;
  const Tensor &stored = at(graph, quantizes ? node.outputs[0] : node.inputs[0]);
  const Tensor &real = at(graph, quantizes ? node.inputs[0] : node.outputs[0]);
  if (!may_have_quantization(stored.dtype) || real.dtype != DType::F32) return std::nullopt;
  if (quantizes && node.get_int("precision", 0) != 0 &&
      node.get_int("precision", 0) != static_cast<std::int64_t>(DType::F32))
    return std::nullopt;
  const float *scale = constant_floats(graph, node.inputs[1]);
  const std::int32_t zero = node.inputs[2];
  if (!scale || (zero != kAbsent && !at(graph, zero).is_constant)) return std::nullopt;
  const Shape &shape = at(graph, node.inputs[1]).shape;

  Quantization out;
  out.scales.assign(scale, scale + at(graph, node.inputs[1]).data.size / sizeof(float));
  for (const float s : out.scales)
    if (!std::isfinite(s) || s <= 0) return std::nullopt;
  out.zero_points.assign(out.scales.size(), 0);
  if (zero != kAbsent) {
    const Tensor &tensor = at(graph, zero);
    if (!may_have_quantization(tensor.dtype) ||
        element_count(tensor.shape.data(), tensor.shape.size()) != static_cast<std::int64_t>(out.scales.size()))
      return std::nullopt;
    for (std::size_t i = 0; i < out.zero_points.size(); ++i)
      out.zero_points[i] = static_cast<std::int32_t>(stored_integer(tensor.dtype, tensor.data.data, i));
  }
  if (shape.empty()) return out;
  const auto rank = static_cast<std::int64_t>(stored.shape.size());
  const std::int64_t axis = node.get_int("axis", 1), normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) return std::nullopt;
  out.axis = static_cast<std::int32_t>(normal);
  out.block_size = node.get_int("block_size", 0);
  if (out.block_size == 0 && out.scales.size() == 1) out.axis = 0;
  return out;
}

void give_quantization(Graph &graph, Store &store, Names &names, Node &node, const Tensor &quantized) {
  const Quantization q = *quantized.quant;
  const DType dtype = quantized.dtype;
  Shape shape;
  if (q.block_size > 0) {
    shape = quantized.shape;
    std::int64_t &extent = shape[index_of(q.axis)];
    extent = (extent + q.block_size - 1) / q.block_size;
  } else if (!q.per_tensor()) {
    shape = {static_cast<std::int64_t>(q.scales.size())};
  }
  const auto add = [&](const char *name, DType type, Bytes data) {
    Tensor tensor;
    tensor.name = names.fresh(node.name + name);
    tensor.dtype = type;
    tensor.shape = shape;
    tensor.is_constant = true;
    tensor.data = data;
    graph.tensors.push_back(std::move(tensor));
    node.inputs.push_back(static_cast<std::int32_t>(graph.tensors.size() - 1));
  };
  const std::uint32_t bits = dtype_bits(dtype);
  const std::uint64_t bytes = (q.zero_points.size() * bits + 7) / 8;
  auto *zeros = static_cast<std::uint8_t *>(store.allocate(bytes));
  std::fill_n(zeros, bytes, std::uint8_t{0});
  for (std::size_t i = 0; i < q.zero_points.size(); ++i) {
    const auto value = static_cast<std::uint32_t>(q.zero_points[i]);
    if (bits < 8)
      zeros[i * bits / 8] =
          static_cast<std::uint8_t>(zeros[i * bits / 8] | (value & ((1u << bits) - 1)) << (i * bits % 8));
    else std::memcpy(zeros + i * (bits / 8), &value, bits / 8);
  }
  node.inputs.resize(1);
  add("/scale", DType::F32, store.copy(q.scales.data(), q.scales.size() * sizeof(float)));
  add("/zero_point", dtype, {zeros, bytes});
  if (!shape.empty()) node.set("axis", static_cast<std::int64_t>(q.axis));
  if (q.block_size > 0) node.set("block_size", q.block_size);
}

bool same_quantization(const Tensor &a, const Tensor &b) noexcept {
  return a.dtype == b.dtype && a.quant && a.quant->per_tensor() && a.quant == b.quant;
}

bool quantize_undoes_dequantize(const Tensor &from, const Tensor &to) noexcept {
  if (!from.quant || from.dtype != to.dtype || from.quant != to.quant) return false;
  // f32 has 24 bits: with 16 and fewer the quotient is closer to the integer than to any tie. Real values beyond f32
  // would be infinite.
  const IntegerRange range = integer_range(from.dtype);
  return dtype_bits(from.dtype) <= 16 && std::ranges::all_of(from.quant->scales, [&](float scale) {
           return static_cast<double>(scale) * static_cast<double>(range.high - range.low) <= FLT_MAX;
         });
}

bool moves_values(const Graph &graph, const Node &node) {
  switch (node.op) {
    // Larger integers are larger numbers, and what lies beyond the border is smaller than all of them.
    case Op::MaxPool: return node.outputs.size() == 1 || node.outputs[1] == kAbsent;
    case Op::Dropout: {
      if (node.outputs.size() > 1 && node.outputs[1] != kAbsent) return false;
      const std::int32_t training = node.inputs[2];
      if (training == kAbsent) return true;
      const Tensor &t = at(graph, training);
      return t.is_constant && t.data.size == 1 && *static_cast<const std::uint8_t *>(t.data.data) == 0;
    }
    case Op::Pad: return node.get_string("mode", "constant") != "constant";
    default: return op_row(node.op).value == OpValue::Moves;
  }
}

bool moves_real_values(const Graph &graph, const Node &node) {
  if (moves_values(graph, node)) return true;
  if (node.op != Op::Pad) return false;
  const std::int32_t value = node.inputs[2];
  if (value == kAbsent) return true;
  const float *with = constant_floats(graph, value);
  return with && at(graph, value).data.size == sizeof(float) && *with == 0;
}

bool is_moved_input(Op op, std::size_t input) noexcept { return input == 0 || op == Op::Concat; }
std::size_t moved_inputs(const Node &node) noexcept { return node.op == Op::Concat ? node.inputs.size() : 1; }

bool is_elementwise_function(Op op) noexcept { return op_row(op).value == OpValue::Function; }

bool decides_shapes(Op op, std::size_t input) noexcept { return op == Op::Resize && input > 0; }

bool computes_on_quantized(const Graph &graph, const Node &node) {
  return op_row(node.op).has(OpTraits::Quantized) || is_elementwise_function(node.op) || moves_values(graph, node);
}

bool takes_bias(Op op) noexcept { return op_row(op).has(OpTraits::Bias); }

std::optional<std::size_t> channel_axis(const Node &node, std::size_t weights_rank) noexcept {
  std::size_t axis = 0;
  switch (node.op) {
    case Op::Conv: axis = 0; break;
    case Op::ConvTranspose: axis = 1; break;
    case Op::Gemm: axis = node.get_int("transB", 0) != 0 ? 0 : 1; break;
    case Op::MatMul:
      if (weights_rank < 2) return std::nullopt;
      axis = weights_rank - 1;
      break;
    default: return std::nullopt;
  }
  return axis < weights_rank ? std::optional(axis) : std::nullopt;
}

bool is_counted_bias(const Graph &graph, const Node &node, std::size_t input) noexcept {
  if (!takes_bias(node.op) || input != 2 || node.inputs[2] == kAbsent) return false;
  const Tensor &bias = at(graph, node.inputs[2]);
  return bias.dtype == DType::I32 && !bias.quant &&
         (at(graph, node.inputs[0]).quant || at(graph, node.inputs[1]).quant);
}

std::optional<BiasUnit> BiasUnit::of(const Node &node, const Tensor &x, const Tensor &w, const Tensor &bias) {
  if (!takes_bias(node.op) || bias.dtype != DType::I32 || !x.quant || !w.quant || !x.quant->per_tensor())
    return std::nullopt;
  if (!w.quant->per_tensor()) {
    const auto axis = channel_axis(node, w.shape.size());
    if (w.quant->block_size != 0 || !axis || w.quant->axis != static_cast<std::int32_t>(*axis)) return std::nullopt;
    const auto scales = static_cast<std::int64_t>(w.quant->scales.size());
    const std::int64_t groups = node.op == Op::ConvTranspose ? node.get_int("group", 1) : 1;
    if (bias.shape.empty() || bias.shape.back() != scales * groups) return std::nullopt;
  }
  return BiasUnit(x.quant->scales[0], w.quant->scales);
}

bool bias_counts_products(const Node &node, const Tensor &x, const Tensor &w, const Tensor &bias) {
  const auto rule = BiasUnit::of(node, x, w, bias);
  if (!rule) return false;
  if (!bias.quant) return true;
  const Quantization &own = *bias.quant;
  if (own.block_size != 0 || (!own.per_tensor() && own.axis != static_cast<std::int32_t>(bias.shape.size()) - 1) ||
      std::ranges::any_of(own.zero_points, [](std::int32_t zero) { return zero != 0; }))
    return false;
  const std::size_t channels = std::max(own.scales.size(), w.quant->scales.size());
  for (std::size_t c = 0; c < channels; ++c) {
    const double product =
        static_cast<double>(x.quant->scales[0]) * static_cast<double>(w.quant->scales[c % w.quant->scales.size()]);
    const double scale = static_cast<double>(own.scales[own.scales.size() == 1 ? 0 : c]);
    if (!(std::fabs(scale - product) <= 1e-6 * product)) return false;
  }
  return true;
}

}  // namespace quarry::qir
