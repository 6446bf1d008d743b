// SPDX-License-Identifier: Apache-2.0
// How long it takes to open a model and to make a session of it, in time of the processor: others on the machine do
// not count.
#pragma once

#include <ctime>
#include <string>

#include "quarry/quarry.hpp"

namespace quarry::test {

inline double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Creation {
  double open = 0, create = 0;  // seconds
};
inline Creation create_session(const std::string &model, const char *backend) {
  qr::Runtime runtime;
  qr::Options options(runtime);
  options.set("backend", backend);
  options.set("threads", "1");
  const double begin = processor_seconds();
  const qr::Model opened(runtime, model.data(), model.size());
  const double between = processor_seconds();
  const qr::Session session(opened, &options);
  return {between - begin, processor_seconds() - between};
}

}  // namespace quarry::test
