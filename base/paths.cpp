// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"

#include "base/os/path.h"

namespace quarry {

String absolute_path(std::string_view path) {
  String out;
  if (path.empty() || os::is_absolute(path) || !os::is_absolute(out = os::working_folder())) return String(path);
  while (path.starts_with("./")) path.remove_prefix(2);
  if (out.back() != '/') out += '/';
  return out += path;
}

}  // namespace quarry
