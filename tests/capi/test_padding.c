/* SPDX-License-Identifier: Apache-2.0 */
/* The option shape.pad: runs of every size under those of two buckets, on a model whose numbers are whole; where their
 * tensors lie, what is refused, and that nothing is allocated again. */
#include "capi_test.h"

#define ROWS 8
#define COLUMNS 16
#define COUNT (ROWS * COLUMNS)

/* y = x transposed; z = t[y]. */
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
  int64_t x[COUNT + 1];
} fixture;

static void open_fixture(fixture *f, const char *backend, const char *pad) {
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
  OK(qr_options_set(session_options, str("threads"), str("1")));
  OK(qr_options_set(session_options, str("shape"), str("n=8,m=8;n=8,m=16")));
  if (pad) OK(qr_options_set(session_options, str("shape.pad"), str(pad)));
  OK(model_in_memory(f->runtime, turn_model, sizeof turn_model, NULL, &model));
  OK(qr_session_create(model, session_options, NULL, &f->session));
  qr_options_destroy(session_options), qr_model_destroy(model);
  for (i = 0; i < COUNT; ++i) f->x[i] = i * 5 % 8;
}
static void close_fixture(fixture *f) {
  qr_session_destroy(f->session), qr_runtime_destroy(f->runtime);
  assert_int_equal(f->counter.live, 0), assert_int_equal(f->counter.mismatches, 0);
}

static qr_status *run(fixture *f, const int64_t *x, int64_t rows, int64_t columns, qr_tensor *y, qr_tensor *z) {
  qr_tensor in = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[2] = {y, z};
  in.dtype = QR_DTYPE_I64, in.rank = 2, in.dims[0] = rows, in.dims[1] = columns, in.const_data = x;
  return qr_session_run(f->session, NULL, inputs, 1, outputs, 2);
}

static int64_t number_at(const void *data, int64_t index) {
  int64_t number;
  memcpy(&number, (const char *)data + 8 * index, 8);
  return number;
}

static void check_result(const int64_t *x, int64_t rows, int64_t columns, const qr_tensor *y, const qr_tensor *z) {
  int64_t i, k;
  assert_int_equal(y->rank, 2), assert_int_equal(y->dims[0], columns), assert_int_equal(y->dims[1], rows);
  assert_int_equal(y->size_bytes, 8 * rows * columns);
  for (i = 0; i < columns; ++i)
    for (k = 0; k < rows; ++k) {
      assert_int_equal(number_at(y->data, i * rows + k), number_at(x, k * columns + i));
      assert_int_equal(number_at(z->data, i * rows + k), table[number_at(x, k * columns + i)]);
    }
}

static const char *const backends[] = {"cpu", "cpu-reference"};

/* Into the session's memory, the caller's, and the caller's at addresses that the type cannot have. */
static void run_every_size(fixture *f) {
  int64_t rows, columns;
  for (rows = 1; rows <= ROWS; ++rows)
    for (columns = 1; columns <= COLUMNS; ++columns) {
      qr_tensor y = QR_TENSOR_INIT, z = QR_TENSOR_INIT;
      int64_t room[2][COUNT + 1];
      OK(run(f, f->x, rows, columns, &y, &z));
      check_result(f->x, rows, columns, &y, &z);
      assert_int_equal(y.flags, QR_TENSOR_OF_SESSION);
      y = z = (qr_tensor)QR_TENSOR_INIT;
      y.data = (char *)room[0] + (rows + columns) % 2, z.data = room[1];
      y.size_bytes = z.size_bytes = 8 * (uint64_t)(rows * columns);
      room[1][rows * columns] = -7;
      OK(run(f, f->x, rows, columns, &y, &z));
      check_result(f->x, rows, columns, &y, &z);
      assert_int_equal(room[1][rows * columns], -7), assert_int_equal(y.flags, 0);
    }
}

static void test_every_size(void **state) {
  size_t b;
  (void)state;
  for (b = 0; b < 2; ++b) {
    fixture f;
    uint64_t before;
    open_fixture(&f, backends[b], "n:x,m:x");
    run_every_size(&f);
    before = f.counter.made;
    run_every_size(&f);
    assert_int_equal(f.counter.made, before);
    close_fixture(&f);
  }
}

static void test_an_output_as_an_input(void **state) {
  fixture f;
  qr_tensor y = QR_TENSOR_INIT, z = QR_TENSOR_INIT;
  int64_t first[30], copy[30];
  int i;
  (void)state;
  open_fixture(&f, "cpu", "n:x,m:x");
  OK(run(&f, f.x, 5, 6, &y, &z)); /* y[6,5] */
  memcpy(first, y.data, sizeof first);
  OK(run(&f, y.data, 6, 5, &y, &z));
  check_result(first, 6, 5, &y, &z);
  for (i = 0; i < 30; ++i) assert_int_equal(((int64_t *)y.data)[i], f.x[i]);
  memcpy(copy, y.data, sizeof copy);
  FAILS("QR-R0003", "found 9 for dimension 'n' (axis 0), expected 1..8", run(&f, f.x, 9, 5, &y, &z));
  assert_memory_equal(y.data, copy, sizeof copy); /* what a run gave stays through one that is refused */
  close_fixture(&f);
}

static void test_refusals(void **state) {
  fixture f;
  qr_tensor y = QR_TENSOR_INIT, z = QR_TENSOR_INIT, in = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[2] = {&y, &z};
  int64_t room[COUNT];
  (void)state;
  open_fixture(&f, "cpu", "m:x");
  FAILS("QR-R0003", "found 5 for dimension 'n' (axis 0), expected 8", run(&f, f.x, 5, 6, &y, &z));
  FAILS("QR-R0003", "found 17 for dimension 'm' (axis 1), expected 1..16", run(&f, f.x, 8, 17, &y, &z));
  FAILS("QR-R0003", "expected 1..16", run(&f, f.x, 8, 0, &y, &z));
  y.data = room, y.size_bytes = 8 * 8 * 5 - 1;
  FAILS("QR-R0005", "found room for 319 bytes, expected at least 320 for i64 [5,8]", run(&f, f.x, 8, 5, &y, &z));
  y.size_bytes = 8 * 8 * 5, z.data = room, z.size_bytes = sizeof room;
  FAILS("QR-R0006", "overlaps", run(&f, f.x, 8, 5, &y, &z));
  z = (qr_tensor)QR_TENSOR_INIT;
  memcpy(room, f.x, sizeof room);
  FAILS("QR-R0006", "where this run writes", run(&f, room, 8, 5, &y, &z));
  in.dtype = QR_DTYPE_I64, in.rank = 2, in.dims[0] = 8, in.dims[1] = 5, in.const_data = f.x, in.size_bytes = 8;
  FAILS("QR-R0003", "size_bytes is 8, expected 320 for i64 [8,5]",
        qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  in.rank = 3, in.size_bytes = 0;
  FAILS("QR-R0003", "found [8,5,0]", qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  close_fixture(&f);
  open_fixture(&f, "cpu", NULL);
  FAILS("QR-R0003", "found [8,5], expected [8,8] or [8,16]", run(&f, f.x, 8, 5, &y, &z));
  close_fixture(&f);
}

/* Each allocation of a session fails once, of those that its creation and its first run make. */
static void test_without_memory(void **state) {
  uint64_t n;
  int ended = 0;
  (void)state;
  for (n = 1; !ended; ++n) {
    fixture f;
    qr_tensor y = QR_TENSOR_INIT, z = QR_TENSOR_INIT;
    qr_status *status;
    open_fixture(&f, "cpu", "n:x,m:x");
    f.counter.fail_at = f.counter.made + n;
    status = run(&f, f.x, 5, 11, &y, &z);
    f.counter.fail_at = 0;
    ended = !status;
    if (status) assert_string_equal(qr_status_id(status), "QR-C0001");
    qr_status_destroy(status);
    y = z = (qr_tensor)QR_TENSOR_INIT;
    OK(run(&f, f.x, 5, 11, &y, &z));
    check_result(f.x, 5, 11, &y, &z);
    close_fixture(&f);
  }
  assert_true(n > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_size),
      cmocka_unit_test(test_an_output_as_an_input),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
