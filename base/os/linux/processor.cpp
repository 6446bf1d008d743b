// SPDX-License-Identifier: Apache-2.0
#include "base/os/processor.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/os/mapping.h"

namespace quarry::os {
namespace {

// What a file of the system's begins with, as much as there is room for.
std::string_view begin_of(const char *path, std::span<char> buffer) noexcept {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? 0 : ::read(file, buffer.data(), buffer.size());
  if (file >= 0) ::close(file);
  return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

}  // namespace

FeatureWords processor_features() noexcept { return {::getauxval(AT_HWCAP), ::getauxval(AT_HWCAP2)}; }

std::string_view processor_model(std::span<char> buffer) noexcept {
  const std::string_view info = begin_of("/proc/cpuinfo", buffer);
  std::size_t key = info.find("model name");
  if (key == info.npos) key = info.rfind("Hardware");  // Arm, where the board is named
  const std::size_t colon = key == info.npos ? key : info.find(": ", key);
  return colon == info.npos ? "" : info.substr(colon + 2, info.find('\n', colon) - colon - 2);
}

std::string_view processor_kind(std::span<char> buffer) noexcept {
  utsname machine{};
  const std::string_view kind = ::uname(&machine) == 0 ? machine.machine : "";
  return {buffer.data(), kind.copy(buffer.data(), buffer.size())};
}

std::uint64_t memory_bytes() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<std::uint64_t>(pages) * page_size() : 0;
}

bool allow_tiles() noexcept {
#if defined(__x86_64__)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

std::uint32_t processor_count() noexcept {
  const long count = ::sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<std::uint32_t>(count) : 1;
}

double load_of_last_minute() noexcept {
  double load;
  return ::getloadavg(&load, 1) == 1 ? load : -1;
}

std::string_view clock_governor(std::span<char> buffer) noexcept {
  const std::string_view line = begin_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", buffer);
  return line.substr(0, line.find('\n'));
}

std::string_view system_name(std::span<char> buffer) noexcept {
  utsname system{};
  if (::uname(&system) != 0) return {};
  const int size = std::snprintf(buffer.data(), buffer.size(), "%s %s", system.sysname, system.release);
  return {buffer.data(), std::min(static_cast<std::size_t>(size), buffer.size() - 1)};
}

}  // namespace quarry::os
