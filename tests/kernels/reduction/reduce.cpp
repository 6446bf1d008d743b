// SPDX-License-Identifier: Apache-2.0
// Reductions. Bounds of f32 (rtol, atol), against f64 rounded once: 2e-6, 1e-7 of the sum of magnitudes; of f64: 1e-13,
// 1e-14 of it.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/shapes/elements_shape.h"
#include "tests/kernels/wide_numbers.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

void test_reduce(const Isa &isa) {
  Random random(5);
  constexpr Op kOps[] = {Op::ReduceSum, Op::ReduceMean, Op::ReduceMax,       Op::ReduceMin,      Op::ReduceProd,
                         Op::ReduceL1,  Op::ReduceL2,   Op::ReduceSumSquare, Op::ReduceLogSumExp};
  struct Shape {
    std::int64_t outer, reduced, inner;
  };
  for (const Shape s :
       {Shape{1, 1, 1}, {3, 7, 1},   {2, 64, 1},   {37, 80, 1},   {20, 129, 1}, {33, 47, 1},    {37, 2, 1},
        {16, 3, 1},     {50, 8, 1},  {33, 9, 1},   {16, 256, 1},  {5, 1000, 1}, {1, 100003, 1}, {2, 5, 3},
        {3, 49, 64},    {1, 33, 77}, {2, 3000, 9}, {100, 20, 40}, {4, 0, 1},    {2, 0, 9},      {0, 5, 3}})
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

void register_reduce_benches(Registry &registry) {
  struct Rows {
    std::int64_t outer, n, inner;
  };
  for (const Rows s : {Rows{128, 768, 1}, {1, 49, 1280}, {1, 12544, 64}, {1, 1000000, 1}})
    registry.bench(
        "ReduceF32 Mean " + std::to_string(s.outer) + "x" + std::to_string(s.n) + "x" + std::to_string(s.inner),
        [=](const Isa &) {
          ReduceF32 p;
          p.outer = s.outer, p.reduced = s.n, p.inner = s.inner, p.op = ReduceOp::Mean;
          const std::int64_t count = s.outer * s.n * s.inner;
          return Registry::Prepared{Kernel::ReduceF32,
                                    params_of(p),
                                    {in(Random(1).reals(static_cast<std::size_t>(count), -3, 3)),
                                     out(static_cast<std::size_t>(s.outer * s.inner) * 4)},
                                    {0, 4.0 * static_cast<double>(count)}};
        });
}

}  // namespace

void register_reduce(Registry &registry) {
  registry.test("ReduceF32", test_reduce);
  registry.test("Reduce", test_wide_reduce);
  register_reduce_benches(registry);
}

}  // namespace quarry::kernel_test
