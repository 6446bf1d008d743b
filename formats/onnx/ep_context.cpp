// SPDX-License-Identifier: Apache-2.0
// EPContext nodes: the context that another runtime compiled is a constant of the node, wherever it lies.
#include "formats/onnx/rewriter.h"

namespace quarry::onnx_import {

Status add_ep_context(Rewriter &node, qir::Node *made) {
  constexpr const char *kContext = "ep_cache_context";
  if (node.get_int("main_context", 1) == 0) return {};  // it is in another node's
  const std::string_view value = node.get_string(kContext, "");
  qir::Bytes bytes{value.data(), value.size()};
  if (node.get_int("embed_mode", 1) == 0) {
    auto file = node.importer.model.external().bytes(value, 0, UINT64_MAX);
    if (!file.ok())
      return node.error(ErrorId::onnx_external_data, "attribute '%s': %s", kContext, String(file.status().message()));
    bytes = file.value();
  }
  if (bytes.size == 0)
    return node.error(ErrorId::onnx_attribute, "attribute '%s': found no bytes, expected a compiled context", kContext);
  qir::Attribute kept;
  kept.name = kContext;
  kept.kind = qir::Attribute::Kind::Tensor;
  qir::Tensor &tensor = kept.tensors.emplace_back();
  tensor.name = kContext;
  tensor.dtype = DType::U8;
  tensor.shape = {static_cast<std::int64_t>(bytes.size)};
  tensor.is_constant = true;
  tensor.data = bytes;
  made->attributes.push_back(std::move(kept));
  return {};
}

Status take_file_of_ep_context(const pb::NodeProto &node, ExternalData &external) {
  if (node.op_type() != "EPContext") return {};
  const std::string *location = nullptr;
  bool is_beside = false;
  for (const pb::AttributeProto &attribute : node.attribute()) {
    if (attribute.name() == "ep_cache_context") location = &attribute.s();
    if (attribute.name() == "embed_mode") is_beside = attribute.i() == 0;
  }
  return is_beside && location && !location->empty() ? external.take(*location) : Status();
}

}  // namespace quarry::onnx_import
