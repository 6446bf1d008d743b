// SPDX-License-Identifier: Apache-2.0
// Functions of the program that a call calls back: how far it is, and what a model is read by. What they throw comes
// out of the call that they were given to.
#ifndef QUARRY_CALLBACKS_HPP
#define QUARRY_CALLBACKS_HPP

#include <quarry/macros_off.hpp>
#include <quarry/result.hpp>

#include <cerrno>
#include <exception>
#include <functional>
#include <type_traits>

namespace qr {

// Called with how far a long call has come: `done` of `total` steps, total 0 where that is not known. From a function
// that gives a bool, false stops the call; one that gives nothing stops none. What it throws stops the call and comes
// out of it.
class Progress {
 public:
  Progress() noexcept = default;
  Progress(std::nullptr_t) noexcept {}
  template <class Function,
            class Result = std::invoke_result_t<Function &, std::uint64_t, std::uint64_t, std::string_view>>
  Progress(Function function) {
    static_assert(std::is_void_v<Result> || std::is_same_v<Result, bool>,
                  "a progress function gives a bool or nothing");
    if constexpr (is_std_function<Function>::value)
      if (!function) return;
    if constexpr (std::is_void_v<Result>) {
      told_ = [call = std::move(function)](std::uint64_t done, std::uint64_t total, std::string_view what) mutable {
        call(done, total, what);
        return true;
      };
    } else {
      told_ = std::move(function);
    }
  }
  explicit operator bool() const noexcept { return static_cast<bool>(told_); }
  bool operator()(std::uint64_t done, std::uint64_t total, std::string_view what) const {
    return told_(done, total, what);
  }

 private:
  template <class Function>
  struct is_std_function : std::false_type {};
  template <class Signature>
  struct is_std_function<std::function<Signature>> : std::true_type {};
  std::function<bool(std::uint64_t done, std::uint64_t total, std::string_view what)> told_;
};

// Fills `to` with so many bytes of a model from `offset` on; 0, or an errno.
using Reader = std::function<int(std::uint64_t offset, void *to, std::uint64_t size_bytes)>;

namespace detail {

// A Progress as the C ABI takes it. An exception of its does not pass through the library: it stops the call and waits
// for rethrow().
class ProgressCall {
 public:
  ProgressCall(const Progress &progress, qr_signal *signal) noexcept : progress_(progress), signal_(signal) {
    c_.self = this;
    c_.report = report;
  }
  ProgressCall(const ProgressCall &) = delete;
  ProgressCall &operator=(const ProgressCall &) = delete;
  qr_call_options options(qr_profile *profile) const noexcept {
    qr_call_options call = QR_CALL_OPTIONS_INIT;
    call.signal = signal_;
    call.profile = profile;
    call.progress = progress_ ? &c_ : nullptr;
    return call;
  }
  void rethrow() const {
#if QR_HAS_EXCEPTIONS
    if (thrown_) std::rethrow_exception(thrown_);
#endif
  }

 private:
  static std::int32_t report(void *self, std::uint64_t done, std::uint64_t total, qr_string what) noexcept {
    auto *call = static_cast<ProgressCall *>(self);
    const std::string_view text(what.data, what.size);
#if QR_HAS_EXCEPTIONS
    if (call->thrown_) return QR_STOP;
    try {
      return call->progress_(done, total, text) ? QR_GO_ON : QR_STOP;
    } catch (...) {
      call->thrown_ = std::current_exception();
      return QR_STOP;
    }
#else
    return call->progress_(done, total, text) ? QR_GO_ON : QR_STOP;
#endif
  }
  const Progress &progress_;
  qr_signal *signal_;
  qr_progress c_ = QR_PROGRESS_INIT;
  std::exception_ptr thrown_;
};

// A Reader as the C ABI takes it. An exception of its does not pass through the library: the reading fails, and the
// exception waits for rethrow().
class ReaderCall {
 public:
  explicit ReaderCall(const Reader &reader) noexcept : reader_(reader) {}
  ReaderCall(const ReaderCall &) = delete;
  ReaderCall &operator=(const ReaderCall &) = delete;
  qr_model_source source(std::uint64_t size_bytes) noexcept { return QR_MODEL_BY_READER(this, read, size_bytes); }
  void rethrow() const {
#if QR_HAS_EXCEPTIONS
    if (thrown_) std::rethrow_exception(thrown_);
#endif
  }

 private:
  static std::int32_t read(void *self, std::uint64_t offset, void *to, std::uint64_t size_bytes) noexcept {
    auto *call = static_cast<ReaderCall *>(self);
#if QR_HAS_EXCEPTIONS
    try {
      return call->reader_(offset, to, size_bytes);
    } catch (...) {
      call->thrown_ = std::current_exception();
      return EIO;
    }
#else
    return call->reader_(offset, to, size_bytes);
#endif
  }
  const Reader &reader_;
  std::exception_ptr thrown_;
};

}  // namespace detail

}  // namespace qr

#include <quarry/macros_on.hpp>

#endif
