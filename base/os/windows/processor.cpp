// SPDX-License-Identifier: Apache-2.0
#include "base/os/processor.h"

#include <algorithm>
#include <cstdio>

#include "base/os/windows/system.h"

namespace quarry::os {

// Windows has other words for them (IsProcessorFeaturePresent); only Arm's kernels ask.
FeatureWords processor_features() noexcept { return {0, 0}; }

std::string_view processor_model(std::span<char> buffer) noexcept {
  wchar_t room[256];
  DWORD size = sizeof room;
  if (RegGetValueW(HKEY_LOCAL_MACHINE, L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0", L"ProcessorNameString",
                   RRF_RT_REG_SZ, nullptr, room, &size) != ERROR_SUCCESS)
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
