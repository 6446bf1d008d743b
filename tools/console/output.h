// SPDX-License-Identifier: Apache-2.0
// What the program writes to standard output. A write that fails (a full disk, a closed pipe) is an error of the
// program: whoever reads the output would take a part for the whole.
#pragma once

#include <cstdio>
#include <string>

#include "base/pattern.h"

namespace tools {

// Like printf; throws Failure when the text cannot be written. `print_to` writes to another stream the same way.
void print_of(const char *pattern, ...);
void print_to_of(FILE *stream, const char *pattern, ...);
template <class... A>
[[gnu::always_inline]] inline void print(quarry::Pattern<A...> pattern, const A &...arguments) {
  quarry::call_with([&](auto... plain) { print_of(pattern.text(), plain...); }, arguments...);
}
template <class... A>
[[gnu::always_inline]] inline void print_to(FILE *stream, quarry::Pattern<A...> pattern, const A &...arguments) {
  quarry::call_with([&](auto... plain) { print_to_of(stream, pattern.text(), plain...); }, arguments...);
}

// Writes a text as it is, NUL bytes included.
void print_text(const std::string &text);

// Libraries of others that a backend opens may print, and what they print must not stand among the data.
// From here on what this program prints goes by a descriptor of its own, and descriptor 1 is standard error.
void keep_standard_output();
// Where `print` writes, for print_to.
FILE *standard_output();

// At the end: writes what is still in the buffer. Throws Failure when that, or a print before it, failed.
void finish_output();

// Whether a result goes to standard output: "-", or a name that the system has for it, whose descriptor is another
// since keep_standard_output.
bool is_standard_output(const std::string &path);
// What is printed goes to standard error from here on: standard output is for a result alone.
void print_beside_result();

// Writes text, or bytes as they are, to a file (base/new_file.h says how) or to standard output. Throws UsageError or
// Failure.
void write_text(const std::string &path, const std::string &text);
void write_bytes(const std::string &path, const std::string &bytes);

// A folder for files that are of no use later, where TMPDIR says: gone with what is in it, however the work ended.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

// Standard output as the descriptor that a call of the library writes to. `what`: "a container". Throws UsageError
// where it is a terminal.
int standard_output_for(const char *what);

}  // namespace tools
