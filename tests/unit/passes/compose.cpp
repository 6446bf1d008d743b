// SPDX-License-Identifier: Apache-2.0
// Composite operators: the forms of the exporters are found, what is nearly one is not, and what is found gives the
// numbers that the pieces gave.
#include <cmath>
#include <functional>

#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;
using passes::Composite;
using passes::Composites;

namespace {

using Formula = std::function<i32(Pieces &, i32)>;

// What compose makes of a formula of x; its numbers are compared with those of the pieces.
std::string composed(const Formula &formula, Composites wanted = Composites::all(), qir::Shape shape = {3, 5, 16}) {
  Pieces pieces;
  const i32 x = pieces.input(std::move(shape));
  const i32 y = formula(pieces, x);
  pieces.gives({y});
  const std::vector<double> expected = run(pieces.graph);
  passes::compose(pieces.graph, pieces.store, wanted);
  CHECK(difference(run(pieces.graph), expected) < 2e-6);
  return ops(pieces.graph);
}

struct Case {
  std::string what;
  Formula formula;
};
void all_become(std::initializer_list<Case> cases, const std::string &op) {
  for (const Case &one : cases) {
    CAPTURE(one.what);
    CHECK_EQ(composed(one.formula), op);
    CHECK_NE(composed(one.formula, {}), op);  // nobody wants it
  }
}
void none_becomes(std::initializer_list<Case> cases, const char *op) {
  for (const Case &one : cases) {
    CAPTURE(one.what);
    CHECK_EQ(composed(one.formula).find(op), std::string::npos);
  }
}

const double kRoot2 = std::sqrt(2.0), kRoot2OverPi = std::sqrt(2 / M_PI);

i32 one_plus_erf(Pieces &p, i32 x) { return p.add(p.of(Op::Erf, p.div(x, kRoot2)), 1.0); }

}  // namespace

TEST_CASE("gelu by erf") {
  all_become({{"PyTorch", [](Pieces &p, i32 x) { return p.mul(p.mul(x, one_plus_erf(p, x)), 0.5); }},
              {"TensorFlow", [](Pieces &p, i32 x) { return p.mul(p.mul(x, 0.5), one_plus_erf(p, x)); }},
              {"half of the gate", [](Pieces &p, i32 x) { return p.mul(x, p.mul(one_plus_erf(p, x), 0.5)); }},
              {"times the root of a half",
               [](Pieces &p, i32 x) {
                 const i32 gate = p.add(p.scalar(1), p.of(Op::Erf, p.mul(x, std::sqrt(0.5))));
                 return p.mul(p.scalar(0.5f), p.mul(gate, x));
               }},
              {"halved by a division", [](Pieces &p, i32 x) { return p.div(p.mul(x, one_plus_erf(p, x)), 2.0); }},
              {"the normal distribution",
               [](Pieces &p, i32 x) { return p.mul(x, p.add(p.mul(p.of(Op::Erf, p.div(x, kRoot2)), 0.5), 0.5)); }}},
             "Gelu");
  // x that is a product itself
  CHECK_EQ(composed([](Pieces &p, i32 x) {
             const i32 product = p.mul(x, p.column(16));
             return p.mul(p.mul(product, one_plus_erf(p, product)), 0.5);
           }),
           "Mul Gelu");
  none_becomes(
      {{"another root",
        [](Pieces &p, i32 x) { return p.mul(p.mul(x, p.add(p.of(Op::Erf, p.div(x, 1.41)), 1.0)), 0.5); }},
       {"no half", [](Pieces &p, i32 x) { return p.mul(x, one_plus_erf(p, x)); }},
       {"two instead of one",
        [](Pieces &p, i32 x) { return p.mul(p.mul(x, p.add(p.of(Op::Erf, p.div(x, kRoot2)), 2.0)), 0.5); }},
       {"another x", [](Pieces &p, i32 x) { return p.mul(p.mul(p.of(Op::Abs, x), one_plus_erf(p, x)), 0.5); }},
       {"another factor",
        [](Pieces &p, i32 x) { return p.mul(p.mul(p.mul(x, p.of(Op::Abs, x)), one_plus_erf(p, x)), 0.5); }},
       {"a square too many", [](Pieces &p, i32 x) { return p.mul(p.mul(p.mul(x, x), one_plus_erf(p, x)), 0.5); }}},
      "Gelu");
}

TEST_CASE("gelu by tanh") {
  const auto gelu = [](Pieces &p, i32 x, i32 inside) {
    return p.mul(p.mul(x, 0.5), p.add(p.of(Op::Tanh, inside), 1.0));
  };
  const auto with = [&](double cubic, double root) {
    return [=](Pieces &p, i32 x) { return gelu(p, x, p.mul(p.add(x, p.mul(p.pow(x, 3), cubic)), root)); };
  };
  // x * sqrt(2 / pi) * (part * x^power + one)
  const auto bracketed = [&](double power, double part, double one) {
    return [=](Pieces &p, i32 x) {
      return gelu(p, x, p.mul(p.mul(x, kRoot2OverPi), p.add(p.mul(p.pow(x, power), part), one)));
    };
  };
  all_become(
      {{"PyTorch", with(0.044715, kRoot2OverPi)},
       {"four digits", with(0.044715, 0.7979)},
       {"JAX",
        [&](Pieces &p, i32 x) {
          const i32 cube = p.mul(x, p.mul(x, x));
          return p.mul(
              x, p.mul(p.add(p.of(Op::Tanh, p.mul(p.scalar(0.79788456f), p.add(x, p.mul(cube, 0.044715)))), 1.0), 0.5));
        }},
       {"GPT-NeoX",
        [&](Pieces &p, i32 x) {
          return gelu(p, x, p.mul(p.mul(x, kRoot2OverPi), p.add(p.mul(p.mul(x, 0.044715), x), 1.0)));
        }},
       {"a square by Pow", bracketed(2, 0.044715, 1)}},
      "Gelu");
  none_becomes(
      {{"another cubic part", with(0.05, kRoot2OverPi)},
       {"another root", with(0.044715, 0.8)},
       {"a fourth power",
        [&](Pieces &p, i32 x) { return gelu(p, x, p.mul(p.add(x, p.mul(p.pow(x, 4), 0.044715)), kRoot2OverPi)); }},
       {"another part of the square", bracketed(2, 0.05, 1)},
       {"a cube in the brackets", bracketed(3, 0.044715, 1)},
       {"two in the brackets", bracketed(2, 0.044715, 2)}},
      "Gelu");
  // The two are distinguished.
  CHECK_EQ(composed(with(0.044715, kRoot2OverPi), {Composite::Gelu}).find("Gelu"), std::string::npos);
  Pieces pieces;
  pieces.gives({with(0.044715, kRoot2OverPi)(pieces, pieces.input({4}))});
  passes::compose(pieces.graph, pieces.store, {Composite::GeluTanh});
  REQUIRE_EQ(ops(pieces.graph), "Gelu");
  CHECK_EQ(pieces.graph.nodes[0].get_string("approximate", ""), "tanh");
}

TEST_CASE("gates") {
  const auto sigmoid = [](Pieces &p, i32 x) { return p.of(Op::Sigmoid, x); };
  all_become({{"SiLU", [&](Pieces &p, i32 x) { return p.mul(x, sigmoid(p, x)); }},
              {"the other way round", [&](Pieces &p, i32 x) { return p.mul(sigmoid(p, x), x); }},
              {"QuickGelu", [&](Pieces &p, i32 x) { return p.mul(x, sigmoid(p, p.mul(x, 1.702))); }}},
             "Swish");
  none_becomes({{"another x", [&](Pieces &p, i32 x) { return p.mul(p.of(Op::Abs, x), sigmoid(p, x)); }},
                {"a shift", [&](Pieces &p, i32 x) { return p.mul(x, sigmoid(p, p.add(x, 1.0))); }}},
               "Swish");

  const auto relu6 = [](Pieces &p, i32 x) { return p.clip(p.add(x, 3.0), 0, 6); };
  const auto hard = [](Pieces &p, i32 x, double alpha) {
    return p.node(Op::HardSigmoid, {x}, {Pieces::attribute("alpha", static_cast<float>(alpha))});
  };
  all_become({{"x * HardSigmoid", [&](Pieces &p, i32 x) { return p.mul(x, hard(p, x, 1.0 / 6)); }},
              {"PyTorch of old", [&](Pieces &p, i32 x) { return p.div(p.mul(x, relu6(p, x)), 6.0); }},
              {"a sixth", [&](Pieces &p, i32 x) { return p.mul(p.mul(relu6(p, x), x), 1.0 / 6); }},
              {"the gate first", [&](Pieces &p, i32 x) { return p.mul(x, p.div(relu6(p, x), 6.0)); }},
              {"a sixth of x", [&](Pieces &p, i32 x) { return p.mul(p.mul(x, 1.0 / 6), relu6(p, x)); }}},
             "HardSwish");
  none_becomes(
      {{"a gate that is not a half at 0",
        [&](Pieces &p, i32 x) {
          return p.mul(
              x, p.node(Op::HardSigmoid, {x}, {Pieces::attribute("alpha", 1.0f / 6), Pieces::attribute("beta", 0.4f)}));
        }},
       {"a sixth of another x", [&](Pieces &p, i32 x) { return p.mul(p.mul(p.of(Op::Abs, x), 1.0 / 6), relu6(p, x)); }},
       {"ONNX's slope of 0.2", [&](Pieces &p, i32 x) { return p.mul(x, hard(p, x, 0.2)); }},
       {"another bound", [&](Pieces &p, i32 x) { return p.div(p.mul(x, p.clip(p.add(x, 3.0), 0, 5)), 6.0); }},
       {"another shift", [&](Pieces &p, i32 x) { return p.div(p.mul(x, p.clip(p.add(x, 2.0), 0, 6)), 6.0); }},
       {"a seventh", [&](Pieces &p, i32 x) { return p.div(p.mul(x, relu6(p, x)), 7.0); }},
       {"another x", [&](Pieces &p, i32 x) { return p.div(p.mul(p.of(Op::Abs, x), relu6(p, x)), 6.0); }}},
      "HardSwish");

  all_become({{"divided", [&](Pieces &p, i32 x) { return p.div(relu6(p, x), 6.0); }},
              {"a sixth", [&](Pieces &p, i32 x) { return p.mul(relu6(p, x), 1.0 / 6); }}},
             "HardSigmoid");
  none_becomes({{"a lower bound of -1", [&](Pieces &p, i32 x) { return p.div(p.clip(p.add(x, 3.0), -1, 6), 6.0); }}},
               "HardSigmoid");

  all_become({{"Softplus", [](Pieces &p, i32 x) { return p.mul(x, p.of(Op::Tanh, p.of(Op::Softplus, x))); }},
              {"log(1 + exp)",
               [](Pieces &p, i32 x) { return p.mul(p.of(Op::Tanh, p.of(Op::Log, p.add(p.of(Op::Exp, x), 1.0))), x); }}},
             "Mish");
  none_becomes(
      {{"Softplus of another x",
        [](Pieces &p, i32 x) { return p.mul(x, p.of(Op::Tanh, p.of(Op::Softplus, p.of(Op::Abs, x)))); }},
       {"log(1 + exp) of another x",
        [](Pieces &p, i32 x) {
          return p.mul(p.of(Op::Tanh, p.of(Op::Log, p.add(p.of(Op::Exp, p.of(Op::Neg, x)), 1.0))), x);
        }},
       {"log(2 + exp)",
        [](Pieces &p, i32 x) { return p.mul(p.of(Op::Tanh, p.of(Op::Log, p.add(p.of(Op::Exp, x), 2.0))), x); }}},
      "Mish");
}

namespace {

i32 root_of_mean_square(Pieces &p, i32 c, double epsilon = 1e-5) {
  return p.of(Op::Sqrt, p.add(p.mean(p.pow(c, 2)), epsilon));
}
i32 centred(Pieces &p, i32 x) { return p.sub(x, p.mean(x)); }
i32 shifted(Pieces &p, i32 normal) { return p.add(p.mul(normal, p.column(16)), p.column(16)); }

}  // namespace

TEST_CASE("layer normalization") {
  all_become({{"PyTorch",
               [&](Pieces &p, i32 x) {
                 const i32 c = centred(p, x);
                 return shifted(p, p.div(c, root_of_mean_square(p, c)));
               }},
              {"subtracted twice",
               [&](Pieces &p, i32 x) {
                 const i32 mean = p.mean(x, 2);
                 return shifted(p, p.div(p.sub(x, mean), root_of_mean_square(p, p.sub(x, mean))));
               }},
              {"times the reciprocal",
               [&](Pieces &p, i32 x) {
                 const i32 c = centred(p, x);
                 return shifted(p, p.mul(p.of(Op::Reciprocal, root_of_mean_square(p, c)), c));
               }},
              {"to the power of -1/2",
               [&](Pieces &p, i32 x) {
                 const i32 c = centred(p, x);
                 return shifted(p, p.mul(c, p.pow(p.add(p.mean(p.mul(c, c)), 1e-5), -0.5)));
               }},
              {"by a root that is a power",
               [&](Pieces &p, i32 x) {
                 const i32 c = centred(p, x);
                 return shifted(p, p.div(c, p.pow(p.add(p.mean(p.pow(c, 2)), 1e-5), 0.5)));
               }},
              {"TensorFlow",
               [&](Pieces &p, i32 x) {
                 const i32 mean = p.mean(x), c = p.sub(x, mean);
                 const i32 k = p.mul(p.of(Op::Reciprocal, root_of_mean_square(p, c)), p.column(16));
                 return p.add(p.mul(x, k), p.sub(p.column(16), p.mul(mean, k)));
               }},
              {"without a shift",
               [&](Pieces &p, i32 x) {
                 const i32 c = centred(p, x);
                 return p.mul(p.div(c, root_of_mean_square(p, c)), p.column(16));
               }},
              {"without scale and shift",
               [&](Pieces &p, i32 x) {
                 const i32 c = centred(p, x);
                 return p.div(c, root_of_mean_square(p, c));
               }},
              {"a scale of shape [1,1,n]",
               [&](Pieces &p, i32 x) {
                 const i32 c = centred(p, x);
                 return p.add(p.mul(p.div(c, root_of_mean_square(p, c)), p.column(16, {1, 1, 16})), p.column(16));
               }}},
             "LayerNormalization");
}

TEST_CASE("no layer normalization") {
  none_becomes({{"over another axis",
                 [&](Pieces &p, i32 x) {
                   const i32 c = p.sub(x, p.mean(x, 1));
                   return shifted(p, p.div(c, p.of(Op::Sqrt, p.add(p.mean(p.pow(c, 2), 1), 1e-5))));
                 }},
                {"another tensor's mean",
                 [&](Pieces &p, i32 x) {
                   const i32 c = p.sub(x, p.mean(p.of(Op::Abs, x)));
                   return shifted(p, p.div(c, root_of_mean_square(p, c)));
                 }},
                {"the spread of another tensor",
                 [&](Pieces &p, i32 x) { return shifted(p, p.div(centred(p, x), root_of_mean_square(p, x))); }},
                {"TensorFlow's, with another tensor's mean",
                 [&](Pieces &p, i32 x) {
                   const i32 mean = p.mean(x), c = p.sub(x, mean);
                   const i32 k = p.mul(p.of(Op::Reciprocal, root_of_mean_square(p, c)), p.column(16));
                   return p.add(p.mul(x, k), p.sub(p.column(16), p.mul(p.mean(p.of(Op::Abs, x)), k)));
                 }},
                {"TensorFlow's, with the spread of another tensor",
                 [&](Pieces &p, i32 x) {
                   const i32 other = p.of(Op::Abs, x), c = p.sub(other, p.mean(other));
                   const i32 k = p.mul(p.of(Op::Reciprocal, root_of_mean_square(p, c)), p.column(16));
                   return p.add(p.mul(x, k), p.sub(p.column(16), p.mul(p.mean(x), k)));
                 }},
                {"no root but a power of 0.4",
                 [&](Pieces &p, i32 x) {
                   const i32 c = centred(p, x);
                   return shifted(p, p.div(c, p.pow(p.add(p.mean(p.pow(c, 2)), 1e-5), 0.4)));
                 }},
                {"no root but a power of -0.4",
                 [&](Pieces &p, i32 x) {
                   const i32 c = centred(p, x);
                   return shifted(p, p.mul(c, p.pow(p.add(p.mean(p.pow(c, 2)), 1e-5), -0.4)));
                 }},
                {"a fourth power",
                 [&](Pieces &p, i32 x) {
                   const i32 c = centred(p, x);
                   return shifted(p, p.div(c, p.of(Op::Sqrt, p.add(p.mean(p.pow(c, 4)), 1e-5))));
                 }},
                {"a product that is no square",
                 [&](Pieces &p, i32 x) {
                   const i32 c = centred(p, x);
                   return shifted(p, p.div(c, p.of(Op::Sqrt, p.add(p.mean(p.mul(c, p.of(Op::Abs, c))), 100.0))));
                 }},
                {"a cube",
                 [&](Pieces &p, i32 x) {
                   const i32 c = centred(p, x);
                   return shifted(p, p.div(c, p.of(Op::Sqrt, p.add(p.mean(p.pow(p.of(Op::Abs, c), 3)), 1e-5))));
                 }}},
               "LayerNormalization");
}

TEST_CASE("part of a layer normalization") {
  // A scale per row is no scale of columns: what is before it is found alone.
  CHECK_EQ(composed([&](Pieces &p, i32 x) {
             const i32 c = centred(p, x);
             return p.mul(p.div(c, root_of_mean_square(p, c)), p.column(5, {5, 1}));
           }),
           "LayerNormalization Mul");
  // Nor is one for all columns.
  CHECK_EQ(composed([&](Pieces &p, i32 x) {
             const i32 c = centred(p, x);
             return p.mul(p.div(c, root_of_mean_square(p, c)), p.column(1));
           }),
           "LayerNormalization Mul");
  // A mean without its axis belongs to other rows, though it fits where there are as many rows as columns.
  CHECK_EQ(composed(
               [&](Pieces &p, i32 x) {
                 const i32 c = p.sub(x, p.mean(x, -1, 0));
                 return p.div(c, root_of_mean_square(p, c));
               },
               {Composite::LayerNormalization}, {16, 16})
               .find("LayerNormalization"),
           std::string::npos);
}

TEST_CASE("epsilon and axis of a normalization") {
  Pieces p;
  const i32 x = p.input({2, 8});
  p.gives({p.mul(p.div(x, root_of_mean_square(p, x, 0.25)), p.column(8))});
  passes::compose(p.graph, p.store, {Composite::RMSNormalization});
  REQUIRE_EQ(ops(p.graph), "RMSNormalization");
  CHECK_EQ(p.graph.nodes[0].get_float("epsilon", 0), 0.25f);
  CHECK_EQ(p.graph.nodes[0].get_int("axis", 0), -1);
}

TEST_CASE("root mean square normalization") {
  all_become(
      {{"a quotient", [](Pieces &p, i32 x) { return p.mul(p.div(x, root_of_mean_square(p, x)), p.column(16)); }},
       {"the scale first", [](Pieces &p, i32 x) { return p.mul(p.column(16), p.div(x, root_of_mean_square(p, x))); }},
       {"one through",
        [](Pieces &p, i32 x) { return p.mul(p.mul(x, p.div(p.scalar(1), root_of_mean_square(p, x))), p.column(16)); }},
       {"without a scale", [](Pieces &p, i32 x) { return p.div(x, root_of_mean_square(p, x)); }}},
      "RMSNormalization");
  none_becomes(
      {{"no epsilon",
        [](Pieces &p, i32 x) { return p.mul(p.div(x, p.of(Op::Sqrt, p.mean(p.pow(x, 2)))), p.column(16)); }},
       {"two through",
        [](Pieces &p, i32 x) { return p.mul(p.mul(x, p.div(p.scalar(2), root_of_mean_square(p, x))), p.column(16)); }}},
      "RMSNormalization");
  // Who wants the one and not the other gets the one.
  const Formula layer_norm = [](Pieces &p, i32 x) {
    const i32 c = p.sub(x, p.mean(x));
    return p.mul(p.div(c, root_of_mean_square(p, c)), p.column(16));
  };
  CHECK_EQ(composed(layer_norm, {Composite::RMSNormalization}), "ReduceMean Sub RMSNormalization");
}

TEST_CASE("pieces that are read elsewhere stay") {
  Pieces p;
  const i32 x = p.input({4, 16}), gate = p.of(Op::Sigmoid, x);
  p.gives({p.mul(x, gate), gate});
  passes::compose(p.graph, p.store, Composites::all());
  CHECK_EQ(ops(p.graph), "Sigmoid Swish");
}

TEST_CASE("broadcast pieces are no composite") {
  // The constant column is added before the gate: the result is larger than its operand.
  CHECK_EQ(composed([](Pieces &p, i32) {
             const i32 row = p.input({16});
             return p.mul(p.mul(row, p.constant<float>(DType::F32, {1, 1}, {0.5f})), one_plus_erf(p, row));
           }).find("Gelu"),
           std::string::npos);
}

TEST_CASE("quantised and half pieces are left alone") {
  Pieces p;
  const i32 x = p.input({16});
  p.quantized(x, DType::U8, {0.05f}, {128});
  const i32 gate = p.quantized(p.of(Op::Sigmoid, x), DType::U8, {1 / 255.0f}, {0});
  p.gives({p.quantized(p.mul(x, gate), DType::U8, {0.05f}, {128})});
  passes::compose(p.graph, p.store, Composites::all());
  CHECK_EQ(ops(p.graph), "Sigmoid Mul");
  Pieces half;
  const i32 h = half.input({16}, DType::F16);
  half.gives({half.mul(h, half.of(Op::Sigmoid, h))});
  passes::compose(half.graph, half.store, Composites::all());
  CHECK_EQ(ops(half.graph), "Sigmoid Mul");
}

TEST_CASE("what went into a composite is reported") {
  Pieces p;
  const i32 x = p.input({4, 16}), c = p.sub(x, p.mean(x));                                      // 0, 1
  const i32 y = p.add(p.mul(p.div(c, root_of_mean_square(p, c)), p.column(16)), p.column(16));  // 2..5, 6, 7, 8
  p.gives({p.mul(y, p.of(Op::Sigmoid, y))});                                                    // 9, 10
  Vector<passes::Composed> found;
  passes::compose(p.graph, p.store, Composites::all(), &found);
  REQUIRE_EQ(found.size(), 2u);
  CHECK_EQ(static_cast<int>(found[0].what), static_cast<int>(Composite::LayerNormalization));
  CHECK_EQ(found[0].node, 8);
  std::sort(found[0].pieces.begin(), found[0].pieces.end());
  CHECK((found[0].pieces == Vector<i32>{0, 1, 2, 3, 4, 5, 6, 7}));
  CHECK_EQ(found[1].node, 10);
  CHECK((found[1].pieces == Vector<i32>{9}));
}

namespace {

// softmax(q k^T * scale + mask) v
struct AttentionNet {
  qir::Shape batch = {2, 3};
  qir::Shape mask = {2, 1, 1, 7};
  double scale = 0.5;
  std::int64_t softmax_axis = -1;
  bool read_twice = false;
  bool divided = false;  // by 1 / scale

  std::string ops_after() const {
    Pieces p;
    const auto operand = [&](std::int64_t rows, std::int64_t columns) {
      qir::Shape shape = batch;
      shape.push_back(rows), shape.push_back(columns);
      return p.input(shape);
    };
    const i32 q = operand(5, 4), k = operand(7, 4), v = operand(7, 6);
    Ints perm;
    for (std::size_t d = 0; d < batch.size(); ++d) perm.push_back(static_cast<std::int64_t>(d));
    perm.push_back(static_cast<std::int64_t>(batch.size()) + 1),
        perm.push_back(static_cast<std::int64_t>(batch.size()));
    i32 scores = p.node(Op::MatMul, {q, p.transpose(k, perm)});
    if (scale != 1) scores = divided ? p.div(scores, 1 / scale) : p.mul(scores, scale);
    if (!mask.empty()) scores = p.add(scores, p.input(mask));
    const i32 weights = p.node(Op::Softmax, {scores}, {Pieces::attribute("axis", softmax_axis)});
    const i32 y = p.node(Op::MatMul, {weights, v});
    if (read_twice) p.gives({y, weights});
    else p.gives({y});
    const std::vector<double> expected = run(p.graph);
    passes::compose(p.graph, p.store, {Composite::Attention});
    CHECK(difference(run(p.graph), expected) < 1e-6);
    return ops(p.graph);
  }
};

}  // namespace

TEST_CASE("attention") {
  CHECK_EQ(AttentionNet().ops_after(), "Transpose Transpose Attention");
  CHECK_EQ(AttentionNet{.mask = {}}.ops_after(), "Transpose Transpose Attention");
  CHECK_EQ(AttentionNet{.divided = true}.ops_after(), "Transpose Transpose Attention");
  CHECK_EQ(AttentionNet{.mask = {5, 7}, .scale = 1}.ops_after(), "Transpose Transpose Attention");
  // Heads and batches as one dimension: Attention has them as two.
  CHECK_NE(AttentionNet{.batch = {6}, .mask = {6, 5, 7}}.ops_after().find("Attention Squeeze"), std::string::npos);

  const std::string pieces = "Transpose MatMul Mul Add Softmax MatMul";
  // Softmax over the queries; weights that somebody reads; a mask per query that Attention would take for a short one.
  CHECK_EQ(AttentionNet{.softmax_axis = 2}.ops_after(), pieces);
  CHECK_EQ(AttentionNet{.read_twice = true}.ops_after(), pieces);
  CHECK_EQ(AttentionNet{.mask = {2, 1, 5, 1}}.ops_after(), pieces);
  CHECK_EQ(AttentionNet{.batch = {1, 3}, .mask = {2, 1, 5, 7}}.ops_after(), pieces);  // it has more batches
  CHECK_EQ(AttentionNet{.scale = -0.5}.ops_after(), pieces);
}
