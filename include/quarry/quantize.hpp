// SPDX-License-Identifier: Apache-2.0
// A thin C++17 wrapper of quantize.h, in the way of quarry.hpp. Programs that include it link libquarry-quantize.
//
//   qr::Quantizer quantizer(runtime, "model.onnx");
//   quantizer.set("activations", "u16");
//   for (...) quantizer.add_sample({qr::Tensor::of(image.data(), {1, 3, 224, 224})});
//   quantizer.write("model.qdq.onnx");
#ifndef QUARRY_QUANTIZE_HPP
#define QUARRY_QUANTIZE_HPP

#include <quarry/quantize.h>
#include <quarry/quarry.hpp>

namespace qr {

class Quantizer : public Handle<qr_quantizer, qr_quantizer_destroy> {
 public:
  using Handle::Handle;
  Quantizer() noexcept = default;  // empty, to be assigned to
  static Result<Quantizer> try_open(const Runtime &runtime, std::string_view path) noexcept {
    return detail::make<Quantizer>(qr_quantizer_open, runtime.get(), to_c(path));
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
  Result<std::vector<TensorInfo>> try_inputs() noexcept {
    return detail::in_memory([&]() -> Result<std::vector<TensorInfo>> {
      std::uint64_t count = 0;
      Status status(qr_quantizer_input_count(get(), &count));
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
    if (!in.get()) return Status::out_of_memory();
    const qr_call_options call = detail::call(signal, nullptr, nullptr);
    return Status(qr_quantizer_add_sample(get(), in.get(), count, &call));
  }
  Result<std::uint64_t> try_sample_count() noexcept {
    std::uint64_t count = 0;
    Status status(qr_quantizer_sample_count(get(), &count));
    if (!status.ok()) return Result<std::uint64_t>(std::move(status));
    return Result<std::uint64_t>(count);
  }
  // What is known so far as a file, and back; `note` is yours.
  Status try_save(std::string_view path, std::string_view note = {}) noexcept {
    return Status(qr_quantizer_save(get(), to_c(path), to_c(note)));
  }
  Result<Text> try_restore(std::string_view path, Signal *signal = nullptr) noexcept {
    const qr_call_options call = detail::call(signal, nullptr, nullptr);
    return detail::make<Text>(qr_quantizer_restore, get(), to_c(path), &call);
  }
  // What `progress` throws comes out of here, when the call has ended.
  Status try_write(std::string_view path, Signal *signal = nullptr, const Progress &progress = {}) {
    const detail::ProgressCall progress_call(progress);
    const qr_call_options call = detail::call(signal, nullptr, progress_call.get());
    Status status(qr_quantizer_write(get(), to_c(path), &call));
    progress_call.rethrow();
    return status;
  }
  // `format`: "json" or "html".
  Result<Text> try_report(std::string_view format = "json") noexcept {
    return detail::make<Text>(qr_quantizer_report, get(), to_c(format));
  }
#if QR_HAS_EXCEPTIONS
  Quantizer(const Runtime &runtime, std::string_view path) : Quantizer(try_open(runtime, path).value()) {}
  static std::vector<qr_quantize_option> options() { return try_options().value(); }
  Quantizer &set(std::string_view key, std::string_view value) {
    check(try_set(key, value));
    return *this;
  }
  std::vector<TensorInfo> inputs() { return try_inputs().value(); }
  void add_sample(const std::vector<Tensor> &inputs, Signal *signal = nullptr) {
    check(try_add_sample(inputs.data(), inputs.size(), signal));
  }
  std::uint64_t sample_count() { return try_sample_count().value(); }
  void save(std::string_view path, std::string_view note = {}) { check(try_save(path, note)); }
  std::string restore(std::string_view path, Signal *signal = nullptr) {
    return try_restore(path, signal).value().str();
  }
  void write(std::string_view path, Signal *signal = nullptr, const Progress &progress = {}) {
    check(try_write(path, signal, progress));
  }
  std::string report(std::string_view format = "json") { return try_report(format).value().str(); }
#endif
};

}  // namespace qr

#endif
