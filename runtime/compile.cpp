// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile.h"

#include <algorithm>

#include "base/json_writer.h"
#include "formats/qrm/limits.h"
#include "runtime/plugin_text.h"
#include "runtime/runtime.h"

namespace quarry {
namespace {

qr_plugin_graph plugin_graph(const PortableGraph &graph) noexcept {
  return {sizeof(qr_plugin_graph), 0, plugin_string(graph.name), graph.qir, graph.segments.data(),
          graph.segments.size()};
}

// What the backend is told of a compilation, and where it reports to. Lives on the stack of a call of a slot.
class CompileCall {
 public:
  CompileCall(Compilation &compilation, const Portable &portable, const Vector<std::uint32_t> &graphs)
      : progress_{sizeof progress_, 0, &compilation, report} {
    for (const std::uint32_t index : graphs) graphs_.push_back(plugin_graph(portable.graphs()[index]));
    for (const qr_plugin_graph &graph : graphs_) pointers_.push_back(&graph);
    sink_.attach(compilation.profile ? &compilation.profile->log() : nullptr, ProfileLevel::Trace);
    request_.struct_size = sizeof request_;
    request_.device = compilation.device;
    request_.graphs = pointers_.data();
    request_.graph_count = pointers_.size();
    request_.options = compilation.plugin_options.own.data();
    request_.option_count = compilation.plugin_options.own.size();
    request_.signal = compilation.signal.plugin();
    request_.threads = compilation.threads.table();
    request_.progress = &progress_;
    request_.profile = sink_.plugin_sink();
  }
  CompileCall(const CompileCall &) = delete;
  CompileCall &operator=(const CompileCall &) = delete;
  const qr_compile_request &request() const noexcept { return request_; }

 private:
  static void report(void *self, std::uint64_t done, std::uint64_t total, qr_plugin_string what) {
    static_cast<const Compilation *>(self)->progress.report(done, total, text_of(what));
  }
  Vector<qr_plugin_graph> graphs_;
  Vector<const qr_plugin_graph *> pointers_;
  qr_progress_sink progress_;
  EventSink sink_;
  qr_compile_request request_ = {};
};

// The backend's verdicts on the nodes of every graph.
Status judge(Compilation &compilation, const Portable &portable, const Vector<qir::Graph> &graphs,
             Vector<Vector<loader::Verdict>> &out) {
  out.resize(graphs.size());
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    QR_RETURN_IF_ERROR(compilation.signal.check("compile"));
    compilation.progress.report(g, 2 * graphs.size(), "check");
    const CompileCall call(compilation, portable, {static_cast<std::uint32_t>(g)});
    QR_RETURN_IF_ERROR(
        compilation.plugin->check(call.request(), static_cast<std::uint32_t>(graphs[g].nodes.size()), out[g]));
    QR_RETURN_IF_ERROR(compilation.threads.take_fault());
  }
  return {};
}

// One status for all refused nodes; a reason that holds in several buckets is told once.
Status refusal(const Compilation &compilation, const Vector<qir::Graph> &graphs,
               const Vector<Vector<loader::Verdict>> &verdicts) {
  Vector<String> reasons;
  StringSet told;
  std::size_t refused = 0, nodes = 0;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    std::size_t here = 0;
    for (std::size_t n = 0; n < graphs[g].nodes.size(); ++n) {
      const loader::Verdict &verdict = verdicts[g][n];
      if (verdict.supported) continue;
      ++here;
      const qir::Node &node = graphs[g].nodes[n];
      String reason = format("node %s (%s): %s [%s]", printable(node.name).c_str(), qir::op_text(node).c_str(),
                             printable(verdict.reason, 1000).c_str(), printable(verdict.id).c_str());
      if (!verdict.hint.empty()) reason += format("; %s", printable(verdict.hint, 1000).c_str());
      if (told.insert(reason).second) reasons.push_back(std::move(reason));
    }
    if (here > refused || nodes == 0) {
      refused = here;
      nodes = graphs[g].nodes.size();
    }
  }
  if (reasons.empty()) return {};
  Status status = Status::error(ErrorId::backend_refuses_nodes,
                                format("backend %s refuses %zu of %zu nodes; the first: %s",
                                       String(compilation.plugin->id()).c_str(), refused, nodes, reasons[0].c_str()));
  status.with("backend", compilation.plugin->id());
  if (!compilation.model.path().empty()) status.with("file", compilation.model.path());
  for (const String &reason : reasons) status.with("reason", reason);
  return status;
}

Result<Vector<qir::Graph>> read_all(const Portable &portable) {
  Vector<qir::Graph> graphs;
  for (std::size_t i = 0; i < portable.graphs().size(); ++i) {
    QR_ASSIGN_OR_RETURN(qir::Graph graph, portable.read(i));
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

Vector<qir::Shape> shapes_of(const qir::Graph &graph, const Vector<std::int32_t> &tensors) {
  Vector<qir::Shape> shapes;
  for (const std::int32_t index : tensors) shapes.push_back(graph.tensors[static_cast<std::size_t>(index)].shape);
  return shapes;
}

Result<std::uint32_t> copy_segment(qrm::Writer &writer, const qrm::ValidatedModel &from, std::uint32_t index) {
  const qrm::SegmentInfo &info = from.segments()[index];
  QR_ASSIGN_OR_RETURN(const qir::Bytes bytes, from.segment(index));
  return writer.add_segment(info.kind, info.name, bytes, info.align);
}

// Copies the contexts of other backends and targets out of the container that was compiled again.
Status keep_contexts(const Compilation &compilation, std::string_view target, qrm::Writer &writer,
                     Vector<qrm::ContextInfo> &out) {
  if (!compilation.model.is_container()) return {};
  const qrm::ValidatedModel &from = compilation.model.container();
  for (const qrm::ContextInfo &context : from.metadata().contexts) {
    if (context.backend == compilation.plugin->id() && context.target == target) continue;
    qrm::ContextInfo kept = context;
    for (qrm::Program &program : kept.programs) {
      QR_ASSIGN_OR_RETURN(program.blob_segment, copy_segment(writer, from, program.blob_segment));
      for (std::uint32_t &segment : program.segments) {
        QR_ASSIGN_OR_RETURN(segment, copy_segment(writer, from, segment));
      }
    }
    out.push_back(std::move(kept));
  }
  return {};
}

}  // namespace

Compilation::Compilation(const Model &from, const OptionSet *given, Settings settled,
                         std::shared_ptr<ThreadPool> workers, const CallWatch &watch)
    : model(from),
      options(given),
      settings(std::move(settled)),
      signal(watch.signal),
      progress(watch.progress),
      profile(watch.profile),
      pool(std::move(workers)),
      threads(from.runtime().thread_pool(), *pool) {}

Result<Unique<Compilation>> Compilation::begin(const Model &model, const OptionSet *options, const CallWatch &watch,
                                               DeviceUse use) {
  QR_ASSIGN_OR_RETURN(Settings settings, settle(options));
  QR_ASSIGN_OR_RETURN(std::shared_ptr<ThreadPool> pool,
                      model.runtime().pools().pool_for(settings.pool_name, settings.pool));
  auto compilation = quarry::make_unique<Compilation>(model, options, std::move(settings), std::move(pool), watch);
  QR_RETURN_IF_ERROR(compilation->signal.check("opening the backend"));
  QR_ASSIGN_OR_RETURN(compilation->plugin, model.runtime().open_backend(compilation->settings.backend));
  const loader::Plugin &plugin = *compilation->plugin;
  QR_ASSIGN_OR_RETURN(compilation->device, choose_device(compilation->settings, plugin, use));
  QR_ASSIGN_OR_RETURN(compilation->plugin_options, ::quarry::plugin_options(compilation->settings, options, plugin));
  if (!compilation->settings.group.empty() && !(plugin.devices()[compilation->device].features & QR_DEVICE_GROUPS)) {
    compilation->plugin_options.foreign.push_back({"context.group", compilation->settings.group});
    compilation->settings.group = {};
  }
  for (const KeyValue &foreign : compilation->plugin_options.foreign)
    model.runtime().journal().write(QR_LOG_INFO, "options",
                                    format("option %s is not one of backend %s: it has no effect",
                                           printable(foreign.key).c_str(), String(plugin.id()).c_str()));
  return compilation;
}

Result<Ref<CompiledModel>> CompiledModel::make(Compilation &compilation) {
  auto out = Ref<CompiledModel>::make();
  QR_ASSIGN_OR_RETURN(out->portable_, Portable::make(Ref<const Model>(&compilation.model), compilation.settings.shapes,
                                                     compilation.signal, compilation.progress));
  const Portable &portable = *out->portable_;
  {
    QR_ASSIGN_OR_RETURN(const Vector<qir::Graph> graphs, read_all(portable));
    Vector<Vector<loader::Verdict>> verdicts;
    QR_RETURN_IF_ERROR(judge(compilation, portable, graphs, verdicts));
    QR_RETURN_IF_ERROR(refusal(compilation, graphs, verdicts));
    out->signature_ = signature_of(compilation.model, graphs);
    out->node_count_ = graphs[0].nodes.size();
    for (const qir::Graph &graph : graphs) {
      out->input_dims_.push_back(shapes_of(graph, graph.inputs));
      out->output_dims_.push_back(shapes_of(graph, graph.outputs));
    }
  }
  // A backend that can gets all graphs at once, so that they share their weights.
  const std::size_t count = portable.graphs().size();
  const std::size_t step = compilation.plugin->compiles_groups() ? count : 1;
  for (std::size_t g = 0; g < count; g += step) {
    QR_RETURN_IF_ERROR(compilation.signal.check("compile"));
    compilation.progress.report(count + g, 2 * count, "compile");
    CompiledProgram program;
    for (std::size_t k = g; k < g + step; ++k) program.graphs.push_back(static_cast<std::uint32_t>(k));
    const CompileCall call(compilation, portable, program.graphs);
    QR_ASSIGN_OR_RETURN(program.compiled, compilation.plugin->compile(call.request()));
    QR_RETURN_IF_ERROR(compilation.threads.take_fault());
    out->programs_.push_back(std::move(program));
  }
  compilation.progress.report(2 * count, 2 * count, "compile");
  return out;
}

const char *path_name(std::uint32_t path) noexcept {
  switch (path) {
    case QR_PLUGIN_PATH_NATIVE: return "native";
    case QR_PLUGIN_PATH_REFERENCE: return "reference";
    case QR_PLUGIN_PATH_NONE: return "none";
    default: return "unknown";
  }
}

qrm::Plan plan_of(const qr_plugin_plan &plan) noexcept {
  return {plan.weights_bytes, plan.arena_bytes,      plan.io_bytes,
          plan.device_bytes,  plan.scratchpad_bytes, plan.spill_fill_bytes};
}

Status write_container(const Compilation &compilation, const CompiledModel &compiled, std::string_view path) {
  const Portable &portable = compiled.portable();
  const loader::Plugin &plugin = *compilation.plugin;
  const std::string_view target = compiled.programs()[0].compiled.target;
  const std::uint32_t align = qrm::Writer::mapping_align(target);
  const String id(plugin.id());

  qrm::Writer writer;
  qrm::Metadata metadata;
  metadata.producer = format("quarry %s", qr_version());
  metadata.inputs = compiled.signature().inputs;
  metadata.outputs = compiled.signature().outputs;
  if (compilation.options)
    for (const auto &[key, value] : compilation.options->values())
      if (!key.starts_with("metadata.")) metadata.created_by.push_back({key, value});
  metadata.source = compilation.model.source();
  metadata.user = compilation.model.properties();
  for (const KeyValue &pair : compilation.settings.metadata) {
    std::erase_if(metadata.user, [&](const qrm::KeyValue &old) { return old.key == pair.key; });
    metadata.user.push_back({String(pair.key), String(pair.value)});
  }

  qrm::ContextInfo context;
  context.backend = id;
  context.backend_version.assign(plugin.version());
  context.target.assign(target);
  context.blob_version = plugin.blob_version();
  for (const qr_plugin_option &option : compilation.plugin_options.own)
    context.options.push_back({String(text_of(option.key)), String(text_of(option.value))});

  const auto keep = [&](std::uint64_t graph, std::uint64_t segment) {
    const qr_plugin_bytes &bytes = portable.graphs()[graph].segments[segment];
    return writer.add_segment(
        qrm::SegmentKind::Weights,
        segment ? format("weights %llu", static_cast<unsigned long long>(segment)) : String("weights"),
        {bytes.data, bytes.size}, align);
  };
  for (std::uint32_t g = 0; g < portable.graphs().size(); ++g) {
    const PortableGraph &graph = portable.graphs()[g];
    qrm::GraphInfo info;
    info.name = graph.name;
    info.input_dims = compiled.input_dims()[g];
    info.output_dims = compiled.output_dims()[g];
    if (compilation.settings.keep_graph) {
      for (std::uint64_t s = 0; s < graph.segments.size(); ++s) {
        QR_ASSIGN_OR_RETURN(const std::uint32_t number, keep(g, s));
        info.segments.push_back(number);
      }
      QR_ASSIGN_OR_RETURN(info.qir_segment,
                          writer.add_segment(qrm::SegmentKind::Graph, format("graph %u", g),
                                             {graph.qir.data, graph.qir.size}, qrm::kMinSegmentAlign));
    }
    metadata.graphs.push_back(std::move(info));
  }
  for (const CompiledProgram &made : compiled.programs()) {
    const loader::Compiled &program = made.compiled;
    const std::uint32_t first = made.graphs[0];
    qrm::Program stored;
    stored.graphs = made.graphs;
    stored.key = program.key;
    if (program.has_plan) stored.plan = plan_of(program.plan);
    for (std::size_t s = 0; s < program.segments.size(); ++s) {
      const loader::CompiledSegment &segment = program.segments[s];
      auto number =
          segment.kept ? keep(made.graphs[segment.request_graph], segment.request_segment)
                       : writer.add_segment(qrm::SegmentKind::Weights, format("%s packed %u.%zu", id.c_str(), first, s),
                                            {segment.bytes.data(), segment.bytes.size()},
                                            std::max(align, static_cast<std::uint32_t>(segment.align)));
      if (!number.ok()) return number.status();
      stored.segments.push_back(number.value());
    }
    QR_ASSIGN_OR_RETURN(stored.blob_segment,
                        writer.add_segment(qrm::SegmentKind::Blob, format("%s blob %u", id.c_str(), first),
                                           {program.blob.data(), program.blob.size()}, align));
    context.programs.push_back(std::move(stored));
  }
  metadata.contexts.push_back(std::move(context));
  QR_RETURN_IF_ERROR(keep_contexts(compilation, target, writer, metadata.contexts));
  QR_RETURN_IF_ERROR(compilation.signal.check("writing the container"));
  compilation.progress.report(0, 0, "write");
  return writer.write_file(path, metadata).with("file", path);
}

Result<String> check_report(Compilation &compilation) {
  QR_ASSIGN_OR_RETURN(const Ref<Portable> portable,
                      Portable::make(Ref<const Model>(&compilation.model), compilation.settings.shapes,
                                     compilation.signal, compilation.progress));
  QR_ASSIGN_OR_RETURN(const Vector<qir::Graph> graphs, read_all(*portable));
  Vector<Vector<loader::Verdict>> verdicts;
  QR_RETURN_IF_ERROR(judge(compilation, *portable, graphs, verdicts));
  std::uint64_t supported = 0, refused = 0;
  for (const auto &of_graph : verdicts)
    for (const loader::Verdict &verdict : of_graph) ++(verdict.supported ? supported : refused);

  JsonWriter json;
  json.begin_object()
      .field("backend", compilation.plugin->id())
      .field("supported", supported)
      .field("refused", refused);
  json.key("nodes").begin_array();
  for (std::size_t g = 0; g < graphs.size(); ++g)
    for (std::size_t n = 0; n < graphs[g].nodes.size(); ++n) {
      const qir::Node &node = graphs[g].nodes[n];
      const loader::Verdict &verdict = verdicts[g][n];
      json.begin_object();
      if (graphs.size() > 1) json.field("graph", portable->graphs()[g].name);
      json.field("name", node.name).field("op", qir::op_text(node)).field("supported", verdict.supported);
      if (!verdict.supported) json.field("reason", verdict.reason).field("id", verdict.id).field("hint", verdict.hint);
      else json.field("path", path_name(verdict.path)).field("kernel", verdict.kernel);
      json.end_object();
    }
  return json.end_array().end_object().take();
}

}  // namespace quarry
