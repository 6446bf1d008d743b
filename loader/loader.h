// SPDX-License-Identifier: Apache-2.0
// Finds plugins: static ones first, then the folders of the search path in order. The first plugin of an id wins; a
// later one is shadowed. Nothing falls through: a plugin that comes first and is refused hides no reason behind a
// second of the same id.
// Thread-safe; expects the caller to have opened an AllocatorScope.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/alloc.h"
#include "base/status.h"
#include "loader/plugin.h"

namespace quarry::loader {

struct Folder {
  String path;
  const char *origin;  // "option", "environment", "build tree", "beside libquarry", "built in"
};

// One file of the search path (or static backend) and what the loader says of it.
struct Candidate {
  String id;    // from the note; from the file name where there is none
  String path;  // empty: static
  String version;
  bool usable = false;
  qr_code code = QR_OK;            // why it is not usable
  String error_id, verdict, hint;  // verdict: one line in both cases
  std::shared_ptr<Plugin> plugin;  // there even when no device of it is usable; null: refused
};

struct LoaderOptions {
  std::string_view backend_path;         // folders, os::kListSeparator between
  bool only_given_paths = false;         // nothing but those: no environment, no folder of the library's own
  std::string_view library_folder = {};  // where libquarry is, as an absolute path; empty: not known
};

// A backend that is linked in. The table is made by the build from -Dstatic_backends.
struct StaticBackend {
  const char *id;
  qr_plugin_query_fn query;
};
extern const StaticBackend kStaticBackends[];
extern const std::size_t kStaticBackendCount;

class Loader : public HeapObject {
 public:
  // The environment outlives the loader and every plugin that it opened.
  Loader(HostEnvironment &environment, const LoaderOptions &options);

  const Vector<Folder> &search_path() const noexcept { return folders_; }

  // By id ("cpu-reference"). QR-L0001 lists the ids that there are and where they were looked for.
  Result<std::shared_ptr<Plugin>> open(std::string_view id);
  // By file; the search path does not matter.
  Result<std::shared_ptr<Plugin>> open_file(std::string_view path);
  // Every candidate in search order: static ones, then each folder's by name.
  Vector<Candidate> scan();

 private:
  Result<std::shared_ptr<Plugin>> open_locked(std::string_view path, PluginNote *out_note);
  Result<std::shared_ptr<Plugin>> open_static_locked(const StaticBackend &backend);
  Status not_found(std::string_view id);

  HostEnvironment &environment_;
  Vector<Folder> folders_;
  std::mutex mutex_;
  Vector<std::shared_ptr<Plugin>> opened_;
};

}  // namespace quarry::loader
