// SPDX-License-Identifier: Apache-2.0
#include "runtime/recompile.h"

#include "runtime/runtime.h"

namespace quarry {

Recompilation::Recompilation(const ReadyModel &ready, const OptionSet *options)
    : process_(ready.model().runtime().process()),
      entered_(process_.generation()),
      from_(&ready),
      options_(options ? options->copy() : Ref<OptionSet>()),
      signal_(Ref<Signal>::make(Ref<Runtime>(&ready.model().runtime()))) {}

Result<Unique<Recompilation>> Recompilation::start(const ReadyModel &ready, const OptionSet *options) {
  auto made = quarry::make_unique<Recompilation>(ready, options);
  QR_RETURN_IF_ERROR(made->begin_and_start());
  return made;
}

// The backend is opened here and not on the thread: a child of fork() must not miss a lock of the runtime's because of
// a thread that the application knows nothing of.
Status Recompilation::begin_and_start() {
  QR_ASSIGN_OR_RETURN(compilation_,
                      Compilation::begin(from_->model(), options_.get(), {.signal = signal_.get()}, DeviceUse::Run));
  started_ = quarry::start_thread(&thread_, "quarry-compile", enter, this);
  if (started_) return {};
  return Status::error(ErrorId::out_of_memory,
                       "option context.recompile: the system refuses a thread to compile in the background",
                       "set it to wait")
      .with("option", "context.recompile");
}

Recompilation::~Recompilation() {
  process_.enter(entered_, [this] { begin_anew(); });
  signal_->abort();
  if (started_) pthread_join(thread_, nullptr);
}

// In a child of fork(): what the thread was doing will not be ended. Its lock can be neither freed nor used, so it is
// made anew where it is; a result that was not told yet is lost.
void Recompilation::begin_anew() noexcept {
  started_ = false;
  if (state_.load(std::memory_order_relaxed) == State::Running) {
    ::new (&compilation_) Unique<Compilation>;
    ::new (&result_) Unique<Loaded>;
    ::new (&failure_) Status;
    state_.store(State::LeftBehind, std::memory_order_relaxed);
  }
  ::new (&mutex_) std::mutex;
}

Recompilation::State Recompilation::state() const noexcept {
  const State now = state_.load(std::memory_order_acquire);
  return now == State::Running && entered_.load(std::memory_order_relaxed) != process_.generation() ? State::LeftBehind
                                                                                                    : now;
}

void *Recompilation::enter(void *argument) {
  Recompilation &self = *static_cast<Recompilation *>(argument);
  const Model &model = self.from_->model();
  AllocatorScope scope(model.runtime().memory());
  Status status;
  try {
    status = self.work();
  } catch (const std::bad_alloc &) {
    status = Status::out_of_memory();
  }
  const bool done = status.ok();
  if (!done && !self.signal_->aborted()) model.runtime().journal().write(QR_LOG_WARN, "session", status.message());
  self.failure_ = std::move(status);
  self.state_.store(done ? State::Done : State::Failed, std::memory_order_release);
  self.ended_.wake();
  return nullptr;
}

Status Recompilation::work() {
  const Model &model = from_->model();
  const Unique<Compilation> compilation = std::move(compilation_);
  QR_ASSIGN_OR_RETURN(Ref<ReadyModel> ready, ReadyModel::make_again(*compilation));
  QR_RETURN_IF_ERROR(keep_context(*compilation, *ready));
  QR_ASSIGN_OR_RETURN(result_, load_contexts(*compilation, std::move(ready), *from_));
  model.runtime().journal().write(
      QR_LOG_INFO, "session",
      format("%s: compiled again in the background for %s; sessions change over at their next run",
             model.describe().c_str(), compilation->plugin->devices()[compilation->device].target.c_str()));
  return {};
}

Status Recompilation::wait(const CallSignal &signal) {
  process_.enter(entered_, [this] { begin_anew(); });
  {
    const std::lock_guard lock(mutex_);
    if (state() == State::LeftBehind) {
      state_.store(State::Running, std::memory_order_relaxed);
      if (Status refused = begin_and_start(); !refused.ok()) {
        state_.store(State::LeftBehind, std::memory_order_relaxed);
        return refused;
      }
    }
  }
  WakingFollower follower(ended_);
  const SignalLink link(signal.signal(), follower);
  for (;;) {
    const std::uint32_t seen = ended_.seen();
    if (state() != State::Running) break;
    QR_RETURN_IF_ERROR(signal.check("waiting for the compilation in the background"));
    ended_.sleep(seen, signal.deadline_ns());
  }
  if (state() == State::Done) return {};
  return Status::foreign(failure_.code(), failure_.id(), failure_.message(), failure_.hint());
}

}  // namespace quarry
