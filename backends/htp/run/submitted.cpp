// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/submitted.h"

namespace quarry::htp {

SubmittedRuns::SubmittedRuns(Execution &execution, std::uint64_t depth, const qr_host &host)
    : execution_(execution), host_(host) {
  for (std::uint64_t i = 0; i < depth; ++i) runs_.push_back(quarry::make_unique<Run>(*this));
}

Result<std::uint64_t> SubmittedRuns::submit(const qr_run_request &request) {
  if (runs_.empty()) return Status::error(ErrorId::internal, "submit: found a queue of depth 0");
  Lock lock(mutex_);
  const std::uint64_t ticket = submitted_ + 1;
  Run &run = run_of(ticket);
  run.request = &request;
  run.generation = execution_.context().generation();
  run.stop.emplace(request.signal, host_);
  run.status = {};
  run.begun = run.ended = run.has_votes = false;
  run.error = qnn::kOk;
  submitted_ = ticket;
  if (may_begin(ticket)) begin(run, lock);
  return ticket;
}

// Without waiting: it is the oldest that has not begun, and the turn is ours or nobody's.
bool SubmittedRuns::may_begin(std::uint64_t ticket) noexcept {
  if (is_beginning_ || begun_ + 1 != ticket || !execution_.graph().on_device ||
      !execution_.context().engine().may_run_async())
    return false;
  RunQueue &queue = RunQueue::of_process();
  if (has_turn_) return !queue.is_wanted(execution_.queue_priority());
  return has_turn_ = queue.try_enter();
}

Status SubmittedRuns::prepare(Run &run) {
  LoadedContext &context = execution_.context();
  if (run.stop->stopped()) return run.stop->status("run");
  if (context.generation() != run.generation) return lost_while_waiting();
  QR_RETURN_IF_ERROR(execution_.check_enabled());
  run.access.emplace(*run.request);
  QR_RETURN_IF_ERROR(run.binding.take(context, execution_.registers_memory(), *run.request));
  run.profiled.emplace(context.engine(), run.request->profile, execution_.traces(), execution_.trace_folder());
  QR_RETURN_IF_ERROR(run.profiled->status());
  run.interrupted.emplace(context.engine().interrupter(), *run.stop, run.request->signal != nullptr);
  QR_RETURN_IF_ERROR(context.power().begin(execution_.power()));
  run.has_votes = true;
  return {};
}

// With the turn. The lock is not held while the library is called: it may report the end before it returns.
void SubmittedRuns::begin(Run &run, Lock &lock) {
  is_beginning_ = true;
  ++in_library_;
  lock.unlock();
  Engine &engine = execution_.context().engine();
  qnn::LogLines lines;
  qnn::Error error = qnn::kOk;
  Status status;
  try {
    status = prepare(run);
    if (status.ok())
      error = engine.api().graphExecuteAsync(
          execution_.handle(), run.binding.inputs.data(), run.binding.input_count(), run.binding.outputs.data(),
          run.binding.output_count(), run.profiled->handle(), run.interrupted->signal(),
          [](void *self, qnn::NotifyStatus told) {
            Run &ended = *static_cast<Run *>(self);
            ended.owner.end(ended, told.error);
          },
          &run);
    if (error && qnn::code_of(error) != qnn::Code::NotSupported)
      status = qnn::call_failed("graphExecuteAsync", error, &lines);
  } catch (const std::bad_alloc &) {
    status = Status::out_of_memory();
  }
  lock.lock();
  if (error && qnn::code_of(error) == qnn::Code::NotSupported) {  // who waits for it does it
    engine.refused_async();
    lock.unlock();
    (void)finish(run);
    lock.lock();
    leave();
  } else {
    run.begun = true;
    ++begun_;
    if (!status.ok()) {
      run.status = std::move(status);
      run.ended = true;
      leave();
    }
  }
  is_beginning_ = false;
  changed_.notify_all();
}

// On a thread of the library's, which must not be called from there. Nothing is touched after the lock: who waits may
// end everything.
void SubmittedRuns::end(Run &run, qnn::Error error) noexcept {
  const std::lock_guard lock(mutex_);
  run.error = error;
  run.ended = true;
  leave();
  changed_.notify_all();
}

void SubmittedRuns::leave() noexcept {
  if (--in_library_ > 0) return;
  has_turn_ = false;
  RunQueue::of_process().leave();
}

// Gives back what the run has of the library's. Its engine may have been closed and opened again since.
Status SubmittedRuns::finish(Run &run) {
  LoadedContext &context = execution_.context();
  Status status = std::move(run.status);
  {
    const std::lock_guard life(context.life());
    const bool is_same = context.generation() == run.generation;
    if (!is_same && run.interrupted) run.interrupted->abandon();
    if (!is_same && run.profiled) run.profiled->abandon();
    run.interrupted.reset();
    if (status.ok() && run.begun) status = outcome_of("graphExecuteAsync", run.error, *run.stop, nullptr);
    if (status.ok() && run.profiled && run.begun) run.profiled->tell("graphExecute", &execution_.graph().nodes);
    run.profiled.reset();
    if (is_same && run.has_votes) {
      Status lowered = context.power().end(execution_.power());
      if (status.ok()) status = std::move(lowered);
    }
    run.has_votes = false;
    if (!is_same && status.code() == QR_DEVICE_LOST) status = lost_while_waiting();
  }
  if (status.ok() && run.begun) {
    status = run.binding.give_outputs(*run.request);
    if (run.stop->stopped()) status = run.stop->status("run");
  }
  run.access.reset();
  return status;
}

Status SubmittedRuns::wait(std::uint64_t ticket) {
  Run &run = run_of(ticket);
  Lock lock(mutex_);
  while (!run.begun) {
    if (is_beginning_ || has_turn_) {
      changed_.wait(lock);
      continue;
    }
    if (!execution_.graph().on_device || !execution_.context().engine().may_run_async()) {
      ++begun_;
      lock.unlock();
      if (run.stop->stopped()) return run.stop->status("run");
      if (execution_.context().generation() != run.generation) return lost_while_waiting();
      QR_RETURN_IF_ERROR(execution_.run(*run.request, *run.stop));
      return run.stop->stopped() ? run.stop->status("run") : Status();
    }
    is_beginning_ = true;
    lock.unlock();
    const bool entered = RunQueue::of_process().enter(execution_.queue_priority(), *run.stop, run.request->signal);
    lock.lock();
    if (entered) {
      has_turn_ = true;
      begin(run, lock);
      continue;
    }
    is_beginning_ = false;
    ++begun_;
    run.begun = run.ended = true;
    run.status = run.stop->status("run");
    changed_.notify_all();
  }
  // What follows may go with it.
  while (begun_ < submitted_ && may_begin(begun_ + 1)) begin(run_of(begun_ + 1), lock);
  changed_.wait(lock, [&] { return run.ended; });
  lock.unlock();
  return finish(run);
}

}  // namespace quarry::htp
