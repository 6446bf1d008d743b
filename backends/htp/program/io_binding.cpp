// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/program/io_binding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float16.h"
#include "graph/edit/graph_edit.h"
#include "graph/ops/quantization.h"

namespace quarry::htp {

using qir::Op;
using qnn::DataType;

namespace {

bool among(const Vector<std::int32_t> &list, std::int32_t id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

// What such a node says, where the host may do it. `integers`: the node's quantised side.
std::optional<qir::Quantization> conversion(const qir::Graph &graph, const qir::Node &node, std::int32_t integers) {
  const qir::Tensor &stored = qir::at(graph, integers);
  if (stored.is_constant || !stored.quant || !stored.quant->per_tensor()) return std::nullopt;
  if (stored.dtype != DType::U8 && stored.dtype != DType::I8 && stored.dtype != DType::U16 &&
      stored.dtype != DType::I16)
    return std::nullopt;
  if (among(graph.inputs, integers)) return std::nullopt;
  std::optional<qir::Quantization> quant = qir::read_quantization(graph, node);
  if (!quant || !quant->per_tensor() || *quant != *stored.quant) return std::nullopt;
  return quant;
}

// qir::quantized_value for an array: the bounds have few enough bits for f32.
template <class Stored>
void quantize_as(float scale, std::int32_t zero_point, const float *from, Stored *to, std::uint64_t count) {
  const auto low = static_cast<float>(std::numeric_limits<Stored>::min() - zero_point),
             high = static_cast<float>(std::numeric_limits<Stored>::max() - zero_point);
  for (std::uint64_t i = 0; i < count; ++i) {
    const float quotient = from[i] / scale;
    const float within = quotient != quotient ? 0.0f : std::nearbyintf(std::clamp(quotient, low, high));
    to[i] = static_cast<Stored>(static_cast<std::int32_t>(within) + zero_point);
  }
}

template <class Stored>
void dequantize_as(float scale, std::int32_t zero_point, const Stored *from, float *to, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i] - zero_point) * scale;
}

}  // namespace

HostBorders take_border_quantization(qir::Graph &graph, const HostReals &reals) {
  const auto is_f32 = [](const Vector<DType> &types, std::size_t i) {
    return i >= types.size() || types[i] == DType::Unknown;
  };
  HostBorders out;
  out.inputs.resize(graph.inputs.size()), out.outputs.resize(graph.outputs.size());
  Vector<bool> gone(graph.nodes.size());
  const qir::Uses uses(graph);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::int32_t real = graph.inputs[i];
    if (uses.users(real).size() != 1 || uses.is_output(real) || !is_f32(reals.inputs, i)) continue;
    const auto at = index_of(uses.users(real)[0]);
    const qir::Node &node = graph.nodes[at];
    if (node.op != Op::QuantizeLinear || node.inputs[0] != real || qir::at(graph, real).dtype != DType::F32) continue;
    if (std::ranges::count(qir::at(graph, real).shape, 0) > 0) continue;  // lowering refuses it by name
    const std::optional<qir::Quantization> quant = conversion(graph, node, node.outputs[0]);
    if (!quant) continue;
    out.inputs[i] = {qir::at(graph, real).name, quant->scales[0], quant->zero_points[0]};
    graph.inputs[i] = node.outputs[0];
    out.sources.push_back(node.source);
    gone[at] = true;
  }
  HashMap<std::int32_t, std::size_t> times;
  for (const std::int32_t id : graph.outputs) ++times[id];
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::int32_t real = graph.outputs[i];
    const std::int32_t maker = uses.maker(real);
    if (maker < 0 || !uses.users(real).empty() || gone[index_of(maker)]) continue;
    if (times[real] != 1 || !is_f32(reals.outputs, i)) continue;
    const qir::Node &node = graph.nodes[index_of(maker)];
    if (node.op != Op::DequantizeLinear || qir::at(graph, real).dtype != DType::F32) continue;
    if (std::ranges::count(qir::at(graph, real).shape, 0) > 0) continue;
    const std::optional<qir::Quantization> quant = conversion(graph, node, node.inputs[0]);
    if (!quant) continue;
    out.outputs[i] = {qir::at(graph, real).name, quant->scales[0], quant->zero_points[0]};
    graph.outputs[i] = node.inputs[0];
    out.sources.push_back(node.source);
    gone[index_of(maker)] = true;
  }
  qir::compact(graph, gone);
  return out;
}

bool is_stored_border(DataType stored) noexcept {
  return stored == DataType::UQ8 || stored == DataType::SQ8 || stored == DataType::UQ16 || stored == DataType::SQ16;
}

void quantize_border(DataType stored, float scale, std::int32_t zero_point, const void *from, void *to,
                     std::uint64_t count) {
  const auto *const reals = static_cast<const float *>(from);
  switch (stored) {
    case DataType::UQ8: return quantize_as(scale, zero_point, reals, static_cast<std::uint8_t *>(to), count);
    case DataType::SQ8: return quantize_as(scale, zero_point, reals, static_cast<std::int8_t *>(to), count);
    case DataType::UQ16: return quantize_as(scale, zero_point, reals, static_cast<std::uint16_t *>(to), count);
    default: return quantize_as(scale, zero_point, reals, static_cast<std::int16_t *>(to), count);
  }
}

void dequantize_border(DataType stored, float scale, std::int32_t zero_point, const void *from, void *to,
                       std::uint64_t count) {
  auto *const reals = static_cast<float *>(to);
  switch (stored) {
    case DataType::UQ8: return dequantize_as(scale, zero_point, static_cast<const std::uint8_t *>(from), reals, count);
    case DataType::SQ8: return dequantize_as(scale, zero_point, static_cast<const std::int8_t *>(from), reals, count);
    case DataType::UQ16:
      return dequantize_as(scale, zero_point, static_cast<const std::uint16_t *>(from), reals, count);
    default: return dequantize_as(scale, zero_point, static_cast<const std::int16_t *>(from), reals, count);
  }
}

namespace {

template <class From, class To, class Convert>
void convert_each(const void *from, void *to, std::uint64_t count, Convert convert) {
  for (std::uint64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, static_cast<const std::uint8_t *>(from) + i * sizeof value, sizeof value);
    const To made = convert(value);
    std::memcpy(static_cast<std::uint8_t *>(to) + i * sizeof made, &made, sizeof made);
  }
}

}  // namespace

void reals_to_floats(DType dtype, const void *from, void *floats, std::uint64_t count) {
  if (dtype == DType::BF16) return convert_each<std::uint16_t, float>(from, floats, count, bf16_to_f32);
  convert_each<double, float>(from, floats, count, [](double value) { return static_cast<float>(value); });
}

void floats_to_reals(DType dtype, const void *floats, void *to, std::uint64_t count) {
  if (dtype == DType::BF16) return convert_each<float, std::uint16_t>(floats, to, count, f32_to_bf16);
  convert_each<float, double>(floats, to, count, [](float value) { return static_cast<double>(value); });
}

}  // namespace quarry::htp
