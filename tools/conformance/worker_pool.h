// SPDX-License-Identifier: Apache-2.0
// Runs numbered jobs in child processes, so that a job that crashes or hangs costs only itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tools {

// `job(i)` runs in a child and returns a text without line breaks; `done(i, text, died)` runs in the caller, in order
// of completion. A child that dies or exceeds the time is replaced; its job is reported with `died` true and text
// saying how ("killed by signal 11 (SIGSEGV)"). Once `stop()` is true the jobs that are under way are given up, and
// neither those nor the rest are reported.
void run_in_workers(uint64_t count, int workers, double timeout_s, const std::function<std::string(uint64_t)> &job,
                    const std::function<void(uint64_t, const std::string &, bool died)> &done,
                    const std::function<bool()> &stop);

}  // namespace tools
