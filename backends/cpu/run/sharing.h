// SPDX-License-Identifier: Apache-2.0
// Which loops of a run are shared with the host's threads. To wake one takes some microseconds, more than a small loop
// saves; one that has just helped still looks for work. So small loops are run alone, until they have taken as long
// as makes a wake worth its while. How long loops take is measured as they run; results do not depend on it.
// Whether the other threads come soon enough, and whether their caches are near, depends on the machine and on what
// else it does: of short runs some are tried in each mode (as loops ask for it, alone, with the others woken at once),
// and the rest are made as took least time.
//
// Loops that take long are also cut into pieces of some milliseconds, between which it is asked whether to go on; where
// one task may take long the kernel asks (kernels::Parts). One that was stopped leaves its work half done, and so
// do all that follow.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/stop.h"
#include "kernels/cpu/kernel.h"
#include "quarry/backend.h"

namespace quarry::cpu {

class Sharing {
 public:
  // `bytes`: per step, what it reads and writes: the first guess at its time.
  template <class Notes>
  void expect(const Notes &notes) {
    for (const auto &note : notes) {
      const std::uint64_t guess = (note.bytes_read + note.bytes_written) / kBytesPerNs;
      alone_ns_.push_back(static_cast<std::uint32_t>(guess < kMost ? guess : kMost));
      longest_ns_.push_back(0);
    }
  }
  // `stop`: null where nobody can stop the run.
  kernels::Threads begin(const qr_host_threads *given, const qr_host &host, const StopSource *stop) noexcept {
    given_ = given, host_ = &host, stop_ = stop;
    stopped_.store(false, std::memory_order_relaxed);
    asked_ns_ = 0;
    saved_ns_ = last_ns_ = 0;
    const bool measured = !share_now_;
    // What the host makes when threads begin to work, it makes in the first run, and never again.
    share_now_ = all_ || first_;
    first_ = false;
    const bool one = !given || given->worker_count < 2;
    if (one) mode_ = kAlone, trial_ = false;
    else mode_ = share_now_ ? kAsked : choose(measured);
    run_begin_ns_ = run_end_ns_ = 0;
    if (mode_ == kAlone && !trial_ && !stop) return {};
    return {one || (mode_ == kAlone && !trial_) ? 1 : given->worker_count, this,
            [](void *self, std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) {
              static_cast<Sharing *>(self)->loop(count, grain, body, context);
            },
            stop ? +[](void *self) { return static_cast<Sharing *>(self)->asked(); } : nullptr};
  }
  void step(std::size_t index) noexcept { step_ = index; }
  bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }
  void share_all() noexcept { all_ = true; }  // for tests of what many workers do

 private:
  static constexpr std::uint64_t kWorthWaking = 30'000, kStillAwake = 20'000, kBytesPerNs = 10, kMost = 1u << 30;
  static constexpr std::uint64_t kShortRun = 1'000'000;
  // Pieces are made of such a length that they take a quarter of what they may: some of the memory may be new.
  static constexpr std::uint64_t kPiece = 4'000'000, kAim = kPiece / 4, kWorthAsking = 250'000;
  enum Mode : std::uint32_t { kAsked, kAlone, kAtOnce, kModes };
  // Of so many runs, the first ones are made in each mode in turn, for the machine's load changes. Of each mode the
  // quickest counts: interruptions say nothing.
  static constexpr std::uint32_t kRuns = 256, kTrials = 3 * kModes;

  // Takes the time of the run before, and says how this one is made.
  Mode choose(bool measured) noexcept {
    const std::uint64_t took = run_end_ns_ - run_begin_ns_;
    if (measured && trial_ && took > 0 && took < quickest_ns_[mode_]) quickest_ns_[mode_] = took;
    const std::uint32_t run = runs_++ % kRuns;
    if (run == 0)
      for (std::uint64_t &quickest : quickest_ns_) quickest = kMost;
    trial_ = run == 0 || (run < kTrials && quickest_ns_[kAsked] < kShortRun);
    if (trial_) return static_cast<Mode>(run % kModes);
    // Where it makes no difference, the other threads are left alone, or as long as may be.
    const auto little = [](std::uint64_t ns) { return ns + ns / 32; };
    const Mode shared = quickest_ns_[kAsked] <= little(quickest_ns_[kAtOnce]) ? kAsked : kAtOnce;
    return quickest_ns_[kAlone] < kMost && quickest_ns_[kAlone] <= little(quickest_ns_[shared]) ? kAlone : shared;
  }

  // On any thread.
  bool asked() noexcept {
    if (stopped()) return true;
    if (!stop_->stopped()) return false;
    stopped_.store(true, std::memory_order_relaxed);
    return true;
  }
  bool ask(std::uint64_t now) noexcept {
    asked_ns_ = now;
    return asked();
  }

  // A loop that takes long.
  struct Pieces {
    Sharing &sharing;
    std::uint64_t grain;
    qr_parallel_body body;
    void *context;
  };
  static void in_pieces(void *pieces, std::uint64_t begin, std::uint64_t end, std::uint32_t worker) noexcept {
    const Pieces &p = *static_cast<const Pieces *>(pieces);
    Sharing &sharing = p.sharing;
    std::uint64_t size = p.grain, before = sharing.host_->clock_ns(sharing.host_->self);
    for (std::uint64_t at = begin; at < end && !sharing.stopped();) {
      const std::uint64_t here = end - at < size + p.grain ? end - at : size;
      p.body(p.context, at, at + here, worker);
      at += here;
      if (at == end) return;
      const std::uint64_t now = sharing.host_->clock_ns(sharing.host_->self);
      if (sharing.asked()) return;
      const double by = static_cast<double>(kAim) / static_cast<double>(now > before ? now - before : 1);
      size = static_cast<std::uint64_t>(static_cast<double>(here) * std::clamp(by, 0.125, 16.0));
      size = std::max(size, p.grain);
      before = now;
    }
  }

  void loop(std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) noexcept {
    if (stopped()) return;
    std::uint32_t &alone_ns = alone_ns_[step_], &longest_ns = longest_ns_[step_];
    const std::uint64_t begin = host_->clock_ns(host_->self);
    Pieces pieces{*this, std::max<std::uint64_t>(grain, 1), body, context};
    if (stop_) {
      if (begin - asked_ns_ > kPiece && ask(begin)) return;
      // What it took the last time says more than the guess.
      if (longest_ns ? longest_ns > kPiece : alone_ns >= kWorthAsking) body = in_pieces, context = &pieces;
    }
    if (run_begin_ns_ == 0) run_begin_ns_ = begin;
    const bool shared =
        mode_ != kAlone && (share_now_ || (last_ns_ == 0 ? mode_ == kAtOnce : begin - last_ns_ < kStillAwake) ||
                            saved_ns_ + alone_ns >= kWorthWaking);
    if (shared) given_->parallel_for(given_->self, count, grain, body, context);
    else body(context, 0, count, 0);
    const std::uint64_t end = host_->clock_ns(host_->self);
    run_end_ns_ = end;
    const std::uint64_t took = end - begin < kMost ? end - begin : kMost;
    if (!stopped()) longest_ns = std::max(longest_ns - longest_ns / 8, static_cast<std::uint32_t>(took));
    if (shared) {
      saved_ns_ = 0, last_ns_ = end;
      // No more than all of them together: a guess that was too high is mended.
      const std::uint64_t most = took * given_->worker_count;
      if (most < alone_ns) alone_ns = static_cast<std::uint32_t>(most);
    } else {
      saved_ns_ += took;
      alone_ns = static_cast<std::uint32_t>((alone_ns + took) / 2);
    }
  }

  const qr_host_threads *given_ = nullptr;
  const qr_host *host_ = nullptr;
  const StopSource *stop_ = nullptr;
  std::atomic<bool> stopped_{false};
  std::uint64_t asked_ns_ = 0;        // when it was asked between loops
  Vector<std::uint32_t> alone_ns_;    // per step: a loop of it on one thread
  Vector<std::uint32_t> longest_ns_;  // per step: its longest loop, of late; 0: none yet
  std::size_t step_ = 0;
  bool all_ = false, first_ = true, share_now_ = false;
  std::uint64_t saved_ns_ = 0;  // of loops that were run alone since the last that was shared
  std::uint64_t last_ns_ = 0;   // when that ended; 0: not in this run
  Mode mode_ = kAsked;          // this run's
  bool trial_ = false;          // it is one of those that are timed
  std::uint32_t runs_ = 0;      // that were chosen for
  std::uint64_t quickest_ns_[kModes] = {kMost, kMost, kMost};  // of the trials
  std::uint64_t run_begin_ns_ = 0, run_end_ns_ = 0;            // of this run's loops; 0: none yet
};

}  // namespace quarry::cpu
