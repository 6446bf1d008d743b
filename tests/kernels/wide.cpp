// SPDX-License-Identifier: Apache-2.0
// Kernels of f64 and of whole numbers of 32 and 64 bits. Integers: exact. Bounds of f64 (rtol, atol): functions 2e-15,
// 1e-300; tan and sums 1e-14 of the magnitudes that they are made of.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/shapes/elements_shape.h"
#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

constexpr double kDoubleNan = std::numeric_limits<double>::quiet_NaN(),
                 kDoubleInf = std::numeric_limits<double>::infinity();

void expect_near(const std::string &what, const Bytes &found, const Bytes &expected, double rtol, double atol) {
  const auto a = values_of<double>(found), b = values_of<double>(expected);
  if (a.size() != b.size()) throw std::runtime_error(what + ": another number of results");
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::fabs(a[i] - b[i]) <= atol + rtol * std::fabs(b[i])) continue;
    throw std::runtime_error(what + ": place " + std::to_string(i) + ": found " + std::to_string(a[i]) + ", expected " +
                             std::to_string(b[i]) + " (they differ by " + std::to_string((a[i] - b[i]) / b[i] * 1e15) +
                             "e-15)");
  }
}
std::vector<double> doubles(Random &random, std::size_t count, float range) {
  std::vector<double> x(count);
  for (double &v : x) {
    constexpr double kEdges[] = {0,           -0.0, 1,      -1,     kDoubleNan, kDoubleInf,
                                 -kDoubleInf, 2.5,  5e-324, 1e-310, -0.5,       4503599627370497.5};
    // All bits of a double, not only those that an f32 has.
    v = static_cast<double>(random.real(-range, range)) * (1 + static_cast<double>(random.real(0, 1)) * 1e-8);
    if (random.integer(0, 19) == 0) v = kEdges[random.integer(0, 11)];
  }
  return x;
}
Tensor tensor_as(DType dtype, Dims shape, Bytes data) { return {dtype, std::move(shape), std::move(data), {}}; }

struct Function {
  Act act;
  Op op;
  double a = 0, b = 0;
  const char *first = nullptr, *second = nullptr;  // attributes
};
constexpr Function kFunctions[] = {{Act::LeakyRelu, Op::LeakyRelu, 0.25, 0, "alpha"},
                                   {Act::HardSigmoid, Op::HardSigmoid, 0.25, 0.5, "alpha", "beta"},
                                   {Act::HardSwish, Op::HardSwish},
                                   {Act::Sigmoid, Op::Sigmoid},
                                   {Act::Silu, Op::Swish, 1.5, 0, "alpha"},
                                   {Act::Tanh, Op::Tanh},
                                   {Act::Elu, Op::Elu, 0.75, 0, "alpha"},
                                   {Act::Softplus, Op::Softplus},
                                   {Act::Mish, Op::Mish},
                                   {Act::Exp, Op::Exp},
                                   {Act::Log, Op::Log},
                                   {Act::Sqrt, Op::Sqrt},
                                   {Act::Reciprocal, Op::Reciprocal},
                                   {Act::Abs, Op::Abs},
                                   {Act::Neg, Op::Neg},
                                   {Act::Floor, Op::Floor},
                                   {Act::Ceil, Op::Ceil},
                                   {Act::Round, Op::Round}};

void test_unary(const Isa &isa) {
  Random random(21);
  for (const Function &f : kFunctions)
    for (const std::size_t count : {1, 3, 8, 21, 1000, 5000})
      for (const float range : {0.01f, 3.0f, 800.0f, 1e30f}) {
        const Bytes x = bytes_of(doubles(random, count, range));
        const UnaryF64 p{static_cast<std::int64_t>(count), f.act, 0, f.a, f.b};
        qir::Node node = node_of(f.op, 1);
        if (f.first) node.set(f.first, static_cast<float>(f.a));
        if (f.second) node.set(f.second, static_cast<float>(f.b));
        const Bytes found = run(isa, Kernel::UnaryF64, &p, {{x}, out(count * 8)})[0];
        const Bytes expected = reference(node, {tensor_as(DType::F64, {static_cast<std::int64_t>(count)}, x)})[0].data;
        const bool exact = f.act >= Act::Sqrt;
        // (The reference's own HardSigmoid, softplus and what is made of it round more than once.)
        const double loose = f.act == Act::Mish || f.act == Act::Softplus || f.act == Act::HardSigmoid ? 4e-15 : 2e-15;
        expect_near("f64 activation " + std::to_string(static_cast<int>(f.act)), found, expected, exact ? 0 : loose,
                    exact                                                  ? 0
                    : f.act == Act::HardSigmoid || f.act == Act::HardSwish ? 1e-15
                                                                           : 1e-300);
        if (f.act >= Act::Floor)  // signs of zeros too
          for (std::size_t i = 0; i < count; ++i)
            if (std::signbit(values_of<double>(found)[i]) != std::signbit(values_of<double>(expected)[i]))
              throw std::runtime_error("f64: another sign");
      }
  // Bounds are any doubles.
  const std::vector<double> x = doubles(random, 333, 2);
  std::vector<double> expected = x;
  for (double &v : expected) v = v < -0.1 ? -0.1 : v > 1e-9 ? 1e-9 : v;
  UnaryF64 p{333, Act::Clip, 0, -0.1, 1e-9};
  expect_near("f64 clip", run(isa, Kernel::UnaryF64, &p, {{bytes_of(x)}, out(333 * 8)})[0], bytes_of(expected), 0, 0);
  refuse(isa, Kernel::UnaryF64, p, "a negative count", [](auto &q) { q.count = -1; });
  refuse(isa, Kernel::UnaryF64, p, "Gelu", [](auto &q) { q.kind = Act::Gelu; });
  refuse(isa, Kernel::UnaryF64, p, "an unknown activation", [](auto &q) { q.kind = static_cast<Act>(77); });
  refuse(isa, Kernel::UnaryF64, p, "a reserved field", [](auto &q) { q.reserved = 1; });
}

void test_lines(const Isa &isa) {
  Random random(22);
  struct Shape {
    std::int64_t outer, n, inner;
  };
  for (const Shape s : {Shape{1, 1, 1},
                        {3, 5, 1},
                        {2, 8, 1},
                        {7, 33, 1},
                        {4, 1000, 1},
                        {2, 5, 3},
                        {3, 21, 16},
                        {2, 70, 37},
                        {0, 4, 1},
                        {4, 0, 1}})
    for (const bool special : {false, true}) {
      const Dims shape = {s.outer, s.n, s.inner};
      std::vector<double> x(product(shape));
      for (double &v : x) v = static_cast<double>(random.real(-20, 20));
      for (double &v : x)
        if (random.integer(0, 9) == 0) v = 19;  // equal ones
      if (special && x.size() > 8)
        x[1] = kDoubleNan, x[x.size() / 2] = kDoubleInf, x[x.size() - 1] = -kDoubleInf, x[x.size() / 3] = kDoubleNan;
      std::vector<float> narrow(x.begin(), x.end());
      for (const Op op : {Op::Softmax, Op::LogSoftmax, Op::Hardmax})
        for (const DType dtype : {DType::F64, DType::F32}) {
          if (op != Op::Hardmax && dtype == DType::F32) continue;
          const Bytes data = dtype == DType::F64 ? bytes_of(x) : bytes_of(narrow);
          const SoftmaxF64 soft{s.outer, s.n, s.inner, op == Op::LogSoftmax, 0};
          const Hardmax hard{s.outer, s.n, s.inner, static_cast<std::uint32_t>(dtype), 0};
          const Bytes found = op == Op::Hardmax ? run(isa, Kernel::Hardmax, &hard, {{data}, out(data.size())})[0]
                                                : run(isa, Kernel::SoftmaxF64, &soft, {{data}, out(data.size())})[0];
          if (data.empty()) continue;
          qir::Node node = node_of(op, 1);
          node.set("axis", std::int64_t{1});
          const Bytes expected = reference(node, {tensor_as(dtype, shape, data)})[0].data;
          if (op != Op::Hardmax) expect_near("softmax", found, expected, 1e-14, op == Op::LogSoftmax ? 1e-14 : 1e-300);
          else if (found != expected) throw std::runtime_error("hardmax: another place");
        }
    }
  refuse(isa, Kernel::SoftmaxF64, SoftmaxF64{}, "a negative dimension", [](auto &q) { q.n = -1; });
  refuse(isa, Kernel::SoftmaxF64, SoftmaxF64{}, "a flag of 2", [](auto &q) { q.log = 2; });
  refuse(isa, Kernel::Hardmax, Hardmax{}, "integers",
         [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::I32); });
  refuse(isa, Kernel::Hardmax, Hardmax{}, "a line of 2^40", [](auto &q) { q.n = std::int64_t{1} << 40, q.dtype = 1; });
}

template <class T>
Bytes integers(std::size_t count, Random &random) {
  std::vector<T> values(count);
  for (T &v : values) {
    constexpr T kEdges[] = {0, 1, static_cast<T>(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 7};
    v = random.integer(0, 9) == 0 ? kEdges[random.integer(0, 5)] : static_cast<T>(random.bits());
  }
  return bytes_of(values);
}
Bytes numbers(DType dtype, std::size_t count, Random &random) {
  switch (dtype) {
    case DType::I8: return integers<std::int8_t>(count, random);
    case DType::U8: return integers<std::uint8_t>(count, random);
    case DType::I32: return integers<std::int32_t>(count, random);
    case DType::U32: return integers<std::uint32_t>(count, random);
    case DType::I64: return integers<std::int64_t>(count, random);
    case DType::U64: return integers<std::uint64_t>(count, random);
    default: break;
  }
  std::vector<double> x(count);
  for (double &v : x) v = static_cast<double>(random.real(-1, 1)) * 1.000000001;
  return bytes_of(x);
}

void test_wide_reduce(const Isa &isa) {
  Random random(23);
  constexpr Op kOps[] = {Op::ReduceSum,  Op::ReduceMean, Op::ReduceMax, Op::ReduceMin,
                         Op::ReduceProd, Op::ReduceL1,   Op::ReduceL2,  Op::ReduceSumSquare};
  struct Shape {
    std::int64_t outer, reduced, inner;
  };
  for (const DType dtype : {DType::F64, DType::I8, DType::U8, DType::I32, DType::U32, DType::I64, DType::U64})
    for (std::uint32_t op = 0; op < std::size(kOps); ++op)
      for (const Shape s : {Shape{1, 1, 1},
                            {3, 7, 1},
                            {40, 32, 1},
                            {5, 1000, 1},
                            {1, 30011, 1},
                            {2, 5, 3},
                            {3, 49, 64},
                            {1, 33, 277},
                            {4, 0, 1},
                            {2, 0, 9},
                            {0, 5, 3}})
        for (const bool special : {false, true}) {
          if (!takes(static_cast<ReduceOp>(op), dtype)) continue;
          const Dims shape = {s.outer, s.reduced, s.inner};
          Bytes data = numbers(dtype, product(shape), random);
          if (dtype == DType::F64) {
            std::vector<double> x = values_of<double>(data);
            if (static_cast<ReduceOp>(op) == ReduceOp::Prod)
              for (double &v : x) v = 1 + v * 0.001;
            if (special && x.size() > 4) x[x.size() / 2] = kDoubleNan, x[1] = kDoubleInf, x[3] = -kDoubleInf;
            data = bytes_of(x);
          } else if (special) {
            continue;
          }
          const Reduce p{s.outer, s.reduced, s.inner, static_cast<ReduceOp>(op), static_cast<std::uint32_t>(dtype)};
          const std::size_t bytes = static_cast<std::size_t>(s.outer * s.inner) * dtype_bits(dtype) / 8;
          const Bytes found = run(isa, Kernel::Reduce, &p, {{data}, out(bytes)})[0];
          if (s.outer == 0) continue;
          qir::Node node = node_of(kOps[op], 2);
          const Bytes expected =
              reference(node, {tensor_as(dtype, shape, data), tensor_of({1}, std::vector<std::int64_t>{1})})[0].data;
          const std::string what = "reduce " + std::to_string(op) + " of " + dtype_name(dtype);
          if (dtype == DType::F64)
            expect_near(what, found, expected, 1e-13,
                        1e-14 * static_cast<double>(std::max<std::int64_t>(4, s.reduced / 8)));
          else if (found != expected) throw std::runtime_error(what + ": not what the reference gives");
        }
  const Reduce p{2, 3, 5, ReduceOp::Sum, static_cast<std::uint32_t>(DType::I32)};
  refuse(isa, Kernel::Reduce, p, "an unknown operator", [](auto &q) { q.op = ReduceOp::Count; });
  refuse(isa, Kernel::Reduce, p, "a mean of integers", [](auto &q) { q.op = ReduceOp::Mean; });
  refuse(isa, Kernel::Reduce, p, "an unknown dtype", [](auto &q) { q.dtype = 300; });
  refuse(isa, Kernel::Reduce, p, "too many results",
         [](auto &q) { q.reduced = 0, q.outer = q.inner = std::int64_t{1} << 30; });
}

void test_matmul(const Isa &isa) {
  Random random(24);
  struct Shape {
    std::int64_t batch, m, n, k;
    bool a_transposed, b_transposed, one_b;
  };
  for (const DType dtype : {DType::F64, DType::I32, DType::U32, DType::I64, DType::U64})
    for (const Shape s : {Shape{1, 1, 1, 1, false, false, false},
                          {1, 5, 7, 3, false, false, false},
                          {2, 9, 33, 17, false, false, true},
                          {3, 8, 16, 64, true, false, false},
                          {2, 13, 40, 9, false, true, false},
                          {1, 17, 70, 700, true, true, false},
                          {1, 4, 5, 0, false, false, false}}) {
      MatMulWide p;
      p.dtype = static_cast<std::uint32_t>(dtype);
      p.m = s.m, p.n = s.n, p.k = s.k;
      p.batch[3] = s.batch, p.a_batch[3] = s.m * s.k, p.b_batch[3] = s.one_b ? 0 : s.k * s.n, p.y_batch[3] = s.m * s.n;
      p.a_row = s.a_transposed ? 1 : s.k, p.a_col = s.a_transposed ? s.m : 1;
      p.b_row = s.b_transposed ? 1 : s.n, p.b_col = s.b_transposed ? s.k : 1;
      p.y_row = s.n;
      const std::size_t width = dtype_bits(dtype) / 8, a_count = static_cast<std::size_t>(s.batch * s.m * s.k),
                        b_count = static_cast<std::size_t>((s.one_b ? 1 : s.batch) * s.k * s.n);
      const Bytes a = numbers(dtype, a_count, random), b = numbers(dtype, b_count, random);
      const Bytes found =
          run(isa, Kernel::MatMulWide, &p, {{a}, {b}, out(static_cast<std::size_t>(s.batch * s.m * s.n) * width)})[0];
      // As the reference has its operands.
      const auto transposed = [&](const Bytes &from, std::int64_t matrices, std::int64_t rows, std::int64_t columns) {
        Bytes to(from.size());
        for (std::int64_t i = 0; i < matrices; ++i)
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < columns; ++c)
              std::memcpy(to.data() + static_cast<std::size_t>((i * rows + r) * columns + c) * width,
                          from.data() + static_cast<std::size_t>((i * columns + c) * rows + r) * width, width);
        return to;
      };
      const Bytes given_a = s.a_transposed ? transposed(a, s.batch, s.m, s.k) : a;
      const Bytes given_b = s.b_transposed ? transposed(b, s.one_b ? 1 : s.batch, s.k, s.n) : b;
      const Bytes expected =
          reference(node_of(Op::MatMul, 2), {tensor_as(dtype, {s.batch, s.m, s.k}, given_a),
                                             tensor_as(dtype, {s.one_b ? 1 : s.batch, s.k, s.n}, given_b)})[0]
              .data;
      if (dtype == DType::F64) expect_near("f64 product", found, expected, 1e-13, 1e-13);
      else if (found != expected)
        throw std::runtime_error(std::string("product of ") + dtype_name(dtype) + ": not what the reference gives");
    }
  MatMulWide p;
  p.dtype = static_cast<std::uint32_t>(DType::I32), p.m = p.n = p.k = 2, p.a_row = p.b_row = p.y_row = 2;
  refuse(isa, Kernel::MatMulWide, p, "f32", [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::F32); });
  refuse(isa, Kernel::MatMulWide, p, "rows of y that overlap", [](auto &q) { q.y_row = 1; });
  refuse(isa, Kernel::MatMulWide, p, "a reserved field", [](auto &q) { q.reserved = 1; });
}

}  // namespace

void register_wide(Registry &registry) {
  registry.test("UnaryF64", test_unary);
  registry.test("SoftmaxF64, Hardmax", test_lines);
  registry.test("Reduce", test_wide_reduce);
  registry.test("MatMulWide", test_matmul);
}

}  // namespace quarry::kernel_test
