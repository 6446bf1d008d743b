// SPDX-License-Identifier: Apache-2.0
#include "tools/chat/conversation.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "tools/console/failure.h"
#include "tools/console/interrupt.h"
#include "tools/console/output.h"

namespace tools {
namespace {

using AnswerClock = std::chrono::steady_clock;

double seconds_between(AnswerClock::time_point from, AnswerClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

const char *end_text(qr_end_reason end) {
  switch (end) {
    case QR_END_STOP_TOKEN: return "a stop token";
    case QR_END_LENGTH: return "--max-tokens";
    case QR_END_CAPACITY: return "the end of the context";
    case QR_END_CALLBACK: return "a stop text";
    default: return "Ctrl-C";
  }
}

}  // namespace

struct Conversation::Timing {
  AnswerClock::time_point begin = AnswerClock::now(), first = begin, end = begin;
};

std::vector<int64_t> read_tokens(const std::string &text, const std::string &what) {
  std::vector<int64_t> tokens;
  for (size_t at = 0; (at = text.find_first_not_of(", \t\r", at)) != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(", \t\r", at), text.size());
    int64_t token = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + end, token);
    if (read.ec != std::errc() || read.ptr != text.data() + end || token < 0)
      throw UsageError(what + ": found '" + text.substr(at, end - at) + "', expected tokens: whole numbers from 0 on",
                       "1,2,3 are three; --tokenizer FILE makes them of texts");
    tokens.push_back(token);
    at = end;
  }
  return tokens;
}

Conversation::Conversation(const qr::Runtime &runtime, qr::Generator generator, std::optional<Tokenizer> tokenizer,
                           Turns turns, ConversationSettings settings)
    : signal_(runtime),
      generator_(std::move(generator)),
      tokenizer_(std::move(tokenizer)),
      turns_(std::move(turns)),
      settings_(std::move(settings)) {}

bool Conversation::answer(const std::string &prompt) {
  const bool is_first = tokens_.empty();
  const std::optional<int64_t> end = turns_.end().empty() ? std::nullopt : tokenizer_->find(turns_.end());
  const bool has_ended = !is_first && end && tokens_.back() == *end;
  const std::string text = is_first ? turns_.first(settings_.system, prompt) : turns_.next(has_ended, prompt);
  const std::vector<int64_t> fresh =
      tokenizer_->encode(text, is_first ? Tokenizer::Special::Around : Tokenizer::Special::Not);
  return answer(fresh);
}

bool Conversation::answer(const std::vector<int64_t> &prompt) {
  std::vector<int64_t> tokens = tokens_;
  tokens.insert(tokens.end(), prompt.begin(), prompt.end());
  return run(std::move(tokens));
}

void Conversation::say(const std::string &text) {
  if (text.empty()) return;
  print_text(text);
  std::fflush(standard_output());
}

// Whether another is wanted.
bool Conversation::take(int64_t token, TextStream *stream) {
  if (!stream || settings_.prints_tokens) say((taken_ ? " " : "") + std::to_string(token));
  ++taken_;
  if (!stream) return true;
  const std::string text = stream->push(token, stopped_by_text_);
  if (!settings_.prints_tokens) say(text);
  said_ += text;
  return !stopped_by_text_;
}

qr::Generator::Outcome Conversation::generate(const std::vector<int64_t> &tokens, Timing &timing) {
  std::optional<TextStream> stream;
  if (tokenizer_) stream.emplace(tokenizer_->stream(settings_.stops));
  const qr::Status prompted = generator_.try_prompt(tokens.data(), tokens.size(), &signal_);
  if (prompted.code() == QR_CANCELLED) return {0, QR_END_ABORTED};
  qr::check(prompted);
  bool has_first = false;
  const qr::Generator::Outcome outcome = generator_.run(
      [&](int64_t token) {
        if (!has_first) timing.first = AnswerClock::now(), has_first = true;
        return take(token, stream ? &*stream : nullptr);
      },
      &signal_);
  timing.end = AnswerClock::now();
  if (stream && !stopped_by_text_ && !settings_.prints_tokens) say(stream->finish());
  return outcome;
}

bool Conversation::run(std::vector<int64_t> tokens) {
  said_.clear(), taken_ = 0, stopped_by_text_ = false;
  Timing timing;
  qr::Generator::Outcome outcome;
  {
    const Interruptible interruptible([this] { signal_.abort(); });
    outcome = generate(tokens, timing);
  }
  signal_.reset();
  print("\n");
  std::fflush(standard_output());
  const qr_sequence_info sequence = generator_.sequence();
  if (stopped_by_text_) {  // the stop text is no part of the conversation
    const std::vector<int64_t> said = tokenizer_->encode(said_, Tokenizer::Special::Not);
    tokens.insert(tokens.end(), said.begin(), said.end());
    tokens_ = std::move(tokens);
  } else if (sequence.count >= tokens.size()) {
    tokens_.assign(sequence.tokens, sequence.tokens + sequence.count);
  }  // else the prompt was stopped: it is as if it had not been
  tell(outcome, timing);
  return !interrupted() || forget_ctrl_c();
}

void Conversation::tell(const qr::Generator::Outcome &outcome, const Timing &timing) {
  const qr_sequence_info sequence = generator_.sequence();
  if (outcome.end == QR_END_CAPACITY)
    std::fprintf(stderr, "quarry: the context is full at %llu tokens: -O state.capacity=N makes room for more\n",
                 static_cast<unsigned long long>(sequence.capacity));
  if (!settings_.prints_stats) return;
  // The first comes with the prompt; the others have the time behind it.
  const double all = seconds_between(timing.first, timing.end);
  const double rate = outcome.count > 1 && all > 0 ? static_cast<double>(outcome.count - 1) / all : 0;
  const uint64_t prompt = sequence.count - std::min(sequence.count, outcome.count);
  std::fprintf(
      stderr,
      "quarry: prompt of %llu tokens, %llu of them known; first token after %.1f ms; %llu tokens, %.1f tokens/s; "
      "ended by %s\n",
      static_cast<unsigned long long>(prompt), static_cast<unsigned long long>(sequence.reused),
      1e3 * seconds_between(timing.begin, timing.first), static_cast<unsigned long long>(outcome.count), rate,
      end_text(outcome.end));
}

}  // namespace tools
