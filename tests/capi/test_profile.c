/* SPDX-License-Identifier: Apache-2.0 */
/* qr_profile: the events of runs, and of calls that compile and load. */
#include "capi_test.h"

static const char *container;

static int is(qr_string text, const char *expected) {
  return text.size == strlen(expected) && !memcmp(text.data, expected, text.size);
}

static qr_profile_event event_at(const qr_profile *profile, uint64_t index) {
  qr_profile_event event = QR_PROFILE_EVENT_INIT;
  OK(qr_profile_event_at(profile, index, &event));
  return event;
}

/* The roots and their phases: "compile(open backend, import) load(load context)". Each phase lies inside its root, and
 * begins where the one before it has ended or later. */
static const char *outline(const qr_profile *profile) {
  static char text[1024];
  qr_profile_event root = QR_PROFILE_EVENT_INIT;
  uint64_t i, ended = 0;
  size_t length = 0;
  text[0] = '\0';
  for (i = 0; i < qr_profile_event_count(profile); ++i) {
    const qr_profile_event event = event_at(profile, i);
    const int name = (int)event.name.size;
    assert_int_equal(event.level, QR_PROFILE_BASIC);
    assert_int_equal(event.clock, QR_CLOCK_HOST);
    assert_true(event.begin <= event.end);
    if (event.parent == 0) {
      assert_true(event.name.size == event.kind.size && !memcmp(event.name.data, event.kind.data, event.name.size));
      length += (size_t)snprintf(text + length, sizeof text - length, "%s%.*s(", i ? ") " : "", name, event.name.data);
      root = event, ended = event.begin;
    } else {
      assert_int_equal(event.parent, root.id);
      assert_true(is(event.kind, "phase"));
      assert_true(event.begin >= ended && event.end <= root.end);
      length += (size_t)snprintf(text + length, sizeof text - length, "%s%.*s", text[length - 1] == '(' ? "" : ", ",
                                 name, event.name.data);
      ended = event.end;
    }
  }
  snprintf(text + length, sizeof text - length, "%s", i ? ")" : "");
  return text;
}

typedef struct fixture {
  qr_runtime *runtime;
  qr_model *model;
  qr_session *session;
  qr_profile *profile;
  qr_call_options call;
} fixture;

static void open_fixture(fixture *f, const char *path) {
  const qr_call_options call = QR_CALL_OPTIONS_INIT;
  memset(f, 0, sizeof *f);
  OK(qr_runtime_create(NULL, &f->runtime));
  OK(model_at_path(f->runtime, str(path), NULL, &f->model));
  OK(qr_profile_create(f->runtime, &f->profile));
  f->call = call;
  f->call.profile = f->profile;
}
static void close_fixture(fixture *f) {
  assert_int_equal(qr_profile_lost_count(f->profile), 0);
  qr_profile_destroy(f->profile), qr_session_destroy(f->session), qr_model_destroy(f->model),
      qr_runtime_destroy(f->runtime);
}

static void test_compile(void **state) {
  fixture f;
  char *json = NULL;
  (void)state;
  open_fixture(&f, digits_path());
  OK(qr_model_compile(f.model, NULL, &(qr_target)QR_TARGET_AT("./profile-compile.qrm"), &f.call));
  assert_string_equal(outline(f.profile),
                      "compile(open backend, import, read graphs, check, compile program, write container)");
  qr_profile_clear(f.profile);
  OK(qr_model_check(f.model, NULL, &f.call, &json));
  assert_string_equal(outline(f.profile), "check(open backend, import, read graphs, check)");
  qr_string_destroy(json);
  close_fixture(&f);
}

static void test_create(void **state) {
  fixture f;
  (void)state;
  open_fixture(&f, digits_path());
  OK(qr_session_create(f.model, NULL, &f.call, &f.session));
  assert_string_equal(outline(f.profile),
                      "compile(open backend, import, read graphs, check, compile program) "
                      "load(load context, plan, create execution)");
  close_fixture(&f);
  open_fixture(&f, container);
  OK(qr_session_create(f.model, NULL, &f.call, &f.session));
  assert_string_equal(outline(f.profile), "load(open backend, grade contexts, load context, plan, create execution)");
  close_fixture(&f);
}

/* Calls that fail, and several calls in one profile. */
static void test_calls_that_fail(void **state) {
  fixture f;
  qr_options *options = NULL;
  (void)state;
  open_fixture(&f, digits_path());
  OK(qr_options_create(f.runtime, &options));
  OK(qr_options_set(options, str("backend"), str("no-such-backend")));
  FAILS("QR-L0001", "no-such-backend", qr_session_create(f.model, options, &f.call, &f.session));
  OK(qr_session_create(f.model, NULL, &f.call, &f.session));
  assert_string_equal(outline(f.profile),
                      "load(open backend) compile(open backend, import, read graphs, check, compile program) "
                      "load(load context, plan, create execution)");
  qr_options_destroy(options);
  close_fixture(&f);
}

static const char *attribute(const qr_profile_event *event, const char *key) {
  static char text[512];
  uint64_t i;
  for (i = 0; i < event->attribute_count; ++i)
    if (is(event->attributes[i].key, key)) {
      snprintf(text, sizeof text, "%.*s", (int)event->attributes[i].value.size, event->attributes[i].value.data);
      return text;
    }
  return "";
}

static void test_run(void **state) {
  fixture f;
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  float image[64] = {0};
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&out};
  char *text = NULL;
  uint64_t size = 0;
  uint64_t i, convolutions = 0;
  (void)state;
  open_fixture(&f, container);
  OK(qr_session_create(f.model, NULL, NULL, &f.session));
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8, in.data = image,
  in.size_bytes = sizeof image;
  options.profile = f.profile;
  OK(qr_session_run(f.session, &options, inputs, 1, outputs, 1));
  assert_true(is(event_at(f.profile, 0).name, "run") && is(event_at(f.profile, 0).kind, "run"));
  for (i = 1; i < qr_profile_event_count(f.profile); ++i) {
    const qr_profile_event event = event_at(f.profile, i);
    assert_true(event.end >= event.begin);
    assert_int_equal(event.parent, event_at(f.profile, 0).id);
    assert_true(is(event.kind, "node"));
    assert_string_not_equal(attribute(&event, "kernel"), "");
    assert_non_null(strstr(attribute(&event, "shapes"), " -> "));
    assert_int_equal(event.counter_count, 2);
    assert_true(is(event.counters[0].name, "bytes read") && is(event.counters[0].unit, "bytes"));
    assert_true(is(event.counters[1].name, "bytes written") && is(event.counters[1].unit, "bytes"));
    if (is(event.name, "conv1") && !strncmp(attribute(&event, "kernel"), "ConvF32 (", 9)) {
      ++convolutions;
      assert_string_equal(attribute(&event, "shapes"), "1x1x8x8 f32, 16x1x3x3 f32, 16 f32 -> 1x16x8x8 f32");
      assert_string_equal(attribute(&event, "fused"), "relu1");
      assert_int_equal(event.counters[1].value, 16 * 64 * sizeof(float));
    }
  }
  assert_int_equal(convolutions, 1);
  OK(qr_profile_export(f.profile, str("csv"), &(qr_target)QR_TARGET_IN_MEMORY((void **)&text, &size)));
  assert_int_equal(strlen(text), size);
  assert_non_null(strstr(text, "kernel=ConvF32 (")), assert_non_null(strstr(text, "Gemm"));
  qr_string_destroy(text);
  OK(qr_profile_export(f.profile, str("chrome"), &(qr_target)QR_TARGET_IN_MEMORY((void **)&text, &size)));
  assert_non_null(strstr(text, "\"conv2\"")), assert_non_null(strstr(text, "\"bytes read (bytes)\""));
  qr_string_destroy(text);
  qr_profile_clear(f.profile);
  assert_int_equal(qr_profile_event_count(f.profile), 0);
  close_fixture(&f);
}

/* Counts bytes. */
static uint64_t live_bytes;
static void *weighing_alloc(void *self, uint64_t size, uint64_t align) {
  void *ptr = NULL;
  (void)self;
  if (posix_memalign(&ptr, align < 16 ? 16 : align, size ? size : 1) != 0) return NULL;
  __atomic_add_fetch(&live_bytes, size, __ATOMIC_RELAXED);
  return ptr;
}
static void weighing_free(void *self, void *ptr, uint64_t size, uint64_t align) {
  (void)self, (void)align;
  __atomic_sub_fetch(&live_bytes, size, __ATOMIC_RELAXED);
  free(ptr);
}

/* Events that nobody can read are not kept: the option without a file logs how long each run took, and that is all. */
static void test_level_without_a_file(void **state) {
  static const char *const levels[] = {"basic", "optrace"};
  qr_runtime_options runtime_options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator = QR_ALLOCATOR_INIT;
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  float image[64] = {0};
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&out};
  size_t level;
  (void)state;
  allocator.alloc = weighing_alloc, allocator.free = weighing_free;
  runtime_options.allocator = &allocator;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8, in.data = image,
  in.size_bytes = sizeof image;
  for (level = 0; level < sizeof levels / sizeof *levels; ++level) {
    qr_runtime *runtime = NULL;
    qr_options *options = NULL;
    qr_model *model = NULL;
    qr_session *session = NULL;
    uint64_t before = 0;
    int i;
    OK(qr_runtime_create(&runtime_options, &runtime));
    OK(qr_options_create(runtime, &options));
    OK(qr_options_set(options, str("profiling_level"), str(levels[level])));
    OK(qr_options_set(options, str("threads"), str("1")));
    OK(model_at_path(runtime, str(container), NULL, &model));
    OK(qr_session_create(model, options, NULL, &session));
    for (i = 0; i < 2000; ++i) {
      out.data = NULL, out.size_bytes = 0;
      OK(qr_session_run(session, NULL, inputs, 1, outputs, 1));
      if (i == 1000) before = live_bytes;
    }
    assert_int_equal(live_bytes, before);
    qr_session_destroy(session), qr_model_destroy(model), qr_options_destroy(options), qr_runtime_destroy(runtime);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_compile),
      cmocka_unit_test(test_create),
      cmocka_unit_test(test_calls_that_fail),
      cmocka_unit_test(test_run),
      cmocka_unit_test(test_level_without_a_file),
  };
  container = digits_qrm("profile");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
