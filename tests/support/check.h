// SPDX-License-Identifier: Apache-2.0
// Tests in C++ stand on doctest (TEST_CASE, CHECK, REQUIRE, ...). Here is what it lacks for our types: CHECK_OK and
// REQUIRE_OK for Status and Result, which print the id and the message, and equality of String with std::string.
#pragma once

#define DOCTEST_CONFIG_SUPER_FAST_ASSERTS  // an assertion is one call: it compiles in half the time
#include <doctest/doctest.h>

#include <ostream>
#include <string>

#include "base/status.h"

namespace quarry {

// Found through String's allocator, which is of this namespace.
inline bool operator==(const String &a, const std::string &b) { return std::string_view(a) == std::string_view(b); }

namespace test {

inline std::string outcome(const Status &status) {
  return status.ok() ? "ok" : std::string(status.id()) + " " + std::string(status.message());
}
template <class T>
std::string outcome(const Result<T> &result) {
  return outcome(result.status());
}

}  // namespace test
}  // namespace quarry

#define CHECK_OK(...) CHECK_EQ(::quarry::test::outcome(__VA_ARGS__), "ok")
#define REQUIRE_OK(...) REQUIRE_EQ(::quarry::test::outcome(__VA_ARGS__), "ok")
