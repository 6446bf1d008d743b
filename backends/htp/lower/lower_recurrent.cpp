// SPDX-License-Identifier: Apache-2.0
// GRU by the library's own operation, which within a step keeps more digits than its parts written out. Of several
// steps the operation repeats the first: it is written once for each.
#include <cstring>

#include "backends/htp/lower/rules.h"

namespace quarry::htp {

bool is_library_gru(const qir::Graph &graph, const qir::Node &node) {
  if (node.op != qir::Op::GRU) return false;
  const std::string_view direction = node.get_string("direction", "forward");
  if (direction == "bidirectional" || node.get_int("layout", 0) != 0) return false;
  for (const char *const name : {"activations", "activation_alpha", "activation_beta", "clip"})
    if (node.find(name)) return false;
  if (qir::input_of(node, 4) != qir::kAbsent) return false;  // lengths
  for (const std::size_t i : {1u, 2u, 3u})
    if (const std::int32_t id = qir::input_of(node, i); id != qir::kAbsent && !qir::constant_floats(graph, id))
      return false;
  constexpr std::int64_t kMostSteps = 512;  // as of those that are written out
  const qir::Tensor &x = qir::at(graph, node.inputs[0]);
  return x.dtype == DType::F32 && x.shape.size() == 3 && x.shape[0] > 0 && x.shape[0] <= kMostSteps && x.shape[1] > 0 &&
         x.shape[2] > 0;
}

namespace rules {

Status gru(Lowering &l, const qir::Node &node) {
  if (!is_library_gru(l.graph(), node))
    return refuse(ErrorId::backend_limit,
                  "a GRU of more than 512 steps that is not the library's either: expected f32, "
                  "one direction, constant weights, the usual activations and no lengths");
  const qir::Shape &shape = l.tensor(node.inputs[0]).shape, &weights = l.tensor(node.inputs[1]).shape;
  const auto steps = static_cast<std::uint32_t>(shape[0]), batch = static_cast<std::uint32_t>(shape[1]),
             inputs = static_cast<std::uint32_t>(shape[2]), hidden = static_cast<std::uint32_t>(weights[1] / 3);
  const auto part = [&](std::size_t input, std::uint32_t which, Vector<std::uint32_t> dims, const char *name) {
    const float *const from = qir::constant_floats(l.graph(), node.inputs[input]);
    std::uint64_t count = 1;
    for (const std::uint32_t extent : dims) count *= extent;
    return l.constant(node.name + name, qnn::DataType::F32, std::move(dims), from + which * count,
                      count * sizeof(float));
  };
  Vector<std::int32_t> operands = {-1};
  for (std::uint32_t gate = 0; gate < 3; ++gate) operands.push_back(part(1, gate, {hidden, inputs}, ".input"));
  for (std::uint32_t gate = 0; gate < 3; ++gate) operands.push_back(part(2, gate, {hidden, hidden}, ".state"));
  const bool has_bias = qir::input_of(node, 3) != qir::kAbsent;
  const Vector<float> none(std::size_t{batch} * hidden, 0.0f);
  for (std::uint32_t i = 0; i < 6; ++i)
    operands.push_back(
        has_bias ? part(3, i, {hidden}, ".bias")
                 : l.constant(node.name + ".bias", qnn::DataType::F32, {hidden}, none.data(), hidden * sizeof(float)));
  const std::int32_t initial = qir::input_of(node, 5);
  operands.push_back(initial != qir::kAbsent
                         ? l.natural(initial)
                         : l.constant(node.name + ".initial", qnn::DataType::F32, {1, batch, hidden}, none.data(),
                                      none.size() * sizeof(float)));
  const bool wants_all = !node.outputs.empty() && node.outputs[0] != qir::kAbsent;
  const bool wants_last = node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent;
  const bool backwards = node.get_string("direction", "forward") == "reverse";
  const std::int32_t x = l.natural(node.inputs[0]);
  Vector<std::int32_t> given, made(steps);
  Vector<std::uint32_t> cuts;
  for (std::uint32_t t = 0; t < steps; ++t) {
    given.push_back(steps == 1 ? x : l.between(node.name + ".x", qnn::DataType::F32, {1, batch, inputs}));
    if (t > 0) cuts.push_back(t);
  }
  if (steps > 1) {
    DraftNode &split = l.node("Split", {x}, {});
    split.outputs = given;
    l.param(split, "axis", std::uint32_t{0});
    l.param(split, "split_index", cuts);
  }
  for (std::uint32_t i = 0; i < steps; ++i) {
    const std::uint32_t t = backwards ? steps - 1 - i : i;
    operands.front() = given[t];
    made[t] = l.between(node.name + ".y", qnn::DataType::F32, {1, batch, hidden});
    const std::int32_t state = i + 1 == steps && wants_last
                                   ? l.result(node.outputs[1])
                                   : l.between(node.name + ".h", qnn::DataType::F32, {1, batch, hidden});
    DraftNode &step = l.node("Gru", {}, {made[t], state});
    step.inputs = operands;
    l.param(step, "direction", std::uint32_t{0});
    l.param(step, "linear_before_reset", static_cast<std::uint32_t>(node.get_int("linear_before_reset", 0)));
    l.param(step, "time_major", true);
    operands.back() = state;
  }
  if (!wants_all) return {};
  std::int32_t all = made[0];
  if (steps > 1) {
    all = l.between(node.name + ".all", qnn::DataType::F32, {steps, batch, hidden});
    DraftNode &concat = l.node("Concat", {}, {all});
    concat.inputs = std::move(made);
    l.param(concat, "axis", std::uint32_t{0});
  }
  l.node("Reshape", {all}, {l.result(node.outputs[0])});
  return {};
}

}  // namespace rules
}  // namespace quarry::htp
