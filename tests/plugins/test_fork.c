/* SPDX-License-Identifier: Apache-2.0 */
/* Children of fork() while a container is compiled again in the background, whose thread stays in the parent, and while
 * a device is recovered. Arguments as for test_scripted.c. */
#include <pthread.h>

#include "tests/capi/capi_test.h"
#include "tests/capi/child.h"

static const char *g_plugins, *g_models, *g_prepare;

/* An allocator that fails or waits on threads that say so. */
static counting_allocator counter;
static __thread int64_t fails_after = -1; /* so many allocations of this thread succeed; -1: all */
static __thread int holds;
static volatile int hold, held;
static void *odd_alloc(void *self, uint64_t size, uint64_t align) {
  if (holds && __atomic_load_n(&hold, __ATOMIC_ACQUIRE)) {
    __atomic_store_n(&held, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&hold, __ATOMIC_ACQUIRE)) usleep(1000);
  }
  if (fails_after == 0) return NULL;
  if (fails_after > 0) --fails_after;
  return counting_alloc(self, size, align);
}

static char g_container[64]; /* this process's own: two tests are of this program, and may run at once */

typedef struct world {
  qr_runtime *runtime;
  qr_options *options;
  qr_model *model; /* a container that is to be compiled again */
  qr_session *session;
} world;

static void set(world *w, const char *key, const char *value) { OK(qr_options_set(w->options, str(key), str(value))); }

/* `grade`: how the backend grades what is in the container; `slow`: how long it compiles again, in milliseconds. */
static void make(world *w, const char *grade, const char *slow) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator = counting(&counter);
  qr_model *onnx = NULL;
  char path[4096];
  memset(w, 0, sizeof *w);
  allocator.alloc = odd_alloc;
  options.allocator = &allocator;
  options.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
  options.backend_path = str(g_plugins);
  options.prepare_path = str(g_prepare);
  OK(qr_runtime_create(&options, &w->runtime));
  OK(qr_options_create(w->runtime, &w->options));
  set(w, "backend", "scripted");
  set(w, "scripted.script", grade);
  set(w, "queue_depth", "2");
  snprintf(path, sizeof path, "%s/accepted.onnx", g_models);
  OK(model_at_path(w->runtime, str(path), NULL, &onnx));
  OK(qr_model_compile(onnx, w->options, &(qr_target)QR_TARGET_AT(g_container), NULL));
  qr_model_destroy(onnx);
  OK(model_at_path(w->runtime, str(g_container), NULL, &w->model));
  set(w, "scripted.script", slow);
  set(w, "context.recompile", "background");
  OK(qr_session_create(w->model, w->options, NULL, &w->session));
}
static void destroy(world *w) {
  qr_session_destroy(w->session);
  qr_model_destroy(w->model);
  qr_options_destroy(w->options);
  qr_runtime_destroy(w->runtime);
}

static qr_status *run(world *w) {
  static const float kX[8] = {-1, 2, 0, 4, 5, -6, 7, 0}, kY[8] = {0, 12, 20, 34, 45, 50, 67, 70};
  float out[8] = {0};
  qr_tensor x = QR_TENSOR_INIT, y = QR_TENSOR_INIT, z = QR_TENSOR_INIT;
  const qr_tensor *inputs[] = {&x};
  qr_tensor *outputs[] = {&y, &z};
  qr_status *status;
  x.dtype = QR_DTYPE_F32, x.rank = 2, x.dims[0] = 2, x.dims[1] = 4;
  x.data = (void *)(uintptr_t)kX, x.size_bytes = sizeof kX;
  y.data = out, y.size_bytes = sizeof out;
  status = qr_session_run(w->session, NULL, inputs, 1, outputs, 2);
  if (!status && memcmp(out, kY, sizeof kY) != 0) abort();
  return status;
}
static int reports(world *w, const char *what) {
  char *report = NULL;
  int found;
  qr_status *status = qr_session_report(w->session, &report);
  if (status) abort();
  found = strstr(report, what) != NULL;
  qr_string_destroy(report);
  return found;
}

static void destroys(void *w) { destroy(w); }

static void runs_what_there_is(void *argument) {
  world *w = argument;
  CHILD_CHECK(reports(w, "\"recompilation\": \"left behind\""));
  CHILD_OK(run(w));
  CHILD_CHECK(reports(w, "\"source\": \"container\""));
  destroy(w);
}

static void compiles_itself(void *argument) {
  world *w = argument;
  CHILD_CHECK(reports(w, "\"recompilation\": \"left behind\""));
  CHILD_OK(run(w));
  CHILD_CHECK(reports(w, "\"recompilation\": \"done\""));
  CHILD_CHECK(reports(w, "\"source\": \"recompiled\""));
  CHILD_OK(run(w));
  destroy(w);
}

static void runs_what_is_done(void *argument) {
  world *w = argument;
  CHILD_CHECK(reports(w, "\"recompilation\": \"done\""));
  CHILD_OK(run(w));
  destroy(w);
}

/* Runs go on while it is compiled: a child keeps to what it has. */
static void test_replaced(void **state) {
  world w;
  (void)state;
  make(&w, "grade=2", "slow_compile=60000");
  assert_true(reports(&w, "\"recompilation\": \"running\""));
  assert_true(child_ends_well(destroys, &w));
  assert_true(child_ends_well(runs_what_there_is, &w));
  assert_true(reports(&w, "\"recompilation\": \"running\""));
  OK(run(&w));
  destroy(&w);
}

/* Runs wait for it: a child compiles itself. */
static void test_pending(void **state) {
  world w;
  (void)state;
  make(&w, "grade=3", "slow_compile=1000");
  assert_true(child_ends_well(destroys, &w));
  assert_true(child_ends_well(compiles_itself, &w));
  OK(run(&w));
  assert_true(child_ends_well(runs_what_is_done, &w));
  destroy(&w);
}

/* Without memory for each of the child's steps: what was left behind stays so until it can be begun. */
static void compiles_at_last(void *argument) {
  world *w = argument;
  int64_t n;
  for (n = 0;; ++n) {
    qr_status *status;
    fails_after = n;
    status = run(w);
    fails_after = -1;
    if (!status) break;
    CHILD_CHECK(qr_status_code(status) == QR_RESOURCE_EXHAUSTED);
    qr_status_destroy(status);
  }
  CHILD_CHECK(n > 3);
  CHILD_CHECK(reports(w, "\"recompilation\": \"done\""));
  destroy(w);
}
static void test_pending_without_memory(void **state) {
  world w;
  (void)state;
  make(&w, "grade=3", "slow_compile=1000");
  assert_true(child_ends_well(compiles_at_last, &w));
  OK(run(&w));
  destroy(&w);
}

/* A thread of the parent's is recovering the device. */
static void *recovers(void *session) {
  holds = 1;
  FAILS("QR-R0009", "still lost", qr_session_recover(session, NULL)); /* which takes memory for its reason */
  return NULL;
}
static void cannot_recover(void *argument) {
  world *w = argument;
  qr_session *other = NULL;
  qr_status *status = run(w);
  CHILD_CHECK(status && strcmp(qr_status_id(status), "QR-R0009") == 0);
  qr_status_destroy(status);
  status = qr_session_create(w->model, w->options, NULL, &other);
  CHILD_CHECK(status && strcmp(qr_status_id(status), "QR-C0201") == 0);
  qr_status_destroy(status);
}
static void test_recovering(void **state) {
  world w;
  pthread_t thread;
  qr_session *other = NULL;
  (void)state;
  make(&w, "grade=1", "lose_at=1;stay_lost=1");
  OK(qr_session_clone(w.session, NULL, &other));
  FAILS("QR-R0009", "lost at run 1", run(&w));
  hold = 1;
  assert_int_equal(pthread_create(&thread, NULL, recovers, other), 0);
  while (!__atomic_load_n(&held, __ATOMIC_ACQUIRE)) usleep(1000);
  assert_true(child_ends_well(cannot_recover, &w));
  __atomic_store_n(&hold, 0, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  OK(qr_session_recover(w.session, NULL));
  qr_session_destroy(other);
  destroy(&w);
}

/* A device whose own thread ends at fork() says that it is of no use in a child: there a run is refused, and what was
 * made before can be destroyed. */
static void is_refused_and_destroys(void *argument) {
  world *w = argument;
  qr_status *status = run(w);
  CHILD_CHECK(status && strcmp(qr_status_id(status), "QR-R0016") == 0);
  qr_status_destroy(status);
  destroy(w);
}
static void test_device_with_a_thread(void **state) {
  static float in[8], out[8];
  static int64_t found[16];
  world w;
  qr_tensor x = QR_TENSOR_INIT, y = QR_TENSOR_INIT, z = QR_TENSOR_INIT;
  const qr_tensor *inputs[] = {&x};
  qr_tensor *outputs[] = {&y, &z};
  uint64_t ticket = 0;
  (void)state;
  make(&w, "grade=1", "");
  x.dtype = QR_DTYPE_F32, x.rank = 2, x.dims[0] = 2, x.dims[1] = 4, x.data = in, x.size_bytes = sizeof in;
  y.data = out, y.size_bytes = sizeof out, z.data = found, z.size_bytes = sizeof found;
  OK(qr_session_submit(w.session, NULL, inputs, 1, outputs, 2, &ticket)); /* now the thread is there */
  OK(qr_session_wait(w.session, ticket, NULL, NULL));
  assert_true(child_ends_well(is_refused_and_destroys, &w));
  OK(run(&w));
  destroy(&w);
}

/* argv[4], where it is given: the backend has a queue of its own. */
int main(int argc, char **argv) {
  int failed;
  const struct CMUnitTest with_queue[] = {
      cmocka_unit_test(test_device_with_a_thread),
  };
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replaced),
      cmocka_unit_test(test_pending),
      cmocka_unit_test(test_pending_without_memory),
      cmocka_unit_test(test_recovering),
  };
  if (argc != 4 && argc != 5) return 2;
  g_plugins = argv[1], g_models = argv[2], g_prepare = argv[3];
  snprintf(g_container, sizeof g_container, "./forked.%ld.qrm", (long)getpid());
  failed = argc == 5 ? cmocka_run_group_tests(with_queue, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
  remove(g_container);
  return failed;
}
