// SPDX-License-Identifier: Apache-2.0
#include "tools/command/environment.h"

#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <quarry/quarry.hpp>

#include "base/os/process.h"
#include "base/os/processor.h"
#include "base/os/thread.h"

namespace tools {
namespace os = quarry::os;

namespace {

using nlohmann::json;

json or_null(std::string_view text) { return text.empty() ? json() : json(text); }

json usable_processors() {
  const size_t count = os::usable_processor_set().count();
  return count ? json(count) : json();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[32] = "";
  if (const std::tm *const parts = std::gmtime(&now)) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", parts);
  return text;
}

}  // namespace

json environment() {
  std::vector<char> processor(1 << 16);  // of /proc/cpuinfo, at whose end boards with Arm have their name
  char kind[64], governor[64], system[256];
  const double load = os::load_of_last_minute();
  return {{"processor", or_null(os::processor_model(processor))},
          {"machine", or_null(os::processor_kind(kind))},
          {"cpu_features", qr_runtime_cpu_features(qr::Runtime().get())},
          {"processors_online", os::processor_count()},
          {"processors_usable", usable_processors()},
          {"governor", or_null(os::clock_governor(governor))},
          {"load_1min", load < 0 ? json() : json(load)},
          {"system", os::system_name(system)},
          {"version", qr_version()},
          {"commit", commit()},
          {"compiler", __VERSION__},
#ifdef __OPTIMIZE__
          {"optimized", true},
#else
          {"optimized", false},
#endif
          {"time", utc_now()}};
}

double processor_ms() {
#if defined(CLOCK_PROCESS_CPUTIME_ID)
  timespec time{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0)
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
#endif
  return 0;
}

}  // namespace tools
