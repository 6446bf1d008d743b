// SPDX-License-Identifier: Apache-2.0
// The plugin's edge: backend.h on one side, plans on the other.
#include <algorithm>
#include <charconv>
#include <mutex>

#include "backends/common/option_slots.h"
#include "backends/common/processor_memory.h"
#include "backends/common/slots.h"
#include "backends/cpu-reference/coverage.h"
#include "backends/cpu/compile/compile.h"
#include "backends/cpu/lower/coverage.h"
#include "backends/cpu/program/blob.h"
#include "backends/cpu/run/dynamic_region.h"
#include "backends/cpu/run/executor.h"

using namespace quarry;
using plugin::guard;
using plugin::text;
using plugin::view;

#define QR_CPU_VERSION "0.1.0"

#ifndef qr_plugin_query  // linked into the library: nobody looks for a note
QR_PLUGIN_NOTE("cpu", QR_CPU_VERSION, 14);
#define QR_QUERY_VISIBILITY QR_PLUGIN_EXPORT
#else
#define QR_QUERY_VISIBILITY
#endif
static_assert(cpu::kBlobVersion == 14, "QR_PLUGIN_NOTE names it too");

struct qr_backend : plugin::ProcessorBackend {
  using ProcessorBackend::ProcessorBackend;
  static constexpr std::uint64_t kFeatures = QR_DEVICE_APPENDS;

  // What `quarry ops` says of an operator, as a text that lives as long as the backend.
  const String &note_of(qir::Op op) {
    const std::lock_guard lock(mutex_);
    if (notes_.empty()) notes_.resize(qir::op_count());
    String &note = notes_[index_of(op)];
    if (note.empty()) note = cpu::note_of(op);
    return note;
  }

 private:
  std::mutex mutex_;
  Vector<String> notes_;
};

struct qr_context : HeapObject {
  qr_context(qr_backend *owner, Unique<cpu::LoadedPlan> &&loaded) : backend(owner), plan(std::move(loaded)) {}
  const Vector<cpu::Io> &io(std::uint64_t, bool is_output) const { return is_output ? plan->outputs : plan->inputs; }
  void report_nodes(std::uint64_t, const qr_verdict_sink &verdicts) const {
    for (std::uint32_t i = 0; i < plan->paths.size(); ++i)
      plugin::report_verdict(verdicts, i, {}, static_cast<std::uint32_t>(plan->paths[i].path),
                             plan->name(plan->paths[i].text));
  }
  qr_backend *backend;
  Unique<cpu::LoadedPlan> plan;
};

struct qr_execution : HeapObject {
  qr_execution(qr_context *owner, std::size_t plans, std::span<const cpu::Appended> appended)
      : context(owner), execution(*owner->plan, plans, appended) {}
  void report_plans(qr_plugin_plans *out) const noexcept { execution.report_plans(out); }
  qr_context *context;
  cpu::Execution execution;
};

namespace {

// Less than the processor has is taken: nullptr, or why.
#if defined(__x86_64__)
const char *isa_note() { return kernels::find_isa("amx") ? kernels::amx_note() : nullptr; }
#else
const char *isa_note() { return nullptr; }
#endif

// ---- options ------------------------------------------------------------------------------------

constexpr OptionRow kOptions[] = {
#define QR_OPTION QR_OPTION_ROW
#include "backends/cpu/settings/options.inc"
#undef QR_OPTION
};

// ---- compiler -----------------------------------------------------------------------------------

Result<const kernels::Isa *> wanted_isa(const qr_plugin_option *options, std::uint64_t count) {
  const std::string_view name = plugin::option(options, count, "cpu.isa", "auto");
  if (name == "auto") return &kernels::best_isa();
  const kernels::Isa *isa = kernels::find_isa(name);
  if (!isa)
    return Status::error(ErrorId::bad_option_value,
                         format("option cpu.isa: found '%s', which this build has no kernels for", printable(name)),
                         "choose auto, or build Quarry for the processor that has it");
  return isa;
}

Result<cpu::CompileOptions> options_of(const qr_compile_request &request) {
  cpu::CompileOptions options;
  QR_ASSIGN_OR_RETURN(options.isa, wanted_isa(request.options, request.option_count));
  options.winograd = plugin::option(request.options, request.option_count, "cpu.winograd", "auto") != "off";
  options.prepare = plugin::option(request.options, request.option_count, "shape.prepare", "");
  const std::string_view weights = plugin::option(request.options, request.option_count, "cpu.weights", "exact");
  options.weights = weights == "f16"    ? cpu::WeightStorage::F16
                    : weights == "bf16" ? cpu::WeightStorage::BF16
                                        : cpu::WeightStorage::Exact;
  const std::string_view products = plugin::option(request.options, request.option_count, "cpu.f32_products", "auto");
  options.f32_gemm = products == "fma"     ? cpu::F32Gemm::Fma
                     : products == "split" ? cpu::F32Gemm::Split
                                           : cpu::F32Gemm::Auto;
  if (options.f32_gemm == cpu::F32Gemm::Split && !options.isa->splits_f32)
    return Status::error(
        ErrorId::bad_option_value,
        format("option cpu.f32_products: found split with the instruction set %s, expected amx", options.isa->name),
        "choose auto or fma; elsewhere the six products of bf16 take longer than FMA");
  return options;
}

static_assert(static_cast<std::uint32_t>(cpu::NodePath::Native) == QR_PLUGIN_PATH_NATIVE &&
              static_cast<std::uint32_t>(cpu::NodePath::Reference) == QR_PLUGIN_PATH_REFERENCE &&
              static_cast<std::uint32_t>(cpu::NodePath::None) == QR_PLUGIN_PATH_NONE);

// What cpu-reference takes is taken; the steps that a plan would have say by what each node runs.
qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(cpu::CompileOptions options, options_of(*request));
    options.dry_run = true;
    const PoolScope blocks;
    const plugin::StopToken stop(request->signal, backend->allocator.host());
    const StopScope scope(stop);
    QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_request(*request));
    Vector<Status> refused;
    for (const qir::Node &node : graph.nodes) {
      QR_RETURN_IF_ERROR(stop_status("check"));
      refused.push_back(reference::check_node(graph, node));
    }
    if (plugin::incoming(*request).flags & QR_PLUGIN_COMPILE_VERDICTS_ALONE) {
      for (std::uint32_t i = 0; i < refused.size() && !stop_asked(); ++i)
        plugin::report_verdict(*verdicts, i, refused[i]);
      return stop_status("check");
    }
    const qr_plugin_graph &given = *request->graphs[0];
    auto looked = cpu::compile(std::move(graph), plugin::segments_of(given), options);
    QR_RETURN_IF_ERROR(stop_status("check"));
    for (std::uint32_t i = 0; i < refused.size(); ++i) {
      QR_RETURN_IF_ERROR(stop_status("check"));
      if (!looked.ok()) {
        plugin::report_verdict(*verdicts, i, refused[i]);  // compiling says why
        continue;
      }
      const cpu::NodePathRow &row = looked->plan.paths[i];
      plugin::report_verdict(*verdicts, i, refused[i], static_cast<std::uint32_t>(row.path),
                             looked->plan.names.data() + row.text);
    }
    return {};
  });
}

qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                                const qr_error_sink *errors) {
  return plugin::guard_stoppable(
      backend->allocator, request->signal, "compile", errors, [&](const auto &stop) -> Status {
        const PoolScope blocks;
        QR_ASSIGN_OR_RETURN(const cpu::CompileOptions options, options_of(*request));
        if (const char *note = isa_note(); note && options.isa == &kernels::best_isa())
          plugin::log(backend->allocator.host(), QR_LOG_WARN, "cpu", note);
        QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_request(*request));
        const qr_plugin_graph &given = *request->graphs[0];
        QR_ASSIGN_OR_RETURN(const cpu::CompiledPlan compiled,
                            cpu::compile(std::move(graph), plugin::segments_of(given), options));
        if (stop.stopped()) return stop.status("compile");
        // Constants that are used as they are stay in the segments of the request, under their numbers.
        if (compiled.kept_segments != 0) QR_RETURN_IF_ERROR(plugin::keep_segments(*request, *result));
        for (const auto *added : {&compiled.packed, &compiled.subgraph_constants})
          QR_RETURN_IF_ERROR(plugin::give_segment(*result, *added));
        const Vector<std::uint8_t> blob = cpu::write_blob(compiled);
        QR_RETURN_IF_ERROR(stop_status("compile"));
        const qr_plugin_plan plan{
            sizeof(qr_plugin_plan),
            0,
            compiled.weights_bytes,
            compiled.plan.arena_bytes + compiled.range_arena_bytes,
            compiled.io_bytes,
            0,
            compiled.plan.scratch_bytes + compiled.plan.shared_bytes + compiled.range_scratch_bytes,
            0};
        return plugin::give_result(*result, blob, QR_PLUGIN_BUILD_ARCH, compiled.plan.isa->name, plan);
      });
}

std::int32_t compiler_supports(qr_backend *backend, qr_plugin_string domain, qr_plugin_string name, std::uint32_t,
                               qr_plugin_string *out_types, qr_plugin_string *out_note) {
  const std::int32_t answer = reference::supports(domain, name, out_types, out_note);
  if (answer != 1) return answer;
  const qr_plugin_code code = guard(backend->allocator, nullptr, [&]() -> Status {
    *out_note = text(backend->note_of(plugin::find_row(domain, name)->op));
    return {};
  });
  if (code != 0) *out_note = text("");  // no memory for it
  return 1;
}

constexpr qr_plugin_compiler_api kCompiler = {
    sizeof(qr_plugin_compiler_api), 0, compiler_check, compiler_compile, compiler_supports, nullptr};

// ---- context ------------------------------------------------------------------------------------

qr_plugin_code context_grade(qr_backend *backend, const qr_load_request *request, std::int32_t *out_grade,
                             const qr_error_sink *reason) {
  return guard(backend->allocator, nullptr, [&]() -> Status {
    const qr_blob *const blob = request->blob;
    const auto grade = [&](std::int32_t value, const String &why) {
      plugin::give_grade(value, why, out_grade, *reason);
    };
    const std::string_view packed_for = view(blob->key);
    const kernels::Isa &best = kernels::best_isa(), *isa = kernels::find_isa(packed_for);
    if (blob->version != cpu::kBlobVersion) {
      grade(QR_PLUGIN_GRADE_RECOMPILE, format("blob: found version %u, expected %u", blob->version, cpu::kBlobVersion));
    } else if (!isa || !isa->usable()) {
      const char *note = isa_note();
      grade(QR_PLUGIN_GRADE_RECOMPILE,
            format("blob: found weights packed for %s, expected an instruction set of this processor (best: %s)%s%s",
                   printable(packed_for), best.name, note ? "; " : "", note ? note : ""));
    } else if (isa != &best) {
      grade(QR_PLUGIN_GRADE_USABLE,
            format("blob: found weights packed for %s, expected %s; it runs, but slower", isa->name, best.name));
    } else {
      grade(QR_PLUGIN_GRADE_OPTIMAL, {});
    }
    return {};
  });
}

qr_plugin_code context_plan(qr_backend *backend, const qr_load_request *request, qr_plugin_plan *out_plan,
                            const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const cpu::BlobFigures figures,
                        cpu::read_figures({request->blob->bytes.data, request->blob->bytes.size}));
    plugin::give(qr_plugin_plan{sizeof(qr_plugin_plan), 0, figures.weights_bytes, figures.arena_bytes, figures.io_bytes,
                                0, figures.scratch_bytes, 0},
                 out_plan);
    return {};
  });
}

qr_plugin_code context_load(qr_backend *backend, const qr_load_request *request, qr_context **out_context,
                            const qr_error_sink *errors) {
  return plugin::guard_stoppable(backend->allocator, request->signal, "load", errors, [&](const auto &stop) -> Status {
    const PoolScope blocks;  // most of what is made here stays, as long as the context
    const qr_blob &blob = *request->blob;
    const Vector<qir::Bytes> segments = plugin::segments_of(blob);
    QR_ASSIGN_OR_RETURN(Unique<cpu::LoadedPlan> plan, cpu::read_blob({blob.bytes.data, blob.bytes.size}, segments));
    if (stop.stopped()) return stop.status("load");
    *out_context = new qr_context(backend, std::move(plan));
    return {};
  });
}

constexpr qr_plugin_context_api kContext = plugin::context_slots<qr_context>(context_grade, context_plan, context_load);

// ---- execution ----------------------------------------------------------------------------------

// Pairs of a range that its plans append to; the host learns which.
Vector<cpu::Appended> take_appended(const cpu::LoadedPlan &plan, const qr_execution_request *request) {
  Vector<cpu::Appended> out;
  const qr_execution_request given = request ? plugin::incoming(*request) : qr_execution_request{};
  for (std::uint64_t i = 0; i < given.appended_count; ++i) {
    qr_plugin_appended &one = given.appended[i];
    if (!plan.region || !plan.region->shared) continue;
    const auto found =
        cpu::appended_in(plan, {one.input, one.output, one.axis, static_cast<std::int64_t>(one.capacity)});
    if (found) out.push_back(*found);
    one.taken = found.has_value();
  }
  return out;
}

qr_plugin_code execution_create(qr_context *context, const qr_execution_request *request, qr_execution **out_execution,
                                const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    const auto option = [&](std::string_view key) {
      return request ? plugin::option(request->options, request->option_count, key, "") : std::string_view();
    };
    std::size_t plans = cpu::Execution::kPlansOfRange;
    const std::string_view wanted = option("shape.plans");  // checked by the host
    std::from_chars(wanted.data(), wanted.data() + wanted.size(), plans);
    Unique<qr_execution> execution(new qr_execution(context, plans, take_appended(*context->plan, request)));
    QR_RETURN_IF_ERROR(execution->execution.prepare(option("shape.prepare")));
    *out_execution = execution.release();
    return {};
  });
}

qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors) {
  plugin::HostAllocator &allocator = execution->context->backend->allocator;
  return guard(allocator, errors, [&]() -> Status {
    const cpu::LoadedPlan &plan = *execution->context->plan;
    const plugin::DmaAccess access(*request);
    QR_RETURN_IF_ERROR(plugin::check_counts(*request, plan.inputs.size(), plan.outputs.size()));
    return execution->execution.run(*request, allocator.host());
  });
}

constexpr qr_plugin_execution_api kExecution = plugin::execution_slots<qr_execution>(execution_create, execution_run);

}  // namespace

extern "C" QR_QUERY_VISIBILITY qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                              const qr_error_sink *errors) {
  static constexpr qr_plugin kPlugin = plugin::plugin_table<qr_backend>(
      "cpu", QR_CPU_VERSION, "the fast one: plans compiled ahead of time, own kernels for x86-64 and aarch64",
      cpu::kBlobVersion, plugin::kProcessorDevice<qr_backend>, kCompiler, kContext, kExecution,
      &plugin::kProcessorMemory<qr_backend>, &plugin::kOptionSlots<qr_backend, kOptions>);
  return plugin::answer_query(host, kPlugin, out_plugin, errors);
}
