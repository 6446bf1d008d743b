// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile/recompile.h"

#include "runtime/core/runtime.h"

namespace quarry {

Recompilation::Recompilation(const LoadableModel &loadable, const OptionSet *options)
    : process_(loadable.model().runtime().process()),
      entered_(process_.generation()),
      from_(&loadable),
      options_(options ? options->copy() : Ref<OptionSet>()),
      signal_(Ref<Signal>::make(Ref<Runtime>(&loadable.model().runtime()))) {}

Result<Unique<Recompilation>> Recompilation::start(const LoadableModel &loadable, const OptionSet *options) {
  auto made = quarry::make_unique<Recompilation>(loadable, options);
  QR_RETURN_IF_ERROR(made->begin_and_start());
  return made;
}

// The backend is opened here and not on the thread: a child of fork() must not miss a lock of the runtime's because of
// a thread that the application knows nothing of.
Status Recompilation::begin_and_start() {
  QR_ASSIGN_OR_RETURN(
      job_, CompileJob::begin(from_->model(), options_.get(), {.signal = CallSignal(signal_.get())}, DeviceUse::Run));
  started_ = os::start_thread(&thread_, "quarry-compile", enter, this);
  if (started_) return {};
  return Status::error(ErrorId::out_of_memory,
                       "option context.recompile: the system refuses a thread to compile in the background",
                       "set it to wait")
      .with("option", "context.recompile");
}

Recompilation::~Recompilation() {
  process_.enter(entered_, [this] { begin_anew(); });
  signal_->abort();
  if (started_) os::join_thread(thread_);
}

// In a child of fork(): what the thread was doing will not be ended. Its lock can be neither freed nor used, so it is
// made anew where it is; a result that was not reported yet is lost.
void Recompilation::begin_anew() noexcept {
  started_ = false;
  if (state_.load(std::memory_order_relaxed) == State::Running) {
    ::new (&job_) Unique<CompileJob>;
    ::new (&result_) Unique<LoadedModel>;
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
  if (!done && !self.signal_->aborted()) model.runtime().log().write(QR_LOG_WARN, "session", status.message());
  self.failure_ = std::move(status);
  self.state_.store(done ? State::Done : State::Failed, std::memory_order_release);
  self.ended_.wake();
  return nullptr;
}

Status Recompilation::work() {
  const Model &model = from_->model();
  const Unique<CompileJob> job = std::move(job_);
  QR_ASSIGN_OR_RETURN(Ref<LoadableModel> loadable, LoadableModel::make_again(*job));
  QR_RETURN_IF_ERROR(keep_context(*job, *loadable));
  QR_ASSIGN_OR_RETURN(result_, load_contexts(*job, std::move(loadable), *from_));
  model.runtime().log().write(
      QR_LOG_INFO, "session",
      format("%s: compiled again in the background for %s; sessions change over at their next run", model.describe(),
             job->plugin->devices()[job->device].target));
  return {};
}

// Where nobody in this process has begun yet. Whoever waits meanwhile is woken when it cannot be begun, to try itself.
Status Recompilation::begin_what_was_left() {
  const std::lock_guard lock(mutex_);
  if (state() != State::LeftBehind) return {};
  state_.store(State::Running, std::memory_order_relaxed);
  struct Begun {
    Recompilation &self;
    bool done = false;
    ~Begun() {
      if (done) return;
      self.state_.store(State::LeftBehind, std::memory_order_release);
      self.ended_.wake();
    }
  } begun{*this};
  QR_RETURN_IF_ERROR(begin_and_start());
  begun.done = true;
  return {};
}

Status Recompilation::wait(const CallSignal &signal) {
  process_.enter(entered_, [this] { begin_anew(); });
  WakingFollower follower(ended_);
  const SignalLink link(signal.signal(), follower);
  for (;;) {
    const std::uint32_t seen = ended_.seen();
    switch (state()) {
      case State::Done: return {};
      case State::Failed: return Status::foreign(failure_.code(), failure_.id(), failure_.message(), failure_.hint());
      case State::LeftBehind: QR_RETURN_IF_ERROR(begin_what_was_left()); break;
      case State::Running:
        QR_RETURN_IF_ERROR(signal.check("waiting for the compilation in the background"));
        ended_.sleep(seen, signal.deadline_ns());
        break;
    }
  }
}

}  // namespace quarry
