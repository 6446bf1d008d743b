// SPDX-License-Identifier: Apache-2.0
// Kernels of quantised tensors, against cpu-reference.
#include <array>

#include "backends/common/view.h"
#include "backends/gpu/compile/compile.h"
#include "backends/gpu/kernels/params.h"
#include "tests/unit/gpu/kernel_case.h"

using namespace quarry;
using namespace quarry::test;

namespace {

// Of one type, one scale and zero point.
i32 stored_input(Pieces &p, qir::Shape shape, DType dtype, float scale, i32 zero) {
  return p.quantized(p.input(std::move(shape), dtype), dtype, {scale}, {zero});
}
i32 stored(Pieces &p, i32 id, DType dtype, float scale, i32 zero) { return p.quantized(id, dtype, {scale}, {zero}); }
i32 stored_weights(Pieces &p, const qir::Shape &shape, DType dtype, Vector<float> scales, Vector<i32> zeros, i32 axis) {
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < strided::count_of(shape) * dtype_bits(dtype) / 8; ++i)
    values.push_back(static_cast<std::uint8_t>(i * 73 + 11));
  return p.quantized(p.constant(dtype, shape, values), dtype, std::move(scales), std::move(zeros), axis);
}
i32 counted_bias(Pieces &p, std::int64_t channels) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < channels; ++i) values.push_back(static_cast<std::int32_t>(i * 977 % 2000) - 1000);
  return p.constant(DType::I32, {channels}, values);
}

// How a plan of one step has it computed where the device does so.
gpu::Kernel kernel_of(const Pieces &p, const gpu::Target &target) {
  auto compiled = gpu::compile(p.graph, {}, target);
  REQUIRE_OK(compiled);
  REQUIRE_EQ(compiled->plan.steps.size(), 1u);
  return static_cast<gpu::Kernel>(compiled->plan.steps[0].kernel);
}

std::size_t steps_of(const Pieces &p) {
  auto compiled = gpu::compile(p.graph, {}, {});
  REQUIRE_OK(compiled);
  return compiled->plan.steps.size();
}

}  // namespace

TEST_CASE("products of quantised tensors are of integers, and one step") {
  if (!has_device()) return;
  Cases cases;
  for (const DType x_type : {DType::U8, DType::I8, DType::U16})
    for (const bool by_channel : {false, true}) {
      Pieces p;
      const i32 x = stored_input(p, {1, 5, 7, 6}, x_type, 0.0217f, x_type == DType::I8 ? -7 : 119);
      const i32 w = by_channel ? stored_weights(p, {6, 5, 3, 2}, DType::I8,
                                                {0.011f, 0.02f, 0.013f, 0.017f, 0.009f, 0.031f}, {0, 0, 0, 0, 0, 0}, 0)
                               : stored_weights(p, {6, 5, 3, 2}, DType::U8, {0.013f}, {101}, 0);
      const i32 y = p.node(Op::Conv, {x, w, counted_bias(p, 6)}, {attribute("pads", Ints{1, 0, 1, 1})});
      p.gives({stored(p, y, x_type, x_type == DType::U16 ? 0.31f : 0.37f, x_type == DType::I8 ? 3 : 130)});
      CHECK_EQ(steps_of(p), 1u);
      cases.same(p, dtype_name(x_type));
    }
  {  // sums of 64 bits; a result of reals
    Pieces p;
    const i32 x = stored_input(p, {2, 64, 3, 3}, DType::U16, 0.0003f, 31000),
              w = stored_weights(p, {10, 32, 1, 1}, DType::I16, {0.0001f}, {0}, 0);
    p.gives({p.of(Op::Relu, p.node(Op::Conv, {x, w}, {attribute("group", std::int64_t{2})}))});
    CHECK_EQ(steps_of(p), 1u);
    cases.same(p, "u16 by i16");
  }
  for (const DType x_type : {DType::U8, DType::I8, DType::U16})
    for (const bool by_channel : {false, true}) {
      Pieces p;
      const std::int64_t group = by_channel ? 1 : 2;
      const i32 x = stored_input(p, {2, 4, 5, 4}, x_type, 0.0217f, x_type == DType::I8 ? -7 : 119);
      const i32 w = by_channel ? stored_weights(p, {4, 3, 3, 2}, DType::I8, {0.011f, 0.02f, 0.013f}, {0, 5, -9}, 1)
                               : stored_weights(p, {4, 3, 3, 2}, DType::U8, {0.013f}, {101}, 0);
      const i32 y = p.node(Op::ConvTranspose, {x, w, counted_bias(p, 3 * group)},
                           {attribute("strides", Ints{2, 3}), attribute("pads", Ints{1, 0, 0, 1}),
                            attribute("group", group), attribute("output_padding", Ints{1, 0})});
      p.gives({stored(p, y, x_type, x_type == DType::U16 ? 0.31f : 0.37f, x_type == DType::I8 ? 3 : 130)});
      CHECK_EQ(steps_of(p), 1u);
      cases.same(p, "ConvTranspose");
    }
  for (const bool both : {false, true}) {
    Pieces p;
    const i32 a = stored_input(p, {2, 3, 9, 17}, DType::U8, 0.031f, 121);
    const i32 b =
        both ? stored_input(p, {3, 17, 5}, DType::U8, 0.027f, 99)
             : stored_weights(p, {17, 5}, DType::I8, {0.01f, 0.02f, 0.03f, 0.015f, 0.012f}, {0, 0, 0, 0, 0}, 1);
    p.gives({stored(p, p.node(Op::MatMul, {a, b}), DType::U8, 0.31f, 117)});
    CHECK_EQ(steps_of(p), 1u);
    cases.same(p, "MatMul");
  }
  Pieces p;
  const i32 a = stored_input(p, {4, 33}, DType::I8, 0.031f, 5),
            b = stored_weights(p, {7, 33}, DType::I8, {0.013f}, {0}, 0);
  p.gives({stored(p, p.node(Op::Gemm, {a, b, counted_bias(p, 7)}, {attribute("transB", std::int64_t{1})}), DType::I8,
                  0.43f, -9)});
  CHECK_EQ(steps_of(p), 1u);
  cases.same(p, "Gemm");
  cases.run();
}

// Where the device has no such instruction the kernel does without it, so that each device runs each plan.
TEST_CASE("products of integers of 8 bits by dot products of four: to the same bit") {
  if (!has_device()) return;
  const gpu::Target target{.doubles = false, .dots = true};
  for (const auto &tile : {std::array{2, 8, 16, 1}, std::array{4, 4, 4, 2}, std::array{1, 16, 1, 4}}) {
    Cases cases(target, [&](gpu::Plan &plan) {
      for (const gpu::Step &step : plan.steps) {
        const auto kernel = static_cast<gpu::Kernel>(step.kernel);
        CHECK((kernel == gpu::Kernel::ConvDot || kernel == gpu::Kernel::MatMulDot));
        gpu::edit_tiled(kernel, plan.numbers.data() + step.numbers, [&](auto &p) {
          p.tile = {tile[0], tile[1], tile[2], tile[3]};
        });
      }
    });
    struct Case {
      std::int64_t n, c, h, w, m, k, stride, pad, group;
    };
    for (const DType type : {DType::U8, DType::I8})
      for (const Case &c :
           {Case{2, 5, 7, 6, 19, 3, 1, 1, 1}, Case{1, 16, 9, 5, 10, 3, 2, 1, 2}, Case{2, 7, 5, 4, 33, 1, 1, 0, 1}}) {
        Pieces p;
        const i32 x = stored_input(p, {c.n, c.c, c.h, c.w}, type, 0.0217f, type == DType::I8 ? -7 : 119);
        const i32 w = stored_weights(p, {c.m, c.c / c.group, c.k, c.k}, DType::I8,
                                     Vector<float>(static_cast<std::size_t>(c.m), 0.011f),
                                     Vector<i32>(static_cast<std::size_t>(c.m), 0), 0);
        const i32 y = p.node(Op::Conv, {x, w, counted_bias(p, c.m)},
                             {attribute("pads", Ints{c.pad, c.pad, c.pad, c.pad}),
                              attribute("strides", Ints{c.stride, c.stride}), attribute("group", c.group)});
        p.gives({stored(p, y, type, 0.37f, type == DType::I8 ? 3 : 130)});
        CHECK_EQ(kernel_of(p, target), gpu::Kernel::ConvDot);
        CHECK_EQ(kernel_of(p, {}), gpu::Kernel::ConvInteger);
        cases.same(p, "Conv by fours");
      }
    for (const DType type : {DType::U8, DType::I8})
      for (const auto &[m, k, n] : {std::array{17, 33, 37}, std::array{1, 8, 16}, std::array{5, 6, 3}}) {
        Pieces p;
        const i32 a = stored_input(p, {2, m, k}, type, 0.0217f, type == DType::I8 ? 21 : 3);
        const i32 b = stored_weights(p, {k, n}, DType::U8, {0.013f}, {128}, 0);
        p.gives({stored(p, p.node(Op::MatMul, {a, b}), type, 0.5f, 17)});
        CHECK_EQ(kernel_of(p, target), gpu::Kernel::MatMulDot);
        cases.same(p, "MatMul by fours");
      }
    cases.run();
  }
  // What 8 bits or sums of 32 do not hold, and single channels, go their own way.
  Pieces wide;
  const i32 x = stored_input(wide, {1, 8, 5, 5}, DType::U8, 0.02f, 119);
  wide.gives({stored(wide, wide.node(Op::Conv, {x, stored_weights(wide, {6, 8, 3, 3}, DType::U8, {0.013f}, {101}, 0)}),
                     DType::U8, 0.37f, 130)});
  CHECK_EQ(kernel_of(wide, target), gpu::Kernel::ConvInteger);
}

TEST_CASE("operators on elements of quantised tensors, and what moves them") {
  if (!has_device()) return;
  Cases cases;
  for (const Op op : {Op::Add, Op::Mul, Op::Sub, Op::Max}) {
    Pieces p;
    const i32 a = stored_input(p, {3, 5, 4}, DType::U8, 0.021f, 100),
              b = stored_input(p, {5, 1}, DType::I8, 0.017f, -3);
    p.gives({stored(p, p.node(op, {a, b}), DType::U16, 0.0013f, 31000)});
    CHECK_EQ(steps_of(p), 1u);
    cases.same(p, qir::op_name(op));
  }
  for (const Op op : {Op::Sigmoid, Op::HardSwish, Op::LeakyRelu}) {
    Pieces p;
    p.gives({stored(p, p.of(op, stored_input(p, {301}, DType::U8, 0.037f, 128)), DType::U8, 0.0173f, 3)});
    cases.same(p, qir::op_name(op));
  }
  Pieces joined;
  const i32 part = stored_input(joined, {2, 3}, DType::U8, 0.02f, 128),
            other = stored_input(joined, {2, 4}, DType::U8, 0.033f, 99);
  joined.gives({stored(joined, joined.node(Op::Concat, {part, other}, {attribute("axis", std::int64_t{1})}), DType::U8,
                       0.02f, 128)});
  cases.same(joined, "Concat");
  Pieces moved;
  const i32 x = stored_input(moved, {1, 4, 6, 6}, DType::I8, 0.02f, -11);
  const i32 padded =
      stored(moved, moved.node(Op::Pad, {x, moved.integers({0, 0, 1, 0, 0, 0, 0, 2})}), DType::I8, 0.02f, -11);
  const i32 pooled =
      stored(moved, moved.node(Op::MaxPool, {padded}, {attribute("kernel_shape", Ints{3, 3})}), DType::I8, 0.02f, -11);
  moved.gives({stored(moved, moved.transpose(pooled, {0, 2, 3, 1}), DType::I8, 0.02f, -11)});
  cases.same(moved, "Pad, MaxPool, Transpose");
  cases.run();
}

TEST_CASE("kernels that compute reals read and write what is stored: no step in between") {
  if (!has_device()) return;
  Cases cases;
  const auto image = [](Pieces &p) { return stored_input(p, {2, 3, 9, 8}, DType::U8, 0.021f, 100); };
  const auto check = [&](Pieces &p, i32 y, const char *what, DType dtype = DType::U8, std::size_t steps = 1) {
    p.gives({stored(p, y, dtype, dtype == DType::I16 ? 0.00031f : 0.0173f, dtype == DType::U8 ? 91 : -7)});
    CHECK_EQ(steps_of(p), steps);
    cases.same(p, what);
  };
  for (const std::int64_t padded : {0, 1}) {
    Pieces p;
    check(p,
          p.node(Op::AveragePool, {image(p)},
                 {attribute("kernel_shape", Ints{3, 2}), attribute("strides", Ints{2, 2}),
                  attribute("pads", Ints{1, 0, 1, 1}), attribute("count_include_pad", padded)}),
          "AveragePool");
  }
  for (const DType dtype : {DType::U8, DType::I8, DType::I16}) {
    Pieces p;
    check(p, p.of(Op::GlobalAveragePool, image(p)), "GlobalAveragePool", dtype);
    for (const std::int64_t length : {10, 300}) {
      Pieces q;
      check(q, q.of(Op::Softmax, stored_input(q, {4, length}, DType::I8, 0.11f, -9)), "Softmax", dtype);
    }
    Pieces m;
    check(m, m.node(Op::ReduceMean, {image(m), m.integers({1, 3})}), "ReduceMean", dtype);
    Pieces n;
    check(n,
          n.node(Op::LayerNormalization, {stored_input(n, {5, 33}, DType::U8, 0.031f, 121),
                                          stored_weights(n, {33}, DType::I8, {0.013f}, {3}, 0), n.input({33})}),
          "LayerNormalization", dtype);
  }
  {  // a result of reals, and an operand of reals
    Pieces p;
    p.gives({p.of(Op::Softmax, stored_input(p, {4, 10}, DType::I8, 0.11f, -9))});
    CHECK_EQ(steps_of(p), 1u);
    cases.same(p, "Softmax to reals");
    Pieces q;
    check(q, q.of(Op::Softmax, q.input({4, 10})), "Softmax of reals");
  }
  {  // seen by other strides, and moved before: what is copied stays stored
    Pieces p;
    const i32 turned = stored(p, p.transpose(image(p), {0, 2, 3, 1}), DType::U8, 0.021f, 100);
    check(p, p.node(Op::ReduceMean, {turned, p.integers({2, 3})}), "ReduceMean of a view");
    Pieces q;
    const i32 other = stored(q, q.transpose(image(q), {0, 2, 3, 1}), DType::U8, 0.021f, 100);
    check(q, q.node(Op::LayerNormalization, {other, q.input({3})}), "LayerNormalization of a view", DType::U8, 2);
  }
  {  // an activation behind it works on what is stored
    Pieces p;
    const i32 pooled = stored(p, p.of(Op::GlobalAveragePool, image(p)), DType::U8, 0.0173f, 91);
    p.gives({stored(p, p.of(Op::Sigmoid, pooled), DType::U8, 0.004f, 0)});
    CHECK_EQ(steps_of(p), 2u);
    cases.same(p, "GlobalAveragePool, Sigmoid");
  }
  cases.run();
}
