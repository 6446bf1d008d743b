// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges/tally.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "quantize/stop.h"

namespace quarry::quantize {
namespace {

// Within these both a bin's width and its reciprocal are normal numbers.
constexpr std::int32_t kLeastExponent = -126, kGreatestExponent = 126;
constexpr std::size_t kBlock = 1024;  // values looked at together: with the counts they fit into the first cache
constexpr auto kRoom = static_cast<std::int32_t>(Tally::kBins);
constexpr std::int32_t kPlacesOfZero = 8;  // behind the bins

// In double: the quotient is exact, so the bin is the same however wide bins were when the value came.
std::int32_t bin_of(float value, std::int32_t exponent) noexcept {
  return static_cast<std::int32_t>(std::floor(std::ldexp(static_cast<double>(value), -exponent)));
}

// The bin that a bin becomes a part of when bins get 2^by times as wide.
std::int32_t joined(std::int32_t bin, std::int32_t by) noexcept { return bin >> std::min(by, 31); }

// The narrowest bins of which kBins reach from `low` to `high`.
std::int32_t least_exponent(float low, float high) noexcept {
  const float reach = std::max(-low, high);
  std::int32_t exponent = kLeastExponent;
  if (reach > 0) exponent = std::clamp(std::ilogb(reach) - 13, kLeastExponent, kGreatestExponent);  // too narrow yet
  while (exponent < kGreatestExponent && bin_of(high, exponent) - bin_of(low, exponent) >= kRoom) ++exponent;
  return exponent;
}

}  // namespace

// In lanes, without branches: compilers make vectors of it.
Extremes extremes_of(std::span<const float> values) noexcept {
  constexpr std::size_t kLanes = 64;  // so many that compilers see a loop
  float low[kLanes], high[kLanes];
  std::uint32_t far[kLanes] = {};
  std::uint64_t beyond = 0;
  std::fill_n(low, kLanes, std::numeric_limits<float>::infinity());
  std::fill_n(high, kLanes, -std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      low[lane] = value < low[lane] ? value : low[lane];
      high[lane] = value > high[lane] ? value : high[lane];
      far[lane] += static_cast<std::uint32_t>(!(std::fabs(value) < kInfinite));
    }
  for (; i < values.size(); ++i) {
    low[0] = values[i] < low[0] ? values[i] : low[0];
    high[0] = values[i] > high[0] ? values[i] : high[0];
    beyond += !(std::fabs(values[i]) < kInfinite);
  }
  for (const std::uint32_t count : far) beyond += count;
  return {*std::min_element(low, low + kLanes), *std::max_element(high, high + kLanes), beyond};
}

double Tally::width() const noexcept { return std::ldexp(1.0, exponent_); }

void Tally::place(std::int32_t exponent, std::int32_t first) {
  Vector<std::uint64_t> counts(kBins + kPlacesOfZero, 0);
  for (std::size_t i = 0; i < size(); ++i)
    if (counts_[i])
      counts[index_of(joined(first_ + static_cast<std::int32_t>(i), exponent - exponent_) - first)] += counts_[i];
  counts_.swap(counts);
  exponent_ = exponent, first_ = first;
}

// Every value that was seen, those from `low` to `high`, and 0 get a bin.
void Tally::make_room(float low, float high) {
  low = std::min({low, min(), 0.0f}), high = std::max({high, max(), 0.0f});
  const std::int32_t exponent = least_exponent(low, high);
  const std::int32_t from = bin_of(low, exponent), to = bin_of(high, exponent);
  if (!counts_.empty() && exponent == exponent_ && from >= first_ && to - first_ < kRoom) return;
  place(exponent, from - (kRoom - 1 - (to - from)) / 2);
}

void Tally::count_bins(std::span<const float> values) {
  const float per_bin = std::ldexp(1.0f, -exponent_);
  std::int32_t bins[kBlock];
  // The product is exact but where it is too small for a normal number. Then its sign alone matters, which a product
  // that became -0 would lose. Zeros, of which a Relu gives many one behind the other, go to several counters in turn:
  // an addition to a counter waits for the one before.
  const float *from = values.data();
  const auto count = static_cast<std::int32_t>(values.size());
  const std::int32_t first = first_;
  for (std::int32_t i = 0; i < count; ++i) {  // without branches: vectors again
    const float quotient = from[i] * per_bin;
    const auto whole = static_cast<std::int32_t>(quotient);
    const auto below = static_cast<std::int32_t>(static_cast<float>(whole) > quotient);
    const auto lost = static_cast<std::int32_t>(quotient == 0) & static_cast<std::int32_t>(from[i] < 0);
    const std::int32_t is_zero = -static_cast<std::int32_t>(from[i] == 0);
    const std::int32_t bin = whole - (below | lost) - first;
    bins[i] = (bin & ~is_zero) | ((kRoom + (i & (kPlacesOfZero - 1))) & is_zero);
  }
  std::uint64_t *counts = counts_.data();
  for (std::int32_t i = 0; i < count; ++i) ++counts[bins[i]];
}

void Tally::add(std::span<const float> values) { add(values, extremes_of(values)); }

void Tally::add(std::span<const float> values, const Extremes &extremes) {
  if (extremes.beyond == 0) return add_finite(values, extremes.low, extremes.high);
  SeldomAsked asked;
  for (std::size_t at = 0; at < values.size() && !asked.stopped(kBlock); at += kBlock) {
    float finite[kBlock];
    std::size_t count = 0;
    for (const float value : values.subspan(at, std::min(kBlock, values.size() - at)))
      if (std::isfinite(value)) finite[count++] = value;
      else std::isnan(value) ? ++nans_ : ++infinities_;
    const Extremes block = extremes_of({finite, count});
    add_finite({finite, count}, block.low, block.high);
  }
}

void Tally::add_finite(std::span<const float> values, float low, float high) {
  if (values.empty()) return;
  if (low != 0 || high != 0) {
    make_room(low, high);
    SeldomAsked asked;
    for (std::size_t at = 0; at < values.size() && !asked.stopped(kBlock); at += kBlock)
      count_bins(values.subspan(at, std::min(kBlock, values.size() - at)));
    for (std::int32_t i = 0; i < kPlacesOfZero; ++i) zeros_ += std::exchange(counts_[index_of(kRoom + i)], 0);
  } else {
    zeros_ += values.size();
  }
  min_ = finite_ ? std::min(min_, low) : low;
  max_ = finite_ ? std::max(max_, high) : high;
  finite_ += values.size();
}

void Tally::merge(const Tally &other) {
  nans_ += other.nans_, infinities_ += other.infinities_;
  if (other.finite_ == 0) return;
  if (!other.counts_.empty()) {
    make_room(other.min_, other.max_);
    for (std::size_t i = 0; i < other.size(); ++i)
      if (other.counts_[i])
        counts_[index_of(joined(other.first_ + static_cast<std::int32_t>(i), exponent_ - other.exponent_) - first_)] +=
            other.counts_[i];
  }
  min_ = finite_ ? std::min(min_, other.min_) : other.min_;
  max_ = finite_ ? std::max(max_, other.max_) : other.max_;
  finite_ += other.finite_, zeros_ += other.zeros_;
}

// ---- bytes --------------------------------------------------------------------------------------

namespace {

// What stands in front of the counts.
struct Saved {
  std::uint64_t finite, nans, infinities, zeros;
  std::int32_t exponent, first;
  float min, max;
};

}  // namespace

void Tally::save(Vector<std::uint8_t> &out) const {
  const Saved head = {finite_, nans_, infinities_, zeros_, exponent_, first_, min_, max_};
  const auto append = [&](const void *data, std::size_t size) {
    const auto *bytes = static_cast<const std::uint8_t *>(data);
    out.insert(out.end(), bytes, bytes + size);
  };
  append(&head, sizeof head);
  append(counts_.data(), size() * sizeof counts_[0]);
}

bool Tally::restore(std::span<const std::uint8_t> bytes) {
  Saved head;
  if (bytes.size() != sizeof head && bytes.size() != sizeof head + kBins * sizeof counts_[0]) return false;
  std::memcpy(&head, bytes.data(), sizeof head);
  Vector<std::uint64_t> counts((bytes.size() - sizeof head) / sizeof counts_[0]);
  if (!counts.empty()) std::memcpy(counts.data(), bytes.data() + sizeof head, bytes.size() - sizeof head);
  // The same rules as for what was counted here: bins lie where the extremes say, and hold as many values as there are.
  if (!std::isfinite(head.min) || !std::isfinite(head.max) || head.min > head.max || head.zeros > head.finite)
    return false;
  if (counts.empty()) {
    if (head.min != 0 || head.max != 0 || head.finite != head.zeros) return false;
  } else {
    const float low = std::min(head.min, 0.0f), high = std::max(head.max, 0.0f);
    if (head.exponent != least_exponent(low, high)) return false;
    const std::int64_t first = head.first, from = bin_of(low, head.exponent), to = bin_of(high, head.exponent);
    if (first > from || to - first >= kRoom) return false;
    std::uint64_t sum = head.zeros;
    for (std::int32_t i = 0; i < kRoom; ++i) {
      const std::uint64_t count = counts[index_of(i)];
      if ((count && (first + i < from || first + i > to)) || count > head.finite - sum) return false;
      sum += count;
    }
    if (sum != head.finite) return false;
  }
  if (!counts.empty()) counts.resize(kBins + kPlacesOfZero);
  counts_.swap(counts);
  exponent_ = head.exponent, first_ = head.first, min_ = head.min, max_ = head.max;
  finite_ = head.finite, nans_ = head.nans, infinities_ = head.infinities, zeros_ = head.zeros;
  return true;
}

}  // namespace quarry::quantize
