// SPDX-License-Identifier: Apache-2.0
// In place of worker_pool.cpp where there is no fork(): the jobs run in this process, so none of them is survived.
#include "tools/conformance/worker_pool.h"

namespace tools {

void run_in_workers(uint64_t count, int, double, const std::function<std::string(uint64_t)> &job,
                    const std::function<void(uint64_t, const std::string &, bool died)> &done,
                    const std::function<bool()> &stop) {
  for (uint64_t i = 0; i < count && !stop(); ++i) done(i, job(i), false);
}

}  // namespace tools
