// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements, or move them, run by kernels on elements of their own type: float16 stays float16.
// And linear attention.
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

TEST_CASE("float16 is split as such") {
  for (const DType half : {DType::F16, DType::BF16}) {
    OneNode one(1);
    const i32 x = one.input(half, {4, 6, 10}), sizes = one.constant(DType::I64, {2}, 1);
    const std::int64_t each[] = {2, 4};
    std::memcpy(one.b.data[sizes].data(), each, sizeof each);
    const std::string steps = steps_of(one, Op::Split, {x, sizes}, {one.shaped(half, {}), one.shaped(half, {})}, 1);
    CHECK_EQ(steps, "Copy Copy");
  }
}

TEST_CASE("rows of float16 are replaced as such") {
  for (const DType half : {DType::F16, DType::BF16, DType::F32}) {
    OneNode one(2);
    const i32 x = one.input(half, {9, 4, 10}), at = one.constant(DType::I64, {3, 1}, 9),
              rows = one.input(half, {3, 4, 10});
    const std::int64_t each[] = {7, 0, 4};
    std::memcpy(one.b.data[at].data(), each, sizeof each);
    CHECK_EQ(steps_of(one, Op::ScatterND, {x, at, rows}, {one.shaped(half, {})}, -1), "ScatterRows");
  }
}

TEST_CASE("new entries of a cache are put as they lie") {
  for (const DType dtype : {DType::F16, DType::BF16, DType::F32, DType::U8, DType::I64}) {
    OneNode one(3);
    const i32 x = one.input(dtype, {2, 4, 9, 6}), fresh = one.input(dtype, {2, 4, 3, 6}),
              at = one.constant(DType::I64, {2}, 1);
    const std::int64_t each[] = {6, 2};
    std::memcpy(one.b.data[at].data(), each, sizeof each);
    CHECK_EQ(steps_of(one, Op::TensorScatter, {x, fresh, at}, {one.shaped(dtype, {})}, -2), "Copy TensorScatter");
  }
}

TEST_CASE("pairs of float16 are turned as such") {
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

TEST_CASE("elements of float16 are picked as such") {
  for (const DType half : {DType::F16, DType::BF16}) {
    OneNode one(3);
    const i32 x = one.input(half, {5, 7}), at = one.constant(DType::I64, {5, 3}, 7);
    CHECK_EQ(steps_of(one, Op::GatherElements, {x, at}, {one.shaped(half, {})}, 1), "GatherElements");
  }
}

TEST_CASE("what is scattered into numbers is combined by kernels") {
  for (const DType dtype : {DType::F32, DType::F64, DType::I32, DType::U8, DType::I64})
    for (const char *reduction : {"add", "mul", "min", "max"}) {
      OneNode one(5);
      const i32 x = one.input(dtype, {9, 4, 10}), at = one.constant(DType::I64, {5, 2}, 9),
                rows = one.input(dtype, {5, 10});
      const std::int64_t each[] = {7, 0, -9, 3, 4, -1, 4, 3, 8, 2};
      std::memcpy(one.b.data[at].data(), each, sizeof each);
      qir::Node &node = one.b.node(Op::ScatterND, {x, at, rows}, {one.shaped(dtype, {})});
      node.set("reduction", reduction);
      one.b.graph.outputs = {node.outputs[0]};
      REQUIRE_OK(qir::infer_graph(one.b.graph));
      const PlanCase sample(one.b.graph);
      REQUIRE_EQ(sample.ok(), true);
      CHECK_EQ(sample.steps(), "ScatterInto");
      same_results(sample, reduction, one.random, 0);
    }
}

TEST_CASE("scattered elements have a kernel, with and without a reduction") {
  for (const DType dtype : {DType::F16, DType::F32, DType::I8, DType::I64, DType::Bool})
    for (const std::int64_t axis : {0, 1, 2}) {
      OneNode one(6);
      const i32 x = one.input(dtype, {3, 3, 3}), at = one.constant(DType::I64, {3, 3, 3}, 3),
                updates = one.input(dtype, {3, 3, 3});
      for (std::size_t i = 0; i < 27; ++i) {
        const std::int64_t index = static_cast<std::int64_t>(i * 7 % 5) - 2;
        std::memcpy(one.b.data[at].data() + 8 * i, &index, 8);
      }
      CHECK_EQ(steps_of(one, Op::ScatterElements, {x, at, updates}, {one.shaped(dtype, {})}, axis), "ScatterElements");
    }
}

TEST_CASE("places of the greatest have kernels along any axis and for all numbers") {
  for (const DType dtype : {DType::F32, DType::F64, DType::I8, DType::U16, DType::I32, DType::U64})
    for (const std::int64_t axis : {0, 1, 2}) {
      OneNode one(7);
      const i32 x = one.input(dtype, {5, 7, 19});
      CHECK_EQ(steps_of(one, axis == 1 ? Op::ArgMin : Op::ArgMax, {x}, {one.shaped(DType::I64, {})}, axis),
               dtype == DType::F32 && axis == 2 ? "ArgExtremeF32" : "ArgExtreme");
    }
}

TEST_CASE("linear attention has a kernel, whatever its rule") {
  constexpr const char *kRules[] = {"linear", "gated", "delta", "gated_delta"};
  for (int rule = 0; rule < 4; ++rule)
    for (const bool narrow : {false, true}) {
      OneNode one(8);
      Vector<i32> inputs{one.input(DType::F32, {2, 5, 24}), one.input(DType::F32, {2, 5, 12}),
                         one.input(DType::F32, {2, 5, 38}), one.input(DType::F32, {2, 2, 6, 19})};
      inputs.push_back(rule & 1 ? one.input(DType::F32, {2, 5, narrow ? 2 : 12}) : qir::kAbsent);
      inputs.push_back(rule & 2 ? one.input(DType::F32, {2, 5, narrow ? 1 : 2}) : qir::kAbsent);
      const i32 y = one.shaped(DType::F32, {}), present = one.shaped(DType::F32, {});
      qir::Node &node = one.b.node(Op::LinearAttention, inputs, {y, present});
      node.set("q_num_heads", std::int64_t{4}), node.set("kv_num_heads", std::int64_t{2});
      node.set("update_rule", kRules[rule]);
      one.b.graph.outputs = {y, present};
      REQUIRE_OK(qir::infer_graph(one.b.graph));
      const PlanCase sample(one.b.graph);
      REQUIRE_EQ(sample.ok(), true);
      CHECK_EQ(sample.steps(), "LinearAttentionF32");
      same_results(sample, kRules[rule], one.random, 1e-3f);
    }
}

// Six heads of queries in three groups. With a past, what is new stands behind it; one query sees all there is.
TEST_CASE("attention has a kernel for heads in groups, windows and a past") {
  for (int form = 0; form < 8; ++form) {
    const std::int64_t length = form & 1 ? 4 : 1;
    const bool past = form & 2, limited = form & 4;
    OneNode one(9);
    Vector<i32> inputs{one.input(DType::F32, {2, length, 6 * 8}), one.input(DType::F32, {2, length, 3 * 8}),
                       one.input(DType::F32, {2, length, 3 * 10})};
    Vector<i32> outputs{one.shaped(DType::F32, {})};
    if (past) {
      inputs.push_back(qir::kAbsent);
      inputs.push_back(one.input(DType::F32, {2, 3, 7, 8})), inputs.push_back(one.input(DType::F32, {2, 3, 7, 10}));
      for (int i = 0; i < 2; ++i) outputs.push_back(one.shaped(DType::F32, {}));
    }
    qir::Node &node = one.b.node(Op::Attention, inputs, outputs);
    node.set("q_num_heads", std::int64_t{6}), node.set("kv_num_heads", std::int64_t{3});
    if (limited) node.set("is_causal", std::int64_t{1}), node.set("left_window_size", std::int64_t{2});
    one.b.graph.outputs = outputs;
    REQUIRE_OK(qir::infer_graph(one.b.graph));
    const PlanCase sample(one.b.graph);
    REQUIRE_EQ(sample.ok(), true);
    CHECK(sample.steps().find("AttentionF32") != std::string::npos);
    CHECK(sample.steps().find("Softmax") == std::string::npos);
    same_results(sample, past ? "a past" : "no past", one.random, 1e-5f);
  }
}
