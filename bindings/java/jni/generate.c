/* SPDX-License-Identifier: Apache-2.0 */
/* Generators: libquarry-generate-jni, which an app need not have. */
#include <quarry/generate.h>
#include <string.h>

#include "support.h"

static qr_generator *generator_of(jlong handle) { return (qr_generator *)(intptr_t)handle; }

static qr_run_options run_of(jlong signal) {
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  options.signal = (qr_signal *)(intptr_t)signal;
  return options;
}

/* reals: temperature, top_p, min_p, repetition_penalty; numbers: top_k, repetition_window, seed, max_new_tokens,
 * prompt_chunk. */
NATIVE_OF(Generate, jlong, create)
(JNIEnv *env, jclass of, jlong session, jfloatArray reals, jlongArray numbers, jlongArray stops, jbyteArray names,
 jlong signal) {
  qr_sampler_options sampler = QR_SAMPLER_OPTIONS_INIT;
  qr_generator_options options = QR_GENERATOR_OPTIONS_INIT;
  qr_generator *made = NULL;
  jfloat real[4];
  jlong number[5];
  longs stop;
  text name;
  watch calls;
  (void)of;
  (*env)->GetFloatArrayRegion(env, reals, 0, 4, real);
  (*env)->GetLongArrayRegion(env, numbers, 0, 5, number);
  sampler.temperature = real[0], sampler.top_p = real[1], sampler.min_p = real[2];
  sampler.repetition_penalty = real[3];
  sampler.top_k = (uint32_t)number[0], sampler.repetition_window = (uint64_t)number[1];
  sampler.seed = (uint64_t)number[2];
  options.sampler = &sampler;
  options.max_new_tokens = (uint64_t)number[3], options.prompt_chunk = (uint64_t)number[4];
  if (!take_longs(env, stops, &stop)) return 0;
  if (take(env, names, &name)) {
    options.stop_tokens = (const int64_t *)stop.data, options.stop_token_count = stop.count;
    options.names = name.view;
    const qr_call_options *const call = watched(env, &calls, signal, NULL);
    qr_status *const status = qr_generator_create((qr_session *)(intptr_t)session, &options, call, &made);
    release(env, &name);
    failed(env, &calls, status);
  }
  release_longs(env, &stop);
  return (jlong)(intptr_t)made;
}

NATIVE_OF(Generate, void, destroy)(JNIEnv *env, jclass of, jlong generator) {
  (void)env, (void)of;
  qr_generator_destroy(generator_of(generator));
}

NATIVE_OF(Generate, void, prompt)(JNIEnv *env, jclass of, jlong generator, jlongArray tokens, jlong signal) {
  const qr_run_options options = run_of(signal);
  longs given;
  (void)of;
  if (!take_longs(env, tokens, &given)) return;
  qr_status *const status =
      qr_generator_prompt(generator_of(generator), (const int64_t *)given.data, given.count, &options);
  release_longs(env, &given);
  throws(env, status);
}

/* The token, and why tokens end. */
NATIVE_OF(Generate, jlongArray, step)(JNIEnv *env, jclass of, jlong generator, jlong signal) {
  const qr_run_options options = run_of(signal);
  int64_t token = -1;
  qr_end_reason end = QR_END_NONE;
  (void)of;
  if (throws(env, qr_generator_step(generator_of(generator), &options, &token, &end))) return NULL;
  const jlong row[2] = {token, end};
  return longs_of(env, row, 2);
}

/* Who is shown the tokens of a run. It is called on the run's own thread. */
typedef struct show {
  JNIEnv *env;
  jobject sink;
  jmethodID method;
  jthrowable thrown; /* by it: no exception is left for the library's frames */
} show;

static int32_t show_token(void *self, int64_t token) {
  show *const to = self;
  JNIEnv *const env = to->env;
  const jboolean more = (*env)->CallBooleanMethod(env, to->sink, to->method, (jlong)token);
  to->thrown = (*env)->ExceptionOccurred(env);
  if (to->thrown) (*env)->ExceptionClear(env);
  return more && !to->thrown ? QR_GO_ON : QR_STOP;
}

/* How many tokens, and why they ended. */
NATIVE_OF(Generate, jlongArray, run)(JNIEnv *env, jclass of, jlong generator, jobject sink, jlong signal) {
  const qr_run_options options = run_of(signal);
  show to = {env, sink, NULL, NULL};
  qr_token_sink tokens = QR_TOKEN_SINK_INIT;
  uint64_t count = 0;
  qr_end_reason end = QR_END_NONE;
  (void)of;
  if (sink) {
    jclass class = (*env)->FindClass(env, "quarry/TokenSink");
    to.method = class ? (*env)->GetMethodID(env, class, "token", "(J)Z") : NULL;
    if (!to.method) return NULL;
    tokens.self = &to, tokens.token = show_token;
  }
  qr_status *const status = qr_generator_run(generator_of(generator), &options, sink ? &tokens : NULL, &count, &end);
  if (to.thrown) {
    qr_status_destroy(status);
    (*env)->Throw(env, to.thrown);
    return NULL;
  }
  if (throws(env, status)) return NULL;
  const jlong row[2] = {(jlong)count, end};
  return longs_of(env, row, 2);
}

NATIVE_OF(Generate, jfloatArray, logits)(JNIEnv *env, jclass of, jlong generator, jlong signal) {
  const qr_run_options options = run_of(signal);
  const float *logits = NULL;
  uint64_t count = 0;
  (void)of;
  if (throws(env, qr_generator_logits(generator_of(generator), &options, &logits, &count))) return NULL;
  jfloatArray made = (*env)->NewFloatArray(env, (jsize)count);
  if (made) (*env)->SetFloatArrayRegion(env, made, 0, (jsize)count, logits);
  return made;
}

NATIVE_OF(Generate, void, accept)(JNIEnv *env, jclass of, jlong generator, jlong token) {
  (void)of;
  throws(env, qr_generator_accept(generator_of(generator), token));
}
NATIVE_OF(Generate, void, rewind)(JNIEnv *env, jclass of, jlong generator, jlong length) {
  (void)of;
  throws(env, qr_generator_rewind(generator_of(generator), (uint64_t)length));
}

/* run, reused, capacity, vocabulary, then the tokens. */
NATIVE_OF(Generate, jlongArray, sequence)(JNIEnv *env, jclass of, jlong generator) {
  qr_sequence_info info = QR_SEQUENCE_INFO_INIT;
  (void)of;
  if (throws(env, qr_generator_sequence(generator_of(generator), &info))) return NULL;
  if (info.count > INT32_MAX - 4) {
    throw_no_memory(env);
    return NULL;
  }
  const jlong numbers[4] = {(jlong)info.run, (jlong)info.reused, (jlong)info.capacity, (jlong)info.vocabulary};
  jlongArray made = (*env)->NewLongArray(env, (jsize)(4 + info.count));
  if (!made) return NULL;
  (*env)->SetLongArrayRegion(env, made, 0, 4, numbers);
  if (info.count) (*env)->SetLongArrayRegion(env, made, 4, (jsize)info.count, (const jlong *)info.tokens);
  return made;
}

NATIVE_OF(Generate, jlong, state)(JNIEnv *env, jclass of, jlong generator) {
  qr_state *made = NULL;
  (void)of;
  throws(env, qr_generator_state(generator_of(generator), &made));
  return (jlong)(intptr_t)made;
}
NATIVE_OF(Generate, void, restore)(JNIEnv *env, jclass of, jlong generator, jlongArray tokens) {
  longs given;
  (void)of;
  if (!take_longs(env, tokens, &given)) return;
  qr_status *const status = qr_generator_restore(generator_of(generator), (const int64_t *)given.data, given.count);
  release_longs(env, &given);
  throws(env, status);
}
