// SPDX-License-Identifier: Apache-2.0
// A call that is to fail, and what its error says.
#pragma once

#include <string>

#include <quarry/quarry.hpp>

#include "tests/support/check.h"

namespace quarry::test {

// What the call failed with, as it should.
template <class Body>
std::string failure(Body &&body, qr_code code) {
  try {
    body();
  } catch (const qr::Error &error) {
    CHECK_EQ(std::string(qr_code_name(error.code())), std::string(qr_code_name(code)));
    std::string all = error.what();
    for (const auto &[key, value] : error.details()) all += "; " + key + ": " + value;
    return all + "; hint: " + error.hint() + "; id: " + error.id();
  }
  FAIL_CHECK("it did not fail");
  return {};
}
inline bool says(const std::string &text, std::initializer_list<const char *> parts) {
  for (const char *part : parts) {
    if (text.find(part) != std::string::npos) continue;
    MESSAGE("expected '", std::string(part), "' in: ", text);
    return false;
  }
  return true;
}

}  // namespace quarry::test
