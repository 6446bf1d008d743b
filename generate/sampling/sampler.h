// SPDX-License-Identifier: Apache-2.0
// A token from logits, by the steps and in the order of transformers' logits processors.
#pragma once

#include <span>

#include "base/status.h"
#include "quarry/generate.h"

namespace quarry::generate {

Status check_sampler_options(const char *function, const qr_sampler_options &options);

class Sampler : public HeapObject {
 public:
  explicit Sampler(const qr_sampler_options &options) noexcept : options_(options) {}
  // `before`: the tokens that were there, for the repetition penalty. On failure nothing is drawn.
  Result<std::int64_t> pick(std::span<const float> logits, std::span<const std::int64_t> before);
  void reset() noexcept { drawn_ = 0; }

 private:
  struct Candidate {
    std::int64_t token;
    double score;  // a logit, then how often it comes beside others
  };
  Status check(std::span<const float> logits) const;
  void penalise(std::span<const std::int64_t> before);
  std::int64_t largest() const noexcept;
  void keep_top_k();
  void make_weights() noexcept;
  void keep_top_p();
  void keep_min_p() noexcept;
  void sort_first(std::size_t count);
  double draw() noexcept;

  const qr_sampler_options options_;
  std::uint64_t drawn_ = 0;
  Vector<Candidate> left_;
};

}  // namespace quarry::generate
