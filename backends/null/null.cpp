// SPDX-License-Identifier: Apache-2.0
// The null backend: a whole plugin that loads, reports a device, refuses every node with a reason and runs nothing. It
// has every slot that a backend must have. Clone it: docs/plugin-author-guide.md, README.md.
#include <array>

#include "backends/common/option_slots.h"
#include "backends/common/processor_memory.h"
#include "backends/common/slots.h"

using namespace quarry;
using plugin::guard;
using plugin::text;

// Read by the loader before any code of the plugin runs. The id stands in the file's name too: quarry-backend-null.so.
QR_PLUGIN_NOTE("null", "0.1.0", 1);

// The one state of the plugin: made per runtime. There are no globals.
struct qr_backend {
  explicit qr_backend(const qr_host *host) noexcept : allocator(host) {}
  plugin::HostAllocator allocator;
};

// A loaded model: its inputs and outputs, and by what each node runs (backends/common/slots.h asks for them).
struct qr_context : HeapObject {
  const Vector<qir::Tensor> &io(std::uint64_t, bool is_output) const { return is_output ? outputs : inputs; }
  void report_nodes(std::uint64_t, const qr_verdict_sink &) const {}
  qr_backend *backend = nullptr;
  Vector<qir::Tensor> inputs, outputs;
};

// What one caller's runs need: everything is allocated here, so that a run allocates nothing.
struct qr_execution : HeapObject {
  qr_context *context = nullptr;
};

namespace {

// ---- options ------------------------------------------------------------------------------------

// A backend has a file options.inc: QR_OPTION rows (base/options.inc says the columns). This one has no option.
constexpr std::array<OptionRow, 0> kOptions = {};

// ---- device -------------------------------------------------------------------------------------

std::uint64_t device_count(qr_backend *) { return 1; }

qr_plugin_code device_info(qr_backend *backend, std::uint64_t index, qr_plugin_device_info *out_info,
                           const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_RETURN_IF_ERROR(plugin::check_index("device", index, 1));
    qr_plugin_device_info info{};
    info.usable = 1;  // else `why_not` says what is missing
    info.name = text("null device");
    info.target = text("none");    // what blobs are made for; compared when a container is loaded
    plugin::give(info, out_info);  // the host's struct may be of an older or newer minor
    return {};
  });
}

constexpr qr_plugin_device_api kDevice = {sizeof(qr_plugin_device_api), 0, device_count, device_info, nullptr};

// ---- compiler -----------------------------------------------------------------------------------

// A verdict for each node. Accept those that the backend runs; refuse the others with what was found and expected.
qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return plugin::guard_stoppable(backend->allocator, request->signal, "check", errors, [&](const auto &) -> Status {
    QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_request(*request));
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const String reason =
          format("found %s, expected nothing: the null backend has no operators", qir::op_text(graph.nodes[i]));
      plugin::report_verdict(*verdicts, i, Status::error(ErrorId::backend_op, reason, "choose another backend"));
    }
    return {};
  });
}

// Ends with plugin::give_result where a graph is compiled.
qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *,
                                const qr_error_sink *errors) {
  return plugin::guard_stoppable(backend->allocator, request->signal, "compile", errors, [](const auto &) -> Status {
    return Status::error(ErrorId::backend_cannot_compile,
                         "graph: found a request to compile, expected none: the null backend has no operators",
                         "choose another backend");
  });
}

std::int32_t compiler_supports(qr_backend *, qr_plugin_string domain, qr_plugin_string name, std::uint32_t,
                               qr_plugin_string *, qr_plugin_string *) {
  return plugin::find_row(domain, name) ? 0 : -1;  // known, but not taken; never heard of
}

constexpr qr_plugin_compiler_api kCompiler = {sizeof(qr_plugin_compiler_api),
                                              0,
                                              compiler_check,
                                              compiler_compile,
                                              compiler_supports,
                                              nullptr};  // compile_group: each graph becomes a blob of its own

// ---- context ------------------------------------------------------------------------------------

// A refusal in a grade is a result, not an error: code 0, with the reason in the sink.
qr_plugin_code context_grade(qr_backend *backend, const qr_load_request *, std::int32_t *out_grade,
                             const qr_error_sink *reason) {
  return guard(backend->allocator, nullptr, [&]() -> Status {
    plugin::give_grade(QR_PLUGIN_GRADE_INCOMPATIBLE, "blob: found one, expected none: the null backend writes none",
                       out_grade, *reason);
    return {};
  });
}

// Reads the blob and believes nothing of it.
qr_plugin_code context_load(qr_backend *backend, const qr_load_request *request, qr_context **,
                            const qr_error_sink *errors) {
  return plugin::guard_stoppable(backend->allocator, request->signal, "load", errors, [](const auto &) -> Status {
    return Status::error(ErrorId::backend_bad_blob, "blob: found one, expected none: the null backend writes none",
                         "choose another backend");
  });
}

constexpr qr_plugin_context_api kContext = plugin::context_slots<qr_context>(context_grade, nullptr, context_load);

// ---- execution ----------------------------------------------------------------------------------

qr_plugin_code execution_create(qr_context *context, const qr_execution_request *, qr_execution **,
                                const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, []() -> Status {
    return Status::error(ErrorId::backend_no_device, "execution: the null backend runs nothing",
                         "choose another backend");
  });
}

// Writes each output's data, rank, dims and used_bytes; asks its token between nodes.
qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors) {
  return plugin::guard_stoppable(execution->context->backend->allocator, request->signal, "run", errors,
                                 [](const auto &) -> Status {
                                   return Status::error(ErrorId::backend_no_device,
                                                        "run: the null backend runs nothing", "choose another backend");
                                 });
}

constexpr qr_plugin_execution_api kExecution = plugin::execution_slots<qr_execution>(execution_create, execution_run);

}  // namespace

extern "C" QR_PLUGIN_EXPORT qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                           const qr_error_sink *errors) {
  static constexpr qr_plugin kPlugin = plugin::plugin_table<qr_backend>(
      "null", "0.1.0", "refuses everything; the skeleton of a plugin", 1, kDevice, kCompiler, kContext, kExecution,
      &plugin::kProcessorMemory<qr_backend>, &plugin::kOptionSlots<qr_backend, kOptions>);
  return plugin::answer_query(host, kPlugin, out_plugin, errors);
}
