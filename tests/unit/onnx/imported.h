// SPDX-License-Identifier: Apache-2.0
// A model of a test imported without folding: the graph, or why there is none. Unnamed and symbolic dimensions are 2.
#pragma once

#include <algorithm>

#include "formats/onnx/importer.h"
#include "tests/support/check.h"
#include "tests/unit/onnx/model_text.h"

namespace quarry::onnx_import {

struct Imported {
  Unique<Model> model;
  Store store;
  qir::Graph graph;
  Status status;

  bool has_reason(std::string_view part) const {
    if (!status.payload()) return false;
    return std::ranges::any_of(status.payload()->details, [&](const Status::Detail &detail) {
      return detail.key == "reason" && std::string_view(detail.value).find(part) != std::string_view::npos;
    });
  }
  const qir::Node *find(qir::Op op) const {
    for (const qir::Node &node : graph.nodes)
      if (node.op == op) return &node;
    return nullptr;
  }
  const qir::Tensor &tensor(std::int32_t id) const { return graph.tensors[index_of(id)]; }
  Vector<std::int64_t> ints(std::int32_t id) const {
    const auto *data = static_cast<const std::int64_t *>(tensor(id).data.data);
    return Vector<std::int64_t>(data, data + tensor(id).data.size / sizeof *data);
  }
};

inline void import(Result<Unique<Model>> model, Imported &out) {
  if (!model.ok()) {
    out.status = model.take_status();
    return;
  }
  out.model = std::move(*model);
  Vector<InputBinding> bindings;
  for (const Declared &input : out.model->inputs()) {
    bindings.push_back({input.shape, {}});
    std::ranges::replace(bindings.back().shape, qir::kUnknownDim, 2);
  }
  auto graph = import_graph(*out.model, bindings, out.store, nullptr, nullptr);
  if (!graph.ok()) out.status = graph.take_status();
  else out.graph = std::move(*graph);
  if (out.status.ok()) CHECK_OK(qir::validate_graph(out.graph));
}
// `folder`: a path in it; none: the model lies in memory.
inline Result<Unique<Model>> open_bytes(const std::string &bytes, std::string_view folder = "",
                                        ExternalUse use = ExternalUse::Map) {
  OpenFd opened = folder.empty() ? OpenFd() : Model::open_folder(String(folder) + "/model.onnx");
  return Model::open({bytes.data(), bytes.size()}, std::move(opened), use);
}
inline void import(const test::ModelText &text, Imported &out, std::string_view folder = "") {
  import(open_bytes(text.bytes(), folder), out);
}

}  // namespace quarry::onnx_import
