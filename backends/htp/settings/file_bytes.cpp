// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/settings/file_bytes.h"

#include <cerrno>

#include "base/os/file.h"
#include "base/os_error.h"
#include "base/text.h"

namespace quarry::htp {

Result<Vector<std::uint8_t>> read_file_bytes(const char *option, std::string_view path, const char *expected,
                                             std::size_t most) {
  const String name(path);
  const auto failed = [&](int number) {
    return Status::error(
        os_error_id(number, ErrorId::bad_option_value),
        format("option %s: found %s (%s), expected %s", option, printable(name, 1000),
               number == os::kFileEnded ? "it was cut meanwhile" : os_error_text(number).c_str(), expected));
  };
  const OpenFd file = os::open_file(name.c_str());
  os::FileInfo info{};
  if (file.get() < 0 || !os::get_info(file.get(), &info)) return failed(errno);
  if (info.kind != os::FileKind::Regular || info.size > most)
    return Status::error(
        ErrorId::bad_option_value,
        format("option %s: found %s, %s, expected %s of at most %zu bytes", option, printable(name, 1000),
               info.kind != os::FileKind::Regular
                   ? "no regular file"
                   : format("%llu bytes", static_cast<unsigned long long>(info.size)).c_str(),
               expected, most));
  Vector<std::uint8_t> bytes(static_cast<std::size_t>(info.size));
  if (const int number = os::read_at(file.get(), bytes.data(), bytes.size(), 0)) return failed(number);
  return bytes;
}

}  // namespace quarry::htp
