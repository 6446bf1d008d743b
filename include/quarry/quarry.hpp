// SPDX-License-Identifier: Apache-2.0
// A thin C++17 wrapper of the C ABI: objects that free themselves, names and shapes as standard types. Header only, and
// nothing of it crosses into the library: program and library may be built with different compilers.
//
//   qr::Runtime runtime;
//   qr::Model model(runtime, "model.qrm");
//   qr::Session session(model);
//   std::vector<qr::Tensor> outputs = session.run({qr::Tensor::of(image.data(), {1, 3, 224, 224})});
//   const float *scores = outputs[0].data<float>();   // valid until the next run; an error where it is no float
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
//
// Macros of X11, windows.h and their like may be defined before these headers and after them (macros_off.hpp). Where
// `Status` is a macro, qr::Status is qr::CallStatus.
#ifndef QUARRY_QUARRY_HPP
#define QUARRY_QUARRY_HPP

#include <quarry/macros_off.hpp>
#include <quarry/adapter.hpp>
#include <quarry/callbacks.hpp>
#include <quarry/result.hpp>
#include <quarry/state.hpp>
#include <quarry/target.hpp>
#include <quarry/tensor.hpp>

#include <chrono>
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

namespace detail {

inline std::string_view view(const qr_string &text) noexcept { return std::string_view(text.data, text.size); }

// An entry of a list of keys and values.
template <class T>
Result<std::pair<std::string_view, std::string_view>> two_views(const T *object, std::uint64_t index,
                                                                qr_status *(*function)(const T *, std::uint64_t,
                                                                                       qr_string *,
                                                                                       qr_string *)) noexcept {
  using Pair = std::pair<std::string_view, std::string_view>;
  qr_string key{nullptr, 0}, value{nullptr, 0};
  Status status(function(object, index, &key, &value));
  if (!status.ok()) return Result<Pair>(std::move(status));
  return Result<Pair>(Pair(view(key), view(value)));
}

}  // namespace detail

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
  Status try_unset(std::string_view key) noexcept { return Status(qr_options_unset(get(), to_c(key))); }
  // Those that were set, in the order of their keys; the views live until the next set or unset.
  std::uint64_t size() const noexcept { return qr_options_count(get()); }
  Result<std::pair<std::string_view, std::string_view>> try_at(std::uint64_t index) const noexcept {
    return detail::two_views(get(), index, qr_options_at);
  }
  Result<Options> try_copy() const noexcept { return detail::make<Options>(qr_options_copy, get()); }
#if QR_HAS_EXCEPTIONS
  explicit Options(const Runtime &runtime, Pairs pairs = {}) : Options(try_create(runtime, pairs).value()) {}
  Options &set(std::string_view key, std::string_view value) {
    check(try_set(key, value));
    return *this;
  }
  std::string value(std::string_view key) const { return std::string(try_value(key).value()); }
  Options &unset(std::string_view key) {
    check(try_unset(key));
    return *this;
  }
  std::pair<std::string, std::string> at(std::uint64_t index) const {
    const auto [key, value] = try_at(index).value();
    return {std::string(key), std::string(value)};
  }
  Options copy() const { return try_copy().value(); }
#endif
};

namespace detail {

// As qr_signal_set_timeout takes it. Units that have no room in nanoseconds are so long that there is no limit.
template <class Number, class Unit>
std::uint64_t timeout_ns(std::chrono::duration<Number, Unit> timeout) noexcept {
  constexpr std::uint64_t kNoLimit = QR_NO_TIMEOUT, kPassed = 0;
  const double about = std::chrono::duration<double, std::nano>(timeout).count();
  if (about >= 9.2e18) return kNoLimit;
  if (!(about > 0)) return kPassed;
  const auto exact = std::chrono::duration_cast<std::chrono::nanoseconds>(timeout).count();
  return exact > 0 ? static_cast<std::uint64_t>(exact) : kPassed;
}

}  // namespace detail

class Signal : public Handle<qr_signal, qr_signal_destroy> {
 public:
  using Handle::Handle;
  Signal() noexcept = default;  // empty, to be assigned to
  static Result<Signal> try_create(const Runtime &runtime) noexcept {
    return detail::make<Signal>(qr_signal_create, runtime.get());
  }
  // For calls that belong together: aborted with this one, and what is left of this one's timeout counts for all of
  // them from now on.
  Result<Signal> try_derive() const noexcept { return detail::make<Signal>(qr_signal_derive, get()); }
  // Whether a call that began now would go on.
  Status try_check() const noexcept { return Status(qr_signal_check(get())); }
  void abort() noexcept { qr_signal_abort(get()); }
  void reset() noexcept { qr_signal_reset(get()); }
  // Each later call has this long, from its own start. 0 and less, as the rest of a time that has run out: it has
  // passed already. `no_limit` takes a limit back.
  static constexpr std::chrono::nanoseconds no_limit = std::chrono::nanoseconds::max();
  template <class Number, class Unit>
  void set_timeout(std::chrono::duration<Number, Unit> timeout) noexcept {
    qr_signal_set_timeout(get(), detail::timeout_ns(timeout));
  }
  // poll() calls it readable while the signal is aborted; it stays the signal's.
  Result<int> try_fd() noexcept { return detail::ask(-1, qr_signal_fd, get()); }
#if QR_HAS_EXCEPTIONS
  explicit Signal(const Runtime &runtime) : Signal(try_create(runtime).value()) {}
  Signal derive() const { return try_derive().value(); }
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
    return detail::text_of([&](const qr_target *to) { return qr_profile_export(get(), to_c(format), to); });
  }
  Status try_export_as(std::string_view format, const Target &target) const {
    Status status(qr_profile_export(get(), to_c(format), target.c()));
    target.rethrow();
    return status;
  }
  void clear() noexcept { qr_profile_clear(get()); }
#if QR_HAS_EXCEPTIONS
  explicit Profile(const Runtime &runtime) : Profile(try_create(runtime).value()) {}
  qr_profile_event operator[](std::uint64_t index) const { return try_event(index).value(); }
  std::string export_as(std::string_view format) const { return try_export_as(format).value().str(); }
  void export_as(std::string_view format, const Target &target) const { check(try_export_as(format, target)); }
#endif
};

namespace detail {

template <class Object>
auto get(const Object *object) noexcept -> decltype(object->get()) {
  return object ? object->get() : nullptr;
}

inline qr_model_source source_at(std::string_view path) noexcept {
  qr_model_source source = QR_MODEL_SOURCE_INIT;
  source.kind = QR_SOURCE_PATH;
  source.path = to_c(path);
  return source;
}

inline qr_call_options call(Signal *signal, Profile *profile = nullptr) noexcept {
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.signal = get(signal);
  call.profile = get(profile);
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
    for (std::size_t i = 0; at_ && i < count; ++i) {
      at_[i] = &tensors[i];
      if (!tensors[i].ok()) refused_ = &tensors[i];
    }
  }
  T **get() const noexcept { return at_; }
  // Out of memory, or a tensor that is none.
  Status status() const noexcept { return !at_ ? Status::out_of_memory() : refused_ ? refused_->status() : Status(); }

 private:
  static constexpr std::size_t kFew = 32;
  T *few_[kFew];
  std::unique_ptr<T *[]> many_;
  T **at_;
  const Tensor *refused_ = nullptr;
};

template <class In, class Out>
Status first_failure(const Pointers<In> &in, const Pointers<Out> &out) noexcept {
  Status status = in.status();
  return status.ok() ? out.status() : std::move(status);
}

}  // namespace detail

class Model : public Handle<qr_model, qr_model_destroy> {
 public:
  using Progress = qr::Progress;
  using Handle::Handle;
  Model() noexcept = default;  // empty, to be assigned to
  // From anywhere, and with the folder of its external data: see qr_model_source.
  static Result<Model> try_open(const Runtime &runtime, const qr_model_source &source, const Options *options = nullptr,
                                Signal *signal = nullptr) noexcept {
    const qr_call_options call = detail::call(signal);
    return detail::make<Model>(qr_model_open, runtime.get(), &source, detail::get(options), &call);
  }
  static Result<Model> try_open(const Runtime &runtime, std::string_view path, const Options *options = nullptr,
                                Signal *signal = nullptr) noexcept {
    return try_open(runtime, detail::source_at(path), options, signal);
  }
  // `data` must stay valid and unchanged until the model and its sessions are gone.
  static Result<Model> try_open(const Runtime &runtime, const void *data, std::uint64_t size_bytes,
                                const Options *options = nullptr, Signal *signal = nullptr) noexcept {
    const qr_model_source source = QR_MODEL_IN_MEMORY(data, size_bytes);
    return try_open(runtime, source, options, signal);
  }
  // `size_bytes` 0: to the end of the file. The descriptor stays the caller's.
  static Result<Model> try_open_fd(const Runtime &runtime, int fd, std::uint64_t offset = 0,
                                   std::uint64_t size_bytes = 0, const Options *options = nullptr,
                                   Signal *signal = nullptr) noexcept {
    const qr_model_source source = QR_MODEL_IN_FILE(fd, offset, size_bytes);
    return try_open(runtime, source, options, signal);
  }
  // What `reader` throws ends the call and comes out of here.
  static Result<Model> try_open_reader(const Runtime &runtime, std::uint64_t size_bytes, const Reader &reader,
                                       const Options *options = nullptr, Signal *signal = nullptr) {
    detail::ReaderCall reader_call(reader);
    Result<Model> made = try_open(runtime, reader_call.source(size_bytes), options, signal);
    reader_call.rethrow();
    return made;
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
    return detail::tensors(get(), input_count(), qr_model_input);
  }
  Result<std::vector<TensorInfo>> try_outputs() const noexcept {
    return detail::tensors(get(), output_count(), qr_model_output);
  }
  // The view lives as long as the model.
  Result<std::string_view> try_dim_name(std::uint64_t input, std::uint64_t axis) const noexcept {
    return name_of(qr_model_input_dim_name, input, axis);
  }
  Result<std::string_view> try_output_dim_name(std::uint64_t output, std::uint64_t axis) const noexcept {
    return name_of(qr_model_output_dim_name, output, axis);
  }
  // What the model carries as keys and values; the views live as long as the model.
  std::uint64_t property_count() const noexcept { return qr_model_property_count(get()); }
  Result<std::pair<std::string_view, std::string_view>> try_property(std::uint64_t index) const noexcept {
    return detail::two_views(get(), index, qr_model_property);
  }
  Result<Text> try_inspect(Signal *signal = nullptr) const noexcept {
    const qr_call_options call = detail::call(signal);
    return detail::make<Text>(qr_model_inspect, get(), &call);
  }
  Status try_verify(Signal *signal = nullptr) const noexcept {
    const qr_call_options call = detail::call(signal);
    return Status(qr_model_verify(get(), &call));
  }
  Result<Text> try_check_nodes(const Options &options) const noexcept {
    return detail::make<Text>(qr_model_check, get(), options.get(), nullptr);
  }
  Result<std::pair<qr_compatibility, Text>> try_compatibility(const Options &options,
                                                              Signal *signal = nullptr) const noexcept {
    const qr_call_options call = detail::call(signal);
    using Answer = std::pair<qr_compatibility, Text>;
    qr_compatibility grade = 0;
    char *reason = nullptr;
    Status status(qr_model_compatibility(get(), options.get(), &call, &grade, &reason));
    if (!status.ok()) return Result<Answer>(std::move(status));
    return Result<Answer>(Answer(grade, Text(reason)));
  }
  // What `progress` throws stops the call and comes out of here; what a writer throws comes out too.
  Status try_compile(const Target &target, const Options *options = nullptr, Signal *signal = nullptr,
                     const Progress &progress = {}, Profile *profile = nullptr) const {
    return write(qr_model_compile, target, options, signal, progress, profile);
  }
  // The graph for other programs: the target's name says how (qr_model_export).
  Status try_export_to(const Target &target, const Options *options = nullptr, Signal *signal = nullptr,
                       const Progress &progress = {}, Profile *profile = nullptr) const {
    return write(qr_model_export, target, options, signal, progress, profile);
  }
#if QR_HAS_EXCEPTIONS
  Model(const Runtime &runtime, const qr_model_source &source, const Options *options = nullptr,
        Signal *signal = nullptr)
      : Model(try_open(runtime, source, options, signal).value()) {}
  Model(const Runtime &runtime, std::string_view path, const Options *options = nullptr, Signal *signal = nullptr)
      : Model(try_open(runtime, path, options, signal).value()) {}
  Model(const Runtime &runtime, const void *data, std::uint64_t size_bytes, const Options *options = nullptr,
        Signal *signal = nullptr)
      : Model(try_open(runtime, data, size_bytes, options, signal).value()) {}
  static Model open_fd(const Runtime &runtime, int fd, std::uint64_t offset = 0, std::uint64_t size_bytes = 0,
                       const Options *options = nullptr, Signal *signal = nullptr) {
    return try_open_fd(runtime, fd, offset, size_bytes, options, signal).value();
  }
  static Model open_reader(const Runtime &runtime, std::uint64_t size_bytes, const Reader &reader,
                           const Options *options = nullptr, Signal *signal = nullptr) {
    return try_open_reader(runtime, size_bytes, reader, options, signal).value();
  }
  TensorInfo input(std::uint64_t index) const { return try_input(index).value(); }
  TensorInfo output(std::uint64_t index) const { return try_output(index).value(); }
  std::vector<TensorInfo> inputs() const { return try_inputs().value(); }
  std::vector<TensorInfo> outputs() const { return try_outputs().value(); }
  std::string dim_name(std::uint64_t input, std::uint64_t axis) const {
    return std::string(try_dim_name(input, axis).value());
  }
  std::string output_dim_name(std::uint64_t output, std::uint64_t axis) const {
    return std::string(try_output_dim_name(output, axis).value());
  }
  std::pair<std::string, std::string> property(std::uint64_t index) const {
    const auto [key, value] = try_property(index).value();
    return {std::string(key), std::string(value)};
  }
  std::string inspect(Signal *signal = nullptr) const { return try_inspect(signal).value().str(); }
  void verify(Signal *signal = nullptr) const { check(try_verify(signal)); }
  std::string check_nodes(const Options &options) const { return try_check_nodes(options).value().str(); }
  std::pair<qr_compatibility, std::string> compatibility(const Options &options, Signal *signal = nullptr) const {
    const auto [grade, reason] = try_compatibility(options, signal).value();
    return {grade, reason.str()};
  }
  void compile(const Target &target, const Options *options = nullptr, Signal *signal = nullptr,
               const Progress &progress = {}, Profile *profile = nullptr) const {
    check(try_compile(target, options, signal, progress, profile));
  }
  void export_to(const Target &target, const Options *options = nullptr, Signal *signal = nullptr,
                 const Progress &progress = {}, Profile *profile = nullptr) const {
    check(try_export_to(target, options, signal, progress, profile));
  }
#endif

 private:
  using WriteCall = qr_status *(*)(const qr_model *, const qr_options *, const qr_target *, const qr_call_options *);
  Status write(WriteCall function, const Target &target, const Options *options, Signal *signal,
               const Progress &progress, Profile *profile) const {
    detail::ProgressCall progress_call(progress, detail::get(signal));
    const qr_call_options call = progress_call.options(detail::get(profile));
    Status status(function(get(), detail::get(options), target.c(), &call));
    progress_call.rethrow();
    target.rethrow();
    return status;
  }
  using DimName = qr_status *(*)(const qr_model *, std::uint64_t, std::uint64_t, qr_string *);
  Result<std::string_view> name_of(DimName ask, std::uint64_t index, std::uint64_t axis) const noexcept {
    qr_string name{nullptr, 0};
    Status status(ask(get(), index, axis, &name));
    if (!status.ok()) return Result<std::string_view>(std::move(status));
    return Result<std::string_view>(detail::view(name));
  }
};

// One of several models that become one container, and what the option "model" chooses it by.
struct Network {
  const Model *model;
  std::string name;
};
inline Status try_compile_networks(const std::vector<Network> &networks, const Target &target,
                                   const Options *options = nullptr, Signal *signal = nullptr,
                                   const Progress &progress = {}, Profile *profile = nullptr) {
  std::vector<qr_network> all;
  std::vector<const qr_network *> pointers;
  for (const Network &network : networks) {
    qr_network one = QR_NETWORK_INIT;
    one.model = detail::get(network.model), one.name = {network.name.data(), network.name.size()};
    all.push_back(one);
  }
  for (const qr_network &network : all) pointers.push_back(&network);
  detail::ProgressCall progress_call(progress, detail::get(signal));
  const qr_call_options call = progress_call.options(detail::get(profile));
  Status status(qr_model_compile_networks(pointers.data(), pointers.size(), detail::get(options), target.c(), &call));
  progress_call.rethrow();
  target.rethrow();
  return status;
}
#if QR_HAS_EXCEPTIONS
inline void compile_networks(const std::vector<Network> &networks, const Target &target,
                             const Options *options = nullptr, Signal *signal = nullptr, const Progress &progress = {},
                             Profile *profile = nullptr) {
  check(try_compile_networks(networks, target, options, signal, progress, profile));
}
#endif

class Session : public Handle<qr_session, qr_session_destroy> {
 public:
  using Handle::Handle;
  Session() noexcept = default;  // empty, to be assigned to
  static Result<Session> try_create(const Model &model, const Options *options = nullptr, Signal *signal = nullptr,
                                    Profile *profile = nullptr) noexcept {
    const qr_call_options call = detail::call(signal, profile);
    return detail::make<Session>(qr_session_create, model.get(), detail::get(options), &call);
  }
  // What a session would need, without one.
  static Result<qr_memory_plan> try_plan(const Model &model, const Options *options = nullptr,
                                         Signal *signal = nullptr) noexcept {
    const qr_call_options call = detail::call(signal);
    return detail::ask(qr_memory_plan QR_MEMORY_PLAN_INIT, qr_session_plan, model.get(), detail::get(options), &call);
  }
  Result<Session> try_clone(Signal *signal = nullptr) const noexcept {
    const qr_call_options call = detail::call(signal);
    return detail::make<Session>(qr_session_clone, get(), &call);
  }
  std::uint64_t input_count() const noexcept { return qr_session_input_count(get()); }
  std::uint64_t output_count() const noexcept { return qr_session_output_count(get()); }
  Result<TensorInfo> try_input(std::uint64_t index) const noexcept {
    return detail::tensor<qr_session>(get(), index, qr_session_input);
  }
  Result<TensorInfo> try_output(std::uint64_t index) const noexcept {
    return detail::tensor<qr_session>(get(), index, qr_session_output);
  }
  Result<std::vector<TensorInfo>> try_inputs() const noexcept {
    return detail::tensors(get(), input_count(), qr_session_input);
  }
  Result<std::vector<TensorInfo>> try_outputs() const noexcept {
    return detail::tensors(get(), output_count(), qr_session_output);
  }
  // The shape buckets that runs choose from, and what one of them takes and gives.
  std::uint64_t bucket_count() const noexcept { return qr_session_bucket_count(get()); }
  Result<std::vector<TensorInfo>> try_bucket_inputs(std::uint64_t bucket) const noexcept {
    return detail::tensors(get(), input_count(), [bucket](auto session, std::uint64_t index, qr_tensor_info *info) {
      return qr_session_bucket_input(session, bucket, index, info);
    });
  }
  Result<std::vector<TensorInfo>> try_bucket_outputs(std::uint64_t bucket) const noexcept {
    return detail::tensors(get(), output_count(), [bucket](auto session, std::uint64_t index, qr_tensor_info *info) {
      return qr_session_bucket_output(session, bucket, index, info);
    });
  }
  // Outputs where the tensors say; those without data in the session's memory, valid until the next run.
  Status try_run(const Tensor *inputs, std::size_t input_count, Tensor *outputs, std::size_t output_count,
                 Signal *signal = nullptr, Profile *profile = nullptr) noexcept {
    const detail::Pointers<const qr_tensor> in(inputs, input_count);
    const detail::Pointers<qr_tensor> out(outputs, output_count);
    if (Status status = detail::first_failure(in, out); !status.ok()) return status;
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
    Status status = detail::first_failure(in, out);
    std::uint64_t ticket = 0;
    if (status.ok())
      status = Status(qr_session_submit(get(), how, in.get(), input_count, out.get(), output_count, &ticket));
    if (!status.ok()) return Result<std::uint64_t>(std::move(status));
    return Result<std::uint64_t>(ticket);
  }
  template <class Inputs, class Outputs>
  Result<std::uint64_t> try_submit(const Inputs &inputs, Outputs &outputs,
                                   const qr_submit_options *how = nullptr) noexcept {
    return try_submit(std::data(inputs), std::size(inputs), std::data(outputs), std::size(outputs), how);
  }
  // The outcome of a run, once; without a ticket: waits until none is under way. `ended`: whether the run has ended and
  // its tensors are the caller's again; not so where `signal` ended the waiting alone.
  Status try_wait(std::uint64_t ticket = 0, Signal *signal = nullptr, bool *ended = nullptr) noexcept {
    std::int32_t is_over = 0;
    Status status(qr_session_wait(get(), ticket, detail::get(signal), &is_over));
    if (ended) *ended = is_over != 0;
    return status;
  }
  void abort(std::uint64_t ticket = 0) noexcept { qr_session_abort(get(), ticket); }  // one, or all
  // Polls readable while there is an outcome to wait for; it stays the session's.
  Result<std::int32_t> try_completion_fd() noexcept {
    return detail::ask(std::int32_t{-1}, qr_session_completion_fd, get());
  }
  Status try_set_option(std::string_view key, std::string_view value) noexcept {
    return Status(qr_session_set_option(get(), to_c(key), to_c(value)));
  }
  Status try_recover(Signal *signal = nullptr) noexcept {
    const qr_call_options call = detail::call(signal);
    return Status(qr_session_recover(get(), &call));
  }
  Result<Text> try_report() const noexcept { return detail::make<Text>(qr_session_report, get()); }
  // What the next run goes on from; an error where the session keeps nothing (option "state").
  Result<State> try_state() noexcept { return detail::make<State>(qr_session_state, get()); }
  Status try_set_state(State &state) noexcept { return Status(qr_session_set_state(get(), state.get())); }
  // For this session, its clones, and those of the same weights. `how`: alpha and strength (adapter.h).
  Result<Adapter> try_open_adapter(const qr_model_source &source, const qr_adapter_options *how = nullptr,
                                   Signal *signal = nullptr) const noexcept {
    const qr_call_options call = detail::call(signal);
    return detail::make<Adapter>(qr_adapter_open, get(), &source, how, &call);
  }
  Status try_set_adapter(const Adapter &adapter) noexcept {
    return Status(qr_session_set_adapter(get(), adapter.get()));
  }
  Status try_remove_adapter() noexcept { return Status(qr_session_set_adapter(get(), nullptr)); }
#if QR_HAS_EXCEPTIONS
  explicit Session(const Model &model, const Options *options = nullptr, Signal *signal = nullptr)
      : Session(try_create(model, options, signal).value()) {}
  static qr_memory_plan plan(const Model &model, const Options *options = nullptr, Signal *signal = nullptr) {
    return try_plan(model, options, signal).value();
  }
  Session clone(Signal *signal = nullptr) const { return try_clone(signal).value(); }
  TensorInfo input(std::uint64_t index) const { return try_input(index).value(); }
  TensorInfo output(std::uint64_t index) const { return try_output(index).value(); }
  std::vector<TensorInfo> inputs() const { return try_inputs().value(); }
  std::vector<TensorInfo> outputs() const { return try_outputs().value(); }
  std::vector<TensorInfo> bucket_inputs(std::uint64_t bucket) const { return try_bucket_inputs(bucket).value(); }
  std::vector<TensorInfo> bucket_outputs(std::uint64_t bucket) const { return try_bucket_outputs(bucket).value(); }
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
  void wait(std::uint64_t ticket = 0, Signal *signal = nullptr, bool *ended = nullptr) {
    check(try_wait(ticket, signal, ended));
  }
  std::int32_t completion_fd() { return try_completion_fd().value(); }
  void set_option(std::string_view key, std::string_view value) { check(try_set_option(key, value)); }
  void recover(Signal *signal = nullptr) { check(try_recover(signal)); }
  std::string report() const { return try_report().value().str(); }
  State state() { return try_state().value(); }
  void set_state(State &state) { check(try_set_state(state)); }
  Adapter open_adapter(const qr_model_source &source, const qr_adapter_options *how = nullptr,
                       Signal *signal = nullptr) const {
    return try_open_adapter(source, how, signal).value();
  }
  void set_adapter(const Adapter &adapter) { check(try_set_adapter(adapter)); }
  void remove_adapter() { check(try_remove_adapter()); }
#endif
};

class Memory : public Handle<qr_memory, qr_memory_destroy> {
 public:
  using Handle::Handle;
  Memory() noexcept = default;  // empty, to be assigned to
  // Whose memory, where there is no session yet: for the functions below that take no session. The names stay as they
  // are until the call.
  static qr_memory_options on(const Runtime &runtime, std::string_view backend, std::uint32_t device = 0) noexcept {
    qr_memory_options where = QR_MEMORY_OPTIONS_INIT;
    where.runtime = runtime.get();
    where.backend = to_c(backend);
    where.device = device;
    return where;
  }
  static Result<Memory> try_allocate(const qr_memory_options &where, std::uint64_t size_bytes) noexcept {
    return detail::make<Memory>(qr_memory_allocate, nullptr, size_bytes, &where);
  }
  static Result<Memory> try_register(const qr_memory_options &where, void *data, std::uint64_t size_bytes) noexcept {
    return detail::make<Memory>(qr_memory_register, nullptr, data, size_bytes, &where);
  }
  static Result<Memory> try_import(const qr_memory_options &where, int fd, std::uint64_t offset,
                                   std::uint64_t size_bytes) noexcept {
    return detail::make<Memory>(qr_memory_import_fd, nullptr, fd, offset, size_bytes, &where);
  }
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
  // A buffer of Android's, locked until the memory is gone. `buffer`: an AHardwareBuffer *; `fence`: -1 for none.
  static Result<Memory> try_import_hardware_buffer(const qr_memory_options &where, void *buffer, int fence = -1,
                                                   qr_buffer_layout *out_layout = nullptr) noexcept {
    return detail::make<Memory>(qr_memory_import_hardware_buffer, nullptr, buffer, fence, &where, out_layout);
  }
  static Result<Memory> try_import_hardware_buffer(const Session &session, void *buffer, int fence = -1,
                                                   const qr_memory_options *how = nullptr,
                                                   qr_buffer_layout *out_layout = nullptr) noexcept {
    return detail::make<Memory>(qr_memory_import_hardware_buffer, session.get(), buffer, fence, how, out_layout);
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
  Memory(const qr_memory_options &where, std::uint64_t size_bytes) : Memory(try_allocate(where, size_bytes).value()) {}
  Memory(const qr_memory_options &where, void *data, std::uint64_t size_bytes)
      : Memory(try_register(where, data, size_bytes).value()) {}
  static Memory import(const qr_memory_options &where, int fd, std::uint64_t offset, std::uint64_t size_bytes) {
    return try_import(where, fd, offset, size_bytes).value();
  }
  static Memory import(const Session &session, int fd, std::uint64_t offset, std::uint64_t size_bytes,
                       const qr_memory_options *how = nullptr) {
    return try_import(session, fd, offset, size_bytes, how).value();
  }
  static Memory import_hardware_buffer(const qr_memory_options &where, void *buffer, int fence = -1,
                                       qr_buffer_layout *out_layout = nullptr) {
    return try_import_hardware_buffer(where, buffer, fence, out_layout).value();
  }
  static Memory import_hardware_buffer(const Session &session, void *buffer, int fence = -1,
                                       const qr_memory_options *how = nullptr, qr_buffer_layout *out_layout = nullptr) {
    return try_import_hardware_buffer(session, buffer, fence, how, out_layout).value();
  }
  void *map(std::uint32_t access) { return try_map(access).value(); }
  void unmap() { check(try_unmap()); }
  void begin_access(std::uint32_t access) { check(try_begin_access(access)); }
  void end_access(std::uint32_t access) { check(try_end_access(access)); }
  std::pair<int, std::uint64_t> export_fd() { return try_export_fd().value(); }
#endif
};

}  // namespace qr

#include <quarry/macros_on.hpp>
#endif
