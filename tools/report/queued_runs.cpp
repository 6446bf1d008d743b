// SPDX-License-Identifier: Apache-2.0
#include "tools/report/queued_runs.h"

#include <chrono>
#include <deque>

#include "tools/console/failure.h"
#include "tools/console/interrupt.h"

namespace tools {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

// The tensors of a run that is under way.
struct RunSlot {
  std::vector<std::vector<uint8_t>> room;
  std::vector<qr::Tensor> outputs;
  uint64_t ticket = 0;
  Clock::time_point begin;
};

// Nothing is under way any more when the slots go.
struct Ending {
  qr::Session &session;
  ~Ending() {
    session.abort();
    (void)session.try_wait();
  }
};

}  // namespace

QueuedRuns run_queued(qr::Session &session, const std::vector<qr::Tensor> &inputs, const std::vector<qr::Tensor> &made,
                      uint64_t depth, uint64_t most, double duration_ms, qr::Signal &signal) {
  QueuedRuns out;
  std::deque<RunSlot> places(depth);
  for (RunSlot &place : places)
    for (size_t i = 0; i < made.size(); ++i) {
      place.room.push_back(room_for(made[i].size_bytes, "an output of a queued run"));
      place.outputs.emplace_back(made[i].dtype, made[i].shape(), place.room.back().data());
    }
  const Ending ending{session};
  qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
  how.signal = signal.get();
  uint64_t submitted = 0;
  const Clock::time_point start = Clock::now();
  const auto submit = [&](RunSlot &place) {
    place.begin = Clock::now();
    place.ticket = session.submit(inputs, place.outputs, &how);
    ++submitted;
  };
  const auto wants_more = [&] {
    return !interrupted() && submitted < most && (submitted == 0 || ms_between(start, Clock::now()) < duration_ms);
  };
  try {
    for (uint64_t i = 0; i < depth && wants_more(); ++i) submit(places[i]);
    for (uint64_t ended = 0; ended < submitted; ++ended) {  // they end in the order of their submission
      RunSlot &place = places[ended % depth];
      session.wait(place.ticket);
      const Clock::time_point end = Clock::now();
      out.times.push_back(ms_between(place.begin, end));
      out.wall_ms = ms_between(start, end);
      if (wants_more()) submit(place);
    }
  } catch (const qr::Error &error) {
    if (!interrupted() || error.code() != QR_CANCELLED) throw;
  }
  return out;
}

}  // namespace tools
