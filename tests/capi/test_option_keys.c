/* SPDX-License-Identifier: Apache-2.0 */
/* Which plugins are asked about a key: none that need not be. */
#include <link.h>
#include <pthread.h>

#include "capi_test.h"

static int is_part(struct dl_phdr_info *info, size_t size, void *name) {
  (void)size;
  return strstr(info->dlpi_name, name) != NULL;
}
static int is_open(const char *plugin) { return dl_iterate_phdr(is_part, (void *)(uintptr_t)plugin); }

/* The first test: nothing has opened a plugin yet. */
static void test_a_mistyped_key_opens_no_plugin(void **state) {
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(qr_options_create(runtime, &options));
  FAILS("QR-C0101", "the nearest is vtcm_mb", qr_options_set(options, str("vtcm_bm"), str("4")));
  FAILS("QR-C0101", "the nearest is threads", qr_options_set(options, str("treads"), str("4")));
  FAILS("QR-C0101", "no option of that name", qr_options_set(options, str("acme.speed"), str("4")));
  FAILS("QR-C0101", "no option of that name", qr_options_set(options, str("../cpu.speed"), str("4")));
  FAILS("QR-C0101", "no option of that name", qr_options_set(options, str(".speed"), str("4")));
  /* Backends that are not installed, and one that is: their rows are known. */
  OK(qr_options_set(options, str("vtcm_mb"), str("4")));
  OK(qr_options_set(options, str("qnn_context_priority"), str("high")));
  OK(qr_options_set(options, str("cpu.weights"), str("f16")));
  FAILS("QR-C0102", "exact|f16|bf16", qr_options_set(options, str("cpu.weights"), str("f15")));
  FAILS("QR-C0102", "low|normal|normal_high|high", qr_options_set(options, str("qnn_context_priority"), str("none")));
  assert_false(is_open("quarry-backend-"));
  /* A key that names a plugin: that one. */
  FAILS("QR-C0101", "the nearest is cpu.weights", qr_options_set(options, str("cpu.wieghts"), str("f16")));
  assert_true(is_open("quarry-backend-cpu.so"));
  assert_false(is_open("quarry-backend-cpu-reference"));
  qr_options_destroy(options);
  qr_runtime_destroy(runtime);
}

/* Every row once for each backend, whether the backend is here or not. */
static void test_the_table(void **state) {
  qr_runtime *runtime = NULL;
  uint64_t i;
  int cpu = 0, htp = 0, priority = 0, weights = 0;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  for (i = 0;; ++i) {
    qr_option_info row = QR_OPTION_INFO_INIT;
    qr_status *status = qr_runtime_option(runtime, i, &row);
    if (status) {
      FAILS("QR-C0008", "index", status);
      break;
    }
    assert_true(row.help.size > 0);
    cpu += row.scope.size == 3 && !memcmp(row.scope.data, "cpu", 3);
    htp += row.scope.size == 3 && !memcmp(row.scope.data, "htp", 3);
    priority += row.key.size == 20 && !memcmp(row.key.data, "qnn_context_priority", 20);
    weights += row.key.size == 11 && !memcmp(row.key.data, "cpu.weights", 11);
  }
  assert_int_equal(cpu, 6);
  assert_true(htp > 40);
  assert_int_equal(priority, 2); /* htp's and gpu's */
  assert_int_equal(weights, 1);
  qr_runtime_destroy(runtime);
}

/* Keys are looked up while plugins are opened. */
static qr_runtime *shared;
static void *look_up(void *nothing) {
  int i;
  (void)nothing;
  for (i = 0; i < 50; ++i) {
    qr_options *options = NULL;
    qr_string value;
    qr_status *status = qr_options_create(shared, &options);
    if (status) return status;
    status = qr_options_set(options, str(i % 2 ? "cpu.wieghts" : "cpu-reference.none"), str("1"));
    if (!status || strcmp(qr_status_id(status), "QR-C0101") != 0) return status;
    qr_status_destroy(status);
    status = qr_options_set(options, str("cpu.weights"), str("f16"));
    if (!status) status = qr_options_get(options, str("cpu.weights"), &value);
    qr_options_destroy(options);
    if (status) return status;
  }
  return NULL;
}
static void test_look_up_from_threads(void **state) {
  pthread_t threads[4];
  qr_model *model = NULL;
  char path[4096];
  const char *folders = getenv("QUARRY_BACKEND_PATH");
  int i;
  (void)state;
  OK(qr_runtime_create(NULL, &shared));
  OK(model_at_path(shared, str(digits_path()), NULL, &model));
  for (i = 0; i < 4; ++i) assert_int_equal(pthread_create(&threads[i], NULL, look_up, NULL), 0);
  for (i = 0; i < 20; ++i) { /* by its path, so that its rows are learned */
    qr_options *options = NULL;
    qr_session *session = NULL;
    OK(qr_options_create(shared, &options));
    snprintf(path, sizeof path, "%.*s/quarry-backend-cpu.so", (int)strcspn(folders, ":"), folders);
    OK(qr_options_set(options, str("backend"), str(path)));
    OK(qr_session_create(model, options, NULL, &session));
    qr_session_destroy(session);
    qr_options_destroy(options);
  }
  for (i = 0; i < 4; ++i) {
    void *status = NULL;
    pthread_join(threads[i], &status);
    OK((qr_status *)status);
  }
  qr_model_destroy(model);
  qr_runtime_destroy(shared);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_mistyped_key_opens_no_plugin),
      cmocka_unit_test(test_the_table),
      cmocka_unit_test(test_look_up_from_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
