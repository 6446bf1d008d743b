// SPDX-License-Identifier: Apache-2.0
// Compiles the graphs that a container kept once more for this machine, on a thread of its own (the option
// context.recompile).
#pragma once

#include <mutex>

#include "base/os/thread.h"
#include "runtime/compile/loaded_model.h"
#include "runtime/core/process.h"

namespace quarry {

class Recompilation : public HeapObject {
 public:
  // LeftBehind: it was under way when this process was forked, and nobody here has waited for it yet.
  enum class State : std::uint8_t { Running, Done, Failed, LeftBehind };

  // Begins. `loadable` gives the model and the signature; the options are copied.
  static Result<Unique<Recompilation>> start(const LoadableModel &loadable, const OptionSet *options);
  ~Recompilation();  // stops it and waits until it has

  State state() const noexcept;
  const LoadedModel *result() const noexcept {
    return state_.load(std::memory_order_acquire) == State::Done ? result_.get() : nullptr;
  }
  // Until it has ended; says why it failed, or that the signal ended the wait. One that was left behind is begun again.
  Status wait(const CallSignal &signal);

  Recompilation(const LoadableModel &loadable, const OptionSet *options);  // by start() alone

 private:
  static void *enter(void *self);
  Status begin_and_start();
  Status begin_what_was_left();
  void begin_anew() noexcept;
  Status work();

  Process &process_;
  std::atomic<std::uint32_t> entered_;  // the generation of the process that the thread is in
  Ref<const LoadableModel> from_;
  Ref<OptionSet> options_;  // null: all defaults
  Ref<Signal> signal_;
  Unique<CompileJob> job_;  // the thread's while it runs
  os::Thread thread_;
  bool started_ = false;
  Unique<LoadedModel> result_;  // written before state_ is Done
  Status failure_;              // written before state_ is Failed
  std::atomic<State> state_{State::Running};
  std::mutex mutex_;  // of beginning anew
  Wakeup ended_;      // with state_
};

}  // namespace quarry
