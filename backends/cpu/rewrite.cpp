// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/rewrite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu-reference/interpreter.h"
#include "backends/cpu-reference/widen.h"
#include "backends/cpu/quantized.h"

namespace quarry::cpu {

using qir::at;
using qir::input_of;
using qir::Op;

namespace {

class Rewriter {
 public:
  explicit Rewriter(const Additions &add) : add_(add), graph_(add.graph) {}

  Status take_apart();
  Status fold();
  void find_patterns();

 private:
  // ---- making
  // Scale and zero point of a quantised tensor, as inputs of (De)QuantizeLinear.
  void add_parameters(qir::Node &node, const qir::Tensor &quantized) {
    const qir::Quantization &q = *quantized.quant;
    const std::int64_t rank = static_cast<std::int64_t>(quantized.shape.size()),
                       axis = q.axis < 0 ? q.axis + rank : q.axis;
    qir::Shape shape;
    if (q.block_size > 0) {
      shape = quantized.shape;
      shape[static_cast<std::size_t>(axis)] = (shape[static_cast<std::size_t>(axis)] + q.block_size - 1) / q.block_size;
    } else if (q.scales.size() > 1) {
      shape = {static_cast<std::int64_t>(q.scales.size())};
    }
    Vector<std::uint8_t> scales(q.scales.size() * sizeof(float)), zeros;
    std::memcpy(scales.data(), q.scales.data(), scales.size());
    const std::size_t width = dtype_bits(quantized.dtype) / 8;
    for (const std::int32_t zero : q.zero_points)
      for (std::size_t b = 0; b < width; ++b)
        zeros.push_back(static_cast<std::uint8_t>(static_cast<std::uint32_t>(zero) >> (8 * b)));
    node.inputs.push_back(add_.constant("scale", DType::F32, shape, std::move(scales)));
    node.inputs.push_back(add_.constant("zero_point", quantized.dtype, shape, std::move(zeros)));
    if (!shape.empty()) node.set("axis", axis);
    if (q.block_size > 0) node.set("block_size", q.block_size);
  }

  // ---- looking
  const qir::Node *made_by(std::int32_t id, Op op) const {
    if (id == qir::kAbsent) return nullptr;
    const std::int32_t maker = uses_->maker(id);
    if (maker < 0) return nullptr;
    const qir::Node &node = graph_.nodes[static_cast<std::size_t>(maker)];
    return node.op == op && node.outputs[0] == id ? &node : nullptr;
  }
  std::optional<float> scalar(std::int32_t id) const {
    const float *value = qir::constant_floats(graph_, id);
    if (!value || at(graph_, id).data.size != sizeof(float)) return std::nullopt;
    return *value;
  }
  bool is_scalar(std::int32_t id, double wanted) const {
    const auto value = scalar(id);
    return value && std::fabs(static_cast<double>(*value) - wanted) <= 1e-6 * std::fabs(wanted);
  }
  // Of a commutative node: the operand that is not `one`; kAbsent where `one` is none of the two.
  static std::int32_t other(const qir::Node &node, std::int32_t one) {
    if (node.inputs[0] == one) return node.inputs[1];
    return node.inputs[1] == one ? node.inputs[0] : qir::kAbsent;
  }
  // Of a commutative node: the operand beside a scalar of this value.
  std::int32_t beside_scalar(const qir::Node &node, double wanted) const {
    if (is_scalar(node.inputs[1], wanted)) return node.inputs[0];
    return is_scalar(node.inputs[0], wanted) ? node.inputs[1] : qir::kAbsent;
  }
  bool mean_over_last_axis(const qir::Node &node) const {
    if (node.get_int("keepdims", 1) == 0 || node.inputs.size() < 2 || node.inputs[1] == qir::kAbsent) return false;
    const qir::Tensor &axes = at(graph_, node.inputs[1]);
    if (!axes.is_constant || axes.dtype != DType::I64 || axes.data.size != 8) return false;
    const std::int64_t axis = *static_cast<const std::int64_t *>(axes.data.data),
                       rank = static_cast<std::int64_t>(at(graph_, node.inputs[0]).shape.size());
    return axis == -1 || axis == rank - 1;
  }
  // x where the tensor is mean(x * x) over the last axis.
  std::int32_t mean_square(std::int32_t id) const {
    const qir::Node *mean = made_by(id, Op::ReduceMean);
    if (!mean || !mean_over_last_axis(*mean)) return qir::kAbsent;
    if (const qir::Node *power = made_by(mean->inputs[0], Op::Pow); power && is_scalar(power->inputs[1], 2))
      return power->inputs[0];
    if (const qir::Node *square = made_by(mean->inputs[0], Op::Mul); square && square->inputs[0] == square->inputs[1])
      return square->inputs[0];
    return qir::kAbsent;
  }
  // {x, epsilon} where the tensor is sqrt(mean(x * x) + epsilon).
  std::optional<std::pair<std::int32_t, float>> root_mean_square(std::int32_t id) const {
    const qir::Node *root = made_by(id, Op::Sqrt);
    const qir::Node *sum = root ? made_by(root->inputs[0], Op::Add) : nullptr;
    if (!sum) return std::nullopt;
    for (int side = 0; side < 2; ++side) {
      const auto epsilon = scalar(sum->inputs[static_cast<std::size_t>(side)]);
      const std::int32_t x = epsilon ? mean_square(sum->inputs[static_cast<std::size_t>(1 - side)]) : qir::kAbsent;
      if (x != qir::kAbsent) return std::pair{x, *epsilon};
    }
    return std::nullopt;
  }
  bool per_column(std::int32_t id, std::int32_t like) const {
    const float *values = qir::constant_floats(graph_, id);
    const qir::Shape &shape = at(graph_, like).shape;
    return values && !shape.empty() && at(graph_, id).shape == qir::Shape{shape.back()};
  }

  // What a product of products multiplies: scalars together, and everything else; `x` is not looked into.
  struct Factors {
    double scalar = 1;
    Vector<std::int32_t> others;
    bool only(std::int32_t x, std::size_t times) const {
      return others.size() == times &&
             std::all_of(others.begin(), others.end(), [x](std::int32_t id) { return id == x; });
    }
    bool is(double wanted) const { return std::fabs(scalar - wanted) <= 1e-4 * wanted; }
  };
  void multiply_into(Factors *out, std::int32_t id, std::int32_t x, int depth) const {
    if (const auto value = scalar(id)) {
      out->scalar *= static_cast<double>(*value);
      return;
    }
    const qir::Node *product = id == x || depth == 0 ? nullptr : made_by(id, Op::Mul),
                    *power = id == x || product ? nullptr : made_by(id, Op::Pow);
    const auto exponent = power ? scalar(power->inputs[1]) : std::nullopt;
    if (exponent && (*exponent == 2 || *exponent == 3)) {
      out->others.insert(out->others.end(), static_cast<std::size_t>(*exponent), power->inputs[0]);
    } else if (product) {
      for (const std::int32_t factor : product->inputs) multiply_into(out, factor, x, depth - 1);
    } else {
      out->others.push_back(id);
    }
  }
  Factors factors(std::int32_t id, std::int32_t x) const {
    Factors out;
    multiply_into(&out, id, x, 4);
    return out;
  }
  std::int32_t gelu_tanh_argument(std::int32_t inside) const;

  bool gelu(qir::Node &node);
  bool gelu_tanh(qir::Node &node);
  bool swish(qir::Node &node);
  bool hard_swish(qir::Node &node);
  bool layer_norm(qir::Node &node);
  bool rms_norm(qir::Node &node);
  // False where the pieces broadcast their input, which the one operator does not.
  bool become(qir::Node &node, Op op, Vector<std::int32_t> inputs) {
    const auto shape = [&](std::int32_t id) -> const qir::Shape & {
      return graph_.tensors[static_cast<std::size_t>(id)].shape;
    };
    if (shape(inputs[0]) != shape(node.outputs[0])) return false;
    node.op = op;
    node.inputs = std::move(inputs);
    node.attributes.clear();
    return true;
  }

  const Additions add_;
  qir::Graph &graph_;
  const qir::Uses *uses_ = nullptr;
};

// A quantised operator means dequantise -> operator -> quantise (graph.h): written out where it has no way in integers.
Status Rewriter::take_apart() {
  Vector<qir::Node> nodes = std::move(graph_.nodes);
  graph_.nodes = {};
  for (qir::Node &node : nodes) {
    bool quantized = false;
    for (const auto *list : {&node.inputs, &node.outputs})
      for (const std::int32_t id : *list) quantized |= id != qir::kAbsent && at(graph_, id).quant.has_value();
    if (!quantized || !node.subgraphs.empty() || node.op == Op::QuantizeLinear || node.op == Op::DequantizeLinear ||
        integer_way(graph_, node)) {
      graph_.nodes.push_back(std::move(node));
      continue;
    }
    const auto whole_bytes = [&](std::int32_t id) {
      return id == qir::kAbsent || !at(graph_, id).quant || dtype_bits(at(graph_, id).dtype) >= 8;
    };
    const bool product = node.op == Op::Conv || node.op == Op::Gemm || node.op == Op::MatMul;
    const std::int32_t bias = input_of(node, 2);
    const bool integer_bias = product && bias != qir::kAbsent && at(graph_, bias).dtype == DType::I32;
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), whole_bytes) ||
        !std::all_of(node.outputs.begin(), node.outputs.end(), whole_bytes) || integer_bias) {
      graph_.nodes.push_back(std::move(node));  // cpu-reference runs it as it is
      continue;
    }
    for (std::int32_t &id : node.inputs) {
      if (id == qir::kAbsent || !at(graph_, id).quant) continue;
      qir::Node dequantize;
      dequantize.op = Op::DequantizeLinear;
      dequantize.name = node.name + "/dequantize";
      dequantize.inputs = {id};
      const qir::Tensor copy = at(graph_, id);
      add_parameters(dequantize, copy);
      id = add_.tensor(copy.name + "/f32", DType::F32, copy.shape);
      dequantize.outputs = {id};
      graph_.nodes.push_back(std::move(dequantize));
    }
    Vector<qir::Node> after;
    for (std::int32_t &id : node.outputs) {
      if (id == qir::kAbsent || !at(graph_, id).quant) continue;
      qir::Node quantize;
      quantize.op = Op::QuantizeLinear;
      quantize.name = node.name + "/quantize";
      const qir::Tensor copy = at(graph_, id);
      const std::int32_t real = add_.tensor(copy.name + "/f32", DType::F32, copy.shape);
      quantize.inputs = {real};
      add_parameters(quantize, copy);
      quantize.outputs = {id};
      id = real;
      after.push_back(std::move(quantize));
    }
    graph_.nodes.push_back(std::move(node));
    for (qir::Node &quantize : after) graph_.nodes.push_back(std::move(quantize));
  }
  return {};
}

// Casts and dequantisations of constants.
Status Rewriter::fold() {
  Vector<bool> dead(graph_.nodes.size(), false);
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    const qir::Node &node = graph_.nodes[n];
    if (node.op != Op::Cast && node.op != Op::DequantizeLinear) continue;
    if (!std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](std::int32_t id) { return id == qir::kAbsent || at(graph_, id).is_constant; }))
      continue;
    Vector<reference::ConstView> inputs;
    for (const std::int32_t id : node.inputs) {
      if (id == qir::kAbsent) {
        inputs.push_back({});
        continue;
      }
      const qir::Tensor &t = at(graph_, id);
      inputs.push_back({true, t.dtype, t.shape, &t.quant, t.data.data});
    }
    Vector<reference::OwnedTensor> results;
    QR_RETURN_IF_ERROR(reference::run_node(node, inputs, results));
    qir::Tensor &out = at(graph_, node.outputs[0]);
    if (results[0].dtype != out.dtype ||
        std::find(graph_.outputs.begin(), graph_.outputs.end(), node.outputs[0]) != graph_.outputs.end())
      continue;
    add_.owned.push_back(std::move(results[0].data));
    out.is_constant = true;
    out.data = {add_.owned.back().data(), add_.owned.back().size()};
    dead[n] = true;
  }
  qir::compact(graph_, dead);
  return {};
}

// x / 2 * (1 + erf(x / sqrt(2))), the three factors in any order
bool Rewriter::gelu(qir::Node &node) {
  Vector<std::int32_t> factors;
  for (const std::int32_t id : node.inputs) {
    if (const qir::Node *inner = made_by(id, Op::Mul); inner && factors.size() < 2)
      factors.insert(factors.end(), inner->inputs.begin(), inner->inputs.end());
    else factors.push_back(id);
  }
  if (factors.size() != 3) return false;
  std::int32_t x = qir::kAbsent, error = qir::kAbsent;
  bool half = false;
  for (const std::int32_t id : factors) {
    if (is_scalar(id, 0.5)) {
      half = true;
      continue;
    }
    const qir::Node *sum = made_by(id, Op::Add);
    const std::int32_t inside = sum ? beside_scalar(*sum, 1) : qir::kAbsent;
    if (const qir::Node *erf = inside != qir::kAbsent ? made_by(inside, Op::Erf) : nullptr;
        erf && error == qir::kAbsent)
      error = erf->inputs[0];
    else x = id;
  }
  if (!half || x == qir::kAbsent || error == qir::kAbsent) return false;
  const qir::Node *divided = made_by(error, Op::Div), *scaled = made_by(error, Op::Mul);
  const bool fits = (divided && divided->inputs[0] == x && is_scalar(divided->inputs[1], std::sqrt(2.0))) ||
                    (scaled && beside_scalar(*scaled, std::sqrt(0.5)) == x);
  if (!fits) return false;
  return become(node, Op::Gelu, {x});
}

// x where the tensor is sqrt(2 / pi) * (x + 0.044715 * x^3), or has x before the brackets.
std::int32_t Rewriter::gelu_tanh_argument(std::int32_t inside) const {
  const Factors whole = factors(inside, qir::kAbsent);
  if (!whole.is(std::sqrt(2 / M_PI))) return qir::kAbsent;
  for (const std::int32_t id : whole.others) {
    const qir::Node *sum = made_by(id, Op::Add);
    if (!sum) continue;
    for (int side = 0; side < 2; ++side) {
      const std::int32_t one = sum->inputs[static_cast<std::size_t>(side)],
                         rest = sum->inputs[static_cast<std::size_t>(1 - side)];
      if (whole.others.size() == 1) {
        const Factors cube = factors(rest, one);
        if (cube.is(0.044715) && cube.only(one, 3)) return one;
      } else if (whole.others.size() == 2 && is_scalar(one, 1)) {
        const std::int32_t x = whole.others[0] == id ? whole.others[1] : whole.others[0];
        const Factors square = factors(rest, x);
        if (square.is(0.044715) && square.only(x, 2)) return x;
      }
    }
  }
  return qir::kAbsent;
}

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), the factors in any order
bool Rewriter::gelu_tanh(qir::Node &node) {
  const Factors whole = factors(node.outputs[0], qir::kAbsent);
  for (const std::int32_t id : whole.others) {
    const qir::Node *sum = made_by(id, Op::Add);
    const std::int32_t inside = sum ? beside_scalar(*sum, 1) : qir::kAbsent;
    const qir::Node *tanh = inside != qir::kAbsent ? made_by(inside, Op::Tanh) : nullptr;
    const std::int32_t x = tanh ? gelu_tanh_argument(tanh->inputs[0]) : qir::kAbsent;
    if (x == qir::kAbsent) continue;
    const Factors around = factors(node.outputs[0], x);
    if (!around.is(0.5) || around.others.size() != 2 || std::count(around.others.begin(), around.others.end(), x) != 1)
      continue;
    if (!become(node, Op::Gelu, {x})) return false;
    node.set("approximate", "tanh");
    return true;
  }
  return false;
}

bool Rewriter::swish(qir::Node &node) {
  for (int side = 0; side < 2; ++side) {
    const qir::Node *sigmoid = made_by(node.inputs[static_cast<std::size_t>(side)], Op::Sigmoid);
    const std::int32_t x = node.inputs[static_cast<std::size_t>(1 - side)];
    if (!sigmoid || sigmoid->inputs[0] != x) continue;
    return become(node, Op::Swish, {x});
  }
  return false;
}

// x * hard_sigmoid(x) with slope 1/6
bool Rewriter::hard_swish(qir::Node &node) {
  for (int side = 0; side < 2; ++side) {
    const qir::Node *gate = made_by(node.inputs[static_cast<std::size_t>(side)], Op::HardSigmoid);
    const std::int32_t x = node.inputs[static_cast<std::size_t>(1 - side)];
    if (!gate || gate->inputs[0] != x) continue;
    if (std::fabs(gate->get_float("alpha", 0.2f) - 1.0f / 6) > 1e-6f || gate->get_float("beta", 0.5f) != 0.5f) continue;
    return become(node, Op::HardSwish, {x});
  }
  return false;
}

// (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * gamma + beta
bool Rewriter::layer_norm(qir::Node &node) {
  for (int side = 0; side < 2; ++side) {
    const std::int32_t beta = node.inputs[static_cast<std::size_t>(side)];
    const qir::Node *scaled = made_by(node.inputs[static_cast<std::size_t>(1 - side)], Op::Mul);
    if (!scaled || !per_column(beta, node.outputs[0])) continue;
    for (int which = 0; which < 2; ++which) {
      const std::int32_t gamma = scaled->inputs[static_cast<std::size_t>(which)];
      const qir::Node *normal = made_by(scaled->inputs[static_cast<std::size_t>(1 - which)], Op::Div);
      if (!normal || !per_column(gamma, node.outputs[0])) continue;
      const auto deviation = root_mean_square(normal->inputs[1]);
      const qir::Node *centred = made_by(normal->inputs[0], Op::Sub);
      if (!deviation || !centred) continue;
      const qir::Node *again = made_by(deviation->first, Op::Sub);  // some exporters subtract twice
      if (!again || again->inputs != centred->inputs) continue;
      const qir::Node *mean = made_by(centred->inputs[1], Op::ReduceMean);
      if (!mean || !mean_over_last_axis(*mean) || mean->inputs[0] != centred->inputs[0]) continue;
      const std::int32_t x = centred->inputs[0];
      if (at(graph_, x).shape != at(graph_, node.outputs[0]).shape) continue;
      if (!become(node, Op::LayerNormalization, {x, gamma, beta})) return false;
      node.set("axis", std::int64_t{-1});
      node.set("epsilon", deviation->second);
      return true;
    }
  }
  return false;
}

// x / sqrt(mean(x^2) + epsilon) * gamma; the division also as a product with the reciprocal
bool Rewriter::rms_norm(qir::Node &node) {
  for (int side = 0; side < 2; ++side) {
    const std::int32_t gamma = node.inputs[static_cast<std::size_t>(side)],
                       normal = node.inputs[static_cast<std::size_t>(1 - side)];
    if (!per_column(gamma, node.outputs[0])) continue;
    std::int32_t x = qir::kAbsent;
    std::optional<std::pair<std::int32_t, float>> root;
    if (const qir::Node *divided = made_by(normal, Op::Div)) {
      x = divided->inputs[0];
      root = root_mean_square(divided->inputs[1]);
    } else if (const qir::Node *product = made_by(normal, Op::Mul)) {
      for (int which = 0; which < 2 && !root; ++which) {
        x = product->inputs[static_cast<std::size_t>(1 - which)];
        const std::int32_t factor = product->inputs[static_cast<std::size_t>(which)];
        if (const qir::Node *inverse = made_by(factor, Op::Reciprocal)) root = root_mean_square(inverse->inputs[0]);
        else if (const qir::Node *one = made_by(factor, Op::Div); one && is_scalar(one->inputs[0], 1))
          root = root_mean_square(one->inputs[1]);
      }
    }
    if (!root || root->first != x || at(graph_, x).shape != at(graph_, node.outputs[0]).shape) continue;
    if (!become(node, Op::RMSNormalization, {x, gamma})) return false;
    node.set("axis", std::int64_t{-1});
    node.set("epsilon", root->second);
    return true;
  }
  return false;
}

void Rewriter::find_patterns() {
  const qir::Uses uses(graph_);
  uses_ = &uses;
  const auto plain = [&](std::int32_t id) { return at(graph_, id).dtype == DType::F32 && !at(graph_, id).quant; };
  bool changed = false;
  // The Adds first: what is left of a LayerNormalization without its Add would pass for an RMSNormalization.
  for (const Op op : {Op::Add, Op::Mul}) {
    for (qir::Node &node : graph_.nodes) {
      if (node.op != op || node.inputs.size() != 2 || node.outputs.size() != 1 || !plain(node.outputs[0])) continue;
      changed |= op == Op::Add ? layer_norm(node)
                               : gelu(node) || gelu_tanh(node) || swish(node) || hard_swish(node) || rms_norm(node);
    }
  }
  uses_ = nullptr;
  if (!changed) return;
  // The pieces that nobody reads any more.
  Vector<bool> dead(graph_.nodes.size(), false);
  for (bool more = true; more;) {
    more = false;
    const qir::Uses left(graph_, dead);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (dead[n]) continue;
      const auto &outputs = graph_.nodes[n].outputs;
      if (std::any_of(outputs.begin(), outputs.end(), [&](std::int32_t id) {
            return id != qir::kAbsent && (left.is_output(id) || !left.users(id).empty());
          }))
        continue;
      dead[n] = true;
      more = true;
    }
  }
  qir::compact(graph_, dead);
}

}  // namespace

std::int32_t Additions::tensor(std::string_view name, DType dtype, const qir::Shape &shape) const {
  qir::Tensor tensor;
  tensor.name = qir::fresh_name(graph, name);
  tensor.dtype = dtype;
  tensor.shape = shape;
  graph.tensors.push_back(std::move(tensor));
  return static_cast<std::int32_t>(graph.tensors.size() - 1);
}

std::int32_t Additions::constant(std::string_view name, DType dtype, const qir::Shape &shape,
                                 Vector<std::uint8_t> contents) const {
  const std::int32_t id = tensor(name, dtype, shape);
  owned.push_back(std::move(contents));
  at(graph, id).is_constant = true;
  at(graph, id).data = {owned.back().data(), owned.back().size()};
  return id;
}

Status rewrite(qir::Graph &graph, Vector<Vector<std::uint8_t>> &owned) {
  QR_RETURN_IF_ERROR(reference::widen_halves(graph));
  const Additions additions{graph, owned};
  Rewriter rewriter(additions);
  QR_RETURN_IF_ERROR(rewriter.take_apart());
  QR_RETURN_IF_ERROR(einsum_to_matmul(additions));
  QR_RETURN_IF_ERROR(rewriter.fold());
  rewriter.find_patterns();
  return qir::validate_graph(graph);
}

}  // namespace quarry::cpu
