// SPDX-License-Identifier: Apache-2.0
// Tallys, ranges, scales: against values worked out by hand, and against the values themselves, stored and read back.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "graph/ops/quantization.h"
#include "quantize/ranges/ranges.h"
#include "tests/support/check.h"

using namespace quarry;
using namespace quarry::quantize;

namespace {

std::vector<float> normal_values(std::size_t count, float deviation, unsigned seed) {
  // Box and Muller on our own: the distributions of <random> differ between libraries.
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float &value : values) {
    const double a = (random() + 1.0) / 4294967297.0, b = random() / 4294967296.0;
    value = static_cast<float>(std::sqrt(-2 * std::log(a)) * std::cos(6.283185307179586 * b)) * deviation;
  }
  return values;
}

Tally tally_of(const std::vector<float> &values) {
  Tally tally;
  tally.add(values);
  return tally;
}

// Each value stored and read back, no model of anything.
double true_noise(const std::vector<float> &values, const Encoding &encoding) {
  double noise = 0;
  for (const float value : values) {
    const double error = rounded(static_cast<double>(value), encoding) - static_cast<double>(value);
    noise += error * error;
  }
  return noise;
}

double true_sqnr(const std::vector<float> &values, const Encoding &encoding) {
  double signal = 0;
  for (const float value : values) signal += static_cast<double>(value) * static_cast<double>(value);
  return 10 * std::log10(signal / true_noise(values, encoding));
}

Range chosen(const std::vector<float> &values, RangeMethod method, const Grid &grid = {}, double percentile = 99.999) {
  const Unique<Observer> observer = make_observer({method, percentile, 0.25});
  observer->observe(values);
  observer->keep();
  return observer->range(grid);
}

constexpr Grid kI8{DType::I8, true}, kU16{DType::U16, false};

bool same(const Tally &a, const Tally &b) {
  if (a.width() != b.width() || a.min() != b.min() || a.max() != b.max() || a.count() != b.count() ||
      a.zeros() != b.zeros() || a.nans() != b.nans() || a.infinities() != b.infinities() || a.size() != b.size())
    return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Bins may lie at another place of the window.
    const double place = (a.edge(i) - b.edge(0)) / b.width();
    const std::uint64_t there =
        place >= 0 && place < static_cast<double>(b.size()) ? b[static_cast<std::size_t>(place)] : 0;
    if (a[i] != there) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a tally counts each value in the bin it lies in") {
  const std::vector<float> values = {0, -0.0f, 1, 1, -2, 3.5f, NAN, INFINITY, -INFINITY, 0.25f};
  const Tally tally = tally_of(values);
  CHECK_EQ(tally.count(), 10u);
  CHECK_EQ(tally.finite(), 7u);
  CHECK_EQ(tally.zeros(), 2u);
  CHECK_EQ(tally.nans(), 1u);
  CHECK_EQ(tally.infinities(), 2u);
  CHECK_EQ(tally.min(), -2.0f);
  CHECK_EQ(tally.max(), 3.5f);
  CHECK_EQ(tally.width(), 1.0 / 512);  // 5.5 / 4096 = 0.00134: the next power of two
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tally.size(); ++i) {
    const auto expected = static_cast<std::uint64_t>(std::count_if(values.begin(), values.end(), [&](float value) {
      return value != 0 && static_cast<double>(value) >= tally.edge(i) &&
             static_cast<double>(value) < tally.edge(i + 1);
    }));
    REQUIRE_EQ(tally[i], expected);
    sum += tally[i];
  }
  CHECK_EQ(sum, 5u);
}

TEST_CASE("the order of values and who counts them do not matter") {
  std::vector<float> values = normal_values(20000, 1, 7);
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = 0;
  for (std::size_t i = 1; i < values.size(); i += 4) values[i] *= 1e-6f;
  values[17] = 812.5f, values[4711] = -3e4f, values[19999] = 2.5e-42f, values[19998] = -2.5e-42f;
  const Tally whole = tally_of(values);
  CHECK_GE(whole.width() * 4096, 30000);
  CHECK_LT(whole.width() * 2048, 31000);
  std::vector<float> sorted = values;
  std::sort(sorted.begin(), sorted.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  Tally growing;  // one value at a time, from the smallest
  for (const float &value : sorted) growing.add({&value, 1});
  CHECK(same(whole, growing));
  std::reverse(sorted.begin(), sorted.end());
  CHECK(same(whole, tally_of(sorted)));
  Tally parts[3], merged;
  for (std::size_t i = 0; i < values.size(); ++i) parts[i * 3 / values.size()].add({&values[i], 1});
  for (const int part : {2, 0, 1}) merged.merge(parts[part]);
  CHECK(same(whole, merged));
}

TEST_CASE("tallies of the ends of f32") {
  for (const std::vector<float> &values :
       {std::vector<float>{FLT_MAX, -FLT_MAX, 1}, {FLT_TRUE_MIN, -FLT_TRUE_MIN}, {FLT_MIN, 1e30f}, {-1e-45f, 3e38f}}) {
    const Tally tally = tally_of(values);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < tally.size(); ++i) sum += tally[i];
    CHECK_EQ(sum, values.size());
    CHECK_EQ(tally.max(), *std::max_element(values.begin(), values.end()));
    std::vector<float> reversed(values.rbegin(), values.rend());
    Tally growing;
    for (const float &value : reversed) growing.add({&value, 1});
    CHECK(same(tally, growing));
  }
}

TEST_CASE("a tally is taken up again, and no damaged one is") {
  const std::vector<float> values = normal_values(5000, 3, 9), more = normal_values(100, 900, 10);
  Tally whole = tally_of(values), again, untouched;
  Vector<std::uint8_t> bytes;
  whole.save(bytes);
  REQUIRE(again.restore(bytes));
  CHECK(same(whole, again));
  whole.add(more), again.add(more);
  CHECK(same(whole, again));
  CHECK_FALSE(untouched.restore({bytes.data(), bytes.size() - 1}));
  CHECK_FALSE(untouched.restore({bytes.data(), 40}));
  // Each bit of what stands in front of the counts, and of some of those: what is taken must be sound enough to go on.
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < 48 * 8; ++bit) {
    Vector<std::uint8_t> damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    Tally tally;
    if (!tally.restore(damaged)) ++refused;
    else tally.add(more);
  }
  CHECK_GT(refused, 200);
  bytes[48 + 8 * 2000 + 3] ^= 64;
  CHECK_FALSE(untouched.restore(bytes));
  CHECK_EQ(untouched.count(), 0u);
  bytes.clear();
  Tally().save(bytes);
  CHECK(again.restore(bytes));
  CHECK_EQ(again.count(), 0u);
}

TEST_CASE("nothing but zeros, NaN, or nothing at all") {
  for (const std::vector<float> &values : {std::vector<float>{}, {0, 0, 0}})
    for (const RangeMethod method : {RangeMethod::MinMax, RangeMethod::MovingAverage, RangeMethod::Percentile,
                                     RangeMethod::Entropy, RangeMethod::LeastSquares})
      for (const bool symmetric : {false, true}) {
        CHECK(chosen(values, method, {DType::U8, symmetric}) == Range{0, 0});
        CHECK_EQ(true_noise({0, 0}, encode({0, 0}, {DType::U8, symmetric})), 0);
      }
}

TEST_CASE("the noise that is foreseen is the noise that there is") {
  std::vector<float> relu = normal_values(200000, 2, 3);
  for (float &value : relu) value = std::max(value, 0.0f);
  const std::vector<float> both = normal_values(200000, 1, 4);
  for (const std::vector<float> &values : {relu, both}) {
    const NoiseModel model(tally_of(values));
    for (const DType dtype : {DType::U8, DType::I8, DType::U16, DType::I4})
      for (const bool symmetric : {false, true})
        for (const double reach : {0.7, 3.0, 9.0}) {
          const Encoding encoding = encode({&values == &relu ? 0 : -reach, reach}, {dtype, symmetric});
          CHECK_EQ(model.noise(encoding).total(), doctest::Approx(true_noise(values, encoding)).epsilon(0.02));
        }
  }
  // By hand: 0.3 and 0.8 in steps of 1 miss by 0.3 and 0.2, 2.5 by 0.5. To 1.5, 2.5 is clipped.
  const NoiseModel model(tally_of({0.3f, 0.8f, 2.5f}));
  CHECK_EQ(model.noise({DType::U4, 1, 0}).clipped, 0);
  CHECK_EQ(model.noise({DType::U4, 1, 0}).rounding, doctest::Approx(0.09 + 0.04 + 0.25).epsilon(0.01));
  CHECK_EQ(model.noise({DType::U4, 0.1f, 0}).clipped, 1);
  CHECK_EQ(model.noise({DType::U4, 0.1f, 0}).clipping, doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("min-max and moving average") {
  CHECK(chosen({1, 2, 5}, RangeMethod::MinMax) == Range{0, 5});
  CHECK(chosen({-3, -2}, RangeMethod::MinMax) == Range{-3, 0});
  CHECK(chosen({-3, 2}, RangeMethod::MinMax, kI8) == Range{-3, 3});
  const Unique<Observer> observer = make_observer({RangeMethod::MovingAverage, 100, 0.25});
  for (const std::vector<float> &values : {std::vector<float>{-4, 2}, {0, 10}, {}})
    observer->observe(values), observer->keep();
  CHECK(observer->range({}) == Range{-3, 4});  // a quarter of the second
  CHECK(observer->seen() == Range{-4, 10});
  Vector<std::uint8_t> bytes;
  observer->save(bytes);
  const Unique<Observer> again = make_observer({RangeMethod::MovingAverage, 100, 0.25});
  REQUIRE_OK(again->restore(bytes));
  for (const auto &one : {&observer, &again}) (*one)->observe(std::vector<float>{-3, 8}), (*one)->keep();
  CHECK(observer->range({}) == Range{-3, 5});
  CHECK(again->range({}) == Range{-3, 5});
  bytes.pop_back();
  CHECK_FALSE(again->restore(bytes).ok());
}

TEST_CASE("percentile") {
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1) - 500;  // -499 to 500
  // Of 999 values that are not 0, 5 percent: 24.975 go on each side.
  const Range range = chosen(values, RangeMethod::Percentile, {}, 95);
  CHECK_EQ(range.low, doctest::Approx(-499 + 25).epsilon(0.003));
  CHECK_EQ(range.high, doctest::Approx(500 - 24).epsilon(0.003));
  CHECK(chosen(values, RangeMethod::Percentile, {}, 99.99) == Range{-499, 500});  // not one value goes
  CHECK(chosen(values, RangeMethod::Percentile, {}, 100) == Range{-499, 500});
  const Range symmetric = chosen(values, RangeMethod::Percentile, kI8, 95);
  CHECK_EQ(symmetric.high, doctest::Approx(500 - 25).epsilon(0.003));
  CHECK_EQ(symmetric.low, -symmetric.high);
  // Of a million values all but fifty are 0: those fifty must not go as the outermost ones.
  std::vector<float> rare(1000000, 0.0f);
  for (std::size_t i = 0; i < 50; ++i) rare[i * 20000] = static_cast<float>(1 + i % 5);
  CHECK(chosen(rare, RangeMethod::Percentile) == Range{0, 5});
}

TEST_CASE("least squares finds the best range") {
  std::vector<float> values = normal_values(30000, 1, 11);
  values[5] = 60, values[20000] = -35;
  for (const DType dtype : {DType::U8, DType::I4}) {
    const Grid grid{dtype, false};
    const double found = true_sqnr(values, encode(chosen(values, RangeMethod::LeastSquares, grid), grid));
    double best = -100;  // of all pairs of ends
    for (double high = 1; high < 62; high *= 1.2)
      for (double low = 1; low < 37; low *= 1.2) best = std::max(best, true_sqnr(values, encode({-low, high}, grid)));
    CHECK_GT(found, best - 0.02);
    CHECK_GT(found, true_sqnr(values, encode({-35, 60}, grid)) + 0.1);
  }
  const Range symmetric = chosen(values, RangeMethod::LeastSquares, kI8);
  CHECK_EQ(symmetric.low, -symmetric.high);
  // 16 bits have no need to clip: the outlier stays.
  CHECK_EQ(chosen(values, RangeMethod::LeastSquares, kU16).high, doctest::Approx(60).epsilon(0.01));
}

TEST_CASE("entropy clips an outlier and keeps the rest of a distribution") {
  std::vector<float> values = normal_values(100000, 1, 12);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  // 65536 integers distinguish all bins: nothing is gained by clipping.
  CHECK(chosen(values, RangeMethod::Entropy, kU16) == Range{static_cast<double>(*low), static_cast<double>(*high)});
  const std::vector<float> inner = values;
  values[77] = 40;
  const Range range = chosen(values, RangeMethod::Entropy);
  CHECK_LT(range.high, 8);
  CHECK_GT(range.high, 2);
  CHECK_GT(true_sqnr(inner, encode(range, {})), 35);
}

TEST_CASE("entropy keeps what few values, or few different ones, say") {
  std::vector<float> steps(640);  // as of an image of 17 greys
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<float>(i % 17) / 16;
  CHECK(chosen(steps, RangeMethod::Entropy) == Range{0, 1});
  std::vector<float> few = normal_values(64, 1, 21);
  for (float &value : few) value = std::max(0.0f, value);
  CHECK_GT(true_sqnr(few, encode(chosen(few, RangeMethod::Entropy), {})), 30);
}

TEST_CASE("a value, and values far from 0") {
  for (const RangeMethod method :
       {RangeMethod::MinMax, RangeMethod::Percentile, RangeMethod::Entropy, RangeMethod::LeastSquares}) {
    for (const float value : {3.0f, -1e-20f, 1e30f}) {
      const std::vector<float> values(100, value);
      const Range range = chosen(values, method);
      CHECK_LE(range.low, 0);
      CHECK_GE(range.high, 0);
      CHECK_GT(true_sqnr(values, encode(range, {})), 40);
    }
    std::vector<float> far = normal_values(1000, 1, 5);
    for (float &value : far) value += 1000;
    CHECK_EQ(chosen(far, method).low, 0);
    CHECK_GT(true_sqnr(far, encode(chosen(far, method), {})), 50);
  }
}

TEST_CASE("what a report shows of a tensor") {
  const Unique<Observer> observer = make_observer({});
  observer->observe(std::vector<float>{-1000, 1000});  // of a sample that was stopped
  observer->observe(std::vector<float>{-1, 0, 0, 0, 1, 3});
  observer->keep();
  const Histogram shown = observer->histogram();
  CHECK_EQ(shown.low, -1);
  CHECK_EQ(shown.high, 3);
  REQUIRE_EQ(shown.counts.size(), 128u);
  CHECK_EQ(shown.counts[0], 1u);
  CHECK_EQ(shown.counts[32], 3u);
  CHECK_EQ(shown.counts[64], 1u);
  CHECK_EQ(shown.counts[127], 1u);
  // 0 to 1 of 4 bits: of six values -1 and 3 are beyond it, by 1 and 2; the others are stored exactly. 11 / 5.
  const Observer::Loss loss = observer->loss(encode({0, 1}, {DType::U4, false}));
  CHECK_EQ(loss.clipped, doctest::Approx(2.0 / 6));
  CHECK_EQ(loss.sqnr, doctest::Approx(10 * std::log10(11.0 / 5)).epsilon(0.01));
}
