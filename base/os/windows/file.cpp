// SPDX-License-Identifier: Apache-2.0
#include "base/os/file.h"

#include <io.h>

#include <algorithm>
#include <cerrno>

#include "base/os/windows/system.h"

namespace quarry::os {
namespace {

constexpr DWORD kShared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;  // as files are elsewhere

// With FILE_FLAG_BACKUP_SEMANTICS a folder can be opened too; who reads asks what kind it is.
HANDLE open_handle(const char *path, DWORD access) noexcept {
  const Wide name(path);
  if (!name.get()) return INVALID_HANDLE_VALUE;
  const HANDLE handle =
      CreateFileW(name.get(), access, kShared, nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (handle == INVALID_HANDLE_VALUE) fail();
  return handle;
}

OpenFd opened(HANDLE handle) noexcept { return handle == INVALID_HANDLE_VALUE ? OpenFd() : descriptor_of(handle); }

bool info_of(HANDLE handle, FileInfo *out) noexcept {
  switch (GetFileType(handle)) {
    case FILE_TYPE_DISK: break;
    case FILE_TYPE_PIPE: *out = {FileKind::Pipe, 0, 0, 0}; return true;
    case FILE_TYPE_CHAR: *out = {FileKind::Device, 0, 0, 0}; return true;
    default: return fail();
  }
  BY_HANDLE_FILE_INFORMATION info;
  if (!GetFileInformationByHandle(handle, &info)) return fail();
  const auto both = [](DWORD high, DWORD low) { return std::uint64_t{high} << 32 | low; };
  *out = {info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? FileKind::Folder : FileKind::Regular,
          both(info.nFileSizeHigh, info.nFileSizeLow), info.dwVolumeSerialNumber,
          both(info.nFileIndexHigh, info.nFileIndexLow)};
  return true;
}

// Of who may not throw: the name of what lies in an open folder takes memory.
template <class Use>
auto use_path(const char *path, int folder, Use use) noexcept -> decltype(use(path)) {
  if (folder < 0) return use(path);
  try {
    const String full = path_in(path, folder);
    if (!full.empty()) return use(full.c_str());
  } catch (const std::bad_alloc &) {
    errno = ENOMEM;
  }
  return {};
}

}  // namespace

void close_descriptor(int fd) noexcept { ::_close(fd); }

bool get_info(int fd, FileInfo *out) noexcept {
  const HANDLE handle = handle_of(fd);
  return handle != INVALID_HANDLE_VALUE && info_of(handle, out);
}

bool get_info(const char *path, FileInfo *out, int folder) noexcept {
  return use_path(path, folder, [&](const char *full) {
    const HANDLE handle = open_handle(full, 0);  // its attributes alone: whoever may not read it may ask for them
    if (handle == INVALID_HANDLE_VALUE) return false;
    const bool done = info_of(handle, out);
    CloseHandle(handle);
    return done;
  });
}

OpenFd open_file(const char *path, int folder) noexcept {
  return use_path(path, folder, [](const char *full) { return opened(open_handle(full, GENERIC_READ)); });
}

OpenFd open_folder(const char *path) noexcept {
  OpenFd out = opened(open_handle(path, FILE_LIST_DIRECTORY | FILE_TRAVERSE | SYNCHRONIZE));
  FileInfo info;
  if (out.get() < 0 || (get_info(out.get(), &info) && info.kind == FileKind::Folder)) return out;
  errno = ENOTDIR;
  return {};
}

OpenFd duplicate(int fd, int least) noexcept {
  const HANDLE handle = handle_of(fd), self = GetCurrentProcess();
  if (handle == INVALID_HANDLE_VALUE) return {};
  // The C runtime gives the lowest number that is free: those below are held until one is high enough.
  OpenFd low[64];
  for (OpenFd &held : low) {
    HANDLE copy;
    if (!DuplicateHandle(self, handle, self, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
      fail();
      return {};
    }
    held = descriptor_of(copy);
    if (held.get() < 0 || held.get() >= least) return std::move(held);
  }
  errno = EMFILE;
  return {};
}

// (Windows moves the position of a file that is read at an offset, which nobody here asks for.)
int read_at(int fd, void *to, std::size_t size, std::uint64_t offset) noexcept {
  const HANDLE handle = handle_of(fd);
  if (handle == INVALID_HANDLE_VALUE) return errno;
  if (offset > INT64_MAX || size > INT64_MAX - offset) return EINVAL;
  for (char *at = static_cast<char *>(to); size > 0;) {
    OVERLAPPED where{};
    where.Offset = static_cast<DWORD>(offset);
    where.OffsetHigh = static_cast<DWORD>(offset >> 32);
    DWORD got = 0;
    if (!ReadFile(handle, at, static_cast<DWORD>(std::min<std::size_t>(size, 1u << 30)), &got, &where))
      return GetLastError() == ERROR_HANDLE_EOF ? kFileEnded : number_of(GetLastError());
    if (got == 0) return kFileEnded;
    at += got;
    size -= got;
    offset += got;
  }
  return 0;
}

}  // namespace quarry::os
