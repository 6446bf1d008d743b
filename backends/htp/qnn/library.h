// SPDX-License-Identifier: Apache-2.0
// Qualcomm's libraries: found, checked, opened. They are the user's own copy, stay open until the process ends (closing
// them does not unload them), and are called through a table of which each slot is there for this version or null.
#pragma once

#include <memory>

#include "backends/htp/qnn/function_table.h"
#include "backends/htp/qnn/saver_abi.h"
#include "backends/htp/qnn/system_abi.h"
#include "base/status.h"

namespace quarry::qnn {

// Where to look, in this order. What the caller names (`option`, `environment`) is the only place then: nothing else is
// taken in its stead.
struct LibraryPlaces {
  String option;         // of htp.library_path: a folder, or the file; empty: not given
  String environment;    // QUARRY_QNN_PATH, likewise
  String plugin_folder;  // beside the plugin; empty: not known
  // At last by its name, as the system's loader searches.
};
LibraryPlaces library_places(std::string_view option);

// Of one folder: libQnnHtp.so, and libQnnSystem.so beside it.
class Library {
 public:
  static Result<std::shared_ptr<Library>> open(const LibraryPlaces &places);

  // Slots that this version does not have are null.
  const Api &api() const noexcept { return api_; }
  // What the library gave, and other functions to call it through (recording.h).
  const Provider &provider() const noexcept { return *provider_; }
  void call_through(const Api &table) noexcept { api_ = table; }
  const SystemApi &system() const noexcept { return system_; }
  const ApiVersion &version() const noexcept { return version_; }
  const Version &system_version() const noexcept { return system_version_; }
  const String &build_id() const noexcept { return build_id_; }
  const String &path() const noexcept { return path_; }
  // The x86-64 library has no device behind it but an emulator of every SoC.
  static constexpr bool emulates() noexcept {
#if defined(__x86_64__)
    return true;
#else
    return false;
#endif
  }
  // How many functions of the table this version has for certain, and how many of them are there.
  std::size_t table_slots() const noexcept;
  std::size_t table_functions() const noexcept;
  // The device's own configuration changed its layout with HTP 5.47.
  bool device_config_is_wide() const noexcept { return version_.backend.minor >= 47; }
  // "QNN v2.51.0 (core 2.40.0, HTP 5.51.0)".
  String describe() const;

 private:
  Status check_library(const void *handle);
  Status check_system(const void *handle);

  const Provider *provider_ = nullptr;
  Api api_ = {};
  SystemApi system_ = {};
  ApiVersion version_ = {};
  Version system_version_ = {};
  String build_id_, path_;
};

// The table of libQnnIr.so: `path` is its file or folder; empty: beside the libraries.
Result<Api> open_ir_library(const Library &beside, std::string_view path);

// That of libQnnSaver.so, likewise, and what begins a record of calls.
struct Saver {
  Api api{};
  Error (*initialize)(const SaverConfig **) = nullptr;
};
Result<Saver> open_saver(const Library &beside, std::string_view path);

String version_text(const Version &version);

// Why a call failed: its name, the error by name and number, and what the library said meanwhile (may be null).
class LogLines;
Status call_failed(std::string_view call, Error error, const LogLines *lines, std::string_view hint = {});
// That a function is not there: the library is older than what the option needs.
Status slot_missing(const Library &library, const char *slot, const char *option);
// "6004 GraphTensor: a tensor of the graph was not accepted".
String error_text(Error error);

}  // namespace quarry::qnn
