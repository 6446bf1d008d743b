// SPDX-License-Identifier: Apache-2.0
// The plugin's edge: backend.h on one side, the library on the other.

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>

#include "backends/common/option_slots.h"
#include "backends/common/slots.h"
#include "backends/htp/compile/compile.h"
#include "backends/htp/compile/ep_context.h"
#include "backends/htp/compile/foreign.h"
#include "backends/htp/compile/raw_binary.h"
#include "backends/htp/inspect/doctor.h"
#include "backends/htp/lower/lowering.h"
#include "backends/htp/program/grade.h"
#include "backends/htp/program/inspect.h"
#include "backends/htp/program/metadata.h"
#include "backends/htp/qnn/library_file.h"
#include "backends/htp/qnn/recording.h"
#include "backends/htp/run/shared_memory.h"
#include "backends/htp/run/submitted.h"
#include "base/os/file.h"
#include "base/os/process.h"
#include "base/os_error.h"

using namespace quarry;
using plugin::guard;
using plugin::text;
using plugin::view;

#define QR_HTP_VERSION "0.1.0"

#ifndef qr_plugin_query  // linked into the library: nobody looks for a note
QR_PLUGIN_NOTE("htp", QR_HTP_VERSION, 8);
#define QR_QUERY_VISIBILITY QR_PLUGIN_EXPORT
#else
#define QR_QUERY_VISIBILITY
#endif
static_assert(htp::kBlobVersion == 8, "QR_PLUGIN_NOTE names it too");

struct qr_backend {
  explicit qr_backend(const qr_host *host) noexcept : allocator(host) {}
  plugin::HostAllocator allocator;

  // The libraries that an option htp.library_path names (empty: wherever they are found), opened once. `record`: the
  // file of htp.record that their calls go into, with or without weights; empty: none.
  Result<std::shared_ptr<const qnn::Library>> library(std::string_view path, std::string_view record = {},
                                                      bool keeps_weights = true) {
    std::unique_lock lock(mutex_, std::defer_lock);  // opening takes long, and recovery
    QR_RETURN_IF_ERROR(plugin::lock_or_stop(lock, "opening the device"));
    String key(path);
    if (!record.empty()) key += format("\n%d%s", keeps_weights, String(record));
    if (const auto found = libraries_.find(key); found != libraries_.end())
      return std::shared_ptr<const qnn::Library>(found->second);
    const qnn::LibraryPlaces places = qnn::library_places(path);
    QR_ASSIGN_OR_RETURN(std::shared_ptr<qnn::Library> opened, qnn::Library::open(places));
    if (!record.empty()) QR_RETURN_IF_ERROR(qnn::record_calls(*opened, places.plugin_folder, record, keeps_weights));
    libraries_.emplace(std::move(key), opened);
    return std::shared_ptr<const qnn::Library>(std::move(opened));
  }
  Result<std::shared_ptr<const qnn::Library>> library(const qr_plugin_option *options, std::uint64_t count) {
    const auto text = [&](const char *key, const char *fallback) {
      return plugin::option(options, count, key, fallback);
    };
    // Read whenever the processor looks for a library of its own.
    const String skels(text("htp.skel_path", ""));
    if (!skels.empty() && !os::set_variable("ADSP_LIBRARY_PATH", skels.c_str())) return Status::out_of_memory();
    return library(text("htp.library_path", ""), text("htp.record", ""), text("htp.record_weights", "1") != "0");
  }
  // Where contexts for a SoC are loaded into; lives as long as one of them.
  Result<std::shared_ptr<htp::Engine>> engine(const std::shared_ptr<const qnn::Library> &library, const htp::Soc &soc,
                                              bool signed_domain, std::string_view packages) {
    std::unique_lock lock(mutex_, std::defer_lock);
    QR_RETURN_IF_ERROR(plugin::lock_or_stop(lock, "opening the device"));
    std::weak_ptr<htp::Engine> &kept =
        engines_[{library.get(), soc.number + (signed_domain ? kSigned : 0), String(packages)}];
    if (std::shared_ptr<htp::Engine> alive = kept.lock()) return alive;
    // The domain is the process's, from its first use on.
    for (const auto &[key, weak] : engines_)
      if ((std::get<1>(key) >= kSigned) != signed_domain && !weak.expired())
        return Status::error(ErrorId::option_conflict,
                             format("option htp.signed_pd: found %d while sessions with %d are there, expected one "
                                    "kind of domain in a process",
                                    signed_domain ? 1 : 0, signed_domain ? 0 : 1),
                             "end those sessions first, or create all with the same value");
    QR_ASSIGN_OR_RETURN(Vector<htp::OpPackage> list, htp::read_op_packages(packages));
    QR_ASSIGN_OR_RETURN(std::shared_ptr<htp::Engine> made,
                        htp::Engine::make(library, soc, signed_domain, std::move(list)));
    kept = made;
    return made;
  }
  // Says once what the device is, or why it is of no use: `info` gives these texts away.
  void describe_device() {
    const std::lock_guard lock(describing_);
    if (!device_text.empty()) return;
    auto found = library("");
    details = htp::report_device(qnn::library_places(""), found.ok() ? found->get() : nullptr);
    if (found.ok()) {
      device_text =
          format("Hexagon tensor processor%s, %s", qnn::Library::emulates() ? " (emulated)" : "", (*found)->describe());
      // The emulator is always there.
      const Status there = qnn::Library::emulates() ? Status() : htp::Engine::probe(*found);
      if (!there.ok()) why_not = String(there.message()) + "; " + String(there.hint());
      return;
    }
    const Status status = found.take_status();
    why_not = String(status.message()) + "; " + String(status.hint());
    device_text = "Hexagon tensor processor";
  }
  // The contexts that are loaded: registrations and the recovery of a device are for all of them.
  void add(qr_context *context) {
    const std::lock_guard lock(mutex_);
    contexts_.push_back(context);
  }
  void remove(const qr_context *context) noexcept {
    const std::lock_guard lock(mutex_);
    contexts_.erase(std::find(contexts_.begin(), contexts_.end(), context));
  }
  Status recover(const plugin::StopToken &stop, bool may_stop);

  Status allocate(std::uint64_t size, plugin::ProcessorMemory &out) {
    const std::lock_guard lock(mutex_);
    if (!memory_) {
      const String path = libraries_.empty() ? String() : libraries_.begin()->second->path();
      memory_ = quarry::make_unique<htp::SharedMemory>(qnn::folder_of(path));
    }
    return memory_->allocate(size, out);
  }
  void release(const plugin::ProcessorMemory &memory) noexcept;

  const String &types_of(const htp::OperatorRow &row) {
    const std::lock_guard lock(mutex_);
    if (types_.empty()) types_.resize(qir::op_count());
    String &text = types_[index_of(row.op)];
    if (text.empty()) text = htp::types_text(row);
    return text;
  }

  String device_text, why_not, details;
  htp::ContextGroups groups;

 private:
  static constexpr std::uint32_t kSigned = 1u << 31;
  Vector<String> types_;  // by operator
  Vector<qr_context *> contexts_;
  Unique<htp::SharedMemory> memory_;
  std::mutex describing_;
  std::mutex mutex_;
  StringMap<std::shared_ptr<const qnn::Library>> libraries_;
  using EngineKey = std::tuple<const qnn::Library *, std::uint32_t, String>;  // and op_packages
  std::map<EngineKey, std::weak_ptr<htp::Engine>, std::less<>,
           Alloc<std::pair<const EngineKey, std::weak_ptr<htp::Engine>>>>
      engines_;
};

struct qr_context : HeapObject {
  qr_context(qr_backend *owner, Unique<htp::LoadedContext> &&from) : backend(owner), loaded(std::move(from)) {
    for (const htp::BlobGraph &graph : loaded->blob().graphs) {
      auto &lists = batches.emplace_back();
      if (graph.rows == 0) continue;
      lists = {graph.inputs, graph.outputs};
      for (auto &list : lists)
        for (htp::BlobTensor &tensor : list) tensor.shape[0] = qir::kUnknownDim;
    }
  }
  const htp::BlobGraph &graph_of(std::uint64_t graph) const { return loaded->blob().graphs[graph]; }
  const Vector<htp::BlobTensor> &io(std::uint64_t graph, bool is_output) const {
    if (graph_of(graph).rows > 0) return batches[graph][is_output ? 1 : 0];
    return is_output ? graph_of(graph).outputs : graph_of(graph).inputs;
  }
  void report_nodes(std::uint64_t graph, const qr_verdict_sink &verdicts) const {
    const Vector<htp::BlobNode> &nodes = graph_of(graph).nodes;
    for (std::uint32_t i = 0; i < nodes.size(); ++i)
      plugin::report_verdict(verdicts, i, {}, nodes[i].path, nodes[i].text);
  }
  void leave() noexcept { backend->remove(this); }
  qr_backend *backend;
  Unique<htp::LoadedContext> loaded;
  Vector<std::array<Vector<htp::BlobTensor>, 2>> batches;  // inputs and outputs as runs of several batches have them
};

struct qr_execution : HeapObject {
  qr_execution(qr_context *owner, std::size_t graph, const htp::Settings &settings, std::uint64_t queue_depth)
      : context(owner),
        execution(*owner->loaded, graph, settings),
        submitted(execution, queue_depth, owner->backend->allocator.host()) {}
  qr_context *context;
  htp::Execution execution;
  htp::SubmittedRuns submitted;
};

// Why a recovery failed: the device is as lost as it was.
Status still_lost(Status why) {
  const qr_code code = why.ok() ? QR_OK : why.code();
  if (why.ok() || code == QR_DEVICE_LOST || code == QR_CANCELLED || code == QR_DEADLINE_EXCEEDED) return why;
  return Status::error(ErrorId::device_lost, format("recover: the device is still lost: %s", String(why.message())),
                       why.hint());
}

Status qr_backend::recover(const plugin::StopToken &stop, bool may_stop) {
  // No run is in the library meanwhile; one that waits finds that the device was recovered.
  const htp::RunQueue::Turn turn(htp::RunQueue::of_process(), UINT32_MAX, stop, may_stop);
  if (!turn.ok()) return stop.status("recover");
  std::unique_lock lock(mutex_, std::defer_lock);
  QR_RETURN_IF_ERROR(plugin::lock_or_stop(lock, "recover"));
  Vector<std::unique_lock<std::mutex>> lives;
  for (qr_context *const context : contexts_) {
    std::unique_lock<std::mutex> &life = lives.emplace_back(context->loaded->life(), std::defer_lock);
    QR_RETURN_IF_ERROR(plugin::lock_or_stop(life, "recover"));
  }
  for (qr_context *const context : contexts_) context->loaded->close();
  for (auto &[key, weak] : engines_)
    if (const std::shared_ptr<htp::Engine> engine = weak.lock()) QR_RETURN_IF_ERROR(still_lost(engine->reopen()));
  for (qr_context *const context : contexts_) QR_RETURN_IF_ERROR(still_lost(context->loaded->reopen()));
  return {};
}

void qr_backend::release(const plugin::ProcessorMemory &memory) noexcept {
  const std::lock_guard lock(mutex_);
  for (qr_context *const context : contexts_) context->loaded->forget(memory);
  if (!memory_ || !memory_->release(memory)) plugin::unmap_memory(memory);
}

namespace {

// ---- options ------------------------------------------------------------------------------------

constexpr OptionRow kOptions[] = {
#define QR_OPTION QR_OPTION_ROW
#include "backends/htp/settings/options.inc"
#undef QR_OPTION
};

// ---- device -------------------------------------------------------------------------------------

std::uint64_t device_count(qr_backend *) { return 1; }

qr_plugin_code device_info(qr_backend *backend, std::uint64_t index, qr_plugin_device_info *out_info,
                           const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_RETURN_IF_ERROR(plugin::check_index("device", index, 1));
    qr_plugin_device_info info{};
    info.features = QR_DEVICE_NO_FORK | QR_DEVICE_GROUPS | QR_DEVICE_RECOVERS | QR_DEVICE_IMPORTS_FD |
                    QR_DEVICE_EXPORTS_FD | QR_DEVICE_BATCHES | (qnn::Library::emulates() ? QR_DEVICE_SIMULATED : 0);
    info.target = text("hexagon");
    backend->describe_device();
    info.name = text(backend->device_text);
    info.why_not = text(backend->why_not);
    info.details = text(backend->details);
    info.usable = backend->why_not.empty();
    plugin::give(info, out_info);
    return {};
  });
}

qr_plugin_code device_recover(qr_backend *backend, std::uint64_t, const qr_error_sink *errors,
                              const qr_plugin_signal *signal) {
  return guard(backend->allocator, errors, [&] {
    const plugin::StopToken stop(signal, backend->allocator.host());
    const StopScope scope(stop);
    return backend->recover(stop, signal != nullptr);
  });
}

constexpr qr_plugin_device_api kDevice = {sizeof(qr_plugin_device_api), 0, device_count, device_info, device_recover};

// ---- compiler -----------------------------------------------------------------------------------

void check_foreign(const qnn::Library &library, qir::Graph graph, const htp::Settings &settings,
                   const qr_verdict_sink &verdicts) {
  Vector<Status> refused(graph.nodes.size());
  Vector<qir::Graph> graphs;
  graphs.push_back(std::move(graph));
  std::size_t failed = 0;
  auto taken = htp::take_foreign_contexts(library, graphs, settings, &failed);
  if (!taken.ok()) refused[failed] = taken.take_status();
  for (std::uint32_t i = 0; i < refused.size(); ++i) {
    if (!taken.ok()) plugin::report_verdict(verdicts, i, refused[i], QR_PLUGIN_PATH_NONE, "");
    else
      plugin::report_verdict(verdicts, i, {}, taken->blob.graphs[0].nodes[i].path, taken->blob.graphs[0].nodes[i].text);
  }
}

// What a compilation made, however it was made.
Status give_blob(const htp::Blob &compiled, std::span<const std::span<const std::uint8_t>> binaries, const String &key,
                 qr_plugin_plan plan, const qr_blob_sink &result) {
  const htp::Soc &soc = *htp::find_soc(compiled.soc);
  const String target = *soc.name ? String(soc.name) : format("soc%u", soc.number);
  plan.struct_size = sizeof plan;
  for (const auto &binary : binaries) plan.weights_bytes += binary.size();
  plan.device_bytes = plan.weights_bytes + plan.spill_fill_bytes;
  for (const auto &binary : binaries) QR_RETURN_IF_ERROR(plugin::give_segment(result, binary));
  return plugin::give_result(result, htp::write_blob(compiled), target, key, plan);
}

qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(request->signal, backend->allocator.host());
    const StopScope scope(stop);
    QR_ASSIGN_OR_RETURN(htp::Settings settings, htp::Settings::read(kOptions, request->options, request->option_count,
                                                                    QR_PLUGIN_OPTION_COMPILE));
    QR_ASSIGN_OR_RETURN(const htp::CompileOptions options, htp::read_compile_options(std::move(settings)));
    QR_ASSIGN_OR_RETURN(const auto library, backend->library(request->options, request->option_count));
    QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_request(*request));
    if (htp::has_foreign_context(graph)) {
      check_foreign(*library, std::move(graph), options.settings, *verdicts);
      return {};
    }
    QR_ASSIGN_OR_RETURN(const Unique<htp::Prepared> prepared, htp::Prepared::make(std::move(graph), options));
    QR_ASSIGN_OR_RETURN(
        const std::shared_ptr<htp::Engine> engine,
        backend->engine(library, *options.soc, options.signed_domain, options.settings.text("op_packages")));
    if (!options.settings.flag("skip_backend_op_validation"))
      htp::Writer(*engine, prepared->draft()).validate(prepared->refused());
    QR_RETURN_IF_ERROR(stop_status("check"));
    const Vector<htp::BlobNode> nodes = prepared->nodes();
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      QR_RETURN_IF_ERROR(stop_status("check"));
      plugin::report_verdict(*verdicts, i, prepared->refused()[i], nodes[i].path, nodes[i].text);
    }
    return {};
  });
}

qr_plugin_code compile_group(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                             const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(request->signal, backend->allocator.host());
    const StopScope scope(stop);
    QR_ASSIGN_OR_RETURN(htp::Settings settings, htp::Settings::read(kOptions, request->options, request->option_count,
                                                                    QR_PLUGIN_OPTION_COMPILE));
    QR_ASSIGN_OR_RETURN(const htp::CompileOptions options, htp::read_compile_options(std::move(settings)));
    if (!options.notice.empty()) plugin::log(backend->allocator.host(), QR_LOG_WARN, "options", options.notice);
    QR_ASSIGN_OR_RETURN(const auto library, backend->library(request->options, request->option_count));
    Vector<qir::Graph> graphs;
    for (std::uint64_t i = 0; i < request->graph_count; ++i) {
      QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_graph(*request->graphs[i]));
      graphs.push_back(std::move(graph));
    }
    if (std::any_of(graphs.begin(), graphs.end(), htp::has_foreign_context)) {
      QR_ASSIGN_OR_RETURN(const htp::ForeignContexts taken,
                          htp::take_foreign_contexts(*library, graphs, options.settings, nullptr));
      if (!taken.notice.empty()) plugin::log(backend->allocator.host(), QR_LOG_WARN, "compile", taken.notice);
      qr_plugin_plan plan{};
      plan.spill_fill_bytes = taken.spill_bytes;
      return give_blob(taken.blob, taken.binaries, format("v%u %s", taken.blob.arch, taken.blob.build_id), plan,
                       *result);
    }
    const qr_progress_sink *const progress = request->progress;
    const auto step = [&](std::size_t done, std::size_t total, std::string_view what) -> Status {
      if (stop.stopped()) return stop.status("compile");
      if (progress) progress->report(progress->self, done, total, text(what));
      return {};
    };
    const htp::CompileCall call{stop, request->signal != nullptr, request->profile,
                                options.settings.flag("htp.optrace"), options.settings.text("htp.optrace_dir")};
    if (call.traces && call.profile && call.trace_folder.empty())
      return Status::error(ErrorId::bad_option_value,
                           "option htp.optrace_dir: found '', expected a folder for the files that the library writes "
                           "when htp.optrace is 1");
    if (call.traces && !call.profile)
      plugin::log(backend->allocator.host(), QR_LOG_WARN, "options",
                  "htp.optrace=1: nothing measures this compilation, and so the library writes no trace of it: compile "
                  "with a profile");
    QR_ASSIGN_OR_RETURN(const htp::CompiledContext compiled,
                        htp::compile(library, std::move(graphs), options, step, call));
    if (stop.stopped()) return stop.status("compile");
    const std::span<const std::uint8_t> binary(compiled.binary);
    qr_plugin_plan plan{};
    plan.spill_fill_bytes = compiled.spill_bytes;
    plan.io_bytes = compiled.io_bytes;
    return give_blob(compiled.blob, {&binary, compiled.binary.empty() ? 0u : 1u},
                     format("v%u %s", options.soc->arch, library->build_id()), plan, *result);
  });
}

std::int32_t compiler_supports(qr_backend *backend, qr_plugin_string domain, qr_plugin_string name, std::uint32_t,
                               qr_plugin_string *out_types, qr_plugin_string *out_note) {
  return plugin::table_supports(*backend, domain, name, htp::find_operator, out_types, out_note);
}

constexpr qr_plugin_compiler_api kCompiler = {
    sizeof(qr_plugin_compiler_api), 0, compiler_check, compile_group, compiler_supports, compile_group};

// ---- context ------------------------------------------------------------------------------------

Result<htp::Blob> blob_of(const qr_blob &blob) {
  return htp::read_blob({static_cast<const std::uint8_t *>(blob.bytes.data), blob.bytes.size});
}

qr_plugin_code context_grade(qr_backend *backend, const qr_load_request *request, std::int32_t *out_grade,
                             const qr_error_sink *reason) {
  return guard(backend->allocator, reason, [&]() -> Status {
    const auto grade = [&](std::int32_t value, const String &why) {
      plugin::give_grade(value, why, out_grade, *reason);
    };
    auto library = backend->library(request->options, request->option_count);
    auto blob = blob_of(*request->blob);
    if (request->blob->version != htp::kBlobVersion) {
      grade(QR_PLUGIN_GRADE_RECOMPILE,
            format("blob: found version %u, expected %u", request->blob->version, htp::kBlobVersion));
    } else if (!blob.ok()) {
      grade(QR_PLUGIN_GRADE_RECOMPILE, String(blob.status().message()));
    } else if (!library.ok()) {  // nothing is wrong with the blob
      return library.take_status();
    } else {
      const auto option = [&](std::string_view key, std::string_view fallback) {
        return plugin::option(request->options, request->option_count, key, fallback);
      };
      const htp::BlobGrade judged =
          htp::grade_blob(*blob, htp::grade_place(**library),
                          {option("soc_model", "0"), option("htp.compatibility", "permissive") == "strict",
                           option("skip_qnn_version_check", "0") == "1"});
      grade(judged.grade, judged.reason);
    }
    return {};
  });
}

qr_plugin_code context_load(qr_backend *backend, const qr_load_request *request, qr_context **out_context,
                            const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(request->signal, backend->allocator.host());
    if (stop.stopped()) return stop.status("load");
    const StopScope scope(stop);
    const qr_blob &given = *request->blob;
    QR_ASSIGN_OR_RETURN(htp::Settings settings,
                        htp::Settings::read(kOptions, request->options, request->option_count, QR_PLUGIN_OPTION_LOAD));
    QR_ASSIGN_OR_RETURN(htp::Blob blob, blob_of(given));
    std::uint64_t binaries = blob.binary_bytes == 0 ? 0 : 1;
    for (const htp::Blob &part : blob.parts) binaries += part.binary_bytes > 0 ? 1 : 0;
    if (given.segment_count != binaries)
      return Status::error(
          ErrorId::backend_bad_blob,
          format("htp blob: found %llu segments, expected %llu, one for each binary", given.segment_count, binaries));
    const htp::Soc *const soc = htp::find_soc(blob.soc);
    if (!soc)
      return Status::error(ErrorId::backend_bad_blob, format("htp blob: found SoC %u, which is not known", blob.soc));
    QR_ASSIGN_OR_RETURN(const auto library, backend->library(request->options, request->option_count));
    QR_ASSIGN_OR_RETURN(std::shared_ptr<htp::Engine> engine,
                        backend->engine(library, *soc, settings.flag("htp.signed_pd"), settings.text("op_packages")));
    if (!view(request->group).empty() && !settings.flag("enable_htp_spill_fill_buffer") &&
        !settings.flag("enable_vtcm_backup_buffer_sharing"))
      plugin::log(backend->allocator.host(), QR_LOG_WARN, "options",
                  "context.group: nothing is shared without enable_htp_spill_fill_buffer=1 or "
                  "enable_vtcm_backup_buffer_sharing=1");
    htp::LoadedContext::Request loading{
        {}, std::move(settings), String(view(request->group)), &backend->groups, request->profile, {}};
    std::uint64_t met = 0;
    const auto binary = [&](const htp::Blob &of) -> std::span<const std::uint8_t> {
      if (of.binary_bytes == 0) return {};
      const qr_plugin_segment &segment = given.segments[met++];
      return {static_cast<const std::uint8_t *>(segment.data), segment.size};
    };
    loading.binary = binary(blob);
    for (const htp::Blob &part : blob.parts) loading.parts.push_back(binary(part));
    loading.host = &backend->allocator.host();
    loading.stop = request->signal ? &stop : nullptr;
    const qr_load_request known = plugin::incoming(*request);
    if (known.graphs) loading.wanted.assign(known.graphs, known.graphs + known.graph_count);
    QR_ASSIGN_OR_RETURN(Unique<htp::LoadedContext> loaded,
                        htp::LoadedContext::load(std::move(engine), std::move(blob), std::move(loading)));
    if (stop.stopped()) return stop.status("load");
    auto made = quarry::make_unique<qr_context>(backend, std::move(loaded));
    backend->add(made.get());
    *out_context = made.release();
    return {};
  });
}

qr_plugin_code context_describe(qr_backend *backend, const qr_load_request *request, const qr_bytes_sink *out_json,
                                const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const htp::Blob blob, blob_of(*request->blob));
    const String json = htp::describe_blob(blob);
    if (out_json->write(out_json->self, json.data(), json.size()) == QR_OK) return {};
    return Status::error(ErrorId::internal, "describe: the host did not take the text");
  });
}

qr_plugin_code context_export_onnx(qr_backend *backend, const qr_load_request *request, qr_plugin_string name,
                                   std::int32_t is_embedded, const qr_files_sink *files, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const htp::Blob blob, blob_of(*request->blob));
    std::span<const std::uint8_t> binary;
    if (request->blob->segment_count > 0)
      binary = {static_cast<const std::uint8_t *>(request->blob->segments[0].data), request->blob->segments[0].size};
    plugin::HostFiles to(*files);
    return htp::write_ep_contexts(
        blob, binary, view(name), is_embedded != 0,
        plugin::option(request->options, request->option_count, "ep.context_node_name_prefix", ""), to);
  });
}

qr_plugin_code context_import_binary(qr_backend *backend, qr_plugin_bytes binary, qr_plugin_string binary_name,
                                     const qr_plugin_option *options, std::uint64_t option_count,
                                     const qr_bytes_sink *out_model, const qr_bytes_sink *out_json,
                                     const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const std::span<const std::uint8_t> bytes{static_cast<const std::uint8_t *>(binary.data), binary.size};
    if (!htp::is_raw_binary(bytes)) return {};
    // Even the reader of what it says of itself crashes on some damaged ones.
    if (plugin::option(options, option_count, "htp.foreign_context", "refuse") != "trust")
      return Status::error(ErrorId::onnx_ep_context,
                           format("found %zu bytes of a context binary of QNN, expected a model or a container: its "
                                  "binary has no hash, so nobody can know whether it is whole",
                                  bytes.size()),
                           "compile the model that it was made from, or take it on your word by option "
                           "htp.foreign_context=trust: a damaged binary may crash the process or compute nonsense");
    QR_ASSIGN_OR_RETURN(const auto library, backend->library(options, option_count));
    QR_ASSIGN_OR_RETURN(const htp::RawBinary read, htp::read_raw_binary(*library, bytes, view(binary_name)));
    if (out_model->write(out_model->self, read.model.data(), read.model.size()) == QR_OK &&
        out_json->write(out_json->self, read.about.data(), read.about.size()) == QR_OK)
      return {};
    return Status::error(ErrorId::internal, "import_binary: the host did not take the model");
  });
}

std::uint64_t context_graph_count(qr_context *context) { return context->loaded->blob().graphs.size(); }

constexpr qr_plugin_context_api kContext = [] {
  qr_plugin_context_api slots = plugin::context_slots<qr_context>(context_grade, nullptr, context_load);
  slots.graph_count = context_graph_count;
  slots.describe = context_describe;
  slots.export_onnx = context_export_onnx;
  slots.import_binary = context_import_binary;
  return slots;
}();

// ---- execution ----------------------------------------------------------------------------------

qr_plugin_code execution_create(qr_context *context, const qr_execution_request *request, qr_execution **out_execution,
                                const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    QR_RETURN_IF_ERROR(plugin::check_index("graph", request->graph, context->loaded->blob().graphs.size()));
    QR_ASSIGN_OR_RETURN(const htp::Settings settings,
                        htp::Settings::read(kOptions, request->options, request->option_count, QR_PLUGIN_OPTION_RUN));
    *out_execution = new qr_execution(context, request->graph, settings, plugin::incoming(*request).queue_depth);
    return {};
  });
}

qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors) {
  plugin::HostAllocator &allocator = execution->context->backend->allocator;
  return guard(allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(request->signal, allocator.host());
    if (stop.stopped()) return stop.status("run");
    QR_RETURN_IF_ERROR(execution->execution.run(*request, stop));
    if (stop.stopped()) return stop.status("run");
    return {};
  });
}

qr_plugin_code execution_set_option(qr_execution *execution, qr_plugin_string key, qr_plugin_string value,
                                    const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors,
               [&] { return execution->execution.set_option(view(key), view(value)); });
}

qr_plugin_code execution_submit(qr_execution *execution, const qr_run_request *request, std::uint64_t *out_ticket,
                                const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(*out_ticket, execution->submitted.submit(*request));
    return {};
  });
}

qr_plugin_code execution_wait(qr_execution *execution, std::uint64_t ticket, const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, [&] { return execution->submitted.wait(ticket); });
}

constexpr qr_plugin_execution_api kExecution = [] {
  qr_plugin_execution_api slots =
      plugin::execution_slots<qr_execution>(execution_create, execution_run, execution_submit, execution_wait);
  slots.set_option = execution_set_option;
  return slots;
}();

// ---- memory -------------------------------------------------------------------------------------

qr_plugin_code memory_allocate(qr_backend *backend, const qr_plugin_memory_request *request,
                               qr_plugin_memory_info *out_info, qr_registration **out_registration,
                               const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    auto made = quarry::make_unique<qr_registration>();
    QR_RETURN_IF_ERROR(backend->allocate(request->size_bytes, *made));
    plugin::give(qr_plugin_memory_info{sizeof(qr_plugin_memory_info), 1, made->base}, out_info);
    *out_registration = made.release();
    return {};
  });
}

void memory_release(qr_backend *backend, qr_registration *registration) {
  const AllocatorScope scope(backend->allocator);
  backend->release(*registration);
  FreeDelete<qr_registration>()(registration);
}

qr_plugin_code memory_export(qr_backend *backend, qr_registration *registration, std::int32_t *out_fd,
                             std::uint64_t *out_offset, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    OpenFd fd = os::duplicate(registration->fd);
    if (fd.get() < 0)
      return Status::error(ErrorId::io_error,
                           format("memory: its descriptor cannot be duplicated: %s", os_error_text(errno)));
    *out_fd = fd.release(), *out_offset = 0;
    return {};
  });
}

constexpr qr_plugin_memory_api kMemory = {sizeof(qr_plugin_memory_api),
                                          0,
                                          memory_allocate,
                                          plugin::processor_import_fd<qr_backend>,
                                          nullptr,
                                          memory_release,
                                          nullptr,
                                          nullptr,
                                          plugin::processor_access<qr_backend, true>,
                                          plugin::processor_access<qr_backend, false>,
                                          memory_export};

}  // namespace

extern "C" QR_QUERY_VISIBILITY qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                              const qr_error_sink *errors) {
  static constexpr qr_plugin kPlugin = plugin::plugin_table<qr_backend>(
      "htp", QR_HTP_VERSION, "Qualcomm's Hexagon tensor processor, driven through QNN; on x86-64 Linux in an emulator",
      htp::kBlobVersion, kDevice, kCompiler, kContext, kExecution, &kMemory,
      &plugin::kOptionSlots<qr_backend, kOptions>);
  return plugin::answer_query(host, kPlugin, out_plugin, errors);
}
