// SPDX-License-Identifier: Apache-2.0
#include "base/os/library.h"
#include "base/os/path.h"
#include "loader/pe_note.h"

namespace quarry::loader {

// Windows says of a library that cannot be loaded that something was not found, and not what: it is looked for before.
Status check_pe_imports(const ByteSource &source, const String &path) {
  QR_ASSIGN_OR_RETURN(const Vector<String> names, read_pe_imports(source, path));
  const String folder = path.substr(0, os::last_separator(path));
  String missing;
  for (const String &name : names)
    if (!os::finds_library(name.c_str(), folder.c_str())) missing += (missing.empty() ? "" : ", ") + printable(name);
  if (missing.empty()) return {};
  return Status::hinted(ErrorId::plugin_dlopen, "put it beside the plugin, or its folder into PATH",
                        "%s: it needs %s, found in no folder that is searched", printable(path, 1024).c_str(),
                        missing.c_str())
      .with("file", path);
}

}  // namespace quarry::loader
