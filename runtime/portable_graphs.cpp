// SPDX-License-Identifier: Apache-2.0
#include "runtime/portable_graphs.h"

#include "runtime/plugin_text.h"

namespace quarry {
namespace {

qr_plugin_bytes plugin_bytes(const qir::Bytes &bytes) noexcept { return {bytes.data, bytes.size}; }

qrm::TensorInfo tensor_info(const qir::Tensor &tensor) {
  return {tensor.name, tensor.dtype, tensor.shape, {}, tensor.quant};
}

void merge_dims(qrm::TensorInfo &into, const qir::Shape &dims) {
  for (std::size_t axis = 0; axis < into.dims.size() && axis < dims.size(); ++axis)
    if (into.dims[axis] != dims[axis]) into.dims[axis] = qir::kUnknownDim;
}

void name_dims(qrm::TensorInfo &info, const Vector<qrm::TensorInfo> &model_tensors) {
  for (const qrm::TensorInfo &known : model_tensors)
    if (known.name == info.name && known.dim_names.size() == info.dims.size()) info.dim_names = known.dim_names;
}

}  // namespace

Result<Ref<PortableGraphs>> PortableGraphs::make(Ref<const Model> model, const Vector<std::string_view> &shapes,
                                                 const CallSignal &signal, const Progress &progress) {
  auto portable_graphs = Ref<PortableGraphs>::make(std::move(model));
  const Model &from = portable_graphs->model();
  if (!from.is_container()) {
    QR_ASSIGN_OR_RETURN(portable_graphs->lowered_, from.lower(shapes, signal, progress));
    const std::uint64_t count = portable_graphs->lowered_.graph_count();
    if (count == 0)
      return Status::error(ErrorId::internal,
                           format("%s: the compiler library made no graph of it", from.describe().c_str()));
    for (std::uint64_t i = 0; i < count; ++i) {
      const qr_lowered_graph graph = portable_graphs->lowered_.graph(i);
      portable_graphs->graphs_.push_back(
          {String(text_of(graph.name)), graph.qir, {portable_graphs->lowered_.pool()}, {}});
    }
    return portable_graphs;
  }

  if (!shapes.empty())
    return Status::error(
               ErrorId::option_conflict,
               format("option shape: %s is a container, whose shapes are bound already", from.describe().c_str()),
               "bind shapes when compiling from the .onnx")
        .with("option", "shape");
  const qrm::ValidatedModel &container = from.container();
  const auto &graphs = container.metadata().graphs;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const qrm::GraphInfo &info = graphs[i];
    if (!info.qir_segment)
      return Status::error(
          ErrorId::qrm_no_graph,
          format("%s: its graph was not kept, expected a container with its portable graph", from.describe().c_str()));
    QR_ASSIGN_OR_RETURN(const qir::Bytes qir, container.segment(*info.qir_segment));
    QR_ASSIGN_OR_RETURN(const Vector<qir::Bytes> segments, container.segments(info.segments));
    PortableGraph graph{info.name, plugin_bytes(qir), {}, info.segments};
    for (const qir::Bytes &segment : segments) graph.segments.push_back(plugin_bytes(segment));
    portable_graphs->graphs_.push_back(std::move(graph));
  }
  return portable_graphs;
}

Result<qir::Graph> PortableGraphs::read(std::size_t index) const {
  const PortableGraph &graph = graphs_[index];
  Vector<qir::Bytes> segments;
  for (const qr_plugin_bytes &segment : graph.segments) segments.push_back({segment.data, segment.size});
  return qir::read_structure({graph.qir.data, graph.qir.size}, segments.data(), segments.size());
}

Signature signature_of(const Model &model, const Vector<qir::Graph> &graphs) {
  Signature signature;
  const auto side = [&](Vector<std::int32_t> qir::Graph::*tensors, const Vector<qrm::TensorInfo> &model_tensors,
                        Vector<qrm::TensorInfo> &out) {
    for (std::size_t i = 0; i < (graphs[0].*tensors).size(); ++i) {
      const auto tensor = [&](const qir::Graph &graph) -> const qir::Tensor & {
        return graph.tensors[static_cast<std::size_t>((graph.*tensors)[i])];
      };
      qrm::TensorInfo info = tensor_info(tensor(graphs[0]));
      for (std::size_t g = 1; g < graphs.size(); ++g)
        if (i < (graphs[g].*tensors).size()) merge_dims(info, tensor(graphs[g]).shape);
      name_dims(info, model_tensors);
      out.push_back(std::move(info));
    }
  };
  side(&qir::Graph::inputs, model.inputs(), signature.inputs);
  side(&qir::Graph::outputs, model.outputs(), signature.outputs);
  return signature;
}

}  // namespace quarry
