// SPDX-License-Identifier: Apache-2.0
// The compile driver: asks the backend about every node, has it compile, keeps the result in memory or writes it to a
// .qrm.
#pragma once

#include "loader/plugin.h"
#include "runtime/core/call_threads.h"
#include "runtime/core/settings.h"
#include "runtime/model/call_watch.h"
#include "runtime/model/portable_graphs.h"

namespace quarry {

class JsonWriter;

// One compilation: who compiles for which device with which options. Lives on the stack of a call.
struct CompileJob {
  const DeviceUse use;
  const Model &model;
  const OptionSet *options;  // may be null
  Settings settings;
  std::shared_ptr<loader::Plugin> plugin;
  std::uint32_t device = 0;
  PluginOptions plugin_options;
  CallSignal signal;
  Progress progress;
  CallEvents events;  // "compile" or "load": what is done with the job
  std::shared_ptr<ThreadPool> pool;
  CallThreads threads;

  // Opens the backend and resolves everything but the graphs.
  static Result<Unique<CompileJob>> begin(const Model &model, const OptionSet *options, const CallWatch &watch,
                                          DeviceUse use);
  // By `begin` alone.
  CompileJob(DeviceUse use, const Model &from, const OptionSet *given, Settings resolved,
             std::shared_ptr<ThreadPool> workers, const CallWatch &watch);
};

// Graphs that a backend compiled into one blob.
struct CompiledProgram {
  Vector<std::uint32_t> graphs;  // of the model; graphs[k] is graph k of the blob
  loader::CompiledBlob compiled;
  const loader::CompiledBlob *of_first = nullptr;  // it is the first network's of several, of which this is another
  const loader::CompiledBlob &blob() const noexcept { return of_first ? *of_first : compiled; }
};

// What a model was compiled to for one machine: the options that say which among them, and the programs.
struct CompiledTarget {
  Vector<std::pair<String, String>> options;
  Vector<CompiledProgram> programs;  // each graph is in one of them
};

// A model compiled by one backend, with everything that its bytes point into.
class CompiledModel : public Counted<CompiledModel> {
 public:
  // Checks and compiles all graphs. Where nodes are refused: QR-B0001 with one "reason" frame for each.
  static Result<Ref<CompiledModel>> make(CompileJob &job);
  // Several networks, for one backend with the same options: in one program where the backend takes several graphs.
  static Result<Vector<Ref<CompiledModel>>> make_together(Vector<Unique<CompileJob>> &jobs);

  const PortableGraphs &portable_graphs() const noexcept { return *portable_graphs_; }
  const Signature &signature() const noexcept { return signature_; }
  // One, or several where an option that names the machine (QR_OPTION_TARGET) lists them; for a session the first
  // alone.
  const Vector<CompiledTarget> &targets() const noexcept { return targets_; }
  const Vector<CompiledProgram> &programs() const noexcept { return targets_[0].programs; }
  // Per graph.
  const Vector<Vector<qir::Shape>> &input_dims() const noexcept { return input_dims_; }
  const Vector<Vector<qir::Shape>> &output_dims() const noexcept { return output_dims_; }
  std::uint64_t node_count() const noexcept { return node_count_; }  // of the first graph

 private:
  Ref<PortableGraphs> portable_graphs_;
  Signature signature_;
  Status import(CompileJob &job, Vector<qir::Outline> &graphs);
  Result<CompiledTarget> check_target(CompileJob &job, const Vector<qir::Outline> &graphs) const;
  Status compile_target(CompileJob &job, const Vector<qir::Outline> &graphs);
  Vector<CompiledTarget> targets_;
  Vector<Vector<qir::Shape>> input_dims_, output_dims_;
  std::uint64_t node_count_ = 0;
};

// Writes a container: the graphs (if they are to be kept), the new context, and, when the model is a container itself,
// the contexts that it has for other backends and targets.
Status write_container(const CompileJob &job, const CompiledModel &compiled, std::string_view name, FileSink &files);
// Of several networks, each with its name.
Status write_networks(const Vector<Unique<CompileJob>> &jobs, const Vector<Ref<CompiledModel>> &compiled,
                      const Vector<String> &names, std::string_view name, FileSink &files);

// That a container has none for the job's backend.
Status no_context(const CompileJob &job);

// qr_model_export.
Status export_graphs(CompileJob &job, std::string_view name, FileSink &files);

// qr_model_check: asks about every node and compiles nothing.
Result<String> check_report(CompileJob &job);

// "native", "reference", "none" or "unknown": QR_PLUGIN_PATH_*.
const char *path_name(std::uint32_t path) noexcept;

// qr_memory_plan's figures of a program: what the plugin says, else what stands in the container.
qrm::Plan plan_of(const qr_plugin_plan &plan) noexcept;
// The key "memory" of reports.
void write_memory(JsonWriter &json, const qrm::Plan &plan);

}  // namespace quarry
