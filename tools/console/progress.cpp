// SPDX-License-Identifier: Apache-2.0
#include "tools/console/progress.h"

#include <chrono>
#include <cstdio>

#include "base/os/console.h"
#include "tools/console/output.h"

namespace tools {

ProgressLine::ProgressLine() : terminal_(quarry::os::is_terminal(2)) {}

void ProgressLine::show(uint64_t done, uint64_t total, std::string_view what) {
  if (!terminal_) return;
  const uint64_t now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  if (shown_ && now - last_ns_ < 50'000'000 && done != total) return;
  last_ns_ = now;
  shown_ = true;
  std::string text(what.substr(0, 50));
  for (char &c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';  // names come from files
  if (total) {
    char bar[21] = {};
    const uint64_t filled = done >= total ? 20 : done * 20 / total;
    for (uint64_t i = 0; i < 20; ++i) bar[i] = i < filled ? '#' : '.';
    print_to(stderr, "\r\033[K[%s] %llu/%llu %s", bar, done, total, text);
  } else {
    print_to(stderr, "\r\033[K%llu %s", done, text);
  }
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace tools
