// SPDX-License-Identifier: Apache-2.0
// A thin C++17 wrapper of the C ABI: handles that free themselves, errors as exceptions, names and shapes as standard
// types. Header only, and nothing of it crosses into the library: program and library may be built with different
// compilers.
//
//   qr::Runtime runtime;
//   qr::Model model(runtime, "model.qrm");
//   qr::Session session(model);
//   std::vector<qr::Tensor> outputs = session.run({qr::Tensor::of(image.data(), {1, 3, 224, 224})});
//   const float *scores = outputs[0].data<float>();   // valid until the next run
//
// Models, sessions and the rest hold what they need of the library by themselves; the Runtime object must outlive the
// C++ objects made from it, because texts that the library gives are freed through it.
#ifndef QUARRY_QUARRY_HPP
#define QUARRY_QUARRY_HPP

#include <quarry/quarry.h>

#include <chrono>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace qr {

inline qr_string to_c(std::string_view text) noexcept { return {text.data(), text.size()}; }
inline std::string from_c(qr_string view) {
  return view.data ? std::string(view.data, static_cast<std::size_t>(view.size)) : std::string();
}

// What a failed call throws. Copies the status, so it may outlive everything.
class Error : public std::exception {
 public:
  explicit Error(qr_status *status) : code_(qr_status_code(status)) {
    try {
      id_ = qr_status_id(status);
      message_ = qr_status_message(status);
      hint_ = qr_status_hint(status);
      for (std::uint64_t i = 0; i < qr_status_detail_count(status); ++i) {
        const char *key, *value;
        qr_status_detail(status, i, &key, &value);
        details_.emplace_back(key, value);
      }
      what_ = id_ + ": " + message_;
    } catch (...) {  // out of memory: the code is what remains
    }
    qr_status_destroy(status);
  }
  const char *what() const noexcept override { return what_.c_str(); }
  qr_code code() const noexcept { return code_; }
  const std::string &id() const noexcept { return id_; }
  const std::string &message() const noexcept { return message_; }
  const std::string &hint() const noexcept { return hint_; }
  const std::vector<std::pair<std::string, std::string>> &details() const noexcept { return details_; }

 private:
  qr_code code_;
  std::string id_, message_, hint_, what_;
  std::vector<std::pair<std::string, std::string>> details_;
};

inline void check(qr_status *status) {
  if (status) throw Error(status);
}

// Owns one C object. Move-only.
template <class T, void (*Destroy)(T *)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T *object) noexcept : object_(object) {}
  T *get() const noexcept { return object_.get(); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 protected:
  // Calls a C function whose last argument is where the new object goes.
  template <class F, class... Args>
  void make(F create, Args... args) {
    T *made = nullptr;
    check(create(args..., &made));
    object_.reset(made);
  }
  struct Free {
    void operator()(T *object) const noexcept { Destroy(object); }
  };
  std::unique_ptr<T, Free> object_;
};

class Runtime : public Handle<qr_runtime, qr_runtime_destroy> {
 public:
  Runtime() { make(qr_runtime_create, static_cast<const qr_runtime_options *>(nullptr)); }
  explicit Runtime(const qr_runtime_options &options) { make(qr_runtime_create, &options); }
  // Calls a C function whose last argument is a text that it gives.
  template <class F, class... Args>
  std::string take(F function, Args... args) const {
    char *given = nullptr;
    check(function(args..., &given));
    return take(given);
  }
  // Takes a text that the C ABI gave.
  std::string take(char *given) const {
    const std::unique_ptr<char, std::function<void(char *)>> owner(
        given, [this](char *text) { qr_string_destroy(get(), text); });
    return given;
  }
  std::uint64_t scan() {
    std::uint64_t count = 0;
    check(qr_runtime_scan(get(), &count));
    return count;
  }
  qr_backend_info backend(std::uint64_t index) const {
    qr_backend_info info = QR_BACKEND_INFO_INIT;
    check(qr_runtime_backend(get(), index, &info));
    return info;
  }
  qr_device_info device(std::uint64_t backend, std::uint64_t index) const {
    qr_device_info info = QR_DEVICE_INFO_INIT;
    check(qr_runtime_device(get(), backend, index, &info));
    return info;
  }
  std::string operators(std::string_view backend) { return take(qr_runtime_operators, get(), to_c(backend)); }
};

class Options : public Handle<qr_options, qr_options_destroy> {
 public:
  explicit Options(const Runtime &runtime,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> pairs = {}) {
    make(qr_options_create, runtime.get());
    for (const auto &[key, value] : pairs) set(key, value);
  }
  Options &set(std::string_view key, std::string_view value) {
    check(qr_options_set(get(), to_c(key), to_c(value)));
    return *this;
  }
  std::string value(std::string_view key) const {
    qr_string found{};
    check(qr_options_get(get(), to_c(key), &found));
    return from_c(found);
  }
};

class Signal : public Handle<qr_signal, qr_signal_destroy> {
 public:
  explicit Signal(const Runtime &runtime) { make(qr_signal_create, runtime.get()); }
  void abort() noexcept { qr_signal_abort(get()); }
  void reset() noexcept { qr_signal_reset(get()); }
  void set_timeout(std::chrono::nanoseconds timeout) noexcept {
    qr_signal_set_timeout(get(), static_cast<std::uint64_t>(timeout.count()));
  }
};

class Profile : public Handle<qr_profile, qr_profile_destroy> {
 public:
  explicit Profile(const Runtime &runtime) : runtime_(&runtime) { make(qr_profile_create, runtime.get()); }
  std::uint64_t size() const noexcept { return qr_profile_event_count(get()); }
  qr_profile_event operator[](std::uint64_t index) const {
    qr_profile_event event;
    check(qr_profile_event_at(get(), index, &event));
    return event;
  }
  std::string export_as(std::string_view format) const {
    return runtime_->take(qr_profile_export, get(), to_c(format));
  }
  void clear() noexcept { qr_profile_clear(get()); }

 private:
  const Runtime *runtime_;
};

// What is known of an input or output, with a copy of its name.
struct TensorInfo {
  std::string name;
  qr_dtype dtype = QR_DTYPE_UNKNOWN;
  std::vector<std::int64_t> dims;  // QR_DIM_UNKNOWN where an extent is symbolic or known only after a run
  std::uint64_t size_bytes = 0;
  bool is_quantized = false;
  double scale = 0;
  std::int64_t zero_point = 0;

  TensorInfo() = default;
  explicit TensorInfo(const qr_tensor_info &info)
      : name(from_c(info.name)),
        dtype(info.dtype),
        dims(info.dims, info.dims + info.rank),
        size_bytes(info.size_bytes),
        is_quantized(info.is_quantized != 0),
        scale(info.scale),
        zero_point(info.zero_point) {}

  template <class T>
  static TensorInfo one(const T *object, std::uint64_t index,
                        qr_status *(*ask)(const T *, std::uint64_t, qr_tensor_info *)) {
    qr_tensor_info info = QR_TENSOR_INFO_INIT;
    check(ask(object, index, &info));
    return TensorInfo(info);
  }
  template <class T>
  static std::vector<TensorInfo> all(const T *object, std::uint64_t count,
                                     qr_status *(*ask)(const T *, std::uint64_t, qr_tensor_info *)) {
    std::vector<TensorInfo> list;
    for (std::uint64_t i = 0; i < count; ++i) list.push_back(one(object, i, ask));
    return list;
  }
};

// The data type of a C++ type.
template <class T>
constexpr qr_dtype dtype_of() {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, float>) return QR_DTYPE_F32;
  else if constexpr (std::is_same_v<U, double>) return QR_DTYPE_F64;
  else if constexpr (std::is_same_v<U, bool>) return QR_DTYPE_BOOL;
  else if constexpr (std::is_same_v<U, std::int8_t>) return QR_DTYPE_I8;
  else if constexpr (std::is_same_v<U, std::uint8_t>) return QR_DTYPE_U8;
  else if constexpr (std::is_same_v<U, std::int16_t>) return QR_DTYPE_I16;
  else if constexpr (std::is_same_v<U, std::uint16_t>) return QR_DTYPE_U16;
  else if constexpr (std::is_same_v<U, std::int32_t>) return QR_DTYPE_I32;
  else if constexpr (std::is_same_v<U, std::uint32_t>) return QR_DTYPE_U32;
  else if constexpr (std::is_same_v<U, std::int64_t>) return QR_DTYPE_I64;
  else if constexpr (std::is_same_v<U, std::uint64_t>) return QR_DTYPE_U64;
  else return QR_DTYPE_UNKNOWN;
}

// A view of data, as qr_tensor is; owns nothing.
class Tensor : public qr_tensor {
 public:
  Tensor() noexcept : qr_tensor QR_TENSOR_INIT {}
  // Data of any type; the size follows from type and shape.
  Tensor(qr_dtype type, const std::vector<std::int64_t> &shape, void *place) : Tensor() {
    dtype = type;
    rank = static_cast<std::uint32_t>(shape.size());
    std::uint64_t count = 1;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis < QR_MAX_RANK) dims[axis] = shape[axis];
      count *= static_cast<std::uint64_t>(shape[axis]);
    }
    qr_tensor::data = place;
    size_bytes = (count * qr_dtype_bits(type) + 7) / 8;
  }
  // Data of a C++ type: an input, or room for an output.
  template <class T>
  static Tensor of(T *elements, const std::vector<std::int64_t> &shape) {
    static_assert(dtype_of<T>() != QR_DTYPE_UNKNOWN, "no data type for this C++ type");
    return Tensor(dtype_of<T>(), shape, const_cast<std::remove_const_t<T> *>(elements));
  }
  // The data; NULL where the tensor holds another type.
  template <class T>
  T *data() const noexcept {
    return dtype_of<T>() == dtype ? static_cast<T *>(qr_tensor::data) : nullptr;
  }
  void *bytes() const noexcept { return qr_tensor::data; }
  std::vector<std::int64_t> shape() const { return std::vector<std::int64_t>(dims, dims + rank); }
};

class Model : public Handle<qr_model, qr_model_destroy> {
 public:
  Model(const Runtime &runtime, std::string_view path, const Options *options = nullptr) : runtime_(&runtime) {
    make(qr_model_open_path, runtime.get(), to_c(path), options ? options->get() : nullptr);
  }
  // `data` must stay valid and unchanged until the model and its sessions are gone.
  Model(const Runtime &runtime, const void *data, std::uint64_t size_bytes, const Options *options = nullptr)
      : runtime_(&runtime) {
    make(qr_model_open_memory, runtime.get(), data, size_bytes, options ? options->get() : nullptr);
  }
  std::vector<TensorInfo> inputs() const {
    return TensorInfo::all<qr_model>(get(), qr_model_input_count(get()), qr_model_input);
  }
  std::vector<TensorInfo> outputs() const {
    return TensorInfo::all<qr_model>(get(), qr_model_output_count(get()), qr_model_output);
  }
  std::uint64_t input_count() const noexcept { return qr_model_input_count(get()); }
  TensorInfo input(std::uint64_t index) const { return TensorInfo::one<qr_model>(get(), index, qr_model_input); }
  TensorInfo output(std::uint64_t index) const { return TensorInfo::one<qr_model>(get(), index, qr_model_output); }
  std::string dim_name(std::uint64_t input, std::uint64_t axis) const {
    qr_string name{};
    check(qr_model_input_dim_name(get(), input, axis, &name));
    return from_c(name);
  }
  std::string inspect() const { return runtime_->take(qr_model_inspect, get()); }
  void verify() const { check(qr_model_verify(get())); }
  std::string check_nodes(const Options &options) const { return runtime_->take(qr_model_check, get(), options.get()); }
  std::pair<qr_compatibility, std::string> compatibility(const Options &options) const {
    qr_compatibility grade = 0;
    std::string reason = runtime_->take(qr_model_compatibility, get(), options.get(), &grade);
    return {grade, std::move(reason)};
  }
  using Progress = std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)>;
  void compile(std::string_view path, const Options *options = nullptr, Signal *signal = nullptr,
               const Progress &progress = {}) const {
    qr_progress callback = QR_PROGRESS_INIT;
    callback.self = const_cast<Progress *>(&progress);
    callback.report = [](void *self, std::uint64_t done, std::uint64_t total, qr_string what) {
      (*static_cast<Progress *>(self))(done, total, std::string_view(what.data, static_cast<std::size_t>(what.size)));
    };
    check(qr_model_compile(get(), options ? options->get() : nullptr, to_c(path), signal ? signal->get() : nullptr,
                           progress ? &callback : nullptr));
  }

 private:
  friend class Session;
  const Runtime *runtime_;
};

class Session : public Handle<qr_session, qr_session_destroy> {
 public:
  explicit Session(const Model &model, const Options *options = nullptr, Signal *signal = nullptr)
      : runtime_(model.runtime_) {
    make(qr_session_create, model.get(), options ? options->get() : nullptr, signal ? signal->get() : nullptr);
  }
  Session clone() const {
    qr_session *made = nullptr;
    check(qr_session_clone(get(), &made));
    return Session(*runtime_, made);
  }
  std::vector<TensorInfo> inputs() const {
    return TensorInfo::all<qr_session>(get(), qr_session_input_count(get()), qr_session_input);
  }
  std::vector<TensorInfo> outputs() const {
    return TensorInfo::all<qr_session>(get(), qr_session_output_count(get()), qr_session_output);
  }
  TensorInfo input(std::uint64_t index) const { return TensorInfo::one<qr_session>(get(), index, qr_session_input); }
  TensorInfo output(std::uint64_t index) const { return TensorInfo::one<qr_session>(get(), index, qr_session_output); }
  // Outputs in the session's memory: valid until the next run.
  std::vector<Tensor> run(const std::vector<Tensor> &inputs, Signal *signal = nullptr, Profile *profile = nullptr) {
    std::vector<Tensor> outputs(static_cast<std::size_t>(qr_session_output_count(get())));
    run(inputs, outputs, signal, profile);
    return outputs;
  }
  // Outputs where the tensors say; those without data as above.
  void run(const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs, Signal *signal = nullptr,
           Profile *profile = nullptr) {
    qr_run_options options = QR_RUN_OPTIONS_INIT;
    options.signal = signal ? signal->get() : nullptr;
    options.profile = profile ? profile->get() : nullptr;
    in_.clear();
    out_.clear();
    for (const Tensor &tensor : inputs) in_.push_back(&tensor);
    for (Tensor &tensor : outputs) out_.push_back(&tensor);
    check(qr_session_run(get(), &options, in_.data(), in_.size(), out_.data(), out_.size()));
  }
  void set_option(std::string_view key, std::string_view value) {
    check(qr_session_set_option(get(), to_c(key), to_c(value)));
  }
  void recover() { check(qr_session_recover(get())); }
  std::string report() const { return runtime_->take(qr_session_report, get()); }

 private:
  Session(const Runtime &runtime, qr_session *made) : Handle(made), runtime_(&runtime) {}
  const Runtime *runtime_;
  std::vector<const qr_tensor *> in_;
  std::vector<qr_tensor *> out_;
};

class Memory : public Handle<qr_memory, qr_memory_destroy> {
 public:
  Memory(const Session &session, std::uint64_t size_bytes) { make(qr_memory_allocate, session.get(), size_bytes); }
  Memory(const Session &session, void *data, std::uint64_t size_bytes) {
    make(qr_memory_register, session.get(), data, size_bytes);
  }
  void *data() const noexcept { return qr_memory_data(get()); }
  std::uint64_t size() const noexcept { return qr_memory_size(get()); }
};

}  // namespace qr

#endif
