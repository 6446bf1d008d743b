/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of the C ABI with NULL, zero, a wrong size, an unknown field and an unknown flag. Nothing may crash;
 * each refusal names what is wrong; outputs stay as they were. */
#include "capi_test.h"

typedef struct fixture {
  qr_runtime *runtime;
  qr_options *options;
  qr_model *model;
  qr_session *session;
  qr_signal *signal;
  qr_profile *profile;
  qr_memory *memory;
  float input[64], output[10];
  qr_tensor in, out;
} fixture;

static const qr_string kNull = {NULL, 0};

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  OK(qr_runtime_create(NULL, &f->runtime));
  OK(qr_options_create(f->runtime, &f->options));
  OK(model_at_path(f->runtime, str(digits_path()), NULL, &f->model));
  OK(qr_session_create(f->model, f->options, NULL, &f->session));
  OK(qr_signal_create(f->runtime, &f->signal));
  OK(qr_profile_create(f->runtime, &f->profile));
  OK(qr_memory_allocate(f->session, 256, NULL, &f->memory));
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8, in.data = f->input,
  in.size_bytes = sizeof f->input;
  out.data = f->output, out.size_bytes = sizeof f->output;
  f->in = in, f->out = out;
  *state = f;
  return 0;
}
static int tear_down(void **state) {
  fixture *f = *state;
  qr_runtime_destroy(f->runtime), qr_model_destroy(f->model),
      qr_options_destroy(f->options); /* parents first: any order is right */
  qr_session_destroy(f->session), qr_signal_destroy(f->signal), qr_profile_destroy(f->profile),
      qr_memory_destroy(f->memory);
  free(f);
  return 0;
}

#define NULLED(name, call) FAILS("QR-C0002", name, call)

/* What functions that refuse must leave as it is, and what they may write first. */
typedef struct results {
  qr_runtime *runtime;
  qr_options *options;
  qr_model *model;
  qr_session *session;
  qr_signal *signal;
  qr_profile *profile;
  qr_memory *memory;
  qr_string text, other;
  char *json;
  uint64_t count;
  qr_compatibility grade;
  qr_backend_info backend;
  qr_device_info device;
  qr_option_info option;
  qr_tensor_info tensor;
  qr_memory_plan plan;
  qr_profile_event event;
} results;

static void null_in_runtime(fixture *f, results *o) {
  NULLED("out_runtime", qr_runtime_create(NULL, NULL));
  NULLED("runtime", qr_runtime_scan(NULL, &o->count));
  NULLED("out_count", qr_runtime_scan(f->runtime, NULL));
  NULLED("runtime", qr_runtime_backend(NULL, 0, &o->backend));
  NULLED("out_info", qr_runtime_backend(f->runtime, 0, NULL));
  NULLED("runtime", qr_runtime_device(NULL, 0, 0, &o->device));
  NULLED("out_info", qr_runtime_device(f->runtime, 0, 0, NULL));
  NULLED("runtime", qr_runtime_search_path(NULL, 0, &o->text, &o->other));
  NULLED("out_path", qr_runtime_search_path(f->runtime, 0, NULL, &o->other));
  NULLED("out_origin", qr_runtime_search_path(f->runtime, 0, &o->text, NULL));
  NULLED("runtime", qr_runtime_operators(NULL, str("cpu-reference"), &o->json));
  NULLED("out_json", qr_runtime_operators(f->runtime, str(""), NULL));
  NULLED("runtime", qr_runtime_option(NULL, 0, &o->option));
  NULLED("out_info", qr_runtime_option(f->runtime, 0, NULL));
  NULLED("runtime", qr_options_create(NULL, &o->options));
  NULLED("out_options", qr_options_create(f->runtime, NULL));
  NULLED("options", qr_options_set(NULL, str("threads"), str("1")));
  NULLED("key", qr_options_set(f->options, (qr_string){NULL, 3}, str("1")));
  NULLED("value", qr_options_set(f->options, str("threads"), (qr_string){NULL, 3}));
  NULLED("options", qr_options_get(NULL, str("threads"), &o->text));
  NULLED("out_value", qr_options_get(f->options, str("threads"), NULL));
}

static void null_in_model(fixture *f, results *o) {
  NULLED("runtime", model_at_path(NULL, str("x"), NULL, &o->model));
  NULLED("path", model_at_path(f->runtime, (qr_string){NULL, 1}, NULL, &o->model));
  NULLED("out_model", model_at_path(f->runtime, str(digits_path()), NULL, NULL));
  NULLED("runtime", model_in_file(NULL, 0, 0, 0, NULL, &o->model));
  NULLED("out_model", model_in_file(f->runtime, 0, 0, 0, NULL, NULL));
  NULLED("runtime", model_in_memory(NULL, "x", 1, NULL, &o->model));
  NULLED("data", model_in_memory(f->runtime, NULL, 1, NULL, &o->model));
  NULLED("out_model", model_in_memory(f->runtime, "x", 1, NULL, NULL));
  NULLED("source", qr_model_open(f->runtime, NULL, NULL, NULL, &o->model));
  NULLED("model", qr_model_input(NULL, 0, &o->tensor));
  NULLED("out_info", qr_model_input(f->model, 0, NULL));
  NULLED("model", qr_model_output(NULL, 0, &o->tensor));
  NULLED("out_info", qr_model_output(f->model, 0, NULL));
  NULLED("model", qr_model_input_dim_name(NULL, 0, 0, &o->text));
  NULLED("out_name", qr_model_input_dim_name(f->model, 0, 0, NULL));
  NULLED("model", qr_model_inspect(NULL, NULL, &o->json));
  NULLED("out_json", qr_model_inspect(f->model, NULL, NULL));
  NULLED("model", qr_model_verify(NULL, NULL));
  NULLED("model", qr_model_compile(NULL, NULL, &(qr_target)QR_TARGET_AT("x"), NULL));
  NULLED("target", qr_model_compile(f->model, NULL, NULL, NULL));
  NULLED("model", qr_model_export(NULL, NULL, &(qr_target)QR_TARGET_AT("x.onnx"), NULL));
  NULLED("target", qr_model_export(f->model, NULL, NULL, NULL));
  NULLED("model", qr_model_check(NULL, NULL, NULL, &o->json));
  NULLED("out_json", qr_model_check(f->model, NULL, NULL, NULL));
  NULLED("model", qr_model_compatibility(NULL, NULL, NULL, &o->grade, &o->json));
  NULLED("out_grade", qr_model_compatibility(f->model, NULL, NULL, NULL, &o->json));
  NULLED("out_reason", qr_model_compatibility(f->model, NULL, NULL, &o->grade, NULL));
}

static void null_in_session(fixture *f, results *o) {
  const qr_tensor *inputs[1] = {&f->in};
  qr_tensor *outputs[1] = {&f->out};
  NULLED("model", qr_session_plan(NULL, NULL, NULL, &o->plan));
  NULLED("out_plan", qr_session_plan(f->model, NULL, NULL, NULL));
  NULLED("model", qr_session_create(NULL, NULL, NULL, &o->session));
  NULLED("out_session", qr_session_create(f->model, NULL, NULL, NULL));
  NULLED("session", qr_session_clone(NULL, NULL, &o->session));
  NULLED("out_session", qr_session_clone(f->session, NULL, NULL));
  NULLED("session", qr_session_input(NULL, 0, &o->tensor));
  NULLED("out_info", qr_session_input(f->session, 0, NULL));
  NULLED("session", qr_session_output(NULL, 0, &o->tensor));
  NULLED("out_info", qr_session_output(f->session, 0, NULL));
  NULLED("session", qr_session_run(NULL, NULL, inputs, 1, outputs, 1));
  NULLED("inputs", qr_session_run(f->session, NULL, NULL, 1, outputs, 1));
  NULLED("outputs", qr_session_run(f->session, NULL, inputs, 1, NULL, 1));
  inputs[0] = NULL;
  NULLED("input", qr_session_run(f->session, NULL, inputs, 1, outputs, 1));
  NULLED("session", qr_session_warm_up(NULL, NULL));
  NULLED("session", qr_session_set_option(NULL, str("threads"), str("1")));
  NULLED("key", qr_session_set_option(f->session, (qr_string){NULL, 4}, str("1")));
  NULLED("value", qr_session_set_option(f->session, str("threads"), (qr_string){NULL, 4}));
  NULLED("session", qr_session_recover(NULL, NULL));
  NULLED("session", qr_session_report(NULL, &o->json));
  NULLED("out_json", qr_session_report(f->session, NULL));
}

static void null_in_memory_signal_profile(fixture *f, results *o) {
  NULLED("session and options->runtime are", qr_memory_allocate(NULL, 1, NULL, &o->memory));
  NULLED("out_memory", qr_memory_allocate(f->session, 1, NULL, NULL));
  NULLED("session and options->runtime are", qr_memory_import_fd(NULL, 0, 0, 1, NULL, &o->memory));
  NULLED("out_memory", qr_memory_import_fd(f->session, 0, 0, 1, NULL, NULL));
  NULLED("buffer", qr_memory_import_hardware_buffer(f->session, NULL, -1, NULL, NULL, &o->memory));
  NULLED("out_memory", qr_memory_import_hardware_buffer(f->session, f, -1, NULL, NULL, NULL));
  NULLED("session and options->runtime are", qr_memory_register(NULL, f->input, 1, NULL, &o->memory));
  NULLED("data", qr_memory_register(f->session, NULL, 1, NULL, &o->memory));
  NULLED("out_memory", qr_memory_register(f->session, f->input, 1, NULL, NULL));
  NULLED("runtime", qr_signal_create(NULL, &o->signal));
  NULLED("out_signal", qr_signal_create(f->runtime, NULL));
  NULLED("runtime", qr_profile_create(NULL, &o->profile));
  NULLED("out_profile", qr_profile_create(f->runtime, NULL));
  NULLED("profile", qr_profile_event_at(NULL, 0, &o->event));
  NULLED("out_event", qr_profile_event_at(f->profile, 0, NULL));
  NULLED("profile", qr_profile_export(NULL, str("csv"), &(qr_target)QR_TARGET_AT("x")));
  NULLED("target", qr_profile_export(f->profile, str("csv"), NULL));
  NULLED("format", qr_profile_export(f->profile, (qr_string){NULL, 2}, &(qr_target)QR_TARGET_AT("x")));
}

static void test_null_arguments(void **state) {
  fixture *f = *state;
  void *const untouched = (void *)1;
  results o = {.runtime = untouched,
               .options = untouched,
               .model = untouched,
               .session = untouched,
               .signal = untouched,
               .profile = untouched,
               .memory = untouched,
               .text = {"untouched", 9},
               .other = {"untouched", 9},
               .json = untouched,
               .count = 77,
               .grade = 77,
               .backend = QR_BACKEND_INFO_INIT,
               .device = QR_DEVICE_INFO_INIT,
               .option = QR_OPTION_INFO_INIT,
               .tensor = QR_TENSOR_INFO_INIT,
               .plan = QR_MEMORY_PLAN_INIT,
               .event = QR_PROFILE_EVENT_INIT};
  null_in_runtime(f, &o);
  null_in_model(f, &o);
  null_in_session(f, &o);
  null_in_memory_signal_profile(f, &o);
  assert_ptr_equal(o.runtime, untouched), assert_ptr_equal(o.options, untouched), assert_ptr_equal(o.model, untouched);
  assert_ptr_equal(o.session, untouched), assert_ptr_equal(o.signal, untouched), assert_ptr_equal(o.profile, untouched);
  assert_ptr_equal(o.memory, untouched), assert_ptr_equal(o.json, untouched);
  assert_int_equal(o.count, 77), assert_int_equal(o.grade, 77);
  assert_string_equal(o.text.data, "untouched"), assert_string_equal(o.other.data, "untouched");
}

static void test_null_objects_without_errors(void **state) {
  const char *key = NULL, *value = NULL;
  (void)state;
  qr_runtime_destroy(NULL), qr_options_destroy(NULL), qr_model_destroy(NULL), qr_session_destroy(NULL);
  qr_memory_destroy(NULL), qr_signal_destroy(NULL), qr_profile_destroy(NULL), qr_status_destroy(NULL);
  qr_signal_abort(NULL), qr_signal_reset(NULL), qr_signal_set_timeout(NULL, 1), qr_profile_clear(NULL);
  qr_string_destroy(NULL);
  assert_int_equal(qr_model_input_count(NULL), 0), assert_int_equal(qr_model_output_count(NULL), 0);
  assert_int_equal(qr_session_input_count(NULL), 0), assert_int_equal(qr_session_output_count(NULL), 0);
  assert_int_equal(qr_profile_event_count(NULL), 0), assert_int_equal(qr_memory_size(NULL), 0);
  assert_null(qr_memory_data(NULL));
  assert_string_equal(qr_runtime_cpu_features(NULL), "");
  assert_int_equal(qr_status_code(NULL), QR_OK);
  assert_string_equal(qr_status_id(NULL), ""), assert_string_equal(qr_status_message(NULL), ""),
      assert_string_equal(qr_status_hint(NULL), "");
  assert_int_equal(qr_status_detail_count(NULL), 0);
  qr_status_detail(NULL, 0, &key, &value);
  assert_string_equal(key, ""), assert_string_equal(value, "");
  qr_status_detail(NULL, 5, NULL, NULL);
  assert_string_equal(qr_dtype_name(QR_DTYPE_BF16), "bf16"), assert_string_equal(qr_dtype_name(8), "unknown"),
      assert_string_equal(qr_dtype_name(-1), "unknown");
  assert_int_equal(qr_dtype_bits(QR_DTYPE_I4), 4), assert_int_equal(qr_dtype_bits(8), 0),
      assert_int_equal(qr_dtype_bits(INT32_MAX), 0);
  assert_string_equal(qr_code_name(QR_CORRUPT), "CORRUPT"), assert_string_equal(qr_code_name(99), "UNKNOWN");
}

/* A struct type's rule, for each struct that a caller fills or hands in. */
#define WRONG_SIZES(type, init, call)     \
  do {                                    \
    struct {                              \
      type value;                         \
      uint8_t more[64];                   \
    } grown = {init, {0}};                \
    type *arg = &grown.value;             \
    arg->struct_size = 0;                 \
    FAILS("QR-C0003", #type, call);       \
    arg->struct_size = 8;                 \
    FAILS("QR-C0003", #type, call);       \
    arg->struct_size = sizeof(type) + 16; \
    OK(call);                             \
    arg->struct_size = sizeof(type) + 16; \
    grown.more[9] = 1;                    \
    FAILS("QR-C0004", #type, call);       \
  } while (0)

static qr_status *create_and_drop(const qr_runtime_options *options) {
  qr_runtime *runtime = NULL;
  qr_status *status = qr_runtime_create(options, &runtime);
  qr_runtime_destroy(runtime);
  return status;
}
static int32_t ignore_progress(void *self, uint64_t done, uint64_t total, qr_string what) {
  (void)self, (void)done, (void)total, (void)what;
  return QR_GO_ON;
}
static void ignore_log(void *self, qr_log_level level, uint32_t flags, qr_string topic, qr_string message) {
  (void)self, (void)level, (void)flags, (void)topic, (void)message;
}
static void serial(void *self, uint64_t count, uint64_t grain, void (*body)(void *, uint64_t, uint64_t, uint32_t),
                   void *context) {
  (void)self, (void)grain;
  if (count) body(context, 0, count, 0);
}

static void test_struct_sizes(void **state) {
  fixture *f = *state;
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  counting_allocator counter = {0};
  const qr_tensor *inputs[1] = {&f->in};
  qr_tensor *outputs[1] = {&f->out};
  uint64_t count = 0;
  WRONG_SIZES(qr_runtime_options, QR_RUNTIME_OPTIONS_INIT, create_and_drop(arg));
  WRONG_SIZES(qr_allocator, counting(&counter), (options.allocator = arg, create_and_drop(&options)));
  options.allocator = NULL;
  WRONG_SIZES(qr_log_sink, ((qr_log_sink){sizeof(qr_log_sink), 0, NULL, ignore_log}),
              (options.log = arg, create_and_drop(&options)));
  options.log = NULL;
  WRONG_SIZES(qr_thread_pool, ((qr_thread_pool){sizeof(qr_thread_pool), 1, NULL, serial}),
              (options.thread_pool = arg, create_and_drop(&options)));
  OK(qr_runtime_scan(f->runtime, &count));
  assert_true(count >= 1);
  WRONG_SIZES(qr_backend_info, QR_BACKEND_INFO_INIT, qr_runtime_backend(f->runtime, 0, arg));
  WRONG_SIZES(qr_device_info, QR_DEVICE_INFO_INIT, qr_runtime_device(f->runtime, 0, 0, arg));
  WRONG_SIZES(qr_option_info, QR_OPTION_INFO_INIT, qr_runtime_option(f->runtime, 0, arg));
  WRONG_SIZES(qr_tensor_info, QR_TENSOR_INFO_INIT, qr_model_input(f->model, 0, arg));
  WRONG_SIZES(qr_tensor_info, QR_TENSOR_INFO_INIT, qr_model_output(f->model, 0, arg));
  WRONG_SIZES(qr_tensor_info, QR_TENSOR_INFO_INIT, qr_session_input(f->session, 0, arg));
  WRONG_SIZES(qr_tensor_info, QR_TENSOR_INFO_INIT, qr_session_output(f->session, 0, arg));
  WRONG_SIZES(qr_memory_plan, QR_MEMORY_PLAN_INIT, qr_session_plan(f->model, NULL, NULL, arg));
  WRONG_SIZES(qr_run_options, QR_RUN_OPTIONS_INIT, qr_session_run(f->session, arg, inputs, 1, outputs, 1));
  WRONG_SIZES(qr_run_options, QR_RUN_OPTIONS_INIT, qr_session_warm_up(f->session, arg));
  WRONG_SIZES(qr_tensor, f->in, (inputs[0] = arg, qr_session_run(f->session, NULL, inputs, 1, outputs, 1)));
  inputs[0] = &f->in;
  WRONG_SIZES(qr_tensor, f->out, (outputs[0] = arg, qr_session_run(f->session, NULL, inputs, 1, outputs, 1)));
  WRONG_SIZES(qr_call_options, QR_CALL_OPTIONS_INIT,
              qr_model_compile(f->model, NULL, &(qr_target)QR_TARGET_AT("./sizes.qrm"), arg));
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  WRONG_SIZES(qr_progress, ((qr_progress){sizeof(qr_progress), 0, NULL, ignore_progress}),
              (call.progress = arg, qr_model_compile(f->model, NULL, &(qr_target)QR_TARGET_AT("./sizes.qrm"), &call)));
  outputs[0] = &f->out;
  qr_run_options profiled = QR_RUN_OPTIONS_INIT;
  profiled.profile = f->profile;
  OK(qr_session_run(f->session, &profiled, inputs, 1, outputs, 1)); /* so that there is an event */
  WRONG_SIZES(qr_profile_event, QR_PROFILE_EVENT_INIT, qr_profile_event_at(f->profile, 0, arg));
  remove("./sizes.qrm");
  assert_int_equal(counter.live, 0);
}

static void test_unknown_flags_and_reserved_fields(void **state) {
  fixture *f = *state;
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_run_options run = QR_RUN_OPTIONS_INIT;
  qr_allocator allocator = QR_ALLOCATOR_INIT;
  counting_allocator counter = {0};
  const qr_tensor *inputs[1] = {&f->in};
  qr_tensor *outputs[1] = {&f->out};
  options.flags = (uint64_t)1 << 40;
  FAILS("QR-C0005", "40", create_and_drop(&options));
  options.flags = 0, options.reserved = 1;
  FAILS("QR-C0004", "reserved", create_and_drop(&options));
  options.reserved = 0, options.allocator = &allocator;
  FAILS("QR-C0002", "alloc", create_and_drop(&options));
  allocator = counting(&counter), allocator.reserved = 7;
  FAILS("QR-C0004", "reserved", create_and_drop(&options));
  run.flags = 2;
  FAILS("QR-C0005", "flag", qr_session_run(f->session, &run, inputs, 1, outputs, 1));
  run.flags = 0, run.reserved = 5;
  FAILS("QR-C0004", "reserved", qr_session_run(f->session, &run, inputs, 1, outputs, 1));
  f->in.flags = 2;
  FAILS("QR-C0005", "qr_tensor inputs[0].flags has bit 1", qr_session_run(f->session, NULL, inputs, 1, outputs, 1));
  f->in.flags = 0;
}

static void test_zero_and_out_of_range(void **state) {
  fixture *f = *state;
  qr_backend_info backend = QR_BACKEND_INFO_INIT;
  qr_device_info device = QR_DEVICE_INFO_INIT;
  qr_option_info option = QR_OPTION_INFO_INIT;
  qr_tensor_info tensor = QR_TENSOR_INFO_INIT;
  qr_profile_event event = QR_PROFILE_EVENT_INIT;
  qr_model *model = NULL;
  qr_memory *memory = NULL;
  qr_string text, origin;
  char *json = NULL;
  uint64_t count = 0;
  OK(qr_runtime_scan(f->runtime, &count));
  FAILS("QR-C0008", "", qr_runtime_backend(f->runtime, count, &backend));
  FAILS("QR-C0008", "", qr_runtime_device(f->runtime, count, 0, &device));
  FAILS("QR-C0008", "", qr_runtime_device(f->runtime, 0, UINT64_MAX, &device));
  FAILS("QR-C0008", "", qr_runtime_search_path(f->runtime, UINT64_MAX, &text, &origin));
  FAILS("QR-C0008", "", qr_runtime_option(f->runtime, UINT64_MAX, &option));
  FAILS("QR-C0008", "", qr_model_input(f->model, 1, &tensor));
  FAILS("QR-C0008", "", qr_model_output(f->model, UINT64_MAX, &tensor));
  FAILS("QR-C0008", "", qr_model_input_dim_name(f->model, 1, 0, &text));
  FAILS("QR-C0008", "", qr_model_input_dim_name(f->model, 0, 4, &text));
  FAILS("QR-C0008", "", qr_session_input(f->session, 1, &tensor));
  FAILS("QR-C0008", "", qr_session_output(f->session, 1, &tensor));
  FAILS("QR-C0008", "", qr_profile_event_at(f->profile, 0, &event));
  FAILS("QR-C0007", "", qr_memory_allocate(f->session, 0, NULL, &memory));
  FAILS("QR-C0007", "", qr_memory_register(f->session, f->input, 0, NULL, &memory));
  FAILS("QR-C0007", "", qr_memory_import_fd(f->session, -1, 0, 16, NULL, &memory));
  /* Elsewhere than on Android: test_hardware_buffer.c has the rest. */
  FAILS("QR-R0010", "expected Android", qr_memory_import_hardware_buffer(f->session, f, -1, NULL, NULL, &memory));
  FAILS("QR-C0007", "format", qr_profile_export(f->profile, str("xml"), &(qr_target)QR_TARGET_AT("x")));
  FAILS("QR-F0006", "", model_in_memory(f->runtime, "", 0, NULL, &model));
  FAILS("QR-F0001", "", model_at_path(f->runtime, kNull, NULL, &model));
  FAILS("QR-C0101", "", qr_options_set(f->options, kNull, str("1")));
  FAILS("QR-C0102", "threads", qr_options_set(f->options, str("threads"), kNull));
  FAILS("QR-C0009", "key",
        qr_options_set(f->options,
                       str("thr\xff"
                           "eads"),
                       str("1")));
  FAILS("QR-C0009", "path", model_at_path(f->runtime, (qr_string){"a\0b", 3}, NULL, &model));
  FAILS("QR-F0001", "\\xc3(", model_at_path(f->runtime, str("\xc3\x28"), NULL, &model)); /* a name like any other */
  FAILS("QR-L0001", "nope", qr_runtime_operators(f->runtime, str("nope"), &json));
  FAILS("QR-C0104", "threads", qr_session_set_option(f->session, str("threads"), str("1")));
  FAILS("QR-C0101", "thread", qr_session_set_option(f->session, str("thread"), str("1")));
  assert_null(memory), assert_null(model), assert_null(json);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_null_arguments, set_up, tear_down),
      cmocka_unit_test(test_null_objects_without_errors),
      cmocka_unit_test_setup_teardown(test_struct_sizes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_unknown_flags_and_reserved_fields, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_zero_and_out_of_range, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
