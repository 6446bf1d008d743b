// SPDX-License-Identifier: Apache-2.0
// The null backend: a whole plugin that loads, reports a device, refuses every node with a reason and runs nothing.
// Clone it: README.md.
#include "backends/common/plugin_support.h"

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
struct qr_context {
  qr_backend *backend;
};
struct qr_execution {
  qr_context *context;
};

namespace {

// ---- device -------------------------------------------------------------------------------------

std::uint64_t device_count(qr_backend *) { return 1; }

qr_plugin_code device_info(qr_backend *, std::uint64_t, qr_plugin_device_info *out_info, const qr_error_sink *) {
  qr_plugin_device_info info{};
  info.usable = 1;
  info.name = text("null device");
  info.target = text("none");    // what blobs are made for; compared when a container is loaded
  plugin::give(info, out_info);  // the host's struct may be of an older or newer minor
  return QR_OK;
}

constexpr qr_plugin_device_api kDevice = {sizeof(qr_plugin_device_api), 0, device_count, device_info, nullptr};

// ---- compiler -----------------------------------------------------------------------------------

qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_request(*request));
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const String reason =
          format("found %s, expected nothing: the null backend has no operators", qir::op_text(graph.nodes[i]).c_str());
      plugin::report_verdict(*verdicts, i, Status::error(ErrorId::backend_op, reason, "choose another backend"));
    }
    return {};
  });
}

qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *, const qr_blob_sink *,
                                const qr_error_sink *errors) {
  return guard(backend->allocator, errors, []() -> Status {
    return Status::error(ErrorId::backend_cannot_compile,
                         "graph: found a request to compile, expected none: the null backend has no operators",
                         "choose another backend");
  });
}

std::int32_t compiler_supports(qr_backend *, qr_plugin_string, qr_plugin_string, std::uint32_t,
                               qr_plugin_string *out_types, qr_plugin_string *out_note) {
  *out_types = text("");
  *out_note = text("");
  return 0;
}

constexpr qr_plugin_compiler_api kCompiler = {sizeof(qr_plugin_compiler_api),
                                              0,
                                              compiler_check,
                                              compiler_compile,
                                              compiler_supports,
                                              nullptr};  // compile_group: each graph becomes a blob of its own

// ---- context ------------------------------------------------------------------------------------

// A refusal in a grade is a result, not an error: code 0, with the reason in the sink.
qr_plugin_code context_grade(qr_backend *, const qr_load_request *, std::int32_t *out_grade,
                             const qr_error_sink *reason) {
  *out_grade = QR_PLUGIN_GRADE_INCOMPATIBLE;
  reason->set(reason->self, QR_OK, text(""), text("blob: found one, expected none: the null backend writes none"),
              text(""));
  return QR_OK;
}

qr_plugin_code context_load(qr_backend *backend, const qr_load_request *, qr_context **, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, []() -> Status {
    return Status::error(ErrorId::backend_bad_blob, "blob: found one, expected none: the null backend writes none",
                         "choose another backend");
  });
}

std::uint64_t context_input_count(qr_context *, std::uint64_t) { return 0; }
std::uint64_t context_output_count(qr_context *, std::uint64_t) { return 0; }

qr_plugin_code context_tensor(qr_context *context, std::uint64_t, std::int32_t, std::uint64_t index,
                              qr_plugin_tensor_info *, const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    return Status::error(ErrorId::index_out_of_range,
                         format("tensor: found index %llu, expected none", static_cast<unsigned long long>(index)));
  });
}

void context_destroy(qr_context *) {}

constexpr qr_plugin_context_api kContext = {sizeof(qr_plugin_context_api),
                                            0,
                                            context_grade,
                                            nullptr,  // plan: what compile said
                                            context_load,
                                            context_input_count,
                                            context_output_count,
                                            context_tensor,
                                            context_destroy,
                                            nullptr,   // graph_count: one
                                            nullptr};  // nodes: nothing to tell

// ---- execution ----------------------------------------------------------------------------------

qr_plugin_code execution_create(qr_context *context, const qr_execution_request *, qr_execution **,
                                const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, []() -> Status {
    return Status::error(ErrorId::backend_no_device, "execution: the null backend runs nothing",
                         "choose another backend");
  });
}

qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *, const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, []() -> Status {
    return Status::error(ErrorId::backend_no_device, "run: the null backend runs nothing", "choose another backend");
  });
}

void execution_destroy(qr_execution *) {}

constexpr qr_plugin_execution_api kExecution = {sizeof(qr_plugin_execution_api),
                                                0,
                                                execution_create,
                                                execution_run,
                                                nullptr,  // set_option: none changes at run time
                                                execution_destroy,
                                                nullptr,  // submit, wait: the host has a thread for it
                                                nullptr};

}  // namespace

extern "C" QR_PLUGIN_EXPORT qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                           const qr_error_sink *errors) {
  static constexpr qr_plugin kPlugin = {sizeof(qr_plugin),
                                        QR_PLUGIN_ABI_MINOR,
                                        QR_PLUGIN_MAGIC,
                                        "null",
                                        "0.1.0",
                                        "refuses everything; the skeleton of a plugin",
                                        1,
                                        QR_PLUGIN_ABI_MINOR_MIN,
                                        &kDevice,
                                        &kCompiler,
                                        &kContext,
                                        &kExecution,
                                        nullptr,  // memory: plain pointers
                                        nullptr,  // options: none
                                        plugin::create_backend<qr_backend>,
                                        plugin::destroy_backend<qr_backend>,
                                        nullptr};
  return plugin::answer_query(host, kPlugin, out_plugin, errors);
}
