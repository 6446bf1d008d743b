// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/model.h"

#include <algorithm>
#include <cerrno>

#include "base/os/file.h"
#include "base/os/path.h"
#include "base/os_error.h"
#include "base/text.h"
#include "formats/qrm/limits.h"
#include "runtime/core/options.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"
#include "runtime/core/settings.h"
#include "runtime/model/call_watch.h"

namespace quarry {
namespace {

// Whether bytes may begin an ONNX file: a protobuf message whose first field is one that ModelProto has, with its wire
// type.
bool looks_like_onnx(qir::Bytes bytes) noexcept {
  const auto *data = static_cast<const unsigned char *>(bytes.data);
  if (bytes.size < 2) return false;
  if (data[0] & 0x80)
    return data[1] == 0x01 && (data[0] == 0xa2 || data[0] == 0xca || data[0] == 0xd2);  // fields 20, 25, 26
  return std::string_view("\x08\x12\x1a\x22\x28\x32\x3a\x42\x72").find(static_cast<char>(data[0])) !=
         std::string_view::npos;
}

String first_bytes(qir::Bytes bytes) {
  String text;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(bytes.size, 8); ++i)
    text += format("%s%02x", i ? " " : "", static_cast<const unsigned char *>(bytes.data)[i]);
  return text;
}

qrm::FileUse file_use(const OptionSet *options) noexcept {
  return options && options->in_force("container.map") == "0" ? qrm::FileUse::Read : qrm::FileUse::Map;
}

// Where external data are that do not lie beside the model: the option model.folder.
Result<OpenFd> given_folder(const OptionSet *options) {
  const std::string_view path = options ? options->in_force("model.folder") : std::string_view();
  if (path.empty()) return OpenFd();
  OpenFd folder = os::open_folder(String(path).c_str());
  if (folder.get() >= 0) return folder;
  return Status::error(os_error_id(errno, ErrorId::io_error),
                       "option model.folder: " + printable(path, 1000) + ": " + os_error_text(errno));
}

Result<qrm::TensorInfo> tensor_info(const qr_prepare_io &io) {
  qrm::TensorInfo info;
  info.name.assign(text_of(io.name));
  info.dtype = dtype_from_number(io.dtype).value_or(DType::Unknown);
  if (io.rank > QR_PLUGIN_MAX_RANK)
    return Status::errorf(ErrorId::qir_rank, "tensor %s: found rank %u, expected at most %d", printable(info.name),
                          io.rank, QR_PLUGIN_MAX_RANK)
        .with("tensor", info.name);
  for (std::uint32_t axis = 0; axis < io.rank; ++axis) {
    info.dims.push_back(io.dims[axis]);
    info.dim_names.emplace_back(text_of(io.dim_names[axis]));
  }
  return info;
}

}  // namespace

Model::Model(Ref<Runtime> runtime, qrm::RawFile file, std::string_view path, const OptionSet *options)
    : runtime_(std::move(runtime)), path_(path), file_(std::move(file)), prepared_mutex_(runtime_->process()) {
  if (!options) return;
  shapes_.assign(options->in_force("shape"));
  sums_ = qrm::sum_check_from_name(options->in_force("verify")).value_or(qrm::SumCheck::Program);
}

Model::~Model() {
  if (prepared_) api_->destroy(prepared_);
}

Status Model::check_source(const qr_model_source &from, const char *what) {
  const char *const missing = from.kind == QR_SOURCE_MEMORY && !from.data   ? "data"
                              : from.kind == QR_SOURCE_READER && !from.read ? "read"
                                                                            : nullptr;
  if (missing)
    return Status::errorf(ErrorId::null_argument, "qr_model_open: %s->%s is NULL, expected a pointer", what, missing);
  const bool is_kind = from.kind >= QR_SOURCE_PATH && from.kind <= QR_SOURCE_READER;
  if constexpr (!os::kDescriptorsAreShared)
    if (from.kind == QR_SOURCE_DESCRIPTOR || from.folder_fd >= 0)
      return no_descriptors("qr_model_open", "give a path, or read the file in a QR_MODEL_BY_READER");
  if (is_kind && (from.kind != QR_SOURCE_DESCRIPTOR || from.fd >= 0)) return {};
  return Status::errorf(ErrorId::bad_argument, "qr_model_open: %s->%s is %d, expected %s", what,
                        is_kind ? "fd" : "kind", is_kind ? from.fd : static_cast<std::int32_t>(from.kind),
                        is_kind ? "an open descriptor" : "a QR_SOURCE_*");
}

// External data by the callback of a source, as the compiler library asks for them.
struct Model::ExternalFinder {
  const qr_model_source &from;
  const OptionSet *options;
  const CallWatch &watch;
  Model *model = nullptr;
  Status failed;

  Status find(std::string_view name, qr_plugin_bytes *out, std::int32_t *is_there) {
    qr_model_source found = QR_MODEL_SOURCE_INIT;
    const std::int32_t error = from.external(from.self, {name.data(), name.size()}, &found);
    if (error == ENOENT) return {};
    if (error != 0) return callback_error("qr_model_open", "source->external", error, ErrorId::io_error);
    QR_RETURN_IF_ERROR(check_source(found, "the source of external data"));
    OpenFd folder;
    QR_ASSIGN_OR_RETURN(qrm::RawFile file, read(found, file_use(options), watch, &folder));
    const qrm::Bytes bytes = file.bytes();
    model->external_.push_back({String(name), std::move(file)});
    *out = {bytes.data, bytes.size}, *is_there = 1;
    return {};
  }
};

Result<qrm::RawFile> Model::read(const qr_model_source &from, qrm::FileUse use, const CallWatch &watch,
                                 OpenFd *folder) {
  switch (from.kind) {
    case QR_SOURCE_MEMORY: return qrm::RawFile::from_memory(from.data, from.size_bytes);
    case QR_SOURCE_DESCRIPTOR: return qrm::RawFile::open_fd(from.fd, from.offset, from.size_bytes, use);
    case QR_SOURCE_READER:
      return qrm::RawFile::from_reader(
          from.size_bytes, [&](std::uint64_t offset, void *to, std::uint64_t size) -> Status {
            QR_RETURN_IF_ERROR(watch.signal.check("qr_model_open"));
            QR_RETURN_IF_ERROR(watch.progress.report(offset, from.size_bytes, "read"));
            const std::int32_t failed = from.read(from.self, offset, to, size);
            return failed == 0 ? Status() : callback_error("qr_model_open", "source->read", failed, ErrorId::io_error);
          });
    default: {
      const std::string_view path = text_of(from.path);
      // The folder first and the file in it: its external data are from beside it, whatever is renamed meanwhile.
      const std::size_t slash = os::last_separator(path);
      *folder = os::open_folder(slash == path.npos ? "." : String(path.substr(0, slash + 1)).c_str());
      return qrm::RawFile::open_path(path, use, folder->get());
    }
  }
}

Result<Ref<Model>> Model::open(Ref<Runtime> runtime, const qr_model_source &from, const OptionSet *options,
                               const CallWatch &watch) {
  const bool is_file = from.kind == QR_SOURCE_PATH || from.kind == QR_SOURCE_DESCRIPTOR;
  const qrm::FileUse use = is_file ? file_use(options) : qrm::FileUse::Map;
  OpenFd folder;
  QR_ASSIGN_OR_RETURN(qrm::RawFile file, read(from, use, watch, &folder));
  if (from.folder_fd >= 0) {
    folder = os::duplicate(from.folder_fd);
    if (folder.get() < 0)
      return Status::errorf(os_error_id(errno, ErrorId::io_error), "qr_model_open: source->folder_fd %d: %s",
                            from.folder_fd, os_error_text(errno));
  }
  const std::string_view path = from.kind == QR_SOURCE_PATH ? text_of(from.path) : std::string_view();
  auto model = Ref<Model>::make(std::move(runtime), std::move(file), path, options);
  ExternalFinder external{from, options, watch, model.get(), {}};
  Status status = model->parse(use, std::move(folder), options, watch, from.external ? &external : nullptr);
  if (status.ok()) return model;
  if (!path.empty()) status.with("file", path);
  return status;
}

Status Model::parse(qrm::FileUse use, OpenFd folder, const OptionSet *options, const CallWatch &watch,
                    ExternalFinder *external) {
  const std::string_view network = options ? options->in_force("model") : std::string_view();
  if (qrm::looks_like_container(file_->bytes())) {
    // What was read may have been written to meanwhile, and the sums cost little beside the reading.
    const bool all_sums = use == qrm::FileUse::Read && sums_ != qrm::SumCheck::Off;
    auto opened = qrm::ValidatedModel::open(std::move(*file_), all_sums ? qrm::SumCheck::Eager : sums_, network);
    file_.reset();
    if (!opened.ok()) return opened.take_status();
    container_.emplace(std::move(opened.value()));
    return {};
  }
  if (!network.empty() && network != qrm::kWholeFile)
    return Status::error(ErrorId::bad_option_value, "option model: found one for a model that is no container");
  QR_ASSIGN_OR_RETURN(OpenFd given, given_folder(options));
  if (given.get() >= 0) folder = std::move(given);
  if (!looks_like_onnx(file_->bytes())) QR_RETURN_IF_ERROR(take_binary(options, watch.signal));
  return parse_onnx(use, folder.get(), external, watch.signal);
}

String Model::describe() const { return path_.empty() ? String("the model in memory") : printable(path_, 1000); }

// A context in a device's own form: the backend that the options name may know it.
Status Model::take_binary(const OptionSet *options, const CallSignal &signal) {
  const qir::Bytes bytes = file_->bytes();
  QR_ASSIGN_OR_RETURN(const Settings settings, resolve_settings(options));
  if (auto backend = runtime_->open_backend(settings.backend, signal); backend.ok()) {
    QR_ASSIGN_OR_RETURN(const PluginOptions given, plugin_options(settings, options, **backend));
    QR_ASSIGN_OR_RETURN(
        loader::Plugin::ImportedBinary known,
        (*backend)->import_binary({bytes.data, bytes.size},
                                  std::string_view(path_).substr(os::last_separator(path_) + 1), given.own));
    model_ = std::move(known.model), about_ = std::move(known.about);
  }
  if (!model_.empty()) return {};
  return Status::error(ErrorId::unknown_format,
                       bytes.size == 0
                           ? format("%s: it is empty, expected an .onnx model or a .qrm container", describe())
                           : format("%s: neither an .onnx model nor a .qrm container, its %llu bytes begin with %s",
                                    describe(), bytes.size, first_bytes(bytes)));
}

Status Model::parse_onnx(qrm::FileUse use, int folder, ExternalFinder *external, const CallSignal &signal) {
  QR_ASSIGN_OR_RETURN(api_, runtime_->prepare().api());
  const qir::Bytes bytes = model_.empty() ? file_->bytes() : qir::Bytes{model_.data(), model_.size()};
  const qr_prepare_external finds{external,
                                  [](void *self, qr_plugin_string name, qr_plugin_bytes *out, int32_t *found) {
                                    auto &finder = *static_cast<ExternalFinder *>(self);
                                    try {
                                      finder.failed = finder.find(text_of(name), out, found);
                                    } catch (const std::bad_alloc &) {
                                      finder.failed = Status::out_of_memory("external data");
                                    }
                                    return finder.failed.code();
                                  }};
  ErrorCollector errors;
  Status status =
      errors.status(api_->open(&runtime_->host(), {bytes.data, bytes.size}, folder, use == qrm::FileUse::Read,
                               external ? &finds : nullptr, signal.plugin(), &prepared_, errors.sink()),
                    "open");
  // Why the callback failed says more than that it did.
  if (!status.ok()) return external && !external->failed.ok() ? std::move(external->failed) : std::move(status);
  const auto read = [&](auto count, auto get, Vector<qrm::TensorInfo> &out) -> Status {
    for (std::uint64_t i = 0; i < count(prepared_); ++i) {
      qr_prepare_io io = {};
      get(prepared_, i, &io);
      QR_ASSIGN_OR_RETURN(qrm::TensorInfo info, tensor_info(io));
      out.push_back(std::move(info));
    }
    return {};
  };
  QR_RETURN_IF_ERROR(read(api_->input_count, api_->input, inputs_));
  return read(api_->output_count, api_->output, outputs_);
}

Result<int> Model::external_folder(const CallSignal &signal) const {
  std::int32_t folder = -1;
  if (!prepared_) return folder;
  ErrorCollector errors;
  const ProcessLock lock(prepared_mutex_, signal);
  QR_RETURN_IF_ERROR(lock.status("the parts of the ONNX model"));
  QR_RETURN_IF_ERROR(errors.status(api_->external_folder(prepared_, &folder, errors.sink()), "external_folder"));
  return folder;
}

String Model::source() const {
  if (is_container()) return container_->metadata().source;
  return printable(text_of(api_->producer(prepared_)), 1000);
}

std::uint64_t Model::property_count() const noexcept {
  return is_container() ? container_->metadata().user.size() : api_->property_count(prepared_);
}

std::pair<std::string_view, std::string_view> Model::property(std::uint64_t index) const noexcept {
  if (is_container()) return {container_->metadata().user[index].key, container_->metadata().user[index].value};
  qr_plugin_string key = {}, value = {};
  api_->property(prepared_, index, &key, &value);
  return {text_of(key), text_of(value)};
}

Vector<qrm::KeyValue> Model::properties() const {
  if (is_container()) return container_->metadata().user;
  Vector<qrm::KeyValue> found;
  for (std::uint64_t i = 0; i < property_count(); ++i) {
    const auto [key, value] = property(i);
    const bool twice =
        std::any_of(found.begin(), found.end(), [&](const qrm::KeyValue &pair) { return pair.key == key; });
    const char *why = key.empty()                                                            ? "its key is empty"
                      : twice                                                                ? "its key stands twice"
                      : !is_utf8(key) || !is_utf8(value)                                     ? "it is not UTF-8"
                      : key.size() > qrm::kMaxNameBytes || value.size() > qrm::kMaxTextBytes ? "it is too long"
                      : found.size() == qrm::kMaxPairs                                       ? "there are too many"
                                                                                             : nullptr;
    if (!why) {
      found.push_back({String(key), String(value)});
      continue;
    }
    runtime_->log().write(
        QR_LOG_WARN, "compile",
        format("%s: metadata \"%s\" is left out of the container: %s", describe(), printable(key), why));
  }
  return found;
}

Result<LoweredGraphs> Model::lower(const WantedShapes &shapes, const CallSignal &signal,
                                   const Progress &progress) const {
  Vector<std::string_view> buckets = shapes.texts;
  if (buckets.empty()) split_shapes(shapes_, buckets);
  Vector<qr_plugin_string> texts;
  for (const std::string_view bucket : buckets) texts.push_back(plugin_string(bucket));

  struct Relay {
    const Progress &progress;
  } relay{progress};
  const qr_prepare_progress reports{&relay,
                                    [](void *self, std::uint64_t done, std::uint64_t total, qr_plugin_string what) {
                                      static_cast<Relay *>(self)->progress.tell(done, total, text_of(what));
                                    }};
  ErrorCollector errors;
  qr_lowered *lowered = nullptr;
  const ProcessLock lock(prepared_mutex_, signal);
  QR_RETURN_IF_ERROR(lock.status("the parts of the ONNX model"));
  Status status = errors.status(api_->lower(prepared_, texts.data(), texts.size(), shapes.takes_ranges, signal.plugin(),
                                            &reports, &lowered, errors.sink()),
                                "lower");
  if (!status.ok()) {
    if (!path_.empty()) status.with("file", path_);
    return status;
  }
  LoweredGraphs made(api_, lowered);
  QR_RETURN_IF_ERROR(progress.status());
  return made;
}

Status Model::verify(const CallWatch &watch) const {
  Status status;
  if (is_container()) {
    for (std::uint32_t part = 0, parts = container_->part_count(); status.ok() && part < parts; ++part) {
      QR_RETURN_IF_ERROR(watch.signal.check("qr_model_verify"));
      QR_RETURN_IF_ERROR(watch.progress.report(part, parts, "verify"));
      status = container_->verify(part);
    }
  } else {
    ErrorCollector errors;
    const ProcessLock lock(prepared_mutex_, watch.signal);
    QR_RETURN_IF_ERROR(lock.status("the parts of the ONNX model"));
    QR_RETURN_IF_ERROR(watch.signal.check("qr_model_verify"));
    status = errors.status(api_->verify(prepared_, watch.signal.plugin(), errors.sink()), "verify");
  }
  if (!path_.empty()) status.with("file", path_);
  return status;
}

}  // namespace quarry
