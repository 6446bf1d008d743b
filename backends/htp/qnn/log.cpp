// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/qnn/log.h"

#include <algorithm>
#include <cstdio>

namespace quarry::qnn {

namespace {

constinit thread_local LogLines *t_lines = nullptr;

// Said for every graph at the level of errors, and of no consequence.
bool is_noise(std::string_view line) { return line.find("unexpected GraphHtpSettings option") != line.npos; }

}  // namespace

LogLines::LogLines() noexcept : outer_(t_lines), allocator_(current_allocator()) { t_lines = this; }
LogLines::~LogLines() { t_lines = outer_; }

void LogLines::add(std::string_view line, bool is_error) noexcept {
  constexpr std::size_t kMost = 64;
  if (lines_.size() >= kMost || is_noise(line)) return;
  AllocatorScope scope(allocator_);
  try {
    String text = printable(line, 1000);
    if (std::find(lines_.begin(), lines_.end(), text) == lines_.end()) {
      lines_.insert(is_error ? lines_.begin() + static_cast<std::ptrdiff_t>(errors_) : lines_.end(), std::move(text));
      errors_ += is_error;
    }
  } catch (const std::bad_alloc &) {  // a line less
  }
}

String LogLines::text(std::size_t most) const {
  String all;
  for (std::size_t i = 0; i < std::min(most, lines_.size()); ++i) all += (i ? "; " : "") + lines_[i];
  if (lines_.size() > most) all += format("; and %zu lines more", lines_.size() - most);
  return all;
}

bool LogLines::contains(std::string_view words) const noexcept {
  return std::any_of(lines_.begin(), lines_.end(), [&](const String &line) { return line.find(words) != line.npos; });
}

void write_log(const char *pattern, std::uint32_t level, std::uint64_t, va_list arguments) {
  if (!t_lines || level > static_cast<std::uint32_t>(LogLevel::Warnings)) return;
  char line[2048];
  const int size = std::vsnprintf(line, sizeof line, pattern, arguments);
  if (size <= 0) return;
  std::string_view text(line, std::min<std::size_t>(static_cast<std::size_t>(size), sizeof line - 1));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (!text.empty()) t_lines->add(text, level <= static_cast<std::uint32_t>(LogLevel::Errors));
}

}  // namespace quarry::qnn
