/* SPDX-License-Identifier: Apache-2.0 */
/* What a session takes from a container on the scripted backend: several graphs in one context, compile-time options,
 * segments as parts of the file; and how a compilation is watched. */
#include <sys/stat.h>

#include "tests/plugins/scripted_fixture.h"

/* ---- several graphs in one context ----------------------------------------------------------- */

static qr_model *compile_buckets(fixture *f, const char *name) {
  char path[512];
  qr_model *onnx = open_model(f, g_models, "rows.onnx"), *model = NULL;
  snprintf(path, sizeof path, "%s/%s.qrm", g_folder, name);
  qr_options *options = NULL;
  ok(qr_options_create(f->runtime, &options));
  ok(qr_options_set(options, text("backend"), text("scripted")));
  ok(qr_options_set(options, text("shape"), text("rows=1;rows=2;rows=5")));
  ok(qr_model_compile(onnx, options, &(qr_target)QR_TARGET_AT(path), NULL));
  ok(model_at_path(f->runtime, text(path), NULL, &model));
  qr_options_destroy(options);
  qr_model_destroy(onnx);
  return model;
}

static void run_rows(qr_session *session, int64_t rows) {
  float in[20], out[20];
  for (int i = 0; i < 20; ++i) in[i] = (float)(i % 3) - 1, out[i] = -1;
  qr_tensor x = tensor(QR_DTYPE_F32, in, sizeof in), y = tensor(QR_DTYPE_F32, out, sizeof out);
  x.dims[0] = rows;
  const qr_tensor *inputs[] = {&x};
  qr_tensor *outputs[] = {&y};
  ok(qr_session_run(session, NULL, inputs, 1, outputs, 1));
  assert_int_equal(y.dims[0], rows);
  for (int64_t i = 0; i < 4 * rows; ++i) assert_true(out[i] == (in[i] > 0 ? in[i] : 0));
}

static void test_several_graphs(void **state) {
  fixture *f = *state;
  qr_model *model = compile_buckets(f, "buckets");
  char *json = NULL;
  ok(qr_model_inspect(model, NULL, &json));
  /* One program with all three graphs, loaded once. */
  const char *graphs = strstr(json, "\"programs\"");
  assert_non_null(graphs);
  graphs = strstr(graphs, "\"graphs\"");
  assert_non_null(graphs);
  assert_null(strstr(graphs + 1, "\"graphs\""));
  qr_string_destroy(json);
  qr_session *session = NULL;
  qr_profile *profile = NULL;
  ok(qr_profile_create(f->runtime, &profile));
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.profile = profile;
  ok(qr_session_create(model, f->options, &call, &session));
  assert_int_equal(find_event(profile, "graphs loaded").counters[0].value, 3);
  /* What the backend reports is a part of the phase in which it was called. */
  assert_int_equal(find_event(profile, "graphs loaded").parent, find_event(profile, "load context").id);
  assert_int_equal(find_event(profile, "load context").parent, find_event(profile, "load").id);
  assert_int_equal(find_event(profile, "load").parent, 0);
  qr_profile_clear(profile);
  ok(qr_model_check(model, f->options, &call, &json));
  qr_string_destroy(json);
  uint64_t judged = 0;
  for (uint64_t i = 0; i < qr_profile_event_count(profile); ++i) {
    qr_profile_event event = QR_PROFILE_EVENT_INIT;
    ok(qr_profile_event_at(profile, i, &event));
    if (event.parent == 0 || event.name.size != 5 || memcmp(event.name.data, "check", 5)) continue;
    ++judged;
    assert_int_equal(event.attribute_count, 1);
    assert_memory_equal(event.attributes[0].key.data, "graph", 5);
    assert_true(event.attributes[0].value.size > 0);
  }
  assert_int_equal(judged, 3);
  for (int64_t rows = 1; rows <= 5; rows += rows == 2 ? 3 : 1) run_rows(session, rows);
  run_rows(session, 1);
  qr_session_destroy(session);
  qr_profile_destroy(profile);
  qr_model_destroy(model);
  assert_int_equal(f->misbehaving, 0);
}

/* ---- segments as parts of the file ----------------------------------------------------------- */

static uint64_t mapped_segments(fixture *f, qr_model *model) {
  qr_profile *profile = NULL;
  qr_session *session = NULL;
  ok(qr_profile_create(f->runtime, &profile));
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.profile = profile;
  ok(qr_session_create(model, f->options, &call, &session));
  ok(run(session, NULL, NULL));
  const uint64_t count = find_event(profile, "segments in the file").counters[0].value;
  qr_session_destroy(session);
  qr_profile_destroy(profile);
  return count;
}

/* The scripted backend reads each segment again through its descriptor and compares: it counts those that are equal. */
static void test_segments_as_files(void **state) {
  fixture *f = *state;
  qr_model *model = compile(f, "", "1", "segments"), *read = NULL;
  assert_int_equal(mapped_segments(f, model), 3);    /* weights, what was packed, the blob */
  assert_int_equal(mapped_segments(f, f->model), 0); /* compiled in memory */
  qr_options *options = NULL;
  ok(qr_options_create(f->runtime, &options));
  ok(qr_options_set(options, text("container.map"), text("0")));
  char path[512];
  snprintf(path, sizeof path, "%s/segments.qrm", g_folder);
  ok(model_at_path(f->runtime, text(path), options, &read));
  assert_int_equal(mapped_segments(f, read), 0); /* the file may change under a copy of it */
  qr_options_destroy(options);
  qr_model_destroy(read);
  qr_model_destroy(model);
}

/* ---- compile-time options -------------------------------------------------------------------- */

static void test_compile_time_options(void **state) {
  fixture *f = *state;
  set(f, "scripted.fixed", "5");
  qr_model *model = compile(f, "", "1", "options"), *bare = compile(f, "", "0", "options-bare");
  qr_options_destroy(f->options);
  ok(qr_options_create(f->runtime, &f->options));
  set(f, "backend", "scripted");
  qr_session *session = create_on(f, model);
  assert_true(reports(session, "\"scripted.fixed\": \"5\"")); /* not the default, which is 3 */
  assert_false(reports(session, "\"scripted.fixed\": \"3\""));
  assert_true(reports(session, "\"source\": \"container\""));
  qr_session_destroy(session);

  set(f, "scripted.fixed", "2");
  session = create_on(f, model); /* context.recompile=wait is the default */
  assert_true(reports(session, "\"source\": \"recompiled\""));
  assert_true(reports(session, "\"scripted.fixed\": \"2\""));
  assert_false(reports(session, "\"scripted.fixed\": \"5\""));
  ok(run(session, NULL, NULL));
  qr_session_destroy(session);
  qr_compatibility grade = 0;
  char *reason = NULL;
  ok(qr_model_compatibility(model, f->options, NULL, &grade, &reason));
  assert_int_equal(grade, QR_COMPATIBILITY_RECOMPILE);
  assert_non_null(strstr(reason, "scripted.fixed: compiled with \"5\", asked for \"2\""));
  qr_string_destroy(reason);
  fails(qr_session_create(bare, f->options, NULL, &session), QR_INCOMPATIBLE, "QR-M0012");

  set(f, "context.recompile", "never");
  fails(qr_session_create(model, f->options, NULL, &session), QR_INCOMPATIBLE, "QR-M0012");

  set(f, "context.recompile", "background");
  set(f, "scripted.script", "slow_compile=300");
  session = create_on(f, model);
  assert_true(reports(session, "\"compiled_with\": {\n    \"scripted.fixed\": \"5\""));
  assert_true(reports(session, "\"asked_for\": {\n    \"scripted.fixed\": \"2\""));
  ok(run(session, NULL, NULL));
  for (int i = 0; i < 400 && !reports(session, "\"recompilation\": \"done\""); ++i) usleep(10000);
  ok(run(session, NULL, NULL)); /* changes over */
  assert_true(reports(session, "\"compiled_with\": {\n    \"scripted.fixed\": \"2\""));
  assert_true(reports(session, "\"asked_for\": {}"));
  qr_session_destroy(session);
  qr_model_destroy(bare);
  qr_model_destroy(model);
}

/* A context that must be compiled again keeps the options that it was compiled with. */
static void test_options_outlive_recompilation(void **state) {
  fixture *f = *state;
  set(f, "scripted.fixed", "6");
  qr_model *model = compile(f, "grade=3", "1", "outlive");
  qr_options_destroy(f->options);
  ok(qr_options_create(f->runtime, &f->options));
  set(f, "backend", "scripted");
  qr_session *session = create_on(f, model);
  assert_true(reports(session, "\"source\": \"recompiled\""));
  assert_true(reports(session, "\"scripted.fixed\": \"6\""));
  qr_session_destroy(session);
  qr_model_destroy(model);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void test_groups(void **state) {
  fixture *f = *state;
  qr_model *model = compile(f, "", "1", "grouped");
  set(f, "context.group", "both");
  qr_session *first = create_on(f, model), *second = create_on(f, f->model);
  assert_true(reports(first, "\"group\": \"both\""));
  assert_int_equal(event_value(f, second, "contexts in the group"), 2);
  qr_session_destroy(first);
  assert_int_equal(event_value(f, second, "contexts in the group"), 1);
  qr_session_destroy(second);
  qr_model_destroy(model);
}

/* ---- a target that is not there; watching a compilation -------------------------------------- */

static void test_absent_target(void **state) {
  fixture *f = *state;
  char path[512];
  snprintf(path, sizeof path, "%s/absent.qrm", g_folder);
  set(f, "device_id", "1"); /* of no use, says the backend */
  qr_memory_plan plan = QR_MEMORY_PLAN_INIT;
  char *json = NULL;
  qr_session *session = NULL;
  qr_model *model = NULL;
  ok(qr_model_check(f->model, f->options, NULL, &json));
  qr_string_destroy(json);
  ok(qr_session_plan(f->model, f->options, NULL, &plan));
  assert_int_equal(plan.device_bytes, 1000);
  assert_int_equal(plan.spill_fill_bytes, 300);
  ok(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path), NULL));
  fails(qr_session_create(f->model, f->options, NULL, &session), QR_UNAVAILABLE, "QR-B0006");
  ok(model_at_path(f->runtime, text(path), NULL, &model));
  set(f, "device_id", "0");
  session = create_on(f, model);
  ok(run(session, NULL, NULL));
  qr_session_destroy(session);
  qr_model_destroy(model);
}

typedef struct told {
  int compiled, loaded;
  qr_signal *abort;
  int stop; /* says so itself */
} told;

static int32_t on_progress(void *self, uint64_t done, uint64_t total, qr_string what) {
  told *t = self;
  assert_true(total == 0 || done <= total);
  if (what.size == 8 && !memcmp(what.data, "pretends", 8)) ++t->compiled;
  if (what.size == 8 && !memcmp(what.data, "loading.", 8)) ++t->loaded;
  if (t->abort && t->compiled == 2) qr_signal_abort(t->abort);
  return t->stop && t->compiled == 2 ? QR_STOP : QR_GO_ON;
}

/* A long compilation reports how far it is, its events go to the profile, and it can be stopped half way. */
static void test_watched_compilation(void **state) {
  fixture *f = *state;
  told t = {0, 0, NULL, 0};
  qr_progress progress = QR_PROGRESS_INIT;
  progress.self = &t;
  progress.report = on_progress;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.progress = &progress;
  ok(qr_profile_create(f->runtime, &call.profile));
  set(f, "scripted.script", "slow_compile=40");
  qr_session *session = NULL;
  ok(qr_session_create(f->model, f->options, &call, &session));
  assert_true(t.compiled >= 3);
  assert_int_equal(t.loaded, 1);
  assert_int_equal(find_event(call.profile, "graphs compiled").counters[0].value, 1);
  assert_int_equal(qr_profile_lost_count(call.profile), 0);
  qr_session_destroy(session);
  qr_profile_destroy(call.profile);
  call.profile = NULL;

  set(f, "scripted.script", "slow_compile=20000");
  ok(qr_signal_create(f->runtime, &t.abort));
  t.compiled = 0;
  call.signal = t.abort;
  char path[512];
  snprintf(path, sizeof path, "%s/stopped.qrm", g_folder);
  fails(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path), &call), QR_CANCELLED, "QR-C0011");
  struct stat info;
  assert_int_equal(stat(path, &info), -1);
  qr_signal_destroy(t.abort);

  /* The same where what it reports is answered with stop: the backend sees its signal aborted. */
  t.abort = call.signal = NULL, t.stop = 1;
  for (int child = 0; child < 2; ++child) {
    t.compiled = 0;
    if (child) set(f, "compile.process", "child");
    qr_status *status = qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path), &call);
    assert_non_null(strstr(qr_status_message(status), "qr_model_compile: stopped, its progress function said so"));
    fails(status, QR_CANCELLED, "QR-C0013");
    assert_int_equal(stat(path, &info), -1);
  }
}

/* What ONNX Runtime loads goes wherever a call writes, and no plugin writes files itself. */
typedef struct taken {
  char names[4][64];
  uint64_t sizes[4], more[4], written;
  int count, ends, committed;
} taken;
static int32_t on_begin(void *self, qr_string name, uint64_t size_bytes, uint64_t more) {
  taken *t = self;
  snprintf(t->names[t->count], sizeof t->names[0], "%.*s", (int)name.size, name.data);
  t->sizes[t->count] = size_bytes, t->more[t->count] = more;
  ++t->count;
  return 0;
}
static int32_t on_write(void *self, const void *data, uint64_t size_bytes) {
  (void)data;
  ((taken *)self)->written += size_bytes;
  return 0;
}
static int32_t on_end(void *self, int32_t committed) {
  taken *t = self;
  ++t->ends, t->committed = committed;
  return 0;
}

static void test_onnx_form(void **state) {
  fixture *f = *state;
  for (int child = 0; child < 2; ++child) {
    taken t = {.count = 0};
    qr_target target = QR_TARGET_BY_WRITER(&t, on_begin, on_write, on_end);
    target.path = text("c.onnx");
    set(f, "compile.process", child ? "child" : "own");
    set(f, "ep.context_embed_mode", "0");
    ok(qr_model_compile(f->model, f->options, &target, NULL));
    assert_int_equal(t.count, 2);
    assert_string_equal(t.names[0], "c.onnx.bin"), assert_string_equal(t.names[1], "c.onnx");
    assert_int_equal(t.more[0], 1), assert_int_equal(t.more[1], 0);
    assert_int_equal(t.written, t.sizes[0] + t.sizes[1]);
    assert_int_equal(t.ends, 1), assert_int_equal(t.committed, 1);
    char *data = NULL, expected[128];
    uint64_t size;
    qr_target memory = QR_TARGET_IN_MEMORY((void **)&data, &size);
    memory.path = text("c.onnx");
    fails(qr_model_compile(f->model, f->options, &memory, NULL), QR_INVALID_ARGUMENT, "QR-C0007");
    set(f, "ep.context_embed_mode", "1");
    ok(qr_model_compile(f->model, f->options, &memory, NULL));
    snprintf(expected, sizeof expected, "%llu bytes for ", (unsigned long long)t.sizes[0]);
    assert_int_equal(strncmp(data, expected, strlen(expected)), 0);
    qr_string_destroy(data);
    /* As a file too, and by the option of a session, the same. */
    char path[600];
    snprintf(path, sizeof path, "%s/c.onnx", g_folder);
    ok(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path), NULL));
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, size);
    assert_int_equal(unlink(path), 0);
    if (!child) {
      set(f, "ep.context_enable", "1"), set(f, "ep.context_file_path", path);
      qr_session_destroy(create_on(f, f->model));
      set(f, "ep.context_enable", "0");
      assert_int_equal(stat(path, &info), 0);
      assert_int_equal(info.st_size, size);
      assert_int_equal(unlink(path), 0);
    }
    /* A plugin that does it wrong is reported, and nothing is left. */
    const char *const wrong[] = {"wrong=name", "wrong=short", "wrong=long"};
    for (int i = 0; i < 3 && !child; ++i) {
      set(f, "scripted.script", wrong[i]);
      const int before = f->misbehaving;
      fails(qr_model_compile(f->model, f->options, &(qr_target)QR_TARGET_AT(path), NULL), QR_INTERNAL, "QR-L0115");
      assert_int_equal(f->misbehaving, before + 1);
      assert_int_equal(stat(path, &info), -1);
      t = (taken){.count = 0};
      fails(qr_model_compile(f->model, f->options, &target, NULL), QR_INTERNAL, "QR-L0115");
      assert_int_equal(t.ends, i > 0), assert_int_equal(t.committed, 0);
    }
    set(f, "scripted.script", "");
  }
}

int main(int argc, char **argv) {
  if (begin(argc, argv)) return 2;
  const struct CMUnitTest tests[] = {
      SCRIPTED(test_several_graphs),
      SCRIPTED(test_segments_as_files),
      SCRIPTED(test_compile_time_options),
      SCRIPTED(test_options_outlive_recompilation),
      SCRIPTED(test_groups),
      SCRIPTED(test_absent_target),
      SCRIPTED(test_watched_compilation),
      SCRIPTED(test_onnx_form),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", g_folder);
  return system(command) != 0 || failed;
}
