// SPDX-License-Identifier: Apache-2.0
// TensorProto -> dtype, shape and packed bytes. The sizes come from a file: all are checked.
#pragma once

#include "base/status.h"
#include "formats/onnx/proto.h"
#include "formats/qir/store.h"
#include "formats/qir/graph.h"

namespace quarry::onnx_import {

// Maps files of external data, each once. Only plain relative paths inside the model's folder are taken.
class ExternalData {
 public:
  explicit ExternalData(std::string_view folder) : folder_(folder) {}
  ~ExternalData();
  ExternalData(const ExternalData &) = delete;
  ExternalData &operator=(const ExternalData &) = delete;

  // `size` bytes at `offset` of the file; with size == UINT64_MAX what is left of it.
  Result<qir::Bytes> bytes(std::string_view location, std::uint64_t offset, std::uint64_t size);

 private:
  struct Mapping {
    void *data;
    std::uint64_t size;
  };
  static Status map_file(std::string_view location, const char *path, Mapping *out);

  String folder_;
  StringMap<Mapping> files_;
};

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
