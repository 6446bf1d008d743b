/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of objects: every order of destruction, two runtimes side by side, overlapping calls, memory from the caller's
 * allocator alone; and what a program has no more of that makes and destroys them for ever. */
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "capi_test.h"

static const char *container;

enum { RUNTIME, OPTIONS, MODEL, SESSION, CLONE, SIGNAL, PROFILE, MEMORY, KINDS };
typedef struct objects {
  qr_runtime *runtime;
  qr_options *options;
  qr_model *model;
  qr_session *session, *clone;
  qr_signal *signal;
  qr_profile *profile;
  qr_memory *memory;
} objects;

static void destroy_one(objects *o, int kind) {
  switch (kind) {
    case RUNTIME: qr_runtime_destroy(o->runtime); break;
    case OPTIONS: qr_options_destroy(o->options); break;
    case MODEL: qr_model_destroy(o->model); break;
    case SESSION: qr_session_destroy(o->session); break;
    case CLONE: qr_session_destroy(o->clone); break;
    case SIGNAL: qr_signal_destroy(o->signal); break;
    case PROFILE: qr_profile_destroy(o->profile); break;
    case MEMORY: qr_memory_destroy(o->memory); break;
    default: fail();
  }
}
static void make_all(objects *o, counting_allocator *counter) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator = counting(counter);
  options.allocator = &allocator; /* copied: it may go away */
  OK(qr_runtime_create(&options, &o->runtime));
  memset(&allocator, 0xee, sizeof allocator);
  OK(qr_options_create(o->runtime, &o->options));
  OK(qr_options_set(o->options, str("threads"), str("1")));
  OK(model_at_path(o->runtime, str(container), o->options, &o->model));
  OK(qr_session_create(o->model, o->options, NULL, &o->session));
  OK(qr_session_clone(o->session, NULL, &o->clone));
  OK(qr_signal_create(o->runtime, &o->signal));
  OK(qr_profile_create(o->runtime, &o->profile));
  OK(qr_memory_allocate(o->session, 1000, NULL, &o->memory));
}
static qr_status *run_zeros(qr_session *session, qr_signal *signal, qr_profile *profile) {
  static const float zeros[64];
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&out};
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8;
  in.data = (void *)zeros, in.size_bytes = sizeof zeros;
  options.signal = signal, options.profile = profile;
  return qr_session_run(session, &options, inputs, 1, outputs, 1);
}

/* All orders of eight kinds are 40320: each order of the first four by hand is too few, so a fixed stride through all
 * of them is taken. */
static void nth_order(unsigned n, int order[KINDS]) {
  int pool[KINDS], i, left = KINDS;
  for (i = 0; i < KINDS; ++i) pool[i] = i;
  for (i = 0; i < KINDS; ++i, --left) {
    const int pick = (int)(n % (unsigned)left);
    n /= (unsigned)left;
    order[i] = pool[pick];
    memmove(pool + pick, pool + pick + 1, (size_t)(left - pick - 1) * sizeof pool[0]);
  }
}

static void test_every_order_of_destruction(void **state) {
  unsigned n;
  (void)state;
  for (n = 0; n < 40320; n += 61) {
    counting_allocator counter = {0};
    objects o;
    int order[KINDS], i;
    make_all(&o, &counter);
    nth_order(n, order);
    for (i = 0; i < KINDS; ++i) {
      int k, session_left = 0, signal_left = 0, profile_left = 0;
      destroy_one(&o, order[i]);
      for (k = i + 1; k < KINDS; ++k)
        session_left |= order[k] == SESSION, signal_left |= order[k] == SIGNAL, profile_left |= order[k] == PROFILE;
      if (session_left)
        OK(run_zeros(o.session, signal_left ? o.signal : NULL,
                     profile_left ? o.profile : NULL)); /* what is left works */
    }
    assert_int_equal(counter.live, 0);
    assert_int_equal(counter.mismatches, 0);
    assert_true(counter.made > 20);
  }
}

static void test_two_runtimes(void **state) {
  counting_allocator first = {0}, second = {0};
  objects a, b;
  int i;
  (void)state;
  make_all(&a, &first), make_all(&b, &second);
  OK(run_zeros(a.session, NULL, NULL));
  for (i = 0; i < KINDS; ++i) destroy_one(&a, i);
  assert_int_equal(first.live, 0);
  OK(run_zeros(b.session, b.signal, b.profile));
  for (i = KINDS - 1; i >= 0; --i) destroy_one(&b, i);
  assert_int_equal(second.live, 0);
}

/* A pool whose parallel_for holds the run until the other thread has tried its luck. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int inside;
static void slow_parallel_for(void *self, uint64_t count, uint64_t grain,
                              void (*body)(void *, uint64_t, uint64_t, uint32_t), void *context) {
  (void)self, (void)grain;
  __atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  if (count) body(context, 0, count, 0);
}
static void *run_in_thread(void *session) { return run_zeros(session, NULL, NULL); }

static void test_overlapping_calls(void **state) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_thread_pool pool = QR_THREAD_POOL_INIT;
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_options *reference = NULL; /* splits its loops, however short */
  qr_session *session = NULL, *clone = NULL;
  pthread_t thread;
  void *result = NULL;
  char *json = NULL;
  int waited;
  (void)state;
  pool.worker_count = 2, pool.parallel_for = slow_parallel_for;
  options.thread_pool = &pool;
  OK(qr_runtime_create(&options, &runtime));
  OK(qr_options_create(runtime, &reference));
  OK(qr_options_set(reference, str("backend"), str("cpu-reference")));
  OK(model_at_path(runtime, str(digits_path()), NULL, &model));
  OK(qr_session_create(model, reference, NULL, &session));
  qr_options_destroy(reference);
  pthread_mutex_lock(&gate);
  assert_int_equal(pthread_create(&thread, NULL, run_in_thread, session), 0);
  for (waited = 0; !__atomic_load_n(&inside, __ATOMIC_ACQUIRE) && waited < 10000; ++waited) usleep(1000);
  assert_true(__atomic_load_n(&inside, __ATOMIC_ACQUIRE));
  FAILS("QR-C0006", "session", run_zeros(session, NULL, NULL));
  FAILS("QR-C0006", "session", qr_session_report(session, &json));
  FAILS("QR-C0006", "session", qr_session_recover(session, NULL));
  FAILS("QR-C0006", "session", qr_session_warm_up(session, NULL));
  FAILS("QR-C0006", "session", qr_session_clone(session, NULL, &clone));
  pthread_mutex_unlock(&gate);
  pthread_join(thread, &result);
  OK((qr_status *)result);
  OK(run_zeros(session, NULL, NULL)); /* the refused calls left nothing behind */
  qr_session_destroy(session), qr_model_destroy(model), qr_runtime_destroy(runtime);
}

static void *runs_in_thread(void *session) {
  int i;
  for (i = 0; i < 50; ++i) {
    qr_status *status = run_zeros(session, NULL, NULL);
    if (status) return status;
  }
  return NULL;
}
static void test_clones_in_parallel(void **state) {
  counting_allocator counter = {0};
  pthread_t threads[4];
  qr_session *clones[4];
  objects o;
  int i;
  (void)state;
  make_all(&o, &counter);
  for (i = 0; i < 4; ++i) OK(qr_session_clone(o.session, NULL, &clones[i]));
  for (i = 0; i < 4; ++i) assert_int_equal(pthread_create(&threads[i], NULL, runs_in_thread, clones[i]), 0);
  for (i = 0; i < 4; ++i) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    OK((qr_status *)result);
    qr_session_destroy(clones[i]);
  }
  for (i = 0; i < KINDS; ++i) destroy_one(&o, i);
  assert_int_equal(counter.live, 0);
}

/* ---- what is left */

static unsigned entries(const char *folder) {
  DIR *dir = opendir(folder);
  unsigned count = 0;
  assert_non_null(dir);
  while (readdir(dir)) ++count;
  closedir(dir);
  return count;
}

static void copy_a_part(const char *from, const char *to) {
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  char bytes[1000];
  assert_true(in && out);
  fwrite(bytes, 1, fread(bytes, 1, sizeof bytes, in), out);
  fclose(in), fclose(out);
}

static void fails(qr_status *status) {
  assert_non_null(status);
  qr_status_destroy(status);
}

/* Calls that fail at different depths, and a session that ends while its runs are queued. */
static void make_and_destroy(qr_runtime *runtime) {
  static const char *const bad[] = {"./objects.no_such", "./objects_part.qrm", "./objects_part.onnx", "."};
  static const float zeros[64];
  const qr_tensor blank = QR_TENSOR_INIT;
  qr_tensor ins[2], outs[2]; /* as long as the runs */
  float scores[2][10];
  qr_options *options = NULL, *refused = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  qr_signal *signal = NULL;
  qr_memory *memory = NULL;
  int32_t descriptor = -1;
  size_t i;
  for (i = 0; i < sizeof bad / sizeof bad[0]; ++i) fails(model_at_path(runtime, str(bad[i]), NULL, &model));
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("threads"), str("2")));
  OK(qr_options_set(options, str("queue_depth"), str("2")));
  OK(qr_options_copy(options, &refused));
  OK(qr_options_set(refused, str("backend"), str("no_such")));
  OK(model_at_path(runtime, str(digits_path()), NULL, &model)); /* whose import is a session's matter */
  fails(qr_session_create(model, refused, NULL, &session));
  fails(qr_model_compile(model, options, &(qr_target)QR_TARGET_AT("./no_such/digits.qrm"), NULL));
  qr_model_destroy(model);
  OK(model_at_path(runtime, str(container), NULL, &model));
  OK(qr_session_create(model, options, NULL, &session));
  OK(qr_signal_create(runtime, &signal));
  OK(qr_signal_fd(signal, &descriptor));
  OK(qr_session_completion_fd(session, &descriptor));
  OK(qr_memory_allocate(session, 4096, NULL, &memory));
  fails(qr_memory_import_fd(session, -1, 0, 4096, NULL, NULL));
  for (i = 0; i < 2; ++i) {
    qr_tensor *const in = &ins[i], *const out = &outs[i];
    const qr_tensor *inputs[1] = {in};
    qr_tensor *outputs[1] = {out};
    qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
    uint64_t ticket = 0;
    *in = *out = blank;
    in->dtype = QR_DTYPE_F32, in->rank = 4, in->dims[0] = in->dims[1] = 1, in->dims[2] = in->dims[3] = 8;
    in->const_data = zeros, in->size_bytes = sizeof zeros;
    out->data = scores[i], out->size_bytes = sizeof scores[i];
    how.signal = signal;
    OK(qr_session_submit(session, &how, inputs, 1, outputs, 1, &ticket));
  }
  qr_memory_destroy(memory), qr_session_destroy(session), qr_model_destroy(model);
  qr_signal_destroy(signal), qr_options_destroy(options), qr_options_destroy(refused);
}

static void test_nothing_is_left(void **state) {
  /* Rooms and names that are kept grow for some rounds, and malloc counts what its threads keep for later: what is lost
   * with each round is lost in each of the spans. */
  enum { WARM = 60, ROUNDS = 100, SMALLEST = 64, SPANS = 6 };
  qr_runtime *runtime = NULL;
  unsigned descriptors, threads, i, span;
  size_t bytes, more = SIZE_MAX;
  (void)state;
  copy_a_part(container, "./objects_part.qrm");
  copy_a_part(digits_path(), "./objects_part.onnx");
  OK(qr_runtime_create(NULL, &runtime));
  for (i = 0; i < WARM; ++i) make_and_destroy(runtime);
  descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  for (span = 0; span < SPANS && more > SMALLEST * ROUNDS; ++span) {
    bytes = mallinfo2().uordblks;
    for (i = 0; i < ROUNDS; ++i) make_and_destroy(runtime);
    more = mallinfo2().uordblks > bytes ? mallinfo2().uordblks - bytes : 0;
  }
  assert_int_equal(entries("/proc/self/fd"), descriptors);
  /* Who has joined a thread may still see it for a moment. */
  for (i = 0; i < 1000 && entries("/proc/self/task") != threads; ++i) usleep(1000);
  assert_int_equal(entries("/proc/self/task"), threads);
  if (more > SMALLEST * ROUNDS) print_error("%zu bytes more after %d rounds\n", more, ROUNDS);
  assert_true(more <= SMALLEST * ROUNDS);
  qr_runtime_destroy(runtime);
}

/* ---- a signal that a handler of the system's aborts */

static qr_signal *aborted;
static const char *model_path; /* digits_path() writes it anew with each call */
static void abort_it(int number) {
  (void)number;
  qr_signal_abort(aborted);
}

static int went_or_stopped(qr_status *status) {
  const int fine = !status || qr_status_code(status) == QR_CANCELLED;
  if (!fine) print_error("%s: %s\n", qr_status_id(status), qr_status_message(status));
  qr_status_destroy(status);
  return fine;
}

/* Every call that takes the signal; what fails without a fault of its own says CANCELLED. */
static void *lives_under_aborts(void *shared) {
  enum { RUNS = 4 };
  static const float zeros[64];
  qr_runtime *runtime = shared;
  int round, i, fine = 1;
  for (round = 0; round < 15 && fine; ++round) {
    qr_call_options call = QR_CALL_OPTIONS_INIT;
    qr_model *model = NULL;
    qr_options *options = NULL;
    qr_session *session = NULL, *clone = NULL;
    qr_status *status;
    call.signal = aborted;
    if (model_at_path(runtime, str(model_path), NULL, &model)) return "the model";
    if (qr_options_create(runtime, &options) || qr_options_set(options, str("thread_pool"), str("shared")) ||
        qr_options_set(options, str("threads"), str("3")) || qr_options_set(options, str("queue_depth"), str("4")))
      return "the options";
    status = qr_session_create(model, options, &call, &session);
    if (!status) status = qr_session_clone(session, &call, &clone);
    fine &= went_or_stopped(status);
    qr_model_destroy(model), qr_options_destroy(options), qr_session_destroy(session);
    if (clone) {
      const qr_tensor blank = QR_TENSOR_INIT;
      qr_tensor ins[RUNS], outs[RUNS]; /* as long as the runs */
      float scores[RUNS][10];
      uint64_t tickets[RUNS];
      for (i = 0; i < RUNS; ++i) {
        qr_tensor *in = &ins[i], *out = &outs[i];
        const qr_tensor *inputs[1] = {in};
        qr_tensor *outputs[1] = {out};
        qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
        *in = *out = blank;
        in->dtype = QR_DTYPE_F32, in->rank = 4, in->dims[0] = in->dims[1] = 1, in->dims[2] = in->dims[3] = 8;
        in->const_data = zeros, in->size_bytes = sizeof zeros;
        out->data = scores[i], out->size_bytes = sizeof scores[i];
        how.signal = aborted, tickets[i] = 0;
        fine &= went_or_stopped(qr_session_submit(clone, &how, inputs, 1, outputs, 1, &tickets[i]));
      }
      for (i = 0; i < RUNS; ++i)
        if (tickets[i]) fine &= went_or_stopped(qr_session_wait(clone, tickets[i], aborted, NULL));
      qr_session_destroy(clone); /* its runs may still be under way */
    }
  }
  return fine ? NULL : "another error than CANCELLED";
}

static void test_aborts_from_a_handler(void **state) {
  enum { THREADS = 4 };
  struct sigaction now, was;
  qr_runtime *runtime = NULL;
  pthread_t threads[THREADS];
  int i;
  (void)state;
  memset(&now, 0, sizeof now);
  now.sa_handler = abort_it;
  now.sa_flags = SA_RESTART;
  OK(qr_runtime_create(NULL, &runtime));
  OK(qr_signal_create(runtime, &aborted));
  model_path = digits_path();
  assert_int_equal(sigaction(SIGUSR1, &now, &was), 0);
  for (i = 0; i < THREADS; ++i) assert_int_equal(pthread_create(&threads[i], NULL, lives_under_aborts, runtime), 0);
  for (i = 0; i < 200; ++i) {
    usleep(1000);
    kill(getpid(), SIGUSR1); /* on whichever thread takes it */
    if (i % 4) qr_signal_reset(aborted);
  }
  qr_signal_reset(aborted);
  for (i = 0; i < THREADS; ++i) {
    void *said = NULL;
    pthread_join(threads[i], &said);
    if (said) print_error("%s\n", (const char *)said);
    assert_null(said);
  }
  sigaction(SIGUSR1, &was, NULL);
  qr_signal_destroy(aborted), qr_runtime_destroy(runtime);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_order_of_destruction),
      cmocka_unit_test(test_two_runtimes),
      cmocka_unit_test(test_overlapping_calls),
      cmocka_unit_test(test_clones_in_parallel),
      cmocka_unit_test(test_nothing_is_left),
      cmocka_unit_test(test_aborts_from_a_handler),
  };
  container = digits_qrm("objects");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
