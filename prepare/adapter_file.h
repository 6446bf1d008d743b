// SPDX-License-Identifier: Apache-2.0
// The file of an adapter: safetensors, or an ONNX model whose initializers are the tensors.
#pragma once

#include "base/dtype.h"
#include "formats/onnx/proto.h"
#include "graph/store.h"

namespace quarry::prepare {

struct AdapterTensor {
  String name;
  DType dtype = DType::Unknown;
  qir::Shape shape;
  qir::Bytes data;  // at any address; as large as type and shape say
};

struct AdapterFile {
  Vector<AdapterTensor> tensors;
  Vector<std::pair<String, String>> metadata;  // texts
  // What the tensors may point into, beside the bytes that were given.
  qir::Store store;
  onnx_import::pb::ModelProto proto;
};

// `name`: of the file, for messages. Sizes and places in it are checked before anything is read by them.
Result<Unique<AdapterFile>> read_adapter_file(qir::Bytes bytes, std::string_view name);

}  // namespace quarry::prepare
