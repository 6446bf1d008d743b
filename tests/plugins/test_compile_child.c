/* SPDX-License-Identifier: Apache-2.0 */
/* The option compile.process: a backend that crashes or does not stop while it compiles takes nobody with it.
 * Arguments as for test_scripted.c. */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/plugins/scripted_fixture.h"

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", g_folder, name);
  return path;
}

static char *content(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *bytes = malloc(1 << 20);
  *size = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  return bytes;
}

/* Nothing was left behind, neither files nor processes. */
static void check_clean(int files) {
  DIR *folder = opendir(g_folder);
  const struct dirent *entry;
  int found = 0;
  while ((entry = readdir(folder)) != NULL) found += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
  closedir(folder);
  assert_int_equal(found, files);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* ECHILD: none */
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int g_reports;
static int32_t on_progress(void *self, uint64_t done, uint64_t total, qr_string what) {
  (void)self, (void)done, (void)total;
  g_reports += what.size > 0;
  return QR_GO_ON;
}

static void test_same_container(void **state) {
  fixture *f = *state;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  qr_progress progress = QR_PROGRESS_INIT;
  size_t one_size, two_size;
  progress.report = on_progress;
  call.progress = &progress;
  ok(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("own.qrm")), NULL));
  char *one = content(path_of("own.qrm"), &one_size);
  set(f, "compile.process", "child");
  ok(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("child.qrm")), &call));
  char *two = content(path_of("child.qrm"), &two_size);
  assert_int_equal(one_size, two_size);
  assert_memory_equal(one, two, one_size);
  assert_true(g_reports > 4); /* those of the backend too */

  /* A model that has no path. */
  char name[600];
  size_t size;
  snprintf(name, sizeof name, "%s/accepted.onnx", g_models);
  char *onnx = content(name, &size);
  qr_model *model = NULL;
  ok(model_in_memory(f->runtime, onnx, size, NULL, &model));
  ok(qr_model_compile(model, f->options, &(qr_target)QR_TARGET_AT(path_of("memory.qrm")), NULL));
  qr_model_destroy(model);
  free(onnx);
  char *three = content(path_of("memory.qrm"), &size);
  assert_int_equal(one_size, size);
  assert_memory_equal(one, three, size);
  free(one), free(two), free(three);

  /* An application that has the system reap its children. */
  signal(SIGCHLD, SIG_IGN);
  ok(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("child.qrm")), NULL));
  signal(SIGCHLD, SIG_DFL);
  unlink(path_of("own.qrm")), unlink(path_of("child.qrm")), unlink(path_of("memory.qrm"));
  check_clean(0);
}

static void test_check(void **state) {
  fixture *f = *state;
  qr_model *model = open_model(f, g_models, "refused.onnx");
  char *own = NULL, *child = NULL;
  ok(qr_model_check(model, f->options, NULL, &own));
  set(f, "compile.process", "child");
  ok(qr_model_check(model, f->options, NULL, &child));
  assert_non_null(strstr(child, "found Sigmoid, expected"));
  assert_string_equal(own, child);
  qr_string_destroy(own), qr_string_destroy(child);

  /* Its errors are the same errors, with every detail. */
  qr_status *status = qr_model_compile(model, f->options, &(qr_target)QR_TARGET_AT(path_of("x.qrm")), NULL);
  assert_non_null(status);
  int reasons = 0;
  for (uint64_t i = 0; i < qr_status_detail_count(status); ++i) {
    const char *key, *value;
    qr_status_detail(status, i, &key, &value);
    reasons += !strcmp(key, "reason");
  }
  assert_int_equal(reasons, 2);
  assert_string_not_equal(qr_status_hint(status), "");
  fails(status, QR_UNSUPPORTED, "QR-B0001");
  qr_model_destroy(model);
  check_clean(0);
}

static void test_crash(void **state) {
  fixture *f = *state;
  set(f, "compile.process", "child");
  set(f, "scripted.script", "die_compile=11");
  qr_status *status = qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("x.qrm")), NULL);
  assert_non_null(status);
  assert_non_null(strstr(qr_status_message(status), "for backend scripted"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they make an exit status of a signal */
  assert_non_null(strstr(qr_status_message(status), "ended by signal 11"));
#endif
  assert_non_null(strstr(qr_status_message(status), "(its step: pretends)"));
  fails(status, QR_INTERNAL, "QR-B0011");
  check_clean(0);
  /* Nobody minds, least of all the next. */
  set(f, "scripted.script", "");
  ok(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("x.qrm")), NULL));
  unlink(path_of("x.qrm"));
  check_clean(0);
}

static void *abort_soon(void *signal) {
  usleep(200000);
  qr_signal_abort(signal);
  return NULL;
}

static void test_stop(void **state) {
  fixture *f = *state;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  pthread_t thread;
  set(f, "compile.process", "child");
  ok(qr_signal_create(f->runtime, &call.signal));
  const char *const scripts[] = {"stuck_compile=20000", "slow_compile=20000"}; /* must be killed; stops by itself */
  for (int i = 0; i < 2; ++i) {
    set(f, "scripted.script", scripts[i]);
    double begun = now();
    pthread_create(&thread, NULL, abort_soon, call.signal);
    fails(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("x.qrm")), &call), QR_CANCELLED,
          "QR-C0011");
    assert_true(now() - begun < 10);
    pthread_join(thread, NULL);
    qr_signal_reset(call.signal);
    double least = 10;
    for (int time = 0; time < 4; ++time) { /* of several, as others may work on the machine */
      begun = now();
      qr_signal_set_timeout(call.signal, 200000000);
      fails(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("x.qrm")), &call),
            QR_DEADLINE_EXCEEDED, "QR-C0012");
      qr_signal_set_timeout(call.signal, QR_NO_TIMEOUT);
      if (now() - begun < least) least = now() - begun;
    }
    assert_true(least < 0.26); /* at most 50 ms past the deadline, and what making a process takes */
    check_clean(0);
  }
  qr_signal_destroy(call.signal);
}

/* What the process that died began lives on, with its end of the socket. */
static void test_orphan(void **state) {
  fixture *f = *state;
  const double begun = now();
  set(f, "compile.process", "child");
  set(f, "scripted.script", "orphan_compile=8000;die_compile=9");
  fails(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("x.qrm")), NULL), QR_INTERNAL,
        "QR-B0011");
  assert_true(now() - begun < 6);
  check_clean(0);
}

static int g_reaping;
static void *reap_all(void *nothing) {
  (void)nothing;
  while (__atomic_load_n(&g_reaping, __ATOMIC_RELAXED))
    if (waitpid(-1, NULL, WNOHANG) <= 0) usleep(200);
  return NULL;
}

/* An application that reaps every child, ours too: their numbers may be those of other processes then. */
static void test_reaped_by_others(void **state) {
  fixture *f = *state;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  pthread_t reaper;
  set(f, "compile.process", "child");
  ok(qr_signal_create(f->runtime, &call.signal));
  g_reaping = 1;
  pthread_create(&reaper, NULL, reap_all, NULL);
  for (int i = 0; i < 3; ++i) {
    set(f, "scripted.script", "");
    ok(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("x.qrm")), NULL));
    unlink(path_of("x.qrm"));
    set(f, "scripted.script", "die_compile=11");
    fails(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("x.qrm")), NULL), QR_INTERNAL,
          "QR-B0011");
  }
  set(f, "scripted.script", "stuck_compile=20000");
  const double begun = now();
  qr_signal_set_timeout(call.signal, 200000000);
  fails(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path_of("x.qrm")), &call), QR_DEADLINE_EXCEEDED,
        "QR-C0012");
  assert_true(now() - begun < 10);
  __atomic_store_n(&g_reaping, 0, __ATOMIC_RELAXED);
  pthread_join(reaper, NULL);
  qr_signal_destroy(call.signal);
  check_clean(0);
}

int main(int argc, char **argv) {
  if (begin(argc, argv)) return 2;
  const struct CMUnitTest tests[] = {SCRIPTED(test_same_container), SCRIPTED(test_check),
                                     SCRIPTED(test_crash),          SCRIPTED(test_stop),
                                     SCRIPTED(test_orphan),         SCRIPTED(test_reaped_by_others)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  rmdir(g_folder);
  return failed;
}
