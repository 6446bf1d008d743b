/* SPDX-License-Identifier: Apache-2.0 */
/* Every feature of the plugin ABI as it shows in the C ABI, on the scripted backend; contexts of containers are in
 * test_contexts.c. */
#include "tests/plugins/scripted_fixture.h"

/* ---- enumeration ----------------------------------------------------------------------------- */

static void test_devices(void **state) {
  fixture *f = *state;
  uint64_t count = 0;
  ok(qr_runtime_scan(f->runtime, &count));
  for (uint64_t i = 0; i < count; ++i) {
    qr_backend_info info = QR_BACKEND_INFO_INIT;
    ok(qr_runtime_backend(f->runtime, i, &info));
    if (info.id.size != 8 || memcmp(info.id.data, "scripted", 8)) continue;
    assert_int_equal(info.usable, 1);
    assert_int_equal(info.device_count, 3);
    qr_device_info device = QR_DEVICE_INFO_INIT;
    ok(qr_runtime_device(f->runtime, i, 0, &device));
    assert_int_equal(device.usable, 1);
    assert_int_equal(device.memory_bytes, 123456);
    assert_int_equal(device.features, QR_DEVICE_IMPORTS_FD | QR_DEVICE_REGISTERS_POINTER | QR_DEVICE_SIMULATED |
                                          QR_DEVICE_RECOVERS | QR_DEVICE_GROUPS | QR_DEVICE_EXPORTS_FD);
    ok(qr_runtime_device(f->runtime, i, 1, &device));
    assert_int_equal(device.usable, 0);
    assert_true(device.why_not.size > 0);
    fails(qr_runtime_device(f->runtime, i, 3, &device), QR_OUT_OF_RANGE, "QR-C0008");
    return;
  }
  fail();
}

static void test_unusable_device(void **state) {
  fixture *f = *state;
  qr_session *session = NULL;
  set(f, "device_id", "1");
  fails(qr_session_create(f->model, f->options, NULL, &session), QR_UNAVAILABLE, "QR-B0006");
  set(f, "device_id", "3");
  fails(qr_session_create(f->model, f->options, NULL, &session), QR_UNAVAILABLE, "QR-B0006");
  assert_null(session);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void test_run_and_profile(void **state) {
  fixture *f = *state;
  qr_session *session = create(f);
  qr_profile *profile = NULL;
  ok(qr_profile_create(f->runtime, &profile));
  ok(run(session, NULL, profile));
  assert_int_equal(find_event(profile, "relu").counters[0].value, 1);
  const qr_profile_event add = find_event(profile, "add");
  assert_int_equal(add.op.size, 3);
  assert_true(add.end >= add.begin);
  assert_int_equal(find_event(profile, "workers").counters[0].value, 2);
  assert_int_equal(find_event(profile, "registered").counters[0].value, 0);
  qr_profile_destroy(profile);
  qr_session *clone = NULL;
  ok(qr_session_clone(session, NULL, &clone));
  qr_session_destroy(session);
  ok(run(clone, NULL, NULL));
  qr_session_destroy(clone);
  assert_int_equal(f->misbehaving, 0);
}

static void test_refusal(void **state) {
  fixture *f = *state;
  qr_model *model = open_model(f, g_models, "refused.onnx");
  qr_session *session = NULL;
  qr_status *status = qr_session_create(model, f->options, NULL, &session);
  assert_non_null(status);
  int reasons = 0;
  for (uint64_t i = 0; i < qr_status_detail_count(status); ++i) {
    const char *key, *value;
    qr_status_detail(status, i, &key, &value);
    if (strcmp(key, "reason")) continue;
    ++reasons;
    assert_non_null(strstr(
        value, reasons == 1 ? "found Sigmoid, expected Identity, Relu, Add or NonZero" : "found Tanh, expected"));
  }
  assert_int_equal(reasons, 2); /* every refused node, not only the first */
  fails(status, QR_UNSUPPORTED, "QR-B0001");
  qr_model_destroy(model);
}

/* ---- grades and containers ------------------------------------------------------------------- */

static void check_grade(fixture *f, qr_model *model, qr_compatibility expected) {
  qr_compatibility grade = 0;
  char *reason = NULL;
  ok(qr_model_compatibility(model, f->options, NULL, &grade, &reason));
  assert_int_equal(grade, expected);
  if (expected != QR_COMPATIBILITY_OPTIMAL) assert_non_null(strstr(reason, "expected \"grade=1\""));
  qr_string_destroy(reason);
}

static void test_grades(void **state) {
  fixture *f = *state;
  static const char *const scripts[] = {"grade=1", "grade=2", "grade=3", "grade=4"};
  for (int grade = 1; grade <= 4; ++grade) {
    qr_model *model = compile(f, scripts[grade - 1], "1", scripts[grade - 1]);
    check_grade(f, model, grade);
    qr_session *session = NULL;
    qr_status *status = qr_session_create(model, f->options, NULL, &session);
    if (grade == 4) {
      fails(status, QR_INCOMPATIBLE, "QR-M0011");
    } else {
      ok(status);
      ok(run(session, NULL, NULL));
      /* Grade 3 is recompiled from the kept graph, and says so. */
      assert_true(reports(session, grade == 3 ? "\"source\": \"recompiled\"" : "\"source\": \"container\""));
      qr_session_destroy(session);
    }
    qr_model_destroy(model);
  }
  qr_model *bare = compile(f, "grade=3", "0", "bare");
  check_grade(f, bare, QR_COMPATIBILITY_INCOMPATIBLE);
  qr_session *session = NULL;
  fails(qr_session_create(bare, f->options, NULL, &session), QR_INCOMPATIBLE, "QR-M0011");
  qr_model_destroy(bare);
}

static void test_plan(void **state) {
  fixture *f = *state;
  qr_memory_plan plan = QR_MEMORY_PLAN_INIT;
  ok(qr_session_plan(f->model, f->options, NULL, &plan));
  assert_int_equal(plan.weights_bytes, 32);
  assert_int_equal(plan.arena_bytes, 4 * 64);
  assert_int_equal(plan.io_bytes, 64);
  assert_int_equal(plan.device_bytes, 1000);
  assert_int_equal(plan.scratchpad_bytes, 2000);
  qr_model *model = compile(f, "", "0", "planned");
  qr_memory_plan stored = QR_MEMORY_PLAN_INIT;
  ok(qr_session_plan(model, f->options, NULL, &stored));
  assert_memory_equal(&plan, &stored, sizeof plan);
  qr_model_destroy(model);
}

/* ---- signals --------------------------------------------------------------------------------- */

static void test_deadlines(void **state) {
  fixture *f = *state;
  qr_signal *signal = NULL;
  ok(qr_signal_create(f->runtime, &signal));
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.signal = signal;
  static const char *const scripts[] = {"slow_check=20000", "slow_compile=20000", "slow_load=20000"};
  for (int i = 0; i < 3; ++i) {
    qr_session *session = NULL;
    set(f, "scripted.script", scripts[i]);
    qr_signal_set_timeout(signal, 300000000u);
    fails(qr_session_create(f->model, f->options, &call, &session), QR_DEADLINE_EXCEEDED, "QR-C0012");
    assert_null(session);
  }
  set(f, "scripted.script", "slow_run=20000");
  qr_session *session = create(f);
  qr_signal_set_timeout(signal, 50000000u);
  fails(run(session, signal, NULL), QR_DEADLINE_EXCEEDED, "QR-C0012");
  ok(qr_session_set_option(session, text("scripted.script"), text("slow_run=20")));
  qr_signal_set_timeout(signal, QR_NO_TIMEOUT);
  ok(run(session, signal, NULL)); /* a stopped session goes on */
  qr_session_destroy(session);
  qr_signal_destroy(signal);
}

static void *abort_soon(void *signal) {
  usleep(50000);
  qr_signal_abort(signal);
  return NULL;
}

static void test_abort(void **state) {
  fixture *f = *state;
  qr_signal *signal = NULL;
  ok(qr_signal_create(f->runtime, &signal));
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.signal = signal;
  set(f, "scripted.script", "slow_run=20000");
  qr_session *session = create(f);
  pthread_t thread;
  pthread_create(&thread, NULL, abort_soon, signal);
  fails(run(session, signal, NULL), QR_CANCELLED, "QR-C0011");
  pthread_join(thread, NULL);
  fails(run(session, signal, NULL), QR_CANCELLED, "QR-C0011"); /* until it is reset */
  qr_signal_reset(signal);
  ok(qr_session_set_option(session, text("scripted.script"), text("")));
  ok(run(session, signal, NULL));
  set(f, "scripted.script", "slow_compile=20000");
  qr_session *none = NULL;
  pthread_create(&thread, NULL, abort_soon, signal);
  fails(qr_session_create(f->model, f->options, &call, &none), QR_CANCELLED, "QR-C0011");
  pthread_join(thread, NULL);
  qr_signal_destroy(signal);
  qr_session_destroy(session);
}

/* ---- options that change at run time --------------------------------------------------------- */

static void test_options(void **state) {
  fixture *f = *state;
  set(f, "qnn_context_priority", "low");
  qr_session *session = create(f);
  qr_profile *profile = NULL;
  ok(qr_profile_create(f->runtime, &profile));
  ok(run(session, NULL, profile));
  assert_memory_equal(find_event(profile, "priority").op.data, "low", 3);
  ok(qr_session_set_option(session, text("qnn_context_priority"), text("high")));
  ok(run(session, NULL, profile));
  assert_memory_equal(find_event(profile, "priority").op.data, "high", 4);
  qr_session *clone = NULL;
  ok(qr_session_clone(session, NULL, &clone));
  fails(qr_session_set_option(session, text("qnn_context_priority"), text("urgent")), QR_INVALID_ARGUMENT, "QR-C0102");
  fails(qr_session_set_option(session, text("scripted.fixed"), text("4")), QR_FAILED_PRECONDITION, "QR-C0104");
  fails(qr_session_set_option(session, text("scripted.nothing"), text("4")), QR_NOT_FOUND, "QR-C0101");
  fails(qr_session_set_option(session, text("scripted.script"), text("dance")), QR_INVALID_ARGUMENT, "QR-C0102");
  qr_profile_destroy(profile);
  qr_session_destroy(clone);
  qr_session_destroy(session);
  fails(qr_options_set(f->options, text("scripted.fixed"), text("9")), QR_INVALID_ARGUMENT, "QR-C0102");
}

/* ---- device loss ----------------------------------------------------------------------------- */

static void test_device_loss(void **state) {
  fixture *f = *state;
  set(f, "scripted.script", "lose_at=2;stay_lost=1");
  qr_session *session = create(f);
  ok(qr_session_recover(session, NULL)); /* nothing to do */
  ok(run(session, NULL, NULL));
  fails(run(session, NULL, NULL), QR_DEVICE_LOST, "QR-R0009");
  fails(run(session, NULL, NULL), QR_DEVICE_LOST, "QR-R0009");
  fails(qr_session_recover(session, NULL), QR_DEVICE_LOST, "QR-R0009");
  fails(run(session, NULL, NULL), QR_DEVICE_LOST, "QR-R0009");
  ok(qr_session_recover(session, NULL));
  ok(run(session, NULL, NULL));
  qr_session_destroy(session);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void run_in_memory(fixture *f, qr_session *session, qr_memory *in, uint64_t in_offset, qr_memory *out,
                          uint64_t out_offset) {
  memcpy((char *)qr_memory_data(in) + in_offset, kX, sizeof kX);
  qr_tensor x = tensor(QR_DTYPE_F32, NULL, 0), y = tensor(QR_DTYPE_F32, NULL, 0);
  x.memory = in;
  x.memory_offset = in_offset;
  y.memory = out;
  y.memory_offset = out_offset;
  const qr_tensor *inputs[] = {&x};
  qr_tensor *outputs[] = {&y, NULL};
  qr_profile *profile = NULL;
  ok(qr_profile_create(f->runtime, &profile));
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  options.profile = profile;
  ok(qr_session_run(session, &options, inputs, 1, outputs, 2));
  assert_memory_equal((char *)qr_memory_data(out) + out_offset, kY, sizeof kY);
  assert_int_equal(find_event(profile, "registered").counters[0].value, 2);
  qr_profile_destroy(profile);
}

static void test_memory(void **state) {
  fixture *f = *state;
  qr_session *session = create(f);
  qr_memory *allocated = NULL, *imported = NULL, *registered = NULL;
  assert_int_equal(event_value(f, session, "registrations"), 0);
  ok(qr_memory_allocate(session, 256, NULL, &allocated));
  assert_int_equal(qr_memory_size(allocated), 256);
  const int fd = memfd_create("quarry", 0);
  assert_int_equal(ftruncate(fd, 8192), 0);
  ok(qr_memory_import_fd(session, fd, 128, 64, NULL, &imported));
  fails(qr_memory_import_fd(session, fd, 8190, 64, NULL, &imported), QR_OUT_OF_RANGE, "QR-C0008");
  static float own[32];
  ok(qr_memory_register(session, own, sizeof own, NULL, &registered));
  assert_ptr_equal(qr_memory_data(registered), own);
  assert_int_equal(event_value(f, session, "registrations"), 3);
  run_in_memory(f, session, allocated, 64, registered, 32);
  run_in_memory(f, session, registered, 0, imported, 16);
  float seen[8];
  assert_int_equal(pread(fd, seen, sizeof seen, 128 + 16), sizeof seen); /* the file itself was written */
  assert_memory_equal(seen, kY, sizeof kY);
  close(fd);
  qr_memory_destroy(imported);
  assert_int_equal(event_value(f, session, "registrations"), 2);
  qr_session_destroy(session); /* the memory keeps the context */
  qr_memory_destroy(allocated);
  qr_memory_destroy(registered);
  assert_int_equal(f->misbehaving, 0);
}

/* ---- compiled again in the background -------------------------------------------------------- */

static qr_session *create_in_background(fixture *f, qr_model *model, const char *script) {
  qr_session *session = NULL;
  set(f, "scripted.script", script);
  set(f, "context.recompile", "background");
  ok(qr_session_create(model, f->options, NULL, &session));
  set(f, "scripted.script", "");
  set(f, "context.recompile", "wait");
  return session;
}

static void wait_until(qr_session *session, const char *state) {
  for (int i = 0; i < 20000 && !reports(session, state); ++i) usleep(1000);
  assert_true(reports(session, state));
}

/* One that runs is replaced between two runs; what was made before goes on. */
static void test_replaced_in_background(void **state) {
  fixture *f = *state;
  qr_model *model = compile(f, "grade=2", "1", "replaced");
  char kept[512];
  snprintf(kept, sizeof kept, "%s/kept.qrm", g_folder);
  set(f, "ep.context_enable", "1");
  set(f, "ep.context_file_path", kept);
  qr_session *session = create_in_background(f, model, "slow_compile=1000"), *clone = NULL;
  assert_true(reports(session, "\"recompilation\": \"running\""));
  ok(run(session, NULL, NULL));
  assert_true(reports(session, "\"source\": \"container\""));
  ok(qr_session_clone(session, NULL, &clone));
  qr_memory *allocated = NULL, *imported = NULL;
  ok(qr_memory_allocate(session, 256, NULL, &allocated));
  const int fd = memfd_create("quarry", 0);
  assert_int_equal(ftruncate(fd, 8192), 0);
  ok(qr_memory_import_fd(session, fd, 128, 64, NULL, &imported));
  close(fd);
  run_in_memory(f, session, allocated, 64, imported, 16);
  ok(qr_session_set_option(clone, text("scripted.script"), text("wrong=silent")));
  wait_until(session, "\"recompilation\": \"done\"");
  run_in_memory(f, session, allocated, 64, imported, 16);
  assert_true(reports(session, "\"source\": \"recompiled\""));
  assert_true(reports(session, "\"grade\": \"optimal\""));
  qr_model *written = NULL; /* the next start finds it */
  ok(model_at_path(f->runtime, text(kept), NULL, &written));
  check_grade(f, written, QR_COMPATIBILITY_OPTIMAL);
  qr_model_destroy(written);
  assert_non_null(clone);
  qr_status *status = run(clone, NULL, NULL); /* the option that was set is set there too */
  assert_non_null(status);
  qr_status_destroy(status);
  assert_true(reports(clone, "\"source\": \"recompiled\""));
  qr_model_destroy(model);
  qr_session_destroy(session);
  qr_session_destroy(clone);
  qr_memory_destroy(allocated);
  qr_memory_destroy(imported);
}

/* One that does not run: the session is there at once, and its first run waits. */
static void test_pending_in_background(void **state) {
  fixture *f = *state;
  qr_model *model = compile(f, "grade=3", "1", "pending");
  qr_session *session = create_in_background(f, model, "slow_compile=500"), *clone = NULL;
  assert_true(reports(session, "\"source\": \"pending\""));
  assert_int_equal(qr_session_input_count(session), 1);
  qr_tensor_info info = QR_TENSOR_INFO_INIT;
  ok(qr_session_input(session, 0, &info));
  assert_int_equal(info.dims[1], 4);
  ok(qr_session_clone(session, NULL, &clone));
  qr_signal *signal = NULL;
  ok(qr_signal_create(f->runtime, &signal));
  qr_signal_set_timeout(signal, 1000000u);
  fails(run(session, signal, NULL), QR_DEADLINE_EXCEEDED, "QR-C0012");
  ok(run(session, NULL, NULL));
  assert_true(reports(session, "\"source\": \"recompiled\""));
  qr_session_destroy(session);
  ok(run(clone, NULL, NULL));
  qr_session_destroy(clone);

  session = create_in_background(f, model, "slow_compile=200");
  qr_memory *memory = NULL;
  ok(qr_memory_allocate(session, 256, NULL, &memory)); /* waits too */
  run_in_memory(f, session, memory, 0, memory, 64);
  qr_memory_destroy(memory);
  qr_session_destroy(session);

  session = create_in_background(f, model, "slow_compile=20;fail_compile=1");
  fails(run(session, NULL, NULL), QR_INTERNAL, "QR-C0010");
  fails(run(session, NULL, NULL), QR_INTERNAL, "QR-C0010");
  assert_true(reports(session, "\"recompilation\": \"failed\""));
  qr_session_destroy(session);

  session = create_in_background(f, model, "slow_compile=600000"); /* stops when nobody is left to wait for it */
  qr_session_destroy(session);

  qr_memory_plan plan = QR_MEMORY_PLAN_INIT;
  set(f, "context.recompile", "background");
  ok(qr_session_plan(model, f->options, NULL, &plan)); /* the figures are wanted now */
  assert_int_equal(plan.weights_bytes, 32);
  set(f, "context.recompile", "never");
  fails(qr_session_create(model, f->options, NULL, &session), QR_INCOMPATIBLE, "QR-M0011");
  qr_model_destroy(model);
  qr_signal_destroy(signal);
}

static void test_failed_in_background(void **state) {
  fixture *f = *state;
  qr_model *model = compile(f, "grade=2", "1", "failed");
  qr_session *session = create_in_background(f, model, "fail_compile=1");
  wait_until(session, "\"recompilation\": \"failed\"");
  ok(run(session, NULL, NULL)); /* what ran goes on */
  assert_true(reports(session, "\"source\": \"container\""));
  qr_session_destroy(session);
  qr_model_destroy(model);
}

static void test_mapping(void **state) {
  fixture *f = *state;
  qr_session *session = create(f);
  qr_memory *memory = NULL;
  void *view = NULL;
  ok(qr_memory_allocate(session, 256, NULL, &memory));
  fails(qr_memory_unmap(memory), QR_FAILED_PRECONDITION, "QR-R0017");
  ok(qr_memory_map(memory, QR_ACCESS_READ, &view));
  assert_ptr_equal(view, qr_memory_data(memory));
  fails(qr_memory_map(memory, QR_ACCESS_READ, &view), QR_FAILED_PRECONDITION, "QR-R0017");
  ok(qr_memory_unmap(memory));
  qr_memory_destroy(memory);
  qr_session_destroy(session);
}

/* A signal's descriptor is readable exactly while it is aborted; without descriptors it says so. */
static void test_signal_descriptor(void **state) {
  fixture *f = *state;
  qr_signal *signal = NULL;
  ok(qr_signal_create(f->runtime, &signal));
  struct rlimit limit, none;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = limit;
  none.rlim_cur = 0;
  int32_t fd = -1;
  setrlimit(RLIMIT_NOFILE, &none);
  qr_status *status = qr_signal_fd(signal, &fd);
  setrlimit(RLIMIT_NOFILE, &limit);
  fails(status, QR_RESOURCE_EXHAUSTED, "QR-R0018");
  ok(qr_signal_fd(signal, &fd));
  struct pollfd wait = {fd, POLLIN, 0};
  assert_int_equal(poll(&wait, 1, 0), 0);
  qr_signal_abort(signal);
  assert_int_equal(poll(&wait, 1, 0), 1);
  qr_signal_reset(signal);
  assert_int_equal(poll(&wait, 1, 0), 0);
  qr_signal_destroy(signal);
}

static void test_no_memory(void **state) {
  fixture *f = *state;
  set(f, "scripted.script", "no_memory");
  qr_session *session = create(f);
  qr_memory *memory = NULL;
  fails(qr_memory_allocate(session, 64, NULL, &memory), QR_UNSUPPORTED, "QR-R0010");
  assert_null(memory);
  qr_session_destroy(session);
}

/* ---- a plugin that breaks its word ----------------------------------------------------------- */

static void test_misbehaviour(void **state) {
  fixture *f = *state;
  qr_session *session = create(f);
  static const char *const ways[] = {"wrong=unset", "wrong=bytes", "wrong=moved", "wrong=silent"};
  for (int i = 0; i < 4; ++i) {
    ok(qr_session_set_option(session, text("scripted.script"), text(ways[i])));
    f->misbehaving = 0;
    fails(run(session, NULL, NULL), QR_INTERNAL, "QR-L0115");
    assert_int_equal(f->misbehaving, 1);
  }
  ok(qr_session_set_option(session, text("scripted.script"), text("")));
  ok(run(session, NULL, NULL));
  qr_session_destroy(session);
}

/* A file that is a context of the backend's own: its model stands for it, where the options name the backend. */
static void test_own_form(void **state) {
  fixture *f = *state;
  static const char begin[] = "scripted context:";
  const size_t begin_size = sizeof begin - 1;
  char name[600], bytes[4096];
  snprintf(name, sizeof name, "%s/accepted.onnx", g_models);
  FILE *file = fopen(name, "rb");
  assert_non_null(file);
  memcpy(bytes, begin, begin_size);
  const size_t size = begin_size + fread(bytes + begin_size, 1, sizeof bytes - begin_size, file);
  fclose(file);
  snprintf(name, sizeof name, "%s/own.bin", g_folder);
  file = fopen(name, "wb");
  assert_true(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);

  qr_model *model = NULL;
  fails(model_at_path(f->runtime, text(name), NULL, &model), QR_CORRUPT, "QR-F0006");
  fails(model_in_memory(f->runtime, bytes, begin_size, f->options, &model), QR_CORRUPT, "QR-B0005");
  for (int from_path = 0; from_path < 2; ++from_path) {
    ok(from_path ? model_at_path(f->runtime, text(name), f->options, &model)
                 : model_in_memory(f->runtime, bytes, size, f->options, &model));
    assert_int_equal(qr_model_input_count(model), qr_model_input_count(f->model));
    char *json = NULL;
    ok(qr_model_inspect(model, NULL, &json));
    assert_non_null(strstr(json, "\"kind\": \"context\""));
    assert_non_null(strstr(json, from_path ? "\"about\": {\"file\":\"own.bin\"}" : "\"about\": {\"file\":\"\"}"));
    qr_string_destroy(json);
    qr_session *session = NULL;
    ok(qr_session_create(model, f->options, NULL, &session));
    ok(run(session, NULL, NULL));
    qr_session_destroy(session);
    qr_model_destroy(model);
  }
}

int main(int argc, char **argv) {
  if (begin(argc, argv)) return 2;
  const struct CMUnitTest tests[] = {
      SCRIPTED(test_devices),
      SCRIPTED(test_unusable_device),
      SCRIPTED(test_run_and_profile),
      SCRIPTED(test_refusal),
      SCRIPTED(test_grades),
      SCRIPTED(test_plan),
      SCRIPTED(test_deadlines),
      SCRIPTED(test_abort),
      SCRIPTED(test_options),
      SCRIPTED(test_device_loss),
      SCRIPTED(test_memory),
      SCRIPTED(test_mapping),
      SCRIPTED(test_signal_descriptor),
      SCRIPTED(test_no_memory),
      SCRIPTED(test_misbehaviour),
      SCRIPTED(test_own_form),
      SCRIPTED(test_replaced_in_background),
      SCRIPTED(test_pending_in_background),
      SCRIPTED(test_failed_in_background),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", g_folder);
  return system(command) != 0 || failed;
}
