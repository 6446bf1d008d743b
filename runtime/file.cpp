// SPDX-License-Identifier: Apache-2.0
#include "runtime/file.h"

#ifndef QR_NO_DLOPEN
#include <dlfcn.h>
#endif
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/os_error.h"
#include "quarry/types.h"

namespace quarry {
namespace {

Status failure(std::string_view path, int error) {
  return Status::error(
             os_error_id(error, ErrorId::file_not_writable),
             format("%s: it cannot be written: %s", printable(path, 1000).c_str(), os_error_text(error).c_str()))
      .with("file", path);
}

}  // namespace

String library_folder() {
#ifdef QR_NO_DLOPEN
  return {};  // nothing is opened from there
#else
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void *>(&qr_version), &info) || !info.dli_fname) return {};
  const std::string_view file = info.dli_fname;
  const std::size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? String() : String(file.substr(0, slash));
#endif
}

#ifndef QR_NO_DLOPEN
String find_own_file(std::string_view installed, std::string_view in_build_tree, String &out_tried) {
  const String own = library_folder();
  const std::pair<std::string_view, std::string_view> candidates[] = {
      {own, installed}, {own, in_build_tree}, {QR_LIBDIR, installed}};
  for (const auto &[folder, name] : candidates) {
    if (folder.empty()) continue;
    String file(folder);
    file += name;
    if (access(file.c_str(), F_OK) == 0) return file;
    if (!out_tried.empty()) out_tried += ", ";
    out_tried += file;
  }
  return {};
}
#endif

Status write_text_file(std::string_view path, std::string_view text) {
  const int fd = ::open(String(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return failure(path, errno);
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      ::close(fd);
      return failure(path, error);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::close(fd) == 0 ? Status() : failure(path, errno);
}

}  // namespace quarry
