// SPDX-License-Identifier: Apache-2.0
// LayerNormalization and RMSNormalization over the last axis.
#include <algorithm>

#include "passes/fuse/pattern_matcher.h"

namespace quarry::passes {

using qir::Op;

namespace {

bool over_last_axis(const PatternMatcher &match, const qir::Node &mean) {
  if (mean.get_int("keepdims", 1) == 0 || mean.inputs.size() < 2 || mean.inputs[1] == qir::kAbsent) return false;
  const qir::Tensor &axes = match.tensor(mean.inputs[1]);
  if (!axes.is_constant || axes.dtype != DType::I64 || axes.data.size != 8) return false;
  const std::int64_t axis = *static_cast<const std::int64_t *>(axes.data.data),
                     rank = static_cast<std::int64_t>(match.tensor(mean.inputs[0]).shape.size());
  return axis == -1 || axis == rank - 1;
}

// The tensor whose mean this one is.
std::int32_t mean_of(const PatternMatcher &match, std::int32_t id) {
  const qir::Node *mean = match.made_by(id, Op::ReduceMean);
  return mean && over_last_axis(match, *mean) ? mean->inputs[0] : qir::kAbsent;
}

std::int32_t root_of_square(const PatternMatcher &match, std::int32_t id) {
  if (const qir::Node *power = match.made_by(id, Op::Pow))
    return match.is_scalar(power->inputs[1], 2) ? power->inputs[0] : qir::kAbsent;
  const qir::Node *square = match.made_by(id, Op::Mul);
  return square && square->inputs[0] == square->inputs[1] ? square->inputs[0] : qir::kAbsent;
}

// Of mean(x * x) + epsilon, or of what x / sqrt(of that) is.
struct Spread {
  std::int32_t x = qir::kAbsent;
  float epsilon = 0;
};

// The tensor is mean(x * x) + epsilon.
std::optional<Spread> mean_square(const PatternMatcher &match, std::int32_t id) {
  const qir::Node *sum = match.made_by(id, Op::Add);
  if (!sum) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    const auto epsilon = match.scalar(sum->inputs[side]);
    const std::int32_t x = epsilon ? root_of_square(match, mean_of(match, sum->inputs[1 - side])) : qir::kAbsent;
    if (x != qir::kAbsent) return Spread{x, *epsilon};
  }
  return std::nullopt;
}

// The tensor is sqrt(mean(x * x) + epsilon).
std::optional<Spread> deviation(const PatternMatcher &match, std::int32_t id) {
  if (const qir::Node *root = match.made_by(id, Op::Sqrt)) return mean_square(match, root->inputs[0]);
  const qir::Node *power = match.made_by(id, Op::Pow);
  return power && match.is_scalar(power->inputs[1], 0.5) ? mean_square(match, power->inputs[0]) : std::nullopt;
}

// The tensor is 1 / sqrt(mean(x * x) + epsilon).
std::optional<Spread> inverse_deviation(const PatternMatcher &match, std::int32_t id) {
  if (const qir::Node *inverse = match.made_by(id, Op::Reciprocal)) return deviation(match, inverse->inputs[0]);
  if (const qir::Node *power = match.made_by(id, Op::Pow))
    return match.is_scalar(power->inputs[1], -0.5) ? mean_square(match, power->inputs[0]) : std::nullopt;
  const qir::Node *one = match.made_by(id, Op::Div);
  return one && match.is_scalar(one->inputs[0], 1) ? deviation(match, one->inputs[1]) : std::nullopt;
}

bool same_difference(const PatternMatcher &match, std::int32_t a, std::int32_t b) {
  if (a == b) return true;  // some exporters subtract twice
  const qir::Node *left = match.made_by(a, Op::Sub), *right = match.made_by(b, Op::Sub);
  return left && right && left->inputs == right->inputs;
}

// The tensor is x / sqrt(mean(x * x) + epsilon).
std::optional<Spread> normalized(const PatternMatcher &match, std::int32_t id) {
  std::int32_t x = qir::kAbsent;
  std::optional<Spread> spread;
  if (const qir::Node *divided = match.made_by(id, Op::Div)) {
    x = divided->inputs[0];
    spread = deviation(match, divided->inputs[1]);
  } else if (const qir::Node *product = match.made_by(id, Op::Mul)) {
    for (std::size_t which = 0; which < 2 && !spread; ++which) {
      x = product->inputs[1 - which];
      spread = inverse_deviation(match, product->inputs[which]);
    }
  }
  if (!spread || !same_difference(match, x, spread->x)) return std::nullopt;
  return Spread{x, spread->epsilon};
}

// x where the tensor is x - mean(x).
std::int32_t centred(const PatternMatcher &match, std::int32_t id) {
  const qir::Node *difference = match.made_by(id, Op::Sub);
  return difference && mean_of(match, difference->inputs[1]) == difference->inputs[0] ? difference->inputs[0]
                                                                                      : qir::kAbsent;
}

// The tensor is one f32 constant per element of the last axis: `id` itself, or the same with a shape of one dimension.
std::int32_t per_column(PatternMatcher &match, std::int32_t id, std::int32_t like) {
  const qir::Shape &shape = match.tensor(like).shape, &own = match.tensor(id).shape;
  if (!match.plain_f32(id) || !match.tensor(id).is_constant || shape.empty() || own.empty() ||
      own.size() > shape.size())
    return qir::kAbsent;
  const std::int64_t columns = shape.back();
  if (own.back() != columns || std::any_of(own.begin(), own.end() - 1, [](std::int64_t e) { return e != 1; }))
    return qir::kAbsent;
  if (own.size() == 1) return id;
  const String name = match.tensor(id).name;
  const qir::Bytes contents = match.tensor(id).data;
  return match.add(name, {columns}, contents);
}

Found normalization(Op op, Vector<std::int32_t> inputs, float epsilon) {
  Found made = found(op, std::move(inputs));
  made->set("axis", std::int64_t{-1});
  made->set("epsilon", epsilon);
  return made;
}

// x * k + (beta - mean(x) * k) with k = gamma / deviation: TensorFlow's way
Found layer_norm_by_factor(PatternMatcher &match, const qir::Node &sum, std::size_t side) {
  const qir::Node *product = match.made_by(sum.inputs[side], Op::Mul),
                  *shift = match.made_by(sum.inputs[1 - side], Op::Sub);
  const qir::Node *moved = shift ? match.made_by(shift->inputs[1], Op::Mul) : nullptr;
  if (!product || !moved) return {};
  for (std::size_t which = 0; which < 2; ++which) {
    const std::int32_t x = product->inputs[which], k = product->inputs[1 - which];
    const qir::Node *factor = match.made_by(k, Op::Mul);
    if (!factor || mean_of(match, PatternMatcher::beside(*moved, k)) != x) continue;
    for (std::size_t part = 0; part < 2; ++part) {
      const auto spread = inverse_deviation(match, factor->inputs[1 - part]);
      if (!spread || centred(match, spread->x) != x) continue;
      const std::int32_t gamma = per_column(match, factor->inputs[part], sum.outputs[0]),
                         beta = per_column(match, shift->inputs[0], sum.outputs[0]);
      if (gamma != qir::kAbsent && beta != qir::kAbsent)
        return normalization(Op::LayerNormalization, {x, gamma, beta}, spread->epsilon);
    }
  }
  return {};
}

}  // namespace

Found match_layer_norm_shifted(PatternMatcher &match, const qir::Node &node) {
  if (node.op != Op::Add) return {};
  for (std::size_t side = 0; side < 2; ++side) {
    if (Found tensorflow = layer_norm_by_factor(match, node, side)) return tensorflow;
    const qir::Node *product = match.made_by(node.inputs[1 - side], Op::Mul);
    if (!product) continue;
    for (std::size_t which = 0; which < 2; ++which) {
      const auto normal = normalized(match, product->inputs[1 - which]);
      const std::int32_t x = normal ? centred(match, normal->x) : qir::kAbsent;
      if (x == qir::kAbsent) continue;
      const std::int32_t gamma = per_column(match, product->inputs[which], node.outputs[0]),
                         beta = per_column(match, node.inputs[side], node.outputs[0]);
      if (gamma != qir::kAbsent && beta != qir::kAbsent)
        return normalization(Op::LayerNormalization, {x, gamma, beta}, normal->epsilon);
    }
  }
  return {};
}

Found match_layer_norm_scaled(PatternMatcher &match, const qir::Node &node) {
  if (node.op != Op::Mul) return {};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto normal = normalized(match, node.inputs[1 - side]);
    const std::int32_t x = normal ? centred(match, normal->x) : qir::kAbsent;
    if (x == qir::kAbsent) continue;
    if (const std::int32_t gamma = per_column(match, node.inputs[side], node.outputs[0]); gamma != qir::kAbsent)
      return normalization(Op::LayerNormalization, {x, gamma}, normal->epsilon);
  }
  return {};
}

Found match_layer_norm_plain(PatternMatcher &match, const qir::Node &node) {
  const auto normal = normalized(match, node.outputs[0]);
  const std::int32_t x = normal ? centred(match, normal->x) : qir::kAbsent;
  if (x == qir::kAbsent || match.tensor(x).shape.empty() || match.tensor(x).shape.back() < 0) return {};
  return normalization(Op::LayerNormalization, {x, match.add_ones(node.name + "/ones", match.tensor(x).shape.back())},
                       normal->epsilon);
}

Found match_rms_norm_scaled(PatternMatcher &match, const qir::Node &node) {
  if (node.op != Op::Mul) return {};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto normal = normalized(match, node.inputs[1 - side]);
    if (!normal) continue;
    if (const std::int32_t gamma = per_column(match, node.inputs[side], node.outputs[0]); gamma != qir::kAbsent)
      return normalization(Op::RMSNormalization, {normal->x, gamma}, normal->epsilon);
  }
  return {};
}

Found match_rms_norm_plain(PatternMatcher &match, const qir::Node &node) {
  const auto normal = normalized(match, node.outputs[0]);
  if (!normal || match.tensor(normal->x).shape.empty() || match.tensor(normal->x).shape.back() < 0) return {};
  const std::int64_t columns = match.tensor(normal->x).shape.back();
  return normalization(Op::RMSNormalization, {normal->x, match.add_ones(node.name + "/ones", columns)},
                       normal->epsilon);
}

}  // namespace quarry::passes
