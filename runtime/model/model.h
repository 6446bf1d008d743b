// SPDX-License-Identifier: Apache-2.0
// qr_model: an opened .onnx or .qrm; immutable.
#pragma once

#include "formats/qrm/qrm.h"
#include "prepare/prepare_api.h"
#include "quarry/model.h"
#include "runtime/core/object.h"
#include "runtime/core/process.h"
#include "runtime/core/signal.h"

namespace quarry {

class OptionSet;
class Runtime;
struct CallWatch;

// Where long calls say how far they are. A caller that answers stop aborts the signal of its call, which whoever works
// for it asks anyhow.
class Progress {
 public:
  Progress() noexcept = default;
  Progress(const qr_progress &caller, const CallSignal &signal) noexcept : caller_(caller), signal_(signal) {}
  // Not ok: the caller said stop, now or before.
  Status report(std::uint64_t done, std::uint64_t total, std::string_view what) const {
    tell(done, total, what);
    return status();
  }
  // For a callback that gives no status: whoever has it called asks for status() afterwards.
  void tell(std::uint64_t done, std::uint64_t total, std::string_view what) const {
    if (caller_.report && !stopped() &&
        caller_.report(caller_.self, done, total, {what.data(), what.size()}) != QR_GO_ON)
      signal_.signal()->stop();
  }
  bool stopped() const noexcept { return caller_.report && signal_.signal()->stopped(); }
  Status status() const { return stopped() ? signal_.check("the call") : Status(); }

 private:
  qr_progress caller_ = QR_PROGRESS_INIT;
  CallSignal signal_{nullptr};
};

// The graphs that the compiler library made of an ONNX model.
class LoweredGraphs {
 public:
  LoweredGraphs() noexcept = default;
  LoweredGraphs(const qr_prepare_api *api, qr_lowered *handle) noexcept : api_(api), handle_(handle) {}
  LoweredGraphs(LoweredGraphs &&other) noexcept : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {}
  LoweredGraphs &operator=(LoweredGraphs &&other) noexcept {
    std::swap(api_, other.api_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~LoweredGraphs() {
    if (handle_) api_->lowered_destroy(handle_);
  }
  std::uint64_t graph_count() const { return api_->graph_count(handle_); }
  qr_lowered_graph graph(std::uint64_t index) const {
    qr_lowered_graph out = {};
    api_->graph(handle_, index, &out);
    return out;
  }
  qr_plugin_bytes pool() const { return api_->pool(handle_); }

 private:
  const qr_prepare_api *api_ = nullptr;
  qr_lowered *handle_ = nullptr;
};

// What a compilation binds.
struct WantedShapes {
  const Vector<std::string_view> &texts;  // one for each bucket
  bool takes_ranges;                      // the backend does
};

class Model : public Counted<Model> {
 public:
  // What the kind needs is there. `what` names the source in messages.
  static Status check_source(const qr_model_source &from, const char *what);
  // The bytes of a source; of a path, the folder that it is in too.
  static Result<qrm::RawFile> read(const qr_model_source &from, qrm::FileUse use, const CallWatch &watch,
                                   OpenFd *folder);
  // `from` was checked by the edge.
  static Result<Ref<Model>> open(Ref<Runtime> runtime, const qr_model_source &from, const OptionSet *options,
                                 const CallWatch &watch);

  // By open alone.
  Model(Ref<Runtime> runtime, qrm::RawFile file, std::string_view path, const OptionSet *options);
  ~Model();

  Runtime &runtime() const noexcept { return *runtime_; }
  bool is_container() const noexcept { return container_.has_value(); }
  const qrm::ValidatedModel &container() const noexcept { return *container_; }
  std::string_view path() const noexcept { return path_; }  // empty: from memory or a descriptor
  qrm::Bytes bytes() const noexcept { return is_container() ? container_->bytes() : file_->bytes(); }  // of the file
  // Where bytes() come from: a descriptor, -1 where they are in memory alone, and where in the file they begin.
  int fd() const noexcept { return is_container() ? container_->fd() : file_->fd(); }
  std::uint64_t offset() const noexcept { return is_container() ? container_->offset() : file_->offset(); }
  // The folder of its external data; -1: it has none. Fails where another process would find other files there.
  Result<int> external_folder(const CallSignal &signal) const;
  // Those that the caller gave by name.
  struct External {
    String name;
    qrm::RawFile file;
  };
  const Vector<External> &external() const noexcept { return external_; }
  std::string_view shapes() const noexcept { return shapes_; }  // of the options it was opened with
  // "model.onnx", or "a model in memory"; for messages.
  String describe() const;

  // As the container's signature says, or as the ONNX graph does.
  const Vector<qrm::TensorInfo> &inputs() const noexcept {
    return is_container() ? container_->metadata().inputs : inputs_;
  }
  const Vector<qrm::TensorInfo> &outputs() const noexcept {
    return is_container() ? container_->metadata().outputs : outputs_;
  }

  // What a container that is made of it says of its origin: the producer of the ONNX model and that model's
  // metadata_props, or what the container says itself. A property that no container can hold is left out, and logged.
  String source() const;
  Vector<qrm::KeyValue> properties() const;
  // The same as the file has them.
  std::uint64_t property_count() const noexcept;
  std::pair<std::string_view, std::string_view> property(std::uint64_t index) const noexcept;

  // Lowers an ONNX model for the given buckets; none: those of the options it was opened with.
  Result<LoweredGraphs> lower(const WantedShapes &shapes, const CallSignal &signal, const Progress &progress) const;

  Result<String> inspect(const CallSignal &signal) const;
  Status verify(const CallWatch &watch) const;

 private:
  struct ExternalFinder;
  Status parse(qrm::FileUse use, OpenFd folder, const OptionSet *options, const CallWatch &watch,
               ExternalFinder *external);
  Status take_binary(const OptionSet *options, const CallSignal &signal);
  Status parse_onnx(qrm::FileUse use, int folder, ExternalFinder *external, const CallSignal &signal);

  Ref<Runtime> runtime_;
  String path_, shapes_;
  qrm::SumCheck sums_ = qrm::SumCheck::Program;
  std::optional<qrm::RawFile> file_;  // of an ONNX model
  std::optional<qrm::ValidatedModel> container_;
  // Of a context in a device's own form: the ONNX model in its stead, and what it holds, as JSON.
  Vector<std::uint8_t> model_, about_;
  const qr_prepare_api *api_ = nullptr;
  qr_prepared_model *prepared_ = nullptr;
  Vector<External> external_;            // what prepared_ points into
  mutable ProcessMutex prepared_mutex_;  // the compiler library's objects take one caller at a time
  Vector<qrm::TensorInfo> inputs_, outputs_;
};

}  // namespace quarry
