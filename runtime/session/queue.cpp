// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/os/event.h"
#include "base/os/file.h"
#include "base/os_error.h"
#include "runtime/core/runtime.h"
#include "runtime/core/threads.h"
#include "runtime/session/session.h"

namespace quarry {
namespace {

// A thread that was held up between its submission and its waiting still finds its outcome, whatever others submit.
constexpr std::uint64_t kKeptOutcomes = 1024;

// For the callback and for wait(): each gets one of its own.
Status copy_of(const Status &status) noexcept {
  if (status.ok()) return {};
  Status copy = Status::foreign(status.code(), status.id(), status.message(), status.hint());
  for (const Status::Detail &frame : status.payload()->details) copy.with(frame.key, frame.value);
  return copy;
}

Status same_thread(const char *function, std::uint32_t thread) {
  return Status::errorf(ErrorId::overlapping_calls,
                        "%s: called on thread %u while the same thread is inside another call on this session, "
                        "expected one call at a time",
                        function, thread);
}

// Not what becomes of a run that is stopped: an id of its own.
Status stopped_waiting(const CallSignal &signal) {
  const Status stopped = signal.check("");
  if (stopped.ok()) return {};
  return Status::error(
      stopped.code() == QR_CANCELLED ? ErrorId::waiting_aborted : ErrorId::waiting_timed_out,
      "qr_session_wait: its signal ended the waiting, and the run goes on: its tensors are still in use");
}

Status closing() {
  return Status::error(ErrorId::cancelled, "qr_session_submit: found that the session ends, expected it to live",
                       "submit nothing after qr_session_destroy");
}

}  // namespace

RunQueue::RunQueue(Session &session) noexcept
    : session_(session), process_(session.core().runtime().process()), entered_(process_.generation()) {}

RunQueue::~RunQueue() {
  close();
  if (fd_ >= 0) os::close_event(fd_);
}

RunQueue::RunSlot::RunSlot(Session &session)
    : frame(session.make_frame()),
      outputs(session.core().outputs().size()),
      signal(Ref<Signal>::make(Ref<Runtime>(&session.core().runtime()))) {}

Status RunQueue::Alone::status() const { return copy_of(status_); }

// ---- processes and threads ----------------------------------------------------------------------

void RunQueue::enter_process() noexcept {
  process_.enter(entered_, [this] { begin_anew(); });
}

// After fork() the child has no worker thread, and the mutex may be locked: leak the old state, construct a new one.
void RunQueue::begin_anew() noexcept {
  ::new (&mutex_) std::mutex;
  if (adding_ || told_ != submitted_) {
    session_.abandon_executions();
    ::new (&slots_) Vector<Unique<RunSlot>>;
    ended_ = told_ = submitted_;
  }
  if (started_) {
    ::new (&outcomes_) Vector<Outcome>;
    untold_ = 0;
  }
  started_ = false;
  thread_id_.store(0, std::memory_order_relaxed);
  adding_ = wanting_alone_ = 0;
  alone_.store(0, std::memory_order_relaxed);
  waiters_ = nullptr;
  if (fd_ >= 0) (void)os::renew_event(fd_);  // the parent's own events must not be taken
}

bool RunQueue::on_own_thread() const noexcept {
  const std::uint32_t own = thread_id_.load(std::memory_order_relaxed);
  return own != 0 && own == process_.thread_id();
}

Status RunQueue::refuse_own_thread(const char *function) const {
  if (!on_own_thread()) return {};
  return Status::hinted(ErrorId::overlapping_calls, "call it on another thread, or on a clone of the session",
                        "%s: called by the callback of a submitted run, which cannot wait for its own queue; "
                        "expected another thread",
                        function);
}

// With the lock, which is not held meanwhile. `seen`: of `changed_`, before the caller looked at what it waits for.
void RunQueue::sleep(Lock &lock, std::uint32_t seen) noexcept {
  lock.unlock();
  changed_.sleep(seen, 0);
  lock.lock();
}

// ---- calls that must not overlap the queue's work -----------------------------------------------

Status RunQueue::enter(const char *function, Until until, const CallSignal &signal) {
  enter_process();
  const bool empty = until == Until::Empty;
  if (empty) QR_RETURN_IF_ERROR(refuse_own_thread(function));
  const auto is_free = [&] { return !adding_ && !alone_ && (!empty || told_ == submitted_); };
  Lock lock(mutex_);
  if (!is_free()) {
    WakingFollower follower(changed_);
    lock.unlock();
    const SignalLink link(signal.signal(), follower);
    lock.lock();
    wanting_alone_ += empty;
    Status stopped;
    for (std::uint32_t seen; seen = changed_.seen(), !is_free();) {
      stopped = adding_ == process_.thread_id() || alone_ == process_.thread_id()
                    ? same_thread(function, process_.thread_id())
                    : signal.check("waiting for the queue");
      if (!stopped.ok()) break;
      lock.unlock();
      changed_.sleep(seen, signal.deadline_ns());
      lock.lock();
    }
    wanting_alone_ -= empty;
    if (!stopped.ok()) {
      changed_.wake();
      return stopped;
    }
  }
  alone_.store(process_.thread_id(), std::memory_order_relaxed);
  return {};
}

void RunQueue::leave() noexcept {
  alone_.store(0, std::memory_order_release);
  changed_.wake();
}

// ---- submission ---------------------------------------------------------------------------------

// Waits until this thread may add a run.
Status RunQueue::begin_adding(Lock &lock) {
  for (;;) {
    const std::uint32_t seen = changed_.seen();
    if (closing_) return closing();
    if (!adding_ && !alone_ && (!wanting_alone_ || on_own_thread())) break;
    if (adding_ == process_.thread_id() || alone_ == process_.thread_id())
      return same_thread("qr_session_submit", process_.thread_id());
    sleep(lock, seen);
  }
  const std::uint64_t under_way = submitted_ - ended_, depth = session_.core().queue_depth();
  if (under_way >= depth)
    return Status::errorf(ErrorId::queue_full,
                          "qr_session_submit: found %llu runs under way, expected fewer "
                          "than queue_depth, which is %llu",
                          under_way, depth);
  adding_ = process_.thread_id();
  return {};
}

void RunQueue::make_places() {
  const std::uint64_t depth = session_.core().queue_depth();
  slots_.reserve(depth);
  while (slots_.size() < depth) slots_.push_back(quarry::make_unique<RunSlot>(session_));
}

Status RunQueue::start() {
  if (started_) return {};
  started_ = os::start_thread(&thread_, "quarry-queue", serve, this);
  if (started_) return {};
  return Status::error(ErrorId::out_of_memory, "qr_session_submit: the system refuses a thread for the queue",
                       "use qr_session_run, or end other threads");
}

// What a run is made of, and the backend's part of the submission.
Status RunQueue::fill(RunSlot &slot, const qr_submit_options &options, const qr_tensor *const *inputs,
                      qr_tensor *const *outputs) {
  Signal *const callers = reinterpret_cast<Signal *>(options.signal);
  slot.signal->reset();
  const std::uint64_t until = callers ? callers->limit().deadline_ns : 0, now = loader::monotonic_ns();
  slot.signal->set_timeout(!until ? Signal::kNoLimit : until > now ? until - now : 0);
  slot.call.emplace(slot.signal.get());
  slot.link.emplace(callers, slot);
  slot.profile = Ref<Profile>(reinterpret_cast<Profile *>(options.profile));
  slot.self = options.self;
  slot.done = options.done;
  std::copy_n(outputs, slot.outputs.size(), slot.outputs.begin());
  QR_RETURN_IF_ERROR(session_.bind_run(*slot.frame, *slot.call, slot.profile.get(), session_.with_adapter(inputs),
                                       outputs, Session::Room::OfCaller));
  slot.is_submitted = slot.frame->execution->submits();
  if (!slot.is_submitted) return {};
  auto ticket = slot.frame->execution->submit(slot.frame->request);
  if (!ticket.ok()) return session_.core().device().note(ticket.take_status());
  slot.ticket_there = *ticket;
  return {};
}

Result<std::uint64_t> RunQueue::submit(const qr_submit_options &options, const qr_tensor *const *inputs,
                                       qr_tensor *const *outputs) {
  enter_process();
  std::uint64_t ticket;
  bool drop_retired;
  {
    Lock lock(mutex_);
    QR_RETURN_IF_ERROR(begin_adding(lock));
    ticket = submitted_ + 1;
    drop_retired = session_.has_retired() && first_after_change_ && ended_ >= first_after_change_;
  }
  // Nobody else changes the session until `adding_` is taken back.
  struct Adding {
    RunQueue &queue;
    bool added = false;
    ~Adding() {
      {
        const Lock lock(queue.mutex_);
        queue.adding_ = 0;
        queue.submitted_ += added;
      }
      queue.changed_.wake();
    }
  } adding{*this};
  if (drop_retired) {
    session_.drop_retired();
    first_after_change_ = 0;
  }
  if (slots_.size() < session_.core().queue_depth()) make_places();
  if (outcomes_.empty()) outcomes_ = Vector<Outcome>(std::max(kKeptOutcomes, 2 * session_.core().queue_depth()));
  QR_RETURN_IF_ERROR(start());
  RunSlot &slot = slot_of(ticket);
  if (Status refused = fill(slot, options, inputs, outputs); !refused.ok()) {
    slot.link.reset();
    slot.profile = {};
    return refused;
  }
  if (session_.has_retired() && !first_after_change_) first_after_change_ = ticket;
  adding.added = true;
  return ticket;
}

void RunQueue::abort(std::uint64_t ticket) noexcept {
  enter_process();
  const Lock lock(mutex_);
  for (std::uint64_t t = ended_ + 1; t <= submitted_; ++t)
    if (ticket == 0 || ticket == t) slot_of(t).signal->abort();
}

// ---- the thread ---------------------------------------------------------------------------------

void *RunQueue::serve(void *self) noexcept {
  static_cast<RunQueue *>(self)->serve();
  return nullptr;
}

void RunQueue::serve() noexcept {
  AllocatorScope scope(session_.core().runtime().memory());
  thread_id_.store(process_.thread_id(), std::memory_order_relaxed);
  Lock lock(mutex_);
  for (;;) {
    if (ended_ == submitted_) {
      if (closing_ && !adding_) return;
      sleep(lock, changed_.seen());
      continue;
    }
    const std::uint64_t ticket = ended_ + 1;
    RunSlot &slot = slot_of(ticket);
    lock.unlock();
    Status status;
    try {
      status = run(slot);
    } catch (const std::bad_alloc &) {
      status = Status::out_of_memory();
    }
    const auto done = slot.done;
    void *const self = slot.self;
    slot.link.reset();
    slot.profile = {};
    lock.lock();
    ended_ = ticket;  // the slot is free
    lock.unlock();
    changed_.wake();
    if (done) done(self, ticket, reinterpret_cast<qr_status *>(copy_of(status).release()));
    lock.lock();
    publish(ticket, std::move(status));
    changed_.wake();
  }
}

Status RunQueue::run(RunSlot &slot) {
  RunFrame &frame = *slot.frame;
  if (slot.is_submitted)
    return session_.finish_run(frame, frame.execution->wait(slot.ticket_there, frame.request), slot.outputs.data());
  QR_RETURN_IF_ERROR(session_.core().device().check("run"));
  QR_RETURN_IF_ERROR(slot.call->check("run"));
  if (frame.begin_ns) frame.begin_ns = loader::monotonic_ns();  // not while it was queued
  return session_.finish_run(frame, session_.execute(frame), slot.outputs.data());
}

// ---- outcomes -----------------------------------------------------------------------------------

void RunQueue::count_untold(std::int64_t change) noexcept {
  const bool before = untold_ != 0;
  untold_ += static_cast<std::uint64_t>(change);
  if (fd_ < 0 || before == (untold_ != 0)) return;
  if (before) os::lower_event(fd_);
  else os::raise_event(fd_);
}

void RunQueue::publish(std::uint64_t ticket, Status status) noexcept {
  told_ = ticket;
  bool given = false;
  for (Waiter *waiter = waiters_; waiter; waiter = waiter->next) {
    if (waiter->ticket != ticket) continue;
    waiter->ended = true;
    if (given) continue;
    waiter->given = given = true;
    waiter->status = std::move(status);
  }
  Outcome &slot = outcome_of(ticket);
  const bool forgets = slot.ticket != 0;
  slot.ticket = given ? 0 : ticket;
  slot.status = given ? Status() : std::move(status);
  count_untold((given ? 0 : 1) - (forgets ? 1 : 0));
}

Status RunQueue::wait(std::uint64_t ticket, const CallSignal &signal, bool *ended) {
  enter_process();
  QR_RETURN_IF_ERROR(refuse_own_thread("qr_session_wait"));
  const auto no_such = [&] {
    return Status::errorf(ErrorId::no_such_ticket,
                          "qr_session_wait: found ticket %llu, expected one of a run that is under way, or has "
                          "ended a short while ago and was not waited for",
                          ticket);
  };
  WakingFollower follower(changed_);
  const SignalLink link(signal.signal(), follower);
  Lock lock(mutex_);
  Waiter self{ticket, false, false, {}, nullptr};
  if (ticket != 0) {
    if (ticket > submitted_) return no_such();
    if (ticket <= told_) {
      Outcome &outcome = outcome_of(ticket);
      if (outcome.ticket != ticket) return no_such();
      outcome.ticket = 0;
      count_untold(-1);
      *ended = true;
      return std::exchange(outcome.status, Status());
    }
    self.next = std::exchange(waiters_, &self);
  }
  Status stopped;
  while (ticket == 0 ? told_ != submitted_ : !self.ended) {
    const std::uint32_t seen = changed_.seen();
    stopped = stopped_waiting(signal);
    if (!stopped.ok()) break;
    lock.unlock();
    changed_.sleep(seen, signal.deadline_ns());
    lock.lock();
  }
  *ended = stopped.ok();
  if (ticket == 0) return stopped;
  Waiter **at = &waiters_;
  while (*at != &self) at = &(*at)->next;
  *at = self.next;
  if (!stopped.ok()) return stopped;
  return self.given ? std::move(self.status) : no_such();
}

Result<int> RunQueue::completion_fd() {
  if constexpr (!os::kDescriptorsAreShared)
    return no_descriptors("qr_session_completion_fd", "wait by qr_session_wait, on a thread of your own");
  enter_process();
  const Lock lock(mutex_);
  if (fd_ < 0) fd_ = os::make_event(untold_ != 0);
  if (fd_ >= 0) return int{fd_};
  return Status::errorf(ErrorId::no_descriptor, "qr_session_completion_fd: the system gives no descriptor: %s",
                        os_error_text(errno));
}

bool RunQueue::close() noexcept {
  enter_process();
  if (on_own_thread()) return false;
  bool started;
  {
    Lock lock(mutex_);
    closing_ = true;
    changed_.wake();
    while (adding_) sleep(lock, changed_.seen());
    for (std::uint64_t t = ended_ + 1; t <= submitted_; ++t) slot_of(t).signal->abort();
    started = std::exchange(started_, false);
  }
  changed_.wake();
  if (started) {
    os::join_thread(thread_);
    thread_id_.store(0, std::memory_order_relaxed);  // another thread may get the number
  }
  return true;
}

}  // namespace quarry
