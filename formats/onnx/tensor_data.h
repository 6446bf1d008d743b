// SPDX-License-Identifier: Apache-2.0
// TensorProto -> dtype, shape and packed bytes. The sizes come from a file: all are checked.
#pragma once

#include "base/status.h"
#include "formats/onnx/proto.h"
#include "formats/qir/store.h"
#include "formats/qir/graph.h"

namespace quarry::onnx_import {

// How files of external data are had: mapped where they are first used, or read into memory when the model is opened,
// so that what happens to them afterwards does not matter.
enum class ExternalUse : std::uint8_t { Map, Read };

// Files of external data, each mapped or read once. Only plain relative paths inside the model's folder are taken.
class ExternalData {
 public:
  ExternalData(std::string_view folder, ExternalUse use) : folder_(folder), use_(use) {}
  ~ExternalData();
  ExternalData(const ExternalData &) = delete;
  ExternalData &operator=(const ExternalData &) = delete;

  // `size` bytes at `offset` of the file; with size == UINT64_MAX what is left of it.
  Result<qir::Bytes> bytes(std::string_view location, std::uint64_t offset, std::uint64_t size);
  // The whole file that holds a tensor, so that it is there; nothing to do where the tensor is none of external data.
  Status take_file_of(const pb::TensorProto &tensor);

 private:
  // The whole of each file.
  Result<qir::Bytes> file(std::string_view location);
  Result<qir::Bytes> open_file(std::string_view location) const;

  String folder_;
  const ExternalUse use_;
  StringMap<qir::Bytes> files_;
};

// The file of a compiled context that lies beside the model.
Status take_file_of_ep_context(const pb::NodeProto &node, ExternalData &external);

using qir::Constant;
using qir::Store;

// The name of an ONNX element type, those that Quarry has not included: "string", "complex64", "type 99".
String element_type_name(std::int32_t number);
// The dtype of an ONNX element type, or QR-O0006 naming `subject` and the type.
Result<DType> element_type(std::int32_t number, std::string_view subject);

// Bytes are borrowed from `proto` or the mapping where they lie packed and aligned; else they go to `store`.
Result<Constant> read_tensor(const pb::TensorProto &proto, ExternalData &external, Store &store,
                             std::string_view subject);
Result<Constant> read_sparse_tensor(const pb::SparseTensorProto &proto, ExternalData &external, Store &store,
                                    std::string_view subject);

}  // namespace quarry::onnx_import
