// SPDX-License-Identifier: Apache-2.0
// Functions of reals: the nearest double where that is known, C's special cases, and the same bits on every system and
// with every compiler.
#include <bit>
#include <cstdint>
#include <limits>

#include "base/real/real.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

struct Function {
  const char *name;
  double (*of)(double);
  double low, high;   // of inputs
  std::uint64_t sum;  // of all results below
};
constexpr Function kFunctions[] = {
#define QR_FUNCTION(name, low, high, sum) {#name, [](double x) { return real::name(x); }, low, high, sum},
#include "tests/unit/base/real_sums.inc"
#undef QR_FUNCTION
};

}  // namespace

TEST_CASE("each is the nearest double to the true value") {
#define QR_VALUE(name, x, value) CHECK_MESSAGE(bits(real::name(x)) == bits(value), #name "(" #x ")");
#define QR_POWER(x, y, value) CHECK_MESSAGE(bits(real::pow(x, y)) == bits(value), "pow(" #x ", " #y ")");
#include "tests/unit/base/real_values.inc"
#undef QR_VALUE
#undef QR_POWER
}

// Were one of them not made of what IEEE 754 defines alone, some of these would differ.
TEST_CASE("the same bits on every system") {
  for (const Function &function : kFunctions) {
    constexpr int kCount = 20000;
    std::uint64_t sum = 0;
    for (int i = 0; i < kCount; ++i) {
      const double part = i / double{kCount}, x = function.low + (function.high - function.low) * part * part;
      sum = (sum << 5 | sum >> 59) ^ bits(function.of(x));
    }
    INFO(function.name);
    CHECK_EQ(sum, function.sum);
  }
}

TEST_CASE("zeros, infinities and what is no number") {
  for (const Function &function : kFunctions) {
    INFO(function.name);
    CHECK(std::isnan(function.of(kNan)));
    // What is 0 at 0 keeps its sign, and what is small stays.
    if (function.of(0.0) != 0 || function.of == kFunctions[0].of) continue;
    CHECK_EQ(bits(function.of(-0.0)), bits(-0.0));
    CHECK(std::fabs(function.of(5e-324)) <= 1e-323);
  }
  CHECK(real::exp(kInfinity) == kInfinity);
  CHECK(real::exp(-kInfinity) == 0);
  CHECK(real::exp(710) == kInfinity);
  CHECK(real::exp(-745) == 5e-324);
  CHECK(real::exp(-746) == 0);
  CHECK(real::expm1(-kInfinity) == -1);
  CHECK(real::log(0) == -kInfinity);
  CHECK(real::log(-0.0) == -kInfinity);
  CHECK(std::isnan(real::log(-1)));
  CHECK(real::log(kInfinity) == kInfinity);
  CHECK(real::log(5e-324) == -0x1.74385446d71c3p+9);
  CHECK(real::log1p(-1) == -kInfinity);
  CHECK(std::isnan(real::log1p(-2)));
  CHECK(real::log10(1000) == 3);
  CHECK(real::sinh(-kInfinity) == -kInfinity);
  CHECK(real::cosh(-kInfinity) == kInfinity);
  CHECK(real::tanh(-kInfinity) == -1);
  CHECK(real::asinh(-kInfinity) == -kInfinity);
  CHECK(std::isnan(real::acosh(0.5)));
  CHECK(real::acosh(1) == 0);
  CHECK(real::atanh(-1) == -kInfinity);
  CHECK(std::isnan(real::sin(kInfinity)));
  CHECK(std::isnan(real::tan(-kInfinity)));
  CHECK(real::atan(kInfinity) == 0x1.921fb54442d18p+0);
  CHECK(std::isnan(real::asin(1.5)));
  CHECK(real::acos(-1) == 0x1.921fb54442d18p+1);
  CHECK(real::erf(-kInfinity) == -1);
}

TEST_CASE("pow: C's cases") {
  CHECK(real::pow(kNan, 0) == 1);
  CHECK(real::pow(1, kNan) == 1);
  CHECK(std::isnan(real::pow(kNan, 1)));
  CHECK(real::pow(-2, 3) == -8);
  CHECK(real::pow(-2, 4) == 16);
  CHECK(real::pow(3, -1) == 1. / 3);
  CHECK(std::isnan(real::pow(-2, 0.5)));
  CHECK(bits(real::pow(-0.0, 3)) == bits(-0.0));
  CHECK(real::pow(-0.0, -3) == -kInfinity);
  CHECK(real::pow(0, -2) == kInfinity);
  CHECK(real::pow(-kInfinity, 3) == -kInfinity);
  CHECK(real::pow(-kInfinity, -3) == 0);
  CHECK(real::pow(-1, kInfinity) == 1);
  CHECK(real::pow(0.5, kInfinity) == 0);
  CHECK(real::pow(0.5, -kInfinity) == kInfinity);
  CHECK(real::pow(2, 1024) == kInfinity);
  CHECK(real::pow(-2, 1025) == -kInfinity);
  CHECK(real::pow(2, -1074) == 5e-324);
  CHECK(real::pow(2, -1080) == 0);
  CHECK(real::pow(1 + 0x1p-52, 1e300) == kInfinity);
  CHECK(real::pow(1 + 0x1p-52, 1e-300) == 1);
}
