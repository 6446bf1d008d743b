// SPDX-License-Identifier: Apache-2.0
// The scripted backend: a real plugin that uses every slot of quarry/backend.h and does what the option
// "scripted.script" says (script.h), so that tests can see the host's side of each. It computes Identity, Relu and Add
// of equal shapes in f32, and NonZero (an output whose shape only the run knows); and, as a package would, the custom
// operator test.scripted::Tabled of version 1: y[i] = x[i] * table[i % n] + offset, with the tensor `table`, f32[n],
// and the float `offset` (0) as its attributes. What it notices it tells as profile events: see `tell` in run(). Built
// a second time with SCRIPTED_SUBMITS, it queues runs itself (worker.h).
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <cstring>
#include <ctime>

#include "backends/common/plugin_support.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "quarry/runtime.h"
#include "tests/plugins/scripted/script.h"
#include "tests/plugins/scripted/worker.h"

using namespace quarry;
using plugin::guard;
using plugin::Stop;
using plugin::text;
using plugin::view;
using scripted::Script;
using scripted::Worker;

#ifdef SCRIPTED_SUBMITS
constexpr bool kSubmits = true;
#else
constexpr bool kSubmits = false;
#endif

QR_PLUGIN_NOTE("scripted", "1.0", 4);

struct qr_backend {
  explicit qr_backend(const qr_host *host) noexcept : allocator(host) {
    plugin::log(*host, QR_LOG_INFO, "scripted", "created");
  }
  plugin::HostAllocator allocator;
  std::atomic<std::uint64_t> registrations{0};
  std::mutex groups_mutex;
  Vector<qr_context *> grouped;        // those with a group
  std::atomic<bool> no_memory{false};  // of the script of the last load
  std::atomic<bool> lost{false};
  std::atomic<std::uint64_t> stay_lost{0};  // so many recoveries are still to fail
};

struct qr_context {
  qr_backend *backend;
  String group;
  Vector<qir::Graph> graphs;
  Script script;
};

struct qr_execution {
  qr_context *context;
  const qir::Graph *graph;
  Script script;
  String priority;
  std::uint64_t runs = 0;
  Vector<Vector<float>> buffers;  // of tensors that are neither inputs, outputs nor constants
  // Of NonZero outputs, by tensor: memory of the plugin's own. One for each run that may be under way, and one more.
  Vector<Vector<Vector<std::int64_t>>> found;
  Vector<const float *> read;  // where each tensor lies in this run
  Vector<float *> write;
  Unique<Worker> worker;  // last, so that its thread ends first
};

struct qr_registration {
  char *data;
  std::uint64_t size;
  enum { Allocated, Mapped, Pointer } kind;
  void *map_base;
  std::uint64_t map_size;
  int fd = -1;           // of allocated memory: a memfd
  char *view = nullptr;  // of memory that is not coherent: what the host sees, apart from what the device does
};

// Memory of this size is not coherent: the host's view is a copy, brought up to date by begin_access and end_access.
constexpr std::uint64_t kApart = 4242;

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;

// Takes its time in small steps and stops when the signal says so.
Status take_time(std::uint64_t milliseconds, const qr_plugin_signal *signal, const qr_host &host, const char *what) {
  const Stop stop(signal, host);
  const std::uint64_t end = host.clock_ns(host.self) + milliseconds * kMillisecond;
  QR_RETURN_IF_ERROR(stop.status(what));
  while (host.clock_ns(host.self) < end) {
    const timespec step{0, static_cast<long>(kMillisecond)};
    nanosleep(&step, nullptr);
    QR_RETURN_IF_ERROR(stop.status(what));
  }
  return {};
}

// Tells an event with one counter, where somebody listens.
void tell_count(const qr_profile_sink *profile, std::uint64_t id, std::string_view name, std::string_view kind,
                std::uint64_t value) {
  if (!profile) return;
  const qr_plugin_counter counter{text("value"), text(""), value};
  qr_plugin_event event = plugin::node_event(id, -1, name, "", 0, 0);
  event.level = QR_PLUGIN_PROFILE_BASIC;
  event.clock = QR_PLUGIN_CLOCK_NONE;
  event.kind = text(kind);
  event.counters = &counter;
  event.counter_count = 1;
  profile->event(profile->self, &event);
}

Result<Script> script_of(const qr_plugin_option *options, std::uint64_t count) {
  return Script::parse(plugin::option(options, count, "scripted.script", ""));
}

std::uint64_t elements(const qir::Tensor &tensor) noexcept {
  std::uint64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

// ---- devices and options ------------------------------------------------------------------------

std::uint64_t device_count(qr_backend *) { return 3; }

qr_plugin_code device_info(qr_backend *, std::uint64_t index, qr_plugin_device_info *out, const qr_error_sink *) {
  qr_plugin_device_info info{};
  constexpr const char *kNames[] = {"scripted device", "broken device", "device that fork() breaks"};
  info.name = text(kNames[index]);
  info.target = text("scripted-v1");
  info.memory_bytes = 123456;
  info.features = QR_DEVICE_IMPORTS_FD | QR_DEVICE_REGISTERS_POINTER | QR_DEVICE_SIMULATED | QR_DEVICE_RECOVERS |
                  QR_DEVICE_GROUPS | QR_DEVICE_EXPORTS_FD;
  if (kSubmits) info.features |= QR_DEVICE_SUBMITS;
  if (index == 2) info.features |= QR_DEVICE_NO_FORK;
  info.usable = index != 1;
  if (index == 1) info.why_not = text("found a device that is broken on purpose, expected a whole one");
  plugin::give(info, out);
  return QR_OK;
}

qr_plugin_code device_recover(qr_backend *backend, std::uint64_t, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    if (backend->stay_lost > 0) {
      --backend->stay_lost;
      return Status::error(ErrorId::device_lost, "scripted device: still lost");
    }
    backend->lost = false;
    return {};
  });
}

constexpr qr_plugin_device_api kDevice = {sizeof(qr_plugin_device_api), 0, device_count, device_info, device_recover};

struct Row {
  const char *key, *values, *default_value, *help;
  bool at_run_time;
  std::uint32_t applies;
};
constexpr Row kRows[] = {
    {"scripted.script", "text", "", "What to do: see tests/plugins/scripted/script.h", true,
     QR_PLUGIN_OPTION_LOAD | QR_PLUGIN_OPTION_RUN},
    {"qnn_context_priority", "low|normal|normal_high|high", "normal", "Told back as the profile event \"priority\"",
     true, QR_PLUGIN_OPTION_RUN},
    {"scripted.fixed", "integer 0..7", "3", "An option that does not change at run time", false,
     QR_PLUGIN_OPTION_COMPILE},
};

std::uint64_t option_count(qr_backend *) { return std::size(kRows); }

qr_plugin_code option_info(qr_backend *, std::uint64_t index, qr_plugin_option_info *out, const qr_error_sink *) {
  const Row &row = kRows[index];
  qr_plugin_option_info info{};
  info.changes_at_run_time = row.at_run_time;
  info.applies = row.applies;
  info.key = text(row.key);
  info.values = text(row.values);
  info.default_value = text(row.default_value);
  info.help = text(row.help);
  plugin::give(info, out);
  return QR_OK;
}

constexpr qr_plugin_option_api kOptions = {sizeof(qr_plugin_option_api), 0, option_count, option_info};

// ---- compiler -----------------------------------------------------------------------------------

bool is_tabled(const qir::CustomOp &op) {
  return op.domain == "test.scripted" && op.type == "Tabled" && op.version == 1;
}

// Why a custom operator is refused; empty: it is in the package.
String custom_refusal(const qir::Graph &graph, const qir::Node &node) {
  if (!is_tabled(*node.custom))
    return format("custom operator %s version %lld: the package has test.scripted::Tabled version 1",
                  qir::op_text(node).c_str(), static_cast<long long>(node.custom->version));
  const qir::Attribute *table = node.find("table");
  if (!table || table->kind != qir::Attribute::Kind::Tensor || table->tensors[0].dtype != DType::F32 ||
      table->tensors[0].shape.size() != 1 || table->tensors[0].shape[0] == 0)
    return "found test.scripted::Tabled without a table, expected one: f32[n]";
  if (node.inputs.size() != 1 || node.outputs.size() != 1 || node.inputs[0] == qir::kAbsent ||
      node.outputs[0] == qir::kAbsent)
    return "found test.scripted::Tabled of other operands, expected one input and one output";
  const qir::Tensor &x = graph.tensors[static_cast<std::size_t>(node.inputs[0])],
                    &y = graph.tensors[static_cast<std::size_t>(node.outputs[0])];
  return y.dtype == DType::F32 && !y.quant && x.shape == y.shape
             ? String()
             : String("found test.scripted::Tabled with results of another type, expected that of its input");
}

// Why a node is refused; empty: it is not.
String refusal(const qir::Graph &graph, const qir::Node &node) {
  const auto &tensor = [&](std::int32_t index) -> const qir::Tensor & {
    return graph.tensors[static_cast<std::size_t>(index)];
  };
  if (node.op == qir::Op::Custom) {
    if (String reason = custom_refusal(graph, node); !reason.empty()) return reason;
  } else if (node.op != qir::Op::Identity && node.op != qir::Op::Relu && node.op != qir::Op::Add &&
             node.op != qir::Op::NonZero)
    return format("found %s, expected Identity, Relu, Add or NonZero", qir::op_name(node.op));
  for (const std::int32_t index : node.inputs) {
    if (index == qir::kAbsent) return "found an input that is absent, expected all";
    if (tensor(index).dtype != DType::F32 || tensor(index).quant)
      return format("found %s %s, expected plain f32", tensor(index).name.c_str(), dtype_name(tensor(index).dtype));
    for (const std::int64_t extent : tensor(index).shape)
      if (extent < 0) return format("found %s of unknown shape, expected a known one", tensor(index).name.c_str());
    if (node.op == qir::Op::Add && tensor(index).shape != tensor(node.outputs[0]).shape)
      return "found Add that broadcasts, expected equal shapes";
  }
  return {};
}

const char *kernel_of(const qir::Node &node) noexcept {
  return node.op == qir::Op::Custom ? "scripted_package" : "scripted_elementwise";
}

qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const Script script, script_of(request->options, request->option_count));
    QR_RETURN_IF_ERROR(take_time(script.slow_check, request->signal, backend->allocator.host(), "check"));
    QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_request(*request));
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const String reason = refusal(graph, graph.nodes[i]);
      plugin::tell_verdict(
          *verdicts, i,
          reason.empty() ? Status() : Status::error(ErrorId::backend_op, reason, "choose another backend"),
          QR_PLUGIN_PATH_NATIVE, kernel_of(graph.nodes[i]));
    }
    return {};
  });
}

qr_plugin_plan plan_of(const qir::Graph &graph) {
  qr_plugin_plan plan{sizeof(qr_plugin_plan), 0, 0, 0, 0, 1000, 2000, 300};
  for (const qir::Tensor &tensor : graph.tensors)
    (tensor.is_constant ? plan.weights_bytes : plan.arena_bytes) += tensor.is_constant ? tensor.data.size : 64;
  for (const auto *side : {&graph.inputs, &graph.outputs})
    for (const std::int32_t index : *side)
      if (const qir::Tensor &tensor = graph.tensors[static_cast<std::size_t>(index)]; tensor.dtype == DType::F32)
        plan.io_bytes += 4 * elements(tensor);
  return plan;
}

// What stands at the beginning of a blob: how many graphs follow, and of each how long it is and how many segments it
// has. The graphs' QIR follows, each at a multiple of 64; after their segments comes one that is added, to show that it
// can be.
struct BlobHeader {
  char magic[8];
  std::uint64_t count;
};
struct BlobGraph {
  std::uint64_t offset, size, segments;
};
constexpr char kBlobMagic[8] = {'s', 'c', 'r', 'i', 'p', 't', '0', '4'};

qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                                const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const Script script, script_of(request->options, request->option_count));
    const qr_compile_request known = plugin::incoming(*request);
    // In four parts, so that there is progress to tell.
    for (std::uint64_t part = 0; part < 4; ++part) {
      if (known.progress) known.progress->report(known.progress->self, part, 4, text("pretends"));
      QR_RETURN_IF_ERROR(
          take_time((script.slow_compile + 3) / 4, request->signal, backend->allocator.host(), "compile"));
    }
    tell_count(known.profile, 1, "graphs compiled", "compile", request->graph_count);
    if (script.fail_compile) return Status::error(ErrorId::internal, "option script: fail_compile is set, as told");
    const auto told = [](qr_plugin_code code) {
      return code == QR_OK ? Status()
             : code == QR_RESOURCE_EXHAUSTED
                 ? Status::out_of_memory()
                 : Status::error(ErrorId::internal, "the host refused a part of the result");
    };
    BlobHeader header{{}, request->graph_count};
    std::memcpy(header.magic, kBlobMagic, sizeof kBlobMagic);
    Vector<char> blob(sizeof header + request->graph_count * sizeof(BlobGraph));
    std::memcpy(blob.data(), &header, sizeof header);
    std::uint32_t segment;
    qr_plugin_plan plan{};
    for (std::uint64_t g = 0; g < request->graph_count; ++g) {
      const qr_plugin_graph &given = *request->graphs[g];
      QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_graph(given));
      plan = plan_of(graph);
      for (std::uint64_t i = 0; i < given.segment_count; ++i)
        QR_RETURN_IF_ERROR(told(result->keep_segment(result->self, g, i, &segment)));
      blob.resize((blob.size() + 63) / 64 * 64);
      const BlobGraph row{blob.size(), given.qir.size, given.segment_count};
      std::memcpy(blob.data() + sizeof header + g * sizeof row, &row, sizeof row);
      const char *bytes = static_cast<const char *>(given.qir.data);
      blob.insert(blob.end(), bytes, bytes + given.qir.size);
    }
    constexpr char kPacked[] = "packed by the scripted backend";
    QR_RETURN_IF_ERROR(told(result->add_segment(result->self, kPacked, sizeof kPacked, 4096, &segment)));
    QR_RETURN_IF_ERROR(told(result->blob(result->self, blob.data(), blob.size())));
    const String key = format("grade=%llu", static_cast<unsigned long long>(script.grade));
    QR_RETURN_IF_ERROR(told(result->compatibility(result->self, text("scripted-v1"), text(key))));
    return told(result->plan(result->self, &plan));
  });
}

std::int32_t compiler_supports(qr_backend *, qr_plugin_string domain, qr_plugin_string name, std::uint32_t version,
                               qr_plugin_string *out_types, qr_plugin_string *out_note) {
  const std::string_view which = view(name);
  const bool supported = (view(domain).empty() && version >= 7 &&
                          (which == "Identity" || which == "Relu" || which == "Add" || which == "NonZero")) ||
                         (view(domain) == "quarry" && which == "Custom");
  *out_types = text(supported ? "f32" : "");
  *out_note = text(which == "Add" ? "equal shapes only" : which == "Custom" ? "test.scripted::Tabled version 1" : "");
  return supported;
}

constexpr qr_plugin_compiler_api kCompiler = {
    sizeof(qr_plugin_compiler_api), 0, compiler_check, compiler_compile, compiler_supports, compiler_compile};

// ---- context ------------------------------------------------------------------------------------

Result<Vector<qir::Graph>> read_blob(const qr_blob &blob) {
  const auto bad = [](const char *what) { return Status::error(ErrorId::backend_bad_blob, what); };
  const char *const bytes = static_cast<const char *>(blob.bytes.data);
  BlobHeader header;
  if (blob.bytes.size < sizeof header) return bad("blob: found no header, expected one");
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.magic, kBlobMagic, sizeof kBlobMagic) != 0 || header.count != blob.graph_count ||
      header.count > (blob.bytes.size - sizeof header) / sizeof(BlobGraph))
    return bad("blob: found another beginning or count of graphs, expected those that compile writes");
  Vector<qir::Graph> graphs;
  std::uint64_t first = 0;
  for (std::uint64_t g = 0; g < header.count; ++g) {
    BlobGraph row;
    std::memcpy(&row, bytes + sizeof header + g * sizeof row, sizeof row);
    if (!range_fits(row.offset, row.size, blob.bytes.size) || row.offset % 8 ||
        !range_fits(first, row.segments, blob.segment_count))
      return bad("blob: found a graph or segment outside, expected them inside");
    Vector<qir::Bytes> segments;
    for (std::uint64_t i = first; i < first + row.segments; ++i)
      segments.push_back({blob.segments[i].data, blob.segments[i].size});
    first += row.segments;
    QR_ASSIGN_OR_RETURN(qir::Graph graph,
                        qir::read_graph({bytes + row.offset, row.size}, segments.data(), segments.size()));
    graphs.push_back(std::move(graph));
  }
  if (first + 1 != blob.segment_count) return bad("blob: found other segments, expected the packed one last");
  return graphs;
}

qr_plugin_code context_grade(qr_backend *backend, const qr_load_request *request, std::int32_t *out_grade,
                             const qr_error_sink *reason) {
  return guard(backend->allocator, reason, [&]() -> Status {
    const qr_blob *const blob = request->blob;
    QR_ASSIGN_OR_RETURN(const Script script, Script::parse(view(blob->key)));
    *out_grade = static_cast<std::int32_t>(script.grade);
    const String why = format("key found \"%s\", expected \"grade=1\"", String(view(blob->key)).c_str());
    if (script.grade != 1) reason->set(reason->self, QR_OK, text(""), text(why), text(""));
    return {};
  });
}

qr_plugin_code context_plan(qr_backend *backend, const qr_load_request *request, qr_plugin_plan *out_plan,
                            const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const Vector<qir::Graph> graphs, read_blob(*request->blob));
    plugin::give(plan_of(graphs.back()), out_plan);
    return {};
  });
}

// Whether the bytes of a segment are found in its file too, where it is in one.
bool read_again(const qr_plugin_segment &segment) {
  if (segment.fd < 0) return false;
  Vector<char> bytes(segment.size);
  return pread(segment.fd, bytes.data(), bytes.size(), static_cast<off_t>(segment.offset)) ==
             static_cast<ssize_t>(bytes.size()) &&
         std::memcmp(bytes.data(), segment.data, bytes.size()) == 0;
}

qr_plugin_code context_load(qr_backend *backend, const qr_load_request *request, qr_context **out_context,
                            const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    auto context = quarry::make_unique<qr_context>();
    context->backend = backend;
    QR_ASSIGN_OR_RETURN(context->script, script_of(request->options, request->option_count));
    QR_RETURN_IF_ERROR(take_time(context->script.slow_load, request->signal, backend->allocator.host(), "load"));
    backend->no_memory = context->script.no_memory;
    QR_ASSIGN_OR_RETURN(context->graphs, read_blob(*request->blob));
    // The blob is untrusted: what compile refused may stand in it all the same.
    for (const qir::Graph &graph : context->graphs)
      for (const qir::Node &node : graph.nodes)
        if (const String reason = refusal(graph, node); !reason.empty())
          return Status::error(ErrorId::backend_bad_blob, "blob: " + reason);
    const qr_load_request known = plugin::incoming(*request);
    context->group = view(known.group);
    if (!context->group.empty()) {
      const std::lock_guard lock(backend->groups_mutex);
      backend->grouped.push_back(context.get());
    }
    if (known.progress) known.progress->report(known.progress->self, 0, 0, text("loading."));
    std::uint64_t in_file = read_again(request->blob->bytes);
    for (std::uint64_t i = 0; i < request->blob->segment_count; ++i) in_file += read_again(request->blob->segments[i]);
    tell_count(known.profile, 1, "graphs loaded", "load", context->graphs.size());
    tell_count(known.profile, 2, "segments in the file", "load", in_file);
    *out_context = context.release();
    return {};
  });
}

std::uint64_t context_graph_count(qr_context *context) { return context->graphs.size(); }
std::uint64_t context_input_count(qr_context *context, std::uint64_t g) { return context->graphs[g].inputs.size(); }
std::uint64_t context_output_count(qr_context *context, std::uint64_t g) { return context->graphs[g].outputs.size(); }

qr_plugin_code context_tensor(qr_context *context, std::uint64_t g, std::int32_t is_output, std::uint64_t index,
                              qr_plugin_tensor_info *out, const qr_error_sink *) {
  const qir::Graph &graph = context->graphs[g];
  const auto &side = is_output ? graph.outputs : graph.inputs;
  const qir::Tensor &tensor = graph.tensors[static_cast<std::size_t>(side[index])];
  qr_plugin_tensor_info info{};
  info.dtype = static_cast<std::int32_t>(tensor.dtype);
  info.rank = static_cast<std::uint32_t>(tensor.shape.size());
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) info.dims[axis] = tensor.shape[axis];
  info.name = text(tensor.name);
  plugin::give(info, out);
  return QR_OK;
}

qr_plugin_code context_nodes(qr_context *context, std::uint64_t g, const qr_verdict_sink *verdicts,
                             const qr_error_sink *) {
  for (std::uint32_t i = 0; i < context->graphs[g].nodes.size(); ++i)
    plugin::tell_verdict(*verdicts, i, {}, QR_PLUGIN_PATH_NATIVE, kernel_of(context->graphs[g].nodes[i]));
  return QR_OK;
}

void context_destroy(qr_context *context) {
  {
    const std::lock_guard lock(context->backend->groups_mutex);
    std::erase(context->backend->grouped, context);
  }
  FreeDelete<qr_context>()(context);
}

std::uint64_t contexts_in_group(const qr_context &context) {
  const std::lock_guard lock(context.backend->groups_mutex);
  return static_cast<std::uint64_t>(
      std::count_if(context.backend->grouped.begin(), context.backend->grouped.end(),
                    [&](const qr_context *other) { return other->group == context.group; }));
}

constexpr qr_plugin_context_api kContext = {sizeof(qr_plugin_context_api),
                                            0,
                                            context_grade,
                                            context_plan,
                                            context_load,
                                            context_input_count,
                                            context_output_count,
                                            context_tensor,
                                            context_destroy,
                                            context_graph_count,
                                            context_nodes};

// ---- execution ----------------------------------------------------------------------------------

Status run(qr_execution &execution, const qr_run_request &request);

qr_plugin_code execution_create(qr_context *context, const qr_execution_request *request, qr_execution **out_execution,
                                const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    auto execution = quarry::make_unique<qr_execution>();
    execution->context = context;
    execution->graph = &context->graphs[request->graph];
    QR_ASSIGN_OR_RETURN(execution->script, script_of(request->options, request->option_count));
    execution->priority = plugin::option(request->options, request->option_count, "qnn_context_priority", "normal");
    const qir::Graph &graph = *execution->graph;
    execution->buffers.resize(graph.tensors.size());
    const std::uint64_t depth = plugin::incoming(*request).queue_depth;
    execution->found.resize(depth + 1);
    for (auto &found : execution->found) found.resize(graph.tensors.size());
    execution->read.resize(graph.tensors.size());
    execution->write.resize(graph.tensors.size());
    for (const qir::Node &node : graph.nodes) {
      const auto out = static_cast<std::size_t>(node.outputs[0]);
      if (node.op == qir::Op::NonZero) {
        const qir::Tensor &input = graph.tensors[static_cast<std::size_t>(node.inputs[0])];
        for (auto &found : execution->found) found[out].resize(elements(input) * input.shape.size());
      } else {
        execution->buffers[out].resize(elements(graph.tensors[out]));
      }
    }
    if (kSubmits && depth)
      execution->worker = quarry::make_unique<Worker>(*execution, run, context->backend->allocator, depth);
    *out_execution = execution.release();
    return {};
  });
}

// Where an input or output lies: registered memory is read through its registration, to prove that the host passed the
// right one.
char *place_of(const qr_io_buffer &buffer) noexcept {
  return buffer.memory ? buffer.memory->data + buffer.memory_offset : static_cast<char *>(buffer.data);
}

struct Elementwise {
  qir::Op op;
  const float *a, *b;
  float *out;
  const float *table;  // of a Tabled
  std::uint64_t table_size;
  float offset;
  static void body(void *context, std::uint64_t begin, std::uint64_t end, std::uint32_t) {
    const Elementwise &work = *static_cast<const Elementwise *>(context);
    for (std::uint64_t i = begin; i < end; ++i)
      work.out[i] = work.op == qir::Op::Add    ? work.a[i] + work.b[i]
                    : work.op == qir::Op::Relu ? (work.a[i] > 0 ? work.a[i] : 0)
                    : work.table               ? work.a[i] * work.table[i % work.table_size] + work.offset
                                               : work.a[i];
  }
};

// The coordinates of elements that are not zero, one row per axis; returns how many.
std::uint64_t non_zero(const float *data, const qir::Shape &shape, Vector<std::int64_t> &out) {
  std::uint64_t count = 1, found = 0;
  for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  for (std::uint64_t i = 0; i < count; ++i) found += data[i] != 0;
  std::uint64_t column = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (data[i] == 0) continue;
    std::uint64_t rest = i;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      out[axis * found + column] = static_cast<std::int64_t>(rest % static_cast<std::uint64_t>(shape[axis]));
      rest /= static_cast<std::uint64_t>(shape[axis]);
    }
    ++column;
  }
  return found;
}

Status run(qr_execution &execution, const qr_run_request &request) {
  qr_backend &backend = *execution.context->backend;
  const qir::Graph &graph = *execution.graph;
  const Script &script = execution.script;
  const qr_host &host = backend.allocator.host();
  const Stop stop(request.signal, host);
  const auto now = [&] { return host.clock_ns(host.self); };
  std::uint64_t events = 0;
  const auto tell = [&](std::string_view name, std::string_view kind, std::string_view op, std::uint64_t begin,
                        std::uint64_t value, std::string_view unit) {
    if (!request.profile) return;
    qr_plugin_event event = plugin::node_event(++events, -1, name, op, begin, now());
    const qr_plugin_counter counter{text("value"), text(unit), value};
    event.kind = text(kind);
    event.counters = &counter;
    event.counter_count = 1;
    request.profile->event(request.profile->self, &event);
  };

  ++execution.runs;
  Vector<Vector<std::int64_t>> &all_found = execution.found[execution.runs % execution.found.size()];
  if (script.lose_at && execution.runs == script.lose_at) {
    backend.lost = true;
    backend.stay_lost = script.stay_lost;
  }
  if (backend.lost)
    return Status::error(ErrorId::device_lost,
                         format("scripted device: lost at run %llu", static_cast<unsigned long long>(execution.runs)));
  const std::uint64_t begin = now();
  QR_RETURN_IF_ERROR(take_time(script.slow_run, request.signal, host, "run"));
  if (script.sleep_run) {
    const qr_plugin_signal signal = request.signal ? plugin::incoming(*request.signal) : qr_plugin_signal{};
    pollfd abort{signal.event_fd ? signal.event_fd(signal.self) : -1, POLLIN, 0};
    poll(&abort, 1, static_cast<int>(script.sleep_run));
    QR_RETURN_IF_ERROR(stop.status("run"));
  }
  if (script.fail_at && execution.runs == script.fail_at)
    return Status::error(ErrorId::internal, "option script: fail_at is this run, as told");

  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    execution.write[i] = execution.buffers[i].data();
    execution.read[i] =
        graph.tensors[i].is_constant ? static_cast<const float *>(graph.tensors[i].data.data) : execution.write[i];
  }
  std::uint64_t registered = 0;
  for (std::uint64_t i = 0; i < request.input_count; ++i) {
    registered += request.inputs[i].memory != nullptr;
    execution.read[static_cast<std::size_t>(graph.inputs[i])] =
        reinterpret_cast<const float *>(place_of(request.inputs[i]));
  }
  for (std::uint64_t i = 0; i < request.output_count; ++i) registered += request.outputs[i].memory != nullptr;

  for (const qir::Node &node : graph.nodes) {
    QR_RETURN_IF_ERROR(stop.status("run"));
    const std::uint64_t start = now();
    const auto in = static_cast<std::size_t>(node.inputs[0]), out = static_cast<std::size_t>(node.outputs[0]);
    if (node.op == qir::Op::NonZero) {
      all_found[out].resize(graph.tensors[in].shape.size() * elements(graph.tensors[in]));
      all_found[out].resize(graph.tensors[in].shape.size() *
                            non_zero(execution.read[in], graph.tensors[in].shape, all_found[out]));
    } else {
      Elementwise work{node.op,
                       execution.read[in],
                       node.inputs.size() > 1 ? execution.read[static_cast<std::size_t>(node.inputs[1])] : nullptr,
                       execution.write[out],
                       nullptr,
                       0,
                       node.get_float("offset", 0)};
      if (node.op == qir::Op::Custom) {
        const qir::Tensor &table = node.find("table")->tensors[0];
        work.table = static_cast<const float *>(table.data.data);
        work.table_size = elements(table);
      }
      request.threads->parallel_for(request.threads->self, elements(graph.tensors[out]), 16, Elementwise::body, &work);
    }
    tell(node.name, "node", qir::op_text(node), start, 1, "cycles");
  }

  for (std::uint64_t i = 0; i < request.output_count; ++i) {
    qr_io_buffer &buffer = request.outputs[i];
    if (!buffer.wanted) continue;
    const auto index = static_cast<std::size_t>(graph.outputs[i]);
    const qir::Tensor &tensor = graph.tensors[index];
    buffer.rank = static_cast<std::uint32_t>(tensor.shape.size());
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) buffer.dims[axis] = tensor.shape[axis];
    if (tensor.dtype == DType::I64) {
      const Vector<std::int64_t> &found = all_found[index];
      buffer.dims[1] = buffer.dims[0] ? static_cast<std::int64_t>(found.size()) / buffer.dims[0] : 0;
      buffer.used_bytes = found.size() * 8;
      buffer.data = const_cast<std::int64_t *>(found.data());
    } else {
      buffer.used_bytes = 4 * elements(tensor);
      std::memcpy(place_of(buffer), execution.read[index], buffer.used_bytes);
    }
  }
  if (!script.wrong.empty() && request.output_count) {
    qr_io_buffer &first = request.outputs[0];
    if (script.wrong == "unset") first.used_bytes = UINT64_MAX;
    if (script.wrong == "bytes") first.used_bytes += 4;
    if (script.wrong == "moved") first.data = static_cast<char *>(first.data) + 64;
  }
  tell("run", "run", "", begin, execution.runs, "runs");
  tell("priority", "run", execution.priority, begin, 0, "");
  tell("registered", "run", "", begin, registered, "buffers");
  tell("registrations", "run", "", begin, backend.registrations.load(), "registrations");
  tell("contexts in the group", "run", "", begin, contexts_in_group(*execution.context), "contexts");
  tell("workers", "run", "", begin, request.threads->worker_count, "workers");
  return {};
}

qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors) {
  if (execution->script.wrong == "silent") return QR_UNSUPPORTED;
  return guard(execution->context->backend->allocator, errors, [&] { return run(*execution, *request); });
}

qr_plugin_code execution_submit(qr_execution *execution, const qr_run_request *request, std::uint64_t *out_ticket,
                                const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(*out_ticket, execution->worker->submit(*request));
    return {};
  });
}

qr_plugin_code execution_wait(qr_execution *execution, std::uint64_t ticket, const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, [&] { return execution->worker->wait(ticket); });
}

qr_plugin_code execution_set_option(qr_execution *execution, qr_plugin_string key, qr_plugin_string value,
                                    const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, [&]() -> Status {
    if (view(key) == "qnn_context_priority") {
      const qir::Shape &rows = execution->graph->tensors[static_cast<std::size_t>(execution->graph->inputs[0])].shape;
      if (view(value) == "high" && rows[0] == 2 && execution->graph->nodes.size() == 1)
        return Status::error(ErrorId::backend_limit,
                             "priority high: found a graph of one node and two rows, which has none");
      execution->priority = view(value);
      return {};
    }
    QR_ASSIGN_OR_RETURN(execution->script, Script::parse(view(value)));
    execution->runs = 0;
    return {};
  });
}

void execution_destroy(qr_execution *execution) { FreeDelete<qr_execution>()(execution); }

constexpr qr_plugin_execution_api kExecution = {sizeof(qr_plugin_execution_api),
                                                0,
                                                execution_create,
                                                execution_run,
                                                execution_set_option,
                                                execution_destroy,
                                                kSubmits ? execution_submit : nullptr,
                                                kSubmits ? execution_wait : nullptr};

// ---- memory -------------------------------------------------------------------------------------

template <class Body>
qr_plugin_code make_registration(qr_backend *backend, qr_registration **out, const qr_error_sink *errors, Body &&body) {
  return guard(backend->allocator, errors, [&]() -> Status {
    if (backend->no_memory)
      return Status::error(ErrorId::memory_unsupported, "memory: the script says that there is none");
    auto registration = quarry::make_unique<qr_registration>();
    QR_RETURN_IF_ERROR(body(*registration));
    ++backend->registrations;
    *out = registration.release();
    return {};
  });
}

void give_view(void *data, qr_plugin_memory_info *out_info) {
  plugin::give(qr_plugin_memory_info{sizeof(qr_plugin_memory_info), 1, data}, out_info);
}

qr_plugin_code memory_allocate(qr_backend *backend, const qr_plugin_memory_request *request,
                               qr_plugin_memory_info *out_info, qr_registration **out, const qr_error_sink *errors) {
  return make_registration(backend, out, errors, [&](qr_registration &made) -> Status {
    const int fd = memfd_create("scripted", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(request->size_bytes)) != 0)
      return Status::error(ErrorId::io_error, "memory: the system gives no memfd");
    void *base = mmap(nullptr, request->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return Status::error(ErrorId::io_error, "memory: the memfd cannot be mapped");
    made = {static_cast<char *>(base), request->size_bytes, qr_registration::Allocated, base, request->size_bytes, fd};
    const bool apart = request->size_bytes == kApart;
    if (apart) made.view = static_cast<char *>(allocate_block(kApart, 64));
    void *const view = request->flags & QR_PLUGIN_MEMORY_NO_HOST_POINTER ? nullptr : apart ? made.view : base;
    plugin::give(qr_plugin_memory_info{sizeof(qr_plugin_memory_info), !apart, view}, out_info);
    return {};
  });
}

qr_plugin_code memory_import_fd(qr_backend *backend, const qr_plugin_memory_request *request,
                                qr_plugin_memory_info *out_info, qr_registration **out, const qr_error_sink *errors) {
  return make_registration(backend, out, errors, [&](qr_registration &made) -> Status {
    const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)), lead = request->offset % page;
    void *base = mmap(nullptr, lead + request->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, request->fd,
                      static_cast<off_t>(request->offset - lead));
    if (base == MAP_FAILED) return Status::error(ErrorId::io_error, "memory: the descriptor cannot be mapped");
    made = {static_cast<char *>(base) + lead, request->size_bytes, qr_registration::Mapped, base,
            lead + request->size_bytes};
    give_view(made.data, out_info);
    return {};
  });
}

qr_plugin_code memory_register_pointer(qr_backend *backend, const qr_plugin_memory_request *request,
                                       qr_plugin_memory_info *, qr_registration **out, const qr_error_sink *errors) {
  return make_registration(backend, out, errors, [&](qr_registration &made) -> Status {
    made = {static_cast<char *>(request->data), request->size_bytes, qr_registration::Pointer, nullptr, 0};
    return {};
  });
}

void memory_release(qr_backend *backend, qr_registration *registration) {
  if (registration->kind != qr_registration::Pointer) munmap(registration->map_base, registration->map_size);
  if (registration->fd >= 0) close(registration->fd);
  free_block(registration->view);
  FreeDelete<qr_registration>()(registration);
  --backend->registrations;
}

qr_plugin_code memory_map(qr_backend *, qr_registration *registration, std::uint32_t, void **out_data,
                          const qr_error_sink *) {
  *out_data = registration->data;
  return QR_OK;
}

qr_plugin_code memory_unmap(qr_backend *, qr_registration *, const qr_error_sink *) { return QR_OK; }

qr_plugin_code memory_begin_access(qr_backend *, qr_registration *registration, std::uint32_t access,
                                   const qr_error_sink *) {
  if (access & QR_PLUGIN_ACCESS_READ) std::memcpy(registration->view, registration->data, registration->size);
  return QR_OK;
}

qr_plugin_code memory_end_access(qr_backend *, qr_registration *registration, std::uint32_t access,
                                 const qr_error_sink *) {
  if (access & QR_PLUGIN_ACCESS_WRITE) std::memcpy(registration->data, registration->view, registration->size);
  return QR_OK;
}

qr_plugin_code memory_export_fd(qr_backend *backend, qr_registration *registration, std::int32_t *out_fd,
                                std::uint64_t *out_offset, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    if (registration->fd < 0)
      return Status::error(ErrorId::memory_unsupported, "memory: the caller's own has no descriptor");
    *out_fd = fcntl(registration->fd, F_DUPFD_CLOEXEC, 0);
    *out_offset = 0;
    return *out_fd >= 0 ? Status() : Status::error(ErrorId::no_descriptor, "memory: the system gives no descriptor");
  });
}

constexpr qr_plugin_memory_api kMemory = {sizeof(qr_plugin_memory_api),
                                          0,
                                          memory_allocate,
                                          memory_import_fd,
                                          memory_register_pointer,
                                          memory_release,
                                          memory_map,
                                          memory_unmap,
                                          memory_begin_access,
                                          memory_end_access,
                                          memory_export_fd};

// ---- the plugin ---------------------------------------------------------------------------------

const void *get_extension(qr_backend *, const char *id) {
  static constexpr std::uint32_t kAnswer = 42;
  return std::string_view(id) == "test.answer/1" ? &kAnswer : nullptr;
}

}  // namespace

extern "C" QR_PLUGIN_EXPORT qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                           const qr_error_sink *errors) {
  static constexpr qr_plugin kPlugin = {sizeof(qr_plugin),
                                        QR_PLUGIN_ABI_MINOR,
                                        QR_PLUGIN_MAGIC,
                                        "scripted",
                                        "1.0",
                                        "does what a test tells it to",
                                        4,
                                        QR_PLUGIN_ABI_MINOR_MIN,
                                        &kDevice,
                                        &kCompiler,
                                        &kContext,
                                        &kExecution,
                                        &kMemory,
                                        &kOptions,
                                        plugin::create_backend<qr_backend>,
                                        plugin::destroy_backend<qr_backend>,
                                        get_extension};
  return plugin::answer_query(host, kPlugin, out_plugin, errors);
}
