/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of shapes: what a run gave out of the session's memory stays, and may be an input, until another run has ended
 * well, whatever runs fail between. */
#include "capi_test.h"

#define SIDE 6
#define COUNT (SIDE * SIDE)

/* y = x transposed, which cannot be done at one place; z = t[y], which fails where a number is no place in t. */
static const uint8_t turn_model[] = {
    8,   8,   58, 185, 1,  10, 17,  10,  1,   120, 18,  1,   121, 34,  9,  84,  114, 97,  110, 115, 112, 111,
    115, 101, 10, 17,  10, 1,  116, 10,  1,   121, 18,  1,   122, 34,  6,  71,  97,  116, 104, 101, 114, 18,
    1,   103, 42, 73,  8,  8,  16,  7,   66,  1,   116, 74,  64,  3,   0,  0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,  0,   0,  0,  0,   6,   0,   0,   0,   0,   0,   0,   0,  1,   0,   0,   0,   0,   0,   0,
    0,   7,   0,  0,   0,  0,  0,   0,   0,   5,   0,   0,   0,   0,   0,  0,   0,   2,   0,   0,   0,   0,
    0,   0,   0,  4,   0,  0,  0,   0,   0,   0,   0,   90,  21,  10,  1,  120, 18,  16,  10,  14,  8,   7,
    18,  10,  10, 3,   18, 1,  110, 10,  3,   18,  1,   109, 98,  21,  10, 1,   121, 18,  16,  10,  14,  8,
    7,   18,  10, 10,  3,  18, 1,   109, 10,  3,   18,  1,   110, 98,  21, 10,  1,   122, 18,  16,  10,  14,
    8,   7,   18, 10,  10, 3,  18,  1,   109, 10,  3,   18,  1,   110, 66, 4,   10,  0,   16,  13};
static const int64_t table[] = {3, 0, 6, 1, 7, 5, 2, 4};

typedef struct fixture {
  counting_allocator counter;
  qr_runtime *runtime;
  qr_session *session;
  int64_t x[COUNT];
} fixture;

static void open_fixture(fixture *f, const char *backend, const char *plans) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator;
  qr_options *session_options = NULL;
  qr_model *model = NULL;
  int i;
  memset(f, 0, sizeof *f);
  allocator = counting(&f->counter);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &f->runtime));
  OK(qr_options_create(f->runtime, &session_options));
  OK(qr_options_set(session_options, str("backend"), str(backend)));
  OK(qr_options_set(session_options, str("shape"), str("n=1..40,m=1..40")));
  OK(qr_options_set(session_options, str("shape.plans"), str(plans)));
  OK(model_in_memory(f->runtime, turn_model, sizeof turn_model, NULL, &model));
  OK(qr_session_create(model, session_options, NULL, &f->session));
  qr_options_destroy(session_options), qr_model_destroy(model);
  for (i = 0; i < COUNT; ++i) f->x[i] = i * 5 % 8;
}
static void close_fixture(fixture *f) {
  qr_session_destroy(f->session), qr_runtime_destroy(f->runtime);
  assert_int_equal(f->counter.live, 0), assert_int_equal(f->counter.mismatches, 0);
}

/* Into the session's memory; *out_y then points to y. */
static qr_status *run(fixture *f, const int64_t *x, int64_t rows, const int64_t **out_y) {
  qr_tensor in = QR_TENSOR_INIT, y = QR_TENSOR_INIT, z = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[2] = {&y, &z};
  qr_status *status;
  int i;
  in.dtype = QR_DTYPE_I64, in.rank = 2, in.dims[0] = rows, in.dims[1] = SIDE, in.const_data = x;
  status = qr_session_run(f->session, NULL, inputs, 1, outputs, 2);
  if (status) return status;
  *out_y = y.data;
  for (i = 0; i < rows * SIDE; ++i) assert_int_equal(((const int64_t *)z.data)[i], table[((const int64_t *)y.data)[i]]);
  return NULL;
}

static void check_turned(const int64_t *x, const int64_t *y) {
  int i;
  for (i = 0; i < COUNT; ++i) assert_int_equal(y[i], x[i % SIDE * SIDE + i / SIDE]);
}

static const char *const backends[] = {"cpu", "cpu-reference"};

static void test_an_input_behind_a_run_that_was_refused(void **state) {
  size_t b;
  (void)state;
  for (b = 0; b < 2; ++b) {
    fixture f;
    const int64_t *y = NULL, *z = NULL;
    int64_t copy[COUNT];
    open_fixture(&f, backends[b], "4");
    OK(run(&f, f.x, SIDE, &y));
    check_turned(f.x, y);
    FAILS("QR-R0003", "found 0 for dimension 'n'", run(&f, f.x, 0, &z));
    check_turned(f.x, y);
    memcpy(copy, y, sizeof copy);
    OK(run(&f, y, SIDE, &z));
    check_turned(copy, z);
    close_fixture(&f);
  }
}

/* What is refused is named with the shape of the run, not with that of the program. */
static void test_data_that_are_too_short(void **state) {
  fixture f;
  qr_tensor in = QR_TENSOR_INIT, y = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[2] = {&y, NULL};
  (void)state;
  open_fixture(&f, "cpu", "4");
  in.dtype = QR_DTYPE_I64, in.rank = 2, in.dims[0] = SIDE, in.dims[1] = SIDE, in.const_data = f.x, in.size_bytes = 8;
  FAILS("QR-R0003", "size_bytes is 8, expected 288 for i64 [6,6]",
        qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_input_behind_a_run_that_was_refused),
      cmocka_unit_test(test_data_that_are_too_short),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
