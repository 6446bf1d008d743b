/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in a queue on the scripted backend, built without execution.submit (a thread of Quarry's runs them) or with it.
 * Arguments as for test_scripted.c. */
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/capi/capi_test.h"

static const char *g_plugins, *g_models, *g_prepare;

static const float kX[8] = {-1, 2, 0, 4, 5, -6, 7, 0}, kY[8] = {0, 12, 20, 34, 45, 50, 67, 70};
static const int64_t kZ[8] = {0, 0, 1, 1, 1, 3, 0, 2};

typedef struct world {
  qr_runtime *runtime;
  qr_options *options;
  qr_model *model;
  qr_session *session;
} world;

/* A run's tensors and what became of it. */
typedef struct job {
  float in[8], y[8];
  int64_t z[16];
  qr_tensor x_tensor, y_tensor, z_tensor;
  const qr_tensor *inputs[1];
  qr_tensor *outputs[2];
  qr_submit_options how;
  uint64_t ticket;
  int ended; /* in which place */
  qr_code code;
} job;
static int g_ended; /* by callbacks, which come one after the other */

static void set(world *w, const char *key, const char *value) { OK(qr_options_set(w->options, str(key), str(value))); }

static void make(world *w, const char *depth, const char *script) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  char path[4096];
  memset(w, 0, sizeof *w);
  options.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
  options.backend_path = str(g_plugins);
  options.prepare_path = str(g_prepare);
  OK(qr_runtime_create(&options, &w->runtime));
  OK(qr_options_create(w->runtime, &w->options));
  set(w, "backend", "scripted");
  set(w, "queue_depth", depth);
  set(w, "scripted.script", script);
  snprintf(path, sizeof path, "%s/accepted.onnx", g_models);
  OK(model_at_path(w->runtime, str(path), NULL, &w->model));
  OK(qr_session_create(w->model, w->options, NULL, &w->session));
}
static void destroy(world *w) {
  qr_session_destroy(w->session);
  qr_model_destroy(w->model);
  qr_options_destroy(w->options);
  qr_runtime_destroy(w->runtime);
}

static void on_done(void *self, uint64_t ticket, qr_status *status) {
  job *j = self;
  (void)ticket;
  j->code = qr_status_code(status);
  j->ended = __atomic_add_fetch(&g_ended, 1, __ATOMIC_RELAXED);
  qr_status_destroy(status);
}

static qr_tensor tensor(qr_dtype dtype, void *data, uint64_t size) {
  qr_tensor made = QR_TENSOR_INIT;
  made.dtype = dtype, made.rank = 2, made.dims[0] = 2, made.dims[1] = 4, made.data = data, made.size_bytes = size;
  return made;
}
static void prepare(job *j) {
  qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
  memset(j, 0, sizeof *j);
  memcpy(j->in, kX, sizeof kX);
  j->x_tensor = tensor(QR_DTYPE_F32, j->in, sizeof j->in);
  j->y_tensor = tensor(QR_DTYPE_F32, j->y, sizeof j->y);
  j->z_tensor = tensor(QR_DTYPE_I64, j->z, sizeof j->z);
  j->inputs[0] = &j->x_tensor;
  j->outputs[0] = &j->y_tensor, j->outputs[1] = &j->z_tensor;
  j->how = how;
  j->how.self = j;
  j->how.done = on_done;
  j->code = -1;
}
static qr_status *submit(qr_session *session, job *j) {
  return qr_session_submit(session, &j->how, j->inputs, 1, j->outputs, 2, &j->ticket);
}
static void check(const job *j) {
  assert_int_equal(j->code, QR_OK);
  assert_memory_equal(j->y, kY, sizeof kY);
  assert_int_equal(j->z_tensor.rank, 2), assert_int_equal(j->z_tensor.dims[1], 4);
  assert_int_equal(j->z_tensor.size_bytes, sizeof kZ);
  assert_memory_equal(j->z, kZ, sizeof kZ);
}
static void submit_all(qr_session *session, job *jobs, int count) {
  int i;
  __atomic_store_n(&g_ended, 0, __ATOMIC_RELAXED); /* a run that nobody waited for may end now */
  for (i = 0; i < count; ++i) {
    prepare(&jobs[i]);
    OK(submit(session, &jobs[i]));
  }
}
static qr_status *run(qr_session *session, job *j, qr_signal *signal) {
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  options.signal = signal;
  prepare(j);
  return qr_session_run(session, &options, j->inputs, 1, j->outputs, 2);
}
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- order ----------------------------------------------------------------------------------- */

static void test_order(void **state) {
  world w;
  job jobs[4], more;
  uint64_t ticket;
  int i;
  (void)state;
  make(&w, "4", "slow_run=200");
  submit_all(w.session, jobs, 4);
  prepare(&more);
  FAILS("QR-R0014", "found 4 runs under way, expected fewer than queue_depth", submit(w.session, &more));
  for (i = 3; i >= 0; --i) OK(qr_session_wait(w.session, jobs[i].ticket, NULL, NULL)); /* in any order */
  for (i = 0; i < 4; ++i) {
    assert_int_equal(jobs[i].ticket, i + 1);
    assert_int_equal(jobs[i].ended, i + 1);
    check(&jobs[i]);
  }
  FAILS("QR-R0015", "found ticket 2", qr_session_wait(w.session, 2, NULL, NULL)); /* given already */
  FAILS("QR-R0015", "found ticket 5", qr_session_wait(w.session, 5, NULL, NULL));
  /* What nobody waits for is forgotten when 1024 more have ended, not before. */
  OK(qr_session_set_option(w.session, str("scripted.script"), str("")));
  prepare(&more);
  OK(submit(w.session, &more));
  ticket = more.ticket;
  for (i = 0; i < 1025; ++i) {
    submit_all(w.session, jobs, 1);
    OK(qr_session_wait(w.session, 0, NULL, NULL));
    if (i == 1) OK(qr_session_wait(w.session, ticket, NULL, NULL));
  }
  FAILS("QR-R0015", "", qr_session_wait(w.session, ticket + 1, NULL, NULL));
  OK(qr_session_wait(w.session, ticket + 2, NULL, NULL));
  destroy(&w);
}

static void test_failing_run(void **state) {
  world w;
  job jobs[3];
  (void)state;
  make(&w, "3", "slow_run=20;fail_at=2");
  submit_all(w.session, jobs, 3);
  OK(qr_session_wait(w.session, 1, NULL, NULL));
  FAILS("QR-C0010", "fail_at", qr_session_wait(w.session, 2, NULL, NULL));
  OK(qr_session_wait(w.session, 3, NULL, NULL));
  check(&jobs[0]), check(&jobs[2]);
  assert_int_equal(jobs[1].code, QR_INTERNAL); /* the callback got its own */
  assert_true(jobs[1].y[1] == 0);
  destroy(&w);
}

static void test_bad_arguments(void **state) {
  world w;
  job j;
  qr_tensor z = QR_TENSOR_INIT;
  (void)state;
  make(&w, "2", "");
  prepare(&j);
  j.y_tensor.data = NULL;
  FAILS("QR-R0004", "output y", submit(w.session, &j));
  prepare(&j);
  j.z_tensor.data = NULL;
  FAILS("QR-R0004", "output z", submit(w.session, &j));
  prepare(&j);
  j.outputs[1] = &z; /* the session's memory, which a later run may write */
  OK(qr_session_run(w.session, NULL, j.inputs, 1, j.outputs, 2));
  FAILS("QR-R0004", "data is what the session gave out", submit(w.session, &j));
  prepare(&j);
  j.z_tensor.size_bytes = 8;
  OK(submit(w.session, &j));
  FAILS("QR-R0005", "output z", qr_session_wait(w.session, j.ticket, NULL, NULL));
  prepare(&j);
  j.x_tensor.dims[1] = 5;
  FAILS("QR-R0003", "", submit(w.session, &j));
  prepare(&j);
  j.how.flags = 1;
  FAILS("QR-C0005", "flags", submit(w.session, &j));
  prepare(&j);
  OK(submit(w.session, &j)); /* none of them took a place */
  OK(qr_session_wait(w.session, 0, NULL, NULL));
  check(&j);
  destroy(&w);
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void test_abort(void **state) {
  world w;
  job jobs[3];
  const double begin = now();
  int i;
  (void)state;
  make(&w, "3", "slow_run=20000");
  submit_all(w.session, jobs, 3);
  qr_session_abort(w.session, jobs[1].ticket);
  usleep(50000);
  assert_int_equal(__atomic_load_n(&g_ended, __ATOMIC_RELAXED), 0); /* in order: the first is still at it */
  qr_session_abort(w.session, jobs[0].ticket);
  FAILS("QR-C0011", "", qr_session_wait(w.session, jobs[0].ticket, NULL, NULL));
  FAILS("QR-C0011", "", qr_session_wait(w.session, jobs[1].ticket, NULL, NULL));
  usleep(50000);
  assert_int_equal(__atomic_load_n(&g_ended, __ATOMIC_RELAXED), 2);
  qr_session_abort(w.session, 0);
  FAILS("QR-C0011", "", qr_session_wait(w.session, jobs[2].ticket, NULL, NULL));
  for (i = 0; i < 3; ++i) assert_int_equal(jobs[i].code, QR_CANCELLED);
  qr_session_abort(w.session, 99);
  qr_session_abort(NULL, 0);
  assert_true(now() - begin < 10);
  destroy(&w);
}

/* The caller's own signal stops the run too: by the word that the backend looks at, and by the descriptor. */
static void test_callers_signal(void **state) {
  static const char *const scripts[] = {"slow_run=20000", "sleep_run=20000"};
  int i, by_ticket;
  (void)state;
  for (i = 0; i < 2; ++i) {
    world w;
    job jobs[2];
    qr_signal *signal = NULL;
    const double begin = now();
    make(&w, "2", scripts[i]);
    OK(qr_signal_create(w.runtime, &signal));
    for (by_ticket = 0; by_ticket < 2; ++by_ticket) {
      g_ended = 0;
      prepare(&jobs[0]);
      jobs[0].how.signal = signal;
      OK(submit(w.session, &jobs[0]));
      usleep(30000);
      if (by_ticket) qr_session_abort(w.session, jobs[0].ticket);
      else qr_signal_abort(signal);
      FAILS("QR-C0011", "", qr_session_wait(w.session, jobs[0].ticket, NULL, NULL));
      qr_signal_reset(signal);
    }
    assert_true(now() - begin < 10);
    /* Its timeout counts from the submission; the second run has spent its own while it was queued. */
    if (i == 0) {
      qr_signal_set_timeout(signal, 200000000u);
      prepare(&jobs[0]), prepare(&jobs[1]);
      jobs[0].how.signal = jobs[1].how.signal = signal;
      OK(submit(w.session, &jobs[0]));
      OK(submit(w.session, &jobs[1]));
      qr_signal_destroy(signal); /* the runs keep it */
      signal = NULL;
      FAILS("QR-C0012", "", qr_session_wait(w.session, jobs[0].ticket, NULL, NULL));
      FAILS("QR-C0012", "", qr_session_wait(w.session, jobs[1].ticket, NULL, NULL));
      assert_true(now() - begin < 10);
    }
    qr_signal_destroy(signal);
    destroy(&w);
  }
}

static void *abort_soon(void *signal) {
  usleep(100000);
  qr_signal_abort(signal);
  return NULL;
}

/* The signal of a wait ends the wait, not the run. */
static void test_signal_of_wait(void **state) {
  world w;
  job jobs[2];
  qr_signal *signal = NULL;
  pthread_t thread;
  int32_t ended = -1;
  (void)state;
  make(&w, "2", "slow_run=4000");
  OK(qr_signal_create(w.runtime, &signal));
  submit_all(w.session, jobs, 1);
  pthread_create(&thread, NULL, abort_soon, signal);
  FAILS("QR-R0019", "the run goes on", qr_session_wait(w.session, jobs[0].ticket, signal, &ended));
  assert_int_equal(ended, 0);
  pthread_join(thread, NULL);
  FAILS("QR-C0011", "waiting", run(w.session, &jobs[1], signal));
  qr_signal_reset(signal);
  qr_signal_set_timeout(signal, 20000000);
  FAILS("QR-R0020", "the run goes on", qr_session_wait(w.session, 0, signal, &ended));
  assert_int_equal(ended, 0);
  FAILS("QR-C0012", "waiting", run(w.session, &jobs[1], signal));
  OK(qr_session_wait(w.session, jobs[0].ticket, NULL, &ended));
  assert_int_equal(ended, 1);
  check(&jobs[0]);
  qr_signal_destroy(signal);
  destroy(&w);
}

/* Waiting for a compilation in the background sleeps until something happens; it does not look again and again. */
static void test_wait_for_recompilation(void **state) {
  world w;
  job j;
  char path[] = "/tmp/quarry-queue-XXXXXX.qrm";
  const int fd = mkstemps(path, 4);
  qr_model *container = NULL;
  qr_session *session = NULL;
  qr_signal *signal = NULL;
  pthread_t thread;
  struct rusage before, after;
  double begin;
  (void)state;
  assert_true(fd >= 0);
  make(&w, "2", "grade=3");
  OK(qr_model_compile(w.model, w.options, &(qr_target)QR_TARGET_AT(path), NULL));
  OK(model_at_path(w.runtime, str(path), NULL, &container));
  set(&w, "scripted.script", "slow_compile=20000");
  set(&w, "context.recompile", "background");
  OK(qr_session_create(container, w.options, NULL, &session));
  OK(qr_signal_create(w.runtime, &signal));
  pthread_create(&thread, NULL, abort_soon, signal);
  begin = now();
  getrusage(RUSAGE_THREAD, &before);
  FAILS("QR-C0011", "", run(session, &j, signal));
  getrusage(RUSAGE_THREAD, &after);
  assert_true(now() - begin < 10);
  assert_true(after.ru_nvcsw - before.ru_nvcsw < 20);
  pthread_join(thread, NULL);
  qr_signal_reset(signal);
  qr_signal_set_timeout(signal, 50000000);
  FAILS("QR-C0012", "", run(session, &j, signal));
  qr_signal_destroy(signal);
  qr_session_destroy(session);
  qr_model_destroy(container);
  destroy(&w);
  close(fd), unlink(path);
}

/* ---- what else a session does ---------------------------------------------------------------- */

static void test_calls_wait(void **state) {
  world w;
  job jobs[4];
  char *report = NULL;
  qr_session *clone = NULL;
  (void)state;
  make(&w, "2", "slow_run=500");
  submit_all(w.session, jobs, 2);
  OK(qr_session_report(w.session, &report)); /* does not wait, nor does a clone */
  qr_string_destroy(report);
  OK(qr_session_clone(w.session, NULL, &clone));
  assert_true(__atomic_load_n(&g_ended, __ATOMIC_RELAXED) < 2);
  OK(run(w.session, &jobs[2], NULL));
  assert_int_equal(g_ended, 2);
  submit_all(w.session, jobs, 2);
  OK(qr_session_set_option(w.session, str("scripted.script"), str("slow_run=20")));
  assert_int_equal(g_ended, 2);
  submit_all(w.session, jobs, 2);
  OK(qr_session_recover(w.session, NULL));
  assert_int_equal(g_ended, 2);
  submit_all(clone, jobs, 2); /* a queue of its own */
  submit_all(w.session, jobs + 2, 2);
  OK(qr_session_wait(w.session, 0, NULL, NULL));
  OK(qr_session_wait(clone, 0, NULL, NULL));
  check(&jobs[0]), check(&jobs[3]);
  qr_session_destroy(clone);
  destroy(&w);
}

/* From the callback of a run: what would wait for itself is refused, the next run is taken. */
typedef struct chain {
  job job;
  world *w;
  int left, refused;
} chain;
static void on_link(void *self, uint64_t ticket, qr_status *status) {
  chain *c = self;
  qr_status *refused[5];
  int i;
  (void)ticket;
  if (status) abort();
  refused[0] = qr_session_run(c->w->session, NULL, c->job.inputs, 1, c->job.outputs, 2);
  refused[1] = qr_session_wait(c->w->session, 0, NULL, NULL);
  refused[2] = qr_session_set_option(c->w->session, str("scripted.script"), str(""));
  refused[3] = qr_session_recover(c->w->session, NULL);
  refused[4] = NULL;
  for (i = 0; refused[i]; ++i) {
    c->refused += !strcmp(qr_status_id(refused[i]), "QR-C0006") && strstr(qr_status_message(refused[i]), "callback");
    qr_status_destroy(refused[i]);
  }
  qr_session_destroy(c->w->session); /* logged, and nothing else */
  if (--c->left) {
    c->job.z_tensor.size_bytes = sizeof c->job.z;
    status = qr_session_submit(c->w->session, &c->job.how, c->job.inputs, 1, c->job.outputs, 2, NULL);
    if (status) abort();
  }
}
static void test_callbacks(void **state) {
  world w;
  chain c;
  (void)state;
  make(&w, "1", "");
  prepare(&c.job);
  c.job.how.self = &c, c.job.how.done = on_link;
  c.w = &w, c.left = 50, c.refused = 0;
  OK(submit(w.session, &c.job));
  OK(qr_session_wait(w.session, 0, NULL, NULL));
  assert_int_equal(c.left, 0);
  assert_int_equal(c.refused, 200);
  c.job.code = QR_OK;
  check(&c.job);
  destroy(&w);
}

static void test_destroy(void **state) {
  world w;
  job jobs[3];
  const double begin = now();
  int i;
  (void)state;
  make(&w, "3", "slow_run=20000");
  submit_all(w.session, jobs, 3);
  destroy(&w);
  assert_true(now() - begin < 10);
  assert_int_equal(g_ended, 3);
  for (i = 0; i < 3; ++i) assert_int_equal(jobs[i].code, QR_CANCELLED);
}

static void test_device_loss(void **state) {
  world w;
  job jobs[4];
  int i;
  (void)state;
  make(&w, "4", "slow_run=200;lose_at=2");
  submit_all(w.session, jobs, 4);
  OK(qr_session_wait(w.session, 1, NULL, NULL));
  for (i = 2; i <= 4; ++i) FAILS("QR-R0009", "", qr_session_wait(w.session, (uint64_t)i, NULL, NULL));
  FAILS("QR-R0009", "", submit(w.session, &jobs[0]));
  OK(qr_session_recover(w.session, NULL));
  submit_all(w.session, jobs, 2);
  OK(qr_session_wait(w.session, 0, NULL, NULL));
  check(&jobs[0]), check(&jobs[1]);
  destroy(&w);
}

/* Runs are queued all the while what they run on changes under them. */
static void test_change_over(void **state) {
  world w;
  job jobs[2];
  char path[] = "/tmp/quarry-queue-XXXXXX.qrm";
  const int fd = mkstemps(path, 4);
  qr_model *container = NULL;
  qr_session *session = NULL;
  int changed = 0, after = 0, i;
  (void)state;
  assert_true(fd >= 0);
  make(&w, "2", "grade=2");
  OK(qr_model_compile(w.model, w.options, &(qr_target)QR_TARGET_AT(path), NULL));
  OK(model_at_path(w.runtime, str(path), NULL, &container));
  set(&w, "scripted.script", "slow_compile=150;slow_run=5");
  set(&w, "context.recompile", "background");
  OK(qr_session_create(container, w.options, NULL, &session));
  submit_all(session, jobs, 2);
  for (i = 0; after < 6; ++i) {
    char *report = NULL;
    job *oldest = &jobs[i % 2];
    OK(qr_session_wait(session, oldest->ticket, NULL, NULL));
    check(oldest);
    OK(qr_session_report(session, &report));
    changed += strstr(report, "\"source\": \"container\"") != NULL;
    after += strstr(report, "\"source\": \"recompiled\"") != NULL;
    qr_string_destroy(report);
    prepare(oldest);
    OK(submit(session, oldest));
  }
  assert_true(changed > 0);
  qr_session_destroy(session);
  qr_model_destroy(container);
  destroy(&w);
  close(fd), unlink(path);
}

/* ---- what a run reports ---------------------------------------------------------------------- */

static void test_profile(void **state) {
  world w;
  job jobs[2];
  qr_profile *profiles[2] = {NULL, NULL};
  int i;
  (void)state;
  make(&w, "2", "slow_run=10");
  for (i = 0; i < 2; ++i) {
    OK(qr_profile_create(w.runtime, &profiles[i]));
    prepare(&jobs[i]);
    jobs[i].how.profile = profiles[i];
    OK(submit(w.session, &jobs[i]));
  }
  OK(qr_session_wait(w.session, 0, NULL, NULL));
  for (i = 0; i < 2; ++i) {
    uint64_t e, runs = 0, number = 0;
    for (e = 0; e < qr_profile_event_count(profiles[i]); ++e) {
      qr_profile_event event = QR_PROFILE_EVENT_INIT;
      OK(qr_profile_event_at(profiles[i], e, &event));
      if (event.name.size != 3 || memcmp(event.name.data, "run", 3)) continue;
      ++runs;
      if (event.counter_count) number = event.counters[0].value;
    }
    assert_int_equal(runs, 2); /* the call, and the backend's own */
    assert_int_equal(number, i + 1);
    qr_profile_destroy(profiles[i]);
  }
  destroy(&w);
}

static int readable(int fd, int timeout) {
  struct pollfd one = {fd, POLLIN, 0};
  return poll(&one, 1, timeout) == 1;
}
static void test_descriptor(void **state) {
  world w;
  job jobs[2];
  int32_t fd = -1, again = -1;
  (void)state;
  make(&w, "2", "slow_run=500");
  OK(qr_session_completion_fd(w.session, &fd));
  assert_false(readable(fd, 0));
  submit_all(w.session, jobs, 2);
  assert_true(readable(fd, 10000));
  OK(qr_session_wait(w.session, 1, NULL, NULL));
  assert_false(readable(fd, 0));
  assert_true(readable(fd, 10000));
  OK(qr_session_completion_fd(w.session, &again));
  assert_int_equal(fd, again);
  OK(qr_session_wait(w.session, 2, NULL, NULL));
  assert_false(readable(fd, 0));
  FAILS("QR-C0002", "out_fd", qr_session_completion_fd(w.session, NULL));
  destroy(&w);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_failing_run),
      cmocka_unit_test(test_bad_arguments),
      cmocka_unit_test(test_abort),
      cmocka_unit_test(test_callers_signal),
      cmocka_unit_test(test_signal_of_wait),
      cmocka_unit_test(test_wait_for_recompilation),
      cmocka_unit_test(test_calls_wait),
      cmocka_unit_test(test_callbacks),
      cmocka_unit_test(test_destroy),
      cmocka_unit_test(test_device_loss),
      cmocka_unit_test(test_change_over),
      cmocka_unit_test(test_profile),
      cmocka_unit_test(test_descriptor),
  };
  if (argc != 4) return 2;
  g_plugins = argv[1], g_models = argv[2], g_prepare = argv[3];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
