/* SPDX-License-Identifier: Apache-2.0 */
/* Fails the Nth allocation of the caller's allocator, for every N until the whole way succeeds: runtime, options, model
 * open, session create, clone, run; once as a single failure and once with all later ones failing too. After each: an
 * out-of-memory status, no leak, nothing freed twice, and a clean pass right after. */
#include "capi_test.h"

static const char *container, *backend;

/* The whole way; returns the first failure. Whatever was made is destroyed. */
static qr_status *whole_way(counting_allocator *counter, const char *path, int *out_steps) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator = counting(counter);
  qr_runtime *runtime = NULL;
  qr_options *session_options = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL, *clone = NULL;
  qr_signal *signal = NULL;
  qr_profile *profile = NULL;
  qr_memory *memory = NULL;
  static const float zeros[64];
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  qr_run_options run = QR_RUN_OPTIONS_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&out};
  char *json = NULL;
  qr_status *status;
  options.allocator = &allocator;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8;
  in.data = (void *)zeros, in.size_bytes = sizeof zeros;
  qr_call_options call = QR_CALL_OPTIONS_INIT;
#define STEP(made) \
  if (!status) ++*out_steps, status = (made)
  status = qr_runtime_create(&options, &runtime);
  STEP(qr_options_create(runtime, &session_options));
  STEP(qr_options_set(session_options, str("threads"), str("2")));
  STEP(qr_options_set(session_options, str("backend"), str(backend)));
  STEP(qr_signal_create(runtime, &signal));
  STEP(qr_profile_create(runtime, &profile));
  STEP(model_at_path(runtime, str(path), session_options, &model));
  STEP(qr_model_inspect(model, NULL, &json));
  call.signal = signal;
  STEP(qr_session_create(model, session_options, &call, &session));
  STEP(qr_session_clone(session, NULL, &clone));
  STEP(qr_memory_allocate(session, 256, NULL, &memory));
  run.signal = signal, run.profile = profile;
  STEP(qr_session_run(session, &run, inputs, 1, outputs, 1));
  STEP((out.data = NULL, out.size_bytes = 0, qr_session_run(clone, NULL, inputs, 1, outputs, 1)));
  qr_string_destroy(json);
  qr_memory_destroy(memory), qr_session_destroy(clone), qr_session_destroy(session), qr_model_destroy(model);
  qr_profile_destroy(profile), qr_signal_destroy(signal), qr_options_destroy(session_options),
      qr_runtime_destroy(runtime);
  return status;
}

static void fail_every_allocation(const char *path) {
  int keep_failing;
  for (keep_failing = 0; keep_failing < 2; ++keep_failing) {
    uint64_t n, failures = 0;
    for (n = 1;; ++n) {
      counting_allocator counter = {0};
      int steps = 0;
      qr_status *status;
      counter.fail_at = n, counter.keep_failing = keep_failing;
      status = whole_way(&counter, path, &steps);
      if (counter.made < n) { /* the allocation to fail was never reached: a whole pass */
        OK(status);
        assert_int_equal(counter.live, 0);
        break;
      }
      if (status) { /* a failure that can be worked around (a detail frame, a log line) is no error */
        ++failures;
        if (n == 1) assert_string_equal(qr_status_id(status), "QR-C0001");
        if (qr_status_code(status) != QR_RESOURCE_EXHAUSTED)
          print_error("allocation %d: %s: %s\n", (int)n, qr_status_id(status), qr_status_message(status));
        assert_int_equal(qr_status_code(status), QR_RESOURCE_EXHAUSTED);
        qr_status_destroy(status);
      }
      if (counter.live || counter.mismatches)
        print_error("allocation %d of %s: %d blocks left, %d freed wrongly\n", (int)n, path, (int)counter.live,
                    (int)counter.mismatches);
      assert_int_equal(counter.live, 0);
      assert_int_equal(counter.mismatches, 0);
      if (n % 50 == 0) {
        counting_allocator clean = {0};
        OK(whole_way(&clean, path, &steps));
        assert_int_equal(clean.live, 0);
      }
    }
    print_message("%s: %d allocations, %d failures%s\n", path, (int)n - 1, (int)failures,
                  keep_failing ? " (all later ones failing)" : "");
    assert_true(failures > 50);
  }
}

static void test_container(void **state) { (void)state, backend = "cpu", fail_every_allocation(container); }
static void test_onnx(void **state) { (void)state, backend = "cpu", fail_every_allocation(digits_path()); }
static void test_reference(void **state) {
  (void)state, backend = "cpu-reference", fail_every_allocation(digits_path());
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_container), cmocka_unit_test(test_onnx),
                                     cmocka_unit_test(test_reference)};
  container = digits_qrm("faults");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
