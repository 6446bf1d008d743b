// SPDX-License-Identifier: Apache-2.0
// Q/DQ -> quantised types, in three steps: find the integer tensors that are read and written as quantised values
// throughout, give them their quantisation, then take the DequantizeLinear before and the QuantizeLinear behind each
// operator into it.
#include <algorithm>
#include <cmath>

#include "formats/qir/graph_edit.h"
#include "prepare/passes.h"
#include "prepare/quantize.h"

namespace quarry::prepare {
namespace {

using qir::Op;
using qir::Quantization;

constexpr std::int32_t kNone = -1;

// Operators that may take and give quantised values: their first input and first output are data. Everything else stays
// in float.
bool may_quantize(Op op) {
  switch (op) {
    case Op::Conv:
    case Op::ConvTranspose:
    case Op::Gemm:
    case Op::MatMul:
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Pow:
    case Op::Min:
    case Op::Max:
    case Op::Sum:
    case Op::Mean:
    case Op::AveragePool:
    case Op::GlobalAveragePool:
    case Op::GlobalMaxPool:
    case Op::LpPool:
    case Op::ReduceMean:
    case Op::ReduceSum:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::Relu:
    case Op::LeakyRelu:
    case Op::PRelu:
    case Op::Clip:
    case Op::Elu:
    case Op::Sigmoid:
    case Op::HardSigmoid:
    case Op::HardSwish:
    case Op::Tanh:
    case Op::Gelu:
    case Op::QuickGelu:
    case Op::Mish:
    case Op::Softplus:
    case Op::Softsign:
    case Op::Swish:
    case Op::Erf:
    case Op::Exp:
    case Op::Log:
    case Op::Sqrt:
    case Op::Reciprocal:
    case Op::Abs:
    case Op::Neg:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Sin:
    case Op::Cos:
    case Op::Sign:
    case Op::Softmax:
    case Op::LogSoftmax:
    case Op::LRN:
    case Op::LpNormalization:
    case Op::BatchNormalization:
    case Op::InstanceNormalization:
    case Op::LayerNormalization:
    case Op::GroupNormalization:
    case Op::RMSNormalization:
    case Op::Concat:
    case Op::Resize:
    case Op::Pad:
    case Op::GridSample: return true;
    default: return moves_values(op);
  }
}

bool takes_bias(Op op) { return op == Op::Conv || op == Op::ConvTranspose || op == Op::Gemm; }

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
    return id != qir::kAbsent && is_integer(at(graph, id).dtype) && dtype_bits(at(graph, id).dtype) <= 32;
  };
  for (const qir::Node &node : graph.nodes) {
    const bool quantizes = node.op == Op::QuantizeLinear, dequantizes = node.op == Op::DequantizeLinear;
    const auto quant = quantizes || dequantizes ? read_quantization(graph, node) : std::nullopt;
    const bool moves = moves_values(node.op) && is_candidate(node.inputs[0]) &&
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
    if (from == kNone || at(graph_, from).quant != at(graph_, to).quant ||
        at(graph_, from).dtype != at(graph_, to).dtype || uses_.is_output(to))
      return false;
    replace_uses(graph_, to, from);
    dead_[i] = true;
    uses_ = qir::Uses(graph_, dead_);
    return true;
  }

  // Whether what Relu or Clip does is done by saturation already: everything below the lower bound quantises to the
  // smallest value, and so on.
  bool saturation_implies(const qir::Node &clip, const qir::Tensor &result) {
    const double scale = result.quant->scales[0];
    const auto [lowest, highest] = integer_range(result.dtype);
    const auto quantized = [&](double x) {
      return std::clamp<double>(
          std::nearbyint(static_cast<float>(x) / static_cast<float>(scale)) + result.quant->zero_points[0],
          static_cast<double>(lowest), static_cast<double>(highest));
    };
    if (clip.op == Op::Relu) return quantized(0) == static_cast<double>(lowest);
    if (clip.op != Op::Clip) return false;
    for (std::size_t i = 1; i < clip.inputs.size(); ++i) {
      if (clip.inputs[i] == qir::kAbsent) continue;
      const float *bound = constant_floats(graph_, clip.inputs[i]);
      if (!bound || at(graph_, clip.inputs[i]).data.size != sizeof(float)) return false;
      if (quantized(*bound) != static_cast<double>(i == 1 ? lowest : highest)) return false;
    }
    return true;
  }

  // The bias of a quantised product has no scale of its own: it must be that of the products, to the rounding of f32.
  bool bias_fits(const qir::Tensor &x, const qir::Tensor &w, const qir::Tensor &bias) {
    if (bias.dtype != DType::I32 || !bias.quant || bias.quant->block_size != 0 || !x.quant->per_tensor() ||
        w.quant->block_size != 0)
      return false;
    const std::size_t count = std::max(bias.quant->scales.size(), w.quant->scales.size());
    for (std::size_t c = 0; c < count; ++c) {
      const double product =
          static_cast<double>(x.quant->scales[0]) * w.quant->scales[w.quant->scales.size() == 1 ? 0 : c];
      const std::size_t entry = bias.quant->scales.size() == 1 ? 0 : c;
      if (bias.quant->zero_points[entry] != 0 || std::fabs(bias.quant->scales[entry] - product) > 1e-6 * product)
        return false;
    }
    return bias.quant->scales.size() == 1 || w.quant->scales.size() == 1 ||
           bias.quant->scales.size() == w.quant->scales.size();
  }

  // DequantizeLinear -> node -> (Relu or Clip that saturation does) -> QuantizeLinear.
  bool fuse(std::size_t i) {
    qir::Node &n = graph_.nodes[i];
    if (!may_quantize(n.op) || n.inputs.empty() || !n.subgraphs.empty() || n.outputs.empty()) return false;
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
      if (!bias_fits(at(graph_, inputs[0]), at(graph_, inputs[1]), at(graph_, inputs[2]))) return false;
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
    if (!moves_values(move.op) || move.op == Op::Split || moved_inputs(move) != 1 || move.outputs.size() != 1)
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
    if (!moves_values(move.op) || moved_inputs(move) != 1 || (move.op != Op::Split && move.outputs.size() != 1))
      return false;
    if (std::ranges::find(move.outputs, qir::kAbsent) != move.outputs.end()) return false;
    const std::int32_t from = dequantized_from(move.inputs[0]);
    if (from == kNone || !at(graph_, from).quant->per_tensor() || dtype_bits(at(graph_, from).dtype) > 16) return false;
    // Only where it helps: somebody behind takes quantised values.
    const bool helps = std::ranges::any_of(move.outputs, [&](std::int32_t output) {
      return std::ranges::any_of(uses_.users(output), [&](std::int32_t user) {
        return may_quantize(node(user).op) || node(user).op == Op::QuantizeLinear;
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

bool moves_values(Op op) {
  switch (op) {
    case Op::Identity:
    case Op::Reshape:
    case Op::Flatten:
    case Op::Squeeze:
    case Op::Unsqueeze:
    case Op::Transpose:
    case Op::Split:
    case Op::Slice:
    case Op::Gather:
    case Op::GatherElements:
    case Op::GatherND:
    case Op::DepthToSpace:
    case Op::SpaceToDepth:
    case Op::Expand:
    case Op::Tile:
    case Op::MaxPool:
    case Op::Concat: return true;
    default: return false;
  }
}

bool is_moved_input(Op op, std::size_t input) { return input == 0 || op == Op::Concat; }
std::size_t moved_inputs(const qir::Node &node) { return node.op == Op::Concat ? node.inputs.size() : 1; }

std::pair<std::int64_t, std::int64_t> integer_range(DType dtype) {
  const std::uint32_t bits = dtype_bits(dtype);
  if (dtype_kind(dtype) == DTypeKind::Unsigned) return {0, (std::int64_t{1} << bits) - 1};
  return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
}

std::optional<Quantization> read_quantization(const qir::Graph &graph, const qir::Node &node) {
  const bool quantizes = node.op == Op::QuantizeLinear;
  const qir::Tensor &stored = at(graph, quantizes ? node.outputs[0] : node.inputs[0]);
  const qir::Tensor &real = at(graph, quantizes ? node.inputs[0] : node.outputs[0]);
  if (!is_integer(stored.dtype) || dtype_bits(stored.dtype) > 32 || real.dtype != DType::F32) return std::nullopt;
  if (quantizes && node.get_int("precision", 0) != 0 &&
      node.get_int("precision", 0) != static_cast<std::int64_t>(DType::F32))
    return std::nullopt;
  const float *scale = constant_floats(graph, node.inputs[1]);
  const std::int32_t zero = input_of(node, 2);
  if (!scale || (zero != qir::kAbsent && !at(graph, zero).is_constant)) return std::nullopt;
  const qir::Shape &shape = at(graph, node.inputs[1]).shape;

  Quantization out;
  out.scales.assign(scale, scale + at(graph, node.inputs[1]).data.size / sizeof(float));
  for (const float s : out.scales)
    if (!std::isfinite(s) || s <= 0) return std::nullopt;
  out.zero_points.assign(out.scales.size(), 0);
  if (zero != qir::kAbsent) {
    const qir::Tensor &tensor = at(graph, zero);
    const auto *bytes = static_cast<const std::uint8_t *>(tensor.data.data);
    const std::uint32_t bits = dtype_bits(tensor.dtype);
    const bool is_signed = dtype_kind(tensor.dtype) == DTypeKind::Signed;
    for (std::size_t i = 0; i < out.zero_points.size(); ++i) {
      std::int64_t value = 0;
      if (bits < 8) value = (bytes[i * bits / 8] >> (i * bits % 8)) & ((1 << bits) - 1);
      else std::memcpy(&value, bytes + i * (bits / 8), bits / 8);
      if (is_signed && bits < 64 && (value >> (bits - 1)) & 1) value -= std::int64_t{1} << bits;
      out.zero_points[i] = static_cast<std::int32_t>(value);
    }
  }
  if (shape.empty()) return out;
  const auto rank = static_cast<std::int64_t>(stored.shape.size());
  const std::int64_t axis = node.get_int("axis", 1), normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) return std::nullopt;
  out.axis = static_cast<std::int32_t>(normal);
  out.block_size = node.get_int("block_size", 0);
  if (out.block_size == 0 && out.scales.size() == 1) out.axis = 0;
  return out;
}

void make_quantized_types(qir::Graph &graph, Store &store) {
  for (qir::Node &node : graph.nodes)
    for (qir::Graph &body : node.subgraphs) make_quantized_types(body, store);
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

}  // namespace quarry::prepare
