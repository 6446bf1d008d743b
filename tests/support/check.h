// SPDX-License-Identifier: Apache-2.0
// A small frame for tests in C++. TEST(name) { CHECK(...); } registers a test; tests/support/main.cpp runs all of them,
// or those whose name contains an argument. A failed CHECK prints what was found and goes on; the program's exit status
// says whether any failed.
#pragma once

#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"

namespace quarry::test {

struct Case {
  const char *name;
  void (*body)();
};
std::vector<Case> &cases();
void fail(const char *file, int line, const std::string &what);  // counts
struct Register {
  Register(const char *name, void (*body)()) { cases().push_back({name, body}); }
};

template <class T>
std::string text_of(const T &value) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (requires { std::string_view(value); }) {
    return "\"" + std::string(std::string_view(value)) + "\"";
  } else if constexpr (std::is_same_v<T, signed char> || std::is_same_v<T, unsigned char>) {
    return std::to_string(static_cast<int>(value));
  } else if constexpr (requires(std::ostream & out) { out << value; }) {
    std::ostringstream out;
    out.precision(9);
    out << value;
    return out.str();
  } else {
    return "(a value that cannot be printed)";
  }
}

template <class A, class B>
bool check_eq(const A &found, const B &expected, const char *text, const char *file, int line) {
  const bool equal = [&] {
    if constexpr (std::is_integral_v<A> && std::is_integral_v<B> && !std::is_same_v<A, bool> &&
                  !std::is_same_v<B, bool>) {
      return std::cmp_equal(found, expected);
    } else if constexpr (requires { std::string_view(found), std::string_view(expected); }) {
      return std::string_view(found) == std::string_view(expected);  // String and std::string alike
    } else {
      return found == expected;
    }
  }();
  if (!equal) fail(file, line, std::string(text) + ": found " + text_of(found) + ", expected " + text_of(expected));
  return equal;
}

inline bool check_ok(const Status &status, const char *text, const char *file, int line) {
  if (!status.ok())
    fail(file, line, std::string(text) + ": " + std::string(status.id()) + " " + std::string(status.message()));
  return status.ok();
}
template <class T>
bool check_ok(const Result<T> &result, const char *text, const char *file, int line) {
  return result.ok() || check_ok(result.peek_status(), text, file, line);
}

}  // namespace quarry::test

#define TEST(name)                                                           \
  static void test_##name();                                                 \
  static const ::quarry::test::Register register_##name(#name, test_##name); \
  static void test_##name()
// Each gives whether it held, so that a test can stop: if (!CHECK_OK(status)) return;
#define CHECK(cond) ((cond) ? true : (::quarry::test::fail(__FILE__, __LINE__, #cond), false))
#define CHECK_EQ(found, expected) ::quarry::test::check_eq((found), (expected), #found, __FILE__, __LINE__)
#define CHECK_OK(status) ::quarry::test::check_ok((status), #status, __FILE__, __LINE__)
