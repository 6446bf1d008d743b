/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters: applied, exchanged and removed between runs, in clones, queues and containers; files cut and altered; the
 * Nth allocation fails. What they say is worked out by hand.
 */
#include "adapter_model.h"
#include "capi_test.h"

/* Rank 1: A [1, 2] and B [2, 1], so that y += s * (a . x) * b. */
typedef struct adapter_file {
  uint8_t bytes[512];
  uint64_t size;
} adapter_file;

static adapter_file make_file(const float *a, const float *b) {
  static const char header[] =
      "{\"q.lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
      "\"q.lora_B.weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[8,16]},\"__metadata__\":{\"a\":\"b\"}}";
  adapter_file out;
  const uint64_t length = sizeof header - 1;
  unsigned i;
  for (i = 0; i < 8; ++i) out.bytes[i] = (uint8_t)(length >> (8 * i));
  memcpy(out.bytes + 8, header, length);
  memcpy(out.bytes + 8 + length, a, 8), memcpy(out.bytes + 16 + length, b, 8);
  out.size = length + 24;
  return out;
}

static qr_status *open_adapter(const qr_session *session, const adapter_file *file, float alpha, float strength,
                               qr_adapter **out) {
  const qr_model_source source = QR_MODEL_IN_MEMORY(file->bytes, file->size);
  qr_adapter_options how = QR_ADAPTER_OPTIONS_INIT;
  how.alpha = alpha, how.strength = strength;
  return qr_adapter_open(session, &source, &how, NULL, out);
}

static qr_session *make_session(qr_runtime *runtime, const char *backend, const char *targets) {
  qr_options *options = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("backend"), str(backend)));
  if (*targets) OK(qr_options_set(options, str("adapter.targets"), str(targets)));
  OK(model_in_memory(runtime, product_model, sizeof product_model, NULL, &model));
  OK(qr_session_create(model, options, NULL, &session));
  qr_model_destroy(model), qr_options_destroy(options);
  return session;
}

static qr_tensor row(float *data) {
  qr_tensor out = QR_TENSOR_INIT;
  out.dtype = QR_DTYPE_F32, out.rank = 2, out.dims[0] = 1, out.dims[1] = 2, out.data = data, out.size_bytes = 8;
  return out;
}

static void expect(qr_session *session, float left, float right) {
  float x[2] = {1, 10}, y[2] = {0, 0};
  qr_tensor in = row(x), out = row(y);
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&out};
  OK(qr_session_run(session, NULL, inputs, 1, outputs, 1));
  assert_true(y[0] == left && y[1] == right);
}

static const float kA[2] = {1, 1}, kB[2] = {1, -1}, kOtherB[2] = {0, 100};

static void test_exchanged_between_runs(void **state) {
  const char *const backends[] = {"cpu", "cpu-reference"};
  size_t i;
  (void)state;
  for (i = 0; i < 2; ++i) {
    counting_allocator counter = {0};
    const qr_allocator allocator = counting(&counter);
    qr_runtime_options how = QR_RUNTIME_OPTIONS_INIT;
    const adapter_file file = make_file(kA, kB), other = make_file(kA, kOtherB);
    qr_runtime *runtime = NULL;
    qr_session *session, *clone = NULL, *second;
    qr_adapter *one = NULL, *two = NULL, *half = NULL;
    char *report = NULL;
    uint64_t before;
    how.allocator = &allocator;
    OK(qr_runtime_create(&how, &runtime));
    session = make_session(runtime, backends[i], "*");
    assert_int_equal(qr_session_input_count(session), 1);
    expect(session, 31, 42);
    OK(open_adapter(session, &file, 1, 1, &one));
    OK(open_adapter(session, &other, 2, 1, &two));
    OK(open_adapter(session, &file, 1, 0.5f, &half));
    expect(session, 31, 42); /* to open is not to apply */
    OK(qr_session_set_adapter(session, one));
    expect(session, 42, 31);
    OK(qr_session_clone(session, NULL, &clone));
    OK(qr_session_set_adapter(session, two));
    expect(session, 31, 42 + 2200), expect(clone, 42, 31);
    before = counter.made; /* to exchange adapters takes no memory */
    OK(qr_session_set_adapter(session, half));
    OK(qr_session_set_adapter(clone, NULL));
    assert_int_equal(counter.made, before);
    expect(session, 36.5f, 36.5f), expect(clone, 31, 42);
    second = make_session(runtime, backends[i], "q"); /* another session with the same weights */
    OK(qr_session_set_adapter(second, one));
    qr_adapter_destroy(one), qr_adapter_destroy(two), qr_adapter_destroy(half);
    expect(second, 42, 31), expect(session, 36.5f, 36.5f);
    OK(qr_session_report(session, &report));
    assert_non_null(strstr(report, "\"applied\": true")), assert_non_null(strstr(report, "\"changed\": 1"));
    qr_string_destroy(report);
    qr_session_destroy(session), qr_session_destroy(clone), qr_session_destroy(second), qr_runtime_destroy(runtime);
    qr_adapter_destroy(NULL);
    assert_int_equal(counter.live, 0), assert_int_equal(counter.mismatches, 0);
  }
}

/* A run that was submitted computes with the adapter that was there then. */
static void test_queued_runs(void **state) {
  const qr_model_source file = QR_MODEL_IN_MEMORY(rank_one_adapter, sizeof rank_one_adapter);
  qr_adapter_options how = QR_ADAPTER_OPTIONS_INIT;
  qr_runtime *runtime = NULL;
  qr_session *session;
  qr_adapter *adapter = NULL;
  float x[2] = {1, 10}, y[2] = {0, 0}, z[2] = {0, 0};
  qr_tensor in = row(x), first = row(y), next = row(z);
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&first};
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  session = make_session(runtime, "cpu", "q");
  how.alpha = 1;
  OK(qr_adapter_open(session, &file, &how, NULL, &adapter));
  OK(qr_session_set_adapter(session, adapter));
  qr_adapter_destroy(adapter);
  OK(qr_session_submit(session, NULL, inputs, 1, outputs, 1, NULL));
  OK(qr_session_set_adapter(session, NULL));
  outputs[0] = &next;
  OK(qr_session_submit(session, NULL, inputs, 1, outputs, 1, NULL));
  OK(qr_session_wait(session, 0, NULL, NULL));
  assert_true(y[0] == 42 && y[1] == 31 && z[0] == 31 && z[1] == 42);
  qr_session_destroy(session), qr_runtime_destroy(runtime);
}

static void test_container(void **state) {
  const adapter_file file = make_file(kA, kB);
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *model = NULL, *compiled = NULL;
  qr_session *session = NULL;
  qr_adapter *adapter = NULL;
  void *data = NULL;
  uint64_t size = 0;
  const qr_target target = QR_TARGET_IN_MEMORY(&data, &size);
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("adapter.targets"), str("q")));
  OK(qr_options_set(options, str("adapter.rank"), str("2")));
  OK(model_in_memory(runtime, product_model, sizeof product_model, NULL, &model));
  OK(qr_model_compile(model, options, &target, NULL));
  OK(model_in_memory(runtime, data, size, NULL, &compiled));
  OK(qr_session_create(compiled, NULL, NULL, &session));
  assert_int_equal(qr_session_input_count(session), 1), assert_int_equal(qr_model_input_count(compiled), 3);
  OK(open_adapter(session, &file, 1, 1, &adapter));
  OK(qr_session_set_adapter(session, adapter));
  expect(session, 42, 31);
  qr_session_destroy(session), session = NULL;
  OK(qr_session_create(compiled, options, NULL, &session)); /* as it was compiled */
  OK(qr_session_set_adapter(session, adapter));
  expect(session, 42, 31);
  qr_session_destroy(session), session = NULL;
  OK(qr_options_set(options, str("adapter.rank"), str("3")));
  FAILS("QR-C0103", "adapter.rank", qr_session_create(compiled, options, NULL, &session));
  OK(qr_session_create(model, options, NULL, &session)); /* room for another rank is another shape */
  FAILS("QR-A0006", "other weights", qr_session_set_adapter(session, adapter));
  qr_session_destroy(session), qr_adapter_destroy(adapter), qr_model_destroy(compiled), qr_model_destroy(model);
  qr_options_destroy(options), qr_runtime_destroy(runtime), qr_string_destroy(data);
}

static void test_mistakes(void **state) {
  adapter_file file = make_file(kA, kB);
  const qr_model_source none = QR_MODEL_AT("/nowhere/a.safetensors");
  qr_adapter_options how = QR_ADAPTER_OPTIONS_INIT;
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *model = NULL;
  qr_session *session, *plain;
  qr_adapter *adapter = NULL;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  session = make_session(runtime, "cpu", "q"), plain = make_session(runtime, "cpu", "");
  FAILS("QR-A0005", "adapter.targets", open_adapter(plain, &file, 1, 1, &adapter));
  FAILS("QR-A0005", "adapter.targets", qr_session_set_adapter(plain, NULL));
  FAILS("QR-A0004", "lora_alpha", open_adapter(session, &file, 0, 1, &adapter));
  FAILS("QR-F0001", "nowhere", qr_adapter_open(session, &none, NULL, NULL, &adapter));
  FAILS("QR-C0002", "session", qr_adapter_open(NULL, &none, NULL, NULL, &adapter));
  FAILS("QR-C0002", "session", qr_session_set_adapter(NULL, NULL));
  how.alpha = 1.0f / 0.0f;
  FAILS("QR-C0007", "alpha", qr_adapter_open(session, &none, &how, NULL, &adapter));
  how.struct_size = 8;
  FAILS("QR-C0003", "qr_adapter_options", qr_adapter_open(session, &none, &how, NULL, &adapter));
  memcpy(strstr((char *)file.bytes + 8, "F32"), "F99", 3);
  FAILS("QR-A0003", "F99", open_adapter(session, &file, 1, 1, &adapter));
  memcpy(strstr((char *)file.bytes + 8, "F99"), "F32", 3);
  memcpy(strstr((char *)file.bytes + 8, "q.lora_B"), "k.lora_B", 8);
  FAILS("QR-A0002", "k.lora_B", open_adapter(session, &file, 1, 1, &adapter));
  file.size = 12;
  FAILS("QR-A0001", "safetensors", open_adapter(session, &file, 1, 1, &adapter));
  OK(qr_options_create(runtime, &options));
  OK(model_in_memory(runtime, product_model, sizeof product_model, NULL, &model));
  qr_session_destroy(session), session = NULL;
  OK(qr_options_set(options, str("adapter.targets"), str("k")));
  FAILS("QR-C0102", "no weight 'k'", qr_session_create(model, options, NULL, &session));
  qr_session_destroy(plain), qr_model_destroy(model), qr_options_destroy(options), qr_runtime_destroy(runtime);
}

/* Cut at every byte, and with each byte altered: an error or an adapter, nothing else. */
static void test_damage(void **state) {
  const adapter_file whole = make_file(kA, kB);
  const uint8_t letters[] = {0, 0xff, '0', '9', '{', '}', '"', ',', '-', 'e'};
  qr_runtime *runtime = NULL;
  qr_session *session;
  qr_adapter *adapter = NULL;
  uint64_t at, refused = 0;
  size_t i;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  session = make_session(runtime, "cpu", "q");
  for (at = 0; at < whole.size; ++at) {
    adapter_file file = whole;
    file.size = at;
    FAILS("QR-A0001", "", open_adapter(session, &file, 1, 1, &adapter));
  }
  for (at = 0; at < whole.size - 16; ++at) {
    for (i = 0; i < sizeof letters; ++i) {
      adapter_file file = whole;
      qr_status *status;
      if (file.bytes[at] == letters[i]) continue;
      file.bytes[at] = letters[i];
      status = open_adapter(session, &file, 1, 1, &adapter);
      refused += status != NULL;
      if (status) qr_status_destroy(status);
      else qr_adapter_destroy(adapter);
    }
  }
  assert_true(refused > 500);
  qr_session_destroy(session), qr_runtime_destroy(runtime);
}

static void test_every_allocation_fails(void **state) {
  const adapter_file file = make_file(kA, kB);
  counting_allocator counter = {0};
  const qr_allocator allocator = counting(&counter);
  qr_runtime_options how = QR_RUNTIME_OPTIONS_INIT;
  qr_runtime *runtime = NULL;
  qr_session *session;
  uint64_t n, live, failures = 0;
  (void)state;
  how.allocator = &allocator;
  OK(qr_runtime_create(&how, &runtime));
  session = make_session(runtime, "cpu", "q");
  expect(session, 31, 42); /* what a first run takes */
  live = counter.live;
  for (n = 1;; ++n) {
    qr_adapter *adapter = NULL;
    qr_status *status;
    counter.made = 0, counter.fail_at = n;
    status = open_adapter(session, &file, 1, 1, &adapter);
    counter.fail_at = 0;
    if (!status) {
      const int was_reached = counter.made >= n;
      OK(qr_session_set_adapter(session, adapter));
      expect(session, 42, 31);
      OK(qr_session_set_adapter(session, NULL));
      qr_adapter_destroy(adapter);
      if (!was_reached) break;
      continue;
    }
    ++failures;
    assert_int_equal(qr_status_code(status), QR_RESOURCE_EXHAUSTED);
    qr_status_destroy(status);
    assert_int_equal(counter.live, live);
  }
  assert_true(failures > 10);
  qr_session_destroy(session), qr_runtime_destroy(runtime);
  assert_int_equal(counter.live, 0), assert_int_equal(counter.mismatches, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exchanged_between_runs),
      cmocka_unit_test(test_queued_runs),
      cmocka_unit_test(test_container),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_damage),
      cmocka_unit_test(test_every_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
