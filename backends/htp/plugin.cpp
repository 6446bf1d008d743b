// SPDX-License-Identifier: Apache-2.0
// The plugin's edge: backend.h on one side, the library on the other.
#include <algorithm>
#include <map>
#include <mutex>

#include "backends/common/option_slots.h"
#include "backends/htp/compile.h"
#include "backends/htp/execution.h"
#include "backends/htp/lower/lowering.h"

using namespace quarry;
using plugin::guard;
using plugin::text;
using plugin::view;

#define QR_HTP_VERSION "0.1.0"

#ifndef qr_plugin_query  // linked into the library: nobody looks for a note
QR_PLUGIN_NOTE("htp", QR_HTP_VERSION, 2);
#define QR_QUERY_VISIBILITY QR_PLUGIN_EXPORT
#else
#define QR_QUERY_VISIBILITY
#endif
static_assert(htp::kBlobVersion == 2, "QR_PLUGIN_NOTE names it too");

struct qr_backend {
  explicit qr_backend(const qr_host *host) noexcept : allocator(host) {}
  plugin::HostAllocator allocator;

  // The libraries that an option htp.library_path names (empty: wherever they are found), opened once.
  Result<std::shared_ptr<const qnn::Library>> library(std::string_view path) {
    const std::lock_guard lock(mutex_);
    if (const auto found = libraries_.find(path); found != libraries_.end())
      return std::shared_ptr<const qnn::Library>(found->second);
    QR_ASSIGN_OR_RETURN(std::shared_ptr<const qnn::Library> opened, qnn::Library::open(qnn::library_places(path)));
    libraries_.emplace(String(path), opened);
    return opened;
  }
  Result<std::shared_ptr<const qnn::Library>> library(const qr_plugin_option *options, std::uint64_t count) {
    return library(plugin::option(options, count, "htp.library_path", ""));
  }
  // Where contexts for a SoC are loaded into; lives as long as one of them.
  Result<std::shared_ptr<htp::Engine>> engine(const std::shared_ptr<const qnn::Library> &library, const htp::Soc &soc) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<htp::Engine> &kept = engines_[{library.get(), soc.number}];
    if (std::shared_ptr<htp::Engine> alive = kept.lock()) return alive;
    QR_ASSIGN_OR_RETURN(std::shared_ptr<htp::Engine> made, htp::Engine::make(library, soc, false));
    kept = made;
    return made;
  }
  // Says once what the device is, or why it is of no use: `info` gives these texts away.
  void describe_device() {
    const std::lock_guard lock(describing_);
    if (!device_text.empty()) return;
    auto found = library("");
    if (found.ok()) {
      device_text = format("Hexagon tensor processor%s, %s", qnn::Library::emulates() ? " (emulated)" : "",
                           (*found)->describe().c_str());
      // The emulator is always there.
      const Status there = qnn::Library::emulates() ? Status() : htp::Engine::probe(*found);
      if (!there.ok()) why_not = String(there.message()) + "; " + String(there.hint());
      return;
    }
    const Status status = found.status();
    why_not = String(status.message()) + "; " + String(status.hint());
    device_text = "Hexagon tensor processor";
  }
  String device_text, why_not;

 private:
  std::mutex describing_;
  std::mutex mutex_;
  StringMap<std::shared_ptr<const qnn::Library>> libraries_;
  using EngineKey = std::pair<const qnn::Library *, std::uint32_t>;
  std::map<EngineKey, std::weak_ptr<htp::Engine>, std::less<>,
           Alloc<std::pair<const EngineKey, std::weak_ptr<htp::Engine>>>>
      engines_;
};

struct qr_context : HeapObject {
  qr_context(qr_backend *owner, Unique<htp::LoadedContext> &&from) : backend(owner), loaded(std::move(from)) {}
  qr_backend *backend;
  Unique<htp::LoadedContext> loaded;
};

struct qr_execution : HeapObject {
  qr_execution(qr_context *owner, std::size_t graph) : context(owner), execution(*owner->loaded, graph) {}
  qr_context *context;
  htp::Execution execution;
};

namespace {

// ---- options ------------------------------------------------------------------------------------

constexpr OptionRow kOptions[] = {
#define QR_OPTION QR_OPTION_ROW
#include "backends/htp/options.inc"
#undef QR_OPTION
};

// ---- device -------------------------------------------------------------------------------------

std::uint64_t device_count(qr_backend *) { return 1; }

qr_plugin_code device_info(qr_backend *backend, std::uint64_t index, qr_plugin_device_info *out_info,
                           const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_RETURN_IF_ERROR(plugin::check_index("device", index, 1));
    qr_plugin_device_info info{};
    info.features = QR_DEVICE_NO_FORK | (qnn::Library::emulates() ? QR_DEVICE_SIMULATED : 0);
    info.target = text("hexagon");
    backend->describe_device();
    info.name = text(backend->device_text);
    info.why_not = text(backend->why_not);
    info.usable = backend->why_not.empty();
    plugin::give(info, out_info);
    return {};
  });
}

constexpr qr_plugin_device_api kDevice = {sizeof(qr_plugin_device_api), 0, device_count, device_info, nullptr};

// ---- compiler -----------------------------------------------------------------------------------

qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_RETURN_IF_ERROR(
        htp::refuse_idle_options(kOptions, request->options, request->option_count, QR_PLUGIN_OPTION_COMPILE));
    QR_ASSIGN_OR_RETURN(const htp::CompileOptions options,
                        htp::read_compile_options(request->options, request->option_count));
    QR_ASSIGN_OR_RETURN(const auto library, backend->library(request->options, request->option_count));
    QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_request(*request));
    QR_ASSIGN_OR_RETURN(const Unique<htp::Prepared> prepared, htp::Prepared::make(std::move(graph), options));
    QR_ASSIGN_OR_RETURN(const std::shared_ptr<htp::Engine> engine, backend->engine(library, *options.soc));
    htp::Writer(*engine, prepared->draft()).validate(prepared->refused());
    const Vector<htp::BlobNode> nodes = prepared->nodes();
    for (std::uint32_t i = 0; i < nodes.size(); ++i)
      plugin::tell_verdict(*verdicts, i, prepared->refused()[i], nodes[i].path, nodes[i].text);
    return {};
  });
}

qr_plugin_code compile_group(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                             const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(request->signal, backend->allocator.host());
    QR_RETURN_IF_ERROR(
        htp::refuse_idle_options(kOptions, request->options, request->option_count, QR_PLUGIN_OPTION_COMPILE));
    QR_ASSIGN_OR_RETURN(const htp::CompileOptions options,
                        htp::read_compile_options(request->options, request->option_count));
    if (!options.notice.empty()) plugin::log(backend->allocator.host(), QR_LOG_WARN, "options", options.notice);
    QR_ASSIGN_OR_RETURN(const auto library, backend->library(request->options, request->option_count));
    Vector<qir::Graph> graphs;
    for (std::uint64_t i = 0; i < request->graph_count; ++i) {
      QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_graph(*request->graphs[i]));
      graphs.push_back(std::move(graph));
    }
    const qr_progress_sink *const progress = request->progress;
    const auto step = [&](std::size_t done, std::size_t total, std::string_view what) -> Status {
      if (stop.stopped()) return stop.status("compile");
      if (progress) progress->report(progress->self, done, total, text(what));
      return {};
    };
    QR_ASSIGN_OR_RETURN(const htp::CompiledContext compiled, htp::compile(library, std::move(graphs), options, step));
    if (stop.stopped()) return stop.status("compile");
    const Vector<std::uint8_t> blob = htp::write_blob(compiled.blob);
    const String target = *options.soc->name ? String(options.soc->name) : format("soc%u", options.soc->number);
    const String key = format("v%u %s", options.soc->arch, library->build_id().c_str());
    qr_plugin_plan plan{};
    plan.struct_size = sizeof plan;
    plan.weights_bytes = compiled.binary.size();
    std::uint32_t number = 0;
    const bool has_binary = !compiled.binary.empty();
    if ((has_binary &&
         result->add_segment(result->self, compiled.binary.data(), compiled.binary.size(), 4096, &number) != QR_OK) ||
        result->blob(result->self, blob.data(), blob.size()) != QR_OK ||
        result->compatibility(result->self, text(target), text(key)) != QR_OK ||
        result->plan(result->self, &plan) != QR_OK)
      return Status::error(ErrorId::internal, "compile: the host did not take the result");
    return {};
  });
}

std::int32_t compiler_supports(qr_backend *, qr_plugin_string domain, qr_plugin_string name, std::uint32_t,
                               qr_plugin_string *out_types, qr_plugin_string *out_note) {
  const std::string_view space = view(domain);
  const qir::OpRow *const row = qir::find_op(space == "ai.onnx" ? std::string_view() : space, view(name));
  if (!row) return -1;
  const htp::OperatorRow *const found = htp::find_operator(row->op);
  if (!found) return 0;
  *out_types = text("f32 f16 u8 i8 u16 i16");
  *out_note = text(found->note);
  return 1;
}

constexpr qr_plugin_compiler_api kCompiler = {
    sizeof(qr_plugin_compiler_api), 0, compiler_check, compile_group, compiler_supports, compile_group};

// ---- context ------------------------------------------------------------------------------------

Result<htp::Blob> blob_of(const qr_blob &blob) {
  return htp::read_blob({static_cast<const std::uint8_t *>(blob.bytes.data), blob.bytes.size});
}

qr_plugin_code context_grade(qr_backend *backend, const qr_load_request *request, std::int32_t *out_grade,
                             const qr_error_sink *reason) {
  return guard(backend->allocator, nullptr, [&]() -> Status {
    const auto grade = [&](std::int32_t value, const String &why) {
      plugin::give_grade(value, why, out_grade, *reason);
    };
    auto library = backend->library(request->options, request->option_count);
    auto blob = blob_of(*request->blob);
    if (request->blob->version != htp::kBlobVersion) {
      grade(QR_PLUGIN_GRADE_RECOMPILE,
            format("blob: found version %u, expected %u", request->blob->version, htp::kBlobVersion));
    } else if (!blob.ok()) {
      grade(QR_PLUGIN_GRADE_RECOMPILE, String(blob.peek_status().message()));
    } else if (!library.ok()) {
      grade(QR_PLUGIN_GRADE_INCOMPATIBLE, String(library.peek_status().message()));
    } else {
      const htp::Soc *const soc = htp::find_soc(blob->soc);
      const qnn::Library &here = **library;
      if (!soc) grade(QR_PLUGIN_GRADE_INCOMPATIBLE, format("blob: made for SoC %u, which is not known", blob->soc));
      else if (blob->version.core.minor > here.version().core.minor)
        grade(QR_PLUGIN_GRADE_RECOMPILE,
              format("blob: made by %s (core %s), the library here is %s, which is older", blob->build_id.c_str(),
                     qnn::version_text(blob->version.core).c_str(), here.describe().c_str()));
      else if (blob->build_id != here.build_id())
        grade(QR_PLUGIN_GRADE_USABLE,
              format("blob: made by %s, the library here is %s", blob->build_id.c_str(), here.describe().c_str()));
      else grade(QR_PLUGIN_GRADE_OPTIMAL, {});
    }
    return {};
  });
}

qr_plugin_code context_load(qr_backend *backend, const qr_load_request *request, qr_context **out_context,
                            const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(request->signal, backend->allocator.host());
    if (stop.stopped()) return stop.status("load");
    const qr_blob &given = *request->blob;
    QR_RETURN_IF_ERROR(
        htp::refuse_idle_options(kOptions, request->options, request->option_count, QR_PLUGIN_OPTION_LOAD));
    QR_ASSIGN_OR_RETURN(htp::Blob blob, blob_of(given));
    if (given.segment_count != (blob.binary_bytes == 0 ? 0u : 1u))
      return Status::error(ErrorId::backend_bad_blob, format("htp blob: found %llu segments, expected the binary alone",
                                                             static_cast<unsigned long long>(given.segment_count)));
    const htp::Soc *const soc = htp::find_soc(blob.soc);
    if (!soc)
      return Status::error(ErrorId::backend_bad_blob, format("htp blob: found SoC %u, which is not known", blob.soc));
    QR_ASSIGN_OR_RETURN(const auto library, backend->library(request->options, request->option_count));
    QR_ASSIGN_OR_RETURN(std::shared_ptr<htp::Engine> engine, backend->engine(library, *soc));
    std::span<const std::uint8_t> binary;
    if (given.segment_count > 0)
      binary = {static_cast<const std::uint8_t *>(given.segments[0].data), given.segments[0].size};
    QR_ASSIGN_OR_RETURN(Unique<htp::LoadedContext> loaded,
                        htp::LoadedContext::load(std::move(engine), std::move(blob), binary));
    if (stop.stopped()) return stop.status("load");
    *out_context = new qr_context(backend, std::move(loaded));
    return {};
  });
}

const htp::BlobGraph &graph_of(const qr_context *context, std::uint64_t graph) {
  return context->loaded->blob().graphs[graph];
}

std::uint64_t context_input_count(qr_context *context, std::uint64_t graph) {
  return graph_of(context, graph).inputs.size();
}
std::uint64_t context_output_count(qr_context *context, std::uint64_t graph) {
  return graph_of(context, graph).outputs.size();
}
std::uint64_t context_graph_count(qr_context *context) { return context->loaded->blob().graphs.size(); }

qr_plugin_code context_tensor(qr_context *context, std::uint64_t graph, std::int32_t is_output, std::uint64_t index,
                              qr_plugin_tensor_info *out_info, const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    const auto &list = is_output ? graph_of(context, graph).outputs : graph_of(context, graph).inputs;
    QR_RETURN_IF_ERROR(plugin::check_index("tensor", index, list.size()));
    plugin::give_tensor(list[index].dtype, list[index].shape, list[index].name, out_info);
    return {};
  });
}

void context_destroy(qr_context *context) {
  if (context) plugin::destroy_in(context, context->backend);
}

qr_plugin_code context_nodes(qr_context *context, std::uint64_t graph, const qr_verdict_sink *verdicts,
                             const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    const Vector<htp::BlobNode> &nodes = graph_of(context, graph).nodes;
    for (std::uint32_t i = 0; i < nodes.size(); ++i)
      plugin::tell_verdict(*verdicts, i, {}, nodes[i].path, nodes[i].text);
    return {};
  });
}

constexpr qr_plugin_context_api kContext = {sizeof(qr_plugin_context_api),
                                            0,
                                            context_grade,
                                            nullptr,
                                            context_load,
                                            context_input_count,
                                            context_output_count,
                                            context_tensor,
                                            context_destroy,
                                            context_graph_count,
                                            context_nodes};

// ---- execution ----------------------------------------------------------------------------------

qr_plugin_code execution_create(qr_context *context, const qr_execution_request *request, qr_execution **out_execution,
                                const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    QR_RETURN_IF_ERROR(plugin::check_index("graph", request->graph, context->loaded->blob().graphs.size()));
    QR_RETURN_IF_ERROR(
        htp::refuse_idle_options(kOptions, request->options, request->option_count, QR_PLUGIN_OPTION_RUN));
    *out_execution = new qr_execution(context, request->graph);
    return {};
  });
}

qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors) {
  plugin::HostAllocator &allocator = execution->context->backend->allocator;
  return guard(allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(request->signal, allocator.host());
    if (stop.stopped()) return stop.status("run");
    QR_RETURN_IF_ERROR(execution->execution.run(*request));
    if (stop.stopped()) return stop.status("run");
    return {};
  });
}

void execution_destroy(qr_execution *execution) {
  if (execution) plugin::destroy_in(execution, execution->context->backend);
}

constexpr qr_plugin_execution_api kExecution = {
    sizeof(qr_plugin_execution_api), 0, execution_create, execution_run, nullptr, execution_destroy, nullptr, nullptr};

}  // namespace

extern "C" QR_QUERY_VISIBILITY qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                              const qr_error_sink *errors) {
  static constexpr qr_plugin kPlugin = {
      sizeof(qr_plugin),
      QR_PLUGIN_ABI_MINOR,
      QR_PLUGIN_MAGIC,
      "htp",
      QR_HTP_VERSION,
      "Qualcomm's Hexagon tensor processor, driven through QNN; on x86-64 Linux in an emulator",
      htp::kBlobVersion,
      QR_PLUGIN_ABI_MINOR_MIN,
      &kDevice,
      &kCompiler,
      &kContext,
      &kExecution,
      nullptr,
      &plugin::kOptionSlots<qr_backend, kOptions>,
      plugin::create_backend<qr_backend>,
      plugin::destroy_backend<qr_backend>,
      nullptr};
  return plugin::answer_query(host, kPlugin, out_plugin, errors);
}
