// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/qnn/script.h"

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace standin {
namespace {

struct State {
  State() {
    if (const char *given = std::getenv("QNN_STANDIN")) read(given);
    if (const char *path = std::getenv("QNN_STANDIN_LOG")) log = std::fopen(path, "a");
  }
  void read(const std::string &text) {
    settings.clear();
    calls.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(';', at), text.size()), equals = text.find('=', at);
      if (equals < end) settings.emplace_back(text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1));
      at = end + 1;
    }
    is_told = !settings.empty();
  }
  std::mutex mutex;
  std::vector<std::pair<std::string, std::string>> settings;
  std::map<std::string, unsigned> calls;
  std::atomic<bool> is_told{false};
  std::atomic<std::FILE *> log{nullptr};
};

State &state() {
  static State *const made = new State;  // the libraries are never closed
  return *made;
}

// "graphExecute:1011:2:1" -> 1011, 2, 1 for the call graphExecute; false for another.
bool read_rule(const std::string &rule, const char *call, unsigned (&numbers)[3]) {
  const std::size_t colon = std::min(rule.find(':'), rule.size());
  if (rule.compare(0, colon, call) != 0) return false;
  if (colon < rule.size()) std::sscanf(rule.c_str() + colon, ":%u:%u:%u", &numbers[0], &numbers[1], &numbers[2]);
  return true;
}

}  // namespace

std::string setting(const char *key, const char *fallback) {
  const std::lock_guard lock(state().mutex);
  std::string found = fallback;
  for (const auto &[name, value] : state().settings)
    if (name == key) found = value;
  return found;
}

quarry::qnn::Version version(const char *key, const char *fallback) {
  quarry::qnn::Version made{};
  std::sscanf(setting(key, fallback).c_str(), "%u.%u.%u", &made.major, &made.minor, &made.patch);
  return made;
}

bool is_listed(const char *key, const std::string &value) {
  if (!state().is_told) return false;
  const std::lock_guard lock(state().mutex);
  for (const auto &[name, given] : state().settings)
    if (name == key && given == value) return true;
  return false;
}

Error meet(const char *call) {
  if (!state().is_told) return 0;
  unsigned wait = 0;
  Error error = 0;
  {
    const std::lock_guard lock(state().mutex);
    const unsigned time = ++state().calls[call];
    for (const auto &[name, value] : state().settings) {
      unsigned numbers[3] = {0, 1, 0};
      if (name == "slow" && read_rule(value, call, numbers)) wait = numbers[0];
      if (name == "fail" && read_rule(value, call, numbers) && time >= numbers[1] &&
          (numbers[2] == 0 || time < numbers[1] + numbers[2]))
        error = numbers[0];
    }
  }
  if (wait > 0) usleep(wait);
  if (error != 0) record("%s -> %u", call, static_cast<unsigned>(error));
  return error;
}

bool hangs(const char *call) { return is_listed("hang", call); }

void record(const char *pattern, ...) {
  std::FILE *const log = state().log;
  if (!log) return;
  const std::lock_guard lock(state().mutex);
  va_list arguments;
  va_start(arguments, pattern);
  std::vfprintf(log, pattern, arguments);
  va_end(arguments);
  std::fputc('\n', log);
  std::fflush(log);
}

}  // namespace standin

extern "C" __attribute__((visibility("default"))) void qnn_standin_script(const char *text) {
  const std::lock_guard lock(standin::state().mutex);
  standin::state().read(text);
}
extern "C" __attribute__((visibility("default"))) void qnn_standin_log(const char *path) {
  const std::lock_guard lock(standin::state().mutex);
  if (std::FILE *const before = standin::state().log.exchange(path ? std::fopen(path, "w") : nullptr))
    std::fclose(before);
}
