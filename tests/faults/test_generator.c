/* SPDX-License-Identifier: Apache-2.0 */
/* Fails the Nth malloc while a generator is made, prompted and run: a failure comes back as a status, and what is there
 * afterwards goes on to the right tokens. */
#include <quarry/generate.h>

#include "capi_test.h"
#include "decoder_model.h"
#include "failing_malloc.h"

#define WANTED 6

static const int64_t prompt[] = {3, 1, 4, 1, 5};

static qr_status *generate(qr_session *session, qr_generator **generator) {
  qr_generator_options options = QR_GENERATOR_OPTIONS_INIT;
  qr_end_reason end = QR_END_NONE;
  qr_status *status = NULL;
  options.max_new_tokens = WANTED, options.prompt_chunk = 2;
  options.stop_tokens = prompt, options.names = str("logits=logits");
  if (!*generator) status = qr_generator_create(session, &options, NULL, generator);
  if (!status) status = qr_generator_prompt(*generator, prompt, 5, NULL);
  if (!status) status = qr_generator_run(*generator, NULL, NULL, NULL, &end);
  return status;
}

static void check_tokens(qr_generator *generator) {
  qr_sequence_info info = QR_SEQUENCE_INFO_INIT;
  OK(qr_generator_sequence(generator, &info));
  assert_int_equal(info.count, 5 + WANTED);
  for (uint64_t i = 5; i < info.count; ++i) assert_int_equal(info.tokens[i], decoder_next(info.tokens, i));
}

static qr_session *open_session(qr_runtime *runtime) {
  qr_model *model = NULL;
  qr_options *options = NULL;
  qr_session *session = NULL;
  OK(model_in_memory(runtime, decoder_model, sizeof decoder_model, NULL, &model));
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("state"), str("auto")));
  OK(qr_options_set(options, str("threads"), str("1")));
  OK(qr_session_create(model, options, NULL, &session));
  qr_options_destroy(options), qr_model_destroy(model);
  return session;
}

static void test_every_malloc(void **state) {
  qr_runtime *runtime = NULL;
  qr_generator *first = NULL;
  qr_session *session;
  uint64_t n, failures = 0;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  session = open_session(runtime);
  OK(generate(session, &first));
  check_tokens(first);
  for (n = 1;; ++n) {
    qr_generator *generator = NULL;
    qr_status *status;
    uint64_t made;
    fail_malloc(n);
    status = generate(session, &generator);
    made = stop_failing_malloc();
    failures += status != NULL;
    qr_status_destroy(status);
    if (status || made < n) OK(generate(session, &generator));
    check_tokens(generator);
    qr_generator_destroy(generator);
    if (made < n) break;
  }
  print_message("%d calls of malloc, %d failures\n", (int)n - 1, (int)failures);
  assert_true(failures > 20);
  qr_generator_destroy(first), qr_session_destroy(session), qr_runtime_destroy(runtime);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_malloc)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
