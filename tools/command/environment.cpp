// SPDX-License-Identifier: Apache-2.0
#include "tools/command/environment.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include <quarry/quarry.hpp>

#include "base/os/thread.h"

namespace tools {
namespace {

using nlohmann::json;

json or_null(const std::string &text) { return text.empty() ? json() : json(text); }

std::string first_line(const char *path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value of the first line "KEY : value" of a file of /proc.
std::string proc_value(const char *path, const std::string &key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.compare(0, key.size(), key) != 0 || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

json usable_processors() {
  const size_t count = quarry::os::usable_processor_set().count();
  return count ? json(count) : json();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&now, &parts)) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

json environment() {
  std::string processor = proc_value("/proc/cpuinfo", "model name");
  if (processor.empty()) processor = proc_value("/proc/cpuinfo", "Hardware");  // Arm, where the board is named
  utsname system{};
  uname(&system);
  double load[1] = {0};
  return {{"processor", or_null(processor)},
          {"machine", or_null(system.machine)},
          {"cpu_features", qr_runtime_cpu_features(qr::Runtime().get())},
          {"processors_online", sysconf(_SC_NPROCESSORS_ONLN)},
          {"processors_usable", usable_processors()},
          {"governor", or_null(first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))},
          {"load_1min", getloadavg(load, 1) == 1 ? json(load[0]) : json()},
          {"system", std::string(system.sysname) + " " + system.release},
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

PeakMemory peak_memory() {
  if (const long kb = std::strtol(proc_value("/proc/self/status", "VmHWM").c_str(), nullptr, 10); kb > 0)
    return {kb, "VmHWM"};
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > 0) return {usage.ru_maxrss, "ru_maxrss"};
  return {0, "none"};
}

}  // namespace tools
