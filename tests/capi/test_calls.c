/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of calls as a whole: a signal ends the waiting for other calls too; and what can be asked without JSON. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "capi_test.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- a call that waits for another one ------------------------------------------------------- */

typedef struct held {
  qr_runtime *runtime;
  qr_model *model;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int inside, may_go; /* a thread is in the midst of its import; it may go on */
  qr_status *status;
} held;

static int32_t hold(void *self, uint64_t done, uint64_t total, qr_string what) {
  held *h = self;
  (void)done, (void)total, (void)what;
  pthread_mutex_lock(&h->mutex);
  h->inside = 1;
  pthread_cond_broadcast(&h->changed);
  while (!h->may_go) pthread_cond_wait(&h->changed, &h->mutex);
  pthread_mutex_unlock(&h->mutex);
  return QR_GO_ON;
}

static void *import_and_hold(void *self) {
  held *h = self;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  qr_progress progress = QR_PROGRESS_INIT;
  qr_session *session = NULL;
  progress.self = h, progress.report = hold;
  call.progress = &progress;
  h->status = qr_session_create(h->model, NULL, &call, &session);
  qr_session_destroy(session);
  return NULL;
}

static void *abort_soon(void *signal) {
  const struct timespec soon = {0, 50000000};
  nanosleep(&soon, NULL);
  qr_signal_abort(signal);
  return NULL;
}

/* Each call that waits for a model's import, once by its timeout and once by an abort; all within this time, in s. */
#define SOON 5.0

static void test_waiting_ends(void **state) {
  held h = {NULL, NULL, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, NULL};
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  qr_signal *signal = NULL;
  pthread_t importer, aborter;
  int by_abort;
  (void)state;
  OK(qr_runtime_create(NULL, &h.runtime));
  OK(model_at_path(h.runtime, str(digits_path()), NULL, &h.model));
  OK(qr_signal_create(h.runtime, &signal));
  call.signal = signal;
  assert_int_equal(pthread_create(&importer, NULL, import_and_hold, &h), 0);
  pthread_mutex_lock(&h.mutex);
  while (!h.inside) pthread_cond_wait(&h.changed, &h.mutex);
  pthread_mutex_unlock(&h.mutex);
  for (by_abort = 0; by_abort < 2; ++by_abort) {
    const char *const id = by_abort ? "QR-C0011" : "QR-C0012";
    qr_session *session = NULL;
    qr_memory_plan plan = QR_MEMORY_PLAN_INIT;
    char *json = NULL;
    const double begun = now();
    if (by_abort) {
      qr_signal_set_timeout(signal, QR_NO_TIMEOUT);
      assert_int_equal(pthread_create(&aborter, NULL, abort_soon, signal), 0);
    } else {
      qr_signal_set_timeout(signal, 20000000);
    }
    FAILS(id, "waiting for another call", qr_session_create(h.model, NULL, &call, &session));
    FAILS(id, "", qr_session_plan(h.model, NULL, &call, &plan));
    FAILS(id, "", qr_model_compile(h.model, NULL, &(qr_target)QR_TARGET_AT("./never.qrm"), &call));
    FAILS(id, "", qr_model_check(h.model, NULL, &call, &json));
    FAILS(id, "", qr_model_inspect(h.model, &call, &json));
    assert_null(session), assert_null(json);
    assert_true(now() - begun < SOON);
    if (by_abort) pthread_join(aborter, NULL);
  }
  qr_signal_reset(signal);
  pthread_mutex_lock(&h.mutex);
  h.may_go = 1;
  pthread_cond_broadcast(&h.changed);
  pthread_mutex_unlock(&h.mutex);
  pthread_join(importer, NULL);
  OK(h.status);
  {
    qr_session *session = NULL;
    OK(qr_session_create(h.model, NULL, &call, &session));
    qr_session_destroy(session);
  }
  qr_signal_destroy(signal), qr_model_destroy(h.model), qr_runtime_destroy(h.runtime);
}

/* A signal that has no time left ends every long call. */
static void test_no_time(void **state) {
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL, *clone = NULL;
  qr_signal *signal = NULL;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  qr_compatibility grade = 0;
  char *text = NULL;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(model_at_path(runtime, str(digits_qrm("calls")), NULL, &model));
  OK(qr_session_create(model, NULL, NULL, &session));
  OK(qr_signal_create(runtime, &signal));
  call.signal = signal;
  qr_signal_set_timeout(signal, 0);
  FAILS("QR-C0012", "", qr_session_clone(session, &call, &clone));
  FAILS("QR-C0012", "", qr_session_create(model, NULL, &call, &clone));
  FAILS("QR-C0012", "", qr_model_verify(model, &call));
  FAILS("QR-C0012", "", qr_model_compatibility(model, NULL, &call, &grade, &text));
  FAILS("QR-C0012", "", qr_model_inspect(model, &call, &text));
  FAILS("QR-C0012", "", qr_session_recover(session, &call));
  qr_signal_set_timeout(signal, QR_NO_TIMEOUT);
  OK(qr_session_clone(session, &call, &clone));
  OK(qr_model_verify(model, &call));
  OK(qr_model_compatibility(model, NULL, &call, &grade, &text));
  assert_int_equal(grade, QR_COMPATIBILITY_OPTIMAL);
  qr_string_destroy(text);
  qr_session_destroy(clone), qr_session_destroy(session);
  qr_signal_destroy(signal), qr_model_destroy(model), qr_runtime_destroy(runtime);
}

/* ---- a progress function that says stop ------------------------------------------------------- */

typedef struct teller {
  uint64_t told, stops_at; /* reports so far; the one that says stop, from 1 */
  int32_t answer;
} teller;

static int32_t tell(void *self, uint64_t done, uint64_t total, qr_string what) {
  teller *t = self;
  assert_true(what.data && (total == 0 || done <= total));
  return ++t->told == t->stops_at ? t->answer : QR_GO_ON;
}

static int32_t read_all_at(void *self, uint64_t offset, void *to, uint64_t size_bytes) {
  memcpy(to, (const char *)self + offset, size_bytes);
  return 0;
}

typedef struct stopped_calls {
  qr_runtime *runtime;
  qr_model *onnx, *container;
  const char *bytes; /* of the container */
  uint64_t size;
} stopped_calls;

/* The call of that number; what it makes is destroyed. NULL: there are no more. */
static const char *long_call(const stopped_calls *c, int number, const qr_call_options *call, qr_status **status) {
  qr_session *session = NULL;
  qr_model *model = NULL;
  qr_memory_plan plan = QR_MEMORY_PLAN_INIT;
  char *json = NULL;
  qr_model_source source = QR_MODEL_BY_READER((void *)c->bytes, read_all_at, c->size);
  const char *name = NULL;
  switch (number) {
    case 0: name = "open", *status = qr_model_open(c->runtime, &source, NULL, call, &model); break;
    case 1:
      name = "compile", *status = qr_model_compile(c->onnx, NULL, &(qr_target)QR_TARGET_AT("./stopped.qrm"), call);
      break;
    case 2: name = "check", *status = qr_model_check(c->onnx, NULL, call, &json); break;
    case 3: name = "create", *status = qr_session_create(c->onnx, NULL, call, &session); break;
    case 4: name = "plan", *status = qr_session_plan(c->onnx, NULL, call, &plan); break;
    case 5: name = "verify", *status = qr_model_verify(c->container, call); break;
    default: break;
  }
  if (name && *status) assert_true(!session && !model && !json && plan.weights_bytes == 0);
  qr_session_destroy(session), qr_model_destroy(model), qr_string_destroy(json);
  return name;
}

/* Each report of each call in turn: the call ends by its name, leaves nothing behind, and works the next time. */
static void test_progress_stops(void **state) {
  static char container[6 << 20];
  counting_allocator counter = {0};
  qr_allocator allocator = counting(&counter);
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  qr_progress progress = QR_PROGRESS_INIT;
  stopped_calls c = {NULL, NULL, NULL, container, 0};
  qr_signal *signal = NULL;
  teller t = {0, 0, QR_STOP};
  FILE *file = fopen(digits_qrm("stopped"), "rb");
  int number, with_signal;
  (void)state;
  assert_non_null(file);
  c.size = fread(container, 1, sizeof container, file);
  fclose(file);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &c.runtime));
  OK(model_at_path(c.runtime, str(digits_path()), NULL, &c.onnx));
  OK(model_at_path(c.runtime, str(digits_qrm("stopped")), NULL, &c.container));
  OK(qr_signal_create(c.runtime, &signal));
  progress.self = &t, progress.report = tell;
  call.progress = &progress;
  for (with_signal = 0; with_signal < 2; ++with_signal) {
    const char *name;
    call.signal = with_signal ? signal : NULL;
    for (number = 0;; ++number) {
      qr_status *status = NULL;
      uint64_t reports, blocks, at;
      t.told = 0, t.stops_at = UINT64_MAX;
      name = long_call(&c, number, &call, &status);
      if (!name) break;
      OK(status);
      remove("./stopped.qrm");
      reports = t.told, blocks = counter.live;
      assert_true(reports > 0);
      for (at = 1; at <= reports; ++at) {
        t.told = 0, t.stops_at = at, t.answer = at % 2 ? QR_STOP : -7; /* every value but 0 */
        long_call(&c, number, &call, &status);
        if (!status || strcmp(qr_status_id(status), "QR-C0013") != 0 || qr_status_code(status) != QR_CANCELLED)
          fail_msg("%s, stopped at report %d of %d: found %s", name, (int)at, (int)reports,
                   status ? qr_status_message(status) : "no error");
        assert_non_null(strstr(qr_status_message(status), "progress function"));
        qr_status_destroy(status);
        assert_int_equal(t.told, at); /* and no more */
        assert_true(fopen("./stopped.qrm", "rb") == NULL);
        if (counter.live != blocks) fail_msg("%s, stopped at report %d: blocks left", name, (int)at);
      }
      t.told = 0, t.stops_at = UINT64_MAX;
      long_call(&c, number, &call, &status);
      OK(status);
      remove("./stopped.qrm");
    }
    assert_int_equal(number, 6);
  }
  OK(qr_signal_check(signal)); /* it was no call's to abort */
  qr_signal_destroy(signal), qr_model_destroy(c.onnx), qr_model_destroy(c.container), qr_runtime_destroy(c.runtime);
  assert_int_equal(counter.live, 0);
}

/* ---- signals for calls that belong together ---------------------------------------------------- */

static void test_derived_signals(void **state) {
  const struct timespec pause = {0, 60000000};
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_signal *parent = NULL, *child = NULL, *grandchild = NULL;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  int32_t fd = -1;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(model_at_path(runtime, str(digits_qrm("derived")), NULL, &model));
  OK(qr_signal_create(runtime, &parent));
  OK(qr_signal_check(NULL));
  FAILS("QR-C0002", "parent", qr_signal_derive(NULL, &child));
  FAILS("QR-C0002", "out_signal", qr_signal_derive(parent, NULL));
  /* Time: the parent's of each call, the child's of all together. */
  qr_signal_set_timeout(parent, 50000000);
  OK(qr_signal_derive(parent, &child));
  OK(qr_signal_derive(child, &grandchild));
  OK(qr_signal_check(child));
  nanosleep(&pause, NULL);
  OK(qr_signal_check(parent));
  FAILS("QR-C0012", "0.050 s", qr_signal_check(child));
  FAILS("QR-C0012", "", qr_signal_check(grandchild));
  call.signal = grandchild;
  FAILS("QR-C0012", "", qr_model_verify(model, &call));
  qr_signal_set_timeout(child, QR_NO_TIMEOUT); /* of each call: what is left of all does not grow */
  FAILS("QR-C0012", "", qr_signal_check(child));
  call.signal = parent;
  OK(qr_model_verify(model, &call));
  qr_signal_destroy(grandchild), qr_signal_destroy(child);
  /* Aborts go down, not up; a child is kept alive by its own child. */
  qr_signal_set_timeout(parent, QR_NO_TIMEOUT);
  OK(qr_signal_derive(parent, &child));
  OK(qr_signal_derive(child, &grandchild));
  OK(qr_signal_fd(grandchild, &fd));
  qr_signal_abort(child);
  OK(qr_signal_check(parent));
  FAILS("QR-C0011", "aborted", qr_signal_check(child));
  FAILS("QR-C0011", "aborted", qr_signal_check(grandchild));
  qr_signal_reset(child), qr_signal_reset(grandchild);
  qr_signal_destroy(child);
  OK(qr_signal_check(grandchild));
  qr_signal_abort(parent);
  FAILS("QR-C0011", "", qr_signal_check(grandchild));
  call.signal = grandchild;
  FAILS("QR-C0011", "", qr_model_verify(model, &call));
  qr_signal_reset(parent); /* what it did to others stays */
  FAILS("QR-C0011", "", qr_signal_check(grandchild));
  qr_signal_destroy(grandchild);
  /* Of one that is aborted already. */
  qr_signal_abort(parent);
  OK(qr_signal_derive(parent, &child));
  FAILS("QR-C0011", "", qr_signal_check(child));
  qr_signal_destroy(parent);
  FAILS("QR-C0011", "", qr_signal_check(child));
  qr_signal_destroy(child), qr_model_destroy(model), qr_runtime_destroy(runtime);
}

/* ---- where a model comes from ---------------------------------------------------------------- */

typedef struct reader {
  const char *bytes;
  uint64_t read, fails_at; /* so many were read; 0: nothing fails */
  qr_signal *aborts;
} reader;

static int32_t read_piece(void *self, uint64_t offset, void *to, uint64_t size_bytes) {
  reader *r = self;
  assert_int_equal(offset, r->read); /* in order */
  if (r->aborts) qr_signal_abort(r->aborts);
  if (r->fails_at && offset + size_bytes >= r->fails_at) return EIO;
  memcpy(to, r->bytes + offset, size_bytes);
  r->read += size_bytes;
  return 0;
}

static void test_reader(void **state) {
  static char container[6 << 20];
  counting_allocator counter = {0};
  qr_allocator allocator = counting(&counter);
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_signal *signal = NULL;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  reader r = {container, 0, 0, NULL};
  FILE *file = fopen(digits_qrm("reader"), "rb");
  uint64_t size, blocks;
  (void)state;
  assert_non_null(file);
  size = fread(container, 1, sizeof container, file);
  fclose(file);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &runtime));
  OK(qr_signal_create(runtime, &signal));
  {
    qr_model_source source = QR_MODEL_BY_READER(&r, read_piece, size);
    OK(qr_model_open(runtime, &source, NULL, NULL, &model));
    OK(qr_model_verify(model, NULL));
    qr_model_destroy(model);
    model = NULL, blocks = counter.live;
    /* One that is cut, one that cannot be read, and one that is aborted in the midst (it has two pieces). */
    r.read = 0, source.size_bytes = size - 1;
    FAILS("QR-M0001", "expected", qr_model_open(runtime, &source, NULL, NULL, &model));
    r.read = 0, r.fails_at = 1;
    FAILS("QR-F0004", "source->read: Input/output error", qr_model_open(runtime, &source, NULL, NULL, &model));
    r.read = 0, r.fails_at = 0, r.aborts = signal, source.size_bytes = sizeof container;
    call.signal = signal;
    FAILS("QR-C0011", "qr_model_open", qr_model_open(runtime, &source, NULL, &call, &model));
    assert_int_equal(r.read, 4 << 20);
    source.kind = 9;
    FAILS("QR-C0007", "kind is 9", qr_model_open(runtime, &source, NULL, NULL, &model));
    assert_null(model), assert_int_equal(counter.live, blocks);
  }
  qr_signal_destroy(signal), qr_runtime_destroy(runtime);
  assert_int_equal(counter.live, 0);
}

/* ---- what can be asked ----------------------------------------------------------------------- */

#define IS(string, text) assert_true((string).size == strlen(text) && memcmp((string).data, text, (string).size) == 0)

static void test_options(void **state) {
  qr_runtime *runtime = NULL;
  qr_options *options = NULL, *copy = NULL;
  qr_string key, value;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(qr_options_create(runtime, &options));
  assert_int_equal(qr_options_count(options), 0), assert_int_equal(qr_options_count(NULL), 0);
  OK(qr_options_set(options, str("threads"), str("3")));
  OK(qr_options_set(options, str("backend"), str("cpu-reference")));
  OK(qr_options_copy(options, &copy));
  OK(qr_options_unset(options, str("threads")));
  OK(qr_options_unset(options, str("threads")));
  FAILS("QR-C0101", "nearest is threads", qr_options_unset(options, str("thread")));
  assert_int_equal(qr_options_count(options), 1), assert_int_equal(qr_options_count(copy), 2);
  OK(qr_options_at(copy, 0, &key, &value));
  IS(key, "backend"), IS(value, "cpu-reference");
  OK(qr_options_at(copy, 1, &key, &value));
  IS(key, "threads"), IS(value, "3");
  FAILS("QR-C0008", "2", qr_options_at(copy, 2, &key, &value));
  OK(qr_options_get(options, str("threads"), &value));
  assert_false(value.size == 1 && *value.data == '3'); /* the default again */
  qr_options_destroy(options), qr_options_destroy(copy), qr_runtime_destroy(runtime);
}

/* y[2, columns] = QuantizeLinear(x, scales 0.5 and 0.25, zero points 3 and 5, axis 0); metadata colour=blue */
static const uint8_t facts_model[] = {
    8,   10,  58,  139, 1,   10,  46,  10,  1,   120, 10,  1,   115, 10,  1,   122, 18,  1,  121, 26,  1,   110, 34,
    14,  81,  117, 97,  110, 116, 105, 122, 101, 76,  105, 110, 101, 97,  114, 42,  11,  10, 4,   97,  120, 105, 115,
    24,  0,   160, 1,   2,   58,  0,   18,  1,   103, 42,  17,  8,   2,   16,  1,   66,  1,  115, 74,  8,   0,   0,
    0,   63,  0,   0,   128, 62,  42,  11,  8,   2,   16,  2,   66,  1,   122, 74,  2,   3,  5,   90,  26,  10,  1,
    120, 18,  21,  10,  19,  8,   1,   18,  15,  10,  2,   8,   2,   10,  9,   18,  7,   99, 111, 108, 117, 109, 110,
    115, 98,  26,  10,  1,   121, 18,  21,  10,  19,  8,   2,   18,  15,  10,  2,   8,   2,  10,  9,   18,  7,   99,
    111, 108, 117, 109, 110, 115, 66,  2,   16,  21,  66,  17,  10,  13,  99,  111, 109, 46, 109, 105, 99,  114, 111,
    115, 111, 102, 116, 16,  1,   114, 14,  10,  6,   99,  111, 108, 111, 117, 114, 18,  4,  98,  108, 117, 101};

static void test_facts(void **state) {
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  qr_string key, value;
  qr_tensor_info info = QR_TENSOR_INFO_INIT;
  int from_container;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("shape"), str("columns=3")));
  OK(qr_options_set(options, str("shape"), str("columns=5")));
  OK(model_in_memory(runtime, facts_model, sizeof facts_model, NULL, &model));
  for (from_container = 0; from_container < 2; ++from_container) {
    OK(qr_model_output_dim_name(model, 0, 1, &value));
    IS(value, "columns");
    OK(qr_model_output_dim_name(model, 0, 0, &value));
    assert_int_equal(value.size, 0);
    FAILS("QR-C0008", "axis", qr_model_output_dim_name(model, 0, 2, &value));
    assert_int_equal(qr_model_property_count(model), 1), assert_int_equal(qr_model_property_count(NULL), 0);
    OK(qr_model_property(model, 0, &key, &value));
    IS(key, "colour"), IS(value, "blue");
    FAILS("QR-C0008", "index is 1", qr_model_property(model, 1, &key, &value));
    if (from_container) break;
    OK(qr_session_create(model, options, NULL, &session));
    OK(qr_model_compile(model, options, &(qr_target)QR_TARGET_AT("./facts.qrm"), NULL));
    qr_model_destroy(model);
    OK(model_at_path(runtime, str("./facts.qrm"), NULL, &model));
  }
  assert_int_equal(qr_session_bucket_count(session), 2), assert_int_equal(qr_session_bucket_count(NULL), 0);
  OK(qr_session_bucket_input(session, 1, 0, &info));
  IS(info.name, "x");
  assert_int_equal(info.dims[1], 5), assert_int_equal(info.size_bytes, 40);
  OK(qr_session_bucket_output(session, 0, 0, &info));
  assert_int_equal(info.dims[1], 3), assert_int_equal(info.size_bytes, 6);
  FAILS("QR-C0008", "bucket is 2", qr_session_bucket_output(session, 2, 0, &info));
  /* Quantised per channel: no scale is reported, since none holds for all. */
  OK(qr_session_output(session, 0, &info));
  assert_int_equal(info.is_quantized, QR_QUANTIZED_PER_CHANNEL), assert_true(info.scale != info.scale);
  assert_int_equal(info.scale_count, 2), assert_int_equal(info.quantized_axis, 0), assert_int_equal(info.block_size, 0);
  assert_true(info.scales[0] == 0.5f && info.scales[1] == 0.25f && info.zero_points[0] == 3 &&
              info.zero_points[1] == 5);
  qr_session_destroy(session), qr_model_destroy(model), qr_options_destroy(options), qr_runtime_destroy(runtime);
}

static void test_abi_version(void **state) {
  (void)state;
  assert_int_equal(qr_abi_version(), QR_ABI_MAJOR * 65536 + QR_ABI_MINOR);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_waiting_ends),   cmocka_unit_test(test_no_time),         cmocka_unit_test(test_reader),
      cmocka_unit_test(test_progress_stops), cmocka_unit_test(test_derived_signals), cmocka_unit_test(test_options),
      cmocka_unit_test(test_facts),          cmocka_unit_test(test_abi_version),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
