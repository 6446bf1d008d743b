// SPDX-License-Identifier: Apache-2.0
// Runs a graph of a loaded context. One execution is one caller's state: the library's tensors with the caller's
// pointers in them, and room for what has another type there.
#pragma once

#include "backends/htp/blob.h"
#include "backends/htp/engine.h"
#include "quarry/backend.h"

namespace quarry::htp {

// A binary in the library.
class LoadedContext : public HeapObject {
 public:
  // `binary` is read during the call alone. Its hash must be the blob's.
  static Result<Unique<LoadedContext>> load(std::shared_ptr<Engine> engine, Blob blob,
                                            std::span<const std::uint8_t> binary);
  LoadedContext(std::shared_ptr<Engine> engine, Blob blob)
      : engine_(std::move(engine)), blob_(std::move(blob)) {}  // by load() alone
  ~LoadedContext();

  const Blob &blob() const noexcept { return blob_; }
  const Engine &engine() const noexcept { return *engine_; }
  qnn::Handle graph(std::size_t index) const noexcept { return graphs_[index]; }

 private:
  std::shared_ptr<Engine> engine_;
  Blob blob_;
  qnn::Handle context_ = nullptr;
  Vector<qnn::Handle> graphs_;
};

class Execution {
 public:
  Execution(const LoadedContext &context, std::size_t graph);
  Status run(const qr_run_request &request);

 private:
  // How a value goes between the session's type and the library's.
  enum class Way : std::uint8_t { AsIs, Narrow, NarrowUnsigned, Quantized };  // i64 and u64 have 32 bits there
  struct Place {
    std::size_t io = 0;  // which of the session's inputs or outputs
    Way way = Way::AsIs;
    std::uint64_t session_bytes = 0, device_bytes = 0;
    Vector<std::uint8_t> room;  // where the way is not AsIs, or the caller does not want the output
  };
  Status take_inputs(const qr_run_request &request);
  void bind(const Vector<BlobTensor> &from, Vector<qnn::Tensor> &tensors, Vector<Place> &places);

  const LoadedContext &context_;
  const BlobGraph &graph_;
  qnn::Handle handle_;
  Vector<qnn::Tensor> inputs_, outputs_;
  Vector<Place> input_places_, output_places_;
};

}  // namespace quarry::htp
