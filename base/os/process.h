// SPDX-License-Identifier: Apache-2.0
// This process.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "base/alloc.h"

namespace quarry::os {

// The system's number of it, never 0.
std::uint32_t process_id() noexcept;

// It has rights that its caller has not, and must not do what the caller's environment says.
bool is_privileged() noexcept;

// The words that main() was called with, whose own on Windows lack letters that are not in the system's code page.
Vector<String> program_words(int count, const char *const *words);

// A variable of the environment, nullptr: there is none. On Windows it is put into `room`, as what getenv gives is in
// the system's code page.
#if defined(_WIN32)
const char *variable(const char *name, String &room);
#else
inline const char *variable(const char *name, String &) { return std::getenv(name); }
#endif
// For libraries that read it: of the whole process, and not while another thread may read one. False: it cannot be set.
bool set_variable(const char *name, const char *value) noexcept;

// Ends it, without what a program does at its end: what libraries do when they are unloaded is left out.
[[noreturn]] void end_process(int status) noexcept;

// A page of zeros that every child of fork() finds zeroed anew. nullptr: the system cannot do so.
void *make_page_zeroed_by_fork() noexcept;
void free_page_zeroed_by_fork(void *page) noexcept;

// The most memory that this process had at once, in bytes, and what the system calls that figure. 0, "none": it does
// not say.
struct PeakMemory {
  std::uint64_t bytes;
  const char *source;
};
PeakMemory peak_memory() noexcept;
// How many files this process may have open; 0: no limit, or none that is known.
std::uint64_t most_open_files() noexcept;

}  // namespace quarry::os
