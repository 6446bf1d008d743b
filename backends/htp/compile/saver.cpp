// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/saver.h"

#include <cerrno>
#include <mutex>

#include "backends/htp/compile/dump.h"
#include "backends/htp/compile/other_library.h"
#include "backends/htp/qnn/log.h"
#include "base/os/path.h"
#include "base/os_error.h"

namespace quarry::htp {

Status save_calls(const Engine &engine, const Draft &draft, const CompileOptions &options, const Writer::Step &step) {
  const Settings &settings = options.settings;
  const std::string_view library = settings.text("qnn_saver_path");
  if (library.empty() || draft.nodes.empty()) return {};
  const String folder = settings.text("htp.saver_dir").empty() ? String(".") : String(settings.text("htp.saver_dir"));
  const String calls = dump_path({}, draft, *options.soc, "_calls.c"),
               data = dump_path({}, draft, *options.soc, "_data.bin"), path = folder + "/" + calls;
  // The library writes nowhere else for the rest of the process where its folder is not there, so that is asked first.
  const String subject = format("option htp.saver_dir: %s", printable(path, 1000));
  if (!os::allows(folder.c_str(), os::Access::ReadAndWrite)) {
    const int error = errno;
    return Status::error(os_error_id(error, ErrorId::io_error),
                         format("option htp.saver_dir: found %s (%s), expected a folder that can be written to",
                                printable(folder, 1000), os_error_text(error)));
  }
  static std::mutex one_record;  // the library has one at a time
  const std::lock_guard lock(one_record);
  QR_ASSIGN_OR_RETURN(const qnn::Saver saver, qnn::open_saver(engine.library(), library));
  for (const String &file : {calls, data}) os::remove_file((folder + "/" + file).c_str());
  constexpr std::uint32_t kFolder = 0, kFiles = 3;
  qnn::SaverConfig where{}, names{};
  where.option = kFolder, where.folder = folder.c_str();
  names.option = kFiles, names.files = {calls.c_str(), data.c_str()};
  const qnn::SaverConfig *list[] = {&where, &names, nullptr};
  qnn::LogLines lines;
  constexpr char kHint[] = "htp.record has every call, and needs no other library";
  if (const qnn::Error error = saver.initialize(list))
    return qnn::call_failed(subject + ": QnnSaver_initialize", error, &lines, kHint);
  QR_RETURN_IF_ERROR(write_elsewhere({saver.api, "libQnnSaver", subject, kHint}, engine, draft, step));
  if (os::allows(path.c_str(), os::Access::Read)) return {};
  const int error = errno;
  return Status::error(os_error_id(error, ErrorId::io_error),
                       format("%s was not written: %s", subject, os_error_text(error)));
}

}  // namespace quarry::htp
