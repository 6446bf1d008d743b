// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include "base/real/pair.h"
#include "base/real/real.h"

namespace quarry::real {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kParts = 64, kFirst = 45, kLast = 91;  // from the root of 1/2 to that of 2, in parts of 1

// 2 atanh(s).
constexpr Pair log_by_series(Pair s) noexcept {
  const Pair square = s * s;
  Pair all, power = s;
  for (int n = 1; n < 60; n += 2, power = power * square) all = all + power / Pair{static_cast<double>(n), 0};
  return all * 2.;
}
struct Part {
  double inverse;  // of i / kParts, rounded
  Pair log;        // of 1 / inverse
};
constexpr std::array<Part, kLast - kFirst + 1> kPart = [] {
  std::array<Part, kLast - kFirst + 1> out;
  for (int i = kFirst; i <= kLast; ++i) {
    const double inverse = double{kParts} / i;
    out[static_cast<unsigned>(i - kFirst)] = {inverse, -log_by_series(Pair{inverse - 1, 0} / sum(inverse, 1))};
  }
  return out;
}();

constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52) - 1;

}  // namespace

// x = 2^e m; with the inverse of the part that m is nearest to, m inverse = 1 + z, |z| < 1/80: of log(1 + z) all but z
// - z^2/2 is so small that a double has enough of it.
Pair log_of(Pair x) noexcept {
  int e = 0;
  if (x.high < 0x1p-900) x = scaled(x, 100), e = -100;
  const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, x.high);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = __builtin_bit_cast(double, (bits & kMantissa) | std::uint64_t{1023} << 52);
  if (m > 1.4142135623730951) m /= 2, ++exponent;
  // In two steps, as neither power may leave the normal numbers.
  const int half = -exponent / 2;
  const double low = x.low * power_of_two(half) * power_of_two(-exponent - half);
  e += exponent;
  const Part &part = kPart[static_cast<unsigned>(static_cast<int>(m * kParts + 0.5) - kFirst)];
  const Pair near = product(m, part.inverse), z = sum(near.high - 1, near.low + low * part.inverse);
  const double h = z.high;
  const Pair square = product(h, h), two = quick_sum(h, -square.high / 2);
  const double rest =
      square.high * h *
      (1. / 3 +
       h * (-1. / 4 + h * (1. / 5 + h * (-1. / 6 + h * (1. / 7 + h * (-1. / 8 + h * (1. / 9 + h * (-1. / 10))))))));
  const Pair all = quick_sum(two.high, two.low + (z.low - square.low / 2 - h * z.low + rest));
  return quick_sum(e * 0x1.62e42fefa3800p-1, e * 0x1.ef35793c76730p-45) + part.log + all;
}

double log(double x) noexcept {
  if (!(x > 0)) return x == 0 ? -kInfinity : x != x ? x : kNan;
  return x == kInfinity ? x : log_of({x, 0}).high;
}

double log1p(double x) noexcept {
  if (!(x > -1)) return x == -1 ? -kInfinity : x != x ? x : kNan;
  if (x == kInfinity || __builtin_fabs(x) < 0x1p-54) return x;
  return log_of(sum(1, x)).high;
}

double log10(double x) noexcept {
  if (!(x > 0) || x == kInfinity) return log(x);
  return (log_of({x, 0}) * Pair{0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57}).high;
}

double asinh(double x) noexcept {
  const double a = __builtin_fabs(x);
  if (x != x || a == kInfinity) return x;
  if (a < 0x1p-28) return x;
  const Pair value = a > 0x1p500 ? log_of({a, 0}) + kLn2 : log_of(root(product(a, a) + 1.) + a);
  return with_sign(value.high, x);
}

double acosh(double x) noexcept {
  if (!(x >= 1)) return x != x ? x : kNan;
  if (x > 0x1p500) return x == kInfinity ? x : (log_of({x, 0}) + kLn2).high;
  return log_of(root(product(x, x) + -1.) + x).high;
}

double atanh(double x) noexcept {
  const double a = __builtin_fabs(x);
  if (!(a < 1)) return a == 1 ? with_sign(kInfinity, x) : x != x ? x : kNan;
  if (a < 0x1p-28) return x;
  return with_sign(log_of(sum(1, a) / sum(1, -a)).high / 2, x);
}

// The cases are those of C's pow.
double pow(double x, double y) noexcept {
  if (x == 1 || y == 0) return 1;
  if (x != x || y != y) return x + y;
  const double a = __builtin_fabs(x);
  const bool whole = std::trunc(y) == y, odd = whole && __builtin_fabs(y) < 0x1p53 && std::fmod(y, 2) != 0;
  const double sign = odd ? x : 1;
  if (a == 0 || a == kInfinity) return with_sign((a == 0) == (y > 0) ? 0 : kInfinity, sign);
  if (__builtin_fabs(y) == kInfinity) return a == 1 ? 1 : (a > 1) == (y > 0) ? kInfinity : 0;
  if (x < 0 && !whole) return kNan;
  const Pair log = log_of({a, 0});
  const double about = log.high * y;
  if (!(__builtin_fabs(about) < 800)) return with_sign(about > 0 ? kInfinity : 0, sign);
  if (__builtin_fabs(about) < 0x1p-60) return with_sign(1, sign);
  int scale;
  const Pair value = exp_of(log * y, &scale);
  const int half = scale / 2;
  return with_sign(value.high * power_of_two(half) * power_of_two(scale - half), sign);
}

}  // namespace quarry::real
