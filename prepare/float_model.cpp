// SPDX-License-Identifier: Apache-2.0
#include "prepare/float_model.h"

#include <algorithm>

#include "backends/cpu-reference/folder.h"
#include "base/hash.h"
#include "passes/fuse/compose.h"
#include "formats/onnx/export.h"
#include "formats/onnx/importer.h"
#include "passes/passes.h"
#include "prepare/export.h"
#include "prepare/lower.h"
#include "prepare/shapes.h"
#include "quarry/backend.h"

namespace quarry::prepare {
namespace {

using qir::at;
using qir::Op;

struct Named {
  passes::Composite what;
  const char *text;
};
// Those that ONNX has an operator for at an opset that programs read, and that NPUs compute as one: pieces of them
// would be rounded one by one.
constexpr Named kComposites[] = {
    {passes::Composite::Gelu, "put together as Gelu"},
    {passes::Composite::GeluTanh, "put together as Gelu"},
    {passes::Composite::HardSwish, "put together as HardSwish"},
    {passes::Composite::HardSigmoid, "put together as HardSigmoid"},
    {passes::Composite::LayerNormalization, "put together as LayerNormalization"},
    {passes::Composite::RMSNormalization, "put together as RMSNormalization"},
};

void note(Vector<Change> *changes, const char *what, const String &where, String detail = {}) {
  if (changes) changes->push_back({what, where, std::move(detail)});
}

// How many nodes of an operator a pass made fewer.
class Count {
 public:
  Count(const qir::Graph &graph, Op op) : graph_(graph), op_(op), before_(count()) {}
  std::size_t fewer() const { return before_ - std::min(before_, count()); }

 private:
  std::size_t count() const { return static_cast<std::size_t>(std::ranges::count(graph_.nodes, op_, &qir::Node::op)); }
  const qir::Graph &graph_;
  Op op_;
  std::size_t before_;
};

// alpha and beta of a Gemm become part of its constants: integer multiplications have no such factors.
void fold_factors(qir::Graph &graph, qir::Store &store, Vector<Change> *changes) {
  qir::Names names(graph);
  for (qir::Node &node : graph.nodes) {
    if (node.op != Op::Gemm) continue;
    for (const auto &[input, name] : {std::pair<std::size_t, const char *>{1, "alpha"}, {2, "beta"}}) {
      const float factor = node.get_float(name, 1);
      const std::int32_t id = node.inputs[input];
      if (factor == 1 || (input == 2 && id == qir::kAbsent)) continue;
      const float *values = id == qir::kAbsent ? nullptr : qir::constant_floats(graph, id);
      if (!values) continue;
      qir::Tensor scaled = at(graph, id);
      const std::size_t count = static_cast<std::size_t>(scaled.data.size / sizeof(float));
      auto *to = static_cast<float *>(store.allocate(scaled.data.size));
      for (std::size_t i = 0; i < count; ++i) to[i] = values[i] * factor;
      scaled.data.data = to;
      scaled.name = names.fresh(scaled.name + "_" + name);
      graph.tensors.push_back(std::move(scaled));
      node.inputs.set(input, static_cast<std::int32_t>(graph.tensors.size() - 1));
      node.set(name, 1.0f);
      note(changes, "factor folded into a constant", node.name, String(name));
    }
  }
}

// The input or output of that name has its channels last from now on, and a Transpose stands behind or before it.
Status put_channels_last(qir::Graph &graph, const String &name, Vector<Change> *changes) {
  const auto is_it = [&](std::int32_t id) { return at(graph, id).name == name; };
  const auto input = std::ranges::find_if(graph.inputs, is_it);
  const auto output = std::ranges::find_if(graph.outputs, is_it);
  const bool is_input = input != graph.inputs.end();
  if (!is_input && output == graph.outputs.end())
    return Status::error(
               ErrorId::bad_option_value,
               format("option channels_last: found '%s', expected the name of an input or output", printable(name)))
        .with("tensor", name);
  const std::int32_t first = is_input ? *input : *output;
  const qir::Shape shape = at(graph, first).shape;
  const std::size_t rank = shape.size();
  if (rank < 3 || (!is_input && std::ranges::find(graph.inputs, first) != graph.inputs.end()))
    return Status::error(ErrorId::bad_option_value,
                         format("option channels_last: '%s': found the shape %s, expected one of three axes or more",
                                printable(name), shape_text(shape.data(), rank)))
        .with("tensor", name);
  qir::Tensor made = at(graph, first);
  made.shape.clear();
  Vector<std::int64_t> order = {0};
  for (std::size_t d = 2; d < rank; ++d) order.push_back(static_cast<std::int64_t>(d));
  order.push_back(1);
  for (const std::int64_t d : order) made.shape.push_back(shape[index_of(d)]);
  if (is_input) {  // the way back
    order = {0, static_cast<std::int64_t>(rank) - 1};
    for (std::size_t d = 1; d + 1 < rank; ++d) order.push_back(static_cast<std::int64_t>(d));
  }
  at(graph, first).name = qir::fresh_name(graph, name + "_channels_first");
  graph.tensors.push_back(std::move(made));
  const auto last = static_cast<std::int32_t>(graph.tensors.size() - 1);
  qir::Node node;
  node.op = Op::Transpose;
  node.name = name + "_channels_last";
  node.set("perm", std::move(order));
  node.inputs = {is_input ? last : first};
  node.outputs = {is_input ? first : last};
  if (is_input) {
    *input = last;
    graph.nodes.insert(graph.nodes.begin(), std::move(node));
  } else {
    std::ranges::replace(graph.outputs, first, last);
    graph.nodes.push_back(std::move(node));
  }
  note(changes, "channels put last", name, is_input ? "input" : "output");
  return {};
}

bool has_quantized_activation(const qir::Graph &graph) {
  return std::ranges::any_of(graph.nodes, [&](const qir::Node &node) {
    if (node.op == Op::QuantizeLinear || node.op == Op::DequantizeLinear) return true;
    return std::ranges::any_of(node.outputs,
                               [&](std::int32_t id) { return id != qir::kAbsent && at(graph, id).quant.has_value(); });
  });
}

// What a pass left then is for no other.
Status stopped() { return stop_status("preparing the model"); }

Status compose_one_by_one(qir::Graph &graph, qir::Store &store, Vector<Change> *changes) {
  qir::number_sources(graph);
  const std::size_t numbered = graph.nodes.size();
  Vector<passes::Composed> found;
  for (const Named &one : kComposites) {
    found.clear();
    passes::compose(graph, store, {one.what}, &found);
    Vector<const qir::Node *> made(found.empty() ? 0 : numbered);  // by what they stand for
    if (!found.empty())
      for (const qir::Node &node : graph.nodes)
        if (node.source != qir::kNoSource && node.op != Op::Mul && !made[index_of(node.source)])
          made[index_of(node.source)] = &node;
    for (const passes::Composed &composed : found)
      if (composed.node != qir::kNoSource && made[index_of(composed.node)])
        note(changes, one.text, made[index_of(composed.node)]->name, format("%zu nodes", composed.pieces.size()));
    QR_RETURN_IF_ERROR(stopped());
  }
  return {};
}

Status simplify_products(qir::Graph &graph, qir::Store &store, Vector<Change> *changes) {
  const Count einsum(graph, Op::Einsum), transposes(graph, Op::Transpose);
  QR_RETURN_IF_ERROR(passes::einsum_to_matmul(graph, store));
  passes::simplify_movements(graph, store);
  QR_RETURN_IF_ERROR(stopped());
  if (einsum.fewer()) note(changes, "Einsum written as MatMul", String("the graph"), format("%zu", einsum.fewer()));
  if (transposes.fewer())
    note(changes, "Transpose between Reshape simplified", String("the graph"), format("%zu", transposes.fewer()));
  return {};
}

Status check_float(const qir::Graph &graph) {
  if (has_quantized_activation(graph))
    return Status::error(ErrorId::bad_argument,
                         "the model is quantised already: found activations of integer types, "
                         "expected a float model",
                         "quantise the float model that it was made from");
  if (std::ranges::none_of(graph.nodes, [&](const qir::Node &node) {
        return !node.outputs.empty() && node.outputs[0] != qir::kAbsent &&
               at(graph, node.outputs[0]).dtype == DType::F32;
      }))
    return Status::error(ErrorId::bad_argument,
                         "the model computes nothing in f32: found other types alone, expected f32 activations",
                         "export the model with f32 weights");
  return {};
}

class OpenedModel final : public FloatModel {
 public:
  static Result<Unique<FloatModel>> open(qir::Bytes bytes, OpenFd folder, qir::ExternalSource *external);
  Status prepare(std::string_view shape, const Vector<String> &channels_last, Vector<Change> *changes) override;
  std::uint64_t sum() const override;

 private:
  qir::Bytes bytes_;
  Unique<onnx_import::Model> model_;
};

Result<Unique<FloatModel>> OpenedModel::open(qir::Bytes bytes, OpenFd folder, qir::ExternalSource *external) {
  auto made = make_unique<OpenedModel>();
  made->bytes_ = bytes;
  made->file_bytes = bytes.size;
  QR_ASSIGN_OR_RETURN(made->model_,
                      onnx_import::Model::open(bytes, std::move(folder), onnx_import::ExternalUse::Map, external));
  return Unique<FloatModel>(made.release());
}

Status OpenedModel::prepare(std::string_view shape, const Vector<String> &channels_last, Vector<Change> *changes) {
  QR_ASSIGN_OR_RETURN(const BoundShapes bound, bind_shapes(*model_, shape, Ranges::Refused));
  QR_ASSIGN_OR_RETURN(graph, lower_graph(*model_, bound.inputs, store, nullptr));
  std::size_t normalizations = 0;
  for (const auto &node : model_->proto().graph().node()) normalizations += node.op_type() == "BatchNormalization";
  const auto left = static_cast<std::size_t>(std::ranges::count(graph.nodes, Op::BatchNormalization, &qir::Node::op));
  if (normalizations > left)
    note(changes, "BatchNormalization folded", String("the convolutions before it"),
         format("%zu", normalizations - left));
  // Weights that are stored small are constants like others here.
  reference::ReferenceFolder folder;
  passes::FoldLimits limits;
  limits.may_grow = true;
  const std::size_t nodes = graph.nodes.size();
  passes::fold_constants(graph, store, folder, limits);
  QR_RETURN_IF_ERROR(stopped());
  passes::steady_variances(graph, store);
  QR_RETURN_IF_ERROR(compose_one_by_one(graph, store, changes));
  QR_RETURN_IF_ERROR(simplify_products(graph, store, changes));
  for (const String &name : channels_last) QR_RETURN_IF_ERROR(put_channels_last(graph, name, changes));
  fold_factors(graph, store, changes);
  passes::remove_no_ops(graph);
  passes::remove_unused(graph);
  QR_RETURN_IF_ERROR(stopped());
  if (graph.nodes.size() < nodes)
    note(changes, "nodes fewer", String("the graph"), format("%zu of %zu", nodes - graph.nodes.size(), nodes));
  QR_RETURN_IF_ERROR(check_float(graph));
  return qir::validate_graph(graph);
}

std::uint64_t OpenedModel::sum() const {
  Hasher64 hasher;
  hasher.add(bytes_.data, static_cast<std::size_t>(bytes_.size));
  for (const qir::Tensor &tensor : graph.tensors)
    if (tensor.is_constant) hasher.add(tensor.data.data, static_cast<std::size_t>(tensor.data.size));
  return hasher.sum();
}

constexpr QuantizeServices kServices = {
    kRelease,
    OpenedModel::open,
    write_model,
    [](const qir::Graph &graph) { return onnx_import::export_graph(graph); },
    [](const StopSource &source, void (*body)(void *), void *context) {
      const StopScope scope(source);
      body(context);
    },
};

}  // namespace
}  // namespace quarry::prepare

extern "C" QR_PLUGIN_EXPORT const quarry::prepare::QuantizeServices *qr_prepare_for_quantize() {
  return &quarry::prepare::kServices;
}
