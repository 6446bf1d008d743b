// SPDX-License-Identifier: Apache-2.0
// The queue of a session: runs that qr_session_submit began. They end in order, on a thread that starts with the first
// of them: it waits for the runs that the backend has queued on its device, or runs them itself where the backend
// queues none.
#pragma once

#include <mutex>

#include "base/os/thread.h"
#include "quarry/session.h"
#include "runtime/core/process.h"
#include "runtime/core/signal.h"
#include "runtime/session/run_frame.h"

namespace quarry {

class Session;

class RunQueue {
 public:
  explicit RunQueue(Session &session) noexcept;
  ~RunQueue();
  RunQueue(const RunQueue &) = delete;
  RunQueue &operator=(const RunQueue &) = delete;

  // As the functions of session.h; any thread may call them.
  Result<std::uint64_t> submit(const qr_submit_options &options, const qr_tensor *const *inputs,
                               qr_tensor *const *outputs);
  // `ended`: whether the run has, so that its tensors are the caller's again.
  Status wait(std::uint64_t ticket, const CallSignal &signal, bool *ended);
  void abort(std::uint64_t ticket) noexcept;
  Result<int> completion_fd();

  // Aborts all runs and waits until they and the thread have ended; nothing is submitted afterwards. False on the
  // queue's own thread, which cannot wait for itself: nothing has happened then.
  bool close() noexcept;

  // What a call waits for that must not overlap the queue's work: its end, or only that no run is being added.
  enum class Until : std::uint8_t { Empty, NoneIsAdded };
  // Such a call: nothing is submitted while it lives.
  class Alone {
   public:
    Alone(RunQueue &queue, const char *function, Until until, const CallSignal &signal = CallSignal(nullptr))
        : queue_(queue), status_(queue.enter(function, until, signal)) {}
    ~Alone() {
      if (status_.ok()) queue_.leave();
    }
    Alone(const Alone &) = delete;
    Alone &operator=(const Alone &) = delete;
    Status status() const;  // not ok: the call must not go on

   private:
    RunQueue &queue_;
    Status status_;
  };

 private:
  // A run under way.
  struct RunSlot final : HeapObject, SignalFollower {
    RunSlot(Session &session);
    void on_abort() noexcept override { signal->abort(); }

    Unique<RunFrame> frame;
    Vector<qr_tensor *> outputs;  // the caller's
    Ref<Signal> signal;           // of this run alone: aborted by ticket, and with the caller's
    std::optional<CallSignal> call;
    std::optional<SignalLink> link;  // to the caller's
    Ref<Profile> profile;
    bool is_submitted = false;  // to the backend, as `ticket_there`
    std::uint64_t ticket_there = 0;
    void *self = nullptr;
    void (*done)(void *self, std::uint64_t ticket, qr_status *status) = nullptr;
  };
  struct Outcome {
    std::uint64_t ticket = 0;  // 0: none, or given
    Status status;
  };
  // A thread inside wait(); in a list, so that an outcome is not forgotten before it wakes up.
  struct Waiter {
    std::uint64_t ticket;
    bool ended = false, given = false;
    Status status;
    Waiter *next;
  };
  using Lock = std::unique_lock<std::mutex>;

  void enter_process() noexcept;
  void begin_anew() noexcept;
  bool on_own_thread() const noexcept;
  Status refuse_own_thread(const char *function) const;
  Status enter(const char *function, Until until, const CallSignal &signal);
  void leave() noexcept;
  Status begin_adding(Lock &lock);
  Status fill(RunSlot &slot, const qr_submit_options &options, const qr_tensor *const *inputs,
              qr_tensor *const *outputs);
  void make_places();
  Status start();
  RunSlot &slot_of(std::uint64_t ticket) const noexcept { return *slots_[(ticket - 1) % slots_.size()]; }
  Outcome &outcome_of(std::uint64_t ticket) noexcept { return outcomes_[(ticket - 1) % outcomes_.size()]; }
  void sleep(Lock &lock, std::uint32_t seen) noexcept;
  static void *serve(void *self) noexcept;
  void serve() noexcept;
  Status run(RunSlot &slot);
  void publish(std::uint64_t ticket, Status status) noexcept;
  void count_untold(std::int64_t change) noexcept;

  Session &session_;
  Process &process_;
  std::atomic<std::uint32_t> entered_;  // the generation of the process that the thread is in
  std::mutex mutex_;
  Wakeup changed_;  // any of what follows
  os::Thread thread_;
  bool started_ = false, closing_ = false;
  std::atomic<std::uint32_t> thread_id_{0};
  // Threads by Process::thread_id(), 0 for none: the one inside submit(), and the one inside an Alone call; never both.
  // `alone_` is set with the lock and cleared without: who waits for it reads `changed_` before it.
  std::uint32_t adding_ = 0;
  std::atomic<std::uint32_t> alone_{0};
  std::uint32_t wanting_alone_ = 0;  // threads that wait for it: runs are added by callbacks only
  // Tickets: the last that was submitted, whose run has ended, and whose outcome was reported.
  std::uint64_t submitted_ = 0, ended_ = 0, told_ = 0;
  std::uint64_t first_after_change_ = 0;  // the first ticket since a change over to a better context
  Vector<Unique<RunSlot>> slots_;         // queue_depth of them, made at the first submission
  Vector<Outcome> outcomes_;              // of the last runs that have ended
  Waiter *waiters_ = nullptr;
  std::uint64_t untold_ = 0;  // outcomes that wait() has not given
  int fd_ = -1;               // readable while there are such
};

}  // namespace quarry
