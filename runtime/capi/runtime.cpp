// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.h"
#include "graph/graph.h"
#include "runtime/capi/edge.h"
#include "runtime/core/allocator.h"

using namespace quarry;
using namespace quarry::capi;

namespace {

constexpr const char *kCreate = "qr_runtime_create";

// The caller's structs that qr_runtime_options points to.
Status read_hooks(const qr_runtime_options &options, qr_allocator &allocator, Runtime::Config &config) {
  if (options.allocator) {
    QR_RETURN_IF_ERROR(read_struct(kCreate, "qr_allocator", options.allocator, allocator, QR_ALLOCATOR_FIRST_SIZE));
    if (allocator.reserved) return unknown_field(kCreate, "qr_allocator", "reserved");
    if (!allocator.alloc) return null_argument(kCreate, "allocator->alloc");
    if (!allocator.free) return null_argument(kCreate, "allocator->free");
  }
  if (options.log) {
    qr_log_sink sink;
    QR_RETURN_IF_ERROR(read_struct(kCreate, "qr_log_sink", options.log, sink, QR_LOG_SINK_FIRST_SIZE));
    if (!sink.write) return null_argument(kCreate, "log->write");
    if (sink.level < 0 || sink.level > QR_LOG_TRACE)
      return Status::errorf(ErrorId::bad_argument, "%s: log->level is %d, expected a QR_LOG_* level", kCreate,
                            sink.level);
    config.log = Log(sink);
  }
  if (options.thread_pool) {
    QR_RETURN_IF_ERROR(
        read_struct(kCreate, "qr_thread_pool", options.thread_pool, config.thread_pool, QR_THREAD_POOL_FIRST_SIZE));
    if (!config.thread_pool.parallel_for) return null_argument(kCreate, "thread_pool->parallel_for");
    if (config.thread_pool.worker_count == 0)
      return Status::errorf(ErrorId::bad_argument, "%s: thread_pool->worker_count is 0, expected at least 1", kCreate);
  }
  QR_RETURN_IF_ERROR(
      read_text(kCreate, "options->backend_path", options.backend_path, Empty::Path, &config.backend_path));
  return read_text(kCreate, "options->prepare_path", options.prepare_path, Empty::Path, &config.prepare_path);
}

const loader::Candidate *candidate(const Runtime &runtime, uint64_t index) noexcept {
  return index < runtime.candidates().size() ? &runtime.candidates()[index] : nullptr;
}

void write_operator(JsonWriter &json, const qr_prepare_operator &row, loader::Plugin *plugin) {
  json.begin_object().field("name", row.name).field("domain", row.domain);
  if (!plugin) {
    json.field("types", row.types).field("attributes", row.attributes);
    json.field("min_inputs", row.min_inputs).field("max_inputs", row.max_inputs);
    json.field("min_outputs", row.min_outputs).field("max_outputs", row.max_outputs);
  } else {
    String types, note;
    const int32_t supported =
        plugin->supports(row.domain, row.name, static_cast<uint32_t>(qir::kNormalOpset), &types, &note);
    json.key("supported");
    if (supported < 0) json.null();
    else json.value(supported == 1);
    json.field("types", types).field("note", note);
  }
  json.end_object();
}

}  // namespace

extern "C" {

qr_status *qr_runtime_create(const qr_runtime_options *options, qr_runtime **out_runtime) {
  QR_RETURN_IF_NULL(out_runtime);
  qr_allocator functions = QR_ALLOCATOR_INIT;
  Runtime::Config config = {&malloc_allocator(), nullptr, Log(), QR_THREAD_POOL_INIT, {}, {}, false};
  if (options) {
    qr_status *refused = guard([&]() -> Status {
      qr_runtime_options copy;
      QR_RETURN_IF_ERROR(read_struct(kCreate, "qr_runtime_options", options, copy, QR_RUNTIME_OPTIONS_FIRST_SIZE));
      if (copy.reserved) return unknown_field(kCreate, "qr_runtime_options", "reserved");
      QR_RETURN_IF_ERROR(check_flags(kCreate, "qr_runtime_options", copy.flags, QR_RUNTIME_ONLY_GIVEN_PATHS));
      config.only_given_paths = (copy.flags & QR_RUNTIME_ONLY_GIVEN_PATHS) != 0;
      return read_hooks(copy, functions, config);
    });
    if (refused) return refused;
  }
  if (functions.alloc) {
    config.callers = CallerAllocator::make(functions);
    if (!config.callers) return give(Status::out_of_memory());
    config.allocator = config.callers;
  }
  bool made = false;  // then the runtime is the allocator's holder
  qr_status *status = guard(*config.allocator, [&]() -> Status {
    Ref<Runtime> runtime = Ref<Runtime>::make(config);
    made = true;
    *out_runtime = handle_of(runtime.give());
    return {};
  });
  if (!made && config.callers) config.callers->release();
  return status;
}

void qr_runtime_destroy(qr_runtime *runtime) {
  if (!runtime) return;
  AllocatorScope scope(object(runtime)->memory());
  object(runtime)->release();
}

qr_status *qr_runtime_scan(qr_runtime *runtime, uint64_t *out_count) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(out_count);
  QR_ENTER_OR_RETURN(scope, object(runtime), "runtime");
  return guard(object(runtime), [&]() -> Status {
    QR_RETURN_IF_ERROR(object(runtime)->scan());
    *out_count = object(runtime)->candidates().size();
    return {};
  });
}

qr_status *qr_runtime_backend(const qr_runtime *runtime, uint64_t index, qr_backend_info *out_info) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(out_info);
  QR_ENTER_OR_RETURN(scope, object(runtime), "runtime");
  return guard(object(runtime), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_struct("qr_runtime_backend", "qr_backend_info", out_info, QR_BACKEND_INFO_FIRST_SIZE,
                                    sizeof(qr_backend_info)));
    const loader::Candidate *found = candidate(*object(runtime), index);
    if (!found) return index_out_of_range("qr_runtime_backend", "index", index, object(runtime)->candidates().size());
    qr_backend_info info = QR_BACKEND_INFO_INIT;
    info.usable = found->usable;
    info.code = found->code;
    info.is_static = found->path.empty();
    info.device_count = found->plugin ? found->plugin->devices().size() : 0;
    info.id = string_of(found->id);
    info.path = string_of(found->path);
    info.version = string_of(found->version);
    info.error_id = string_of(found->error_id);
    info.verdict = string_of(found->verdict);
    info.hint = string_of(found->hint);
    write_struct(info, out_info);
    return {};
  });
}

qr_status *qr_runtime_device(const qr_runtime *runtime, uint64_t index, uint64_t device, qr_device_info *out_info) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(out_info);
  QR_ENTER_OR_RETURN(scope, object(runtime), "runtime");
  return guard(object(runtime), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_struct("qr_runtime_device", "qr_device_info", out_info, QR_DEVICE_INFO_FIRST_SIZE,
                                    sizeof(qr_device_info)));
    const loader::Candidate *found = candidate(*object(runtime), index);
    if (!found) return index_out_of_range("qr_runtime_device", "index", index, object(runtime)->candidates().size());
    const uint64_t count = found->plugin ? found->plugin->devices().size() : 0;
    if (device >= count) return index_out_of_range("qr_runtime_device", "device", device, count);
    const loader::DeviceInfo &from = found->plugin->devices()[device];
    qr_device_info info = QR_DEVICE_INFO_INIT;
    info.usable = from.usable;
    info.memory_bytes = from.memory_bytes;
    info.features = from.features;
    info.name = string_of(from.name);
    info.target = string_of(from.target);
    info.why_not = string_of(from.why_not);
    info.details = string_of(from.details);
    write_struct(info, out_info);
    return {};
  });
}

qr_status *qr_runtime_search_path(const qr_runtime *runtime, uint64_t index, qr_string *out_path,
                                  qr_string *out_origin) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(out_path);
  QR_RETURN_IF_NULL(out_origin);
  return guard(object(runtime), [&]() -> Status {
    const Vector<loader::Folder> &folders = const_cast<Runtime *>(object(runtime))->loader().search_path();
    if (index >= folders.size()) return index_out_of_range("qr_runtime_search_path", "index", index, folders.size());
    *out_path = string_of(folders[index].path);
    *out_origin = string_of(folders[index].origin);
    return {};
  });
}

const char *qr_plugin_target(void) { return QR_PLUGIN_BUILD_TARGET; }

const char *qr_runtime_cpu_features(const qr_runtime *runtime) {
  return runtime ? object(runtime)->cpu_features() : "";
}

qr_status *qr_runtime_operators(qr_runtime *runtime, qr_string backend, char **out_json) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(out_json);
  QR_ENTER_OR_RETURN(scope, object(runtime), "runtime");
  return guard(object(runtime), [&]() -> Status {
    std::string_view id;
    QR_RETURN_IF_ERROR(read_text("qr_runtime_operators", "backend", backend, Empty::Allowed, &id));
    // The table is the compiler library's: programs that run containers alone do without it.
    QR_ASSIGN_OR_RETURN(const qr_prepare_api *const prepare, object(runtime)->prepare().api());
    std::shared_ptr<loader::Plugin> plugin;
    if (!id.empty()) {
      QR_ASSIGN_OR_RETURN(plugin, object(runtime)->open_backend(id, CallSignal(nullptr)));
    }
    JsonWriter json;
    json.begin_object().field("backend", plugin ? plugin->id() : std::string_view()).field("opset", qir::kNormalOpset);
    json.key("operators").begin_array();
    for (std::uint64_t i = 0; i < prepare->operator_count(); ++i) {
      qr_prepare_operator row;
      prepare->operator_at(i, &row);
      write_operator(json, row, plugin.get());
    }
    *out_json = give_text(json.end_array().end_object().take());
    return {};
  });
}

void qr_string_destroy(char *text) { free_block(text); }

}  // extern "C"
