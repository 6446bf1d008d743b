// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/dlc.h"

#include <cerrno>

#include "backends/htp/compile/dump.h"
#include "backends/htp/qnn/ir_abi.h"
#include "base/os/path.h"
#include "base/os_error.h"

namespace quarry::htp {

namespace {

// What is made in the library for one file.
struct IrObjects {
  explicit IrObjects(const qnn::Api &from) : api(from) {}
  ~IrObjects() {
    if (context) (void)api.contextFree(context, nullptr);
    if (backend) (void)api.backendFree(backend);
    if (log) (void)api.logFree(log);
  }
  const qnn::Api &api;
  qnn::Handle log = nullptr, backend = nullptr, context = nullptr, graph = nullptr;
};

}  // namespace

Status dump_dlc(const Engine &engine, const Draft &draft, const CompileOptions &options, const Writer::Step &step) {
  const Settings &settings = options.settings;
  if (!settings.flag("dump_qnn_ir_dlc") || draft.nodes.empty()) return {};
  QR_ASSIGN_OR_RETURN(const qnn::Api api, qnn::open_ir_library(engine.library(), settings.text("qnn_ir_backend_path")));
  const String path = dump_path(settings.text("dump_qnn_ir_dlc_dir"), draft, *options.soc, ".dlc");
  os::remove_file(path.c_str());  // so that what is there afterwards is this graph
  qnn::LogLines lines;
  IrObjects made(api);
  const auto failed = [&](const char *call, qnn::Error error) {
    return qnn::call_failed(format("option dump_qnn_ir_dlc: %s: %s of libQnnIr", printable(path, 1000), call), error,
                            &lines,
                            "the folder of dump_qnn_ir_dlc_dir must be there; without the option, dump_json_qnn_graph "
                            "writes the graph as JSON");
  };
  if (const qnn::Error error =
          api.logCreate(qnn::write_log, static_cast<std::uint32_t>(qnn::LogLevel::Warnings), &made.log))
    return failed("logCreate", error);
  if (const qnn::Error error = api.backendCreate(made.log, nullptr, &made.backend))
    return failed("backendCreate", error);
  if (const qnn::Error error = api.contextCreate(made.backend, nullptr, nullptr, &made.context))
    return failed("contextCreate", error);
  qnn::IrGraphConfig file{};
  file.option = 1, file.type = 1, file.path = path.c_str();
  qnn::GraphConfig config{};
  config.option = qnn::GraphOpt::Custom, config.custom = &file;
  const qnn::GraphConfig *list[] = {&config, nullptr};
  if (const qnn::Error error = api.graphCreate(made.context, draft.name.c_str(), list, &made.graph))
    return failed("graphCreate", error);
  // Ids are counted by each library for itself, so the tensors are not those of the compilation; and this one wants a
  // name for each node.
  Draft named = draft;
  UniqueNames names;
  for (DraftNode &node : named.nodes) node.name = names.of(node.name);
  Writer writer(engine, named);
  QR_RETURN_IF_ERROR(writer.add(api, made.graph, step));
  if (const qnn::Error error = api.graphFinalize(made.graph, nullptr, nullptr)) return failed("graphFinalize", error);
  if (os::allows(path.c_str(), os::Access::Read)) return {};
  const int error = errno;
  return Status::error(
      os_error_id(error, ErrorId::io_error),
      format("option dump_qnn_ir_dlc_dir: %s was not written: %s", printable(path, 1000), os_error_text(error)));
}

}  // namespace quarry::htp
