// SPDX-License-Identifier: Apache-2.0
// The scripted backend: a real plugin that uses every slot of quarry/backend.h and does what the option
// "scripted.script" says (script.h), so that tests can see the host's side of each. It computes Identity, Relu and Add
// of equal shapes in f32, and NonZero (an output whose shape only the run knows); and, as a package would, the custom
// operator test.scripted::Tabled of version 1: y[i] = x[i] * table[i % n] + offset, with the tensor `table`, f32[n],
// and the float `offset` (0) as its attributes. What it notices it reports as profile events: see `tell` in run().
// Built a second time with SCRIPTED_SUBMITS, it queues runs itself (queue.h).
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "backends/common/node_event.h"
#include "base/dtype.h"
#include "quarry/runtime.h"
#include "tests/plugins/scripted/compiler.h"
#include "tests/plugins/scripted/memory.h"
#include "tests/plugins/scripted/objects.h"

using namespace quarry;
using namespace quarry::scripted;
using plugin::guard;
using plugin::StopToken;
using plugin::text;
using plugin::view;

QR_PLUGIN_NOTE("scripted", "1.0", 4);

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
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
  if (kSubmits) info.features |= QR_DEVICE_SUBMITS | QR_DEVICE_NO_FORK;  // the queue's thread ends at fork()
  if (index == 2) info.features |= QR_DEVICE_NO_FORK;
  info.usable = index != 1;
  if (index == 1) info.why_not = text("found a device that is broken on purpose, expected a whole one");
  plugin::give(info, out);
  return QR_OK;
}

qr_plugin_code device_recover(qr_backend *backend, std::uint64_t, const qr_error_sink *errors,
                              const qr_plugin_signal *) {
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
    {"qnn_context_priority", "low|normal|normal_high|high", "normal", "Reported back as the profile event \"priority\"",
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

// ---- context ------------------------------------------------------------------------------------

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
  if (segment.size == 0) return true;
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
    report_count(known.profile, 1, "graphs loaded", "load", context->graphs.size());
    report_count(known.profile, 2, "segments in the file", "load", in_file);
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
    plugin::report_verdict(*verdicts, i, {}, QR_PLUGIN_PATH_NATIVE, kernel_of(context->graphs[g].nodes[i]));
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

// The scripted device's own form: these words, and an ONNX model behind them.
qr_plugin_code context_import_binary(qr_backend *backend, qr_plugin_bytes binary, qr_plugin_string binary_name,
                                     const qr_plugin_option *, std::uint64_t, const qr_bytes_sink *out_model,
                                     const qr_bytes_sink *out_json, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    constexpr std::string_view kBegin = "scripted context:";
    const std::string_view bytes(static_cast<const char *>(binary.data), binary.size);
    if (!bytes.starts_with(kBegin)) return {};
    if (bytes.size() == kBegin.size())
      return Status::error(ErrorId::backend_bad_blob, "scripted context: found no model, expected one", "write one");
    const String about = format("{\"file\":\"%s\"}", printable(view(binary_name)).c_str());
    (void)out_model->write(out_model->self, bytes.data() + kBegin.size(), bytes.size() - kBegin.size());
    (void)out_json->write(out_json->self, about.data(), about.size());
    return {};
  });
}

// A file of the blob, unless that is to be embedded, and one of its size and target.
qr_plugin_code context_export_onnx(qr_backend *backend, const qr_load_request *request, qr_plugin_string name,
                                   std::int32_t is_embedded, const qr_files_sink *files, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const Script script, script_of(request->options, request->option_count));
    plugin::HostFiles to(*files);
    const qr_plugin_segment &blob = request->blob->bytes;
    if (!is_embedded) {
      QR_RETURN_IF_ERROR(to.begin(String(view(name)) + ".bin", blob.size, 1));
      QR_RETURN_IF_ERROR(to.write(blob.data, blob.size));
    }
    const String model = format("%llu bytes for %s", static_cast<unsigned long long>(blob.size),
                                String(view(request->blob->target)).c_str());
    QR_RETURN_IF_ERROR(to.begin(script.wrong == "name" ? "../x.onnx" : view(name), model.size(), 0));
    QR_RETURN_IF_ERROR(to.write(model.data(), model.size() - (script.wrong == "short")));
    return script.wrong == "long" ? to.write("!", 1) : Status();
  });
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
                                            context_nodes,
                                            nullptr,
                                            context_export_onnx,
                                            context_import_binary};

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
      execution->queue = quarry::make_unique<RunQueue>(*execution, run, context->backend->allocator, depth);
    *out_execution = execution.release();
    return {};
  });
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

// Reports what a run does to the caller's profile, where it has one.
class Reporter {
 public:
  Reporter(const qr_profile_sink *sink, const qr_host &host) : sink_(sink), host_(host) {}
  std::uint64_t now() const { return host_.clock_ns(host_.self); }
  void report(std::string_view name, std::string_view kind, std::string_view op, std::uint64_t begin,
              std::uint64_t value, std::string_view unit) {
    if (!sink_) return;
    qr_plugin_event event =
        plugin::node_event({.id = ++events_, .name = name, .op = op, .begin_ns = begin, .end_ns = now()});
    const qr_plugin_counter counter{text("value"), text(unit), value};
    event.kind = text(kind);
    event.counters = &counter;
    event.counter_count = 1;
    sink_->event(sink_->self, &event);
  }

 private:
  const qr_profile_sink *sink_;
  const qr_host &host_;
  std::uint64_t events_ = 0;
};

// What the script says that befalls this run before anything is computed.
Status play_script(qr_execution &execution, const qr_run_request &request, const StopToken &stop) {
  qr_backend &backend = *execution.context->backend;
  const Script &script = execution.script;
  if (script.lose_at && execution.runs == script.lose_at) {
    backend.lost = true;
    backend.stay_lost = script.stay_lost;
  }
  if (backend.lost)
    return Status::error(ErrorId::device_lost,
                         format("scripted device: lost at run %llu", static_cast<unsigned long long>(execution.runs)));
  QR_RETURN_IF_ERROR(take_time(script.slow_run, request.signal, backend.allocator.host(), "run"));
  if (script.sleep_run) {
    const qr_plugin_signal signal = request.signal ? plugin::incoming(*request.signal) : qr_plugin_signal{};
    pollfd abort{signal.event_fd ? signal.event_fd(signal.self) : -1, POLLIN, 0};
    poll(&abort, 1, static_cast<int>(script.sleep_run));
    QR_RETURN_IF_ERROR(stop.status("run"));
  }
  if (script.fail_at && execution.runs == script.fail_at)
    return Status::error(ErrorId::internal, "option script: fail_at is this run, as asked");
  return {};
}

void bind_tensors(qr_execution &execution, const qr_run_request &request) {
  const qir::Graph &graph = *execution.graph;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    execution.write[i] = execution.buffers[i].data();
    execution.read[i] =
        graph.tensors[i].is_constant ? static_cast<const float *>(graph.tensors[i].data.data) : execution.write[i];
  }
  for (std::uint64_t i = 0; i < request.input_count; ++i)
    execution.read[index_of(graph.inputs[i])] = reinterpret_cast<const float *>(place_of(request.inputs[i]));
}

std::uint64_t registered_buffers(const qr_run_request &request) {
  std::uint64_t registered = 0;
  for (std::uint64_t i = 0; i < request.input_count; ++i) registered += request.inputs[i].memory != nullptr;
  for (std::uint64_t i = 0; i < request.output_count; ++i) registered += request.outputs[i].memory != nullptr;
  return registered;
}

// found: of this run, for each tensor that NonZero gives.
void run_node(const qr_execution &execution, const qir::Node &node, const qr_host_threads &threads,
              Vector<Vector<std::int64_t>> &found) {
  const qir::Graph &graph = *execution.graph;
  const std::size_t in = index_of(node.inputs[0]), out = index_of(node.outputs[0]);
  if (node.op == qir::Op::NonZero) {
    const qir::Shape &shape = graph.tensors[in].shape;
    found[out].resize(shape.size() * elements(graph.tensors[in]));
    found[out].resize(shape.size() * non_zero(execution.read[in], shape, found[out]));
    return;
  }
  Elementwise work{node.op,
                   execution.read[in],
                   node.inputs.size() > 1 ? execution.read[index_of(node.inputs[1])] : nullptr,
                   execution.write[out],
                   nullptr,
                   0,
                   node.get_float("offset", 0)};
  if (node.op == qir::Op::Custom) {
    const qir::Tensor &table = node.find("table")->tensors[0];
    work.table = static_cast<const float *>(table.data.data);
    work.table_size = elements(table);
  }
  threads.parallel_for(threads.self, elements(graph.tensors[out]), 16, Elementwise::body, &work);
}

void give_output(const qr_execution &execution, std::size_t index, const Vector<std::int64_t> &found,
                 qr_io_buffer &buffer) {
  const qir::Tensor &tensor = execution.graph->tensors[index];
  buffer.rank = static_cast<std::uint32_t>(tensor.shape.size());
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) buffer.dims[axis] = tensor.shape[axis];
  if (tensor.dtype == DType::I64) {
    buffer.dims[1] = buffer.dims[0] ? static_cast<std::int64_t>(found.size()) / buffer.dims[0] : 0;
    buffer.used_bytes = found.size() * 8;
    buffer.data = const_cast<std::int64_t *>(found.data());
  } else {
    buffer.used_bytes = 4 * elements(tensor);
    std::memcpy(place_of(buffer), execution.read[index], buffer.used_bytes);
  }
}

void spoil_output(std::string_view wrong, qr_io_buffer &output) {
  if (wrong == "unset") output.used_bytes = UINT64_MAX;
  if (wrong == "bytes") output.used_bytes += 4;
  if (wrong == "moved") output.data = static_cast<char *>(output.data) + 64;
}

Status run(qr_execution &execution, const qr_run_request &request) {
  qr_backend &backend = *execution.context->backend;
  const qir::Graph &graph = *execution.graph;
  const qr_host &host = backend.allocator.host();
  const StopToken stop(request.signal, host);
  Reporter reporter(request.profile, host);
  ++execution.runs;
  Vector<Vector<std::int64_t>> &all_found = execution.found[execution.runs % execution.found.size()];
  const std::uint64_t begin = reporter.now();
  QR_RETURN_IF_ERROR(play_script(execution, request, stop));
  bind_tensors(execution, request);
  for (const qir::Node &node : graph.nodes) {
    QR_RETURN_IF_ERROR(stop.status("run"));
    const std::uint64_t start = reporter.now();
    run_node(execution, node, *request.threads, all_found);
    reporter.report(node.name, "node", qir::op_text(node), start, 1, "cycles");
  }
  for (std::uint64_t i = 0; i < request.output_count; ++i) {
    const std::size_t index = index_of(graph.outputs[i]);
    if (request.outputs[i].wanted) give_output(execution, index, all_found[index], request.outputs[i]);
  }
  if (request.output_count) spoil_output(execution.script.wrong, request.outputs[0]);
  reporter.report("run", "run", "", begin, execution.runs, "runs");
  reporter.report("priority", "run", execution.priority, begin, 0, "");
  reporter.report("registered", "run", "", begin, registered_buffers(request), "buffers");
  reporter.report("registrations", "run", "", begin, backend.registrations.load(), "registrations");
  reporter.report("contexts in the group", "run", "", begin, contexts_in_group(*execution.context), "contexts");
  reporter.report("workers", "run", "", begin, request.threads->worker_count, "workers");
  return {};
}

qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors) {
  if (execution->script.wrong == "silent") return QR_UNSUPPORTED;
  return guard(execution->context->backend->allocator, errors, [&] { return run(*execution, *request); });
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
                                                kSubmits ? execution_wait : nullptr,
                                                nullptr};

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
                                        "does what a test asks",
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
