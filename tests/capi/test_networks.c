/* SPDX-License-Identifier: Apache-2.0 */
/* qr_model_compile_networks: several models in one container, of which the option "model" chooses one. */
#include "capi_test.h"

static qr_runtime *runtime_of_test;

static qr_model *open_with(qr_model_source source, const char *network) {
  qr_options *options = NULL;
  qr_model *model = NULL;
  OK(qr_options_create(runtime_of_test, &options));
  if (network) OK(qr_options_set(options, str("model"), str(network)));
  OK(qr_model_open(runtime_of_test, &source, options, NULL, &model));
  qr_options_destroy(options);
  return model;
}

static qr_network network(const qr_model *model, const char *name) {
  qr_network made = QR_NETWORK_INIT;
  made.model = model, made.name = str(name);
  return made;
}

typedef struct two_networks {
  qr_model *first, *second;
} two_networks;

static two_networks open_two(void) {
  const qr_model_source digits = QR_MODEL_AT(digits_path());
  two_networks made;
  OK(qr_runtime_create(NULL, &runtime_of_test));
  made.first = open_with(digits, NULL), made.second = open_with(digits, NULL);
  return made;
}
static void close_two(two_networks models) {
  qr_model_destroy(models.first), qr_model_destroy(models.second);
  qr_runtime_destroy(runtime_of_test);
}

static void test_arguments(void **state) {
  const qr_model_source digits = QR_MODEL_AT(digits_path());
  void *data = NULL;
  uint64_t size = 0;
  const qr_target target = QR_TARGET_IN_MEMORY(&data, &size);
  const two_networks models = open_two();
  qr_runtime *stranger = NULL;
  qr_model *foreign = NULL;
  qr_options *options = NULL;
  (void)state;
  OK(qr_runtime_create(NULL, &stranger));
  OK(qr_model_open(stranger, &digits, NULL, NULL, &foreign));
  {
    const qr_network one = network(models.first, "one"), two = network(models.second, "two"),
                     same = network(models.second, "one"), nameless = network(models.second, ""),
                     modelless = network(NULL, "x"), strange = network(foreign, "x");
    const qr_network *all[] = {&one, &two}, *twice[] = {&one, &same}, *no_name[] = {&one, &nameless},
                     *no_model[] = {&one, &modelless}, *apart[] = {&one, &strange}, *none[] = {NULL};
    FAILS("QR-C0002", "networks", qr_model_compile_networks(NULL, 1, NULL, &target, NULL));
    FAILS("QR-C0002", "networks[0]", qr_model_compile_networks(all, 0, NULL, &target, NULL));
    FAILS("QR-C0002", "networks[0]", qr_model_compile_networks(none, 1, NULL, &target, NULL));
    FAILS("QR-C0002", "target", qr_model_compile_networks(all, 2, NULL, NULL, NULL));
    FAILS("QR-C0002", "qr_network.model", qr_model_compile_networks(no_model, 2, NULL, &target, NULL));
    FAILS("QR-C0007", "'one'", qr_model_compile_networks(twice, 2, NULL, &target, NULL));
    FAILS("QR-C0007", "qr_network.name", qr_model_compile_networks(no_name, 2, NULL, &target, NULL));
    FAILS("QR-C0007", "another runtime", qr_model_compile_networks(apart, 2, NULL, &target, NULL));
    OK(qr_options_create(runtime_of_test, &options));
    OK(qr_options_set(options, str("compile.process"), str("child")));
    FAILS("QR-C0102", "compile.process", qr_model_compile_networks(all, 2, options, &target, NULL));
  }
  qr_options_destroy(options);
  qr_model_destroy(foreign);
  qr_runtime_destroy(stranger);
  close_two(models);
}

static void test_chosen(void **state) {
  void *held = NULL;
  uint64_t bytes = 0;
  const qr_target to = QR_TARGET_IN_MEMORY(&held, &bytes);
  const two_networks models = open_two();
  const qr_network one = network(models.first, "one"), two = network(models.second, "two");
  const qr_network *all[] = {&one, &two};
  qr_session *session = NULL;
  qr_model *chosen = NULL;
  char *json = NULL;
  (void)state;
  OK(qr_model_compile_networks(all, 2, NULL, &to, NULL));
  {
    const qr_model_source made = QR_MODEL_IN_MEMORY(held, bytes);
    qr_model *everything = open_with(made, "*");
    OK(qr_model_inspect(everything, NULL, &json));
    assert_non_null(strstr(json, "\"networks\": ["));
    qr_string_destroy(json);
    OK(qr_model_verify(everything, NULL));
    FAILS("QR-M0009", "found no context", qr_session_create(everything, NULL, NULL, &session));
    assert_int_equal(qr_model_input_count(everything), 0);
    qr_model_destroy(everything);
    FAILS("QR-C0102", "one of the networks: one two", qr_model_open(runtime_of_test, &made, NULL, NULL, &chosen));
    chosen = open_with(made, "two");
    assert_int_equal(qr_model_input_count(chosen), 1);
    OK(qr_session_create(chosen, NULL, NULL, &session));
    OK(qr_session_warm_up(session, NULL));
    qr_session_destroy(session);
    qr_model_destroy(chosen);
  }
  qr_string_destroy(held);
  close_two(models);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_arguments), cmocka_unit_test(test_chosen)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
