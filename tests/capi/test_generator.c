/* SPDX-License-Identifier: Apache-2.0 */
/* qr_generator on a decoder whose numbers are whole: every token is held against the formula of decoder_model.h, which
 * knows nothing of caches. */
#include <quarry/generate.h>

#include "capi_test.h"
#include "decoder_model.h"

#define ROOM 64 /* state.capacity */

typedef struct fixture {
  counting_allocator counter;
  qr_runtime *runtime;
  qr_model *model;
  qr_session *session;
} fixture;

static qr_status *create(fixture *f, const char *backend, const char *state, qr_session **out) {
  qr_options *options = NULL;
  qr_status *status;
  OK(qr_options_create(f->runtime, &options));
  OK(qr_options_set(options, str("backend"), str(backend)));
  OK(qr_options_set(options, str("threads"), str("1")));
  OK(qr_options_set(options, str("state"), str(state)));
  OK(qr_options_set(options, str("state.capacity"), str("64")));
  status = qr_session_create(f->model, options, NULL, out);
  qr_options_destroy(options);
  return status;
}

static void open_fixture(fixture *f, const char *backend) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator;
  memset(f, 0, sizeof *f);
  allocator = counting(&f->counter);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &f->runtime));
  OK(model_in_memory(f->runtime, decoder_model, sizeof decoder_model, NULL, &f->model));
  OK(create(f, backend, "auto", &f->session));
}

static void close_fixture(fixture *f) {
  qr_session_destroy(f->session), qr_model_destroy(f->model), qr_runtime_destroy(f->runtime);
  assert_int_equal(f->counter.live, 0), assert_int_equal(f->counter.mismatches, 0);
}

static qr_generator *generator_of(fixture *f, const qr_generator_options *options) {
  qr_generator *generator = NULL;
  OK(qr_generator_create(f->session, options, NULL, &generator));
  return generator;
}

static qr_sequence_info sequence_of(qr_generator *generator) {
  qr_sequence_info info = QR_SEQUENCE_INFO_INIT;
  OK(qr_generator_sequence(generator, &info));
  return info;
}

/* All behind the first `from` is what the formula says; the sequence has `count` tokens. */
static void check_sequence(qr_generator *generator, uint64_t from, uint64_t count) {
  const qr_sequence_info info = sequence_of(generator);
  assert_int_equal(info.count, count);
  for (uint64_t i = from; i < count; ++i) assert_int_equal(info.tokens[i], decoder_next(info.tokens, i));
}

static const int64_t prompt[] = {3, 1, 4, 1, 5};

static void run(qr_generator *generator, uint64_t count, qr_end_reason end) {
  uint64_t made = 0;
  qr_end_reason found = QR_END_NONE;
  OK(qr_generator_run(generator, NULL, NULL, &made, &found));
  assert_int_equal(made, count), assert_int_equal(found, end);
}

static void test_greedy(void **state) {
  static const char *const backends[] = {"cpu", "cpu-reference"};
  (void)state;
  for (int b = 0; b < 2; ++b) {
    fixture f;
    open_fixture(&f, backends[b]);
    for (uint64_t chunk = 0; chunk < 7; ++chunk) {
      /* By ONNX Runtime 1.32. */
      static const int64_t known[] = {3, 1, 4, 1, 5, 8, 2, 6, 6, 4, 4, 2, 7, 5, 10, 1, 1};
      qr_generator_options options = QR_GENERATOR_OPTIONS_INIT;
      qr_generator *generator;
      options.max_new_tokens = 12, options.prompt_chunk = chunk;
      generator = generator_of(&f, &options);
      OK(qr_generator_prompt(generator, prompt, 5, NULL));
      run(generator, 12, QR_END_LENGTH);
      check_sequence(generator, 5, 17);
      assert_memory_equal(sequence_of(generator).tokens, known, sizeof known);
      assert_int_equal(sequence_of(generator).run, 16); /* the last is run when another is asked for */
      assert_int_equal(sequence_of(generator).capacity, ROOM);
      assert_int_equal(sequence_of(generator).vocabulary, DECODER_TOKENS);
      run(generator, 12, QR_END_LENGTH);
      check_sequence(generator, 5, 29);
      qr_generator_destroy(generator);
    }
    close_fixture(&f);
  }
}

/* Prompts that begin as the sequence does run their ends alone. */
static void test_prefixes(void **state) {
  int64_t tokens[40];
  qr_generator_options options = QR_GENERATOR_OPTIONS_INIT;
  unsigned seed = 5;
  fixture f;
  qr_generator *generator;
  uint64_t before = 0;
  (void)state;
  open_fixture(&f, "cpu");
  options.max_new_tokens = 3;
  generator = generator_of(&f, &options);
  memset(tokens, 0, sizeof tokens);
  for (int turn = 0; turn < 60; ++turn) {
    const qr_sequence_info info = sequence_of(generator);
    uint64_t count, same = 0;
    seed = seed * 1664525u + 1013904223u;
    count = 1 + (seed >> 16) % 40;
    /* Of the sequence as it is, up to a place that is drawn, and then others. */
    for (uint64_t i = 0; i < count; ++i)
      tokens[i] = i < before && i < (seed >> 8) % 40 ? info.tokens[i] : (int64_t)((seed >> (i % 20)) % DECODER_TOKENS);
    while (same < count && same < info.run && tokens[same] == info.tokens[same]) ++same;
    if (same == count && info.count > count) --same;
    OK(qr_generator_prompt(generator, tokens, count, NULL));
    assert_int_equal(sequence_of(generator).count, count);
    assert_in_range(sequence_of(generator).reused, same > 0 ? same - 1 : 0, same);
    run(generator, 3, QR_END_LENGTH);
    check_sequence(generator, count, count + 3);
    before = count + 3;
  }
  /* The same once more costs nothing. */
  OK(qr_generator_prompt(generator, prompt, 5, NULL));
  OK(qr_generator_prompt(generator, prompt, 5, NULL));
  assert_int_equal(sequence_of(generator).reused, 5);
  qr_generator_destroy(generator);
  close_fixture(&f);
}

static void test_rewind(void **state) {
  fixture f;
  qr_generator *generator;
  qr_generator_options options = QR_GENERATOR_OPTIONS_INIT;
  (void)state;
  open_fixture(&f, "cpu");
  options.max_new_tokens = 10;
  generator = generator_of(&f, &options);
  OK(qr_generator_prompt(generator, prompt, 5, NULL));
  run(generator, 10, QR_END_LENGTH);
  for (uint64_t length = 15; length > 0; length -= 3) {
    OK(qr_generator_rewind(generator, length));
    run(generator, 10, QR_END_LENGTH);
    check_sequence(generator, length < 5 ? length : 5, length + 10);
  }
  OK(qr_generator_accept(generator, 9));
  OK(qr_generator_rewind(generator, sequence_of(generator).count - 1)); /* one that was not run */
  FAILS("QR-C0008", "found a length of 99", qr_generator_rewind(generator, 99));
  OK(qr_generator_rewind(generator, 0));
  assert_int_equal(sequence_of(generator).count, 0);
  FAILS("QR-R0033", "expected a prompt", qr_generator_run(generator, NULL, NULL, NULL, &(qr_end_reason){0}));
  qr_generator_destroy(generator);
  close_fixture(&f);
}

static void test_stop_tokens(void **state) {
  static const int64_t stops[] = {7, 6};
  qr_generator_options options = QR_GENERATOR_OPTIONS_INIT;
  qr_end_reason end = QR_END_NONE;
  int64_t token = -1;
  fixture f;
  qr_generator *generator;
  (void)state;
  open_fixture(&f, "cpu");
  options.stop_tokens = stops, options.stop_token_count = 2;
  generator = generator_of(&f, &options);
  OK(qr_generator_prompt(generator, prompt, 5, NULL));
  run(generator, 3, QR_END_STOP_TOKEN); /* 8, 2, 6 */
  check_sequence(generator, 5, 8);
  OK(qr_generator_step(generator, NULL, &token, &end)); /* and on */
  assert_int_equal(token, 6), assert_int_equal(end, QR_END_STOP_TOKEN);
  check_sequence(generator, 5, 9);
  qr_generator_destroy(generator);
  close_fixture(&f);
}

static void test_capacity(void **state) {
  int64_t tokens[ROOM + 1];
  qr_end_reason end = QR_END_NONE;
  int64_t token = 0;
  const float *logits;
  uint64_t count;
  fixture f;
  qr_generator *generator;
  (void)state;
  open_fixture(&f, "cpu");
  for (int i = 0; i <= ROOM; ++i) tokens[i] = i % DECODER_TOKENS;
  generator = generator_of(&f, NULL);
  OK(qr_generator_prompt(generator, prompt, 5, NULL));
  FAILS("QR-R0024", "found 65 tokens, expected at most the 64", qr_generator_prompt(generator, tokens, ROOM + 1, NULL));
  assert_int_equal(sequence_of(generator).count, 5); /* as it was */
  run(generator, ROOM - 5 + 1, QR_END_CAPACITY);     /* the last needs no room before it is run */
  check_sequence(generator, 5, ROOM + 1);
  run(generator, 0, QR_END_CAPACITY);
  OK(qr_generator_step(generator, NULL, &token, &end));
  assert_int_equal(token, -1), assert_int_equal(end, QR_END_CAPACITY);
  FAILS("QR-R0024", "the generator: found 65", qr_generator_logits(generator, NULL, &logits, &count));
  OK(qr_generator_prompt(generator, tokens, ROOM, NULL));
  run(generator, 1, QR_END_CAPACITY);
  check_sequence(generator, ROOM, ROOM + 1);
  qr_generator_destroy(generator);
  close_fixture(&f);
}

typedef struct sink {
  uint64_t count, stops_at;
  int64_t tokens[ROOM];
  qr_signal *aborts;
} sink;

static int32_t take(void *self, int64_t token) {
  sink *s = self;
  s->tokens[s->count++] = token;
  if (s->count != s->stops_at) return QR_GO_ON;
  if (!s->aborts) return QR_STOP;
  qr_signal_abort(s->aborts);
  return QR_GO_ON;
}

static void test_callbacks_and_signals(void **state) {
  sink s = {0, 4, {0}, NULL};
  qr_token_sink to = QR_TOKEN_SINK_INIT;
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  qr_end_reason end = QR_END_NONE;
  uint64_t count = 0;
  fixture f;
  qr_generator *generator;
  qr_signal *signal = NULL;
  (void)state;
  open_fixture(&f, "cpu");
  OK(qr_signal_create(f.runtime, &signal));
  generator = generator_of(&f, NULL);
  to.self = &s, to.token = take;
  OK(qr_generator_prompt(generator, prompt, 5, NULL));
  OK(qr_generator_run(generator, NULL, &to, &count, &end));
  assert_int_equal(count, 4), assert_int_equal(end, QR_END_CALLBACK);
  assert_memory_equal(s.tokens, sequence_of(generator).tokens + 5, 4 * sizeof(int64_t));
  options.signal = signal;
  s = (sink){0, 3, {0}, signal};
  OK(qr_generator_run(generator, &options, &to, &count, &end));
  assert_int_equal(count, 3), assert_int_equal(end, QR_END_ABORTED);
  OK(qr_generator_run(generator, &options, &to, &count, &end));
  assert_int_equal(count, 0), assert_int_equal(end, QR_END_ABORTED);
  FAILS("QR-C0011", "", qr_generator_prompt(generator, prompt, 2, &options));
  qr_signal_reset(signal);
  qr_signal_set_timeout(signal, 0);
  OK(qr_generator_prompt(generator, prompt, 5, NULL));
  OK(qr_generator_run(generator, &options, &to, &count, &end));
  assert_int_equal(count, 0), assert_int_equal(end, QR_END_DEADLINE);
  FAILS("QR-C0012", "", qr_generator_step(generator, &options, &(int64_t){0}, &end));
  qr_signal_set_timeout(signal, QR_NO_TIMEOUT);
  s = (sink){0, 6, {0}, NULL};
  OK(qr_generator_run(generator, &options, &to, &count, &end));
  check_sequence(generator, 5, 11); /* nothing was lost */
  qr_signal_destroy(signal);
  qr_generator_destroy(generator);
  close_fixture(&f);
}

/* A choice of the program's own, and a state that is saved and taken up by another generator. */
static void test_logits_and_state(void **state) {
  float expected[DECODER_TOKENS];
  const float *logits = NULL;
  void *saved = NULL;
  uint64_t count = 0, size = 0;
  fixture f;
  qr_generator *first, *second;
  qr_state *kept = NULL;
  (void)state;
  open_fixture(&f, "cpu");
  first = generator_of(&f, NULL), second = generator_of(&f, NULL);
  FAILS("QR-R0033", "no tokens", qr_generator_logits(first, NULL, &logits, &count));
  OK(qr_generator_prompt(first, prompt, 5, NULL));
  for (int64_t token = 10; token > 3; --token) {
    OK(qr_generator_logits(first, NULL, &logits, &count));
    assert_int_equal(count, DECODER_TOKENS);
    decoder_logits(sequence_of(first).tokens, sequence_of(first).count, expected);
    assert_memory_equal(logits, expected, sizeof expected);
    OK(qr_generator_accept(first, token));
  }
  OK(qr_generator_logits(first, NULL, &logits, &count));
  FAILS("QR-C0007", "found 11, expected one under 11", qr_generator_accept(first, 11));
  OK(qr_generator_state(first, &kept));
  OK(qr_state_save(kept, &(qr_target)QR_TARGET_IN_MEMORY(&saved, &size), NULL));
  qr_state_destroy(kept);
  OK(qr_generator_state(second, &kept));
  OK(qr_state_load(kept, saved, size));
  FAILS("QR-C0007", "found 5 tokens, expected 12", qr_generator_restore(second, prompt, 5));
  OK(qr_generator_restore(second, sequence_of(first).tokens, 12));
  OK(qr_generator_logits(second, NULL, &logits, &count));
  decoder_logits(sequence_of(first).tokens, 12, expected);
  assert_memory_equal(logits, expected, sizeof expected);
  qr_string_destroy(saved);
  qr_state_destroy(kept);
  qr_session_destroy(f.session), f.session = NULL; /* the generators have clones of it */
  OK(qr_generator_prompt(second, prompt, 5, NULL));
  qr_generator_destroy(first), qr_generator_destroy(second), qr_generator_destroy(NULL);
  close_fixture(&f);
}

static void test_sampling(void **state) {
  qr_sampler_options sampler = QR_SAMPLER_OPTIONS_INIT;
  qr_generator_options options = QR_GENERATOR_OPTIONS_INIT;
  int64_t made[3][20];
  fixture f;
  (void)state;
  open_fixture(&f, "cpu");
  sampler.temperature = 20, sampler.seed = 9, sampler.repetition_penalty = 1.2f;
  options.sampler = &sampler, options.max_new_tokens = 20;
  for (int i = 0; i < 3; ++i) {
    qr_generator *generator;
    sampler.seed = i == 2 ? 10 : 9;
    generator = generator_of(&f, &options);
    OK(qr_generator_prompt(generator, prompt, 5, NULL));
    run(generator, 20, QR_END_LENGTH);
    memcpy(made[i], sequence_of(generator).tokens + 5, sizeof made[i]);
    OK(qr_generator_rewind(generator, 0)); /* the seed begins again */
    OK(qr_generator_prompt(generator, prompt, 5, NULL));
    run(generator, 20, QR_END_LENGTH);
    assert_memory_equal(sequence_of(generator).tokens + 5, made[i], sizeof made[i]);
    qr_generator_destroy(generator);
  }
  assert_memory_equal(made[0], made[1], sizeof made[0]);
  assert_memory_not_equal(made[0], made[2], sizeof made[0]);
  close_fixture(&f);
}

static void test_refused(void **state) {
  qr_generator_options options = QR_GENERATOR_OPTIONS_INIT;
  qr_generator *generator = NULL;
  qr_session *other = NULL;
  const int64_t bad = -1;
  fixture f;
  (void)state;
  open_fixture(&f, "cpu");
  FAILS("QR-C0002", "session", qr_generator_create(NULL, NULL, NULL, &generator));
  FAILS("QR-C0002", "out_generator", qr_generator_create(f.session, NULL, NULL, NULL));
  options.names = str("input_ids=ids");
  FAILS("QR-R0032", "found no input and no output 'ids'", qr_generator_create(f.session, &options, NULL, &generator));
  options.names = str("input_id=input_ids");
  FAILS("QR-C0007", "did you mean 'input_ids'?", qr_generator_create(f.session, &options, NULL, &generator));
  options.names = str("input_ids");
  FAILS("QR-C0007", "expected ROLE=NAME", qr_generator_create(f.session, &options, NULL, &generator));
  options.names = str("logits=logits,seqlens_k=seqlens_k");
  OK(qr_generator_create(f.session, &options, NULL, &generator));
  FAILS("QR-C0007", "found no token", qr_generator_prompt(generator, prompt, 0, NULL));
  FAILS("QR-C0007", "token 0: found -1", qr_generator_prompt(generator, &bad, 1, NULL));
  FAILS("QR-C0002", "tokens", qr_generator_prompt(generator, NULL, 1, NULL));
  FAILS("QR-C0002", "out_end", qr_generator_run(generator, NULL, NULL, NULL, NULL));
  FAILS("QR-C0002", "generator", qr_generator_rewind(NULL, 1));
  qr_generator_destroy(generator);
  OK(create(&f, "cpu", "", &other));
  FAILS("QR-R0032", "found the input 'past', f32 of rank 3", qr_generator_create(other, NULL, NULL, &generator));
  qr_session_destroy(other);
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_greedy),           cmocka_unit_test(test_prefixes),
      cmocka_unit_test(test_rewind),           cmocka_unit_test(test_stop_tokens),
      cmocka_unit_test(test_capacity),         cmocka_unit_test(test_callbacks_and_signals),
      cmocka_unit_test(test_logits_and_state), cmocka_unit_test(test_sampling),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
