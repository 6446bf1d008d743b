// SPDX-License-Identifier: Apache-2.0
// Q/DQ folded into types and dequantised, to the bit; and the rules of graph/ops/quantization.h that both stand on.
#include <cfloat>
#include <cmath>
#include <limits>

#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

bool keep_nothing(const qir::Graph &, const qir::Node &) { return false; }

i32 quantize(Pieces &p, i32 x, float scale, std::uint8_t zero) {
  return p.node(Op::QuantizeLinear, {x, p.scalar(scale), p.constant<std::uint8_t>(DType::U8, {}, {zero})});
}
i32 dequantize(Pieces &p, i32 x, float scale, std::uint8_t zero) {
  return p.node(Op::DequantizeLinear, {x, p.scalar(scale), p.constant<std::uint8_t>(DType::U8, {}, {zero})});
}

// x -> Q -> DQ -> the operator -> Q -> DQ, put together; the numbers stay to the bit.
template <class Middle>
std::string together(Middle &&middle, float out_scale = 0.05f, std::uint8_t out_zero = 100,
                     qir::Shape shape = {1, 2, 4, 4}) {
  Pieces p;
  const i32 x = dequantize(p, quantize(p, p.input(std::move(shape)), 0.04f, 90), 0.04f, 90);
  p.gives({dequantize(p, quantize(p, middle(p, x), out_scale, out_zero), out_scale, out_zero)});
  const std::vector<double> expected = run(p.graph);
  passes::put_together_quantized(p.graph);
  CHECK_EQ(difference(run(p.graph), expected), 0);
  return ops(p.graph);
}

}  // namespace

TEST_CASE("integers of every width") {
  const std::uint8_t bytes[] = {0xF1, 0x80, 0x7F, 0xFF};
  CHECK_EQ(qir::stored_integer(DType::U4, bytes, 0), 1);
  CHECK_EQ(qir::stored_integer(DType::U4, bytes, 1), 15);
  CHECK_EQ(qir::stored_integer(DType::I4, bytes, 1), -1);
  CHECK_EQ(qir::stored_integer(DType::I2, bytes, 2), -1);
  CHECK_EQ(qir::stored_integer(DType::I8, bytes, 1), -128);
  CHECK_EQ(qir::stored_integer(DType::U16, bytes, 1), 0xFF7F);
  CHECK_EQ(qir::stored_integer(DType::I16, bytes, 1), -129);
  CHECK_EQ(qir::stored_integer(DType::I32, bytes, 0), static_cast<std::int32_t>(0xFF7F80F1u));
  CHECK_EQ(qir::stored_integer(DType::U32, bytes, 0), 0xFF7F80F1u);
  const auto range = [](DType dtype) {
    return std::pair(qir::integer_range(dtype).low, qir::integer_range(dtype).high);
  };
  CHECK_EQ(range(DType::I2), std::pair<std::int64_t, std::int64_t>(-2, 1));
  CHECK_EQ(range(DType::U16), std::pair<std::int64_t, std::int64_t>(0, 65535));
  CHECK_EQ(range(DType::I32), std::pair<std::int64_t, std::int64_t>(INT32_MIN, INT32_MAX));
}

TEST_CASE("one value quantises as QuantizeLinear does") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float real : {0.0f, 0.05f, 0.15f, -0.05f, 1e30f, -infinity, infinity, std::nanf(""), 12.74f}) {
    Pieces p;
    const i32 x = p.constant<float>(DType::F32, {1}, {real});
    p.gives({quantize(p, x, 0.1f, 128)});
    CHECK_EQ(static_cast<double>(qir::quantized_value(real, 0.1f, 128, DType::U8)), run(p.graph)[0]);
  }
}

TEST_CASE("a pair cancels where it gives every integer back") {
  const auto undone = [](DType dtype, float scale, float other) {
    Pieces p;
    const i32 a = p.quantized(p.input({4}), dtype, {scale}, {1}), b = p.quantized(p.input({4}), dtype, {other}, {1});
    return qir::quantize_undoes_dequantize(p.at(a), p.at(b));
  };
  CHECK(undone(DType::U8, 0.1f, 0.1f));
  CHECK(undone(DType::I16, 1e-30f, 1e-30f));
  CHECK_FALSE(undone(DType::U8, 0.1f, 0.2f));
  CHECK_FALSE(undone(DType::I32, 0.1f, 0.1f));                // f32 has 24 bits
  CHECK_FALSE(undone(DType::U16, FLT_MAX / 4, FLT_MAX / 4));  // infinite on the way
}

TEST_CASE("what moves values") {
  Pieces p;
  const i32 x = p.input({1, 1, 4, 4}), pads = p.integers({0, 0, 1, 1, 0, 0, 1, 1});
  const auto moves = [&](i32) { return qir::moves_values(p.graph, p.graph.nodes.back()); };
  const auto moves_real = [&](i32) { return qir::moves_real_values(p.graph, p.graph.nodes.back()); };
  CHECK(moves(p.transpose(x, {0, 1, 3, 2})));
  CHECK(moves(p.node(Op::MaxPool, {x}, {Pieces::attribute("kernel_shape", Ints{2, 2})})));
  CHECK_FALSE(moves(p.node(Op::AveragePool, {x}, {Pieces::attribute("kernel_shape", Ints{2, 2})})));
  // A Pad writes the real 0: that is the zero point, not the integer 0.
  CHECK_FALSE(moves(p.node(Op::Pad, {x, pads})));
  CHECK(moves_real(p.node(Op::Pad, {x, pads})));
  CHECK(moves_real(p.node(Op::Pad, {x, pads, p.scalar(0)})));
  CHECK_FALSE(moves_real(p.node(Op::Pad, {x, pads, p.scalar(1)})));
  CHECK(moves(p.node(Op::Pad, {x, pads}, {Pieces::attribute("mode", std::string_view("reflect"))})));
  // A Dropout that trains scales what it leaves.
  const i32 ratio = p.scalar(0.5f);
  CHECK(moves(p.node(Op::Dropout, {x, ratio})));
  CHECK(moves(p.node(Op::Dropout, {x, ratio, p.constant<std::uint8_t>(DType::Bool, {}, {0})})));
  CHECK_FALSE(moves(p.node(Op::Dropout, {x, ratio, p.constant<std::uint8_t>(DType::Bool, {}, {1})})));
}

TEST_CASE("operators take the conversions around them") {
  CHECK_EQ(together([](Pieces &p, i32 x) { return p.of(Op::Sigmoid, x); }), "QuantizeLinear Sigmoid DequantizeLinear");
  // The whole family, not only those that a list remembered.
  for (const Op op : {Op::Celu, Op::Selu, Op::ThresholdedRelu, Op::Tan, Op::Sinh, Op::Shrink})
    CHECK_EQ(together([&](Pieces &p, i32 x) { return p.of(op, x); }),
             std::string("QuantizeLinear ") + qir::op_name(op) + " DequantizeLinear");
}

TEST_CASE("numbers that shapes are made of stay real") {
  const auto resized = [](Pieces &p, i32 x) {
    const i32 stored = p.constant<std::uint8_t>(DType::U8, {4}, {16, 16, 32, 24}),
              scales = p.node(Op::DequantizeLinear, {stored, p.scalar(0.0625f)});
    return p.node(Op::Resize, {x, qir::kAbsent, scales});
  };
  const std::string found = together(resized);
  CHECK_EQ(std::count(found.begin(), found.end(), ' '), 5);
  CHECK(found.find("DequantizeLinear Resize QuantizeLinear") != std::string::npos);
}

TEST_CASE("a pad moves the conversion behind it") {
  // Sigmoid -> Pad -> Q: Sigmoid takes it, and Pad works on integers.
  const auto middle = [](Pieces &p, i32 x) {
    return p.node(Op::Pad, {p.of(Op::Sigmoid, x), p.integers({0, 0, 1, 1, 0, 0, 1, 1})});
  };
  CHECK_EQ(together(middle), "QuantizeLinear Sigmoid Pad DequantizeLinear");
  const auto reflected = [](Pieces &p, i32 x) {
    return p.node(Op::Pad, {p.of(Op::Sigmoid, x), p.integers({0, 0, 1, 1, 0, 0, 1, 1})},
                  {Pieces::attribute("mode", std::string_view("reflect"))});
  };
  CHECK_EQ(together(reflected), "QuantizeLinear Sigmoid Pad DequantizeLinear");
}

TEST_CASE("raw integers do not become quantised across a pad") {
  // Q -> Pad of integers (with the integer 0) -> DQ is no Pad of real numbers: the border is -zero * scale.
  Pieces p;
  const i32 q = quantize(p, p.input({1, 1, 2, 2}), 0.1f, 100);
  p.gives({dequantize(p, p.node(Op::Pad, {q, p.integers({0, 0, 1, 1, 0, 0, 1, 1})}), 0.1f, 100)});
  const std::vector<double> expected = run(p.graph);
  CHECK(std::fabs(expected[0] + 10) < 1e-5);
  passes::put_together_quantized(p.graph);
  CHECK_EQ(difference(run(p.graph), expected), 0);
}

namespace {

// A quantised convolution of two channels with a bias of i32; `bias_scale` 0: without a quantisation of its own.
struct QuantizedConv {
  Op op = Op::Conv;
  Vector<float> w_scales = {0.02f, 0.03f};
  i32 w_axis = 0;
  std::vector<std::int32_t> bias = {50, -70};
  float bias_scale = 0;

  Pieces &write(Pieces &p) const {
    const i32 x = p.quantized(p.input({1, 2, 3, 3}, DType::U8), DType::U8, {0.1f}, {120});
    const i32 w = p.constant<std::int8_t>(DType::I8, {2, 2, 1, 1}, {100, -20, 30, 127});
    p.quantized(w, DType::I8, w_scales, Vector<i32>(w_scales.size(), 3), w_axis);
    const i32 b = p.constant(DType::I32, {static_cast<std::int64_t>(bias.size())}, bias);
    if (bias_scale > 0) p.quantized(b, DType::I32, {bias_scale}, {0});
    return p.gives({p.quantized(p.node(op, {x, w, b}), DType::U8, {0.2f}, {100})});
  }
};

}  // namespace

TEST_CASE("dequantised it gives the same") {
  for (const Op op : {Op::Conv, Op::ConvTranspose})
    for (const float scale : {0.0f, 0.01f}) {
      Pieces p;
      QuantizedConv{.op = op, .w_axis = op == Op::Conv ? 0 : 1, .bias_scale = scale}.write(p);
      const std::vector<double> expected = run(p.graph);
      passes::dequantize_nodes(p.graph, p.store, keep_nothing);
      CHECK_EQ(ops(p.graph), std::string("DequantizeLinear DequantizeLinear DequantizeLinear ") + qir::op_name(op) +
                                 " QuantizeLinear");
      CHECK_EQ(difference(run(p.graph), expected), 0);
      for (const qir::Node &node : p.graph.nodes) CHECK_EQ(node.source, 0);
    }
}

TEST_CASE("apart and together again") {
  Pieces p;
  QuantizedConv{}.write(p);
  const std::vector<double> expected = run(p.graph);
  passes::dequantize_nodes(p.graph, p.store, keep_nothing);
  passes::put_together_quantized(p.graph);
  CHECK_EQ(ops(p.graph), "Conv");
  CHECK_EQ(difference(run(p.graph), expected), 0);
}

TEST_CASE("four bits are dequantised too") {
  Pieces p;
  const i32 x = p.quantized(p.input({2, 4}, DType::U8), DType::U8, {0.1f}, {120});
  const i32 w = p.quantized(p.constant<std::uint8_t>(DType::I4, {4, 2}, {0x71, 0xF8, 0x23, 0x9A}), DType::I4,
                            {0.5f, 0.25f}, {-3, 7}, 1);
  p.gives({p.quantized(p.node(Op::MatMul, {x, w}), DType::U8, {0.4f}, {128})});
  const std::vector<double> expected = run(p.graph);
  passes::dequantize_nodes(p.graph, p.store, keep_nothing);
  CHECK_EQ(ops(p.graph), "DequantizeLinear DequantizeLinear MatMul QuantizeLinear");
  CHECK_EQ(difference(run(p.graph), expected), 0);
}

TEST_CASE("what somebody keeps stays") {
  Pieces p;
  QuantizedConv{}.write(p);
  passes::dequantize_nodes(p.graph, p.store,
                           [](const qir::Graph &, const qir::Node &node) { return node.op == Op::Conv; });
  CHECK_EQ(ops(p.graph), "Conv");
}

TEST_CASE("the unit of a bias") {
  // That of the second channel.
  const auto unit = [](const QuantizedConv &conv) -> std::optional<float> {
    Pieces p;
    conv.write(p);
    const qir::Node &node = p.graph.nodes[0];
    const auto found = qir::BiasUnit::of(node, p.at(node.inputs[0]), p.at(node.inputs[1]), p.at(node.inputs[2]));
    return found ? std::optional<float>(found->unit(1)) : std::nullopt;
  };
  const auto counts = [](const QuantizedConv &conv) {
    Pieces p;
    conv.write(p);
    const qir::Node &node = p.graph.nodes[0];
    return qir::bias_counts_products(node, p.at(node.inputs[0]), p.at(node.inputs[1]), p.at(node.inputs[2]));
  };
  REQUIRE(unit(QuantizedConv{}).has_value());
  CHECK_EQ(*unit(QuantizedConv{}), 0.1f * 0.03f);
  CHECK(unit(QuantizedConv{.w_scales = {0.02f}}).has_value());
  // Scales along the input channels, or one element for scales that differ: no unit.
  CHECK_FALSE(unit(QuantizedConv{.w_axis = 1}).has_value());
  for (const bool one : {false, true}) {
    Pieces p;
    const i32 x = p.quantized(p.input({2, 2}, DType::U8), DType::U8, {0.1f}, {120});
    const i32 w =
        p.quantized(p.constant<std::int8_t>(DType::I8, {2, 2}, {1, 2, 3, 4}), DType::I8, {0.5f, 2}, {0, 0}, 1);
    const i32 b = p.constant(DType::I32, {one ? 1 : 2}, std::vector<std::int32_t>(one ? 1 : 2, 7));
    p.quantized(p.node(Op::Gemm, {x, w, b}), DType::U8, {0.2f}, {100});
    CHECK_EQ(qir::BiasUnit::of(p.graph.nodes[0], p.at(x), p.at(w), p.at(b)).has_value(), !one);
  }
  CHECK(counts(QuantizedConv{.w_scales = {0.02f}, .bias_scale = 0.1f * 0.02f}));
  CHECK_FALSE(counts(QuantizedConv{.w_scales = {0.02f}, .bias_scale = 0.003f}));
  CHECK_FALSE(counts(QuantizedConv{.bias_scale = 0.1f * 0.02f}));
}

TEST_CASE("a bias without a unit is refused by name") {
  Pieces p;
  QuantizedConv{.w_axis = 1}.write(p);
  const auto program = reference::Program::build(p.graph);
  REQUIRE_FALSE(program.ok());
  CHECK_NE(outcome(program).find("is i32 without a quantisation"), std::string::npos);
}
