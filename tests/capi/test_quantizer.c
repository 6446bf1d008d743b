/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisations that are stopped: by a progress function at each of its reports, by a time that is of the whole call.
 * What follows is as if nothing had been. */
#include <quarry/quantize.h>
#include <time.h>
#include <unistd.h>

#include "capi_test.h"

#define SAMPLES 6

typedef struct teller {
  uint64_t told, stops_at; /* reports so far; the one that says stop, from 1 */
  long pause_ns;           /* that a report takes */
} teller;

static int32_t tell(void *self, uint64_t done, uint64_t total, qr_string what) {
  teller *t = self;
  (void)done, (void)total;
  assert_true(what.size > 0);
  if (t->pause_ns) nanosleep(&(struct timespec){0, t->pause_ns}, NULL);
  return ++t->told == t->stops_at ? QR_STOP : QR_GO_ON;
}

static qr_quantizer *opened(qr_runtime *runtime) {
  qr_quantizer *quantizer = NULL;
  OK(qr_quantizer_open(runtime, &(qr_model_source)QR_MODEL_AT(digits_path()), NULL, &quantizer));
  /* The graph is chosen with the samples that are kept, before the next; roundings are tried. */
  OK(qr_quantizer_set(quantizer, str("evaluate"), str("4")));
  OK(qr_quantizer_set(quantizer, str("adaptive_rounding"), str("1")));
  OK(qr_quantizer_set(quantizer, str("range"), str("auto")));
  OK(qr_quantizer_set(quantizer, str("threads"), str("2")));
  return quantizer;
}

static qr_status *add(qr_quantizer *quantizer, int sample, const qr_call_options *call) {
  float values[64];
  qr_tensor image = QR_TENSOR_INIT;
  const qr_tensor *inputs[] = {&image};
  for (int i = 0; i < 64; ++i) values[i] = (float)((i * 37 + sample * 101) % 17) / 16;
  image.dtype = QR_DTYPE_F32, image.rank = 4, image.data = values, image.size_bytes = sizeof values;
  image.dims[0] = image.dims[1] = 1, image.dims[2] = image.dims[3] = 8;
  return qr_quantizer_add_sample(quantizer, inputs, 1, call);
}

static uint64_t sample_count(qr_quantizer *quantizer) {
  uint64_t count = 0;
  OK(qr_quantizer_sample_count(quantizer, &count));
  return count;
}

static size_t content(const char *path, char *to, size_t room) {
  FILE *file = fopen(path, "rb");
  size_t size;
  assert_non_null(file);
  size = fread(to, 1, room, file);
  fclose(file);
  assert_true(size > 0 && size < room);
  return size;
}

static void check_same(const char *path) {
  static char expected[1 << 20], found[1 << 20];
  const size_t size = content("./never_stopped.onnx", expected, sizeof expected);
  assert_int_equal(content(path, found, sizeof found), size);
  assert_memory_equal(found, expected, size);
  unlink(path);
}

typedef struct fixture {
  counting_allocator counter;
  qr_allocator allocator;
  qr_runtime *runtime;
} fixture;

static int begin(void **state) {
  static fixture f;
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_quantizer *quantizer;
  f.allocator = counting(&f.counter);
  options.allocator = &f.allocator;
  OK(qr_runtime_create(&options, &f.runtime));
  quantizer = opened(f.runtime);
  for (int i = 0; i < SAMPLES; ++i) OK(add(quantizer, i, NULL));
  OK(qr_quantizer_write(quantizer, &(qr_target)QR_TARGET_AT("./never_stopped.onnx"), NULL));
  qr_quantizer_destroy(quantizer);
  *state = &f;
  return 0;
}

static int end(void **state) {
  fixture *f = *state;
  qr_runtime_destroy(f->runtime);
  return f->counter.live != 0 || f->counter.mismatches != 0;
}

static void test_stopped_by_progress(void **state) {
  fixture *f = *state;
  qr_quantizer *quantizer = opened(f->runtime);
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  qr_progress progress = QR_PROGRESS_INIT;
  teller t = {0, 0, 0};
  uint64_t reports, step;
  progress.self = &t, progress.report = tell;
  call.progress = &progress;
  for (int sample = 0; sample < SAMPLES; ++sample) {
    for (t.stops_at = 1;; ++t.stops_at) {
      qr_status *status;
      t.told = 0;
      status = add(quantizer, sample, &call);
      if (t.told < t.stops_at) {
        OK(status);
        break;
      }
      FAILS("QR-C0013", "progress function", status);
      assert_int_equal(sample_count(quantizer), sample);
    }
    assert_true(t.stops_at > 1);
    assert_int_equal(sample_count(quantizer), sample + 1);
  }
  t.told = 0, t.stops_at = 0;
  OK(qr_quantizer_write(quantizer, &(qr_target)QR_TARGET_AT("./stopped.onnx"), &call));
  check_same("./stopped.onnx");
  reports = t.told, step = reports / 16 + 1;
  assert_true(reports > 4);
  for (t.stops_at = 1; t.stops_at <= reports; t.stops_at += t.stops_at < 4 ? 1 : step) {
    t.told = 0;
    FAILS("QR-C0013", "qr_quantizer_write",
          qr_quantizer_write(quantizer, &(qr_target)QR_TARGET_AT("./stopped.onnx"), &call));
    assert_int_equal(t.told, t.stops_at); /* nothing went on */
    assert_int_equal(access("./stopped.onnx", F_OK), -1);
  }
  OK(qr_quantizer_write(quantizer, &(qr_target)QR_TARGET_AT("./stopped.onnx"), NULL));
  check_same("./stopped.onnx");
  qr_quantizer_destroy(quantizer);
}

/* A time that is enough for each run by itself, and not for all of them: what is asked for takes twice as long. */
static void test_time_is_of_the_whole_call(void **state) {
  fixture *f = *state;
  qr_quantizer *quantizer = opened(f->runtime);
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  qr_progress progress = QR_PROGRESS_INIT;
  teller t = {0, 0, 0};
  unlink("./late.onnx");
  OK(qr_signal_create(f->runtime, &call.signal));
  for (int i = 0; i < SAMPLES; ++i) OK(add(quantizer, i, &call));
  progress.self = &t, progress.report = tell;
  call.progress = &progress;
  OK(qr_quantizer_write(quantizer, &(qr_target)QR_TARGET_AT("./late.onnx"), &call));
  check_same("./late.onnx");
  t.pause_ns = 20000000;
  qr_signal_set_timeout(call.signal, t.told * 10000000);
  FAILS("QR-C0012", "", qr_quantizer_write(quantizer, &(qr_target)QR_TARGET_AT("./late.onnx"), &call));
  assert_int_equal(access("./late.onnx", F_OK), -1);
  qr_signal_set_timeout(call.signal, 0);
  FAILS("QR-C0012", "", add(quantizer, 0, &call));
  assert_int_equal(sample_count(quantizer), SAMPLES);
  qr_signal_set_timeout(call.signal, QR_NO_TIMEOUT);
  t.pause_ns = 0;
  OK(qr_quantizer_write(quantizer, &(qr_target)QR_TARGET_AT("./late.onnx"), &call));
  check_same("./late.onnx");
  qr_signal_destroy(call.signal);
  qr_quantizer_destroy(quantizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stopped_by_progress),
      cmocka_unit_test(test_time_is_of_the_whole_call),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
