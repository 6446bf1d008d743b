// SPDX-License-Identifier: Apache-2.0
#include "base/os/child_system.h"

#include <fcntl.h>
#include <sys/event.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "base/os/file.h"

namespace quarry::os {

const std::string_view kLibraryFolders = "DYLD_LIBRARY_PATH=";
const int kNoSignal = 0;  // the streams themselves raise none

// A program that another thread starts between the calls has them too; the end of the child is noticed all the same.
int make_stream(int (&ends)[2]) noexcept {
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return errno;
  for (const int end : ends) {
    const int on = 1;
    (void)::fcntl(end, F_SETFD, FD_CLOEXEC);
    (void)::setsockopt(end, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
  }
  return 0;
}

ChildProcess::~ChildProcess() {
  if (process_ == kNone) return;
  Ending how;
  if (reap(&how, false)) return;
  ::kill(static_cast<pid_t>(process_), SIGKILL);
  while (!reap(&how, true)) {
  }
}

// A queue of the kernel's that is readable when the child ended. A child that ended already has none; its stream is at
// its end.
void ChildProcess::watch() noexcept {
  constexpr int kFirstFree = 3;  // behind standard input, output and errors
  const OpenFd made(::kqueue());
  struct kevent end;
  EV_SET(&end, static_cast<std::uintptr_t>(process_), EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, nullptr);
  if (made.get() >= 0 && ::kevent(made.get(), &end, 1, nullptr, 0, nullptr) == 0)
    ended_ = duplicate(made.get(), kFirstFree);
}

bool ChildProcess::reap(Ending *out, bool waits) noexcept {
  *out = {};
  if (process_ == kNone) return true;
  int status = 0;
  const pid_t ended = ::waitpid(static_cast<pid_t>(process_), &status, waits ? 0 : WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  if (ended > 0) *out = {true, !WIFEXITED(status), WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status)};
  process_ = kNone;
  return true;
}

}  // namespace quarry::os
