// SPDX-License-Identifier: Apache-2.0
#include "tools/chat/tokenizer.h"

#include <cstdlib>

#include "tools/console/failure.h"
#include "tools/console/side_library.h"

namespace tools {
namespace {

// QR_TOKENIZER_CALL(result, name, parameters)
#define QR_TOKENIZER_CALLS                                                                                          \
  QR_TOKENIZER_CALL(const char *, qr_tokenizer_error_id, (const qr_tokenizer_error *))                              \
  QR_TOKENIZER_CALL(const char *, qr_tokenizer_error_message, (const qr_tokenizer_error *))                         \
  QR_TOKENIZER_CALL(const char *, qr_tokenizer_error_hint, (const qr_tokenizer_error *))                            \
  QR_TOKENIZER_CALL(void, qr_tokenizer_error_destroy, (qr_tokenizer_error *))                                       \
  QR_TOKENIZER_CALL(qr_tokenizer_error *, qr_tokenizer_open, (qr_string, qr_tokenizer **))                          \
  QR_TOKENIZER_CALL(void, qr_tokenizer_destroy, (qr_tokenizer *))                                                   \
  QR_TOKENIZER_CALL(qr_tokenizer_error *, qr_tokenizer_encode,                                                      \
                    (const qr_tokenizer *, qr_string, uint32_t, int64_t **, uint64_t *))                            \
  QR_TOKENIZER_CALL(void, qr_tokenizer_tokens_destroy, (int64_t *, uint64_t))                                       \
  QR_TOKENIZER_CALL(qr_tokenizer_error *, qr_tokenizer_token, (const qr_tokenizer *, qr_string, int64_t *))         \
  QR_TOKENIZER_CALL(qr_tokenizer_error *, qr_text_stream_create,                                                    \
                    (const qr_tokenizer *, const qr_text_stream_options *, qr_text_stream **))                      \
  QR_TOKENIZER_CALL(qr_tokenizer_error *, qr_text_stream_push, (qr_text_stream *, int64_t, qr_string *, int32_t *)) \
  QR_TOKENIZER_CALL(qr_tokenizer_error *, qr_text_stream_finish, (qr_text_stream *, qr_string *))                   \
  QR_TOKENIZER_CALL(void, qr_text_stream_destroy, (qr_text_stream *))

struct TokenizerCalls {
#define QR_TOKENIZER_CALL(result, name, parameters) result(*name) parameters;
  QR_TOKENIZER_CALLS
#undef QR_TOKENIZER_CALL
};
TokenizerCalls tokenizer_calls;  // of this program's one thread of commands; filled once

void open_tokenizer_library() {
  if (tokenizer_calls.qr_tokenizer_destroy) return;
  const char *const given = std::getenv("QUARRY_TOKENIZER_LIBRARY");
  const SideLibrary library(given && *given ? given : QR_TOKENIZER_FILE, "quarry chat --tokenizer",
                            "build it by `python3 bindings/tokenizer/build.py FOLDER` (cargo makes it), and put it "
                            "beside libquarry or name it in QUARRY_TOKENIZER_LIBRARY; --ids needs none");
#define QR_TOKENIZER_CALL(result, name, parameters) \
  tokenizer_calls.name = reinterpret_cast<result(*) parameters>(library.function(#name));
  QR_TOKENIZER_CALLS
#undef QR_TOKENIZER_CALL
}

qr_string text_of(const std::string &text) { return {text.data(), text.size()}; }
std::string text_of(const qr_string &text) { return std::string(text.data, static_cast<size_t>(text.size)); }

void check_tokenizer(qr_tokenizer_error *error) {
  if (!error) return;
  const Failure failure(std::string("error ") + tokenizer_calls.qr_tokenizer_error_id(error) + ": " +
                            tokenizer_calls.qr_tokenizer_error_message(error),
                        tokenizer_calls.qr_tokenizer_error_hint(error));
  tokenizer_calls.qr_tokenizer_error_destroy(error);
  throw failure;
}

}  // namespace

void TextStream::Free::operator()(qr_text_stream *stream) const { tokenizer_calls.qr_text_stream_destroy(stream); }

std::string TextStream::push(int64_t token, bool &stopped) {
  qr_string text{nullptr, 0};
  int32_t stop = 0;
  check_tokenizer(tokenizer_calls.qr_text_stream_push(stream_.get(), token, &text, &stop));
  stopped = stop != 0;
  return text_of(text);
}

std::string TextStream::finish() {
  qr_string text{nullptr, 0};
  check_tokenizer(tokenizer_calls.qr_text_stream_finish(stream_.get(), &text));
  return text_of(text);
}

void Tokenizer::Free::operator()(qr_tokenizer *tokenizer) const { tokenizer_calls.qr_tokenizer_destroy(tokenizer); }

Tokenizer::Tokenizer(const std::string &path) {
  open_tokenizer_library();
  qr_tokenizer *made = nullptr;
  check_tokenizer(tokenizer_calls.qr_tokenizer_open(text_of(path), &made));
  tokenizer_.reset(made);
}

std::vector<int64_t> Tokenizer::encode(const std::string &text, Special special) const {
  int64_t *tokens = nullptr;
  uint64_t count = 0;
  const uint32_t flags = special == Special::Around ? QR_ENCODE_SPECIAL : 0;
  check_tokenizer(tokenizer_calls.qr_tokenizer_encode(tokenizer_.get(), text_of(text), flags, &tokens, &count));
  std::vector<int64_t> made(tokens, tokens + count);
  tokenizer_calls.qr_tokenizer_tokens_destroy(tokens, count);
  return made;
}

std::optional<int64_t> Tokenizer::find(const std::string &token) const {
  int64_t found = -1;
  qr_tokenizer_error *const error = tokenizer_calls.qr_tokenizer_token(tokenizer_.get(), text_of(token), &found);
  if (!error) return found;
  tokenizer_calls.qr_tokenizer_error_destroy(error);
  return std::nullopt;
}

TextStream Tokenizer::stream(const std::vector<std::string> &stops) const {
  std::vector<qr_string> texts;
  for (const std::string &stop : stops) texts.push_back(text_of(stop));
  qr_text_stream_options options = QR_TEXT_STREAM_OPTIONS_INIT;
  options.flags = QR_DECODE_SKIP_SPECIAL;
  options.stops = texts.data(), options.stop_count = texts.size();
  qr_text_stream *made = nullptr;
  check_tokenizer(tokenizer_calls.qr_text_stream_create(tokenizer_.get(), &options, &made));
  return made;
}

}  // namespace tools
