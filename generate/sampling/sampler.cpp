// SPDX-License-Identifier: Apache-2.0
#include "generate/sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "generate/sampling/exact_exp.h"

namespace quarry::generate {

Status check_sampler_options(const char *function, const qr_sampler_options &options) {
  const struct {
    const char *name;
    float value, most;
  } numbers[] = {{"temperature", options.temperature, INFINITY},
                 {"top_p", options.top_p, 1},
                 {"min_p", options.min_p, 1},
                 {"repetition_penalty", options.repetition_penalty, INFINITY}};
  for (const auto &number : numbers)
    if (!(number.value >= 0 && number.value <= number.most && std::isfinite(number.value)))
      return Status::error(ErrorId::bad_argument,
                           format("%s: qr_sampler_options.%s: found %g, expected a number from 0 on%s", function,
                                  number.name, static_cast<double>(number.value), number.most == 1 ? ", to 1" : ""));
  return {};
}

Status Sampler::check(std::span<const float> logits) const {
  if (logits.empty()) return Status::error(ErrorId::bad_logits, "logits: found none, expected one for each token");
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY)
      return Status::error(ErrorId::bad_logits,
                           format("logits: found %s for token %zu of %zu, expected numbers, or minus infinity",
                                  std::isnan(logits[i]) ? "NaN" : "infinity", i, logits.size()),
                           "f16 overflows where f32 does not: quarry diff shows where values stop being numbers");
    any |= logits[i] != -INFINITY;
  }
  if (any) return {};
  return Status::error(
      ErrorId::bad_logits,
      format("logits: found minus infinity for each of %zu tokens, expected one that may be picked", logits.size()));
}

void Sampler::penalise(std::span<const std::int64_t> before) {
  const double penalty = static_cast<double>(options_.repetition_penalty);
  if (penalty == 0 || penalty == 1) return;
  if (options_.repetition_window && before.size() > options_.repetition_window)
    before = before.last(static_cast<std::size_t>(options_.repetition_window));
  Vector<std::int64_t> each(before.begin(), before.end());
  std::sort(each.begin(), each.end());
  each.erase(std::unique(each.begin(), each.end()), each.end());
  for (const std::int64_t token : each) {
    if (token < 0 || index_of(token) >= left_.size()) continue;
    double &score = left_[index_of(token)].score;
    score = score < 0 ? score * penalty : score / penalty;
  }
}

std::int64_t Sampler::largest() const noexcept {
  const auto less = [](const Candidate &a, const Candidate &b) { return a.score < b.score; };
  return std::max_element(left_.begin(), left_.end(), less)->token;  // of several the first
}

// The largest scores first; of several alike the first token.
void Sampler::sort_first(std::size_t count) {
  const auto before = [](const Candidate &a, const Candidate &b) {
    return a.score != b.score ? a.score > b.score : a.token < b.token;
  };
  const auto middle = left_.begin() + static_cast<std::ptrdiff_t>(std::min(count, left_.size()));
  if (middle != left_.end()) std::nth_element(left_.begin(), middle, left_.end(), before);
  std::sort(left_.begin(), middle, before);
}

void Sampler::keep_top_k() {
  const std::size_t most = options_.top_k;
  if (most == 0 || most >= left_.size()) return;
  sort_first(most);
  const double least = left_[most - 1].score;
  std::erase_if(left_, [least](const Candidate &one) { return one.score < least; });
  sort_first(left_.size());
}

// Scores become what they weigh beside the largest, whose weight is 1.
void Sampler::make_weights() noexcept {
  const double temperature = static_cast<double>(options_.temperature);
  double high = -INFINITY;
  for (const Candidate &one : left_) high = std::max(high, one.score);
  for (Candidate &one : left_) one.score = exact_exp((one.score - high) / temperature);
}

void Sampler::keep_top_p() {
  const double wanted = static_cast<double>(options_.top_p);
  if (wanted == 0 || wanted == 1) return;
  double all = 0, sum = 0;
  for (const Candidate &one : left_) all += one.score;
  // Few of a large vocabulary are enough as a rule: more and more of them are sorted until they are.
  for (std::size_t sorted = 64, at = 0;; sorted *= 8) {
    sort_first(sorted);
    for (; at < std::min(sorted, left_.size()); ++at) {
      if (at > 0 && sum >= wanted * all) {
        left_.resize(at);
        return;
      }
      sum += left_[at].score;
    }
    if (sorted >= left_.size()) return;
  }
}

void Sampler::keep_min_p() noexcept {
  const double least = static_cast<double>(options_.min_p);  // of the largest, which weighs 1
  std::erase_if(left_, [least](const Candidate &one) { return one.score < least; });
}

// From 0 to 1, without 1: number `drawn_` of the seed's row (SplitMix64).
double Sampler::draw() noexcept {
  std::uint64_t bits = options_.seed + ++drawn_ * 0x9e3779b97f4a7c15ull;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
  return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-53;
}

Result<std::int64_t> Sampler::pick(std::span<const float> logits, std::span<const std::int64_t> before) {
  QR_RETURN_IF_ERROR(check(logits));
  left_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    left_[i] = {static_cast<std::int64_t>(i), static_cast<double>(logits[i])};
  penalise(before);
  if (options_.temperature == 0) return largest();
  keep_top_k();
  make_weights();
  keep_top_p();
  keep_min_p();
  double all = 0, sum = 0;
  for (const Candidate &one : left_) all += one.score;
  const double wanted = draw() * all;
  for (const Candidate &one : left_)
    if ((sum += one.score) > wanted) return one.token;
  return left_.back().token;
}

}  // namespace quarry::generate
