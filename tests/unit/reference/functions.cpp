// SPDX-License-Identifier: Apache-2.0
// Functions of one element beside ONNX's formulas in double precision: one row per operator, so that tests/tidy finds a
// case for each operator of graph/ops/ops.inc. Below them the plain cases of operators that no other file has.
#include <cmath>

#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

namespace {

struct FunctionRow {
  Op op;
  double (*formula)(double);
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Attributes are the defaults of graph/ops/ops.inc.
constexpr FunctionRow kFunctions[] = {
    {Op::Abs, [](double x) { return std::fabs(x); }},
    {Op::Acos, [](double x) { return std::acos(x); }},
    {Op::Acosh, [](double x) { return std::acosh(x); }},
    {Op::Asin, [](double x) { return std::asin(x); }},
    {Op::Asinh, [](double x) { return std::asinh(x); }},
    {Op::Atan, [](double x) { return std::atan(x); }},
    {Op::Atanh, [](double x) { return std::atanh(x); }},
    {Op::Ceil, [](double x) { return std::ceil(x); }},
    {Op::Celu, [](double x) { return x > 0 ? x : std::expm1(x); }},
    {Op::Cos, [](double x) { return std::cos(x); }},
    {Op::Cosh, [](double x) { return std::cosh(x); }},
    {Op::Elu, [](double x) { return x > 0 ? x : std::expm1(x); }},
    {Op::Erf, [](double x) { return std::erf(x); }},
    {Op::Exp, [](double x) { return std::exp(x); }},
    {Op::Floor, [](double x) { return std::floor(x); }},
    {Op::Gelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
    {Op::HardSigmoid, [](double x) { return std::fmin(1, std::fmax(0, 0.2 * x + 0.5)); }},
    {Op::HardSwish, [](double x) { return x * std::fmin(1, std::fmax(0, x / 6 + 0.5)); }},
    {Op::Identity, [](double x) { return x; }},
    {Op::LeakyRelu, [](double x) { return x < 0 ? 0.01 * x : x; }},
    {Op::Log, [](double x) { return std::log(x); }},
    {Op::Mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
    {Op::Neg, [](double x) { return -x; }},
    {Op::QuickGelu, [](double x) { return x * sigmoid(1.702 * x); }},
    {Op::Reciprocal, [](double x) { return 1 / x; }},
    {Op::Relu, [](double x) { return std::fmax(0, x); }},
    {Op::Round, [](double x) { return std::nearbyint(x); }},  // half to even
    {Op::Selu, [](double x) { return 1.050701 * (x > 0 ? x : 1.6732632 * std::expm1(x)); }},
    {Op::Shrink, [](double x) { return x < -0.5 || x > 0.5 ? x : 0; }},
    {Op::Sigmoid, sigmoid},
    {Op::Sign, [](double x) { return x > 0   ? 1.0
                                     : x < 0 ? -1.0
                                             : 0.0; }},
    {Op::Sin, [](double x) { return std::sin(x); }},
    {Op::Sinh, [](double x) { return std::sinh(x); }},
    {Op::Softplus, [](double x) { return std::log1p(std::exp(x)); }},
    {Op::Softsign, [](double x) { return x / (1 + std::fabs(x)); }},
    {Op::Sqrt, [](double x) { return std::sqrt(x); }},
    {Op::Swish, [](double x) { return x * sigmoid(x); }},
    {Op::Tan, [](double x) { return std::tan(x); }},
    {Op::Tanh, [](double x) { return std::tanh(x); }},
    {Op::ThresholdedRelu, [](double x) { return x > 1 ? x : 0; }},
};

}  // namespace

TEST_CASE("functions of one element give the formula's value") {
  constexpr double kArguments[] = {-2.5, -1.25, -0.75, -0.5, 0.25, 0.5, 0.75, 1.25, 3.5};
  for (const FunctionRow &row : kFunctions)
    for (const double x : kArguments) {
      const double exact = row.formula(x);
      RunOp run(row.op);
      CHECK(run.in<double>({1}, {x}).run().ok());
      const double found = *reinterpret_cast<const double *>(run.outputs()[0].data.data());
      // The defaults of attributes are stored in f32.
      const bool close = std::fabs(found - exact) <= 1e-6 * std::fmax(1, std::fabs(exact));
      if (close || (std::isnan(exact) && std::isnan(found))) continue;
      CHECK_EQ(format("%s(%g) = %.9g", qir::op_name(row.op), x, found),
               format("%s(%g) = %.9g", qir::op_name(row.op), x, exact));
    }
}

TEST_CASE("functions of the bits of integers and of truth values") {
  CHECK_EQ(RunOp(Op::BitwiseNot).in<u8>({2}, {0, 0x5a}).text(), "u8 [2] 255 165");
  CHECK_EQ(RunOp(Op::BitwiseAnd).in<u8>({2}, {0x0f, 0x5a}).in<u8>({1}, {0x3c}).text(), "u8 [2] 12 24");
  CHECK_EQ(RunOp(Op::BitwiseOr).in<u8>({2}, {0x0f, 0x5a}).in<u8>({1}, {0x3c}).text(), "u8 [2] 63 126");
  CHECK_EQ(RunOp(Op::BitwiseXor).in<u8>({2}, {0x0f, 0x5a}).in<u8>({1}, {0x3c}).text(), "u8 [2] 51 102");
  CHECK_EQ(RunOp(Op::BitCast).set("to", static_cast<int>(DType::I32)).in<float>({2}, {1, -0.0f}).text(),
           "i32 [2] 1065353216 -2147483648");
  CHECK_EQ(RunOp(Op::Or).in<bool>({2, 1}, {false, true}).in<bool>({2}, {false, true}).text(), "bool [2,2] 0 1 1 1");
  CHECK_EQ(RunOp(Op::Xor).in<bool>({2, 1}, {false, true}).in<bool>({2}, {false, true}).text(), "bool [2,2] 0 1 1 0");
}

TEST_CASE("functions of two and more elements") {
  CHECK_EQ(RunOp(Op::Greater).in<i32>({3}, {1, 2, 3}).in<i32>({1}, {2}).text(), "bool [3] 0 0 1");
  CHECK_EQ(RunOp(Op::GreaterOrEqual).in<i32>({3}, {1, 2, 3}).in<i32>({1}, {2}).text(), "bool [3] 0 1 1");
  CHECK_EQ(RunOp(Op::IsNaN).in<float>({3}, {kNan, kInf, 0}).text(), "bool [3] 1 0 0");
  CHECK_EQ(RunOp(Op::Min).in<i32>({2}, {1, 5}).in<i32>({1}, {3}).in<i32>({2}, {9, 2}).text(), "i32 [2] 1 2");
  CHECK_EQ(RunOp(Op::Mean).in<float>({2}, {1, 5}).in<float>({1}, {3}).in<float>({2}, {2, 7}).text(), "f32 [2] 2 5");
  CHECK_EQ(RunOp(Op::PRelu).in<float>({2, 2}, {-1, 2, -3, -4}).in<float>({2}, {0.5f, 2}).text(),
           "f32 [2,2] -0.5 2 -1.5 -8");
  CHECK_EQ(RunOp(Op::SwiGLU).in<float>({2}, {0, 40}).in<float>({2}, {3, 0.5f}).text(), "f32 [2] 0 20");
  CHECK_EQ(RunOp(Op::CastLike).in<float>({2}, {1.75f, -1.75f}).in<i64>({}, {0}).text(), "i64 [2] 1 -1");
}

TEST_CASE("shapes, and tensors made from shapes") {
  CHECK_EQ(RunOp(Op::Shape).set("start", 1).in<float>({1, 2, 3}, {0, 0, 0, 0, 0, 0}).text(), "i64 [2] 2 3");
  CHECK_EQ(RunOp(Op::Size).in<float>({1, 2, 3}, {0, 0, 0, 0, 0, 0}).text(), "i64 [] 6");
  CHECK_EQ(RunOp(Op::Flatten).set("axis", 2).in<i32>({1, 2, 3}, {1, 2, 3, 4, 5, 6}).text(), "i32 [2,3] 1 2 3 4 5 6");
  CHECK_EQ(RunOp(Op::Squeeze).in<i32>({1, 2, 1}, {1, 2}).in<i64>({1}, {-1}).text(), "i32 [1,2] 1 2");
  CHECK_EQ(RunOp(Op::Unsqueeze).in<i32>({2}, {1, 2}).in<i64>({2}, {0, -1}).text(), "i32 [1,2,1] 1 2");
  CHECK_EQ(RunOp(Op::ConstantOfShape).in<i64>({2}, {1, 2}).in<i32>({1}, {7}).text(), "i32 [1,2] 7 7");
  CHECK_EQ(RunOp(Op::EyeLike).set("k", 1).in<i32>({2, 3}, {9, 9, 9, 9, 9, 9}).text(), "i32 [2,3] 0 1 0 0 0 1");
  CHECK_EQ(RunOp(Op::Range).in<i32>({}, {10}).in<i32>({}, {4}).in<i32>({}, {-3}).text(), "i32 [2] 10 7");
}

TEST_CASE("quantisation of what is met") {
  // The range is that of the data and 0: [-1, 4], a scale of 5 / 255, the zero point 51.
  CHECK_EQ(RunOp(Op::DynamicQuantizeLinear, 3).in<float>({3}, {-1, 0, 4}).text(),
           "u8 [3] 0 51 255; f32 [] 0.0196078; u8 [] 51");
}

TEST_CASE("mel weights") {
  // Two triangles; the edges at 0, 427, 1114 and 2220 Hz lie in the bins 0, 0, 1 and 2 of five.
  RunOp weights(Op::MelWeightMatrix);
  weights.in<i64>({}, {2}).in<i64>({}, {8}).in<i64>({}, {8000}).in<float>({}, {0}).in<float>({}, {4000});
  CHECK_EQ(weights.text(), "f32 [5,2] 1 0 0 1 0 0 0 0 0 0");
}

namespace {

// The results of one operator, of many elements.
Vector<float> drawn(RunOp run) {
  CHECK(run.run().ok());
  const auto *first = reinterpret_cast<const float *>(run.outputs()[0].data.data());
  return Vector<float>(first, first + run.outputs()[0].data.size() / sizeof(float));
}

double mean(const Vector<float> &values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v);
  return sum / static_cast<double>(values.size());
}

double deviation(const Vector<float> &values) {
  const double middle = mean(values);
  double sum = 0;
  for (const float v : values) sum += (static_cast<double>(v) - middle) * (static_cast<double>(v) - middle);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

TEST_CASE("random numbers have the moments of their distribution, and one seed gives one sequence") {
  constexpr int kF32 = static_cast<int>(DType::F32);
  const auto normal = [] { return RunOp(Op::RandomNormal).set("shape", {40, 100}).set("seed", 3.0); };
  const Vector<float> values = drawn(normal().set("mean", 2.0).set("scale", 3.0));
  CHECK(std::fabs(mean(values) - 2) < 0.2);
  CHECK(std::fabs(deviation(values) - 3) < 0.2);
  CHECK(drawn(normal()) == drawn(normal()));
  CHECK(drawn(normal()) != drawn(normal().set("seed", 4.0)));

  const Vector<float> uniform =
      drawn(RunOp(Op::RandomUniform).set("shape", {40, 100}).set("low", -1.0).set("high", 3.0));
  CHECK(std::fabs(mean(uniform) - 1) < 0.1);
  for (const float v : uniform) CHECK((v >= -1 && v < 3));

  const auto like = [&](Op op) {
    static const float zeros[4000] = {};
    return RunOp(op).set("dtype", kF32).packed(DType::F32, {40, 100}, zeros, sizeof zeros);
  };
  CHECK(std::fabs(deviation(drawn(like(Op::RandomNormalLike))) - 1) < 0.1);
  CHECK(std::fabs(mean(drawn(like(Op::RandomUniformLike))) - 0.5) < 0.05);

  Vector<float> quarter(4000, 0.25f);
  const Vector<float> thrown = drawn(RunOp(Op::Bernoulli).packed(DType::F32, {40, 100}, quarter.data(), 16000));
  CHECK(std::fabs(mean(thrown) - 0.25) < 0.05);
  for (const float v : thrown) CHECK((v == 0 || v == 1));
}

TEST_CASE("dropout keeps values unless it trains") {
  CHECK_EQ(RunOp(Op::Dropout).in<float>({2}, {1, 2}).in<float>({}, {0.5f}).absent().text(), "f32 [2] 1 2");
  Vector<float> ones(4000, 1.0f);
  const Vector<float> left = drawn(
      RunOp(Op::Dropout).packed(DType::F32, {40, 100}, ones.data(), 16000).in<float>({}, {0.25f}).in<bool>({}, {true}));
  CHECK(std::fabs(mean(left) - 1) < 0.1);  // what is left is scaled by 1 / (1 - ratio)
  for (const float v : left) CHECK((v == 0 || std::fabs(v - 4.0f / 3) < 1e-6f));
}
