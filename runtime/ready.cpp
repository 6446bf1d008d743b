// SPDX-License-Identifier: Apache-2.0
#include "runtime/ready.h"

#include <algorithm>

#include "runtime/plugin_text.h"
#include "runtime/runtime.h"

namespace quarry {
namespace {

// Fills in `blob` and what it borrows. The program must have its final place: reserve first.
void describe_blob(ReadyProgram &program, std::uint32_t version, const qr_plugin_segment &bytes) noexcept {
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

Result<ReadyProgram *> add_program(const qrm::ValidatedModel &container, const qrm::ContextInfo &context,
                                   const qrm::Program &stored, Vector<ReadyProgram> &out) {
  QR_ASSIGN_OR_RETURN(const qir::Bytes blob, container.segment(stored.blob_segment));
  QR_ASSIGN_OR_RETURN(const Vector<qir::Bytes> segments, container.mapped_segments(stored.segments));
  ReadyProgram &program = out.emplace_back();
  for (const std::uint32_t index : stored.graphs) {
    const qrm::GraphInfo &graph = container.metadata().graphs[index];
    program.graphs.push_back({graph.name, index, graph.input_dims});
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

Status no_context(const Compilation &compilation) {
  String there;
  for (const qrm::ContextInfo &context : compilation.model.container().metadata().contexts) {
    if (!there.empty()) there += ", ";
    there += format("%s for %s", printable(context.backend).c_str(), printable(context.target).c_str());
  }
  return Status::error(ErrorId::qrm_no_context,
                       format("%s: found %s, expected a context of backend %s", compilation.model.describe().c_str(),
                              there.empty() ? "no context" : format("contexts of %s", there.c_str()).c_str(),
                              String(compilation.plugin->id()).c_str()),
                       format("compile it for this backend: quarry compile --backend %s",
                              String(compilation.plugin->id()).c_str()))
      .with("backend", compilation.plugin->id());
}

Result<GradedContext> grade_contexts(const Compilation &compilation) {
  const qrm::ValidatedModel &container = compilation.model.container();
  const String &target = compilation.plugin->devices()[compilation.device].target;
  GradedContext best;
  for (const qrm::ContextInfo &context : container.metadata().contexts) {
    if (context.backend != compilation.plugin->id()) continue;
    // A context is as good as the worst of its programs.
    loader::Grade grade{QR_PLUGIN_GRADE_OPTIMAL, {}};
    for (const qrm::Program &stored : context.programs) {
      Vector<ReadyProgram> one;
      QR_ASSIGN_OR_RETURN(const ReadyProgram *program, add_program(container, context, stored, one));
      QR_ASSIGN_OR_RETURN(loader::Grade judged, compilation.plugin->grade(load_request(compilation, *program)));
      if (judged.grade > grade.grade || (judged.grade == grade.grade && grade.reason.empty()))
        grade = std::move(judged);
    }
    if (grade.grade == QR_PLUGIN_GRADE_RECOMPILE && !keeps_graphs(compilation.model)) {
      grade.grade = QR_PLUGIN_GRADE_INCOMPATIBLE;
      grade.reason += grade.reason.empty() ? "the portable graph was not kept" : "; the portable graph was not kept";
    }
    const bool better = !best.context || grade.grade < best.grade.grade ||
                        (grade.grade == best.grade.grade && context.target == target && best.context->target != target);
    if (better) best = {&context, std::move(grade)};
  }
  return best;
}

Status ReadyModel::take_context(const qrm::ContextInfo &context) {
  programs_.reserve(context.programs.size());
  for (const qrm::Program &stored : context.programs) {
    QR_ASSIGN_OR_RETURN(const ReadyProgram *program, add_program(model_->container(), context, stored, programs_));
    (void)program;
  }
  return {};
}

Status ReadyModel::compile(Compilation &compilation) {
  QR_ASSIGN_OR_RETURN(compiled_, CompiledModel::make(compilation));
  grade_ = {QR_PLUGIN_GRADE_OPTIMAL, {}};
  const auto &graphs = compiled_->portable().graphs();
  programs_.reserve(compiled_->programs().size());
  for (const CompiledProgram &made : compiled_->programs()) {
    const loader::Compiled &from = made.compiled;
    ReadyProgram &program = programs_.emplace_back();
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
    program.target = from.target;
    program.key = from.key;
    if (from.has_plan) program.plan = plan_of(from.plan);
    describe_blob(program, compilation.plugin->blob_version(), in_memory(from.blob.data(), from.blob.size()));
  }
  return {};
}

Result<Ref<ReadyModel>> ReadyModel::make(Compilation &compilation) {
  auto ready = Ref<ReadyModel>::make(Ref<const Model>(&compilation.model));
  const Log &log = compilation.model.runtime().journal();
  if (!compilation.model.is_container()) {
    ready->source_ = "compiled";
    QR_RETURN_IF_ERROR(ready->compile(compilation));
    return ready;
  }

  if (!compilation.settings.shapes.empty())
    return Status::error(ErrorId::option_conflict,
                         format("option shape: %s is a container, whose shapes are bound already",
                                compilation.model.describe().c_str()),
                         "bind shapes when compiling from the .onnx")
        .with("option", "shape");
  QR_ASSIGN_OR_RETURN(GradedContext graded, grade_contexts(compilation));
  if (!graded.context) return no_context(compilation);
  const loader::DeviceInfo &device = compilation.plugin->devices()[compilation.device];
  const String id(compilation.plugin->id());
  if (graded.grade.grade == QR_PLUGIN_GRADE_INCOMPATIBLE)
    return Status::error(
               ErrorId::qrm_incompatible_context,
               format("%s: its context of backend %s was compiled for %s (blob version %u), this device is %s (blob "
                      "version %u): %s",
                      compilation.model.describe().c_str(), id.c_str(), printable(graded.context->target).c_str(),
                      graded.context->blob_version, device.target.c_str(), compilation.plugin->blob_version(),
                      graded.grade.reason.empty() ? "incompatible" : printable(graded.grade.reason, 1000).c_str()))
        .with("backend", id);
  const Recompile when = compilation.settings.recompile;
  if (graded.grade.grade == QR_PLUGIN_GRADE_RECOMPILE) {
    if (when == Recompile::Never)
      return Status::error(
                 ErrorId::qrm_incompatible_context,
                 format("%s: its context of backend %s, compiled for %s, must be compiled again for %s, and option "
                        "context.recompile is never: %s",
                        compilation.model.describe().c_str(), id.c_str(), printable(graded.context->target).c_str(),
                        device.target.c_str(), printable(graded.grade.reason, 1000).c_str()))
          .with("backend", id)
          .with("option", "context.recompile");
    if (when == Recompile::Background) {
      ready->source_ = "pending";
      ready->grade_ = std::move(graded.grade);
      ready->wants_recompilation_ = true;
      return ready;
    }
    log.write(QR_LOG_INFO, "session",
              format("%s: its context is compiled again for backend %s, %s: %s", compilation.model.describe().c_str(),
                     id.c_str(), device.target.c_str(), printable(graded.grade.reason, 1000).c_str()));
    return make_again(compilation);
  }
  if (graded.grade.grade == QR_PLUGIN_GRADE_USABLE)
    log.write(QR_LOG_INFO, "session",
              format("%s: its context runs on %s, but another compilation would be better: %s",
                     compilation.model.describe().c_str(), device.target.c_str(),
                     printable(graded.grade.reason, 1000).c_str()));
  QR_RETURN_IF_ERROR(ready->take_context(*graded.context));
  ready->grade_ = std::move(graded.grade);
  ready->wants_recompilation_ =
      when == Recompile::Background && ready->grade_.grade == QR_PLUGIN_GRADE_USABLE && ready->keeps_graphs();
  return ready;
}

bool ReadyModel::keeps_graphs() const noexcept { return !model_->is_container() || quarry::keeps_graphs(*model_); }

Result<Ref<ReadyModel>> ReadyModel::make_again(Compilation &compilation) {
  auto ready = Ref<ReadyModel>::make(Ref<const Model>(&compilation.model));
  ready->source_ = "recompiled";
  QR_RETURN_IF_ERROR(ready->compile(compilation));
  return ready;
}

qr_load_request load_request(const Compilation &compilation, const ReadyProgram &program) noexcept {
  qr_load_request request = {};
  request.struct_size = sizeof request;
  request.device = compilation.device;
  request.blob = &program.blob;
  request.options = compilation.plugin_options.own.data();
  request.option_count = compilation.plugin_options.own.size();
  request.signal = compilation.signal.plugin();
  return request;
}

Result<qrm::Plan> plan_program(const Compilation &compilation, const ReadyProgram &program) {
  qr_plugin_plan plan = {};
  plan.struct_size = sizeof plan;
  bool known = false;
  QR_RETURN_IF_ERROR(compilation.plugin->plan(load_request(compilation, program), &plan, &known));
  return known ? plan_of(plan) : program.plan;
}

}  // namespace quarry
