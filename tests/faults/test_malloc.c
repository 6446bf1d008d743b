/* SPDX-License-Identifier: Apache-2.0 */
/* Fails the Nth malloc of the process (protobuf's, the C++ library's and the dynamic linker's included) while a model
 * is opened, a session made and run. A failure must come back as a status: no crash, no abort. What other libraries
 * leak of their own on that way is theirs. */
#include "capi_test.h"
#include "failing_malloc.h"

static const char *container;

static qr_status *open_and_run(qr_runtime *runtime, const char *path) {
  static const float zeros[64];
  qr_model *model = NULL;
  qr_session *session = NULL;
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&out};
  qr_status *status;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8;
  in.data = (void *)zeros, in.size_bytes = sizeof zeros;
  status = model_at_path(runtime, str(path), NULL, &model);
  if (!status) status = qr_session_create(model, NULL, NULL, &session);
  if (!status) status = qr_session_run(session, NULL, inputs, 1, outputs, 1);
  qr_session_destroy(session), qr_model_destroy(model);
  return status;
}

static void fail_every_malloc(const char *path) {
  qr_runtime *runtime = NULL;
  uint64_t n, failures = 0;
  OK(qr_runtime_create(NULL, &runtime));
  OK(open_and_run(runtime,
                  path)); /* libraries are loaded: the dynamic linker's own allocations are not what is tested */
  for (n = 1;; ++n) {
    qr_status *status;
    uint64_t made;
    fail_malloc(n);
    status = open_and_run(runtime, path);
    made = stop_failing_malloc();
    if (made < n) {
      OK(status);
      break;
    }
    if (status) {
      ++failures;
      qr_status_destroy(status);
    }
  }
  print_message("%s: %d calls of malloc, %d failures\n", path, (int)n - 1, (int)failures);
  assert_true(failures > 20);
  OK(open_and_run(runtime, path));
  qr_runtime_destroy(runtime);
}

static void test_container(void **state) { (void)state, fail_every_malloc(container); }
static void test_onnx(void **state) { (void)state, fail_every_malloc(digits_path()); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_container), cmocka_unit_test(test_onnx)};
  container = digits_qrm("malloc");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
