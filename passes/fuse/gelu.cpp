// SPDX-License-Identifier: Apache-2.0
// Gelu, by the error function and by tanh. The factors may stand in any order: PyTorch, TensorFlow, JAX and ONNX
// Runtime's tools each have their own.
#include <algorithm>
#include <cmath>

#include "passes/fuse/pattern_matcher.h"

namespace quarry::passes {

using qir::Op;

namespace {

// Whether the product `whole` is x / 2 * (the tensor `gate`). x itself may be a product.
bool is_half_of(const PatternMatcher &match, std::int32_t whole, std::int32_t x, double half) {
  const PatternMatcher::Factors around = match.factors(whole, x);
  return std::fabs(around.scalar - half) <= 1e-6 * half && around.others.size() == 2 &&
         std::ranges::count(around.others, x) == 1;
}

// x where the tensor is x / sqrt(2).
std::int32_t over_root_two(const PatternMatcher &match, std::int32_t id) {
  if (const qir::Node *divided = match.made_by(id, Op::Div))
    return match.is_scalar(divided->inputs[1], std::sqrt(2.0)) ? divided->inputs[0] : qir::kAbsent;
  const qir::Node *scaled = match.made_by(id, Op::Mul);
  return scaled ? match.beside_scalar(*scaled, std::sqrt(0.5)) : qir::kAbsent;
}

// x where the tensor is sqrt(2 / pi) * (x + 0.044715 * x^3), or has x before the brackets.
std::int32_t tanh_argument(const PatternMatcher &match, std::int32_t inside) {
  const PatternMatcher::Factors whole = match.factors(inside);
  if (!whole.is(std::sqrt(2 / M_PI))) return qir::kAbsent;
  for (const std::int32_t id : whole.others) {
    const qir::Node *sum = match.made_by(id, Op::Add);
    if (!sum) continue;
    for (int side = 0; side < 2; ++side) {
      const std::int32_t one = sum->inputs[index_of(side)], rest = sum->inputs[index_of(1 - side)];
      if (whole.others.size() == 1) {
        const PatternMatcher::Factors cube = match.factors(rest, one);
        if (cube.is(0.044715) && cube.only(one, 3)) return one;
      } else if (whole.others.size() == 2 && match.is_scalar(one, 1)) {
        const std::int32_t x = whole.others[0] == id ? whole.others[1] : whole.others[0];
        const PatternMatcher::Factors square = match.factors(rest, x);
        if (square.is(0.044715) && square.only(x, 2)) return x;
      }
    }
  }
  return qir::kAbsent;
}

}  // namespace

Found match_gelu(PatternMatcher &match, const qir::Node &node) {
  if (node.op != Op::Mul && node.op != Op::Div) return {};
  const PatternMatcher::Factors whole = match.factors(node.outputs[0]);
  for (const std::int32_t id : whole.others) {
    const qir::Node *sum = match.made_by(id, Op::Add);
    if (!sum) continue;
    // 1 + erf, or 0.5 + 0.5 * erf
    for (const double one : {1.0, 0.5}) {
      std::int32_t inside = match.beside_scalar(*sum, one);
      if (inside != qir::kAbsent && one == 0.5) {
        const qir::Node *scaled = match.made_by(inside, Op::Mul);
        inside = scaled ? match.beside_scalar(*scaled, 0.5) : qir::kAbsent;
      }
      const qir::Node *erf = match.made_by(inside, Op::Erf);
      const std::int32_t x = erf ? over_root_two(match, erf->inputs[0]) : qir::kAbsent;
      if (x != qir::kAbsent && is_half_of(match, node.outputs[0], x, 0.5 / one)) return found(Op::Gelu, {x});
    }
  }
  return {};
}

Found match_gelu_tanh(PatternMatcher &match, const qir::Node &node) {
  if (node.op != Op::Mul && node.op != Op::Div) return {};
  const PatternMatcher::Factors whole = match.factors(node.outputs[0]);
  for (const std::int32_t id : whole.others) {
    const qir::Node *sum = match.made_by(id, Op::Add);
    const qir::Node *tanh = sum ? match.made_by(match.beside_scalar(*sum, 1), Op::Tanh) : nullptr;
    const std::int32_t x = tanh ? tanh_argument(match, tanh->inputs[0]) : qir::kAbsent;
    if (x == qir::kAbsent || !is_half_of(match, node.outputs[0], x, 0.5)) continue;
    Found gelu = found(Op::Gelu, {x});
    gelu->set("approximate", "tanh");
    return gelu;
  }
  return {};
}

}  // namespace quarry::passes
