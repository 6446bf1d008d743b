// SPDX-License-Identifier: Apache-2.0
// GRU by the library's own operation, which within a step keeps more digits than its parts unrolled. Of several
// steps the operation repeats the first, and it has one direction: it is written once for each.
#include <cstring>

#include "backends/htp/lower/rules.h"
#include "passes/decompose/recurrent.h"

namespace quarry::htp {

bool is_library_gru(const qir::Graph &graph, const qir::Node &node) {
  if (node.op != qir::Op::GRU || node.get_int("layout", 0) != 0) return false;
  if (node.get_float("clip", 0) != 0) return false;
  const std::int64_t directions = node.get_string("direction", "forward") == "bidirectional" ? 2 : 1;
  Vector<passes::CellFunction> functions;
  if (!passes::read_cell_functions(node, directions, &functions)) return false;
  for (std::size_t i = 0; i < functions.size(); ++i)
    if (std::string_view(functions[i].name) != (i % 2 == 0 ? "Sigmoid" : "Tanh")) return false;
  if (node.inputs[4] != qir::kAbsent) return false;  // lengths
  for (const std::size_t i : {1u, 2u, 3u})
    if (const std::int32_t id = node.inputs[i]; id != qir::kAbsent && !qir::constant_floats(graph, id)) return false;
  constexpr std::int64_t kMostSteps = 512;  // as of those that are unrolled
  const qir::Tensor &x = qir::at(graph, node.inputs[0]);
  return x.dtype == DType::F32 && x.shape.size() == 3 && x.shape[0] > 0 && x.shape[0] <= kMostSteps && x.shape[1] > 0 &&
         x.shape[2] > 0;
}

namespace rules {

namespace {

class Gru {
 public:
  Gru(Lowering &l, const qir::Node &node) : l_(l), node_(node) {
    const qir::Shape &shape = l.tensor(node.inputs[0]).shape, &weights = l.tensor(node.inputs[1]).shape;
    steps_ = static_cast<std::uint32_t>(shape[0]), batch_ = static_cast<std::uint32_t>(shape[1]),
    inputs_ = static_cast<std::uint32_t>(shape[2]), hidden_ = static_cast<std::uint32_t>(weights[1] / 3),
    directions_ = static_cast<std::uint32_t>(weights[0]);
    zeros_.assign(std::size_t{batch_} * hidden_, 0.0f);
  }

  void run() {
    given_ = cut(l_.natural(node_.inputs[0]), steps_, {1, batch_, inputs_}, ".x");
    Vector<std::int32_t> first(directions_, -1);
    if (const std::int32_t initial = node_.inputs[5]; initial != qir::kAbsent)
      first = cut(l_.natural(initial), directions_, {1, batch_, hidden_}, ".first");
    const bool both = directions_ == 2;
    Vector<std::int32_t> alls, lasts;
    for (std::uint32_t d = 0; d < directions_; ++d)
      direction(d, both ? d == 1 : node_.get_string("direction", "forward") == "reverse", first[d], alls, lasts);
    give(0, alls, 1, {steps_, 1, batch_, hidden_});
    give(1, lasts, 0, {1, batch_, hidden_});
  }

 private:
  bool wants(std::size_t output) const {
    return node_.outputs.size() > output && node_.outputs[output] != qir::kAbsent;
  }
  // Slices of one along the first axis.
  Vector<std::int32_t> cut(std::int32_t from, std::uint32_t count, const Vector<std::uint32_t> &dims,
                           const char *name) {
    if (count == 1) return {from};
    Vector<std::int32_t> made;
    Vector<std::uint32_t> cuts;
    for (std::uint32_t i = 0; i < count; ++i) {
      made.push_back(l_.between(node_.name + name, qnn::DataType::F32, dims));
      if (i > 0) cuts.push_back(i);
    }
    DraftNode &split = l_.node("Split", {from}, {});
    split.outputs = made;
    l_.param(split, "axis", std::uint32_t{0});
    l_.param(split, "split_index", cuts);
    return made;
  }
  std::int32_t joined(const Vector<std::int32_t> &parts, std::uint32_t axis, Vector<std::uint32_t> dims) {
    if (parts.size() == 1) return parts[0];
    const std::int32_t made = l_.between(node_.name + ".all", qnn::DataType::F32, std::move(dims));
    DraftNode &concat = l_.node("Concat", {}, {made});
    concat.inputs = parts;
    l_.param(concat, "axis", axis);
    return made;
  }
  // `dims`: of one direction in the result.
  void give(std::size_t output, Vector<std::int32_t> directions, std::uint32_t axis,
            const Vector<std::uint32_t> &dims) {
    if (!wants(output)) return;
    const std::int32_t to = l_.result(node_.outputs[output]);
    if (directions.size() == 1) {
      l_.node("Reshape", {directions[0]}, {to});
      return;
    }
    for (std::int32_t &one : directions) one = l_.reshaped(one, dims);
    DraftNode &concat = l_.node("Concat", {}, {to});
    concat.inputs = directions;
    l_.param(concat, "axis", axis);
  }
  std::int32_t part(std::size_t input, std::uint32_t which, Vector<std::uint32_t> dims, const char *name) {
    const float *const from = qir::constant_floats(l_.graph(), node_.inputs[input]);
    std::uint64_t count = 1;
    for (const std::uint32_t extent : dims) count *= extent;
    return l_.constant(node_.name + name, qnn::DataType::F32, std::move(dims), from + which * count,
                       count * sizeof(float));
  }
  void direction(std::uint32_t d, bool backwards, std::int32_t first, Vector<std::int32_t> &alls,
                 Vector<std::int32_t> &lasts) {
    Vector<std::int32_t> operands = {-1};
    for (std::uint32_t gate = 0; gate < 3; ++gate)
      operands.push_back(part(1, 3 * d + gate, {hidden_, inputs_}, ".input"));
    for (std::uint32_t gate = 0; gate < 3; ++gate)
      operands.push_back(part(2, 3 * d + gate, {hidden_, hidden_}, ".state"));
    const bool has_bias = node_.inputs[3] != qir::kAbsent;
    for (std::uint32_t i = 0; i < 6; ++i)
      operands.push_back(has_bias ? part(3, 6 * d + i, {hidden_}, ".bias")
                                  : l_.constant(node_.name + ".bias", qnn::DataType::F32, {hidden_}, zeros_.data(),
                                                hidden_ * sizeof(float)));
    operands.push_back(first >= 0 ? first
                                  : l_.constant(node_.name + ".initial", qnn::DataType::F32, {1, batch_, hidden_},
                                                zeros_.data(), zeros_.size() * sizeof(float)));
    Vector<std::int32_t> made(steps_);
    for (std::uint32_t i = 0; i < steps_; ++i) {
      const std::uint32_t t = backwards ? steps_ - 1 - i : i;
      operands.front() = given_[t];
      made[t] = l_.between(node_.name + ".y", qnn::DataType::F32, {1, batch_, hidden_});
      const std::int32_t state = l_.between(node_.name + ".h", qnn::DataType::F32, {1, batch_, hidden_});
      DraftNode &step = l_.node("Gru", {}, {made[t], state});
      step.inputs = operands;
      l_.param(step, "direction", std::uint32_t{0});
      l_.param(step, "linear_before_reset", static_cast<std::uint32_t>(node_.get_int("linear_before_reset", 0)));
      l_.param(step, "time_major", true);
      operands.back() = state;
    }
    lasts.push_back(operands.back());
    if (wants(0)) alls.push_back(joined(made, 0, {steps_, batch_, hidden_}));
  }

  Lowering &l_;
  const qir::Node &node_;
  std::uint32_t steps_ = 0, batch_ = 0, inputs_ = 0, hidden_ = 0, directions_ = 0;
  Vector<float> zeros_;
  Vector<std::int32_t> given_;  // per step
};

}  // namespace

Status gru(Lowering &l, const qir::Node &node) {
  if (!is_library_gru(l.graph(), node))
    return refuse(ErrorId::backend_limit,
                  "a GRU of more than 512 steps that is not the library's either: expected f32, "
                  "constant weights, the usual activations and no lengths");
  Gru(l, node).run();
  return {};
}

}  // namespace rules
}  // namespace quarry::htp
