// SPDX-License-Identifier: Apache-2.0
#include "runtime/model.h"

#include <algorithm>

#include "base/text.h"
#include "formats/qrm/limits.h"
#include "runtime/options.h"
#include "runtime/plugin_text.h"
#include "runtime/runtime.h"
#include "runtime/settings.h"

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
    text += format(i ? " %02x" : "%02x", static_cast<const unsigned char *>(bytes.data)[i]);
  return text;
}

qrm::FileUse file_use(const OptionSet *options) noexcept {
  return options && options->in_force("container.map") == "0" ? qrm::FileUse::Read : qrm::FileUse::Map;
}

Result<qrm::TensorInfo> tensor_info(const qr_prepare_io &io) {
  qrm::TensorInfo info;
  info.name.assign(text_of(io.name));
  info.dtype = dtype_from_number(io.dtype).value_or(DType::Unknown);
  if (io.rank > QR_PLUGIN_MAX_RANK)
    return Status::error(ErrorId::qir_rank, format("tensor %s: found rank %u, expected at most %d",
                                                   printable(info.name).c_str(), io.rank, QR_PLUGIN_MAX_RANK))
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

Result<Ref<Model>> Model::open_path(Ref<Runtime> runtime, std::string_view path, const OptionSet *options) {
  const qrm::FileUse use = file_use(options);
  QR_ASSIGN_OR_RETURN(qrm::RawFile file, qrm::RawFile::open_path(path, use));
  return open(std::move(runtime), std::move(file), use, path, options);
}

Result<Ref<Model>> Model::open_fd(Ref<Runtime> runtime, int fd, std::uint64_t offset, std::uint64_t size,
                                  const OptionSet *options) {
  const qrm::FileUse use = file_use(options);
  QR_ASSIGN_OR_RETURN(qrm::RawFile file, qrm::RawFile::open_fd(fd, offset, size, use));
  return open(std::move(runtime), std::move(file), use, {}, options);
}

Result<Ref<Model>> Model::open_memory(Ref<Runtime> runtime, const void *data, std::uint64_t size,
                                      const OptionSet *options) {
  QR_ASSIGN_OR_RETURN(qrm::RawFile file, qrm::RawFile::from_memory(data, size));
  return open(std::move(runtime), std::move(file), qrm::FileUse::Map, {}, options);
}

Result<Ref<Model>> Model::open(Ref<Runtime> runtime, qrm::RawFile file, qrm::FileUse use, std::string_view path,
                               const OptionSet *options) {
  const qir::Bytes bytes = file.bytes();
  auto model = Ref<Model>::make(std::move(runtime), std::move(file), path, options);
  const auto finish = [&](Status status) -> Result<Ref<Model>> {
    if (status.ok()) return model;
    if (!path.empty()) status.with("file", path);
    return status;
  };
  if (qrm::looks_like_container(bytes)) {
    // What was read may have been written to meanwhile, and the sums cost little beside the reading.
    const bool all_sums = use == qrm::FileUse::Read && model->sums_ != qrm::SumCheck::Off;
    auto opened = qrm::ValidatedModel::open(std::move(*model->file_), all_sums ? qrm::SumCheck::Eager : model->sums_);
    model->file_.reset();
    if (!opened.ok()) return finish(opened.status());
    model->container_.emplace(std::move(opened.value()));
    return finish({});
  }
  if (!looks_like_onnx(bytes))
    if (Status known = model->take_binary(options); !known.ok()) return finish(std::move(known));
  return finish(model->parse_onnx(use));
}

String Model::describe() const { return path_.empty() ? String("the model in memory") : printable(path_, 1000); }

// A context in a device's own form: the backend that the options name may know it.
Status Model::take_binary(const OptionSet *options) {
  const qir::Bytes bytes = file_->bytes();
  QR_ASSIGN_OR_RETURN(const Settings settings, resolve_settings(options));
  if (auto backend = runtime_->open_backend(settings.backend); backend.ok()) {
    QR_ASSIGN_OR_RETURN(const PluginOptions given, plugin_options(settings, options, **backend));
    QR_ASSIGN_OR_RETURN(loader::Plugin::ImportedBinary known,
                        (*backend)->import_binary({bytes.data, bytes.size},
                                                  std::string_view(path_).substr(path_.rfind('/') + 1), given.own));
    model_ = std::move(known.model), about_ = std::move(known.about);
  }
  if (!model_.empty()) return {};
  return Status::error(
      ErrorId::unknown_format,
      bytes.size == 0
          ? format("%s: it is empty, expected an .onnx model or a .qrm container", describe().c_str())
          : format("%s: neither an .onnx model nor a .qrm container, its %llu bytes begin with %s", describe().c_str(),
                   static_cast<unsigned long long>(bytes.size), first_bytes(bytes).c_str()));
}

Status Model::parse_onnx(qrm::FileUse use) {
  QR_ASSIGN_OR_RETURN(api_, runtime_->prepare().api());
  const std::size_t slash = path_.rfind('/');
  const std::string_view folder = path_.empty()           ? std::string_view()
                                  : slash == String::npos ? "."
                                  : slash == 0            ? "/"
                                                          : std::string_view(path_).substr(0, slash);
  const qir::Bytes bytes = model_.empty() ? file_->bytes() : qir::Bytes{model_.data(), model_.size()};
  ErrorCollector errors;
  QR_RETURN_IF_ERROR(errors.status(api_->open(&runtime_->host(), {bytes.data, bytes.size}, plugin_string(folder),
                                              use == qrm::FileUse::Read, &prepared_, errors.sink()),
                                   "open"));
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

String Model::source() const {
  if (is_container()) return container_->metadata().source;
  return printable(text_of(api_->producer(prepared_)), 1000);
}

Vector<qrm::KeyValue> Model::properties() const {
  if (is_container()) return container_->metadata().user;
  Vector<qrm::KeyValue> found;
  for (std::uint64_t i = 0; i < api_->property_count(prepared_); ++i) {
    qr_plugin_string key_text = {}, value_text = {};
    api_->property(prepared_, i, &key_text, &value_text);
    const std::string_view key = text_of(key_text), value = text_of(value_text);
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
    runtime_->log().write(QR_LOG_WARN, "compile",
                          format("%s: metadata \"%s\" is left out of the container: %s", describe().c_str(),
                                 printable(key).c_str(), why));
  }
  return found;
}

Result<LoweredGraphs> Model::lower(const Vector<std::string_view> &shapes, const CallSignal &signal,
                                   const Progress &progress) const {
  Vector<std::string_view> buckets = shapes;
  if (buckets.empty()) split_shapes(shapes_, buckets);
  Vector<qr_plugin_string> texts;
  for (const std::string_view bucket : buckets) texts.push_back(plugin_string(bucket));

  struct Relay {
    const Progress &progress;
  } relay{progress};
  const qr_prepare_progress reports{&relay,
                                    [](void *self, std::uint64_t done, std::uint64_t total, qr_plugin_string what) {
                                      static_cast<Relay *>(self)->progress.report(done, total, text_of(what));
                                    }};
  ErrorCollector errors;
  qr_lowered *lowered = nullptr;
  const ProcessLock lock(prepared_mutex_);
  QR_RETURN_IF_ERROR(lock.status("the parts of the ONNX model"));
  Status status = errors.status(
      api_->lower(prepared_, texts.data(), texts.size(), signal.plugin(), &reports, &lowered, errors.sink()), "lower");
  if (!status.ok()) {
    if (!path_.empty()) status.with("file", path_);
    return status;
  }
  return LoweredGraphs(api_, lowered);
}

Status Model::verify() const {
  if (!is_container()) return {};  // checked when it was opened
  Status status = container_->verify();
  if (!path_.empty()) status.with("file", path_);
  return status;
}

}  // namespace quarry
