// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/execution.h"

#include <algorithm>
#include <map>

#include "backends/common/node_event.h"
#include "backends/common/processor_backend.h"

namespace quarry::gpu {

using opencl::check;

namespace {

constexpr std::uint32_t kNone = UINT32_MAX;
// So many kernels are handed over before the first of them has to be done: an abort waits for no more.
constexpr std::size_t kBatch = 16;

}  // namespace

Result<Unique<Execution>> Execution::make(const LoadedContext &context, std::string_view priority) {
  auto made = quarry::make_unique<Execution>(context);
  QR_RETURN_IF_ERROR(made->prepare(priority));
  made->engine_ = context.shared_engine();
  return made;
}

Status Execution::reopen() {
  if (engine_ == context_.shared_engine()) return {};
  kernels_.clear(), events_.clear(), borders_.clear(), parts_.clear(), pieces_.clear();
  queue_ = opencl::Queue(), profiled_queue_ = opencl::Queue();
  engine_ = nullptr;
  const String priority = priority_;
  QR_RETURN_IF_ERROR(prepare(priority));
  engine_ = context_.shared_engine();
  return {};
}

Status Execution::prepare(std::string_view priority) {
  const Engine &engine = context_.engine();
  const Plan &plan = context_.plan();
  const opencl::Library &cl = engine.library();
  priority_ = priority;
  QR_ASSIGN_OR_RETURN(queue_, engine.queue(false, priority_));
  for (const std::uint64_t bytes : plan.pieces) {
    QR_ASSIGN_OR_RETURN(opencl::Memory piece, engine.memory(bytes, "values between steps"));
    pieces_.push_back(std::move(piece));
  }
  inputs_.assign(plan.inputs.size(), kNone), outputs_.assign(plan.outputs.size(), kNone);
  memory_.assign(plan.values.size(), nullptr);
  // Values in one place are one buffer for OpenCL, whoever lives there.
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, cl_mem, std::less<>,
           Alloc<std::pair<const std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, cl_mem>>>
      known;
  for (std::uint32_t v = 0; v < plan.values.size(); ++v) {
    const Value &value = plan.values[v];
    if (value.place == Place::Constant) {
      memory_[v] = context_.constant(v);
    } else if (value.place == Place::Arena) {
      if (value.bytes == 0) continue;
      cl_mem &place = known[{value.index, value.offset, value.bytes}];
      if (!place) {
        QR_ASSIGN_OR_RETURN(opencl::Memory part, engine.part(pieces_[value.index], value.offset, value.bytes));
        place = part.get();
        parts_.push_back(std::move(part));
      }
      memory_[v] = place;
    } else {
      std::uint32_t &own = (value.place == Place::Input ? inputs_ : outputs_)[value.index];
      if (own == kNone) {
        own = v;
        QR_ASSIGN_OR_RETURN(opencl::Memory part,
                            engine.memory(value.bytes, value.place == Place::Input ? "an input" : "an output"));
        memory_[v] = part.get();
        parts_.push_back(std::move(part));
      } else {
        memory_[v] = memory_[own];
      }
    }
  }
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Step &step = plan.steps[s];
    char name[16];
    std::snprintf(name, sizeof name, "k%u", context_.source().kernels[s]);
    cl_int error = CL_SUCCESS;
    const cl_kernel made = cl->CreateKernel(context_.program(), name, &error);
    QR_RETURN_IF_ERROR(check("CreateKernel", error, plan.names.data() + step.name));
    kernels_.emplace_back(cl, made);
    for (std::uint32_t o = 0; o < step.operand_count; ++o) {
      const cl_mem memory = memory_[plan.operands[step.first_operand + o].value];
      QR_RETURN_IF_ERROR(
          check("SetKernelArg", cl->SetKernelArg(made, o, sizeof memory, &memory), plan.names.data() + step.name));
    }
  }
  events_.resize(plan.steps.size());
  for (const Vector<std::uint32_t> *list : {&inputs_, &outputs_})
    for (const std::uint32_t v : *list) {
      Border &border = borders_.emplace_back();
      border.value = v;
      if (v == kNone) continue;
      border.own = memory_[v];
      for (std::uint32_t s = 0; s < plan.steps.size(); ++s)
        for (std::uint32_t o = 0; o < plan.steps[s].operand_count; ++o) {
          const Value &value = plan.values[plan.operands[plan.steps[s].first_operand + o].value];
          if (value.place == plan.values[v].place && value.index == plan.values[v].index)
            border.readers.emplace_back(s, o);
        }
    }
  return {};
}

// ---- the caller's memory ------------------------------------------------------------------------

Status Execution::bind(std::size_t which, const SharedMemory *memory, std::uint64_t offset) {
  Border &border = borders_[which];
  const std::uint64_t id = memory ? memory->id() : 0;
  if (border.id == id && border.offset == offset) return {};
  const opencl::Library &cl = context_.engine().library();
  opencl::Memory part;
  if (memory) {
    QR_ASSIGN_OR_RETURN(part,
                        context_.engine().part(memory->memory(), offset, context_.plan().values[border.value].bytes));
  }
  const cl_mem place = memory ? part.get() : border.own;
  for (const auto &[step, argument] : border.readers)
    QR_RETURN_IF_ERROR(check("SetKernelArg", cl->SetKernelArg(kernels_[step].get(), argument, sizeof place, &place)));
  border.part = std::move(part);
  border.id = id, border.offset = offset;
  memory_[border.value] = place;
  return {};
}

// Memory that is registered on this device is worked on where it lies, or copied on the device from where it lies.
Status Execution::borrow(const qr_run_request &request) {
  for (std::size_t i = 0; i < borders_.size(); ++i) {
    Border &border = borders_[i];
    const bool is_input = i < inputs_.size();
    const qr_io_buffer &buffer = is_input ? request.inputs[i] : request.outputs[i - inputs_.size()];
    if (border.value == kNone) continue;
    const std::uint64_t bytes = context_.plan().values[border.value].bytes;
    // A registration is a handle of the host's for a SharedMemory (plugin.cpp).
    auto *const memory = reinterpret_cast<SharedMemory *>(buffer.memory);
    const bool is_here = memory && bytes > 0 && (is_input || buffer.wanted) && memory->engine() == &context_.engine() &&
                         buffer.memory_offset <= memory->bytes() && bytes <= memory->bytes() - buffer.memory_offset;
    border.copied = is_here && buffer.memory_offset % context_.engine().device().alignment != 0;
    if (is_here) {
      QR_RETURN_IF_ERROR(memory->lend());
      border.lent = memory;
    }
    QR_RETURN_IF_ERROR(
        bind(i, is_here && !border.copied ? memory : nullptr, border.copied || !is_here ? 0 : buffer.memory_offset));
  }
  return {};
}

void Execution::give_back(Status &status) {
  for (Border &border : borders_) {
    if (!border.lent) continue;
    Status given = border.lent->take_back();
    if (status.ok()) status = std::move(given);
    border.lent = nullptr;
  }
}

// ---- runs ---------------------------------------------------------------------------------------

Status Execution::enqueue(cl_command_queue queue, const qr_run_request &request, const plugin::StopToken &stop,
                          bool profiled) {
  const Plan &plan = context_.plan();
  const opencl::Library &cl = context_.engine().library();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const std::uint32_t v = inputs_[i];
    if (v == kNone || plan.values[v].bytes == 0) continue;
    const qr_io_buffer &buffer = request.inputs[i];
    const Border &border = borders_[i];
    if (border.copied)
      QR_RETURN_IF_ERROR(
          check("EnqueueCopyBuffer",
                cl->EnqueueCopyBuffer(queue, border.lent->memory().get(), border.own, buffer.memory_offset, 0,
                                      plan.values[v].bytes, 0, nullptr, nullptr),
                "an input"));
    if (border.lent) continue;
    if (buffer.size_bytes < plan.values[v].bytes || !buffer.data)
      return Status::error(ErrorId::run_shape, format("input %zu: found %llu bytes, expected %llu", i,
                                                      static_cast<unsigned long long>(buffer.size_bytes),
                                                      static_cast<unsigned long long>(plan.values[v].bytes)));
    QR_RETURN_IF_ERROR(check(
        "EnqueueWriteBuffer",
        cl->EnqueueWriteBuffer(queue, memory_[v], CL_FALSE, 0, plan.values[v].bytes, buffer.data, 0, nullptr, nullptr),
        "an input"));
  }
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Bounds &bounds = context_.source().bounds[s];
    if (s % kBatch == 0) {
      if (s >= 2 * kBatch && !profiled) {
        const cl_event before = events_[s - kBatch - 1].get();
        QR_RETURN_IF_ERROR(check("WaitForEvents", cl->WaitForEvents(1, &before)));
      }
      if (stop.stopped()) return stop.status("run");
    }
    std::size_t global[3], local[3];
    for (std::size_t d = 0; d < 3; ++d)
      global[d] = static_cast<std::size_t>(bounds.global[d]), local[d] = static_cast<std::size_t>(bounds.local[d]);
    const bool wants_event = profiled || (s + 1) % kBatch == 0;
    cl_event event = nullptr;
    QR_RETURN_IF_ERROR(check("EnqueueNDRangeKernel",
                             cl->EnqueueNDRangeKernel(queue, kernels_[s].get(), 3, nullptr, global, local, 0, nullptr,
                                                      wants_event ? &event : nullptr),
                             plan.names.data() + plan.steps[s].name));
    if (event) events_[s] = opencl::Event(cl, event);
    if ((s + 1) % kBatch == 0) QR_RETURN_IF_ERROR(check("Flush", cl->Flush(queue)));
  }
  return {};
}

Status Execution::take_results(cl_command_queue queue, const qr_run_request &request) {
  const Plan &plan = context_.plan();
  const opencl::Library &cl = context_.engine().library();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    qr_io_buffer &buffer = request.outputs[i];
    if (!buffer.wanted) continue;
    const std::uint64_t bytes = plan.values[outputs_[i]].bytes;
    const Border &border = borders_[inputs_.size() + i];
    if (border.copied)
      QR_RETURN_IF_ERROR(check("EnqueueCopyBuffer",
                               cl->EnqueueCopyBuffer(queue, border.own, border.lent->memory().get(), 0,
                                                     buffer.memory_offset, bytes, 0, nullptr, nullptr),
                               "an output"));
    if (border.lent) continue;
    if (buffer.size_bytes < bytes || (!buffer.data && bytes > 0))
      return Status::error(ErrorId::run_room, format("output %zu: found room for %llu bytes, expected %llu", i,
                                                     static_cast<unsigned long long>(buffer.size_bytes),
                                                     static_cast<unsigned long long>(bytes)));
    if (bytes > 0)
      QR_RETURN_IF_ERROR(check(
          "EnqueueReadBuffer",
          cl->EnqueueReadBuffer(queue, memory_[outputs_[i]], CL_FALSE, 0, bytes, buffer.data, 0, nullptr, nullptr),
          "an output"));
  }
  QR_RETURN_IF_ERROR(check("Finish", cl->Finish(queue)));
  // A device that fails does not always tell the queue.
  for (const opencl::Event &event : events_) {
    if (!event) continue;
    cl_int status = CL_COMPLETE;
    QR_RETURN_IF_ERROR(check("GetEventInfo", cl->GetEventInfo(event.get(), CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                              sizeof status, &status, nullptr)));
    if (status < 0)
      return Status::error(ErrorId::device_lost, "gpu: a kernel ended with " + opencl::error_text(status));
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    qr_io_buffer &buffer = request.outputs[i];
    if (!buffer.wanted) continue;
    const Io &io = plan.outputs[i];
    buffer.rank = static_cast<std::uint32_t>(io.shape.size());
    std::ranges::copy(io.shape, buffer.dims);
    buffer.used_bytes = plan.values[outputs_[i]].bytes;
  }
  return {};
}

void Execution::tell(const qr_profile_sink &profile) {
  const Plan &plan = context_.plan();
  const opencl::Library &cl = context_.engine().library();
  const auto text = [&](std::uint32_t at) { return std::string_view(plan.names.data() + at); };
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (!events_[s]) continue;
    cl_ulong begin = 0, end = 0;
    if (cl->GetEventProfilingInfo(events_[s].get(), CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr) !=
            CL_SUCCESS ||
        cl->GetEventProfilingInfo(events_[s].get(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) != CL_SUCCESS)
      continue;
    const Step &step = plan.steps[s];
    qr_plugin_event event = plugin::node_event({.id = s + 1,
                                                .node = step.source,
                                                .name = text(step.name),
                                                .op = text(step.op),
                                                .begin_ns = begin,
                                                .end_ns = end});
    event.clock = QR_PLUGIN_CLOCK_DEVICE_NS;
    qr_plugin_attribute attributes[3];
    if (plugin::wants_node_facts(&profile)) {
      const auto add = [&](const char *key, std::string_view value) {
        if (!value.empty()) attributes[event.attribute_count++] = {plugin::text(key), plugin::text(value)};
      };
      add("kernel", kernel_row(static_cast<Kernel>(step.kernel)).file);
      add("shapes", text(step.shapes));
      add("fused", text(step.fused));
      event.attributes = attributes;
    }
    profile.event(profile.self, &event);
  }
}

Status Execution::run(const qr_run_request &request, const qr_host &host) {
  const plugin::StopToken stop(request.signal, host);
  if (stop.stopped()) return stop.status("run");
  if (engine_ != context_.shared_engine() || engine_->is_lost())
    return Status::error(ErrorId::device_lost, "gpu: run: the device was lost in an earlier call");
  QR_RETURN_IF_ERROR(plugin::check_counts(request, inputs_.size(), outputs_.size()));
  const bool profiled = plugin::wants_nodes(request.profile);
  if (profiled && !profiled_queue_) {
    QR_ASSIGN_OR_RETURN(profiled_queue_, context_.engine().queue(true, priority_));
  }
  const cl_command_queue queue = profiled ? profiled_queue_.get() : queue_.get();
  Status status = borrow(request);
  if (status.ok()) status = enqueue(queue, request, stop, profiled);
  if (status.ok()) status = take_results(queue, request);
  // Nobody reads or writes the caller's memory any more.
  if (!status.ok()) (void)context_.engine().library()->Finish(queue);
  give_back(status);
  if (status.code() == QR_DEVICE_LOST) engine_->tell_lost();
  if (status.ok() && profiled) tell(*request.profile);
  for (opencl::Event &event : events_) event = opencl::Event();
  if (status.ok() && stop.stopped()) return stop.status("run");
  return status;
}

}  // namespace quarry::gpu
