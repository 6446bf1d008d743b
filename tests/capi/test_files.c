/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a session when the file of its model is cut, written over or replaced. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capi_test.h"

static void read_file(const char *path, char **bytes, size_t *size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  assert_true(fd >= 0 && fstat(fd, &info) == 0);
  *size = (size_t)info.st_size;
  *bytes = malloc(*size);
  assert_non_null(*bytes);
  assert_int_equal(pread(fd, *bytes, *size, 0), *size);
  close(fd);
}
static int new_file(const char *path, const char *bytes, size_t size) {
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, bytes, size, 0), size);
  return fd;
}
static qr_options *options_of(qr_runtime *runtime, const char *map, const char *verify) {
  qr_options *options = NULL;
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("container.map"), str(map)));
  OK(qr_options_set(options, str("verify"), str(verify)));
  return options;
}

static qr_status *run(qr_session *session, float *result) {
  float pixels[64];
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&out};
  int i;
  for (i = 0; i < 64; ++i) pixels[i] = (float)(i * 37 % 64) / 64.0f;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8;
  in.data = pixels, in.size_bytes = sizeof pixels;
  out.data = result, out.size_bytes = 10 * sizeof *result;
  return qr_session_run(session, NULL, inputs, 1, outputs, 1);
}

enum damage { CUT, WRITTEN_OVER };

/* In a child process, which a mapped file would end: a session runs, its file is damaged, it runs on, and another is
 * made of the same model. Returns what went wrong first; 0: nothing. Calls no assertion: those belong to the parent. */
static int use_a_damaged_file(int fd, const char *path, enum damage damage, uint64_t size) {
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL, *another = NULL;
  float before[10], after[10];
  static const char garbage[4096] = {'?'};
  uint64_t at;
  signal(SIGBUS, SIG_DFL), signal(SIGSEGV, SIG_DFL); /* cmocka's handlers would go on with the parent's tests here */
  if (qr_runtime_create(NULL, &runtime) || qr_options_create(runtime, &options) ||
      qr_options_set(options, str("container.map"), str("0")))
    return 1;
  if (path ? model_at_path(runtime, str(path), options, &model)
           : model_in_file(runtime, fd, 8192, size, options, &model))
    return 2;
  if (qr_session_create(model, NULL, NULL, &session) || run(session, before)) return 3;
  if (damage == CUT && ftruncate(fd, 0) != 0) return 4;
  for (at = 0; damage == WRITTEN_OVER && at < size + 8192; at += sizeof garbage)
    if (pwrite(fd, garbage, sizeof garbage, (off_t)at) < 0) return 4;
  if (run(session, after) || memcmp(before, after, sizeof before) != 0) return 5;
  if (qr_session_create(model, NULL, NULL, &another) || run(another, after) ||
      memcmp(before, after, sizeof before) != 0)
    return 6;
  if (path && qr_model_verify(model, NULL)) return 7;
  qr_session_destroy(another), qr_session_destroy(session), qr_model_destroy(model);
  qr_options_destroy(options), qr_runtime_destroy(runtime);
  return 0;
}

static void test_damaged_under_a_session(void **state) {
  const char *paths[2] = {digits_path(), digits_qrm("files")};
  int p, damage, packed;
  (void)state;
  for (p = 0; p < 2; ++p)
    for (damage = CUT; damage <= WRITTEN_OVER; ++damage)
      for (packed = 0; packed < 2; ++packed) {
        char *bytes = NULL;
        size_t size = 0;
        int fd, status = 0;
        pid_t child;
        read_file(paths[p], &bytes, &size);
        if (packed) {
          fd = memfd_create("package", MFD_CLOEXEC);
          assert_int_equal(pwrite(fd, bytes, size, 8192), size);
        } else {
          fd = new_file("./damaged", bytes, size);
        }
        child = fork();
        if (child == 0) _exit(use_a_damaged_file(fd, packed ? NULL : "./damaged", (enum damage)damage, size));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0) print_error("model %d, damage %d, packed %d: found status %#x\n", p, damage, packed, status);
        assert_int_equal(status, 0);
        close(fd);
        free(bytes);
      }
  unlink("./damaged");
}

/* A compiler that writes to the path of a running session's model leaves that session what it has. */
static void test_replaced_under_a_session(void **state) {
  const char *path = digits_qrm("replaced");
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *onnx = NULL, *old_model = NULL, *new_model = NULL;
  qr_session *session = NULL;
  float before[10], after[10];
  char *text = NULL;
  int i;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(model_at_path(runtime, str(path), NULL, &old_model));
  OK(qr_session_create(old_model, NULL, NULL, &session));
  OK(run(session, before));
  OK(model_at_path(runtime, str(digits_path()), NULL, &onnx));
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("container.keep_graph"), str("0")));
  for (i = 0; i < 3; ++i) {
    OK(qr_model_compile(onnx, options, &(qr_target)QR_TARGET_AT(path), NULL));
    OK(run(session, after));
    assert_memory_equal(before, after, sizeof before);
    OK(qr_model_verify(old_model, NULL));
  }
  OK(model_at_path(runtime, str(path), NULL, &new_model));
  OK(qr_model_inspect(new_model, NULL, &text));
  assert_non_null(strstr(text, "\"kept\": false"));
  qr_string_destroy(text);
  OK(qr_model_inspect(old_model, NULL, &text));
  assert_non_null(strstr(text, "\"kept\": true"));
  qr_string_destroy(text);
  qr_session_destroy(session), qr_model_destroy(new_model), qr_model_destroy(old_model), qr_model_destroy(onnx);
  qr_options_destroy(options), qr_runtime_destroy(runtime);
}

/* Weights that are mapped are not summed at opening; what is read is, for it may have been written to meanwhile. */
static void test_sums_of_what_is_read(void **state) {
  char *bytes = NULL;
  size_t size = 0;
  qr_runtime *runtime = NULL;
  qr_options *mapped, *read, *read_unchecked;
  qr_model *model = NULL;
  (void)state;
  read_file(digits_qrm("sums"), &bytes, &size);
  bytes[size / 4] ^= 1; /* among the weights */
  close(new_file("./damaged", bytes, size));
  OK(qr_runtime_create(NULL, &runtime));
  mapped = options_of(runtime, "1", "program"), read = options_of(runtime, "0", "program");
  read_unchecked = options_of(runtime, "0", "off");
  OK(model_at_path(runtime, str("./damaged"), mapped, &model));
  qr_model_destroy(model);
  FAILS("QR-M0003", "weights", model_at_path(runtime, str("./damaged"), read, &model));
  OK(model_at_path(runtime, str("./damaged"), read_unchecked, &model));
  qr_model_destroy(model);
  OK(model_in_memory(runtime, bytes, size, read, &model)); /* the caller's, who answers for it */
  qr_model_destroy(model);
  qr_options_destroy(mapped), qr_options_destroy(read), qr_options_destroy(read_unchecked);
  qr_runtime_destroy(runtime);
  free(bytes);
  unlink("./damaged");
}

/* y = x + w, f32[2], where w lies in ./weights.bin. */
static const char kExternal[] =
    "\010\010B\002\020\015:Y\012\016\012\001x\012\001w\022\001y\042\003Add\022\001g*"
    "\042\010\002\020\001B\001wj\027\012\010location"
    "\022\013weights."
    "binp\001Z\017\012\001x\022\012\012\010\010\001\022\004\012\002\010\002b\017\012\001y\022\012\012\010\010\001\022"
    "\004\012\002\010\002";

/* Opened with container.map at `map`; then the file of the weights is damaged, and only then a session is made. In a
 * child, for a mapped file may end it. */
static int use_damaged_weights(const char *map, enum damage damage) {
  static const float kW[2] = {10, 20}, kX[2] = {1, 2}, kOther[2] = {-1, -1};
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&out};
  float y[2];
  const int fd = open("./weights.bin", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0 || pwrite(fd, kW, sizeof kW, 0) != sizeof kW) return 1;
  signal(SIGBUS, SIG_DFL), signal(SIGSEGV, SIG_DFL);
  if (qr_runtime_create(NULL, &runtime) || qr_options_create(runtime, &options) ||
      qr_options_set(options, str("container.map"), str(map)) ||
      model_at_path(runtime, str("./external.onnx"), options, &model))
    return 2;
  if (damage == CUT ? ftruncate(fd, 0) != 0 : pwrite(fd, kOther, sizeof kOther, 0) != sizeof kOther) return 3;
  close(fd);
  if (qr_session_create(model, NULL, NULL, &session)) return 4;
  in.dtype = QR_DTYPE_F32, in.rank = 1, in.dims[0] = 2, in.data = (void *)(uintptr_t)kX, in.size_bytes = sizeof kX;
  out.data = y, out.size_bytes = sizeof y;
  if (qr_session_run(session, NULL, inputs, 1, outputs, 1)) return 5;
  if (y[0] != 11 || y[1] != 22) return 6;
  qr_session_destroy(session), qr_model_destroy(model);
  qr_options_destroy(options), qr_runtime_destroy(runtime);
  return 0;
}

static void test_damaged_external_data(void **state) {
  const struct {
    const char *map;
    enum damage damage;
    int result;
  } ways[] = {{"0", CUT, 0}, {"0", WRITTEN_OVER, 0}, {"1", CUT, 4}, {"1", WRITTEN_OVER, 6}};
  size_t i;
  (void)state;
  close(new_file("./external.onnx", kExternal, sizeof kExternal - 1));
  for (i = 0; i < sizeof ways / sizeof *ways; ++i) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) _exit(use_damaged_weights(ways[i].map, ways[i].damage));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), ways[i].result);
  }
  unlink("./weights.bin"), unlink("./external.onnx");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_damaged_under_a_session),
      cmocka_unit_test(test_replaced_under_a_session),
      cmocka_unit_test(test_sums_of_what_is_read),
      cmocka_unit_test(test_damaged_external_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
