// SPDX-License-Identifier: Apache-2.0
#include "tools/console/output.h"

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <vector>

#include "base/os/path.h"
#include "base/os/console.h"
#include "base/new_file.h"
#include "tools/console/failure.h"
#include "tools/console/read_file.h"

namespace tools {
namespace {

FILE *g_output = stdout;  // see keep_standard_output
FILE *g_text = nullptr;   // see print_beside_result

[[noreturn]] void refused(int number) {
  throw Failure(std::string("standard output: writing failed: ") + os_text(number));
}

void print_list(FILE *stream, const char *pattern, va_list values) {
  if (std::vfprintf(stream, pattern, values) < 0 && stream == g_output) refused(errno);
}

}  // namespace

void print_of(const char *pattern, ...) {
  va_list values;
  va_start(values, pattern);
  print_list(g_text ? g_text : g_output, pattern, values);
  va_end(values);
}

void print_to_of(FILE *stream, const char *pattern, ...) {
  va_list values;
  va_start(values, pattern);
  print_list(stream, pattern, values);
  va_end(values);
}

void print_text(const std::string &text) {
  FILE *const to = g_text ? g_text : g_output;
  if (std::fwrite(text.data(), 1, text.size(), to) != text.size() && to == g_output) refused(errno);
}

void keep_standard_output() {
  if (FILE *const own = quarry::os::take_standard_output()) g_output = own;
}

FILE *standard_output() { return g_output; }

void finish_output() {
  const bool failed = std::ferror(stdout) != 0;  // reported by the print that failed, unless nobody looked
  if (std::fflush(g_output) != 0) refused(errno);
  if (failed) refused(EIO);
}

bool is_standard_output(const std::string &path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

void print_beside_result() { g_text = stderr; }

void write_bytes(const std::string &path, const std::string &bytes) {
  if (is_standard_output(path)) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), g_output) != bytes.size()) refused(errno);
    return;
  }
  const auto message = [](const quarry::Status &status) { return std::string(status.message()); };
  quarry::NewFile file;
  if (const quarry::Status status = file.open(path); !status.ok())
    throw UsageError(message(status), "check that the folder exists and may be written");
  quarry::Status status = file.write(bytes.data(), bytes.size());
  if (status.ok()) status = file.close(quarry::NewFile::Outlasts::Process);
  if (status.ok()) status = file.put_in_place();
  if (!status.ok()) throw Failure(message(status), std::string(status.hint()));
}

void write_text(const std::string &path, const std::string &text) {
  const bool ends = !is_standard_output(path) || (!text.empty() && text.back() == '\n');
  write_bytes(path, ends ? text : text + "\n");
}

ScratchFolder::ScratchFolder() {
  quarry::String place;
  path_ = quarry::os::make_scratch_folder(&place);
  if (path_.empty())
    throw Failure("cannot make a folder in '" + std::string(place) + "': " + os_text(errno),
                  "set TMPDIR to a folder that may be written");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(system_path(path_), ignored);
}

int standard_output_for(const char *what) {
  const int fd = fileno(g_output);
  if (quarry::os::is_terminal(fd))
    throw UsageError(std::string("standard output: found a terminal, expected a file or a pipe for ") + what,
                     "name a file, or send it on: ... -o - > FILE");
  if (std::fflush(g_output) != 0) refused(errno);
  return fd;
}

}  // namespace tools
