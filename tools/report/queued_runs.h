// SPDX-License-Identifier: Apache-2.0
// How many runs a second a session does when several are under way in its queue.
#pragma once

#include <quarry/quarry.hpp>

#include <cstdint>
#include <vector>

namespace tools {

struct QueuedRuns {
  double wall_ms = 0;
  std::vector<double> times;  // of one run each in ms, from its submission to its end
};

// Keeps `depth` runs under way until `most` have ended or `duration_ms` are over; one run at least. The option
// "queue_depth" of the session allows as many. `made`: outputs of a run before, whose room the queued ones need too.
// Ends early when the program is interrupted: `signal` stops the runs then.
QueuedRuns run_queued(qr::Session &session, const std::vector<qr::Tensor> &inputs, const std::vector<qr::Tensor> &made,
                      uint64_t depth, uint64_t most, double duration_ms, qr::Signal &signal);

}  // namespace tools
