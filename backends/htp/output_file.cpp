// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/output_file.h"

#include <cerrno>
#include <cstdio>

#include "base/os_error.h"

namespace quarry::htp {

Status write_file(std::string_view what, const String &path, std::string_view bytes) {
  std::FILE *const file = std::fopen(path.c_str(), "wbe");
  bool ok = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  int error = errno;
  if (file && std::fclose(file) != 0 && ok) ok = false, error = errno;
  if (ok) return {};
  return Status::error(os_error_id(error, ErrorId::io_error),
                       format("%s: %s cannot be written: %s", String(what).c_str(), printable(path, 1000).c_str(),
                              os_error_text(error).c_str()));
}

}  // namespace quarry::htp
