/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions in children of fork(): the threads that the parent started are not there. */
#include <poll.h>
#include <pthread.h>

#include "capi_test.h"
#include "child.h"

typedef struct world {
  qr_runtime *runtime;
  qr_model *model;
  qr_session *session, *sharing;
  float expected[10];
} world;

static qr_status *create(world *w, const char *pool, qr_session **session) {
  qr_options *options = NULL;
  qr_status *status = qr_options_create(w->runtime, &options);
  if (!status) status = qr_options_set(options, str("threads"), str("4"));
  if (!status) status = qr_options_set(options, str("backend"), str("cpu-reference")); /* shares every loop */
  if (!status && pool) status = qr_options_set(options, str("thread_pool"), str(pool));
  if (!status) status = qr_session_create(w->model, options, NULL, session);
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

static void make(world *w, const qr_runtime_options *options) {
  memset(w, 0, sizeof *w);
  OK(qr_runtime_create(options, &w->runtime));
  OK(model_at_path(w->runtime, str(digits_path()), NULL, &w->model));
  OK(create(w, NULL, &w->session));
  OK(create(w, "ours", &w->sharing));
  OK(run_once(w->session, w->expected)); /* now the pools have threads */
  OK(run_once(w->sharing, w->expected));
}
static void destroy(world *w) {
  qr_session_destroy(w->session);
  qr_session_destroy(w->sharing);
  qr_model_destroy(w->model);
  qr_runtime_destroy(w->runtime);
}

static int threads_of_this_process(void) {
  char line[256];
  int threads = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file)) sscanf(line, "Threads: %d", &threads);
  if (file) fclose(file);
  return threads;
}

static void destroys(void *argument) { destroy(argument); }

static void runs_and_destroys(void *argument) {
  world *w = argument;
  qr_session *made = NULL, *clone = NULL;
  float out[10];
  int i;
  CHILD_CHECK(threads_of_this_process() == 1);
  for (i = 0; i < 20; ++i) {
    CHILD_OK(run_once(w->session, out));
    CHILD_CHECK(memcmp(out, w->expected, sizeof out) == 0);
    CHILD_OK(run_once(w->sharing, out));
    CHILD_CHECK(memcmp(out, w->expected, sizeof out) == 0);
  }
  CHILD_CHECK(threads_of_this_process() == 1 + 3 + 3); /* made anew */
  CHILD_OK(create(w, "ours", &made));
  CHILD_OK(qr_session_clone(w->session, NULL, &clone));
  CHILD_OK(run_once(made, out));
  CHILD_OK(run_once(clone, out));
  qr_session_destroy(made);
  qr_session_destroy(clone);
  destroy(w);
  CHILD_CHECK(threads_of_this_process() == 1);
}

static void has_a_child_that_runs(void *argument) {
  world *w = argument;
  float out[10];
  CHILD_OK(run_once(w->session, out));
  CHILD_CHECK(child_ends_well(runs_and_destroys, argument));
  CHILD_OK(run_once(w->session, out));
  destroy(w);
}

static void test_children(void **state) {
  world w;
  float out[10];
  (void)state;
  make(&w, NULL);
  assert_true(child_ends_well(destroys, &w));
  assert_true(child_ends_well(runs_and_destroys, &w));
  assert_true(child_ends_well(has_a_child_that_runs, &w));
  OK(run_once(w.session, out)); /* the parent has lost nothing */
  assert_memory_equal(out, w.expected, sizeof out);
  destroy(&w);
}

/* A thread of the parent's runs and runs while children are made: whatever it is at, they do not hang. */
static volatile int stop;
static void *run_on(void *session) {
  float out[10];
  while (!stop) OK(run_once(session, out));
  return NULL;
}
static void runs_the_other(void *argument) {
  world *w = argument;
  float out[10];
  qr_session *made = NULL;
  CHILD_OK(create(w, "ours", &made));
  CHILD_OK(run_once(made, out));
  CHILD_CHECK(memcmp(out, w->expected, sizeof out) == 0);
  qr_session_destroy(made);
  destroy(w); /* the other session too, whose run nobody will end */
}
static void test_children_made_in_the_middle_of_runs(void **state) {
  world w;
  pthread_t thread;
  int i;
  (void)state;
  make(&w, NULL);
  stop = 0;
  assert_int_equal(pthread_create(&thread, NULL, run_on, w.sharing), 0);
  for (i = 0; i < 30; ++i) assert_true(child_ends_well(runs_the_other, &w));
  stop = 1;
  pthread_join(thread, NULL);
  destroy(&w);
}

/* The parent's queue is full, and its thread is somewhere in a run: what it queued ends in the parent alone. */
typedef struct queued {
  world w;
  qr_tensor in, out[2];
  const qr_tensor *inputs[1];
  float results[2][10];
  int32_t fd;
} queued;
static const float kZeros[64];
static qr_status *submit_both(queued *q, uint64_t *ticket) {
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  qr_status *status = NULL;
  int i;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8;
  in.data = (void *)(uintptr_t)kZeros, in.size_bytes = sizeof kZeros;
  q->in = in, q->inputs[0] = &q->in;
  for (i = 0; i < 2 && !status; ++i) {
    qr_tensor *outputs[1];
    memset(q->results[i], 0, sizeof q->results[i]);
    out.data = q->results[i], out.size_bytes = sizeof q->results[i];
    q->out[i] = out, outputs[0] = &q->out[i];
    status = qr_session_submit(q->w.session, NULL, q->inputs, 1, outputs, 1, ticket);
  }
  return status;
}
static void queues_its_own(void *argument) {
  queued *q = argument;
  uint64_t ticket = 0;
  float out[10];
  CHILD_OK(qr_session_wait(q->w.session, 0, NULL, NULL)); /* empty */
  CHILD_OK(run_once(q->w.session, out));
  CHILD_OK(submit_both(q, &ticket));
  CHILD_OK(qr_session_wait(q->w.session, ticket, NULL, NULL));
  CHILD_CHECK(memcmp(q->results, q->w.expected, sizeof out) == 0);
  CHILD_CHECK(memcmp(q->results[1], q->w.expected, sizeof out) == 0);
  CHILD_OK(submit_both(q, &ticket));
  destroy(&q->w);
}
static void destroys_queued(void *argument) { destroy(&((queued *)argument)->w); }
static void test_children_of_a_queue(void **state) {
  queued q;
  uint64_t ticket = 0;
  int i;
  (void)state;
  make(&q.w, NULL);
  OK(qr_session_completion_fd(q.w.session, &q.fd));
  for (i = 0; i < 20; ++i) {
    OK(submit_both(&q, &ticket));
    if (i % 4 == 3) OK(qr_session_wait(q.w.session, 0, NULL, NULL));
    assert_true(child_ends_well(i % 2 ? queues_its_own : destroys_queued, &q));
    OK(qr_session_wait(q.w.session, ticket, NULL, NULL));
    assert_memory_equal(q.results[1], q.w.expected, sizeof q.w.expected);
    OK(qr_session_wait(q.w.session, ticket - 1, NULL, NULL));
  }
  destroy(&q.w);
}

/* A lock that a thread of the parent's holds: an allocation of that thread waits while a child is made. */
static counting_allocator counter;
static volatile int hold, held;
static __thread int holds; /* this thread's allocations wait */
static void *holding_alloc(void *self, uint64_t size, uint64_t align) {
  if (holds && __atomic_load_n(&hold, __ATOMIC_ACQUIRE)) {
    __atomic_store_n(&held, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&hold, __ATOMIC_ACQUIRE)) usleep(1000);
  }
  return counting_alloc(self, size, align);
}
static void make_holding(world *w) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator = counting(&counter);
  allocator.alloc = holding_alloc;
  options.allocator = &allocator;
  make(w, &options);
}
/* `body` runs on a thread until it allocates: then `child` in a child of this process. */
static void with_held(void *(*body)(void *), void (*child)(void *), void *argument) {
  pthread_t thread;
  hold = 1, held = 0;
  assert_int_equal(pthread_create(&thread, NULL, body, argument), 0);
  while (!__atomic_load_n(&held, __ATOMIC_ACQUIRE)) usleep(1000);
  assert_true(child_ends_well(child, argument));
  __atomic_store_n(&hold, 0, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
}
static int is_lost_lock(qr_status *status) {
  const int is = status && strcmp(qr_status_id(status), "QR-C0201") == 0 && strstr(qr_status_message(status), "forked");
  qr_status_destroy(status);
  return is;
}

static void *open_backends(void *w) {
  uint64_t count = 0;
  holds = 1;
  OK(qr_runtime_scan(((world *)w)->runtime, &count));
  return NULL;
}
static void meets_the_lock(void *argument) {
  world *w = argument;
  qr_session *made = NULL;
  float out[10];
  CHILD_CHECK(is_lost_lock(create(w, NULL, &made)));
  CHILD_OK(run_once(w->session, out)); /* needs no plugin opened */
  destroy(w);
  make(w, NULL); /* another runtime */
  destroy(w);
}
static void test_a_lock_that_nobody_lets_go(void **state) {
  world w;
  (void)state;
  make_holding(&w);
  with_held(open_backends, meets_the_lock, &w);
  destroy(&w);
  assert_int_equal(counter.live, 0);
}

/* A profile into which a thread of the parent's writes. */
typedef struct profiled {
  world w;
  qr_profile *profile;
} profiled;
static qr_status *run_profiled(profiled *p, qr_session *session, float *out) {
  qr_tensor in = QR_TENSOR_INIT, result = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&result};
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  options.profile = p->profile;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8;
  in.data = (void *)(uintptr_t)kZeros, in.size_bytes = sizeof kZeros;
  result.data = out, result.size_bytes = 10 * sizeof *out;
  return qr_session_run(session, &options, inputs, 1, outputs, 1);
}
static void *writes_events(void *argument) {
  profiled *p = argument;
  float out[10];
  holds = 1;
  OK(run_profiled(p, p->w.sharing, out)); /* allocates for its events alone */
  return NULL;
}
static void writes_more(void *argument) {
  profiled *p = argument;
  qr_profile_event event = QR_PROFILE_EVENT_INIT;
  float out[10];
  CHILD_OK(run_profiled(p, p->w.session, out));
  CHILD_CHECK(qr_profile_event_count(p->profile) == 0);
  CHILD_CHECK(qr_profile_lost_count(p->profile) > 0);
  CHILD_CHECK(is_lost_lock(qr_profile_event_at(p->profile, 0, &event)));
  CHILD_CHECK(is_lost_lock(qr_profile_export(p->profile, str("csv"), &(qr_target)QR_TARGET_AT("./lost.csv"))));
  qr_profile_clear(p->profile);
  qr_profile_destroy(p->profile);
  p->profile = NULL;
  CHILD_OK(qr_profile_create(p->w.runtime, &p->profile));
  CHILD_OK(run_profiled(p, p->w.session, out));
  CHILD_CHECK(qr_profile_event_count(p->profile) > 0);
  qr_profile_destroy(p->profile);
}
static void test_a_profile_that_is_written(void **state) {
  profiled p = {0};
  (void)state;
  make_holding(&p.w);
  OK(qr_profile_create(p.w.runtime, &p.profile));
  with_held(writes_events, writes_more, &p);
  assert_true(qr_profile_event_count(p.profile) > 0);
  assert_int_equal(qr_profile_lost_count(p.profile), 0);
  qr_profile_destroy(p.profile);
  destroy(&p.w);
  assert_int_equal(counter.live, 0);
}

/* A signal that a thread of the parent's begins to follow, and one that a thread waits with. */
typedef struct signalled {
  queued q;
  qr_signal *signal;
  uint64_t ticket;
} signalled;
static qr_status *submit_with(signalled *s, void (*done)(void *, uint64_t, qr_status *)) {
  qr_submit_options options = QR_SUBMIT_OPTIONS_INIT;
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  qr_tensor *outputs[1];
  options.signal = s->signal, options.done = done;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8;
  in.data = (void *)(uintptr_t)kZeros, in.size_bytes = sizeof kZeros;
  out.data = s->q.results[0], out.size_bytes = sizeof s->q.results[0];
  s->q.in = in, s->q.inputs[0] = &s->q.in;
  s->q.out[0] = out, outputs[0] = &s->q.out[0];
  return qr_session_submit(s->q.w.session, &options, s->q.inputs, 1, outputs, 1, &s->ticket);
}
static int is_readable(int fd) {
  struct pollfd one = {fd, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}
static void *fills_its_stack(void *argument) {
  volatile char junk[256 * 1024];
  size_t i;
  (void)argument;
  for (i = 0; i < sizeof junk; ++i) junk[i] = 0x5a;
  return NULL;
}
/* Everything that a signal can do works in the child, and reaches nobody of the parent's. */
static void uses_the_signal(void *argument) {
  signalled *s = argument;
  pthread_t thread;
  qr_status *status;
  int32_t fd = -1;
  CHILD_CHECK(pthread_create(&thread, NULL, fills_its_stack, NULL) == 0);
  CHILD_CHECK(pthread_join(thread, NULL) == 0);
  qr_signal_abort(s->signal); /* before there is a descriptor of the child's own */
  qr_signal_reset(s->signal);
  CHILD_OK(qr_signal_fd(s->signal, &fd));
  CHILD_CHECK(s->q.fd < 0 || fd == s->q.fd);
  CHILD_CHECK(!is_readable(fd));
  qr_signal_abort(s->signal);
  CHILD_CHECK(is_readable(fd));
  status = submit_with(s, NULL);
  CHILD_CHECK(status && strcmp(qr_status_id(status), "QR-C0011") == 0);
  qr_status_destroy(status);
  qr_signal_reset(s->signal);
  CHILD_CHECK(!is_readable(fd));
  CHILD_OK(submit_with(s, NULL));
  CHILD_OK(qr_session_wait(s->q.w.session, s->ticket, s->signal, NULL));
  qr_signal_abort(s->signal);
}
static void *submits_with_signal(void *argument) {
  holds = 1;
  OK(submit_with(argument, NULL)); /* allocates a place for a follower */
  return NULL;
}
static void test_a_signal_that_is_followed(void **state) {
  signalled s = {0};
  uint64_t ticket = 0;
  (void)state;
  make_holding(&s.q.w);
  OK(submit_both(&s.q, &ticket)); /* now the queue is there */
  OK(qr_session_wait(s.q.w.session, 0, NULL, NULL));
  OK(qr_signal_create(s.q.w.runtime, &s.signal));
  s.q.fd = -1;
  with_held(submits_with_signal, uses_the_signal, &s);
  OK(qr_session_wait(s.q.w.session, s.ticket, NULL, NULL));
  qr_signal_destroy(s.signal);
  destroy(&s.q.w);
  assert_int_equal(counter.live, 0);
}

static void stays_until_told(void *self, uint64_t ticket, qr_status *status) {
  (void)self, (void)ticket;
  qr_status_destroy(status);
  while (__atomic_load_n(&hold, __ATOMIC_ACQUIRE)) usleep(1000);
}
static void *waits_with_signal(void *argument) {
  signalled *s = argument;
  /* Ends with the run, or at once where it sees the signal aborted before that is taken back. */
  qr_status *status = qr_session_wait(s->q.w.session, s->ticket, s->signal, NULL);
  if (status && strcmp(qr_status_id(status), "QR-R0019") != 0) OK(status);
  else qr_status_destroy(status);
  return NULL;
}
static void test_a_signal_that_is_waited_with(void **state) {
  signalled s = {0};
  pthread_t thread;
  (void)state;
  make(&s.q.w, NULL);
  OK(qr_signal_create(s.q.w.runtime, &s.signal));
  OK(qr_signal_fd(s.signal, &s.q.fd));
  hold = 1;
  OK(submit_with(&s, stays_until_told));
  assert_int_equal(pthread_create(&thread, NULL, waits_with_signal, &s), 0);
  usleep(100000); /* it follows the signal now */
  assert_true(child_ends_well(uses_the_signal, &s));
  assert_false(is_readable(s.q.fd));
  qr_signal_abort(s.signal);
  assert_true(is_readable(s.q.fd));
  qr_signal_reset(s.signal);
  __atomic_store_n(&hold, 0, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  qr_signal_destroy(s.signal);
  destroy(&s.q.w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_children),
      cmocka_unit_test(test_children_made_in_the_middle_of_runs),
      cmocka_unit_test(test_children_of_a_queue),
      cmocka_unit_test(test_a_lock_that_nobody_lets_go),
      cmocka_unit_test(test_a_profile_that_is_written),
      cmocka_unit_test(test_a_signal_that_is_followed),
      cmocka_unit_test(test_a_signal_that_is_waited_with),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
