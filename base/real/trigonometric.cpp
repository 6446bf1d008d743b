// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "base/real/pair.h"
#include "base/real/real.h"

namespace quarry::real {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Word = std::uint64_t;
__extension__ using DoubleWord = unsigned __int128;

// 64 zeros, then 2/pi from the point on: enough for the largest double.
constexpr Word kTwoOverPi[] = {0,
                               0xa2f9836e4e441529,
                               0xfc2757d1f534ddc0,
                               0xdb6295993c439041,
                               0xfe5163abdebbc561,
                               0xb7246e3a424dd2e0,
                               0x06492eea09d1921c,
                               0xfe1deb1cb129a73e,
                               0xe88235f52ebb4484,
                               0xe99c7026b45f7e41,
                               0x3991d639835339f4,
                               0x9c845f8bbdf9283b,
                               0x1ff897ffde05980f,
                               0xef2f118b5a0a6d1f,
                               0x6d367ecf27cb09b7,
                               0x4f463f669e5fea2d,
                               0x7527bac7ebe5f17b,
                               0x3d0739f78a5292ea,
                               0x6bfb5fb11f8d5d08,
                               0x56033046fc7b6bab,
                               0xf0cfbc209af4361d};

constexpr int kWords = 4;

// The fraction (of 254 bits, below two of a quarter) as a pair; `words` from the highest on.
Pair fraction(Word (&words)[kWords]) noexcept {
  int shift = 0;
  words[0] &= ~Word{0} >> 2;
  while (shift < 192 && words[0] >> 63 == 0) {  // at most as many as two reals can be near
    for (int i = 0; i < kWords; ++i) words[i] = words[i] << 1 | (i + 1 < kWords ? words[i + 1] >> 63 : 0);
    ++shift;
  }
  // 2^-64 of words[0] is between 1/2 and 1.
  const double high = static_cast<double>(words[0] >> 11),
               middle = static_cast<double>((words[0] & 0x7ff) << 42 | words[1] >> 22);
  return scaled(quick_sum(high * 0x1p-53, middle * 0x1p-106), 2 - shift);
}

// x = n pi / 2 + *r, |r| <= pi / 4 but for its last bits: gives n modulo 4. (Payne and Hanek: of 2/pi those bits count
// alone whose product with x is no multiple of 4.)
int quarter(double x, Pair *r) noexcept {
  const double a = __builtin_fabs(x);
  if (a <= 0x1.921fb54442d18p-1) {
    *r = {x, 0};
    return 0;
  }
  const Word bits = __builtin_bit_cast(Word, a), mantissa = (bits & ((Word{1} << 52) - 1)) | Word{1} << 52;
  const int exponent = static_cast<int>(bits >> 52) - 1075, first = exponent + 62, word = first / 64,
            within = first % 64;
  Word window[kWords], words[kWords];
  constexpr int kAll = sizeof kTwoOverPi / sizeof *kTwoOverPi;
  const auto at = [](int i) { return i < kAll ? kTwoOverPi[i] : 0; };
  for (int i = 0; i < kWords; ++i)
    window[i] = within ? at(word + i) << within | at(word + i + 1) >> (64 - within) : at(word + i);
  Word carry = 0;
  for (int i = kWords; i-- > 0;) {
    const DoubleWord p = static_cast<DoubleWord>(window[i]) * mantissa + carry;
    words[i] = static_cast<Word>(p);
    carry = static_cast<Word>(p >> 64);
  }
  int n = static_cast<int>(words[0] >> 62);
  const bool over = words[0] >> 61 & 1;  // the fraction is 1/2 or more
  if (over) {
    ++n;
    for (Word &one : words) one = ~one;  // less by 2^-254 than what is left to the next
  }
  const Pair left = fraction(words) * kHalfPi;
  *r = over != (x < 0) ? -left : left;
  return (x < 0 ? -n : n) & 3;
}

Pair sine(Pair r) noexcept {
  const Pair z = r * r;
  const double h = z.high;
  const double rest =
      h * (-1. / 5040 +
           h * (1. / 362880 +
                h * (-1. / 39916800 +
                     h * (1. / 6227020800 +
                          h * (-1. / 1307674368000 + h * (1. / 355687428096000 + h * (-1. / 121645100408832000)))))));
  const Pair third = Pair{-0x1.5555555555555p-3, -0x1.5555555555555p-57} +
                     z * (Pair{0x1.1111111111111p-7, 0x1.1111111111111p-63} + rest);
  return r + r * (z * third);
}

Pair cosine(Pair r) noexcept {
  const Pair z = r * r;
  const double h = z.high;
  const double rest =
      h * (-1. / 720 +
           h * (1. / 40320 + h * (-1. / 3628800 + h * (1. / 479001600 +
                                                       h * (-1. / 87178291200 + h * (1. / 20922789888000 +
                                                                                     h * (-1. / 6402373705728000)))))));
  return z * (z * (Pair{0x1.5555555555555p-5, 0x1.5555555555555p-59} + rest) + -0.5) + 1.;
}

bool is_finite(double x) noexcept { return __builtin_fabs(x) <= std::numeric_limits<double>::max(); }

}  // namespace

double sin(double x) noexcept {
  if (!is_finite(x)) return x != x ? x : kNan;
  if (__builtin_fabs(x) < 0x1p-28) return x;
  Pair r;
  const int n = quarter(x, &r);
  const double value = (n & 1 ? cosine(r) : sine(r)).high;
  return n & 2 ? -value : value;
}

double cos(double x) noexcept {
  if (!is_finite(x)) return x != x ? x : kNan;
  Pair r;
  const int n = quarter(x, &r);
  const double value = (n & 1 ? sine(r) : cosine(r)).high;
  return (n + 1) & 2 ? -value : value;
}

double tan(double x) noexcept {
  if (!is_finite(x)) return x != x ? x : kNan;
  if (__builtin_fabs(x) < 0x1p-28) return x;
  Pair r;
  const int n = quarter(x, &r);
  return (n & 1 ? -cosine(r) / sine(r) : sine(r) / cosine(r)).high;
}

}  // namespace quarry::real
