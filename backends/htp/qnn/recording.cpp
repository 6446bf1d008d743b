// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/qnn/recording.h"

#include "backends/htp/qnn/library_file.h"
#include "backends/htp/record/seam.h"

namespace quarry::qnn {

namespace {

// Beside libquarry where all is installed, in a folder of its own where it was built.
void *open_recorder(const String &plugin_folder) {
  for (const char *const place : {"/../../" QR_REPLAY_FILE, "/" QR_REPLAY_FILE, "/record/" QR_REPLAY_FILE})
    if (const String file = plugin_folder + place; is_file(file)) return os::open_library(file.c_str());
  return os::open_library(QR_REPLAY_FILE);
}

}  // namespace

Status record_calls(Library &library, const String &plugin_folder, std::string_view file, bool keeps_weights) {
  void *const recorder = open_recorder(plugin_folder);
  const auto begin =
      recorder ? reinterpret_cast<quarry_record_begin_fn>(os::find_symbol(recorder, QUARRY_RECORD_BEGIN)) : nullptr;
  if (!begin)
    return Status::error(ErrorId::backend_library,
                         format("option htp.record: " QR_REPLAY_FILE ": %s",
                                recorder ? String("found no recorder in it") : printable(os::library_error(), 1000)),
                         "install libquarry-replay of this release beside libquarry; static builds have none");
  char why[2048] = "out of memory", hint[256] = "";
  std::int32_t code = QR_INTERNAL;
  const String path(file);
  const quarry_record_wish wish{path.c_str(), keeps_weights, &library.provider(), library.build_id().c_str(),
                                QR_RELEASE,   why,           sizeof why,          hint,
                                sizeof hint,  &code};
  if (const void *const table = begin(&wish)) {
    library.call_through(*static_cast<const Api *>(table));
    return {};
  }
  return Status::error(code == QR_INVALID_ARGUMENT ? ErrorId::bad_option_value : ErrorId::file_not_writable, why, hint);
}

}  // namespace quarry::qnn
