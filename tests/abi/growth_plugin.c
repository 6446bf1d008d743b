/* SPDX-License-Identifier: Apache-2.0 */
/* A good plugin that is compiled against the headers one minor ahead and one behind: y = max(x, 0) over 2x4 floats. It
 * keeps to the rules of growth and fills in what its own minor has beyond today's. GROWTH_ID is its id, GROWTH_MINOR
 * the minor that its header must be of. */
#include <quarry/backend.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#if QR_PLUGIN_ABI_MINOR != GROWTH_MINOR
#error "another backend.h was found than the one that this plugin is for"
#endif

QR_PLUGIN_NOTE(GROWTH_ID, "1.0", 1);

struct qr_backend {
  const qr_host *host;
};
struct qr_context {
  int loaded;
};
struct qr_execution {
  int created;
};

static struct qr_backend the_backend;
static struct qr_context the_context;
static struct qr_execution the_execution;

static qr_plugin_string text(const char *data) {
  qr_plugin_string string = {data, QR_PLUGIN_NUL_TERMINATED};
  return string;
}

static qr_plugin_code refuse(const qr_error_sink *errors, const char *message) {
  errors->set(errors->self, 6, text(""), text(message), text(""));
  return 6;
}

/* The two rules: a struct of the host's as ours, and ours as far as the host's reaches. */
static void incoming(void *to, uint32_t known, const void *from) {
  uint32_t size;
  memcpy(&size, from, sizeof size);
  memset(to, 0, known);
  memcpy(to, from, size < known ? size : known);
}
static void give(const void *made, uint32_t known, void *out) {
  uint32_t size;
  memcpy(&size, out, sizeof size);
  memcpy(out, made, size < known ? size : known);
  memcpy(out, &size, sizeof size);
}

#if GROWTH_AHEAD
/* No host of today knows this slot, so none may call it. */
static void later(void) { abort(); }
#define LATER_FIELD(of) (of).later = 7
#define LATER_SLOT , .later = later
#else
#define LATER_FIELD(of) (void)(of)
#define LATER_SLOT
#endif

static uint64_t device_count(qr_backend *backend) {
  (void)backend;
  return 1;
}
static qr_plugin_code device_info(qr_backend *backend, uint64_t index, qr_plugin_device_info *out,
                                  const qr_error_sink *errors) {
  (void)backend, (void)index, (void)errors;
  qr_plugin_device_info info = {0};
  info.usable = 1;
  info.name = text("device of another minor");
  info.target = text("growth");
  LATER_FIELD(info);
  give(&info, sizeof info, out);
  return 0;
}

static uint64_t option_count(qr_backend *backend) {
  (void)backend;
  return 1;
}
static qr_plugin_code option_info(qr_backend *backend, uint64_t index, qr_plugin_option_info *out,
                                  const qr_error_sink *errors) {
  (void)backend, (void)index, (void)errors;
  qr_plugin_option_info info = {0};
  info.applies = QR_PLUGIN_OPTION_COMPILE;
  info.key = text(GROWTH_ID ".speed");
  info.values = text("low|high");
  info.default_value = text("low");
  info.help = text("An option of a plugin of another minor");
  LATER_FIELD(info);
  give(&info, sizeof info, out);
  return 0;
}

/* What a newer host could ask for: this request must not, for today's has no such field. */
static int asks_for_later(const qr_compile_request *from) {
  qr_compile_request request;
  incoming(&request, sizeof request, from);
#if GROWTH_AHEAD
  return request.later != 0;
#else
  return 0;
#endif
}

static qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request,
                                     const qr_verdict_sink *verdicts, const qr_error_sink *errors) {
  (void)backend;
  if (asks_for_later(request)) return refuse(errors, "check: found a field past the host's struct, expected 0");
  qr_plugin_verdict verdict = {0};
  verdict.struct_size = sizeof verdict;
  verdict.supported = 1;
  verdict.path = QR_PLUGIN_PATH_NATIVE;
  verdict.kernel = text("relu");
  LATER_FIELD(verdict);
  verdicts->verdict(verdicts->self, &verdict);
  return 0;
}

static qr_plugin_plan plan_of(void) {
  qr_plugin_plan plan = {0};
  plan.struct_size = sizeof plan;
  plan.arena_bytes = 64;
  LATER_FIELD(plan);
  return plan;
}

static qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *request,
                                       const qr_blob_sink *result, const qr_error_sink *errors) {
  (void)backend;
  if (asks_for_later(request)) return refuse(errors, "compile: found a field past the host's struct, expected 0");
  const qr_plugin_plan plan = plan_of();
  result->blob(result->self, "GROW", 4);
  result->compatibility(result->self, text("growth"), text(""));
  result->plan(result->self, &plan);
  return 0;
}

static qr_plugin_code context_grade(qr_backend *backend, const qr_load_request *request, int32_t *out_grade,
                                    const qr_error_sink *reason) {
  (void)backend, (void)request, (void)reason;
  *out_grade = QR_PLUGIN_GRADE_OPTIMAL;
  return 0;
}
static qr_plugin_code context_plan(qr_backend *backend, const qr_load_request *request, qr_plugin_plan *out_plan,
                                   const qr_error_sink *errors) {
  (void)backend, (void)request, (void)errors;
  const qr_plugin_plan plan = plan_of();
  give(&plan, sizeof plan, out_plan);
  return 0;
}
static qr_plugin_code context_load(qr_backend *backend, const qr_load_request *from, qr_context **out,
                                   const qr_error_sink *errors) {
  (void)backend;
  qr_load_request request;
  incoming(&request, sizeof request, from);
  if (request.blob->bytes.size != 4 || memcmp(request.blob->bytes.data, "GROW", 4))
    return refuse(errors, "blob: found other bytes than were compiled");
#if GROWTH_AHEAD
  if (request.later) return refuse(errors, "load: found a field past the host's struct, expected 0");
#endif
  *out = &the_context;
  return 0;
}
static uint64_t context_count(qr_context *context, uint64_t graph) {
  (void)context, (void)graph;
  return 1;
}
static qr_plugin_code context_tensor(qr_context *context, uint64_t graph, int32_t is_output, uint64_t index,
                                     qr_plugin_tensor_info *out, const qr_error_sink *errors) {
  (void)context, (void)graph, (void)index, (void)errors;
  qr_plugin_tensor_info info = {0};
  info.dtype = 1;
  info.rank = 2;
  info.dims[0] = 2;
  info.dims[1] = 4;
  info.name = text(is_output ? "y" : "x");
  LATER_FIELD(info);
  give(&info, sizeof info, out);
  return 0;
}
static void context_destroy(qr_context *context) { (void)context; }

static qr_plugin_code execution_create(qr_context *context, const qr_execution_request *request, qr_execution **out,
                                       const qr_error_sink *errors) {
  (void)context, (void)request, (void)errors;
  *out = &the_execution;
  return 0;
}
static qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *from, const qr_error_sink *errors) {
  (void)execution;
  qr_run_request request;
  incoming(&request, sizeof request, from);
#if GROWTH_AHEAD
  if (request.later) return refuse(errors, "run: found a field past the host's struct, expected 0");
#endif
  const float *x = request.inputs[0].data;
  float *y = request.outputs[0].data;
  if (!x || !y || request.inputs[0].size_bytes != 32) return refuse(errors, "run: found other inputs, expected 2x4");
  for (int i = 0; i < 8; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  request.outputs[0].used_bytes = 32;
  request.outputs[0].rank = 2;
  request.outputs[0].dims[0] = 2;
  request.outputs[0].dims[1] = 4;
  if (request.profile) {
    qr_plugin_event event = {0};
    event.struct_size = sizeof event;
    event.level = QR_PLUGIN_PROFILE_DETAILED;
    event.id = 1;
    event.begin = event.end = the_backend.host->clock_ns(the_backend.host->self);
    event.name = text("relu");
    event.kind = text("node");
    event.op = text("Relu");
    LATER_FIELD(event);
    request.profile->event(request.profile->self, &event);
  }
  return 0;
}
static void execution_destroy(qr_execution *execution) { (void)execution; }

static const qr_plugin_device_api device_table = {
    .struct_size = sizeof device_table, .count = device_count, .info = device_info LATER_SLOT};
static const qr_plugin_option_api option_table = {
    .struct_size = sizeof option_table, .count = option_count, .info = option_info LATER_SLOT};
static const qr_plugin_compiler_api compiler_table = {
    .struct_size = sizeof compiler_table, .check = compiler_check, .compile = compiler_compile LATER_SLOT};
static const qr_plugin_context_api context_table = {.struct_size = sizeof context_table,
                                                    .grade = context_grade,
                                                    .plan = context_plan,
                                                    .load = context_load,
                                                    .input_count = context_count,
                                                    .output_count = context_count,
                                                    .tensor = context_tensor,
                                                    .destroy = context_destroy LATER_SLOT};
static const qr_plugin_execution_api execution_table = {.struct_size = sizeof execution_table,
                                                        .create = execution_create,
                                                        .run = execution_run,
                                                        .destroy = execution_destroy LATER_SLOT};

static qr_plugin_code plugin_create(const qr_host *host, qr_backend **out, const qr_error_sink *errors) {
  (void)errors;
  the_backend.host = host;
  *out = &the_backend;
  return 0;
}
static void plugin_destroy(qr_backend *backend) { (void)backend; }

static const qr_plugin the_plugin = {.struct_size = sizeof the_plugin,
                                     .abi_minor = QR_PLUGIN_ABI_MINOR,
                                     .magic = QR_PLUGIN_MAGIC,
                                     .id = GROWTH_ID,
                                     .version = "1.0",
                                     .description = "a plugin of another minor",
                                     .blob_version = 1,
                                     .abi_minor_min = QR_PLUGIN_ABI_MINOR_MIN,
                                     .device = &device_table,
                                     .compiler = &compiler_table,
                                     .context = &context_table,
                                     .execution = &execution_table,
                                     .options = &option_table,
                                     .create = plugin_create,
                                     .destroy = plugin_destroy LATER_SLOT};

QR_PLUGIN_EXPORT qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                const qr_error_sink *errors);
QR_PLUGIN_EXPORT qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                const qr_error_sink *errors) {
  if (host->magic != QR_PLUGIN_MAGIC || host->abi_minor_max < QR_PLUGIN_ABI_MINOR_MIN)
    return refuse(errors, "host: found no minor that both speak");
  *out_plugin = &the_plugin;
  return 0;
}
