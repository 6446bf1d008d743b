// SPDX-License-Identifier: Apache-2.0
// Graphs of one operator, planned and run, against cpu-reference.
#pragma once

#include "backends/cpu/lower/rules.h"
#include "tests/unit/cpu/plan_case.h"

namespace quarry::test {

// Whether a rule is tried for the operator of this type: then no step is the reference's.
inline bool by_rule(qir::Op op, DType dtype) {
  const DType seen = dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype;
  for (const cpu::RuleId id : cpu::rules_for(op, false))
    if (id != cpu::RuleId::None && cpu::takes_type(id, op, seen)) return true;
  return false;
}

// A graph of one node whose output's type is inferred.
struct OneNode {
  Builder b;
  Random random;
  explicit OneNode(std::uint64_t seed) : random(seed) {}

  std::int32_t shaped(DType dtype, const Vector<std::int64_t> &shape) {
    const std::int32_t made = b.tensor(dtype, {});
    b.graph.tensors[static_cast<std::size_t>(made)].shape = shape;
    return made;
  }
  std::int32_t input(DType dtype, const Vector<std::int64_t> &shape) {
    return b.graph.inputs.emplace_back(shaped(dtype, shape));
  }
  std::int32_t constant(DType dtype, const Vector<std::int64_t> &shape, std::int64_t indices = 1) {
    const std::int32_t made = shaped(dtype, shape);
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    auto &bytes = b.data[made];
    bytes = random_data(random, dtype, count, indices);
    qir::Tensor &tensor = b.graph.tensors[static_cast<std::size_t>(made)];
    tensor.is_constant = true, tensor.data = {bytes.data(), bytes.size()};
    return made;
  }
  // One of the two: weights that are known when a graph is compiled, or only in the run.
  std::int32_t either(DType dtype, const Vector<std::int64_t> &shape) {
    return random.chance(50) ? constant(dtype, shape) : input(dtype, shape);
  }
  std::int32_t integers(const Vector<std::int64_t> &shape, const std::vector<double> &values) {
    const std::int32_t made = constant(DType::I64, shape);
    const Vector<std::int64_t> stored(values.begin(), values.end());
    std::memcpy(b.data[made].data(), stored.data(), stored.size() * sizeof(std::int64_t));
    return made;
  }
  // The node's outputs have the types given; their shapes are inferred. No step may be the reference's.
  template <class Set>
  void check(const std::string &what, qir::Op op, Vector<std::int32_t> inputs, Vector<DType> outputs, float tolerance,
             Set &&set, bool natively = true) {
    Vector<std::int32_t> made;
    for (const DType dtype : outputs) made.push_back(shaped(dtype, {}));
    qir::Node &node = b.node(op, std::move(inputs), made);
    set(node);
    b.graph.outputs.assign(made.begin(), made.end());
    Status status = qir::infer_graph(b.graph);
    CHECK(status.ok());
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", what.c_str(), std::string(status.message()).c_str());
      return;
    }
    const PlanCase sample(b.graph);
    CHECK(sample.ok());
    if (!sample.ok()) return;
    if (natively && sample.reference_steps() != 0) {
      std::fprintf(stderr, "%s: %s\n", what.c_str(), sample.steps().c_str());
      CHECK_EQ(sample.reference_steps(), 0);
    }
    same_results(sample, what, random, tolerance);
  }
};

}  // namespace quarry::test
