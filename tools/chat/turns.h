// SPDX-License-Identifier: Apache-2.0
// What a model of conversations wants around a prompt: the roles, as a text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tools {

class Turns {
 public:
  // "none", the name of one that is known, or a text with {prompt} in it. Throws UsageError.
  explicit Turns(const std::string &form);
  // The text of the first prompt, with what the model is to be like before it; of a later one, behind an answer that
  // ended by itself or was cut off.
  std::string first(const std::string &system, const std::string &prompt) const;
  std::string next(bool has_ended, const std::string &prompt) const;
  bool takes_system() const { return !system_.empty(); }
  // The token that ends an answer; empty: none is known.
  const std::string &end() const { return end_; }

 private:
  std::string system_, prompt_, end_, between_;
};

// Tokens that end an answer of many models.
const std::vector<std::string> &usual_ends();

}  // namespace tools
