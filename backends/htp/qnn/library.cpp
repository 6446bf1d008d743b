// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/qnn/library.h"

#include <algorithm>
#include <cstring>

#include "backends/htp/qnn/library_file.h"
#include "backends/htp/qnn/log.h"
#include "base/os/file.h"
#include "base/os/library.h"
#include "base/os/process.h"

namespace quarry::qnn {

namespace {

constexpr char kHtpFile[] = QR_QNN_FILE("QnnHtp"), kSystemFile[] = QR_QNN_FILE("QnnSystem"),
               kIrFile[] = QR_QNN_FILE("QnnIr"), kSaverFile[] = QR_QNN_FILE("QnnSaver");

// How many slots of the table a core version has for certain.
std::size_t slots_of(std::uint32_t core_minor) {
  if (core_minor >= 32) return 71;
  if (core_minor >= 28) return 69;
  if (core_minor >= 27) return 68;
  return 62;
}

Result<std::shared_ptr<Library>> missing(const LibraryPlaces &places) {
  String looked;
  if (!places.plugin_folder.empty()) looked = "the folder " + printable(places.plugin_folder, 1000) + " and ";
  return Status::error(ErrorId::backend_library,
                       format("%s: not found in %sthe system's library path", kHtpFile, looked), kHowToGet);
}

// The file of the HTP library that the process has open already, whoever opened it, under whatever name: one that says
// of itself that it is backend 6. Empty: there is none.
String loaded_library() {
  Vector<String> files;  // they are asked when the loader does not walk its list any more
  os::for_each_library(
      [](void *self, std::string_view file) { static_cast<Vector<String> *>(self)->emplace_back(file); }, &files);
  for (const String &file : files) {
    void *const library = os::open_library(file.c_str());
    void *const query = library ? os::find_symbol(library, "QnnInterface_getProviders") : nullptr;
    if (!query) continue;
    const Provider **list = nullptr;
    std::uint32_t count = 0;
    if (reinterpret_cast<GetProvidersFn>(query)(&list, &count) == kOk && count > 0 && list && list[0] &&
        list[0]->backend_id == static_cast<std::uint32_t>(BackendId::Htp))
      return os::file_of(query);
  }
  return {};
}

// QNN has one copy of its libraries in a process: on devices every call to a second one is refused (1009).
Status check_alone(const String &path) {
  const String loaded = loaded_library();
  os::FileInfo there, here;
  if (loaded.empty() || !os::get_info(loaded.c_str(), &there) || !os::get_info(path.c_str(), &here)) return {};
  if (there.device == here.device && there.number == here.number) return {};
  return unfit(
      path, "a second copy of QNN's libraries beside " + printable(loaded, 1000) + ", which this process has open",
      "one copy in a process", "name the same one by htp.library_path and QUARRY_QNN_PATH, or have a process for each");
}

}  // namespace

LibraryPlaces library_places(std::string_view option) {
  LibraryPlaces places;
  places.option = option;
  String room;
  if (const char *const set = os::variable("QUARRY_QNN_PATH", room)) places.environment = set;
  static const char here = 0;
  places.plugin_folder = folder_of(os::file_of(&here));
  return places;
}

Result<std::shared_ptr<Library>> Library::open(const LibraryPlaces &places) {
  const String &named = places.option.empty() ? places.environment : places.option;
  String path;
  if (!named.empty()) {
    path = is_folder(named) ? named + "/" + kHtpFile : named;
  } else {
    path = places.plugin_folder + "/" + kHtpFile;
    if (places.plugin_folder.empty() || !is_file(path)) path = kHtpFile;
  }
  if (path != kHtpFile) QR_RETURN_IF_ERROR(check_alone(path));
  auto opened = open_file(path);
  if (!opened.ok()) return path == kHtpFile ? missing(places) : opened.take_status();
  auto library = std::allocate_shared<Library>(Alloc<Library>());
  // The loader knows where the file is that it found by its name.
  if (void *const query = os::find_symbol(*opened, "QnnInterface_getProviders")) library->path_ = os::file_of(query);
  if (library->path_.empty()) library->path_ = path;
  QR_RETURN_IF_ERROR(library->check_library(*opened));
  const String folder = folder_of(library->path_);
  QR_ASSIGN_OR_RETURN(void *const system, open_file(folder.empty() ? String(kSystemFile) : folder + "/" + kSystemFile));
  QR_RETURN_IF_ERROR(library->check_system(system));
  return std::shared_ptr<Library>(std::move(library));
}

Status Library::check_library(const void *handle) {
  const auto query =
      reinterpret_cast<GetProvidersFn>(os::find_symbol(const_cast<void *>(handle), "QnnInterface_getProviders"));
  const Provider **list = nullptr;
  std::uint32_t count = 0;
  if (!query || query(&list, &count) != kOk || count == 0 || !list || !list[0])
    return unfit(path_, "no providers of the QNN interface", "a QNN backend library");
  const Provider &provider = *list[0];
  provider_ = &provider;
  version_ = provider.version;
  if (provider.backend_id != static_cast<std::uint32_t>(BackendId::Htp))
    return unfit(path_,
                 format("QNN backend %u (%s)", provider.backend_id, printable(provider.name ? provider.name : "?")),
                 "backend 6, HTP");
  if (version_.core.major != 2 || version_.core.minor < 18)
    return unfit(path_, "QNN interface " + version_text(version_.core), "2.18 or a later 2.x (SDK 2.25 or newer)");
  if (version_.backend.major != 5) return unfit(path_, "HTP interface " + version_text(version_.backend), "5.x");
  const std::size_t bytes = std::min(slots_of(version_.core.minor) * sizeof(void *), sizeof(Api));
  std::memcpy(&api_, &provider.api, bytes);
  const void *const needed[] = {reinterpret_cast<void *>(api_.backendCreate),
                                reinterpret_cast<void *>(api_.backendGetBuildId),
                                reinterpret_cast<void *>(api_.backendValidateOpConfig),
                                reinterpret_cast<void *>(api_.backendFree),
                                reinterpret_cast<void *>(api_.contextCreate),
                                reinterpret_cast<void *>(api_.contextGetBinarySize),
                                reinterpret_cast<void *>(api_.contextGetBinary),
                                reinterpret_cast<void *>(api_.contextCreateFromBinary),
                                reinterpret_cast<void *>(api_.contextFree),
                                reinterpret_cast<void *>(api_.graphCreate),
                                reinterpret_cast<void *>(api_.graphAddNode),
                                reinterpret_cast<void *>(api_.graphFinalize),
                                reinterpret_cast<void *>(api_.graphRetrieve),
                                reinterpret_cast<void *>(api_.graphExecute),
                                reinterpret_cast<void *>(api_.tensorCreateGraphTensor),
                                reinterpret_cast<void *>(api_.logCreate),
                                reinterpret_cast<void *>(api_.logFree),
                                reinterpret_cast<void *>(api_.deviceCreate),
                                reinterpret_cast<void *>(api_.deviceFree)};
  for (const void *const slot : needed)
    if (!slot)
      return unfit(path_, "a table without functions that are needed",
                   "a library that compiles and runs (not a saver)");
  const char *build = nullptr;
  if (api_.backendGetBuildId(&build) == kOk && build) build_id_ = printable(build);
  return {};
}

std::size_t Library::table_slots() const noexcept { return slots_of(version_.core.minor); }

std::size_t Library::table_functions() const noexcept {
  const void *slots[sizeof(Api) / sizeof(void *)];
  std::memcpy(slots, &api_, sizeof slots);
  return static_cast<std::size_t>(
      std::count_if(std::begin(slots), std::end(slots), [](const void *slot) { return slot != nullptr; }));
}

Status Library::check_system(const void *handle) {
  const auto query = reinterpret_cast<GetSystemProvidersFn>(
      os::find_symbol(const_cast<void *>(handle), "QnnSystemInterface_getProviders"));
  const SystemProvider **list = nullptr;
  std::uint32_t count = 0;
  const String path = folder_of(path_) + "/" + kSystemFile;
  if (!query || query(&list, &count) != kOk || count == 0 || !list || !list[0])
    return unfit(path, "no providers of the QNN system interface", "the QNN system library");
  system_version_ = list[0]->version;
  if (system_version_.major != 1 || system_version_.minor < 1)
    return unfit(path, "system interface " + version_text(system_version_), "1.1 or a later 1.x");
  // Later slots were moved in one release and moved back in the next; these four were never touched.
  system_.contextCreate = list[0]->api.contextCreate;
  system_.contextGetBinaryInfo = list[0]->api.contextGetBinaryInfo;
  system_.contextGetMetadata = list[0]->api.contextGetMetadata;
  system_.contextFree = list[0]->api.contextFree;
  if (!system_.contextCreate || !system_.contextGetMetadata || !system_.contextFree)
    return unfit(path, "a table without what reads binaries", "the QNN system library");
  return {};
}

namespace {

Result<void *> open_beside(const Library &beside, std::string_view path, const char *name, BackendId id, Api *out) {
  String file(path);
  if (file.empty() || is_folder(file)) file = (file.empty() ? folder_of(beside.path()) : file) + "/" + name;
  QR_ASSIGN_OR_RETURN(void *const handle, open_file(file));
  const auto query = reinterpret_cast<GetProvidersFn>(os::find_symbol(handle, "QnnInterface_getProviders"));
  const Provider **list = nullptr;
  std::uint32_t count = 0;
  if (!query || query(&list, &count) != kOk || count == 0 || !list || !list[0])
    return unfit(file, "no providers of the QNN interface", name);
  const Provider &provider = *list[0];
  if (provider.backend_id != static_cast<std::uint32_t>(id))
    return unfit(file,
                 format("QNN backend %u (%s)", provider.backend_id, printable(provider.name ? provider.name : "?")),
                 format("backend %u, %s", static_cast<unsigned>(id), id == BackendId::Ir ? "IR" : "the saver"));
  if (provider.version.core.major != 2 || provider.version.core.minor < 18)
    return unfit(file, "QNN interface " + version_text(provider.version.core), "2.18 or a later 2.x");
  Api api{};
  std::memcpy(&api, &provider.api, std::min(slots_of(provider.version.core.minor) * sizeof(void *), sizeof(Api)));
  if (!api.logCreate || !api.logFree || !api.backendCreate || !api.backendFree || !api.contextCreate ||
      !api.contextFree || !api.graphCreate || !api.tensorCreateGraphTensor || !api.graphAddNode || !api.graphFinalize)
    return unfit(file, "a table without functions that are needed", name);
  *out = api;
  return handle;
}

}  // namespace

Result<Api> open_ir_library(const Library &beside, std::string_view path) {
  Api api;
  QR_RETURN_IF_ERROR(open_beside(beside, path, kIrFile, BackendId::Ir, &api).take_status());
  return api;
}

Result<Saver> open_saver(const Library &beside, std::string_view path) {
  Saver saver;
  QR_ASSIGN_OR_RETURN(void *const handle, open_beside(beside, path, kSaverFile, BackendId::Saver, &saver.api));
  os::find_symbol(handle, "QnnSaver_initialize", saver.initialize);
  if (!saver.initialize) return unfit(String(path), "no QnnSaver_initialize", kSaverFile);
  return saver;
}

String Library::describe() const {
  return format("QNN %s (core %s, HTP %s)", build_id_, version_text(version_.core), version_text(version_.backend));
}

String version_text(const Version &version) { return format("%u.%u.%u", version.major, version.minor, version.patch); }

String error_text(Error error) {
  const Code code = code_of(error);
  switch (code) {
#define QNN_ERROR(name, number, text) \
  case Code::name:                    \
    return format("%u " #name ": " text, static_cast<unsigned>(code));
#include "backends/htp/qnn/error.inc"
#undef QNN_ERROR
  }
  return format("%u, which is not known", static_cast<unsigned>(code));
}

Status slot_missing(const Library &library, const char *slot, const char *option) {
  return Status::error(ErrorId::backend_library,
                       format("%s: found no %s in %s, which option %s needs; expected a later library",
                              printable(library.path(), 1000), slot, library.describe(), option),
                       "take a newer library, or leave the option out");
}

namespace {

// What a call's failure means to the caller: what the device's processor lost, what there is no room for, what is not
// done here, what is of another version. The rest is the library's own.
ErrorId id_of(std::string_view call, Code code) {
  switch (code) {
    case Code::Communication:
    case Code::CommunicationFatal: return ErrorId::device_lost;
    // Of a graph the same number says that it could not be prepared.
    case Code::Memory:
      return call.starts_with("graphFinalize") ? ErrorId::backend_library_call : ErrorId::out_of_memory;
    case Code::Resource:
    case Code::MemoryMapping:
    case Code::PowerMemory: return ErrorId::out_of_memory;
    case Code::NotSupported:
    case Code::Platform:
    case Code::BackendNotSupported:
    case Code::MemoryType:
    case Code::ProfileNotSupported:
    case Code::PowerNotSupported: return ErrorId::backend_limit;
    case Code::Incompatible:
    case Code::BinaryVersion:
    case Code::BinarySuboptimal: return ErrorId::qrm_incompatible_context;
    case Code::Loading: return ErrorId::backend_library;
    case Code::NoHardware: return ErrorId::backend_no_device;
    default: return ErrorId::backend_library_call;
  }
}

}  // namespace

Status call_failed(std::string_view call, Error error, const LogLines *lines, std::string_view hint) {
  const String said = lines ? lines->text() : String();
  const ErrorId id = id_of(call, code_of(error));
  return Status::error(
      id, format("%s: error %s%s%s", String(call), error_text(error), said.empty() ? "" : "; the library says: ", said),
      id == ErrorId::device_lost ? std::string_view() : hint);
}

}  // namespace quarry::qnn
