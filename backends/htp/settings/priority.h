// SPDX-License-Identifier: Apache-2.0
// Priorities of contexts and graphs by the words of qnn_context_priority.
#pragma once

#include <algorithm>
#include <string_view>

#include "backends/htp/qnn/abi.h"

namespace quarry::htp {

struct PriorityRow {
  std::string_view word;
  qnn::Priority priority;
};
inline constexpr PriorityRow kPriorities[] = {
    {"low", qnn::Priority::Low},           {"normal_low", qnn::Priority::NormalLow},
    {"normal", qnn::Priority::Normal},     {"normal_high", qnn::Priority::NormalHigh},
    {"high", qnn::Priority::High},         {"high_plus", qnn::Priority::HighPlus},
    {"critical", qnn::Priority::Critical}, {"critical_plus", qnn::Priority::CriticalPlus}};

// nullptr: it is none of them.
constexpr const PriorityRow *find_priority(std::string_view word) noexcept {
  const PriorityRow *const found =
      std::ranges::find_if(kPriorities, [&](const PriorityRow &row) { return row.word == word; });
  return found == std::end(kPriorities) ? nullptr : found;
}
constexpr qnn::Priority read_priority(std::string_view word) noexcept {
  const PriorityRow *const found = find_priority(word);
  return found ? found->priority : qnn::Priority::Normal;
}

}  // namespace quarry::htp
