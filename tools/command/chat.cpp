// SPDX-License-Identifier: Apache-2.0
// quarry chat: a language model goes on with what is typed.
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/os/console.h"
#include "tools/chat/conversation.h"
#include "tools/chat/generate_library.h"
#include "tools/console/command.h"
#include "tools/console/usage.h"

namespace tools {
namespace {

struct ChatFlags {
  SessionFlags session;
  AdapterFlags adapter;
  std::string model, tokenizer, ids, system, form = "none", names;
  std::vector<std::string> stops, stop_tokens;
  double temperature = 0, top_p = 0, min_p = 0, repetition_penalty = 0;
  uint64_t top_k = 0, seed = 0, max_tokens = 512;
  bool prints_tokens = false, prints_stats = false;
};

// The session of a decoder keeps its cache. One that has none runs all tokens for each.
qr::Session decoder_session(const ChatFlags &flags, const qr::Runtime &runtime) {
  qr::Options options = flags.session.make_options(runtime);
  const bool is_ours = options.value("state").empty();
  if (is_ours) options.set("state", "auto");
  const qr::Model model(runtime, model_source(flags.model), &options);
  qr::Result<qr::Session> made = qr::Session::try_create(model, &options);
  const std::string_view id = made ? "" : made.status().id();
  if (!is_ours || id != "QR-R0021") return std::move(made).value();
  options.unset("state");
  qr::Session session(model, &options);
  std::fprintf(stderr,
               "quarry: the model has no cache that goes by its name: all tokens are run for each (-O state=)\n");
  return session;
}

std::vector<int64_t> stop_tokens(const ChatFlags &flags, const std::optional<Tokenizer> &tokenizer,
                                 const Turns &turns) {
  std::vector<int64_t> tokens;
  for (const std::string &given : flags.stop_tokens) {
    std::optional<int64_t> found = tokenizer ? tokenizer->find(given) : std::nullopt;
    if (found) tokens.push_back(*found);
    else
      for (const int64_t token : read_tokens(given, "--stop-token")) tokens.push_back(token);
  }
  if (!tokenizer || !flags.stop_tokens.empty()) return tokens;
  std::vector<std::string> ends = usual_ends();
  if (!turns.end().empty()) ends.push_back(turns.end());
  for (const std::string &end : ends)
    if (const std::optional<int64_t> found = tokenizer->find(end)) tokens.push_back(*found);
  return tokens;
}

qr::Generator generator_of(const ChatFlags &flags, const qr::Session &session, const std::vector<int64_t> &stops) {
  qr_sampler_options sampler = QR_SAMPLER_OPTIONS_INIT;
  sampler.temperature = static_cast<float>(flags.temperature);
  sampler.top_k = static_cast<uint32_t>(flags.top_k);
  sampler.top_p = static_cast<float>(flags.top_p), sampler.min_p = static_cast<float>(flags.min_p);
  sampler.repetition_penalty = static_cast<float>(flags.repetition_penalty);
  sampler.seed = flags.seed;
  qr_generator_options options = QR_GENERATOR_OPTIONS_INIT;
  options.sampler = &sampler;
  options.stop_tokens = stops.data(), options.stop_token_count = stops.size();
  options.max_new_tokens = flags.max_tokens;
  options.names = qr::to_c(flags.names);
  return qr::Generator(session, options);
}

void check_flags(const ChatFlags &flags, const Turns &turns) {
  if (flags.ids.empty() && flags.tokenizer.empty() && quarry::os::is_terminal(0))
    throw UsageError("chat: found no --tokenizer, expected one for texts",
                     "--tokenizer tokenizer.json, which lies beside the model as a rule; or --ids 1,2,3");
  if (flags.model == "-" && flags.ids.empty())
    throw UsageError("chat: found '-' for the model, expected a file: prompts are read from standard input",
                     "give the model by its name");
  if (!flags.system.empty() && !turns.takes_system())
    throw UsageError("--system: found --template " + flags.form + ", expected one with a place for it",
                     "--template chatml, or a text with {system} in it");
  if (flags.tokenizer.empty() && flags.form != "none")
    throw UsageError("--template: found no --tokenizer, expected one, as it is a text", "give the roles as tokens");
  if (flags.tokenizer.empty() && !flags.stops.empty())
    throw UsageError("--stop: found no --tokenizer, expected one, as it is a text", "--stop-token takes a token");
}

int chat(const ChatFlags &flags) {
  const Turns turns(flags.form);
  check_flags(flags, turns);
  const std::vector<int64_t> ids = read_tokens(flags.ids, "--ids");
#if !defined(QR_STATIC_GENERATE)
  open_generate_library();
#endif
  std::optional<Tokenizer> tokenizer;
  if (!flags.tokenizer.empty()) tokenizer.emplace(flags.tokenizer);
  const std::vector<int64_t> stops = stop_tokens(flags, tokenizer, turns);
  const bool of_texts = tokenizer.has_value();
  const qr::Runtime runtime = flags.session.runtime();
  qr::Session session = decoder_session(flags, runtime);
  flags.adapter.apply(session);
  Conversation conversation(runtime, generator_of(flags, session, stops), std::move(tokenizer), turns,
                            {flags.system, flags.stops, flags.prints_tokens, flags.prints_stats});
  if (!flags.ids.empty()) return conversation.answer(ids), 0;
  const bool is_typed = quarry::os::is_terminal(0);
  std::string line;
  while (is_typed && std::fputs("> ", stderr), std::getline(std::cin, line)) {
    if (line.empty()) continue;
    if (!(of_texts ? conversation.answer(line) : conversation.answer(read_tokens(line, "standard input")))) break;
  }
  return 0;
}

void add_sampling(CLI::App &command, ChatFlags &flags) {
  command
      .add_option("--temperature", flags.temperature, "Logits are divided by it; 0: the most probable token is taken")
      ->type_name("NUMBER")
      ->check(number(Sign::NotNegative))
      ->capture_default_str();
  command.add_option("--top-k", flags.top_k, "Draw from the so many most probable tokens; 0: from all")
      ->type_name("N")
      ->check(whole_number(0, UINT32_MAX))
      ->capture_default_str();
  command.add_option("--top-p", flags.top_p, "Draw from the most probable ones that have this together; 0: from all")
      ->type_name("NUMBER")
      ->check(number(Sign::NotNegative))
      ->capture_default_str();
  command
      .add_option("--min-p", flags.min_p,
                  "Draw from those that are at least so probable as this times the most probable; 0: from all")
      ->type_name("NUMBER")
      ->check(number(Sign::NotNegative))
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", flags.repetition_penalty,
                  "Tokens that were there become less probable by it, where it is over 1; 0: none")
      ->type_name("NUMBER")
      ->check(number(Sign::NotNegative))
      ->capture_default_str();
  command.add_option("--seed", flags.seed, "What is drawn follows from it, on every machine")
      ->type_name("N")
      ->check(whole_number(0))
      ->capture_default_str();
}

}  // namespace

void register_chat(CLI::App &app, Action &action) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App *command = app.add_subcommand(
      "chat", "A language model goes on with what is typed; Ctrl-C ends an answer, the end of the input the program");
  command->add_option("model", flags->model, "Model: a decoder, .onnx or .qrm")->required()->type_name("MODEL");
  command
      ->add_option("--tokenizer", flags->tokenizer,
                   "The model's tokenizer.json; prompts are texts then, one a line, else tokens, 1,2,3")
      ->type_name("FILE");
  command->add_option("--ids", flags->ids, "One prompt of tokens, in place of standard input")->type_name("ID,...");
  command
      ->add_option("--template", flags->form,
                   "What the model wants around a prompt: none, chatml, llama3, gemma, or a text with {prompt}, and "
                   "{system} before it")
      ->type_name("TEXT")
      ->capture_default_str();
  command->add_option("--system", flags->system, "What the model is to be like, for a template with {system}")
      ->type_name("TEXT");
  command->add_option("--max-tokens", flags->max_tokens, "Tokens of an answer at most; 0: until something ends it")
      ->type_name("N")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--stop", flags->stops, "A text that ends an answer; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command
      ->add_option("--stop-token", flags->stop_tokens,
                   "A token that ends an answer, as a number or by its name; may be given several times (default: the "
                   "tokenizer's </s>, <|im_end|> and their like)")
      ->type_name("TOKEN")
      ->allow_extra_args(false);
  add_sampling(*command, *flags);
  command->add_flag("--tokens", flags->prints_tokens, "Print tokens and not their text");
  command->add_flag("--stats", flags->prints_stats, "Say after each answer how long it took, on standard error");
  command
      ->add_option("--names", flags->names,
                   "Where the model's inputs are called otherwise: input_ids=NAME,logits=NAME (quarry/generate.h)")
      ->type_name("TEXT");
  flags->adapter.add_to(*command);
  flags->session.add_to(*command);
  command->callback([&action, flags] { action = [flags] { return chat(*flags); }; });
}

}  // namespace tools
