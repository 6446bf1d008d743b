// SPDX-License-Identifier: Apache-2.0
// The tables of options that are known without opening a plugin: Quarry's own, and those of the backends of this tree,
// so that a configuration for a backend that is not installed is checked too. Tables of data: nothing of a backend's
// code is in them.
//
// The texts of all rows are one text with a NUL behind each, as an array of pointers would be relocated when the
// library is loaded: it is twice as large.
#include <array>

#include "runtime/core/options.h"

namespace quarry {
namespace {

constexpr char kTexts[] =
#define QR_OPTION(key, values, default_value, scope, applies, at_run_time, help) \
  key "\0" values "\0" default_value "\0" scope "\0" help "\0"
#include "runtime/core/known_options.inc"
#undef QR_OPTION
    ;

struct Row {
  std::uint16_t at = 0;  // where its texts begin
  std::uint8_t applies;
  bool changes_at_run_time;
};
constexpr std::size_t kTextsOfRow = 5;

constexpr auto kRows = [] {
  std::array rows = {
#define QR_OPTION(key, values, default_value, scope, applies, at_run_time, help) \
  Row{0, std::uint8_t{applies}, (at_run_time) != 0},
#include "runtime/core/known_options.inc"
#undef QR_OPTION
  };
  std::size_t at = 0;
  for (Row &row : rows) {
    row.at = static_cast<std::uint16_t>(at);
    for (std::size_t text = 0; text < kTextsOfRow; ++text) at += std::char_traits<char>::length(kTexts + at) + 1;
  }
  return rows;
}();
static_assert(sizeof kTexts <= UINT16_MAX);

const char *key_of(const Row &row) noexcept { return kTexts + row.at; }

OptionRow option_of(const Row &row) noexcept {
  const char *texts[kTextsOfRow];
  const char *at = key_of(row);
  for (const char *&text : texts) {
    text = at;
    at += std::char_traits<char>::length(at) + 1;
  }
  return {texts[0], texts[1], texts[2], texts[3], row.applies, row.changes_at_run_time, texts[4]};
}

constexpr std::string_view kWildcard = ".*";

}  // namespace

std::size_t option_row_count() noexcept { return std::size(kRows); }
OptionRow option_row(std::size_t index) noexcept { return option_of(kRows[index]); }

bool stands_for(std::string_view own, std::string_view key) noexcept {
  if (!own.ends_with(kWildcard)) return key == own;
  const std::string_view stem = own.substr(0, own.size() - 1);  // with the dot
  return key.starts_with(stem) && key.size() > stem.size();
}

std::optional<OptionRow> find_option_row(std::string_view key) noexcept {
  for (const Row &row : kRows)
    if (stands_for(key_of(row), key)) return option_of(row);
  return std::nullopt;
}

bool is_known_option_of(std::string_view backend, std::string_view key) noexcept {
  for (const Row &row : kRows)
    if (key == key_of(row) && option_of(row).scope == backend) return true;
  return false;
}

void offer_option_keys(NearestWord &nearest) noexcept {
  for (const Row &row : kRows) nearest.offer(key_of(row));
}

}  // namespace quarry
