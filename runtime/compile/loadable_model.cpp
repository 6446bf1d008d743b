// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile/loadable_model.h"

#include <algorithm>

#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"

namespace quarry {
namespace {

// Fills in `blob` and what it borrows. The program must have its final place: reserve first.
void describe_blob(LoadableProgram &program, std::uint32_t version, const qr_plugin_segment &bytes) noexcept {
  program.blob = {sizeof(qr_blob),
                  version,
                  bytes,
                  program.segments.data(),
                  program.segments.size(),
                  plugin_string(program.target),
                  plugin_string(program.key),
                  program.graphs.size()};
}

// Bytes that lie in memory alone.
qr_plugin_segment in_memory(const void *data, std::uint64_t size) noexcept { return {data, size, -1, 0, 0, 0}; }

qr_plugin_segment in_file(const qrm::ValidatedModel &container, std::uint32_t index, const qir::Bytes &bytes) noexcept {
  const qrm::SegmentFile file = container.segment_file(index);
  return {bytes.data, bytes.size, file.fd, 0, file.offset, file.sum};
}

Result<LoadableProgram *> add_program(const qrm::ValidatedModel &container, const qrm::ContextInfo &context,
                                      const qrm::Program &stored, Vector<LoadableProgram> &out) {
  QR_ASSIGN_OR_RETURN(const qir::Bytes blob, container.segment(stored.blob_segment));
  QR_ASSIGN_OR_RETURN(const Vector<qir::Bytes> segments, container.mapped_segments(stored.segments));
  LoadableProgram &program = out.emplace_back();
  for (const std::uint32_t index : stored.graphs) {
    LoadableProgram::Graph &made = program.graphs.emplace_back();
    made.index = index;
    if (index == qrm::kOtherNetwork) continue;
    const qrm::GraphInfo &graph = container.metadata().graphs[index];
    made.bucket = graph.name, made.input_dims = graph.input_dims;
  }
  for (std::size_t i = 0; i < segments.size(); ++i)
    program.segments.push_back(in_file(container, stored.segments[i], segments[i]));
  program.target = context.target;
  program.key = stored.key;
  program.plan = stored.plan;
  describe_blob(program, context.blob_version, in_file(container, stored.blob_segment, blob));
  return &program;
}

bool keeps_graphs(const Model &model) noexcept {
  const auto &graphs = model.container().metadata().graphs;
  return std::all_of(graphs.begin(), graphs.end(),
                     [](const qrm::GraphInfo &graph) { return graph.qir_segment.has_value(); });
}

}  // namespace

const char *grade_name(std::int32_t grade) noexcept {
  switch (grade) {
    case QR_PLUGIN_GRADE_OPTIMAL: return "optimal";
    case QR_PLUGIN_GRADE_USABLE: return "usable";
    case QR_PLUGIN_GRADE_RECOMPILE: return "recompile";
    default: return "incompatible";
  }
}

Status no_context(const CompileJob &job) {
  String there;
  for (const qrm::ContextInfo &context : job.model.container().metadata().contexts) {
    if (!there.empty()) there += ", ";
    there += format("%s for %s", printable(context.backend), printable(context.target));
  }
  return Status::error(ErrorId::qrm_no_context,
                       format("%s: found %s, expected a context of backend %s", job.model.describe(),
                              there.empty() ? "no context" : format("contexts of %s", there).c_str(), job.plugin->id()),
                       format("compile it for backend %s", job.plugin->id()))
      .with("backend", job.plugin->id());
}

namespace {

void log_session(const CompileJob &job, const String &what, std::int32_t level = QR_LOG_INFO) {
  job.model.runtime().log().write(level, "session", format("%s: %s", job.model.describe(), what));
}

bool shapes_programs(const loader::OptionRow &row) noexcept { return row.applies & QR_PLUGIN_OPTION_COMPILE; }

// What is asked for in general, or for the machine of the context, which of several is not known here.
bool is_asked(const loader::OptionRow &row, std::string_view asked, std::string_view had) {
  if (!row.is_for_each_machine()) return asked == had;
  Vector<std::string_view> values;
  split_list(asked, values);
  return std::ranges::find(values, had) != values.end();
}

// What a context was compiled with; a key that its plugin did not have yet had the default.
std::string_view option_of(const qrm::ContextInfo &context, const loader::OptionRow &row) noexcept {
  for (const qrm::KeyValue &pair : context.options)
    if (pair.key == row.key) return pair.value;
  return row.default_value;
}

bool is_given(const CompileJob &job, std::string_view key) {
  return job.options && job.options->values().find(key) != job.options->values().end();
}

Vector<CompileOption> other_options(const CompileJob &job, const qrm::ContextInfo &context) {
  Vector<CompileOption> out;
  for (const loader::OptionRow &row : job.plugin->options()) {
    // Whether a context is for a machine that is named the backend says in its grade: one may have several names.
    if (!shapes_programs(row) || !is_given(job, row.key) || row.names_machines()) continue;
    const std::string_view asked = job.options->values().find(row.key)->second;
    if (!is_asked(row, asked, option_of(context, row))) out.push_back({row.key, String(asked)});
  }
  return out;
}

String text_of_options(const CompileJob &job, const GradedContext &graded) {
  String text;
  for (const CompileOption &option : graded.asked_for) {
    const loader::OptionRow &row = *job.plugin->find_option(option.key);
    text += format("%s%s: compiled with \"%s\", asked for \"%s\"", text.empty() ? "" : "; ", option.key,
                   printable(option_of(*graded.context, row), 200), printable(option.value, 200));
  }
  return text;
}

// Compile-time options that were not given are the context's: what the container was made with is not forgotten when it
// is compiled again, and the report does not call defaults what is otherwise. `same_machine`: those that name the
// machine too.
void adopt_options(CompileJob &job, const qrm::ContextInfo &context, bool same_machine) {
  for (qr_plugin_option &option : job.plugin_options.own) {
    const std::string_view key = text_of(option.key);
    const loader::OptionRow *const row = job.plugin->find_option(key);
    if (!row || !shapes_programs(*row) || is_given(job, key)) continue;
    if ((row->applies & QR_PLUGIN_OPTION_TARGET) && !same_machine) continue;
    const std::string_view value = option_of(context, *row);
    if (check_option_value(key, row->values, value).ok()) option.value = plugin_string(value);
  }
}

}  // namespace

Result<GradedContext> grade_contexts(const CompileJob &job) {
  const qrm::ValidatedModel &container = job.model.container();
  const String &target = job.plugin->devices()[job.device].target;
  const CallEvents::Phase phase(job.events, "grade contexts");
  GradedContext best;
  std::size_t count = 0;
  for (const qrm::ContextInfo &context : container.metadata().contexts) {
    if (context.backend != job.plugin->id()) continue;
    ++count;
    // A context is as good as the worst of its programs.
    loader::Grade grade{QR_PLUGIN_GRADE_OPTIMAL, {}};
    for (const qrm::Program &stored : context.programs) {
      Vector<LoadableProgram> one;
      QR_ASSIGN_OR_RETURN(const LoadableProgram *program, add_program(container, context, stored, one));
      QR_ASSIGN_OR_RETURN(loader::Grade judged, job.plugin->grade(load_request(job, *program)));
      if (judged.grade > grade.grade || (judged.grade == grade.grade && grade.reason.empty()))
        grade = std::move(judged);
    }
    if (grade.grade == QR_PLUGIN_GRADE_RECOMPILE && !keeps_graphs(job.model)) {
      grade.grade = QR_PLUGIN_GRADE_INCOMPATIBLE;
      grade.reason += grade.reason.empty() ? "the portable graph was not kept" : "; the portable graph was not kept";
    }
    const bool better = !best.context || grade.grade < best.grade.grade ||
                        (grade.grade == best.grade.grade && context.target == target && best.context->target != target);
    if (better) best = {&context, std::move(grade), {}};
  }
  if (best.context && count > 1)
    log_session(job, format("of its %zu contexts of backend %s that for %s is the best: %s%s%s", count,
                            job.plugin->id(), printable(best.context->target), grade_name(best.grade.grade),
                            best.grade.reason.empty() ? "" : ", ", printable(best.grade.reason, 1000)));
  if (best.context) {
    best.asked_for = other_options(job, *best.context);
  } else if (keeps_graphs(job.model) && job.plugin->has_compiler()) {
    best.grade = {QR_PLUGIN_GRADE_RECOMPILE,
                  format("the container has no context of backend %s, but its portable graph", job.plugin->id())};
  }
  return best;
}

loader::Grade session_grade(const CompileJob &job, const GradedContext &graded) {
  if (graded.asked_for.empty() || graded.grade.grade >= QR_PLUGIN_GRADE_RECOMPILE) return graded.grade;
  return {keeps_graphs(job.model) ? QR_PLUGIN_GRADE_RECOMPILE : QR_PLUGIN_GRADE_INCOMPATIBLE,
          text_of_options(job, graded)};
}

Status LoadableModel::take_context(const qrm::ContextInfo &context) {
  programs_.reserve(context.programs.size());
  for (const qrm::Program &stored : context.programs) {
    QR_ASSIGN_OR_RETURN(const LoadableProgram *program, add_program(model_->container(), context, stored, programs_));
    (void)program;
  }
  return {};
}

Status LoadableModel::compile(CompileJob &job) {
  QR_ASSIGN_OR_RETURN(compiled_, CompiledModel::make(job));
  grade_ = {QR_PLUGIN_GRADE_OPTIMAL, {}};
  note_options(job);
  const auto &graphs = compiled_->portable_graphs().graphs();
  programs_.reserve(compiled_->programs().size());
  for (const CompiledProgram &made : compiled_->programs()) {
    const loader::CompiledBlob &from = made.compiled;
    LoadableProgram &program = programs_.emplace_back();
    for (const std::uint32_t index : made.graphs)
      program.graphs.push_back({graphs[index].name, index, compiled_->input_dims()[index]});
    for (const loader::CompiledSegment &segment : from.segments) {
      if (segment.kept) {
        const qr_plugin_bytes &kept = graphs[made.graphs[segment.request_graph]].segments[segment.request_segment];
        program.segments.push_back(in_memory(kept.data, kept.size));
      } else {
        program.segments.push_back(in_memory(segment.bytes.data(), segment.bytes.size()));
      }
    }
    take_blob(program, job, from);
  }
  return {};
}

void take_blob(LoadableProgram &program, const CompileJob &job, const loader::CompiledBlob &from) {
  program.target = from.target;
  program.key = from.key;
  if (from.has_plan) program.plan = plan_of(from.plan);
  describe_blob(program, job.plugin->blob_version(), in_memory(from.blob.data(), from.blob.size()));
}

namespace {

Status incompatible(const CompileJob &job, const GradedContext &graded) {
  const String &id = job.plugin->id();
  return Status::errorf(ErrorId::qrm_incompatible_context,
                        "%s: its context of backend %s was compiled for %s (blob version %u), this device is %s (blob "
                        "version %u): %s",
                        job.model.describe(), id, printable(graded.context->target), graded.context->blob_version,
                        job.plugin->devices()[job.device].target, job.plugin->blob_version(),
                        graded.grade.reason.empty() ? "incompatible" : printable(graded.grade.reason, 1000).c_str())
      .with("backend", id);
}

// By the option context.recompile, or without a kept graph, a context that was compiled otherwise is refused.
Status check_other_options(const CompileJob &job, const GradedContext &graded) {
  const String differs = text_of_options(job, graded), id(job.plugin->id());
  const bool kept = keeps_graphs(job.model);
  if (job.settings.recompile == Recompile::Never || !kept)
    return Status::errorf(ErrorId::qrm_other_options,
                          "%s: its context of backend %s was compiled with other options, and %s: %s",
                          job.model.describe(), id,
                          kept ? "option context.recompile is never" : "its portable graph was not kept", differs)
        .with("backend", id)
        .with("option", graded.asked_for[0].key);
  log_session(job, format("its context is compiled again: %s", differs));
  return {};
}

}  // namespace

Result<Ref<LoadableModel>> LoadableModel::make_recompiled(CompileJob &job, GradedContext &graded) {
  const loader::DeviceInfo &device = job.plugin->devices()[job.device];
  const String &id = job.plugin->id();
  const Recompile when = job.settings.recompile;
  if (when == Recompile::Never && !graded.context) return no_context(job);
  if (when == Recompile::Never)
    return Status::errorf(ErrorId::qrm_incompatible_context,
                          "%s: its context of backend %s, compiled for %s, must be compiled again for %s, and option "
                          "context.recompile is never: %s",
                          job.model.describe(), id, printable(graded.context->target), device.target,
                          printable(graded.grade.reason, 1000))
        .with("backend", id)
        .with("option", "context.recompile");
  if (when == Recompile::Background) {
    auto loadable = Ref<LoadableModel>::make(Ref<const Model>(&job.model));
    loadable->source_ = "pending";
    loadable->grade_ = std::move(graded.grade);
    loadable->asked_for_ = std::move(graded.asked_for);
    loadable->wants_recompilation_ = true;
    return loadable;
  }
  log_session(
      job,
      format("it is compiled again for backend %s, %s: %s", id, device.target, printable(graded.grade.reason, 1000)),
      is_given(job, "context.recompile") ? QR_LOG_INFO : QR_LOG_WARN);  // it takes its time: nobody asked for it
  return make_again(job);
}

Result<Ref<LoadableModel>> LoadableModel::make(CompileJob &job) {
  if (!job.model.is_container()) return make_new(job);
  if (!job.settings.shapes.empty()) return shapes_are_bound(job.model, "already");
  if (!job.settings.part.empty()) return make_again(job);  // no context is of a part
  QR_ASSIGN_OR_RETURN(GradedContext graded, grade_contexts(job));
  if (!graded.context && graded.grade.grade != QR_PLUGIN_GRADE_RECOMPILE) return no_context(job);
  if (graded.context && graded.grade.grade == QR_PLUGIN_GRADE_INCOMPATIBLE) return incompatible(job, graded);
  if (graded.grade.grade == QR_PLUGIN_GRADE_RECOMPILE) return make_recompiled(job, graded);
  const Recompile when = job.settings.recompile;
  if (!graded.asked_for.empty()) {
    QR_RETURN_IF_ERROR(check_other_options(job, graded));
    if (when == Recompile::Wait) return make_again(job);
  }
  const bool usable = graded.grade.grade == QR_PLUGIN_GRADE_USABLE;
  if (usable)
    log_session(job, format("its context runs on %s, but another compilation would be better: %s",
                            job.plugin->devices()[job.device].target, printable(graded.grade.reason, 1000)));
  auto loadable = Ref<LoadableModel>::make(Ref<const Model>(&job.model));
  QR_RETURN_IF_ERROR(loadable->take_context(*graded.context));
  adopt_options(job, *graded.context, true);
  for (const loader::OptionRow &row : job.plugin->options())
    if (shapes_programs(row)) loadable->compiled_with_.push_back({row.key, String(option_of(*graded.context, row))});
  const bool better = usable || !graded.asked_for.empty();
  loadable->grade_ = std::move(graded.grade);
  loadable->asked_for_ = std::move(graded.asked_for);
  loadable->wants_recompilation_ = when == Recompile::Background && better && loadable->keeps_graphs();
  return loadable;
}

// Of what was just compiled.
void LoadableModel::note_options(const CompileJob &job) {
  for (const qr_plugin_option &option : job.plugin_options.own) {
    const loader::OptionRow *const row = job.plugin->find_option(text_of(option.key));
    if (row && shapes_programs(*row)) compiled_with_.push_back({row->key, String(text_of(option.value))});
  }
}

bool LoadableModel::keeps_graphs() const noexcept { return !model_->is_container() || quarry::keeps_graphs(*model_); }

Result<Ref<LoadableModel>> LoadableModel::make_new(CompileJob &job) {
  auto loadable = Ref<LoadableModel>::make(Ref<const Model>(&job.model));
  loadable->source_ = "compiled";
  QR_RETURN_IF_ERROR(loadable->compile(job));
  return loadable;
}

Result<Ref<LoadableModel>> LoadableModel::make_again(CompileJob &job) {
  auto loadable = Ref<LoadableModel>::make(Ref<const Model>(&job.model));
  loadable->source_ = "recompiled";
  QR_ASSIGN_OR_RETURN(const GradedContext graded, grade_contexts(job));
  if (graded.context) adopt_options(job, *graded.context, false);
  QR_RETURN_IF_ERROR(loadable->compile(job));
  return loadable;
}

qr_load_request load_request(const CompileJob &job, const LoadableProgram &program) noexcept {
  qr_load_request request = {};
  request.struct_size = sizeof request;
  request.device = job.device;
  request.blob = &program.blob;
  request.options = job.plugin_options.own.data();
  request.option_count = job.plugin_options.own.size();
  request.signal = job.signal.plugin();
  return request;
}

Result<String> describe_program(loader::Plugin &plugin, const qrm::ValidatedModel &container,
                                const qrm::ContextInfo &context, const qrm::Program &program) {
  Vector<LoadableProgram> one;
  QR_ASSIGN_OR_RETURN(const LoadableProgram *loadable, add_program(container, context, program, one));
  qr_load_request request = {};
  request.struct_size = sizeof request;
  request.blob = &loadable->blob;
  return plugin.describe(request);
}

Result<qrm::Plan> plan_program(const CompileJob &job, const LoadableProgram &program) {
  qr_plugin_plan plan = {};
  plan.struct_size = sizeof plan;
  bool known = false;
  QR_RETURN_IF_ERROR(job.plugin->plan(load_request(job, program), &plan, &known));
  return known ? plan_of(plan) : program.plan;
}

}  // namespace quarry
