// SPDX-License-Identifier: Apache-2.0
// The edge of the C ABI. Each function of include/quarry checks its pointers, reads the caller's structs by the growth
// rule, opens an AllocatorScope, and lets no exception out. What it then does is a line or two into runtime/.
#pragma once

#include <cstring>
#include <string_view>

#include "base/status.h"
#include "base/target_writer.h"
#include "runtime/core/options.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"
#include "runtime/core/signal.h"
#include "runtime/model/model.h"
#include "runtime/profile/profile.h"
#include "runtime/session/adapter.h"
#include "runtime/session/memory.h"
#include "runtime/session/session.h"
#include "runtime/session/state.h"

namespace quarry::capi {

// ---- handles: each names one class --------------------------------------------------------------

#define QR_HANDLE(handle, type)                                                                           \
  inline type *object(handle *from) noexcept { return reinterpret_cast<type *>(from); }                   \
  inline const type *object(const handle *from) noexcept { return reinterpret_cast<const type *>(from); } \
  inline handle *handle_of(type *from) noexcept { return reinterpret_cast<handle *>(from); }
QR_HANDLE(qr_runtime, Runtime)
QR_HANDLE(qr_options, OptionSet)
QR_HANDLE(qr_model, Model)
QR_HANDLE(qr_session, Session)
QR_HANDLE(qr_state, State)
QR_HANDLE(qr_adapter, Adapter)
QR_HANDLE(qr_memory, Memory)
QR_HANDLE(qr_signal, Signal)
QR_HANDLE(qr_profile, Profile)
QR_HANDLE(qr_status, Status::Payload)
#undef QR_HANDLE

inline qr_status *give(Status status) noexcept { return handle_of(status.release()); }

// ---- the wrapper of every function that can fail: `function` is the one that calls it -----------

// The status of the exception that is being handled: one body for all the handlers.
__attribute__((cold, noinline)) qr_status *caught(const char *function) noexcept;

template <class Body>
qr_status *guard(Allocator &allocator, Body &&body, const char *function = __builtin_FUNCTION()) noexcept {
  AllocatorScope scope(allocator);
  try {
    return give(body());
  } catch (...) {
    return caught(function);
  }
}

// Before an object is known to be there, statuses come from malloc.
template <class Body>
qr_status *guard(Body &&body, const char *function = __builtin_FUNCTION()) noexcept {
  return guard(malloc_allocator(), std::forward<Body>(body), function);
}

// ---- arguments ----------------------------------------------------------------------------------

Status null_argument(const char *function, const char *argument);

// The same as the status of a call. Out of line, as the other refusals that nearly every function has.
__attribute__((cold, noinline)) qr_status *refuse_null(const char *function, const char *argument) noexcept;

#define QR_RETURN_IF_NULL(argument)                                           \
  do {                                                                        \
    if (!(argument)) return ::quarry::capi::refuse_null(__func__, #argument); \
  } while (0)

// Text of the caller's: UTF-8 and, where it is given, with its data. Allowed: an absent text is an empty one. Path:
// that too, and it may be of any bytes but NUL, as the names of files are. Value: of an option, whose row says which
// bytes it may have (check_option_value).
enum class Empty : std::uint8_t { Allowed, Refused, Path, Value };
Status read_text(const char *function, const char *argument, const qr_string &from, Empty empty, std::string_view *out);

// The growth rule of structs (types.h). `type` is the struct's name; `known` the size that this library knows, `first`
// that of the first release.
Status check_struct(const char *function, const char *type, const void *from, std::uint32_t first, std::uint32_t known);

Status unknown_field(const char *function, const char *type, const char *field);
Status check_flags(const char *function, const char *type, std::uint64_t flags, std::uint64_t known);

// Copies a caller's struct, whatever its age, into ours: what an older caller does not have is zero.
template <class T>
Status read_struct(const char *function, const char *type, const T *from, T &out, std::uint32_t first) {
  if (Status status = check_struct(function, type, from, first, sizeof(T)); !status.ok() || !from) return status;
  std::memset(&out, 0, sizeof(T));
  std::memcpy(&out, from, from->struct_size < sizeof(T) ? from->struct_size : sizeof(T));
  return {};
}

// Fills a caller's struct as far as it reaches; its struct_size stays. Checked before with check_struct.
template <class T>
void write_struct(const T &from, T *out) noexcept {
  const std::uint32_t size = out->struct_size;
  std::memcpy(out, &from, size < sizeof(T) ? size : sizeof(T));
  out->struct_size = size;
}

Status index_out_of_range(const char *function, const char *what, std::uint64_t index, std::uint64_t count);

// Where a call writes.
Status read_target(const char *function, const qr_target *target, qr_target &out);

// A call that overlaps with another one.
template <class Scope>
__attribute__((cold, noinline)) qr_status *refuse_overlap(const Scope &scope, Allocator &memory,
                                                          const char *function) noexcept {
  return guard(
      memory, [&] { return scope.status(); }, function);
}

// An [exclusive] object for the length of a call.
#define QR_ENTER_OR_RETURN(scope, of, what)                                                    \
  ::quarry::ExclusiveScope scope((of)->use(), ::quarry::capi::process_of(of), __func__, what); \
  if (!scope.held()) return ::quarry::capi::refuse_overlap(scope, ::quarry::capi::memory_of(of), __func__)

// One that several calls may read at a time and one may change: qr_options.
#define QR_ENTER_SHARED_OR_RETURN(scope, of, what, access)                                          \
  ::quarry::SharedScope scope((of)->use(), ::quarry::capi::process_of(of), access, __func__, what); \
  if (!scope.held()) return ::quarry::capi::refuse_overlap(scope, ::quarry::capi::memory_of(of), __func__)

// The runtime that an object is of.
inline const Runtime &runtime_of(const Runtime *runtime) noexcept { return *runtime; }
inline const Runtime &runtime_of(const Session *session) noexcept { return session->core().runtime(); }
template <class Object>
const Runtime &runtime_of(const Object *object) noexcept {
  return object->runtime();
}
template <class Object>
Process &process_of(const Object *object) noexcept {
  return runtime_of(object).process();
}

// Statuses about an object come from its runtime's memory.
template <class Object>
Allocator &memory_of(const Object *object) noexcept {
  return runtime_of(object).memory();
}
template <class Object, class Body>
qr_status *guard(const Object *object, Body &&body, const char *function = __builtin_FUNCTION()) noexcept {
  return guard(memory_of(object), std::forward<Body>(body), function);
}

// The call argument of long calls, null or not, and who asks stop_asked() meanwhile.
class LongCall {
 public:
  LongCall(const char *function, const Runtime &runtime, const qr_call_options *call);
  ~LongCall();
  Status take_status() { return std::move(read_); }  // of the argument
  const CallWatch &watch() const noexcept { return watch_; }
  // What a stop by the progress function leads to is named by it, wherever it was seen first.
  Status outcome(Status status) const;

 private:
  const char *function_;
  CallWatch watch_;
  Status read_;
  const CallStop stop_;
  const StopScope scope_;
};

// The wrapper of long calls: body(watch).
template <class Object, class Body>
qr_status *guard_call(const Object *of, const qr_call_options *call, Body &&body,
                      const char *function = __builtin_FUNCTION()) noexcept {
  return guard(
      of,
      [&]() -> Status {
        LongCall made(function, runtime_of(of), call);
        QR_RETURN_IF_ERROR(made.take_status());
        return made.outcome(body(made.watch()));
      },
      function);
}

// A text for the caller, freed by qr_string_destroy.
char *give_text(std::string_view text);

inline qr_string string_of(std::string_view text) noexcept { return {text.data(), text.size()}; }

// qr_tensor_info of an input or output.
qr_tensor_info tensor_info(const qrm::TensorInfo &info) noexcept;

// For functions that list tensors: bounds, struct, fill.
Status give_tensor_info(const char *function, const char *what, const Vector<qrm::TensorInfo> &tensors,
                        std::uint64_t index, qr_tensor_info *out_info);

// The options argument of a call: null is allowed. Any number of calls read a set at a time; none changes it meanwhile.
class OptionsArgument {
 public:
  OptionsArgument(const qr_options *options, const char *function) noexcept : options_(object(options)) {
    if (options_) scope_.emplace(options_->use(), process_of(options_), Access::Read, function, "options");
  }
  Status status() const { return scope_ ? scope_->status() : Status(); }
  const OptionSet *get() const noexcept { return options_; }

 private:
  const OptionSet *options_;
  std::optional<SharedScope> scope_;
};

}  // namespace quarry::capi
