/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_tokenizer: texts to tokens and back, by a tokenizer.json of Hugging Face's. In a library of its own,
 * libquarry-tokenizer, which needs no libquarry and which nothing of Quarry needs but `quarry chat`: cargo builds it of
 * bindings/tokenizer, around the crate tokenizers. It knows no chat templates: a program writes the roles of its model
 * around its texts itself. Errors are its own objects, in the words of qr_status. */
#ifndef QUARRY_TOKENIZER_H
#define QUARRY_TOKENIZER_H

#include <quarry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qr_tokenizer qr_tokenizer;
typedef struct qr_text_stream qr_text_stream;
typedef struct qr_tokenizer_error qr_tokenizer_error;

/* The code of an error, as qr_status_code; QR_OK for NULL.
 * @param error  borrows: may be NULL.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API qr_code qr_tokenizer_error_code(const qr_tokenizer_error *error);

/* The stable id, as qr_status_id: "QR-T0001". Empty for NULL.
 * @param error  borrows: may be NULL.
 * @return  borrows: until the error is destroyed; NUL-terminated.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API const char *qr_tokenizer_error_id(const qr_tokenizer_error *error);

/* Subject, found, expected, as qr_status_message. Empty for NULL.
 * @param error  borrows: may be NULL.
 * @return  borrows: until the error is destroyed; NUL-terminated.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API const char *qr_tokenizer_error_message(const qr_tokenizer_error *error);

/* What to do about it, as qr_status_hint; may be empty.
 * @param error  borrows: may be NULL.
 * @return  borrows: until the error is destroyed; NUL-terminated.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API const char *qr_tokenizer_error_hint(const qr_tokenizer_error *error);

/* Frees an error. Accepts NULL.
 * @param error  takes.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API void qr_tokenizer_error_destroy(qr_tokenizer_error *error);

/* Opens a file tokenizer.json.
 * @param path           its path; of any bytes but NUL on Linux.
 * @param out_tokenizer  gives: qr_tokenizer_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE, CORRUPT (QR-T0001: no tokenizer.json), INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_tokenizer_error *qr_tokenizer_open(qr_string path, qr_tokenizer **out_tokenizer);

/* Opens what a tokenizer.json holds.
 * @param data           borrows: its bytes.
 * @param size           of them.
 * @param out_tokenizer  gives: qr_tokenizer_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  CORRUPT (QR-T0001), INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_tokenizer_error *qr_tokenizer_open_memory(const void *data, uint64_t size,
                                                                qr_tokenizer **out_tokenizer);

/* Frees a tokenizer; streams of it stay. Accepts NULL.
 * @param tokenizer  takes.
 * @thread  [exclusive:tokenizer]
 * @errors  none
 * @since   0.3 */
QR_API void qr_tokenizer_destroy(qr_tokenizer *tokenizer);

/* The number of tokens, those that were added included; 0 for NULL.
 * @param tokenizer  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API uint64_t qr_tokenizer_vocabulary(const qr_tokenizer *tokenizer);

/* Of qr_tokenizer_encode: the tokens that the model wants around a text are put there ("<s>", "[CLS]"). */
#define QR_ENCODE_SPECIAL 1u

/* A text as tokens. Special tokens that it names are found in any case: "<|im_start|>" is one token.
 * @param tokenizer   borrows.
 * @param text        UTF-8.
 * @param flags       QR_ENCODE_SPECIAL, or 0.
 * @param out_tokens  gives: qr_tokenizer_tokens_destroy.
 * @param out_count   borrows: of the tokens.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT (QR-C0009: no UTF-8)
 * @since   0.3 */
QR_API QR_MUST_USE qr_tokenizer_error *qr_tokenizer_encode(const qr_tokenizer *tokenizer, qr_string text,
                                                           uint32_t flags, int64_t **out_tokens, uint64_t *out_count);

/* Frees what qr_tokenizer_encode gave. Accepts NULL.
 * @param tokens  takes.
 * @param count   as it was given.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API void qr_tokenizer_tokens_destroy(int64_t *tokens, uint64_t count);

/* Of qr_tokenizer_decode and qr_text_stream_create: special tokens are left out of the text. */
#define QR_DECODE_SKIP_SPECIAL 1u

/* Tokens as a text. Those that the tokenizer does not know are left out.
 * @param tokenizer  borrows.
 * @param tokens     borrows.
 * @param count      of them.
 * @param flags      QR_DECODE_SKIP_SPECIAL, or 0.
 * @param out_text   gives: qr_tokenizer_text_destroy; UTF-8, NUL-terminated.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT (a token under 0)
 * @since   0.3 */
QR_API QR_MUST_USE qr_tokenizer_error *qr_tokenizer_decode(const qr_tokenizer *tokenizer, const int64_t *tokens,
                                                           uint64_t count, uint32_t flags, char **out_text);

/* Frees what qr_tokenizer_decode gave. Accepts NULL.
 * @param text  takes.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API void qr_tokenizer_text_destroy(char *text);

/* The number of a token by its own text, "</s>".
 * @param tokenizer  borrows.
 * @param text       UTF-8.
 * @param out_token  borrows: the token.
 * @thread  [thread-safe]
 * @errors  NOT_FOUND (QR-T0002), INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_tokenizer_error *qr_tokenizer_token(const qr_tokenizer *tokenizer, qr_string text,
                                                          int64_t *out_token);

/* The number of special tokens; 0 for NULL.
 * @param tokenizer  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API uint64_t qr_tokenizer_special_count(const qr_tokenizer *tokenizer);

/* A special token, in the order of their numbers.
 * @param tokenizer  borrows.
 * @param index      under qr_tokenizer_special_count.
 * @param out_token  borrows: the token.
 * @param out_text   its text; lives as long as the tokenizer.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_tokenizer_error *qr_tokenizer_special(const qr_tokenizer *tokenizer, uint64_t index,
                                                            int64_t *out_token, qr_string *out_text);

/* ---- text as it comes ------------------------------------------------------------------------ */

/* Of qr_text_stream_create. */
typedef struct qr_text_stream_options {
  uint32_t struct_size;
  uint32_t flags;         /* QR_DECODE_SKIP_SPECIAL, or 0 */
  const qr_string *stops; /* borrows: copied; texts that end the stream, UTF-8, not empty */
  uint64_t stop_count;
  /* since one minor later */
  uint64_t later;
} qr_text_stream_options;
#define QR_TEXT_STREAM_OPTIONS_FIRST_SIZE 24u
#define QR_TEXT_STREAM_OPTIONS_INIT \
  { sizeof(qr_text_stream_options), 0, NULL, 0 }

/* Creates a stream: tokens one by one, their text as far as it is certain. Half a character is held back, and so is
 * what may be the beginning of a stop text.
 * @param tokenizer   borrows.
 * @param options     borrows: may be NULL.
 * @param out_stream  gives: qr_text_stream_destroy; it may outlive the tokenizer.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_tokenizer_error *qr_text_stream_create(const qr_tokenizer *tokenizer,
                                                             const qr_text_stream_options *options,
                                                             qr_text_stream **out_stream);

/* Takes a token and gives the text that is certain now.
 * @param stream       borrows.
 * @param token        from 0.
 * @param out_text     UTF-8, may be empty; lives until the next call on the stream.
 * @param out_stopped  borrows: 1: a stop text is complete; it is no part of the texts, and nothing follows.
 * @thread  [exclusive:stream]
 * @errors  INVALID_ARGUMENT (a token under 0)
 * @since   0.3 */
QR_API QR_MUST_USE qr_tokenizer_error *qr_text_stream_push(qr_text_stream *stream, int64_t token, qr_string *out_text,
                                                           int32_t *out_stopped);

/* No token follows: gives what was held back, and begins anew.
 * @param stream    borrows.
 * @param out_text  UTF-8, may be empty; lives until the next call on the stream.
 * @thread  [exclusive:stream]
 * @errors  INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_tokenizer_error *qr_text_stream_finish(qr_text_stream *stream, qr_string *out_text);

/* Frees a stream. Accepts NULL.
 * @param stream  takes.
 * @thread  [exclusive:stream]
 * @errors  none
 * @since   0.3 */
QR_API void qr_text_stream_destroy(qr_text_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
