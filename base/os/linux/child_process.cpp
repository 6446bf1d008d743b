// SPDX-License-Identifier: Apache-2.0
#include "base/os/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/os/child_system.h"
#include "base/os/file.h"
#include "base/status.h"

extern "C" char **environ;

namespace quarry::os {
namespace {

// The environment for the child. Relative folders of LD_LIBRARY_PATH (kLibraryFolders) named something when this
// program began: the linker would look for the child's libraries below the working folder of now. Our own are where
// this library is.
class Environment {
 public:
  explicit Environment(const String &libraries) {
    for (char **one = environ; *one; ++one) {
      char *said = *one;
      if (paths_.empty() && std::string_view(said).starts_with(kLibraryFolders)) {
        (paths_ = kLibraryFolders) += libraries;
        if (add_absolute(said + kLibraryFolders.size())) said = paths_.data();
      }
      pointers_.push_back(said);
    }
    char *const end = nullptr;
    pointers_.push_back(end);
  }
  char *const *get() const noexcept { return pointers_.data(); }

 private:
  // Whether there were others.
  bool add_absolute(std::string_view folders) {
    bool others = false;
    std::size_t end;
    do {
      end = folders.find_first_of(":;");
      const std::string_view folder = folders.substr(0, end);
      if (folder.starts_with('/') || folder.starts_with('$')) (paths_ += ':') += folder;
      else others = true;
      folders.remove_prefix(end == folders.npos ? folders.size() : end + 1);
    } while (end != folders.npos);
    return others;
  }
  String paths_;
  Vector<char *> pointers_;
};

// The child's numbers of descriptors, and what it is to have of this process.
class Attributes {
 public:
  Attributes() noexcept {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // Nothing of how this process or this thread takes signals is the child's; nor do the terminal's reach it, which
    // are for whoever watches over it.
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  Attributes(const Attributes &) = delete;
  Attributes &operator=(const Attributes &) = delete;
  ~Attributes() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }
  void give(int fd, int as) noexcept { posix_spawn_file_actions_adddup2(&actions_, fd, as); }
  int spawn(pid_t *pid, char *const *words, char *const *environment) const noexcept {
    return posix_spawn(pid, words[0], &actions_, &attributes_, words, environment);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

constexpr int kFirstFree = 3;  // behind standard input, output and errors

}  // namespace

int ChildProcess::start(std::span<const String> words, const String &libraries, std::span<const Inherited> files,
                        int stream) {
  int ends[2];
  if (const int error = make_stream(ends)) return error;
  // Out of the way of the numbers that the child gets, and ours of those of standard input and output, which may be
  // free.
  int most = stream;
  for (const Inherited &file : files)
    if (file.as != file.fd) most = std::max(most, file.as);
  const OpenFd ours(ends[0]), low(ends[1]), theirs = duplicate(ends[1], most + 1);
  if (theirs.get() < 0) return errno;
  stream_ = duplicate(ends[0], kFirstFree);
  if (stream_.get() < 0) return errno;
  Vector<char *> arguments;
  for (const String &word : words) {
    char *const text = const_cast<char *>(word.c_str());
    arguments.push_back(text);
  }
  char *const end = nullptr;
  arguments.push_back(end);
  Attributes attributes;
  attributes.give(theirs.get(), stream);
  for (const Inherited &file : files) attributes.give(file.fd, file.as);
  const Environment environment(libraries);
  pid_t pid = -1;
  const int error = attributes.spawn(&pid, arguments.data(), environment.get());
  if (error != 0) return error;
  process_ = pid;
  watch();
  return 0;
}

// Negative descriptors are passed over. The child's end is looked for by itself: what it started may have its end of
// the stream too.
bool ChildProcess::wait(EventHandle also, std::uint64_t ms) noexcept {
  pollfd waits[] = {{stream_.get(), POLLIN, 0}, {also, POLLIN, 0}, {gone_ ? -1 : ended_.get(), POLLIN, 0}};
  ::poll(waits, 3, static_cast<int>(ms));
  if (waits[2].revents) {
    gone_ = true;
    ::shutdown(stream_.get(), SHUT_RD);  // what it sent is read, then comes the end
  }
  return waits[0].revents || gone_;
}

std::ptrdiff_t ChildProcess::receive(void *to, std::size_t size) noexcept {
  const ssize_t count = ::recv(stream_.get(), to, size, MSG_DONTWAIT);
  if (count >= 0) return count;
  return errno == EINTR || errno == EAGAIN ? kNothingYet : 0;
}

void ChildProcess::hang_up() noexcept { ::shutdown(stream_.get(), SHUT_WR); }

String ChildProcess::how_it_ended(std::uint64_t ms) {
  Ending how;
  for (std::uint64_t round = 0; round < ms && !reap(&how, false); ++round) ::poll(nullptr, 0, 1);
  // Where the application lets the system reap its children, nothing more is known.
  if (!how.is_known) return "ended";
  if (!how.by_signal) return format("ended with exit status %d", how.number);
  return format("ended by signal %d (%s)", how.number, ::strsignal(how.number));
}

bool begin_as_child(int stream) noexcept {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(stream, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return false;
  std::signal(SIGPIPE, SIG_IGN);
  ::dup2(2, 1);
  return true;
}

void send(int stream, const void *data, std::size_t size) noexcept {
  for (const char *at = static_cast<const char *>(data); size;) {
    const ssize_t sent = ::send(stream, at, size, kNoSignal);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
}

void await_end(int stream) noexcept {
  char byte;
  ssize_t count;
  do count = ::recv(stream, &byte, 1, 0);
  while (count > 0 || (count < 0 && errno == EINTR));
}

}  // namespace quarry::os
