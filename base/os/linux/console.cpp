// SPDX-License-Identifier: Apache-2.0
#include "base/os/console.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace quarry::os {

bool is_terminal(int fd) noexcept { return ::isatty(fd) == 1; }

std::uint32_t terminal_columns(int fd) noexcept {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void begin_program() noexcept {
  ::signal(SIGXFSZ, SIG_IGN);
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is the one that is missing. Its other direction fails.
    (void)!::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
}

std::FILE *take_standard_output() noexcept {
  const int fd = ::fcntl(1, F_DUPFD_CLOEXEC, 3);
  std::FILE *const own = fd < 0 ? nullptr : ::fdopen(fd, "w");  // not of a descriptor that cannot be written
  if (!own) {
    if (fd >= 0) ::close(fd);
    return nullptr;
  }
  if (::dup2(2, 1) >= 0) return own;
  std::fclose(own);
  return nullptr;
}

std::FILE *open_standard_input() noexcept {
  const int fd = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  return fd < 0 ? nullptr : ::fdopen(fd, "rb");
}

std::FILE *open_stream(const char *path) noexcept { return std::fopen(path, "rbe"); }

}  // namespace quarry::os
