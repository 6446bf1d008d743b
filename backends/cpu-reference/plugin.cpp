// SPDX-License-Identifier: Apache-2.0
// The plugin's edge: backend.h on one side, Program and Execution on the other.
#include <algorithm>
#include <cstring>

#include "backends/common/plugin_support.h"
#include "backends/common/processor.h"
#include "backends/cpu-reference/blob.h"
#include "backends/cpu-reference/host_environment.h"
#include "backends/cpu-reference/interpreter.h"
#include "backends/cpu-reference/widen.h"

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

struct qr_backend {
  explicit qr_backend(const qr_host *host) noexcept : allocator(host) { plugin::processor_name(device_name, sizeof device_name); }
  plugin::HostAllocator allocator;
  char device_name[128] = {};
};

struct qr_context : HeapObject {
  qr_context(qr_backend *owner, qir::Graph &&read) : backend(owner), graph(std::move(read)) {}
  qr_backend *backend;
  qir::Graph graph;  // its constants lie in the blob's segments
  Unique<reference::Program> program;
};

struct qr_execution : HeapObject {
  explicit qr_execution(qr_context *owner)
      : context(owner), execution(*owner->program), inputs(owner->graph.inputs.size()), outputs(owner->graph.outputs.size()) {}
  qr_context *context;
  reference::Execution execution;
  Vector<reference::IoBuffer> inputs, outputs;
};

namespace {

using reference::IoBuffer;

// ---- device ------------------------------------------------------------------------------------------------------------

std::uint64_t device_count(qr_backend *) { return 1; }

qr_plugin_code device_info(qr_backend *backend, std::uint64_t index, qr_plugin_device_info *out_info, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    if (index != 0)
      return Status::error(ErrorId::index_out_of_range,
                           format("device: found index %llu, expected 0", static_cast<unsigned long long>(index)));
    out_info->usable = 1;
    out_info->name = text(backend->device_name);
    out_info->target = text(QR_PLUGIN_BUILD_ARCH);
    out_info->memory_bytes = plugin::memory_bytes();
    return {};
  });
}

constexpr qr_plugin_device_api kDevice = {sizeof(qr_plugin_device_api), 0, device_count, device_info};

// ---- compiler ----------------------------------------------------------------------------------------------------------

qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_request(*request));
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const Status refused = reference::check_node(graph, graph.nodes[i]);
      verdicts->verdict(verdicts->self, i, refused.ok() ? 1 : 0, text(refused.id()), text(refused.message()), text(refused.hint()));
    }
    return {};
  });
}

qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                                const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const plugin::Stop stop(request->signal, backend->allocator.host());
    if (stop.stopped()) return stop.status("compile");
    QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_request(*request));
    QR_RETURN_IF_ERROR(reference::widen_halves(graph));
    QR_ASSIGN_OR_RETURN(const Unique<reference::Program> program, reference::Program::build(graph));
    const Vector<std::uint8_t> blob = reference::write_blob(*program, {request->qir.data, request->qir.size});
    if (stop.stopped()) return stop.status("compile");
    // The QIR stays as it is, so the blob's segments are to have the numbers of the request's.
    for (std::uint64_t i = 0; i < request->segment_count; ++i) {
      std::uint32_t number = 0;
      if (result->keep_segment(result->self, i, &number) != QR_OK || number != i)
        return Status::error(ErrorId::internal,
                             format("compile: segment %llu was not kept under its number", static_cast<unsigned long long>(i)));
    }
    const reference::BlobFigures figures = reference::figures_of(*program);
    const qr_plugin_plan plan{sizeof(qr_plugin_plan), 0, figures.weights_bytes, figures.arena_bytes, figures.io_bytes, 0, 0};
    if (result->blob(result->self, blob.data(), blob.size()) != QR_OK ||
        result->compatibility(result->self, text(QR_PLUGIN_BUILD_ARCH), text("")) != QR_OK || result->plan(result->self, &plan) != QR_OK)
      return Status::error(ErrorId::internal, "compile: the host did not take the result");
    return {};
  });
}

std::int32_t compiler_supports(qr_backend *, std::uint32_t op, qr_plugin_string *out_types, qr_plugin_string *out_note) {
  const reference::KernelRow *row = op < qir::op_count() ? reference::find_kernel(static_cast<qir::Op>(op)) : nullptr;
  *out_types = text(row ? row->types : "");
  *out_note = text(row ? row->note : "");
  return row ? 1 : 0;
}

constexpr qr_plugin_compiler_api kCompiler = {sizeof(qr_plugin_compiler_api), 0, compiler_check, compiler_compile, compiler_supports};

// ---- context -----------------------------------------------------------------------------------------------------------

// Nothing in a blob depends on the machine, as far as all are little-endian.
qr_plugin_code context_grade(qr_backend *backend, std::uint32_t, const qr_blob *blob, std::int32_t *out_grade,
                             const qr_error_sink *reason) {
  return guard(backend->allocator, nullptr, [&]() -> Status {
    const auto grade = [&](std::int32_t value, const String &why) {
      *out_grade = value;
      if (!why.empty()) reason->set(reason->self, QR_OK, text(""), text(why), text(""));
    };
    const std::string_view target = view(blob->target);
    if (blob->version != reference::kBlobVersion) {
      grade(QR_PLUGIN_GRADE_RECOMPILE, format("blob: found version %u, expected %u", blob->version, reference::kBlobVersion));
    } else if (target != QR_PLUGIN_BUILD_ARCH) {
      grade(QR_PLUGIN_GRADE_USABLE,
            format("blob: found target %s, expected %s; cpu-reference runs either", printable(target).c_str(), QR_PLUGIN_BUILD_ARCH));
    } else {
      grade(QR_PLUGIN_GRADE_OPTIMAL, {});
    }
    return {};
  });
}

qr_plugin_code context_plan(qr_backend *backend, std::uint32_t, const qr_blob *blob, qr_plugin_plan *out_plan,
                            const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const reference::BlobView read, reference::read_blob({blob->bytes.data, blob->bytes.size}));
    out_plan->weights_bytes = read.figures.weights_bytes;
    out_plan->arena_bytes = read.figures.arena_bytes;
    out_plan->io_bytes = read.figures.io_bytes;
    out_plan->device_bytes = 0;
    out_plan->scratchpad_bytes = 0;
    return {};
  });
}

qr_plugin_code context_load(qr_backend *backend, const qr_load_request *request, qr_context **out_context, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const plugin::Stop stop(request->signal, backend->allocator.host());
    if (stop.stopped()) return stop.status("load");
    const qr_blob &blob = *request->blob;
    QR_ASSIGN_OR_RETURN(const reference::BlobView read, reference::read_blob({blob.bytes.data, blob.bytes.size}));
    Vector<qir::Bytes> segments(blob.segment_count);
    for (std::uint64_t i = 0; i < blob.segment_count; ++i) segments[i] = {blob.segments[i].data, blob.segments[i].size};
    QR_ASSIGN_OR_RETURN(qir::Graph graph, qir::read_graph(read.qir, segments.data(), segments.size()));
    QR_RETURN_IF_ERROR(reference::widen_halves(graph));
    std::unique_ptr<qr_context> context(new qr_context(backend, std::move(graph)));
    std::span<const std::uint64_t> offsets = read.offsets;
    QR_ASSIGN_OR_RETURN(context->program, reference::Program::build(context->graph, &offsets));
    if (!offsets.empty()) return Status::error(ErrorId::backend_bad_blob, "memory plan: found more offsets than the graph has tensors");
    if (stop.stopped()) return stop.status("load");
    *out_context = context.release();
    return {};
  });
}

std::uint64_t context_input_count(qr_context *context) { return context->graph.inputs.size(); }
std::uint64_t context_output_count(qr_context *context) { return context->graph.outputs.size(); }

qr_plugin_code context_tensor(qr_context *context, std::int32_t is_output, std::uint64_t index, qr_plugin_tensor_info *out_info,
                              const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    const auto &list = is_output ? context->graph.outputs : context->graph.inputs;
    if (index >= list.size())
      return Status::error(ErrorId::index_out_of_range,
                           format("tensor: found index %llu, expected one under %zu", static_cast<unsigned long long>(index), list.size()));
    const qir::Tensor &tensor = context->graph.tensors[static_cast<std::size_t>(list[index])];
    out_info->dtype = static_cast<std::int32_t>(tensor.dtype);
    out_info->rank = static_cast<std::uint32_t>(tensor.shape.size());
    std::fill_n(out_info->dims, QR_PLUGIN_MAX_RANK, 0);
    std::copy(tensor.shape.begin(), tensor.shape.end(), out_info->dims);
    out_info->name = text(tensor.name);
    return {};
  });
}

void context_destroy(qr_context *context) {
  if (!context) return;
  AllocatorScope scope(context->backend->allocator);
  delete context;
}

constexpr qr_plugin_context_api kContext = {sizeof(qr_plugin_context_api),
                                            0,
                                            context_grade,
                                            context_plan,
                                            context_load,
                                            context_input_count,
                                            context_output_count,
                                            context_tensor,
                                            context_destroy};

// ---- execution ---------------------------------------------------------------------------------------------------------

qr_plugin_code execution_create(qr_context *context, const qr_plugin_option *, std::uint64_t, qr_execution **out_execution,
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
    if (request->input_count != inputs.size() || request->output_count != outputs.size())
      return Status::error(
          ErrorId::run_input_count,
          format("run: found %llu inputs and %llu outputs, expected %zu and %zu", static_cast<unsigned long long>(request->input_count),
                 static_cast<unsigned long long>(request->output_count), inputs.size(), outputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const qr_io_buffer &io = request->inputs[i];
      inputs[i] = {io.data, io.size_bytes, 0, true, io.rank, {}};
      std::copy_n(io.dims, qir::kMaxRank, inputs[i].dims);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const qr_io_buffer &io = request->outputs[i];
      outputs[i] = {io.data, io.size_bytes, 0, io.wanted != 0, 0, {}};
    }
    reference::HostEnvironment environment(allocator.host(), *request);
    QR_RETURN_IF_ERROR(execution->execution.run(inputs.data(), inputs.size(), outputs.data(), outputs.size(), environment));
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

void execution_destroy(qr_execution *execution) {
  if (!execution) return;
  AllocatorScope scope(execution->context->backend->allocator);
  delete execution;
}

constexpr qr_plugin_execution_api kExecution = {
    sizeof(qr_plugin_execution_api), 0, execution_create, execution_run, nullptr, nullptr, execution_destroy};

}  // namespace

extern "C" QR_QUERY_VISIBILITY qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                              const qr_error_sink *errors) {
  static constexpr qr_plugin kPlugin = {sizeof(qr_plugin),
                                        QR_PLUGIN_ABI_MINOR,
                                        QR_PLUGIN_MAGIC,
                                        "cpu-reference",
                                        QR_REFERENCE_VERSION,
                                        "every operator in plain loops: what the others are tested against",
                                        reference::kBlobVersion,
                                        0,
                                        &kDevice,
                                        &kCompiler,
                                        &kContext,
                                        &kExecution,
                                        nullptr,  // memory: plain pointers
                                        nullptr,  // options: none of its own
                                        plugin::create_backend<qr_backend>,
                                        plugin::destroy_backend<qr_backend>,
                                        nullptr};
  return plugin::answer_query(host, kPlugin, out_plugin, errors);
}
