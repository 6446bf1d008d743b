/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of options that several threads use at once. */
#include <pthread.h>

#include "capi_test.h"

#define THREADS 6

static qr_runtime *runtime;
static qr_options *shared;
static const char *container;

/* One round of a thread; cmocka's checks are for the main thread alone. */
static qr_status *use(void) {
  qr_model *model = NULL;
  qr_session *session = NULL;
  qr_string value = {NULL, 0};
  qr_status *status = model_at_path(runtime, str(container), shared, &model);
  if (!status) status = qr_session_create(model, shared, NULL, &session);
  if (!status) status = qr_options_get(shared, str("threads"), &value);
  if (!status && (value.size != 1 || *value.data != '2')) abort();
  qr_session_destroy(session);
  qr_model_destroy(model);
  return status;
}
static void *use_often(void *nothing) {
  int i;
  qr_status *status = NULL;
  (void)nothing;
  for (i = 0; i < 40 && !status; ++i) status = use();
  return status;
}

static void test_many_readers(void **state) {
  pthread_t threads[THREADS];
  int i;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(qr_options_create(runtime, &shared));
  OK(qr_options_set(shared, str("threads"), str("2")));
  for (i = 0; i < THREADS; ++i) assert_int_equal(pthread_create(&threads[i], NULL, use_often, NULL), 0);
  for (i = 0; i < THREADS; ++i) {
    void *status = NULL;
    pthread_join(threads[i], &status);
    OK((qr_status *)status);
  }
  OK(qr_options_set(shared, str("threads"), str("3"))); /* nobody is left inside */
  qr_options_destroy(shared);
  qr_runtime_destroy(runtime);
}

/* A compilation reads its options from beginning to end. */
static int32_t report(void *calls, uint64_t done, uint64_t total, qr_string what) {
  qr_string value;
  (void)done, (void)total, (void)what;
  ++*(int *)calls;
  OK(qr_options_get(shared, str("threads"), &value));
  FAILS("QR-C0006", "while 1 call reads this options", qr_options_set(shared, str("threads"), str("4")));
  return QR_GO_ON;
}
static void test_a_set_overlaps_a_read(void **state) {
  qr_model *model = NULL;
  qr_progress progress = QR_PROGRESS_INIT;
  int calls = 0;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(qr_options_create(runtime, &shared));
  OK(model_at_path(runtime, str(digits_path()), NULL, &model));
  progress.self = &calls, progress.report = report;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.progress = &progress;
  OK(qr_model_compile(model, shared, &(qr_target)QR_TARGET_AT("./overlap.qrm"), &call));
  assert_true(calls > 0);
  OK(qr_options_set(shared, str("threads"), str("4")));
  qr_model_destroy(model);
  qr_options_destroy(shared);
  qr_runtime_destroy(runtime);
}

/* And a read overlaps a set: in the set's only callback, the allocator's. */
static int in_set;
static qr_status *overlapping;
static void *alloc_in_set(void *self, uint64_t size, uint64_t align) {
  if (in_set) {
    qr_string value;
    in_set = 0;
    overlapping = qr_options_get(shared, str("threads"), &value);
  }
  return counting_alloc(self, size, align);
}
static void test_a_read_overlaps_a_set(void **state) {
  static const char kLong[] = "a value that is too long to lie inside the text object itself";
  counting_allocator counter = {0};
  qr_allocator allocator = counting(&counter);
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  (void)state;
  allocator.alloc = alloc_in_set;
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &runtime));
  OK(qr_options_create(runtime, &shared));
  in_set = 1;
  OK(qr_options_set(shared, str("metadata.text"), str(kLong)));
  FAILS("QR-C0006", "changes this options", overlapping);
  qr_options_destroy(shared);
  qr_runtime_destroy(runtime);
  assert_int_equal(counter.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_many_readers),
      cmocka_unit_test(test_a_set_overlaps_a_read),
      cmocka_unit_test(test_a_read_overlaps_a_set),
  };
  container = digits_qrm("options");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
