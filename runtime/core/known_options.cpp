// SPDX-License-Identifier: Apache-2.0
// The tables of options that are known without opening a plugin: Quarry's own, and those of the backends of this tree,
// so that a configuration for a backend that is not installed is checked too. Tables of data: nothing of a backend's
// code is in them.
#include "runtime/core/options.h"

namespace quarry {
namespace {

constexpr OptionRow kRows[] = {
#define QR_OPTION QR_OPTION_ROW
#include "base/options.inc"

#include "backends/cpu/settings/options.inc"
#include "backends/gpu/settings/options.inc"
#include "backends/htp/settings/options.inc"
#undef QR_OPTION
};

constexpr std::string_view kWildcard = ".*";

}  // namespace

std::size_t option_row_count() noexcept { return std::size(kRows); }
const OptionRow &option_row(std::size_t index) noexcept { return kRows[index]; }

bool stands_for(const OptionRow &row, std::string_view key) noexcept {
  const std::string_view own = row.key;
  if (!own.ends_with(kWildcard)) return key == row.key;
  const std::string_view stem = own.substr(0, own.size() - 1);  // with the dot
  return key.starts_with(stem) && key.size() > stem.size();
}

const OptionRow *find_option_row(std::string_view key) noexcept {
  for (const OptionRow &row : kRows)
    if (stands_for(row, key)) return &row;
  return nullptr;
}

bool is_known_option_of(std::string_view backend, std::string_view key) noexcept {
  for (const OptionRow &row : kRows)
    if (row.key == key && row.scope == backend) return true;
  return false;
}

void offer_option_keys(NearestWord &nearest) noexcept {
  for (const OptionRow &row : kRows) nearest.offer(row.key);
}

}  // namespace quarry
