// SPDX-License-Identifier: Apache-2.0
// What a QNN library says while it works. Its log callback has no pointer of the caller's, so the lines find their way
// by the thread that the library was called on.
#pragma once

#include "backends/htp/qnn/abi.h"
#include "base/status.h"

namespace quarry::qnn {

// Keeps what the library says on this thread from construction to destruction. The innermost one gets the lines.
class LogLines {
 public:
  LogLines() noexcept;
  ~LogLines();
  LogLines(const LogLines &) = delete;
  LogLines &operator=(const LogLines &) = delete;

  // At most so many warnings and errors, one after the other; empty: it said nothing.
  String text(std::size_t most = 4) const;
  bool contains(std::string_view words) const noexcept;
  void clear() noexcept { lines_.clear(), errors_ = 0; }

 private:
  friend void write_log(const char *pattern, std::uint32_t level, std::uint64_t time, va_list arguments);
  void add(std::string_view line, bool is_error) noexcept;
  Vector<String> lines_;  // errors first
  std::size_t errors_ = 0;
  LogLines *outer_;
  Allocator &allocator_;
};

// The callback for logCreate.
void write_log(const char *pattern, std::uint32_t level, std::uint64_t time, va_list arguments);

}  // namespace quarry::qnn
