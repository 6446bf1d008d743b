// SPDX-License-Identifier: Apache-2.0
#include "prepare/read_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/os_error.h"
#include "base/text.h"

namespace quarry::prepare {
namespace {

Status file_error(std::string_view kind, std::string_view path, int number) {
  return Status::error(os_error_id(number, ErrorId::io_error),
                       format("the %s '%s' cannot be read: %s", String(kind).c_str(), printable(path, 1000).c_str(),
                              os_error_text(number).c_str()))
      .with("file", path);
}

}  // namespace

Result<Vector<std::uint8_t>> read_file(std::string_view kind, std::string_view path) {
  const String name(path);
  FILE *file = std::fopen(name.c_str(), "rb");
  if (!file) return file_error(kind, path, errno);
  Vector<std::uint8_t> out;
  std::size_t used = 0, got = 0;
  do {
    out.resize(std::max<std::size_t>(used * 2, std::size_t{1} << 20));
    got = std::fread(out.data() + used, 1, out.size() - used, file);
    used += got;
  } while (got > 0);
  const int number = std::ferror(file) ? errno : 0;
  std::fclose(file);
  if (number != 0) return file_error(kind, path, number);
  out.resize(used);
  return out;
}

}  // namespace quarry::prepare
