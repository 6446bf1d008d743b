// SPDX-License-Identifier: Apache-2.0
// atan, and what follows from it.
#include <array>
#include <limits>

#include "base/real/pair.h"
#include "base/real/real.h"

namespace quarry::real {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kParts = 32;  // of 1

// Euler's series, whose terms fall by half at least: c/(1+c^2) (1 + 2/3 q + 2*4/(3*5) q^2 + ...), q = c^2/(1+c^2).
constexpr Pair atan_by_series(double c) noexcept {
  const Pair under = product(c, c) + 1., q = product(c, c) / under;
  Pair term = Pair{c, 0} / under, all = term;
  for (int n = 1; n < 115; ++n) all = all + (term = term * q * (2. * n) / Pair{2. * n + 1, 0});
  return all;
}
// atan(i / kParts).
constexpr std::array<Pair, kParts + 1> kArcs = [] {
  std::array<Pair, kParts + 1> out;
  for (int i = 0; i <= kParts; ++i) out[static_cast<unsigned>(i)] = atan_by_series(i / double{kParts});
  return out;
}();

}  // namespace

// atan(x) = atan(c) + atan((x - c) / (1 + c x)) for the nearest part c.
Pair atan_of(Pair x) noexcept {
  if (x.high > 1) return kHalfPi + -atan_of(Pair{1, 0} / x);
  const int part = static_cast<int>(x.high * kParts + 0.5);
  const double c = part / double{kParts};
  const Pair t = part == 0 ? x : (x + -c) / (x * c + 1.);
  const double z = t.high * t.high;
  const double rest = t.high * z * (-1. / 3 + z * (1. / 5 + z * (-1. / 7 + z * (1. / 9 + z * (-1. / 11)))));
  return kArcs[static_cast<unsigned>(part)] + quick_sum(t.high, t.low + rest);
}

double atan(double x) noexcept {
  const double a = __builtin_fabs(x);
  if (x != x || a < 0x1p-500) return x;
  return with_sign(a > 0x1p500 ? kHalfPi.high : atan_of({a, 0}).high, x);
}

double asin(double x) noexcept {
  const double a = __builtin_fabs(x);
  if (!(a <= 1)) return x != x ? x : kNan;
  if (a < 0x1p-28) return x;
  if (a == 1) return with_sign(kHalfPi.high, x);
  return with_sign(atan_of(Pair{a, 0} / root(sum(1, -a) * sum(1, a))).high, x);
}

double acos(double x) noexcept {
  const double a = __builtin_fabs(x);
  if (!(a <= 1)) return x != x ? x : kNan;
  if (a < 0x1p-500) return kHalfPi.high;
  const Pair value = atan_of(root(sum(1, -a) * sum(1, a)) / Pair{a, 0});
  return x > 0 ? value.high : (kHalfPi * 2. + -value).high;
}

}  // namespace quarry::real
