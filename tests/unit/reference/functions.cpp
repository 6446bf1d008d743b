// SPDX-License-Identifier: Apache-2.0
// Operators beside the formulas and results of tests/cases, and the plain cases of operators that no other file has.
#include <cmath>

#include "tests/cases/cases.h"
#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

TEST_CASE("functions of one element give the formula's value") {
  constexpr double kArguments[] = {-2.5, -1.25, -0.75, -0.5, 0.25, 0.5, 0.75, 1.25, 3.5};
  for (const FunctionCase &row : kFunctionCases)
    for (const double x : kArguments) {
      const auto exact = static_cast<double>(row.formula(static_cast<long double>(x)));
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

namespace {

// A number as an element of the widest type that the operator's variable T has.
void give(RunOp &run, Op op, double x) {
  if (takes_type(op, "T", DType::F64)) run.in<double>({1}, {x});
  else if (takes_type(op, "T", DType::I64)) run.in<i64>({1}, {static_cast<i64>(x)});
  else if (takes_type(op, "T", DType::U64)) run.in<u64>({1}, {static_cast<u64>(x)});
  else run.in<bool>({1}, {x != 0});
}
double element_of(const reference::OwnedTensor &output) {
  double value = NAN;
  CHECK(reference::dispatch<double, i64, u64, bool>(output.dtype, [&](auto tag) {
    value = static_cast<double>(*reinterpret_cast<const decltype(tag) *>(output.data.data()));
  }));
  return value;
}
bool are_close(double found, double exact) {
  return (std::isnan(exact) && std::isnan(found)) || std::fabs(found - exact) <= 1e-6 * std::fmax(1, std::fabs(exact));
}

}  // namespace

TEST_CASE("operators of two elements give the formula's value") {
  constexpr double kReals[] = {-2.5, -1.25, -0.75, -0.5, 0.25, 0.5, 0.75, 1.25, 2, 3}, kWhole[] = {0, 1, 2, 3, 5, 8};
  for (const BinaryCase &row : kBinaryCases) {
    const bool real = takes_type(row.op, "T", DType::F64), integer = takes_type(row.op, "T", DType::U64);
    std::size_t count = 0;
    for (const double x : real ? std::span<const double>(kReals) : std::span<const double>(kWhole, integer ? 6 : 2))
      for (const double y : real ? std::span<const double>(kReals) : std::span<const double>(kWhole, integer ? 6 : 2)) {
        if (x < row.low[0] || x > row.high[0] || y < row.low[1] || y > row.high[1]) continue;
        RunOp run(row.op);
        set_attributes(run.node(), row.attributes);
        give(run, row.op, x), give(run, row.op, y);
        CHECK_EQ(run.text().substr(0, 2).find("QR"), std::string::npos);
        const double found = element_of(run.outputs()[0]),
                     exact = static_cast<double>(row.formula(static_cast<long double>(x), static_cast<long double>(y)));
        CHECK_MESSAGE(are_close(found, exact),
                      format("%s(%g, %g) = %.9g, expected %.9g", qir::op_name(row.op), x, y, found, exact).c_str());
        ++count;
      }
    CHECK_GE(count, 4u);
  }
}

TEST_CASE("reductions give the formula's value") {
  constexpr double kElements[] = {-1.75, 0.75, 0.5, 1.25, -0.5, 1, 1.75};
  for (const ReductionCase &row : kReductionCases) {
    Vector<double> given;
    std::vector<long double> elements;
    for (const double x : kElements)
      if (x >= row.low && x <= row.high) given.push_back(x), elements.push_back(static_cast<long double>(x));
    const auto count = static_cast<i64>(given.size());
    RunOp run(row.op);
    run.packed(DType::F64, qir::Shape{1, count}, given.data(), given.size() * 8).in<i64>({1}, {1});
    CHECK(run.run().ok());
    const double found = element_of(run.outputs()[0]), exact = static_cast<double>(row.formula(elements));
    CHECK_MESSAGE(are_close(found, exact),
                  format("%s = %.9g, expected %.9g", qir::op_name(row.op), found, exact).c_str());
  }
}

namespace {

Vector<u8> bytes_of(DType dtype, const std::vector<double> &values) {
  Vector<u8> bytes(values.size() * dtype_bits(dtype) / 8);
  CHECK(reference::dispatch<double, i32, i64, bool>(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < values.size(); ++i)
      reinterpret_cast<decltype(tag) *>(bytes.data())[i] = static_cast<decltype(tag)>(values[i]);
  }));
  return bytes;
}

}  // namespace

TEST_CASE("operators give the results of their cases") {
  for (const OperatorCase &row : kOperatorCases) {
    RunOp run(row.op);
    set_attributes(run.node(), row.attributes);
    const std::vector<CaseOperand> operands = operands_of(row, [](char) { return 1; });
    const std::vector<LiteralOperand> literals = literals_of(row.values);
    REQUIRE(operands.size() == literals.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const DType dtype = dtype_from_name(operands[i].type).value_or(DType::F64);
      const Vector<u8> bytes = bytes_of(dtype, literals[i].values);
      run.packed(dtype, literals[i].shape, bytes.data(), bytes.size());
    }
    std::string expected(row.result), found = run.text();
    expected.replace(expected.find(':'), 1, "]");
    CHECK_EQ(found.substr(found.find(' ')), " [" + expected);  // whatever its type
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
