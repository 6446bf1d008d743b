// SPDX-License-Identifier: Apache-2.0
// Einsum as a product, constants, nodes that do nothing.
#include "backends/cpu-reference/folder.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

TEST_CASE("einsum as a product of matrices") {
  struct Case {
    const char *equation;
    qir::Shape a, b;
    bool product;
  };
  const Case cases[] = {
      {"bhid,bhjd->bhij", {2, 3, 5, 4}, {2, 3, 6, 4}, true},
      {"b h i j, b h j d -> b h i d", {2, 3, 5, 6}, {2, 3, 6, 4}, true},
      {"ij,jk", {3, 4}, {4, 5}, true},
      {"bnqd,bknd->bkqn", {2, 3, 4, 5}, {2, 6, 3, 5}, true},  // batches out of order, the result moved
      {"abcd,cde->eab", {2, 3, 4, 5}, {4, 5, 6}, true},       // several rows, several summed
      {"...ij,...jk->...ik", {7, 1, 2, 3}, {4, 3, 5}, true},  // batches stretched
      {"i,j->ji", {3}, {4}, true},                            // nothing summed
      {"abc,cd->abd", {2, 0, 3}, {3, 4}, true},               // no elements: a dimension of 0 is no "as it was"
      {"ab,ab->", {3, 4}, {3, 4}, true},                      // all summed
      {"ii,ij->j", {3, 3}, {3, 4}, false},                    // a diagonal
      {"aij,jk->ik", {2, 3, 4}, {4, 5}, false},               // summed before there is a product
      {"...i,...j->ij", {1, 3}, {2, 4}, false},               // stretched and summed
  };
  for (const Case &c : cases) {
    CAPTURE(c.equation);
    Pieces p;
    const i32 a = p.input(c.a), b = p.input(c.b);
    p.gives({p.node(Op::Einsum, {a, b}, {Pieces::attribute("equation", std::string_view(c.equation))})});
    const std::vector<double> expected = run(p.graph);
    REQUIRE_OK(passes::einsum_to_matmul(p.graph, p.store));
    CHECK_EQ(count(p.graph, Op::Einsum), c.product ? 0u : 1u);
    CHECK_EQ(count(p.graph, Op::MatMul), c.product ? 1u : 0u);
    CHECK(difference(run(p.graph), expected) < 1e-6);
    for (const qir::Node &node : p.graph.nodes) CHECK_EQ(node.source, 0);
  }
}

TEST_CASE("constants are computed where somebody wants it") {
  reference::ReferenceFolder folder;
  const auto left = [&](const passes::FoldLimits &limits) {
    Pieces p;
    const i32 sum = p.add(p.scalar(1), p.scalar(2)),
              cast = p.node(Op::Cast, {sum}, {Pieces::attribute("to", std::int64_t{1})});
    p.gives({p.mul(p.input({2}), cast)});
    passes::fold_constants(p.graph, p.store, folder, limits);
    CHECK_EQ(run(p.graph).size(), 2u);
    return ops(p.graph);
  };
  CHECK_EQ(left({}), "Mul");
  CHECK_EQ(left({.wanted = [](Op op) { return op == Op::Add; }}), "Cast Mul");

  const auto grown = [&](bool may_grow) {
    Pieces p;
    p.gives({p.add(p.input({1}), p.node(Op::Expand, {p.scalar(1), p.integers({1 << 19})}))});
    passes::fold_constants(p.graph, p.store, folder, {.may_grow = may_grow});
    return ops(p.graph);
  };
  CHECK_EQ(grown(false), "Expand Add");
  CHECK_EQ(grown(true), "Add");
}

TEST_CASE("outputs, quantised results and random numbers are computed where that is asked for") {
  reference::ReferenceFolder folder;
  const auto write = [](Pieces &p) {
    const i32 x = p.input({2}), sum = p.add(p.scalar(1), p.scalar(2));
    const i32 stored =
        p.quantized(p.node(Op::QuantizeLinear, {sum, p.scalar(0.5f), p.constant<std::uint8_t>(DType::U8, {}, {10})}),
                    DType::U8, {0.5f}, {10});
    const i32 random = p.node(Op::RandomUniform, {}, {Pieces::attribute("shape", Ints{2})});
    p.gives({p.mul(x, random), sum, stored});
  };
  Pieces p, all;
  write(p), write(all);
  const std::vector<double> expected = run(p.graph);
  passes::fold_constants(p.graph, p.store, folder);
  CHECK_EQ(ops(p.graph), "Add QuantizeLinear RandomUniform Mul");
  passes::fold_constants(all.graph, all.store, folder, {.outputs = true, .random = true});
  CHECK_EQ(ops(all.graph), "Mul");
  CHECK_EQ(run(all.graph), expected);
  const qir::Tensor &sum = all.at(all.graph.outputs[1]), &stored = all.at(all.graph.outputs[2]);
  REQUIRE(sum.is_constant);
  REQUIRE(stored.is_constant);
  CHECK(stored.quant.has_value());
  CHECK_EQ(*static_cast<const float *>(sum.data.data), 3.0f);
  CHECK_EQ(*static_cast<const std::uint8_t *>(stored.data.data), 16);
}

TEST_CASE("constants that are computed are of a stated size in all") {
  reference::ReferenceFolder folder;
  Pieces p;
  i32 x = p.input({1 << 20});
  for (int i = 0; i < 24; ++i)  // 4 MB each
    x = p.add(x, p.node(Op::Expand, {p.scalar(1), p.integers({1 << 20})}));
  p.gives({x});
  passes::fold_constants(p.graph, p.store, folder, {.may_grow = true});
  CHECK_EQ(count(p.graph, Op::Expand), 24u - qir::Folder::kAllowed / (std::uint64_t{4} << 20));
  CHECK_EQ(count(p.graph, Op::Add), 24u);
}

TEST_CASE("nodes that do nothing go") {
  Pieces p;
  const i32 x = p.input({2, 3});
  const i32 same = p.transpose(p.node(Op::Reshape, {x, p.integers({2, 3})}), {0, 1});
  p.of(Op::Exp, same);  // nobody reads it
  p.gives({p.of(Op::Neg, same)});
  passes::remove_no_ops(p.graph);
  passes::remove_unused(p.graph);
  CHECK_EQ(ops(p.graph), "Neg");
  CHECK_OK(qir::validate_graph(p.graph));
}

TEST_CASE("nodes that do something stay") {
  Pieces p;
  const i32 x = p.input({2, 2});
  const i32 flat = p.node(Op::Reshape, {p.transpose(x, {1, 0}), p.integers({4})});
  const i32 backwards =
      p.node(Op::Slice, {flat, p.integers({-1}), p.integers({INT64_MIN + 1}), p.integers({0}), p.integers({-1})});
  p.gives({p.node(Op::Max, {backwards, p.column(4)})});
  const std::vector<double> expected = run(p.graph);
  passes::remove_no_ops(p.graph);
  CHECK_EQ(ops(p.graph), "Transpose Reshape Slice Max");
  CHECK_EQ(difference(run(p.graph), expected), 0);
  // An output is no input: somebody has to copy.
  Pieces copy;
  copy.gives({copy.of(Op::Identity, copy.input({2}))});
  passes::remove_no_ops(copy.graph);
  CHECK_EQ(ops(copy.graph), "Identity");
}

TEST_CASE("variances are taken around the mean") {
  for (const std::int64_t keeps : {0, 1}) {
    for (const bool as_power : {false, true}) {
      CAPTURE(as_power);
      Pieces p;
      const i32 x = p.input({2, 5, 3});
      const auto mean = [&](i32 id) {
        const i32 sum = p.node(Op::ReduceSum, {id, p.integers({1})}, {Pieces::attribute("keepdims", keeps)});
        return as_power ? p.div(sum, 5.0) : p.mul(sum, 0.2);
      };
      const auto square = [&](i32 id) { return as_power ? p.pow(id, 2) : p.mul(id, id); };
      p.gives({p.sub(mean(square(x)), square(mean(x)))});
      const std::vector<double> expected = run(p.graph);
      passes::steady_variances(p.graph, p.store);
      CHECK_EQ(ops(p.graph), "ReduceMean Sub Mul ReduceMean");
      CHECK(difference(run(p.graph), expected) < 1e-5);
    }
  }
  // Another number of terms, another tensor.
  Pieces p;
  const i32 x = p.input({2, 5}), y = p.input({2, 5});
  p.gives({p.sub(p.mean(p.mul(x, x)), p.pow(p.mean(y), 2)), p.mul(p.node(Op::ReduceSum, {x, p.integers({1})}), 0.25)});
  passes::steady_variances(p.graph, p.store);
  CHECK_EQ(count(p.graph, Op::ReduceMean), 2u);
  CHECK_EQ(count(p.graph, Op::ReduceSum), 1u);
}

// Operators of one input stand here for all that have no weight at input 1: the pass must look at the operator first.
TEST_CASE("a normalisation behind what has no weight stays") {
  for (const Op op : {Op::Relu, Op::Identity, Op::Sigmoid, Op::GlobalAveragePool, Op::Softmax}) {
    CAPTURE(qir::op_name(op));
    Pieces p;
    const i32 made = p.of(op, p.input({1, 4, 3, 3}));
    p.gives({p.node(Op::BatchNormalization, {made, p.column(4), p.column(4), p.column(4), p.column(4)})});
    const std::vector<double> expected = run(p.graph);
    passes::fold_batch_normalization(p.graph, p.store);
    CHECK_EQ(count(p.graph, Op::BatchNormalization), 1u);
    CHECK(difference(run(p.graph), expected) == 0);
  }
  Pieces p;  // of two inputs, the second one a constant as a weight is
  const i32 sum = p.add(p.input({1, 4, 3, 3}), p.column(4, {1, 4, 1, 1}));
  p.gives({p.node(Op::BatchNormalization, {sum, p.column(4), p.column(4), p.column(4), p.column(4)})});
  passes::fold_batch_normalization(p.graph, p.store);
  CHECK_EQ(ops(p.graph), "Add BatchNormalization");
}
