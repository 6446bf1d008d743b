// SPDX-License-Identifier: Apache-2.0
#include "graph/io/describe.h"

#include <algorithm>
#include <cstring>

namespace quarry::qir {
namespace {

constexpr std::size_t kShownElements = 16;  // of a constant or a list of scales: weights are not for reading

template <class T>
T element(const Tensor &tensor, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::uint8_t *>(tensor.data.data) + index * sizeof(T), sizeof(T));
  return value;
}

// The first elements of a constant of a usual type.
void write_values(const Tensor &tensor, JsonWriter &json) {
  const auto each = [&]<class T>(T) {
    const std::size_t count = std::min<std::size_t>(kShownElements, tensor.data.size / sizeof(T));
    json.key("values").begin_array();
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_floating_point_v<T>) json.value(static_cast<double>(element<T>(tensor, i)));
      else json.value(element<T>(tensor, i));
    }
    json.end_array();
  };
  switch (tensor.dtype) {
    case DType::F32: return each(float());
    case DType::F64: return each(double());
    case DType::I64: return each(std::int64_t());
    case DType::I32: return each(std::int32_t());
    case DType::I16: return each(std::int16_t());
    case DType::I8: return each(std::int8_t());
    case DType::U64: return each(std::uint64_t());
    case DType::U32: return each(std::uint32_t());
    case DType::U16: return each(std::uint16_t());
    case DType::U8:
    case DType::Bool: return each(std::uint8_t());
    default: return;
  }
}

void write_quantization(const Quantization &quant, JsonWriter &json) {
  json.key("quantization").begin_object().field("count", quant.scales.size()).key("scales").begin_array();
  for (std::size_t i = 0; i < std::min(kShownElements, quant.scales.size()); ++i)
    json.value(static_cast<double>(quant.scales[i]));
  json.end_array().key("zero_points").begin_array();
  for (std::size_t i = 0; i < std::min(kShownElements, quant.zero_points.size()); ++i) json.value(quant.zero_points[i]);
  json.end_array();
  if (!quant.per_tensor()) json.field("axis", quant.axis);
  if (quant.block_size) json.field("block_size", quant.block_size);
  json.end_object();
}

void write_tensor(const Tensor &tensor, JsonWriter &json) {
  json.begin_object().field("name", tensor.name).field("dtype", dtype_name(tensor.dtype));
  json.key("dims").shape(tensor.shape.data(), tensor.shape.size());
  if (tensor.quant) write_quantization(*tensor.quant, json);
  if (tensor.is_constant) {
    json.field("constant_bytes", tensor.data.size);
    write_values(tensor, json);
  }
  json.end_object();
}

void write_ids(const char *name, const Vector<std::int32_t> &ids, JsonWriter &json) {
  json.key(name).shape(Vector<std::int64_t>(ids.begin(), ids.end()).data(), ids.size());  // kAbsent is null
}

void write_value(const Attribute &from, JsonWriter &json) {
  switch (from.kind) {
    case Attribute::Kind::Int: json.value(from.i); return;
    case Attribute::Kind::Float: json.value(static_cast<double>(from.f)); return;
    case Attribute::Kind::String: json.value(from.s); return;
    default: break;
  }
  json.begin_array();
  for (const std::int64_t value : from.ints) json.value(value);
  for (const float value : from.floats) json.value(static_cast<double>(value));
  for (const String &value : from.strings) json.value(value);
  for (const Tensor &value : from.tensors)
    json.value(std::string_view(dtype_name(value.dtype) + shape_text(value.shape.data(), value.shape.size())));
  json.end_array();
}

}  // namespace

void describe_graph(const Graph &graph, std::string_view name, JsonWriter &json) {
  json.begin_object().field("name", name);
  write_ids("inputs", graph.inputs, json);
  write_ids("outputs", graph.outputs, json);
  json.key("tensors").begin_array();
  for (const Tensor &tensor : graph.tensors) write_tensor(tensor, json);
  json.end_array().key("nodes").begin_array();
  for (const Node &node : graph.nodes) {
    json.begin_object().field("name", node.name).field("op", op_text(node));
    write_ids("inputs", node.inputs, json);
    write_ids("outputs", node.outputs, json);
    if (!node.attributes.empty()) {
      json.key("attributes").begin_object();
      for (const Attribute &attribute : node.attributes) write_value(attribute, json.key(attribute.name));
      json.end_object();
    }
    if (!node.subgraphs.empty()) {
      json.key("subgraphs").begin_array();
      for (const Graph &body : node.subgraphs) describe_graph(body, body.name, json);
      json.end_array();
    }
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace quarry::qir
