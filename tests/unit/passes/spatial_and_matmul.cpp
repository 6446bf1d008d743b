// SPDX-License-Identifier: Apache-2.0
// Operators along more axes, or of more operands, than kernels take: what cpu-reference gives before and after.
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

qir::Attribute ints(const char *name, Ints values) { return Pieces::attribute(name, std::move(values)); }
qir::Attribute text(const char *name, std::string_view value) { return Pieces::attribute(name, value); }

// The same numbers; where the operator stays at all it has at most `rank` axes.
void compare(Pieces &p, Op op, std::size_t rank, double tolerance = 1e-5) {
  const std::vector<double> expected = run(p.graph);
  passes::decompose_spatial(p.graph, p.store);
  passes::decompose_matmul(p.graph, p.store);
  REQUIRE_OK(qir::validate_graph(p.graph));
  CHECK(difference(run(p.graph), expected) <= tolerance);
  for (const qir::Node &node : p.graph.nodes) {
    CHECK_EQ(node.source, 0);
    if (node.op == op) CHECK(p.at(node.inputs[0]).shape.size() <= rank);
  }
}

}  // namespace

TEST_CASE("pools of boxes are pools of rectangles and of lines") {
  for (const Op op : {Op::MaxPool, Op::AveragePool})
    for (const std::int64_t counted : {0, 1})
      for (const std::int64_t ceil : {0, 1}) {
        Pieces p;
        Vector<qir::Attribute> how{ints("kernel_shape", {3, 2, 3}), ints("strides", {2, 1, 2}),
                                   ints("pads", {1, 0, 1, 1, 1, 0}), number("ceil_mode", ceil)};
        if (op == Op::AveragePool) how.push_back(number("count_include_pad", counted));
        else how.push_back(ints("dilations", {1, 2, 1}));
        p.gives({p.node(op, {p.input({2, 3, 6, 5, 7})}, how)});
        compare(p, op, 4);
      }
}

TEST_CASE("other axes than those of images are resized as images") {
  const std::vector<float> scales[] = {{1, 1, 2.5f}, {1, 2, 1.5f, 1}, {1, 1, 2, 0.5f, 1.5f}};
  const qir::Shape shapes[] = {{2, 3, 5}, {2, 4, 5, 3}, {1, 2, 3, 6, 4}};
  for (std::size_t i = 0; i < 3; ++i) {
    for (const bool sizes : {false, true}) {
      Pieces p;
      const i32 x = p.input(shapes[i]);
      Vector<i32> inputs{x, qir::kAbsent};
      if (sizes) {
        std::vector<std::int64_t> to;
        for (std::size_t d = 0; d < scales[i].size(); ++d)
          to.push_back(static_cast<std::int64_t>(static_cast<float>(shapes[i][d]) * scales[i][d]));
        inputs.push_back(qir::kAbsent);
        inputs.push_back(p.integers(to));
      } else {
        inputs.push_back(p.constant(DType::F32, {static_cast<std::int64_t>(scales[i].size())}, scales[i]));
      }
      p.gives({p.node(Op::Resize, inputs, {text("mode", "linear")})});
      compare(p, Op::Resize, 4);
      CHECK(count(p.graph, Op::Resize) == (i == 2 ? 2u : 1u));
      for (const qir::Node &node : p.graph.nodes)
        if (node.op == Op::Resize) CHECK_EQ(p.at(node.inputs[0]).shape[1], p.at(node.outputs[0]).shape[1]);
    }
  }
}

TEST_CASE("transposed convolutions of three axes") {
  struct Case {
    std::int64_t depth, stride, before, behind, more, group;
  };
  for (const Case &c : {Case{2, 2, 0, 0, 0, 1}, Case{3, 2, 1, 1, 1, 1}, Case{5, 3, 2, 1, 0, 2}, Case{1, 3, 0, 0, 2, 1},
                        Case{3, 1, 1, 0, 0, 3}}) {
    Pieces p;
    const std::int64_t in = 6, out = 2;
    const i32 x = p.input({2, in, 4, 3, 5}), w = p.column(in * out * c.depth * 3 * 2, {in, out, c.depth, 3, 2}),
              b = p.column(out * c.group);
    p.gives({p.node(Op::ConvTranspose, {x, w, b},
                    {ints("strides", {c.stride, 2, 1}), ints("pads", {c.before, 1, 0, c.behind, 1, 0}),
                     ints("output_padding", {c.more, 1, 0}), number("group", c.group)})});
    compare(p, Op::ConvTranspose, 4, 1e-4);
  }
}

TEST_CASE("convolutions by weights of the run") {
  for (const std::int64_t stride : {1, 2}) {
    Pieces p;
    p.gives({p.node(Op::Conv, {p.input({2, 3, 7, 6}), p.input({4, 3, 3, 2}), p.input({4})},
                    {ints("strides", {stride, 1}), ints("pads", {1, 0, 2, 1}), ints("dilations", {1, 2})})});
    compare(p, Op::Conv, 0, 1e-4);
    CHECK_EQ(count(p.graph, Op::MatMul), 1u);
  }
}

TEST_CASE("convolutions at places that are computed") {
  for (const std::int64_t groups : {1, 2})
    for (const bool masked : {false, true}) {
      Pieces p;
      const i32 x = p.input({2, 4, 7, 6}), w = p.column(6 * 2 * 3 * 2, {6, 2, 3, 2}),
                offsets = p.input({2, groups * 12, 3, 6});
      Vector<i32> inputs{x, w, offsets, p.column(6)};
      if (masked) inputs.push_back(p.input({2, groups * 6, 3, 6}));
      p.gives({p.node(Op::DeformConv, inputs,
                      {ints("strides", {2, 1}), ints("pads", {1, 1, 0, 0}), ints("dilations", {1, 1}),
                       number("group", 2), number("offset_group", groups)})});
      compare(p, Op::DeformConv, 0, 1e-4);
      CHECK_EQ(count(p.graph, Op::GridSample), 1u);
    }
}

TEST_CASE("sums of one operand, and products of three") {
  const auto einsum = [](const char *equation, std::initializer_list<qir::Shape> shapes) {
    Pieces p;
    Vector<i32> inputs;
    for (const qir::Shape &shape : shapes) inputs.push_back(p.input(shape));
    p.gives({p.node(Op::Einsum, inputs, {text("equation", equation)})});
    compare(p, Op::Einsum, 4, 1e-4);
    for (const qir::Node &node : p.graph.nodes)
      if (node.op == Op::Einsum) CHECK_EQ(node.inputs.size(), 2u);
    return count(p.graph, Op::Einsum);
  };
  CHECK_EQ(einsum("ijk->ki", {{2, 3, 4}}), 0u);
  CHECK_EQ(einsum("ij->", {{3, 4}}), 0u);
  CHECK_EQ(einsum("ij->ji", {{3, 4}}), 0u);
  CHECK_EQ(einsum("bij,bjk,bkl->bil", {{2, 3, 4}, {2, 4, 5}, {2, 5, 2}}), 2u);
  CHECK_EQ(einsum("ij,jk,l->ik", {{3, 4}, {4, 2}, {5}}), 2u);
  CHECK_EQ(einsum("ijm,jk->ik", {{3, 4, 2}, {4, 2}}), 1u);
  // Diagonals are taken out.
  CHECK_EQ(einsum("bhii->bhi", {{2, 3, 4, 4}}), 0u);
  CHECK_EQ(einsum("iii->", {{3, 3, 3}}), 0u);
  CHECK_EQ(einsum("iji->ji", {{3, 2, 3}}), 0u);
  CHECK_EQ(einsum("bii,bij->bj", {{2, 3, 3}, {2, 3, 4}}), 1u);
}

TEST_CASE("products of bytes that are not constant, and of a transposed first operand") {
  Pieces bytes;
  bytes.gives({bytes.node(Op::MatMulInteger,
                          {bytes.input({2, 3, 300}, DType::U8), bytes.input({2, 300, 4}, DType::U8),
                           bytes.constant<std::uint8_t>(DType::U8, {}, {200}), bytes.input({}, DType::U8)})});
  compare(bytes, Op::MatMulInteger, 0, 0);
  CHECK_EQ(count(bytes.graph, Op::MatMul), 2u);  // of at most 256 products

  Pieces gemm;
  gemm.gives({gemm.node(Op::Gemm, {gemm.input({4, 3}), gemm.column(8, {4, 2}), gemm.column(2)},
                        {number("transA", 1), Pieces::attribute("alpha", 0.5f)})});
  compare(gemm, Op::Gemm, 2);
  CHECK_EQ(count(gemm.graph, Op::Transpose), 1u);
}

TEST_CASE("a node without its first result stays as it is") {
  Pieces p;
  const i32 w = p.constant(DType::F32, {1, 4, 2}, std::vector<float>(8, 0.5f)),
            r = p.constant(DType::F32, {1, 4, 4}, std::vector<float>(16, 0.5f));
  const i32 last = p.node(Op::RNN, {p.input({3, 1, 2}), w, r}, {number("hidden_size", 4)});
  p.graph.nodes.back().outputs = {qir::kAbsent, last};
  passes::decompose_spatial(p.graph, p.store);
  passes::decompose_matmul(p.graph, p.store);
  REQUIRE_EQ(p.graph.nodes.size(), 1);
  CHECK(p.graph.nodes[0].op == Op::RNN);
  CHECK_EQ(p.graph.nodes[0].outputs[0], qir::kAbsent);
}
