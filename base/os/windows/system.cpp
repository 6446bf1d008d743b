// SPDX-License-Identifier: Apache-2.0
#include "base/os/windows/system.h"

#include <io.h>

#include <algorithm>
#include <cerrno>

#include "base/os/path.h"

namespace quarry::os {
namespace {

constexpr std::size_t kLongest = 247;  // a folder's name may be no longer without the prefix
constexpr std::wstring_view kPrefix = L"\\\\?\\", kNetwork = L"UNC\\";
constexpr DWORD kRoom = 32768;  // the longest path there is

bool is_as_it_is(const wchar_t *text) noexcept {
  return text[0] == L'\\' && text[1] == L'\\' && (text[2] == L'?' || text[2] == L'.') && text[3] == L'\\';
}

wchar_t *new_text(std::size_t size) noexcept {
  auto *const text = static_cast<wchar_t *>(try_allocate_block((size + 1) * sizeof(wchar_t), alignof(wchar_t)));
  if (!text) errno = ENOMEM;
  return text;
}

}  // namespace

int number_of(DWORD error) noexcept {
  switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
    case ERROR_BAD_PATHNAME: return ENOENT;
    case ERROR_ACCESS_DENIED: return EACCES;
    case ERROR_TOO_MANY_OPEN_FILES: return EMFILE;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT: return ENOMEM;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL: return ENOSPC;
    case ERROR_INVALID_HANDLE: return EBADF;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS: return EEXIST;
    case ERROR_NO_UNICODE_TRANSLATION: return EILSEQ;
    default: return error < kWindowsError ? static_cast<int>(error) | kWindowsError : EIO;
  }
}

bool fail(int number) noexcept {
  errno = number;
  return false;
}

bool fail() noexcept { return fail(number_of(GetLastError())); }

Wide::Wide(std::string_view utf8) noexcept {
  const int bytes = static_cast<int>(std::min<std::size_t>(utf8.size(), kRoom * 4));
  const int size = bytes ? MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8.data(), bytes, nullptr, 0) : 0;
  if (bytes && size <= 0) {
    fail();
    return;
  }
  text_ = new_text(static_cast<std::size_t>(size));
  if (!text_) return;
  if (size) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8.data(), bytes, text_, size);
  text_[size] = L'\0';
  if (static_cast<std::size_t>(size) > kLongest && !is_as_it_is(text_)) lengthen();
}

void Wide::lengthen() noexcept {
  wchar_t *const made = new_text(kRoom + kPrefix.size() + kNetwork.size());
  if (!made) return;  // it may be short enough as it is
  wchar_t *const full = made + kPrefix.size() + kNetwork.size();
  const DWORD size = GetFullPathNameW(text_, kRoom, full, nullptr);
  if (size == 0 || size >= kRoom || is_as_it_is(full)) return free_block(made);
  const bool is_network = full[0] == L'\\' && full[1] == L'\\';
  wchar_t *to = std::copy(kPrefix.begin(), kPrefix.end(), made);
  if (is_network) to = std::copy(kNetwork.begin(), kNetwork.end(), to);
  std::copy(full + (is_network ? 2 : 0), full + size + 1, to);
  free_block(text_);
  text_ = made;
}

String narrow(std::wstring_view text) {
  const int units = static_cast<int>(text.size());
  const int size = units ? WideCharToMultiByte(CP_UTF8, 0, text.data(), units, nullptr, 0, nullptr, nullptr) : 0;
  String out(static_cast<std::size_t>(std::max(size, 0)), '\0');
  if (size > 0) WideCharToMultiByte(CP_UTF8, 0, text.data(), units, out.data(), size, nullptr, nullptr);
  return out;
}

String narrow_path(std::wstring_view path) {
  const bool has_prefix = path.starts_with(kPrefix);
  if (has_prefix) path.remove_prefix(kPrefix.size());
  const bool is_network = has_prefix && path.starts_with(kNetwork);
  if (is_network) path.remove_prefix(kNetwork.size());
  String out = narrow(path);
  if (is_network) out.insert(0, "//");
  std::replace(out.begin(), out.end(), '\\', '/');
  return out;
}

HANDLE handle_of(int fd) noexcept {
  const std::intptr_t handle = fd < 0 ? -1 : ::_get_osfhandle(fd);
  if (handle == -1 || handle == -2) errno = EBADF;  // -2: a standard descriptor that is of nothing
  return reinterpret_cast<HANDLE>(handle == -2 ? -1 : handle);
}

OpenFd descriptor_of(HANDLE handle) noexcept {
  if (handle == INVALID_HANDLE_VALUE || handle == nullptr) {
    fail();
    return {};
  }
  constexpr int kBinary = 0x8000, kNotInherited = 0x80;  // _O_BINARY, _O_NOINHERIT
  OpenFd out(::_open_osfhandle(reinterpret_cast<std::intptr_t>(handle), kBinary | kNotInherited));
  if (out.get() < 0) {
    CloseHandle(handle);
    errno = EMFILE;
  }
  return out;
}

String path_of(HANDLE handle) {
  Vector<wchar_t> room(kRoom);
  const DWORD size = GetFinalPathNameByHandleW(handle, room.data(), kRoom, FILE_NAME_NORMALIZED);
  if (size == 0 || size >= kRoom) {
    fail();
    return {};
  }
  return narrow_path({room.data(), size});
}

String path_in(std::string_view path, int folder) {
  if (folder < 0 || is_absolute(path)) return String(path);
  const HANDLE handle = handle_of(folder);
  String out = handle == INVALID_HANDLE_VALUE ? String() : path_of(handle);
  if (!out.empty()) (out += '/') += path;
  return out;
}

}  // namespace quarry::os
