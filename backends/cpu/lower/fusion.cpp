// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/lower/fusion.h"

#include <cmath>
#include <limits>

#include "base/stop.h"
#include "passes/fuse/attention.h"

namespace quarry::cpu {

using kernels::Act;
using kernels::Activation;
using kernels::ElementOp;
using kernels::Residual;
using qir::at;
using qir::Op;

namespace {

bool plain(const qir::Graph &graph, std::int32_t id, DType dtype = DType::F32) {
  return id != qir::kAbsent && at(graph, id).dtype == dtype && !at(graph, id).quant;
}

// One f32 constant, or `fallback` where the input is absent.
std::optional<float> bound(const qir::Graph &graph, std::int32_t id, float fallback) {
  if (id == qir::kAbsent) return fallback;
  const float *value = qir::constant_floats(graph, id);
  if (!value || at(graph, id).data.size != sizeof(float)) return std::nullopt;
  return *value;
}

// One number for each channel of an image, or for each column.
bool is_per_channel(const qir::Tensor &added, const qir::Tensor &made, bool image) {
  const std::size_t behind = image ? made.shape.size() - 2 : 0;
  if (added.shape.size() <= behind || added.shape.size() > made.shape.size()) return false;
  const std::int64_t channels = made.shape[made.shape.size() - 1 - behind];
  return added.shape[added.shape.size() - 1 - behind] == channels &&
         added.data.size == static_cast<std::uint64_t>(channels) * sizeof(float);
}

bool is_contraction(Op op) { return op == Op::Conv || op == Op::Gemm || op == Op::MatMul; }
// What a result is multiplied by, if all of it is by one constant; a quotient only where its inverse is exact.
std::optional<float> factor_of(const qir::Graph &graph, const qir::Node &node, std::int32_t product) {
  if (node.op != Op::Mul && node.op != Op::Div) return std::nullopt;
  if (!plain(graph, node.outputs[0]) || at(graph, node.outputs[0]).shape != at(graph, product).shape)
    return std::nullopt;
  const bool first = node.inputs[0] == product;
  const std::int32_t other = node.inputs[first ? 1 : 0];
  const float *const value = other == product || !plain(graph, other) ? nullptr : qir::constant_floats(graph, other);
  if (!value || at(graph, other).data.size != sizeof(float)) return std::nullopt;
  // (One operand is multiplied before the sums are made: neither may leave the range of f32 for it.)
  if (!(std::fabs(*value) >= 0x1p-24f && std::fabs(*value) <= 0x1p24f)) return std::nullopt;
  int exponent;
  if (node.op == Op::Mul) return *value;
  if (!first || std::fabs(std::frexp(*value, &exponent)) != 0.5f) return std::nullopt;
  return 1 / *value;
}
// Steps that can end in an activation.
bool takes_activation(Op op) {
  switch (op) {
    case Op::Conv:
    case Op::ConvTranspose:
    case Op::Gemm:
    case Op::MatMul:
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Min:
    case Op::Max:
    case Op::Pow:
    case Op::PRelu:
    case Op::LayerNormalization:
    case Op::RMSNormalization:
    case Op::ReduceMean:
    case Op::ReduceSum:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::GlobalAveragePool: return true;
    default: return false;
  }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
std::optional<Activation> activation(Act kind, float a, float b) { return Activation{kind, a, b, 0}; }
std::optional<Activation> activation(ElementOp, float, float) { return std::nullopt; }  // elements.cpp's

}  // namespace

std::optional<Activation> activation_of(const qir::Graph &graph, const qir::Node &node, DType dtype) {
  if (node.inputs.empty() || !plain(graph, node.inputs[0], dtype) || !plain(graph, node.outputs[0], dtype))
    return std::nullopt;
  switch (node.op) {
    case Op::Clip: {
      if (dtype != DType::F32) return Activation{Act::Clip, 0, 0, 0};  // bounds of that type are for the caller
      const auto low = bound(graph, node.inputs[1], -kInfinity), high = bound(graph, node.inputs[2], kInfinity);
      if (!low || !high || *low != *low || *high != *high) return std::nullopt;
      return Activation{Act::Clip, *low, *high, 0};
    }
    case Op::QuickGelu: return Activation{Act::Silu, node.get_float("alpha", 1.702f), 0, 0};
    case Op::Gelu:
      return Activation{node.get_string("approximate", "none") == "tanh" ? Act::GeluTanh : Act::Gelu, 0, 0, 0};
    default: break;
  }
  const auto parameter = [&](const char *name, float value) { return *name ? node.get_float(name, value) : value; };
  switch (node.op) {
#define QR_FUNCTION(op, cpu, p, p_value, q, q_value, ...)                 \
  case Op::op: {                                                          \
    return activation(cpu, parameter(p, p_value), parameter(q, q_value)); \
  }
#include "graph/ops/functions.inc"
    default: return std::nullopt;
  }
}

Fusion::Fusion(const qir::Graph &graph, const qir::Uses &uses)
    : graph_(graph), uses_(uses), of_node_(graph.nodes.size(), -1) {
  // Attention first: its MatMuls would take the additions of the mask otherwise.
  for (std::size_t n = 0; n < graph.nodes.size() && !stop_asked(); ++n) {
    Group group;
    if (graph.nodes[n].op == Op::MatMul && grow_attention(n, group)) groups_.push_back(group);
  }
  // Later matrix multiplications first: of two that end in one Add, the later one finds the other's result already
  // there, and warm.
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
      if (stop_asked()) return;  // who made this asks too
      const std::size_t n = pass == 0 ? i : graph.nodes.size() - 1 - i;
      if (taken(n) || (pass == 0 && !is_contraction(graph.nodes[n].op))) continue;
      Group group;
      group.root = group.last = static_cast<std::int32_t>(n);
      group.members = {group.root};
      of_node_[n] = static_cast<std::int32_t>(groups_.size());
      group.output = graph.nodes[n].outputs.empty() ? qir::kAbsent : graph.nodes[n].outputs[0];
      if (takes_activation(graph.nodes[n].op)) grow(group);
      groups_.push_back(std::move(group));
    }
  }
  find_blocks();
}

// 1x1 convolution -> depthwise -> 1x1 convolution, where what lies between is too large for the near caches (measured:
// from 1 MB on).
void Fusion::find_blocks() {
  constexpr std::uint64_t kLarge = 1 << 20;
  const auto node = [&](const Group &group) -> const qir::Node & { return graph_.nodes[index_of(group.root)]; };
  const auto f32_conv = [&](const Group &group) {
    return node(group).op == Op::Conv && plain(graph_, node(group).inputs[0]) && plain(graph_, group.output) &&
           at(graph_, group.output).shape.size() == 4;
  };
  const auto pointwise = [&](const Group &group) {
    if (!f32_conv(group)) return false;
    const qir::Shape &w = at(graph_, node(group).inputs[1]).shape, &in = at(graph_, node(group).inputs[0]).shape,
                     &out = at(graph_, group.output).shape;
    return node(group).get_int("group", 1) == 1 && w.size() == 4 && w[2] == 1 && w[3] == 1 && in[2] == out[2] &&
           in[3] == out[3];
  };
  const auto before = [&](const Group &group) -> std::int32_t {
    const std::int32_t x = node(group).inputs[0];
    const std::int32_t made = uses_.used_once(x) ? uses_.maker(x) : -1;
    return made < 0 ? -1 : of_node_[index_of(made)];
  };
  for (Group &project : groups_) {
    if (project.part_of_block || !pointwise(project)) continue;
    const std::int32_t d = before(project);
    if (d < 0) continue;
    Group &depthwise = groups_[index_of(d)];
    if (!f32_conv(depthwise) || depthwise.residual != qir::kAbsent) continue;
    const qir::Shape &in = at(graph_, node(depthwise).inputs[0]).shape, &out = at(graph_, depthwise.output).shape;
    if (in[1] != out[1] || node(depthwise).get_int("group", 1) != in[1] || in[1] < 2) continue;
    const std::int32_t e = before(depthwise);
    if (e < 0) continue;
    Group &expand = groups_[index_of(e)];
    if (!pointwise(expand) || expand.residual != qir::kAbsent || expand.part_of_block || depthwise.part_of_block ||
        expand.expand >= 0)
      continue;
    std::uint64_t bytes = sizeof(float);
    for (const std::int64_t extent : in) bytes *= static_cast<std::uint64_t>(extent);
    if (bytes < kLarge) continue;
    project.expand = e, project.depthwise = d;
    expand.part_of_block = depthwise.part_of_block = true;
  }
}

std::int32_t Fusion::only_user(std::int32_t tensor) const {
  if (tensor == qir::kAbsent || !uses_.used_once(tensor)) return -1;
  const std::int32_t user = uses_.users(tensor)[0];
  return taken(index_of(user)) ? -1 : user;
}

// The other operand of a sum behind a product: its bias, or what is added to its result.
bool Fusion::take_sum(Group &group, const qir::Node &node, bool quantized) const {
  if (group.residual_mode != Residual::None) return false;
  const qir::Tensor &made = at(graph_, group.output);
  const std::int32_t other = node.inputs[0] == group.output ? node.inputs[1] : node.inputs[0];
  const qir::Tensor &added = at(graph_, other), &sum = at(graph_, node.outputs[0]);
  if (other == group.output || sum.shape != made.shape) return false;
  const bool is_image = !added.is_constant && added.shape == made.shape;
  if (quantized) {
    if (!is_image || !added.quant || !sum.quant) return false;
    group.residual = other;
    group.residual_mode = Residual::BeforeAct;
    group.mid = group.output;
    return true;
  }
  if (!plain(graph_, other) || !plain(graph_, node.outputs[0])) return false;
  const bool is_conv = graph_.nodes[index_of(group.root)].op == Op::Conv;
  if (added.is_constant && is_per_channel(added, made, is_conv) && group.bias == qir::kAbsent &&
      group.act.kind == Act::None) {
    group.bias = other;
    return true;
  }
  if (!is_image) return false;
  group.residual = other;
  group.residual_mode = group.act.kind == Act::None ? Residual::BeforeAct : Residual::AfterAct;
  return true;
}

// Takes the nodes behind the group's output as long as the step can do them.
void Fusion::grow(Group &group) {
  const Op root = graph_.nodes[index_of(group.root)].op;
  const bool quantized = at(graph_, group.output).quant.has_value();
  const std::int32_t number = static_cast<std::int32_t>(groups_.size());
  for (;;) {
    const std::int32_t next = only_user(group.output);
    if (next < 0) return;
    const qir::Node &node = graph_.nodes[index_of(next)];
    bool takes = false;
    if (!quantized && group.act.kind == Act::None && group.residual_mode != Residual::AfterAct &&
        node.inputs[0] == group.output) {
      if (const auto act = activation_of(graph_, node)) {
        group.act = *act;
        takes = true;
      }
    }
    const auto plain_input = [&](std::size_t i) { return plain(graph_, graph_.nodes[index_of(group.root)].inputs[i]); };
    if (!takes && root == Op::MatMul && group.members.size() == 1 && plain_input(0) && plain_input(1)) {
      if (const auto factor = factor_of(graph_, node, group.output)) {
        group.scale = *factor;
        takes = true;
      }
    }
    if (!takes && node.op == Op::Add && is_contraction(root)) takes = take_sum(group, node, quantized);
    if (!takes) return;
    of_node_[index_of(next)] = number;
    group.last = next;
    group.members.push_back(next);
    group.output = node.outputs[0];
  }
}

bool Fusion::grow_attention(std::size_t n, Group &group) {
  const auto pieces = passes::match_attention(graph_, uses_, n);
  if (!pieces) return false;
  for (const std::int32_t node : pieces->nodes)
    if (taken(index_of(node))) return false;
  group.attention = true;
  group.root = group.last = static_cast<std::int32_t>(n);
  group.output = graph_.nodes[n].outputs[0];
  group.members = pieces->nodes;
  group.q = pieces->q, group.k_transposed = pieces->k_transposed, group.v = pieces->v, group.mask = pieces->mask;
  group.scale = pieces->scale;
  for (const std::int32_t node : pieces->nodes) of_node_[index_of(node)] = static_cast<std::int32_t>(groups_.size());
  return true;
}

}  // namespace quarry::cpu
