// SPDX-License-Identifier: Apache-2.0
#include "tools/conformance/name_pattern.h"

namespace tools {

// A later `*` takes over from an earlier one: what stood between them has been found, and the first place serves best.
bool fits_name(std::string_view pattern, std::string_view name) {
  size_t at = 0, star = pattern.npos, resumed = 0;
  for (size_t i = 0; i < name.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++, resumed = i;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == name[i])) {
      ++at, ++i;
    } else if (star != pattern.npos) {
      at = star + 1, i = ++resumed;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace tools
