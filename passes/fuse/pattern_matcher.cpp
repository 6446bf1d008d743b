// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/pattern_matcher.h"

#include <algorithm>
#include <cmath>

namespace quarry::passes {

using qir::Op;

const qir::Node *PatternMatcher::made_by(std::int32_t id, Op op) const {
  if (id == qir::kAbsent || !uses_.knows(id)) return nullptr;
  const std::int32_t maker = uses_.maker(id);
  if (maker == qir::Uses::kNobody) return nullptr;
  const qir::Node &node = graph_.nodes[index_of(maker)];
  return node.op == op && node.outputs[0] == id ? &node : nullptr;
}

std::optional<float> PatternMatcher::scalar(std::int32_t id) const {
  const float *value = qir::constant_floats(graph_, id);
  if (!value || tensor(id).data.size != sizeof(float)) return std::nullopt;
  return *value;
}

bool PatternMatcher::is_scalar(std::int32_t id, double wanted) const {
  const auto value = scalar(id);
  return value && std::fabs(static_cast<double>(*value) - wanted) <= 1e-6 * std::fabs(wanted);
}

std::int32_t PatternMatcher::beside_scalar(const qir::Node &node, double wanted) const {
  if (is_scalar(node.inputs[1], wanted)) return node.inputs[0];
  return is_scalar(node.inputs[0], wanted) ? node.inputs[1] : qir::kAbsent;
}

std::int32_t PatternMatcher::beside(const qir::Node &node, std::int32_t one) {
  if (node.inputs[0] == one) return node.inputs[1];
  return node.inputs[1] == one ? node.inputs[0] : qir::kAbsent;
}

bool PatternMatcher::Factors::only(std::int32_t x, std::size_t times) const {
  return others.size() == times && std::ranges::all_of(others, [x](std::int32_t id) { return id == x; });
}

bool PatternMatcher::Factors::is(double wanted, double tolerance) const {
  return std::fabs(scalar - wanted) <= tolerance * wanted;
}

void PatternMatcher::multiply_into(Factors *out, std::int32_t id, std::int32_t x, int depth) const {
  if (const auto value = scalar(id)) {
    out->scalar *= static_cast<double>(*value);
    return;
  }
  if (id != x && depth > 0) {
    if (const qir::Node *product = made_by(id, Op::Mul)) {
      for (const std::int32_t factor : product->inputs) multiply_into(out, factor, x, depth - 1);
      return;
    }
    if (const qir::Node *quotient = made_by(id, Op::Div)) {
      if (const auto divisor = scalar(quotient->inputs[1]); divisor && *divisor != 0) {
        out->scalar /= static_cast<double>(*divisor);
        return multiply_into(out, quotient->inputs[0], x, depth - 1);
      }
    }
  }
  const qir::Node *power = id == x ? nullptr : made_by(id, Op::Pow);
  const auto exponent = power ? scalar(power->inputs[1]) : std::nullopt;
  if (exponent && (*exponent == 2 || *exponent == 3))
    out->others.insert(out->others.end(), static_cast<std::size_t>(*exponent), power->inputs[0]);
  else out->others.push_back(id);
}

PatternMatcher::Factors PatternMatcher::factors(std::int32_t id, std::int32_t x) const {
  Factors out;
  multiply_into(&out, id, x, 4);
  return out;
}

std::int32_t PatternMatcher::add(std::string_view name, const qir::Shape &shape, qir::Bytes contents) {
  qir::Tensor made;
  made.name = names_.fresh(name);
  made.dtype = DType::F32;
  made.shape = shape;
  made.is_constant = true;
  made.data = contents;
  graph_.tensors.push_back(std::move(made));
  return static_cast<std::int32_t>(graph_.tensors.size() - 1);
}

std::int32_t PatternMatcher::add_ones(std::string_view name, std::int64_t count) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * sizeof(float);
  auto *ones = static_cast<float *>(store_.allocate(bytes));
  std::fill_n(ones, count, 1.0f);
  return add(name, {count}, {ones, bytes});
}

Found found(Op op, Vector<std::int32_t> inputs) {
  qir::Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  return node;
}

}  // namespace quarry::passes
