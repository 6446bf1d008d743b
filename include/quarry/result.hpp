// SPDX-License-Identifier: Apache-2.0
// How calls of quarry.hpp end, and who owns what they give. C++17, header only.
//
// Status and Result are there in every program and allocate nothing. Error, which the throwing half of quarry.hpp
// throws, is there where exceptions are: with -fno-exceptions whatever would throw it is not declared, so that a
// program either handles a status or does not compile.
#ifndef QUARRY_RESULT_HPP
#define QUARRY_RESULT_HPP

#include <quarry/macros_off.hpp>
#include <quarry/quarry.h>

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions)
#define QR_HAS_EXCEPTIONS 1
#else
#define QR_HAS_EXCEPTIONS 0
#endif

namespace qr {

inline qr_string to_c(std::string_view text) noexcept { return {text.data(), text.size()}; }
inline std::string from_c(qr_string view) { return view.data ? std::string(view.data, view.size) : std::string(); }

// Owns one C object and frees it with Destroy. A C++ object of this API holds nothing else, no pointer to another C++
// object either: the C objects hold their parents. So any of them may be moved, and any order of destruction is right.
// An empty one (moved from, or made from nullptr) gives INVALID_ARGUMENT from every call that can fail.
template <class T, void (*Destroy)(T *)>
class Handle {
 public:
  using c_type = T;
  Handle() noexcept = default;
  explicit Handle(T *taken) noexcept : object_(taken) {}
  T *get() const noexcept { return object_.get(); }
  T *release() noexcept { return object_.release(); }  // the caller frees it
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  struct Free {
    void operator()(T *object) const noexcept { Destroy(object); }
  };
  std::unique_ptr<T, Free> object_;
};

namespace detail {

// What these headers refuse by themselves: static texts, so that a status of it allocates nothing.
struct Refusal {
  qr_code code;
  const char *id, *message, *hint;
};
inline constexpr Refusal kOutOfMemory{QR_RESOURCE_EXHAUSTED, "QR-C0001", "the program is out of memory", ""};
inline constexpr Refusal kOtherType{QR_INVALID_ARGUMENT, "QR-R0002",
                                    "a tensor was asked for as another type than it has",
                                    "ask for the type that its dtype names"};
inline constexpr Refusal kManyDimensions{QR_INVALID_ARGUMENT, "QR-R0003",
                                         "a tensor has more than QR_MAX_RANK dimensions", "give it fewer"};
inline constexpr Refusal kNegativeDimension{QR_INVALID_ARGUMENT, "QR-R0003",
                                            "a tensor has a negative dimension (QR_DIM_UNKNOWN is one)",
                                            "give each dimension; an output of data-dependent shape has room by its "
                                            "number of elements, or none"};
inline constexpr Refusal kHugeShape{QR_INVALID_ARGUMENT, "QR-R0003",
                                    "a tensor's shape has more bytes than there can be", "give the shape of the data"};
inline constexpr Refusal kSmallRoom{QR_OUT_OF_RANGE, "QR-R0005",
                                    "a tensor's shape has more elements than the array that it is to lie in",
                                    "give a shape that fits into the array, or a larger array"};

}  // namespace detail

// How a call ended: success, or a code for the program, a message for people and an id for search engines. Texts are
// NUL-terminated, never NULL, and live as long as the status. Move-only.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  // success
  explicit Status(qr_status *taken) noexcept : status_(taken) {}
  // A refusal of these headers' own, with static texts.
  explicit Status(const detail::Refusal &own, const char *found = nullptr, const char *expected = nullptr) noexcept
      : own_(&own), found_(found), expected_(expected) {}
  // The program's own memory, not the library's, has run out.
  static Status out_of_memory() noexcept { return Status(detail::kOutOfMemory); }

  bool ok() const noexcept { return code() == QR_OK; }
  qr_code code() const noexcept { return own_ ? own_->code : qr_status_code(status_.get()); }
  const char *code_name() const noexcept { return qr_code_name(code()); }
  const char *id() const noexcept { return own_ ? own_->id : qr_status_id(status_.get()); }
  const char *message() const noexcept { return own_ ? own_->message : qr_status_message(status_.get()); }
  const char *hint() const noexcept { return own_ ? own_->hint : qr_status_hint(status_.get()); }
  std::uint64_t detail_count() const noexcept { return found_ ? 2 : qr_status_detail_count(status_.get()); }
  // Key and value; both empty past the end.
  std::pair<const char *, const char *> detail(std::uint64_t index) const noexcept {
    if (found_ && index < 2) return index == 0 ? std::pair{"found", found_} : std::pair{"expected", expected_};
    const char *key = "", *value = "";
    qr_status_detail(status_.get(), index, &key, &value);
    return {key, value};
  }

 private:
  Handle<qr_status, qr_status_destroy> status_;
  const detail::Refusal *own_ = nullptr;
  const char *found_ = nullptr, *expected_ = nullptr;  // both or none
};

// The same class, for a program in which `Status` is a macro (Xlib.h's).
using CallStatus = Status;

#if QR_HAS_EXCEPTIONS
// What a failed call throws. Copies the status, so it may outlive everything.
class Error : public std::exception {
 public:
  explicit Error(const Status &status) noexcept : code_(status.code()) {
    try {
      id_ = status.id();
      message_ = status.message();
      hint_ = status.hint();
      for (std::uint64_t i = 0; i < status.detail_count(); ++i) details_.emplace_back(status.detail(i));
      what_ = id_ + ": " + message_;
      for (const auto &[key, value] : details_)
        if (key == "found" || key == "expected") what_ += ", " + key + " " + value;
    } catch (...) {  // out of memory: the code is what remains
    }
  }
  explicit Error(qr_status *taken) noexcept : Error(Status(taken)) {}
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

inline void check(const Status &status) {
  if (!status.ok()) throw Error(status);
}
inline void check(qr_status *taken) { check(Status(taken)); }
#endif

// A value, or why there is none; the value is there exactly if ok(). Move-only where T is.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) noexcept : value_(std::move(value)) {}
  Result(Status &&error) noexcept : status_(std::move(error)) {}  // not a success

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status &status() const noexcept { return status_; }
  // Only if ok().
  T &operator*() &noexcept { return *value_; }
  const T &operator*() const &noexcept { return *value_; }
  T &&operator*() &&noexcept { return *std::move(value_); }
  T *operator->() noexcept { return &*value_; }
  const T *operator->() const noexcept { return &*value_; }
#if QR_HAS_EXCEPTIONS
  // The value, or the error thrown.
  T value() && {
    check(status_);
    return *std::move(value_);
  }
#endif

 private:
  std::optional<T> value_;
  Status status_;
};

// Owns a text that the C ABI gave.
class Text : public Handle<char, qr_string_destroy> {
 public:
  using Handle::Handle;
  const char *c_str() const noexcept { return get() ? get() : ""; }
  std::string_view view() const noexcept { return c_str(); }
  std::string str() const { return c_str(); }
};

// How quarry.hpp calls the C ABI, whose functions give by their last argument.
namespace detail {

// A new object: qr_status *create(args..., c_type **).
template <class Object, class Create, class... Args>
Result<Object> make(Create create, Args... args) noexcept {
  typename Object::c_type *made = nullptr;
  Status status(create(args..., &made));
  if (!status.ok()) return Result<Object>(std::move(status));
  return Result<Object>(Object(made));
}

// A struct: qr_status *ask(args..., Out *). `blank` has its struct_size, where it has one.
template <class Out, class Ask, class... Args>
Result<Out> ask(Out blank, Ask function, Args... args) noexcept {
  Status status(function(args..., &blank));
  if (!status.ok()) return Result<Out>(std::move(status));
  return Result<Out>(blank);
}

// Calls `body`, which allocates memory of the program's own. Without exceptions operator new ends the program when
// there is none, as it does everywhere else in such a program.
template <class Body>
auto in_memory(Body body) noexcept -> decltype(body()) {
#if QR_HAS_EXCEPTIONS
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return Status::out_of_memory();
  }
#else
  return body();
#endif
}

}  // namespace detail
}  // namespace qr

#include <quarry/macros_on.hpp>
#endif
