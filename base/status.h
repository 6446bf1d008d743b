// SPDX-License-Identifier: Apache-2.0
// Status: why something failed. Carries a code, a stable id (one row of base/error_ids.inc), a message (subject, found,
// expected), a hint and detail frames. Result<T> is a value or a Status. Both must be looked at.
#pragma once

#include <cstdarg>
#include <optional>
#include <string_view>
#include <utility>

#include "base/alloc.h"
#include "base/pattern.h"
#include "quarry/types.h"

namespace quarry {

enum class ErrorId : std::uint16_t {
#define QR_ERROR(name, id, code, hint) name,
#include "base/error_ids.inc"
#undef QR_ERROR
};

struct ErrorRow {
  const char *id;  // "QR-C0102"
  qr_code code;
  const char *hint;  // the general hint; a call site may give a better one
};
ErrorRow error_row(ErrorId id) noexcept;
const char *code_name(qr_code code) noexcept;  // "INVALID_ARGUMENT"; "UNKNOWN" for a number that is none

class [[nodiscard]] Status {
 public:
  struct Detail {
    String key, value;
  };
  struct Payload {
    qr_code code;
    String id, message, hint;
    Vector<Detail> details;
  };

  Status() noexcept = default;  // success
  Status(Status &&other) noexcept : payload_(std::exchange(other.payload_, nullptr)) {}
  Status &operator=(Status &&other) noexcept {
    std::swap(payload_, other.payload_);
    return *this;
  }
  // Inline, so that a status known to be a success costs nothing; where that is not known, free_payload looks.
  __attribute__((always_inline)) ~Status() {
    if (__builtin_constant_p(payload_ == nullptr) && payload_ == nullptr) return;
    free_payload(payload_);
  }

  // A failure; never throws: without memory it becomes the static out-of-memory status. cold: the way to it is compiled
  // for size, off the straight line.
  __attribute__((cold)) static Status error(ErrorId id, std::string_view message, std::string_view hint = {}) noexcept;
  __attribute__((cold)) static Status error(ErrorId id, const char *message, const char *hint = "") noexcept;
  // The same of a printf-style message (base/pattern.h), as format() and error(): shorter at every place that fails.
  // Throws as format().
  template <class... A>
  [[gnu::always_inline]] static inline Status errorf(ErrorId id, Pattern<A...> pattern, const A &...arguments) {
    if constexpr (are_plain<A...>) return error_of(id, pattern.text(), detail::plain(arguments)...);
    else return call_with([&](auto... plain) { return error_of(id, pattern.text(), plain...); }, arguments...);
  }
  template <class... A>
  [[gnu::always_inline]] static inline Status hinted(ErrorId id, const char *hint, Pattern<A...> pattern,
                                                     const A &...arguments) {
    if constexpr (are_plain<A...>) return hinted_of(id, hint, pattern.text(), detail::plain(arguments)...);
    else return call_with([&](auto... plain) { return hinted_of(id, hint, pattern.text(), plain...); }, arguments...);
  }
  // For ids that come from a plugin.
  __attribute__((cold)) static Status foreign(qr_code code, std::string_view id, std::string_view message,
                                              std::string_view hint) noexcept;
  // Says what ran out of memory and which size was refused, as far as there is memory to say it.
  __attribute__((cold)) static Status out_of_memory(std::string_view what = {}) noexcept;

  bool ok() const noexcept { return payload_ == nullptr; }
  qr_code code() const noexcept { return payload_ ? payload_->code : QR_OK; }
  std::string_view id() const noexcept { return payload_ ? std::string_view(payload_->id) : std::string_view(); }
  std::string_view message() const noexcept {
    return payload_ ? std::string_view(payload_->message) : std::string_view();
  }
  std::string_view hint() const noexcept { return payload_ ? std::string_view(payload_->hint) : std::string_view(); }
  const Payload *payload() const noexcept { return payload_; }

  // Adds a frame (file, node, op, tensor, option, backend, reason); does nothing on success or without memory.
  Status &with(std::string_view key, std::string_view value) &noexcept;
  Status &&with(std::string_view key, std::string_view value) &&noexcept { return std::move(with(key, value)); }
  Status &with(const char *key, std::string_view value) &noexcept;
  Status &&with(const char *key, std::string_view value) &&noexcept { return std::move(with(key, value)); }

  // Gives the payload away (to qr_status) and takes it back.
  Payload *release() noexcept { return std::exchange(payload_, nullptr); }
  static Status adopt(Payload *payload) noexcept;
  static void free_payload(Payload *payload) noexcept;

 private:
  __attribute__((cold)) static Status error_of(ErrorId id, const char *pattern, ...);
  __attribute__((cold)) static Status hinted_of(ErrorId id, const char *hint, const char *pattern, ...);

  Payload *payload_ = nullptr;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}
  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept = delete;  // as Status has none: say ok()
  T &value() noexcept { return *value_; }
  const T &value() const noexcept { return *value_; }
  T &operator*() noexcept { return *value_; }
  T *operator->() noexcept { return &*value_; }
  const Status &status() const noexcept { return status_; }
  Status take_status() noexcept { return std::move(status_); }  // after it the error is gone from here

 private:
  std::optional<T> value_;
  Status status_;
};

// printf-style text in our own String.
String format_list(const char *pattern, va_list args) __attribute__((format(printf, 1, 0)));
String format_of(const char *pattern, ...);
// An object: for its name nothing is looked up in the arguments' namespaces, where std::format would do as well.
struct Format {
  template <class... A>
  [[gnu::always_inline]] String operator()(Pattern<A...> pattern, const A &...arguments) const {
    if constexpr (are_plain<A...>) return format_of(pattern.text(), detail::plain(arguments)...);
    else return call_with([&](auto... plain) { return format_of(pattern.text(), plain...); }, arguments...);
  }
};
inline constexpr Format format;
// Text from a file, safe to print: escaped, cut to `limit` bytes, never inside a UTF-8 sequence.
String printable(std::string_view text, std::size_t limit = 200);
// "[1,3,224,224]", with "?" for unknown dimensions.
String shape_text(const std::int64_t *dims, std::size_t rank);

#define QR_CONCAT_(a, b) a##b
#define QR_CONCAT(a, b) QR_CONCAT_(a, b)
#define QR_RETURN_IF_ERROR(expr)                                    \
  do {                                                              \
    if (::quarry::Status qr_s_ = (expr); !qr_s_.ok()) return qr_s_; \
  } while (0)
#define QR_ASSIGN_OR_RETURN(lhs, expr) QR_ASSIGN_IMPL_(QR_CONCAT(qr_result_, __LINE__), lhs, expr)
#define QR_ASSIGN_IMPL_(tmp, lhs, expr)    \
  auto tmp = (expr);                       \
  if (!tmp.ok()) return tmp.take_status(); \
  lhs = std::move(tmp.value())

}  // namespace quarry
