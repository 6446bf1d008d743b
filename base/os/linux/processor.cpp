// SPDX-License-Identifier: Apache-2.0
#include "base/os/processor.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/os/mapping.h"

namespace quarry::os {

FeatureWords processor_features() noexcept { return {::getauxval(AT_HWCAP), ::getauxval(AT_HWCAP2)}; }

std::string_view processor_model(std::span<char> buffer) noexcept {
  const int file = ::open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? 0 : ::read(file, buffer.data(), buffer.size());
  if (file >= 0) ::close(file);
  const std::string_view info(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t key = info.find("model name");
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

}  // namespace quarry::os
