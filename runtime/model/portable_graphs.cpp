// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/portable_graphs.h"

#include <algorithm>
#include <optional>

#include "loader/plugin_files.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"

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

}  // namespace

qr_plugin_graph PortableGraph::plugin() const noexcept {
  return {sizeof(qr_plugin_graph), 0, plugin_string(name), qir, segments.data(), segments.size()};
}

Result<Ref<PortableGraphs>> PortableGraphs::make(Ref<const Model> model, const WantedShapes &shapes,
                                                 const qir::Part &part, const CallSignal &signal,
                                                 const Progress &progress, const Export *to) {
  auto portable_graphs = Ref<PortableGraphs>::make(std::move(model));
  QR_RETURN_IF_ERROR(portable_graphs->collect(shapes, signal, progress));
  if (!part.empty() || to) QR_RETURN_IF_ERROR(portable_graphs->take(part, to));
  return portable_graphs;
}

Status PortableGraphs::collect(const WantedShapes &shapes, const CallSignal &signal, const Progress &progress) {
  if (!model_->is_container()) {
    QR_ASSIGN_OR_RETURN(lowered_, model_->lower(shapes, signal, progress));
    const std::uint64_t count = lowered_.graph_count();
    if (count == 0)
      return Status::errorf(ErrorId::internal, "%s: the compiler library made no graph of it", model_->describe());
    for (std::uint64_t i = 0; i < count; ++i) {
      const qr_lowered_graph graph = lowered_.graph(i);
      graphs_.push_back({String(text_of(graph.name)), graph.qir, {lowered_.pool()}, {}});
    }
    return {};
  }

  if (!shapes.texts.empty()) return shapes_are_bound(*model_, "already");
  const qrm::ValidatedModel &container = model_->container();
  for (const qrm::GraphInfo &info : container.metadata().graphs) {
    if (!info.qir_segment)
      return Status::errorf(ErrorId::qrm_no_graph,
                            "%s: its graph was not kept, expected a container with its portable graph",
                            model_->describe());
    QR_ASSIGN_OR_RETURN(const qir::Bytes qir, container.segment(*info.qir_segment));
    QR_ASSIGN_OR_RETURN(const Vector<qir::Bytes> segments, container.segments(info.segments));
    PortableGraph graph{info.name, plugin_bytes(qir), {}, info.segments};
    for (const qir::Bytes &segment : segments) graph.segments.push_back(plugin_bytes(segment));
    graphs_.push_back(std::move(graph));
  }
  return {};
}

[[gnu::noinline]] static Vector<qr_plugin_string> strings(const Vector<std::string_view> &names) {
  Vector<qr_plugin_string> out(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) out[i] = plugin_string(names[i]);
  return out;
}

// The compiler library cuts: it has what writes graphs, and an application that only runs containers does without.
Status PortableGraphs::take(const qir::Part &part, const Export *to) {
  Runtime &runtime = model_->runtime();
  QR_ASSIGN_OR_RETURN(const qr_prepare_api *const api, runtime.prepare().api());
  const Vector<qr_plugin_string> tail = strings(part.tail), head = strings(part.head), watch = strings(part.watch),
                                 adapters = strings(part.adapters), state = strings(part.state);
  std::optional<loader::PluginFiles> files;
  if (to) files.emplace(to->files);
  const qr_prepare_part wanted{{tail.data(), tail.size()},
                               {head.data(), head.size()},
                               {watch.data(), watch.size()},
                               {adapters.data(), adapters.size()},
                               static_cast<std::uint32_t>(part.adapter_rank),
                               static_cast<std::int32_t>(part.state_type),
                               {state.data(), state.size()},
                               files ? files->sink() : nullptr,
                               to ? plugin_string(to->name) : qr_plugin_string{}};
  Vector<qr_plugin_graph> whole;
  for (const PortableGraph &graph : graphs_) whole.push_back(graph.plugin());
  Vector<const qr_plugin_graph *> pointers;
  for (const qr_plugin_graph &graph : whole) pointers.push_back(&graph);
  ErrorCollector errors;
  qr_lowered *cut = nullptr;
  Status status =
      errors.status(api->cut(&runtime.host(), pointers.data(), pointers.size(), &wanted, &cut, errors.sink()), "cut");
  if (files) QR_RETURN_IF_ERROR(files->finish(status.ok()));
  QR_RETURN_IF_ERROR(std::move(status));
  lowered_ = LoweredGraphs(api, cut);
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    graphs_[i].qir = lowered_.graph(i).qir;
    graphs_[i].segments = {lowered_.pool()};
    graphs_[i].container_segments.clear();
  }
  return {};
}

Result<qir::Outline> PortableGraphs::outline(std::size_t index) const {
  const PortableGraph &graph = graphs_[index];
  Vector<qir::Bytes> segments;
  for (const qr_plugin_bytes &segment : graph.segments) segments.push_back({segment.data, segment.size});
  return qir::Outline::read({graph.qir.data, graph.qir.size}, segments);
}

Status shapes_are_bound(const Model &model, const char *to) {
  return Status::hinted(ErrorId::option_conflict, "bind shapes when compiling from the .onnx",
                        "option shape: %s is a container, whose shapes are bound %s", model.describe().c_str(), to)
      .with("option", "shape");
}

Signature signature_of(const Model &model, const Vector<qir::Outline> &graphs) {
  Signature signature;
  const auto side = [&](const Vector<qir::Tensor> &(qir::Outline::*tensors)() const,
                        const Vector<qrm::TensorInfo> &model_tensors, Vector<qrm::TensorInfo> &out) {
    HashMap<std::string_view, const qrm::TensorInfo *> known;
    for (const qrm::TensorInfo &info : model_tensors) known[info.name] = &info;
    const Vector<qir::Tensor> &first = (graphs[0].*tensors)();
    for (std::size_t i = 0; i < first.size(); ++i) {
      qrm::TensorInfo info = tensor_info(first[i]);
      for (std::size_t g = 1; g < graphs.size(); ++g)
        if (const auto &others = (graphs[g].*tensors)(); i < others.size()) merge_dims(info, others[i].shape);
      std::string_view name = info.name;  // (what is kept in bytes has numbers beside it, as many)
      if (name.ends_with(QR_STATE_SCALES)) name.remove_suffix(sizeof QR_STATE_SCALES - 1);
      if (const auto at = known.find(name); at != known.end() && at->second->dim_names.size() == info.dims.size())
        info.dim_names = at->second->dim_names;
      out.push_back(std::move(info));
    }
  };
  side(&qir::Outline::inputs, model.inputs(), signature.inputs);
  side(&qir::Outline::outputs, model.outputs(), signature.outputs);
  return signature;
}

}  // namespace quarry
