/* SPDX-License-Identifier: Apache-2.0 */
/* Whose memory outputs lie in: what a run gave out is an input of the next one, and nothing is taken for the session's
 * that the caller gave. The models are bytes of ONNX; what they say is worked out by hand. */
#include "capi_test.h"

/* present[k + 1] = Concat(past[k], x[1]) */
static const uint8_t concat_model[] = {
    8,   10, 58, 111, 10,  44,  10,  4,   112, 97,  115, 116, 10,  1,   120, 18,  7,   112, 114, 101, 115, 101, 110,
    116, 26, 1,  110, 34,  6,   67,  111, 110, 99,  97,  116, 42,  11,  10,  4,   97,  120, 105, 115, 24,  0,   160,
    1,   2,  58, 0,   18,  1,   103, 90,  19,  10,  4,   112, 97,  115, 116, 18,  11,  10,  9,   8,   1,   18,  5,
    10,  3,  18, 1,   107, 90,  15,  10,  1,   120, 18,  10,  10,  8,   8,   1,   18,  4,   10,  2,   8,   1,   98,
    22,  10, 7,  112, 114, 101, 115, 101, 110, 116, 18,  11,  10,  9,   8,   1,   18,  5,   10,  3,   18,  1,   109,
    66,  2,  16, 21,  66,  17,  10,  13,  99,  111, 109, 46,  109, 105, 99,  114, 111, 115, 111, 102, 116, 16,  1};
/* y[n] = Relu(x[n]), z[n] = Neg(x) */
static const uint8_t two_model[] = {
    8,   10,  58,  94,  10, 17,  10,  1,  120, 18,  1,   121, 26,  1,   110, 34, 4,   82,  101, 108, 117,
    58,  0,   10,  16,  10, 1,   120, 18, 1,   122, 26,  1,   110, 34,  3,   78, 101, 103, 58,  0,   18,
    1,   103, 90,  16,  10, 1,   120, 18, 11,  10,  9,   8,   1,   18,  5,   10, 3,   18,  1,   110, 98,
    16,  10,  1,   121, 18, 11,  10,  9,  8,   1,   18,  5,   10,  3,   18,  1,  110, 98,  16,  10,  1,
    122, 18,  11,  10,  9,  8,   1,   18, 5,   10,  3,   18,  1,   110, 66,  2,  16,  21,  66,  17,  10,
    13,  99,  111, 109, 46, 109, 105, 99, 114, 111, 115, 111, 102, 116, 16,  1};
/* where[2, ?] = NonZero(x[2, 2]), twice[2, 4] = Add(last, last) */
static const uint8_t find_model[] = {
    8,   10,  58,  156, 1,   10,  24,  10, 1,   120, 18,  5,  119, 104, 101, 114, 101, 26,  1,   110, 34,  7,   78,
    111, 110, 90,  101, 114, 111, 58,  0,  10,  29,  10,  4,  108, 97,  115, 116, 10,  4,   108, 97,  115, 116, 18,
    5,   116, 119, 105, 99,  101, 26,  1,  110, 34,  3,   65, 100, 100, 58,  0,   18,  1,   103, 90,  19,  10,  1,
    120, 18,  14,  10,  12,  8,   1,   18, 8,   10,  2,   8,  2,   10,  2,   8,   2,   90,  22,  10,  4,   108, 97,
    115, 116, 18,  14,  10,  12,  8,   7,  18,  8,   10,  2,  8,   2,   10,  2,   8,   4,   98,  24,  10,  5,   119,
    104, 101, 114, 101, 18,  15,  10,  13, 8,   7,   18,  9,  10,  2,   8,   2,   10,  3,   18,  1,   110, 98,  23,
    10,  5,   116, 119, 105, 99,  101, 18, 14,  10,  12,  8,  7,   18,  8,   10,  2,   8,   2,   10,  2,   8,   4,
    66,  2,   16,  21,  66,  17,  10,  13, 99,  111, 109, 46, 109, 105, 99,  114, 111, 115, 111, 102, 116, 16,  1};
/* a[2, ?] = NonZero(x[2, 2]), b[2, ?] = NonZero(x) */
static const uint8_t find_twice_model[] = {
    8,  10, 58,  112, 10, 20,  10,  1,   120, 18,  1,  97,  26,  1,   110, 34,  7,   78,  111, 110, 90,  101, 114, 111,
    58, 0,  10,  20,  10, 1,   120, 18,  1,   98,  26, 1,   110, 34,  7,   78,  111, 110, 90,  101, 114, 111, 58,  0,
    18, 1,  103, 90,  19, 10,  1,   120, 18,  14,  10, 12,  8,   1,   18,  8,   10,  2,   8,   2,   10,  2,   8,   2,
    98, 20, 10,  1,   97, 18,  15,  10,  13,  8,   7,  18,  9,   10,  2,   8,   2,   10,  3,   18,  1,   110, 98,  20,
    10, 1,  98,  18,  15, 10,  13,  8,   7,   18,  9,  10,  2,   8,   2,   10,  3,   18,  1,   109, 66,  2,   16,  21,
    66, 17, 10,  13,  99, 111, 109, 46,  109, 105, 99, 114, 111, 115, 111, 102, 116, 16,  1};

typedef struct fixture {
  counting_allocator counter;
  qr_runtime *runtime;
  qr_session *session;
} fixture;

/* Freed memory is overwritten (capi_test.h). `shapes`: values of the option "shape", up to the first NULL. */
static void open_session(fixture *f, const void *bytes, uint64_t size, const char *const *shapes) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator;
  qr_options *session_options = NULL;
  qr_model *model = NULL;
  memset(f, 0, sizeof *f);
  allocator = counting(&f->counter);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &f->runtime));
  OK(qr_options_create(f->runtime, &session_options));
  for (; *shapes; ++shapes) OK(qr_options_set(session_options, str("shape"), str(*shapes)));
  OK(model_in_memory(f->runtime, bytes, size, NULL, &model));
  OK(qr_session_create(model, session_options, NULL, &f->session));
  qr_options_destroy(session_options), qr_model_destroy(model);
}
#define OPEN(f, model, ...) open_session(f, model, sizeof model, (const char *const[]){__VA_ARGS__, NULL})
static void close_session(fixture *f) {
  qr_session_destroy(f->session), qr_runtime_destroy(f->runtime);
  assert_int_equal(f->counter.live, 0), assert_int_equal(f->counter.mismatches, 0);
}

static qr_tensor row(float *data, int64_t count) {
  qr_tensor out = QR_TENSOR_INIT;
  out.dtype = QR_DTYPE_F32, out.rank = 1, out.dims[0] = count, out.data = data, out.size_bytes = (uint64_t)count * 4;
  return out;
}

/* present of each run is past of the next one, which is longer: in tensors that take turns, and in one alone. */
static void test_state_that_grows(void **state) {
  int in_turns, k, i;
  (void)state;
  for (in_turns = 0; in_turns < 2; ++in_turns) {
    fixture f;
    float first = 1, next;
    qr_tensor past = row(&first, 1), x = row(&next, 1), outs[2] = {QR_TENSOR_INIT, QR_TENSOR_INIT};
    OPEN(&f, concat_model, "past=1;past=2;past=3;past=4");
    for (k = 1; k <= 4; ++k) {
      const qr_tensor *inputs[2] = {&past, &x};
      qr_tensor *out = &outs[in_turns ? k % 2 : 0], *outputs[1] = {out};
      next = (float)(k + 1);
      OK(qr_session_run(f.session, NULL, inputs, 2, outputs, 1));
      assert_int_equal(out->flags, QR_TENSOR_OF_SESSION), assert_int_equal(out->dims[0], k + 1);
      for (i = 0; i <= k; ++i) assert_true(((float *)out->data)[i] == (float)(i + 1));
      past = *out;
    }
    close_session(&f);
  }
}

/* A state of one size goes back and forth between two pieces of memory: nothing is allocated. */
static void test_state_of_one_size(void **state) {
  fixture f;
  float first[2] = {1, -2};
  qr_tensor x = row(first, 2), y = QR_TENSOR_INIT, z = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&x};
  qr_tensor *outputs[2] = {&y, &z};
  uint64_t before = 0;
  int i;
  (void)state;
  OPEN(&f, two_model, "x=2");
  for (i = 0; i < 20; ++i) {
    if (i == 3) before = f.counter.made;
    OK(qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
    x = z;
    assert_true(((float *)z.data)[0] == (i % 2 ? 1.0f : -1.0f) && ((float *)z.data)[1] == (i % 2 ? -2.0f : 2.0f));
    assert_true(((float *)y.data)[0] == (i % 2 ? 0.0f : 1.0f));
  }
  assert_int_equal(f.counter.made, before);
  close_session(&f);
}

/* The same of an output whose shape the run finds out: it lies in memory of the backend's. */
static void test_state_of_unknown_shape(void **state) {
  const char *const backends[] = {"cpu", "cpu-reference"};
  size_t b;
  (void)state;
  for (b = 0; b < 2; ++b) {
    fixture f;
    qr_options *options = NULL;
    qr_model *model = NULL;
    qr_session *session = NULL;
    float x[4] = {1, 1, 1, 1};
    int64_t zeros[8] = {0};
    const int64_t first[8] = {0, 0, 2, 2, 0, 2, 0, 2}, all[8] = {0, 0, 1, 1, 0, 1, 0, 1};
    qr_tensor in = row(x, 2), last = QR_TENSOR_INIT, where = QR_TENSOR_INIT, twice = QR_TENSOR_INIT;
    const qr_tensor *inputs[2] = {&in, &last};
    qr_tensor *outputs[2] = {&where, &twice};
    in.rank = 2, in.dims[1] = 2, in.size_bytes = sizeof x;
    last.dtype = QR_DTYPE_I64, last.rank = 2, last.dims[0] = 2, last.dims[1] = 4, last.const_data = zeros;
    OPEN(&f, two_model, "x=2");
    OK(qr_options_create(f.runtime, &options));
    OK(qr_options_set(options, str("backend"), str(backends[b])));
    OK(model_in_memory(f.runtime, find_model, sizeof find_model, NULL, &model));
    OK(qr_session_create(model, options, NULL, &session));
    OK(qr_session_run(session, NULL, inputs, 2, outputs, 2));
    assert_memory_equal(where.data, all, sizeof all), assert_memory_equal(twice.data, zeros, sizeof zeros);
    last = where, x[0] = x[3] = 0; /* this run finds other things, and reads what the last one found */
    OK(qr_session_run(session, NULL, inputs, 2, outputs, 2));
    assert_int_equal(where.dims[1], 2), assert_memory_equal(twice.data, first, sizeof first);
    qr_session_destroy(session), qr_model_destroy(model), qr_options_destroy(options);
    close_session(&f);
  }
}

/* A run that is refused takes nothing away: neither what the last run gave out nor what is the caller's. */
static void test_refused_run(void **state) {
  fixture f;
  float small[2] = {1, -2}, large[4] = {1, -2, 3, -4}, too_little[2], mine[2] = {9, 9};
  qr_tensor in = row(small, 2), larger = row(large, 4), y = QR_TENSOR_INIT, z = QR_TENSOR_INIT, y2 = QR_TENSOR_INIT,
            z2 = row(too_little, 2);
  const qr_tensor *inputs[1] = {&in}, *larger_inputs[1] = {&larger};
  qr_tensor *outputs[2] = {&y, &z}, *other_outputs[2] = {&y2, &z2};
  void *given;
  (void)state;
  OPEN(&f, two_model, "x=2;x=4");
  OK(qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  given = y.data;
  FAILS("QR-R0005", "16", qr_session_run(f.session, NULL, larger_inputs, 1, other_outputs, 2));
  assert_ptr_equal(y.data, given), assert_null(y2.data), assert_int_equal(y2.flags, 0);
  assert_true(((float *)given)[0] == 1 && ((float *)given)[1] == 0);
  /* Room of the caller's is the caller's, wherever it lies. */
  y.data = mine, y.size_bytes = sizeof mine, y.flags = 0;
  OK(qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  assert_ptr_equal(y.data, mine), assert_int_equal(y.flags, 0);
  assert_true(mine[0] == 1 && mine[1] == 0);
  /* A flag that nobody cleared is reported. */
  y.flags = QR_TENSOR_OF_SESSION;
  FAILS("QR-R0006", "not what this session gave out", qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  y.flags = 2;
  FAILS("QR-C0005", "bit 1", qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  close_session(&f);
}

/* Where tensors lie in each other's way: what a run needs counts, not the room there is. */
static void test_overlaps(void **state) {
  fixture f;
  float arena[64] = {0}, z_room[2];
  qr_tensor x = row(arena + 32, 2), y = row(arena, 2), z = row(z_room, 2);
  const qr_tensor *inputs[1] = {&x};
  qr_tensor *outputs[2] = {&y, &z};
  (void)state;
  OPEN(&f, two_model, "x=2");
  arena[32] = 5;
  y.size_bytes = sizeof arena; /* room to the end of the arena, where the input lies too */
  OK(qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  assert_true(arena[0] == 5 && z_room[0] == -5);
  y.data = arena + 31, y.size_bytes = 8;
  FAILS("QR-R0006", "input x: its data lie where this run writes output y",
        qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  y.data = arena, z.data = arena + 1;
  FAILS("QR-R0006", "output z: its room overlaps that of output y",
        qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  z.data = arena + 2;
  OK(qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  assert_true(arena[0] == 5 && arena[2] == -5);
  close_session(&f);
}

/* Two outputs whose shapes the run finds out, in room of the caller's. */
static void test_overlaps_after_the_run(void **state) {
  fixture f;
  float x[4] = {1, 0, 0, 1};
  int64_t room[16];
  const int64_t found[4] = {0, 1, 0, 1};
  qr_tensor in = row(x, 2), a = QR_TENSOR_INIT, b = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[2] = {&a, &b};
  (void)state;
  open_session(&f, find_twice_model, sizeof find_twice_model, (const char *const[]){NULL});
  in.rank = 2, in.dims[1] = 2, in.size_bytes = sizeof x;
  a.data = room, a.size_bytes = sizeof room, b.data = room + 3, b.size_bytes = sizeof room - 24;
  FAILS("QR-R0006", "output b: its room overlaps that of output a",
        qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  b.data = room + 4;
  OK(qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  assert_memory_equal(room, found, sizeof found), assert_memory_equal(room + 4, found, sizeof found);
  close_session(&f);
}

static void test_const_data(void **state) {
  static const float constant[2] = {3, -4};
  fixture f;
  float other[2];
  qr_tensor x = row(NULL, 2), y = QR_TENSOR_INIT, z = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&x};
  qr_tensor *outputs[2] = {&y, &z};
  (void)state;
  OPEN(&f, two_model, "x=2");
  x.const_data = constant;
  OK(qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  assert_true(((float *)y.data)[0] == 3 && ((float *)z.data)[1] == 4);
  x.data = other;
  FAILS("QR-R0006", "both data and const_data", qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  x.data = NULL, y.const_data = constant;
  FAILS("QR-R0006", "output y: const_data is set", qr_session_run(f.session, NULL, inputs, 1, outputs, 2));
  close_session(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_state_that_grows),
      cmocka_unit_test(test_state_of_one_size),
      cmocka_unit_test(test_state_of_unknown_shape),
      cmocka_unit_test(test_refused_run),
      cmocka_unit_test(test_overlaps),
      cmocka_unit_test(test_overlaps_after_the_run),
      cmocka_unit_test(test_const_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
