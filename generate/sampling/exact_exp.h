// SPDX-License-Identifier: Apache-2.0
// e to the power of x from additions and multiplications of doubles alone, in one order: the same bits on every
// machine, where the exp of C libraries differs in its last bit, and so would a token that is drawn.
#pragma once

#include <bit>
#include <cstdint>

namespace quarry::generate {

// 1, 1/1!, 1/2!, ...
struct Series {
  static constexpr int kParts = 15;
  double part[kParts];
  constexpr Series() : part{1} {
    double factorial = 1;
    for (int i = 1; i < kParts; ++i) factorial *= i, part[i] = 1 / factorial;
  }
};
inline constexpr Series kSeries;

// For x <= 0; under -700 it is 0. Its error is under 2^-51 of the result.
inline double exact_exp(double x) noexcept {
  if (!(x > -700)) return 0;
  constexpr double kHigh = 0x1.62e42feep-1, kLow = 0x1.a39ef35793c76p-33;       // ln 2, the first with zeros at its end
  const auto power = static_cast<std::int64_t>(x * 0x1.71547652b82fep0 - 0.5);  // x < 0: rounds to the nearest
  const auto whole = static_cast<double>(power);
  const double rest = (x - whole * kHigh) - whole * kLow;  // from -0.35 to 0.35
  double sum = kSeries.part[Series::kParts - 1];
  for (int i = Series::kParts - 2; i >= 0; --i) sum = sum * rest + kSeries.part[i];
  return sum * std::bit_cast<double>(static_cast<std::uint64_t>(power + 1023) << 52);
}

}  // namespace quarry::generate
