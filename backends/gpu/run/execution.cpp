// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/run/execution.h"

#include <algorithm>

#include "backends/common/node_event.h"
#include "backends/common/processor_backend.h"

namespace quarry::gpu {

using opencl::check;

namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

Status lost_while_waiting() {
  return Status::error(ErrorId::device_lost,
                       "gpu: run: the device was lost and opened again while the run was under way");
}

}  // namespace

Result<Unique<Execution>> Execution::make(const LoadedContext &context, const RunOptions &options) {
  auto made = quarry::make_unique<Execution>(context);
  made->options_ = options;
  QR_RETURN_IF_ERROR(made->prepare());
  for (std::uint64_t i = 0; i < 1 + options.depth; ++i) {
    Run &run = *made->runs_.emplace_back(quarry::make_unique<Run>());
    run.loans.resize(made->bindings_.size());
    run.events.resize(context.plan().steps.size());
  }
  made->engine_ = context.shared_engine();
  return made;
}

Status Execution::reopen() {
  if (engine_ == context_.shared_engine()) return {};
  for (const Unique<Run> &run : runs_) {
    for (opencl::Event &event : run->events) event = opencl::Event();
    for (Loan &loan : run->loans) loan = {};
    if (run->begun && run->status.ok()) run->status = lost_while_waiting();
    run->kept = nullptr;
    run->end = opencl::Event(), run->engine = nullptr;
  }
  last_queue_ = nullptr;
  recorder_.close();
  kernels_.clear(), bindings_.clear(), parts_.clear(), pieces_.clear();
  faults_ = opencl::Memory();
  queue_ = opencl::Queue(), profiled_queue_ = opencl::Queue();
  engine_ = nullptr;
  QR_RETURN_IF_ERROR(prepare());
  engine_ = context_.shared_engine();
  return {};
}

// The piece of memory that a value of the arena lies in, to the end of its last row of texels.
Result<cl_mem> Execution::view_of(const Operand &operand, Views &known) {
  cl_mem &view = known[{operand.value, operand.dtype}];
  if (view) return view;
  const Engine &engine = context_.engine();
  const Value &value = context_.plan().values[operand.value];
  const auto dtype = static_cast<DType>(operand.dtype);
  const ImageSize size = row_image_size(value.bytes, dtype);
  QR_ASSIGN_OR_RETURN(opencl::Memory part, engine.part(pieces_[value.index], value.offset,
                                                       row_image_bytes(value.bytes, dtype_bits(dtype) / 8)));
  QR_ASSIGN_OR_RETURN(opencl::Memory made, engine.image(size, dtype, nullptr, part.get()));
  view = made.get();
  parts_.push_back(std::move(part)), parts_.push_back(std::move(made));
  return view;
}

Status Execution::prepare() {
  const Engine &engine = context_.engine();
  QR_ASSIGN_OR_RETURN(queue_, engine.queue(false, options_.priority));
  QR_RETURN_IF_ERROR(make_values());
  QR_RETURN_IF_ERROR(make_kernels());
  for (const Vector<std::uint32_t> *list : {&inputs_, &outputs_})
    for (const std::uint32_t v : *list) list_readers(v, bindings_.emplace_back());
  bound_.resize(bindings_.size());
  if (!options_.record) return {};
  return recorder_.open(engine, kernels_, context_.source().bounds, bindings_.size(), options_.depth);
}

// Values of one storage are one buffer for OpenCL, whoever lives there.
Status Execution::make_values() {
  const Engine &engine = context_.engine();
  const Plan &plan = context_.plan();
  for (const std::uint64_t bytes : plan.pieces) {
    QR_ASSIGN_OR_RETURN(opencl::Memory piece, engine.memory(bytes, "values between steps"));
    pieces_.push_back(std::move(piece));
  }
  inputs_.assign(plan.inputs.size(), kNone), outputs_.assign(plan.outputs.size(), kNone);
  memory_.assign(plan.values.size(), nullptr);
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, cl_mem, std::less<>,
           Alloc<std::pair<const std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, cl_mem>>>
      known;
  for (std::uint32_t v = 0; v < plan.values.size(); ++v) {
    const Value &value = plan.values[v];
    if (value.storage == StorageKind::Constant) {
      memory_[v] = context_.constant(v);
    } else if (value.storage == StorageKind::Arena) {
      if (value.bytes == 0) continue;
      cl_mem &known_part = known[{value.index, value.offset, value.bytes}];
      if (!known_part) {
        QR_ASSIGN_OR_RETURN(opencl::Memory part, engine.part(pieces_[value.index], value.offset, value.bytes));
        known_part = part.get();
        parts_.push_back(std::move(part));
      }
      memory_[v] = known_part;
    } else {
      std::uint32_t &own = (value.storage == StorageKind::Input ? inputs_ : outputs_)[value.index];
      if (own == kNone) {
        own = v;
        QR_ASSIGN_OR_RETURN(opencl::Memory part,
                            engine.memory(value.bytes, value.storage == StorageKind::Input ? "an input" : "an output"));
        memory_[v] = part.get();
        parts_.push_back(std::move(part));
      } else {
        memory_[v] = memory_[own];
      }
    }
  }
  return {};
}

Status Execution::make_kernels() {
  const Engine &engine = context_.engine();
  const Plan &plan = context_.plan();
  const opencl::Library &cl = engine.library();
  Views views;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Step &step = plan.steps[s];
    char name[16];
    std::snprintf(name, sizeof name, "k%u", context_.source().kernels[s]);
    cl_int error = CL_SUCCESS;
    const cl_kernel made = cl->CreateKernel(context_.program(), name, &error);
    QR_RETURN_IF_ERROR(check("CreateKernel", error, plan.names.data() + step.name));
    kernels_.emplace_back(cl, made);
    for (std::uint32_t o = 0; o < step.operand_count; ++o) {
      cl_mem memory = memory_[plan.operands[step.first_operand + o].value];
      if (const cl_mem image = context_.image(s, o)) memory = image;
      if ((context_.source().images[s] & kRowImages & images_of_operand(o)) != 0) {
        QR_ASSIGN_OR_RETURN(memory, view_of(plan.operands[step.first_operand + o], views));
      }
      QR_RETURN_IF_ERROR(
          check("SetKernelArg", cl->SetKernelArg(made, o, sizeof memory, &memory), plan.names.data() + step.name));
    }
    if (!context_.source().checks[s]) continue;
    if (!faults_) {
      QR_ASSIGN_OR_RETURN(faults_, engine.memory(sizeof(Run::faults), "faults"));
    }
    const cl_mem memory = faults_.get();
    QR_RETURN_IF_ERROR(check("SetKernelArg", cl->SetKernelArg(made, step.operand_count, sizeof memory, &memory),
                             plan.names.data() + step.name));
  }
  return {};
}

// Which operands of steps read the input or output that is value `v`.
void Execution::list_readers(std::uint32_t v, IoBinding &binding) {
  const Plan &plan = context_.plan();
  binding.value = v;
  if (v == kNone) return;
  binding.own = memory_[v];
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s)
    for (std::uint32_t o = 0; o < plan.steps[s].operand_count; ++o) {
      const Value &value = plan.values[plan.operands[plan.steps[s].first_operand + o].value];
      if (value.storage == plan.values[v].storage && value.index == plan.values[v].index)
        binding.readers.emplace_back(s, o);
    }
}

// ---- the caller's memory ------------------------------------------------------------------------

// To the part of the caller's memory that begins at `offset`; null: to its own.
Status Execution::bind(std::size_t which, const SharedMemory *memory, cl_mem part, std::uint64_t offset) {
  IoBinding &binding = bindings_[which];
  const std::uint64_t id = memory ? memory->id() : 0;
  if (binding.id == id && binding.offset == offset) return {};
  const opencl::Library &cl = context_.engine().library();
  const cl_mem object = memory ? part : binding.own;
  for (const auto &[step, argument] : binding.readers)
    QR_RETURN_IF_ERROR(check("SetKernelArg", cl->SetKernelArg(kernels_[step].get(), argument, sizeof object, &object)));
  binding.parts = memory ? memory->parts() : nullptr;
  binding.id = id, binding.offset = offset;
  memory_[binding.value] = object;
  return {};
}

// Memory that is registered on this device is worked on where it lies, or copied on the device from where it lies.
Status Execution::borrow(Run &run) {
  const qr_run_request &request = *run.request;
  for (std::size_t i = 0; i < bindings_.size(); ++i) {
    const bool is_input = i < inputs_.size();
    const qr_io_buffer &buffer = is_input ? request.inputs[i] : request.outputs[i - inputs_.size()];
    if (bindings_[i].value == kNone) continue;
    const std::uint64_t bytes = context_.plan().values[bindings_[i].value].bytes;
    // A registration is a handle of the host's for a SharedMemory (plugin.cpp).
    auto *const memory = reinterpret_cast<SharedMemory *>(buffer.memory);
    const bool is_here = memory && bytes > 0 && (is_input || buffer.wanted) && memory->engine() == &context_.engine() &&
                         buffer.memory_offset <= memory->bytes() && bytes <= memory->bytes() - buffer.memory_offset;
    cl_mem part = nullptr;
    if (is_here) {
      QR_RETURN_IF_ERROR(memory->lend());
      run.loans[i] = {memory, false};
      if ((memory->offset() + buffer.memory_offset) % context_.engine().device().alignment == 0) {
        QR_ASSIGN_OR_RETURN(part, memory->part(buffer.memory_offset, bytes));
      }
      run.loans[i].copied = !part;
    }
    QR_RETURN_IF_ERROR(bind(i, part ? memory : nullptr, part, part ? buffer.memory_offset : 0));
  }
  return {};
}

void Execution::give_back(Run &run, Status &status) {
  for (Loan &loan : run.loans) {
    if (!loan.memory) continue;
    Status given = loan.memory->take_back();
    if (status.ok()) status = std::move(given);
    loan = {};
  }
}

// ---- runs ---------------------------------------------------------------------------------------

void Execution::set(Run &run, const qr_run_request &request, const qr_host &host) {
  run.request = &request, run.host = &host;
  run.stop.emplace(request.signal, host);
  run.next = 0, run.engine = nullptr;
  run.kept = nullptr, run.launches = 0;
  run.faults[0] = 0;
  run.profiled = plugin::wants_nodes(request.profile);
  run.begun = run.handed = false;
  run.status = {};
}

cl_command_queue Execution::queue_of(const Run &run) const noexcept {
  return run.profiled ? profiled_queue_.get() : queue_.get();
}

// Memory and inputs.
Status Execution::begin(Run &run) {
  run.begun = true;
  const qr_run_request &request = *run.request;
  if (run.stop->stopped()) return run.stop->status("run");
  if (engine_ != context_.shared_engine() || engine_->is_lost())
    return Status::error(ErrorId::device_lost, "gpu: run: the device was lost in an earlier call");
  run.engine = engine_.get();
  QR_RETURN_IF_ERROR(plugin::check_counts(request, inputs_.size(), outputs_.size()));
  if (run.profiled && !profiled_queue_) {
    QR_ASSIGN_OR_RETURN(profiled_queue_, context_.engine().queue(true, options_.priority));
  }
  const cl_command_queue queue = queue_of(run);
  const Plan &plan = context_.plan();
  const opencl::Library &cl = context_.engine().library();
  // Runs share the memory between steps: those on the other queue must have ended.
  const cl_command_queue last = last_queue_.exchange(queue);
  if (last && last != queue) QR_RETURN_IF_ERROR(check("Finish", cl->Finish(last)));
  QR_RETURN_IF_ERROR(borrow(run));
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const std::uint32_t v = inputs_[i];
    if (v == kNone || plan.values[v].bytes == 0) continue;
    const qr_io_buffer &buffer = request.inputs[i];
    const Loan &loan = run.loans[i];
    if (loan.copied)
      QR_RETURN_IF_ERROR(check("EnqueueCopyBuffer",
                               cl->EnqueueCopyBuffer(queue, loan.memory->memory().get(), bindings_[i].own,
                                                     loan.memory->offset() + buffer.memory_offset, 0,
                                                     plan.values[v].bytes, 0, nullptr, nullptr),
                               "an input"));
    if (loan.memory) continue;
    if (buffer.size_bytes < plan.values[v].bytes || !buffer.data)
      return Status::error(ErrorId::run_shape, format("input %zu: found %llu bytes, expected %llu", i,
                                                      buffer.size_bytes, plan.values[v].bytes));
    QR_RETURN_IF_ERROR(check(
        "EnqueueWriteBuffer",
        cl->EnqueueWriteBuffer(queue, memory_[v], CL_FALSE, 0, plan.values[v].bytes, buffer.data, 0, nullptr, nullptr),
        "an input"));
  }
  if (faults_) {
    static constexpr std::int64_t none[2] = {};
    QR_RETURN_IF_ERROR(check(
        "EnqueueWriteBuffer",
        cl->EnqueueWriteBuffer(queue, faults_.get(), CL_FALSE, 0, sizeof none, none, 0, nullptr, nullptr), "faults"));
  }
  for (std::size_t i = 0; i < bindings_.size(); ++i)
    bound_[i] = {bindings_[i].id, bindings_[i].offset, bindings_[i].parts};
  if (!run.profiled) run.kept = recorder_.take(bound_);
  return {};
}

Status Execution::enqueue(Run &run, std::size_t s) {
  const opencl::Library &cl = context_.engine().library();
  const WorkItems items(context_.source().bounds[s]);
  const bool wants_event = run.profiled || (s + 1) % kBatch == 0;
  cl_event event = nullptr;
  QR_RETURN_IF_ERROR(check("EnqueueNDRangeKernel",
                           cl->EnqueueNDRangeKernel(queue_of(run), kernels_[s].get(), 3, nullptr, items.global,
                                                    items.local, 0, nullptr, wants_event ? &event : nullptr),
                           context_.plan().names.data() + context_.plan().steps[s].name));
  if (event) run.events[s] = opencl::Event(cl, event);
  return {};
}

// What the driver keeps, from the next kernel on; all of it, or a batch where the run may be stopped. False: this run
// and those that follow go without.
bool Execution::enqueue_recorded(Run &run) {
  const opencl::Library &cl = context_.engine().library();
  cl_event event = nullptr;
  const std::size_t count =
      recorder_.enqueue(*run.kept, run.request->signal ? Recorder::Piece::Batch : Recorder::Piece::Whole, run.next,
                        queue_of(run), &event);
  if (count == 0) {
    Recorder::give_back(std::exchange(run.kept, nullptr));
    if (const String why = recorder_.take_refusal(); !why.empty())
      plugin::log(*run.host, QR_LOG_INFO, "gpu",
                  "kernels are handed over one by one, for recording them failed: " + why);
    return false;
  }
  run.events[run.next + count - 1] = opencl::Event(cl, event);
  run.next += count;
  return true;
}

// Kernels and results; without blocking it stops where the first batch has to end before more is handed over.
Status Execution::hand_over(Run &run, Blocking blocking, bool with_end) {
  const Plan &plan = context_.plan();
  const opencl::Library &cl = context_.engine().library();
  const cl_command_queue queue = queue_of(run);
  while (run.next < plan.steps.size()) {
    const std::size_t s = run.next;
    if (s % kBatch == 0) {
      if (s >= 2 * kBatch && !run.profiled && run.events[s - kBatch - 1] && !(run.kept && !run.request->signal)) {
        if (blocking == Blocking::No) return {};
        const cl_event before = run.events[s - kBatch - 1].get();
        QR_RETURN_IF_ERROR(check("WaitForEvents", cl->WaitForEvents(1, &before)));
      }
      if (run.stop->stopped()) return run.stop->status("run");
    }
    if (!run.kept || !enqueue_recorded(run)) QR_RETURN_IF_ERROR(enqueue(run, run.next++));
    ++run.launches;
    if (run.events[run.next - 1] && !run.profiled) QR_RETURN_IF_ERROR(check("Flush", cl->Flush(queue)));
  }
  QR_RETURN_IF_ERROR(take_results(run));
  if (with_end) {
    cl_event event = nullptr;
    QR_RETURN_IF_ERROR(
        check("EnqueueMarkerWithWaitList", cl->EnqueueMarkerWithWaitList(queue, 0, nullptr, &event), "a run's end"));
    run.end = opencl::Event(cl, event);
    QR_RETURN_IF_ERROR(check("Flush", cl->Flush(queue)));
  }
  run.handed = true;
  return {};
}

Status Execution::take_results(Run &run) {
  const Plan &plan = context_.plan();
  const opencl::Library &cl = context_.engine().library();
  const cl_command_queue queue = queue_of(run);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const qr_io_buffer &buffer = run.request->outputs[i];
    if (!buffer.wanted) continue;
    const std::uint64_t bytes = plan.values[outputs_[i]].bytes;
    const Loan &loan = run.loans[inputs_.size() + i];
    if (loan.copied)
      QR_RETURN_IF_ERROR(
          check("EnqueueCopyBuffer",
                cl->EnqueueCopyBuffer(queue, bindings_[inputs_.size() + i].own, loan.memory->memory().get(), 0,
                                      loan.memory->offset() + buffer.memory_offset, bytes, 0, nullptr, nullptr),
                "an output"));
    if (loan.memory) continue;
    if (buffer.size_bytes < bytes || (!buffer.data && bytes > 0))
      return Status::error(ErrorId::run_room,
                           format("output %zu: found room for %llu bytes, expected %llu", i, buffer.size_bytes, bytes));
    if (bytes > 0)
      QR_RETURN_IF_ERROR(check(
          "EnqueueReadBuffer",
          cl->EnqueueReadBuffer(queue, memory_[outputs_[i]], CL_FALSE, 0, bytes, buffer.data, 0, nullptr, nullptr),
          "an output"));
  }
  if (faults_)
    QR_RETURN_IF_ERROR(check(
        "EnqueueReadBuffer",
        cl->EnqueueReadBuffer(queue, faults_.get(), CL_FALSE, 0, sizeof run.faults, run.faults, 0, nullptr, nullptr),
        "faults"));
  return {};
}

// A device that fails does not always report it to the queue.
Status Execution::check_events(const Run &run) const {
  const opencl::Library &cl = context_.engine().library();
  for (const opencl::Event &event : run.events) {
    if (!event) continue;
    cl_int status = CL_COMPLETE;
    QR_RETURN_IF_ERROR(check("GetEventInfo", cl->GetEventInfo(event.get(), CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                              sizeof status, &status, nullptr)));
    if (status < 0)
      return Status::error(ErrorId::device_lost, "gpu: a kernel ended with " + opencl::error_text(status));
  }
  return {};
}

// With what it came to: nobody reads or writes the caller's memory any more.
Status Execution::finish(Run &run, Status status) {
  const Plan &plan = context_.plan();
  if (status.ok()) status = check_events(run);
  const bool is_here = run.engine && run.engine == engine_.get();
  const cl_command_queue last = last_queue_;
  if (!status.ok() && is_here && last) (void)run.engine->library()->Finish(last);
  Recorder::give_back(std::exchange(run.kept, nullptr));
  give_back(run, status);
  if (status.code() == QR_DEVICE_LOST && is_here) run.engine->report_lost();
  if (status.ok() && run.faults[0] != 0)
    status = Status::error(ErrorId::run_value,
                           format("gpu: an index of a Gather or Scatter (their kinds too) is %lld, expected one of an "
                                  "element of its axis",
                                  run.faults[1]));
  for (std::size_t i = 0; status.ok() && i < outputs_.size(); ++i) {
    qr_io_buffer &buffer = run.request->outputs[i];
    if (!buffer.wanted) continue;
    const Io &io = plan.outputs[i];
    buffer.rank = static_cast<std::uint32_t>(io.shape.size());
    std::ranges::copy(io.shape, buffer.dims);
    buffer.used_bytes = plan.values[outputs_[i]].bytes;
  }
  if (status.ok() && run.profiled) report(run);
  if (status.ok() && !run.profiled) launches_ = run.launches;
  for (opencl::Event &event : run.events) event = opencl::Event();
  run.end = opencl::Event();
  if (status.ok() && run.stop->stopped()) return run.stop->status("run");
  return status;
}

Status Execution::run(const qr_run_request &request, const qr_host &host) {
  Run &run = *runs_[0];
  set(run, request, host);
  Status status = begin(run);
  if (status.ok()) status = hand_over(run, Blocking::Yes, false);
  if (status.ok()) status = check("Finish", context_.engine().library()->Finish(queue_of(run)));
  return finish(run, std::move(status));
}

// ---- submitted runs -----------------------------------------------------------------------------

// Whatever fails is the outcome of the run.
void Execution::try_hand_over(Run &run, Blocking blocking) {
  if (run.status.ok() && !run.begun) run.status = begin(run);
  if (run.status.ok()) run.status = hand_over(run, blocking, true);
  if (!run.status.ok()) run.handed = true;
}

Result<std::uint64_t> Execution::submit(const qr_run_request &request, const qr_host &host) {
  if (runs_.size() < 2) return Status::error(ErrorId::internal, "submit: found a queue of depth 0");
  const std::lock_guard lock(mutex_);
  const std::uint64_t ticket = ++submitted_;
  Run &run = run_of(ticket);
  set(run, request, host);
  if (handed_ + 1 == ticket) {
    try_hand_over(run, Blocking::No);
    if (run.handed) handed_ = ticket;
  }
  return ticket;
}

Status Execution::wait(std::uint64_t ticket) {
  Run &run = run_of(ticket);
  std::unique_lock lock(mutex_);
  if (handed_ < ticket) {  // all before it have ended: it is the next
    lock.unlock();
    try_hand_over(run, Blocking::Yes);
    lock.lock();
    handed_ = ticket;
    // What follows goes with it, as far as that needs no waiting.
    while (handed_ < submitted_) {
      Run &next = run_of(handed_ + 1);
      try_hand_over(next, Blocking::No);
      if (!next.handed) break;
      ++handed_;
    }
  }
  lock.unlock();
  Status status = std::move(run.status);
  run.status = {};
  if (status.ok()) {
    const cl_event end = run.end.get();
    status = check("WaitForEvents", context_.engine().library()->WaitForEvents(1, &end), "a run's end");
  }
  return finish(run, std::move(status));
}

bool Execution::drop(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (handed_ >= ticket || run_of(ticket).begun) return false;
  handed_ = ticket;  // those that follow are handed over by who waits for the next
  return true;
}

void Execution::report(const Run &run) {
  const qr_profile_sink &profile = *run.request->profile;
  const Plan &plan = context_.plan();
  const opencl::Library &cl = context_.engine().library();
  const auto text = [&](std::uint32_t at) { return std::string_view(plan.names.data() + at); };
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (!run.events[s]) continue;
    cl_ulong begin = 0, end = 0;
    if (cl->GetEventProfilingInfo(run.events[s].get(), CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr) !=
            CL_SUCCESS ||
        cl->GetEventProfilingInfo(run.events[s].get(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) !=
            CL_SUCCESS)
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
  // A profile of nodes wants each kernel by itself; without one a run may need fewer calls.
  const std::uint64_t launches = launches_;
  if (launches == 0) return;
  const qr_plugin_counter counter = {plugin::text("launches"), {}, launches};
  qr_plugin_event event = plugin::node_event({.id = plan.steps.size() + 1, .node = -1, .name = "without a profile"});
  event.kind = plugin::text("phase");
  event.clock = QR_PLUGIN_CLOCK_NONE;
  event.counters = &counter, event.counter_count = 1;
  profile.event(profile.self, &event);
}

}  // namespace quarry::gpu
