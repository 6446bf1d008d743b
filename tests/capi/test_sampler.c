/* SPDX-License-Identifier: Apache-2.0 */
/* qr_sampler beside transformers' logits processors: probabilities that their steps give, worked out in numpy, and how
 * often each token is drawn; rows of tokens of a seed, worked out likewise; what is refused. */
#include <math.h>
#include <quarry/generate.h>

#include "capi_test.h"

#define TOKENS 8
#define DRAWS 20000

static const float logits[TOKENS] = {1.0f, 3.0f, -0.5f, 2.5f, 2.5f, 0.0f, -2.0f, 1.5f};
static const int64_t before[] = {1, 3, 6, 1};

static qr_sampler_options with(float temperature, uint32_t top_k, float top_p, float min_p, float penalty) {
  qr_sampler_options options = QR_SAMPLER_OPTIONS_INIT;
  options.temperature = temperature, options.top_k = top_k, options.top_p = top_p, options.min_p = min_p;
  options.repetition_penalty = penalty;
  return options;
}

static int64_t pick(qr_sampler *sampler, const float *values, uint64_t count) {
  int64_t token = -1;
  OK(qr_sampler_pick(sampler, values, count, &token));
  assert_in_range(token, 0, count - 1);
  return token;
}

/* How often each comes lies within five standard deviations of what it should be; what cannot come never comes. */
static void check_draws(qr_sampler_options options, const double *expected) {
  qr_sampler *sampler = NULL;
  int found[TOKENS] = {0};
  options.seed = 7;
  OK(qr_sampler_create(&options, &sampler));
  OK(qr_sampler_accept(sampler, before, 4));
  for (int i = 0; i < DRAWS; ++i) ++found[pick(sampler, logits, TOKENS)];
  for (int i = 0; i < TOKENS; ++i) {
    const double mean = expected[i] * DRAWS, spread = sqrt(mean * (1 - expected[i]));
    if (fabs(found[i] - mean) > 5 * spread + 1e-3 * (expected[i] > 0))
      print_error("token %d: found %d of %d, expected %.0f\n", i, found[i], DRAWS, mean), fail();
  }
  qr_sampler_destroy(sampler);
}

static void test_probabilities(void **state) {
  const struct {
    float temperature;
    uint32_t top_k;
    float top_p, min_p, penalty;
    double expected[TOKENS];
  } cases[] = {
      {1, 0, 0, 0, 0, {.050911, .376187, .01136, .228169, .228169, .018729, .002535, .083939}},
      {1, 8, 1, 0, 1, {.050911, .376187, .01136, .228169, .228169, .018729, .002535, .083939}},
      {0.5f, 0, 0, 0, 0, {.010134, .553312, .000505, .203552, .203552, .001372, .000025, .027548}},
      {2, 0, 0, 0, 0, {.094892, .257942, .044824, .200886, .200886, .057555, .021173, .121843}},
      {1, 3, 0, 0, 0, {0, .451863, 0, .274069, .274069, 0, 0, 0}},
      {1, 2, 0, 0, 0, {0, .451863, 0, .274069, .274069, 0, 0, 0}}, /* the third is as large as the second */
      {1, 0, 0.75f, 0, 0, {0, .451863, 0, .274069, .274069, 0, 0, 0}},
      {1, 0, 0.3f, 0, 0, {0, 1, 0, 0, 0, 0, 0, 0}},
      {1, 0, 0, 0.2f, 0, {0, .410477, 0, .248967, .248967, 0, 0, .09159}},
      {1, 0, 0, 0, 1.5f, {.080608, .219115, .017986, .157003, .361259, .029654, .001476, .1329}},
      {0.7f, 5, 0.9f, 0.1f, 1.5f, {0, .240766, 0, .149551, .491819, 0, 0, .117865}},
      {1, 4, 0, 0.3f, 0.8f, {0, .651355, 0, .348645, 0, 0, 0, 0}},
      {1.3f, 6, 0.95f, 0, 0, {.074255, .345834, 0, .235414, .235414, 0, 0, .109084}},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    check_draws(with(cases[i].temperature, cases[i].top_k, cases[i].top_p, cases[i].min_p, cases[i].penalty),
                cases[i].expected);
}

static void check_row(qr_sampler_options options, const int64_t *expected, int count) {
  qr_sampler *sampler = NULL;
  OK(qr_sampler_create(&options, &sampler));
  for (int again = 0; again < 2; ++again) {
    for (int i = 0; i < count; ++i) assert_int_equal(pick(sampler, logits, TOKENS), expected[i]);
    OK(qr_sampler_reset(sampler));
  }
  qr_sampler_destroy(sampler);
}

static void test_seeds(void **state) {
  static const int64_t all[] = {4, 1, 1, 1, 0, 4, 1, 4, 1, 3, 1, 3, 3, 3, 3, 1, 1, 3, 1, 4, 7, 1, 3, 3};
  static const int64_t some[] = {4, 4, 1, 1, 3, 4, 4, 1, 4, 1, 1, 4, 1, 4, 1, 3, 1, 1, 1, 1, 1, 3, 3, 1};
  qr_sampler_options options = with(1, 0, 0, 0, 0);
  (void)state;
  options.seed = 42;
  check_row(options, all, 24);
  options = with(0.9f, 0, 0.8f, 0, 0);
  options.seed = UINT64_MAX;
  check_row(options, some, 24);
}

static void test_greedy(void **state) {
  static const float alike[] = {-INFINITY, 2, 5, 5, -1};
  qr_sampler_options options = with(0, 3, 0.5f, 0, 2);
  qr_sampler *sampler = NULL;
  const int64_t one = 2, outside = 900;
  (void)state;
  OK(qr_sampler_create(NULL, &sampler));
  assert_int_equal(pick(sampler, alike, 5), 2);
  OK(qr_sampler_accept(sampler, &one, 1));
  assert_int_equal(pick(sampler, alike, 5), 2);
  qr_sampler_destroy(sampler);
  options.repetition_window = 2;
  OK(qr_sampler_create(&options, &sampler));
  OK(qr_sampler_accept(sampler, &one, 1));
  assert_int_equal(pick(sampler, alike, 5), 3);
  OK(qr_sampler_accept(sampler, &outside, 1)); /* one that has no logit counts for the window alone */
  assert_int_equal(pick(sampler, alike, 5), 3);
  OK(qr_sampler_accept(sampler, &outside, 1));
  assert_int_equal(pick(sampler, alike, 5), 2);
  OK(qr_sampler_reset(sampler));
  assert_int_equal(pick(sampler, alike, 5), 2);
  qr_sampler_destroy(sampler);
}

/* A vocabulary of the usual size, of which top_p leaves many. */
static void test_large(void **state) {
  enum { kCount = 150000 };
  static float values[kCount];
  qr_sampler_options options = with(1, 0, 0.5f, 0, 0);
  qr_sampler *sampler = NULL;
  (void)state;
  for (int i = 0; i < kCount; ++i) values[i] = i % 2 ? 4.0f : 1.0f; /* the odd ones have 0.953 of the whole */
  options.seed = 3;
  OK(qr_sampler_create(&options, &sampler));
  for (int i = 0; i < 20; ++i) {
    const int64_t token = pick(sampler, values, kCount);
    assert_true(token % 2 == 1 && token < kCount * 0.53);
  }
  qr_sampler_destroy(sampler);
}

static void test_refused(void **state) {
  float values[3] = {1, 2, 3};
  qr_sampler_options options = with(1, 0, 0, 0, 0);
  qr_sampler *sampler = NULL;
  int64_t token = -7;
  (void)state;
  FAILS("QR-C0002", "out_sampler", qr_sampler_create(NULL, NULL));
  FAILS("QR-C0007", "temperature: found -1", (options.temperature = -1, qr_sampler_create(&options, &sampler)));
  FAILS("QR-C0007", "temperature", (options.temperature = NAN, qr_sampler_create(&options, &sampler)));
  FAILS("QR-C0007", "temperature", (options.temperature = INFINITY, qr_sampler_create(&options, &sampler)));
  options.temperature = 1;
  FAILS("QR-C0007", "top_p: found 1.5, expected a number from 0 on, to 1",
        (options.top_p = 1.5f, qr_sampler_create(&options, &sampler)));
  options.top_p = 0;
  FAILS("QR-C0007", "min_p", (options.min_p = 2, qr_sampler_create(&options, &sampler)));
  options.min_p = 0;
  FAILS("QR-C0003", "qr_sampler_options", (options.struct_size = 4, qr_sampler_create(&options, &sampler)));
  options.struct_size = sizeof options;
  OK(qr_sampler_create(&options, &sampler));
  FAILS("QR-C0002", "sampler", qr_sampler_pick(NULL, values, 3, &token));
  FAILS("QR-C0002", "logits", qr_sampler_pick(sampler, NULL, 3, &token));
  FAILS("QR-C0002", "out_token", qr_sampler_pick(sampler, values, 3, NULL));
  FAILS("QR-C0002", "tokens", qr_sampler_accept(sampler, NULL, 3));
  FAILS("QR-C0002", "sampler", qr_sampler_reset(NULL));
  FAILS("QR-R0034", "found none", qr_sampler_pick(sampler, values, 0, &token));
  values[1] = NAN;
  FAILS("QR-R0034", "found NaN for token 1 of 3", qr_sampler_pick(sampler, values, 3, &token));
  values[1] = INFINITY;
  FAILS("QR-R0034", "found infinity for token 1 of 3", qr_sampler_pick(sampler, values, 3, &token));
  for (int i = 0; i < 3; ++i) values[i] = -INFINITY;
  FAILS("QR-R0034", "minus infinity for each of 3", qr_sampler_pick(sampler, values, 3, &token));
  assert_int_equal(token, -7);
  qr_sampler_destroy(sampler);
  qr_sampler_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_probabilities), cmocka_unit_test(test_seeds),   cmocka_unit_test(test_greedy),
      cmocka_unit_test(test_large),         cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
