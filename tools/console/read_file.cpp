// SPDX-License-Identifier: Apache-2.0
#include "tools/console/read_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/os/console.h"
#include "base/os/file.h"
#include "tools/console/command.h"

namespace tools {

namespace os = quarry::os;

namespace {

std::vector<uint8_t> read_all(const std::string &path) {
  const auto failed = [&](int number) {
    const std::string message = "cannot read '" + path + "': " + os_text(number);
    if (number == EMFILE || number == ENFILE || number == EIO) throw Failure(message);
    throw UsageError(message, "check the path");
  };
  FILE *const opened = path == "-" ? os::open_standard_input() : os::open_stream(path.c_str());
  if (!opened) failed(errno);
  const std::unique_ptr<FILE, int (*)(FILE *)> file(opened, std::fclose);
  os::FileInfo info{};
  const bool known = os::get_info(fileno(opened), &info);
  if (known && info.kind == os::FileKind::Folder) failed(EISDIR);
  // A regular file says its size; what comes out of a pipe is read until its end.
  std::vector<uint8_t> bytes = room_for(known && info.kind == os::FileKind::Regular ? info.size : 0, path);
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
  os::FileInfo info;
  if (!os::get_info(path.c_str(), &info) || info.kind != os::FileKind::Regular) return bytes;
  const quarry::OpenFd file = os::open_file(path.c_str());
  bytes.resize(static_cast<size_t>(std::min<uint64_t>(size, info.size)));
  // Where it cannot be read, reading it whole reports why.
  if (file.get() < 0 || os::read_at(file.get(), bytes.data(), bytes.size(), 0) != 0) bytes.clear();
  return bytes;
}

bool is_folder(const std::string &path) {
  os::FileInfo info;
  return os::get_info(path.c_str(), &info) && info.kind == os::FileKind::Folder;
}

std::filesystem::path system_path(const std::string &name) { return std::u8string(name.begin(), name.end()); }

}  // namespace tools
