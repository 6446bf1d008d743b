// SPDX-License-Identifier: Apache-2.0
// Patterns and arguments of the types that they have, against what printf writes of them.
#include "base/pattern.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tests/support/check.h"

using namespace quarry;

namespace someones {
// A type beside a `format` that takes more than ours, as std's string stands beside std::format.
struct Text {
  const char *c_str() const { return "ours"; }
};
template <class... A>
String format(const char *, A &&...) {
  return "theirs";
}
}  // namespace someones

namespace {

// Whether the compiler takes a pattern with arguments of these types.
template <class... A>
consteval bool fits(const char *pattern) {
  constexpr detail::Printed given[] = {detail::printed<A>()..., {detail::Printed::Kind::None, 0}};
  return detail::fits_pattern(pattern, given, sizeof...(A));
}
enum class Colour { Red };

}  // namespace

static_assert(fits<>("100 %%"));
static_assert(!fits<>("%d") && !fits<int>("nothing") && !fits<int, int>("%d") && !fits<int>("%d %d") &&
              !fits<int>("%"));
static_assert(fits<std::int64_t>("%lld") && fits<std::uint64_t>("%llu") && fits<std::size_t>("%zu") &&
              fits<std::uint64_t>("%016llx"));
static_assert(!fits<std::int64_t>("%d") && !fits<int>("%lld") && !fits<std::uint32_t>("%zu"));
static_assert(fits<bool, char, std::uint8_t, std::int16_t>("%d%c%u%hd"));
static_assert(fits<float, double>("%g %.17g") && !fits<int>("%g") && !fits<double>("%d"));
static_assert(fits<const char *, char[4], String, std::string>("%s%s%s%-8s") && !fits<int>("%s"));
static_assert(fits<std::string_view>("%.*s") && fits<int, const char *>("%.*s") && !fits<std::string_view>("%s") &&
              !fits<const char *>("%.*s"));
static_assert(fits<int, int>("%*d") && fits<int, double>("%.*f") && !fits<double>("%.*f"));
static_assert(fits<const void *>("%p") && !fits<Colour>("%d"));

TEST_CASE("arguments are written as printf writes them") {
  const std::int64_t least = INT64_MIN;
  const std::uint64_t most = UINT64_MAX;
  const std::string_view view = std::string_view("views end where they end, not at NUL").substr(0, 5);
  char expected[256];
  std::snprintf(expected, sizeof expected, "%lld %llu %zu %-6s|%.*s|%5.2f %c%%", static_cast<long long>(least),
                static_cast<unsigned long long>(most), sizeof expected, "text", 5, view.data(), 2.5, 'x');
  CHECK_EQ(format("%lld %llu %zu %-6s|%.*s|%5.2f %c%%", least, most, sizeof expected, String("text"), view, 2.5f, 'x'),
           expected);
  CHECK_EQ(format("nothing"), "nothing");
  CHECK_EQ(format("%.*s and %.*s of %d", view, std::string_view(), 7), "views and  of 7");
}

TEST_CASE("format is ours whatever stands beside the types of the arguments") {
  someones::Text text;
  CHECK_EQ(format("%s", text), "ours");
  CHECK_EQ(format("%s", someones::Text()), "ours");
}

TEST_CASE("statuses take the same patterns") {
  const Status failed = Status::errorf(ErrorId::bad_option_value, "option %s: found %lld, expected %.*s",
                                       std::string("threads"), std::int64_t{-1}, std::string_view("0 or more"));
  CHECK_EQ(failed.message(), "option threads: found -1, expected 0 or more");
  const Status hinted = Status::hinted(ErrorId::bad_option_value, "say less", "found %zu", std::size_t{9});
  CHECK_EQ(hinted.message(), "found 9");
  CHECK_EQ(hinted.hint(), "say less");
}
