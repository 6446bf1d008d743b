// SPDX-License-Identifier: Apache-2.0
// What an event of tracing says of itself, so that a reader needs no manifest (TraceLogging): names and types of its
// fields. In a header of its own: the tests read it on every system.
#pragma once

#include <cstring>

#include "base/os/tracing.h"

namespace quarry::os {

class TraceDescription {
 public:
  // Of a provider: its name alone.
  explicit TraceDescription(const char *provider) noexcept {
    text(provider);
    finish();
  }
  TraceDescription(const char *event, std::initializer_list<TraceField> fields) noexcept {
    constexpr char kNoTags = 0, kCountedText = 23, kNumber64 = 10, kUtf8 = 35;
    constexpr char kOutFollows = static_cast<char>(0x80);
    byte(kNoTags), text(event);
    for (const TraceField &field : fields) {
      text(field.name);
      if (field.is_text) byte(kCountedText | kOutFollows), byte(kUtf8);
      else byte(kNumber64);
    }
    finish();
  }
  const char *data() const noexcept { return bytes_; }
  std::uint32_t size() const noexcept { return size_; }  // 0: the names are too long for it

 private:
  void byte(char value) noexcept {
    if (size_ < sizeof bytes_) bytes_[size_] = value;
    ++size_;
  }
  void text(const char *value) noexcept {
    for (; *value; ++value) byte(*value);
    byte(0);
  }
  void finish() noexcept {
    if (size_ > sizeof bytes_) size_ = 0;
    bytes_[0] = static_cast<char>(size_ & 0xff), bytes_[1] = static_cast<char>(size_ >> 8);
  }

  char bytes_[256];
  std::uint32_t size_ = 2;  // begins with its own
};

}  // namespace quarry::os
