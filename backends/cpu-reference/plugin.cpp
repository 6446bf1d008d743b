// SPDX-License-Identifier: Apache-2.0
// The plugin's edge: backend.h on one side, Program and Execution on the other.
#include <algorithm>
#include <cstring>

#include "backends/common/processor_memory.h"
#include "backends/common/slots.h"
#include "backends/cpu-reference/blob.h"
#include "backends/cpu-reference/coverage.h"
#include "backends/cpu-reference/host_environment.h"
#include "backends/cpu-reference/interpreter.h"
#include "graph/dimensions.h"
#include "graph/edit/graph_edit.h"
#include "kernels/reference/widen.h"

using namespace quarry;
using plugin::guard;
using plugin::text;
using plugin::view;

#define QR_REFERENCE_VERSION "0.1.0"

#ifndef qr_plugin_query  // linked into the library: nobody looks for a note
QR_PLUGIN_NOTE("cpu-reference", QR_REFERENCE_VERSION, 1);
#define QR_QUERY_VISIBILITY QR_PLUGIN_EXPORT
#else
#define QR_QUERY_VISIBILITY
#endif
static_assert(reference::kBlobVersion == 1, "QR_PLUGIN_NOTE names it too");

struct qr_backend : plugin::ProcessorBackend {
  using ProcessorBackend::ProcessorBackend;
};

struct qr_context : HeapObject {
  qr_context(qr_backend *owner, qir::Graph &&read) : backend(owner), graph(std::move(read)) {}
  const Vector<std::int32_t> &io(std::uint64_t, bool is_output) const {
    return is_output ? graph.outputs : graph.inputs;
  }
  const qir::Tensor &tensor_of(std::int32_t id) const { return qir::at(graph, id); }
  void report_nodes(std::uint64_t, const qr_verdict_sink &verdicts) const {
    for (const qir::Node &node : graph.nodes)  // but for casts of ours
      if (node.source != qir::kNoSource)
        plugin::report_verdict(verdicts, static_cast<std::uint32_t>(node.source), {}, QR_PLUGIN_PATH_REFERENCE,
                               reference::path_of(node.op));
  }
  qr_backend *backend;
  qir::Graph graph;  // its constants lie in the blob's segments
  Unique<reference::Program> program;
};

struct qr_execution : HeapObject {
  explicit qr_execution(qr_context *owner)
      : context(owner),
        execution(*owner->program),
        inputs(owner->graph.inputs.size()),
        outputs(owner->graph.outputs.size()),
        shapes(owner->graph.dimensions.empty() ? 0 : inputs.size()) {}
  qr_context *context;
  reference::Execution execution;
  Vector<reference::IoBuffer> inputs, outputs;
  Vector<qir::Shape> shapes;  // of the inputs of a run, where it may choose
};

namespace {

using reference::IoBuffer;

// ---- compiler -----------------------------------------------------------------------------------

qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&] {
    const plugin::StopToken stop(request->signal, backend->allocator.host());
    const StopScope scope(stop);
    const PoolScope blocks;
    return reference::give_verdicts(*request, *verdicts);
  });
}

qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                                const qr_error_sink *errors) {
  return plugin::guard_stoppable(
      backend->allocator, request->signal, "compile", errors, [&](const auto &stop) -> Status {
        const PoolScope blocks;
        QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_request(*request));
        QR_RETURN_IF_ERROR(reference::widen_float16(graph));
        QR_ASSIGN_OR_RETURN(const Unique<reference::Program> program, reference::Program::build(graph));
        const Vector<std::uint8_t> blob =
            reference::write_blob(*program, {request->graphs[0]->qir.data, request->graphs[0]->qir.size});
        if (stop.stopped()) return stop.status("compile");
        // The QIR stays as it is, so the blob's segments are to have the numbers of the request's.
        QR_RETURN_IF_ERROR(plugin::keep_segments(*request, *result));
        const reference::BlobFigures figures = reference::figures_of(*program);
        const qr_plugin_plan plan{
            sizeof(qr_plugin_plan), 0, figures.weights_bytes, figures.arena_bytes, figures.io_bytes, 0, 0, 0};
        return plugin::give_result(*result, blob, QR_PLUGIN_BUILD_ARCH, "", plan);
      });
}

std::int32_t compiler_supports(qr_backend *, qr_plugin_string domain, qr_plugin_string name, std::uint32_t,
                               qr_plugin_string *out_types, qr_plugin_string *out_note) {
  return reference::supports(domain, name, out_types, out_note);
}

constexpr qr_plugin_compiler_api kCompiler = {
    sizeof(qr_plugin_compiler_api), 0, compiler_check, compiler_compile, compiler_supports, nullptr};

// ---- context ------------------------------------------------------------------------------------

// Nothing in a blob depends on the machine, as far as all are little-endian.
qr_plugin_code context_grade(qr_backend *backend, const qr_load_request *request, std::int32_t *out_grade,
                             const qr_error_sink *reason) {
  return guard(backend->allocator, nullptr, [&]() -> Status {
    const qr_blob *const blob = request->blob;
    const auto grade = [&](std::int32_t value, const String &why) {
      plugin::give_grade(value, why, out_grade, *reason);
    };
    const std::string_view target = view(blob->target);
    if (blob->version != reference::kBlobVersion) {
      grade(QR_PLUGIN_GRADE_RECOMPILE,
            format("blob: found version %u, expected %u", blob->version, reference::kBlobVersion));
    } else if (target != QR_PLUGIN_BUILD_ARCH) {
      grade(QR_PLUGIN_GRADE_USABLE, format("blob: found target %s, expected %s; cpu-reference runs either",
                                           printable(target), QR_PLUGIN_BUILD_ARCH));
    } else {
      grade(QR_PLUGIN_GRADE_OPTIMAL, {});
    }
    return {};
  });
}

qr_plugin_code context_plan(qr_backend *backend, const qr_load_request *request, qr_plugin_plan *out_plan,
                            const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const reference::BlobView read,
                        reference::read_blob({request->blob->bytes.data, request->blob->bytes.size}));
    plugin::give(qr_plugin_plan{sizeof(qr_plugin_plan), 0, read.figures.weights_bytes, read.figures.arena_bytes,
                                read.figures.io_bytes, 0, 0, 0},
                 out_plan);
    return {};
  });
}

qr_plugin_code context_load(qr_backend *backend, const qr_load_request *request, qr_context **out_context,
                            const qr_error_sink *errors) {
  return plugin::guard_stoppable(backend->allocator, request->signal, "load", errors, [&](const auto &stop) -> Status {
    const PoolScope blocks;  // most of what is made here stays, as long as the context
    const qr_blob &blob = *request->blob;
    QR_ASSIGN_OR_RETURN(const reference::BlobView read, reference::read_blob({blob.bytes.data, blob.bytes.size}));
    const Vector<qir::Bytes> segments = plugin::segments_of(blob);
    QR_ASSIGN_OR_RETURN(qir::Graph graph, qir::read_graph(read.qir, segments.data(), segments.size()));
    qir::number_sources(graph);
    QR_RETURN_IF_ERROR(reference::widen_float16(graph));
    std::unique_ptr<qr_context> context(new qr_context(backend, std::move(graph)));
    std::span<const std::uint64_t> offsets = read.offsets;
    QR_ASSIGN_OR_RETURN(context->program, reference::Program::build(context->graph, &offsets));
    if (!offsets.empty())
      return Status::error(ErrorId::backend_bad_blob, "memory plan: found more offsets than the graph has tensors");
    if (stop.stopped()) return stop.status("load");
    *out_context = context.release();
    return {};
  });
}

constexpr qr_plugin_context_api kContext = plugin::context_slots<qr_context>(context_grade, context_plan, context_load);

// ---- execution ----------------------------------------------------------------------------------

qr_plugin_code execution_create(qr_context *context, const qr_execution_request *, qr_execution **out_execution,
                                const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    *out_execution = new qr_execution(context);
    return {};
  });
}

qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors) {
  const plugin::HostAllocator &allocator = execution->context->backend->allocator;
  return guard(execution->context->backend->allocator, errors, [&]() -> Status {
    auto &inputs = execution->inputs, &outputs = execution->outputs;
    const plugin::DmaAccess access(*request);
    QR_RETURN_IF_ERROR(plugin::check_counts(*request, inputs.size(), outputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const qr_io_buffer &io = request->inputs[i];
      inputs[i] = {io.data, io.size_bytes, 0, true, io.rank, {}};
      std::copy_n(io.dims, qir::kMaxRank, inputs[i].dims);
      if (!execution->shapes.empty()) execution->shapes[i].assign(io.dims, io.dims + io.rank);
    }
    if (!execution->shapes.empty())
      QR_RETURN_IF_ERROR(qir::check_dimensions(execution->context->graph, execution->shapes));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const qr_io_buffer &io = request->outputs[i];
      outputs[i] = {io.data, io.size_bytes, 0, io.wanted != 0, 0, {}};
    }
    reference::HostEnvironment environment(allocator.host(), *request);
    QR_RETURN_IF_ERROR(
        execution->execution.run(inputs.data(), inputs.size(), outputs.data(), outputs.size(), environment));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      qr_io_buffer &io = request->outputs[i];
      io.data = outputs[i].data;
      io.used_bytes = outputs[i].used_bytes;
      io.rank = outputs[i].rank;
      std::copy_n(outputs[i].dims, qir::kMaxRank, io.dims);
    }
    return {};
  });
}

constexpr qr_plugin_execution_api kExecution = plugin::execution_slots<qr_execution>(execution_create, execution_run);

}  // namespace

extern "C" QR_QUERY_VISIBILITY qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                              const qr_error_sink *errors) {
  static constexpr qr_plugin kPlugin = plugin::plugin_table<qr_backend>(
      "cpu-reference", QR_REFERENCE_VERSION, "every operator in plain loops: what the others are tested against",
      reference::kBlobVersion, plugin::kProcessorDevice<qr_backend>, kCompiler, kContext, kExecution,
      &plugin::kProcessorMemory<qr_backend>, nullptr);
  return plugin::answer_query(host, kPlugin, out_plugin, errors);
}
