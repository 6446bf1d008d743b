/* SPDX-License-Identifier: Apache-2.0 */
/* What runs out names itself: descriptors with how many there may be, memory with the call and the size that was
 * refused. */
#include <sys/resource.h>
#include <unistd.h>

#include "capi_test.h"

static const char *container;

/* Leaves the process `left` descriptors; give_back undoes it. */
static struct rlimit before;
static void limit_descriptors(unsigned left) {
  struct rlimit now;
  const int first_free = dup(0);
  assert_true(first_free >= 0);
  close(first_free);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  now = before;
  now.rlim_cur = (rlim_t)first_free + left;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}
static void give_back(void) { assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0); }

/* The call fails with QR-F0008 and says how many descriptors there may be. */
static void runs_out_of_descriptors(qr_status *status, const char *subject) {
  give_back();
  assert_non_null(status);
  if (strcmp(qr_status_id(status), "QR-F0008") != 0 || !strstr(qr_status_message(status), subject))
    print_error("found %s: %s, expected QR-F0008 with '%s'\n", qr_status_id(status), qr_status_message(status),
                subject);
  assert_string_equal(qr_status_id(status), "QR-F0008");
  assert_int_equal(qr_status_code(status), QR_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(qr_status_message(status), subject));
  assert_non_null(strstr(qr_status_message(status), "Too many open files"));
  assert_non_null(strstr(qr_status_hint(status), "ulimit -n"));
  qr_status_destroy(status);
}

static void test_descriptors_of_a_model(void **state) {
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  limit_descriptors(0);
  runs_out_of_descriptors(model_at_path(runtime, str(container), NULL, &model), "this process may have");
  OK(model_at_path(runtime, str(container), NULL, &model));
  limit_descriptors(0);
  runs_out_of_descriptors(qr_model_compile(model, NULL, &(qr_target)QR_TARGET_AT("./limits2.qrm"), NULL),
                          "backend \"cpu\"");
  qr_model_destroy(model);
  qr_runtime_destroy(runtime);
}

static void test_descriptors_of_a_backend(void **state) {
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(model_at_path(runtime, str(container), NULL, &model));
  limit_descriptors(0);
  runs_out_of_descriptors(qr_session_create(model, NULL, NULL, &session), "backend \"cpu\"");
  limit_descriptors(1); /* the folder is open while its files are looked at */
  OK(qr_session_create(model, NULL, NULL, &session));
  give_back();
  qr_session_destroy(session);
  qr_model_destroy(model);
  qr_runtime_destroy(runtime);
}

static void test_descriptors_of_the_compiler_library(void **state) {
  static char bytes[1 << 20];
  size_t size;
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  FILE *file = fopen(digits_path(), "rb");
  (void)state;
  assert_non_null(file);
  size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  OK(qr_runtime_create(NULL, &runtime));
  limit_descriptors(0);
  runs_out_of_descriptors(model_in_memory(runtime, bytes, size, NULL, &model), "libquarry-prepare");
  OK(model_in_memory(runtime, bytes, size, NULL, &model));
  qr_model_destroy(model);
  qr_runtime_destroy(runtime);
}

/* Refuses what is larger than `limit`. */
typedef struct small_memory {
  uint64_t limit, refused;
} small_memory;
static void *small_alloc(void *self, uint64_t size, uint64_t align) {
  small_memory *memory = self;
  void *ptr = NULL;
  if (size > memory->limit) {
    memory->refused = size;
    return NULL;
  }
  return posix_memalign(&ptr, align < 16 ? 16 : align, size) == 0 ? ptr : NULL;
}
static void small_free(void *self, void *ptr, uint64_t size, uint64_t align) {
  (void)self, (void)size, (void)align;
  free(ptr);
}

static void test_memory_names_its_size(void **state) {
  const char *backends[] = {"cpu", "cpu-reference"};
  size_t i;
  (void)state;
  for (i = 0; i < 2; ++i) {
    small_memory memory = {1 << 30, 0};
    qr_allocator allocator = QR_ALLOCATOR_INIT;
    qr_runtime_options settings = QR_RUNTIME_OPTIONS_INIT;
    qr_runtime *runtime = NULL;
    qr_options *options = NULL;
    qr_model *model = NULL;
    qr_session *session = NULL;
    qr_status *status;
    unsigned long long told = 0;
    const char *number;
    allocator.self = &memory, allocator.alloc = small_alloc, allocator.free = small_free;
    settings.allocator = &allocator;
    OK(qr_runtime_create(&settings, &runtime));
    OK(qr_options_create(runtime, &options));
    OK(qr_options_set(options, str("backend"), str(backends[i])));
    OK(model_at_path(runtime, str(digits_path()), NULL, &model));
    memory.limit = 20000;
    status = qr_session_create(model, options, NULL, &session);
    assert_non_null(status);
    assert_string_equal(qr_status_id(status), "QR-C0001");
    number = strstr(qr_status_message(status), "out of memory: found no room for ");
    if (!number || sscanf(number, "out of memory: found no room for %llu bytes", &told) != 1)
      print_error("%s: found '%s', expected the size\n", backends[i], qr_status_message(status));
    /* What the library needs beside the block itself is not the caller's concern. */
    assert_true(told > 19000 && told <= memory.refused);
    assert_true(strlen(qr_status_hint(status)) > 0);
    qr_status_destroy(status);
    qr_model_destroy(model);
    qr_options_destroy(options);
    qr_runtime_destroy(runtime);
  }
}

static void test_memory_names_its_call(void **state) {
  small_memory memory = {1 << 30, 0};
  qr_allocator allocator = QR_ALLOCATOR_INIT;
  qr_runtime_options settings = QR_RUNTIME_OPTIONS_INIT;
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  char *json = NULL;
  (void)state;
  allocator.self = &memory, allocator.alloc = small_alloc, allocator.free = small_free;
  settings.allocator = &allocator;
  OK(qr_runtime_create(&settings, &runtime));
  OK(model_at_path(runtime, str(container), NULL, &model));
  memory.limit = 300;
  FAILS("QR-C0001", "qr_model_inspect: out of memory: found no room for ", qr_model_inspect(model, NULL, &json));
  qr_model_destroy(model);
  model = NULL;
  FAILS("QR-C0001", "qr_model_open: out of memory: found no room for ",
        model_at_path(runtime, str(container), NULL, &model));
  qr_runtime_destroy(runtime);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_descriptors_of_the_compiler_library), cmocka_unit_test(test_descriptors_of_a_backend),
      cmocka_unit_test(test_descriptors_of_a_model), cmocka_unit_test(test_memory_names_its_size),
      cmocka_unit_test(test_memory_names_its_call)};
  /* In a process that has opened neither compiler library nor backend: that is what is looked at. */
  container = getenv("QUARRY_LIMITS_CONTAINER");
  if (!container) {
    setenv("QUARRY_LIMITS_CONTAINER", digits_qrm("limits"), 1);
    execl("/proc/self/exe", "fault-limits", (char *)NULL);
    return 1;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
