// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <array>
#include <cstdio>
#include <cstring>

namespace quarry {
namespace {

// Hints are one text with a NUL behind each: an array of pointers to them would be relocated when a library is loaded.
constexpr char kHints[] =
#define QR_ERROR(name, id, code, hint) hint "\0"
#include "base/error_ids.inc"
#undef QR_ERROR
    ;
struct Entry {
  char id[9];
  std::uint8_t code;
  std::uint16_t hint = 0;  // where it begins
};
constexpr auto kErrors = [] {
  std::array rows = {
#define QR_ERROR(name, id, code, hint) Entry{id, std::uint8_t{code}},
#include "base/error_ids.inc"
#undef QR_ERROR
  };
  std::size_t at = 0;
  for (Entry &row : rows) {
    row.hint = static_cast<std::uint16_t>(at);
    at += std::char_traits<char>::length(kHints + at) + 1;
  }
  return rows;
}();
static_assert(sizeof kHints <= UINT16_MAX);

// The static out-of-memory payload. Its strings fit the small-string buffer or are never allocated, so it is built
// without memory.
Status::Payload &oom_payload() noexcept {
  alignas(Status::Payload) static unsigned char place[sizeof(Status::Payload)];
  static Status::Payload *payload = [] {
    auto *made = ::new (place) Status::Payload{QR_RESOURCE_EXHAUSTED, {}, {}, {}, {}};
    made->id = "QR-C0001";  // both fit the small-string buffer of 15 characters
    made->message = "out of memory";
    return made;
  }();
  return *payload;
}

}  // namespace

ErrorRow error_row(ErrorId id) noexcept {
  const Entry &row = kErrors[index_of(id)];
  return {row.id, row.code, kHints + row.hint};
}

const char *code_name(qr_code code) noexcept {
  constexpr const char *kNames[] = {"OK",
                                    "INVALID_ARGUMENT",
                                    "FAILED_PRECONDITION",
                                    "NOT_FOUND",
                                    "OUT_OF_RANGE",
                                    "UNSUPPORTED",
                                    "INCOMPATIBLE",
                                    "CORRUPT",
                                    "RESOURCE_EXHAUSTED",
                                    "UNAVAILABLE",
                                    "DEADLINE_EXCEEDED",
                                    "CANCELLED",
                                    "PERMISSION_DENIED",
                                    "INTERNAL",
                                    "BUSY",
                                    "DEVICE_LOST"};
  return code >= 0 && code < static_cast<qr_code>(std::size(kNames)) ? kNames[code] : "UNKNOWN";
}

void Status::free_payload(Payload *payload) noexcept {
  if (!payload || payload == &oom_payload()) return;
  payload->~Payload();
  free_block(payload);
}

Status Status::adopt(Payload *payload) noexcept {
  Status status;
  status.payload_ = payload;
  return status;
}

Status Status::out_of_memory(std::string_view what) noexcept {
  const std::size_t size = take_refused_size();
  if (size == 0 && what.empty()) return adopt(&oom_payload());
  try {
    const String text =
        format("%.*s%sout of memory%s", what, what.empty() ? "" : ": ", size ? ": found no room for " : "");
    return error(ErrorId::out_of_memory, size ? text + format("%zu bytes", size) : text);
  } catch (const std::bad_alloc &) {
    take_refused_size();
    return adopt(&oom_payload());
  }
}

Status Status::foreign(qr_code code, std::string_view id, std::string_view message, std::string_view hint) noexcept {
  // A plugin that ran out of memory says so in these words: the caller gets the same status as from ourselves.
  if (code == QR_RESOURCE_EXHAUSTED && id == oom_payload().id && message == oom_payload().message)
    return out_of_memory();
  try {
    return adopt(make_unique<Payload>(Payload{code, String(id), String(message), String(hint), {}}).release());
  } catch (const std::bad_alloc &) {
    return adopt(&oom_payload());
  }
}

Status Status::error(ErrorId id, std::string_view message, std::string_view hint) noexcept {
  const ErrorRow row = error_row(id);
  return foreign(row.code, row.id, message, hint.empty() ? std::string_view(row.hint) : hint);
}

Status Status::error_of(ErrorId id, const char *pattern, ...) {
  va_list args;
  va_start(args, pattern);
  try {
    Status made = error(id, format_list(pattern, args));
    va_end(args);
    return made;
  } catch (...) {
    va_end(args);
    throw;
  }
}

Status Status::hinted_of(ErrorId id, const char *hint, const char *pattern, ...) {
  va_list args;
  va_start(args, pattern);
  try {
    Status made = error(id, format_list(pattern, args), hint);
    va_end(args);
    return made;
  } catch (...) {
    va_end(args);
    throw;
  }
}

Status Status::error(ErrorId id, const char *message, const char *hint) noexcept {
  return error(id, std::string_view(message), std::string_view(hint));
}

Status &Status::with(const char *key, std::string_view value) &noexcept { return with(std::string_view(key), value); }

Status &Status::with(std::string_view key, std::string_view value) &noexcept {
  if (!payload_ || payload_ == &oom_payload()) return *this;
  try {
    payload_->details.push_back({String(key), String(value)});
  } catch (const std::bad_alloc &) {
    // The frame is lost, the error is not.
  }
  return *this;
}

String format_list(const char *pattern, va_list args) {
  va_list again;
  va_copy(again, args);
  char small[512];
  const int needed = std::vsnprintf(small, sizeof small, pattern, args);
  String text;
  try {
    if (needed < 0) {
    } else if (static_cast<std::size_t>(needed) < sizeof small) {
      text.assign(small, static_cast<std::size_t>(needed));
    } else {
      text.resize(static_cast<std::size_t>(needed));
      std::vsnprintf(text.data(), text.size() + 1, pattern, again);
    }
  } catch (...) {
    va_end(again);
    throw;
  }
  va_end(again);
  return text;
}

String format_of(const char *pattern, ...) {
  va_list args;
  va_start(args, pattern);
  try {
    String made = format_list(pattern, args);
    va_end(args);
    return made;
  } catch (...) {
    va_end(args);
    throw;
  }
}

String printable(std::string_view text, std::size_t limit) {
  String out;
  std::size_t used = 0;
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    std::size_t length = c < 0x80                ? 1
                         : c >= 0xc2 && c < 0xe0 ? 2
                         : c >= 0xe0 && c < 0xf0 ? 3
                         : c >= 0xf0 && c < 0xf5 ? 4
                                                 : 0;
    bool whole = length > 0 && i + length <= text.size();
    for (std::size_t k = 1; whole && k < length; ++k) whole = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
    const bool plain = whole && (length > 1 || (c >= 0x20 && c != 0x7f));
    const std::size_t cost = plain ? length : 4;
    if (used + cost > limit) return out + "...";
    if (plain) {
      out.append(text.substr(i, length));
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", c);
      out += escaped;
      length = 1;
    }
    used += cost;
    i += length;
  }
  return out;
}

String shape_text(const std::int64_t *dims, std::size_t rank) {
  String out = "[";
  for (std::size_t i = 0; i < rank; ++i) {
    if (i) out += ',';
    if (dims[i] < 0) out += '?';
    else out += format("%lld", dims[i]);
  }
  return out += ']';
}

}  // namespace quarry
