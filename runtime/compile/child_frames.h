// SPDX-License-Identifier: Apache-2.0
// What the program quarry-compiler reports to the process that started it, over a stream (base/os/child_process.h):
// frames of texts, in the byte order of the machine that both run on. Used by both sides.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace quarry::child {

// The descriptors of the child: the stream, whose end of reading says that nobody waits any longer, the model, and the
// folder of its external data, if it has any. What else it gets has a number above these.
inline constexpr int kStream = 3, kModel = 4, kFolder = 5, kAboveOurs = 16;

enum class Kind : std::uint32_t {
  Hello = 1,  // version of libquarry
  Progress,   // done, total, what
  Log,        // level, topic, message
  Failure,    // code, id, message, hint, then key and value of each detail
  Done,       // the report of a check, or nothing
  File,       // name, size, how many follow: a file of what was compiled begins
  Bytes,      // the next of its bytes, as they are
};

struct Head {
  std::uint32_t kind, size;  // of the texts that follow
};
// A report has a line or two for each node.
inline constexpr std::uint32_t kMaxSize = 1u << 30;

template <class Frame>
void add_text(Frame &frame, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  frame.append(reinterpret_cast<const char *>(&size), sizeof size).append(text);
}
template <class Frame>
void add_number(Frame &frame, std::uint64_t number) {
  add_text(frame, {reinterpret_cast<const char *>(&number), sizeof number});
}

// The texts of a frame, one after the other; past the end, and where a size is wrong, empty ones.
class Texts {
 public:
  explicit Texts(std::string_view rest) noexcept : rest_(rest) {}
  bool empty() const noexcept { return rest_.empty(); }
  std::string_view text() noexcept {
    std::uint32_t size = 0;
    if (rest_.size() < sizeof size) return end();
    std::memcpy(&size, rest_.data(), sizeof size);
    rest_.remove_prefix(sizeof size);
    if (size > rest_.size()) return end();
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }
  std::uint64_t number() noexcept {
    std::uint64_t out = 0;
    const std::string_view bytes = text();
    if (bytes.size() == sizeof out) std::memcpy(&out, bytes.data(), sizeof out);
    return out;
  }

 private:
  std::string_view end() noexcept {
    rest_ = {};
    return {};
  }
  std::string_view rest_;
};

}  // namespace quarry::child
