/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of sessions: their number, a pool that sessions share, processors, and the caller's own parallel_for. */
#include <pthread.h>

#include "capi_test.h"

static const char *container;

static void set_all(qr_options *options, const char *const *pairs) {
  for (; pairs[0]; pairs += 2) OK(qr_options_set(options, str(pairs[0]), str(pairs[1])));
}
static qr_status *create(qr_runtime *runtime, qr_model *model, const char *const *pairs, qr_session **session) {
  qr_options *options = NULL;
  qr_status *status;
  OK(qr_options_create(runtime, &options));
  set_all(options, pairs);
  status = qr_session_create(model, options, NULL, session);
  qr_options_destroy(options);
  return status;
}
static qr_status *run_once(qr_session *session, float *out) {
  static const float zeros[64];
  qr_tensor in = QR_TENSOR_INIT, result = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&result};
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8;
  in.data = (void *)zeros, in.size_bytes = sizeof zeros;
  result.data = out, result.size_bytes = 10 * sizeof *out;
  return qr_session_run(session, NULL, inputs, 1, outputs, 1);
}
static void *run_many(void *session) {
  float expected[10], found[10];
  qr_status *status = run_once(session, expected);
  int i;
  for (i = 0; i < 200 && !status; ++i) {
    status = run_once(session, found);
    if (memcmp(expected, found, sizeof found) != 0) return (void *)1;
  }
  return status;
}

static void test_sessions_share_a_pool(void **state) {
  static const char *const kShared[] = {"thread_pool", "ours", "threads", "3", "thread_spin_us", "20", NULL};
  static const char *const kOther[] = {"thread_pool", "ours", "threads", "2", "thread_spin_us", "20", NULL};
  counting_allocator counter = {0};
  qr_allocator allocator = counting(&counter);
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  int order;
  (void)state;
  options.allocator = &allocator;
  for (order = 0; order < 3; ++order) {
    qr_runtime *runtime = NULL;
    qr_model *model = NULL;
    qr_session *sessions[3] = {NULL, NULL, NULL}, *refused = NULL;
    pthread_t threads[3];
    char *report = NULL;
    int i;
    OK(qr_runtime_create(&options, &runtime));
    OK(model_at_path(runtime, str(container), NULL, &model));
    OK(create(runtime, model, kShared, &sessions[0]));
    OK(create(runtime, model, kShared, &sessions[1]));
    OK(qr_session_clone(sessions[0], NULL, &sessions[2]));
    FAILS("QR-C0103", "thread_pool", create(runtime, model, kOther, &refused));
    OK(qr_session_report(sessions[1], &report));
    assert_non_null(strstr(report, "\"threads\": 3"));
    assert_non_null(strstr(report, "\"thread_pool\": \"ours\""));
    qr_string_destroy(report);
    for (i = 0; i < 3; ++i) assert_int_equal(pthread_create(&threads[i], NULL, run_many, sessions[i]), 0);
    for (i = 0; i < 3; ++i) {
      void *result = NULL;
      pthread_join(threads[i], &result);
      assert_null(result);
    }
    qr_session_destroy(sessions[order]);
    if (order == 1) qr_runtime_destroy(runtime);
    for (i = 1; i < 3; ++i) {
      float out[10];
      OK(run_once(sessions[(order + i) % 3], out));
      qr_session_destroy(sessions[(order + i) % 3]);
    }
    if (order != 1) {
      OK(create(runtime, model, kOther, &refused)); /* nobody uses the pool any more: a new one */
      qr_session_destroy(refused);
      qr_runtime_destroy(runtime);
    }
    qr_model_destroy(model);
    assert_int_equal(counter.live, 0);
    assert_int_equal(counter.mismatches, 0);
  }
}

static void test_thread_options(void **state) {
  static const char *const kPinned[] = {"threads", "2", "thread_affinity", "0", NULL};
  static const char *const kNowhere[] = {"threads", "2", "thread_affinity", "1000", NULL};
  static const char *const kNoRange[] = {"threads", "2", "thread_affinity", "3-1", NULL};
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  qr_options *options = NULL;
  float out[10];
  qr_status *status;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(model_at_path(runtime, str(container), NULL, &model));
  FAILS("QR-C0102", "thread_affinity", create(runtime, model, kNowhere, &session));
  FAILS("QR-C0102", "thread_affinity", create(runtime, model, kNoRange, &session));
  status = create(runtime, model, kPinned, &session);
  if (status) {
    qr_status_destroy(status); /* this process may not use processor 0 */
  } else {
    OK(run_once(session, out));
    qr_session_destroy(session);
  }
  OK(qr_options_create(runtime, &options));
  FAILS("QR-C0102", "thread_spin_us", qr_options_set(options, str("thread_spin_us"), str("-1")));
  FAILS("QR-C0102", "threads", qr_options_set(options, str("threads"), str("many")));
  qr_options_destroy(options);
  qr_model_destroy(model);
  qr_runtime_destroy(runtime);
}

typedef struct callers_pool {
  int loops;
  uint32_t highest_worker;
} callers_pool;
static void callers_parallel_for(void *self, uint64_t count, uint64_t grain,
                                 void (*body)(void *, uint64_t, uint64_t, uint32_t), void *context) {
  callers_pool *pool = self;
  const uint64_t half = count / 2;
  (void)grain;
  ++pool->loops;
  if (half) body(context, 0, half, 2); /* worker numbers are the caller's to choose */
  body(context, half, count, 0);
}
static void test_callers_parallel_for(void **state) {
  static const char *const kDefault[] = {"threads", "1", "backend", "cpu-reference",
                                         NULL}; /* which splits its loops, however short */
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_thread_pool pool = QR_THREAD_POOL_INIT;
  callers_pool own = {0, 0};
  qr_runtime *runtime = NULL, *plain = NULL;
  qr_model *model = NULL, *same = NULL;
  qr_session *session = NULL, *reference = NULL;
  float out[10], expected[10];
  (void)state;
  pool.worker_count = 3, pool.self = &own, pool.parallel_for = callers_parallel_for;
  options.thread_pool = &pool;
  OK(qr_runtime_create(&options, &runtime));
  OK(qr_runtime_create(NULL, &plain));
  OK(model_at_path(runtime, str(digits_path()), NULL, &model));
  OK(model_at_path(plain, str(digits_path()), NULL, &same));
  OK(create(runtime, model, kDefault, &session));
  OK(create(plain, same, kDefault, &reference));
  OK(run_once(session, out));
  OK(run_once(reference, expected));
  assert_true(own.loops > 0);
  assert_memory_equal(out, expected, sizeof out);
  qr_session_destroy(session), qr_session_destroy(reference);
  qr_model_destroy(model), qr_model_destroy(same);
  qr_runtime_destroy(runtime), qr_runtime_destroy(plain);
}

/* ---- pools that break their contract ------------------------------------------------------------ */

typedef void (*loop_body)(void *, uint64_t, uint64_t, uint32_t);
static void skips(loop_body body, void *context, uint64_t count) {
  if (count > 1) body(context, 0, count - 1, 0);
}
static void repeats(loop_body body, void *context, uint64_t count) {
  body(context, 0, count, 0);
  body(context, count - 1, count, 0);
}
static void repeats_and_skips(loop_body body, void *context, uint64_t count) {
  uint64_t i;
  for (i = 0; i < count; ++i) body(context, count - 1, count, 0);
}
static void unknown_worker(loop_body body, void *context, uint64_t count) { body(context, 0, count, 3); }
static void far_worker(loop_body body, void *context, uint64_t count) { body(context, 0, count, UINT32_MAX); }
static void past_the_end(loop_body body, void *context, uint64_t count) { body(context, 0, count + 1, 0); }
static void backwards(loop_body body, void *context, uint64_t count) { body(context, count, 0, 0); }
static loop_body last_body;
static void *last_context;
static void calls_late(loop_body body, void *context, uint64_t count) {
  last_body = body, last_context = context;
  body(context, 0, count, 0);
}

typedef struct bad_pool {
  void (*loop)(loop_body, void *, uint64_t);
  int bad_from; /* the number of the loop from which on it is bad */
  int loops;
} bad_pool;
static void bad_parallel_for(void *self, uint64_t count, uint64_t grain, loop_body body, void *context) {
  bad_pool *pool = self;
  (void)grain;
  if (pool->loops++ >= pool->bad_from) pool->loop(body, context, count);
  else body(context, 0, count, 0);
}

static void test_bad_pools(void **state) {
  static const char *const kReference[] = {"backend", "cpu-reference", NULL};
  static const struct {
    void (*loop)(loop_body, void *, uint64_t);
    const char *text;
  } kBad[] = {
      {skips, "indices to body, expected each of"},
      {repeats, "indices to body, expected each of"},
      {repeats_and_skips, "and gave others twice"},
      {unknown_worker, "called body with worker 3, expected one under 3"},
      {far_worker, "called body with worker 4294967295, expected one under 3"},
      {past_the_end, "expected a part of [0, count)"},
      {backwards, "expected a part of [0, count)"},
  };
  size_t i;
  (void)state;
  for (i = 0; i < sizeof kBad / sizeof *kBad; ++i) {
    bad_pool own = {kBad[i].loop, 1 << 30, 0};
    qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
    qr_thread_pool pool = QR_THREAD_POOL_INIT;
    qr_runtime *runtime = NULL;
    qr_model *model = NULL;
    qr_session *session = NULL;
    float out[10], expected[10];
    int good;
    pool.worker_count = 3, pool.self = &own, pool.parallel_for = bad_parallel_for;
    options.thread_pool = &pool;
    OK(qr_runtime_create(&options, &runtime));
    OK(model_at_path(runtime, str(digits_path()), NULL, &model));
    OK(create(runtime, model, kReference, &session));
    own.loops = 0;
    OK(run_once(session, expected));
    good = own.loops; /* loops of a run */
    assert_true(good > 1);
    own.loops = 0, own.bad_from = 1;
    FAILS("QR-R0101", kBad[i].text, run_once(session, out));
    assert_int_equal(own.loops, 2); /* not asked again in that run */
    own.bad_from = 1 << 30;
    OK(run_once(session, out)); /* the session has taken no harm */
    assert_memory_equal(out, expected, sizeof out);
    qr_session_destroy(session);
    qr_model_destroy(model);
    qr_runtime_destroy(runtime);
  }
}

/* A call that comes after its loop has ended, between two runs. */
static void test_a_late_call(void **state) {
  static const char *const kReference[] = {"backend", "cpu-reference", NULL};
  bad_pool own = {calls_late, 0, 0};
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_thread_pool pool = QR_THREAD_POOL_INIT;
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  float out[10];
  (void)state;
  pool.worker_count = 3, pool.self = &own, pool.parallel_for = bad_parallel_for;
  options.thread_pool = &pool;
  OK(qr_runtime_create(&options, &runtime));
  OK(model_at_path(runtime, str(digits_path()), NULL, &model));
  OK(create(runtime, model, kReference, &session));
  OK(run_once(session, out));
  last_body(last_context, 0, 1, 0);
  FAILS("QR-R0101", "after parallel_for had returned", run_once(session, out));
  OK(run_once(session, out));
  qr_session_destroy(session);
  qr_model_destroy(model);
  qr_runtime_destroy(runtime);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sessions_share_a_pool), cmocka_unit_test(test_thread_options),
      cmocka_unit_test(test_callers_parallel_for),  cmocka_unit_test(test_bad_pools),
      cmocka_unit_test(test_a_late_call),
  };
  container = digits_qrm("pools");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
