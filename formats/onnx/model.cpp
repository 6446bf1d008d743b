// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/model.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>

#include "base/json_writer.h"
#include "base/os/file.h"
#include "base/os/path.h"
#include "base/stop.h"
#include "formats/onnx/reasons.h"

namespace quarry::onnx_import {
namespace {

constexpr int kFunctionOverloadField = 13;
constexpr int kDeepestMessage = 3 * 96;  // of each level of subgraphs three; the importer names those past its limit

// In pieces, between which it may be stopped.
class Pieces final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit Pieces(qir::Bytes data) : all_(data.data, static_cast<int>(data.size), kPiece) {}
  bool Next(const void **data, int *size) override { return !stop_asked() && all_.Next(data, size); }
  void BackUp(int count) override { all_.BackUp(count); }
  bool Skip(int count) override { return all_.Skip(count); }
  std::int64_t ByteCount() const override { return all_.ByteCount(); }

 private:
  static constexpr int kPiece = 1 << 18;
  google::protobuf::io::ArrayInputStream all_;
};

// Not ParseFromArray: that one writes its complaints to stderr.
bool parse(qir::Bytes data, pb::ModelProto *out) {
  Pieces stream(data);
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetRecursionLimit(kDeepestMessage);
  return out->MergePartialFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

String function_key(std::string_view domain, std::string_view name, std::string_view overload) {
  String key(normal_domain(domain));
  ((key += '\0') += name) += '\0';
  return key += overload;
}

const char *type_kind(const pb::TypeProto &type) {
  switch (type.value_case()) {
    case pb::TypeProto::kTensorType: return "tensor";
    case pb::TypeProto::kSequenceType: return "sequence";
    case pb::TypeProto::kMapType: return "map";
    case pb::TypeProto::kOptionalType: return "optional";
    case pb::TypeProto::kSparseTensorType: return "sparse tensor";
    case pb::TypeProto::kOpaqueType: return "opaque";
    case pb::TypeProto::VALUE_NOT_SET: return "untyped value";
  }
  return "unknown";
}

}  // namespace

Declared declare(const pb::ValueInfoProto &info, const char *role, Reasons &reasons) {
  Declared out;
  out.name = info.name();
  const String subject = format("%s '%s'", role, printable(info.name()));
  if (!info.type().has_tensor_type()) {
    reasons.add(ErrorId::onnx_type, subject, format("is a %s; Quarry takes tensors", type_kind(info.type())));
    return out;
  }
  const auto &tensor = info.type().tensor_type();
  auto dtype = element_type(tensor.elem_type(), subject);
  if (dtype.ok()) out.dtype = *dtype;
  else reasons.add(dtype.take_status(), subject);
  out.has_shape = tensor.has_shape();
  if (tensor.shape().dim_size() > static_cast<int>(qir::kMaxRank)) {
    reasons.add(ErrorId::qir_rank, subject,
                format("has %d dimensions, the limit is %zu", tensor.shape().dim_size(), qir::kMaxRank));
    return out;
  }
  for (const auto &dim : tensor.shape().dim()) {
    const bool known = dim.has_dim_value() && dim.dim_value() >= 0;
    out.shape.push_back(known ? dim.dim_value() : qir::kUnknownDim);
    // PaddlePaddle writes "?" for every dimension that it does not know: no name, so that two of them may differ.
    const bool named = !known && dim.has_dim_param() && dim.dim_param() != "?";
    out.dim_names.push_back(named ? String(dim.dim_param()) : String());
  }
  return out;
}

String unknown_string(const google::protobuf::Message &message, int field) {
  const auto &fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i)
    if (fields.field(i).number() == field &&
        fields.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      return String(fields.field(i).length_delimited());
  return {};
}

Status read_opsets(const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto> &imports, std::string_view subject,
                   Opsets *out) {
  for (const auto &import : imports) {
    const std::string_view domain = normal_domain(import.domain());
    if (domain.empty() && (import.version() < kOldestOpset || import.version() > qir::kNormalOpset))
      return Status::error(ErrorId::onnx_opset,
                           format("%.*s: imports opset %lld of ai.onnx, this version takes %lld to %lld", subject,
                                  import.version(), kOldestOpset, qir::kNormalOpset));
    (*out)[String(domain)] = import.version();
  }
  return {};
}

namespace {

Status take_files_of(const pb::GraphProto &graph, ExternalData &external);

// Of the tensors in the attributes of nodes, and in their bodies.
template <class Nodes>
Status take_files_of_nodes(const Nodes &nodes, ExternalData &external) {
  for (const pb::NodeProto &node : nodes) {
    QR_RETURN_IF_ERROR(take_file_of_ep_context(node, external));
    for (const pb::AttributeProto &attribute : node.attribute()) {
      QR_RETURN_IF_ERROR(external.take_file_of(attribute.t()));
      QR_RETURN_IF_ERROR(external.take_file_of(attribute.sparse_tensor().values()));
      QR_RETURN_IF_ERROR(external.take_file_of(attribute.sparse_tensor().indices()));
      for (const pb::TensorProto &tensor : attribute.tensors()) QR_RETURN_IF_ERROR(external.take_file_of(tensor));
      if (attribute.has_g()) QR_RETURN_IF_ERROR(take_files_of(attribute.g(), external));
      for (const pb::GraphProto &body : attribute.graphs()) QR_RETURN_IF_ERROR(take_files_of(body, external));
    }
  }
  return {};
}

Status take_files_of(const pb::GraphProto &graph, ExternalData &external) {
  for (const pb::TensorProto &tensor : graph.initializer()) QR_RETURN_IF_ERROR(external.take_file_of(tensor));
  for (const pb::SparseTensorProto &tensor : graph.sparse_initializer()) {
    QR_RETURN_IF_ERROR(external.take_file_of(tensor.values()));
    QR_RETURN_IF_ERROR(external.take_file_of(tensor.indices()));
  }
  return take_files_of_nodes(graph.node(), external);
}

std::int64_t int_attribute(const pb::NodeProto &node, std::string_view name) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name) return attribute.i();
  return 0;
}

// onnxruntime-genai's builder gives the size of a head in a cache as a name (kv_cache_dim), though only one number fits
// its GroupQueryAttention: that of the queries, which a value_info has. A cache that a session keeps has no one else to
// say it.
void size_caches(const pb::GraphProto &graph, Vector<Declared> &inputs) {
  StringMap<std::size_t> open;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].shape.size() == 4 && inputs[i].shape[3] < 0) open.emplace(inputs[i].name, i);
  if (open.empty()) return;
  StringMap<std::int64_t> widths;
  for (const auto &info : graph.value_info())
    if (const auto &shape = info.type().tensor_type().shape(); shape.dim_size() == 3 && shape.dim(2).dim_value() > 0)
      widths.emplace(String(info.name()), shape.dim(2).dim_value());
  for (const auto &node : graph.node()) {
    if (node.op_type() != "GroupQueryAttention" || node.input_size() < 5) continue;
    const auto width = widths.find(std::string_view(node.input(0)));
    const std::int64_t queries = int_attribute(node, "num_heads"), keys = int_attribute(node, "kv_num_heads");
    if (width == widths.end() || queries < 1 || queries > width->second || keys < 0 || keys > width->second) continue;
    const std::int64_t heads = queries + (node.input(1).empty() ? 2 * keys : 0);
    if (width->second % heads != 0) continue;
    for (const int i : {3, 4})
      if (const auto cache = open.find(std::string_view(node.input(i))); cache != open.end())
        inputs[cache->second].shape[3] = width->second / heads, inputs[cache->second].dim_names[3].clear();
  }
}

// A field of protobuf's, as far as it is there: at most ten groups of seven bits, the lowest first.
bool read_varint(qir::Bytes data, std::size_t &at, std::uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && at < data.size; shift += 7) {
    const std::uint8_t byte = static_cast<const std::uint8_t *>(data.data)[at++];
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

// Whether the fields of a message are right up to one that goes on behind the end of the file.
bool is_cut_off(qir::Bytes data) {
  constexpr std::uint64_t kVarint = 0, kBytes = 2;
  for (std::size_t at = 0, fields = 0; at < data.size; ++fields) {
    std::uint64_t key = 0, value = 0;
    if (!read_varint(data, at, key)) return fields > 0;
    const bool is_known =
        key >> 3 >= 1 && key >> 3 <= 25 && ((key & 7) == kVarint || (key & 7) == kBytes);  // ModelProto's
    if (!is_known) return false;
    if (!read_varint(data, at, value)) return fields > 0;
    if ((key & 7) == kVarint) continue;
    if (value > data.size - at) return fields > 0;
    at += static_cast<std::size_t>(value);
  }
  return false;
}

}  // namespace

OpenFd Model::open_folder(std::string_view path) {
  const std::size_t slash = os::last_separator(path);
  const String folder = slash == std::string_view::npos ? String(".") : String(path.substr(0, slash + 1));
  return os::open_folder(folder.c_str());
}

Result<Unique<Model>> Model::open(qir::Bytes data, OpenFd folder, ExternalUse use, ExternalSource *source) {
  if (data.size == 0) return Status::error(ErrorId::onnx_parse, "the model is empty");
  if (data.size > INT32_MAX)
    return Status::error(ErrorId::onnx_parse, format("the model has %llu bytes, protobuf's limit is 2 GB", data.size),
                         "keep the weights as external data (onnx.save_model with save_as_external_data=True)");
  auto model = quarry::make_unique<Model>(std::move(folder), use, source);
  if (!parse(data, &model->proto_)) {
    QR_RETURN_IF_ERROR(stop_status("reading the model"));
    if (is_cut_off(data))
      return Status::error(ErrorId::onnx_parse,
                           format("the model is cut off: found %llu bytes, expected more", data.size),
                           "copy or download the file again, whole and in binary mode");
    return Status::error(ErrorId::onnx_parse, "the bytes are no ONNX model: protobuf cannot parse them");
  }
  model->file_bytes_ = data.size;
  model->producer_ = model->proto_.producer_name();
  if (!model->proto_.producer_version().empty()) (model->producer_ += ' ') += model->proto_.producer_version();
  QR_RETURN_IF_ERROR(model->check());
  QR_RETURN_IF_ERROR(take_files_of(model->proto_.graph(), model->external_));
  for (const pb::FunctionProto &function : model->proto_.functions())
    QR_RETURN_IF_ERROR(take_files_of_nodes(function.node(), model->external_));
  model->external_.taken();
  return model;
}

Status Model::check() {
  if (!proto_.has_graph())
    return Status::error(ErrorId::onnx_parse, "the bytes parse but hold no graph: is this an ONNX model?");
  if (proto_.ir_version() < 3)
    return Status::error(ErrorId::onnx_invalid,
                         format("the model's IR version is %lld, expected 3 or more", proto_.ir_version()));
  if (proto_.opset_import_size() == 0) return Status::error(ErrorId::onnx_invalid, "the model imports no opset");
  QR_RETURN_IF_ERROR(read_opsets(proto_.opset_import(), "the model", &opsets_));

  Reasons reasons;
  const pb::GraphProto &graph = proto_.graph();
  StringSet constants, names;
  StringMap<const pb::TensorProto *> dense;
  for (const auto &tensor : graph.initializer()) {
    constants.emplace(tensor.name());
    if (proto_.ir_version() >= 4) dense.emplace(String(tensor.name()), &tensor);
  }
  for (const auto &tensor : graph.sparse_initializer()) constants.emplace(tensor.values().name());
  for (const auto &input : graph.input()) {
    QR_RETURN_IF_ERROR(stop_status("reading the model"));
    if (!names.emplace(input.name()).second || input.name().empty())
      reasons.add(ErrorId::onnx_invalid, format("input '%s'", printable(input.name())),
                  "its name is empty or not the only one of its kind");
    // Before IR 4 initializers stand among the inputs; later that means a default, which the option shape replaces.
    if (!constants.contains(std::string_view(input.name()))) {
      inputs_.push_back(declare(input, "input", reasons));
    } else if (const auto found = dense.find(std::string_view(input.name())); found != dense.end()) {
      Declared &made = defaults_.emplace_back(declare(input, "input", reasons));
      if (made.has_shape && std::ranges::find(made.shape, qir::kUnknownDim) != made.shape.end()) continue;
      made.has_shape = true;
      made.shape.assign(found->second->dims().begin(), found->second->dims().end());
      made.dim_names.assign(made.shape.size(), String());
    }
  }
  size_caches(graph, inputs_);
  names.clear();
  for (const auto &output : graph.output()) {
    QR_RETURN_IF_ERROR(stop_status("reading the model"));
    if (!names.emplace(output.name()).second || output.name().empty())
      reasons.add(ErrorId::onnx_invalid, format("output '%s'", printable(output.name())),
                  "its name is empty or not the only one of its kind");
    outputs_.push_back(declare(output, "output", reasons));
  }
  if (outputs_.empty()) reasons.add(ErrorId::onnx_invalid, "the model", "has no outputs");
  for (const auto &function : proto_.functions())
    functions_[function_key(function.domain(), function.name(), unknown_string(function, kFunctionOverloadField))] =
        &function;
  return reasons.status();
}

const pb::FunctionProto *Model::function(std::string_view domain, std::string_view name,
                                         std::string_view overload) const {
  if (functions_.empty()) return nullptr;
  const auto found = functions_.find(function_key(domain, name, overload));
  return found == functions_.end() ? nullptr : found->second;
}

namespace {

void count_operators(const pb::GraphProto &graph, OrderedMap<String, std::uint64_t> &counts,
                     std::uint64_t &parameters) {
  for (const auto &tensor : graph.initializer()) {
    std::uint64_t elements = 1;
    for (const std::int64_t dim : tensor.dims()) elements *= dim > 0 ? static_cast<std::uint64_t>(dim) : 0;
    parameters += elements;
  }
  for (const auto &node : graph.node()) {
    const std::string_view domain = normal_domain(node.domain());
    ++counts[domain.empty() ? String(node.op_type()) : String(domain) + "::" + String(node.op_type())];
    for (const auto &attribute : node.attribute())
      if (attribute.has_g()) count_operators(attribute.g(), counts, parameters);
  }
}

void write_declared(JsonWriter &json, const char *key, const Vector<Declared> &values) {
  json.key(key).begin_array();
  for (const Declared &value : values) {
    json.begin_object()
        .field("name", std::string_view(value.name))
        .field("dtype", dtype_name(value.dtype))
        .key("shape");
    if (!value.has_shape) {
      json.null().end_object();
      continue;
    }
    json.begin_array();
    for (std::size_t i = 0; i < value.shape.size(); ++i) {
      if (value.shape[i] >= 0) json.value(value.shape[i]);
      else if (!value.dim_names[i].empty()) json.value(std::string_view(value.dim_names[i]));
      else json.null();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

}  // namespace

String Model::inspect() const {
  OrderedMap<String, std::uint64_t> operators;
  std::uint64_t parameters = 0;
  count_operators(proto_.graph(), operators, parameters);
  JsonWriter json;
  json.begin_object();
  json.field("producer", producer()).field("ir_version", static_cast<std::int64_t>(proto_.ir_version()));
  json.key("opsets").begin_array();
  for (const auto &import : proto_.opset_import()) {
    const std::string_view domain =
        import.domain().empty() ? std::string_view("ai.onnx") : std::string_view(import.domain());
    json.begin_object()
        .field("domain", domain)
        .field("version", static_cast<std::int64_t>(import.version()))
        .end_object();
  }
  json.end_array().key("operators").begin_object();
  for (const auto &[name, count] : operators) json.field(name, count);
  json.end_object().field("parameters", parameters);
  write_declared(json, "inputs", inputs_);
  write_declared(json, "defaults", defaults_);
  write_declared(json, "outputs", outputs_);
  json.key("functions").value(static_cast<std::int64_t>(proto_.functions_size()));
  json.key("metadata").begin_object();
  for (const auto &entry : proto_.metadata_props()) json.field(entry.key(), std::string_view(entry.value()));
  json.end_object().end_object();
  return json.take();
}

}  // namespace quarry::onnx_import
