// SPDX-License-Identifier: Apache-2.0
// The slots that are alike in every plugin, so that a backend's plugin.cpp has what differs. A plugin's own types say
// the rest:
//
//   qr_context    backend; io(graph, is_output): a list of what has dtype, shape and name, or of what tensor_of(item)
//                 makes of it; report_nodes(graph, verdicts); leave(), where it has one, before it is deleted
//   qr_execution  context; leave() likewise
#pragma once

#include <span>

#include "backends/common/processor_backend.h"

namespace quarry::plugin {

// ---- compiler -----------------------------------------------------------------------------------

// The row of an operator that the slot `supports` is asked for; null: there is none of that name.
inline const qir::OpRow *find_row(qr_plugin_string domain, qr_plugin_string name) noexcept {
  return qir::find_op(view(domain) == "ai.onnx" ? std::string_view() : view(domain), view(name));
}

// The slot `supports` of a backend with a table of operators. find(op): its row, which has a `note`, or nullptr;
// backend.types_of(row): what it takes, a text that the backend keeps and may have to make first.
template <class Backend, class Find>
std::int32_t table_supports(Backend &backend, qr_plugin_string domain, qr_plugin_string name, Find find,
                            qr_plugin_string *out_types, qr_plugin_string *out_note) noexcept {
  const qir::OpRow *const row = find_row(domain, name);
  if (!row) return -1;
  const auto *const found = find(row->op);
  if (!found) return 0;
  *out_note = text(found->note);
  static_assert(std::is_reference_v<decltype(backend.types_of(*found))>, "a text that is not kept is gone");
  const qr_plugin_code code = guard(backend.allocator, nullptr, [&]() -> Status {
    *out_types = text(backend.types_of(*found));
    return {};
  });
  if (code != 0) *out_types = text("");  // no memory for it
  return 1;
}

inline Vector<qir::Bytes> segments_of(const qr_plugin_graph &graph) {
  Vector<qir::Bytes> segments(graph.segment_count);
  for (std::uint64_t i = 0; i < graph.segment_count; ++i)
    segments[i] = {graph.segments[i].data, graph.segments[i].size};
  return segments;
}

// A slot whose work the caller may stop: `body` gets the token; the passes and kernels below ask it through
// base/stop.h. `what`: the work, "compile".
template <class Body>
qr_plugin_code guard_stoppable(HostAllocator &allocator, const qr_plugin_signal *signal, std::string_view what,
                               const qr_error_sink *errors, Body &&body) noexcept {
  return guard(allocator, errors, [&]() -> Status {
    const StopToken stop(signal, allocator.host());
    if (stop.stopped()) return stop.status(what);
    const StopScope scope(stop);
    return body(stop);
  });
}

// A segment of the blob's own, of packed constants.
inline Status give_segment(const qr_blob_sink &result, std::span<const std::uint8_t> bytes) {
  std::uint32_t number = 0;
  if (result.add_segment(result.self, bytes.data(), bytes.size(), 4096, &number) == QR_OK) return {};
  return Status::error(ErrorId::internal, "compile: the host did not take the packed weights");
}

// What compiling ends with: the blob, for which target and key it is, and what it takes.
inline Status give_result(const qr_blob_sink &result, std::span<const std::uint8_t> blob, std::string_view target,
                          std::string_view key, const qr_plugin_plan &plan) {
  if (result.blob(result.self, blob.data(), blob.size()) == QR_OK &&
      result.compatibility(result.self, text(target), text(key)) == QR_OK && result.plan(result.self, &plan) == QR_OK)
    return {};
  return Status::error(ErrorId::internal, "compile: the host did not take the result");
}

// ---- context ------------------------------------------------------------------------------------

template <class Context, bool is_output>
std::uint64_t context_count(Context *context, std::uint64_t graph) {
  return context->io(graph, is_output).size();
}

template <class Context>
qr_plugin_code context_tensor(Context *context, std::uint64_t graph, std::int32_t is_output, std::uint64_t index,
                              qr_plugin_tensor_info *out_info, const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    const auto &list = context->io(graph, is_output != 0);
    QR_RETURN_IF_ERROR(check_index("tensor", index, list.size()));
    const auto &item = list[index_of(index)];
    if constexpr (requires { context->tensor_of(item); }) {
      const auto &tensor = context->tensor_of(item);
      give_tensor(tensor.dtype, tensor.shape, tensor.name, out_info);
    } else {
      give_tensor(item.dtype, item.shape, item.name, out_info);
    }
    return {};
  });
}

template <class Context>
void context_destroy(Context *context) {
  if (!context) return;
  if constexpr (requires { context->leave(); }) context->leave();
  destroy_in(context, context->backend);
}

template <class Context>
qr_plugin_code context_nodes(Context *context, std::uint64_t graph, const qr_verdict_sink *verdicts,
                             const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    context->report_nodes(graph, *verdicts);
    return {};
  });
}

// `plan`: null where what compiling said is all.
template <class Context>
constexpr qr_plugin_context_api context_slots(decltype(qr_plugin_context_api::grade) grade,
                                              decltype(qr_plugin_context_api::plan) plan,
                                              decltype(qr_plugin_context_api::load) load) {
  return {sizeof(qr_plugin_context_api),
          0,
          grade,
          plan,
          load,
          context_count<Context, false>,
          context_count<Context, true>,
          context_tensor<Context>,
          context_destroy<Context>,
          nullptr,  // graph_count: one
          context_nodes<Context>};
}

// ---- execution ----------------------------------------------------------------------------------

template <class Execution>
void execution_destroy(Execution *execution) {
  if (!execution) return;
  if constexpr (requires { execution->leave(); }) execution->leave();
  destroy_in(execution, execution->context->backend);
}

template <class Execution>
void execution_plans(Execution *execution, qr_plugin_plans *out_plans) {
  execution->report_plans(out_plans);
}

// `submit` and `wait`: null where a thread of the host's is to wait.
template <class Execution>
constexpr qr_plugin_execution_api execution_slots(decltype(qr_plugin_execution_api::create) create,
                                                  decltype(qr_plugin_execution_api::run) run,
                                                  decltype(qr_plugin_execution_api::submit) submit = nullptr,
                                                  decltype(qr_plugin_execution_api::wait) wait = nullptr) {
  decltype(qr_plugin_execution_api::plans) plans = nullptr;
  if constexpr (requires(Execution & execution) { execution.report_plans(nullptr); })
    plans = execution_plans<Execution>;
  return {sizeof(qr_plugin_execution_api), 0, create, run, nullptr, execution_destroy<Execution>, submit, wait, plans};
}

// ---- the table ----------------------------------------------------------------------------------

// What a plugin says of itself, with the slots of its parts; null: the backend has none. Backend's constructor makes it
// whole (create_backend).
template <class Backend>
constexpr qr_plugin plugin_table(const char *id, const char *version, const char *description,
                                 std::uint32_t blob_version, const qr_plugin_device_api &device,
                                 const qr_plugin_compiler_api &compiler, const qr_plugin_context_api &context,
                                 const qr_plugin_execution_api &execution, const qr_plugin_memory_api *memory,
                                 const qr_plugin_option_api *options) {
  return {sizeof(qr_plugin),
          QR_PLUGIN_ABI_MINOR,
          QR_PLUGIN_MAGIC,
          id,
          version,
          description,
          blob_version,
          QR_PLUGIN_ABI_MINOR_MIN,
          &device,
          &compiler,
          &context,
          &execution,
          memory,
          options,
          create_backend<Backend>,
          destroy_backend<Backend>,
          nullptr};
}

}  // namespace quarry::plugin
