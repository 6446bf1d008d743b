// SPDX-License-Identifier: Apache-2.0
// The edge of a library that lies beside the core (libquarry-quantize, libquarry-generate): no exception and no C++
// type gets out. Statuses and texts are libquarry's own kind, of one release with it: they are freed there.
#pragma once

#include <atomic>
#include <cstring>

#include "base/status.h"
#include "base/text.h"
#include "quarry/model.h"
#include "quarry/result.hpp"

namespace quarry::side {

// What the library says, as a status of ours.
inline Status from_library(const qr::Status &status) {
  if (status.ok()) return {};
  Status out = Status::foreign(status.code(), status.id(), status.message(), status.hint());
  for (std::uint64_t i = 0; i < status.detail_count(); ++i) out.with(status.detail(i).first, status.detail(i).second);
  return out;
}
inline Status from_library(qr_status *taken) { return from_library(qr::Status(taken)); }

// The out-of-memory status that needs no memory is one of each library: libquarry would free ours.
inline qr_status *give(Status status) noexcept {
  Status::Payload *payload = status.release();
  if (payload && payload->code == QR_RESOURCE_EXHAUSTED && payload->hint.empty() && payload->id == "QR-C0001") {
    Status heap = Status::foreign(QR_RESOURCE_EXHAUSTED, "QR-C0001", "the call is out of memory", "free memory");
    // Not even that: libquarry's own status, as it gives it without memory.
    if (heap.hint().empty()) return qr_model_inspect(nullptr, nullptr, nullptr);
    payload = heap.release();
  }
  return reinterpret_cast<qr_status *>(payload);
}

// `function` is the one that calls it.
template <class Body>
qr_status *guard(Body &&body, const char *function = __builtin_FUNCTION()) noexcept {
  AllocatorScope scope(malloc_allocator());
  try {
    return give(body());
  } catch (const std::bad_alloc &) {
    return give(Status::out_of_memory(function));
  } catch (...) {
    return give(Status::error(ErrorId::internal, "an exception reached the edge of a library"));
  }
}

inline Status null_argument(const char *function, const char *argument) {
  return Status::error(ErrorId::null_argument, format("%s: found NULL for %s", function, argument));
}

inline Status out_of_range(const char *function, std::uint64_t index, std::uint64_t count) {
  return Status::error(ErrorId::index_out_of_range,
                       format("%s: found the index %llu, expected one under %llu", function, index, count));
}

// Any: of an option's value, whose row says which bytes it may have.
enum class Bytes : std::uint8_t { Utf8, Any };

inline Status read_text(const char *function, const char *argument, const qr_string &from, std::string_view *out,
                        Bytes bytes = Bytes::Utf8) {
  if (!from.data && from.size) return null_argument(function, argument);
  if (from.data && from.size == QR_NUL_TERMINATED) *out = from.data;
  else *out = {from.data ? from.data : "", static_cast<std::size_t>(from.size)};
  if (bytes == Bytes::Utf8 && !is_utf8(*out))
    return Status::error(ErrorId::not_utf8, format("%s: %s: found bytes that are no UTF-8", function, argument));
  return {};
}

// For qr_string_destroy.
inline char *copy_of(const String &text) {
  auto *copy = static_cast<char *>(allocate_block(text.size() + 1, 16));
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

inline qr_string to_c(std::string_view from) noexcept { return {from.data(), from.size()}; }

// The growth rule of structs (types.h): what the caller's headers know of it.
inline Status check_struct(const char *function, const char *type, const void *from, std::uint32_t first,
                           std::uint32_t known) {
  std::uint32_t size = 0;
  if (!from) return null_argument(function, type);
  std::memcpy(&size, from, sizeof size);
  if (size < first)
    return Status::error(ErrorId::bad_struct_size, format("%s: %s: found a struct_size of %u, expected at least %u",
                                                          function, type, size, first));
  for (std::uint32_t i = known; i < size; ++i)
    if (static_cast<const unsigned char *>(from)[i] != 0)
      return Status::error(ErrorId::unknown_field,
                           format("%s: %s: found a field that this library does not know", function, type));
  return {};
}

// A struct of the caller's, whatever its age: what an older caller does not have is zero.
template <class T>
Status read_struct(const char *function, const char *type, const T *from, std::uint32_t first, T *out) {
  QR_RETURN_IF_ERROR(check_struct(function, type, from, first, sizeof(T)));
  std::memset(out, 0, sizeof(T));
  std::memcpy(out, from, from->struct_size < sizeof(T) ? from->struct_size : sizeof(T));
  return {};
}

template <class T>
void write_struct(const T &from, T *out) noexcept {
  const std::uint32_t size = out->struct_size;
  std::memcpy(out, &from, size < sizeof(T) ? size : sizeof(T));
  out->struct_size = size;
}

// One call at a time on an object, which has a std::atomic<bool> in_use. `what`: its name as an argument.
template <class T, class Body>
qr_status *with(T *object, const char *what, Body &&body, const char *function = __builtin_FUNCTION()) noexcept {
  return guard(
      [&]() -> Status {
        if (!object) return null_argument(function, what);
        if (object->in_use.exchange(true))
          return Status::error(ErrorId::overlapping_calls,
                               format("%s: found another call on the same %s, expected one at a time", function, what));
        struct Leave {
          std::atomic<bool> &flag;
          ~Leave() { flag = false; }
        } leave{object->in_use};
        return body(*object);
      },
      function);
}

}  // namespace quarry::side
