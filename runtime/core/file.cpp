// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/file.h"

#include <utility>

#include "base/os/library.h"
#include "base/os/path.h"
#include "quarry/types.h"

namespace quarry {

String library_folder() {
#ifdef QR_NO_DLOPEN
  return {};  // nothing is opened from there
#else
  const String file = os::file_of(reinterpret_cast<const void *>(&qr_version));
  const std::size_t slash = os::last_separator(file);
  return slash == String::npos ? String() : file.substr(0, slash);
#endif
}

#ifndef QR_NO_DLOPEN
String find_own_file(std::string_view own, std::string_view installed, std::string_view in_build_tree,
                     String &out_tried) {
  const std::pair<std::string_view, std::string_view> candidates[] = {
      {own, installed}, {own, in_build_tree}, {QR_LIBDIR, installed}};
  for (const auto &[folder, name] : candidates) {
    if (folder.empty()) continue;
    String file(folder);
    file += name;
    if (os::allows(file.c_str(), os::Access::Exists)) return file;
    if (!out_tried.empty()) out_tried += ", ";
    out_tried += file;
  }
  return {};
}
#endif

}  // namespace quarry
