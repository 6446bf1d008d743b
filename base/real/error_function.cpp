// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/real/pair.h"
#include "base/real/real.h"

namespace quarry::real {
namespace {

constexpr int kParts = 8, kEnd = 6;  // of 1; from 6 on it is 1

struct At {
  Pair value, slope;
};
// erf and its derivative at c: 2/sqrt(pi) e^-c^2, of which e^c^2 is a series of terms above 0; and erf is that
// derivative times sum of 2^n c^(2n+1) / (2n+1)!!.
constexpr At at_part(double c) noexcept {
  const double z = c * c;
  Pair power = {1, 0}, exp = {1, 0}, term = {c, 0}, all = {c, 0};
  for (int n = 1; n < 180; ++n) {
    exp = exp + (power = power * z / Pair{static_cast<double>(n), 0});
    all = all + (term = term * (2 * z) / Pair{2. * n + 1, 0});
  }
  const Pair slope = Pair{0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56} / exp;
  return {slope * all, slope};
}
constexpr std::array<At, kParts *kEnd + 1> kAt = [] {
  std::array<At, kParts * kEnd + 1> out;
  for (int i = 0; i <= kParts * kEnd; ++i) out[static_cast<unsigned>(i)] = at_part(i / double{kParts});
  return out;
}();

}  // namespace

// Taylor's series at the nearest part: the derivative falls as e^(-2ch - h^2), whose terms follow from the two before.
double erf(double x) noexcept {
  const double a = __builtin_fabs(x);
  if (x != x) return x;
  if (a >= kEnd) return with_sign(1, x);
  const int part = static_cast<int>(a * kParts + 0.5);
  const double c = part / double{kParts}, h = a - c;
  const At &at = kAt[static_cast<unsigned>(part)];
  double before = 0, now = 1, power = h, rest = 0;
  for (int n = 1; n < 17; ++n) {
    const double next = -2 * (c * now + before) / n;
    before = now;
    now = next;
    power *= h;
    rest += now * power / (n + 1);
  }
  const Pair first = at.slope * h;
  return with_sign((at.value + quick_sum(first.high, first.low + at.slope.high * rest)).high, x);
}

}  // namespace quarry::real
