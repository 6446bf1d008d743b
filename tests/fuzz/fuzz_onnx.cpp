// SPDX-License-Identifier: Apache-2.0
// Any bytes -> ONNX model -> QIR, through the table of libquarry-prepare: as the model is and, where inputs have
// unknown dimensions, with 2 for each. A refusal has a message; what is lowered is a valid graph; nothing is left over.
#include <cstdlib>
#include <cstring>
#include <string>

#include "graph/graph.h"
#include "prepare/prepare_api.h"

extern "C" const qr_prepare_api *qr_prepare_query(uint32_t version);

namespace {

using namespace quarry;

// A host that gives a little memory and no more, and counts it.
constexpr uint64_t kMemory = uint64_t{256} << 20;
uint64_t g_used = 0;
void *host_alloc(void *, uint64_t size, uint64_t align) {
  void *ptr = nullptr;
  if (size > kMemory - g_used || posix_memalign(&ptr, align < 16 ? 16 : align, size ? size : 1) != 0) return nullptr;
  g_used += size;
  return ptr;
}
void host_free(void *, void *ptr, uint64_t size, uint64_t) {
  g_used -= size;
  std::free(ptr);
}
const qr_host kHost = {sizeof(qr_host),
                       1,
                       0,
                       0,
                       QR_PLUGIN_MAGIC,
                       nullptr,
                       host_alloc,
                       host_free,
                       [](void *, int32_t, qr_plugin_string, qr_plugin_string) {},
                       [](void *) -> uint64_t { return 1000; },
                       [](void *, const char *) -> const void * { return nullptr; }};

struct Errors {
  std::size_t told = 0;
  qr_error_sink sink = {
      sizeof(qr_error_sink), 0, this,
      [](void *self, qr_plugin_code, qr_plugin_string id, qr_plugin_string message, qr_plugin_string) {
        if (id.size > 0) static_cast<Errors *>(self)->told += message.size;
      },
      [](void *, qr_plugin_string, qr_plugin_string) {}};
};

void require(bool holds) {
  if (!holds) std::abort();
}

bool lower(const qr_prepare_api &api, qr_prepared_model *model, const std::string &shape, int32_t takes_ranges) {
  Errors errors;
  qr_lowered *lowered = nullptr;
  const qr_plugin_string bucket{shape.data(), shape.size()};
  const qr_plugin_code code =
      api.lower(model, &bucket, shape.empty() ? 0 : 1, takes_ranges, nullptr, nullptr, &lowered, &errors.sink);
  require((code == 0) == (lowered != nullptr) && (code == 0 || errors.told > 0));
  if (code != 0) return false;
  const qr_plugin_bytes all = api.pool(lowered);
  const qir::Bytes pool{all.data, all.size};
  for (uint64_t i = 0; i < api.graph_count(lowered); ++i) {
    qr_lowered_graph one;
    api.graph(lowered, i, &one);
    const Result<qir::Graph> graph = qir::read_graph({one.qir.data, one.qir.size}, &pool, 1);
    require(graph.ok() && qir::validate_graph(graph.value()).ok());
  }
  api.lowered_destroy(lowered);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const qr_prepare_api &api = *qr_prepare_query(QR_PREPARE_VERSION);
  Errors errors;
  qr_prepared_model *model = nullptr;
  const qr_plugin_code code = api.open(&kHost, {data, size}, -1, 0, nullptr, nullptr, &model, &errors.sink);
  require((code == 0) == (model != nullptr) && (code == 0 || errors.told > 0));
  if (code == 0) {
    qr_plugin_string json;
    require(api.inspect(model, &json, &errors.sink) == 0 ? json.size > 0 : errors.told > 0);
    std::string shape;
    for (uint64_t i = 0; i < api.input_count(model); ++i) {
      qr_prepare_io io;
      api.input(model, i, &io);
      std::string dims;
      bool unknown = false;
      for (uint32_t axis = 0; axis < io.rank; ++axis) {
        unknown = unknown || io.dims[axis] < 0;
        dims += (axis ? "x" : "") + std::to_string(io.dims[axis] < 0 ? 2 : io.dims[axis]);
      }
      if (unknown) shape += (shape.empty() ? "" : ",") + std::string(io.name.data, io.name.size) + "=" + dims;
    }
    if (!lower(api, model, "", 0) && !shape.empty()) {
      lower(api, model, shape, 0);
      lower(api, model, "", 1);  // one graph for every length
    }
    api.destroy(model);
  }
  require(g_used == 0);
  return 0;
}
