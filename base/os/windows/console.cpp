// SPDX-License-Identifier: Apache-2.0
#include "base/os/console.h"

#include <fcntl.h>
#include <io.h>

#include "base/os/file.h"
#include "base/os/windows/system.h"

namespace quarry::os {
namespace {

// Of a descriptor that nobody else has. Bytes, on both sides: lines end as they are written.
std::FILE *stream_of(OpenFd &&fd, const char *mode) noexcept {
  if (fd.get() < 0) return nullptr;
  ::_setmode(fd.get(), _O_BINARY);
  std::FILE *const stream = ::_fdopen(fd.get(), mode);
  if (stream) fd.release();
  return stream;
}

}  // namespace

bool is_terminal(int fd) noexcept {
  DWORD mode;
  const HANDLE handle = handle_of(fd);  // (_isatty() takes every character device for a terminal, NUL too)
  return handle != INVALID_HANDLE_VALUE && GetConsoleMode(handle, &mode);
}

std::uint32_t terminal_columns(int fd) noexcept {
  CONSOLE_SCREEN_BUFFER_INFO info;
  const HANDLE handle = handle_of(fd);
  if (handle == INVALID_HANDLE_VALUE || !GetConsoleScreenBufferInfo(handle, &info)) return 0;
  const int columns = info.srWindow.Right - info.srWindow.Left + 1;
  return columns > 0 ? static_cast<std::uint32_t>(columns) : 0;
}

void begin_program() noexcept {
  SetConsoleOutputCP(CP_UTF8);
  for (const int fd : {1, 2}) {
    DWORD mode;
    const HANDLE handle = handle_of(fd);
    if (handle != INVALID_HANDLE_VALUE && GetConsoleMode(handle, &mode))
      SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
  }
  for (int fd = 0; fd <= 2; ++fd)
    if (handle_of(fd) == INVALID_HANDLE_VALUE) (void)!::_open("NUL", fd == 0 ? _O_WRONLY : _O_RDONLY);
  ::_setmode(1, _O_BINARY);
  ::_setmode(2, _O_BINARY);
}

std::FILE *take_standard_output() noexcept {
  std::FILE *const own = stream_of(duplicate(1, 3), "wb");
  if (!own) return nullptr;
  if (::_dup2(2, 1) == 0) return own;
  std::fclose(own);
  return nullptr;
}

std::FILE *open_standard_input() noexcept { return stream_of(duplicate(0, 3), "rb"); }

std::FILE *open_stream(const char *path) noexcept { return stream_of(open_file(path), "rb"); }

}  // namespace quarry::os
