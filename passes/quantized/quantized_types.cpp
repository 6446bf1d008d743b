// SPDX-License-Identifier: Apache-2.0
// Q/DQ -> quantised types, in three steps: find the integer tensors that are read and written as quantised values
// throughout, give them their quantisation, then take the DequantizeLinear before and the QuantizeLinear behind each
// operator into it.
#include <algorithm>

#include "base/hash.h"
#include "base/stop.h"
#include "graph/ops/quantization.h"
#include "passes/passes.h"

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
    while (parent_[index_of(id)] != id) id = parent_[index_of(id)] = parent_[index_of(parent_[index_of(id)])];
    return id;
  }
  void join(std::int32_t a, std::int32_t b) {
    a = root(a), b = root(b);
    if (a == b) return;
    parent_[index_of(b)] = a;
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
  State &at(std::int32_t id) { return state_[index_of(id)]; }
  Vector<std::int32_t> parent_;
  Vector<State> state_;
};

std::uint64_t key_of(const qir::Node &node, const Quantization &quant) {
  const std::uint64_t scales = hash64(quant.scales.data(), quant.scales.size() * sizeof(float)),
                      zeros = hash64(quant.zero_points.data(), quant.zero_points.size() * sizeof(std::int32_t));
  const std::uint64_t all[] = {static_cast<std::uint64_t>(node.op), static_cast<std::uint64_t>(node.inputs[0]), scales,
                               zeros};
  return hash64(all, sizeof all);
}

// Equal QuantizeLinear (or DequantizeLinear) nodes of one value are one. And a constant that several nodes dequantise
// becomes one tensor each (the bytes are shared): each may give it a quantisation of its own.
void merge_and_split(qir::Graph &graph, qir::Names &names) {
  Vector<bool> dead(graph.nodes.size(), false);
  const qir::Uses uses(graph);
  qir::Replacements replaced(graph);
  HashMultimap<std::uint64_t, std::size_t> kept;
  for (std::size_t i = 0; i < graph.nodes.size() && !stop_asked(); ++i) {
    qir::Node &node = graph.nodes[i];
    for (std::int32_t &id : node.inputs) id = replaced.now(id);
    if (node.op != Op::QuantizeLinear && node.op != Op::DequantizeLinear) continue;
    const std::int32_t value = node.inputs[0];
    const auto mine = read_quantization(graph, node);
    if (!mine) continue;
    if (at(graph, value).is_constant) {
      if (node.op != Op::DequantizeLinear || (uses.users(value).size() == 1 && !uses.is_output(value))) continue;
      qir::Tensor copy = at(graph, value);
      copy.name = names.fresh(copy.name);
      graph.tensors.push_back(std::move(copy));
      node.inputs.set(0, static_cast<std::int32_t>(graph.tensors.size() - 1));
      continue;
    }
    const std::uint64_t key = key_of(node, *mine);
    const auto [first, last] = kept.equal_range(key);
    const auto same = std::find_if(first, last, [&](const auto &entry) {
      const qir::Node &other = graph.nodes[entry.second];
      return other.op == node.op && other.inputs[0] == value && read_quantization(graph, other) == mine &&
             at(graph, other.outputs[0]).dtype == at(graph, node.outputs[0]).dtype;
    });
    if (same == last) {
      kept.emplace(key, i);
    } else if (!uses.is_output(node.outputs[0])) {
      replaced.replace(node.outputs[0], graph.nodes[same->second].outputs[0]);
      dead[i] = true;
    }
  }
  replaced.apply(graph);
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

// Who makes and who reads each tensor, while nodes change. Readers of constants are nobody's to ask for.
class Readers {
 public:
  struct Reader {
    std::int32_t node;
    std::uint32_t input;
  };
  Readers(const qir::Graph &graph, const Vector<bool> &dead) : graph_(graph), dead_(dead) {
    grow();
    for (const std::int32_t id : graph.outputs) use_of(id).is_output = true;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) enter(static_cast<std::int32_t>(i));
  }
  void grow() { uses_.resize(graph_.tensors.size()); }
  // What the node reads and makes counts from here on, or no longer: around each change of it.
  void enter(std::int32_t n) {
    const qir::Node &node = graph_.nodes[index_of(n)];
    for (std::uint32_t i = 0; i < node.inputs.size(); ++i)
      if (counts(node.inputs[i])) ++use_of(node.inputs[i]).count, use_of(node.inputs[i]).readers.push_back({n, i});
    for (const std::int32_t id : node.outputs)
      if (id != qir::kAbsent) use_of(id).maker = n;
  }
  void leave(std::int32_t n) {
    for (const std::int32_t id : graph_.nodes[index_of(n)].inputs)
      if (counts(id)) --use_of(id).count;
  }
  // One that read `from` reads `to`.
  void turn(const Reader &reader, std::int32_t from, std::int32_t to) {
    --use_of(from).count;
    if (counts(to)) ++use_of(to).count, use_of(to).readers.push_back(reader);
  }
  std::int32_t maker(std::int32_t id) const {
    const std::int32_t n = use_of(id).maker;
    return n < 0 || dead_[index_of(n)] ? kNone : n;
  }
  bool is_output(std::int32_t id) const { return use_of(id).is_output; }
  bool used_once(std::int32_t id) const { return use_of(id).count == 1 && !is_output(id); }
  // The nodes that read it; one that reads it twice may stand there twice.
  const Vector<Reader> &readers(std::int32_t id) {
    TensorUse &at = use_of(id);
    if (at.readers.size() != at.count)
      std::erase_if(at.readers, [&](const Reader &reader) { return !reads(reader, id); });
    return at.readers;
  }

 private:
  struct TensorUse {
    std::int32_t maker = kNone;
    std::uint32_t count = 0;
    bool is_output = false;
    Vector<Reader> readers;  // and some that no longer do
  };
  bool counts(std::int32_t id) const { return id != qir::kAbsent && !at(graph_, id).is_constant; }
  bool reads(const Reader &reader, std::int32_t id) const {
    const auto n = index_of(reader.node);
    const Vector<std::int32_t> &inputs = graph_.nodes[n].inputs;
    return !dead_[n] && reader.input < inputs.size() && inputs[reader.input] == id;
  }
  TensorUse &use_of(std::int32_t id) { return uses_[index_of(id)]; }
  const TensorUse &use_of(std::int32_t id) const { return uses_[index_of(id)]; }

  const qir::Graph &graph_;
  const Vector<bool> &dead_;
  Vector<TensorUse> uses_;
};

class Fuser {
 public:
  Fuser(qir::Graph &graph, qir::Names &names)
      : graph_(graph), names_(names), dead_(graph.nodes.size(), false), uses_(graph, dead_) {}

  // One sweep; true where something changed.
  bool run() {
    bool changed = false;
    const std::size_t count = dead_.size();
    for (std::size_t i = 0; i < count && !stop_asked(); ++i)
      if (!dead_[i]) changed |= cancel(i) || fuse(i);
    // From the last on: what goes up goes up as far as it can.
    for (std::size_t i = count; i-- > 0 && !stop_asked();)
      if (!dead_[i]) changed |= move_up(i);
    for (std::size_t i = 0; i < count && !stop_asked(); ++i)
      if (!dead_[i]) changed |= sink(i);
    if (!added_behind_.empty()) place_added(count);
    compact(graph_, dead_);
    return changed;
  }

 private:
  qir::Node &node(std::int32_t i) { return graph_.nodes[index_of(i)]; }
  void remove(std::int32_t i) {
    uses_.leave(i);
    dead_[index_of(i)] = true;
  }

  // The typed tensor that `id` is the dequantised value of; kNone: it is none.
  std::int32_t dequantized_from(std::int32_t id) {
    if (id == qir::kAbsent || at(graph_, id).dtype != DType::F32) return kNone;
    const std::int32_t maker = uses_.maker(id);
    if (maker == kNone || node(maker).op != Op::DequantizeLinear) return kNone;
    const std::int32_t from = node(maker).inputs[0];
    return at(graph_, from).quant ? from : kNone;
  }

  // The only user of `id`, where that is a QuantizeLinear with a typed result; kNone otherwise.
  std::int32_t quantizer_of(std::int32_t id) {
    if (at(graph_, id).dtype != DType::F32 || !uses_.used_once(id)) return kNone;
    const std::int32_t user = uses_.readers(id)[0].node;
    if (node(user).op != Op::QuantizeLinear || node(user).inputs[0] != id) return kNone;
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
    const Vector<Readers::Reader> readers = uses_.readers(to);
    for (const Readers::Reader &reader : readers) {
      qir::Operands &inputs = node(reader.node).inputs;
      if (inputs[reader.input] != to) continue;  // it stood there twice
      inputs.set(reader.input, from);
      uses_.turn(reader, to, from);
    }
    remove(static_cast<std::int32_t>(i));
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
      if (decides_shapes(n.op, k)) return false;
      const bool activation = !at(graph_, from).is_constant;
      if (activation && !at(graph_, from).quant->per_tensor()) return false;
      any |= activation;
      inputs[k] = from;
    }
    if (!any) return false;
    if (takes_bias(n.op) && n.inputs[2] != qir::kAbsent) {
      if (n.op == Op::Gemm && (n.get_float("alpha", 1) != 1 || n.get_float("beta", 1) != 1)) return false;
      const qir::Tensor &bias = at(graph_, inputs[2]);
      if (!bias.quant || !bias_counts_products(n, at(graph_, inputs[0]), at(graph_, inputs[1]), bias)) return false;
    }
    std::int32_t quantizer = quantizer_of(n.outputs[0]), between = kNone;
    if (quantizer == kNone) {
      if (!uses_.used_once(n.outputs[0])) return false;
      between = uses_.readers(n.outputs[0])[0].node;
      const qir::Node &clip = node(between);
      if ((clip.op != Op::Relu && clip.op != Op::Clip) || clip.inputs[0] != n.outputs[0]) return false;
      quantizer = quantizer_of(clip.outputs[0]);
      if (quantizer == kNone || !saturation_implies(clip, at(graph_, node(quantizer).outputs[0]))) return false;
    }
    remove(quantizer);
    if (between != kNone) remove(between);
    uses_.leave(static_cast<std::int32_t>(i));
    n.inputs = std::move(inputs);
    n.outputs = {node(quantizer).outputs[0]};
    uses_.enter(static_cast<std::int32_t>(i));
    return true;
  }

  std::int32_t add_like(std::int32_t like, std::int32_t quantized) {
    qir::Tensor tensor;
    tensor.name = names_.fresh(at(graph_, like).name + "/quantized");
    tensor.dtype = at(graph_, quantized).dtype;
    tensor.shape = at(graph_, like).shape;
    tensor.quant = at(graph_, quantized).quant;
    graph_.tensors.push_back(std::move(tensor));
    uses_.grow();
    return static_cast<std::int32_t>(graph_.tensors.size() - 1);
  }

  // f -> move -> QuantizeLinear becomes f -> QuantizeLinear -> move, so that what makes f can take the QuantizeLinear.
  bool move_up(std::size_t i) {
    qir::Node &move = graph_.nodes[i];
    if (!moves_real_values(graph_, move) || move.op == Op::Split || moved_inputs(move) != 1 || move.outputs.size() != 1)
      return false;
    const std::int32_t from = move.inputs[0], quantizer = quantizer_of(move.outputs[0]);
    if (quantizer == kNone || uses_.maker(from) == kNone || !uses_.used_once(from) ||
        at(graph_, from).dtype != DType::F32)
      return false;
    if (dequantized_from(from) != kNone) return false;
    const std::int32_t result = node(quantizer).outputs[0], early = add_like(from, result);
    uses_.leave(static_cast<std::int32_t>(i));
    uses_.leave(quantizer);
    qir::Node moved = std::move(move);
    graph_.nodes[i] = std::move(node(quantizer));
    graph_.nodes[i].inputs.set(0, from);
    graph_.nodes[i].outputs.set(0, early);
    moved.inputs.set(0, early);
    moved.outputs.set(0, result);
    node(quantizer) = std::move(moved);
    uses_.enter(static_cast<std::int32_t>(i));
    uses_.enter(quantizer);
    return true;
  }

  // DequantizeLinear -> move becomes move -> DequantizeLinear, so that what uses the result can take the
  // DequantizeLinear.
  bool sink(std::size_t i) {
    const auto n = static_cast<std::int32_t>(i);
    if (!moves_real_values(graph_, node(n)) || moved_inputs(node(n)) != 1 ||
        (node(n).op != Op::Split && node(n).outputs.size() != 1))
      return false;
    const Vector<std::int32_t> outputs = node(n).outputs;
    if (std::ranges::find(outputs, qir::kAbsent) != outputs.end()) return false;
    const std::int32_t real_from = node(n).inputs[0], from = dequantized_from(real_from);
    if (from == kNone || !at(graph_, from).quant->per_tensor() || dtype_bits(at(graph_, from).dtype) > 16) return false;
    // Only where it helps: somebody behind takes quantised values.
    const bool helps = std::ranges::any_of(outputs, [&](std::int32_t output) {
      return std::ranges::any_of(uses_.readers(output), [&](const Readers::Reader &reader) {
        return computes_on_quantized(graph_, node(reader.node)) || node(reader.node).op == Op::QuantizeLinear;
      });
    });
    if (!helps) return false;
    uses_.leave(n);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const std::int32_t moved = add_like(outputs[k], from);
      qir::Node back = node(uses_.maker(real_from));
      back.name = format("%s/dequantize%zu", node(n).name, k);
      back.inputs.set(0, moved);
      back.outputs = {outputs[k]};
      node(n).outputs.set(k, moved);
      added_behind_.push_back(i);
      graph_.nodes.push_back(std::move(back));
      dead_.push_back(false);
      uses_.enter(static_cast<std::int32_t>(graph_.nodes.size() - 1));
    }
    node(n).inputs.set(0, from);
    uses_.enter(n);
    return true;
  }

  // What sink() added stands behind all others, `count` of them.
  void place_added(std::size_t count) {
    Vector<qir::Node> nodes;
    Vector<bool> dead;
    const auto take = [&](std::size_t i) {
      nodes.push_back(std::move(graph_.nodes[i]));
      dead.push_back(dead_[i]);
    };
    std::size_t next = 0;
    for (std::size_t i = 0; i < count; ++i)
      for (take(i); next < added_behind_.size() && added_behind_[next] == i; ++next) take(count + next);
    graph_.nodes = std::move(nodes);
    dead_ = std::move(dead);
  }

  qir::Graph &graph_;
  qir::Names &names_;
  Vector<bool> dead_;
  Readers uses_;
  Vector<std::size_t> added_behind_;  // which nodes
};

}  // namespace

void put_together_quantized(qir::Graph &graph) {
  for (qir::Node &node : graph.nodes)
    for (qir::Graph &body : node.subgraphs) put_together_quantized(body);
  const bool any = std::ranges::any_of(graph.nodes, [](const qir::Node &node) {
    return node.op == Op::QuantizeLinear || node.op == Op::DequantizeLinear;
  });
  if (!any) return;
  qir::Names names(graph);
  merge_and_split(graph, names);
  if (stop_asked()) return;
  give_types(graph);
  while (Fuser(graph, names).run() && !stop_asked()) {
  }
  remove_unused(graph);
}

}  // namespace quarry::passes
