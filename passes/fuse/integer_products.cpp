// SPDX-License-Identifier: Apache-2.0
// MatMulInteger and ConvInteger whose sums become reals at once, as products of reals: for backends whose reals have
// more room than the sums only after the scale.
#include <algorithm>
#include <cmath>

#include "passes/arithmetic.h"

namespace quarry::passes {

using qir::at;
using qir::kAbsent;
using qir::Op;

namespace {

// The product, its Cast to f32 and the Mul behind that.
struct Chain {
  const qir::Node *product = nullptr, *scale = nullptr;
  std::int32_t factor = kAbsent;  // what the sums are multiplied by
};

class RealProduct : private Arithmetic {
 public:
  RealProduct(Rewriting &to, const Chain &chain) : Arithmetic(to, *chain.scale), chain_(chain) {}

  void run() {
    const qir::Node &product = *chain_.product;
    const bool conv = product.op == Op::ConvInteger;
    const qir::Shape weights = shape_of(product.inputs[1]);
    const std::int64_t inner =
        conv ? elements(weights) / std::max<std::int64_t>(1, weights[0]) : weights[weights.size() - 2];
    // Powers of two lose nothing: the sums are brought below the largest number of half precision.
    const int down =
        std::max(0, static_cast<int>(std::ceil(std::log2(static_cast<double>(inner) * 255 * 255 / 65504))));
    const std::int32_t x = real(0, 2, std::ldexp(1.0f, -down), 0),
                       w = real(1, 3, 1, conv ? 0 : static_cast<std::int64_t>(weights.size()) - 1);
    const qir::Shape shape = shape_of(product.outputs[0]);
    const std::int32_t sums = op(conv ? Op::Conv : Op::MatMul, {x, w}, shape);
    if (conv) to_.graph.nodes.back().attributes = product.attributes;
    to_.emit(Op::Mul, node_, {sums, grown(down)}, node_.outputs[0]);
  }

 private:
  std::int32_t real(std::size_t input, std::size_t zero_point, float scale, std::int64_t axis) {
    const std::int32_t id = chain_.product->inputs[input], zero = chain_.product->inputs[zero_point];
    const qir::Shape shape = shape_of(id), parameters = zero == kAbsent                 ? qir::Shape()
                                                        : elements(shape_of(zero)) == 1 ? qir::Shape()
                                                                                        : shape_of(zero);
    const Vector<float> scales(static_cast<std::size_t>(elements(parameters)), scale);
    Vector<std::int32_t> inputs = {id, floats(parameters, scales)};
    if (zero != kAbsent) inputs.push_back(reshape(zero, parameters));
    const std::int32_t made = op(Op::DequantizeLinear, std::move(inputs), shape);
    to_.graph.nodes.back().set("axis", axis);
    return made;
  }
  std::int32_t grown(int down) {
    const float back = std::ldexp(1.0f, down);
    const float *const known = qir::constant_floats(to_.graph, chain_.factor);
    if (!known) return op(Op::Mul, chain_.factor, number(back));
    const qir::Shape shape = shape_of(chain_.factor);
    Vector<float> values;
    for (std::int64_t i = 0; i < elements(shape); ++i) values.push_back(known[i] * back);
    return floats(shape, values);
  }

  const Chain &chain_;
};

bool fits(const qir::Graph &graph, const qir::Node &node) {
  if ((node.op != Op::MatMulInteger && node.op != Op::ConvInteger) || node.inputs.size() < 2) return false;
  const qir::Tensor &x = at(graph, node.inputs[0]), &w = at(graph, node.inputs[1]);
  if (!is_small(x.dtype) || !is_small(w.dtype) || x.quant || w.quant || !w.is_constant || w.shape.size() < 2)
    return false;
  const auto plain = [&](const qir::Shape &shape) {
    return std::ranges::all_of(shape, [](std::int64_t extent) { return extent > 0; });
  };
  if (!plain(x.shape) || !plain(w.shape) || !plain(at(graph, node.outputs[0]).shape)) return false;
  const std::int32_t x_zero = node.inputs[2], w_zero = node.inputs[3];
  if (x_zero != kAbsent && elements(at(graph, x_zero).shape) != 1) return false;
  if (w_zero == kAbsent) return true;
  const qir::Tensor &zero = at(graph, w_zero);
  const std::int64_t columns = w.shape[node.op == Op::ConvInteger ? 0 : w.shape.size() - 1];
  return zero.is_constant && (elements(zero.shape) == 1 || zero.shape == qir::Shape{columns});
}

}  // namespace

void scale_integer_products(qir::Graph &graph, Store &store) {
  const qir::Uses uses(graph);
  OrderedMap<std::size_t, Chain> chains;  // by the place of the Mul
  Vector<bool> gone(graph.nodes.size());
  const auto only_user = [&](std::int32_t id) { return index_of(uses.users(id)[0]); };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const qir::Node &node = graph.nodes[i];
    if (!fits(graph, node) || !uses.used_once(node.outputs[0])) continue;
    const std::size_t cast_at = only_user(node.outputs[0]);
    const qir::Node &cast = graph.nodes[cast_at];
    if (cast.op != Op::Cast || at(graph, cast.outputs[0]).dtype != DType::F32 || !uses.used_once(cast.outputs[0]))
      continue;
    const std::size_t scale_at = only_user(cast.outputs[0]);
    const qir::Node &scale = graph.nodes[scale_at];
    if (scale.op != Op::Mul || at(graph, scale.outputs[0]).quant) continue;
    chains[scale_at] = {&node, &scale, scale.inputs[scale.inputs[0] == cast.outputs[0] ? 1 : 0]};
    gone[i] = gone[cast_at] = true;
  }
  if (chains.empty()) return;
  // The chains point at nodes, which stay where they are while the list is written anew.
  Rewriting rewriting(graph, store);
  for (std::size_t i = 0; i < rewriting.old.size() && !stop_asked(); ++i) {
    if (gone[i]) continue;
    if (const auto found = chains.find(i); found != chains.end()) RealProduct(rewriting, found->second).run();
    else rewriting.keep(std::move(rewriting.old[i]));
  }
}

}  // namespace quarry::passes
