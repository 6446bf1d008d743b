// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, by libquarry-tokenizer, which is opened for it.
#pragma once

#include <quarry/tokenizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tools {

class TextStream {
 public:
  TextStream(qr_text_stream *taken) : stream_(taken) {}
  // The text that is certain; `stopped`: a stop text has come.
  std::string push(int64_t token, bool &stopped);
  std::string finish();

 private:
  struct Free {
    void operator()(qr_text_stream *stream) const;
  };
  std::unique_ptr<qr_text_stream, Free> stream_;
};

class Tokenizer {
 public:
  // Throws Failure.
  explicit Tokenizer(const std::string &path);
  enum class Special : uint8_t { Around, Not };  // Around: what the model wants around a text, "<s>"
  std::vector<int64_t> encode(const std::string &text, Special special) const;
  std::optional<int64_t> find(const std::string &token) const;
  TextStream stream(const std::vector<std::string> &stops) const;

 private:
  struct Free {
    void operator()(qr_tokenizer *tokenizer) const;
  };
  std::unique_ptr<qr_tokenizer, Free> tokenizer_;
};

}  // namespace tools
