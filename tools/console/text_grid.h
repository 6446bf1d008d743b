// SPDX-License-Identifier: Apache-2.0
// Tables and numbers as texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tools {

std::string number(double value, int decimals);
std::string percent(double part);  // "12.5 %" of 0.125
std::string size_text(uint64_t bytes);

struct Column {
  std::string title;
  bool right;  // numbers
  std::vector<std::string> cells;
};
// At most 120 columns wide. Columns that are empty are left out. What is too wide takes from the widest column of
// words; long words are cut in the middle.
std::string grid(std::vector<Column> table);

}  // namespace tools
