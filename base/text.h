// SPDX-License-Identifier: Apache-2.0
// Text helpers: UTF-8, and the nearest of several words.
#pragma once

#include <cstddef>
#include <string_view>

namespace quarry {

// The length of the UTF-8 sequence that starts at `at`; 0 where there is none (overlong forms and surrogates are none).
std::size_t utf8_sequence(std::string_view text, std::size_t at) noexcept;
bool is_utf8(std::string_view text) noexcept;

// Levenshtein distance with swaps of neighbours, of texts cut to 64 bytes.
std::size_t edit_distance(std::string_view a, std::string_view b) noexcept;

// Keeps the word nearest to the one that was typed; far-fetched ones are no suggestion.
class NearestWord {
 public:
  explicit NearestWord(std::string_view typed) noexcept : typed_(typed), best_(typed.size() / 3 + 2) {}
  void offer(std::string_view word) noexcept;
  std::string_view word() const noexcept { return word_; }  // empty: none is near; borrows what was offered

 private:
  std::string_view typed_, word_;
  std::size_t best_;
};

}  // namespace quarry
