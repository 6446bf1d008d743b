// SPDX-License-Identifier: Apache-2.0
// A line on the terminal that says how far long work has come; silent where stderr is no terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tools {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  void show(uint64_t done, uint64_t total, std::string_view what);
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  uint64_t last_ns_ = 0;
};

}  // namespace tools
