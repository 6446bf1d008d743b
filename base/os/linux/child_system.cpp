// SPDX-License-Identifier: Apache-2.0
#include "base/os/child_system.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/os/file.h"

namespace quarry::os {

const std::string_view kLibraryFolders = "LD_LIBRARY_PATH=";
const int kNoSignal = MSG_NOSIGNAL;

int make_stream(int (&ends)[2]) noexcept {
  return ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? 0 : errno;
}

ChildProcess::~ChildProcess() {
  if (process_ == kNone) return;
  const bool told =
      ended_.get() >= 0 && (::syscall(SYS_pidfd_send_signal, ended_.get(), SIGKILL, nullptr, 0) == 0 || errno == ESRCH);
  if (!told) ::kill(static_cast<pid_t>(process_), SIGKILL);
  Ending how;
  while (!reap(&how, true)) {
  }
}

// A child is known by a descriptor, readable when it ended: its number may be another process's by now where the
// application reaps every child. Kernels before 5.4 have none; there the number serves.
void ChildProcess::watch() noexcept {
  constexpr int kFirstFree = 3;  // behind standard input, output and errors
  const OpenFd made(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process_), 0)));
  if (made.get() >= 0) ended_ = duplicate(made.get(), kFirstFree);
  else if (errno == ESRCH) process_ = kNone;  // it ended, and was reaped by somebody
}

// Whether it ended; not known how where nobody knows it.
bool ChildProcess::reap(Ending *out, bool waits) noexcept {
  *out = {};
  if (process_ == kNone) return true;
  siginfo_t how = {};
  constexpr auto kByDescriptor = static_cast<idtype_t>(3);  // P_PIDFD, newer than some headers
  const bool has_fd = ended_.get() >= 0;
  const int result =
      ::waitid(has_fd ? kByDescriptor : P_PID, static_cast<id_t>(has_fd ? ended_.get() : static_cast<pid_t>(process_)),
               &how, WEXITED | (waits ? 0 : WNOHANG));
  if (result != 0 && errno == EINTR) return false;
  if (result == 0 && how.si_pid == 0) return false;
  if (result == 0) *out = {true, how.si_code != CLD_EXITED, how.si_status};
  process_ = kNone;
  return true;
}

}  // namespace quarry::os
