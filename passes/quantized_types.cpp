// SPDX-License-Identifier: Apache-2.0
// Q/DQ -> quantised types, in three steps: find the integer tensors that are read and written as quantised values
// throughout, give them their quantisation, then take the DequantizeLinear before and the QuantizeLinear behind each
// operator into it.
#include <algorithm>

#include "passes/passes.h"
#include "formats/qir/quantization.h"

namespace quarry::passes {
namespace {

using qir::Op;
using qir::Quantization;

constexpr std::int32_t kNone = -1;

// The groups of integer tensors that share one quantisation because values only move between them.
class Classes {
 public:
  explicit Classes(const qir::Graph &graph) : parent_(graph.tensors.size()), state_(graph.tensors.size()) {
    for (std::size_t i = 0; i < parent_.size(); ++i) parent_[i] = static_cast<std::int32_t>(i);
  }
  std::int32_t root(std::int32_t id) {
    while (parent_[static_cast<std::size_t>(id)] != id)
      id = parent_[static_cast<std::size_t>(id)] =
          parent_[static_cast<std::size_t>(parent_[static_cast<std::size_t>(id)])];
    return id;
  }
  void join(std::int32_t a, std::int32_t b) {
    a = root(a), b = root(b);
    if (a == b) return;
    parent_[static_cast<std::size_t>(b)] = a;
    State &to = at(a), &from = at(b);
    to.raw |= from.raw;
    to.members += from.members;
    if (from.quant) vote(a, *from.quant);
  }
  void keep_raw(std::int32_t id) { at(root(id)).raw = true; }
  void vote(std::int32_t id, const Quantization &quant) {
    State &state = at(root(id));
    if (!state.quant) state.quant = quant;
    else if (*state.quant != quant) state.raw = true;
  }
  const Quantization *result(std::int32_t id) {
    const State &state = at(root(id));
    return state.raw || !state.quant || (state.members > 1 && !state.quant->per_tensor()) ? nullptr : &*state.quant;
  }

 private:
  struct State {
    bool raw = false;
    int members = 1;
    std::optional<Quantization> quant;
  };
  State &at(std::int32_t id) { return state_[static_cast<std::size_t>(id)]; }
  Vector<std::int32_t> parent_;
  Vector<State> state_;
};

// Equal QuantizeLinear (or DequantizeLinear) nodes of one value are one. And a constant that several nodes dequantise
// becomes one tensor each (the bytes are shared): each may give it a quantisation of its own.
void merge_and_split(qir::Graph &graph) {
  Vector<bool> dead(graph.nodes.size(), false);
  const qir::Uses uses(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const qir::Node node = graph.nodes[i];
    if ((node.op != Op::QuantizeLinear && node.op != Op::DequantizeLinear) || dead[i]) continue;
    const std::int32_t value = node.inputs[0];
    const auto mine = read_quantization(graph, node);
    if (!mine) continue;
    if (at(graph, value).is_constant) {
      if (node.op != Op::DequantizeLinear || (uses.users(value).size() == 1 && !uses.is_output(value))) continue;
      qir::Tensor copy = at(graph, value);
      copy.name = fresh_name(graph, copy.name);
      graph.tensors.push_back(std::move(copy));
      graph.nodes[i].inputs[0] = static_cast<std::int32_t>(graph.tensors.size() - 1);
      continue;
    }
    for (const std::int32_t user : uses.users(value)) {
      const auto other = static_cast<std::size_t>(user);
      if (other <= i || dead[other] || graph.nodes[other].op != node.op || graph.nodes[other].inputs[0] != value)
        continue;
      const std::int32_t theirs = graph.nodes[other].outputs[0];
      const auto quant = read_quantization(graph, graph.nodes[other]);
      if (!quant || *quant != *mine || at(graph, theirs).dtype != at(graph, node.outputs[0]).dtype ||
          uses.is_output(theirs))
        continue;
      replace_uses(graph, theirs, node.outputs[0]);
      dead[other] = true;
    }
  }
  compact(graph, dead);
}

void give_types(qir::Graph &graph) {
  Classes classes(graph);
  const auto is_candidate = [&](std::int32_t id) {
    return id != qir::kAbsent && qir::may_have_quantization(at(graph, id).dtype);
  };
  for (const qir::Node &node : graph.nodes) {
    const bool quantizes = node.op == Op::QuantizeLinear, dequantizes = node.op == Op::DequantizeLinear;
    const auto quant = quantizes || dequantizes ? read_quantization(graph, node) : std::nullopt;
    const bool moves = moves_values(graph, node) && is_candidate(node.inputs[0]) &&
                       dtype_bits(at(graph, node.inputs[0]).dtype) <= 16 && node.outputs.size() >= 1;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::int32_t id = node.inputs[i];
      if (!is_candidate(id)) continue;
      if (dequantizes && i == 0 && quant) classes.vote(id, *quant);
      else if (moves && is_moved_input(node.op, i)) classes.join(node.inputs[0], id);
      else classes.keep_raw(id);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::int32_t id = node.outputs[i];
      if (!is_candidate(id)) continue;
      if (quantizes && i == 0 && quant) classes.vote(id, *quant);
      else if (moves && (i == 0 || node.op == Op::Split)) classes.join(node.inputs[0], id);
      else classes.keep_raw(id);
    }
  }
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (!is_candidate(id)) continue;
    if (const Quantization *quant = classes.result(id)) graph.tensors[i].quant = *quant;
  }
}

class Fuser {
 public:
  explicit Fuser(qir::Graph &graph) : graph_(graph), uses_(graph), dead_(graph.nodes.size(), false) {}

  // One sweep; true where something changed.
  bool run() {
    bool changed = false;
    for (std::size_t i = 0; i < dead_.size(); ++i)
      if (!dead_[i]) changed |= cancel(i) || fuse(i) || move_up(i);
    for (std::size_t i = 0; i < dead_.size(); ++i)
      if (!dead_[i]) changed |= sink(i);
    if (!added_.empty()) insert_added();
    compact(graph_, dead_);
    return changed;
  }

 private:
  qir::Node &node(std::int32_t i) { return graph_.nodes[static_cast<std::size_t>(i)]; }

  // The typed tensor that `id` is the dequantised value of; kNone: it is none.
  std::int32_t dequantized_from(std::int32_t id) {
    if (id == qir::kAbsent || at(graph_, id).dtype != DType::F32) return kNone;
    const std::int32_t maker = uses_.maker(id);
    if (maker == qir::Uses::kNobody || node(maker).op != Op::DequantizeLinear || dead_[static_cast<std::size_t>(maker)])
      return kNone;
    const std::int32_t from = node(maker).inputs[0];
    return at(graph_, from).quant ? from : kNone;
  }

  // The only user of `id`, where that is a QuantizeLinear with a typed result; kNone otherwise.
  std::int32_t quantizer_of(std::int32_t id) {
    if (at(graph_, id).dtype != DType::F32 || !uses_.used_once(id)) return kNone;
    const std::int32_t user = uses_.users(id)[0];
    if (dead_[static_cast<std::size_t>(user)] || node(user).op != Op::QuantizeLinear || node(user).inputs[0] != id)
      return kNone;
    const qir::Tensor &result = at(graph_, node(user).outputs[0]);
    return result.quant && result.quant->per_tensor() ? user : kNone;
  }

  // QuantizeLinear(DequantizeLinear(x)) with equal parameters is x.
  bool cancel(std::size_t i) {
    qir::Node &quantizer = graph_.nodes[i];
    if (quantizer.op != Op::QuantizeLinear) return false;
    const std::int32_t from = dequantized_from(quantizer.inputs[0]), to = quantizer.outputs[0];
    if (from == kNone || !quantize_undoes_dequantize(at(graph_, from), at(graph_, to)) || uses_.is_output(to))
      return false;
    replace_uses(graph_, to, from);
    dead_[i] = true;
    uses_ = qir::Uses(graph_, dead_);
    return true;
  }

  // Whether what Relu or Clip does is done by saturation already: everything below the lower bound quantises to the
  // smallest value, and so on.
  bool saturation_implies(const qir::Node &clip, const qir::Tensor &result) {
    const qir::IntegerRange range = qir::integer_range(result.dtype);
    const auto quantized = [&](float x) {
      return qir::quantized_value(x, result.quant->scales[0], result.quant->zero_points[0], result.dtype);
    };
    if (clip.op == Op::Relu) return quantized(0) == range.low;
    if (clip.op != Op::Clip) return false;
    for (std::size_t i = 1; i < clip.inputs.size(); ++i) {
      if (clip.inputs[i] == qir::kAbsent) continue;
      const float *bound = constant_floats(graph_, clip.inputs[i]);
      if (!bound || at(graph_, clip.inputs[i]).data.size != sizeof(float)) return false;
      if (quantized(*bound) != (i == 1 ? range.low : range.high)) return false;
    }
    return true;
  }

  // DequantizeLinear -> node -> (Relu or Clip that saturation does) -> QuantizeLinear.
  bool fuse(std::size_t i) {
    qir::Node &n = graph_.nodes[i];
    if (!computes_on_quantized(graph_, n) || n.inputs.empty() || !n.subgraphs.empty() || n.outputs.empty())
      return false;
    for (std::size_t k = 1; k < n.outputs.size(); ++k)
      if (n.outputs[k] != qir::kAbsent) return false;
    if (at(graph_, n.outputs[0]).dtype != DType::F32) return false;
    Vector<std::int32_t> inputs = n.inputs;
    bool any = false;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const std::int32_t from = dequantized_from(inputs[k]);
      const bool parameter =
          inputs[k] == qir::kAbsent || at(graph_, inputs[k]).dtype != DType::F32 || at(graph_, inputs[k]).is_constant;
      if (from == kNone && !parameter) return false;
      if (from == kNone && takes_bias(n.op) && inputs[k] != qir::kAbsent) return false;
      if (from == kNone) continue;
      const bool activation = !at(graph_, from).is_constant;
      if (activation && !at(graph_, from).quant->per_tensor()) return false;
      any |= activation;
      inputs[k] = from;
    }
    if (!any) return false;
    if (takes_bias(n.op) && input_of(n, 2) != qir::kAbsent) {
      if (n.op == Op::Gemm && (n.get_float("alpha", 1) != 1 || n.get_float("beta", 1) != 1)) return false;
      const qir::Tensor &bias = at(graph_, inputs[2]);
      if (!bias.quant || !bias_counts_products(n, at(graph_, inputs[0]), at(graph_, inputs[1]), bias)) return false;
    }
    std::int32_t quantizer = quantizer_of(n.outputs[0]), between = kNone;
    if (quantizer == kNone) {
      if (!uses_.used_once(n.outputs[0])) return false;
      between = uses_.users(n.outputs[0])[0];
      const qir::Node &clip = node(between);
      if ((clip.op != Op::Relu && clip.op != Op::Clip) || clip.inputs[0] != n.outputs[0]) return false;
      quantizer = quantizer_of(clip.outputs[0]);
      if (quantizer == kNone || !saturation_implies(clip, at(graph_, node(quantizer).outputs[0]))) return false;
    }
    n.inputs = std::move(inputs);
    n.outputs = {node(quantizer).outputs[0]};
    dead_[static_cast<std::size_t>(quantizer)] = true;
    if (between != kNone) dead_[static_cast<std::size_t>(between)] = true;
    uses_ = qir::Uses(graph_, dead_);
    return true;
  }

  std::int32_t add_like(std::int32_t like, std::int32_t quantized) {
    qir::Tensor tensor;
    tensor.name = fresh_name(graph_, String(at(graph_, like).name) + "/quantized");
    tensor.dtype = at(graph_, quantized).dtype;
    tensor.shape = at(graph_, like).shape;
    tensor.quant = at(graph_, quantized).quant;
    graph_.tensors.push_back(std::move(tensor));
    return static_cast<std::int32_t>(graph_.tensors.size() - 1);
  }

  // f -> move -> QuantizeLinear becomes f -> QuantizeLinear -> move, so that what makes f can take the QuantizeLinear.
  bool move_up(std::size_t i) {
    qir::Node &move = graph_.nodes[i];
    if (!moves_real_values(graph_, move) || move.op == Op::Split || moved_inputs(move) != 1 || move.outputs.size() != 1)
      return false;
    const std::int32_t from = move.inputs[0], quantizer = quantizer_of(move.outputs[0]);
    if (quantizer == kNone || uses_.maker(from) == qir::Uses::kNobody || !uses_.used_once(from) ||
        at(graph_, from).dtype != DType::F32)
      return false;
    if (dequantized_from(from) != kNone) return false;
    const std::int32_t result = node(quantizer).outputs[0], early = add_like(from, result);
    qir::Node moved = std::move(move);
    graph_.nodes[i] = std::move(node(quantizer));
    graph_.nodes[i].inputs[0] = from;
    graph_.nodes[i].outputs[0] = early;
    moved.inputs[0] = early;
    moved.outputs[0] = result;
    node(quantizer) = std::move(moved);
    uses_ = qir::Uses(graph_, dead_);
    return true;
  }

  // DequantizeLinear -> move becomes move -> DequantizeLinear, so that what uses the result can take the
  // DequantizeLinear.
  bool sink(std::size_t i) {
    qir::Node &move = graph_.nodes[i];
    if (!moves_real_values(graph_, move) || moved_inputs(move) != 1 ||
        (move.op != Op::Split && move.outputs.size() != 1))
      return false;
    if (std::ranges::find(move.outputs, qir::kAbsent) != move.outputs.end()) return false;
    const std::int32_t from = dequantized_from(move.inputs[0]);
    if (from == kNone || !at(graph_, from).quant->per_tensor() || dtype_bits(at(graph_, from).dtype) > 16) return false;
    // Only where it helps: somebody behind takes quantised values.
    const bool helps = std::ranges::any_of(move.outputs, [&](std::int32_t output) {
      return std::ranges::any_of(uses_.users(output), [&](std::int32_t user) {
        return computes_on_quantized(graph_, node(user)) || node(user).op == Op::QuantizeLinear;
      });
    });
    if (!helps) return false;
    for (std::size_t k = 0; k < move.outputs.size(); ++k) {
      const std::int32_t real = move.outputs[k], moved = add_like(real, from);
      qir::Node back = node(uses_.maker(move.inputs[0]));
      back.name = format("%s/dequantize%zu", move.name.c_str(), k);
      back.inputs[0] = moved;
      back.outputs = {real};
      move.outputs[k] = moved;
      added_.push_back({i, std::move(back)});
    }
    move.inputs[0] = from;
    uses_ = qir::Uses(graph_, dead_);
    return true;
  }

  void insert_added() {
    Vector<qir::Node> nodes;
    Vector<bool> dead;
    std::size_t next = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      nodes.push_back(std::move(graph_.nodes[i]));
      dead.push_back(dead_[i]);
      for (; next < added_.size() && added_[next].after == i; ++next)
        nodes.push_back(std::move(added_[next].node)), dead.push_back(false);
    }
    graph_.nodes = std::move(nodes);
    dead_ = std::move(dead);
  }

  struct Added {
    std::size_t after;
    qir::Node node;
  };
  qir::Graph &graph_;
  qir::Uses uses_;
  Vector<bool> dead_;
  Vector<Added> added_;
};

}  // namespace

void put_together_quantized(qir::Graph &graph) {
  for (qir::Node &node : graph.nodes)
    for (qir::Graph &body : node.subgraphs) put_together_quantized(body);
  const bool any = std::ranges::any_of(graph.nodes, [](const qir::Node &node) {
    return node.op == Op::QuantizeLinear || node.op == Op::DequantizeLinear;
  });
  if (!any) return;
  merge_and_split(graph);
  give_types(graph);
  while (Fuser(graph).run()) {
  }
  remove_unused(graph);
}

}  // namespace quarry::passes
