// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile/loaded_model.h"

#include <algorithm>

#include "base/small_sort.h"
#include "base/target_writer.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"

namespace quarry {
namespace {

// "model.onnx" -> "model_ctx.qrm".
String default_context_path(std::string_view model) {
  for (const std::string_view ending : {".onnx", ".qrm"})
    if (model.ends_with(ending)) model.remove_suffix(ending.size());
  return String(model) + "_ctx.qrm";
}

// What is compiled, as ONNX Runtime loads it.
Status write_onnx_form(const CompileJob &job, const LoadableModel &loadable, std::string_view name, FileSink &files) {
  const std::size_t programs = loadable.programs().size(),
                    machines = loadable.compiled() ? loadable.compiled()->targets().size() : 1;
  if (programs == 1 && machines == 1)
    return job.plugin->export_onnx(load_request(job, loadable.programs()[0]), name, job.settings.context_embedded,
                                   files);
  return Status::hinted(ErrorId::option_conflict, "name a .qrm",
                        "an ONNX model for ONNX Runtime: found %zu programs of %zu machines, expected one of one",
                        programs, machines);
}

constexpr const char *kContextPath = "option ep.context_file_path";

void raise(std::uint64_t &figure, std::uint64_t by) noexcept { figure = std::max(figure, by); }

// A context must take and give what the model's signature says; the plugin is the only one that could have mixed them
// up.
Status check_signature(loader::Plugin &plugin, const LoadableModel &signature, const loader::GraphTensors &tensors) {
  const auto side = [&](const char *what, const Vector<qrm::TensorInfo> &expected,
                        const Vector<loader::TensorInfo> &found) -> Status {
    if (found.size() != expected.size())
      return plugin.misbehaved(
          "context.load", format("gave a context with %zu %ss, expected %zu", found.size(), what, expected.size()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      bool same =
          found[i].dtype == static_cast<std::int32_t>(expected[i].dtype) && found[i].rank == expected[i].dims.size();
      for (std::uint32_t axis = 0; same && axis < found[i].rank; ++axis)
        same = expected[i].dims[axis] < 0 || found[i].dims[axis] < 0 || expected[i].dims[axis] == found[i].dims[axis];
      if (!same)
        return plugin.misbehaved(
            "context.load",
            format("gave a context with %s %s as %s%s, expected %s%s", what, printable(expected[i].name),
                   dtype_name(static_cast<DType>(found[i].dtype)), shape_text(found[i].dims, found[i].rank),
                   dtype_name(expected[i].dtype), shape_text(expected[i].dims.data(), expected[i].dims.size())));
    }
    return {};
  };
  QR_RETURN_IF_ERROR(side("input", signature.inputs(), tensors.inputs));
  return side("output", signature.outputs(), tensors.outputs);
}

}  // namespace

Status keep_context(const CompileJob &job, const LoadableModel &loadable) {
  const Settings &settings = job.settings;
  if (!settings.write_context) return {};
  const Log &log = job.model.runtime().log();
  if (!loadable.compiled()) {
    log.write(QR_LOG_INFO, "session",
              format("ep.context_enable: %s holds the context already, nothing is written", job.model.describe()));
    return {};
  }
  const bool is_onnx = settings.context_path.ends_with(".onnx");
  if (!is_onnx && !settings.context_embedded)
    log.write(QR_LOG_INFO, "session", "ep.context_embed_mode is 0: a .qrm holds everything in one file all the same");
  if (settings.context_path.empty() && job.model.path().empty())
    return Status::error(ErrorId::option_conflict,
                         "option ep.context_file_path: it is not set and the model has no path, expected a file to "
                         "write the context to",
                         "set ep.context_file_path")
        .with("option", "ep.context_file_path");
  const String path =
      settings.context_path.empty() ? default_context_path(job.model.path()) : String(settings.context_path);
  TargetWriter out(kContextPath, target_at(path), {}, NewFile::Outlasts::Disk, kContextPath);
  Status status = out.finish(is_onnx ? write_onnx_form(job, loadable, out.name(), out)
                                     : write_container(job, *loadable.compiled(), out.name(), out));
  if (!status.ok()) return std::move(status).with("option", "ep.context_file_path");
  log.write(QR_LOG_INFO, "session", format("the compiled model was written to %s", printable(path, 1000)));
  return {};
}

Status compile_to(CompileJob &job, std::string_view name, FileSink &files) {
  if (name.ends_with(".onnx")) {
    QR_ASSIGN_OR_RETURN(const Ref<LoadableModel> loadable, LoadableModel::make_new(job));
    return write_onnx_form(job, *loadable, name, files);
  }
  QR_ASSIGN_OR_RETURN(const Ref<CompiledModel> compiled, CompiledModel::make(job));
  return write_container(job, *compiled, name, files);
}

Status compile_networks_to(Vector<Unique<CompileJob>> &jobs, const Vector<String> &names, std::string_view name,
                           FileSink &files) {
  QR_ASSIGN_OR_RETURN(const Vector<Ref<CompiledModel>> compiled, CompiledModel::make_together(jobs));
  if (!name.ends_with(".onnx")) return write_networks(jobs, compiled, names, name, files);
  const CompileJob &first = *jobs[0];
  if (!first.plugin->compiles_groups() || compiled[0]->targets().size() > 1)
    return Status::hinted(ErrorId::option_conflict, "name a .qrm",
                          "models for ONNX Runtime: found programs of their own or for %zu machines, expected several "
                          "networks in one program of one",
                          compiled[0]->targets().size());
  const loader::CompiledBlob &blob = compiled[0]->programs()[0].blob();
  LoadableProgram program;
  program.graphs.resize(compiled[0]->programs()[0].graphs.size());
  for (const loader::CompiledSegment &segment : blob.segments)
    program.segments.push_back({segment.bytes.data(), segment.bytes.size(), -1, 0, 0, 0});
  take_blob(program, first, blob);
  return first.plugin->export_onnx(load_request(first, program), name, first.settings.context_embedded, files);
}

Result<Unique<LoadedModel>> load_contexts(const CompileJob &job, Ref<LoadableModel> loadable,
                                          const LoadableModel &signature) {
  auto loaded = quarry::make_unique<LoadedModel>(std::move(loadable));
  for (const LoadableProgram &program : loaded->loadable->programs()) {
    QR_RETURN_IF_ERROR(job.signal.check("loading the context"));
    const qr_progress_sink progress{sizeof progress, 0, const_cast<Progress *>(&job.progress),
                                    [](void *self, std::uint64_t done, std::uint64_t total, qr_plugin_string what) {
                                      static_cast<const Progress *>(self)->tell(done, total, text_of(what));
                                    }};
    CallEvents::Phase phase(
        job.events, "load context",
        program.graphs.size() == 1 ? std::string_view(program.graphs[0].bucket) : std::string_view());
    qr_load_request request = load_request(job, program);
    request.group = plugin_string(job.settings.group);
    request.progress = &progress;
    request.profile = phase.plugin_sink();
    Vector<std::uint64_t> wanted;
    for (std::uint64_t g = 0; g < program.graphs.size(); ++g)
      if (program.graphs[g].index != qrm::kOtherNetwork) wanted.push_back(g);
    if (wanted.size() < program.graphs.size()) request.graphs = wanted.data(), request.graph_count = wanted.size();
    QR_ASSIGN_OR_RETURN(const std::shared_ptr<loader::Context> context, job.plugin->load(request));
    QR_RETURN_IF_ERROR(job.progress.status());
    for (std::uint32_t g = 0; g < program.graphs.size(); ++g) {
      if (program.graphs[g].index == qrm::kOtherNetwork) continue;
      QR_RETURN_IF_ERROR(check_signature(*job.plugin, signature, context->graphs()[g]));
      loaded->buckets.push_back({program.graphs[g].bucket, program.graphs[g].index, context, g});
    }
  }
  small_sort(loaded->buckets, [](const SessionBucket &a, const SessionBucket &b) { return a.index < b.index; });
  QR_ASSIGN_OR_RETURN(loaded->plan, plan_all(job, *loaded->loadable));
  return loaded;
}

Result<qrm::Plan> plan_all(const CompileJob &job, const LoadableModel &loadable) {
  const CallEvents::Phase phase(job.events, "plan");
  qrm::Plan largest;
  for (const LoadableProgram &program : loadable.programs()) {
    QR_ASSIGN_OR_RETURN(const qrm::Plan plan, plan_program(job, program));
    raise(largest.weights_bytes, plan.weights_bytes);
    raise(largest.arena_bytes, plan.arena_bytes);
    raise(largest.io_bytes, plan.io_bytes);
    raise(largest.device_bytes, plan.device_bytes);
    raise(largest.scratchpad_bytes, plan.scratchpad_bytes);
    raise(largest.spill_fill_bytes, plan.spill_fill_bytes);
  }
  return largest;
}

}  // namespace quarry
