// SPDX-License-Identifier: Apache-2.0
// TensorProto -> dtype, shape and packed bytes. The sizes come from a file: all are checked.
#pragma once

#include "base/open_fd.h"
#include "base/status.h"
#include "formats/onnx/proto.h"
#include "graph/external_source.h"
#include "graph/graph.h"
#include "graph/store.h"

namespace quarry::onnx_import {

// How files of external data are had when the model is opened: mapped, or read into memory, so that not even a write to
// them matters afterwards.
enum class ExternalUse : std::uint8_t { Map, Read };

using qir::ExternalSource;

// Files of external data, each mapped or read once. Only plain relative paths inside the model's folder are taken; the
// folder is open, so that it does not matter what becomes of its name. A source takes the folder's place.
class ExternalData {
 public:
  ExternalData(OpenFd folder, ExternalUse use, ExternalSource *source)
      : folder_(std::move(folder)), use_(use), source_(source), has_source_(source != nullptr) {}
  ~ExternalData();
  ExternalData(const ExternalData &) = delete;
  ExternalData &operator=(const ExternalData &) = delete;

  // `size` bytes at `offset` of the file; with size == UINT64_MAX what is left of it.
  Result<qir::Bytes> bytes(std::string_view location, std::uint64_t offset, std::uint64_t size);
  // Opens the whole file, or that which holds a tensor (if it is one of external data). One that is not there is
  // reported when it is wanted, with all that is wrong with the model; where files are read into memory, at once.
  Status take(std::string_view location);
  Status take_file_of(const pb::TensorProto &tensor);
  // All that the model names were taken: without any, the folder is of no use, and nobody asks the source again.
  void taken() noexcept {
    source_ = nullptr;
    if (files_.empty()) folder_ = OpenFd();
  }
  // What of these bytes lies in mapped files need not stay in memory: it is read from the file again.
  void forget(qir::Bytes bytes) const noexcept;
  void forget_all() const noexcept;
  // For another process, which opens them by their names in the folder (-1: there are none, or they have a source):
  // refuses where a name is another file's by now.
  Result<int> folder() const;

 private:
  struct File {
    qir::Bytes bytes;  // all of it
    OpenFd fd;         // of a few that are mapped
    Status failed;     // it could not be opened
    std::uint64_t device = 0, number = 0;
  };
  Result<const File *> file(std::string_view location);
  Status open_file(std::string_view location, File *out) const;
  Status ask_source(std::string_view location, File *out) const;

  OpenFd folder_;
  const ExternalUse use_;
  ExternalSource *source_;
  const bool has_source_;  // all bytes are its own
  StringMap<File> files_;
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
