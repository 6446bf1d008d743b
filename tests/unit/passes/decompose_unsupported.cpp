// SPDX-License-Identifier: Apache-2.0
// Operators that a backend lacks, before and after they are written as others.
#include "tests/cases/cases.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

// Everything but the operators that others are made of is wanted.
bool wanted(const qir::Graph &, const qir::Node &) { return true; }

void check_same(Pieces &p, const char *becomes, double limit = 1e-6) {
  const std::vector<double> expected = run(p.graph);
  passes::decompose_unsupported(p.graph, p.store, wanted);
  if (becomes) CHECK_EQ(ops(p.graph), becomes);
  CHECK(difference(run(p.graph), expected) <= limit);
  for (const qir::Node &node : p.graph.nodes) CHECK_GE(node.source, 0);
}

i32 u8_input(Pieces &p, qir::Shape shape) { return p.input(std::move(shape), DType::U8); }

}  // namespace

TEST_CASE("functions of elements are written as others") {
  struct Case {
    Op op;
    bool within_one;  // of arguments between -1 and 1
    const char *becomes;
  };
  const Case cases[] = {
      {Op::Acos, true, nullptr},
      {Op::Asin, true, nullptr},
      {Op::Asinh, false, nullptr},
      {Op::Atanh, true, nullptr},
      {Op::Cosh, false, "Sub Exp Neg Sub Exp Add Identity"},
      {Op::Sinh, false, nullptr},
      {Op::Tan, false, nullptr},
      {Op::Hardmax, false, "ArgMax Equal Cast"},
      {Op::ThresholdedRelu, false, "Greater Where Identity"},
      {Op::Shrink, false, nullptr},
  };
  for (const Case &c : cases) {
    CAPTURE(qir::op_name(c.op));
    Pieces p;
    i32 x = p.input({3, 50});
    if (c.within_one) x = p.of(Op::Tanh, x);
    p.gives({p.of(c.op, x)});
    const std::size_t before = c.within_one ? 1 : 0;
    const std::vector<double> expected = run(p.graph);
    passes::decompose_unsupported(p.graph, p.store, wanted);
    CHECK_EQ(count(p.graph, c.op), 0u);
    if (c.becomes) CHECK_EQ(ops(p.graph), c.becomes);
    CHECK_GT(p.graph.nodes.size(), before);
    CHECK(difference(run(p.graph), expected) < 1e-5);
  }
  Pieces p;  // Acosh of 1 to 301, past where its square has no room in f16
  p.gives({p.of(Op::Acosh, p.add(p.mul(p.of(Op::Abs, p.input({200})), 75.0), 1.0))});
  check_same(p, nullptr, 1e-5);
  Pieces norms;
  norms.gives({norms.of(Op::GlobalLpPool, norms.input({2, 3, 4, 5}))});
  check_same(norms, "ReduceL2");
}

TEST_CASE("a backend says which nodes are written as others") {
  Pieces p;
  p.gives({p.of(Op::Tan, p.of(Op::Sinh, p.input({4})))});
  passes::decompose_unsupported(p.graph, p.store,
                                [](const qir::Graph &, const qir::Node &node) { return node.op == Op::Sinh; });
  CHECK_EQ(count(p.graph, Op::Sinh), 0u);
  CHECK_EQ(count(p.graph, Op::Tan), 1u);
}

TEST_CASE("kernels with holes, and matrices known before the run") {
  Pieces p;
  const i32 x = p.input({1, 2, 5, 4});
  p.gives({p.node(Op::ConvTranspose, {x, p.column(2 * 3 * 3 * 2, {2, 3, 3, 2})},
                  {Pieces::attribute("dilations", Ints{2, 3}), Pieces::attribute("strides", Ints{2, 1}),
                   Pieces::attribute("pads", Ints{1, 0, 1, 2})})});
  check_same(p, "ConvTranspose");
  CHECK_EQ(*p.graph.nodes[0].get_ints("dilations"), Ints({1, 1}));
  CHECK_EQ(p.at(p.graph.nodes[0].inputs[1]).shape, qir::Shape({2, 3, 5, 4}));

  // What nothing of the kernel reaches: rows and columns of the bias.
  Pieces beyond;
  beyond.gives({beyond.node(Op::ConvTranspose,
                            {beyond.input({1, 2, 5, 4}), beyond.column(2 * 3 * 2, {2, 3, 1, 2}), beyond.column(3, {3})},
                            {Pieces::attribute("strides", Ints{3, 3}), Pieces::attribute("pads", Ints{0, 1, 0, 0}),
                             Pieces::attribute("output_padding", Ints{2, 1})})});
  check_same(beyond, "ConvTranspose");
  CHECK_EQ(beyond.at(beyond.graph.nodes[0].inputs[1]).shape, qir::Shape({2, 3, 3, 3}));

  // One 1 in each kernel; the last row of the image is in no column.
  Pieces columns;
  columns.gives(
      {columns.node(Op::Col2Im, {columns.input({1, 8, 6}), columns.integers({5, 6}), columns.integers({2, 2})},
                    {Pieces::attribute("strides", Ints{2, 2}), Pieces::attribute("pads", Ints{0, 0, 0, 0}),
                     Pieces::attribute("dilations", Ints{1, 1})})});
  check_same(columns, "Reshape ConvTranspose");

  Pieces grid;
  grid.gives({grid.node(Op::AffineGrid, {grid.input({2, 2, 3}), grid.integers({2, 1, 4, 5})})});
  check_same(grid, "Slice Reshape Mul Slice Reshape Mul Slice Reshape Add Add");

  Pieces eye;
  eye.gives({eye.add(eye.node(Op::EyeLike, {eye.input({3, 4})}, {Pieces::attribute("k", std::int64_t{1})}), 1.0)});
  check_same(eye, "Add");
}

// Of an infinity, or of what overflows, a decomposition gives what its operator gives: nothing is multiplied by a zero
// that the operator does not multiply by.
TEST_CASE("infinities stay where they are") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto check = [](Pieces &p, Op gone) {
    CAPTURE(qir::op_name(gone));
    const std::vector<double> expected = run(p.graph);
    passes::decompose_unsupported(p.graph, p.store, wanted);
    REQUIRE_EQ(count(p.graph, gone), 0u);
    const std::vector<double> found = run(p.graph);
    REQUIRE_EQ(found.size(), expected.size());
    std::size_t other = 0, whole = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      whole += std::isfinite(expected[i]);
      if (std::isfinite(expected[i]))
        other += !(std::fabs(found[i] - expected[i]) <= 1e-5 * (1 + std::fabs(expected[i])));
      else other += std::isnan(expected[i]) ? !std::isnan(found[i]) : found[i] != expected[i];
    }
    CHECK_EQ(other, 0u);
    CHECK_LT(whole, found.size());  // the infinity is there
  };
  for (const std::int64_t corners : {0, 1})
    for (std::size_t at = 0; at < 6; ++at)
      for (const float value : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
        CAPTURE(at);
        std::vector<float> theta = {0.5f, 0.25f, 2, -1, 0.75f, 1};
        theta[at] = value;
        Pieces p;
        p.gives({p.node(Op::AffineGrid, {p.constant(DType::F32, {1, 2, 3}, theta), p.integers({1, 1, 3, 4})},
                        {Pieces::attribute("align_corners", corners)})});
        check(p, Op::AffineGrid);
      }
  for (const char *const reduction : {"none", "sum", "mean"}) {
    Pieces p;  // the weight of a class that is nobody's target
    const i32 weights = p.constant<float>(DType::F32, {3}, {1, kInf, 2}),
              target = p.constant<std::int64_t>(DType::I64, {2}, {0, 2});
    const i32 loss = p.node(Op::NegativeLogLikelihoodLoss, {p.input({2, 3}), target, weights},
                            {Pieces::attribute("reduction", std::string_view(reduction))});
    p.gives(
        {p.node(Op::Concat, {p.node(Op::Reshape, {loss, p.integers({-1})}), p.constant<float>(DType::F32, {1}, {kInf})},
                {Pieces::attribute("axis", std::int64_t{0})})});
    check(p, Op::NegativeLogLikelihoodLoss);
  }
  const std::vector<float> numbers = {1, kInf, -2, 0.5f, -kInf, 3, 0, 2};
  const std::pair<Op, Vector<qir::Attribute>> others[] = {
      {Op::CumProd, {}}, {Op::CenterCropPad, {}}, {Op::Hardmax, {}}, {Op::ThresholdedRelu, {}},
      {Op::Shrink, {}},  {Op::Cosh, {}},          {Op::Sinh, {}},    {Op::Asinh, {}},
  };
  for (const auto &[op, attributes] : others) {
    Pieces p;
    const i32 x = p.constant<float>(DType::F32, {2, 4}, numbers);
    Vector<i32> inputs = {x};
    if (op == Op::CumProd) inputs.push_back(p.constant<std::int64_t>(DType::I64, {}, {1}));
    if (op == Op::CenterCropPad) inputs.push_back(p.integers({4, 4}));
    const i32 made = p.node(op, inputs, attributes);
    p.gives({p.node(Op::Concat, {made, p.constant<float>(DType::F32, {1, 4}, {kInf, 0, 0, 0})},
                    {Pieces::attribute("axis", std::int64_t{0})})});
    check(p, op);
  }
}

TEST_CASE("functions that nobody has a better form of are their expressions") {
  std::string left;
  for (const FunctionCase &one : kFunctionCases) {
    CAPTURE(qir::op_name(one.op));
    Pieces p;
    std::vector<float> x(17);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(one.low + (one.high - one.low) * static_cast<double>(i) / 16);
    p.gives({p.of(one.op, p.constant<float>(DType::F32, {17}, x))});
    const std::vector<double> expected = run(p.graph);
    passes::decompose_unsupported(p.graph, p.store, wanted);
    if (count(p.graph, one.op) > 0) {
      left += std::string(left.empty() ? "" : " ") + qir::op_name(one.op);
      continue;
    }
    CHECK(difference(run(p.graph), expected) < 1e-5);
  }
  // Those of the device's own functions alone, and of logarithms that an exporter writes as one.
  CHECK_EQ(left, "Abs Atan Ceil Cos Erf Exp Floor Identity Log Mish Neg Round Sign Sin Softplus Sqrt Tanh");
}

TEST_CASE("pools with holes, and where their largest elements stand") {
  Pieces p;
  p.gives({p.node(Op::MaxPool, {p.input({1, 2, 9, 7})},
                  {Pieces::attribute("kernel_shape", Ints{3, 2}), Pieces::attribute("dilations", Ints{2, 3}),
                   Pieces::attribute("strides", Ints{2, 1}), Pieces::attribute("pads", Ints{1, 1, 2, 0})})});
  check_same(p, nullptr, 0);
  CHECK_EQ(count(p.graph, Op::MaxPool), 0u);
  CHECK_EQ(count(p.graph, Op::Max), 3u);  // axis by axis

  for (const std::int64_t storage_order : {0, 1}) {
    Pieces places;
    const i32 x = places.input({2, 3, 6, 5});
    places.node(Op::MaxPool, {x},
                {Pieces::attribute("kernel_shape", Ints{3, 2}), Pieces::attribute("strides", Ints{2, 2}),
                 Pieces::attribute("pads", Ints{1, 0, 1, 1}), Pieces::attribute("storage_order", storage_order)});
    const i32 where = places.tensor(DType::I64, {2, 3, 3, 3});
    places.graph.nodes[0].outputs.push_back(where);
    places.gives({where});
    check_same(places, nullptr, 0);
    CHECK_EQ(count(places.graph, Op::MaxPool), 0u);
  }
}

TEST_CASE("integers are computed as reals where they have a meaning, and wide where they wrap") {
  Pieces conv;
  std::vector<std::uint8_t> weights;
  for (int i = 0; i < 4 * 3 * 3 * 3; ++i) weights.push_back(static_cast<std::uint8_t>(i * 37));
  conv.gives({conv.node(Op::ConvInteger,
                        {u8_input(conv, {1, 3, 6, 6}), conv.constant(DType::U8, {4, 3, 3, 3}, weights),
                         conv.node(Op::Cast, {conv.input({})}, {Pieces::attribute("to", std::int64_t{2})}),
                         conv.constant<std::uint8_t>(DType::U8, {}, {100})},
                        {Pieces::attribute("pads", Ints{1, 1, 1, 1})})});
  check_same(conv, nullptr, 1e-6);
  CHECK_EQ(count(conv.graph, Op::ConvInteger), 0u);

  Pieces product;
  product.gives({product.node(
      Op::MatMulInteger, {u8_input(product, {5, 9}),
                          product.constant<std::uint8_t>(DType::U8, {9, 3}, {weights.begin(), weights.begin() + 27}),
                          qir::kAbsent, product.constant<std::uint8_t>(DType::U8, {3}, {1, 2, 3})})});
  check_same(product, nullptr, 1e-6);
  CHECK_EQ(count(product.graph, Op::MatMulInteger), 0u);

  Pieces real;
  real.gives({real.node(Op::DequantizeLinear,
                        {u8_input(real, {2, 3, 4}), real.constant<float>(DType::F32, {3}, {0.5f, 1, 2}),
                         real.constant<std::uint8_t>(DType::U8, {3}, {3, 128, 255})},
                        {Pieces::attribute("axis", std::int64_t{1})})});
  check_same(real, "Reshape Cast Reshape Cast Sub Mul");

  Pieces counted;
  counted.gives({counted.node(Op::QuantizeLinear, {counted.input({2, 3, 4}), counted.of(Op::Exp, counted.input({})),
                                                   counted.constant<std::uint8_t>(DType::U8, {}, {7})})});
  check_same(counted, "Exp Reshape Cast Reshape Div Round Add Clip Cast", 0);

  for (const Op op : {Op::Add, Op::Sub, Op::Mul}) {
    for (const DType dtype : {DType::U8, DType::I8}) {
      CAPTURE(qir::op_name(op));
      Pieces p;
      p.gives({p.node(op, {p.input({300}, dtype), p.input({300}, dtype)})});
      check_same(p, nullptr, 0);
      CHECK(p.at(p.graph.nodes[2].outputs[0]).dtype == DType::I32);
    }
  }

  Pieces rest;
  rest.gives({rest.node(Op::Mod, {rest.input({300}), rest.add(rest.of(Op::Abs, rest.input({300})), 0.5)},
                        {Pieces::attribute("fmod", std::int64_t{1})})});
  check_same(rest, nullptr, 1e-5);
  CHECK_EQ(count(rest.graph, Op::Mod), 0u);
}

TEST_CASE("pools of three axes with holes, and of powers") {
  Pieces p;
  p.gives({p.node(Op::MaxPool, {p.input({2, 2, 5, 6, 4})},
                  {Pieces::attribute("kernel_shape", Ints{2, 2, 2}), Pieces::attribute("dilations", Ints{2, 2, 3}),
                   Pieces::attribute("pads", Ints{1, 0, 0, 0, 1, 1})})});
  check_same(p, nullptr, 0);
  for (const qir::Node &node : p.graph.nodes)
    if (node.op == Op::Max) CHECK_EQ(p.at(node.outputs[0]).shape.size(), 4u);
  for (std::int64_t power = 1; power <= 4; ++power) {
    Pieces lp;
    lp.gives({lp.node(Op::LpPool, {lp.input({1, 2, 7, 6})},
                      {Pieces::attribute("kernel_shape", Ints{3, 2}), Pieces::attribute("p", power),
                       Pieces::attribute("pads", Ints{1, 0, 1, 1}), Pieces::attribute("strides", Ints{2, 1})})});
    check_same(lp, nullptr, 1e-5);
    CHECK_EQ(count(lp.graph, Op::AveragePool), 1u);
  }
}

TEST_CASE("the first of equal elements is first") {
  for (const std::int64_t axis : {0, 1, -1}) {
    for (const std::int64_t largest : {0, 1}) {
      for (const std::size_t which : {0u, 1u}) {
        Pieces p;
        const i32 x = p.of(Op::Round, p.input({5, 6, 7}));  // of nine numbers
        qir::Shape shape = {5, 6, 7};
        shape[static_cast<std::size_t>(axis < 0 ? 2 : axis)] = 4;
        const i32 k = p.integers({4}), values = p.tensor(DType::F32, shape), indices = p.tensor(DType::I64, shape);
        qir::Node &node = p.graph.nodes.emplace_back();
        node.op = Op::TopK;
        node.name = "top";
        node.source = 1;
        node.inputs = {x, k};
        node.outputs = {values, indices};
        node.set("axis", axis);
        node.set("largest", largest);
        p.gives({which == 0 ? values : indices});
        check_same(p, nullptr, 0);
        CHECK_EQ(count(p.graph, Op::TopK), 0u);
      }
    }
  }
}

TEST_CASE("random numbers of a tensor's shape are those of a shape") {
  for (const Op op : {Op::RandomNormalLike, Op::RandomUniformLike}) {
    Pieces p;
    p.gives({p.node(op, {p.input({3, 5})}, {Pieces::attribute("seed", 3.0f)})});
    check_same(p, op == Op::RandomNormalLike ? "RandomNormal" : "RandomUniform", 0);
  }
}

TEST_CASE("regions have the largest element of each bin") {
  const std::vector<float> regions = {0, 1, 2, 9, 7, 1, 0,  0,  15,   11,   0, 3.4f, 5.5f, 4.5f, 20, 1, 5, 5, 5,     5,
                                      0, 9, 9, 2, 2, 1, -6, -8, -2.5, -3.5, 0, 20,   20,   30,   30, 0, 2, 1, 14.5f, 9};
  const auto count_of = static_cast<std::int64_t>(regions.size() / 5);
  for (const bool known : {false, true})
    for (const float scale : {1.0f, 0.5f})
      for (const std::int64_t bins : {1, 2, 5}) {
        CAPTURE(bins);
        Pieces p;
        const i32 x = p.input({2, 3, 12, 16}), given = p.constant<float>(DType::F32, {count_of, 5}, regions);
        p.gives(
            {p.node(Op::MaxRoiPool, {x, known ? given : p.of(Op::Identity, given)},
                    {Pieces::attribute("pooled_shape", Ints{bins, 3}), Pieces::attribute("spatial_scale", scale)})});
        check_same(p, nullptr, 0);
        CHECK_EQ(count(p.graph, Op::MaxRoiPool), 0u);
      }
  Pieces large;
  large.gives({large.node(Op::MaxRoiPool, {large.input({1, 1 << 10, 64, 64}), large.input({64, 5})},
                          {Pieces::attribute("pooled_shape", Ints{2, 2})})});
  passes::decompose_unsupported(large.graph, large.store, wanted);
  CHECK_EQ(ops(large.graph), "MaxRoiPool");
}

TEST_CASE("reals of 16 bits are computed in f32 where only that has another form") {
  for (const DType dtype : {DType::F16, DType::BF16}) {
    CAPTURE(dtype_name(dtype));
    Pieces p;
    const i32 theta = p.input({2, 2, 3}, dtype), size = p.constant<std::int64_t>(DType::I64, {4}, {2, 1, 3, 4});
    p.gives({p.node(Op::AffineGrid, {theta, size})});
    const std::vector<double> expected = run(p.graph);
    passes::decompose_unsupported(p.graph, p.store, wanted);
    CHECK_EQ(ops(p.graph), "AffineGrid");
    CHECK(passes::compute_in_f32(p.graph, p.store, wanted));
    CHECK_EQ(ops(p.graph), "Cast AffineGrid Cast");
    passes::decompose_unsupported(p.graph, p.store,
                                  [](const qir::Graph &, const qir::Node &node) { return node.op == Op::AffineGrid; });
    CHECK_EQ(count(p.graph, Op::AffineGrid), 0u);
    CHECK(difference(run(p.graph), expected) <= (dtype == DType::F16 ? 2e-3 : 1.6e-2));
    for (const qir::Node &node : p.graph.nodes) CHECK_GE(node.source, 0);
  }
  Pieces p;
  p.gives({p.of(Op::Relu, p.input({3}))});
  CHECK_FALSE(passes::compute_in_f32(p.graph, p.store, wanted));
}

TEST_CASE("what has no decomposition stays") {
  Pieces p;
  const i32 x = u8_input(p, {2, 3});
  const i32 w = u8_input(p, {3, 2});
  p.gives({p.node(Op::MatMulInteger, {x, w})});
  check_same(p, "MatMulInteger", 0);
}

TEST_CASE("losses compare all classes with the target") {
  for (const char *const reduction : {"none", "sum", "mean"}) {
    for (const Op op : {Op::NegativeLogLikelihoodLoss, Op::SoftmaxCrossEntropyLoss}) {
      for (const std::int64_t ignored : {2, -100}) {
        Pieces p;
        const i32 x = p.input({2, 4, 3, 2});
        const std::vector<std::int64_t> targets = {0, 1, 2, 3, ignored, 1, 3, 2, 1, 0, ignored, 3};
        const i32 target = p.constant<std::int64_t>(DType::I64, {2, 3, 2}, targets), weights = p.column(4, {4});
        p.gives({p.node(op, {x, target, weights},
                        {Pieces::attribute("reduction", std::string_view(reduction)),
                         Pieces::attribute("ignore_index", ignored)})});
        check_same(p, nullptr, 1e-5);
        CHECK_EQ(count(p.graph, op), 0u);
      }
    }
  }
}

TEST_CASE("elements that go elsewhere are sliced, padded and gathered") {
  using Ints = Vector<std::int64_t>;
  Pieces crop;
  crop.gives({crop.node(Op::CenterCropPad, {crop.input({5, 4, 3}), crop.integers({3, 7})},
                        {Pieces::attribute("axes", Ints{0, -1})})});
  check_same(crop, "Slice Pad", 0);
  Pieces both;  // one axis cut and padded, one cut at both ends
  both.gives({both.node(Op::Pad, {both.input({5, 6}), both.integers({-2, -1, 3, -2}), both.scalar(4)}, {})});
  check_same(both, "Slice Slice Pad", 0);
  Pieces cut;
  cut.gives({cut.node(Op::Pad, {cut.input({5, 6}), cut.integers({-1, 0}), qir::kAbsent, cut.integers({-1})},
                      {Pieces::attribute("mode", std::string_view("edge"))})});
  check_same(cut, "Slice Identity", 0);
  Pieces apart;
  apart.gives({apart.node(Op::Pad, {apart.input({5, 6}), apart.integers({-1, 2, 0, 1})},
                          {Pieces::attribute("mode", std::string_view("edge"))})});
  check_same(apart, "Slice Pad", 0);
  Pieces wrapped;
  wrapped.gives({wrapped.node(Op::Pad, {wrapped.input({5, 6}), wrapped.integers({-1, 2, 3, -1})},
                              {Pieces::attribute("mode", "wrap")})});
  check_same(wrapped, "Slice Slice Pad", 0);
  for (const std::int64_t time : {0, 1}) {
    Pieces reverse;
    const i32 lengths = time == 0 ? reverse.integers({1, 3, 2, 3}) : reverse.integers({4, 0, 3});
    reverse.gives({reverse.node(Op::ReverseSequence, {reverse.input({3, 4, 2}), lengths},
                                {Pieces::attribute("time_axis", time), Pieces::attribute("batch_axis", 1 - time)})});
    check_same(reverse, "Reshape Gather Reshape", 0);
  }
  for (const std::int64_t flags : {0, 1, 2, 3}) {
    Pieces product;
    product.gives(
        {product.node(Op::CumProd, {product.input({2, 5}), product.constant<std::int64_t>(DType::I64, {}, {1})},
                      {Pieces::attribute("exclusive", flags & 1), Pieces::attribute("reverse", flags >> 1)})});
    check_same(product, nullptr, 1e-6);
    CHECK_EQ(count(product.graph, Op::CumProd), 0u);
  }
}

TEST_CASE("a Fourier transform is a product with cosines and sines") {
  const auto transformed = [](qir::Shape shape, std::int64_t axis, std::int64_t length, bool inverse, bool onesided) {
    CAPTURE(axis);
    CAPTURE(length);
    CAPTURE(inverse);
    CAPTURE(onesided);
    Pieces p;
    const i32 x = p.input(std::move(shape));
    const i32 of = length > 0 ? p.constant<std::int64_t>(DType::I64, {}, {length}) : qir::kAbsent;
    p.gives({p.node(
        Op::DFT, {x, of, p.constant<std::int64_t>(DType::I64, {}, {axis})},
        {Pieces::attribute("inverse", std::int64_t{inverse}), Pieces::attribute("onesided", std::int64_t{onesided})})});
    check_same(p, nullptr, 1e-5);
    CHECK_EQ(count(p.graph, Op::DFT), 0u);
  };
  for (const std::int64_t length : {0, 5, 12}) {  // as it is, cut, filled up with zeros
    for (const std::int64_t axis : {1, -3}) {
      transformed({2, 8, 3, 1}, axis, length, false, true);
      transformed({2, 8, 3, 2}, axis, length, false, false);
      transformed({2, 8, 3, 2}, axis, length, true, false);
    }
    transformed({3, 4, 2}, -2, length, true, true);  // half a spectrum: a real signal
  }
  transformed({1, 1}, 0, 0, false, false);
}

TEST_CASE("a short Fourier transform is a convolution, a filled tensor an expanded number") {
  for (const bool windowed : {false, true})
    for (const std::int64_t onesided : {0, 1}) {
      Pieces p;
      const i32 x = windowed ? p.input({2, 40, 1}) : p.input({2, 40});
      const i32 step = p.constant<std::int64_t>(DType::I64, {}, {5}),
                length = p.constant<std::int64_t>(DType::I64, {}, {12});
      const Vector<i32> inputs =
          windowed ? Vector<i32>{x, step, p.column(12)} : Vector<i32>{x, step, qir::kAbsent, length};
      p.gives({p.node(Op::STFT, inputs, {Pieces::attribute("onesided", onesided)})});
      check_same(p, "Reshape Conv Transpose Reshape", 1e-5);
    }
  for (const bool given : {false, true}) {
    Pieces p;
    Vector<i32> inputs = {p.integers({3, 4})};
    if (given) inputs.push_back(p.constant<std::int64_t>(DType::I64, {1}, {7}));
    p.gives({p.node(Op::ConstantOfShape, inputs)});
    check_same(p, "Reshape Expand");
  }
  Pieces p;  // a window of the run
  const i32 x = p.input({1, 40}), step = p.constant<std::int64_t>(DType::I64, {}, {5});
  p.gives({p.node(Op::STFT, {x, step, p.input({12})})});
  check_same(p, "STFT");
}
