/* SPDX-License-Identifier: Apache-2.0 */
/* State that a session keeps (state.h), on a model whose numbers are whole, so that every result is exact: random
 * sequences against a list of what was given, errors that lose nothing, memory. */
#include "capi_test.h"

#define WIDE 4
#define MOST 24 /* state.capacity */
#define BATCH 2

/* present[batch, m, 4] = Concat(past[batch, k, 4], x[batch, n, 4]); y[batch, n, m] = x times present transposed;
 * hn[batch, 4] = h + the sum of x over n. */
static const uint8_t keep_model[] = {
    8,   8,   58,  238, 2,   10,  39,  10,  4,   112, 97,  115, 116, 10,  1,   120, 18,  7,   112, 114, 101, 115, 101,
    110, 116, 34,  6,   67,  111, 110, 99,  97,  116, 42,  11,  10,  4,   97,  120, 105, 115, 24,  1,   160, 1,   2,
    10,  40,  10,  7,   112, 114, 101, 115, 101, 110, 116, 18,  1,   116, 34,  9,   84,  114, 97,  110, 115, 112, 111,
    115, 101, 42,  15,  10,  4,   112, 101, 114, 109, 64,  0,   64,  2,   64,  1,   160, 1,   7,   10,  17,  10,  1,
    120, 10,  1,   116, 18,  1,   121, 34,  6,   77,  97,  116, 77,  117, 108, 10,  40,  10,  1,   120, 10,  4,   97,
    120, 101, 115, 18,  1,   115, 34,  9,   82,  101, 100, 117, 99,  101, 83,  117, 109, 42,  15,  10,  8,   107, 101,
    101, 112, 100, 105, 109, 115, 24,  0,   160, 1,   2,   10,  15,  10,  1,   104, 10,  1,   115, 18,  2,   104, 110,
    34,  3,   65,  100, 100, 18,  1,   103, 42,  13,  8,   1,   16,  7,   58,  1,   1,   66,  4,   97,  120, 101, 115,
    90,  32,  10,  4,   112, 97,  115, 116, 18,  24,  10,  22,  8,   1,   18,  18,  10,  7,   18,  5,   98,  97,  116,
    99,  104, 10,  3,   18,  1,   107, 10,  2,   8,   4,   90,  29,  10,  1,   120, 18,  24,  10,  22,  8,   1,   18,
    18,  10,  7,   18,  5,   98,  97,  116, 99,  104, 10,  3,   18,  1,   110, 10,  2,   8,   4,   90,  24,  10,  1,
    104, 18,  19,  10,  17,  8,   1,   18,  13,  10,  7,   18,  5,   98,  97,  116, 99,  104, 10,  2,   8,   4,   98,
    30,  10,  1,   121, 18,  25,  10,  23,  8,   1,   18,  19,  10,  7,   18,  5,   98,  97,  116, 99,  104, 10,  3,
    18,  1,   110, 10,  3,   18,  1,   109, 98,  35,  10,  7,   112, 114, 101, 115, 101, 110, 116, 18,  24,  10,  22,
    8,   1,   18,  18,  10,  7,   18,  5,   98,  97,  116, 99,  104, 10,  3,   18,  1,   109, 10,  2,   8,   4,   98,
    25,  10,  2,   104, 110, 18,  19,  10,  17,  8,   1,   18,  13,  10,  7,   18,  5,   98,  97,  116, 99,  104, 10,
    2,   8,   4,   66,  4,   10,  0,   16,  17};

#define SINK 2
#define WINDOW 5

typedef struct fixture {
  counting_allocator counter;
  qr_runtime *runtime;
  qr_model *model;
  qr_session *session;
  qr_state *state;
  const char *window; /* NULL: none */
} fixture;

static qr_status *create(fixture *f, const char *backend, const char *pairs, const char *shape, qr_session **out) {
  qr_options *options = NULL;
  qr_status *status;
  OK(qr_options_create(f->runtime, &options));
  OK(qr_options_set(options, str("backend"), str(backend)));
  OK(qr_options_set(options, str("threads"), str("1")));
  OK(qr_options_set(options, str("state"), str(pairs)));
  OK(qr_options_set(options, str("state.capacity"), str("24")));
  OK(qr_options_set(options, str("shape"), str(shape)));
  OK(qr_options_set(options, str("shape.plans"), str("64")));
  if (f->window) OK(qr_options_set(options, str("state.window"), str(f->window)));
  if (f->window) OK(qr_options_set(options, str("state.sink"), str("2")));
  status = qr_session_create(f->model, options, NULL, out);
  qr_options_destroy(options);
  return status;
}
static void open_with(fixture *f, const char *backend, const char *pairs) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator;
  allocator = counting(&f->counter);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &f->runtime));
  OK(model_in_memory(f->runtime, keep_model, sizeof keep_model, NULL, &f->model));
  OK(create(f, backend, pairs, "", &f->session));
  OK(qr_session_state(f->session, &f->state));
}
static void open_fixture(fixture *f, const char *backend, const char *pairs) {
  memset(f, 0, sizeof *f);
  open_with(f, backend, pairs);
}
static void open_windowed(fixture *f, const char *backend, const char *window) {
  memset(f, 0, sizeof *f);
  f->window = window;
  open_with(f, backend, "past:present");
}
static void close_fixture(fixture *f) {
  qr_state_destroy(f->state), qr_session_destroy(f->session), qr_model_destroy(f->model);
  qr_runtime_destroy(f->runtime);
  assert_int_equal(f->counter.live, 0), assert_int_equal(f->counter.mismatches, 0);
}

/* What a state should be: every row that it was given. */
typedef struct history {
  uint64_t rows;
  float x[BATCH][MOST][WIDE];
} history;

static unsigned next_number(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 16; }

/* A run of `n` new rows; 1 where the model keeps h too. */
static qr_status *give(qr_session *session, const float *x, int64_t n, float *y) {
  qr_tensor in = QR_TENSOR_INIT, h = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  static const float zeros[BATCH * WIDE];
  const qr_tensor *inputs[2] = {&in, &h};
  qr_tensor *outputs[2] = {&out, NULL};
  qr_status *status;
  in.dtype = QR_DTYPE_F32, in.rank = 3, in.dims[0] = BATCH, in.dims[1] = n, in.dims[2] = WIDE, in.const_data = x;
  h.dtype = QR_DTYPE_F32, h.rank = 2, h.dims[0] = BATCH, h.dims[1] = WIDE, h.const_data = zeros;
  status =
      qr_session_run(session, NULL, inputs, qr_session_input_count(session), outputs, qr_session_output_count(session));
  if (!status) memcpy(y, out.data, out.size_bytes);
  return status;
}

static float product(const float *a, const float *b) {
  float sum = 0;
  int64_t d;
  for (d = 0; d < WIDE; ++d) sum += a[d] * b[d];
  return sum;
}

static void step(qr_session *session, history *h, int64_t n, unsigned *seed) {
  float x[BATCH * MOST * WIDE], y[BATCH * MOST * MOST];
  int64_t b, i, m = (int64_t)h->rows + n;
  for (i = 0; i < BATCH * n * WIDE; ++i) x[i] = (float)(next_number(seed) % 9) - 4;
  OK(give(session, x, n, y));
  for (b = 0; b < BATCH; ++b) memcpy(h->x[b][h->rows], x + b * n * WIDE, (size_t)n * WIDE * sizeof *x);
  h->rows += (uint64_t)n;
  for (i = 0; i < BATCH * n * m; ++i) /* y[b][row of x][row that is kept] */
    assert_true(y[i] == product(x + i / m * WIDE, h->x[i / m / n][i % m]));
}

/* The tensor that grows is what was given; so is its length. */
static void check_rows(qr_state *state, const history *h) {
  float rows[BATCH * MOST * WIDE];
  qr_tensor tensor = QR_TENSOR_INIT;
  uint64_t length = 99, b;
  OK(qr_state_length(state, &length));
  assert_int_equal(length, h->rows);
  if (length == 0) return;
  OK(qr_state_read(state, 0, &tensor));
  assert_int_equal(tensor.size_bytes, BATCH * length * WIDE * sizeof(float));
  tensor.data = rows;
  OK(qr_state_read(state, 0, &tensor));
  for (b = 0; b < BATCH; ++b) assert_memory_equal(rows + b * length * WIDE, h->x[b], length * WIDE * sizeof(float));
}

static void save(qr_state *state, void **data, uint64_t *size) {
  qr_target target = QR_TARGET_INIT;
  target.kind = QR_TARGET_MEMORY, target.out_data = data, target.out_size_bytes = size;
  OK(qr_state_save(state, &target, NULL));
}

#define LINES 3
/* Lines of one history each, of which one session runs one at a time. */
typedef struct lines {
  fixture f;
  history rows[LINES], saved_rows;
  qr_state *states[LINES];
  void *saved;
  uint64_t saved_size, now;
} lines;

static void one_round(lines *l, unsigned *seed) {
  history *now = &l->rows[l->now];
  const unsigned what = next_number(seed) % 16, n = 1 + next_number(seed) % 3;
  const uint64_t other = next_number(seed) % LINES;
  if (what < 9) {
    if (now->rows + n <= MOST) step(l->f.session, now, n, seed);
  } else if (what < 11) {
    now->rows = next_number(seed) % (now->rows + 1);
    OK(qr_state_rewind(l->states[l->now], now->rows));
  } else if (what < 12) {
    if (other == l->now) return;
    qr_state_destroy(l->states[other]);
    OK(qr_state_fork(l->states[l->now], &l->states[other]));
    l->rows[other] = *now;
  } else if (what < 13) {
    OK(qr_session_set_state(l->f.session, l->states[other]));
    l->now = other;
  } else if (what < 14) {
    qr_string_destroy(l->saved);
    save(l->states[l->now], &l->saved, &l->saved_size);
    l->saved_rows = *now;
  } else if (l->saved) {
    OK(qr_state_load(l->states[other], l->saved, l->saved_size));
    l->rows[other] = l->saved_rows;
  }
  check_rows(l->states[l->now], &l->rows[l->now]), check_rows(l->states[other], &l->rows[other]);
}

static void one_sequence(const char *backend, unsigned seed) {
  lines *l = calloc(1, sizeof *l);
  int i;
  open_fixture(&l->f, backend, "past:present");
  l->states[0] = l->f.state;
  for (i = 1; i < LINES; ++i) OK(qr_state_fork(l->f.state, &l->states[i]));
  for (i = 0; i < 200; ++i) one_round(l, &seed);
  qr_string_destroy(l->saved);
  for (i = 0; i < LINES; ++i) qr_state_destroy(l->states[i]);
  l->f.state = NULL;
  close_fixture(&l->f);
  free(l);
}

/* What state.window leaves of a history. */
static void drop_old(history *h, uint64_t *dropped) {
  const uint64_t gone = h->rows > SINK + WINDOW ? h->rows - SINK - WINDOW : 0;
  int64_t b;
  for (b = 0; gone > 0 && b < BATCH; ++b) memmove(h->x[b][SINK], h->x[b][SINK + gone], WINDOW * WIDE * sizeof(float));
  h->rows -= gone, *dropped += gone;
}

static const char *const backends[] = {"cpu", "cpu-reference"};

static void test_random_sequences(void **state) {
  unsigned seed;
  (void)state;
  for (seed = 1; seed <= 8; ++seed) one_sequence(backends[seed % 2], seed * 77);
}

/* A window slides over more rows than there is room for, forked, saved and loaded on its way; the first rows stay. */
static void test_window(void **state) {
  size_t b;
  (void)state;
  for (b = 0; b < 2; ++b) {
    fixture f;
    history h;
    uint64_t dropped = 0, found = 0, size = 0;
    unsigned seed = 21, round;
    qr_session *refused = NULL;
    open_windowed(&f, backends[b], "5");
    memset(&h, 0, sizeof h);
    for (round = 0; round < 120; ++round) {
      qr_state *copy = NULL;
      void *data = NULL;
      step(f.session, &h, 1 + next_number(&seed) % (round % 10 == 9 ? MOST - SINK - WINDOW : 3), &seed);
      drop_old(&h, &dropped);
      check_rows(f.state, &h);
      OK(qr_state_dropped(f.state, &found));
      assert_int_equal(found, dropped);
      if (round % 7 == 3) {
        OK(qr_state_fork(f.state, &copy));
        check_rows(copy, &h);
        OK(qr_session_set_state(f.session, copy));
        qr_state_destroy(f.state);
        f.state = copy;
      } else if (round % 7 == 5) {
        save(f.state, &data, &size);
        OK(qr_state_reset(f.state));
        OK(qr_state_dropped(f.state, &found));
        assert_int_equal(found, 0);
        OK(qr_state_load(f.state, data, size));
        qr_string_destroy(data);
      } else if (round % 7 == 6) {
        h.rows = 1 + next_number(&seed) % h.rows;
        OK(qr_state_rewind(f.state, h.rows));
      }
    }
    assert_true(dropped > 2 * MOST);
    f.window = "22"; /* with the first two there is no room for another */
    FAILS("QR-R0021", "less than state.capacity together", create(&f, backends[b], "past:present", "", &refused));
    f.window = "0";
    FAILS("QR-R0021", "expected a window", create(&f, backends[b], "past:present", "", &refused));
    f.window = "5";
    FAILS("QR-R0021", "a state that grows", create(&f, backends[b], "h:hn", "", &refused));
    close_fixture(&f);
  }
}

/* The plan counts what the session's state holds then: the block of what grows, and what keeps its size twice. */
static void test_plan(void **state) {
  size_t b;
  (void)state;
  for (b = 0; b < 2; ++b) {
    fixture f;
    qr_options *options = NULL;
    qr_memory_plan with = QR_MEMORY_PLAN_INIT, without = QR_MEMORY_PLAN_INIT;
    const uint64_t block = BATCH * MOST * WIDE * 4, kept = BATCH * WIDE * 4;
    open_fixture(&f, backends[b], "auto");
    OK(qr_options_create(f.runtime, &options));
    OK(qr_options_set(options, str("backend"), str(backends[b])));
    OK(qr_options_set(options, str("shape"), str("batch=2,k=0..24,n=1..24")));
    OK(qr_session_plan(f.model, options, NULL, &without));
    OK(qr_options_set(options, str("state"), str("auto")));
    OK(qr_options_set(options, str("state.capacity"), str("24")));
    OK(qr_session_plan(f.model, options, NULL, &with));
    assert_int_equal(with.arena_bytes - without.arena_bytes, (b == 0 ? 1 : 2) * block + 2 * kept);
    qr_options_destroy(options);
    close_fixture(&f);
  }
}

static float column_sum(const history *h, int64_t b, int64_t column) {
  float sum = 0;
  uint64_t r;
  for (r = 0; r < h->rows; ++r) sum += h->x[b][r][column];
  return sum;
}

/* By name: what grows and what keeps its size. A reset makes the one empty, the other zeros. */
static void test_found_by_name(void **state) {
  size_t b;
  (void)state;
  for (b = 0; b < 2; ++b) {
    fixture f;
    history h;
    qr_state_info info = QR_STATE_INFO_INIT;
    qr_tensor tensor = QR_TENSOR_INIT;
    float sums[BATCH * WIDE];
    char *json = NULL;
    int round;
    unsigned seed = 5;
    open_fixture(&f, backends[b], "auto");
    assert_int_equal(qr_state_count(f.state), 2), assert_int_equal(qr_state_count(NULL), 0);
    assert_int_equal(qr_session_input_count(f.session), 1), assert_int_equal(qr_session_output_count(f.session), 1);
    FAILS("QR-R0028", "no value yet", qr_state_read(f.state, 1, &tensor));
    for (round = 0; round < 2; ++round) {
      int64_t i;
      memset(&h, 0, sizeof h);
      step(f.session, &h, 3, &seed), step(f.session, &h, 1, &seed);
      tensor.data = sums, tensor.size_bytes = sizeof sums;
      OK(qr_state_read(f.state, 1, &tensor));
      for (i = 0; i < BATCH * WIDE; ++i) assert_true(sums[i] == column_sum(&h, i / WIDE, i % WIDE));
      FAILS("QR-R0027", "expected 0 or 4: input 'h'", qr_state_rewind(f.state, 2));
      OK(qr_state_rewind(f.state, 4));
      check_rows(f.state, &h);
      /* By the name that ONNX Runtime's provider has for it. */
      OK(qr_session_set_option(f.session, str("kvcache_rewind"), str("1")));
      check_rows(f.state, &h);
      OK(qr_session_set_option(f.session, str("kvcache_rewind"), str("0")));
    }
    step(f.session, (memset(&h, 0, sizeof h), &h), 2, &seed);
    OK(qr_state_tensor(f.state, 0, &info));
    assert_int_equal(info.axis, 1), assert_int_equal(info.capacity, MOST), assert_int_equal(info.dims[1], 2);
    assert_true(strcmp(info.input.data, "past") == 0 && strcmp(info.output.data, "present") == 0);
    assert_int_equal(info.bytes, (b == 0 ? 1 : 2) * ((BATCH * MOST * WIDE * 4 + 64) & ~63));
    OK(qr_state_tensor(f.state, 1, &info));
    assert_int_equal(info.axis, -1), assert_int_equal(info.capacity, 0);
    FAILS("QR-C0008", "expected less than 2", qr_state_tensor(f.state, 2, &info));
    OK(qr_session_report(f.session, &json));
    assert_non_null(strstr(json, "\"length\": 2")), assert_non_null(strstr(json, "\"input\": \"past\""));
    qr_string_destroy(json);
    close_fixture(&f);
  }
}

/* Tensors that are none of the state's; then one that is, which the next run goes on from. */
static void write_others(fixture *f, history *h, unsigned *seed) {
  float x[BATCH * MOST * WIDE] = {0};
  qr_tensor tensor = QR_TENSOR_INIT;
  tensor.dtype = QR_DTYPE_F32, tensor.rank = 3, tensor.data = x;
  tensor.dims[0] = BATCH, tensor.dims[1] = 1, tensor.dims[2] = 5;
  FAILS("QR-R0025", "[2,1,5]", qr_state_write(f->state, 0, &tensor));
  tensor.dims[2] = WIDE, tensor.dims[1] = MOST + 1;
  FAILS("QR-R0024", "[2,25,4]", qr_state_write(f->state, 0, &tensor));
  tensor.dims[1] = 1, tensor.dtype = QR_DTYPE_F16;
  FAILS("QR-R0002", "expected f32", qr_state_write(f->state, 0, &tensor));
  tensor.dtype = QR_DTYPE_F32, tensor.data = NULL;
  FAILS("QR-R0004", "const_data alone", qr_state_write(f->state, 0, &tensor));
  tensor.data = x, tensor.size_bytes = 8;
  FAILS("QR-R0005", "expected 704", qr_state_read(f->state, 0, &tensor));
  check_rows(f->state, h);
  step(f->session, h, 2, seed);
  check_rows(f->state, h);
  memset(h, 0, sizeof *h);
  h->rows = 1, h->x[0][0][1] = x[1] = 3, h->x[1][0][2] = x[6] = -2;
  tensor.size_bytes = 0;
  OK(qr_state_write(f->state, 0, &tensor));
  check_rows(f->state, h);
  step(f->session, h, 2, seed);
}

static void test_errors_lose_nothing(void **state) {
  size_t b;
  (void)state;
  for (b = 0; b < 2; ++b) {
    fixture f;
    history h;
    float x[BATCH * MOST * WIDE] = {0}, y[BATCH * MOST * MOST];
    qr_tensor one = QR_TENSOR_INIT, row = QR_TENSOR_INIT;
    const qr_tensor *inputs[2] = {&one, &row};
    qr_tensor *outputs[2] = {NULL, NULL};
    unsigned seed = 3;
    memset(&h, 0, sizeof h);
    open_fixture(&f, backends[b], "past:present");
    step(f.session, &h, MOST - 2, &seed);
    FAILS("QR-R0024", "24 entries", give(f.session, x, 3, y));
    check_rows(f.state, &h);
    FAILS("QR-R0026", "expected at most 22", qr_state_rewind(f.state, 23));
    /* Another batch than the state has. */
    one.dtype = row.dtype = QR_DTYPE_F32, one.rank = 3, row.rank = 2, one.data = row.data = x;
    one.dims[0] = one.dims[1] = row.dims[0] = 1, one.dims[2] = row.dims[1] = WIDE;
    FAILS("QR-R0025", "expected [2,22,4]", qr_session_run(f.session, NULL, inputs, 2, outputs, 2));
    write_others(&f, &h, &seed);
    close_fixture(&f);
  }
}

static void test_saved_states(void **state) {
  fixture f, other;
  history h;
  uint8_t *bytes = NULL;
  void *data = NULL;
  uint64_t size = 0, cut;
  unsigned seed = 11;
  qr_session *wide = NULL;
  qr_state *there = NULL;
  (void)state;
  memset(&h, 0, sizeof h);
  open_fixture(&f, "cpu", "auto");
  step(f.session, &h, 5, &seed);
  save(f.state, &data, &size);
  bytes = data;
  for (cut = 0; cut < size; cut += 1 + cut / 7)
    FAILS("QR-R0029", "expected what qr_state_save wrote", qr_state_load(f.state, bytes, cut));
  for (cut = 12; cut < size; cut += 5) {
    bytes[cut] ^= 8;
    qr_status *status = qr_state_load(f.state, bytes, size);
    assert_non_null(status);
    /* (12: the number of pairs; 24: whose state it is.) */
    assert_string_equal(qr_status_id(status), cut < 16 || (cut >= 24 && cut < 32) ? "QR-R0031" : "QR-R0029");
    qr_status_destroy(status);
    bytes[cut] ^= 8;
  }
  bytes[8] = 9;
  FAILS("QR-R0030", "found version 9, expected 2", qr_state_load(f.state, bytes, size));
  bytes[8] = 2;
  bytes[24] ^= 1;
  FAILS("QR-R0031", "another model", qr_state_load(f.state, bytes, size));
  bytes[24] ^= 1;
  check_rows(f.state, &h);
  /* Of another session and backend, whose entries lie otherwise. */
  open_fixture(&other, "cpu-reference", "auto");
  OK(qr_state_load(other.state, bytes, size));
  check_rows(other.state, &h);
  step(other.session, &h, 2, &seed);
  FAILS("QR-C0007", "state of another session", qr_session_set_state(other.session, f.state));
  close_fixture(&other);
  OK(create(&f, "cpu", "past:present", "", &wide));
  OK(qr_session_state(wide, &there));
  FAILS("QR-R0031", "found 2 pairs, expected 1", qr_state_load(there, bytes, size));
  qr_state_destroy(there), qr_session_destroy(wide);
  qr_string_destroy(data);
  close_fixture(&f);
}

static void test_sessions_without(void **state) {
  fixture f;
  qr_session *session = NULL;
  qr_state *none = NULL;
  qr_tensor tensor = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&tensor};
  qr_tensor *outputs[1] = {NULL};
  (void)state;
  open_fixture(&f, "cpu", "auto");
  FAILS("QR-R0022", "option state", qr_session_submit(f.session, NULL, inputs, 1, outputs, 1, NULL));
  OK(create(&f, "cpu", "", "", &session));
  FAILS("QR-R0023", "keeps no state", qr_session_state(session, &none));
  qr_session_destroy(session);
  FAILS("QR-R0021", "no input 'pats'; did you mean 'past'?", create(&f, "cpu", "pats:present", "", &session));
  FAILS("QR-R0021", "no output 'presnt'", create(&f, "cpu", "past:presnt", "", &session));
  FAILS("QR-R0021", "found 'past', expected auto", create(&f, "cpu", "past", "", &session));
  FAILS("QR-R0021", "twice", create(&f, "cpu", "past:present,past:present", "", &session));
  FAILS("QR-R0021", "of rank 3", create(&f, "cpu", "past:hn", "", &session));
  /* A past of constant size is the capacity, of which a mask and positions say what counts: here there is neither. */
  FAILS("QR-R0022", "no input with the positions of new entries",
        create(&f, "cpu", "past:present", "k=3,n=1,batch=1", &session));
  close_fixture(&f);
}

/* Behind the first runs of its lengths a session on cpu allocates nothing (cpu-reference makes room for a range's
 * shapes in each run); a state that runs out of memory is as it was. */
static void test_memory(void **state) {
  size_t b;
  (void)state;
  for (b = 0; b < 2; ++b) {
    fixture f;
    history h;
    unsigned seed = 21;
    uint64_t n, made;
    int round, i;
    open_fixture(&f, backends[b], "auto");
    for (round = 0; round < 3; ++round) {
      memset(&h, 0, sizeof h);
      made = f.counter.made;
      for (i = 0; i < 10; ++i) step(f.session, &h, 1 + i % 2, &seed);
      if (round > 1 && b == 0) assert_int_equal(f.counter.made, made);
      OK(qr_state_reset(f.state));
    }
    memset(&h, 0, sizeof h);
    step(f.session, &h, 2, &seed);
    for (n = 1;; ++n) {
      qr_state *fork = NULL;
      qr_status *status;
      f.counter.made = 0, f.counter.fail_at = n;
      status = qr_state_fork(f.state, &fork);
      f.counter.fail_at = 0;
      if (!status) {
        check_rows(fork, &h);
        qr_state_destroy(fork);
        break;
      }
      assert_int_equal(qr_status_code(status), QR_RESOURCE_EXHAUSTED);
      qr_status_destroy(status);
    }
    assert_true(n > 2);
    close_fixture(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_sequences),
      cmocka_unit_test(test_window),
      cmocka_unit_test(test_plan),
      cmocka_unit_test(test_found_by_name),
      cmocka_unit_test(test_errors_lose_nothing),
      cmocka_unit_test(test_saved_states),
      cmocka_unit_test(test_sessions_without),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
