// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements, or move them, run by kernels on elements of their own type: halves stay halves.
#include "tests/unit/cpu/one_node.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;

namespace {

// The steps of a node, whose results are compared too.
std::string steps_of(OneNode &one, Op op, const Vector<i32> &inputs, const Vector<i32> &made, std::int64_t axis) {
  qir::Node &node = one.b.node(op, inputs, made);
  if (axis >= 0) node.set("axis", axis);
  one.b.graph.outputs.assign(made.begin(), made.end());
  if (!qir::infer_graph(one.b.graph).ok()) return "not inferred";
  const PlanCase sample(one.b.graph);
  if (!sample.ok()) return "not planned";
  same_results(sample, "chosen", one.random, 0);
  return sample.steps();
}

}  // namespace

TEST_CASE("halves are split as such") {
  for (const DType half : {DType::F16, DType::BF16}) {
    OneNode one(1);
    const i32 x = one.input(half, {4, 6, 10}), sizes = one.constant(DType::I64, {2}, 1);
    const std::int64_t each[] = {2, 4};
    std::memcpy(one.b.data[sizes].data(), each, sizeof each);
    const std::string steps = steps_of(one, Op::Split, {x, sizes}, {one.shaped(half, {}), one.shaped(half, {})}, 1);
    CHECK_EQ(steps, "Copy Copy");
  }
}

TEST_CASE("rows of halves are replaced as such") {
  for (const DType half : {DType::F16, DType::BF16, DType::F32}) {
    OneNode one(2);
    const i32 x = one.input(half, {9, 4, 10}), at = one.constant(DType::I64, {3, 1}, 9),
              rows = one.input(half, {3, 4, 10});
    const std::int64_t each[] = {7, 0, 4};
    std::memcpy(one.b.data[at].data(), each, sizeof each);
    CHECK_EQ(steps_of(one, Op::ScatterND, {x, at, rows}, {one.shaped(half, {})}, -1), "ScatterRows");
  }
}

TEST_CASE("pairs of halves are turned as such") {
  for (const DType half : {DType::F16, DType::BF16}) {
    OneNode one(4);
    const i32 x = one.input(half, {2, 3, 20, 10}), cosines = one.constant(half, {2, 20, 5}),
              sines = one.constant(half, {2, 20, 5}), y = one.shaped(half, {});
    one.b.node(Op::RotaryEmbedding, {x, cosines, sines}, {y});
    one.b.graph.outputs = {y};
    REQUIRE_OK(qir::infer_graph(one.b.graph));
    const PlanCase sample(one.b.graph);
    REQUIRE_EQ(sample.ok(), true);
    CHECK_EQ(sample.steps(), "RotaryF32");
    if (half == DType::F16) same_results(sample, "turned", one.random, 2e-3f);
  }
}

TEST_CASE("elements of halves are picked as such") {
  for (const DType half : {DType::F16, DType::BF16}) {
    OneNode one(3);
    const i32 x = one.input(half, {5, 7}), at = one.constant(DType::I64, {5, 3}, 7);
    CHECK_EQ(steps_of(one, Op::GatherElements, {x, at}, {one.shaped(half, {})}, 1), "GatherElements");
  }
}
