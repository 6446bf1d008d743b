// SPDX-License-Identifier: Apache-2.0
// Runs that were submitted: on the library's own threads (graphExecuteAsync) where it has them, several of one session
// at a time. They have the turn of the process's queue together, for as long as nobody else waits for it. The emulator
// refuses such runs; then each is done by who waits for it.
#pragma once

#include <condition_variable>
#include <optional>

#include "backends/htp/run/execution.h"
#include "backends/htp/run/profile.h"

namespace quarry::htp {

class SubmittedRuns {
 public:
  SubmittedRuns(Execution &execution, std::uint64_t depth, const qr_host &host);

  // Begins the run if that is possible at once; else wait() does. The request stays until its ticket was waited for.
  Result<std::uint64_t> submit(const qr_run_request &request);
  Status wait(std::uint64_t ticket);  // oldest first

 private:
  struct Run : HeapObject {
    explicit Run(SubmittedRuns &runs) : owner(runs), binding(runs.execution_.graph()) {}
    SubmittedRuns &owner;
    Binding binding;
    const qr_run_request *request = nullptr;
    std::uint32_t generation = 0;  // of the context, when it was submitted
    std::optional<plugin::StopToken> stop;
    std::optional<plugin::DmaAccess> access;
    std::optional<ProfiledCall> profiled;
    std::optional<Interrupter::Call> interrupted;
    Status status;  // why it never got to the library
    bool begun = false, ended = false, has_votes = false;
    qnn::Error error = qnn::kOk;  // the library's, in the end
  };
  using Lock = std::unique_lock<std::mutex>;
  Run &run_of(std::uint64_t ticket) noexcept { return *runs_[(ticket - 1) % runs_.size()]; }
  bool may_begin(std::uint64_t ticket) noexcept;
  void begin(Run &run, Lock &lock);
  Status prepare(Run &run);
  void end(Run &run, qnn::Error error) noexcept;
  void leave() noexcept;
  Status finish(Run &run);

  Execution &execution_;
  const qr_host &host_;
  Vector<Unique<Run>> runs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t submitted_ = 0, begun_ = 0;  // so many
  std::uint64_t in_library_ = 0;
  bool has_turn_ = false;      // of the process's queue; given back when the last in the library has ended
  bool is_beginning_ = false;  // one thread at a time, in the order of submission
};

}  // namespace quarry::htp
