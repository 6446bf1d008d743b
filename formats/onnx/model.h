// SPDX-License-Identifier: Apache-2.0
// A parsed ONNX model: what it declares, before any shape is bound.
#pragma once

#include <memory>

#include "base/status.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/tensor_data.h"

namespace quarry::onnx_import {

// Opset 7 is the oldest that is promised; of older ones what old exporters wrote is taken too (rules/rules.inc).
inline constexpr std::int64_t kOldestOpset = 1;

using Opsets = StringMap<std::int64_t>;  // domain ("ai.onnx" is "") -> version

// A value as declared: an input or output of the graph, or one inside it.
struct Declared {
  String name;
  DType dtype = DType::Unknown;
  bool has_shape = false;
  qir::Shape shape;          // kUnknownDim: symbolic or unknown
  Vector<String> dim_names;  // of symbolic ones, "" for one without a name; as many as shape
};

class Reasons;
// What a value_info says; what Quarry does not take goes to `reasons`. `role`: "input".
Declared declare(const pb::ValueInfoProto &info, const char *role, Reasons &reasons);

class Model : public HeapObject {
 public:
  // Parses and checks what needs no shapes: versions, names, types of inputs and outputs. Finds every reason, not the
  // first.
  // Files of external data, which are sought in `folder` or come from `source`, are opened too.
  static Result<Unique<Model>> open(qir::Bytes data, OpenFd folder, ExternalUse use = ExternalUse::Map,
                                    ExternalSource *source = nullptr);
  static OpenFd open_folder(std::string_view path);  // of a model, whose path this is; errors show when it is used

  const pb::ModelProto &proto() const noexcept { return proto_; }
  const Opsets &opsets() const noexcept { return opsets_; }
  const Vector<Declared> &inputs() const noexcept { return inputs_; }  // without initializers
  const Vector<Declared> &outputs() const noexcept { return outputs_; }
  // Inputs that have an initializer, as IR 4 and later may: constants, unless a binding says otherwise.
  const Vector<Declared> &defaults() const noexcept { return defaults_; }
  ExternalData &external() noexcept { return external_; }
  // What opening does not check, and no shape is needed for: every tensor's data are there and whole, and each value is
  // made by a node, an input or an initializer.
  Status verify();
  // A model-local function; nullptr: there is none of that name.
  const pb::FunctionProto *function(std::string_view domain, std::string_view name, std::string_view overload) const;
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::string_view producer() const noexcept { return producer_; }  // name and version; may be empty
  String inspect() const;                                           // JSON, see prepare/prepare_api.h

  Model(OpenFd folder, ExternalUse use, ExternalSource *source) : external_(std::move(folder), use, source) {}

 private:
  Status check();

  pb::ModelProto proto_;
  String producer_;
  std::uint64_t file_bytes_ = 0;
  Opsets opsets_;
  Vector<Declared> inputs_, outputs_, defaults_;
  StringMap<const pb::FunctionProto *> functions_;
  ExternalData external_;
};

// Opset imports of a model or function; names a version that is out of range.
Status read_opsets(const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto> &imports, std::string_view subject,
                   Opsets *out);
inline std::string_view normal_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}
// A string field that is newer than libonnx's headers; "" where it is not there.
String unknown_string(const google::protobuf::Message &message, int field);

}  // namespace quarry::onnx_import
