// SPDX-License-Identifier: Apache-2.0
#include "base/os/processor.h"

#include <sys/sysctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace quarry::os {
namespace {

std::uint64_t number_of(const char *name) noexcept {
  std::uint64_t value = 0;  // of 4 bytes or of 8; every Mac is little-endian
  std::size_t size = sizeof value;
  return ::sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

std::string_view text_of(const char *name, std::span<char> buffer) noexcept {
  std::size_t size = buffer.size();
  if (::sysctlbyname(name, buffer.data(), &size, nullptr, 0) != 0) return {};
  return {buffer.data(), strnlen(buffer.data(), size)};
}

}  // namespace

FeatureWords processor_features() noexcept {
#if defined(__aarch64__)
  constexpr struct {
    const char *name;
    std::uint64_t first, second;
  } kFeatures[] = {
      {"hw.optional.armv8_crc32", kArmCrc32, 0},
      {"hw.optional.arm.FEAT_LSE", kArmAtomics, 0},
      {"hw.optional.arm.FEAT_FP16", kArmHalf | kArmNeonHalf, 0},
      {"hw.optional.arm.FEAT_RDM", kArmRoundingProducts, 0},
      {"hw.optional.arm.FEAT_DotProd", kArmDotProducts, 0},
      {"hw.optional.arm.FEAT_I8MM", 0, kArmSecondI8mm},
      {"hw.optional.arm.FEAT_BF16", 0, kArmSecondBf16},
  };
  FeatureWords out{kArmNeon, 0};
  for (const auto &[name, first, second] : kFeatures)
    if (number_of(name) != 0) out.first |= first, out.second |= second;
  return out;
#else
  return {};
#endif
}

std::string_view processor_model(std::span<char> buffer) noexcept {
  return text_of("machdep.cpu.brand_string", buffer);
}

std::string_view processor_kind(std::span<char> buffer) noexcept {
  utsname machine{};
  const std::string_view kind = ::uname(&machine) == 0 ? machine.machine : "";
  return {buffer.data(), kind.copy(buffer.data(), buffer.size())};
}

std::uint64_t memory_bytes() noexcept { return number_of("hw.memsize"); }

bool allow_tiles() noexcept { return false; }

std::uint32_t processor_count() noexcept {
  const long count = ::sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<std::uint32_t>(count) : 1;
}

double load_of_last_minute() noexcept {
  double load;
  return ::getloadavg(&load, 1) == 1 ? load : -1;
}

std::string_view clock_governor(std::span<char>) noexcept { return {}; }

std::string_view system_name(std::span<char> buffer) noexcept {
  char room[64];
  const std::string_view version = text_of("kern.osproductversion", room);
  const int size =
      std::snprintf(buffer.data(), buffer.size(), "macOS %.*s", static_cast<int>(version.size()), version.data());
  return {buffer.data(), std::min(static_cast<std::size_t>(size), buffer.size() - 1)};
}

}  // namespace quarry::os
