// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "failure.h"

namespace tools {
namespace {

FILE *g_output = stdout;  // see keep_standard_output

[[noreturn]] void refused(int number) {
  throw Failure(std::string("standard output: writing failed: ") + os_text(number));
}

void write_all(FILE *file, const std::string &path, const std::string &text) {
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int number = errno;
  if (std::fclose(file) != 0) throw Failure("cannot write all of '" + path + "': " + os_text(errno));
  if (!whole) throw Failure("cannot write all of '" + path + "': " + os_text(number));
}

// Writes a file that has no name until it is whole: one that is there stays as it was until then, and nothing is left
// behind when the disk is full or the program ends. Gives false where that cannot be: the path is no plain file of the
// user's, or the file system or the folder does not allow it.
bool replace_file(const std::string &path, const std::string &text) {
  struct stat info {};
  const bool there = lstat(path.c_str(), &info) == 0;
  if (there && (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || access(path.c_str(), W_OK) != 0)) return false;
  const size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  const struct Closing {
    int fd;
    ~Closing() {
      if (fd >= 0) close(fd);
    }
  } closing{fd};
  // Closing the stream tells whether all was written; the file needs its name after that.
  const int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
  FILE *file = copy < 0 ? nullptr : fdopen(copy, "wb");
  if (!file) {
    if (copy >= 0) close(copy);
    return false;
  }
  if (there && fchmod(fd, info.st_mode & 07777) != 0) return std::fclose(file), false;
  write_all(file, path, text);
  // Only a rename takes the place of another file, and for that there must be a name.
  const std::string from = "/proc/self/fd/" + std::to_string(fd);
  const std::string name = there ? path + "." + std::to_string(getpid()) : path;
  if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) return false;
  if (!there || rename(name.c_str(), path.c_str()) == 0) return true;
  unlink(name.c_str());
  return false;
}

void print_list(FILE *stream, const char *pattern, va_list values) {
  if (std::vfprintf(stream, pattern, values) < 0 && stream == g_output) refused(errno);
}

}  // namespace

void print(const char *pattern, ...) {
  va_list values;
  va_start(values, pattern);
  print_list(g_output, pattern, values);
  va_end(values);
}

void print_to(FILE *stream, const char *pattern, ...) {
  va_list values;
  va_start(values, pattern);
  print_list(stream, pattern, values);
  va_end(values);
}

void print_text(const std::string &text) {
  if (std::fwrite(text.data(), 1, text.size(), g_output) != text.size()) refused(errno);
}

void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is the one that is missing. Its other direction: reading 0 fails, writing 1 and 2.
    (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
}

void keep_standard_output() {
  const int fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
  FILE *own = fd < 0 ? nullptr : fdopen(fd, "w");  // not of a descriptor that cannot be written: its errors stay
  if (!own) {
    if (fd >= 0) close(fd);
    return;
  }
  if (dup2(2, 1) < 0) {
    std::fclose(own);
    return;
  }
  g_output = own;
}

FILE *standard_output() { return g_output; }

void finish_output() {
  const bool failed = std::ferror(stdout) != 0;  // told by the print that failed, unless nobody looked
  if (std::fflush(g_output) != 0) refused(errno);
  if (failed) refused(EIO);
}

void write_text(const std::string &path, const std::string &text) {
  if (path == "-") {
    print_text(text);
    if (text.empty() || text.back() != '\n') print("\n");
    return;
  }
  if (replace_file(path, text)) return;
  FILE *file = std::fopen(path.c_str(), "wbe");
  if (!file)
    throw UsageError("cannot write '" + path + "': " + os_text(errno),
                     "check that the folder exists and may be written");
  write_all(file, path, text);
}

ScratchFolder::ScratchFolder() {
  const char *const place = std::getenv("TMPDIR");
  path_ = std::string(place && *place ? place : "/tmp") + "/quarry-XXXXXX";
  if (!mkdtemp(path_.data()))
    throw Failure("cannot make a folder '" + path_ + "': " + os_text(errno),
                  "set TMPDIR to a folder that may be written");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

StandardOutputFile::StandardOutputFile() {
  if (isatty(fileno(g_output)))
    throw UsageError("standard output: found a terminal, expected a file or a pipe for a container",
                     "name a file, or send it on: ... -o - > FILE");
}

void StandardOutputFile::send() {
  FILE *const file = std::fopen(path_.c_str(), "rbe");
  if (!file) throw Failure("cannot read '" + path_ + "': " + os_text(errno));
  const struct Closing {
    FILE *file;
    ~Closing() { std::fclose(file); }
  } closing{file};
  std::vector<char> part(1 << 16);
  while (const size_t size = std::fread(part.data(), 1, part.size(), file))
    if (std::fwrite(part.data(), 1, size, g_output) != size) refused(errno);
  if (std::ferror(file)) throw Failure("cannot read '" + path_ + "': " + os_text(errno));
}

}  // namespace tools
