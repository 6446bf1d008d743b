// SPDX-License-Identifier: Apache-2.0
// A stand-in for libQnnSystem.so.
#include <memory>

#include "backends/htp/qnn/htp_abi.h"
#include "backends/htp/qnn/system_abi.h"
#include "tests/plugins/qnn/binary.h"
#include "tests/plugins/qnn/script.h"

namespace standin {
namespace {

struct SystemContext {
  std::vector<HeldGraph> held;
  std::vector<std::vector<qnn::Tensor>> tensors;
  std::vector<qnn::GraphInfo> graphs;
  qnn::HtpGraphBlobV1 blob{};
  qnn::HtpContextBlobV1 meta{1, 75};
  std::string build;
  qnn::BinInfo info{};
};

Error context_create(qnn::Handle *out) {
  *out = new SystemContext;
  return 0;
}
Error context_free(qnn::Handle handle) {
  delete static_cast<SystemContext *>(handle);
  return 0;
}
Error get_metadata(qnn::Handle handle, const void *data, std::uint64_t bytes, const qnn::BinInfo **out) {
  if (const Error error = meet("contextGetMetadata")) return error;
  SystemContext &c = *static_cast<SystemContext *>(handle);
  std::uint32_t soc = 0;
  c = SystemContext();
  if (!read_binary(data, bytes, soc, c.held)) return 30010;
  c.blob.version = 1, c.blob.spill = std::stoull(setting("spill", "65536")), c.blob.vtcm_mb = 4u << 20;
  for (HeldGraph &graph : c.held)
    for (auto *list : {&graph.inputs, &graph.outputs}) {
      auto &tensors = c.tensors.emplace_back();
      for (HeldTensor &held : *list) tensors.push_back(held.point());
    }
  for (std::size_t i = 0; i < c.held.size(); ++i) {
    qnn::GraphInfo &graph = c.graphs.emplace_back();
    graph.version = 3, graph.name = c.held[i].name.c_str();
    graph.in = c.tensors[2 * i].data(), graph.n_in = static_cast<std::uint32_t>(c.tensors[2 * i].size());
    graph.out = c.tensors[2 * i + 1].data(), graph.n_out = static_cast<std::uint32_t>(c.tensors[2 * i + 1].size());
    graph.blob = &c.blob, graph.blob_bytes = sizeof c.blob;
  }
  c.build = setting("build", "v9.9.9");
  c.info.version = 3;
  c.info.v3.backend_id = 6, c.info.v3.build_id = c.build.c_str();
  c.info.v3.core = version("core", "2.40.0"), c.info.v3.backend = version("htp", "5.51.0");
  c.info.v3.ctx_blob = {4, 0, 6};
  c.info.v3.n_graphs = static_cast<std::uint32_t>(c.graphs.size()), c.info.v3.graphs = c.graphs.data();
  c.info.v3.meta_bytes = sizeof c.meta, c.info.v3.meta = &c.meta, c.info.v3.soc_model = soc;
  *out = &c.info;
  return 0;
}
Error get_binary_info(qnn::Handle handle, void *data, std::uint64_t bytes, const qnn::BinInfo **out,
                      qnn::BinSize *size) {
  *size = 0;
  return get_metadata(handle, data, bytes, out);
}

}  // namespace
}  // namespace standin

extern "C" __attribute__((visibility("default"))) quarry::qnn::Error QnnSystemInterface_getProviders(
    const quarry::qnn::SystemProvider ***list, std::uint32_t *count) {
  static quarry::qnn::SystemProvider provider{};
  static const quarry::qnn::SystemProvider *providers[] = {&provider};
  provider.name = "STANDIN_SYSTEM";
  provider.version = standin::version("system", "1.15.0");
  provider.api.contextCreate = standin::context_create;
  provider.api.contextGetBinaryInfo = standin::get_binary_info;
  provider.api.contextGetMetadata = standin::get_metadata;
  provider.api.contextFree = standin::context_free;
  *list = providers;
  *count = 1;
  return 0;
}
