/* SPDX-License-Identifier: Apache-2.0 */
/* Today's libquarry with plugins of other minors, used by a program that was compiled against the headers one minor
 * ahead (GROWTH_AHEAD), and by one with the oldest structs there are: those of today, which is the first release.
 * Arguments: folder of the plugins, model (y = max(x, 0) over rows x 4), file of the compiler library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <quarry/quarry.h>

#include "../support/open_model.h"

static const char *g_plugins, *g_model, *g_prepare;
static int g_misbehaving;

static qr_string text(const char *data) {
  qr_string string = {data, QR_NUL_TERMINATED};
  return string;
}
static void ok(qr_status *status) {
  if (status) print_error("%s %s\n", qr_status_id(status), qr_status_message(status));
  assert_null(status);
}

/* A struct with every field at its default. A macro of today's leaves out what came later: that is zero. */
#define MADE(type, name)         \
  type name;                     \
  memset(&name, 0, sizeof name); \
  name.struct_size = sizeof name

static void on_log(void *self, qr_log_level level, uint32_t flags, qr_string topic, qr_string message) {
  (void)self, (void)level;
  if (!(flags & QR_LOG_PLUGIN_MISBEHAVES)) return;
  ++g_misbehaving;
  print_error("%.*s: %.*s\n", (int)topic.size, topic.data, (int)message.size, message.data);
}

static qr_runtime *make_runtime(void) {
  MADE(qr_log_sink, log);
  log.level = QR_LOG_WARN;
  log.write = on_log;
  MADE(qr_runtime_options, options);
  options.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
  options.log = &log;
  options.backend_path = text(g_plugins);
  options.prepare_path = text(g_prepare);
  qr_runtime *runtime = NULL;
  ok(qr_runtime_create(&options, &runtime));
  return runtime;
}

static void run(qr_session *session, qr_profile *profile) {
  float x[8] = {-1, 2, 0, 4, 5, -6, 7, 0}, y[8] = {9};
  MADE(qr_tensor, input);
  input.dtype = QR_DTYPE_F32;
  input.rank = 2;
  input.dims[0] = 2;
  input.dims[1] = 4;
  input.data = x;
  input.size_bytes = sizeof x;
  MADE(qr_tensor, output);
  output.data = y;
  output.size_bytes = sizeof y;
  const qr_tensor *inputs[] = {&input};
  qr_tensor *outputs[] = {&output};
  MADE(qr_run_options, options);
  options.profile = profile;
  ok(qr_session_run(session, &options, inputs, 1, outputs, 1));
  assert_int_equal(output.struct_size, sizeof output);
  assert_int_equal(output.size_bytes, sizeof y);
  for (int i = 0; i < 8; ++i) assert_true(y[i] == (x[i] > 0 ? x[i] : 0));
}

/* From the scan to the runs of a session, and of one from a container. */
static void whole_way(const char *backend) {
  qr_runtime *runtime = make_runtime();
  uint64_t count = 0, found = 0;
  ok(qr_runtime_scan(runtime, &count));
  for (uint64_t i = 0; i < count; ++i) {
    MADE(qr_backend_info, info);
    ok(qr_runtime_backend(runtime, i, &info));
    if (info.id.size != strlen(backend) || memcmp(info.id.data, backend, info.id.size)) continue;
    ++found;
    if (!info.usable) print_error("%.*s\n", (int)info.verdict.size, info.verdict.data);
    assert_int_equal(info.usable, 1);
    MADE(qr_device_info, device);
    ok(qr_runtime_device(runtime, i, 0, &device));
    assert_int_equal(device.usable, 1);
  }
  assert_int_equal(found, 1);
  MADE(qr_option_info, row);
  ok(qr_runtime_option(runtime, 0, &row));

  qr_options *options = NULL;
  ok(qr_options_create(runtime, &options));
  ok(qr_options_set(options, text("backend"), text(backend)));
  ok(qr_options_set(options, text("shape"), text("x=2x4")));
  qr_model *model = NULL;
  ok(model_at_path(runtime, text(g_model), options, &model));
  MADE(qr_memory_plan, plan);
  ok(qr_session_plan(model, options, NULL, &plan));
  qr_profile *profile = NULL;
  ok(qr_profile_create(runtime, &profile));
  MADE(qr_call_options, call);
  call.profile = profile;
  qr_session *session = NULL;
  ok(qr_session_create(model, options, &call, &session));
  MADE(qr_tensor_info, info);
  ok(qr_session_input(session, 0, &info));
  assert_int_equal(info.dims[1], 4);
  run(session, profile);
  uint64_t nodes = 0;
  for (uint64_t i = 0; i < qr_profile_event_count(profile); ++i) {
    MADE(qr_profile_event, event);
    ok(qr_profile_event_at(profile, i, &event));
    nodes += event.op.size == 4;
  }
  assert_int_equal(nodes, 1);
  qr_memory *memory = NULL;
  MADE(qr_memory_options, memory_options);
  ok(qr_memory_allocate(session, 64, &memory_options, &memory));
  qr_memory_destroy(memory);
  char *report = NULL;
  ok(qr_session_report(session, &report));
  assert_non_null(strstr(report, backend));
  qr_string_destroy(report);
  qr_session_destroy(session);

  char path[] = "/tmp/quarry-growth-XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  const qr_target target = file_target(path);
  ok(qr_model_compile(model, options, &target, &call));
  qr_model *container = NULL;
  qr_options_destroy(options); /* a container's shapes are bound */
  ok(qr_options_create(runtime, &options));
  ok(qr_options_set(options, text("backend"), text(backend)));
  ok(model_at_path(runtime, text(path), NULL, &container));
  ok(qr_session_create(container, options, NULL, &session));
  run(session, NULL);
  qr_session_destroy(session);
  qr_model_destroy(container);
  unlink(path);
  qr_profile_destroy(profile);
  qr_model_destroy(model);
  qr_options_destroy(options);
  qr_runtime_destroy(runtime);
  assert_int_equal(g_misbehaving, 0);
}

static void test_plugin_ahead(void **state) {
  (void)state;
  whole_way("growth-ahead");
}
static void test_plugin_behind(void **state) {
  (void)state;
  whole_way("growth-behind");
}

#if GROWTH_AHEAD
static void refused(qr_status *status, const char *type) {
  assert_non_null(status);
  assert_int_equal(qr_status_code(status), QR_INCOMPATIBLE);
  assert_string_equal(qr_status_id(status), "QR-C0004");
  if (!strstr(qr_status_message(status), type)) print_error("%s\n", qr_status_message(status));
  assert_non_null(strstr(qr_status_message(status), type));
  qr_status_destroy(status);
}

static void *allocate(void *self, uint64_t size, uint64_t align) {
  (void)self, (void)align;
  return malloc(size);
}
static void release(void *self, void *memory, uint64_t size, uint64_t align) {
  (void)self, (void)size, (void)align;
  free(memory);
}

/* A wish that today's library does not know is refused by the name of its struct, never ignored. */
static void test_unknown_wishes(void **state) {
  (void)state;
  qr_runtime *runtime = NULL;
  MADE(qr_runtime_options, options);
  options.later = 1;
  refused(qr_runtime_create(&options, &runtime), "qr_runtime_options");
  options.later = 0;
  MADE(qr_allocator, allocator);
  allocator.alloc = allocate;
  allocator.free = release;
  allocator.later = 1;
  options.allocator = &allocator;
  refused(qr_runtime_create(&options, &runtime), "qr_allocator");
  options.allocator = NULL;
  MADE(qr_log_sink, log);
  log.write = on_log;
  memset(&log.later, 1, sizeof log.later);
  options.log = &log;
  refused(qr_runtime_create(&options, &runtime), "qr_log_sink");
  options.log = NULL;

  runtime = make_runtime();
  MADE(qr_option_info, row);
  row.later = 1;
  refused(qr_runtime_option(runtime, 0, &row), "qr_option_info");
  qr_options *set = NULL;
  ok(qr_options_create(runtime, &set));
  ok(qr_options_set(set, text("backend"), text("growth-behind")));
  ok(qr_options_set(set, text("shape"), text("x=2x4")));
  qr_model *model = NULL;
  ok(model_at_path(runtime, text(g_model), set, &model));
  MADE(qr_memory_plan, plan);
  plan.later = 1;
  refused(qr_session_plan(model, set, NULL, &plan), "qr_memory_plan");
  MADE(qr_call_options, call);
  call.later = 1;
  qr_session *session = NULL;
  refused(qr_session_create(model, set, &call, &session), "qr_call_options");
  call.later = 0;
  ok(qr_session_create(model, set, &call, &session));
  MADE(qr_memory_options, memory_options);
  memory_options.later = 1;
  qr_memory *memory = NULL;
  refused(qr_memory_allocate(session, 64, &memory_options, &memory), "qr_memory_options");
  MADE(qr_tensor, input);
  input.later = 1;
  MADE(qr_tensor, output);
  const qr_tensor *inputs[] = {&input};
  qr_tensor *outputs[] = {&output};
  MADE(qr_run_options, run_options);
  run_options.later = 1;
  refused(qr_session_run(session, &run_options, inputs, 1, outputs, 1), "qr_run_options");
  refused(qr_session_run(session, NULL, inputs, 1, outputs, 1), "qr_tensor inputs[0]");
  qr_session_destroy(session);
  qr_model_destroy(model);
  qr_options_destroy(set);
  qr_runtime_destroy(runtime);
}
#endif

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  g_plugins = argv[1];
  g_model = argv[2];
  g_prepare = argv[3];
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_plugin_ahead),
    cmocka_unit_test(test_plugin_behind),
#if GROWTH_AHEAD
    cmocka_unit_test(test_unknown_wishes),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
