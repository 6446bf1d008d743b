// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/builder.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/float16.h"
#include "graph/edit/graph_edit.h"

namespace quarry::onnx_import {
namespace {

// A folded node may not blow the model up: results beyond this size are kept only where they are not much larger than
// what they are made from.
constexpr std::uint64_t kFoldFreely = std::uint64_t{1} << 20;
constexpr std::uint64_t kFoldGrowth = 4;

}  // namespace

bool Builder::is_static(std::int32_t id) const noexcept {
  return std::ranges::none_of(tensor(id).shape, [](std::int64_t dim) { return dim < 0; });
}

String Builder::unique_name(std::string_view wanted, std::int32_t id) {
  const auto take = [&](std::string_view name) {
    const std::size_t hash = StringHash{}(name);
    const auto has_it = [&](std::uint32_t other) { return tensor(static_cast<std::int32_t>(other)).name == name; };
    if (names_.find(hash, has_it) != HashIndex::kNone) return false;
    names_.put(hash, static_cast<std::uint32_t>(id));
    return true;
  };
  String name(wanted.empty() ? std::string_view("value") : wanted);
  if (take(name)) return name;
  for (std::size_t &i = tried_[String(wanted)];;) {
    name = format("%.*s~%zu", wanted, ++i);
    if (take(name)) return name;
  }
}

std::int32_t Builder::add_tensor(std::string_view name, DType dtype, qir::Shape shape) {
  const auto id = static_cast<std::int32_t>(graph.tensors.size());
  String unique = unique_name(name, id);
  qir::Tensor &tensor = graph.tensors.emplace_back();
  tensor.name = std::move(unique);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return id;
}

std::int32_t Builder::add_constant(std::string_view name, Constant constant) {
  const std::int32_t id = add_tensor(name, constant.dtype, std::move(constant.shape));
  qir::Tensor &tensor = graph.tensors.back();
  tensor.is_constant = true;
  tensor.data = constant.data;
  return id;
}

std::int32_t Builder::add_input(std::string_view name, DType dtype, qir::Shape shape) {
  const std::int32_t id = add_tensor(name, dtype, std::move(shape));
  graph.inputs.push_back(id);
  inputs_.insert(id);
  return id;
}

std::int32_t Builder::add_ints(std::string_view name, std::span<const std::int64_t> values) {
  return add_constant(
      name, {DType::I64, {static_cast<std::int64_t>(values.size())}, store_.copy(values.data(), values.size_bytes())});
}

std::int32_t Builder::add_int(std::string_view name, std::int64_t value) {
  return add_constant(name, {DType::I64, {}, store_.copy(&value, sizeof value)});
}

// False: the type holds no plain numbers.
static bool append_number(DType dtype, double value, Vector<unsigned char> *out) {
  unsigned char bytes[8] = {};
  const auto put = [&](auto x) { std::memcpy(bytes, &x, sizeof x); };
  switch (dtype) {
    case DType::F32: put(static_cast<float>(value)); break;
    case DType::F64: put(value); break;
    case DType::F16: put(f32_to_f16(static_cast<float>(value))); break;
    case DType::BF16: put(f32_to_bf16(static_cast<float>(value))); break;
    case DType::I64:
    case DType::I32:
    case DType::I16:
    case DType::I8: put(static_cast<std::int64_t>(value)); break;
    case DType::U64:
    case DType::U32:
    case DType::U16:
    case DType::U8:
    case DType::Bool: put(static_cast<std::uint64_t>(value)); break;
    default: return false;
  }
  out->insert(out->end(), bytes, bytes + dtype_bits(dtype) / 8);
  return true;
}

std::int32_t Builder::add_number(std::string_view name, DType dtype, double value) {
  return add_numbers(name, dtype, {}, {&value, 1});
}

std::int32_t Builder::add_numbers(std::string_view name, DType dtype, qir::Shape shape,
                                  std::span<const double> values) {
  Vector<unsigned char> bytes;
  for (const double value : values)
    if (!append_number(dtype, value, &bytes)) return qir::kAbsent;
  return add_constant(name, {dtype, std::move(shape), store_.copy(bytes.data(), bytes.size())});
}

std::optional<Vector<std::int64_t>> Builder::ints(std::int32_t id) const {
  if (!is_constant(id)) return std::nullopt;
  const qir::Tensor &from = tensor(id);
  Vector<std::int64_t> out;
  if (from.dtype == DType::I64) {
    const auto *data = static_cast<const std::int64_t *>(from.data.data);
    out.assign(data, data + from.data.size / sizeof *data);
  } else if (from.dtype == DType::I32) {
    const auto *data = static_cast<const std::int32_t *>(from.data.data);
    out.assign(data, data + from.data.size / sizeof *data);
  } else {
    return std::nullopt;
  }
  return out;
}

std::optional<Vector<float>> Builder::floats(std::int32_t id) const {
  if (!is_constant(id)) return std::nullopt;
  const qir::Tensor &from = tensor(id);
  Vector<float> out;
  if (from.dtype == DType::F32) {
    const auto *data = static_cast<const float *>(from.data.data);
    out.assign(data, data + from.data.size / sizeof *data);
  } else if (from.dtype == DType::F16) {
    const auto *data = static_cast<const std::uint16_t *>(from.data.data);
    for (std::uint64_t i = 0; i < from.data.size / sizeof *data; ++i) out.push_back(f16_to_f32(data[i]));
  } else {
    return std::nullopt;
  }
  return out;
}

bool Builder::worth_folding(const qir::Node &node, const Vector<qir::InferType> &types) const {
  // What is dequantised stays visible as such until the quantised types are made.
  if (!folder_ || !node.subgraphs.empty() || qir::is_random(node.op) || node.op == qir::Op::DequantizeLinear)
    return false;
  std::uint64_t in = 0, out = 0;
  for (const std::int32_t id : node.inputs) {
    if (id == qir::kAbsent) continue;
    if (!tensor(id).is_constant) return false;
    in += tensor(id).data.size;
  }
  for (const qir::InferType &type : types) {
    const auto count = element_count(type.shape.data(), type.shape.size());
    // Data-dependent shapes are known once the node has run; they do not exceed what the inputs hold by much
    // (NonZero, Unique).
    const auto size = count ? packed_size(type.dtype, *count) : std::uint64_t{0};
    if (!size || !checked_add<std::uint64_t>(out, *size, &out)) return false;
  }
  if (out > folder_->left || (out > kFoldFreely && out / kFoldGrowth > in)) return false;
  folder_->left -= out;
  return true;
}

Vector<qir::InferValue> Builder::input_values(const qir::Node &node) const {
  Vector<qir::InferValue> inputs(node.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == qir::kAbsent) continue;
    const qir::Tensor &from = tensor(node.inputs[i]);
    inputs[i] = {true, from.dtype, from.shape, &from.quant, from.is_constant ? from.data : qir::Bytes{}};
  }
  return inputs;
}

Status Builder::emit_stated(qir::Node node, const Vector<String> &names, Vector<qir::InferType> types,
                            Vector<std::int32_t> *outputs) {
  outputs->clear();
  std::int32_t next = static_cast<std::int32_t>(graph.tensors.size());
  for (const String &name : names) outputs->push_back(name.empty() ? qir::kAbsent : next++);
  node.outputs = *outputs;
  QR_RETURN_IF_ERROR(qir::infer_node(node, input_values(node), types));
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty()) add_tensor(names[i], types[i].dtype, std::move(types[i].shape));
  graph.nodes.push_back(std::move(node));
  return {};
}

Status Builder::emit(qir::Node node, const Vector<String> &names, Vector<std::int32_t> *outputs) {
  const Vector<qir::InferValue> inputs = input_values(node);
  node.outputs.clear();
  std::int32_t next = static_cast<std::int32_t>(graph.tensors.size());
  for (const String &name : names) node.outputs.push_back(name.empty() ? qir::kAbsent : next++);
  Vector<qir::InferType> types;
  QR_RETURN_IF_ERROR(qir::infer_node(node, inputs, types));
  types.resize(names.size());

  outputs->clear();
  const bool of_shape = (node.op == qir::Op::Shape || node.op == qir::Op::Size) && is_static(node.inputs[0]);
  if (of_shape) {
    const qir::Shape &shape = tensor(node.inputs[0]).shape;
    std::int32_t id;
    if (node.op == qir::Op::Size) {
      const auto count = element_count(shape.data(), shape.size());
      if (!count)
        return Status::error(ErrorId::qir_shape,
                             format("Size '%s': the element count of its input does not fit", node.name));
      id = add_int(names[0], *count);
    } else {
      const auto rank = static_cast<std::int64_t>(shape.size());
      const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
      const std::int64_t start = bound(node.get_int("start", 0)),
                         end = std::max(start, bound(node.get_int("end", rank)));
      id = add_ints(names[0], {shape.data() + start, static_cast<std::size_t>(end - start)});
    }
    outputs->push_back(id);
    return {};
  }
  if (worth_folding(node, types)) {
    Vector<Constant> results;
    if (folder_->fold(graph, node, store_, &results)) {
      for (std::size_t i = 0; i < names.size(); ++i)
        outputs->push_back(names[i].empty() ? qir::kAbsent : add_constant(names[i], std::move(results[i])));
      return {};
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    outputs->push_back(names[i].empty() ? qir::kAbsent
                                        : add_tensor(names[i], types[i].dtype, std::move(types[i].shape)));
  node.outputs = *outputs;
  graph.nodes.push_back(std::move(node));
  return {};
}

void Builder::rename(std::int32_t id, std::string_view name) {
  at(graph, id).name.clear();  // nobody finds it under that any more
  at(graph, id).name = unique_name(name, id);
}

void Builder::give(std::int32_t id) {
  graph.outputs.push_back(id);
  outputs_.insert(id);
}

Status Builder::add_output(std::int32_t id, std::string_view name) {
  const bool is_input = inputs_.contains(id), is_output = outputs_.contains(id);
  if (!is_output && is_input && tensor(id).name == name) {
    give(id);
    return {};
  }
  if (!is_output && !is_input && !tensor(id).is_constant) {
    if (tensor(id).name != name) rename(id, name);
    give(id);
    return {};
  }
  if (tensor(id).is_constant && tensor(id).name == name) rename(id, String(name) + "/value");
  qir::Node node;
  node.op = qir::Op::Identity;
  node.name = String(name) + "/output";
  node.inputs = {id};
  const std::int32_t copy = add_tensor(name, tensor(id).dtype, tensor(id).shape);
  node.outputs = {copy};
  graph.nodes.push_back(std::move(node));
  give(copy);
  return {};
}

}  // namespace quarry::onnx_import
