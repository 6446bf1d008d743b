// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/other_library.h"

#include "backends/htp/compile/dump.h"

namespace quarry::htp {

namespace {

// What is made in the library for one graph.
struct Objects {
  explicit Objects(const qnn::Api &from) : api(from) {}
  ~Objects() {
    if (context) (void)api.contextFree(context, nullptr);
    if (backend) (void)api.backendFree(backend);
    if (log) (void)api.logFree(log);
  }
  const qnn::Api &api;
  qnn::Handle log = nullptr, backend = nullptr, context = nullptr, graph = nullptr;
};

}  // namespace

Status write_elsewhere(const OtherLibrary &library, const Engine &engine, const Draft &draft,
                       const Writer::Step &step) {
  const qnn::Api &api = library.api;
  qnn::LogLines lines;
  Objects made(api);
  const auto failed = [&](const char *call, qnn::Error error) {
    return qnn::call_failed(format("%s: %s of %s", library.subject, call, library.name), error, &lines, library.hint);
  };
  if (const qnn::Error error =
          api.logCreate(qnn::write_log, static_cast<std::uint32_t>(qnn::LogLevel::Warnings), &made.log))
    return failed("logCreate", error);
  if (const qnn::Error error = api.backendCreate(made.log, nullptr, &made.backend))
    return failed("backendCreate", error);
  if (const qnn::Error error = api.contextCreate(made.backend, nullptr, nullptr, &made.context))
    return failed("contextCreate", error);
  if (const qnn::Error error = api.graphCreate(made.context, draft.name.c_str(), library.configs, &made.graph))
    return failed("graphCreate", error);
  // Ids are counted by each library for itself, so the tensors are not those of the compilation; and these want a name
  // for each node.
  Draft named = draft;
  UniqueNames names;
  for (DraftNode &node : named.nodes) node.name = names.of(node.name);
  Writer writer(engine, named);
  QR_RETURN_IF_ERROR(writer.add(api, made.graph, step));
  if (const qnn::Error error = api.graphFinalize(made.graph, nullptr, nullptr)) return failed("graphFinalize", error);
  return {};
}

}  // namespace quarry::htp
