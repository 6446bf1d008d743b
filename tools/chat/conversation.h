// SPDX-License-Identifier: Apache-2.0
// Prompts and answers, one after the other, on one generator: `quarry chat`.
#pragma once

#include <quarry/generate.hpp>

#include <optional>
#include <string>
#include <vector>

#include "tools/chat/tokenizer.h"
#include "tools/chat/turns.h"

namespace tools {

struct ConversationSettings {
  std::string system;
  std::vector<std::string> stops;  // texts that end an answer
  bool prints_tokens = false, prints_stats = false;
};

class Conversation {
 public:
  // `tokenizer`: none where prompts and answers are tokens.
  Conversation(const qr::Runtime &runtime, qr::Generator generator, std::optional<Tokenizer> tokenizer, Turns turns,
               ConversationSettings settings);
  // Prints the answer as it comes. Ctrl-C ends it; false: something else asks the program to end.
  bool answer(const std::string &prompt);
  bool answer(const std::vector<int64_t> &prompt);

 private:
  struct Timing;
  bool run(std::vector<int64_t> tokens);
  qr::Generator::Outcome generate(const std::vector<int64_t> &tokens, Timing &timing);
  bool take(int64_t token, TextStream *stream);
  void say(const std::string &text);
  void tell(const qr::Generator::Outcome &outcome, const Timing &timing);

  qr::Signal signal_;
  qr::Generator generator_;
  std::optional<Tokenizer> tokenizer_;
  const Turns turns_;
  const ConversationSettings settings_;
  std::vector<int64_t> tokens_;  // the whole conversation
  // Of this answer:
  std::string said_;
  uint64_t taken_ = 0;
  bool stopped_by_text_ = false;
};

// "1,2,3" or "1 2 3". Throws UsageError; `what`: "--ids".
std::vector<int64_t> read_tokens(const std::string &text, const std::string &what);

}  // namespace tools
