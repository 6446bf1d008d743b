// SPDX-License-Identifier: Apache-2.0
// A thin C++17 wrapper of quantize.h, in the way of quarry.hpp. Programs that include it link libquarry-quantize.
//
//   qr::Quantizer quantizer(runtime, "model.onnx");
//   quantizer.set("activations", "u16");
//   for (...) quantizer.add_sample({qr::Tensor::of(image.data(), {1, 3, 224, 224})});
//   quantizer.write("model.qdq.onnx");
#ifndef QUARRY_QUANTIZE_HPP
#define QUARRY_QUANTIZE_HPP

#include <quarry/macros_off.hpp>
#include <quarry/quantize.h>
#include <quarry/quarry.hpp>

namespace qr {

class Quantizer : public Handle<qr_quantizer, qr_quantizer_destroy> {
 public:
  using Handle::Handle;
  Quantizer() noexcept = default;  // empty, to be assigned to
  static Result<Quantizer> try_open(const Runtime &runtime, const qr_model_source &source,
                                    Signal *signal = nullptr) noexcept {
    const qr_call_options call = detail::call(signal);
    return detail::make<Quantizer>(qr_quantizer_open, runtime.get(), &source, &call);
  }
  static Result<Quantizer> try_open(const Runtime &runtime, std::string_view path, Signal *signal = nullptr) noexcept {
    return try_open(runtime, detail::source_at(path), signal);
  }
  // Every option, each with static texts.
  static Result<std::vector<qr_quantize_option>> try_options() noexcept {
    return detail::in_memory([&]() -> Result<std::vector<qr_quantize_option>> {
      std::vector<qr_quantize_option> list(qr_quantize_option_count(), qr_quantize_option QR_QUANTIZE_OPTION_INIT);
      for (std::uint64_t i = 0; i < list.size(); ++i) {
        Status status(qr_quantize_option_at(i, &list[i]));
        if (!status.ok()) return Result<std::vector<qr_quantize_option>>(std::move(status));
      }
      return Result<std::vector<qr_quantize_option>>(std::move(list));
    });
  }
  Status try_set(std::string_view key, std::string_view value) noexcept {
    return Status(qr_quantizer_set(get(), to_c(key), to_c(value)));
  }
  Result<std::vector<TensorInfo>> try_inputs(Signal *signal = nullptr) noexcept {
    return detail::in_memory([&]() -> Result<std::vector<TensorInfo>> {
      std::uint64_t count = 0;
      const qr_call_options call = detail::call(signal);
      Status status(qr_quantizer_input_count(get(), &call, &count));
      std::vector<TensorInfo> list;
      for (std::uint64_t i = 0; status.ok() && i < count; ++i) {
        qr_tensor_info info = QR_TENSOR_INFO_INIT;
        status = Status(qr_quantizer_input(get(), i, &info));
        if (status.ok()) list.emplace_back(info);
      }
      if (!status.ok()) return Result<std::vector<TensorInfo>>(std::move(status));
      return Result<std::vector<TensorInfo>>(std::move(list));
    });
  }
  Status try_add_sample(const Tensor *inputs, std::size_t count, Signal *signal = nullptr) noexcept {
    const detail::Pointers<const qr_tensor> in(inputs, count);
    if (Status status = in.status(); !status.ok()) return status;
    const qr_call_options call = detail::call(signal, nullptr);
    return Status(qr_quantizer_add_sample(get(), in.get(), count, &call));
  }
  Result<std::uint64_t> try_sample_count() noexcept {
    std::uint64_t count = 0;
    Status status(qr_quantizer_sample_count(get(), &count));
    if (!status.ok()) return Result<std::uint64_t>(std::move(status));
    return Result<std::uint64_t>(count);
  }
  // What is known so far as a file, and back; `note` is yours. What a writer throws comes out of here.
  Status try_save(const Target &target, std::string_view note = {}, Signal *signal = nullptr) {
    const qr_call_options call = detail::call(signal);
    Status status(qr_quantizer_save(get(), target.c(), to_c(note), &call));
    target.rethrow();
    return status;
  }
  Result<Text> try_restore(const qr_model_source &source, Signal *signal = nullptr) noexcept {
    const qr_call_options call = detail::call(signal);
    return detail::make<Text>(qr_quantizer_restore, get(), &source, &call);
  }
  Result<Text> try_restore(std::string_view path, Signal *signal = nullptr) noexcept {
    return try_restore(detail::source_at(path), signal);
  }
  // What `progress` throws stops the call and comes out of here; what a writer throws comes out too.
  Status try_write(const Target &target, Signal *signal = nullptr, const Progress &progress = {}) {
    detail::ProgressCall progress_call(progress, detail::get(signal));
    const qr_call_options call = progress_call.options(nullptr);
    Status status(qr_quantizer_write(get(), target.c(), &call));
    progress_call.rethrow();
    target.rethrow();
    return status;
  }
  // `format`: "json" or "html".
  Result<Text> try_report(std::string_view format = "json") noexcept {
    return detail::text_of([&](const qr_target *to) { return qr_quantizer_report(get(), to_c(format), to, nullptr); });
  }
  Status try_report(std::string_view format, const Target &target, Signal *signal = nullptr) {
    const qr_call_options call = detail::call(signal);
    Status status(qr_quantizer_report(get(), to_c(format), target.c(), &call));
    target.rethrow();
    return status;
  }
#if QR_HAS_EXCEPTIONS
  Quantizer(const Runtime &runtime, const qr_model_source &source, Signal *signal = nullptr)
      : Quantizer(try_open(runtime, source, signal).value()) {}
  Quantizer(const Runtime &runtime, std::string_view path, Signal *signal = nullptr)
      : Quantizer(try_open(runtime, path, signal).value()) {}
  static std::vector<qr_quantize_option> options() { return try_options().value(); }
  Quantizer &set(std::string_view key, std::string_view value) {
    check(try_set(key, value));
    return *this;
  }
  std::vector<TensorInfo> inputs(Signal *signal = nullptr) { return try_inputs(signal).value(); }
  void add_sample(const std::vector<Tensor> &inputs, Signal *signal = nullptr) {
    check(try_add_sample(inputs.data(), inputs.size(), signal));
  }
  std::uint64_t sample_count() { return try_sample_count().value(); }
  void save(const Target &target, std::string_view note = {}, Signal *signal = nullptr) {
    check(try_save(target, note, signal));
  }
  std::string restore(const qr_model_source &source, Signal *signal = nullptr) {
    return try_restore(source, signal).value().str();
  }
  std::string restore(std::string_view path, Signal *signal = nullptr) {
    return try_restore(path, signal).value().str();
  }
  void write(const Target &target, Signal *signal = nullptr, const Progress &progress = {}) {
    check(try_write(target, signal, progress));
  }
  std::string report(std::string_view format = "json") { return try_report(format).value().str(); }
  void report(std::string_view format, const Target &target, Signal *signal = nullptr) {
    check(try_report(format, target, signal));
  }
#endif
};

}  // namespace qr

#include <quarry/macros_on.hpp>
#endif
