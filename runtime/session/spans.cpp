// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/spans.h"

#include <algorithm>

namespace quarry {
namespace {

bool lies_before(const Span &a, const Span &b) noexcept {
  return a.space != b.space ? a.space < b.space : a.begin < b.begin;
}

}  // namespace

bool SpanSet::join_many() noexcept {
  // They often come in the order in which they lie.
  if (!std::is_sorted(spans_.begin(), spans_.end(), lies_before)) {
    std::make_heap(spans_.begin(), spans_.end(), lies_before);
    std::sort_heap(spans_.begin(), spans_.end(), lies_before);
  }
  bool overlap = false;
  std::size_t last = 0;
  for (std::size_t i = 1; i < spans_.size(); ++i) {
    const Span span = spans_[i];
    if (span.space == spans_[last].space && span.begin <= spans_[last].end) {
      overlap |= span.begin < spans_[last].end;
      spans_[last].end = std::max(spans_[last].end, span.end);
    } else {
      spans_[++last] = span;
    }
  }
  spans_.erase(spans_.begin() + static_cast<std::ptrdiff_t>(last) + 1, spans_.end());
  return overlap;
}

bool SpanSet::overlaps_one_of_many(const Span &span) const noexcept {
  const auto after = std::upper_bound(spans_.begin(), spans_.end(), span, lies_before);
  return (after != spans_.end() && after->overlaps(span)) || (after != spans_.begin() && after[-1].overlaps(span));
}

}  // namespace quarry
