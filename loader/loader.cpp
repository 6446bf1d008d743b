// SPDX-License-Identifier: Apache-2.0
#include "loader/loader.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/os/library.h"
#include "base/os/path.h"
#include "base/os/process.h"
#include "base/os_error.h"
#include "base/paths.h"
#include "base/small_sort.h"
#include "base/text.h"
#include "loader/compatibility.h"

#ifndef QR_BACKEND_DIR
#error "the build defines QR_BACKEND_DIR, the built-in plugin folder"
#endif

namespace quarry::loader {
namespace {

// A folder is searched once: at its first place. What is relative is so to the working folder of this moment.
void add_folder(std::string_view given, const char *origin, Vector<Folder> &out) {
  const String path = absolute_path(given);
  for (const Folder &folder : out)
    if (folder.path == path) return;
  out.push_back({path, origin});
}

[[maybe_unused]] void add_folders(std::string_view list, const char *origin, Vector<Folder> &out) {
  while (!list.empty()) {
    const std::size_t end = list.find(os::kListSeparator);
    const std::string_view part = list.substr(0, end);
    if (!part.empty()) add_folder(part, origin, out);
    list = end == list.npos ? std::string_view() : list.substr(end + 1);
  }
}

// The plugin files of a folder, by name. A folder that is not there holds none; `out_error` names one that could not
// be looked at.
Vector<String> plugin_files(const Folder &folder, int *out_error = nullptr) {
  Vector<String> files;
  const int error = os::for_each_name(folder.path.c_str(), [&](const char *name) {
    if (!id_of_file(name).empty()) files.push_back(folder.path + "/" + name);
  });
  if (out_error) *out_error = error;
  small_sort(files);
  return files;
}

// Installed, the plugins are below the folder of libquarry, wherever the whole was moved to. In a build tree each has a
// folder of its own in ../backends; that this is one says a file that the build puts beside libquarry, so that an
// installed library never looks above its folder.
[[maybe_unused]] void add_own_folders(std::string_view library_folder, Vector<Folder> &out) {
  const String own(library_folder);
  if (!os::is_absolute(own)) return;
  // The libraries of an Android app lie in one folder.
  if constexpr (os::kAndroid) add_folder(own, "beside libquarry", out);
  const std::size_t slash = os::last_separator(own);
  if (slash == 0 || !os::allows((own + "/quarry-build-tree.txt").c_str(), os::Access::Exists))
    return add_folder(own + "/quarry/backends", "beside libquarry", out);
  const String backends = own.substr(0, slash) + "/backends";
  Vector<String> found;
  (void)os::for_each_name(backends.c_str(), [&](const char *name) {
    String path = backends + "/" + name;
    if (!plugin_files({path, ""}).empty()) found.push_back(std::move(path));
  });
  small_sort(found);
  for (const String &path : found) add_folder(path, "build tree", out);
}

}  // namespace

Loader::Loader(HostEnvironment &environment, const LoaderOptions &options) : environment_(environment) {
#ifndef QR_NO_DLOPEN
  add_folders(options.backend_path, "option", folders_);
  if (options.only_given_paths) return;
  // A privileged program must not run what its caller's environment points to.
  String room;
  if (const char *path = os::variable("QUARRY_BACKEND_PATH", room); path && !os::is_privileged())
    add_folders(path, "environment", folders_);
  add_own_folders(options.library_folder, folders_);
  if constexpr (sizeof QR_BACKEND_DIR > 1) add_folder(QR_BACKEND_DIR, "built in", folders_);
#else
  (void)options;
#endif
}

Result<std::shared_ptr<Plugin>> Loader::open_static_locked(const StaticBackend &backend) {
  for (const auto &plugin : opened_)
    if (plugin->is_static() && plugin->id() == backend.id) return plugin;
  QR_ASSIGN_OR_RETURN(std::shared_ptr<Plugin> plugin, Plugin::open_static(environment_, backend.id, backend.query));
  opened_.push_back(plugin);
  return plugin;
}

Result<std::shared_ptr<Plugin>> Loader::open_locked(std::string_view path, PluginNote *out_note) {
  for (const auto &plugin : opened_)
    if (!plugin->is_static() && plugin->path() == path) return plugin;
  QR_ASSIGN_OR_RETURN(std::shared_ptr<Plugin> plugin, Plugin::open_file(environment_, path, out_note));
  opened_.push_back(plugin);
  return plugin;
}

Status Loader::not_found(std::string_view id) {
  Vector<String> ids;
  for (std::size_t i = 0; i < kStaticBackendCount; ++i) ids.push_back(kStaticBackends[i].id);
  String folders;
  for (const Folder &folder : folders_) {
    folders += folders.empty() ? folder.path : ", " + folder.path;
    for (const String &file : plugin_files(folder)) ids.push_back(String(id_of_file(file)));
  }
  small_sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  String known;
  NearestWord nearest(id);
  for (const String &one : ids) {
    known += known.empty() ? printable(one) : ", " + printable(one);
    nearest.offer(one);
  }
  return Status::error(
      ErrorId::backend_not_found,
      format("backend \"%s\": found %s in %s", printable(id), known.empty() ? "no backend" : known.c_str(),
             folders.empty() ? "this program" : printable(folders, 2048).c_str()),
      nearest.word().empty() ? String() : format("did you mean \"%s\"?", String(nearest.word())));
}

Result<std::shared_ptr<Plugin>> Loader::open(std::string_view id) {
  if (!is_plugin_id(id)) return not_found(id);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < kStaticBackendCount; ++i)
    if (id == kStaticBackends[i].id) return open_static_locked(kStaticBackends[i]);
  for (const Folder &folder : folders_) {
    int error = 0;
    for (const String &file : plugin_files(folder, &error))
      if (id_of_file(file) == id) return open_locked(file, nullptr);
    if (error == EMFILE || error == ENFILE || error == ENOMEM)
      return Status::errorf(os_error_id(error, ErrorId::io_error), "backend \"%s\": folder %s cannot be looked at: %s",
                            printable(id), printable(folder.path, 1024), os_error_text(error));
  }
  return not_found(id);
}

Result<std::shared_ptr<Plugin>> Loader::open_file(std::string_view path) {
  const std::lock_guard lock(mutex_);
  return open_locked(absolute_path(path), nullptr);
}

namespace {

void judge_opened(Candidate &candidate, Result<std::shared_ptr<Plugin>> opened) {
  if (!opened.ok()) {
    const Status status = opened.take_status();
    candidate.code = status.code();
    candidate.error_id = status.id();
    candidate.verdict = status.message();
    candidate.hint = status.hint();
    return;
  }
  candidate.plugin = *opened;
  candidate.id = candidate.plugin->id();
  candidate.version = candidate.plugin->version();
  std::size_t usable = 0;
  for (const DeviceInfo &device : candidate.plugin->devices()) usable += device.usable;
  if (usable) {
    candidate.usable = true;
    candidate.verdict =
        format("usable, %zu device%s: %s", usable, usable == 1 ? "" : "s", printable(candidate.plugin->description()));
    return;
  }
  const DeviceInfo &first = candidate.plugin->devices()[0];
  const ErrorRow &row = error_row(ErrorId::backend_no_device);
  candidate.code = row.code;
  candidate.error_id = row.id;
  candidate.verdict = format("no device can be used: %s: %s", first.name, first.why_not);
}

void judge_shadowed(Candidate &candidate, const Candidate &first) {
  const ErrorRow &row = error_row(ErrorId::plugin_shadowed);
  candidate.code = row.code;
  candidate.error_id = row.id;
  candidate.verdict =
      format("%s: shadowed by %s, which comes first", printable(candidate.path, 1024),
             first.path.empty() ? "the static backend of the same id" : printable(first.path, 1024).c_str());
  candidate.hint = row.hint;
}

}  // namespace

Vector<Candidate> Loader::scan() {
  const std::lock_guard lock(mutex_);
  Vector<Candidate> candidates;
  for (std::size_t i = 0; i < kStaticBackendCount; ++i) {
    Candidate candidate;
    candidate.id = kStaticBackends[i].id;
    judge_opened(candidate, open_static_locked(kStaticBackends[i]));
    candidates.push_back(std::move(candidate));
  }
  for (const Folder &folder : folders_) {
    for (String &file : plugin_files(folder)) {
      Candidate candidate;
      candidate.id = printable(id_of_file(file));
      candidate.path = std::move(file);
      const std::string_view id = id_of_file(candidate.path);
      const auto first = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate &other) {
        return other.path.empty() ? other.id == id : id_of_file(other.path) == id;
      });
      if (first != candidates.end()) {
        judge_shadowed(candidate, *first);
      } else {
        PluginNote note;
        judge_opened(candidate, open_locked(candidate.path, &note));
        if (candidate.version.empty()) candidate.version = note.version;
      }
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

}  // namespace quarry::loader
