// SPDX-License-Identifier: Apache-2.0
// Patterns of `quarry conform --filter`, beside the system's own function of such patterns.
#include <fnmatch.h>

#include <string>

#include "tests/support/check.h"
#include "tools/conformance/name_pattern.h"

namespace {

// Every text of these letters up to `size`.
void for_each_text(const std::string &letters, size_t size, const auto &visit, const std::string &begun = {}) {
  visit(begun);
  if (begun.size() < size)
    for (const char letter : letters) for_each_text(letters, size, visit, begun + letter);
}

}  // namespace

TEST_CASE("names fit as fnmatch says") {
  int differ = 0, fitting = 0;
  for_each_text("ab*?", 5, [&](const std::string &pattern) {
    for_each_text("ab", 5, [&](const std::string &name) {
      const bool expected = fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
      fitting += expected;
      differ += tools::fits_name(pattern, name) != expected;
    });
  });
  CHECK(differ == 0);
  CHECK(fitting > 10000);
}
