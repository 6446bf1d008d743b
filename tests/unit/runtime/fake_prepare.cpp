// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/fake_prepare.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "prepare/prepare_api.h"
#include "runtime/core/plugin_text.h"

using namespace quarry;

namespace {

int g_alive = 0;
constexpr float kTen = 10;
// metadata_props as a careless exporter writes them.
constexpr struct {
  std::string_view key, value;
} kProperties[] = {{"author", "somebody"},
                   {"names", "{0: 'a'}"},
                   {"", "nameless"},
                   {"names", "again"},
                   {"latin",
                    "Gr\xfc\xdf"
                    "e"}};

std::vector<std::int64_t> parse_shape(std::string_view text) {  // "x=2x3"
  std::vector<std::int64_t> dims;
  for (std::size_t at = text.find('='); at != std::string_view::npos; at = text.find('x', at + 1))
    dims.push_back(std::atoll(std::string(text.substr(at + 1)).c_str()));
  return dims;
}

qir::Graph make_graph(const std::vector<std::int64_t> &dims) {
  const qir::Shape shape(dims.begin(), dims.end());
  qir::Graph graph;
  graph.name = "fake";
  const auto tensor = [&](const char *name, DType dtype, const qir::Shape &of) {
    qir::Tensor made;
    made.name = name;
    made.dtype = dtype;
    made.shape = of;
    graph.tensors.push_back(made);
    return static_cast<std::int32_t>(graph.tensors.size() - 1);
  };
  const std::int32_t x = tensor("x", DType::F32, shape), ten = tensor("ten", DType::F32, {});
  const std::int32_t y = tensor("y", DType::F32, shape),
                     nonzero = tensor("nonzero", DType::I64, {static_cast<std::int64_t>(dims.size()), -1});
  graph.tensors[1].is_constant = true;
  graph.tensors[1].data = {&kTen, sizeof kTen};
  qir::Node add, find;
  add.op = qir::Op::Add;
  add.name = "add";
  add.inputs = {x, ten};
  add.outputs = {y};
  find.op = qir::Op::NonZero;
  find.name = "find";
  find.inputs = {x};
  find.outputs = {nonzero};
  graph.nodes.push_back(std::move(add));
  graph.nodes.push_back(std::move(find));
  graph.inputs = {x};
  graph.outputs = {y, nonzero};
  return graph;
}

void describe(qr_prepare_io *io, const char *name, DType dtype) {
  *io = {};
  io->name = plugin_string(name);
  io->dtype = static_cast<std::int32_t>(dtype);
  io->rank = 2;
  io->dims[0] = io->dims[1] = -1;
  io->dim_names[0] = plugin_string(name[0] == 'n' ? "" : "rows");
  io->dim_names[1] = plugin_string(name[0] == 'n' ? "" : "columns");
}

void set_error(const qr_error_sink *errors, ErrorId id, const char *message) {
  const ErrorRow row = error_row(id);
  errors->set(errors->self, row.code, plugin_string(row.id), plugin_string(message), plugin_string(row.hint));
}

}  // namespace

int fake_prepare_alive() noexcept { return g_alive; }

struct qr_prepared_model {
  int nothing;
};
struct qr_lowered {
  std::vector<std::string> names;
  std::vector<Vector<std::uint8_t>> graphs;
  std::vector<std::uint64_t> pool;  // aligned storage
  std::uint64_t pool_size = 0;
};

extern "C" const qr_prepare_api *qr_prepare_query(uint32_t version);
extern "C" const qr_prepare_api *qr_prepare_query(uint32_t version) {
  static const qr_prepare_api api = {
      sizeof(qr_prepare_api),
      QR_PREPARE_VERSION,
      [](const qr_host *, qr_plugin_bytes, std::int32_t, std::int32_t, const qr_prepare_external *,
         const qr_plugin_signal *, qr_prepared_model **out, const qr_error_sink *) -> qr_plugin_code {
        ++g_alive;
        *out = new qr_prepared_model{0};
        return 0;
      },
      [](qr_prepared_model *model) {
        --g_alive;
        delete model;
      },
      [](qr_prepared_model *) -> std::uint64_t { return 1; },
      [](qr_prepared_model *) -> std::uint64_t { return 2; },
      [](qr_prepared_model *, std::uint64_t, qr_prepare_io *io) { describe(io, "x", DType::F32); },
      [](qr_prepared_model *, std::uint64_t index, qr_prepare_io *io) {
        describe(io, index ? "nonzero" : "y", index ? DType::I64 : DType::F32);
      },
      [](qr_prepared_model *) { return plugin_string("fake 1.0"); },
      [](qr_prepared_model *) -> std::uint64_t { return std::size(kProperties); },
      [](qr_prepared_model *, std::uint64_t index, qr_plugin_string *key, qr_plugin_string *value) {
        *key = plugin_string(kProperties[index].key);
        *value = plugin_string(kProperties[index].value);
      },
      [](qr_prepared_model *, std::int32_t *folder, const qr_error_sink *) -> qr_plugin_code {
        *folder = -1;
        return 0;
      },
      [](qr_prepared_model *, qr_plugin_string *json, const qr_error_sink *) -> qr_plugin_code {
        *json = plugin_string("{\"producer\": \"fake\"}");
        return 0;
      },
      [](qr_prepared_model *, const qr_plugin_signal *, const qr_error_sink *) -> qr_plugin_code { return 0; },
      [](qr_prepared_model *, const qr_plugin_string *shapes, std::uint64_t count, std::int32_t,
         const qr_plugin_signal *, const qr_prepare_progress *progress, qr_lowered **out,
         const qr_error_sink *errors) -> qr_plugin_code {
        if (count == 0) {
          set_error(errors, ErrorId::onnx_unbound_shape, "input x: its dimension rows is symbolic");
          return error_row(ErrorId::onnx_unbound_shape).code;
        }
        if (progress && progress->report) progress->report(progress->self, 0, count, plugin_string("lower"));
        auto *lowered = new qr_lowered;
        qir::ConstantPool pool;
        for (std::uint64_t i = 0; i < count; ++i) {
          auto graph = qir::write_graph(make_graph(parse_shape(text_of(shapes[i]))), pool);
          if (!graph.ok()) {
            set_error(errors, ErrorId::internal, std::string(graph.status().message()).c_str());
            delete lowered;
            return QR_INTERNAL;
          }
          lowered->names.emplace_back(text_of(shapes[i]));
          lowered->graphs.push_back(std::move(graph.value()));
        }
        lowered->pool_size = pool.size();
        lowered->pool.resize(pool.size() / 8 + 1);
        pool.write_to(lowered->pool.data());
        ++g_alive;
        *out = lowered;
        return 0;
      },
      [](qr_lowered *lowered) {
        --g_alive;
        delete lowered;
      },
      [](qr_lowered *lowered) -> std::uint64_t { return lowered->graphs.size(); },
      [](qr_lowered *lowered, std::uint64_t index, qr_lowered_graph *out) {
        *out = {plugin_string(lowered->names[index]), {lowered->graphs[index].data(), lowered->graphs[index].size()}};
      },
      [](qr_lowered *lowered) -> qr_plugin_bytes {
        return {lowered->pool.data(), lowered->pool_size};
      }};
  return version == QR_PREPARE_VERSION ? &api : nullptr;
}
