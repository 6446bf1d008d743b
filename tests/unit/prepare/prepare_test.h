// SPDX-License-Identifier: Apache-2.0
// What tests of libquarry-prepare share: a host, errors by id, models that are lowered and run by the interpreter.
#pragma once

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>
#include "backends/cpu-reference/folder.h"
#include "backends/cpu-reference/interpreter.h"
#include "graph/dimensions.h"
#include "prepare/lower.h"
#include "prepare/prepare_api.h"
#include "prepare/shapes.h"
#include "tests/support/check.h"
#include "tests/unit/onnx/model_text.h"

extern "C" const qr_prepare_api *qr_prepare_query(uint32_t version);

namespace quarry::test {

inline std::int64_t live_blocks = 0;
inline void *host_alloc(void *, uint64_t size, uint64_t align) {
  void *ptr = nullptr;
  if (posix_memalign(&ptr, align < 16 ? 16 : align, size ? size : 1) != 0) return nullptr;
  ++live_blocks;
  return ptr;
}
inline void host_free(void *, void *ptr, uint64_t, uint64_t) {
  --live_blocks;
  std::free(ptr);
}
inline const qr_host kHost = {sizeof(qr_host),
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
  std::string id, message, hint;
  std::vector<std::string> details;
  qr_error_sink sink = {
      sizeof(qr_error_sink), 0, this,
      [](void *self, qr_plugin_code, qr_plugin_string id, qr_plugin_string message, qr_plugin_string hint) {
        auto *errors = static_cast<Errors *>(self);
        errors->id.assign(id.data, id.size);
        errors->message.assign(message.data, message.size);
        errors->hint.assign(hint.data, hint.size);
      },
      [](void *self, qr_plugin_string, qr_plugin_string value) {
        static_cast<Errors *>(self)->details.emplace_back(value.data, value.size);
      }};
  bool says(const char *part) const { return message.find(part) != std::string::npos; }
};

inline qr_plugin_string text(const char *from) { return {from, std::strlen(from)}; }

// A model through the table: opened, lowered for the given buckets, read back.
struct LoweredModel {
  const qr_prepare_api *api = qr_prepare_query(QR_PREPARE_VERSION);
  std::string bytes;
  qr_prepared_model *model = nullptr;
  qr_lowered *lowered = nullptr;
  Errors errors;
  qr_plugin_code code = 0;
  Vector<qir::Graph> graphs;
  qir::Bytes pool;

  LoweredModel(const ModelText &from, std::vector<const char *> buckets = {}, const qr_plugin_signal *signal = nullptr,
               bool takes_ranges = false)
      : bytes(from.bytes()) {
    code = api->open(&kHost, {bytes.data(), bytes.size()}, -1, 0, nullptr, nullptr, &model, &errors.sink);
    if (code != 0) return;
    std::vector<qr_plugin_string> shapes;
    for (const char *bucket : buckets) shapes.push_back(text(bucket));
    code = api->lower(model, shapes.data(), shapes.size(), takes_ranges, signal, nullptr, &lowered, &errors.sink);
    if (code != 0) return;
    const qr_plugin_bytes all = api->pool(lowered);
    pool = {all.data, all.size};
    for (uint64_t i = 0; i < api->graph_count(lowered); ++i) {
      qr_lowered_graph one;
      api->graph(lowered, i, &one);
      auto graph = qir::read_graph({one.qir.data, one.qir.size}, &pool, 1);
      REQUIRE_OK(graph);
      graphs.push_back(std::move(*graph));
    }
  }
  ~LoweredModel() {
    api->lowered_destroy(lowered);
    api->destroy(model);
  }
};

// The first output for one input.
inline std::vector<float> run(const qir::Graph &graph, std::vector<float> input) {
  auto program = reference::Program::build(graph);
  REQUIRE_OK(program);
  reference::Execution execution(**program);
  struct Alone final : reference::Environment {
  } alone;
  reference::IoBuffer in;
  std::vector<reference::IoBuffer> out(graph.outputs.size());
  in.data = input.data();
  in.size_bytes = input.size() * sizeof(float);
  const qir::Shape &shape = graph.tensors[static_cast<std::size_t>(graph.inputs[0])].shape;
  in.rank = static_cast<std::uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), in.dims);
  REQUIRE_OK(execution.run(&in, 1, out.data(), out.size(), alone));
  const auto *data = static_cast<const float *>(out[0].data);
  return std::vector<float>(data, data + out[0].used_bytes / sizeof(float));
}

inline std::vector<float> run_lowered(const LoweredModel &done, std::vector<float> input) {
  return done.graphs.empty() ? std::vector<float>() : run(done.graphs[0], std::move(input));
}

}  // namespace quarry::test
