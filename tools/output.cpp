// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "failure.h"

namespace tools {
namespace {

[[noreturn]] void refused(int number) {
  throw Failure(std::string("standard output: writing failed: ") + os_text(number));
}

void print_list(FILE *stream, const char *pattern, va_list values) {
  if (std::vfprintf(stream, pattern, values) < 0 && stream == stdout) refused(errno);
}

}  // namespace

void print(const char *pattern, ...) {
  va_list values;
  va_start(values, pattern);
  print_list(stdout, pattern, values);
  va_end(values);
}

void print_to(FILE *stream, const char *pattern, ...) {
  va_list values;
  va_start(values, pattern);
  print_list(stream, pattern, values);
  va_end(values);
}

void print_text(const std::string &text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) refused(errno);
}

void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is the one that is missing. Its other direction: reading 0 fails, writing 1 and 2.
    (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
}

void finish_output() {
  const bool failed = std::ferror(stdout) != 0;  // told by the print that failed, unless nobody looked
  if (std::fflush(stdout) != 0) refused(errno);
  if (failed) refused(EIO);
}

void write_text(const std::string &path, const std::string &text) {
  if (path == "-") {
    print_text(text);
    if (text.empty() || text.back() != '\n') print("\n");
    return;
  }
  FILE *file = std::fopen(path.c_str(), "wbe");
  if (!file)
    throw UsageError("cannot write '" + path + "': " + os_text(errno),
                     "check that the folder exists and may be written");
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int number = errno;
  if (std::fclose(file) != 0) throw Failure("cannot write all of '" + path + "': " + os_text(errno));
  if (!whole) throw Failure("cannot write all of '" + path + "': " + os_text(number));
}

}  // namespace tools
