// SPDX-License-Identifier: Apache-2.0
#include "base/os/processor.h"

#include <algorithm>
#include <cstdio>

#include "base/os/windows/system.h"

namespace quarry::os {
namespace {

constexpr wchar_t kProcessorKey[] = L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0";

}  // namespace

// Windows names fewer. A processor with dot products is one of Armv8.2 at least, which has what 8.1 asks for; whether
// it computes in f16 says one of its own registers, which Windows keeps a copy of.
FeatureWords processor_features() noexcept {
#if defined(__aarch64__)
  constexpr DWORD kNeon = 19, kCrc32 = 31, kAtomics = 34, kDotProducts = 43, kSve = 46, kI8mm = 66, kBf16 = 68;
  FeatureWords out{};
  const auto add = [](DWORD feature, std::uint64_t bits, std::uint64_t &word) {
    if (IsProcessorFeaturePresent(feature)) word |= bits;
  };
  add(kNeon, kArmNeon, out.first);
  add(kCrc32, kArmCrc32, out.first);
  add(kAtomics, kArmAtomics, out.first);
  add(kDotProducts, kArmDotProducts | kArmRoundingProducts | kArmAtomics | kArmCrc32, out.first);
  add(kSve, kArmSve, out.first);
  add(kI8mm, kArmSecondI8mm, out.second);
  add(kBf16, kArmSecondBf16, out.second);
  std::uint64_t about = 0;  // ID_AA64PFR0_EL1: fields of four bits, 1: with f16
  DWORD size = sizeof about;
  if (RegGetValueW(HKEY_LOCAL_MACHINE, kProcessorKey, L"CP 4020", RRF_RT_REG_QWORD, nullptr, &about, &size) ==
      ERROR_SUCCESS) {
    if ((about >> 16 & 15) == 1) out.first |= kArmHalf;
    if ((about >> 20 & 15) == 1) out.first |= kArmNeonHalf;
  }
  return out;
#else
  return {};  // nobody asks: the processor says it
#endif
}

std::string_view processor_model(std::span<char> buffer) noexcept {
  wchar_t room[256];
  DWORD size = sizeof room;
  if (RegGetValueW(HKEY_LOCAL_MACHINE, kProcessorKey, L"ProcessorNameString", RRF_RT_REG_SZ, nullptr, room, &size) !=
      ERROR_SUCCESS)
    return {};
  const int got = WideCharToMultiByte(CP_UTF8, 0, room, -1, buffer.data(), static_cast<int>(buffer.size()), nullptr,
                                      nullptr);  // with its NUL
  std::string_view model(buffer.data(), got > 0 ? static_cast<std::size_t>(got) - 1 : 0);
  while (model.ends_with(' ')) model.remove_suffix(1);
  return model;
}

std::string_view processor_kind(std::span<char> buffer) noexcept {
  SYSTEM_INFO info;
  GetNativeSystemInfo(&info);
  const std::string_view kind = info.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_AMD64   ? "x86_64"
                                : info.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_ARM64 ? "aarch64"
                                                                                              : "";
  return {buffer.data(), kind.copy(buffer.data(), buffer.size())};
}

std::uint64_t memory_bytes() noexcept {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}

// Windows 11 would give them to a program that asks (EnableProcessOptionalXStateFeatures); nobody has tried it with our
// kernels.
bool allow_tiles() noexcept { return false; }

std::uint32_t processor_count() noexcept { return GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); }

double load_of_last_minute() noexcept { return -1; }

std::string_view clock_governor(std::span<char>) noexcept { return {}; }

// GetVersion() says what the program's manifest names.
std::string_view system_name(std::span<char> buffer) noexcept {
  using Version = LONG(WINAPI *)(RTL_OSVERSIONINFOW *);
  const HMODULE library = GetModuleHandleW(L"ntdll.dll");
  const auto version =
      reinterpret_cast<Version>(reinterpret_cast<void *>(library ? GetProcAddress(library, "RtlGetVersion") : nullptr));
  RTL_OSVERSIONINFOW info{};
  info.dwOSVersionInfoSize = sizeof info;
  if (!version || version(&info) != 0) return "Windows";
  const int size = std::snprintf(buffer.data(), buffer.size(), "Windows %lu.%lu.%lu", info.dwMajorVersion,
                                 info.dwMinorVersion, info.dwBuildNumber);
  return {buffer.data(), std::min(static_cast<std::size_t>(size), buffer.size() - 1)};
}

}  // namespace quarry::os
