/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in a queue on the cpu backend: the results of plain runs, from any thread, without allocating. */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "capi_test.h"

#define DEPTH 4
#define RUNS 200

static const char *container;

typedef struct job {
  float input[64], output[10];
  qr_tensor in, out;
  const qr_tensor *inputs[1];
  qr_tensor *outputs[1];
} job;

typedef struct fixture {
  counting_allocator counter;
  qr_runtime *runtime;
  qr_model *model;
  qr_session *session;
  float expected[DEPTH][10]; /* of the input of that number */
} fixture;

static void prepare(job *j, int number) {
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  int i;
  memset(j, 0, sizeof *j);
  for (i = 0; i < 64; ++i) j->input[i] = (float)((i + 5 * number) * 37 % 64) / 64.0f;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8, in.data = j->input,
  in.size_bytes = sizeof j->input;
  out.data = j->output, out.size_bytes = sizeof j->output;
  j->in = in, j->out = out, j->inputs[0] = &j->in, j->outputs[0] = &j->out;
}
static qr_status *submit(fixture *f, job *j, const qr_submit_options *how, uint64_t *ticket) {
  return qr_session_submit(f->session, how, j->inputs, 1, j->outputs, 1, ticket);
}

static void open_fixture(fixture *f) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator;
  qr_options *session_options = NULL;
  int i;
  memset(f, 0, sizeof *f);
  allocator = counting(&f->counter);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &f->runtime));
  OK(qr_options_create(f->runtime, &session_options));
  OK(qr_options_set(session_options, str("threads"), str("2")));
  OK(qr_options_set(session_options, str("queue_depth"), str("4")));
  OK(model_at_path(f->runtime, str(container), NULL, &f->model));
  OK(qr_session_create(f->model, session_options, NULL, &f->session));
  qr_options_destroy(session_options);
  for (i = 0; i < DEPTH; ++i) {
    job j;
    prepare(&j, i);
    OK(qr_session_run(f->session, NULL, j.inputs, 1, j.outputs, 1));
    memcpy(f->expected[i], j.output, sizeof j.output);
    assert_true(i == 0 || memcmp(f->expected[i], f->expected[i - 1], sizeof j.output) != 0);
  }
}
static void close_fixture(fixture *f) {
  qr_session_destroy(f->session), qr_model_destroy(f->model), qr_runtime_destroy(f->runtime);
  assert_int_equal(f->counter.live, 0);
  assert_int_equal(f->counter.mismatches, 0);
}

static void test_results_without_allocation(void **state) {
  fixture f;
  job jobs[DEPTH];
  uint64_t tickets[DEPTH], made = 0;
  int i, k;
  (void)state;
  open_fixture(&f);
  for (i = 0; i < RUNS; ++i) {
    const int round = i / DEPTH, number = i % DEPTH;
    prepare(&jobs[number], (number + round) % DEPTH);
    OK(submit(&f, &jobs[number], NULL, &tickets[number]));
    if (number + 1 < DEPTH) continue;
    for (k = 0; k < DEPTH; ++k) {
      OK(qr_session_wait(f.session, tickets[k], NULL, NULL));
      assert_memory_equal(jobs[k].output, f.expected[(k + round) % DEPTH], sizeof jobs[k].output);
      assert_int_equal(jobs[k].out.rank, 2), assert_int_equal(jobs[k].out.dims[1], 10);
    }
    if (round == 0) made = f.counter.made;
  }
  assert_int_equal(f.counter.made, made);
  close_fixture(&f);
}

/* Nobody waits: callbacks keep the queue full, while others run, submit and wait for it to be empty. */
typedef struct chain {
  fixture *f;
  job job;
  int number, left, wrong;
} chain;
static void on_done(void *self, uint64_t ticket, qr_status *status) {
  chain *c = self;
  qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
  (void)ticket;
  c->wrong += status || memcmp(c->job.output, c->f->expected[c->number], sizeof c->job.output) != 0;
  qr_status_destroy(status);
  if (--c->left <= 0) return;
  memset(c->job.output, 0, sizeof c->job.output);
  how.self = c, how.done = on_done;
  status = submit(c->f, &c->job, &how, NULL);
  c->wrong += status != NULL;
  qr_status_destroy(status);
}
static void *runs(void *argument) {
  fixture *f = argument;
  intptr_t wrong = 0;
  int i;
  for (i = 0; i < 5; ++i) {
    job j;
    qr_status *status;
    prepare(&j, i % DEPTH);
    status = qr_session_run(f->session, NULL, j.inputs, 1, j.outputs, 1);
    wrong += status || memcmp(j.output, f->expected[i % DEPTH], sizeof j.output) != 0;
    qr_status_destroy(status);
  }
  return (void *)wrong; /* NOLINT */
}
static void test_callbacks(void **state) {
  fixture f;
  chain chains[DEPTH];
  pthread_t thread;
  void *wrong = NULL;
  int i;
  (void)state;
  open_fixture(&f);
  for (i = 0; i < DEPTH; ++i) {
    qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
    chains[i].f = &f, chains[i].number = i, chains[i].left = RUNS, chains[i].wrong = 0;
    prepare(&chains[i].job, i);
    how.self = &chains[i], how.done = on_done;
    OK(submit(&f, &chains[i].job, &how, NULL));
  }
  assert_int_equal(pthread_create(&thread, NULL, runs, &f), 0);
  pthread_join(thread, &wrong);
  assert_null(wrong);
  OK(qr_session_wait(f.session, 0, NULL, NULL));
  for (i = 0; i < DEPTH; ++i) assert_int_equal(chains[i].left, 0), assert_int_equal(chains[i].wrong, 0);
  close_fixture(&f);
}

/* Several threads submit to one session, and each waits for its own runs. */
static void *submits(void *argument) {
  fixture *f = argument;
  intptr_t wrong = 0;
  int i;
  for (i = 0; i < 100; ++i) {
    job j;
    uint64_t ticket = 0;
    qr_status *status;
    prepare(&j, i % DEPTH);
    status = submit(f, &j, NULL, &ticket); /* there is a place for each of the threads */
    if (!status) status = qr_session_wait(f->session, ticket, NULL, NULL);
    wrong += status || memcmp(j.output, f->expected[i % DEPTH], sizeof j.output) != 0;
    qr_status_destroy(status);
  }
  return (void *)wrong; /* NOLINT */
}
static void test_threads(void **state) {
  fixture f;
  pthread_t threads[DEPTH];
  int i;
  (void)state;
  open_fixture(&f);
  for (i = 0; i < DEPTH; ++i) assert_int_equal(pthread_create(&threads[i], NULL, submits, &f), 0);
  for (i = 0; i < DEPTH; ++i) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  close_fixture(&f);
}

static void test_descriptor(void **state) {
  fixture f;
  job jobs[DEPTH];
  uint64_t tickets[DEPTH];
  int32_t fd = -1;
  struct pollfd one;
  int i;
  (void)state;
  open_fixture(&f);
  for (i = 0; i < DEPTH; ++i) prepare(&jobs[i], i);
  OK(submit(&f, &jobs[0], NULL, &tickets[0]));
  OK(qr_session_wait(f.session, 0, NULL, NULL));
  OK(qr_session_completion_fd(f.session, &fd)); /* asked for afterwards */
  one.fd = fd, one.events = POLLIN;
  assert_int_equal(poll(&one, 1, 0), 1);
  for (i = 1; i < DEPTH; ++i) OK(submit(&f, &jobs[i], NULL, &tickets[i]));
  for (i = 0; i < DEPTH; ++i) {
    assert_int_equal(poll(&one, 1, 10000), 1);
    OK(qr_session_wait(f.session, tickets[i], NULL, NULL));
    assert_memory_equal(jobs[i].output, f.expected[i], sizeof jobs[i].output);
  }
  assert_int_equal(poll(&one, 1, 0), 0);
  close_fixture(&f);
}

static void test_destroy_with_queued_runs(void **state) {
  fixture f;
  job jobs[DEPTH];
  int i;
  (void)state;
  open_fixture(&f);
  for (i = 0; i < DEPTH; ++i) {
    prepare(&jobs[i], i);
    OK(submit(&f, &jobs[i], NULL, NULL));
  }
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results_without_allocation),
      cmocka_unit_test(test_callbacks),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_descriptor),
      cmocka_unit_test(test_destroy_with_queued_runs),
  };
  container = digits_qrm("queue");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
