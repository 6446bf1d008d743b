/* SPDX-License-Identifier: Apache-2.0 */
/* qr_session_run: what goes in and out, and what it costs. */
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capi_test.h"

static const char *container;

typedef struct fixture {
  counting_allocator counter;
  qr_runtime *runtime;
  qr_model *model;
  qr_session *session;
  float input[64], output[10];
  qr_tensor in, out;
  const qr_tensor *inputs[1];
  qr_tensor *outputs[1];
} fixture;

static void open_fixture(fixture *f, const char *path) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator;
  qr_options *session_options = NULL;
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  int i;
  memset(f, 0, sizeof *f);
  allocator = counting(&f->counter);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &f->runtime));
  OK(qr_options_create(f->runtime, &session_options));
  OK(qr_options_set(session_options, str("threads"), str("2")));
  OK(model_at_path(f->runtime, str(path), NULL, &f->model));
  OK(qr_session_create(f->model, session_options, NULL, &f->session));
  qr_options_destroy(session_options);
  for (i = 0; i < 64; ++i) f->input[i] = (float)(i * 37 % 64) / 64.0f;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8, in.data = f->input,
  in.size_bytes = sizeof f->input;
  out.data = f->output, out.size_bytes = sizeof f->output;
  f->in = in, f->out = out, f->inputs[0] = &f->in, f->outputs[0] = &f->out;
}
static void close_fixture(fixture *f) {
  qr_session_destroy(f->session), qr_model_destroy(f->model), qr_runtime_destroy(f->runtime);
  assert_int_equal(f->counter.live, 0);
  assert_int_equal(f->counter.mismatches, 0);
}
static qr_status *run(fixture *f) { return qr_session_run(f->session, NULL, f->inputs, 1, f->outputs, 1); }

static void test_no_allocation_after_the_first_run(void **state) {
  const char *paths[2] = {digits_path(), container};
  int p, i;
  (void)state;
  for (p = 0; p < 2; ++p) {
    fixture f;
    uint64_t before;
    open_fixture(&f, paths[p]);
    OK(run(&f));
    before = f.counter.made;
    for (i = 0; i < 20; ++i) OK(run(&f));
    assert_int_equal(f.counter.made, before);
    f.out.data = NULL, f.out.size_bytes = 0; /* the session's own memory: once */
    OK(run(&f));
    before = f.counter.made;
    for (i = 0; i < 20; ++i) {
      f.out.data = NULL, f.out.size_bytes = 0;
      OK(run(&f));
    }
    assert_int_equal(f.counter.made, before);
    close_fixture(&f);
  }
}

/* Data may lie at any address: a float at an odd one is copied (what reads it there ends a build with
 * -fsanitize=undefined). That costs memory once. */
static void test_data_at_any_address(void **state) {
  char input[64 * 4 + 4], output[10 * 4 + 4];
  float expected[10];
  fixture f;
  uint64_t before;
  int at, i;
  (void)state;
  open_fixture(&f, container);
  OK(run(&f));
  memcpy(expected, f.output, sizeof expected);
  for (at = 0; at < 4; ++at) {
    memcpy(input + at, f.input, sizeof f.input);
    f.in.data = input + at, f.out.data = output + 3 - at;
    before = f.counter.made;
    for (i = 0; i < 3; ++i) {
      memset(output, 0x55, sizeof output);
      f.out.size_bytes = sizeof f.output;
      OK(run(&f));
      assert_memory_equal(output + 3 - at, expected, sizeof expected);
      assert_int_equal(output[at == 3 ? 43 : 2 - at], 0x55);
      if (i == 0 && at == 1) before = f.counter.made;
    }
    if (at != 0) assert_int_equal(f.counter.made, before);
  }
  close_fixture(&f);
}

/* The first run after a warm-up is as any later one: it allocates nothing, and its answer is the same. */
static void test_warm_up(void **state) {
  fixture f;
  qr_run_options run_options = QR_RUN_OPTIONS_INIT;
  qr_options *options = NULL;
  qr_session *warm = NULL, *clone = NULL;
  qr_signal *signal = NULL;
  float expected[10];
  uint64_t before;
  (void)state;
  open_fixture(&f, container);
  before = f.counter.made;
  OK(qr_session_warm_up(f.session, NULL));
  assert_true(f.counter.made > before);
  before = f.counter.made;
  OK(run(&f));
  memcpy(expected, f.output, sizeof expected);
  f.out.data = NULL, f.out.size_bytes = 0; /* memory of the session's own is there too */
  OK(run(&f));
  assert_int_equal(f.counter.made, before);
  assert_memory_equal(f.out.data, expected, sizeof expected);

  /* By the option: sessions and clones come warm. */
  OK(qr_options_create(f.runtime, &options));
  FAILS("QR-C0102", "0|1", qr_options_set(options, str("warm_up"), str("yes")));
  OK(qr_options_set(options, str("warm_up"), str("1")));
  OK(qr_session_create(f.model, options, NULL, &warm));
  OK(qr_session_clone(warm, NULL, &clone));
  qr_options_destroy(options);
  before = f.counter.made;
  f.out.data = f.output, f.out.size_bytes = sizeof f.output, f.out.flags = 0;
  memset(f.output, 0, sizeof f.output);
  OK(qr_session_run(warm, NULL, f.inputs, 1, f.outputs, 1));
  assert_memory_equal(f.output, expected, sizeof expected);
  memset(f.output, 0, sizeof f.output);
  OK(qr_session_run(clone, NULL, f.inputs, 1, f.outputs, 1));
  assert_memory_equal(f.output, expected, sizeof expected);
  assert_int_equal(f.counter.made, before);

  /* It obeys a signal, and the session stays usable. */
  OK(qr_signal_create(f.runtime, &signal));
  qr_signal_abort(signal);
  run_options.signal = signal;
  FAILS("QR-C0011", "", qr_session_warm_up(clone, &run_options));
  run_options.flags = 1;
  FAILS("QR-C0005", "qr_session_warm_up", qr_session_warm_up(clone, &run_options));
  OK(qr_session_run(clone, NULL, f.inputs, 1, f.outputs, 1));
  qr_signal_destroy(signal), qr_session_destroy(clone), qr_session_destroy(warm);
  close_fixture(&f);
}

/* An allocation that fails in it leaves the session as it was. */
static void test_warm_up_without_memory(void **state) {
  fixture f;
  uint64_t nth;
  (void)state;
  for (nth = 1;; ++nth) {
    qr_status *status;
    open_fixture(&f, container);
    f.counter.fail_at = f.counter.made + nth;
    status = qr_session_warm_up(f.session, NULL);
    f.counter.fail_at = 0;
    if (!status) break;
    assert_int_equal(qr_status_code(status), QR_RESOURCE_EXHAUSTED);
    qr_status_destroy(status);
    OK(run(&f));
    close_fixture(&f);
  }
  assert_true(nth > 3);
  close_fixture(&f);
}

static void test_outputs(void **state) {
  fixture f;
  float expected[10], large[12];
  int i;
  (void)state;
  open_fixture(&f, container);
  OK(run(&f));
  memcpy(expected, f.output, sizeof expected);
  assert_int_equal(f.out.dtype, QR_DTYPE_F32), assert_int_equal(f.out.rank, 2), assert_int_equal(f.out.dims[0], 1),
      assert_int_equal(f.out.dims[1], 10);
  assert_int_equal(f.out.size_bytes, 40);

  /* Of the session's own memory. */
  f.out.data = NULL, f.out.size_bytes = 0;
  OK(run(&f));
  assert_non_null(f.out.data), assert_memory_equal(f.out.data, expected, 40);
  /* More room than needed: the rest stays. */
  large[10] = large[11] = 42;
  f.out.data = large, f.out.size_bytes = sizeof large, f.out.flags = 0;
  OK(run(&f));
  assert_memory_equal(large, expected, 40);
  assert_true(large[10] == 42 && large[11] == 42);
  assert_int_equal(f.out.size_bytes, 40);
  /* Too little: nothing is written. */
  for (i = 0; i < 12; ++i) large[i] = 7;
  f.out.size_bytes = 39;
  FAILS("QR-R0005", "40", run(&f));
  for (i = 0; i < 12; ++i) assert_true(large[i] == 7);
  /* Not wanted. */
  f.outputs[0] = NULL;
  OK(run(&f));
  close_fixture(&f);
}

static void test_wrong_inputs(void **state) {
  fixture f;
  (void)state;
  open_fixture(&f, container);
  FAILS("QR-R0001", "0", qr_session_run(f.session, NULL, f.inputs, 0, f.outputs, 1));
  FAILS("QR-R0001", "2", qr_session_run(f.session, NULL, f.inputs, 2, f.outputs, 1));
  FAILS("QR-R0011", "0", qr_session_run(f.session, NULL, f.inputs, 1, f.outputs, 0));
  f.in.dtype = QR_DTYPE_F64;
  FAILS("QR-R0002", "f64", run(&f));
  f.in.dtype = 8;
  FAILS("QR-R0002", "8", run(&f));
  f.in.dtype = QR_DTYPE_F32, f.in.dims[3] = 7;
  FAILS("QR-R0003", "[1,1,8,7]", run(&f));
  f.in.dims[3] = -1;
  FAILS("QR-R0003", "image", run(&f));
  f.in.dims[3] = 8, f.in.rank = 3;
  FAILS("QR-R0003", "[1,1,8]", run(&f));
  f.in.rank = 9;
  FAILS("QR-R0003", "9", run(&f));
  f.in.rank = 4, f.in.size_bytes = 255;
  FAILS("QR-R0003", "255", run(&f));
  f.in.size_bytes = 256, f.in.data = NULL;
  FAILS("QR-R0004", "image", run(&f));
  f.in.data = f.input;
  OK(run(&f));
  close_fixture(&f);
}

static void test_memory(void **state) {
  fixture f, other;
  qr_memory *in_memory = NULL, *out_memory = NULL, *registered = NULL, *imported = NULL, *foreign = NULL;
  float expected[10], plain[80];
  int fd;
  (void)state;
  open_fixture(&f, container), open_fixture(&other, container);
  OK(run(&f));
  memcpy(expected, f.output, sizeof expected);
  OK(qr_memory_allocate(f.session, 512, NULL, &in_memory));
  OK(qr_memory_allocate(f.session, 64, NULL, &out_memory));
  assert_int_equal(qr_memory_size(in_memory), 512);
  assert_int_equal((uintptr_t)qr_memory_data(in_memory) % 64, 0);
  memcpy((char *)qr_memory_data(in_memory) + 256, f.input, 256);
  f.in.data = NULL, f.in.memory = in_memory, f.in.memory_offset = 256;
  f.out.data = NULL, f.out.memory = out_memory, f.out.memory_offset = 8;
  OK(run(&f));
  assert_memory_equal((char *)qr_memory_data(out_memory) + 8, expected, 40);
  f.in.memory_offset = 257;
  FAILS("QR-R0006", "image", run(&f));
  f.in.memory_offset = 254;
  FAILS("QR-R0006", "found memory_offset 254, expected a multiple of the size of f32", run(&f));
  f.in.memory_offset = UINT64_MAX - 10;
  FAILS("QR-R0006", "image", run(&f));
  f.in.memory_offset = 256, f.out.memory_offset = 32;
  FAILS("QR-R0005", "scores", run(&f));
  f.out.memory_offset = 0;
  OK(qr_memory_allocate(other.session, 512, NULL, &foreign));
  f.in.memory = foreign;
  FAILS("QR-R0006", "image", run(&f));
  f.in.memory = in_memory;
  {
    /* Memory that was made before there was a session. */
    qr_memory_options where = QR_MEMORY_OPTIONS_INIT;
    qr_memory *early = NULL;
    where.runtime = f.runtime, where.backend = str("cpu");
    OK(qr_memory_allocate(NULL, 256, &where, &early));
    memcpy(qr_memory_data(early), f.input, 256);
    f.in.memory = early, f.in.memory_offset = 0;
    OK(run(&f));
    assert_memory_equal(qr_memory_data(out_memory), expected, 40);
    f.in.memory = in_memory, f.in.memory_offset = 256;
    qr_memory_destroy(early);
    FAILS("QR-C0007", "both session and options->runtime", qr_memory_allocate(f.session, 256, &where, &early));
    where.device = 7;
    FAILS("QR-C0008", "options->device", qr_memory_allocate(NULL, 256, &where, &early));
    where.device = 0, where.backend = str("none");
    FAILS("QR-L0001", "none", qr_memory_allocate(NULL, 256, &where, &early));
  }

  OK(qr_memory_register(f.session, plain, sizeof plain, NULL, &registered));
  assert_ptr_equal(qr_memory_data(registered), plain);
  memcpy(plain, f.input, 256);
  f.in.memory = registered, f.in.memory_offset = 0;
  OK(run(&f));
  assert_memory_equal(qr_memory_data(out_memory), expected, 40);

  qr_memory *nothing = NULL;
  fd = memfd_create("quarry-test", MFD_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, 8192), 0);
  assert_int_equal(pwrite(fd, f.input, 256, 4096), 256);
  /* The input is read where it lies in the file, and what is written to the file later is seen. */
  OK(qr_memory_import_fd(f.session, fd, 4096, 4096, NULL, &imported));
  f.in.memory = imported, f.in.memory_offset = 0;
  memset(qr_memory_data(out_memory), 0, 40);
  OK(run(&f));
  assert_memory_equal(qr_memory_data(out_memory), expected, 40);
  assert_int_equal(pwrite(fd, (float[64]){0}, 256, 4096), 256);
  OK(run(&f));
  assert_memory_not_equal(qr_memory_data(out_memory), expected, 40);
  /* And it can be given on, as the file that it is. */
  {
    int32_t copy = -1;
    uint64_t offset = 0;
    float first[64];
    OK(qr_memory_export_fd(imported, &copy, &offset));
    assert_true(copy != fd && copy >= 0);
    assert_int_equal(offset, 4096);
    memset(qr_memory_data(imported), 0x40, 256);
    assert_int_equal(pread(copy, first, 256, (off_t)offset), 256);
    assert_memory_equal(first, qr_memory_data(imported), 256);
    close(copy);
    FAILS("QR-R0010", "descriptor", qr_memory_export_fd(in_memory, &copy, &offset));
  }
  close(fd);
  fd = open("/dev/null", O_RDONLY);
  FAILS("QR-C0008", "", qr_memory_import_fd(f.session, fd, 0, 64, NULL, &nothing));
  close(fd);
  qr_memory_destroy(in_memory), qr_memory_destroy(out_memory), qr_memory_destroy(registered),
      qr_memory_destroy(imported), qr_memory_destroy(foreign);
  close_fixture(&f), close_fixture(&other);
}

static void test_signals(void **state) {
  fixture f;
  qr_signal *signal = NULL;
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  (void)state;
  open_fixture(&f, container);
  OK(qr_signal_create(f.runtime, &signal));
  options.signal = signal;
  OK(qr_session_run(f.session, &options, f.inputs, 1, f.outputs, 1));
  qr_signal_abort(signal);
  FAILS("QR-C0011", "", qr_session_run(f.session, &options, f.inputs, 1, f.outputs, 1));
  {
    qr_session *session = NULL;
    qr_model *model = NULL;
    qr_call_options call = QR_CALL_OPTIONS_INIT;
    call.signal = signal;
    OK(model_at_path(f.runtime, str(digits_path()), NULL, &model));
    FAILS("QR-C0011", "", qr_session_create(model, NULL, &call, &session));
    FAILS("QR-C0011", "", qr_model_compile(model, NULL, &(qr_target)QR_TARGET_AT("./aborted.qrm"), &call));
    assert_int_equal(access("./aborted.qrm", F_OK), -1);
    qr_model_destroy(model);
  }
  qr_signal_reset(signal);
  qr_signal_set_timeout(signal, 1);
  FAILS("QR-C0012", "", qr_session_run(f.session, &options, f.inputs, 1, f.outputs, 1));
  qr_signal_set_timeout(signal, 0); /* no time at all */
  FAILS("QR-C0012", "", qr_session_run(f.session, &options, f.inputs, 1, f.outputs, 1));
  qr_signal_set_timeout(signal, QR_NO_TIMEOUT);
  OK(qr_session_run(f.session, &options, f.inputs, 1, f.outputs, 1));
  qr_signal_destroy(signal);
  close_fixture(&f);
}

static void test_models_from_memory_and_fd(void **state) {
  fixture f;
  qr_model *model = NULL;
  qr_session *session = NULL;
  const char *paths[2] = {digits_path(), container};
  float expected[10];
  int p;
  (void)state;
  open_fixture(&f, container);
  OK(run(&f));
  memcpy(expected, f.output, sizeof expected);
  for (p = 0; p < 2; ++p) {
    const int fd = open(paths[p], O_RDONLY | O_CLOEXEC);
    const off_t size = lseek(fd, 0, SEEK_END);
    const int packed = memfd_create("package", MFD_CLOEXEC); /* the model inside a larger file, at a page */
    char *bytes = malloc((size_t)size);
    assert_true(fd >= 0 && size > 0 && packed >= 0 && bytes);
    assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
    assert_int_equal(pwrite(packed, bytes, (size_t)size, 8192), size);
    assert_int_equal(ftruncate(packed, 8192 + size + 100), 0);
    OK(model_in_memory(f.runtime, bytes, (uint64_t)size, NULL, &model));
    OK(qr_session_create(model, NULL, NULL, &session));
    OK(qr_session_run(session, NULL, f.inputs, 1, f.outputs, 1));
    assert_memory_equal(f.output, expected, 40);
    qr_session_destroy(session), qr_model_destroy(model);
    OK(model_in_file(f.runtime, packed, 8192, (uint64_t)size, NULL, &model));
    OK(qr_session_create(model, NULL, NULL, &session));
    OK(qr_session_run(session, NULL, f.inputs, 1, f.outputs, 1));
    assert_memory_equal(f.output, expected, 40);
    qr_session_destroy(session), qr_model_destroy(model);
    FAILS("QR-C0008", "", model_in_file(f.runtime, packed, 8192, (uint64_t)size + 200, NULL, &model));
    FAILS("QR-C0008", "", model_in_file(f.runtime, packed, UINT64_MAX, 10, NULL, &model));
    free(bytes), close(fd), close(packed);
  }
  FAILS("QR-F0006", "", model_in_memory(f.runtime, "not a model at all, just text", 29, NULL, &model));
  close_fixture(&f);
}

static void test_report_and_plan(void **state) {
  fixture f;
  qr_memory_plan plan = QR_MEMORY_PLAN_INIT;
  qr_compatibility grade = 0;
  char *text = NULL;
  (void)state;
  open_fixture(&f, container);
  OK(qr_session_report(f.session, &text));
  assert_non_null(strstr(text, "\"cpu\"")), assert_non_null(strstr(text, "\"container\""));
  /* Each node says by what it runs, here and before anything is compiled. */
  assert_non_null(strstr(text, "\"node_paths\"")), assert_non_null(strstr(text, "\"kernel\": \"ConvF32\""));
  assert_non_null(strstr(text, "\"kernel\": \"fused into "));
  qr_string_destroy(text);
  OK(qr_model_check(f.model, NULL, NULL, &text));
  assert_non_null(strstr(text, "\"path\": \"native\"")), assert_non_null(strstr(text, "\"kernel\": \"ConvF32\""));
  assert_non_null(strstr(text, "\"path\": \"none\"")), assert_non_null(strstr(text, "\"kernel\": \"fused into "));
  assert_null(strstr(text, "\"path\": \"reference\"")), assert_null(strstr(text, "\"path\": \"unknown\""));
  qr_string_destroy(text);
  OK(qr_session_plan(f.model, NULL, NULL, &plan));
  assert_true(plan.weights_bytes >= (16 * 9 + 16 + 32 * 144 + 32 + 512 * 64 + 64 + 640 + 10) * 4);
  assert_true(plan.arena_bytes >= 16 * 64 * 4), assert_true(plan.io_bytes >= 256 + 40);
  OK(qr_model_compatibility(f.model, NULL, NULL, &grade, &text));
  assert_int_equal(grade, QR_COMPATIBILITY_OPTIMAL);
  qr_string_destroy(text);
  close_fixture(&f);
}

/* The compiler library is not there, or is something else: opening ONNX says so, containers work all the same. */
static void test_without_the_compiler_library(void **state) {
  const char *backends = getenv("QUARRY_BACKEND_PATH");
  char other[4096];
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  (void)state;
  options.prepare_path = str("/nowhere/libquarry-prepare.so");
  OK(qr_runtime_create(&options, &runtime));
  FAILS("QR-O0011", "/nowhere", model_at_path(runtime, str(digits_path()), NULL, &model));
  OK(model_at_path(runtime, str(container), NULL, &model));
  OK(qr_session_create(model, NULL, NULL, &session));
  qr_session_destroy(session), qr_model_destroy(model), qr_runtime_destroy(runtime);
  snprintf(other, sizeof other, "%.*s/quarry-backend-cpu.so", backends ? (int)strcspn(backends, ":") : 1,
           backends ? backends : ".");
  options.prepare_path = str(other);
  OK(qr_runtime_create(&options, &runtime));
  FAILS("QR-O0012", "qr_prepare_query", model_at_path(runtime, str(digits_path()), NULL, &model));
  qr_runtime_destroy(runtime);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_without_the_compiler_library),
      cmocka_unit_test(test_no_allocation_after_the_first_run),
      cmocka_unit_test(test_data_at_any_address),
      cmocka_unit_test(test_warm_up),
      cmocka_unit_test(test_warm_up_without_memory),
      cmocka_unit_test(test_outputs),
      cmocka_unit_test(test_wrong_inputs),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_signals),
      cmocka_unit_test(test_models_from_memory_and_fd),
      cmocka_unit_test(test_report_and_plan),
  };
  container = digits_qrm("run");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
