// SPDX-License-Identifier: Apache-2.0
// Processes that this one starts, each with a stream of bytes in both directions, and what such a process asks for
// itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/alloc.h"
#include "base/open_fd.h"
#include "base/os/event.h"

namespace quarry::os {

// A descriptor of this process that a child gets, and the number that it has there.
struct Inherited {
  int fd;
  int as;
};

// Of the process that starts it. One thread at a time.
class ChildProcess {
 public:
  ChildProcess() noexcept = default;
  ChildProcess(const ChildProcess &) = delete;
  ChildProcess &operator=(const ChildProcess &) = delete;
  ~ChildProcess();  // ends it at once, unless it has ended

  // `words`: the program's file, then its arguments. The child has the descriptors `files` and no others of ours, the
  // stream as `stream`, and finds its libraries in `libraries` first. Each fd of `files` is above every number that
  // another gets there. 0, or an errno.
  int start(std::span<const String> words, const String &libraries, std::span<const Inherited> files, int stream);

  // Sleeps until something is to be received, `also` (kNoEvent: none) is raised, or the time is over. Whether it is the
  // first of them.
  bool wait(EventHandle also, std::uint64_t ms) noexcept;
  // How many bytes came: 0: there will be none any more, kNothingYet: there are none now.
  static constexpr std::ptrdiff_t kNothingYet = -1;
  std::ptrdiff_t receive(void *to, std::size_t size) noexcept;
  // The child reads the end; it can send all the same.
  void hang_up() noexcept;

  // "ended with exit status 3", "ended by signal 9 (Killed)"; "ended" where that is not known, or the child is still
  // there when the time is over.
  String how_it_ended(std::uint64_t ms);

 private:
  struct Ending;
  void watch() noexcept;
  bool reap(Ending *how, bool waits) noexcept;

  static constexpr std::intptr_t kNone = -1;
  std::intptr_t process_ = kNone;
  OpenFd ended_, stream_;
  bool gone_ = false;  // it ended: what it sent is still to be received
};

// Of the process that was started so. False: it was not, as `stream` is none. What it prints goes to standard error
// from here on, and a stream whose other side is gone is no reason to end.
bool begin_as_child(int stream) noexcept;
// All of it; nothing where the other side is gone.
void send(int stream, const void *data, std::size_t size) noexcept;
// Until the other side has no more to send, or is gone.
void await_end(int stream) noexcept;

}  // namespace quarry::os
