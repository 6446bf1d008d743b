/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests on the scripted backend share: a runtime that sees that backend alone, its model, and runs with known
 * results. Their arguments: folder of the plugin, folder of the models, file of the compiler library. */
#ifndef QUARRY_SCRIPTED_FIXTURE_H
#define QUARRY_SCRIPTED_FIXTURE_H

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include <quarry/quarry.h>

#include "../support/open_model.h"

static const char *g_plugins, *g_models, *g_prepare;
static char g_folder[] = "/tmp/quarry-scripted-XXXXXX";

static const float kX[8] = {-1, 2, 0, 4, 5, -6, 7, 0};
static const float kY[8] = {0, 12, 20, 34, 45, 50, 67, 70}; /* max(x, 0) + 0, 10, ... 70 */
static const int64_t kZ[8] = {0, 0, 1, 1, 1, 3, 0, 2};      /* where max(x, 0) is not zero */

typedef struct fixture {
  qr_runtime *runtime;
  qr_model *model;
  qr_options *options;
  int misbehaving; /* log lines of that level */
} fixture;

__attribute__((unused)) static qr_string text(const char *data) {
  qr_string string = {data, QR_NUL_TERMINATED};
  return string;
}

__attribute__((unused)) static void on_log(void *self, qr_log_level level, uint32_t flags, qr_string topic,
                                           qr_string message) {
  (void)level, (void)topic, (void)message;
  if (flags & QR_LOG_PLUGIN_MISBEHAVES) ++((fixture *)self)->misbehaving;
}

__attribute__((unused)) static void ok(qr_status *status) {
  if (status) print_error("%s %s\n", qr_status_id(status), qr_status_message(status));
  assert_null(status);
}

__attribute__((unused)) static void fails(qr_status *status, qr_code code, const char *id) {
  assert_non_null(status);
  if (qr_status_code(status) != code || strcmp(qr_status_id(status), id))
    print_error("found %s %s %s, expected %s\n", qr_code_name(qr_status_code(status)), qr_status_id(status),
                qr_status_message(status), id);
  assert_int_equal(qr_status_code(status), code);
  assert_string_equal(qr_status_id(status), id);
  assert_true(*qr_status_message(status) != 0);
  qr_status_destroy(status);
}

__attribute__((unused)) static void set(fixture *f, const char *key, const char *value) {
  ok(qr_options_set(f->options, text(key), text(value)));
}

__attribute__((unused)) static qr_model *open_model(fixture *f, const char *folder, const char *name) {
  char path[512];
  qr_model *model = NULL;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  ok(model_at_path(f->runtime, text(path), NULL, &model));
  return model;
}

__attribute__((unused)) static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  qr_log_sink log = QR_LOG_SINK_INIT;
  log.level = QR_LOG_ERROR;
  log.self = f;
  log.write = on_log;
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  options.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
  options.log = &log;
  options.backend_path = text(g_plugins);
  options.prepare_path = text(g_prepare);
  ok(qr_runtime_create(&options, &f->runtime));
  ok(qr_options_create(f->runtime, &f->options));
  set(f, "backend", "scripted");
  set(f, "threads", "2");
  f->model = open_model(f, g_models, "accepted.onnx");
  return 0;
}

__attribute__((unused)) static int teardown(void **state) {
  fixture *f = *state;
  qr_runtime_destroy(f->runtime); /* any order is right */
  qr_model_destroy(f->model);
  qr_options_destroy(f->options);
  free(f);
  return 0;
}

__attribute__((unused)) static qr_session *create(fixture *f) {
  qr_session *session = NULL;
  ok(qr_session_create(f->model, f->options, NULL, &session));
  return session;
}

__attribute__((unused)) static qr_session *create_on(fixture *f, qr_model *model) {
  qr_session *session = NULL;
  ok(qr_session_create(model, f->options, NULL, &session));
  return session;
}

__attribute__((unused)) static qr_tensor tensor(qr_dtype dtype, void *data, uint64_t size) {
  qr_tensor made = QR_TENSOR_INIT;
  made.dtype = dtype;
  made.rank = 2;
  made.dims[0] = 2;
  made.dims[1] = 4;
  made.data = data;
  made.size_bytes = size;
  return made;
}

/* One run with plain tensors; checks both results where it succeeds. */
__attribute__((unused)) static qr_status *run(qr_session *session, qr_signal *signal, qr_profile *profile) {
  float out[8] = {0};
  qr_tensor x = tensor(QR_DTYPE_F32, (void *)(uintptr_t)kX, sizeof kX), y = tensor(QR_DTYPE_F32, out, sizeof out);
  qr_tensor z = QR_TENSOR_INIT;
  const qr_tensor *inputs[] = {&x};
  qr_tensor *outputs[] = {&y, &z};
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  options.signal = signal;
  options.profile = profile;
  qr_status *status = qr_session_run(session, &options, inputs, 1, outputs, 2);
  if (status) return status;
  assert_memory_equal(out, kY, sizeof kY);
  assert_int_equal(z.dtype, QR_DTYPE_I64);
  assert_int_equal(z.rank, 2);
  assert_int_equal(z.dims[0], 2);
  assert_int_equal(z.dims[1], 4);
  assert_int_equal(z.size_bytes, sizeof kZ);
  assert_memory_equal(z.data, kZ, sizeof kZ);
  return NULL;
}

/* The event of a name in a profile; fails when there is none. */
__attribute__((unused)) static qr_profile_event find_event(qr_profile *profile, const char *name) {
  qr_profile_event event = QR_PROFILE_EVENT_INIT;
  for (uint64_t i = qr_profile_event_count(profile); i-- > 0;) {
    ok(qr_profile_event_at(profile, i, &event));
    if (event.name.size == strlen(name) && !memcmp(event.name.data, name, event.name.size)) return event;
  }
  print_error("no event %s\n", name);
  fail();
  return event;
}

__attribute__((unused)) static uint64_t event_value(fixture *f, qr_session *session, const char *name) {
  qr_profile *profile = NULL;
  ok(qr_profile_create(f->runtime, &profile));
  ok(run(session, NULL, profile));
  const uint64_t value = find_event(profile, name).counters[0].value;
  qr_profile_destroy(profile);
  return value;
}

__attribute__((unused)) static int reports(qr_session *session, const char *what) {
  char *report = NULL;
  ok(qr_session_report(session, &report));
  const int found = strstr(report, what) != NULL;
  qr_string_destroy(report);
  return found;
}

__attribute__((unused)) static qr_model *compile(fixture *f, const char *script, const char *keep_graph,
                                                 const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.qrm", g_folder, name);
  set(f, "scripted.script", script);
  set(f, "container.keep_graph", keep_graph);
  ok(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path), NULL));
  set(f, "scripted.script", "");
  qr_model *model = NULL;
  ok(model_at_path(f->runtime, text(path), NULL, &model));
  return model;
}

#define SCRIPTED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Reads the arguments, and makes the folder for files; call it first in main. */
__attribute__((unused)) static int begin(int argc, char **argv) {
  if (argc != 4) return 2;
  g_plugins = argv[1];
  g_models = argv[2];
  g_prepare = argv[3];
  return mkdtemp(g_folder) ? 0 : 2;
}

#endif
