// SPDX-License-Identifier: Apache-2.0
// Kernels that work element by element, along rows, or move data. Bounds (rtol, atol), against f64 rounded once:
// functions 4e-6, 4e-7 (pow 1e-6); + - * / and bounds exact; Softmax 4e-6, 1e-7; LayerNorm 2e-5, 2e-6; reductions 2e-6,
// 1e-7 of the sum of magnitudes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/kernels/driver.h"

namespace quarry::kernel_test {

namespace {

using namespace kernels;
using qir::Op;
using Dims = std::vector<std::int64_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

qir::Node node_of(Op op, std::size_t inputs) {
  qir::Node node;
  node.op = op;
  node.name = "node";
  for (std::size_t i = 0; i < inputs; ++i) node.inputs.push_back(static_cast<std::int32_t>(i));
  node.outputs.push_back(100);
  return node;
}
Tensor tensor_of(Dims shape, const std::vector<float> &values) {
  return {DType::F32, std::move(shape), bytes_of(values), {}};
}
Tensor tensor_of(Dims shape, const std::vector<std::int64_t> &values) {
  return {DType::I64, std::move(shape), bytes_of(values), {}};
}
std::vector<float> reference_values(const qir::Node &node, const std::vector<Tensor> &inputs) {
  return values_of<float>(reference(node, inputs)[0].data);
}

Operand in(const std::vector<float> &values) { return {bytes_of(values)}; }
Operand out(std::size_t bytes) { return {Bytes(bytes, std::byte{0xa5}), true}; }
std::size_t product(const Dims &dims) {
  std::size_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::size_t>(dim);
  return count;
}

void expect_refused(const Isa &isa, Kernel kernel, const void *params, const char *what) {
  Needs needs;
  if (kernel_row(kernel).check(params, isa, needs).ok())
    throw std::runtime_error(std::string(kernel_row(kernel).name) + ": accepted " + what);
}
template <class P, class Change>
void refuse(const Isa &isa, Kernel kernel, P params, const char *what, Change change) {
  change(params);
  expect_refused(isa, kernel, &params, what);
}

// Values where functions have their edges, then random ones of several magnitudes.
std::vector<float> values_for_functions(std::size_t count, Random &random) {
  static const float kEdges[] = {0.0f,  -0.0f,  kInf,   -kInf,   kNan,    1e-45f,     -1e-45f,    1.2e-38f,    1e-20f,
                                 88.7f, 88.73f, -87.3f, -87.4f,  -103.9f, -104.5f,    3e38f,      -3e38f,      0.5f,
                                 1.5f,  2.5f,   -0.5f,  -1.5f,   -2.5f,   8388607.5f, 8388609.0f, -8388609.0f, 1.0f,
                                 -1.0f, 0.927f, 1.312f, 1.3121f, 20.0f,   20.5f,      3.0f,       -3.0f,       6.0f};
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float range = i % 3 == 0 ? 1.0f : i % 3 == 1 ? 10.0f : 100.0f;
    values[i] = i < std::size(kEdges) ? kEdges[i] : random.real(-range, range);
  }
  return values;
}

struct Function {
  Act act;
  float a, b;
  Op op;                  // of the reference
  const char *attribute;  // gets `a`
  const char *second;     // gets `b`
};
constexpr Function kFunctions[] = {{Act::LeakyRelu, 0.1f, 0, Op::LeakyRelu, "alpha", nullptr},
                                   {Act::HardSigmoid, 0.2f, 0.5f, Op::HardSigmoid, "alpha", "beta"},
                                   {Act::HardSwish, 0, 0, Op::HardSwish, nullptr, nullptr},
                                   {Act::Sigmoid, 0, 0, Op::Sigmoid, nullptr, nullptr},
                                   {Act::Silu, 1.7f, 0, Op::Swish, "alpha", nullptr},
                                   {Act::Tanh, 0, 0, Op::Tanh, nullptr, nullptr},
                                   {Act::Gelu, 0, 0, Op::Gelu, nullptr, nullptr},
                                   {Act::GeluTanh, 0, 0, Op::Gelu, "approximate", nullptr},
                                   {Act::Elu, 0.7f, 0, Op::Elu, "alpha", nullptr},
                                   {Act::Softplus, 0, 0, Op::Softplus, nullptr, nullptr},
                                   {Act::Mish, 0, 0, Op::Mish, nullptr, nullptr},
                                   {Act::Erf, 0, 0, Op::Erf, nullptr, nullptr},
                                   {Act::Exp, 0, 0, Op::Exp, nullptr, nullptr},
                                   {Act::Log, 0, 0, Op::Log, nullptr, nullptr},
                                   {Act::Sqrt, 0, 0, Op::Sqrt, nullptr, nullptr},
                                   {Act::Reciprocal, 0, 0, Op::Reciprocal, nullptr, nullptr},
                                   {Act::Abs, 0, 0, Op::Abs, nullptr, nullptr},
                                   {Act::Neg, 0, 0, Op::Neg, nullptr, nullptr},
                                   {Act::Floor, 0, 0, Op::Floor, nullptr, nullptr},
                                   {Act::Ceil, 0, 0, Op::Ceil, nullptr, nullptr},
                                   {Act::Round, 0, 0, Op::Round, nullptr, nullptr},
                                   {Act::Clip, -1.5f, 2.25f, Op::Clip, nullptr, nullptr},
                                   {Act::Clip, 0, kInf, Op::Relu, nullptr, nullptr}};

std::vector<float> function_reference(const Function &function, const std::vector<float> &x) {
  const bool clip = function.op == Op::Clip;
  qir::Node node = node_of(function.op, clip ? 3 : 1);
  if (function.act == Act::GeluTanh) node.set("approximate", std::string_view("tanh"));
  else if (function.attribute) node.set(function.attribute, function.a);
  if (function.second) node.set(function.second, function.b);
  std::vector<Tensor> inputs = {tensor_of({static_cast<std::int64_t>(x.size())}, x)};
  if (clip)
    inputs.push_back(tensor_of({}, std::vector<float>{function.a})),
        inputs.push_back(tensor_of({}, std::vector<float>{function.b}));
  return reference_values(node, inputs);
}

std::vector<float> run_unary(const Isa &isa, const Activation &act, const std::vector<float> &x) {
  UnaryF32 p;
  p.count = static_cast<std::int64_t>(x.size());
  p.act = act;
  return values_of<float>(run(isa, Kernel::UnaryF32, &p, {in(x), out(x.size() * 4)})[0]);
}

void test_unary(const Isa &isa) {
  Random random(1);
  for (const std::size_t count : {1u, 3u, 4u, 7u, 8u, 15u, 17u, 33u, 120u, 70001u}) {
    const std::vector<float> x = values_for_functions(count, random);
    for (const Function &function : kFunctions) {
      const std::vector<float> found = run_unary(isa, {function.act, function.a, function.b, 0}, x);
      expect_close("act " + std::to_string(static_cast<int>(function.act)), found, function_reference(function, x),
                   4e-6f, 4e-7f);
    }
    std::vector<float> rsqrt(count), linear(count), square(count);
    for (std::size_t i = 0; i < count; ++i) {
      rsqrt[i] = static_cast<float>(1 / std::sqrt(static_cast<double>(x[i])));
      linear[i] = static_cast<float>(1.25 * static_cast<double>(x[i]) - 0.75);
      square[i] = x[i] * x[i];
    }
    expect_close("rsqrt", run_unary(isa, {Act::Rsqrt, 0, 0, 0}, x), rsqrt, 4e-7f, 0);
    expect_close("linear", run_unary(isa, {Act::Linear, 1.25f, -0.75f, 0}, x), linear, 4e-7f, 4e-7f);
    expect_close("square", run_unary(isa, {Act::Square, 0, 0, 0}, x), square, 0, 0);
    expect_close("none", run_unary(isa, {}, x), x, 0, 0);
  }
  UnaryF32 p;
  (void)run(isa, Kernel::UnaryF32, &p, {in({}), out(0)});
  refuse(isa, Kernel::UnaryF32, p, "a negative count", [](auto &q) { q.count = -1; });
  refuse(isa, Kernel::UnaryF32, p, "2^60 elements", [](auto &q) { q.count = std::int64_t{1} << 60; });
  refuse(isa, Kernel::UnaryF32, p, "an unknown activation", [](auto &q) { q.act.kind = Act::Count; });
}

// ---- two operands ----

struct BinaryCase {
  Dims dims, a_shape, b_shape;  // numpy shapes of the same rank
};
std::vector<std::int64_t> strides_of(const Dims &shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = shape[i] == 1 ? 0 : step;
    step *= shape[i];
  }
  return strides;
}

constexpr Op kBinaryOps[] = {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max, Op::Pow, Op::PRelu};

void test_binary_case(const Isa &isa, const BinaryCase &c, BinaryOp op, const Activation &act, Random &random) {
  std::vector<float> a = random.reals(product(c.a_shape), -3, 3), b = random.reals(product(c.b_shape), -3, 3);
  if (op == BinaryOp::Pow)
    for (float &v : a) v = std::fabs(v);
  for (const float edge : {kNan, kInf, -kInf, 0.0f, -0.0f}) {
    a[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(a.size()) - 1))] = edge;
    b[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(b.size()) - 1))] = edge;
  }
  if (op == BinaryOp::Pow && b.size() == 1)
    b[0] = std::vector<float>{2, 0.5f, -1, 3, 1, 0, 1.5f}[static_cast<std::size_t>(random.integer(0, 6))];
  BinaryF32 p;
  p.op = op;
  p.rank = static_cast<std::uint32_t>(c.dims.size());
  p.act = act;
  const auto a_strides = strides_of(c.a_shape), b_strides = strides_of(c.b_shape);
  for (std::size_t i = 0; i < c.dims.size(); ++i) p.dims[i] = c.dims[i], p.a[i] = a_strides[i], p.b[i] = b_strides[i];
  const auto found = values_of<float>(run(isa, Kernel::BinaryF32, &p, {in(a), in(b), out(product(c.dims) * 4)})[0]);
  Dims full = c.dims;
  std::vector<float> expected;
  const qir::Node node = node_of(kBinaryOps[static_cast<std::size_t>(op)], 2);
  expected = reference_values(node, {tensor_of(c.a_shape, a), tensor_of(c.b_shape, b)});
  if (expected.size() != found.size()) throw std::runtime_error("the reference's shape differs");
  for (const Function &function : kFunctions)
    if (function.act == act.kind && function.a == act.a) expected = function_reference(function, expected);
  const bool exact = op != BinaryOp::Pow && (act.kind == Act::None || act.kind == Act::Clip);
  expect_close("op " + std::to_string(static_cast<int>(op)), found, expected, exact ? 0 : 4e-6f, exact ? 0 : 4e-7f);
  // Over an operand of the same layout.
  if (c.a_shape == c.dims) {
    Bytes scratch = bytes_of(a), other = bytes_of(b);
    std::byte *const pointers[3] = {scratch.data(), other.data(), scratch.data()};
    const Threads threads;
    isa.run[static_cast<std::size_t>(Kernel::BinaryF32)](Call{&p, pointers, threads, nullptr, 0, nullptr});
    expect_close("in place", values_of<float>(scratch), found, 0, 0);
  }
}

void test_binary(const Isa &isa) {
  Random random(2);
  const Activation acts[] = {
      {}, {Act::Clip, 0, kInf, 0}, {Act::Clip, -1.5f, 2.25f, 0}, {Act::Gelu, 0, 0, 0}, {Act::Sigmoid, 0, 0, 0}};
  const BinaryCase cases[] = {{{1}, {1}, {1}},
                              {{5}, {5}, {5}},
                              {{37}, {37}, {1}},
                              {{37}, {1}, {37}},
                              {{300}, {300}, {300}},
                              {{9, 21}, {9, 21}, {1, 21}},
                              {{9, 21}, {1, 21}, {9, 21}},
                              {{9, 21}, {9, 21}, {9, 1}},
                              {{6, 3}, {6, 1}, {1, 3}},
                              {{301, 24}, {301, 24}, {1, 24}},
                              {{20000, 5}, {20000, 5}, {1, 5}},
                              {{2, 3, 4, 5}, {2, 1, 4, 1}, {1, 3, 1, 5}},
                              {{2, 2, 3, 2, 2, 9}, {2, 1, 3, 1, 2, 9}, {1, 2, 1, 2, 1, 9}},
                              {{3, 5000}, {3, 5000}, {3, 1}},
                              {{90001}, {90001}, {90001}},
                              {{300, 301}, {300, 301}, {1, 301}}};
  for (const BinaryCase &c : cases)
    for (std::uint32_t op = 0; op < static_cast<std::uint32_t>(BinaryOp::Count); ++op) {
      // The reference's PRelu broadcasts its slope only.
      if (static_cast<BinaryOp>(op) == BinaryOp::Prelu && c.a_shape != c.dims) continue;
      const std::size_t act = product(c.dims) > 1000 ? op % std::size(acts) : 0;
      test_binary_case(isa, c, static_cast<BinaryOp>(op), acts[act], random);
      if (act == 0 && op < 4)
        for (const Activation &other : acts) test_binary_case(isa, c, static_cast<BinaryOp>(op), other, random);
    }
  // Powers of what is no plain number, and at the ends of the range.
  const float edges[] = {kNan,    kInf,  -kInf,  0,    -0.0f,       1,          -1,          2,
                         -2,      0.5f,  -0.5f,  3,    -3,          2.5f,       -2.5f,       1e-40f,
                         -1e-40f, 3e38f, -3e38f, 1e9f, 16777217.0f, 1.0000001f, 0.99999994f, 150};
  std::vector<float> bases, exponents, powers;
  for (const float x : edges)
    for (const float y : edges) {
      bases.push_back(x), exponents.push_back(y);
      powers.push_back(static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y))));
    }
  BinaryF32 power;
  power.op = BinaryOp::Pow, power.dims[0] = static_cast<std::int64_t>(powers.size()), power.a[0] = power.b[0] = 1;
  expect_close(
      "powers",
      values_of<float>(run(isa, Kernel::BinaryF32, &power, {in(bases), in(exponents), out(powers.size() * 4)})[0]),
      powers, 2e-7f, 1e-45f);
  // Any strides.
  BinaryF32 p;
  p.rank = 2, p.dims[0] = 7, p.dims[1] = 301;
  p.a[0] = 2, p.a[1] = 14, p.b[0] = 0, p.b[1] = 3;
  const std::vector<float> a = random.reals(13 + 300 * 14), b = random.reals(901);
  std::vector<float> expected;
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t j = 0; j < 301; ++j) expected.push_back(a[i * 2 + j * 14] + b[j * 3]);
  expect_close("strided",
               values_of<float>(run(isa, Kernel::BinaryF32, &p, {in(a), in(b), out(expected.size() * 4)})[0]), expected,
               0, 0);
  p.a[1] = p.b[1] = 0;  // each side one value a row
  expected.clear();
  for (std::size_t i = 0; i < 7; ++i) expected.insert(expected.end(), 301, a[i * 2] + b[0]);
  expect_close("scalars",
               values_of<float>(run(isa, Kernel::BinaryF32, &p, {in(a), in(b), out(expected.size() * 4)})[0]), expected,
               0, 0);
  p.dims[1] = 0;
  (void)run(isa, Kernel::BinaryF32, &p, {in({}), in({}), out(0)});
  refuse(isa, Kernel::BinaryF32, p, "rank 7", [](auto &q) { q.rank = 7; });
  refuse(isa, Kernel::BinaryF32, p, "rank 0", [](auto &q) { q.rank = 0; });
  refuse(isa, Kernel::BinaryF32, p, "an unknown operator", [](auto &q) { q.op = BinaryOp::Count; });
  refuse(isa, Kernel::BinaryF32, p, "a negative stride", [](auto &q) { q.dims[1] = 2, q.a[1] = -1; });
  refuse(isa, Kernel::BinaryF32, p, "a stride of 2^60", [](auto &q) { q.dims[1] = 2, q.b[1] = std::int64_t{1} << 60; });
  refuse(isa, Kernel::BinaryF32, p, "2^62 elements", [](auto &q) { q.dims[0] = q.dims[1] = std::int64_t{1} << 31; });
}

// ---- rows ----

void test_softmax(const Isa &isa) {
  Random random(3);
  struct Shape {
    std::int64_t outer, n, inner;
  };
  for (const Shape s : {Shape{1, 1, 1},
                        {3, 5, 1},
                        {2, 8, 1},
                        {7, 33, 1},
                        {4, 1000, 1},
                        {1, 50257, 1},
                        {64, 197, 1},
                        {2, 5, 3},
                        {3, 21, 16},
                        {2, 70, 37},
                        {1, 130, 200},
                        {0, 4, 1},
                        {4, 0, 1}})
    for (const bool log : {false, true})
      for (const float scale : {1.0f, 0.125f, -2.0f}) {
        const Dims shape = {s.outer, s.n, s.inner};
        std::vector<float> x = random.reals(product(shape), -20, 20);
        // Rows with what is special.
        if (s.outer > 2 && s.n > 4) {
          const auto at = [&](std::int64_t row, std::int64_t i) -> float & {
            return x[static_cast<std::size_t>((row * s.n + i) * s.inner)];
          };
          at(0, 1) = kNan, at(1, 2) = scale > 0 ? -kInf : kInf, at(2, 3) = kInf, at(2, 4) = 3e38f;
        }
        SoftmaxF32 p;
        p.outer = s.outer, p.n = s.n, p.inner = s.inner, p.scale = scale, p.log = log;
        const auto found = values_of<float>(run(isa, Kernel::SoftmaxF32, &p, {in(x), out(x.size() * 4)})[0]);
        for (float &v : x) v *= scale;
        qir::Node node = node_of(log ? Op::LogSoftmax : Op::Softmax, 1);
        node.set("axis", std::int64_t{1});
        if (!x.empty())
          expect_close("softmax", found, reference_values(node, {tensor_of(shape, x)}), 4e-6f, log ? 1e-5f : 1e-7f);
      }
  SoftmaxF32 p;
  refuse(isa, Kernel::SoftmaxF32, p, "a negative extent", [](auto &q) { q.n = -1; });
  refuse(isa, Kernel::SoftmaxF32, p, "too many elements",
         [](auto &q) { q.outer = q.n = q.inner = std::int64_t{1} << 30; });
  refuse(isa, Kernel::SoftmaxF32, p, "a flag of 2", [](auto &q) { q.log = 2; });
}

void test_layer_norm(const Isa &isa) {
  Random random(4);
  struct Shape {
    std::int64_t rows, cols;
  };
  for (const Shape s : {Shape{1, 1}, {3, 5}, {2, 8}, {5, 31}, {9, 768}, {3, 1024}, {2, 5000}, {130, 193}})
    for (unsigned options = 0; options < 16; ++options) {
      LayerNormF32 p;
      p.rows = s.rows, p.cols = s.cols, p.epsilon = 1e-5f;
      p.rms = options & 1, p.has_residual = options >> 1 & 1, p.has_beta = options >> 2 & 1,
      p.has_sum = options >> 3 & 1;
      if (s.rows == 9) p.act = options % 3 == 0 ? Activation{Act::Clip, 0, kInf, 0} : Activation{Act::Gelu, 0, 0, 0};
      const auto count = static_cast<std::size_t>(s.rows * s.cols), cols = static_cast<std::size_t>(s.cols);
      // A mean that is large beside the deviation.
      std::vector<float> x = random.reals(count, 9, 11), r = random.reals(count), gamma = random.reals(cols),
                         beta = random.reals(cols);
      if (s.rows == 5) x[7] = kNan, x[40] = kInf;
      p.plain = !p.has_beta && s.cols % 2;
      if (p.plain) std::fill(gamma.begin(), gamma.end(), 1.0f);
      std::vector<Operand> operands = {in(x)};
      if (p.has_residual) operands.push_back(in(r));
      if (!p.plain) operands.push_back(in(gamma));
      if (p.has_beta) operands.push_back(in(beta));
      operands.push_back(out(count * 4));
      if (p.has_sum) operands.push_back(out(count * 4));
      const std::vector<Bytes> found = run(isa, Kernel::LayerNormF32, &p, operands);
      if (p.has_residual)
        for (std::size_t i = 0; i < count; ++i) x[i] += r[i];
      if (p.has_sum) expect_close("sum", values_of<float>(found[1]), x, 0, 0);
      const bool with_beta = !p.rms && p.has_beta;
      qir::Node node = node_of(p.rms ? Op::RMSNormalization : Op::LayerNormalization, with_beta ? 3 : 2);
      node.set("epsilon", p.epsilon);
      std::vector<Tensor> inputs = {tensor_of({s.rows, s.cols}, x), tensor_of({s.cols}, gamma)};
      if (with_beta) inputs.push_back(tensor_of({s.cols}, beta));
      std::vector<float> expected = reference_values(node, inputs);
      if (p.rms && p.has_beta)
        for (std::size_t i = 0; i < count; ++i) expected[i] += beta[i % cols];
      for (const Function &function : kFunctions)
        if (p.act.kind == function.act && p.act.a == function.a) expected = function_reference(function, expected);
      expect_close("layer norm", values_of<float>(found[0]), expected, 2e-5f, 1e-5f);
    }
  LayerNormF32 p;
  refuse(isa, Kernel::LayerNormF32, p, "a flag of 2", [](auto &q) { q.has_beta = 2; });
  refuse(isa, Kernel::LayerNormF32, p, "an offset without a factor", [](auto &q) { q.plain = q.has_beta = 1; });
  refuse(isa, Kernel::LayerNormF32, p, "too many elements", [](auto &q) { q.rows = q.cols = std::int64_t{1} << 40; });
  refuse(isa, Kernel::LayerNormF32, p, "columns of 2^60", [](auto &q) { q.cols = std::int64_t{1} << 60; });
}

void test_reduce(const Isa &isa) {
  Random random(5);
  constexpr Op kOps[] = {Op::ReduceSum, Op::ReduceMean, Op::ReduceMax,       Op::ReduceMin,      Op::ReduceProd,
                         Op::ReduceL1,  Op::ReduceL2,   Op::ReduceSumSquare, Op::ReduceLogSumExp};
  struct Shape {
    std::int64_t outer, reduced, inner;
  };
  for (const Shape s : {Shape{1, 1, 1},
                        {3, 7, 1},
                        {2, 64, 1},
                        {5, 1000, 1},
                        {1, 100003, 1},
                        {2, 5, 3},
                        {3, 49, 64},
                        {1, 33, 77},
                        {2, 3000, 9},
                        {100, 20, 40},
                        {4, 0, 1},
                        {2, 0, 9},
                        {0, 5, 3}})
    for (std::uint32_t op = 0; op < std::size(kOps); ++op)
      for (const bool special : {false, true}) {
        const Dims shape = {s.outer, s.reduced, s.inner};
        std::vector<float> x = random.reals(product(shape), -1, 1);
        if (static_cast<ReduceOp>(op) == ReduceOp::Prod)
          for (float &v : x) v = 1 + v * 0.001f;
        if (special && x.size() > 4) x[x.size() / 2] = kNan, x[1] = kInf, x[3] = -kInf;
        ReduceF32 p;
        p.outer = s.outer, p.reduced = s.reduced, p.inner = s.inner, p.op = static_cast<ReduceOp>(op);
        const auto count = static_cast<std::size_t>(s.outer * s.inner);
        const auto found = values_of<float>(run(isa, Kernel::ReduceF32, &p, {in(x), out(count * 4)})[0]);
        if (s.outer == 0) continue;
        qir::Node node = node_of(kOps[op], 2);
        const auto expected =
            reference_values(node, {tensor_of(shape, x), tensor_of({1}, std::vector<std::int64_t>{1})});
        const bool mean = p.op == ReduceOp::Mean;
        expect_close("reduce " + std::to_string(op), found, expected, 2e-6f,
                     1e-7f * static_cast<float>(mean ? 4 : std::max<std::int64_t>(4, s.reduced / 2)));
      }
  ReduceF32 p;
  p.outer = 2, p.reduced = 3, p.inner = 5, p.act = {Act::Sigmoid, 0, 0, 0};
  const auto x = random.reals(30);
  qir::Node node = node_of(Op::ReduceSum, 2);
  auto expected = reference_values(node, {tensor_of({2, 3, 5}, x), tensor_of({1}, std::vector<std::int64_t>{1})});
  for (float &v : expected) v = 1 / (1 + std::exp(-v));
  expect_close("activation", values_of<float>(run(isa, Kernel::ReduceF32, &p, {in(x), out(40)})[0]), expected, 1e-6f,
               1e-6f);
  refuse(isa, Kernel::ReduceF32, p, "an unknown operator", [](auto &q) { q.op = ReduceOp::Count; });
  refuse(isa, Kernel::ReduceF32, p, "too many results",
         [](auto &q) { q.reduced = 0, q.outer = q.inner = std::int64_t{1} << 30; });
}

// ---- movement ----

void expect_same(const std::string &what, const Bytes &found, const Bytes &expected) {
  if (found == expected) return;
  std::size_t at = 0;
  while (at < found.size() && at < expected.size() && found[at] == expected[at]) ++at;
  throw std::runtime_error(what + ": byte " + std::to_string(at) + " of " + std::to_string(found.size()) +
                           " (expected " + std::to_string(expected.size()) + ") differs");
}

void test_copy_case(const Isa &isa, const kernels::Copy &p, Random &random) {
  Needs needs;
  if (const Status status = check_Copy(&p, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  Bytes x(needs.operand_bytes[0]), y(needs.operand_bytes[1], std::byte{0xa5});
  for (std::byte &v : x) v = static_cast<std::byte>(random.bits() >> 32);
  Bytes expected = y;
  std::int64_t count = 1, index[kCopyRank] = {};
  std::string text = "width " + std::to_string(p.width);
  for (std::uint32_t i = 0; i < p.rank; ++i) {
    count *= p.dims[i];
    text += " [" + std::to_string(p.dims[i]) + " from " + std::to_string(p.from[i]) + " to " + std::to_string(p.to[i]) +
            "]";
  }
  for (; count > 0; --count) {
    std::size_t from = 0, to = 0;
    for (std::uint32_t i = 0; i < p.rank; ++i)
      from += static_cast<std::size_t>(index[i] * p.from[i]), to += static_cast<std::size_t>(index[i] * p.to[i]);
    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(from * p.width), p.width,
                expected.begin() + static_cast<std::ptrdiff_t>(to * p.width));
    for (std::uint32_t i = p.rank; i-- > 0 && ++index[i] == p.dims[i];) index[i] = 0;
  }
  expect_same("copy " + text, run(isa, Kernel::Copy, &p, {{x}, {y, true}})[0], expected);
}

void test_copy(const Isa &isa) {
  Random random(6);
  const auto permuted = [&](std::uint32_t width, const Dims &shape,
                            const std::vector<int> &order) {  // y = x.transpose(order)
    kernels::Copy p;
    p.width = width, p.rank = static_cast<std::uint32_t>(shape.size());
    const auto from = strides_of(shape);
    std::int64_t step = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      const auto axis = static_cast<std::size_t>(order[i]);
      p.dims[i] = shape[axis], p.from[i] = from[axis], p.to[i] = step;
      step *= shape[axis];
    }
    test_copy_case(isa, p, random);
  };
  for (const std::uint32_t width : {1u, 2u, 4u, 8u, 16u}) {
    permuted(width, {1}, {0});
    permuted(width, {1000}, {0});
    for (const std::int64_t c : {2, 3, 4, 5, 16, 35})
      for (const std::int64_t hw : {1, 7, 15, 16, 17, 121, 300}) {
        permuted(width, {2, c, hw}, {0, 2, 1});
        permuted(width, {2, hw, c}, {0, 2, 1});
      }
    permuted(width, {1, 12, 64, 20}, {0, 2, 1, 3});
    permuted(width, {1, 12, 64, 20}, {0, 3, 1, 2});
    permuted(width, {3, 2, 4, 5, 2, 3}, {5, 2, 0, 4, 1, 3});
  }
  permuted(4, {3, 224, 224}, {1, 2, 0});
  permuted(4, {224, 224, 3}, {2, 0, 1});
  permuted(4, {2, 64, 56, 56}, {0, 2, 3, 1});
  permuted(1, {500000}, {0});
  permuted(2, {700, 701}, {1, 0});
  for (int i = 0; i < 400;
       ++i) {  // any nest: a source of any order with broadcasts, a destination of any order with gaps
    kernels::Copy p;
    p.width = 1u << random.integer(0, 4);
    p.rank = static_cast<std::uint32_t>(random.integer(1, 6));
    std::int64_t elements = 1;
    for (std::uint32_t k = 0; k < p.rank; ++k) {
      p.dims[k] = random.integer(1, i % 7 == 0 ? 40 : 9);
      if (elements * p.dims[k] > 60000) p.dims[k] = 1;
      elements *= p.dims[k];
    }
    const auto strides = [&](std::int64_t *into, bool broadcasts) {
      std::uint32_t order[kCopyRank];
      for (std::uint32_t k = 0; k < p.rank; ++k) order[k] = k;
      for (std::uint32_t k = p.rank; k > 1; --k) std::swap(order[k - 1], order[random.integer(0, k - 1)]);
      std::int64_t step = random.integer(0, 3) == 0 ? random.integer(1, 3) : 1;
      for (std::uint32_t k = 0; k < p.rank; ++k) {
        into[order[k]] = step;
        step = step * p.dims[order[k]] + (random.integer(0, 2) == 0 ? random.integer(0, 5) : 0);
        if (broadcasts && random.integer(0, 4) == 0) into[order[k]] = 0;
      }
    };
    strides(p.from, true);
    strides(p.to, false);
    test_copy_case(isa, p, random);
  }
  kernels::Copy p;
  p.rank = 2, p.dims[0] = 4, p.dims[1] = 3, p.from[0] = 3, p.from[1] = 1, p.to[0] = 3, p.to[1] = 1;
  refuse(isa, Kernel::Copy, p, "width 3", [](auto &q) { q.width = 3; });
  refuse(isa, Kernel::Copy, p, "rank 9", [](auto &q) { q.rank = 9; });
  refuse(isa, Kernel::Copy, p, "overlapping destinations", [](auto &q) { q.to[0] = 2; });
  refuse(isa, Kernel::Copy, p, "a destination stride of 0", [](auto &q) { q.to[1] = 0; });
  refuse(isa, Kernel::Copy, p, "a negative stride", [](auto &q) { q.from[0] = -3; });
  refuse(isa, Kernel::Copy, p, "2^60 elements from broadcasts",
         [](auto &q) { q.dims[0] = std::int64_t{1} << 60, q.from[0] = 0; });
  p.dims[0] = 0;
  (void)run(isa, Kernel::Copy, &p, {{Bytes()}, {Bytes(), true}});
}

void test_fill(const Isa &isa) {
  for (const std::uint32_t width : {1u, 2u, 4u, 8u})
    for (const std::int64_t count : {0, 1, 7, 33, 100000}) {
      Fill p;
      p.width = width, p.count = count, p.value = 0x0123456789abcdefu;
      Bytes expected(static_cast<std::size_t>(count) * width);
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = static_cast<std::byte>(p.value >> 8 * (i % width));
      expect_same("fill", run(isa, Kernel::Fill, &p, {out(expected.size())})[0], expected);
    }
  Fill p;
  refuse(isa, Kernel::Fill, p, "width 16", [](auto &q) { q.width = 16; });
  refuse(isa, Kernel::Fill, p, "a negative count", [](auto &q) { q.count = -1; });
}

void test_gather(const Isa &isa) {
  Random random(7);
  struct Shape {
    std::int64_t outer, rows, row_bytes, count;
  };
  for (const Shape s :
       {Shape{1, 5, 12, 9}, {3, 7, 1, 4}, {2, 4, 3072, 128}, {1, 10, 4, 100000}, {2, 3, 0, 4}, {1, 3, 8, 0}})
    for (const std::uint32_t width : {4u, 8u}) {
      kernels::Gather p;
      p.outer = s.outer, p.rows = s.rows, p.row_bytes = s.row_bytes, p.count = s.count, p.index_bytes = width;
      Bytes table(static_cast<std::size_t>(s.outer * s.rows * s.row_bytes)), indices, expected;
      for (std::byte &v : table) v = static_cast<std::byte>(random.bits() >> 32);
      std::vector<std::int64_t> values;
      for (std::int64_t i = 0; i < s.count; ++i) {
        values.push_back(random.integer(-s.rows, s.rows - 1));
        const auto *bytes = reinterpret_cast<const std::byte *>(&values.back());
        indices.insert(indices.end(), bytes, bytes + width);
      }
      for (std::int64_t o = 0; o < s.outer; ++o)
        for (const std::int64_t index : values) {
          const auto begin = table.begin() + (o * s.rows + (index < 0 ? index + s.rows : index)) * s.row_bytes;
          expected.insert(expected.end(), begin, begin + s.row_bytes);
        }
      expect_same("gather", run(isa, Kernel::Gather, &p, {{table}, {indices}, out(expected.size())})[0], expected);
    }
  kernels::Gather p;
  p.rows = 4, p.row_bytes = 4, p.count = 3;
  float table[4] = {}, y[3];
  for (const std::int64_t bad : {std::int64_t{4}, std::int64_t{-5}, INT64_MIN, INT64_MAX}) {
    std::int64_t indices[3] = {0, bad, 99}, found[2] = {};
    std::byte *const pointers[3] = {reinterpret_cast<std::byte *>(table), reinterpret_cast<std::byte *>(indices),
                                    reinterpret_cast<std::byte *>(y)};
    const Threads threads;
    isa.run[static_cast<std::size_t>(Kernel::Gather)](Call{&p, pointers, threads, nullptr, 0, found});
    if (found[0] != bad || found[1] != 1) throw std::runtime_error("gather: an index out of range was not told");
  }
  refuse(isa, Kernel::Gather, p, "no rows", [](auto &q) { q.rows = 0; });
  refuse(isa, Kernel::Gather, p, "indices of 2 bytes", [](auto &q) { q.index_bytes = 2; });
  refuse(isa, Kernel::Gather, p, "a table of 2^62 bytes",
         [](auto &q) { q.rows = q.row_bytes = std::int64_t{1} << 31; });
}

void test_cast(const Isa &isa) {
  Random random(8);
  constexpr DType kTypes[] = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8,  DType::U8,
                              DType::I16, DType::U16, DType::I32,  DType::I64, DType::Bool};
  for (const DType from : kTypes)
    for (const DType to : kTypes)
      for (const std::size_t count : {1u, 17u, 1100u, 40000u}) {
        std::vector<double> values(count);
        static const double kEdges[] = {0,
                                        -0.0,
                                        1,
                                        -1,
                                        0.5,
                                        -0.5,
                                        1.5,
                                        255,
                                        256,
                                        -129,
                                        65504,
                                        65520,
                                        6e-8,
                                        3e-8,
                                        1e-40,
                                        2147483647,
                                        2147483648.0,
                                        -2147483649.0,
                                        9.3e18,
                                        -9.3e18,
                                        1e300,
                                        1 + 0x1p-11 + 0x1p-40,
                                        std::numeric_limits<double>::infinity(),
                                        -std::numeric_limits<double>::infinity(),
                                        std::numeric_limits<double>::quiet_NaN()};
        const std::size_t edges = count == 1100 ? std::size(kEdges) : count == 17 ? 8 : 0;
        for (std::size_t i = 0; i < count; ++i)
          values[i] = i < edges ? kEdges[i] : static_cast<double>(random.real(i % 2 ? -300 : -2, i % 2 ? 300 : 2));
        // Made by the reference; and all bit patterns of small types.
        qir::Node node = node_of(Op::Cast, 1);
        node.set("to", static_cast<std::int64_t>(from));
        Tensor source{DType::F64, {static_cast<std::int64_t>(count)}, bytes_of(values), {}};
        if (from != DType::F64) source = reference(node, {source})[0];
        if (count == 40000 && (from == DType::F16 || from == DType::BF16)) {
          std::vector<std::uint16_t> bits(count);
          for (std::size_t i = 0; i < count; ++i) bits[i] = static_cast<std::uint16_t>(random.bits() >> 20);
          source.data = bytes_of(bits);
        }
        if (count == 40000 && from == DType::Bool)
          for (std::byte &v : source.data) v = static_cast<std::byte>(random.integer(0, 3));
        node.set("to", static_cast<std::int64_t>(to));
        const Tensor expected = reference(node, {source})[0];
        kernels::Cast p;
        p.from = static_cast<std::uint32_t>(from), p.to = static_cast<std::uint32_t>(to),
        p.count = static_cast<std::int64_t>(count);
        const Bytes found = run(isa, Kernel::Cast, &p, {{source.data}, out(expected.data.size())})[0];
        const std::string what = std::string("cast ") + dtype_name(from) + " to " + dtype_name(to);
        if (to == DType::F32) expect_close(what, values_of<float>(found), values_of<float>(expected.data), 0, 0);
        else if (!(from == DType::F16 && to == DType::F64) && !(to == DType::F64))
          expect_same(what, found, expected.data);
        else {
          const auto f = values_of<double>(found), e = values_of<double>(expected.data);
          for (std::size_t i = 0; i < count; ++i)
            if (f[i] != e[i] && !(std::isnan(f[i]) && std::isnan(e[i])))
              throw std::runtime_error(what + ": element " + std::to_string(i));
        }
      }
  kernels::Cast p;
  p.from = 1, p.to = 1;
  refuse(isa, Kernel::Cast, p, "a string", [](auto &q) { q.to = 8; });
  refuse(isa, Kernel::Cast, p, "dtype 257", [](auto &q) { q.from = 257; });
}

void register_benches(Registry &registry);

}  // namespace

void register_elementwise(Registry &registry) {
  registry.test("UnaryF32", test_unary);
  registry.test("BinaryF32", test_binary);
  registry.test("SoftmaxF32", test_softmax);
  registry.test("LayerNormF32", test_layer_norm);
  registry.test("ReduceF32", test_reduce);
  registry.test("Copy", test_copy);
  registry.test("Fill", test_fill);
  registry.test("Gather", test_gather);
  registry.test("Cast", test_cast);
  register_benches(registry);
}

namespace {

void register_benches(Registry &registry) {
  const auto floats = [](std::int64_t count, float low = -3, float high = 3) {
    Random random(1);
    return in(random.reals(static_cast<std::size_t>(count), low, high));
  };
  struct Named {
    const char *name;
    Act act;
  };
  for (const Named &f : {Named{"Relu", Act::Clip},
                         {"Gelu", Act::Gelu},
                         {"GeluTanh", Act::GeluTanh},
                         {"Sigmoid", Act::Sigmoid},
                         {"Silu", Act::Silu},
                         {"Tanh", Act::Tanh},
                         {"Erf", Act::Erf},
                         {"Exp", Act::Exp},
                         {"Log", Act::Log},
                         {"HardSwish", Act::HardSwish},
                         {"Mish", Act::Mish},
                         {"Sqrt", Act::Sqrt}})
    for (const std::int64_t count : {16 * 1024, 128 * 3072}) {
      if (count > 20000 && f.act != Act::Gelu && f.act != Act::Clip) continue;
      registry.bench("UnaryF32 " + std::string(f.name) + " " + std::to_string(count), [=](const Isa &) {
        UnaryF32 p;
        p.count = count, p.act = {f.act, 1, f.act == Act::Clip ? 2.0f : 0.0f, 0};
        return Registry::Prepared{Kernel::UnaryF32,
                                  params_of(p),
                                  {floats(count), out(static_cast<std::size_t>(count) * 4)},
                                  {0, 8.0 * static_cast<double>(count)}};
      });
    }
  registry.bench("BinaryF32 4 elements", [=](const Isa &) {
    BinaryF32 p;
    p.dims[0] = 4, p.a[0] = p.b[0] = 1;
    return Registry::Prepared{Kernel::BinaryF32, params_of(p), {floats(4), floats(4), out(16)}, {4, 48}};
  });
  registry.bench("UnaryF32 Relu 4 elements", [=](const Isa &) {
    UnaryF32 p;
    p.count = 4, p.act = {Act::Clip, 0, kInf, 0};
    return Registry::Prepared{Kernel::UnaryF32, params_of(p), {floats(4), out(16)}, {4, 32}};
  });
  for (const std::int64_t side : {7, 56})
    registry.bench("BinaryF32 Add Relu " + std::to_string(side) + "x" + std::to_string(side) + "x256",
                   [=](const Isa &) {
                     BinaryF32 p;
                     const std::int64_t count = side * side * 256;
                     p.dims[0] = count, p.a[0] = p.b[0] = 1, p.act = {Act::Clip, 0, kInf, 0};
                     return Registry::Prepared{Kernel::BinaryF32,
                                               params_of(p),
                                               {floats(count), floats(count), out(static_cast<std::size_t>(count) * 4)},
                                               {0, 12.0 * static_cast<double>(count)}};
                   });
  for (const std::int64_t c : {16, 96})
    registry.bench("BinaryF32 Mul 3136 x " + std::to_string(c) + " by channel", [=](const Isa &) {
      BinaryF32 p;
      p.op = BinaryOp::Mul, p.rank = 2, p.dims[0] = 3136, p.dims[1] = c, p.a[0] = c, p.a[1] = p.b[1] = 1;
      return Registry::Prepared{Kernel::BinaryF32,
                                params_of(p),
                                {floats(3136 * c), floats(c), out(static_cast<std::size_t>(3136 * c) * 4)},
                                {0, 8.0 * 3136 * static_cast<double>(c)}};
    });
  struct Rows {
    std::int64_t outer, n, inner;
  };
  for (const Rows s : {Rows{12 * 128, 128, 1}, {12 * 197, 197, 1}, {1, 1000, 1}, {1, 50257, 1}, {1, 21, 3136}})
    registry.bench("SoftmaxF32 " + std::to_string(s.outer) + "x" + std::to_string(s.n) + "x" + std::to_string(s.inner),
                   [=](const Isa &) {
                     SoftmaxF32 p;
                     p.outer = s.outer, p.n = s.n, p.inner = s.inner;
                     const std::int64_t count = s.outer * s.n * s.inner;
                     return Registry::Prepared{Kernel::SoftmaxF32,
                                               params_of(p),
                                               {floats(count), out(static_cast<std::size_t>(count) * 4)},
                                               {0, 8.0 * static_cast<double>(count)}};
                   });
  for (const bool residual : {false, true})
    for (const std::int64_t rows : {128, 197})
      registry.bench(
          "LayerNormF32 " + std::to_string(rows) + "x768" + (residual ? " with residual and sum" : ""),
          [=](const Isa &) {
            LayerNormF32 p;
            p.rows = rows, p.cols = 768, p.epsilon = 1e-5f, p.has_beta = 1, p.has_residual = p.has_sum = residual;
            const std::int64_t count = rows * 768;
            const auto bytes = static_cast<std::size_t>(count) * 4;
            std::vector<Operand> operands = {floats(count)};
            if (residual) operands.push_back(floats(count));
            operands.insert(operands.end(), {floats(768), floats(768), out(bytes)});
            if (residual) operands.push_back(out(bytes));
            return Registry::Prepared{
                Kernel::LayerNormF32, params_of(p), operands, {0, static_cast<double>(bytes) * (residual ? 4 : 2)}};
          });
  for (const Rows s : {Rows{128, 768, 1}, {1, 49, 1280}, {1, 12544, 64}, {1, 1000000, 1}})
    registry.bench(
        "ReduceF32 Mean " + std::to_string(s.outer) + "x" + std::to_string(s.n) + "x" + std::to_string(s.inner),
        [=](const Isa &) {
          ReduceF32 p;
          p.outer = s.outer, p.reduced = s.n, p.inner = s.inner, p.op = ReduceOp::Mean;
          const std::int64_t count = s.outer * s.n * s.inner;
          return Registry::Prepared{Kernel::ReduceF32,
                                    params_of(p),
                                    {floats(count), out(static_cast<std::size_t>(s.outer * s.inner) * 4)},
                                    {0, 4.0 * static_cast<double>(count)}};
        });
  struct Transpose {
    std::uint32_t width;
    std::int64_t n, rows, columns, block;
  };  // y[n][columns][rows][block] = x[n][rows][columns][block]
  for (const Transpose t : {Transpose{4, 1, 1, 64, 1},
                            {4, 1, 1, 150528, 1},
                            {4, 1, 3, 50176, 1},
                            {4, 1, 50176, 3, 1},
                            {4, 1, 64, 3136, 1},
                            {4, 1, 3136, 64, 1},
                            {4, 1, 2048, 49, 1},
                            {4, 1, 49, 2048, 1},
                            {4, 1, 128, 12, 64},
                            {4, 1, 768, 768, 1},
                            {1, 1, 50176, 3, 1},
                            {1, 1, 3, 50176, 1},
                            {1, 1, 64, 3136, 1},
                            {2, 1, 3136, 64, 1},
                            {8, 1, 256, 256, 1}})
    registry.bench(
        "Copy " + std::to_string(t.width) + " bytes, " + std::to_string(t.rows) + "x" + std::to_string(t.columns) +
            "x" + std::to_string(t.block) + " transposed",
        [=](const Isa &) {
          kernels::Copy p;
          p.width = t.width, p.rank = 4;
          const std::int64_t dims[4] = {t.n, t.columns, t.rows, t.block},
                             from[4] = {t.rows * t.columns * t.block, t.block, t.columns * t.block, 1},
                             to[4] = {t.rows * t.columns * t.block, t.rows * t.block, t.block, 1};
          for (int i = 0; i < 4; ++i) p.dims[i] = dims[i], p.from[i] = from[i], p.to[i] = to[i];
          const auto bytes = static_cast<std::size_t>(t.n * t.rows * t.columns * t.block) * t.width;
          return Registry::Prepared{
              Kernel::Copy, params_of(p), {{Bytes(bytes)}, out(bytes)}, {0, 2.0 * static_cast<double>(bytes)}};
        });
  struct Casts {
    const char *name;
    DType from, to;
  };
  for (const Casts &c : {Casts{"f32 to f16", DType::F32, DType::F16},
                         {"f16 to f32", DType::F16, DType::F32},
                         {"bf16 to f32", DType::BF16, DType::F32},
                         {"u8 to f32", DType::U8, DType::F32},
                         {"f32 to u8", DType::F32, DType::U8},
                         {"i64 to i32", DType::I64, DType::I32},
                         {"f32 to i64", DType::F32, DType::I64}})
    registry.bench(std::string("Cast ") + c.name + " 16384", [=](const Isa &) {
      kernels::Cast p;
      p.from = static_cast<std::uint32_t>(c.from), p.to = static_cast<std::uint32_t>(c.to), p.count = 16384;
      const double bytes = (dtype_bits(c.from) + dtype_bits(c.to)) / 8.0 * 16384;
      return Registry::Prepared{Kernel::Cast,
                                params_of(p),
                                {{Bytes(16384 * dtype_bits(c.from) / 8)}, out(16384 * dtype_bits(c.to) / 8)},
                                {0, bytes}};
    });
  registry.bench("Gather 128 rows of 3072 bytes", [=](const Isa &) {
    kernels::Gather p;
    p.rows = 1000, p.row_bytes = 3072, p.count = 128;
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < 128; ++i) indices.push_back(i * 7);
    return Registry::Prepared{
        Kernel::Gather, params_of(p), {{Bytes(3072000)}, {bytes_of(indices)}, out(128 * 3072)}, {0, 2.0 * 128 * 3072}};
  });
}

}  // namespace

}  // namespace quarry::kernel_test
