// SPDX-License-Identifier: Apache-2.0
// A sequence of tokens and a decoder that goes on with it: what a qr_generator does.
#pragma once

#include "generate/model/decoder.h"
#include "generate/sampling/sampler.h"

namespace quarry::generate {

class Generator : public HeapObject {
 public:
  struct Settings {
    Vector<std::int64_t> stop_tokens;
    std::uint64_t most_new = 0;  // 0: no end
  };
  Generator(Unique<Decoder> decoder, const qr_sampler_options &sampler, Settings settings)
      : decoder_(std::move(decoder)), sampler_(sampler), settings_(std::move(settings)) {}

  Status prompt(std::span<const std::int64_t> tokens, const qr_run_options &run);
  struct Step {
    std::int64_t token = -1;
    qr_end_reason end = QR_END_NONE;
  };
  Result<Step> step(const qr_run_options &run);
  struct Outcome {
    std::uint64_t count = 0;
    qr_end_reason end = QR_END_NONE;
  };
  Result<Outcome> run(const qr_run_options &run, const qr_token_sink &sink);
  Result<std::span<const float>> logits(const qr_run_options &run);
  Status accept(std::int64_t token);
  Status rewind(std::uint64_t length);
  Status restore(std::span<const std::int64_t> tokens);
  Result<qr_state *> state() { return decoder_->share_state(); }
  qr_sequence_info sequence() const noexcept;

 private:
  Status check_tokens(const char *function, std::span<const std::int64_t> tokens) const;
  Status full(const char *function, std::uint64_t count) const;
  Status need_logits(const qr_run_options &run);
  bool is_full() const noexcept { return !has_logits_ && !decoder_->has_room(tokens_.size()); }

  Unique<Decoder> decoder_;
  Sampler sampler_;
  const Settings settings_;
  Vector<std::int64_t> tokens_;  // the decoder has the first length() of them
  std::uint64_t reused_ = 0;
  bool has_logits_ = false;  // the decoder's are of what follows the sequence
};

}  // namespace quarry::generate
