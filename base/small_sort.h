// SPDX-License-Identifier: Apache-2.0
// Sorting in a third of std::sort's code, which has a page for every type: for what nobody waits for. At most n log n
// steps, nothing is allocated; equal ones may change places.
#pragma once

#include <algorithm>
#include <functional>

namespace quarry {

template <class Range, class Less = std::less<>>
void small_sort(Range &range, const Less &less = {}) {
  std::make_heap(range.begin(), range.end(), less);
  std::sort_heap(range.begin(), range.end(), less);
}

}  // namespace quarry
