// SPDX-License-Identifier: Apache-2.0
#include "tools/chat/turns.h"

#include "tools/console/failure.h"

namespace tools {
namespace {

struct KnownTurns {
  const char *name, *system, *prompt, *end, *between;
};
constexpr KnownTurns kKnownTurns[] = {
    {"none", "", "{prompt}", "", ""},
    // Qwen, SmolLM, Phi-4 and others
    {"chatml", "<|im_start|>system\n{system}<|im_end|>\n",
     "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>", "\n"},
    {"llama3", "<|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>",
     "<|start_header_id|>user<|end_header_id|>\n\n{prompt}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
     "<|eot_id|>", ""},
    {"gemma", "", "<start_of_turn>user\n{prompt}<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>", "\n"},
};

std::string put_in(std::string text, const std::string &word, const std::string &value) {
  const size_t at = text.find(word);
  return at == std::string::npos ? text : text.replace(at, word.size(), value);
}

// "\n" and "\t", as somebody types them in quotes of a shell.
std::string with_escapes(const std::string &text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == 'n' || text[i + 1] == 't');
    out += is_escape ? (text[i + 1] == 'n' ? '\n' : '\t') : text[i];
    i += is_escape;
  }
  return out;
}

}  // namespace

Turns::Turns(const std::string &form) {
  std::string names;
  for (const KnownTurns &known : kKnownTurns) {
    if (form == known.name) {
      system_ = known.system, prompt_ = known.prompt, end_ = known.end, between_ = known.between;
      return;
    }
    names += std::string(known.name) + ", ";
  }
  if (form.find("{prompt}") == std::string::npos)
    throw UsageError("--template: found '" + form + "', expected " + names + "or a text with {prompt} in it",
                     "'User: {prompt}\\nAssistant:' is one; the model's page says what it was trained with");
  const std::string text = with_escapes(form);
  const size_t system = text.find("{system}"), prompt = text.find("{prompt}");
  // What stands before {prompt} with a {system} in it comes once.
  const size_t once = system == std::string::npos || system > prompt ? 0 : system + std::string("{system}").size();
  system_ = text.substr(0, once), prompt_ = text.substr(once), between_ = "\n";
}

std::string Turns::first(const std::string &system, const std::string &prompt) const {
  return (system.empty() ? "" : put_in(system_, "{system}", system)) + put_in(prompt_, "{prompt}", prompt);
}

std::string Turns::next(bool has_ended, const std::string &prompt) const {
  return (has_ended ? "" : end_) + between_ + put_in(prompt_, "{prompt}", prompt);
}

const std::vector<std::string> &usual_ends() {
  static const std::vector<std::string> ends = {"</s>",       "<|endoftext|>", "<|end_of_text|>", "<|im_end|>",
                                                "<|eot_id|>", "<|eom_id|>",    "<|end|>",         "<end_of_turn>",
                                                "<eos>",      "<|return|>"};
  return ends;
}

}  // namespace tools
