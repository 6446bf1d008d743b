// SPDX-License-Identifier: Apache-2.0
// submit and wait of the scripted backend: a thread of an execution's own that runs what was submitted, in order.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "backends/common/plugin_support.h"

namespace quarry::scripted {

#ifdef SCRIPTED_SUBMITS
constexpr bool kSubmits = true;
#else
constexpr bool kSubmits = false;
#endif

class RunQueue {
 public:
  using Run = Status (*)(qr_execution &, const qr_run_request &);
  RunQueue(qr_execution &execution, Run run, Allocator &allocator, std::uint64_t depth)
      : execution_(execution), run_(run), allocator_(allocator), places_(depth) {}
  ~RunQueue();

  Result<std::uint64_t> submit(const qr_run_request &request);
  Status wait(std::uint64_t ticket);

 private:
  struct RunSlot {
    const qr_run_request *request = nullptr;
    Status status;
  };
  void serve();

  qr_execution &execution_;
  const Run run_;
  Allocator &allocator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;  // from the first submission on
  const pid_t process_ = getpid();
  bool stop_ = false;
  std::uint64_t submitted_ = 0, ended_ = 0, waited_ = 0;
  Vector<RunSlot> places_;
};

// The slots.
qr_plugin_code execution_submit(qr_execution *execution, const qr_run_request *request, std::uint64_t *out_ticket,
                                const qr_error_sink *errors);
qr_plugin_code execution_wait(qr_execution *execution, std::uint64_t ticket, const qr_error_sink *errors);

}  // namespace quarry::scripted
