/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as tokens: libquarry-tokenizer-jni, which an app need not have. */
#include <quarry/tokenizer.h>
#include <stdlib.h>

#include "support.h"

static const qr_tokenizer *tokenizer_of(jlong handle) { return (const qr_tokenizer *)(intptr_t)handle; }
static qr_text_stream *stream_of(jlong handle) { return (qr_text_stream *)(intptr_t)handle; }

/* Throws what an error says, and frees it. False: it was none. */
static int refused(JNIEnv *env, qr_tokenizer_error *error) {
  if (!error) return 0;
  throw_words(env, qr_tokenizer_error_code(error), qr_tokenizer_error_id(error), qr_tokenizer_error_message(error),
              qr_tokenizer_error_hint(error), NULL);
  qr_tokenizer_error_destroy(error);
  return 1;
}

/* Of a file, or of what one holds where there is no path. */
NATIVE_OF(Tokenizer, jlong, open)(JNIEnv *env, jclass of, jbyteArray path, jbyteArray data) {
  qr_tokenizer *made = NULL;
  text given;
  (void)of;
  if (!take(env, path ? path : data, &given)) return 0;
  qr_tokenizer_error *const error =
      path ? qr_tokenizer_open(given.view, &made) : qr_tokenizer_open_memory(given.data, given.view.size, &made);
  release(env, &given);
  refused(env, error);
  return (jlong)(intptr_t)made;
}

NATIVE_OF(Tokenizer, void, destroy)(JNIEnv *env, jclass of, jlong tokenizer) {
  (void)env, (void)of;
  qr_tokenizer_destroy((qr_tokenizer *)(intptr_t)tokenizer);
}
NATIVE_OF(Tokenizer, void, destroyStream)(JNIEnv *env, jclass of, jlong stream) {
  (void)env, (void)of;
  qr_text_stream_destroy(stream_of(stream));
}

NATIVE_OF(Tokenizer, jlong, vocabulary)(JNIEnv *env, jclass of, jlong tokenizer) {
  (void)env, (void)of;
  return (jlong)qr_tokenizer_vocabulary(tokenizer_of(tokenizer));
}

NATIVE_OF(Tokenizer, jlongArray, encode)
(JNIEnv *env, jclass of, jlong tokenizer, jbyteArray words, jboolean special) {
  int64_t *tokens = NULL;
  uint64_t count = 0;
  text given;
  (void)of;
  if (!take(env, words, &given)) return NULL;
  qr_tokenizer_error *const error =
      qr_tokenizer_encode(tokenizer_of(tokenizer), given.view, special ? QR_ENCODE_SPECIAL : 0u, &tokens, &count);
  release(env, &given);
  if (refused(env, error)) return NULL;
  jlongArray made = longs_of(env, (const jlong *)tokens, count);
  qr_tokenizer_tokens_destroy(tokens, count);
  return made;
}

NATIVE_OF(Tokenizer, jbyteArray, decode)
(JNIEnv *env, jclass of, jlong tokenizer, jlongArray tokens, jboolean skip) {
  char *words = NULL;
  longs given;
  (void)of;
  if (!take_longs(env, tokens, &given)) return NULL;
  qr_tokenizer_error *const error = qr_tokenizer_decode(tokenizer_of(tokenizer), (const int64_t *)given.data,
                                                        given.count, skip ? QR_DECODE_SKIP_SPECIAL : 0u, &words);
  release_longs(env, &given);
  if (refused(env, error)) return NULL;
  jbyteArray made = word_of(env, words);
  qr_tokenizer_text_destroy(words);
  return made;
}

NATIVE_OF(Tokenizer, jlong, token)(JNIEnv *env, jclass of, jlong tokenizer, jbyteArray words) {
  int64_t token = -1;
  text given;
  (void)of;
  if (!take(env, words, &given)) return -1;
  qr_tokenizer_error *const error = qr_tokenizer_token(tokenizer_of(tokenizer), given.view, &token);
  release(env, &given);
  refused(env, error);
  return token;
}

/* stops: byte arrays. */
NATIVE_OF(Tokenizer, jlong, stream)
(JNIEnv *env, jclass of, jlong tokenizer, jobjectArray stops, jboolean skip) {
  const jsize count = (*env)->GetArrayLength(env, stops);
  text *const texts = calloc((size_t)count + 1, sizeof *texts);
  qr_string *const views = calloc((size_t)count + 1, sizeof *views);
  qr_text_stream_options options = QR_TEXT_STREAM_OPTIONS_INIT;
  qr_text_stream *made = NULL;
  jsize taken = 0;
  (void)of;
  (*env)->EnsureLocalCapacity(env, count + 8);
  for (; texts && views && taken < count; ++taken) {
    if (!take(env, (*env)->GetObjectArrayElement(env, stops, taken), &texts[taken])) break;
    views[taken] = texts[taken].view;
  }
  if (taken == count && texts && views) {
    options.flags = skip ? QR_DECODE_SKIP_SPECIAL : 0u;
    options.stops = views, options.stop_count = (uint64_t)count;
    refused(env, qr_text_stream_create(tokenizer_of(tokenizer), &options, &made));
  } else if (!(*env)->ExceptionCheck(env)) {
    throw_no_memory(env);
  }
  while (taken > 0) release(env, &texts[--taken]);
  free(texts);
  free(views);
  return (jlong)(intptr_t)made;
}

/* The text that is certain now; `stopped`, of one element: whether a stop text is complete. */
NATIVE_OF(Tokenizer, jbyteArray, push)
(JNIEnv *env, jclass of, jlong stream, jlong token, jbooleanArray stopped) {
  qr_string words = {NULL, 0};
  int32_t stop = 0;
  (void)of;
  if (refused(env, qr_text_stream_push(stream_of(stream), token, &words, &stop))) return NULL;
  const jboolean answer = stop != 0;
  (*env)->SetBooleanArrayRegion(env, stopped, 0, 1, &answer);
  return text_of(env, words);
}
NATIVE_OF(Tokenizer, jbyteArray, finish)(JNIEnv *env, jclass of, jlong stream) {
  qr_string words = {NULL, 0};
  (void)of;
  return refused(env, qr_text_stream_finish(stream_of(stream), &words)) ? NULL : text_of(env, words);
}
