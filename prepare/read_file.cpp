// SPDX-License-Identifier: Apache-2.0
#include "prepare/read_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/os/console.h"
#include "base/os/file.h"
#include "base/os_error.h"
#include "base/stop.h"
#include "base/text.h"

namespace quarry::prepare {
namespace {

Status file_error(std::string_view kind, std::string_view path, int number) {
  return Status::error(os_error_id(number, ErrorId::io_error), format("the %s '%s' cannot be read: %s", String(kind),
                                                                      printable(path, 1000), os_error_text(number)))
      .with("file", path);
}

}  // namespace

Result<Vector<std::uint8_t>> read_file(std::string_view kind, std::string_view path) {
  const String name(path);
  FILE *file = os::open_stream(name.c_str());
  if (!file) return file_error(kind, path, errno);
  // In pieces, between which it may be stopped.
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  Vector<std::uint8_t> out;
  os::FileInfo info;
  if (os::get_info(fileno(file), &info) && info.kind == os::FileKind::Regular)
    out.reserve(std::min<std::size_t>(info.size, std::size_t{1} << 30) + 1);
  std::size_t used = 0, got = 0;
  do {
    out.resize(std::max(std::min(out.capacity(), used + kPiece), used + 1));
    got = std::fread(out.data() + used, 1, out.size() - used, file);
    used += got;
  } while (got > 0 && !stop_asked());
  const int number = std::ferror(file) ? errno : 0;
  std::fclose(file);
  QR_RETURN_IF_ERROR(stop_status("reading a file"));
  if (number != 0) return file_error(kind, path, number);
  out.resize(used);
  return out;
}

}  // namespace quarry::prepare
