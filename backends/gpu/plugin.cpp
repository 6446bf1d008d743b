// SPDX-License-Identifier: Apache-2.0
// The plugin's edge: backend.h on one side, devices and plans on the other.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "backends/common/option_slots.h"
#include "backends/common/slots.h"
#include "backends/gpu/run/binary.h"
#include "backends/gpu/compile/compile.h"
#include "backends/gpu/inspect/doctor.h"
#include "backends/gpu/lower/lowering.h"
#include "backends/gpu/program/images.h"
#include "backends/gpu/run/dynamic_region.h"
#include "backends/gpu/run/execution.h"
#include "backends/gpu/compile/tune.h"

using namespace quarry;
using plugin::guard;
using plugin::text;
using plugin::view;

#define QR_GPU_VERSION "0.1.0"

#ifndef qr_plugin_query  // linked into the library: nobody looks for a note
QR_PLUGIN_NOTE("gpu", QR_GPU_VERSION, 7);
#define QR_QUERY_VISIBILITY QR_PLUGIN_EXPORT
#else
#define QR_QUERY_VISIBILITY
#endif
static_assert(gpu::kBlobVersion == 7, "QR_PLUGIN_NOTE names it too");

struct qr_backend {
  explicit qr_backend(const qr_host *host) noexcept : allocator(host) {}
  plugin::HostAllocator allocator;

  // Looks for devices when somebody asks for the first time.
  const gpu::Machine &machine() {
    const std::lock_guard lock(mutex_);
    if (!machine_) machine_ = quarry::make_unique<gpu::Machine>();
    return *machine_;
  }
  // The device of a request, in use. It stays in use as long as the backend lives: drivers take long to begin (PoCL
  // reads a library of functions for each context, which takes longer than to compile a kernel).
  Result<std::shared_ptr<const gpu::Engine>> engine(std::uint32_t device, const qr_plugin_option *options,
                                                    std::uint64_t count) {
    QR_ASSIGN_OR_RETURN(const opencl::Device *const chosen,
                        machine().choose(device, plugin::option(options, count, "gpu.device", "")));
    std::unique_lock lock(mutex_, std::defer_lock);  // a driver takes long to begin, and recovery
    QR_RETURN_IF_ERROR(plugin::lock_or_stop(lock, "opening the device"));
    return engine_of(*chosen);
  }
  // Opens what was lost again, all of it, whichever call lost it.
  Status recover();

  // What is alive, for recovery.
  template <class T>
  void add(Vector<T *> qr_backend::*list, T *object) {
    const std::lock_guard lock(mutex_);
    (this->*list).push_back(object);
  }
  template <class T>
  void remove(Vector<T *> qr_backend::*list, T *object) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(this->*list, object);
  }
  Vector<qr_context *> contexts;
  Vector<qr_execution *> executions;
  Vector<gpu::SharedMemory *> memories;
  std::shared_mutex running;  // shared by runs; recovery is alone

  std::uint64_t next_id() noexcept { return ++last_id_; }

  // The types of an operator as a text that lives as long as the backend.
  const String &types_of(const gpu::OperatorRow &row) {
    const std::lock_guard lock(mutex_);
    if (types_.empty()) types_.resize(qir::op_count());
    String &text = types_[index_of(row.op)];
    if (text.empty()) text = gpu::types_text(row);
    return text;
  }

 private:
  Result<std::shared_ptr<const gpu::Engine>> engine_of(const opencl::Device &device) {
    const auto place =
        std::find_if(engines_.begin(), engines_.end(), [&](const auto &entry) { return entry.first == device.id; });
    if (place != engines_.end() && !place->second->is_lost()) return place->second;
    QR_ASSIGN_OR_RETURN(const std::shared_ptr<const gpu::Engine> made, gpu::Engine::make(machine_->library(), device));
    if (place != engines_.end()) place->second = made;
    else engines_.emplace_back(device.id, made);
    return made;
  }

  std::atomic<std::uint64_t> last_id_ = 0;
  std::mutex mutex_;
  Unique<gpu::Machine> machine_;
  Vector<String> types_;  // by operator
  Vector<std::pair<cl_device_id, std::shared_ptr<const gpu::Engine>>> engines_;
};

struct qr_context : HeapObject {
  qr_context(qr_backend *owner, Unique<gpu::LoadedContext> &&from, Unique<gpu::LoadedRegion> &&behind)
      : backend(owner), region(std::move(behind)), loaded(std::move(from)) {}
  const Vector<gpu::Io> &io(std::uint64_t, bool is_output) const {
    return is_output ? loaded->outputs() : loaded->inputs();
  }
  void report_nodes(std::uint64_t, const qr_verdict_sink &verdicts) const {
    const gpu::Plan &plan = loaded->plan();
    for (std::uint32_t i = 0; i < plan.paths.size(); ++i)
      plugin::report_verdict(verdicts, i, {}, plan.paths[i].path, plan.names.data() + plan.paths[i].text);
  }
  void leave() noexcept { backend->remove(&qr_backend::contexts, this); }
  qr_backend *backend;
  Unique<gpu::LoadedRegion> region;  // null: there is none
  Unique<gpu::LoadedContext> loaded;
};

struct qr_execution : HeapObject {
  qr_execution(qr_context *owner, Unique<gpu::ModelExecution> &&made) : context(owner), execution(std::move(made)) {}
  void leave() noexcept { context->backend->remove(&qr_backend::executions, this); }
  void report_plans(qr_plugin_plans *out) const noexcept { execution->report_plans(out); }
  qr_context *context;
  Unique<gpu::ModelExecution> execution;
};

Status qr_backend::recover() {
  std::unique_lock alone(running, std::defer_lock);  // runs may hang, on a device that is lost
  QR_RETURN_IF_ERROR(plugin::lock_or_stop(alone, "recover"));
  std::unique_lock lock(mutex_, std::defer_lock);
  QR_RETURN_IF_ERROR(plugin::lock_or_stop(lock, "recover"));
  // What is opened halfway is lost still, so that the next call begins with it again; so is what was not begun with.
  const auto open = [&](const auto &lost, auto &object) -> Status {
    if (!lost->is_lost()) return {};
    QR_RETURN_IF_ERROR(stop_status("recover"));
    QR_ASSIGN_OR_RETURN(const std::shared_ptr<const gpu::Engine> made, engine_of(lost->device()));
    Status status = object.reopen(made);
    if (!status.ok()) made->report_lost();
    return status;
  };
  for (qr_context *const context : contexts)
    QR_RETURN_IF_ERROR(open(std::shared_ptr(context->loaded->shared_engine()), *context->loaded));
  for (gpu::SharedMemory *const memory : memories) QR_RETURN_IF_ERROR(open(memory->shared_engine(), *memory));
  for (qr_execution *const execution : executions) QR_RETURN_IF_ERROR(execution->execution->reopen());
  return {};
}

namespace {

// ---- options ------------------------------------------------------------------------------------

constexpr OptionRow kOptions[] = {
#define QR_OPTION QR_OPTION_ROW
#include "backends/gpu/settings/options.inc"
#undef QR_OPTION
};

// ---- device -------------------------------------------------------------------------------------

std::uint64_t device_count(qr_backend *backend) {
  const AllocatorScope scope(backend->allocator);
  try {
    return backend->machine().devices().size();
  } catch (const std::bad_alloc &) {
    return 1;  // what `info` says of it is that there is no memory
  }
}

qr_plugin_code device_info(qr_backend *backend, std::uint64_t index, qr_plugin_device_info *out_info,
                           const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const auto &devices = backend->machine().devices();
    QR_RETURN_IF_ERROR(plugin::check_index("device", index, devices.size()));
    const gpu::Machine::Entry &entry = devices[index];
    qr_plugin_device_info info{};
    info.usable = entry.why_not.empty();
    info.memory_bytes = entry.device.memory_bytes;
    info.features = QR_DEVICE_NO_FORK | QR_DEVICE_REGISTERS_POINTER | QR_DEVICE_IMPORTS_FD | QR_DEVICE_RECOVERS |
                    QR_DEVICE_SUBMITS | QR_DEVICE_RANGES;
    info.name = text(entry.name);
    info.target = text("opencl");
    info.why_not = text(entry.why_not);
    info.details = text(entry.details);
    plugin::give(info, out_info);
    return {};
  });
}

qr_plugin_code device_recover(qr_backend *backend, std::uint64_t, const qr_error_sink *errors,
                              const qr_plugin_signal *signal) {
  return guard(backend->allocator, errors, [&] {
    const plugin::StopToken stop(signal, backend->allocator.host());
    const StopScope scope(stop);
    return backend->recover();
  });
}

constexpr qr_plugin_device_api kDevice = {sizeof(qr_plugin_device_api), 0, device_count, device_info, device_recover};

// ---- compiler -----------------------------------------------------------------------------------

// A model may be compiled where there is no device.
gpu::Target target_of(qr_backend *backend, const qr_compile_request &request) {
  auto chosen = backend->machine().choose(request.device,
                                          plugin::option(request.options, request.option_count, "gpu.device", ""));
  gpu::Target target = chosen.ok() ? gpu::target_of(**chosen) : gpu::Target();
  const auto option = [&](const char *key, const char *fallback) {
    return plugin::option(request.options, request.option_count, key, fallback);
  };
  const std::string_view images = option("gpu.images", "auto");
  if (images == "on") target.images = gpu::Images::All;
  else if (images == "off") target.images = gpu::Images::None;
  // Processors by no means: they take two to four times as long with images (docs/gpu.md).
  else if (option("gpu.tune", "0") == "1" && chosen.ok() && (*chosen)->type != CL_DEVICE_TYPE_CPU)
    target.images = gpu::Images::Measured;
  if (images == "on" && chosen.ok() && !(*chosen)->has_images)
    plugin::log(backend->allocator.host(), QR_LOG_WARN, "gpu",
                format("gpu.images=on: %s has no images, products read buffers", printable((*chosen)->name)));
  target.float16 = option("gpu.f16_products", "f32") == "f16";
  if (target.float16 && chosen.ok() && !(*chosen)->computes_half())
    plugin::log(backend->allocator.host(), QR_LOG_WARN, "gpu",
                format("gpu.f16_products=f16: %s has no cl_khr_fp16 and computes in f32", printable((*chosen)->name)));
  return target;
}

gpu::HostRegion host_region(const qr_compile_request &request) {
  return plugin::option(request.options, request.option_count, "gpu.tail", "refuse") == "host"
             ? gpu::HostRegion::Allowed
             : gpu::HostRegion::Refused;
}

std::string_view prepared(const qr_compile_request &request) {
  return plugin::option(request.options, request.option_count, "shape.prepare", "");
}

qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(request->signal, backend->allocator.host());
    const StopScope scope(stop);
    QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_request(*request));
    const gpu::Target target = target_of(backend, *request);
    QR_ASSIGN_OR_RETURN(gpu::Compiled compiled, gpu::compile(std::move(graph), plugin::segments_of(*request->graphs[0]),
                                                             target, host_region(*request), 0, prepared(*request)));
    gpu::Plan &plan = compiled.plan;
    if (!gpu::is_refused(compiled)) {
      auto chosen = backend->machine().choose(
          request->device, plugin::option(request->options, request->option_count, "gpu.device", ""));
      QR_RETURN_IF_ERROR(gpu::fit_images(plan, target, chosen.ok() ? *chosen : nullptr).take_status());
    }
    QR_RETURN_IF_ERROR(stop_status("check"));
    for (std::uint32_t i = 0; i < compiled.refused.size(); ++i) {
      QR_RETURN_IF_ERROR(stop_status("check"));
      plugin::report_verdict(*verdicts, i, compiled.refused[i], plan.paths[i].path,
                             plan.names.data() + plan.paths[i].text);
    }
    return {};
  });
}

// Without a device the tiles stay as they were written, which every device takes.
Result<gpu::Compiled> compiled_for_device(qr_backend *backend, const qr_compile_request &request,
                                          const plugin::StopToken &stop) {
  QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_request(request));
  const Vector<qir::Bytes> segments = plugin::segments_of(*request.graphs[0]);
  const gpu::Target target = target_of(backend, request);
  auto engine = backend->engine(request.device, request.options, request.option_count);
  if (engine.ok() && graph.dimensions.empty() &&
      plugin::option(request.options, request.option_count, "gpu.tune", "0") == "1")
    return gpu::compile_measured(graph, segments, target, host_region(request), **engine, stop);
  QR_ASSIGN_OR_RETURN(gpu::Compiled made,
                      gpu::compile(std::move(graph), segments, target, host_region(request), 0, prepared(request)));
  if (engine.ok()) gpu::fit_tiles(made.plan, (*engine)->device());
  if (gpu::is_refused(made)) return made;
  QR_ASSIGN_OR_RETURN(const String note,
                      gpu::fit_images(made.plan, target, engine.ok() ? &(*engine)->device() : nullptr));
  if (!note.empty()) plugin::log(backend->allocator.host(), QR_LOG_INFO, "gpu", "gpu.images: " + note);
  return made;
}

// The kernels as this device has them, so that loading compiles nothing. Without a device to build for there are none.
Status add_binary(qr_backend *backend, const qr_compile_request &request, std::span<const qir::Bytes> segments,
                  const plugin::StopToken &stop, gpu::Blob &blob, Vector<std::uint8_t> &binary) {
  auto engine = backend->engine(request.device, request.options, request.option_count);
  if (!engine.ok() || blob.plan.steps.empty()) {
    if (!engine.ok())
      plugin::log(backend->allocator.host(), QR_LOG_INFO, "gpu",
                  "compiled without binaries of the kernels: " + String(engine.status().message()));
    return {};
  }
  return gpu::take_binary(*engine, segments, stop, backend->allocator.host(), blob, binary);
}

qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                                const qr_error_sink *errors) {
  return plugin::guard_stoppable(
      backend->allocator, request->signal, "compile", errors, [&](const auto &stop) -> Status {
        QR_ASSIGN_OR_RETURN(gpu::Compiled compiled, compiled_for_device(backend, *request, stop));
        for (Status &refused : compiled.refused)
          if (!refused.ok()) return std::move(refused);
        if (stop.stopped()) return stop.status("compile");
        gpu::Blob made;
        made.plan = std::move(compiled.plan), made.region = std::move(compiled.region);
        const bool has_region = !made.region.qir.empty();
        if (has_region) made.region.segment = static_cast<std::uint32_t>(compiled.kept_segments + 1);
        made.weights_bytes = compiled.weights_bytes, made.io_bytes = compiled.io_bytes;
        if (auto engine = backend->engine(request->device, request->options, request->option_count); engine.ok())
          made.weights_bytes = static_cast<std::uint64_t>(static_cast<std::int64_t>(made.weights_bytes) +
                                                          gpu::bytes_for_images(made.plan, (*engine)->device()));
        Vector<std::uint8_t> binary;
        Vector<qir::Bytes> segments;
        if (compiled.kept_segments != 0) segments = plugin::segments_of(*request->graphs[0]);
        segments.push_back({compiled.packed.data(), compiled.packed.size()});
        if (has_region) segments.push_back({compiled.region_constants.data(), compiled.region_constants.size()});
        QR_RETURN_IF_ERROR(add_binary(backend, *request, segments, stop, made, binary));
        if (stop.stopped()) return stop.status("compile");
        if (compiled.kept_segments != 0) QR_RETURN_IF_ERROR(plugin::keep_segments(*request, *result));
        QR_RETURN_IF_ERROR(plugin::give_segment(*result, compiled.packed));
        if (has_region) QR_RETURN_IF_ERROR(plugin::give_segment(*result, compiled.region_constants));
        if (!binary.empty()) QR_RETURN_IF_ERROR(plugin::give_segment(*result, binary));
        qr_plugin_plan plan{};
        plan.struct_size = sizeof plan;
        plan.weights_bytes = made.weights_bytes, plan.io_bytes = made.io_bytes;
        plan.arena_bytes = compiled.range_arena_bytes;
        for (const std::uint64_t piece : made.plan.pieces) plan.arena_bytes += piece;
        plan.device_bytes = plan.weights_bytes + plan.arena_bytes + plan.io_bytes;
        return plugin::give_result(*result, gpu::write_blob(made), "opencl", made.device, plan);
      });
}

std::int32_t compiler_supports(qr_backend *backend, qr_plugin_string domain, qr_plugin_string name, std::uint32_t,
                               qr_plugin_string *out_types, qr_plugin_string *out_note) {
  return plugin::table_supports(*backend, domain, name, gpu::find_operator, out_types, out_note);
}

constexpr qr_plugin_compiler_api kCompiler = {
    sizeof(qr_plugin_compiler_api), 0, compiler_check, compiler_compile, compiler_supports, nullptr};

// ---- context ------------------------------------------------------------------------------------

qr_plugin_code context_grade(qr_backend *backend, const qr_load_request *request, std::int32_t *out_grade,
                             const qr_error_sink *reason) {
  return guard(backend->allocator, nullptr, [&]() -> Status {
    const auto grade = [&](std::int32_t value, const String &why) {
      plugin::give_grade(value, why, out_grade, *reason);
    };
    const qr_blob &blob = *request->blob;
    auto device = backend->machine().choose(request->device,
                                            plugin::option(request->options, request->option_count, "gpu.device", ""));
    if (blob.version != gpu::kBlobVersion)
      grade(QR_PLUGIN_GRADE_RECOMPILE, format("blob: found version %u, expected %u", blob.version, gpu::kBlobVersion));
    else if (!device.ok()) grade(QR_PLUGIN_GRADE_INCOMPATIBLE, String(device.status().message()));
    else if (view(blob.key) == (*device)->identity()) grade(QR_PLUGIN_GRADE_OPTIMAL, {});
    else
      grade(QR_PLUGIN_GRADE_USABLE,
            format("blob: found kernels built for %s, expected %s; they are compiled from their source",
                   blob.key.size == 0 ? "no device" : printable(view(blob.key)).c_str(),
                   printable((*device)->identity())));
    return {};
  });
}

qr_plugin_code context_load(qr_backend *backend, const qr_load_request *request, qr_context **out_context,
                            const qr_error_sink *errors) {
  return plugin::guard_stoppable(backend->allocator, request->signal, "load", errors, [&](const auto &stop) -> Status {
    const qr_blob &given = *request->blob;
    const Vector<qir::Bytes> segments = plugin::segments_of(given);
    QR_ASSIGN_OR_RETURN(gpu::Blob blob, gpu::read_blob({given.bytes.data, given.bytes.size}, segments));
    QR_ASSIGN_OR_RETURN(std::shared_ptr<const gpu::Engine> engine,
                        backend->engine(request->device, request->options, request->option_count));
    Unique<gpu::LoadedRegion> region;
    if (!blob.region.qir.empty()) {
      QR_ASSIGN_OR_RETURN(region, gpu::load_region(blob, segments, blob.plan.paths.size()));
    }
    String note;
    auto opened = gpu::LoadedContext::load(engine, std::move(blob), segments, &stop, &note);
    if (!opened.ok() && opened.status().code() == QR_DEVICE_LOST) engine->report_lost();
    QR_ASSIGN_OR_RETURN(Unique<gpu::LoadedContext> loaded, std::move(opened));
    if (!note.empty()) plugin::log(backend->allocator.host(), QR_LOG_WARN, "gpu", note);
    if (stop.stopped()) return stop.status("load");
    auto made = quarry::make_unique<qr_context>(backend, std::move(loaded), std::move(region));
    backend->add(&qr_backend::contexts, made.get());
    *out_context = made.release();
    return {};
  });
}

constexpr qr_plugin_context_api kContext = plugin::context_slots<qr_context>(context_grade, nullptr, context_load);

// ---- execution ----------------------------------------------------------------------------------

qr_plugin_code execution_create(qr_context *context, const qr_execution_request *request, qr_execution **out_execution,
                                const qr_error_sink *errors) {
  return guard(context->backend->allocator, errors, [&]() -> Status {
    const qr_execution_request wanted = plugin::incoming(*request);
    const auto option = [&](std::string_view key, std::string_view fallback) {
      return plugin::option(wanted.options, wanted.option_count, key, fallback);
    };
    const gpu::RunOptions options{
        .priority = String(option("qnn_context_priority", "normal")),
        .depth = wanted.queue_depth,
        .record = option("gpu.record", "1") != "0",
        .plans = static_cast<std::size_t>(
            std::strtoull(String(option("shape.plans", "16")).c_str(), nullptr, 10))};  // checked by the host
    QR_ASSIGN_OR_RETURN(Unique<gpu::ModelExecution> made,
                        gpu::ModelExecution::make(*context->loaded, context->region.get(), options,
                                                  context->backend->allocator.host()));
    QR_RETURN_IF_ERROR(made->prepare(option("shape.prepare", "")));
    auto owned = quarry::make_unique<qr_execution>(context, std::move(made));
    context->backend->add(&qr_backend::executions, owned.get());
    *out_execution = owned.release();
    return {};
  });
}

qr_plugin_code execution_run(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors) {
  plugin::HostAllocator &allocator = execution->context->backend->allocator;
  return guard(allocator, errors, [&]() -> Status {
    std::shared_lock running(execution->context->backend->running, std::defer_lock);
    {
      const plugin::StopToken stop(request->signal, allocator.host());
      const StopScope scope(stop);
      QR_RETURN_IF_ERROR(plugin::lock_or_stop(running, "run"));
    }
    return execution->execution->run(*request);
  });
}

qr_plugin_code execution_submit(qr_execution *execution, const qr_run_request *request, std::uint64_t *out_ticket,
                                const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, [&]() -> Status {
    std::shared_lock running(execution->context->backend->running, std::defer_lock);
    {
      const plugin::StopToken stop(request->signal, execution->context->backend->allocator.host());
      const StopScope scope(stop);
      QR_RETURN_IF_ERROR(plugin::lock_or_stop(running, "run"));
    }
    QR_ASSIGN_OR_RETURN(*out_ticket, execution->execution->submit(*request));
    return {};
  });
}

qr_plugin_code execution_wait(qr_execution *execution, std::uint64_t ticket, const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, [&]() -> Status {
    gpu::ModelExecution &runs = *execution->execution;
    std::shared_lock running(execution->context->backend->running, std::defer_lock);
    // While a device is recovered, which may take long, a run that nothing was begun of ends when its signal says so.
    const plugin::StopToken stop(runs.request_of(ticket).signal, execution->context->backend->allocator.host());
    const StopScope scope(stop);
    Status stopped = plugin::lock_or_stop(running, "run");
    if (stopped.ok()) return runs.wait(ticket);
    if (runs.drop(ticket)) return stopped;
    running.lock();
    return runs.wait(ticket);
  });
}

constexpr qr_plugin_execution_api kExecution =
    plugin::execution_slots<qr_execution>(execution_create, execution_run, execution_submit, execution_wait);

// ---- memory -------------------------------------------------------------------------------------

// A registration is a SharedMemory under the name that the host has for it.
qr_plugin_code memory_register(qr_backend *backend, const qr_plugin_memory_request *request,
                               qr_plugin_memory_info *out_info, qr_registration **out_registration,
                               const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    qr_plugin_memory_request wanted = plugin::incoming(*request);
    if (wanted.data) wanted.fd = -1;
    QR_ASSIGN_OR_RETURN(std::shared_ptr<const gpu::Engine> engine, backend->engine(wanted.device, nullptr, 0));
    String note;
    QR_ASSIGN_OR_RETURN(Unique<gpu::SharedMemory> made,
                        gpu::SharedMemory::make(std::move(engine), wanted, out_info, backend->next_id(), &note));
    if (!note.empty())
      plugin::log(backend->allocator.host(), QR_LOG_INFO, "gpu", "the descriptor is mapped, not imported: " + note);
    backend->add(&qr_backend::memories, made.get());
    *out_registration = reinterpret_cast<qr_registration *>(made.release());
    return {};
  });
}

template <bool begins>
qr_plugin_code memory_access(qr_backend *backend, qr_registration *registration, std::uint32_t access,
                             const qr_error_sink *errors) {
  return guard(backend->allocator, errors,
               [&] { return reinterpret_cast<gpu::SharedMemory *>(registration)->report_access(access, begins); });
}

void memory_release(qr_backend *backend, qr_registration *registration) {
  const AllocatorScope scope(backend->allocator);
  auto *const memory = reinterpret_cast<gpu::SharedMemory *>(registration);
  backend->remove(&qr_backend::memories, memory);
  FreeDelete<gpu::SharedMemory>()(memory);
}

constexpr qr_plugin_memory_api kMemory = {sizeof(qr_plugin_memory_api),
                                          0,
                                          nullptr,
                                          memory_register,
                                          memory_register,
                                          memory_release,
                                          nullptr,
                                          nullptr,
                                          memory_access<true>,
                                          memory_access<false>,
                                          nullptr};

}  // namespace

extern "C" QR_QUERY_VISIBILITY qr_plugin_code qr_plugin_query(const qr_host *host, const qr_plugin **out_plugin,
                                                              const qr_error_sink *errors) {
  static constexpr qr_plugin kPlugin = plugin::plugin_table<qr_backend>(
      "gpu", QR_GPU_VERSION, "graphics processors and whatever else has a driver for OpenCL 1.2", gpu::kBlobVersion,
      kDevice, kCompiler, kContext, kExecution, &kMemory, &plugin::kOptionSlots<qr_backend, kOptions>);
  return plugin::answer_query(host, kPlugin, out_plugin, errors);
}
