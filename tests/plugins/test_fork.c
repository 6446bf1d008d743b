/* SPDX-License-Identifier: Apache-2.0 */
/* Children of fork() while a container is compiled again in the background: its thread stays in the parent. Arguments
 * as for test_scripted.c. */
#include "tests/capi/capi_test.h"
#include "tests/capi/child.h"

static const char *g_plugins, *g_models, *g_prepare;

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
  qr_model *onnx = NULL;
  char path[4096];
  memset(w, 0, sizeof *w);
  options.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
  options.backend_path = str(g_plugins);
  options.prepare_path = str(g_prepare);
  OK(qr_runtime_create(&options, &w->runtime));
  OK(qr_options_create(w->runtime, &w->options));
  set(w, "backend", "scripted");
  set(w, "scripted.script", grade);
  snprintf(path, sizeof path, "%s/accepted.onnx", g_models);
  OK(qr_model_open_path(w->runtime, str(path), NULL, &onnx));
  OK(qr_model_compile(onnx, w->options, str("./forked.qrm"), NULL));
  qr_model_destroy(onnx);
  OK(qr_model_open_path(w->runtime, str("./forked.qrm"), NULL, &w->model));
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

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replaced),
      cmocka_unit_test(test_pending),
  };
  if (argc != 4) return 2;
  g_plugins = argv[1], g_models = argv[2], g_prepare = argv[3];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
