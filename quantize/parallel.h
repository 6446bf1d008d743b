// SPDX-License-Identifier: Apache-2.0
// This library's own work on several threads.
#pragma once

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "quantize/stop.h"

namespace quarry::quantize {

// Calls body(0), ..., body(count - 1) on several threads, each of which asks the signal. Not ok: they were to
// stop, and left work half done.
template <class Body>
Status in_parallel(std::size_t count, unsigned threads, qr_signal *signal, const Body &body) {
  const SignalSource source(signal);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> out_of_memory{false}, stopped{false};
  const auto work = [&]() noexcept {
    const StopScope scope(source);
    try {
      for (std::size_t i = next++; i < count && !out_of_memory && !stop_asked(); i = next++) body(i);
    } catch (const std::bad_alloc &) {
      out_of_memory = true;
    }
    if (stop_asked()) stopped = true;
  };
  std::vector<std::thread> others;
  try {
    for (unsigned i = 1; i < threads && i < count; ++i) others.emplace_back(work);
  } catch (const std::system_error &) {  // no more threads to be had: those that there are do it
  }
  work();
  for (std::thread &thread : others) thread.join();
  if (out_of_memory) throw std::bad_alloc();
  if (!stopped) return {};
  Status status = source.status(kStopped);
  return status.ok() ? Status::error(ErrorId::cancelled, kStopped) : std::move(status);  // the abort was taken back
}

}  // namespace quarry::quantize
