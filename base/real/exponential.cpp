// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include "base/real/pair.h"
#include "base/real/real.h"

namespace quarry::real {
namespace {

constexpr int kParts = 64;  // of a power of two

constexpr Pair exp_by_series(Pair x) noexcept {
  Pair all = {1, 0}, term = {1, 0};
  for (int n = 1; n < 32; ++n) all = all + (term = term * x / Pair{static_cast<double>(n), 0});
  return all;
}
// 2^(i / kParts).
constexpr std::array<Pair, kParts> kPowers = [] {
  std::array<Pair, kParts> out;
  for (int i = 0; i < kParts; ++i) out[static_cast<unsigned>(i)] = exp_by_series(kLn2 * (i / double{kParts}));
  return out;
}();

// ln2 / kParts, whole where it is multiplied with what x can be, and what is left of it.
constexpr double kStep = 0x1.62e42fee00000p-7, kStepRest = 0x1.a39ef35793c76p-39;
// The whole number next to x kParts / ln2.
double nearest_part(double x) noexcept {
  constexpr double kRound = 0x1.8p52;
  return (x * 0x1.71547652b82fep+6 + kRound) - kRound;
}

constexpr double kMost = 750;  // e^x is infinite from 709.8 on, and 0 to -745.2

double in_double(Pair value, int scale) noexcept {
  const int half = scale / 2;
  return value.high * power_of_two(half) * power_of_two(scale - half);
}

// sinh and tanh to here, whose terms of a series fall off quickly.
constexpr double kSmall = 1. / 32;

}  // namespace

// x = n ln2 / kParts + r, |r| <= ln2 / (2 kParts): of e^r all but 1 + r is so small that a double has enough of it.
Pair exp_of(Pair x, int *scale) noexcept {
  const double n = nearest_part(x.high);
  const int whole = static_cast<int>(n);
  *scale = whole >> 6;
  const Pair power = kPowers[static_cast<unsigned>(whole & (kParts - 1))];
  const Pair r = sum(x.high - n * kStep, x.low - n * kStepRest);
  const double h = r.high, rest = h * h * (1. / 2 + h * (1. / 6 + h * (1. / 24 + h * (1. / 120 + h * (1. / 720))))) +
                                  r.low * (1 + h);
  const Pair first = product(power.high, h), both = quick_sum(power.high, first.high);
  return quick_sum(both.high, both.low + (first.low + power.low + power.high * rest + power.low * h));
}

// The most used of all: e^r in one double, which is enough for all but one or two results in a thousand.
double exp(double x) noexcept {
  if (x != x) return x;
  const double near = x < -kMost ? -kMost : x > kMost ? kMost : x, n = nearest_part(near);
  const int whole = static_cast<int>(n), scale = whole >> 6;
  const Pair power = kPowers[static_cast<unsigned>(whole & (kParts - 1))];
  const double r = (near - n * kStep) - n * kStepRest, z = r * r;
  const double rest = r + z * ((1. / 2 + r * (1. / 6)) + z * ((1. / 24 + r * (1. / 120)) + z * (1. / 720)));
  const double value = power.high + (power.low + power.high * rest);
  return scale > -1000 && scale < 1000 ? value * power_of_two(scale) : in_double({value, 0}, scale);
}

double expm1(double x) noexcept {
  if (x != x || x > 50) return x != x ? x : exp(x);
  if (x < -50) return -1;
  if (__builtin_fabs(x) < 0x1p-54) return x;
  if (__builtin_fabs(x) < 1. / 256) {
    return x + x * x * (1. / 2 + x * (1. / 6 + x * (1. / 24 + x * (1. / 120 + x * (1. / 720 + x * (1. / 5040))))));
  }
  int scale;
  const Pair value = exp_of({x, 0}, &scale);
  return (scaled(value, scale) + -1.).high;
}

double sinh(double x) noexcept {
  const double a = __builtin_fabs(x), z = a * a;
  if (a < kSmall)
    return x + x * z * (1. / 6 + z * (1. / 120 + z * (1. / 5040 + z * (1. / 362880 + z * (1. / 39916800)))));
  if (!(a < 40)) {
    int scale;
    const Pair value = exp_of({a < kMost ? a : kMost, 0}, &scale);
    return x != x ? x : with_sign(in_double(value, scale - 1), x);
  }
  int scale;
  const Pair value = exp_of({a, 0}, &scale), up = scaled(value, scale), down = Pair{1, 0} / up;
  return with_sign((up + -down).high / 2, x);
}

double cosh(double x) noexcept {
  const double a = __builtin_fabs(x);
  if (x != x) return x;
  int scale;
  const Pair value = exp_of({a < kMost ? a : kMost, 0}, &scale);
  if (a > 40) return in_double(value, scale - 1);
  const Pair up = scaled(value, scale);
  return (up + Pair{1, 0} / up).high / 2;
}

double tanh(double x) noexcept {
  const double a = __builtin_fabs(x), z = a * a;
  if (x != x) return x;
  if (a > 22) return with_sign(1, x);
  if (a < 0x1p-28) return x;
  if (a < kSmall)
    return x - x * z *
                   (1. / 3 -
                    z * (2. / 15 - z * (17. / 315 - z * (62. / 2835 - z * (1382. / 155925 - z * (21844. / 6081075))))));
  int scale;
  const Pair value = exp_of({2 * a, 0}, &scale), e = scaled(value, scale);
  return with_sign(((e + -1.) / (e + 1.)).high, x);
}

}  // namespace quarry::real
