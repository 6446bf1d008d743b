// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/widen.h"

#include <algorithm>

#include "base/checked.h"
#include "base/stop.h"
#include "kernels/reference/kernel.h"

namespace quarry::reference {
namespace {

bool is_half(const qir::Tensor &tensor) noexcept {
  return !tensor.quant && (tensor.dtype == DType::F16 || tensor.dtype == DType::BF16);
}

class Widener {
 public:
  explicit Widener(qir::Graph &graph)
      : graph_(graph),
        wide_(graph.tensors.size(), qir::kAbsent),
        needs_half_(graph.tensors.size(), false),
        shown_(graph.tensors.size()) {
    for (const std::int32_t id : graph.outputs) shown_[index_of(id)] = true;
  }

  Status run() {
    Vector<bool> widens(graph_.nodes.size());
    bool any = false;
    Vector<bool> as_half(graph_.tensors.size());  // there in 16 bits, whatever happens to nodes
    for (std::size_t i = 0; i < as_half.size(); ++i) as_half[i] = is_half(graph_.tensors[i]);
    for (const qir::Node &node : graph_.nodes)
      for (const std::int32_t id : node.outputs)
        if (id != qir::kAbsent) as_half[index_of(id)] = false;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      QR_RETURN_IF_ERROR(stop_status("compile"));
      const qir::Node &node = graph_.nodes[n];
      widens[n] = can_widen(node) && !moves_halves(node, as_half);
      any |= widens[n];
      if (!widens[n])
        for (const std::int32_t id : node.outputs)
          if (half(id)) as_half[index_of(id)] = true;
    }
    if (!any) return {};
    for (const qir::Tensor &tensor : graph_.tensors) names_.insert(tensor.name);
    for (const std::int32_t output : graph_.outputs) needs_half_[index_of(output)] = true;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (!widens[n])
        for (const std::int32_t input : graph_.nodes[n].inputs)
          if (input != qir::kAbsent) needs_half_[index_of(input)] = true;

    Vector<qir::Node> nodes = std::move(graph_.nodes);
    graph_.nodes = {};
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (widens[n]) widen(std::move(nodes[n]));
      else graph_.nodes.push_back(std::move(nodes[n]));
    }
    return qir::validate_graph(graph_);
  }

 private:
  const qir::Tensor &tensor(std::int32_t id) const { return at(graph_, id); }
  bool half(std::int32_t id) const { return id != qir::kAbsent && is_half(tensor(id)); }

  // The node computes or moves f16 or bf16, and its results would be f32 if those were: the shape rules decide.
  bool can_widen(const qir::Node &node) const {
    const KernelRow *row = find_kernel(node.op);
    if (!row || row->handling == Handling::Raw || !node.subgraphs.empty()) return false;
    bool any = false;
    Vector<qir::InferValue> inputs;
    for (const std::int32_t id : node.inputs) {
      qir::InferValue &value = inputs.emplace_back();
      if (id == qir::kAbsent) continue;
      const qir::Tensor &in = tensor(id);
      const bool widened = is_half(in);
      any |= widened;
      value = {true, widened ? DType::F32 : in.dtype, in.shape, &in.quant,
               in.is_constant && !widened ? in.data : qir::Bytes{}};
    }
    for (const std::int32_t id : node.outputs) any |= half(id);
    Vector<qir::InferType> types;
    if (!any || !qir::infer_node(node, inputs, types).ok() || types.size() < node.outputs.size()) return false;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (half(node.outputs[i]) && types[i].dtype != DType::F32) return false;
    return true;
  }

  // Elements go from 16-bit tensors that are there to others, no more of them than there were: nothing is gained by
  // widening them first.
  bool moves_halves(const qir::Node &node, const Vector<bool> &as_half) const {
    const KernelRow *row = find_kernel(node.op);
    const bool replaces =
        node.op == qir::Op::TensorScatter || ((node.op == qir::Op::ScatterND || node.op == qir::Op::ScatterElements) &&
                                              node.get_string("reduction", "none") == "none");
    if ((row->handling != Handling::Move && !replaces) || node.inputs.empty() || !half(node.outputs[0])) return false;
    if (node.op == qir::Op::Split) {  // all of it goes on
      for (const std::int32_t id : node.outputs)
        if (id == qir::kAbsent || tensor(id).dtype != tensor(node.inputs[0]).dtype) return false;
      return as_half[index_of(node.inputs[0])];
    }
    if (node.outputs.size() != 1) return false;
    bool constant = true;
    std::uint64_t read = 0;
    for (const std::int32_t id : node.inputs) {
      if (id == qir::kAbsent) continue;
      constant &= tensor(id).is_constant;
      if (!half(id)) continue;
      if (!as_half[index_of(id)] || tensor(id).dtype != tensor(node.outputs[0]).dtype) return false;
      read += count(id);
    }
    return !constant && (shown_[index_of(node.outputs[0])] || count(node.outputs[0]) <= read);
  }
  // Of a tensor whose shape is known; what is not has no end.
  std::uint64_t count(std::int32_t id) const {
    const auto elements = element_count(tensor(id).shape.data(), tensor(id).shape.size());
    return elements ? *elements : UINT64_MAX / 16;
  }

  std::int32_t add_wide(std::int32_t id) {
    qir::Tensor wide;
    wide.name = tensor(id).name + "/f32";
    while (!names_.insert(wide.name).second) wide.name += "'";
    wide.dtype = DType::F32;
    wide.shape = tensor(id).shape;
    graph_.tensors.push_back(std::move(wide));
    return wide_[index_of(id)] = static_cast<std::int32_t>(graph_.tensors.size() - 1);
  }

  void cast(std::int32_t from, std::int32_t to) {
    qir::Node node;
    node.op = qir::Op::Cast;
    node.name = tensor(to).name + "/cast";
    node.inputs = {from};
    node.outputs = {to};
    node.set("to", static_cast<std::int64_t>(tensor(to).dtype));
    graph_.nodes.push_back(std::move(node));
  }

  void widen(qir::Node node) {
    for (std::int32_t &id : node.inputs) {
      if (!half(id)) continue;
      std::int32_t wide = wide_[index_of(id)];
      if (wide == qir::kAbsent) wide = add_wide(id), cast(id, wide);
      id = wide;
    }
    Vector<std::pair<std::int32_t, std::int32_t>> narrowed;
    for (std::int32_t &id : node.outputs) {
      if (!half(id)) continue;
      const std::int32_t wide = add_wide(id);
      if (needs_half_[index_of(id)]) narrowed.emplace_back(wide, id);
      id = wide;
    }
    graph_.nodes.push_back(std::move(node));
    for (const auto &[wide, id] : narrowed) cast(wide, id);
  }

  qir::Graph &graph_;
  Vector<std::int32_t> wide_;  // per tensor of the graph as it was: its f32 version, where it has one
  Vector<bool> needs_half_, shown_;
  StringSet names_;
};

}  // namespace

Status widen_float16(qir::Graph &graph) {
  if (std::ranges::none_of(graph.tensors, is_half)) return {};  // in most graphs
  return Widener(graph).run();
}

}  // namespace quarry::reference
