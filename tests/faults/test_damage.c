/* SPDX-License-Identifier: Apache-2.0 */
/* A real container, cut at every length and with bytes changed, through the whole way to a run: a clear error, or the
 * answer that the whole file gives. Where sums of weights are not asked for (the default), the answer may be another,
 * and nothing else: memory is looked after by the address sanitizer. */
#include "capi_test.h"

typedef struct damaged {
  qr_runtime *runtime;
  qr_options *options;
  unsigned char *bytes;
  size_t size;
  float expected[10];
  int refused, ran;
} damaged;

static uint64_t random_state = 1;
static uint32_t next_random(void) {
  return random_state = random_state * 6364136223846793005u + 1442695040888963407u, (uint32_t)(random_state >> 33);
}

/* The whole way; a failure, or `out`. */
static qr_status *use(const damaged *d, const void *data, size_t size, float out[10]) {
  static float image[64];
  qr_tensor in = QR_TENSOR_INIT, result = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&result};
  qr_model *model = NULL;
  qr_session *session = NULL;
  qr_status *status;
  int i;
  for (i = 0; i < 64; ++i) image[i] = (float)(i % 7) / 7;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8, in.data = image,
  in.size_bytes = sizeof image;
  result.data = out, result.size_bytes = 10 * sizeof(float);
  status = model_in_memory(d->runtime, data, size, d->options, &model);
  if (!status) status = qr_session_create(model, d->options, NULL, &session);
  if (!status) status = qr_session_run(session, NULL, inputs, 1, outputs, 1);
  qr_session_destroy(session), qr_model_destroy(model);
  return status;
}

static void open_damaged(damaged *d, const char *backend, const char *verify) {
  char path[64];
  FILE *file;
  qr_model *model = NULL;
  memset(d, 0, sizeof *d);
  snprintf(path, sizeof path, "./damage-%s.qrm", backend);
  OK(qr_runtime_create(NULL, &d->runtime));
  OK(qr_options_create(d->runtime, &d->options));
  OK(qr_options_set(d->options, str("backend"), str(backend)));
  OK(qr_options_set(d->options, str("threads"), str("1")));
  OK(qr_options_set(d->options, str("verify"), str(verify)));
  OK(model_at_path(d->runtime, str(digits_path()), d->options, &model));
  OK(qr_model_compile(model, d->options, &(qr_target)QR_TARGET_AT(path), NULL));
  qr_model_destroy(model);
  file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  d->size = (size_t)ftell(file);
  rewind(file);
  assert_int_equal(posix_memalign((void **)&d->bytes, 4096, d->size), 0);
  assert_int_equal(fread(d->bytes, 1, d->size, file), d->size);
  fclose(file);
  OK(use(d, d->bytes, d->size, d->expected));
}

static void close_damaged(damaged *d) {
  free(d->bytes);
  qr_options_destroy(d->options);
  qr_runtime_destroy(d->runtime);
}

static void judge(damaged *d, qr_status *status, const float out[10], int any_answer) {
  if (status) {
    ++d->refused;
    assert_int_equal(strncmp(qr_status_id(status), "QR-", 3), 0);
    assert_true(qr_status_message(status)[0] != '\0');
    qr_status_destroy(status);
    return;
  }
  ++d->ran;
  if (!any_answer) assert_memory_equal(out, d->expected, sizeof d->expected);
}

static void change_bytes(const char *backend, const char *verify, int rounds, int any_answer) {
  damaged d;
  float out[10];
  int round;
  open_damaged(&d, backend, verify);
  for (round = 0; round < rounds; ++round) {
    /* Half of the changes among the tables, which a small model's weights would otherwise drown. */
    const size_t at = next_random() % (round % 2 ? d.size : d.size < 16384 ? d.size : 16384);
    const unsigned char before = d.bytes[at];
    d.bytes[at] ^= (unsigned char)(1 + next_random() % 255);
    judge(&d, use(&d, d.bytes, d.size, out), out, any_answer);
    d.bytes[at] = before;
  }
  print_message("%s, verify=%s: %d bytes changed: %d refused, %d ran\n", backend, verify, rounds, d.refused, d.ran);
  assert_true(d.refused > rounds / 20 && d.ran > 0);
  close_damaged(&d);
}

static void test_changed(void **state) {
  (void)state, change_bytes("cpu", "lazy", 10000, 0), change_bytes("cpu-reference", "lazy", 10000, 0);
}
static void test_changed_unsummed(void **state) {
  (void)state, change_bytes("cpu", "program", 4000, 1), change_bytes("cpu", "off", 4000, 1),
      change_bytes("cpu-reference", "off", 4000, 1);
}

static void test_cut(void **state) {
  damaged d;
  float out[10];
  size_t size;
  (void)state;
  open_damaged(&d, "cpu", "program");
  for (size = 0; size < d.size; ++size) judge(&d, use(&d, d.bytes, size, out), out, 0);
  assert_int_equal(d.ran, 0);
  close_damaged(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_changed), cmocka_unit_test(test_changed_unsummed),
                                     cmocka_unit_test(test_cut)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
