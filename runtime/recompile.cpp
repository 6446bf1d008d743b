// SPDX-License-Identifier: Apache-2.0
#include "runtime/recompile.h"

#include <chrono>

#include "runtime/runtime.h"

namespace quarry {

Recompilation::Recompilation(const ReadyModel &ready, const OptionSet *options)
    : from_(&ready),
      options_(options ? options->copy() : Ref<OptionSet>()),
      signal_(Ref<Signal>::make(Ref<Runtime>(&ready.model().runtime()))) {}

Result<Unique<Recompilation>> Recompilation::start(const ReadyModel &ready, const OptionSet *options) {
  auto made = quarry::make_unique<Recompilation>(ready, options);
  made->started_ = start_thread(&made->thread_, "quarry-compile", enter, made.get());
  if (!made->started_)
    return Status::error(ErrorId::out_of_memory,
                         "option context.recompile: the system refuses a thread to compile in the background",
                         "set it to wait")
        .with("option", "context.recompile");
  return made;
}

Recompilation::~Recompilation() {
  signal_->abort();
  if (started_) pthread_join(thread_, nullptr);
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
  {
    const std::lock_guard lock(self.mutex_);
    self.state_.store(done ? State::Done : State::Failed, std::memory_order_release);
  }
  self.ended_.notify_all();
  return nullptr;
}

Status Recompilation::work() {
  const Model &model = from_->model();
  QR_ASSIGN_OR_RETURN(const Unique<Compilation> compilation,
                      Compilation::begin(model, options_.get(), signal_.get(), Progress(), DeviceUse::Run));
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
  {
    std::unique_lock lock(mutex_);
    while (state() == State::Running) {  // signals are plain words: somebody has to look
      QR_RETURN_IF_ERROR(signal.check("waiting for the compilation in the background"));
      ended_.wait_for(lock, std::chrono::milliseconds(1));
    }
  }
  if (state() == State::Done) return {};
  return Status::foreign(failure_.code(), failure_.id(), failure_.message(), failure_.hint());
}

}  // namespace quarry
