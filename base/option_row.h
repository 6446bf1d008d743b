// SPDX-License-Identifier: Apache-2.0
// A row of a table of options. The tables are files of QR_OPTION rows, which base/options.inc describes: that one holds
// Quarry's own, backends/<id>/settings/options.inc those of a backend.
#pragma once

#include <cstdint>
#include <string_view>

#include "quarry/options.h"

// QR_OPTION_COMPILE, _LOAD and _RUN say what an option has a part in. This one: in none of them, but in how work is
// done or in what is written about it.
#define QR_OPTION_NO_RESULT 0

namespace quarry {

// A literal, in half the room of a view: there are a hundred rows of five.
class RowText {
 public:
  constexpr RowText(const char *text) noexcept : text_(text) {}  // NOLINT: rows are lists of literals
  constexpr operator std::string_view() const noexcept { return text_; }
  constexpr bool empty() const noexcept { return *text_ == 0; }
  friend constexpr bool operator==(RowText a, std::string_view b) noexcept { return std::string_view(a) == b; }

 private:
  const char *text_;
};

struct OptionRow {
  RowText key, values, default_value, scope;
  std::uint32_t applies;  // QR_OPTION_COMPILE, ...
  bool changes_at_run_time;
  RowText help;
};

// For `#include`s of tables into an array of rows.
#define QR_OPTION_ROW(key, values, default_value, scope, applies, at_run_time, help) \
  {key, values, default_value, scope, applies, (at_run_time) != 0, help},

}  // namespace quarry
