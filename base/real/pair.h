// SPDX-License-Identifier: Apache-2.0
// A real as the sum of two doubles, about 106 bits. (Dekker 1971, Knuth; "double-double".)
#pragma once

#include <cmath>
#include <cstdint>

namespace quarry::real {

// |low| is at most half a unit of high's last place.
struct Pair {
  double high = 0, low = 0;
};

// a + b, whole.
constexpr Pair sum(double a, double b) noexcept {
  const double s = a + b, back = s - a;
  return {s, (a - (s - back)) + (b - back)};
}
// The same, of |a| >= |b|.
constexpr Pair quick_sum(double a, double b) noexcept {
  const double s = a + b;
  return {s, b - (s - a)};
}
// a * b, whole, where neither is over 2^996.
constexpr Pair product(double a, double b) noexcept {
  constexpr double kHalves = 0x1p27 + 1;
  const double at = kHalves * a, bt = kHalves * b;
  const double ah = at - (at - a), bh = bt - (bt - b), al = a - ah, bl = b - bh, p = a * b;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

constexpr Pair operator-(Pair a) noexcept { return {-a.high, -a.low}; }
constexpr Pair operator+(Pair a, Pair b) noexcept {
  const Pair highs = sum(a.high, b.high), lows = sum(a.low, b.low);
  const Pair both = quick_sum(highs.high, highs.low + lows.high);
  return quick_sum(both.high, both.low + lows.low);
}
constexpr Pair operator+(Pair a, double b) noexcept {
  const Pair highs = sum(a.high, b);
  return quick_sum(highs.high, highs.low + a.low);
}
constexpr Pair operator*(Pair a, double b) noexcept {
  const Pair p = product(a.high, b);
  return quick_sum(p.high, p.low + a.low * b);
}
constexpr Pair operator*(Pair a, Pair b) noexcept {
  const Pair p = product(a.high, b.high);
  return quick_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}
constexpr Pair operator/(Pair a, Pair b) noexcept {
  const double first = a.high / b.high;
  const Pair left = a + -(b * first);
  return quick_sum(first, left.high / b.high);
}
inline Pair root(Pair a) noexcept {
  const double first = std::sqrt(a.high);
  if (first == 0) return {};
  const Pair left = a + -product(first, first);
  return quick_sum(first, left.high / (2 * first));
}

// 2^n for -1022 <= n <= 1023.
constexpr double power_of_two(int n) noexcept {
  return __builtin_bit_cast(double, static_cast<std::uint64_t>(n + 1023) << 52);
}
// a * 2^n, whole where it does not leave the normal numbers.
constexpr Pair scaled(Pair a, int n) noexcept { return {a.high * power_of_two(n), a.low * power_of_two(n)}; }

constexpr Pair kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
constexpr Pair kHalfPi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};

// What the functions have in common.
Pair exp_of(Pair x, int *scale) noexcept;  // e^x is that times 2^scale; |x| < 2000
Pair log_of(Pair x) noexcept;              // x.high > 0, finite
Pair atan_of(Pair x) noexcept;             // 0 <= x.high < 2^996

constexpr double with_sign(double value, double sign) noexcept { return __builtin_copysign(value, sign); }

}  // namespace quarry::real
