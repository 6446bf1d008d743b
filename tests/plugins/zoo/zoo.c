/* SPDX-License-Identifier: Apache-2.0 */
/* The zoo: one small plugin, compiled once for each way of being bad. -DZOO_<name> chooses the way,
 * -DZOO_ID="zoo-<name>" is its id. Without a way it is a good plugin: it copies four floats. ZOO_loads_only is good
 * too, and has no compiler. ZOO_liar is good until an option "lie" of a request names a lie: those need no build of
 * their own. tests/plugins/zoo_table.inc says what each must get. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quarry/backend.h>

/* ---- ways of being bad that are a value in a table ---- */
#define NOTE_MAGIC QR_PLUGIN_NOTE_MAGIC
#define NOTE_SIZE sizeof(qr_plugin_note)
#define NOTE_MAJOR QR_PLUGIN_ABI_MAJOR
#define NOTE_MINOR_MIN QR_PLUGIN_ABI_MINOR_MIN
#define NOTE_FLAVOUR QR_PLUGIN_BUILD_FLAVOUR
#define NOTE_ID ZOO_ID
#define NOTE_TARGET QR_PLUGIN_BUILD_TARGET
#define TABLE_SIZE sizeof(qr_plugin)
#define TABLE_MAGIC QR_PLUGIN_MAGIC
#define TABLE_MINOR QR_PLUGIN_ABI_MINOR
#define TABLE_MINOR_MIN QR_PLUGIN_ABI_MINOR_MIN
#define WAIT_SLOT NULL
#define SUBMIT_SLOT NULL
#define MAP_SLOT NULL
#define TABLE_ID ZOO_ID
#define TABLE_BLOB 1u
#define TABLE_VERSION "1.0"
#define CONTEXT_TABLE &context_table
#define CONTEXT_SIZE sizeof(qr_plugin_context_api)
#define RUN_SLOT execution_run
#define RELEASE_SLOT memory_release
#define DEVICE_COUNT 1
#define COMPILER_TABLE &compiler_table

#if defined(ZOO_note_magic)
#undef NOTE_MAGIC
#define NOTE_MAGIC 0x21212121u
#elif defined(ZOO_note_size)
#undef NOTE_SIZE
#define NOTE_SIZE 4096
#elif defined(ZOO_note_text)
#undef NOTE_ID
#define NOTE_ID "zoo note text"
#elif defined(ZOO_target)
#undef NOTE_TARGET
#define NOTE_TARGET "vax-vms"
#elif defined(ZOO_libc)
#undef NOTE_TARGET
#define NOTE_TARGET QR_PLUGIN_BUILD_ARCH "-" QR_PLUGIN_BUILD_OS "-other"
#elif defined(ZOO_abi_major)
#undef NOTE_MAJOR
#define NOTE_MAJOR 2u
#elif defined(ZOO_abi_minor)
#undef NOTE_MINOR_MIN
#define NOTE_MINOR_MIN 9u
#elif defined(ZOO_wrong_id)
#undef NOTE_ID
#define NOTE_ID "cpu"
#elif defined(ZOO_flavour)
#undef NOTE_FLAVOUR
#define NOTE_FLAVOUR (QR_PLUGIN_BUILD_FLAVOUR ^ QR_PLUGIN_FLAVOUR_MSAN)
#elif defined(ZOO_everything)
#undef NOTE_TARGET
#define NOTE_TARGET "vax-vms"
#undef NOTE_MAJOR
#define NOTE_MAJOR 7u
#undef NOTE_FLAVOUR
#define NOTE_FLAVOUR (QR_PLUGIN_BUILD_FLAVOUR ^ QR_PLUGIN_FLAVOUR_MSAN)
#undef NOTE_ID
#define NOTE_ID "other"
#elif defined(ZOO_table_small)
#undef TABLE_SIZE
#define TABLE_SIZE 16
#elif defined(ZOO_table_huge)
#undef TABLE_SIZE
#define TABLE_SIZE 0xfffffff8u
#elif defined(ZOO_table_magic)
#undef TABLE_MAGIC
#define TABLE_MAGIC 0x1234u
#elif defined(ZOO_table_minor)
#undef TABLE_MINOR
#define TABLE_MINOR 7u
#undef TABLE_MINOR_MIN
#define TABLE_MINOR_MIN 5u
#elif defined(ZOO_table_id)
#undef TABLE_ID
#define TABLE_ID "gpu"
#elif defined(ZOO_table_blob)
#undef TABLE_BLOB
#define TABLE_BLOB 2u
#elif defined(ZOO_table_text)
#undef TABLE_VERSION
#define TABLE_VERSION NULL
#elif defined(ZOO_loads_only)
#undef COMPILER_TABLE
#define COMPILER_TABLE NULL
#elif defined(ZOO_null_table)
#undef CONTEXT_TABLE
#define CONTEXT_TABLE NULL
#elif defined(ZOO_small_table)
#undef CONTEXT_SIZE
#define CONTEXT_SIZE 24
#elif defined(ZOO_null_slot)
#undef RUN_SLOT
#define RUN_SLOT NULL
#elif defined(ZOO_null_release)
#undef RELEASE_SLOT
#define RELEASE_SLOT NULL
#elif defined(ZOO_submit_alone)
#undef SUBMIT_SLOT
#define SUBMIT_SLOT execution_submit
#elif defined(ZOO_map_alone)
#undef MAP_SLOT
#define MAP_SLOT memory_map
#elif defined(ZOO_no_device)
#undef DEVICE_COUNT
#define DEVICE_COUNT 0
#elif defined(ZOO_many_devices)
#undef DEVICE_COUNT
#define DEVICE_COUNT 1000000000000u
#endif

#ifndef ZOO_no_note
__attribute__((used, section(".note.qr"), aligned(4))) static const qr_plugin_note_section note_section = {
    7u,
    (uint32_t)sizeof(qr_plugin_note),
    QR_PLUGIN_NOTE_TYPE,
    QR_PLUGIN_NOTE_NAME,
    {NOTE_MAGIC, (uint32_t)NOTE_SIZE, NOTE_MAJOR, QR_PLUGIN_ABI_MINOR, NOTE_MINOR_MIN, 1u, NOTE_FLAVOUR, 0u, NOTE_ID,
     "1.0", NOTE_TARGET}};
#endif

/* Proof that code ran: the plugin appends its id to the file that the test names. */
__attribute__((constructor)) static void leave_trace(void) {
  const char *path = getenv("QUARRY_ZOO_TRACE");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fputs(ZOO_ID "\n", file);
  fclose(file);
}

#ifdef ZOO_undefined_symbol
void symbol_that_nobody_has(void);
void (*volatile use_of_symbol)(void) = symbol_that_nobody_has;
#endif

/* ---- the plugin ---- */

struct qr_backend {
  const qr_host *host;
};
struct qr_context {
  char lie[64];
};
struct qr_execution {
  qr_context *context;
  char lie[64];
};
struct qr_registration {
  int unused;
};

static qr_backend the_backend;
static qr_context the_context;
static qr_execution the_execution;
static qr_registration the_registration;

static qr_plugin_string text(const char *data) {
  qr_plugin_string string = {data, QR_PLUGIN_NUL_TERMINATED};
  return string;
}

static qr_plugin_code refuse(const qr_error_sink *errors, qr_plugin_code code, const char *message) {
  errors->set(errors->self, code, text(""), text(message), text(""));
  return code;
}

static void copy_lie(char (*to)[64], const qr_plugin_option *options, uint64_t count) {
  (*to)[0] = 0;
  for (uint64_t i = 0; i < count; ++i)
    if (options[i].value.size < sizeof *to) {
      memcpy(*to, options[i].value.data, options[i].value.size);
      (*to)[options[i].value.size] = 0;
    }
}

static uint64_t device_count(qr_backend *backend) {
  (void)backend;
  return DEVICE_COUNT;
}

static qr_plugin_code device_info(qr_backend *backend, uint64_t index, qr_plugin_device_info *out,
                                  const qr_error_sink *errors) {
  (void)backend, (void)index, (void)errors;
#if defined(ZOO_code_without_reason)
  return 5;
#elif defined(ZOO_code_unknown)
  return 99;
#elif defined(ZOO_bad_sink_text)
  qr_plugin_string bad = {NULL, 12};
  errors->set(errors->self, 5, text(""), bad, text(""));
  return 5;
#elif defined(ZOO_long_sink_text)
  qr_plugin_string bad = {"short", (uint64_t)1 << 40};
  errors->set(errors->self, 5, text(""), bad, text(""));
  return 5;
#endif
#ifndef ZOO_device_unset
  out->name = text("zoo device");
#endif
  out->target = text("zoo");
  out->usable = 1;
#ifdef ZOO_device_no_reason
  out->usable = 0;
#endif
#ifdef ZOO_device_unusable
  out->usable = 0;
  out->why_not = text("found no /dev/zoo, expected one");
#endif
  return 0;
}

static uint64_t option_count(qr_backend *backend) {
  (void)backend;
  return 2;
}

static qr_plugin_code option_info(qr_backend *backend, uint64_t index, qr_plugin_option_info *out,
                                  const qr_error_sink *errors) {
  (void)backend, (void)errors;
  out->key = text(index == 0 ? ZOO_ID ".lie" : ZOO_ID ".other");
  out->values = text("text");
#ifdef ZOO_option_twice
  out->key = text(ZOO_ID ".lie");
#endif
#ifdef ZOO_option_of_another
  if (index == 1) out->key = text("zoo.lie");
#endif
#ifdef ZOO_option_unset
  out->values = text("");
#endif
  return 0;
}

static void judge(const qr_verdict_sink *verdicts, uint32_t node, int32_t supported) {
  const qr_plugin_verdict verdict = {sizeof verdict, node, supported, 0, text(""), text(""), text(""), text("")};
  verdicts->verdict(verdicts->self, &verdict);
}

static qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request,
                                     const qr_verdict_sink *verdicts, const qr_error_sink *errors) {
  (void)backend, (void)errors;
  char lie[64];
  copy_lie(&lie, request->options, request->option_count);
  if (!strcmp(lie, "no verdict")) return 0;
  if (!strcmp(lie, "verdict past the end")) judge(verdicts, 77, 1);
  if (!strcmp(lie, "two verdicts")) judge(verdicts, 0, 1);
  if (!strcmp(lie, "small verdict")) {
    const qr_plugin_verdict small = {16, 0, 1, 0, {0}, {0}, {0}, {0}};
    verdicts->verdict(verdicts->self, &small);
  }
  if (!strcmp(lie, "refusal without reason")) {
    judge(verdicts, 0, 0);
    return 0;
  }
  if (!strcmp(lie, "check without reason")) return 5;
  judge(verdicts, 0, 1);
  return 0;
}

static qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *request,
                                       const qr_blob_sink *result, const qr_error_sink *errors) {
  (void)backend, (void)errors;
  char lie[64];
  copy_lie(&lie, request->options, request->option_count);
  uint32_t segment;
  if (!strcmp(lie, "no blob")) return result->compatibility(result->self, text("zoo"), text(""));
  if (!strcmp(lie, "no target")) return result->blob(result->self, "ZOO1", 4);
  if (!strcmp(lie, "empty target")) return result->compatibility(result->self, text(""), text(""));
  if (!strcmp(lie, "empty blob")) return result->blob(result->self, "ZOO1", 0);
  if (!strcmp(lie, "segment past the end")) return result->keep_segment(result->self, 0, 3, &segment);
  if (!strcmp(lie, "graph past the end")) return result->keep_segment(result->self, 2, 0, &segment);
  if (!strcmp(lie, "bad alignment")) return result->add_segment(result->self, "abc", 3, 48, &segment);
  if (!strcmp(lie, "segment without data")) return result->add_segment(result->self, NULL, 3, 64, &segment);
  if (!strcmp(lie, "two blobs")) result->blob(result->self, "ZOO0", 4);
  if (!strcmp(lie, "small plan")) {
    qr_plugin_plan plan = {8, 0, 1, 2, 3, 4, 5, 6};
    result->plan(result->self, &plan);
  }
  result->blob(result->self, "ZOO1", 4);
  result->compatibility(result->self, text("zoo"), text("key"));
  return 0;
}

static qr_plugin_code context_grade(qr_backend *backend, const qr_load_request *request, int32_t *out_grade,
                                    const qr_error_sink *reason) {
  (void)backend, (void)reason;
  *out_grade = QR_PLUGIN_GRADE_OPTIMAL;
  if (request->blob->version == 77) *out_grade = 77;
  if (request->blob->version == 78) *out_grade = QR_PLUGIN_GRADE_RECOMPILE;
  return 0;
}

static qr_plugin_code context_load(qr_backend *backend, const qr_load_request *request, qr_context **out,
                                   const qr_error_sink *errors) {
  (void)backend, (void)errors;
  copy_lie(&the_context.lie, request->options, request->option_count);
  if (!strcmp(the_context.lie, "context NULL")) return 0;
  *out = &the_context;
  return 0;
}

static uint64_t context_graph_count(qr_context *context) { return strcmp(context->lie, "two graphs") ? 1 : 2; }
static uint64_t context_count(qr_context *context, uint64_t graph) {
  (void)graph;
  return strcmp(context->lie, "many inputs") ? 1 : (uint64_t)1 << 50;
}
static uint64_t context_output_count(qr_context *context, uint64_t graph) {
  (void)context, (void)graph;
  return 1;
}

static qr_plugin_code context_tensor(qr_context *context, uint64_t graph, int32_t is_output, uint64_t index,
                                     qr_plugin_tensor_info *out, const qr_error_sink *errors) {
  (void)graph, (void)index, (void)errors;
  if (!strcmp(context->lie, "tensor unset")) return 0;
  out->dtype = 1;
  out->rank = 1;
  out->dims[0] = 4;
  out->name = text(is_output ? "y" : "x");
  if (!strcmp(context->lie, "tensor rank")) out->rank = 9;
  if (!strcmp(context->lie, "tensor dtype")) out->dtype = 8;
  if (!strcmp(context->lie, "tensor dimension")) out->dims[0] = -5;
  if (!strcmp(context->lie, "tensor name")) out->name = text("");
  return 0;
}

static void context_destroy(qr_context *context) { context->lie[0] = 0; }

static qr_plugin_code execution_create(qr_context *context, const qr_execution_request *request, qr_execution **out,
                                       const qr_error_sink *errors) {
  (void)errors;
  copy_lie(&the_execution.lie, request->options, request->option_count);
  the_execution.context = context;
  if (!strcmp(the_execution.lie, "execution NULL")) return 0;
  *out = &the_execution;
  return 0;
}

static qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *request,
                                    const qr_error_sink *errors) {
  const char *lie = execution->lie;
  if (!strcmp(lie, "run without reason")) return 5;
  if (!strcmp(lie, "device busy")) return refuse(errors, 14, "the zoo is full");
  if (!strcmp(lie, "device lost")) return refuse(errors, 15, "the zoo burnt down");
  qr_io_buffer *y = &request->outputs[0];
  static float own[64];
  if (!y->data) y->data = own;
  memcpy(y->data, request->inputs[0].data, 16);
  if (!strcmp(lie, "output unset")) return 0;
  y->rank = 1;
  y->dims[0] = 4;
  y->used_bytes = 16;
  if (!strcmp(lie, "output rank")) y->rank = 9;
  if (!strcmp(lie, "output shape")) y->dims[0] = 5, y->used_bytes = 20;
  if (!strcmp(lie, "output bytes")) y->used_bytes = 12;
  if (!strcmp(lie, "output moved")) y->data = own + 4;
  if (!strcmp(lie, "output without data")) y->data = NULL;
  return 0;
}

#ifdef ZOO_submit_alone
static qr_plugin_code execution_submit(qr_execution *execution, const qr_run_request *request, uint64_t *out_ticket,
                                       const qr_error_sink *errors) {
  (void)execution, (void)request, (void)out_ticket, (void)errors;
  return 0;
}
#endif

static void execution_destroy(qr_execution *execution) { execution->context = NULL; }

/* Memory is the backend's, which gets no options: its lies go by size. */
static qr_plugin_code memory_allocate(qr_backend *backend, const qr_plugin_memory_request *request,
                                      qr_plugin_memory_info *out_info, qr_registration **out,
                                      const qr_error_sink *errors) {
  (void)backend, (void)errors;
  static float room[64];
  if (request->size_bytes != 1) *out = &the_registration;
  if (request->size_bytes != 2) out_info->data = room;
  return 0;
}

static void memory_release(qr_backend *backend, qr_registration *registration) { (void)backend, (void)registration; }

#ifdef ZOO_map_alone
static qr_plugin_code memory_map(qr_backend *backend, qr_registration *registration, uint32_t access, void **out_data,
                                 const qr_error_sink *errors) {
  (void)backend, (void)registration, (void)access, (void)out_data, (void)errors;
  return 0;
}
#endif

static qr_plugin_code create(const qr_host *host, qr_backend **out, const qr_error_sink *errors) {
  (void)errors;
#ifdef ZOO_create_fails
  return refuse(errors, 9, "found no licence, expected one");
#endif
#ifdef ZOO_create_null
  return 0;
#endif
  the_backend.host = host;
  *out = &the_backend;
  return 0;
}

static void destroy(qr_backend *backend) { backend->host = NULL; }

static const qr_plugin_device_api device_table = {sizeof(qr_plugin_device_api), 0, device_count, device_info, NULL};
static const qr_plugin_option_api option_table = {sizeof(qr_plugin_option_api), 0, option_count, option_info};
__attribute__((unused)) static const qr_plugin_compiler_api compiler_table = {
    sizeof(qr_plugin_compiler_api), 0, compiler_check, compiler_compile, NULL, NULL};
__attribute__((unused)) static const qr_plugin_context_api context_table = {CONTEXT_SIZE,
                                                                            0,
                                                                            context_grade,
                                                                            NULL,
                                                                            context_load,
                                                                            context_count,
                                                                            context_output_count,
                                                                            context_tensor,
                                                                            context_destroy,
                                                                            context_graph_count,
                                                                            NULL,
                                                                            NULL,
                                                                            NULL,
                                                                            NULL};
__attribute__((unused)) static qr_plugin_code (*const run_slot)(qr_execution *, const qr_run_request *,
                                                                const qr_error_sink *) = execution_run;
__attribute__((unused)) static void (*const release_slot)(qr_backend *, qr_registration *) = memory_release;
static const qr_plugin_execution_api execution_table = {sizeof(qr_plugin_execution_api),
                                                        0,
                                                        execution_create,
                                                        RUN_SLOT,
                                                        NULL,
                                                        execution_destroy,
                                                        SUBMIT_SLOT,
                                                        WAIT_SLOT,
                                                        NULL};
static const qr_plugin_memory_api memory_table = {
    sizeof(qr_plugin_memory_api), 0, memory_allocate, NULL, NULL, RELEASE_SLOT, MAP_SLOT, NULL, NULL, NULL, NULL};

static const qr_plugin plugin = {
    TABLE_SIZE,    TABLE_MINOR,     TABLE_MAGIC,   TABLE_ID,       TABLE_VERSION, "copies four floats",
    TABLE_BLOB,    TABLE_MINOR_MIN, &device_table, COMPILER_TABLE, CONTEXT_TABLE, &execution_table,
    &memory_table, &option_table,   create,        destroy,        NULL};

#ifdef ZOO_no_symbol
#define qr_plugin_query qr_plugin_query_of_another_name
#endif
QR_PLUGIN_EXPORT qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out,
                                                const qr_error_sink *errors);
QR_PLUGIN_EXPORT qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out,
                                                const qr_error_sink *errors) {
  (void)host, (void)errors;
  *out = &plugin;
#if defined(ZOO_query_refuses)
  return refuse(errors, 6, "found a host that is too green, expected a blue one");
#elif defined(ZOO_query_null)
  *out = NULL;
#endif
  return 0;
}
