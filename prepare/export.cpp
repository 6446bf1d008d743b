// SPDX-License-Identifier: Apache-2.0
#include "prepare/export.h"

#include "base/stop.h"
#include "formats/onnx/export.h"
#include "graph/io/describe.h"
#include "graph/ops/quantization.h"
#include "passes/passes.h"

namespace quarry::prepare {
namespace {

using qir::Op;

// Integers that only move mean the same before and behind, whatever that is: no Q/DQ pair is needed.
bool only_moves(const qir::Graph &graph, const qir::Node &node) {
  if (!qir::moves_values(graph, node)) return false;
  for (const std::int32_t id : node.outputs)
    if (id != qir::kAbsent && !qir::same_quantization(qir::at(graph, node.inputs[0]), qir::at(graph, id))) return false;
  for (std::size_t i = 1; i < qir::moved_inputs(node); ++i)
    if (!qir::same_quantization(qir::at(graph, node.inputs[0]), qir::at(graph, node.inputs[i]))) return false;
  return true;
}

// What programs that read ONNX mostly lack, and others say as well.
bool is_rare(const qir::Graph &, const qir::Node &node) {
  return node.op == Op::QuickGelu || node.op == Op::FusedMatMul || node.op == Op::SwiGLU;
}

bool has_quantized(const qir::Graph &graph, const qir::Node &node) {
  for (const auto *ids : {&node.inputs, &node.outputs})
    for (const std::int32_t id : *ids)
      if (id != qir::kAbsent && qir::at(graph, id).quant) return true;
  return false;
}

// Every body too: each is a graph of its own.
Status make_standard(qir::Graph &graph, qir::Store &store) {
  for (qir::Node &node : graph.nodes)
    for (qir::Graph &body : node.subgraphs) QR_RETURN_IF_ERROR(make_standard(body, store));
  passes::dequantize_nodes(graph, store, only_moves);
  passes::decompose_unsupported(graph, store, is_rare);
  for (const qir::Node &node : graph.nodes)
    if (node.op != Op::QuantizeLinear && node.op != Op::DequantizeLinear && node.subgraphs.empty() &&
        has_quantized(graph, node) && !only_moves(graph, node))
      return Status::error(ErrorId::onnx_type,
                           format("node '%s' (%s): its quantised operands have no form in ONNX: found types that "
                                  "QuantizeLinear and DequantizeLinear lack",
                                  printable(node.name), qir::op_text(node)));
  return {};
}

constexpr std::string_view kData = ".data";

}  // namespace

Status write_model(const qir::Graph &graph, std::string_view name, FileSink &files) {
  onnx_import::ExternalConstants external;
  String data(name);
  if (name.ends_with(kData)) name.remove_suffix(kData.size());
  else if (onnx_import::needs_external_data(graph)) data += kData;
  else data.clear();
  external.location = std::string(data);
  QR_ASSIGN_OR_RETURN(const std::string bytes, onnx_import::export_graph(graph, &external));
  if (!external.parts.empty()) {
    const auto &last = external.parts.back();
    QR_RETURN_IF_ERROR(files.begin(data, last.offset + last.bytes.size, 1));
    std::uint64_t written = 0;
    for (const auto &part : external.parts) {
      QR_RETURN_IF_ERROR(stop_status("writing the model"));
      QR_RETURN_IF_ERROR(files.write(nullptr, part.offset - written));
      QR_RETURN_IF_ERROR(files.write(part.bytes.data, part.bytes.size));
      written = part.offset + part.bytes.size;
    }
  }
  QR_RETURN_IF_ERROR(files.begin(name, bytes.size(), 0));
  return files.write(bytes.data(), bytes.size());
}

Status export_graphs(const Vector<qir::Graph> &graphs, const Vector<std::string_view> &names, std::string_view name,
                     FileSink &files) {
  if (name.ends_with(".json")) {
    JsonWriter json;
    json.begin_object().key("graphs").begin_array();
    for (std::size_t i = 0; i < graphs.size(); ++i) qir::describe_graph(graphs[i], names[i], json);
    const String text = json.end_array().end_object().take();
    QR_RETURN_IF_ERROR(files.begin(name, text.size(), 0));
    return files.write(text.data(), text.size());
  }
  if (!name.ends_with(".onnx") && !name.ends_with(".onnx.data"))
    return Status::error(
        ErrorId::bad_argument,
        format("qr_model_export: the target's name is \"%s\", expected one that ends in .onnx, .onnx.data or .json",
               printable(name, 1000)));
  if (graphs.size() != 1)
    return Status::error(ErrorId::bad_argument,
                         format("qr_model_export: found %zu graphs (shape buckets), expected one: an ONNX file has no "
                                "room for more",
                                graphs.size()),
                         "export from the .onnx, with one shape bound");
  qir::Store store;
  qir::Graph graph = graphs[0];
  QR_RETURN_IF_ERROR(make_standard(graph, store));
  return write_model(graph, name, files);
}

}  // namespace quarry::prepare
