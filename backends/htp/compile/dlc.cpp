// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/dlc.h"

#include <cerrno>

#include "backends/htp/compile/dump.h"
#include "backends/htp/compile/other_library.h"
#include "backends/htp/qnn/ir_abi.h"
#include "base/os/path.h"
#include "base/os_error.h"

namespace quarry::htp {

Status dump_dlc(const Engine &engine, const Draft &draft, const CompileOptions &options, const Writer::Step &step) {
  const Settings &settings = options.settings;
  if (!settings.flag("dump_qnn_ir_dlc") || draft.nodes.empty()) return {};
  QR_ASSIGN_OR_RETURN(const qnn::Api api, qnn::open_ir_library(engine.library(), settings.text("qnn_ir_backend_path")));
  const String path = dump_path(settings.text("dump_qnn_ir_dlc_dir"), draft, *options.soc, ".dlc");
  os::remove_file(path.c_str());  // so that what is there afterwards is this graph
  qnn::IrGraphConfig file{};
  file.option = 1, file.type = 1, file.path = path.c_str();
  qnn::GraphConfig config{};
  config.option = qnn::GraphOpt::Custom, config.custom = &file;
  const qnn::GraphConfig *list[] = {&config, nullptr};
  QR_RETURN_IF_ERROR(write_elsewhere(
      {api, "libQnnIr", format("option dump_qnn_ir_dlc: %s", printable(path, 1000)),
       "the folder of dump_qnn_ir_dlc_dir must be there; without the option, dump_json_qnn_graph writes the graph as "
       "JSON",
       list},
      engine, draft, step));
  if (os::allows(path.c_str(), os::Access::Read)) return {};
  const int error = errno;
  return Status::error(
      os_error_id(error, ErrorId::io_error),
      format("option dump_qnn_ir_dlc_dir: %s was not written: %s", printable(path, 1000), os_error_text(error)));
}

}  // namespace quarry::htp
