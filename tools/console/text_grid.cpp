// SPDX-License-Identifier: Apache-2.0
#include "tools/console/text_grid.h"

#include <algorithm>
#include <cstdio>

namespace tools {
namespace {

constexpr size_t kWidth = 120;

// Characters, taking each sequence of UTF-8 as one.
size_t columns(const std::string &text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Where the character with this number begins.
size_t offset_of(const std::string &text, size_t character) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && character-- == 0) break;
  return at;
}

// At most `room` characters: the beginning and the end of a long name say most. What would act on a terminal does not.
std::string cut(std::string text, size_t room) {
  for (char &c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  const size_t all = columns(text);
  if (all <= room) return text;
  const size_t head = (room - 2) / 2, tail = room - 2 - head;
  return text.substr(0, offset_of(text, head)) + ".." + text.substr(offset_of(text, all - tail));
}

}  // namespace

std::string number(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}
std::string percent(double part) { return number(part * 100, 1) + " %"; }

std::string size_text(uint64_t bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1000 && unit < 4) value /= 1000, ++unit;
  return number(value, unit ? 1 : 0) + " " + units[unit];
}

std::string grid(std::vector<Column> table) {
  constexpr size_t kNarrowest = 8;
  table.erase(std::remove_if(table.begin(), table.end(),
                             [](const Column &column) {
                               return std::all_of(column.cells.begin(), column.cells.end(),
                                                  [](const std::string &cell) { return cell.empty(); });
                             }),
              table.end());
  std::vector<size_t> widths;
  size_t total = 0;
  for (const Column &column : table) {
    size_t width = columns(column.title);
    for (const std::string &cell : column.cells) width = std::max(width, columns(cell));
    widths.push_back(width), total += width + 2;
  }
  while (total > kWidth) {
    size_t widest = table.size();
    for (size_t i = 0; i < table.size(); ++i)
      if (!table[i].right && widths[i] > kNarrowest && (widest == table.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == table.size()) break;
    --widths[widest], --total;
  }
  std::string out;
  const size_t rows = table.empty() ? 0 : table[0].cells.size();
  for (size_t row = 0; row <= rows; ++row) {
    std::string line;
    for (size_t i = 0; i < table.size(); ++i) {
      const std::string cell = cut(row == 0 ? table[i].title : table[i].cells[row - 1], widths[i]);
      const std::string blank(widths[i] - columns(cell), ' ');
      line += "  " + (table[i].right ? blank + cell : cell + blank);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace tools
