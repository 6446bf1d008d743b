// SPDX-License-Identifier: Apache-2.0
// Quantised graphs: what the host does at inputs and outputs, what is dequantised, and the drafts of composed
// operators.
#include <cmath>
#include <limits>

#include "backends/htp/lower/lowering.h"
#include "backends/htp/lower/quantized.h"
#include "backends/htp/lower/unsigned.h"
#include "backends/htp/program/io_binding.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

i32 quantize(Pieces &p, i32 x, float scale, std::uint8_t zero) {
  return p.node(Op::QuantizeLinear, {x, p.scalar(scale), p.constant<std::uint8_t>(DType::U8, {}, {zero})});
}
i32 dequantize(Pieces &p, i32 x, float scale, std::uint8_t zero) {
  return p.node(Op::DequantizeLinear, {x, p.scalar(scale), p.constant<std::uint8_t>(DType::U8, {}, {zero})});
}

std::string types(Pieces &p) {
  htp::Draft draft;
  Vector<Status> refused(p.graph.nodes.size());
  htp::Lowering lowering(p.graph, *htp::find_soc(57), p.store, draft);
  REQUIRE_OK(lowering.run(refused));
  std::string text;
  for (const Status &status : refused) CHECK_OK(status);
  for (const htp::DraftNode &node : draft.nodes) text += (text.empty() ? "" : " ") + std::string(node.type);
  return text;
}

}  // namespace

TEST_CASE("the host quantises at the borders as QuantizeLinear does") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float reals[] = {0.0f, 0.05f, 0.15f, -0.05f, 1e30f, -infinity, infinity, std::nanf(""), 12.74f};
  const auto check = [&](qnn::DataType device, DType dtype, auto stored, std::int32_t zero) {
    using Stored = decltype(stored);
    Stored made[9];
    float back[9];
    htp::quantize_border(device, 0.1f, zero, reals, made, 9);
    htp::dequantize_border(device, 0.1f, zero, made, back, 9);
    for (std::size_t i = 0; i < 9; ++i) {
      CHECK_EQ(std::int64_t{made[i]}, qir::quantized_value(reals[i], 0.1f, zero, dtype));
      CHECK_EQ(back[i], static_cast<float>(made[i] - zero) * 0.1f);
    }
  };
  check(qnn::DataType::UQ8, DType::U8, std::uint8_t{}, 100);
  check(qnn::DataType::SQ8, DType::I8, std::int8_t{}, -3);
  check(qnn::DataType::UQ16, DType::U16, std::uint16_t{}, 40000);
  check(qnn::DataType::SQ16, DType::I16, std::int16_t{}, 0);
}

TEST_CASE("quantisation at the borders leaves the graph") {
  Pieces p;
  const i32 x = p.input({4});
  p.gives({dequantize(p, quantize(p, p.of(Op::Sigmoid, dequantize(p, quantize(p, x, 0.5f, 7), 0.5f, 7)), 0.25f, 3),
                      0.25f, 3)});
  passes::put_together_quantized(p.graph);
  const htp::HostBorders host = htp::take_border_quantization(p.graph);
  CHECK_EQ(ops(p.graph), "Sigmoid");
  CHECK_EQ(host.inputs[0].scale, 0.5f);
  CHECK_EQ(host.inputs[0].zero_point, 7);
  CHECK_EQ(host.outputs[0].scale, 0.25f);
  CHECK_EQ(host.sources.size(), 2u);
  CHECK(p.at(p.graph.inputs[0]).dtype == DType::U8);
}

TEST_CASE("an input that others read as f32 stays") {
  Pieces p;
  const i32 x = p.input({4});
  p.gives({dequantize(p, quantize(p, p.of(Op::Sigmoid, dequantize(p, quantize(p, x, 0.5f, 7), 0.5f, 7)), 0.25f, 3),
                      0.25f, 3),
           p.of(Op::Relu, x)});
  passes::put_together_quantized(p.graph);
  const htp::HostBorders host = htp::take_border_quantization(p.graph);
  CHECK(host.inputs[0].name.empty());
  CHECK_FALSE(host.outputs[0].name.empty());
  CHECK(p.at(p.graph.inputs[0]).dtype == DType::F32);
}

TEST_CASE("constants are dequantised on the host, per axis and in blocks") {
  const auto run_folder = [](Pieces &p, i32 y) {
    p.gives({y});
    const std::vector<double> expected = run(p.graph);
    htp::BlockSources blocks;
    htp::ConstantDequantizer folder(blocks);
    Vector<qir::Constant> made;
    REQUIRE(folder.fold(p.graph, p.graph.nodes[0], p.store, &made));
    REQUIRE_EQ(made.size(), 1u);
    const auto *const values = static_cast<const float *>(made[0].data.data);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK_EQ(static_cast<double>(values[i]), expected[i]);
  };
  const std::vector<std::int8_t> stored = {1, -2, 3, -4, 5, -6, 7, 8};
  Pieces axis;
  run_folder(axis, axis.node(Op::DequantizeLinear,
                             {axis.constant<std::int8_t>(DType::I8, {2, 4}, stored), axis.column(2),
                              axis.constant<std::int8_t>(DType::I8, {2}, {1, -1})},
                             {Pieces::attribute("axis", std::int64_t{0})}));
  Pieces blocks;
  run_folder(blocks, blocks.node(Op::DequantizeLinear,
                                 {blocks.constant<std::int8_t>(DType::I8, {2, 4}, stored), blocks.column(4, {2, 2})},
                                 {Pieces::attribute("axis", std::int64_t{1}),
                                  Pieces::attribute("block_size", std::int64_t{2})}));
}

TEST_CASE("operators that the library computes wrongly on integers are dequantised") {
  Pieces p;
  const i32 x = p.quantized(p.input({4}, DType::U16), DType::U16, {0.1f}, {100});
  (void)p.quantized(p.node(Op::HardSigmoid, {x}), DType::U16, {0.1f}, {0});
  const i32 byte = p.quantized(p.input({4}, DType::U8), DType::U8, {0.1f}, {100});
  (void)p.quantized(p.node(Op::HardSigmoid, {byte}), DType::U8, {0.1f}, {0});
  (void)p.quantized(p.node(Op::Erf, {byte}), DType::U8, {0.1f}, {0});
  (void)p.quantized(p.node(Op::Tanh, {x}), DType::U16, {0.1f}, {0});
  CHECK_FALSE(htp::computes_quantized(p.graph, p.graph.nodes[0]));
  CHECK(htp::computes_quantized(p.graph, p.graph.nodes[1]));
  CHECK_FALSE(htp::computes_quantized(p.graph, p.graph.nodes[2]));
  CHECK(htp::computes_quantized(p.graph, p.graph.nodes[3]));
}

TEST_CASE("a move between two quantisations is followed by a conversion") {
  Pieces p;
  const i32 x = p.quantized(p.input({4, 2}, DType::U16), DType::U16, {0.1f}, {100});
  const i32 at = p.constant<std::int64_t>(DType::I64, {2, 1}, {1, 3});
  p.gives({p.quantized(p.node(Op::GatherND, {x, at}), DType::U16, {0.2f}, {0}),
           p.quantized(p.node(Op::GatherND, {x, at}), DType::U16, {0.1f}, {100}),
           p.quantized(p.transpose(x, {1, 0}), DType::U16, {0.3f}, {5})});
  htp::adapt_quantized(p.graph);
  CHECK_EQ(ops(p.graph), "GatherND Identity GatherND Transpose Identity");
  CHECK_EQ(types(p), "Gather Convert Gather Convert Transpose");
}

TEST_CASE("comparisons read the stored integers") {
  Pieces p;
  const i32 a = p.quantized(p.input({4}, DType::U8), DType::U8, {0.1f}, {100});
  const i32 b = p.quantized(p.input({4}, DType::U8), DType::U8, {0.2f}, {0});
  const i32 left = dequantize(p, a, 0.1f, 100), right = dequantize(p, b, 0.2f, 0);
  p.gives({p.node(Op::Greater, {left, right}), p.node(Op::ArgMax, {left}), p.node(Op::Less, {left, p.scalar(1)})});
  htp::adapt_quantized(p.graph);
  CHECK_EQ(p.graph.nodes[2].inputs[0], a);
  CHECK_EQ(p.graph.nodes[2].inputs[1], b);
  CHECK_EQ(p.graph.nodes[3].inputs[0], a);
  CHECK_EQ(p.graph.nodes[4].inputs[0], left);
}

// The library clamps what is left of u8 weights without their zero point to 8 bits, where the data has 16.
TEST_CASE("u8 weights that reach past s8 are 16 bits wide beside data of 16 bits") {
  for (const std::int32_t zero : {100, 128}) {
    Pieces p;
    const i32 x = p.quantized(p.input({2, 2}, DType::U16), DType::U16, {0.1f}, {100});
    const i32 w = p.quantized(p.constant<std::uint8_t>(DType::U8, {2, 2}, {0, 255, 7, 100}), DType::U8, {0.5f}, {zero});
    p.gives({p.quantized(p.node(Op::MatMul, {x, w}), DType::U16, {0.2f}, {0})});
    htp::Draft draft;
    Vector<Status> refused(1);
    htp::Lowering lowering(p.graph, *htp::find_soc(57), p.store, draft);
    REQUIRE_OK(lowering.run(refused));
    const htp::DraftTensor &made = draft.tensors[static_cast<std::size_t>(draft.nodes[0].inputs[1])];
    CHECK((made.dtype == (zero == 100 ? qnn::DataType::SQ16 : qnn::DataType::UQ8)));
    if (zero == 100) CHECK_EQ(static_cast<const std::int16_t *>(made.data.data)[1], 155);
  }
}

// A weight that is further than a byte from the zero point costs its whole output channel a bit in the library.
TEST_CASE("what weights have beyond a byte lies in rows for copies of their input channels") {
  Pieces p;
  const i32 x = p.quantized(p.input({1, 2, 4, 4}, DType::U8), DType::U8, {0.5f}, {128});
  const i32 w =
      p.quantized(p.constant<std::uint8_t>(DType::U8, {2, 2, 1, 1}, {0, 20, 100, 255}), DType::U8, {0.25f}, {100});
  p.gives({p.quantized(p.node(Op::Conv, {x, w}), DType::U8, {1}, {0})});
  htp::Draft draft;
  Vector<Status> refused(1);
  htp::Lowering lowering(p.graph, *htp::find_soc(57), p.store, draft);
  REQUIRE_OK(lowering.run(refused));
  CHECK_EQ(types(p), "Transpose StridedSlice Concat Conv2d Transpose");
  const htp::DraftTensor &made = draft.tensors[static_cast<std::size_t>(draft.nodes[3].inputs[1])];
  CHECK(made.dtype == qnn::DataType::SQ8);
  CHECK_EQ(made.dims, Vector<std::uint32_t>({1, 1, 3, 2}));
  const auto *const values = static_cast<const std::int8_t *>(made.data.data);
  CHECK_EQ(std::vector<int>(values, values + 6), std::vector<int>({-100, 0, -80, 127, 0, 28}));  // [in][out]
  CHECK(htp::computes_quantized(p.graph, p.graph.nodes[0]));
  p.graph.nodes[0].set("group", std::int64_t{2});
  CHECK_FALSE(htp::computes_quantized(p.graph, p.graph.nodes[0]));
  p.at(w).quant->zero_points[0] = 128;
  CHECK(htp::computes_quantized(p.graph, p.graph.nodes[0]));
}

TEST_CASE("the right operand of a product on 16 bits has its zero point in the middle") {
  Pieces p;
  const i32 a = p.quantized(p.input({2, 2}, DType::U16), DType::U16, {0.1f}, {100});
  const i32 b = p.quantized(p.input({2, 2}, DType::U16), DType::U16, {0.1f}, {0});
  p.gives({p.quantized(p.node(Op::MatMul, {a, b}), DType::U16, {0.2f}, {0})});
  CHECK_EQ(types(p), "Convert MatMul");
}

TEST_CASE("normalisations over groups and axes, and products along axes") {
  Pieces group;
  group.gives({group.node(Op::GroupNormalization, {group.input({1, 4, 3, 3}), group.column(4), group.column(4)},
                          {Pieces::attribute("num_groups", std::int64_t{2})})});
  CHECK_EQ(types(group), "Reshape LayerNorm Reshape ElementWiseMultiply ElementWiseAdd");
  Pieces mvn;
  mvn.gives({mvn.of(Op::MeanVarianceNormalization, mvn.input({1, 4, 3, 3}))});
  CHECK_EQ(types(mvn), "Reshape Reshape LayerNorm Reshape Reshape");
  Pieces product;
  product.gives({product.node(Op::ReduceProd, {product.input({2, 5}), product.integers({-1})})});
  // 5 elements: two pairs and one left, then one pair and one left, then one pair.
  CHECK_EQ(types(product),
           "StridedSlice StridedSlice StridedSlice ElementWiseMultiply Concat StridedSlice StridedSlice StridedSlice "
           "ElementWiseMultiply Concat StridedSlice StridedSlice ElementWiseMultiply Reshape");
}

TEST_CASE("Softmax of 8 bits stays on integers where its result counts from 0") {
  const auto stays = [](DType dtype, i32 zero) {
    Pieces p;
    const i32 x = p.quantized(p.input({2, 4}, dtype), dtype, {0.1f}, {100});
    p.gives({p.quantized(p.node(Op::Softmax, {x}), dtype, {0.01f}, {zero})});
    return htp::computes_quantized(p.graph, p.graph.nodes[0]);
  };
  CHECK(stays(DType::U8, 0));
  CHECK(!stays(DType::U8, 3));
  CHECK(stays(DType::U16, 3));
}

TEST_CASE("products of 16 bits stay on integers where the low byte of their sums is finer than f16") {
  const auto stays = [](Op op, float step, DType dtype) {
    Pieces p;
    const bool image = op == Op::Conv || op == Op::ConvTranspose;
    const i32 x = p.quantized(p.input(image ? qir::Shape{1, 2, 4, 4} : qir::Shape{2, 2}, dtype), dtype, {0.5f}, {0});
    const i32 w = p.quantized(
        p.constant<std::int8_t>(DType::I8, image ? qir::Shape{2, 2, 1, 1} : qir::Shape{2, 2}, {0, 20, 100, -5}),
        DType::I8, {0.25f}, {0});
    p.gives({p.quantized(p.node(op, {x, w}), dtype, {step}, {0})});
    return htp::computes_quantized(p.graph, p.graph.nodes[0]);
  };
  for (const Op op : {Op::Conv, Op::ConvTranspose, Op::Gemm, Op::MatMul}) {
    CHECK(stays(op, 1.0f + 1.0f / 1024, DType::U16));  // 256 / 8 = 65535 / 2048 steps, nearly
    CHECK(!stays(op, 1.0f - 1.0f / 1024, DType::U16));
    CHECK(stays(op, 0.125f, DType::U8));
  }
}

TEST_CASE("an operator from 8 bits to 16 or back goes by f16, but for an Identity") {
  const auto stays = [](Op op, DType from, DType second, DType to) {
    Pieces p;
    const i32 x = p.quantized(p.input({2, 4}, from), from, {0.1f}, {100});
    const i32 other = p.quantized(p.input({2, 4}, second), second, {0.1f}, {100});
    const i32 y = op == Op::Add ? p.node(op, {x, other}) : p.node(op, {x});
    p.gives({p.quantized(y, to, {0.01f}, {3})});
    return htp::computes_quantized(p.graph, p.graph.nodes[0]);
  };
  for (const Op op : {Op::Add, Op::Relu, Op::Transpose}) {
    CHECK(stays(op, DType::U8, DType::U8, DType::U8));
    CHECK(!stays(op, DType::U8, DType::U8, DType::U16));
    CHECK(!stays(op, DType::I16, DType::I16, DType::U8));
  }
  CHECK(!stays(Op::Add, DType::U8, DType::U16, DType::U8));
  CHECK(stays(Op::Identity, DType::U8, DType::U8, DType::U16));
}

TEST_CASE("plain integers are counted in steps of 1, and sums of them are refused") {
  Pieces p;
  const i32 x = p.input({2, 3}, DType::U8);
  p.gives({p.node(Op::Cast, {x}, {Pieces::attribute("to", std::int64_t{1})}), p.transpose(x, {1, 0})});
  CHECK_EQ(types(p), "Dequantize Transpose");
  Pieces sum;
  const i32 a = sum.input({2}, DType::U8);
  sum.gives({sum.add(a, a)});
  htp::Draft draft;
  Vector<Status> refused(1);
  htp::Lowering lowering(sum.graph, *htp::find_soc(57), sum.store, draft);
  REQUIRE_OK(lowering.run(refused));
  CHECK_EQ(refused[0].id(), "QR-B0003");
}

// A product of K elements may pass what f16 holds: its whole part and its fraction are put together as integers.
TEST_CASE("products of integers go by f16 in two parts where one would overflow") {
  const auto product = [](std::int64_t k) {
    Pieces p;
    const i32 w = p.constant<std::int8_t>(DType::I8, {k, 1}, std::vector<std::int8_t>(static_cast<std::size_t>(k), 3));
    p.gives({p.node(Op::MatMulInteger, {p.input({1, k}, DType::U8), w})});
    return types(p);
  };
  CHECK_EQ(product(1), "Dequantize MatMul ElementWiseRound Cast");
  CHECK_EQ(product(64),
           "Dequantize MatMul ElementWiseFloor ElementWiseSubtract ElementWiseMultiply Cast ElementWiseMultiply "
           "ElementWiseRound Cast ElementWiseAdd");
}

TEST_CASE("transforms are products with matrices of cosines and sines") {
  Pieces p;
  p.gives({p.node(Op::DFT, {p.input({2, 8, 1})})});
  CHECK_EQ(types(p), "Reshape MatMul Reshape");
}

TEST_CASE("signed values become unsigned, at the model's borders by a conversion, and weights stay") {
  Pieces p;
  const i32 x = p.quantized(p.input({2, 2}, DType::I8), DType::I8, {0.1f}, {-3});
  const i32 w = p.quantized(p.constant<std::int8_t>(DType::I8, {2, 2}, {1, -2, 3, 4}), DType::I8, {0.5f}, {0});
  const i32 product = p.quantized(p.node(Op::MatMul, {x, w}), DType::I8, {0.2f}, {5});
  const i32 more = p.quantized(p.constant<std::int8_t>(DType::I8, {2}, {-128, 127}), DType::I8, {0.5f}, {1});
  const i32 y = p.quantized(p.add(product, more), DType::I8, {0.2f}, {5});
  p.gives({y});
  htp::HostBorders host;
  host.inputs.resize(1), host.outputs.resize(1);
  htp::make_unsigned(p.graph, p.store, host);
  CHECK_EQ(ops(p.graph), "Identity MatMul Add Identity");
  CHECK(p.at(p.graph.inputs[0]).dtype == DType::I8);
  CHECK(p.at(p.graph.outputs[0]).dtype == DType::I8);
  const qir::Tensor &inner = p.at(p.graph.nodes[1].inputs[0]);
  CHECK(inner.dtype == DType::U8);
  CHECK_EQ(inner.quant->zero_points[0], 125);
  CHECK_EQ(p.graph.nodes[1].inputs[1], w);
  const qir::Tensor &added = p.at(p.graph.nodes[2].inputs[1]);
  CHECK(added.dtype == DType::U8);
  CHECK_EQ(static_cast<const std::uint8_t *>(added.data.data)[0], 0);
  CHECK_EQ(static_cast<const std::uint8_t *>(added.data.data)[1], 255);
  CHECK_EQ(types(p), "Convert MatMul ElementWiseAdd Convert");
}

TEST_CASE("where the host has f32 at the border its zero point moves with the integers") {
  Pieces p;
  const i32 x = p.quantized(p.input({2}, DType::I16), DType::I16, {0.1f}, {0});
  p.gives({p.quantized(p.of(Op::Sigmoid, x), DType::I16, {0.1f}, {7})});
  htp::HostBorders host;
  host.inputs.push_back({"x", 0.1f, 0}), host.outputs.push_back({"y", 0.1f, 7});
  htp::make_unsigned(p.graph, p.store, host);
  CHECK_EQ(ops(p.graph), "Sigmoid");
  CHECK_EQ(host.inputs[0].zero_point, 32768);
  CHECK_EQ(host.outputs[0].zero_point, 32775);
  CHECK(p.at(p.graph.outputs[0]).dtype == DType::U16);
}

// MatMul crashes the library for a matrix of rank 2 with a scale for each column.
TEST_CASE("weights with a scale for each column go by FullyConnected") {
  Pieces p;
  const i32 x = p.quantized(p.input({3, 2, 2}, DType::U8), DType::U8, {0.1f}, {0});
  const i32 w = p.quantized(p.constant<std::int8_t>(DType::I8, {2, 2}, {1, -2, 3, 4}), DType::I8, {0.5f, 1}, {0, 0}, 1);
  p.gives({p.quantized(p.node(Op::MatMul, {x, w}), DType::U8, {0.2f}, {5})});
  CHECK_EQ(types(p), "Reshape FullyConnected Reshape");
}

// It would take the two for nothing, and lose what the range cuts off.
TEST_CASE("what is quantised and dequantised again is clamped before") {
  Pieces p;
  const i32 stored =
      p.node(Op::QuantizeLinear, {p.input({4}), p.scalar(0.5f), p.constant<std::uint8_t>(DType::U8, {}, {3})});
  p.at(stored).dtype = DType::U8;
  p.gives({dequantize(p, stored, 0.5f, 3)});
  htp::Draft draft;
  Vector<Status> refused(2);
  htp::Lowering lowering(p.graph, *htp::find_soc(57), p.store, draft);
  REQUIRE_OK(lowering.run(refused));
  REQUIRE_EQ(draft.nodes.size(), 3u);
  CHECK_EQ(std::string_view(draft.nodes[0].type), "ReluMinMax");
  CHECK_EQ(std::get<float>(draft.nodes[0].params[0].value), -1.5f);
  CHECK_EQ(std::get<float>(draft.nodes[0].params[1].value), 126);
}

// The library has no tensors of 4 bits: their values lie in bytes, and the encoding says how many bits count.
TEST_CASE("weights of 4 bits lie in bytes; those with scales of blocks, or of 16 bits, go by floats") {
  Pieces p;
  const i32 x = p.quantized(p.input({1, 2, 4, 4}, DType::U8), DType::U8, {0.5f}, {128});
  const i32 w =
      p.quantized(p.constant<std::uint8_t>(DType::I4, {2, 2, 1, 1}, {0x21, 0xf8}), DType::I4, {0.25f, 2}, {0, 0});
  p.gives({p.quantized(p.node(Op::Conv, {x, w}), DType::U8, {1}, {0})});
  CHECK(htp::computes_quantized(p.graph, p.graph.nodes[0]));
  htp::Draft draft;
  Vector<Status> refused(1);
  htp::Lowering lowering(p.graph, *htp::find_soc(57), p.store, draft);
  REQUIRE_OK(lowering.run(refused));
  const htp::DraftTensor &made = draft.tensors[static_cast<std::size_t>(draft.nodes[1].inputs[1])];
  CHECK(made.dtype == qnn::DataType::SQ8);
  CHECK_EQ(made.encoding.bits, 4u);
  CHECK_EQ(made.encoding.axis, 3);
  REQUIRE_EQ(made.data.size, 4u);
  const auto *const values = static_cast<const std::int8_t *>(made.data.data);
  CHECK_EQ(std::vector<int>(values, values + 4), std::vector<int>({1, -8, 2, -1}));
  p.at(w).quant->block_size = 2;
  CHECK_FALSE(htp::computes_quantized(p.graph, p.graph.nodes[0]));
  p.at(w).quant->block_size = 0, p.at(w).dtype = DType::I16;
  CHECK_FALSE(htp::computes_quantized(p.graph, p.graph.nodes[0]));
}

// The library's operation repeats its first step.
TEST_CASE("a GRU is one operation of the library for each step") {
  Pieces p;
  const i32 x = p.input({3, 1, 2});
  p.gives({p.node(Op::GRU, {x, p.column(24, {1, 12, 2}), p.column(48, {1, 12, 4})})});
  CHECK(htp::is_library_gru(p.graph, p.graph.nodes[0]));
  CHECK_EQ(types(p), "Split Gru Gru Gru Concat Reshape");
  p.graph.nodes[0].set("activations", Vector<String>{"sigmoid", "Tanh"});
  CHECK(htp::is_library_gru(p.graph, p.graph.nodes[0]));
  p.graph.nodes[0].set("activations", Vector<String>{"Sigmoid", "Relu"});
  CHECK_FALSE(htp::is_library_gru(p.graph, p.graph.nodes[0]));

  Pieces both;
  const i32 y = both.input({2, 1, 2});
  both.gives({both.node(Op::GRU, {y, both.column(48, {2, 12, 2}), both.column(96, {2, 12, 4})},
                        {Pieces::attribute("direction", std::string_view("bidirectional"))})});
  CHECK_EQ(types(both), "Split Gru Gru Concat Gru Gru Concat Reshape Reshape Concat");
}

// The library's own nearest takes the input at or before an output; whatever else ONNX may want is gathered.
TEST_CASE("nearest neighbours by the library where it has them, else gathered") {
  const auto resize = [](std::string_view where, std::string_view nearest) {
    Pieces p;
    p.gives({p.node(
        Op::Resize, {p.input({1, 1, 4, 4}), qir::kAbsent, p.constant<float>(DType::F32, {4}, {1, 1, 2, 2})},
        {Pieces::attribute("mode", std::string_view("nearest")),
         Pieces::attribute("coordinate_transformation_mode", where), Pieces::attribute("nearest_mode", nearest)})});
    return types(p);
  };
  CHECK_NE(resize("half_pixel", "round_prefer_floor").find("ResizeNearestNeighbor"), std::string::npos);
  CHECK_NE(resize("asymmetric", "floor").find("ResizeNearestNeighbor"), std::string::npos);
  CHECK_EQ(resize("asymmetric", "ceil"), "Gather Gather");
}
