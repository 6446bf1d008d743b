// SPDX-License-Identifier: Apache-2.0
#include "tools/console/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "tools/console/command.h"

namespace tools {

std::vector<uint8_t> read_file(const std::string &path) {
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

}  // namespace tools
