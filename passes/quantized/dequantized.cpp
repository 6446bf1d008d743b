// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/ops/quantization.h"
#include "passes/edit.h"

namespace quarry::passes {

using qir::at;
using qir::Op;

namespace {

class Apart {
 public:
  Apart(qir::Graph &graph, Store &store) : rewriting_(graph, store), graph_(graph) {}

  void run(bool (*keep)(const qir::Graph &, const qir::Node &)) {
    for (qir::Node &node : rewriting_.old) {
      if (stop_asked()) return;
      if (!has_quantized(node) || !node.subgraphs.empty() || node.op == Op::QuantizeLinear ||
          node.op == Op::DequantizeLinear || !possible(node) || keep(graph_, node))
        rewriting_.keep(std::move(node));
      else take_apart(std::move(node));
    }
  }

 private:
  bool has_quantized(const qir::Node &node) const {
    for (const auto *list : {&node.inputs, &node.outputs})
      for (const std::int32_t id : *list)
        if (id != qir::kAbsent && at(graph_, id).quant) return true;
    return false;
  }

  std::optional<qir::BiasUnit> bias_unit(const qir::Node &node) const {
    return qir::BiasUnit::of(node, at(graph_, node.inputs[0]), at(graph_, node.inputs[1]), at(graph_, node.inputs[2]));
  }

  // DequantizeLinear and QuantizeLinear have these types.
  bool possible(const qir::Node &node) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (qir::is_counted_bias(graph_, node, i) && !bias_unit(node)) return false;
      if (node.inputs[i] == qir::kAbsent) continue;
      const qir::Tensor &t = at(graph_, node.inputs[i]);
      if (t.quant && t.dtype == DType::U32) return false;
    }
    return std::ranges::all_of(node.outputs, [&](std::int32_t id) {
      return id == qir::kAbsent || !at(graph_, id).quant || dtype_bits(at(graph_, id).dtype) <= 16;
    });
  }

  std::int32_t real_of(std::int32_t id) {
    const String name = at(graph_, id).name + "/f32";
    const qir::Shape shape = at(graph_, id).shape;
    return rewriting_.tensor(name, DType::F32, shape);
  }

  void take_apart(qir::Node &&node) {
    // The bias first: its unit is that of the operands as they are.
    for (std::size_t i = node.inputs.size(); i-- > 0;) {
      const std::int32_t id = node.inputs[i];
      if (id == qir::kAbsent) continue;
      qir::Tensor like = at(graph_, id);
      if (qir::is_counted_bias(graph_, node, i)) like.quant = quantization_of(*bias_unit(node), like.shape);
      if (!like.quant) continue;
      const std::int32_t real = real_of(id);
      qir::Node dequantize;
      dequantize.op = Op::DequantizeLinear;
      dequantize.name = node.name + "/dequantize";
      dequantize.source = node.source;
      dequantize.inputs = {id};
      dequantize.outputs = {real};
      qir::give_quantization(graph_, rewriting_.store, rewriting_.names, dequantize, like);
      rewriting_.keep(std::move(dequantize));
      node.inputs.set(i, real);
    }
    Vector<qir::Node> after;
    for (std::int32_t &id : node.outputs) {
      if (id == qir::kAbsent || !at(graph_, id).quant) continue;
      const qir::Tensor like = at(graph_, id);
      qir::Node quantize;
      quantize.op = Op::QuantizeLinear;
      quantize.name = node.name + "/quantize";
      quantize.source = node.source;
      quantize.outputs = {id};
      id = real_of(id);
      quantize.inputs = {id};
      qir::give_quantization(graph_, rewriting_.store, rewriting_.names, quantize, like);
      after.push_back(std::move(quantize));
    }
    rewriting_.keep(std::move(node));
    for (qir::Node &quantize : after) rewriting_.keep(std::move(quantize));
  }

  static qir::Quantization quantization_of(const qir::BiasUnit &unit, const qir::Shape &shape) {
    qir::Quantization quant;
    const std::size_t count = unit.per_channel() ? static_cast<std::size_t>(shape.back()) : 1;
    for (std::size_t c = 0; c < count; ++c) quant.scales.push_back(unit.unit(c));
    quant.zero_points.assign(count, 0);
    quant.axis = unit.per_channel() ? static_cast<std::int32_t>(shape.size()) - 1 : 0;
    return quant;
  }

  Rewriting rewriting_;
  qir::Graph &graph_;
};

}  // namespace

void dequantize_nodes(qir::Graph &graph, Store &store, bool (*keep)(const qir::Graph &, const qir::Node &)) {
  Apart(graph, store).run(keep);
}

}  // namespace quarry::passes
