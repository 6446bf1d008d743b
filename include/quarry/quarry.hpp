// SPDX-License-Identifier: Apache-2.0
// A thin C++17 wrapper of the C ABI: objects that free themselves, names and shapes as standard types. Header only, and
// nothing of it crosses into the library: program and library may be built with different compilers.
//
//   qr::Runtime runtime;
//   qr::Model model(runtime, "model.qrm");
//   qr::Session session(model);
//   std::vector<qr::Tensor> outputs = session.run({qr::Tensor::of(image.data(), {1, 3, 224, 224})});
//   const float *scores = outputs[0].data<float>();   // valid until the next run
//
// Constructors and the functions of plain name throw qr::Error. Each has a twin that does not: try_run for run, the
// static try_open or try_create for a constructor; it gives a Status or a Result (result.hpp). With -fno-exceptions the
// twins are what there is:
//
//   qr::Result<qr::Runtime> runtime = qr::Runtime::try_create();
//   if (!runtime) return report(runtime.status());
//   qr::Result<qr::Model> model = qr::Model::try_open(*runtime, "model.qrm");
//
// Every object is one pointer to an object of the C ABI, which holds what it was made from. So all of them may be moved
// at any time, alone or together, and destroyed in any order.
#ifndef QUARRY_QUARRY_HPP
#define QUARRY_QUARRY_HPP

#include <quarry/result.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <type_traits>

namespace qr {

class Runtime : public Handle<qr_runtime, qr_runtime_destroy> {
 public:
  using Handle::Handle;
  static Result<Runtime> try_create(const qr_runtime_options *options = nullptr) noexcept {
    return detail::make<Runtime>(qr_runtime_create, options);
  }
  Result<std::uint64_t> try_scan() noexcept { return detail::ask(std::uint64_t{}, qr_runtime_scan, get()); }
  // Strings of both infos live until the next scan or the runtime's end.
  Result<qr_backend_info> try_backend(std::uint64_t index) const noexcept {
    return detail::ask(qr_backend_info QR_BACKEND_INFO_INIT, qr_runtime_backend, get(), index);
  }
  Result<qr_device_info> try_device(std::uint64_t backend, std::uint64_t index) const noexcept {
    return detail::ask(qr_device_info QR_DEVICE_INFO_INIT, qr_runtime_device, get(), backend, index);
  }
  Result<Text> try_operators(std::string_view backend) noexcept {
    return detail::make<Text>(qr_runtime_operators, get(), to_c(backend));
  }
#if QR_HAS_EXCEPTIONS
  Runtime() : Runtime(try_create().value()) {}
  explicit Runtime(const qr_runtime_options &options) : Runtime(try_create(&options).value()) {}
  std::uint64_t scan() { return try_scan().value(); }
  qr_backend_info backend(std::uint64_t index) const { return try_backend(index).value(); }
  qr_device_info device(std::uint64_t backend, std::uint64_t index) const { return try_device(backend, index).value(); }
  std::string operators(std::string_view backend) { return try_operators(backend).value().str(); }
#else
  Runtime() = delete;  // makes one elsewhere: try_create, or Runtime(nullptr) for an empty one
#endif
};

class Options : public Handle<qr_options, qr_options_destroy> {
 public:
  using Pairs = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  using Handle::Handle;
  Options() noexcept = default;  // empty, to be assigned to
  static Result<Options> try_create(const Runtime &runtime, Pairs pairs = {}) noexcept {
    Result<Options> made = detail::make<Options>(qr_options_create, runtime.get());
    if (!made.ok()) return made;
    for (const auto &[key, value] : pairs) {
      Status status = made->try_set(key, value);
      if (!status.ok()) return Result<Options>(std::move(status));
    }
    return made;
  }
  Status try_set(std::string_view key, std::string_view value) noexcept {
    return Status(qr_options_set(get(), to_c(key), to_c(value)));
  }
  // The view lives until the next set or the end of the options.
  Result<std::string_view> try_value(std::string_view key) const noexcept {
    qr_string found{nullptr, 0};
    Status status(qr_options_get(get(), to_c(key), &found));
    if (!status.ok()) return Result<std::string_view>(std::move(status));
    return Result<std::string_view>(std::string_view(found.data, found.size));
  }
#if QR_HAS_EXCEPTIONS
  explicit Options(const Runtime &runtime, Pairs pairs = {}) : Options(try_create(runtime, pairs).value()) {}
  Options &set(std::string_view key, std::string_view value) {
    check(try_set(key, value));
    return *this;
  }
  std::string value(std::string_view key) const { return std::string(try_value(key).value()); }
#endif
};

class Signal : public Handle<qr_signal, qr_signal_destroy> {
 public:
  using Handle::Handle;
  Signal() noexcept = default;  // empty, to be assigned to
  static Result<Signal> try_create(const Runtime &runtime) noexcept {
    return detail::make<Signal>(qr_signal_create, runtime.get());
  }
  void abort() noexcept { qr_signal_abort(get()); }
  void reset() noexcept { qr_signal_reset(get()); }
  void set_timeout(std::chrono::nanoseconds timeout) noexcept {
    qr_signal_set_timeout(get(), static_cast<std::uint64_t>(timeout.count()));
  }
  // poll() calls it readable while the signal is aborted; it stays the signal's.
  Result<int> try_fd() noexcept { return detail::ask(-1, qr_signal_fd, get()); }
#if QR_HAS_EXCEPTIONS
  explicit Signal(const Runtime &runtime) : Signal(try_create(runtime).value()) {}
  int fd() { return try_fd().value(); }
#endif
};

class Profile : public Handle<qr_profile, qr_profile_destroy> {
 public:
  using Handle::Handle;
  Profile() noexcept = default;  // empty, to be assigned to
  static Result<Profile> try_create(const Runtime &runtime) noexcept {
    return detail::make<Profile>(qr_profile_create, runtime.get());
  }
  std::uint64_t size() const noexcept { return qr_profile_event_count(get()); }
  std::uint64_t lost() const noexcept { return qr_profile_lost_count(get()); }
  Result<qr_profile_event> try_event(std::uint64_t index) const noexcept {
    return detail::ask(qr_profile_event QR_PROFILE_EVENT_INIT, qr_profile_event_at, get(), index);
  }
  Result<Text> try_export_as(std::string_view format) const noexcept {
    return detail::make<Text>(qr_profile_export, get(), to_c(format));
  }
  void clear() noexcept { qr_profile_clear(get()); }
#if QR_HAS_EXCEPTIONS
  explicit Profile(const Runtime &runtime) : Profile(try_create(runtime).value()) {}
  qr_profile_event operator[](std::uint64_t index) const { return try_event(index).value(); }
  std::string export_as(std::string_view format) const { return try_export_as(format).value().str(); }
#endif
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
};

namespace detail {

template <class T>
using AskTensor = qr_status *(*)(const T *, std::uint64_t, qr_tensor_info *);

template <class T>
Result<TensorInfo> tensor(const T *object, std::uint64_t index, AskTensor<T> function) noexcept {
  return in_memory([&]() -> Result<TensorInfo> {
    qr_tensor_info info = QR_TENSOR_INFO_INIT;
    Status status(function(object, index, &info));
    if (!status.ok()) return Result<TensorInfo>(std::move(status));
    return Result<TensorInfo>(TensorInfo(info));
  });
}

template <class T>
Result<std::vector<TensorInfo>> tensors(const T *object, std::uint64_t count, AskTensor<T> function) noexcept {
  return in_memory([&]() -> Result<std::vector<TensorInfo>> {
    std::vector<TensorInfo> list;
    list.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      qr_tensor_info info = QR_TENSOR_INFO_INIT;
      Status status(function(object, i, &info));
      if (!status.ok()) return Result<std::vector<TensorInfo>>(std::move(status));
      list.emplace_back(info);
    }
    return Result<std::vector<TensorInfo>>(std::move(list));
  });
}

}  // namespace detail

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

// The extents of a tensor, outermost first. Those past QR_MAX_RANK are counted and not kept.
class Shape {
 public:
  Shape(const std::int64_t *dims, std::size_t rank) noexcept : rank_(rank) {
    for (std::size_t axis = 0; axis < rank && axis < QR_MAX_RANK; ++axis) dims_[axis] = dims[axis];
  }
  Shape(std::initializer_list<std::int64_t> dims) noexcept : Shape(dims.begin(), dims.size()) {}
  Shape(const std::vector<std::int64_t> &dims) noexcept : Shape(dims.data(), dims.size()) {}
  std::size_t rank() const noexcept { return rank_; }
  const std::int64_t *begin() const noexcept { return dims_; }
  const std::int64_t *end() const noexcept { return dims_ + (rank_ < QR_MAX_RANK ? rank_ : QR_MAX_RANK); }

 private:
  std::int64_t dims_[QR_MAX_RANK] = {};
  std::size_t rank_;
};

// A view of data, as qr_tensor is; owns nothing.
class Tensor : public qr_tensor {
 public:
  Tensor() noexcept : qr_tensor QR_TENSOR_INIT {}
  // Data of any type; the size follows from type and shape. A shape of too many extents is refused by the call that is
  // given the tensor.
  Tensor(qr_dtype type, const Shape &shape, void *place) noexcept : Tensor() {
    dtype = type;
    rank = static_cast<std::uint32_t>(shape.rank());
    std::copy(shape.begin(), shape.end(), dims);
    std::uint64_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
    qr_tensor::data = place;
    size_bytes = (count * qr_dtype_bits(type) + 7) / 8;
  }
  // Data of a C++ type: an input, or room for an output.
  template <class T>
  static Tensor of(T *elements, const Shape &shape) noexcept {
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

// Told how far a long call has come: `done` of `total` steps, total 0 where that is not known.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)>;

namespace detail {

template <class Object>
auto get(const Object *object) noexcept -> decltype(object->get()) {
  return object ? object->get() : nullptr;
}

// A Progress as the C ABI takes it. An exception of its does not pass through the library: it waits for rethrow().
class ProgressCall {
 public:
  explicit ProgressCall(const Progress &progress) noexcept : progress_(progress) {
    c_.self = this;
    c_.report = report;
  }
  ProgressCall(const ProgressCall &) = delete;
  ProgressCall &operator=(const ProgressCall &) = delete;
  const qr_progress *get() const noexcept { return progress_ ? &c_ : nullptr; }
  void rethrow() const {
#if QR_HAS_EXCEPTIONS
    if (thrown_) std::rethrow_exception(thrown_);
#endif
  }

 private:
  static void report(void *self, std::uint64_t done, std::uint64_t total, qr_string what) noexcept {
    auto *call = static_cast<ProgressCall *>(self);
    const std::string_view text(what.data, what.size);
#if QR_HAS_EXCEPTIONS
    if (call->thrown_) return;
    try {
      call->progress_(done, total, text);
    } catch (...) {
      call->thrown_ = std::current_exception();
    }
#else
    call->progress_(done, total, text);
#endif
  }
  const Progress &progress_;
  qr_progress c_ = QR_PROGRESS_INIT;
  std::exception_ptr thrown_;
};

inline qr_call_options call(Signal *signal, Profile *profile, const qr_progress *progress) noexcept {
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.signal = get(signal);
  call.profile = get(profile);
  call.progress = progress;
  return call;
}

// The array of pointers that a run takes; on the stack where they are few.
template <class T>
class Pointers {
 public:
  template <class Tensors>
  Pointers(Tensors *tensors, std::size_t count) noexcept {
    if (count > kFew) many_.reset(new (std::nothrow) T *[count]);
    at_ = count > kFew ? many_.get() : few_;
    if (at_)
      for (std::size_t i = 0; i < count; ++i) at_[i] = &tensors[i];
  }
  T **get() const noexcept { return at_; }  // NULL: out of memory

 private:
  static constexpr std::size_t kFew = 32;
  T *few_[kFew];
  std::unique_ptr<T *[]> many_;
  T **at_;
};

}  // namespace detail

class Model : public Handle<qr_model, qr_model_destroy> {
 public:
  using Progress = qr::Progress;
  using Handle::Handle;
  Model() noexcept = default;  // empty, to be assigned to
  static Result<Model> try_open(const Runtime &runtime, std::string_view path,
                                const Options *options = nullptr) noexcept {
    return detail::make<Model>(qr_model_open_path, runtime.get(), to_c(path), detail::get(options));
  }
  // `data` must stay valid and unchanged until the model and its sessions are gone.
  static Result<Model> try_open(const Runtime &runtime, const void *data, std::uint64_t size_bytes,
                                const Options *options = nullptr) noexcept {
    return detail::make<Model>(qr_model_open_memory, runtime.get(), data, size_bytes, detail::get(options));
  }
  // `size_bytes` 0: to the end of the file. The descriptor stays the caller's.
  static Result<Model> try_open_fd(const Runtime &runtime, int fd, std::uint64_t offset = 0,
                                   std::uint64_t size_bytes = 0, const Options *options = nullptr) noexcept {
    return detail::make<Model>(qr_model_open_fd, runtime.get(), fd, offset, size_bytes, detail::get(options));
  }
  std::uint64_t input_count() const noexcept { return qr_model_input_count(get()); }
  std::uint64_t output_count() const noexcept { return qr_model_output_count(get()); }
  Result<TensorInfo> try_input(std::uint64_t index) const noexcept {
    return detail::tensor<qr_model>(get(), index, qr_model_input);
  }
  Result<TensorInfo> try_output(std::uint64_t index) const noexcept {
    return detail::tensor<qr_model>(get(), index, qr_model_output);
  }
  Result<std::vector<TensorInfo>> try_inputs() const noexcept {
    return detail::tensors<qr_model>(get(), input_count(), qr_model_input);
  }
  Result<std::vector<TensorInfo>> try_outputs() const noexcept {
    return detail::tensors<qr_model>(get(), output_count(), qr_model_output);
  }
  // The view lives as long as the model.
  Result<std::string_view> try_dim_name(std::uint64_t input, std::uint64_t axis) const noexcept {
    qr_string name{nullptr, 0};
    Status status(qr_model_input_dim_name(get(), input, axis, &name));
    if (!status.ok()) return Result<std::string_view>(std::move(status));
    return Result<std::string_view>(std::string_view(name.data, name.size));
  }
  Result<Text> try_inspect() const noexcept { return detail::make<Text>(qr_model_inspect, get()); }
  Status try_verify() const noexcept { return Status(qr_model_verify(get())); }
  Result<Text> try_check_nodes(const Options &options) const noexcept {
    return detail::make<Text>(qr_model_check, get(), options.get(), nullptr);
  }
  Result<std::pair<qr_compatibility, Text>> try_compatibility(const Options &options) const noexcept {
    using Answer = std::pair<qr_compatibility, Text>;
    qr_compatibility grade = 0;
    char *reason = nullptr;
    Status status(qr_model_compatibility(get(), options.get(), &grade, &reason));
    if (!status.ok()) return Result<Answer>(std::move(status));
    return Result<Answer>(Answer(grade, Text(reason)));
  }
  // What `progress` throws comes out of here, when the call has ended.
  Status try_compile(std::string_view path, const Options *options = nullptr, Signal *signal = nullptr,
                     const Progress &progress = {}, Profile *profile = nullptr) const {
    const detail::ProgressCall progress_call(progress);
    const qr_call_options call = detail::call(signal, profile, progress_call.get());
    Status status(qr_model_compile(get(), detail::get(options), to_c(path), &call));
    progress_call.rethrow();
    return status;
  }
#if QR_HAS_EXCEPTIONS
  Model(const Runtime &runtime, std::string_view path, const Options *options = nullptr)
      : Model(try_open(runtime, path, options).value()) {}
  Model(const Runtime &runtime, const void *data, std::uint64_t size_bytes, const Options *options = nullptr)
      : Model(try_open(runtime, data, size_bytes, options).value()) {}
  static Model open_fd(const Runtime &runtime, int fd, std::uint64_t offset = 0, std::uint64_t size_bytes = 0,
                       const Options *options = nullptr) {
    return try_open_fd(runtime, fd, offset, size_bytes, options).value();
  }
  TensorInfo input(std::uint64_t index) const { return try_input(index).value(); }
  TensorInfo output(std::uint64_t index) const { return try_output(index).value(); }
  std::vector<TensorInfo> inputs() const { return try_inputs().value(); }
  std::vector<TensorInfo> outputs() const { return try_outputs().value(); }
  std::string dim_name(std::uint64_t input, std::uint64_t axis) const {
    return std::string(try_dim_name(input, axis).value());
  }
  std::string inspect() const { return try_inspect().value().str(); }
  void verify() const { check(try_verify()); }
  std::string check_nodes(const Options &options) const { return try_check_nodes(options).value().str(); }
  std::pair<qr_compatibility, std::string> compatibility(const Options &options) const {
    const auto [grade, reason] = try_compatibility(options).value();
    return {grade, reason.str()};
  }
  void compile(std::string_view path, const Options *options = nullptr, Signal *signal = nullptr,
               const Progress &progress = {}, Profile *profile = nullptr) const {
    check(try_compile(path, options, signal, progress, profile));
  }
#endif
};

class Session : public Handle<qr_session, qr_session_destroy> {
 public:
  using Handle::Handle;
  Session() noexcept = default;  // empty, to be assigned to
  static Result<Session> try_create(const Model &model, const Options *options = nullptr, Signal *signal = nullptr,
                                    Profile *profile = nullptr) noexcept {
    const qr_call_options call = detail::call(signal, profile, nullptr);
    return detail::make<Session>(qr_session_create, model.get(), detail::get(options), &call);
  }
  // What a session would need, without one.
  static Result<qr_memory_plan> try_plan(const Model &model, const Options *options = nullptr) noexcept {
    return detail::ask(qr_memory_plan QR_MEMORY_PLAN_INIT, qr_session_plan, model.get(), detail::get(options));
  }
  Result<Session> try_clone() const noexcept { return detail::make<Session>(qr_session_clone, get()); }
  std::uint64_t input_count() const noexcept { return qr_session_input_count(get()); }
  std::uint64_t output_count() const noexcept { return qr_session_output_count(get()); }
  Result<TensorInfo> try_input(std::uint64_t index) const noexcept {
    return detail::tensor<qr_session>(get(), index, qr_session_input);
  }
  Result<TensorInfo> try_output(std::uint64_t index) const noexcept {
    return detail::tensor<qr_session>(get(), index, qr_session_output);
  }
  Result<std::vector<TensorInfo>> try_inputs() const noexcept {
    return detail::tensors<qr_session>(get(), input_count(), qr_session_input);
  }
  Result<std::vector<TensorInfo>> try_outputs() const noexcept {
    return detail::tensors<qr_session>(get(), output_count(), qr_session_output);
  }
  // Outputs where the tensors say; those without data in the session's memory, valid until the next run.
  Status try_run(const Tensor *inputs, std::size_t input_count, Tensor *outputs, std::size_t output_count,
                 Signal *signal = nullptr, Profile *profile = nullptr) noexcept {
    const detail::Pointers<const qr_tensor> in(inputs, input_count);
    const detail::Pointers<qr_tensor> out(outputs, output_count);
    if (!in.get() || !out.get()) return Status::out_of_memory();
    qr_run_options options = QR_RUN_OPTIONS_INIT;
    options.signal = detail::get(signal);
    options.profile = detail::get(profile);
    return Status(qr_session_run(get(), &options, in.get(), input_count, out.get(), output_count));
  }
  // The same with std::array, std::vector, std::span or arrays of Tensor.
  template <class Inputs, class Outputs>
  Status try_run(const Inputs &inputs, Outputs &outputs, Signal *signal = nullptr,
                 Profile *profile = nullptr) noexcept {
    return try_run(std::data(inputs), std::size(inputs), std::data(outputs), std::size(outputs), signal, profile);
  }
  // So that the next run takes as long as those after it: qr_session_warm_up.
  Status try_warm_up(Signal *signal = nullptr, Profile *profile = nullptr) noexcept {
    qr_run_options options = QR_RUN_OPTIONS_INIT;
    options.signal = detail::get(signal);
    options.profile = detail::get(profile);
    return Status(qr_session_warm_up(get(), &options));
  }
  // Queues a run and gives its ticket. Inputs, outputs and their data stay until the run has ended; wanted outputs have
  // data or memory. `how`: a QR_SUBMIT_OPTIONS_INIT with what is to be called then, and signal and profile.
  Result<std::uint64_t> try_submit(const Tensor *inputs, std::size_t input_count, Tensor *outputs,
                                   std::size_t output_count, const qr_submit_options *how = nullptr) noexcept {
    const detail::Pointers<const qr_tensor> in(inputs, input_count);
    const detail::Pointers<qr_tensor> out(outputs, output_count);
    if (!in.get() || !out.get()) return Result<std::uint64_t>(Status::out_of_memory());
    std::uint64_t ticket = 0;
    Status status(qr_session_submit(get(), how, in.get(), input_count, out.get(), output_count, &ticket));
    if (!status.ok()) return Result<std::uint64_t>(std::move(status));
    return Result<std::uint64_t>(ticket);
  }
  template <class Inputs, class Outputs>
  Result<std::uint64_t> try_submit(const Inputs &inputs, Outputs &outputs,
                                   const qr_submit_options *how = nullptr) noexcept {
    return try_submit(std::data(inputs), std::size(inputs), std::data(outputs), std::size(outputs), how);
  }
  // The outcome of a run, once; without a ticket: waits until none is under way.
  Status try_wait(std::uint64_t ticket = 0, Signal *signal = nullptr) noexcept {
    return Status(qr_session_wait(get(), ticket, detail::get(signal)));
  }
  void abort(std::uint64_t ticket = 0) noexcept { qr_session_abort(get(), ticket); }  // one, or all
  // Polls readable while there is an outcome to wait for; it stays the session's.
  Result<std::int32_t> try_completion_fd() noexcept {
    return detail::ask(std::int32_t{-1}, qr_session_completion_fd, get());
  }
  Status try_set_option(std::string_view key, std::string_view value) noexcept {
    return Status(qr_session_set_option(get(), to_c(key), to_c(value)));
  }
  Status try_recover() noexcept { return Status(qr_session_recover(get())); }
  Result<Text> try_report() const noexcept { return detail::make<Text>(qr_session_report, get()); }
#if QR_HAS_EXCEPTIONS
  explicit Session(const Model &model, const Options *options = nullptr, Signal *signal = nullptr)
      : Session(try_create(model, options, signal).value()) {}
  static qr_memory_plan plan(const Model &model, const Options *options = nullptr) {
    return try_plan(model, options).value();
  }
  Session clone() const { return try_clone().value(); }
  TensorInfo input(std::uint64_t index) const { return try_input(index).value(); }
  TensorInfo output(std::uint64_t index) const { return try_output(index).value(); }
  std::vector<TensorInfo> inputs() const { return try_inputs().value(); }
  std::vector<TensorInfo> outputs() const { return try_outputs().value(); }
  // Outputs in the session's memory: valid until the next run.
  std::vector<Tensor> run(const std::vector<Tensor> &inputs, Signal *signal = nullptr, Profile *profile = nullptr) {
    std::vector<Tensor> outputs(output_count());
    run(inputs, outputs, signal, profile);
    return outputs;
  }
  // Outputs where the tensors say; those without data as above.
  void run(const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs, Signal *signal = nullptr,
           Profile *profile = nullptr) {
    check(try_run(inputs, outputs, signal, profile));
  }
  void warm_up(Signal *signal = nullptr, Profile *profile = nullptr) { check(try_warm_up(signal, profile)); }
  std::uint64_t submit(const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs,
                       const qr_submit_options *how = nullptr) {
    return try_submit(inputs, outputs, how).value();
  }
  void wait(std::uint64_t ticket = 0, Signal *signal = nullptr) { check(try_wait(ticket, signal)); }
  std::int32_t completion_fd() { return try_completion_fd().value(); }
  void set_option(std::string_view key, std::string_view value) { check(try_set_option(key, value)); }
  void recover() { check(try_recover()); }
  std::string report() const { return try_report().value().str(); }
#endif
};

class Memory : public Handle<qr_memory, qr_memory_destroy> {
 public:
  using Handle::Handle;
  Memory() noexcept = default;  // empty, to be assigned to
  static Result<Memory> try_allocate(const Session &session, std::uint64_t size_bytes,
                                     const qr_memory_options *how = nullptr) noexcept {
    return detail::make<Memory>(qr_memory_allocate, session.get(), size_bytes, how);
  }
  // `data` must stay valid until the memory is gone.
  static Result<Memory> try_register(const Session &session, void *data, std::uint64_t size_bytes,
                                     const qr_memory_options *how = nullptr) noexcept {
    return detail::make<Memory>(qr_memory_register, session.get(), data, size_bytes, how);
  }
  // The descriptor stays the caller's.
  static Result<Memory> try_import(const Session &session, int fd, std::uint64_t offset, std::uint64_t size_bytes,
                                   const qr_memory_options *how = nullptr) noexcept {
    return detail::make<Memory>(qr_memory_import_fd, session.get(), fd, offset, size_bytes, how);
  }
  void *data() const noexcept { return qr_memory_data(get()); }
  std::uint64_t size() const noexcept { return qr_memory_size(get()); }
  // A view of memory that has none of its own, until try_unmap. `access`: QR_ACCESS_*, what the host will do.
  Result<void *> try_map(std::uint32_t access) noexcept {
    return detail::ask(static_cast<void *>(nullptr), qr_memory_map, get(), access);
  }
  Status try_unmap() noexcept { return Status(qr_memory_unmap(get())); }
  // Around what the host does with data(), where it and the device do not see each other's writes by themselves.
  Status try_begin_access(std::uint32_t access) noexcept { return Status(qr_memory_begin_access(get(), access)); }
  Status try_end_access(std::uint32_t access) noexcept { return Status(qr_memory_end_access(get(), access)); }
  // A descriptor for another process or device, which the caller closes, and where the memory begins in it.
  Result<std::pair<int, std::uint64_t>> try_export_fd() noexcept {
    using Place = std::pair<int, std::uint64_t>;
    Place place(-1, 0);
    Status status(qr_memory_export_fd(get(), &place.first, &place.second));
    if (!status.ok()) return Result<Place>(std::move(status));
    return Result<Place>(place);
  }
#if QR_HAS_EXCEPTIONS
  Memory(const Session &session, std::uint64_t size_bytes, const qr_memory_options *how = nullptr)
      : Memory(try_allocate(session, size_bytes, how).value()) {}
  Memory(const Session &session, void *data, std::uint64_t size_bytes, const qr_memory_options *how = nullptr)
      : Memory(try_register(session, data, size_bytes, how).value()) {}
  static Memory import(const Session &session, int fd, std::uint64_t offset, std::uint64_t size_bytes,
                       const qr_memory_options *how = nullptr) {
    return try_import(session, fd, offset, size_bytes, how).value();
  }
  void *map(std::uint32_t access) { return try_map(access).value(); }
  void unmap() { check(try_unmap()); }
  void begin_access(std::uint32_t access) { check(try_begin_access(access)); }
  void end_access(std::uint32_t access) { check(try_end_access(access)); }
  std::pair<int, std::uint64_t> export_fd() { return try_export_fd().value(); }
#endif
};

}  // namespace qr

#endif
