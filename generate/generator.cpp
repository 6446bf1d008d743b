// SPDX-License-Identifier: Apache-2.0
#include "generate/generator.h"

#include <algorithm>

#include "base/side_edge.h"

namespace quarry::generate {

Status Generator::check_tokens(const char *function, std::span<const std::int64_t> tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::uint64_t most = decoder_->vocabulary();
    if (tokens[i] >= 0 && (most == 0 || static_cast<std::uint64_t>(tokens[i]) < most)) continue;
    return Status::error(
        ErrorId::bad_argument,
        most ? format("%s: token %zu: found %lld, expected one under %llu", function, i, tokens[i], most)
             : format("%s: token %zu: found %lld, expected one from 0 on", function, i, tokens[i]),
        "tokens are of the model's own vocabulary: take the tokenizer that it came with");
  }
  return {};
}

Status Generator::full(const char *function, std::uint64_t count) const {
  return Status::error(ErrorId::state_full,
                       format("%s: found %llu tokens, expected at most the %llu that the state has "
                              "room for",
                              function, count, decoder_->capacity()));
}

Status Generator::prompt(std::span<const std::int64_t> tokens, const qr_run_options &run) {
  const char *function = "qr_generator_prompt";
  if (tokens.empty()) return Status::error(ErrorId::bad_argument, format("%s: found no token, expected one", function));
  QR_RETURN_IF_ERROR(check_tokens(function, tokens));
  if (!decoder_->has_room(tokens.size())) return full(function, tokens.size());
  const std::span<const std::int64_t> ran = std::span(tokens_).first(static_cast<std::size_t>(decoder_->length()));
  std::size_t common = index_of(std::ranges::mismatch(ran, tokens).in1 - ran.begin());
  const bool is_same = common == tokens.size() && tokens_.size() == tokens.size() && has_logits_;
  if (common == tokens.size() && !is_same) --common;  // the last is run once more, for its logits
  Status rewound = decoder_->rewind(common);
  if (rewound.code() == QR_UNSUPPORTED) common = 0, rewound = decoder_->rewind(0);
  if (!rewound.ok()) return rewound;
  tokens_.assign(tokens.begin(), tokens.end());
  has_logits_ = is_same;
  reused_ = decoder_->keeps() ? common : 0;
  if (is_same) return {};
  Status fed = decoder_->feed(tokens_, run);
  has_logits_ = fed.ok();
  // What was not run is forgotten: the same prompt goes on behind the rest.
  if (!fed.ok()) tokens_.resize(static_cast<std::size_t>(decoder_->length()));
  return fed;
}

Status Generator::need_logits(const qr_run_options &run) {
  if (tokens_.empty())
    return Status::error(ErrorId::no_prompt, "the generator: found no tokens to go on from, expected a prompt");
  QR_RETURN_IF_ERROR(side::from_library(qr_signal_check(run.signal)));
  if (has_logits_) return {};
  if (is_full()) return full("the generator", tokens_.size());
  // After a rewind the state has them all, and nobody the logits.
  if (decoder_->length() == tokens_.size()) QR_RETURN_IF_ERROR(decoder_->rewind(tokens_.size() - 1));
  QR_RETURN_IF_ERROR(decoder_->feed(tokens_, run));
  has_logits_ = true;
  return {};
}

Result<std::span<const float>> Generator::logits(const qr_run_options &run) {
  QR_RETURN_IF_ERROR(need_logits(run));
  return decoder_->logits();
}

Status Generator::accept(std::int64_t token) {
  QR_RETURN_IF_ERROR(check_tokens("qr_generator_accept", {&token, 1}));
  tokens_.push_back(token);
  has_logits_ = false;
  return {};
}

Result<Generator::Step> Generator::step(const qr_run_options &run) {
  if (!tokens_.empty() && is_full()) return Step{-1, QR_END_CAPACITY};
  QR_RETURN_IF_ERROR(need_logits(run));
  Step out;
  QR_ASSIGN_OR_RETURN(out.token, sampler_.pick(decoder_->logits(), tokens_));
  QR_RETURN_IF_ERROR(accept(out.token));
  if (std::ranges::find(settings_.stop_tokens, out.token) != settings_.stop_tokens.end()) out.end = QR_END_STOP_TOKEN;
  return out;
}

Result<Generator::Outcome> Generator::run(const qr_run_options &run, const qr_token_sink &sink) {
  Outcome out;
  while (out.end == QR_END_NONE) {
    if (settings_.most_new && out.count == settings_.most_new) {
      out.end = QR_END_LENGTH;
      break;
    }
    Result<Step> made = step(run);
    if (!made.ok()) {
      if (made.status().code() == QR_CANCELLED) out.end = QR_END_ABORTED;
      else if (made.status().code() == QR_DEADLINE_EXCEEDED) out.end = QR_END_DEADLINE;
      else return made.take_status();
      break;
    }
    out.end = made->end;
    if (out.end != QR_END_CAPACITY) ++out.count;
    if (out.end == QR_END_NONE && sink.token && sink.token(sink.self, made->token) != QR_GO_ON)
      out.end = QR_END_CALLBACK;
  }
  return out;
}

Status Generator::rewind(std::uint64_t length) {
  if (length > tokens_.size())
    return Status::error(ErrorId::index_out_of_range, format("qr_generator_rewind: found a length of %llu, expected at "
                                                             "most the sequence's, %zu",
                                                             length, tokens_.size()));
  if (length < decoder_->length()) QR_RETURN_IF_ERROR(decoder_->rewind(length));
  has_logits_ &= length == tokens_.size();
  tokens_.resize(static_cast<std::size_t>(length));
  if (length == 0) sampler_.reset();
  return {};
}

Status Generator::restore(std::span<const std::int64_t> tokens) {
  QR_RETURN_IF_ERROR(check_tokens("qr_generator_restore", tokens));
  Vector<std::int64_t> copy(tokens.begin(), tokens.end());
  QR_RETURN_IF_ERROR(decoder_->restored(copy.size()));
  tokens_ = std::move(copy);
  has_logits_ = false;
  return {};
}

qr_sequence_info Generator::sequence() const noexcept {
  qr_sequence_info info = QR_SEQUENCE_INFO_INIT;
  info.tokens = tokens_.data();
  info.count = tokens_.size();
  info.run = decoder_->keeps() ? decoder_->length() : 0;
  info.reused = reused_;
  info.capacity = decoder_->capacity();
  info.vocabulary = decoder_->vocabulary();
  return info;
}

}  // namespace quarry::generate
