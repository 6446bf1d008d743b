// SPDX-License-Identifier: Apache-2.0
#include "tools/console/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "tools/console/command.h"

namespace tools {
namespace {

std::vector<uint8_t> read_all(const std::string &path) {
  const auto failed = [&](int number) {
    const std::string message = "cannot read '" + path + "': " + os_text(number);
    if (number == EMFILE || number == ENFILE || number == EIO) throw Failure(message);
    throw UsageError(message, "check the path");
  };
  FILE *opened = path == "-" ? fdopen(fcntl(0, F_DUPFD_CLOEXEC, 3), "rb") : std::fopen(path.c_str(), "rbe");
  if (!opened) failed(errno);
  const std::unique_ptr<FILE, int (*)(FILE *)> file(opened, std::fclose);
  struct stat info {};
  if (fstat(fileno(opened), &info) == 0 && S_ISDIR(info.st_mode)) failed(EISDIR);
  // A regular file says its size; what comes out of a pipe is read until its end.
  std::vector<uint8_t> bytes = room_for(S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0, path);
  size_t used = 0;
  for (;;) {
    if (used == bytes.size()) {
      const int next = std::fgetc(opened);
      if (next == EOF) break;
      std::vector<uint8_t> more = room_for(2 * bytes.size() + 65536, path);
      std::copy(bytes.begin(), bytes.end(), more.begin());
      bytes.swap(more);
      bytes[used++] = static_cast<uint8_t>(next);
    }
    const size_t got = std::fread(bytes.data() + used, 1, bytes.size() - used, opened);
    used += got;
    if (got == 0) break;
  }
  if (std::ferror(opened)) failed(errno);
  bytes.resize(used);
  return bytes;
}

}  // namespace

const std::vector<uint8_t> &standard_input() {
  static const std::vector<uint8_t> bytes = read_all("-");
  return bytes;
}

std::vector<uint8_t> read_file(const std::string &path) { return path == "-" ? standard_input() : read_all(path); }

std::vector<uint8_t> read_head(const std::string &path, size_t size) {
  std::vector<uint8_t> bytes;
  if (path == "-") {
    bytes = standard_input();
    bytes.resize(std::min(bytes.size(), size));
    return bytes;
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return bytes;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return bytes;  // reading it reports why
  bytes.resize(size);
  const ssize_t got = pread(fd, bytes.data(), size, 0);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  close(fd);
  return bytes;
}

bool is_folder(const std::string &path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace tools
