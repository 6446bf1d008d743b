// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges/ranges.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/real/real.h"
#include "graph/ops/quantization.h"

namespace quarry::quantize {
namespace {

// The value that `tail` values lie beyond: `from` the lower side or the upper one.
double cut(const Tally &tally, double tail, bool lower) {
  const double extreme = static_cast<double>(lower ? tally.min() : tally.max());
  if (tail < 1) return extreme;  // not one value goes
  double seen = 0;
  for (std::size_t n = 0; n < tally.size(); ++n) {
    const std::size_t bin = lower ? n : tally.size() - 1 - n;
    const auto count = static_cast<double>(tally[bin]);
    if (seen + count > tail) {
      const double part = (tail - seen) / count;
      const double value = lower ? tally.edge(bin) + part * tally.width() : tally.edge(bin + 1) - part * tally.width();
      return lower ? std::max(value, extreme) : std::min(value, extreme);
    }
    seen += count;
  }
  return extreme;
}

// The absolute value that `tail` values lie beyond.
double symmetric_cut(const Tally &tally, double tail) {
  const double reach = std::max(-static_cast<double>(tally.min()), static_cast<double>(tally.max()));
  if (tail < 1) return reach;
  const auto beyond = [&](double bound) {
    double count = 0;
    for (std::size_t i = 0; i < tally.size(); ++i)
      if (tally.edge(i) >= bound || tally.edge(i + 1) <= -bound) count += static_cast<double>(tally[i]);
    return count;
  };
  double least = 0, most = reach;
  while (most - least > tally.width() / 4) {
    const double middle = (least + most) / 2;
    (beyond(middle) > tail ? least : most) = middle;
  }
  return most;
}

// ---- search -------------------------------------------------------------------------------------

// The ends that give the least of `cost(low, high)`: each in turn, in parts of what was seen, and then in smaller steps
// around the best. What was seen is among what is tried, so nothing chosen is worse than that.
template <class Cost>
Range least_cost(const Tally &tally, bool symmetric, const Cost &cost) {
  constexpr double kCoarse = 0.94;
  constexpr int kSteps = 90;  // to 0.4 % of what was seen
  double low = std::min(0.0, static_cast<double>(tally.min())), high = std::max(0.0, static_cast<double>(tally.max()));
  if (symmetric) high = std::max(-low, high), low = -high;
  double best = cost(low, high);
  const auto try_ends = [&](double one, double other) {
    if (const double found = cost(one, other); found < best) {
      best = found, low = one, high = other;
      return true;
    }
    return false;
  };
  const auto sweep = [&](bool upper, double ratio, int from, int to) {
    const double end = upper ? high : low, other = upper ? low : high;
    bool better = false;
    for (int i = from; i <= to; ++i) {
      const double tried = end * real::pow(ratio, i);
      if (i != 0)
        better |= symmetric ? try_ends(-tried, tried) : upper ? try_ends(other, tried) : try_ends(tried, other);
    }
    return better;
  };
  for (int round = 0; round < 4; ++round) {
    bool better = sweep(true, kCoarse, round == 0 ? 0 : -8, round == 0 ? kSteps : 8);
    if (!symmetric && low < 0) better |= sweep(false, kCoarse, round == 0 ? 0 : -8, round == 0 ? kSteps : 8);
    if (!better) break;
  }
  for (const double ratio : {0.985, 0.996})
    for (int round = 0; round < 2; ++round) {
      bool better = sweep(true, ratio, -5, 5);
      if (!symmetric && low < 0) better |= sweep(false, ratio, -5, 5);
      if (!better) break;
    }
  return {low, high};
}

// The divergence of what a quantisation makes of a distribution. The values of one integer come back as any of the bins
// that it stands for with the same probability; values beyond the range count, in the real distribution, as of the
// outermost bin. Sums over bins are differences of sums from the first bin on, so a range costs as much as its
// integers.
class Divergence {
 public:
  Divergence(const Tally &tally, double levels) : tally_(tally), levels_(levels) {
    const std::size_t bins = tally.size();
    count_.assign(bins + 1, 0), used_.assign(bins + 1, 0), information_.assign(bins + 1, 0);
    for (std::size_t i = 0; i < bins; ++i) {
      const auto count = static_cast<double>(tally[i]);
      count_[i + 1] = count_[i] + count;
      used_[i + 1] = used_[i] + (count > 0);
      information_[i + 1] = information_[i] + (count > 0 ? count * real::log(count) : 0);
    }
  }

  double of(double low, double high) const {
    const double all = count_.back();
    // Bins that the range ends in are within it.
    std::size_t first = bin(std::floor(place(low))), end = std::max(bin(std::floor(place(high)) + 1), first);
    while (first < end && tally_[first] == 0) ++first;
    while (end > first && tally_[end - 1] == 0) --end;
    const double kept = count_[end] - count_[first];
    // Where values are few or much alike, what is left of them is distributed like itself however much is cut off.
    constexpr double kMostClipped = 0.01;
    if (kept <= 0 || all - kept > kMostClipped * all) return std::numeric_limits<double>::infinity();
    // sum of p log p, where the outermost bins have what lies beyond them too
    const double left = count_[first], right = all - count_[end];
    double divergence = information_[end] - information_[first];
    const auto with = [&](std::size_t at, double more) {
      const auto count = static_cast<double>(tally_[at]);
      return (count + more) * real::log(count + more) - count * real::log(count);
    };
    if (first + 1 == end) divergence += with(first, left + right);
    else divergence += with(first, left) + with(end - 1, right);
    divergence -= all * real::log(all);
    // minus the sum of p log q
    const double per_level = (high - low) / levels_ / tally_.width();
    const double origin = place(low);
    std::size_t from = first;
    while (from < end) {
      const double level = std::floor((static_cast<double>(from) + 0.5 - origin) / per_level);
      auto to = static_cast<std::size_t>(std::max(0.0, std::ceil(origin + (level + 1) * per_level - 0.5)));
      to = std::clamp(to, from + 1, end);
      const double count = count_[to] - count_[from], bins = used_[to] - used_[from];
      if (count > 0) {
        const double real = count + (from == first ? left : 0) + (to == end ? right : 0);
        divergence -= real * real::log(count / (bins * kept));
      }
      from = to;
    }
    return std::max(divergence / all, 1e-12);  // less is the rounding of these sums
  }

 private:
  double place(double value) const { return (value - tally_.edge(0)) / tally_.width(); }
  std::size_t bin(double place) const {
    return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(tally_.size())));
  }

  const Tally &tally_;
  const double levels_;
  Vector<double> count_, used_, information_;  // of all bins before each
};

}  // namespace

Range percentile_range(const Tally &tally, double percentile, bool symmetric) {
  if (tally.size() == 0) return {};
  const auto values = static_cast<double>(tally.finite() - tally.zeros());
  const double tail = values * (100 - percentile) / 100;
  if (symmetric) {
    const double reach = symmetric_cut(tally, tail);
    return {-reach, reach};
  }
  return widened({cut(tally, tail / 2, true), cut(tally, tail / 2, false)}, false);
}

Range entropy_range(const Tally &tally, const Grid &grid) {
  if (tally.size() == 0) return {};
  const qir::IntegerRange integers = qir::integer_range(grid.dtype);
  const Divergence divergence(tally, static_cast<double>(integers.high - integers.low) + 1);
  return least_cost(tally, grid.symmetric, [&](double low, double high) { return divergence.of(low, high); });
}

Range least_squares_range(const Tally &tally, const Grid &grid) {
  if (tally.size() == 0) return {};
  const NoiseModel model(tally);
  return least_cost(tally, grid.symmetric, [&](double low, double high) {
    return model.noise(encode({low, high}, grid)).total();
  });
}

Histogram plotted(const Tally &tally) {
  constexpr std::size_t kBars = 128;
  Histogram out{static_cast<double>(tally.min()), static_cast<double>(tally.max()), Vector<std::uint64_t>(kBars, 0)};
  if (tally.size() == 0 || out.low == out.high) {
    out.counts.assign(1, tally.finite());
    return out;
  }
  const auto bar = [&](double value) {
    const double place = (value - out.low) / (out.high - out.low) * static_cast<double>(kBars);
    return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(kBars - 1)));
  };
  for (std::size_t i = 0; i < tally.size(); ++i)
    if (tally[i]) out.counts[bar(tally.edge(i) + tally.width() / 2)] += tally[i];
  out.counts[bar(0)] += tally.zeros();
  return out;
}

// ---- the observer -------------------------------------------------------------------------------

namespace {

class TallyObserver final : public Observer {
 public:
  explicit TallyObserver(const RangeSettings &settings) : settings_(settings) {}

  void observe(std::span<const float> values, const Extremes &extremes) override {
    next_ = {}, extremes_ = extremes;
    next_.add(values, extremes);
  }
  void keep() override {
    tally_.merge(next_);
    next_ = {};
    if (!(extremes_.low <= extremes_.high)) return;  // no values
    const double weight = samples_++ == 0 ? 1 : settings_.momentum;
    mean_.low += weight * (static_cast<double>(extremes_.low) - mean_.low);
    mean_.high += weight * (static_cast<double>(extremes_.high) - mean_.high);
  }

  Range range(const Grid &grid) const override { return range(grid, settings_.method); }
  Range range(const Grid &grid, RangeMethod method) const override {
    switch (method) {
      case RangeMethod::MinMax:
      case RangeMethod::Measured: break;
      case RangeMethod::MovingAverage: return widened(mean_, grid.symmetric);
      case RangeMethod::Percentile: return percentile_range(tally_, settings_.percentile, grid.symmetric);
      case RangeMethod::Entropy: return entropy_range(tally_, grid);
      case RangeMethod::LeastSquares: return least_squares_range(tally_, grid);
    }
    return widened(seen(), grid.symmetric);
  }

  Range seen() const override { return {static_cast<double>(tally_.min()), static_cast<double>(tally_.max())}; }
  Histogram histogram() const override { return plotted(tally_); }
  Loss loss(const Encoding &encoding) const override {
    const NoiseModel model(tally_);
    const auto finite = static_cast<double>(tally_.finite());
    return {finite > 0 ? model.noise(encoding).clipped / finite : 0, model.sqnr(encoding)};
  }

  void save(Vector<std::uint8_t> &out) const override {
    const Saved head = {mean_.low, mean_.high, samples_};
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(&head);
    out.insert(out.end(), bytes, bytes + sizeof head);
    tally_.save(out);
  }

  Status restore(std::span<const std::uint8_t> bytes) override {
    Saved head;
    Tally tally;
    const bool fits = bytes.size() >= sizeof head && tally.restore(bytes.subspan(sizeof head));
    if (fits) std::memcpy(&head, bytes.data(), sizeof head);
    if (!fits || !std::isfinite(head.low) || !std::isfinite(head.high) || head.low > head.high)
      return Status::error(ErrorId::bad_argument,
                           "a calibration's state: found bytes that are none, expected what was saved");
    tally_ = std::move(tally), mean_ = {head.low, head.high}, samples_ = head.samples;
    return {};
  }

 private:
  struct Saved {
    double low, high;
    std::uint64_t samples;
  };

  const RangeSettings settings_;
  Tally tally_, next_;  // of all samples that count; of the one that is to
  Extremes extremes_{};
  Range mean_;
  std::uint64_t samples_ = 0;
};

}  // namespace

Unique<Observer> make_observer(const RangeSettings &settings) {
  return Unique<Observer>(make_unique<TallyObserver>(settings).release());
}

}  // namespace quarry::quantize
