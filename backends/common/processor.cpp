// SPDX-License-Identifier: Apache-2.0
#include "backends/common/processor.h"

#include <cstring>
#include <span>
#include <string_view>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/os/processor.h"

namespace quarry::plugin {

namespace {

// What the processor or the system calls it, within `buffer`; empty where neither does.
std::string_view model_name(std::span<char> buffer) noexcept {
#if defined(__x86_64__)
  // The system has it from there too, and to print it takes a tenth of the time of making a session.
  constexpr unsigned kFirst = 0x80000002u, kParts = 3;
  unsigned words[4 * kParts] = {}, most, unused;
  __cpuid(0x80000000u, most, unused, unused, unused);
  const bool told = most >= kFirst + kParts - 1;
  for (unsigned i = 0; told && i < kParts; ++i)
    __cpuid(kFirst + i, words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  std::memcpy(buffer.data(), words, sizeof words);
  std::string_view name(buffer.data(), told ? strnlen(buffer.data(), sizeof words) : 0);
  const std::size_t first = name.find_first_not_of(' ');
  return first == std::string_view::npos ? "" : name.substr(first, name.find_last_not_of(' ') + 1 - first);
#else
  return os::processor_model(buffer);
#endif
}

}  // namespace

void processor_name(char *name, std::size_t room) noexcept {
  char buffer[4096];
  std::string_view found = model_name(buffer);
  if (found.empty()) found = os::processor_kind(buffer);
  if (found.empty()) found = "cpu";
  found = found.substr(0, room - 1);
  found.copy(name, found.size());
  name[found.size()] = '\0';
}

}  // namespace quarry::plugin
