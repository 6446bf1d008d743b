// SPDX-License-Identifier: Apache-2.0
// LayerNormalization and RMSNormalization over the last axis.
#include <algorithm>

#include "passes/look.h"

namespace quarry::passes {

using qir::Op;

namespace {

bool over_last_axis(const Look &look, const qir::Node &mean) {
  if (mean.get_int("keepdims", 1) == 0 || mean.inputs.size() < 2 || mean.inputs[1] == qir::kAbsent) return false;
  const qir::Tensor &axes = look.tensor(mean.inputs[1]);
  if (!axes.is_constant || axes.dtype != DType::I64 || axes.data.size != 8) return false;
  const std::int64_t axis = *static_cast<const std::int64_t *>(axes.data.data),
                     rank = static_cast<std::int64_t>(look.tensor(mean.inputs[0]).shape.size());
  return axis == -1 || axis == rank - 1;
}

// The tensor whose mean this one is.
std::int32_t mean_of(const Look &look, std::int32_t id) {
  const qir::Node *mean = look.made_by(id, Op::ReduceMean);
  return mean && over_last_axis(look, *mean) ? mean->inputs[0] : qir::kAbsent;
}

std::int32_t root_of_square(const Look &look, std::int32_t id) {
  if (const qir::Node *power = look.made_by(id, Op::Pow))
    return look.is_scalar(power->inputs[1], 2) ? power->inputs[0] : qir::kAbsent;
  const qir::Node *square = look.made_by(id, Op::Mul);
  return square && square->inputs[0] == square->inputs[1] ? square->inputs[0] : qir::kAbsent;
}

// Of mean(x * x) + epsilon, or of what x / sqrt(of that) is.
struct Spread {
  std::int32_t x = qir::kAbsent;
  float epsilon = 0;
};

// The tensor is mean(x * x) + epsilon.
std::optional<Spread> mean_square(const Look &look, std::int32_t id) {
  const qir::Node *sum = look.made_by(id, Op::Add);
  if (!sum) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    const auto epsilon = look.scalar(sum->inputs[side]);
    const std::int32_t x = epsilon ? root_of_square(look, mean_of(look, sum->inputs[1 - side])) : qir::kAbsent;
    if (x != qir::kAbsent) return Spread{x, *epsilon};
  }
  return std::nullopt;
}

// The tensor is sqrt(mean(x * x) + epsilon).
std::optional<Spread> deviation(const Look &look, std::int32_t id) {
  if (const qir::Node *root = look.made_by(id, Op::Sqrt)) return mean_square(look, root->inputs[0]);
  const qir::Node *power = look.made_by(id, Op::Pow);
  return power && look.is_scalar(power->inputs[1], 0.5) ? mean_square(look, power->inputs[0]) : std::nullopt;
}

// The tensor is 1 / sqrt(mean(x * x) + epsilon).
std::optional<Spread> inverse_deviation(const Look &look, std::int32_t id) {
  if (const qir::Node *inverse = look.made_by(id, Op::Reciprocal)) return deviation(look, inverse->inputs[0]);
  if (const qir::Node *power = look.made_by(id, Op::Pow))
    return look.is_scalar(power->inputs[1], -0.5) ? mean_square(look, power->inputs[0]) : std::nullopt;
  const qir::Node *one = look.made_by(id, Op::Div);
  return one && look.is_scalar(one->inputs[0], 1) ? deviation(look, one->inputs[1]) : std::nullopt;
}

bool same_difference(const Look &look, std::int32_t a, std::int32_t b) {
  if (a == b) return true;  // some exporters subtract twice
  const qir::Node *left = look.made_by(a, Op::Sub), *right = look.made_by(b, Op::Sub);
  return left && right && left->inputs == right->inputs;
}

// The tensor is x / sqrt(mean(x * x) + epsilon).
std::optional<Spread> normalized(const Look &look, std::int32_t id) {
  std::int32_t x = qir::kAbsent;
  std::optional<Spread> spread;
  if (const qir::Node *divided = look.made_by(id, Op::Div)) {
    x = divided->inputs[0];
    spread = deviation(look, divided->inputs[1]);
  } else if (const qir::Node *product = look.made_by(id, Op::Mul)) {
    for (std::size_t which = 0; which < 2 && !spread; ++which) {
      x = product->inputs[1 - which];
      spread = inverse_deviation(look, product->inputs[which]);
    }
  }
  if (!spread || !same_difference(look, x, spread->x)) return std::nullopt;
  return Spread{x, spread->epsilon};
}

// x where the tensor is x - mean(x).
std::int32_t centred(const Look &look, std::int32_t id) {
  const qir::Node *difference = look.made_by(id, Op::Sub);
  return difference && mean_of(look, difference->inputs[1]) == difference->inputs[0] ? difference->inputs[0]
                                                                                     : qir::kAbsent;
}

// The tensor is one f32 constant per element of the last axis: `id` itself, or the same with a shape of one dimension.
std::int32_t per_column(Look &look, std::int32_t id, std::int32_t like) {
  const qir::Shape &shape = look.tensor(like).shape, &own = look.tensor(id).shape;
  if (!look.plain_f32(id) || !look.tensor(id).is_constant || shape.empty() || own.empty() || own.size() > shape.size())
    return qir::kAbsent;
  const std::int64_t columns = shape.back();
  if (own.back() != columns || std::any_of(own.begin(), own.end() - 1, [](std::int64_t e) { return e != 1; }))
    return qir::kAbsent;
  if (own.size() == 1) return id;
  const String name = look.tensor(id).name;
  const qir::Bytes contents = look.tensor(id).data;
  return look.add(name, {columns}, contents);
}

Found normalization(Op op, Vector<std::int32_t> inputs, float epsilon) {
  Found made = found(op, std::move(inputs));
  made->set("axis", std::int64_t{-1});
  made->set("epsilon", epsilon);
  return made;
}

// x * k + (beta - mean(x) * k) with k = gamma / deviation: TensorFlow's way
Found layer_norm_by_factor(Look &look, const qir::Node &sum, std::size_t side) {
  const qir::Node *product = look.made_by(sum.inputs[side], Op::Mul),
                  *shift = look.made_by(sum.inputs[1 - side], Op::Sub);
  const qir::Node *moved = shift ? look.made_by(shift->inputs[1], Op::Mul) : nullptr;
  if (!product || !moved) return {};
  for (std::size_t which = 0; which < 2; ++which) {
    const std::int32_t x = product->inputs[which], k = product->inputs[1 - which];
    const qir::Node *factor = look.made_by(k, Op::Mul);
    if (!factor || mean_of(look, Look::beside(*moved, k)) != x) continue;
    for (std::size_t part = 0; part < 2; ++part) {
      const auto spread = inverse_deviation(look, factor->inputs[1 - part]);
      if (!spread || centred(look, spread->x) != x) continue;
      const std::int32_t gamma = per_column(look, factor->inputs[part], sum.outputs[0]),
                         beta = per_column(look, shift->inputs[0], sum.outputs[0]);
      if (gamma != qir::kAbsent && beta != qir::kAbsent)
        return normalization(Op::LayerNormalization, {x, gamma, beta}, spread->epsilon);
    }
  }
  return {};
}

}  // namespace

Found find_layer_norm_shifted(Look &look, const qir::Node &node) {
  if (node.op != Op::Add) return {};
  for (std::size_t side = 0; side < 2; ++side) {
    if (Found tensorflow = layer_norm_by_factor(look, node, side)) return tensorflow;
    const qir::Node *product = look.made_by(node.inputs[1 - side], Op::Mul);
    if (!product) continue;
    for (std::size_t which = 0; which < 2; ++which) {
      const auto normal = normalized(look, product->inputs[1 - which]);
      const std::int32_t x = normal ? centred(look, normal->x) : qir::kAbsent;
      if (x == qir::kAbsent) continue;
      const std::int32_t gamma = per_column(look, product->inputs[which], node.outputs[0]),
                         beta = per_column(look, node.inputs[side], node.outputs[0]);
      if (gamma != qir::kAbsent && beta != qir::kAbsent)
        return normalization(Op::LayerNormalization, {x, gamma, beta}, normal->epsilon);
    }
  }
  return {};
}

Found find_layer_norm_scaled(Look &look, const qir::Node &node) {
  if (node.op != Op::Mul) return {};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto normal = normalized(look, node.inputs[1 - side]);
    const std::int32_t x = normal ? centred(look, normal->x) : qir::kAbsent;
    if (x == qir::kAbsent) continue;
    if (const std::int32_t gamma = per_column(look, node.inputs[side], node.outputs[0]); gamma != qir::kAbsent)
      return normalization(Op::LayerNormalization, {x, gamma}, normal->epsilon);
  }
  return {};
}

Found find_layer_norm_plain(Look &look, const qir::Node &node) {
  const auto normal = normalized(look, node.outputs[0]);
  const std::int32_t x = normal ? centred(look, normal->x) : qir::kAbsent;
  if (x == qir::kAbsent || look.tensor(x).shape.empty() || look.tensor(x).shape.back() < 0) return {};
  return normalization(Op::LayerNormalization, {x, look.add_ones(node.name + "/ones", look.tensor(x).shape.back())},
                       normal->epsilon);
}

Found find_rms_norm_scaled(Look &look, const qir::Node &node) {
  if (node.op != Op::Mul) return {};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto normal = normalized(look, node.inputs[1 - side]);
    if (!normal) continue;
    if (const std::int32_t gamma = per_column(look, node.inputs[side], node.outputs[0]); gamma != qir::kAbsent)
      return normalization(Op::RMSNormalization, {normal->x, gamma}, normal->epsilon);
  }
  return {};
}

Found find_rms_norm_plain(Look &look, const qir::Node &node) {
  const auto normal = normalized(look, node.outputs[0]);
  if (!normal || look.tensor(normal->x).shape.empty() || look.tensor(normal->x).shape.back() < 0) return {};
  const std::int64_t columns = look.tensor(normal->x).shape.back();
  return normalization(Op::RMSNormalization, {normal->x, look.add_ones(node.name + "/ones", columns)}, normal->epsilon);
}

}  // namespace quarry::passes
