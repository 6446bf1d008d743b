// SPDX-License-Identifier: Apache-2.0
// Compiles the graphs that a container kept once more for this machine, on a thread of its own (the option
// context.recompile).
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <mutex>

#include "runtime/loaded.h"

namespace quarry {

class Recompilation : public HeapObject {
 public:
  enum class State : std::uint8_t { Running, Done, Failed };

  // Begins. `ready` gives the model and the signature; the options are copied.
  static Result<Unique<Recompilation>> start(const ReadyModel &ready, const OptionSet *options);
  ~Recompilation();  // stops it and waits until it has

  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  const Loaded *result() const noexcept { return state() == State::Done ? result_.get() : nullptr; }
  // Until it has ended; says why it failed, or that the signal ended the wait.
  Status wait(const CallSignal &signal);

  Recompilation(const ReadyModel &ready, const OptionSet *options);  // by start() alone

 private:
  static void *enter(void *self);
  Status work();

  Ref<const ReadyModel> from_;
  Ref<OptionSet> options_;  // null: all defaults
  Ref<Signal> signal_;
  pthread_t thread_ = {};
  bool started_ = false;
  Unique<Loaded> result_;  // written before state_ is Done
  Status failure_;         // written before state_ is Failed
  std::atomic<State> state_{State::Running};
  std::mutex mutex_;  // of waiting
  std::condition_variable ended_;
};

}  // namespace quarry
