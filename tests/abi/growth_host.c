/* SPDX-License-Identifier: Apache-2.0 */
/* A host of another minor: goes the whole way from the query to a run through the tables of a plugin of today. Compiled
 * against the headers one minor ahead and one behind; GROWTH_MINOR is the minor that the header must be of. Every
 * struct that it hands out is followed by bytes of 0xA5: a plugin that reads past the host's struct takes them for
 * pointers, and one that writes past it is found out. */
#include "tests/abi/growth_host.h"

#include <dlfcn.h>
#include <quarry/backend.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if QR_PLUGIN_ABI_MINOR != GROWTH_MINOR
#error "another backend.h was found than the one that this host is for"
#endif

#if GROWTH_AHEAD
static void later(void) { abort(); }
#define LATER_FIELD(of) (of).later = 7 /* today's plugins look at no such field */
#define LATER_SLOT(of) (of).later = later
#else
#define LATER_FIELD(of) (void)(of)
#define LATER_SLOT(of) (void)(of)
#endif

#define GUARDED(type, name)                    \
  struct {                                     \
    type value;                                \
    unsigned char after[64];                   \
  } name;                                      \
  memset(&name, 0, sizeof name);               \
  memset(name.after, 0xA5, sizeof name.after); \
  name.value.struct_size = sizeof name.value

#define CHECK(what)                                                          \
  do {                                                                       \
    if (!(what)) {                                                           \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, g_file, #what); \
      return 1;                                                              \
    }                                                                        \
  } while (0)
#define CHECK_GUARD(name)                                                                    \
  do {                                                                                       \
    for (size_t byte = 0; byte < sizeof name.after; ++byte) CHECK(name.after[byte] == 0xA5); \
  } while (0)

static const char *g_file;

struct made {
  unsigned char blob[4096];
  uint64_t blob_size, verdicts, supported, events, progress, segments;
  qr_plugin_segment segment[4];
  void *added[4]; /* those that are the host's own */
  char target[64], key[64];
  const qr_plugin_graph *graph;
};

static void *host_alloc(void *self, uint64_t size, uint64_t align) {
  (void)self;
  void *memory = NULL;
  return posix_memalign(&memory, align < 16 ? 16 : align, size ? size : 1) ? NULL : memory;
}
static void host_free(void *self, void *memory, uint64_t size, uint64_t align) {
  (void)self, (void)size, (void)align;
  free(memory);
}
static void host_log(void *self, int32_t level, qr_plugin_string topic, qr_plugin_string message) {
  (void)self, (void)level, (void)topic, (void)message;
}
static uint64_t host_clock(void *self) {
  (void)self;
  return 1;
}
static const void *host_extension(void *self, const char *id) {
  (void)self, (void)id;
  return NULL;
}

static void on_error(void *self, qr_plugin_code code, qr_plugin_string id, qr_plugin_string message,
                     qr_plugin_string hint) {
  (void)self, (void)id, (void)hint;
  fprintf(stderr, "%s: %d %.*s\n", g_file, code,
          (int)(message.size == QR_PLUGIN_NUL_TERMINATED ? strlen(message.data) : message.size), message.data);
}
static void on_detail(void *self, qr_plugin_string key, qr_plugin_string value) { (void)self, (void)key, (void)value; }
static void on_event(void *self, const qr_plugin_event *event) {
  ((struct made *)self)->events += event->struct_size >= QR_PLUGIN_EVENT_FIRST_SIZE;
}
static void on_verdict(void *self, const qr_plugin_verdict *verdict) {
  struct made *made = self;
  ++made->verdicts;
  made->supported += verdict->struct_size >= QR_PLUGIN_VERDICT_FIRST_SIZE && verdict->supported == 1;
}
static qr_plugin_code keep_segment(void *self, uint64_t graph, uint64_t segment, uint32_t *out_segment) {
  struct made *made = self;
  if (graph || segment >= made->graph->segment_count || made->segments == 4) return 13;
  qr_plugin_segment kept = {made->graph->segments[segment].data, made->graph->segments[segment].size, -1, 0, 0, 0};
  *out_segment = (uint32_t)made->segments;
  made->segment[made->segments++] = kept;
  return 0;
}
static qr_plugin_code add_segment(void *self, const void *data, uint64_t size, uint64_t align, uint32_t *out_segment) {
  struct made *made = self;
  void *copy = made->segments < 4 ? host_alloc(NULL, size, align < 64 ? 64 : align) : NULL;
  if (!copy) return 8;
  if (size) memcpy(copy, data, size);
  qr_plugin_segment added = {copy, size, -1, 0, 0, 0};
  *out_segment = (uint32_t)made->segments;
  made->added[made->segments] = copy;
  made->segment[made->segments++] = added;
  return 0;
}
static qr_plugin_code on_blob(void *self, const void *data, uint64_t size) {
  struct made *made = self;
  if (size > sizeof made->blob) return 8;
  memcpy(made->blob, data, size);
  made->blob_size = size;
  return 0;
}
static void keep_text(char *to, size_t room, qr_plugin_string from) {
  const uint64_t size = from.size == QR_PLUGIN_NUL_TERMINATED ? strlen(from.data) : from.size;
  if (size && size < room) memcpy(to, from.data, size);
}
static qr_plugin_code on_compatibility(void *self, qr_plugin_string target, qr_plugin_string key) {
  struct made *made = self;
  keep_text(made->target, sizeof made->target, target);
  keep_text(made->key, sizeof made->key, key);
  return 0;
}
static qr_plugin_code on_plan(void *self, const qr_plugin_plan *plan) {
  (void)self;
  return plan->struct_size >= QR_PLUGIN_PLAN_FIRST_SIZE ? 0 : 13;
}
static void parallel_for(void *self, uint64_t count, uint64_t grain, qr_parallel_body body, void *context) {
  (void)self, (void)grain;
  body(context, 0, count, 0);
}

/* What each stage of the way finds, and hands on. */
struct way {
  const qr_plugin *plugin;
  qr_backend *backend;
  const qr_error_sink *errors;
  const qr_plugin_signal *signal;
  const qr_host_threads *threads;
  qr_plugin_option options[64];
  uint64_t option_count;
  struct made made;
  qr_context *context;
};

static int open_plugin(struct way *way) {
  void *library = dlopen(g_file, RTLD_NOW | RTLD_LOCAL);
  CHECK(library);
  qr_plugin_query_fn query;
  *(void **)&query = dlsym(library, "qr_plugin_query");
  CHECK(query);

  static qr_host host; /* outlives the plugin */
  host.struct_size = sizeof host;
  host.abi_major = QR_PLUGIN_ABI_MAJOR;
  host.abi_minor_min = 1;
  host.abi_minor_max = QR_PLUGIN_ABI_MINOR;
  host.magic = QR_PLUGIN_MAGIC;
  host.alloc = host_alloc;
  host.free = host_free;
  host.log = host_log;
  host.clock_ns = host_clock;
  host.get_extension = host_extension;
  LATER_SLOT(host);
  CHECK(query(&host, &way->plugin, way->errors) == 0);
  const qr_plugin *plugin = way->plugin;
  CHECK(plugin->struct_size >= QR_PLUGIN_FIRST_SIZE && plugin->magic == QR_PLUGIN_MAGIC);
  CHECK(plugin->abi_minor_min <= QR_PLUGIN_ABI_MINOR && plugin->abi_minor >= 1);
#if GROWTH_AHEAD
  CHECK(plugin->struct_size < sizeof(qr_plugin) && plugin->context->struct_size < sizeof(qr_plugin_context_api));
#else
  CHECK(plugin->context->struct_size > sizeof(qr_plugin_context_api));
#endif
  CHECK(plugin->create(&host, &way->backend, way->errors) == 0);
  return 0;
}

static int read_device_and_options(struct way *way) {
  const qr_plugin *plugin = way->plugin;
  CHECK(plugin->device->count(way->backend) >= 1);
  GUARDED(qr_plugin_device_info, device);
  CHECK(plugin->device->info(way->backend, 0, &device.value, way->errors) == 0);
  CHECK(device.value.struct_size == sizeof device.value && device.value.usable == 1);
  CHECK_GUARD(device);
  way->option_count = plugin->options ? plugin->options->count(way->backend) : 0;
  CHECK(way->option_count <= 64);
  for (uint64_t i = 0; i < way->option_count; ++i) {
    GUARDED(qr_plugin_option_info, row);
    CHECK(plugin->options->info(way->backend, i, &row.value, way->errors) == 0);
    CHECK(row.value.struct_size == sizeof row.value && row.value.key.data);
    CHECK_GUARD(row);
    way->options[i].key = row.value.key;
    way->options[i].value = row.value.default_value;
  }
  return 0;
}

static int check_and_compile(struct way *way, const void *qir, uint64_t qir_size) {
  const qr_plugin_compiler_api *compiler = way->plugin->compiler;
  struct made *made = &way->made;
  GUARDED(qr_plugin_graph, graph);
  graph.value.qir.data = qir;
  graph.value.qir.size = qir_size;
  LATER_FIELD(graph.value);
  made->graph = &graph.value;
  const qr_plugin_graph *const graphs[] = {&graph.value};
  GUARDED(qr_compile_request, compile);
  compile.value.graphs = graphs;
  compile.value.graph_count = 1;
  compile.value.options = way->options;
  compile.value.option_count = way->option_count;
  compile.value.signal = way->signal;
  compile.value.threads = way->threads;
  LATER_FIELD(compile.value);
  GUARDED(qr_verdict_sink, verdicts);
  verdicts.value.self = made;
  verdicts.value.verdict = on_verdict;
  LATER_SLOT(verdicts.value);
  CHECK(compiler->check(way->backend, &compile.value, &verdicts.value, way->errors) == 0);
  CHECK(made->verdicts == 1 && made->supported == 1);
  GUARDED(qr_blob_sink, result);
  result.value.self = made;
  result.value.keep_segment = keep_segment;
  result.value.add_segment = add_segment;
  result.value.blob = on_blob;
  result.value.compatibility = on_compatibility;
  result.value.plan = on_plan;
  LATER_SLOT(result.value);
  CHECK(compiler->compile(way->backend, &compile.value, &result.value, way->errors) == 0);
  CHECK(made->blob_size && made->target[0]);
  return 0;
}

/* bytes: the blob's, which the context keeps. */
static int grade_and_load(struct way *way, const unsigned char *bytes) {
  const struct made *made = &way->made;
  GUARDED(qr_blob, blob);
  blob.value.version = way->plugin->blob_version;
  blob.value.bytes.data = bytes;
  blob.value.bytes.size = made->blob_size;
  blob.value.bytes.fd = -1;
  blob.value.segments = made->segment;
  blob.value.segment_count = made->segments;
  blob.value.target.data = made->target;
  blob.value.target.size = strlen(made->target);
  blob.value.key.data = made->key;
  blob.value.key.size = strlen(made->key);
  blob.value.graph_count = 1;
  LATER_FIELD(blob.value);
  GUARDED(qr_load_request, load);
  load.value.blob = &blob.value;
  load.value.options = way->options;
  load.value.option_count = way->option_count;
  load.value.signal = way->signal;
  LATER_FIELD(load.value);
  const qr_plugin_context_api *contexts = way->plugin->context;
  int32_t grade = 0;
  CHECK(contexts->grade(way->backend, &load.value, &grade, way->errors) == 0);
  CHECK(grade == QR_PLUGIN_GRADE_OPTIMAL);
  if (contexts->plan) {
    GUARDED(qr_plugin_plan, plan);
    CHECK(contexts->plan(way->backend, &load.value, &plan.value, way->errors) == 0);
    CHECK(plan.value.struct_size == sizeof plan.value);
    CHECK_GUARD(plan);
  }
  CHECK(contexts->load(way->backend, &load.value, &way->context, way->errors) == 0);
  CHECK(contexts->input_count(way->context, 0) == 1 && contexts->output_count(way->context, 0) == 1);
  GUARDED(qr_plugin_tensor_info, tensor);
  CHECK(contexts->tensor(way->context, 0, 1, 0, &tensor.value, way->errors) == 0);
  CHECK(tensor.value.struct_size == sizeof tensor.value && tensor.value.rank == 2 && tensor.value.dims[1] == 4);
  CHECK_GUARD(tensor);
  return 0;
}

static int run_once(struct way *way) {
  const qr_plugin_execution_api *executions = way->plugin->execution;
  GUARDED(qr_execution_request, wanted);
  wanted.value.options = way->options;
  wanted.value.option_count = way->option_count;
  LATER_FIELD(wanted.value);
  qr_execution *execution = NULL;
  CHECK(executions->create(way->context, &wanted.value, &execution, way->errors) == 0);
  _Alignas(64) float x[8] = {-1, 2, 0, 4, 5, -6, 7, 0};
  _Alignas(64) float y[8] = {0};
  qr_io_buffer input, output;
  memset(&input, 0, sizeof input);
  memset(&output, 0, sizeof output);
  input.data = x;
  input.size_bytes = sizeof x;
  input.rank = output.rank = 2;
  input.dims[0] = output.dims[0] = 2;
  input.dims[1] = output.dims[1] = 4;
  output.data = y;
  output.size_bytes = sizeof y;
  output.wanted = 1;
  GUARDED(qr_profile_sink, profile);
  profile.value.level = QR_PLUGIN_PROFILE_DETAILED;
  profile.value.self = &way->made;
  profile.value.event = on_event;
  LATER_SLOT(profile.value);
  GUARDED(qr_run_request, run);
  run.value.inputs = &input;
  run.value.input_count = 1;
  run.value.outputs = &output;
  run.value.output_count = 1;
  run.value.signal = way->signal;
  run.value.profile = &profile.value;
  run.value.threads = way->threads;
  LATER_FIELD(run.value);
  CHECK(executions->run(execution, &run.value, way->errors) == 0);
  CHECK(output.used_bytes == sizeof y && output.rank == 2 && output.dims[1] == 4 && way->made.events > 0);
  for (int i = 0; i < 8; ++i) CHECK(((float *)output.data)[i] == (x[i] > 0 ? x[i] : 0));
  executions->destroy(execution);
  return 0;
}

int GROWTH_HOST(const char *file, const void *qir, uint64_t qir_size) {
  g_file = file;
  GUARDED(qr_error_sink, errors);
  errors.value.set = on_error;
  errors.value.detail = on_detail;
  LATER_SLOT(errors.value);
  const uint32_t aborted = 0;
  GUARDED(qr_plugin_signal, signal);
  signal.value.aborted = &aborted;
  LATER_FIELD(signal.value);
  GUARDED(qr_host_threads, threads);
  threads.value.worker_count = 1;
  threads.value.parallel_for = parallel_for;
  LATER_SLOT(threads.value);
  struct way way;
  memset(&way, 0, sizeof way);
  way.errors = &errors.value;
  way.signal = &signal.value;
  way.threads = &threads.value;

  if (open_plugin(&way) || read_device_and_options(&way) || check_and_compile(&way, qir, qir_size)) return 1;
  unsigned char *bytes = host_alloc(NULL, sizeof way.made.blob, 64);
  CHECK(bytes);
  memcpy(bytes, way.made.blob, way.made.blob_size);
  if (grade_and_load(&way, bytes) || run_once(&way)) return 1;
  way.plugin->context->destroy(way.context);
  way.plugin->destroy(way.backend);
  free(bytes);
  for (int i = 0; i < 4; ++i) free(way.made.added[i]);
  return 0;
}
