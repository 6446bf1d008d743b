/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of shapes through the C ABI, with room for one plan: results that stay, runs in a queue whose plans make room
 * for each other, sessions that end meanwhile, memory that runs out, and what the report says. */
#include <math.h>
#include <pthread.h>

#include "capi_test.h"

#define MOST 64
#define WIDE 4

/* y[k + n, 4] = Concat(past[k, 4], Relu(x[n, 4] times twice the identity)) */
static const uint8_t grow_model[] = {
    8,   10,  58,  217, 1,  10,  17,  10, 1,   120, 10,  1,   119, 18,  1,   112, 34, 6,   77, 97,  116, 77,  117,
    108, 10,  12,  10,  1,  112, 18,  1,  114, 34,  4,   82,  101, 108, 117, 10,  33, 10,  4,  112, 97,  115, 116,
    10,  1,   114, 18,  1,  121, 34,  6,  67,  111, 110, 99,  97,  116, 42,  11,  10, 4,   97, 120, 105, 115, 24,
    0,   160, 1,   2,   18, 1,   103, 42, 75,  8,   4,   8,   4,   16,  1,   66,  1,  119, 74, 64,  0,   0,   0,
    64,  0,   0,   0,   0,  0,   0,   0,  0,   0,   0,   0,   0,   0,   0,   0,   0,  0,   0,  0,   64,  0,   0,
    0,   0,   0,   0,   0,  0,   0,   0,  0,   0,   0,   0,   0,   0,   0,   0,   0,  64,  0,  0,   0,   0,   0,
    0,   0,   0,   0,   0,  0,   0,   0,  0,   0,   0,   0,   0,   0,   64,  90,  23, 10,  4,  112, 97,  115, 116,
    18,  15,  10,  13,  8,  1,   18,  9,  10,  3,   18,  1,   107, 10,  2,   8,   4,  90,  20, 10,  1,   120, 18,
    15,  10,  13,  8,   1,  18,  9,   10, 3,   18,  1,   110, 10,  2,   8,   4,   98, 20,  10, 1,   121, 18,  15,
    10,  13,  8,   1,   18, 9,   10,  3,  18,  1,   109, 10,  2,   8,   4,   66,  4,  10,  0,  16,  21};

typedef struct fixture {
  counting_allocator counter;
  qr_runtime *runtime;
  qr_session *session;
} fixture;

static void open_fixture(fixture *f, const char *plans) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator;
  qr_options *session_options = NULL;
  qr_model *model = NULL;
  memset(f, 0, sizeof *f);
  allocator = counting(&f->counter);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &f->runtime));
  OK(qr_options_create(f->runtime, &session_options));
  OK(qr_options_set(session_options, str("backend"), str("cpu")));
  OK(qr_options_set(session_options, str("shape"), str("k=0..64,n=1..64")));
  OK(qr_options_set(session_options, str("shape.plans"), str(plans)));
  OK(qr_options_set(session_options, str("queue_depth"), str("8")));
  OK(model_in_memory(f->runtime, grow_model, sizeof grow_model, NULL, &model));
  OK(qr_session_create(model, session_options, NULL, &f->session));
  qr_options_destroy(session_options), qr_model_destroy(model);
}
static void close_fixture(fixture *f) {
  qr_session_destroy(f->session), qr_runtime_destroy(f->runtime);
  assert_int_equal(f->counter.live, 0), assert_int_equal(f->counter.mismatches, 0);
}

static qr_tensor rows_at(const float *data, int64_t rows) {
  qr_tensor made = QR_TENSOR_INIT;
  made.dtype = QR_DTYPE_F32, made.rank = 2, made.dims[0] = rows, made.dims[1] = WIDE;
  made.data = (void *)data, made.size_bytes = (uint64_t)rows * WIDE * sizeof(float);
  return made;
}

typedef struct job {
  float past[MOST * WIDE], x[MOST * WIDE], y[2 * MOST * WIDE];
  int64_t k, n;
  qr_tensor in[2], out;
  const qr_tensor *inputs[2];
  qr_tensor *outputs[1];
} job;

static void prepare(job *j, int64_t k, int64_t n) {
  int i;
  j->k = k, j->n = n;
  for (i = 0; i < MOST * WIDE; ++i) j->past[i] = (float)(k + i), j->x[i] = (float)(n * 10 - i), j->y[i] = -1;
  j->in[0] = rows_at(j->past, k), j->in[1] = rows_at(j->x, n), j->out = rows_at(j->y, k + n);
  j->inputs[0] = &j->in[0], j->inputs[1] = &j->in[1], j->outputs[0] = &j->out;
}
static int right(const job *j) {
  int64_t i;
  for (i = 0; i < (j->k + j->n) * WIDE; ++i) {
    const float x = i < j->k * WIDE ? j->past[i] : 2 * fmaxf(j->x[i - j->k * WIDE], 0);
    if (fabsf(j->y[i] - x) > 1e-3f) return 0;
  }
  return j->out.rank == 2 && j->out.dims[0] == j->k + j->n;
}
static qr_status *run(qr_session *session, job *j) {
  return qr_session_run(session, NULL, j->inputs, 2, j->outputs, 1);
}

/* What a run gave is what the next one reads, whose plan takes the place of the plan that it lies in. */
static void test_results_of_a_plan_that_goes(void **state) {
  fixture f;
  qr_tensor past = QR_TENSOR_INIT;
  int64_t step, i;
  (void)state;
  open_fixture(&f, "1");
  past = rows_at(NULL, 0);
  for (step = 1; step <= MOST; ++step) {
    float x[WIDE];
    qr_tensor in = rows_at(x, 1), out = QR_TENSOR_INIT;
    const qr_tensor *inputs[2] = {&past, &in};
    qr_tensor *outputs[1] = {&out};
    for (i = 0; i < WIDE; ++i) x[i] = (float)(step * 10 + i);
    OK(qr_session_run(f.session, NULL, inputs, 2, outputs, 1));
    assert_int_equal(out.dims[0], step);
    for (i = 0; i < step * WIDE; ++i)
      assert_true(fabsf(((const float *)out.data)[i] - (float)(2 * ((i / WIDE + 1) * 10 + i % WIDE))) < 1e-3f);
    past = out;
  }
  close_fixture(&f);
}

/* Sessions of one context plan beside each other, each in a queue of its own; every run is of another length. */
static void *queue_of(void *session) {
  static const int64_t lengths[] = {3, 17, 64, 1, 30, 5, 44, 9};
  job *jobs = calloc(8, sizeof *jobs);
  uint64_t tickets[8];
  intptr_t wrong = 0;
  int round, i;
  for (round = 0; round < 12; ++round) {
    for (i = 0; i < 8; ++i) {
      prepare(&jobs[i], lengths[(i + round) % 8] - 1, lengths[(i * 3 + round) % 8]);
      if (qr_session_submit(session, NULL, jobs[i].inputs, 2, jobs[i].outputs, 1, &tickets[i])) ++wrong, tickets[i] = 0;
    }
    for (i = 0; i < 8; ++i) {
      int32_t ended = 0;
      qr_status *status = tickets[i] ? qr_session_wait(session, tickets[i], NULL, &ended) : NULL;
      wrong += status != NULL || !ended || !right(&jobs[i]);
      qr_status_destroy(status);
    }
  }
  free(jobs);
  return (void *)wrong;
}
static void test_queues_with_one_plan(void **state) {
  fixture f;
  qr_session *sessions[3];
  pthread_t threads[3];
  int i;
  (void)state;
  open_fixture(&f, "1");
  sessions[0] = f.session;
  for (i = 1; i < 3; ++i) OK(qr_session_clone(f.session, NULL, &sessions[i]));
  for (i = 0; i < 3; ++i) assert_int_equal(pthread_create(&threads[i], NULL, queue_of, sessions[i]), 0);
  for (i = 0; i < 3; ++i) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_int_equal((intptr_t)wrong, 0);
  }
  for (i = 1; i < 3; ++i) qr_session_destroy(sessions[i]);
  close_fixture(&f);
}

/* A session that ends, or whose runs are called off, while they make plans. */
static void test_ends_while_planning(void **state) {
  int round, i;
  (void)state;
  for (round = 0; round < 10; ++round) {
    fixture f;
    job *jobs = calloc(8, sizeof *jobs);
    qr_signal *signal = NULL;
    qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
    open_fixture(&f, "2");
    OK(qr_signal_create(f.runtime, &signal));
    how.signal = signal;
    for (i = 0; i < 8; ++i) {
      prepare(&jobs[i], i * 7 + round, 1 + i * 3);
      OK(qr_session_submit(f.session, &how, jobs[i].inputs, 2, jobs[i].outputs, 1, NULL));
    }
    if (round % 2) {
      qr_signal_abort(signal);
      OK(qr_session_wait(f.session, 0, NULL, NULL));
      qr_signal_destroy(signal);
      prepare(&jobs[0], 20, 4);
      OK(run(f.session, &jobs[0]));
      assert_true(right(&jobs[0]));
    } else {
      qr_signal_destroy(signal);
    }
    close_fixture(&f);
    free(jobs);
  }
}

static void test_memory_runs_out(void **state) {
  fixture f;
  job *j = calloc(1, sizeof *j);
  uint64_t n, failures = 0;
  (void)state;
  open_fixture(&f, "2");
  prepare(j, 3, 5);
  OK(run(f.session, j));
  for (n = 1;; n += 1 + n / 30) {
    qr_status *status;
    prepare(j, (int64_t)(n % 60), 40);
    f.counter.made = 0, f.counter.fail_at = n;
    status = run(f.session, j);
    f.counter.fail_at = 0;
    if (f.counter.made < n) {
      OK(status);
      break;
    }
    if (status) {
      assert_int_equal(qr_status_code(status), QR_RESOURCE_EXHAUSTED);
      qr_status_destroy(status), ++failures;
    }
    prepare(j, 3, 5);
    OK(run(f.session, j));
    assert_true(right(j));
  }
  assert_true(failures > 30);
  free(j);
  close_fixture(&f);
}

static void test_report(void **state) {
  fixture f;
  job *j = calloc(1, sizeof *j);
  char *json = NULL;
  int i;
  (void)state;
  open_fixture(&f, "3");
  for (i = 0; i < 5; ++i) {
    prepare(j, i, 5);
    OK(run(f.session, j));
    OK(run(f.session, j));
  }
  OK(qr_session_report(f.session, &json));
  for (i = 0; i < 6; ++i) {
    static const char *const parts[] = {"\"plans\": {", "\"most\": 3,", "\"kept\": 3,",
                                        "\"hits\": 5,", "\"made\": 5,", "\"dropped\": 2"};
    assert_non_null(strstr(json, parts[i]));
  }
  qr_string_destroy(json);
  free(j);
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results_of_a_plan_that_goes),
      cmocka_unit_test(test_queues_with_one_plan),
      cmocka_unit_test(test_ends_while_planning),
      cmocka_unit_test(test_memory_runs_out),
      cmocka_unit_test(test_report),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
