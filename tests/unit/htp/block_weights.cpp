// SPDX-License-Identifier: Apache-2.0
// Weights with scales for blocks: which products take them as they are, and in which of the library's two forms.
#include "backends/htp/lower/quantized.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

constexpr std::int64_t kIns = 32, kOuts = 2;

struct Product {
  Pieces p;
  i32 x, w;
  // Weights of s4 around 0, two blocks of 16 for each of two output channels: [in, out] and [block, out].
  explicit Product(Vector<float> scales) {
    x = p.input({3, kIns});
    w = p.constant<std::uint8_t>(DType::I4, {kIns, kOuts}, std::vector<std::uint8_t>(kIns, 0xf8));
    p.at(w).quant = qir::Quantization{std::move(scales), {0, 0, 0, 0}, 0, 16};
    p.gives({p.node(Op::MatMul, {x, w})});
    p.at(p.graph.nodes[0].outputs[0]).shape = {3, kOuts};
  }
  void quantise(DType dtype) {
    p.quantized(x, dtype, {0.5f}, {7});
    p.quantized(p.graph.nodes[0].outputs[0], dtype, {0.25f}, {3});
  }
  bool multiplies() { return htp::multiplies_blocks(p.graph, p.graph.nodes[0]); }
  htp::Draft draft(std::uint32_t soc = 57) {
    htp::Draft made;
    Vector<Status> refused(1);
    htp::Lowering lowering(p.graph, *htp::find_soc(soc), p.store, made);
    REQUIRE_OK(lowering.run(refused));
    CHECK_OK(refused[0]);
    return made;
  }
};

const htp::DraftTensor &weights_of(const htp::Draft &draft) {
  for (const htp::DraftNode &node : draft.nodes)
    if (std::string_view(node.type) == "Conv2d") return draft.tensors[static_cast<std::size_t>(node.inputs[1])];
  FAIL("no Conv2d");
  return draft.tensors[0];
}

std::string types(const htp::Draft &draft) {
  std::string text;
  for (const htp::DraftNode &node : draft.nodes) text += (text.empty() ? "" : " ") + std::string(node.type);
  return text;
}

}  // namespace

TEST_CASE("beside integers scales are multiples of one for the output channel") {
  Product product({0.5f, 3, 0.75f, 1});  // 2 and 3 times 0.25, 3 and 1 times 1
  product.quantise(DType::U16);
  CHECK(product.multiplies());
  const htp::Draft draft = product.draft();
  CHECK_EQ(types(draft), "Reshape Conv2d Reshape");
  const htp::DraftTensor &w = weights_of(draft);
  CHECK(w.dtype == qnn::DataType::SQ8);
  CHECK_EQ(w.dims, Vector<std::uint32_t>({1, 1, kIns, kOuts}));
  CHECK_EQ(w.encoding.scales, Vector<float>({0.25f, 1}));
  CHECK_EQ(w.encoding.multipliers, Vector<std::uint8_t>({2, 3, 3, 1}));
  CHECK_EQ(w.encoding.axis, 3);
  const auto *const values = static_cast<const std::int8_t *>(w.data.data);
  CHECK_EQ(std::vector<int>(values, values + 4), std::vector<int>({-8, -1, -8, -1}));
}

TEST_CASE("beside integers other scales, blocks and numbers have no form") {
  Product product({0.5f, 3, 0.75f, 1});
  product.quantise(DType::U8);
  const auto with = [&](auto change) {
    Product other = Product({0.5f, 3, 0.75f, 1});
    other.quantise(DType::U8);
    change(other);
    return other.multiplies();
  };
  CHECK(product.multiplies());
  CHECK_FALSE(with([](Product &o) { o.p.at(o.w).quant->scales[0] = 0.51f; }));
  CHECK_FALSE(with([](Product &o) { o.p.at(o.w).quant->scales[0] = 0; }));
  CHECK_FALSE(with([](Product &o) { o.p.at(o.w).quant->zero_points[0] = 1; }));  // -9 is no number of 4 bits
  CHECK_FALSE(with([](Product &o) { o.p.at(o.w).quant->block_size = 8; }));
  CHECK_FALSE(with([](Product &o) { o.p.at(o.w).quant->axis = 1; }));
  CHECK_FALSE(with([](Product &o) { o.p.at(o.p.graph.nodes[0].outputs[0]).dtype = DType::U16; }));
}

TEST_CASE("beside floats any scales do, from v69 on") {
  Product product({0.51f, 3, 0.75f, 1});
  htp::BlockSources sources;
  const qir::Tensor stored = product.p.at(product.w);
  const auto draft = [&](std::int32_t zero, std::uint32_t soc) {
    Product made({1, 1, 1, 1});
    const i32 reals = made.p.column(static_cast<std::size_t>(kIns * kOuts), {kIns, kOuts});
    made.p.graph.nodes[0].inputs.set(1, reals);
    qir::Quantization quant = *stored.quant;
    quant.zero_points.assign(4, zero);
    sources = {};
    sources.add(made.p.at(reals).data.data, stored, quant);
    htp::Draft out;
    Vector<Status> refused(1);
    htp::Lowering lowering(made.p.graph, *htp::find_soc(soc), product.p.store, out);
    lowering.take_block_sources(sources);
    REQUIRE_OK(lowering.run(refused));
    CHECK_OK(refused[0]);
    return out;
  };
  const htp::Draft plain = draft(0, 57);
  CHECK_EQ(types(plain), "Reshape Cast Conv2d Cast Reshape");
  const htp::Encoding &e = weights_of(plain).encoding;
  CHECK_EQ(e.block, Vector<std::uint32_t>({1, 1, 16, 1}));
  CHECK_EQ(e.bits, 4u);
  CHECK_EQ(e.scales, Vector<float>({0.51f, 0.75f, 3, 1}));  // an output channel's together
  CHECK_EQ(weights_of(draft(3, 57)).encoding.zero_points, Vector<std::int32_t>(4, 3));
  CHECK_EQ(types(draft(0, 30)), "MatMul");
}
