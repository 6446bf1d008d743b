// SPDX-License-Identifier: Apache-2.0
// Where layouts change, what weights look like, what is refused and how: drafts, which no library has seen.
#include "backends/htp/lower/lowering.h"

#include <cmath>
#include <limits>

#include "backends/htp/lower/stretched.h"
#include "base/float16.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

// A graph lowered for one SoC.
struct Lowered {
  explicit Lowered(Pieces &pieces, std::uint32_t soc = 57) : refused(pieces.graph.nodes.size()) {
    htp::Lowering lowering(pieces.graph, *htp::find_soc(soc), pieces.store, draft);
    REQUIRE_OK(lowering.run(refused));
  }
  std::string types() const {
    std::string text;
    for (const htp::DraftNode &node : draft.nodes) text += (text.empty() ? "" : " ") + std::string(node.type);
    return text;
  }
  const htp::DraftTensor &input(std::size_t node, std::size_t which) const {
    return draft.tensors[static_cast<std::size_t>(draft.nodes[node].inputs[which])];
  }
  const htp::DraftTensor &output(std::size_t node) const {
    return draft.tensors[static_cast<std::size_t>(draft.nodes[node].outputs[0])];
  }
  htp::Draft draft;
  Vector<Status> refused;
};

using Dims = Vector<std::uint32_t>;

i32 conv(Pieces &p, i32 x, std::int64_t from, std::int64_t to, std::int64_t size = 3) {
  const std::int64_t pad = size / 2;
  return p.node(Op::Conv, {x, p.column(to * from * size * size, {to, from, size, size}), p.column(to)},
                {Pieces::attribute("pads", Ints{pad, pad, pad, pad})});
}

}  // namespace

TEST_CASE("an image's layout changes at the borders alone") {
  Pieces p;
  const i32 x = p.input({1, 3, 8, 8});
  const i32 a = p.of(Op::Relu, conv(p, x, 3, 16));
  const i32 b = conv(p, a, 16, 16);
  p.gives({conv(p, p.add(a, b), 16, 5, 1)});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Transpose Conv2d Relu Conv2d ElementWiseAdd Conv2d Transpose");
  CHECK_EQ(made.draft.layout_copies, 2u);
  CHECK_EQ(made.output(1).dims, Dims({1, 8, 8, 16}));
  CHECK_EQ(made.input(1, 1).dims, Dims({3, 3, 3, 16}));  // kernel, in, out
}

TEST_CASE("weights are turned on the host") {
  Pieces p;
  const i32 x = p.input({1, 1, 4, 4});
  const i32 w = p.constant<float>(DType::F32, {2, 1, 1, 3}, {1, 2, 3, 4, 5, 6});
  p.gives({p.node(Op::Conv, {x, w})});
  const Lowered made(p);
  const htp::DraftTensor &weights = made.input(1, 1);
  REQUIRE_EQ(weights.data.size, 24u);
  const float *const values = static_cast<const float *>(weights.data.data);
  CHECK_EQ(std::vector<float>(values, values + 6), std::vector<float>({1, 4, 2, 5, 3, 6}));
}

TEST_CASE("a transpose of the model moves nothing where the next node takes what is there") {
  Pieces p;
  const i32 x = p.input({1, 8, 8, 3});  // channels last already, as TensorFlow's exports have it
  p.gives({p.transpose(conv(p, p.transpose(x, {0, 3, 1, 2}), 3, 4), {0, 2, 3, 1})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Conv2d Reshape");
  CHECK_EQ(made.draft.layout_copies, 0u);
}

TEST_CASE("operands that broadcast lie as the image does") {
  Pieces p;
  const i32 x = p.input({1, 3, 8, 8});
  const i32 image = conv(p, x, 3, 4);
  p.gives({p.mul(image, p.column(4, {4, 1, 1}))});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Transpose Conv2d ElementWiseMultiply Transpose");
  CHECK_EQ(made.input(2, 1).dims, Dims({1, 1, 1, 4}));
}

TEST_CASE("dimensions of 1 are not moved") {
  Pieces p;
  const i32 x = p.input({1, 3, 8, 8});
  const i32 pooled = p.of(Op::GlobalAveragePool, conv(p, x, 3, 4));
  p.gives({p.node(Op::Flatten, {pooled})});
  const Lowered made(p);
  CHECK_EQ(made.draft.layout_copies, 1u);
  CHECK_EQ(made.types(), "Transpose Conv2d ReduceMean Reshape Reshape");
}

// The library takes a bias as zero where weights have scales per channel and the bias has one scale.
TEST_CASE("weights with a scale per channel get a bias with one per channel") {
  Pieces p;
  const i32 x = p.quantized(p.input({1, 2, 4, 4}, DType::U8), DType::U8, {0.5f}, {128});
  const i32 w =
      p.quantized(p.constant<std::int8_t>(DType::I8, {2, 2, 1, 1}, {1, 2, 3, 4}), DType::I8, {0.25f, 2}, {0, 0});
  const i32 b = p.constant<std::int32_t>(DType::I32, {2}, {10, 20});
  const i32 y = p.quantized(p.node(Op::Conv, {x, w, b}), DType::U8, {1}, {0});
  p.gives({y});
  const Lowered made(p);
  const htp::DraftTensor &weights = made.input(1, 1), &bias = made.input(1, 2);
  CHECK_EQ(weights.encoding.axis, 3);
  CHECK(bias.dtype == qnn::DataType::SQ32);
  CHECK((bias.encoding.scales == Vector<float>{0.125f, 1}));
}

TEST_CASE("what is refused is reported, and what comes behind is checked all the same") {
  Pieces p;
  const i32 x = p.input({1, 3, 8, 8});
  const i32 det = p.node(Op::Det, {x});
  p.gives({p.of(Op::Relu, det),
           p.node(Op::MaxPool, {x},
                  {Pieces::attribute("kernel_shape", Ints{2, 2}), Pieces::attribute("dilations", Ints{2, 2})})});
  const Lowered made(p);
  CHECK_EQ(made.refused[0].id(), "QR-B0002");
  CHECK_OK(made.refused[1]);
  CHECK_EQ(made.refused[2].id(), "QR-B0004");
  CHECK_NE(made.refused[2].message().find("dilation 2"), std::string_view::npos);
}

TEST_CASE("inputs that nobody reads and outputs that are constants are none of the library's business") {
  Pieces p;
  const i32 x = p.input({2}), unread = p.input({3});
  (void)unread;
  const i32 seven = p.constant<std::int64_t>(DType::I64, {1}, {7});
  p.gives({p.of(Op::Relu, x), seven});
  const Lowered made(p);
  REQUIRE_EQ(made.draft.inputs.size(), 2u);
  CHECK_GE(made.draft.inputs[0].tensor, 0);
  CHECK_EQ(made.draft.inputs[1].tensor, -1);
  CHECK_EQ(made.draft.outputs[1].tensor, -1);
  CHECK_EQ(made.draft.outputs[1].constant.size, 8u);
}

TEST_CASE("a graph of constants alone is refused") {
  Pieces p;
  const i32 x = p.input({2});
  p.gives({p.of(Op::Exp, p.column(2))});
  Lowered made(p);
  refuse_without_inputs(made.draft, made.refused);
  CHECK_EQ(made.refused[0].id(), "QR-B0004");
  p.gives({p.of(Op::Relu, x)});
  Lowered other(p);
  refuse_without_inputs(other.draft, other.refused);
  CHECK_OK(other.refused[0]);
  CHECK_OK(other.refused[1]);
}

namespace {

// Everything that a draft has, as text.
std::string text_of(const htp::Draft &draft) {
  std::string text = std::to_string(draft.layout_copies);
  for (const htp::DraftTensor &tensor : draft.tensors) {
    text += "\n" + std::string(tensor.name.c_str()) + (tensor.type == qnn::TensorType::Static ? " constant" : "");
    for (const std::uint32_t extent : tensor.dims) text += " " + std::to_string(extent);
  }
  for (const htp::DraftNode &node : draft.nodes) {
    text += "\n" + std::string(node.type);
    for (const auto *list : {&node.inputs, &node.outputs})
      for (const i32 id : *list) text += " " + std::to_string(id);
  }
  return text;
}

}  // namespace

TEST_CASE("a rule that refuses in the middle leaves no trace") {
  Pieces p;
  const i32 x = p.input({1, 2, 3, 4}), c = p.column(24, {2, 3, 4});
  const i32 image = conv(p, x, 2, 2);
  p.gives({p.add(image, c), p.transpose(c, {1, 0, 2})});
  const std::string expected = text_of(Lowered(p).draft);
  const auto refuses = [](htp::Lowering &l, const qir::Node &node) -> Status {
    const htp::Order turned{2, 0, 1};
    const i32 copy = l.stored(node.inputs[1], turned), wide = l.broadcast(node.inputs[1], htp::channels_last(4));
    const i32 result = l.result(node.outputs[0], htp::channels_last(4)),
              between = l.between("made", qnn::DataType::F32, {24});
    l.node("Reshape", {copy}, {between});
    l.node("ElementWiseAdd", {wide, between}, {result});
    l.has_encoded(node.outputs[0], between);
    CHECK_EQ(l.encoded(node.outputs[0]), between);
    return htp::refuse(ErrorId::backend_limit, "it refuses in the middle");
  };
  htp::Draft draft;
  htp::Lowering lowering(p.graph, *htp::find_soc(57), p.store, draft);
  CHECK_EQ(lowering.apply(refuses, p.graph.nodes[1]).id(), "QR-B0004");
  CHECK(draft.tensors.empty());
  CHECK(draft.nodes.empty());
  CHECK_EQ(lowering.encoded(p.graph.nodes[1].outputs[0]), -1);
  Vector<Status> refused(p.graph.nodes.size());
  REQUIRE_OK(lowering.run(refused));
  CHECK_EQ(text_of(draft), expected);
}

TEST_CASE("integers past 32 bits are refused by name, but for limits") {
  Pieces p;
  const i32 x = p.input({2}, DType::I64), wide = p.integers({std::int64_t{1} << 40, 5});
  p.gives({p.node(Op::Min, {x, wide}), p.add(x, wide), p.node(Op::Less, {x, wide})});
  const Lowered made(p);
  CHECK_OK(made.refused[0]);
  CHECK_EQ(made.refused[1].id(), "QR-B0004");
  CHECK_NE(made.refused[1].message().find("past 32 bits"), std::string_view::npos);
  CHECK_OK(made.refused[2]);
}

// The library takes negative indices for 0.
TEST_CASE("negative indices are counted from the end, on the host where they are constants") {
  Pieces p;
  const i32 x = p.input({5, 2}), at = p.input({3}, DType::I64);
  const i32 known = p.constant<std::int64_t>(DType::I64, {2}, {-1, 1});
  p.gives({p.node(Op::Gather, {x, at}), p.node(Op::Gather, {x, known})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "ElementWiseLess ElementWiseAdd ElementWiseSelect Gather Gather");
  const auto *const end = static_cast<const std::int32_t *>(made.input(1, 1).data.data);
  CHECK_EQ(*end, 5);
  const auto *const indices = static_cast<const std::int32_t *>(made.input(4, 1).data.data);
  CHECK_EQ(std::vector<std::int32_t>(indices, indices + 2), std::vector<std::int32_t>({4, 1}));
  const i32 wrong = p.constant<std::int64_t>(DType::I64, {1}, {5});
  p.gives({p.node(Op::Gather, {x, wrong})});
  CHECK_EQ(Lowered(p).refused[2].message(), "index 5, expected one from -5 to 4");
}

TEST_CASE("values of half a byte are refused at a border") {
  Pieces p;
  const i32 x = p.quantized(p.input({4}, DType::I4), DType::I4, {1}, {0});
  p.gives({p.of(Op::Identity, x)});
  CHECK_EQ(Lowered(p).refused[0].id(), "QR-B0003");
}

// What the library averages wrongly: padding that is uneven, counts, or is large.
TEST_CASE("averages with odd padding are sums times a map") {
  Pieces p;
  const i32 x = p.input({1, 2, 4, 4});
  p.gives({p.node(Op::AveragePool, {x},
                  {Pieces::attribute("kernel_shape", Ints{3, 3}), Pieces::attribute("pads", Ints{2, 2, 2, 2})})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Transpose DepthWiseConv2d ElementWiseMultiply Transpose");
  CHECK_EQ(made.input(1, 1).dims, Dims({3, 3, 1, 2}));
  const htp::DraftTensor &map = made.input(2, 1);
  REQUIRE_EQ(map.data.size, 36 * sizeof(float));
  const float *const factors = static_cast<const float *>(map.data.data);
  CHECK_EQ(factors[0], 9.0f);       // one of nine lies within
  CHECK_EQ(factors[1], 4.5f);       // two
  CHECK_EQ(factors[2 * 6 + 2], 1);  // all
}

TEST_CASE("a resize that the library has no operation for is a product for each axis") {
  Pieces p;
  const i32 x = p.input({1, 1, 2, 4});
  p.gives({p.node(Op::Resize, {x, qir::kAbsent, p.constant<float>(DType::F32, {4}, {1, 1, 2, 0.5f})},
                  {Pieces::attribute("mode", std::string_view("cubic"))})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Transpose MatMul Transpose MatMul");
  CHECK_EQ(made.input(1, 1).dims, Dims({2, 4}));
  CHECK_EQ(made.input(3, 1).dims, Dims({4, 2}));
  const float *const column = static_cast<const float *>(made.input(1, 1).data.data);
  for (std::size_t y = 0; y < 4; ++y) CHECK(column[y] + column[4 + y] == doctest::Approx(1));
}

TEST_CASE("the last of equal numbers is the first from the end") {
  Pieces p;
  const i32 x = p.input({2, 3});
  p.gives(
      {p.node(Op::ArgMax, {x},
              {Pieces::attribute("axis", std::int64_t{1}), Pieces::attribute("select_last_index", std::int64_t{1})})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Gather Argmax ElementWiseSubtract");
  const auto *const at = static_cast<const std::int32_t *>(made.input(0, 1).data.data);
  CHECK_EQ(std::vector<std::int32_t>(at, at + 3), std::vector<std::int32_t>({2, 1, 0}));
}

TEST_CASE("several normalised axes become one") {
  Pieces p;
  const i32 x = p.input({2, 3, 4});
  p.gives({p.node(Op::LayerNormalization, {x, p.column(12, {3, 4})}, {Pieces::attribute("axis", std::int64_t{1})})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Reshape LayerNorm Reshape");
  CHECK_EQ(made.input(1, 0).dims, Dims({2, 12}));
  CHECK_EQ(made.input(1, 1).dims, Dims({12}));
}

TEST_CASE("a cache that holds nothing is left out") {
  Pieces p;
  const i32 past = p.input({1, 0, 4}), x = p.input({1, 2, 4});
  p.gives({p.of(Op::Relu, p.node(Op::Concat, {past, x}, {Pieces::attribute("axis", std::int64_t{1})}))});
  const Lowered made(p);
  CHECK_OK(made.refused[0]);
  CHECK_EQ(made.types(), "Relu");
  CHECK_EQ(made.draft.inputs[0].tensor, -1);
}

// 0 * infinity is NaN, and a row that is masked wholly too.
TEST_CASE("masks are within the numbers of f16, and so is what is compared with them") {
  Pieces p;
  const i32 x = p.input({2}), mask = p.constant<float>(DType::F32, {2}, {-INFINITY, 1});
  p.gives({p.add(x, mask), p.node(Op::Less, {x, p.constant<float>(DType::F32, {2}, {INFINITY, 1})})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "ElementWiseAdd ReluMinMax ElementWiseLess");
  CHECK_EQ(static_cast<const float *>(made.input(0, 1).data.data)[0], -65504.0f);
  CHECK_EQ(static_cast<const float *>(made.input(2, 1).data.data)[0], 65504.0f);
}

// A sum of two masks is less than either.
TEST_CASE("what is compared with a number past f16 is brought to its limits") {
  const auto compared = [](Op op, DType dtype, bool first, std::initializer_list<float> values) {
    Pieces p;
    const i32 x = p.input({2}, dtype);
    i32 by;
    if (dtype == DType::F32) {
      by = p.constant<float>(dtype, {static_cast<std::int64_t>(values.size())}, values);
    } else {
      std::vector<std::uint16_t> halves;
      for (const float v : values) halves.push_back(f32_to_f16(v));
      by = p.constant<std::uint16_t>(dtype, {static_cast<std::int64_t>(values.size())}, halves);
    }
    p.gives({first ? p.node(op, {by, x}) : p.node(op, {x, by})});
    return Lowered(p).types();
  };
  for (const Op op : {Op::Equal, Op::LessOrEqual, Op::Greater})
    for (const bool first : {false, true})
      for (const float value : {-INFINITY, INFINITY, std::numeric_limits<float>::lowest()}) {
        const std::string name = op == Op::Equal ? "Equal" : op == Op::Greater ? "Greater" : "LessEqual";
        CHECK_EQ(compared(op, DType::F32, first, {value}), "ReluMinMax ElementWise" + name);
        CHECK_EQ(compared(op, DType::F16, first, {value, 1}), "ReluMinMax ReluMinMax ElementWise" + name);
      }
  CHECK_EQ(compared(Op::Equal, DType::F32, false, {-65504}), "ElementWiseEqual");
  CHECK_EQ(compared(Op::Equal, DType::F16, false, {-65504}), "ElementWiseEqual");
}

TEST_CASE("a product with factors, and one that is asked for more than its kernel reaches") {
  Pieces p;
  const i32 x = p.input({2, 3});
  p.gives({p.node(Op::Gemm, {x, p.column(12, {3, 4}), p.column(4)},
                  {Pieces::attribute("alpha", 0.5f), Pieces::attribute("beta", 2.0f)})});
  CHECK_EQ(Lowered(p).types(), "MatMul ElementWiseMultiply ElementWiseMultiply ElementWiseAdd");
  // Constant weights have reached that far since passes::decompose_unsupported.
  Pieces q;
  q.gives({q.node(Op::ConvTranspose, {q.input({1, 1, 3, 3}), q.input({1, 1, 3, 3})},
                  {Pieces::attribute("strides", Ints{3, 2}), Pieces::attribute("output_shape", Ints{10, 8})})});
  CHECK_EQ(Lowered(q).refused[0].message(),
           "an output of 10 by weights that are no constant, expected at most the 9 that the kernel reaches, and no "
           "negative pads");
}

TEST_CASE("pools of three axes are two of images") {
  Pieces p;
  p.gives({p.node(Op::MaxPool, {p.input({2, 3, 6, 8, 10})},
                  {Pieces::attribute("kernel_shape", Ints{3, 2, 2}), Pieces::attribute("strides", Ints{3, 2, 2})})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Transpose Reshape PoolMax2d Reshape PoolMax2d Reshape Transpose");
  CHECK_EQ(made.output(2).dims, Dims({12, 4, 5, 3}));
  CHECK_EQ(made.output(4).dims, Dims({2, 2, 20, 3}));
}

// The library puts them into the convolution as tables that are 0.004 (Sigmoid) to 0.016 (Elu) off.
TEST_CASE("curves stay beside convolutions") {
  const auto behind = [](bool convolution, const auto &write) {
    Pieces p;
    const i32 x = p.input({1, 2, 4, 4});
    p.gives({write(p, convolution ? conv(p, x, 2, 4) : x)});
    return Lowered(p).types();
  };
  const auto of = [](Op op) { return [op](Pieces &p, i32 x) { return p.of(op, x); }; };
  CHECK_EQ(behind(true, of(Op::Sigmoid)), "Transpose Conv2d ReluMinMax Sigmoid Transpose");
  CHECK_EQ(behind(true, of(Op::Tanh)), "Transpose Conv2d ReluMinMax Tanh Transpose");
  CHECK_EQ(behind(false, of(Op::Sigmoid)), "Sigmoid");
  CHECK_EQ(behind(true, [](Pieces &p, i32 x) { return p.of(Op::Tanh, p.mul(x, p.scalar(0.5f))); }),
           "Transpose Conv2d ElementWiseMultiply ReluMinMax Tanh Transpose");
  CHECK_EQ(behind(true, [](Pieces &p, i32 x) { return p.of(Op::Tanh, p.mul(x, x)); }),
           "Transpose Conv2d ElementWiseMultiply ReluMinMax Tanh Transpose");
  CHECK_EQ(behind(true, [](Pieces &p, i32 x) { return p.of(Op::Tanh, p.of(Op::Relu, x)); }),
           "Transpose Conv2d Relu Tanh Transpose");
  CHECK_EQ(behind(false, of(Op::Swish)), "ElementWiseMultiply Tanh ElementWiseAdd ElementWiseMultiply");
  CHECK_EQ(behind(false, of(Op::Elu)), "ElementWiseMinimum Relu ElementWiseExp ElementWiseAdd ElementWiseAdd");
}

TEST_CASE("indices of several axes are one list") {
  Pieces p;
  const i32 x = p.input({2, 3, 4}), at = p.constant<std::int64_t>(DType::I64, {2, 2}, {0, -1, 2, 1});
  p.gives({p.node(Op::Gather, {x, at}, {Pieces::attribute("axis", std::int64_t{1})})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Gather Reshape");
  CHECK_EQ(made.input(0, 1).dims, Dims({4}));
  CHECK_EQ(made.output(0).dims, Dims({2, 4, 4}));
  CHECK_EQ(made.output(1).dims, Dims({2, 2, 2, 4}));
}

// The library has it as an end before the first element by a bit alone: any number is a place from the end.
TEST_CASE("a slice backwards over a whole axis has no end") {
  Pieces p;
  const i32 x = p.input({3, 7});
  p.gives({p.node(Op::Slice, {x, p.integers({-1}), p.integers({-100}), p.integers({1}), p.integers({-2})})});
  const Lowered made(p);
  for (const htp::DraftParam &param : made.draft.nodes[0].params)
    if (std::string_view(param.name) == "end_mask") CHECK_EQ(std::get<std::uint32_t>(param.value), 2u);
}

TEST_CASE("padding that reaches over a window stands apart, and so do strides over a depthwise kernel") {
  Pieces p;
  const i32 x = p.input({1, 2, 8, 8});
  p.gives({p.node(Op::Conv, {x, p.column(12, {2, 2, 3, 1})}, {Pieces::attribute("pads", Ints{1, 1, 1, 1})}),
           p.node(Op::Conv, {x, p.column(2, {2, 1, 1, 1})},
                  {Pieces::attribute("group", std::int64_t{2}), Pieces::attribute("strides", Ints{3, 3})})});
  const Lowered made(p);
  CHECK_EQ(made.types(), "Transpose Concat ReluMinMax Conv2d DepthWiseConv2d Transpose Transpose");
  CHECK_EQ(made.output(2).dims, Dims({1, 8, 10, 2}));  // along one axis alone
  CHECK_EQ(made.input(4, 1).dims, Dims({3, 3, 1, 2}));
}

TEST_CASE("a sum with one matrix for several batches is kept apart from what is wrong behind it") {
  const auto types = [](Op behind, qir::Shape shape) {
    Pieces p;
    const i32 x = p.input({2, 16, 32});
    const std::int64_t count = shape[0] * (shape.size() > 1 ? shape[1] : 1);
    p.gives({p.of(behind, p.add(x, p.column(count, std::move(shape))))});
    Lowered made(p);
    htp::keep_stretched_apart(made.draft, *htp::find_soc(57), p.store);
    return made.types();
  };
  CHECK_EQ(types(Op::Sigmoid, {16, 32}), "ElementWiseAdd ReluMinMax Sigmoid");
  CHECK_EQ(types(Op::Softmax, {16, 32}), "ElementWiseAdd Softmax");
  CHECK_EQ(types(Op::Sigmoid, {32}), "ElementWiseAdd Sigmoid");
}

TEST_CASE("a row's types are what lowering checks, and what it says") {
  const auto refusal = [](Op op, DType dtype, std::size_t operands) {
    Pieces p;
    Vector<i32> inputs;
    for (std::size_t i = 0; i < operands; ++i) inputs.push_back(p.input({4}, dtype));
    p.gives({p.node(op, std::move(inputs))});
    Lowered made(p);
    return std::string(made.refused[0].message());
  };
  CHECK_EQ(refusal(Op::Sign, DType::I32, 1),
           "Sign of i32 without a quantisation, expected floats, quantised i8 i16 u8 u16");
  CHECK_EQ(refusal(Op::Greater, DType::U32, 2),
           "Greater of u32 without a quantisation, expected floats i8 i16 i32 i64 u8 u16, quantised i8 i16 u8 u16");
  CHECK_EQ(refusal(Op::Max, DType::U8, 2), "");
  CHECK_EQ(refusal(Op::Add, DType::I64, 2), "");
  CHECK(
      refusal(Op::Add, DType::U8, 2).starts_with("Add of u8 without a quantisation"));  // decomposed before, or refused
}

TEST_CASE("a mask times its transpose is kept apart from their Reshapes") {
  const auto types = [](DType dtype, Op op) {
    Pieces p;
    const i32 x = p.input({2, 12}, dtype);
    p.gives({p.node(op, {p.node(Op::Reshape, {x, p.integers({2, 1, 1, 12})}),
                         p.node(Op::Reshape, {x, p.integers({2, 1, 12, 1})})})});
    Lowered made(p);
    htp::keep_stretched_apart(made.draft, *htp::find_soc(57), p.store);
    return made.types();
  };
  CHECK_EQ(types(DType::I64, Op::Mul), "Reshape Reshape ElementWiseMaximum ElementWiseMultiply");
  CHECK_EQ(types(DType::I32, Op::Add), "Reshape Reshape ElementWiseAdd");
  CHECK_EQ(types(DType::F32, Op::Mul), "Reshape Reshape ElementWiseMultiply");
}

TEST_CASE("scales that the library counts as zero are refused by name") {
  for (const float scale : {1e-39f, 2e-38f}) {
    Pieces p;
    const i32 zero = p.constant<std::uint8_t>(DType::U8, {}, {100}), unit = p.scalar(scale);
    p.gives({p.node(Op::DequantizeLinear, {p.node(Op::QuantizeLinear, {p.input({4}), unit, zero}), unit, zero})});
    const Lowered made(p);
    CHECK_EQ(made.refused[0].ok(), scale > 1e-38f);
    if (scale < 1e-38f) CHECK(made.refused[0].message().find("found a scale of") != std::string_view::npos);
  }
}

TEST_CASE("a convolution of three axes is one of two for each place of its depth, on v68 alone") {
  const auto lowered = [](std::uint32_t soc) {
    Pieces p;
    const i32 x = p.input({2, 3, 7, 8, 9});
    p.gives({p.node(Op::Conv, {x, p.column(4 * 3 * 3 * 9, {4, 3, 3, 3, 3}), p.column(4)},
                    {Pieces::attribute("pads", Ints{1, 0, 1, 0, 0, 1}), Pieces::attribute("strides", Ints{2, 1, 1})})});
    return Lowered(p, soc);
  };
  CHECK_EQ(lowered(57).types(), "Transpose Conv3d Transpose");
  const Lowered made = lowered(30);
  CHECK_EQ(made.types(),
           "Transpose Concat ReluMinMax StridedSlice Reshape Conv2d StridedSlice Reshape Conv2d ElementWiseAdd "
           "StridedSlice Reshape "
           "Conv2d ElementWiseAdd Reshape Transpose");
  CHECK_EQ(made.output(1).dims, Dims({2, 8, 8, 9, 3}));
  CHECK_EQ(made.output(3).dims, Dims({2, 3, 8, 9, 3}));
  CHECK_EQ(made.input(5, 1).dims, Dims({3, 3, 3, 4}));
  CHECK_EQ(made.draft.nodes[5].inputs.size(), 3u);  // the bias, once
  CHECK_EQ(made.draft.nodes[8].inputs.size(), 2u);
}

TEST_CASE("what QuantizeLinear made is stored in steps of 1 for who reads integers") {
  const auto types = [](bool other) {
    Pieces p;
    const i32 x = p.input({4}), scale = p.scalar(0.5f), more = p.scalar(0.25f),
              zero = p.constant<std::uint8_t>(DType::U8, {}, {100});
    const i32 q = p.node(Op::QuantizeLinear, {x, scale, zero});
    p.gives({p.node(Op::DequantizeLinear, {q, other ? more : scale, zero})});
    return Lowered(p).types();
  };
  CHECK_EQ(types(false), "ReluMinMax Quantize Dequantize");
  CHECK_EQ(types(true),
           "ReluMinMax ElementWiseMultiply ElementWiseRound ElementWiseAdd ReluMinMax Quantize Dequantize "
           "ElementWiseSubtract ElementWiseMultiply");
}
