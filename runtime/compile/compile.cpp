// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile/compile.h"

#include <algorithm>

#include "base/json_writer.h"
#include "base/stop.h"
#include "formats/qrm/limits.h"
#include "graph/edit/graph_edit.h"
#include "graph/edit/graph_part.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"
#include "runtime/model/state_pairs.h"

namespace quarry {
namespace {

// What the backend gets of a compilation, and where it reports to. Lives on the stack of a call of a slot.
class CompileCall {
 public:
  CompileCall(CompileJob &job, const PortableGraphs &portable_graphs, const Vector<std::uint32_t> &graphs,
              const char *phase, std::uint32_t flags = 0)
      : progress_{sizeof progress_, 0, &job, report},
        phase_(job.events, phase,
               graphs.size() == 1 ? std::string_view(portable_graphs.graphs()[graphs[0]].name) : std::string_view()) {
    for (const std::uint32_t index : graphs) graphs_.push_back(portable_graphs.graphs()[index].plugin());
    for (const qr_plugin_graph &graph : graphs_) pointers_.push_back(&graph);
    request_.struct_size = sizeof request_;
    request_.device = job.device;
    request_.graphs = pointers_.data();
    request_.graph_count = pointers_.size();
    request_.options = job.plugin_options.own.data();
    request_.option_count = job.plugin_options.own.size();
    request_.signal = job.signal.plugin();
    request_.threads = job.threads.table();
    request_.progress = &progress_;
    request_.profile = phase_.plugin_sink();
    request_.flags = flags;
  }
  CompileCall(const CompileCall &) = delete;
  CompileCall &operator=(const CompileCall &) = delete;
  const qr_compile_request &request() const noexcept { return request_; }
  // All of another model's, behind those that it has.
  void add(const PortableGraphs &more) {
    for (const PortableGraph &graph : more.graphs()) graphs_.push_back(graph.plugin());
    pointers_.clear();
    for (const qr_plugin_graph &graph : graphs_) pointers_.push_back(&graph);
    request_.graphs = pointers_.data();
    request_.graph_count = pointers_.size();
  }

 private:
  static void report(void *self, std::uint64_t done, std::uint64_t total, qr_plugin_string what) {
    static_cast<const CompileJob *>(self)->progress.tell(done, total, text_of(what));
  }
  Vector<qr_plugin_graph> graphs_;
  Vector<const qr_plugin_graph *> pointers_;
  qr_progress_sink progress_;
  CallEvents::Phase phase_;
  qr_compile_request request_ = {};
};

// The backend's verdicts on the nodes of every graph.
Status check_nodes(CompileJob &job, const PortableGraphs &portable_graphs, const Vector<qir::Outline> &graphs,
                   Vector<Vector<loader::Verdict>> &out, std::uint32_t flags = 0) {
  out.resize(graphs.size());
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    QR_RETURN_IF_ERROR(job.signal.check("compile"));
    QR_RETURN_IF_ERROR(job.progress.report(g, 2 * graphs.size(), "check"));
    const CompileCall call(job, portable_graphs, {static_cast<std::uint32_t>(g)}, "check", flags);
    QR_RETURN_IF_ERROR(job.plugin->check(call.request(), static_cast<std::uint32_t>(graphs[g].node_count()), out[g]));
    QR_RETURN_IF_ERROR(job.threads.take_fault());
    QR_RETURN_IF_ERROR(job.progress.status());
  }
  return {};
}

// One status for all refused nodes; a reason that holds in several buckets is reported once.
Status refusal(const CompileJob &job, const Vector<qir::Outline> &graphs,
               const Vector<Vector<loader::Verdict>> &verdicts) {
  Vector<String> reasons;
  StringSet told;
  std::size_t refused = 0, nodes = 0;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    std::size_t here = 0;
    for (std::size_t n = 0; n < graphs[g].node_count(); ++n) {
      const loader::Verdict &verdict = verdicts[g][n];
      if (verdict.supported) continue;
      ++here;
      String reason = format("node %s (%s): %s [%s]", printable(graphs[g].node_name(n)), graphs[g].op_text(n),
                             printable(verdict.reason, 1000), printable(verdict.id));
      if (!verdict.hint.empty()) reason += format("; %s", printable(verdict.hint, 1000));
      if (told.insert(reason).second) reasons.push_back(std::move(reason));
    }
    if (here > refused || nodes == 0) {
      refused = here;
      nodes = graphs[g].node_count();
    }
  }
  if (reasons.empty()) return {};
  Status status = Status::errorf(ErrorId::backend_refuses_nodes, "backend %s refuses %zu of %zu nodes; the first: %s",
                                 job.plugin->id(), refused, nodes, reasons[0]);
  status.with("backend", job.plugin->id());
  if (!job.model.path().empty()) status.with("file", job.model.path());
  for (const String &reason : reasons) status.with("reason", reason);
  return status;
}

// A cache that grows begins empty, which no other dimension does that nobody binds, whether the session keeps it (then
// it ends with the capacity, and where there are no ranges each program has all of that) or the caller does.
Status add_state_ranges(const CompileJob &job, bool takes_ranges, Vector<String> *texts,
                        Vector<std::string_view> *shapes) {
  const bool is_kept = !job.settings.state.empty();
  if (!is_kept && !takes_ranges) return {};
  auto pairs = find_state(is_kept ? job.settings.state : "auto", job.model.inputs(), job.model.outputs());
  // (Of a part others may be, and what only looks like a cache is the caller's own.)
  if (!pairs.ok()) return is_kept && job.settings.part.empty() ? pairs.take_status() : Status();
  if (shapes->empty()) split_shapes(job.model.shapes(), *shapes);
  if (shapes->size() > 1 && takes_ranges) return {};
  if (shapes->empty()) shapes->push_back({});
  for (const std::string_view shape : *shapes) {
    String text(shape);
    const String added =
        state_ranges(*pairs, job.model.inputs(), text, is_kept ? job.settings.state_capacity : 0, takes_ranges);
    text += std::string_view(added).substr(text.empty() && !added.empty());
    texts->push_back(std::move(text));
  }
  shapes->assign(texts->begin(), texts->end());
  std::erase(*shapes, std::string_view());
  return {};
}

Result<Ref<PortableGraphs>> import_graphs(CompileJob &job, const PortableGraphs::Export *to = nullptr) {
  const CallEvents::Phase phase(job.events, "import");
  const std::uint64_t features = job.plugin->devices()[job.device].features;
  const bool takes_ranges = !to && (features & (QR_DEVICE_RANGES | QR_DEVICE_BATCHES)) != 0;
  if (!to && !takes_ranges && job.model.is_container())
    for (const qrm::GraphInfo &graph : job.model.container().metadata().graphs)
      for (const qir::Shape &shape : graph.input_dims)
        if (std::ranges::find(shape, qir::kUnknownDim) != shape.end())
          return shapes_are_bound(job.model, "to a range, expected numbers");
  if (to || job.model.is_container())
    return PortableGraphs::make(Ref<const Model>(&job.model), {job.settings.shapes, takes_ranges}, job.settings.part,
                                job.signal, job.progress, to);
  Vector<String> texts;
  Vector<std::string_view> shapes = job.settings.shapes;
  QR_RETURN_IF_ERROR(add_state_ranges(job, (features & QR_DEVICE_RANGES) != 0, &texts, &shapes));
  return PortableGraphs::make(Ref<const Model>(&job.model), {shapes, takes_ranges}, job.settings.part, job.signal,
                              job.progress, to);
}

// What a container was compiled with, by an option that changes its graph: "" where it says nothing.
std::string_view made_with(const Model &model, std::string_view key) {
  if (model.is_container())
    for (const qrm::KeyValue &pair : model.container().metadata().created_by)
      if (pair.key == key) return pair.value;
  return {};
}
// The option says the same, or nothing else than its default was said.
Status check_made_with(const Model &model, const OptionSet *options, const char *key) {
  std::string_view had = made_with(model, key);
  if (had.empty()) had = find_option_row(key)->default_value;
  if (had == options->in_force(key)) return {};
  return Status::errorf(ErrorId::option_conflict, "option %s: expected \"%s\", with which the container was made", key,
                        printable(had))
      .with("option", key);
}

// A container that has room for adapters already has it as it was compiled.
Status adopt_adapters(const Model &model, const OptionSet *options, qir::Part &part) {
  if (!kHasPrepare || part.adapters.empty() || !model.is_container()) return {};
  if (std::ranges::none_of(model.container().metadata().inputs,
                           [](const qrm::TensorInfo &input) { return input.name.starts_with(QR_ADAPTER_INPUT); }))
    return {};
  for (const char *const key : {"adapter.targets", "adapter.rank"})
    QR_RETURN_IF_ERROR(check_made_with(model, options, key));
  part.adapters.clear();
  return {};
}

// The state that grows, whose type the compiler library changes. (A container that was compiled so has it already.)
Status choose_state_type(const Model &model, const OptionSet *options, Settings &settings) {
  constexpr const char *kKey = "state.type", *kAsItIs = "model";
  const std::string_view type = options ? options->in_force(kKey) : kAsItIs;
  if (type == kAsItIs) return {};
  if (const std::string_view had = made_with(model, kKey); !had.empty() && had != kAsItIs)
    return check_made_with(model, options, kKey);
  if (settings.state.empty())
    return Status::errorf(ErrorId::option_conflict, "option state.type: expected the option state with it")
        .with("option", kKey);
  QR_ASSIGN_OR_RETURN(const Vector<StatePair> pairs, find_state(settings.state, model.inputs(), model.outputs()));
  for (const StatePair &pair : pairs) {
    const qrm::TensorInfo &input = model.inputs()[pair.input], &output = model.outputs()[pair.output];
    if (pair.axis >= 0 || input.dims != output.dims)
      settings.part.state.insert(settings.part.state.end(), {input.name, output.name});
  }
  settings.part.state_type = *dtype_from_name(type);
  return {};
}

Result<Vector<qir::Outline>> read_all(const CompileJob &job, const PortableGraphs &portable_graphs) {
  const CallEvents::Phase phase(job.events, "read graphs");
  Vector<qir::Outline> graphs;
  for (std::size_t i = 0; i < portable_graphs.graphs().size(); ++i) {
    QR_ASSIGN_OR_RETURN(qir::Outline graph, portable_graphs.outline(i));
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

Vector<qir::Shape> shapes_of(const Vector<qir::Tensor> &tensors) {
  Vector<qir::Shape> shapes;
  for (const qir::Tensor &tensor : tensors) shapes.push_back(tensor.shape);
  return shapes;
}

// The machines that an option names with commas between, each of which is compiled for, and beside it what other
// options say of each.
struct Targets {
  struct List {
    qr_plugin_option *option;
    Vector<std::string_view> values;
  };
  Vector<List> lists;  // the first names the machines; all have as many values
  std::size_t count() const noexcept { return lists.empty() ? 0 : lists[0].values.size(); }
  std::string_view name(std::size_t index) const noexcept { return lists[0].values[index]; }
  void set(std::size_t index) const noexcept {
    for (const List &list : lists) list.option->value = plugin_string(list.values[index]);
  }
};

Status uneven(const Targets::List &list, const Targets &targets) {
  const String key = printable(text_of(list.option->key));
  return Status::errorf(ErrorId::option_conflict, "option %s: found %zu values, expected %s", key, list.values.size(),
                        targets.lists.empty()
                            ? String("one, for one machine")
                            : format("one, or one for each of the %zu machines of option %s", targets.count(),
                                     printable(text_of(targets.lists[0].option->key))))
      .with("option", key);
}

Result<Targets> targets_of(CompileJob &job) {
  Targets out;
  Vector<Targets::List> beside;
  for (qr_plugin_option &option : job.plugin_options.own) {
    const loader::OptionRow *const row = job.plugin->find_option(text_of(option.key));
    if (!row || !(row->names_machines() || row->is_for_each_machine())) continue;
    Targets::List list{&option, {}};
    split_list(text_of(option.value), list.values);
    if (list.values.size() < 2) continue;
    if (row->is_for_each_machine()) {
      beside.push_back(std::move(list));
      continue;
    }
    if (!out.lists.empty())
      return Status::errorf(ErrorId::option_conflict, "options %s and %s: both list machines, expected one that does",
                            printable(text_of(out.lists[0].option->key)), printable(row->key))
          .with("option", row->key);
    if (job.use == DeviceUse::Run && job.settings.write_context)
      return Status::hinted(ErrorId::option_conflict, "compile to one .qrm for all of them",
                            "option %s: found %zu machines with ep.context_enable, which writes what this session "
                            "runs, expected one",
                            printable(row->key), list.values.size())
          .with("option", row->key);
    out.lists.push_back(std::move(list));
  }
  for (Targets::List &list : beside) {
    if (list.values.size() != out.count()) return uneven(list, out);
    out.lists.push_back(std::move(list));
  }
  if (job.use == DeviceUse::Run)
    for (Targets::List &list : out.lists) list.values.resize(1);
  return out;
}

}  // namespace

CompileJob::CompileJob(DeviceUse use_of, const Model &from, const OptionSet *given, Settings resolved,
                       std::shared_ptr<ThreadPool> workers, const CallWatch &watch)
    : use(use_of),
      model(from),
      options(given),
      settings(std::move(resolved)),
      signal(watch.signal),
      progress(watch.progress),
      events(watch.profile ? &watch.profile->log() : nullptr, use_of == DeviceUse::Run ? "load" : "compile"),
      pool(std::move(workers)),
      threads(from.runtime().thread_pool(), *pool) {}

Result<Unique<CompileJob>> CompileJob::begin(const Model &model, const OptionSet *options, const CallWatch &watch,
                                             DeviceUse use) {
  QR_ASSIGN_OR_RETURN(Settings settings, resolve_settings(options));
  QR_RETURN_IF_ERROR(adopt_adapters(model, options, settings.part));
  QR_RETURN_IF_ERROR(choose_state_type(model, options, settings));
  QR_ASSIGN_OR_RETURN(std::shared_ptr<ThreadPool> pool,
                      model.runtime().pools().pool_for(settings.pool_name, settings.pool));
  auto job = quarry::make_unique<CompileJob>(use, model, options, std::move(settings), std::move(pool), watch);
  QR_RETURN_IF_ERROR(job->signal.check("opening the backend"));
  {
    const CallEvents::Phase phase(job->events, "open backend");
    QR_ASSIGN_OR_RETURN(job->plugin, model.runtime().open_backend(job->settings.backend, job->signal));
  }
  const loader::Plugin &plugin = *job->plugin;
  if (model.is_container() && model.container().metadata().graphs.empty()) return no_context(*job);
  QR_ASSIGN_OR_RETURN(job->device, choose_device(job->settings, plugin, use));
  QR_ASSIGN_OR_RETURN(job->plugin_options, ::quarry::plugin_options(job->settings, options, plugin));
  if (!job->settings.group.empty() && !(plugin.devices()[job->device].features & QR_DEVICE_GROUPS)) {
    job->plugin_options.foreign.push_back({"context.group", job->settings.group});
    job->settings.group = {};
  }
  for (const KeyValue &foreign : job->plugin_options.foreign)
    model.runtime().log().write(
        QR_LOG_INFO, "options",
        format("option %s is not one of backend %s: it has no effect", printable(foreign.key), plugin.id()));
  return job;
}

Status CompiledModel::import(CompileJob &job, Vector<qir::Outline> &graphs) {
  job.events.rename("compile");
  QR_ASSIGN_OR_RETURN(portable_graphs_, import_graphs(job));
  QR_ASSIGN_OR_RETURN(graphs, read_all(job, *portable_graphs_));
  signature_ = signature_of(job.model, graphs);
  node_count_ = graphs[0].node_count();
  for (const qir::Outline &graph : graphs) {
    input_dims_.push_back(shapes_of(graph.inputs()));
    output_dims_.push_back(shapes_of(graph.outputs()));
  }
  // What its sessions would refuse is not compiled first.
  if (job.settings.state.empty() || !job.settings.part.empty()) return {};
  QR_ASSIGN_OR_RETURN(Vector<StatePair> pairs, find_state(job.settings.state, signature_.inputs, signature_.outputs));
  std::uint64_t capacity = 0;
  return fix_state(pairs, signature_.inputs, signature_.outputs, input_dims_, output_dims_, job.settings.pad, &capacity)
      .take_status();
}

Result<Ref<CompiledModel>> CompiledModel::make(CompileJob &job) {
  auto out = Ref<CompiledModel>::make();
  Vector<qir::Outline> graphs;
  QR_RETURN_IF_ERROR(out->import(job, graphs));
  QR_ASSIGN_OR_RETURN(const Targets targets, targets_of(job));
  for (std::size_t i = 0; i < targets.count(); ++i) {
    targets.set(i);
    Status status = out->compile_target(job, graphs);
    if (!status.ok() && targets.count() > 1) status.with("target", targets.name(i));
    QR_RETURN_IF_ERROR(std::move(status));
  }
  if (targets.count() == 0) QR_RETURN_IF_ERROR(out->compile_target(job, graphs));
  return out;
}

Result<CompiledTarget> CompiledModel::check_target(CompileJob &job, const Vector<qir::Outline> &graphs) const {
  Vector<Vector<loader::Verdict>> verdicts;
  QR_RETURN_IF_ERROR(check_nodes(job, *portable_graphs_, graphs, verdicts, QR_PLUGIN_COMPILE_VERDICTS_ALONE));
  QR_RETURN_IF_ERROR(refusal(job, graphs, verdicts));
  CompiledTarget made;
  for (const qr_plugin_option &option : job.plugin_options.own)
    made.options.push_back({String(text_of(option.key)), String(text_of(option.value))});
  return made;
}

// Two names of one machine give one context.
Status CompiledModel::compile_target(CompileJob &job, const Vector<qir::Outline> &graphs) {
  const PortableGraphs &portable_graphs = *portable_graphs_;
  QR_ASSIGN_OR_RETURN(CompiledTarget made, check_target(job, graphs));
  // A backend that can gets all graphs at once, so that they share their weights.
  const std::size_t count = portable_graphs.graphs().size();
  const std::size_t step = job.plugin->compiles_groups() ? count : 1;
  for (std::size_t g = 0; g < count; g += step) {
    QR_RETURN_IF_ERROR(job.signal.check("compile"));
    QR_RETURN_IF_ERROR(job.progress.report(count + g, 2 * count, "compile"));
    CompiledProgram program;
    for (std::size_t k = g; k < g + step; ++k) program.graphs.push_back(static_cast<std::uint32_t>(k));
    const CompileCall call(job, portable_graphs, program.graphs, "compile program");
    QR_ASSIGN_OR_RETURN(program.compiled, job.plugin->compile(call.request()));
    QR_RETURN_IF_ERROR(job.threads.take_fault());
    made.programs.push_back(std::move(program));
  }
  QR_RETURN_IF_ERROR(job.progress.report(2 * count, 2 * count, "compile"));
  const bool is_new = std::none_of(targets_.begin(), targets_.end(), [&](const CompiledTarget &other) {
    return other.programs[0].compiled.target == made.programs[0].compiled.target;
  });
  if (is_new) targets_.push_back(std::move(made));
  return {};
}

// A backend that takes no graphs together compiles one model after another.
Result<Vector<Ref<CompiledModel>>> CompiledModel::make_together(Vector<Unique<CompileJob>> &jobs) {
  Vector<Ref<CompiledModel>> out;
  CompileJob &first = *jobs[0];
  if (!first.plugin->compiles_groups()) {
    for (const Unique<CompileJob> &job : jobs) {
      QR_ASSIGN_OR_RETURN(Ref<CompiledModel> one, make(*job));
      out.push_back(std::move(one));
    }
    return out;
  }
  Vector<Vector<qir::Outline>> graphs(jobs.size());
  Vector<Targets> targets;
  Vector<std::uint32_t> of_first;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    out.push_back(Ref<CompiledModel>::make());
    QR_RETURN_IF_ERROR(out[i]->import(*jobs[i], graphs[i]));
    QR_ASSIGN_OR_RETURN(Targets of_model, targets_of(*jobs[i]));
    targets.push_back(std::move(of_model));
    out[i]->targets_.reserve(targets[i].count() + 1);  // the others point into those of the first
  }
  for (std::uint32_t g = 0; g < graphs[0].size(); ++g) of_first.push_back(g);
  for (std::size_t t = 0; t < std::max<std::size_t>(1, targets[0].count()); ++t) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (targets[i].count() > 0) targets[i].set(t);
      QR_ASSIGN_OR_RETURN(CompiledTarget made, out[i]->check_target(*jobs[i], graphs[i]));
      made.programs.emplace_back();
      out[i]->targets_.push_back(std::move(made));
    }
    CompileCall call(first, out[0]->portable_graphs(), of_first, "compile program");
    for (std::size_t i = 1; i < jobs.size(); ++i) call.add(out[i]->portable_graphs());
    CompiledProgram &program = out[0]->targets_.back().programs[0];
    QR_ASSIGN_OR_RETURN(program.compiled, first.plugin->compile(call.request()));
    QR_RETURN_IF_ERROR(first.threads.take_fault());
    const auto is_for = [&](const CompiledTarget &other) {
      return other.programs[0].compiled.target == program.compiled.target;
    };
    const bool is_new = std::ranges::count_if(out[0]->targets_, is_for) == 1;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      CompiledProgram &of_model = out[i]->targets_.back().programs[0];
      of_model.graphs.assign(call.request().graph_count, qrm::kOtherNetwork);
      for (std::uint32_t g = 0; g < graphs[i].size(); ++g) of_model.graphs[begin++] = g;
      of_model.of_first = &program.compiled;
    }
    if (!is_new)
      for (const Ref<CompiledModel> &one : out) one->targets_.pop_back();
  }
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

Status export_graphs(CompileJob &job, std::string_view name, FileSink &files) {
  job.events.rename("export");
  const PortableGraphs::Export to{name, files};
  return import_graphs(job, &to).take_status();
}

void write_memory(JsonWriter &json, const qrm::Plan &plan) {
  json.key("memory").begin_object().field("weights_bytes", plan.weights_bytes).field("arena_bytes", plan.arena_bytes);
  json.field("io_bytes", plan.io_bytes).field("device_bytes", plan.device_bytes);
  json.field("scratchpad_bytes", plan.scratchpad_bytes).field("spill_fill_bytes", plan.spill_fill_bytes).end_object();
}

namespace {

// Of those that are not constants.
void write_tensors(JsonWriter &json, const char *name, const qir::Outline &graph, std::span<const std::int32_t> ids) {
  json.key(name).begin_array();
  for (const std::int32_t id : ids)
    if (id != qir::kAbsent && !graph.is_constant(id)) json.value(graph.tensor_name(id));
  json.end_array();
}

// Of the first graph that has refused nodes: buckets differ in shapes alone.
// The compiler library finds them; without it there are none.
void write_cuts(JsonWriter &json, const PortableGraphs &portable_graphs, const Vector<qir::Outline> &graphs,
                const Vector<Vector<loader::Verdict>> &verdicts) {
  Runtime &runtime = portable_graphs.model().runtime();
  auto api = runtime.prepare().api();
  if (!api.ok()) return;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    Vector<std::uint8_t> refused;
    for (const loader::Verdict &verdict : verdicts[g]) refused.push_back(!verdict.supported);
    struct Cuts {
      Vector<std::int32_t> front, back;
      std::size_t size;
    } cuts{{}, {}, graphs[g].tensor_count()};
    const qr_plugin_graph graph = portable_graphs.graphs()[g].plugin();
    const auto tell = [](void *self, std::int32_t behind, std::uint32_t tensor) {
      Cuts &into = *static_cast<Cuts *>(self);
      if (tensor < into.size) (behind ? into.back : into.front).push_back(static_cast<std::int32_t>(tensor));
    };
    const std::uint64_t kept = (*api)->find_cuts(&runtime.host(), &graph, refused.data(), refused.size(), &cuts, tell);
    if (kept == 0) continue;
    json.key("cut").begin_object().field("kept", kept).field("nodes", graphs[g].node_count());
    write_tensors(json, "front", graphs[g], cuts.front);
    write_tensors(json, "back", graphs[g], cuts.back);
    json.end_object();
    return;
  }
}

// What another machine refuses is refused too.
void add_refusals(Vector<Vector<loader::Verdict>> &verdicts, Vector<Vector<loader::Verdict>> &here,
                  std::string_view target) {
  for (std::size_t g = 0; g < verdicts.size(); ++g)
    for (std::size_t n = 0; n < here[g].size(); ++n) {
      if (!verdicts[g][n].supported || here[g][n].supported) continue;
      verdicts[g][n] = std::move(here[g][n]);
      verdicts[g][n].reason = format("for %s: %s", printable(target), verdicts[g][n].reason);
    }
}

}  // namespace

Result<String> check_report(CompileJob &job) {
  job.events.rename("check");
  QR_ASSIGN_OR_RETURN(const Ref<PortableGraphs> portable_graphs, import_graphs(job));
  QR_ASSIGN_OR_RETURN(const Vector<qir::Outline> graphs, read_all(job, *portable_graphs));
  Vector<Vector<loader::Verdict>> verdicts;
  QR_ASSIGN_OR_RETURN(const Targets targets, targets_of(job));
  if (targets.count() == 0) QR_RETURN_IF_ERROR(check_nodes(job, *portable_graphs, graphs, verdicts));
  for (std::size_t i = 0; i < targets.count(); ++i) {
    targets.set(i);
    Vector<Vector<loader::Verdict>> here;
    QR_RETURN_IF_ERROR(check_nodes(job, *portable_graphs, graphs, here));
    if (i == 0) verdicts = std::move(here);
    else add_refusals(verdicts, here, targets.name(i));
  }
  std::uint64_t supported = 0, refused = 0;
  for (const auto &of_graph : verdicts)
    for (const loader::Verdict &verdict : of_graph) ++(verdict.supported ? supported : refused);

  JsonWriter json;
  json.begin_object().field("backend", job.plugin->id()).field("supported", supported).field("refused", refused);
  if (refused > 0) write_cuts(json, *portable_graphs, graphs, verdicts);
  json.key("nodes").begin_array();
  for (std::size_t g = 0; g < graphs.size(); ++g)
    for (std::size_t n = 0; n < graphs[g].node_count(); ++n) {
      const loader::Verdict &verdict = verdicts[g][n];
      json.begin_object();
      if (graphs.size() > 1) json.field("graph", portable_graphs->graphs()[g].name);
      json.field("name", graphs[g].node_name(n)).field("op", graphs[g].op_text(n));
      json.field("supported", verdict.supported);
      if (!verdict.supported) json.field("reason", verdict.reason).field("id", verdict.id).field("hint", verdict.hint);
      else json.field("path", path_name(verdict.path)).field("kernel", verdict.kernel);
      write_tensors(json, "inputs", graphs[g], graphs[g].node_inputs(n));
      write_tensors(json, "outputs", graphs[g], graphs[g].node_outputs(n));
      json.end_object();
    }
  return json.end_array().end_object().take();
}

}  // namespace quarry
