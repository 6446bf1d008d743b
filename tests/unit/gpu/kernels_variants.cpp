// SPDX-License-Identifier: Apache-2.0
// The variants of matrix multiplications of reals, each against cpu-reference: tiles, local memory, float16.
#include <array>
#include <cmath>

#include "backends/gpu/compile/compile.h"
#include "backends/gpu/kernels/params.h"
#include "tests/unit/gpu/kernel_case.h"

using namespace quarry;
using namespace quarry::test;

namespace {

// Every step that has a tile gets this one.
Cases::Change with_tile(const std::array<std::int32_t, 5> &tile) {
  return [tile](gpu::Plan &plan) {
    std::size_t count = 0;
    for (const gpu::Step &step : plan.steps) {
      const auto kernel = static_cast<gpu::Kernel>(step.kernel);
      if (kernel != gpu::Kernel::MatMulTile && kernel != gpu::Kernel::ConvTile) continue;
      gpu::edit_tiled(kernel, plan.numbers.data() + step.numbers, [&](auto &p) {
        p.tile = {tile[0], tile[1], tile[2], tile[3]};
        if constexpr (requires { p.LOCAL; }) p.LOCAL = tile[4];
      });
      ++count;
    }
    CHECK_GT(count, 0u);
  };
}

bool on_oclgrind() { return engine_under_test()->device().platform_name == "Oclgrind"; }

struct Convolution {
  std::int64_t n, c, h, w, m, k, stride, pad, group;
};
// A convolution of constant weights, a bias and Relu behind it; of an input where no `x` is given.
i32 convolution(Pieces &p, const Convolution &c, DType dtype = DType::F32, i32 x = qir::kAbsent) {
  if (x == qir::kAbsent) x = p.input({c.n, c.c, c.h, c.w}, dtype);
  const std::int64_t count = c.m * c.c / c.group * c.k * c.k;
  i32 w = p.column(count, {c.m, c.c / c.group, c.k, c.k}), bias = p.column(c.m);
  if (dtype != DType::F32) {
    w = p.node(Op::Cast, {w}, {attribute("to", static_cast<std::int64_t>(dtype))});
    bias = p.node(Op::Cast, {bias}, {attribute("to", static_cast<std::int64_t>(dtype))});
  }
  return p.of(Op::Relu, p.node(Op::Conv, {x, w, bias},
                               {attribute("pads", Ints{c.pad, c.pad, c.pad, c.pad}),
                                attribute("strides", Ints{c.stride, c.stride}), attribute("group", c.group)}));
}

}  // namespace

TEST_CASE("matrix multiplications in tiles, through local memory") {
  if (!has_device()) return;
  for (const auto &tile : {std::array{4, 4, 16, 4, 8}, std::array{8, 8, 8, 8, 16}, std::array{2, 16, 1, 4, 4},
                           std::array{1, 2, 4, 1, 32}}) {
    Cases cases(with_tile(tile));
    for (const auto &[a, b] : std::vector<std::pair<qir::Shape, qir::Shape>>{
             {{17, 33}, {33, 37}}, {{2, 8, 5}, {2, 5, 16}}, {{70, 40}, {40, 130}}}) {
      Pieces p;
      p.gives({p.of(Op::Relu, p.node(Op::MatMul, {p.input(a), p.input(b)}))});
      cases.same(p, "local");
      Pieces q;
      q.gives({q.of(Op::Relu, q.node(Op::MatMul, {q.input(a, DType::F16), q.input(b, DType::F16)}))});
      cases.same(q, "local, f16", false, tolerance_of(DType::F16));
    }
    Pieces w;
    w.gives({w.node(Op::MatMul, {w.input({2, 9, 40}), w.column(40 * 35, {40, 35})})});
    cases.same(w, "local, weights in panels");
    if (on_oclgrind()) MESSAGE("Oclgrind takes minutes with convolutions that wait at barriers: not tested");
    else
      for (const Convolution &c : {Convolution{2, 3, 4, 5, 9, 3, 1, 1, 1}, Convolution{1, 4, 5, 4, 10, 2, 2, 1, 2}}) {
        Pieces v;
        v.gives({convolution(v, c)});
        cases.same(v, "local, Conv", false, 1e-4);
      }
    cases.run();
  }
}

// Where the device has no arithmetic of 16 bits the kernels do without, and are nearer.
TEST_CASE("products of f16 in 16 bits") {
  if (!has_device()) return;
  if (on_oclgrind()) {
    MESSAGE("Oclgrind says cl_khr_fp16 and has no constants of f16 (src/core/common.cpp): not tested");
    return;
  }
  const gpu::Target target{.doubles = false, .dots = false, .float16 = true};
  for (const auto &tile : {std::array{8, 16, 4, 1, 0}, std::array{4, 4, 16, 4, 8}, std::array{1, 2, 8, 8, 0}}) {
    Cases cases(target, with_tile(tile));
    const auto in_halves = [&](const Pieces &p) {
      auto compiled = gpu::compile(p.graph, {}, target);
      REQUIRE_OK(compiled);
      for (const gpu::Step &step : compiled->plan.steps) {
        gpu::edit_tiled(static_cast<gpu::Kernel>(step.kernel), compiled->plan.numbers.data() + step.numbers,
                        [](auto &tiled) {
                          if constexpr (requires { tiled.FLOAT16_STEPS; }) CHECK_EQ(tiled.FLOAT16_STEPS, 16);
                        });
      }
    };
    for (const auto &[a, b] :
         std::vector<std::pair<qir::Shape, qir::Shape>>{{{17, 33}, {33, 37}}, {{2, 8, 500}, {2, 500, 16}}}) {
      Pieces p;
      p.gives({p.of(Op::Relu, p.node(Op::MatMul, {p.input(a, DType::F16), p.input(b, DType::F16)}))});
      in_halves(p);
      cases.same(p, "MatMul", false, 1e-2);
    }
    for (const Convolution &c : {Convolution{2, 5, 7, 9, 19, 3, 1, 1, 1}, Convolution{1, 64, 9, 8, 40, 3, 2, 1, 2},
                                 Convolution{1, 90, 4, 4, 18, 1, 1, 0, 1}}) {
      Pieces p;
      p.gives({convolution(p, c, DType::F16)});
      in_halves(p);
      cases.same(p, "Conv", false, 1e-2);
    }
    cases.run();
  }
}

// Pixels whose taps do not reach what is not finite, or near the greatest number, are as if it were not there.
TEST_CASE("a patch of Winograd's form that is spoilt is summed anew") {
  if (!has_device()) return;
  for (const std::int32_t step : {2, 4}) {
    Cases cases(gpu::Target{.doubles = false, .winograd = step});
    for (const Convolution &c : {Convolution{2, 5, 9, 11, 7, 3, 1, 1, 1}, Convolution{1, 3, 6, 8, 20, 3, 1, 0, 1},
                                 Convolution{1, 4, 5, 7, 3, 3, 1, 2, 1}})
      for (const float value : {INFINITY, -INFINITY, NAN}) {
        Pieces p;
        const qir::Shape shape = {c.n, c.c, c.h, c.w};
        std::vector<float> spots(static_cast<std::size_t>(c.n * c.c * c.h * c.w), 0);
        spots[static_cast<std::size_t>(c.w + 2)] = spots[spots.size() - static_cast<std::size_t>(c.h * c.w) + 4] =
            value;
        p.gives({convolution(p, c, DType::F32, p.add(p.input(shape), p.constant(DType::F32, shape, spots)))});
        cases.same(p, "Conv of what is not finite", false, 1e-4);
      }
    cases.run();
  }
  // Of numbers near the greatest the largest finite one is the measure: others by themselves.
  for (const std::int32_t step : {2, 4}) {
    Cases cases(gpu::Target{.doubles = false, .winograd = step});
    Pieces p;
    const Convolution c{1, 3, 10, 10, 4, 3, 1, 1, 1};
    const qir::Shape shape = {c.n, c.c, c.h, c.w};
    std::vector<float> spots(300, 0);
    spots[0] = 1e38f;
    const i32 y = convolution(p, c, DType::F32, p.add(p.input(shape), p.constant(DType::F32, shape, spots)));
    p.gives({p.node(Op::Clip, {y, p.scalar(0), p.scalar(1000)})});
    cases.same(p, "Conv near the greatest", false, 1e-4);
    cases.run();
  }
  // Filters that spoil everything are none for this form.
  Pieces p;
  const i32 x = p.input({1, 2, 8, 8});
  std::vector<float> w(2 * 2 * 9, 1);
  w[5] = INFINITY;
  p.gives({p.node(Op::Conv, {x, p.constant(DType::F32, {2, 2, 3, 3}, w)}, {attribute("pads", Ints{1, 1, 1, 1})})});
  auto compiled = gpu::compile(p.graph, {}, gpu::Target{.doubles = false, .winograd = 4});
  REQUIRE_OK(compiled);
  CHECK_EQ(compiled->plan.steps.size(), 1u);
}

TEST_CASE("convolutions by Winograd's form") {
  if (!has_device()) return;
  for (const std::int32_t step : {2, 4}) {
    const gpu::Target target{.doubles = false, .winograd = step};
    Cases cases(target);
    const auto steps = [&](const Pieces &p, const gpu::Target &of) {
      auto compiled = gpu::compile(p.graph, {}, of);
      REQUIRE_OK(compiled);
      std::vector<gpu::Kernel> kernels;
      for (const gpu::Step &one : compiled->plan.steps) kernels.push_back(static_cast<gpu::Kernel>(one.kernel));
      return kernels;
    };
    const std::vector<gpu::Kernel> wanted{gpu::Kernel::WinogradInput, gpu::Kernel::MatMulTile,
                                          gpu::Kernel::WinogradOutput};
    for (const Convolution &c : {Convolution{2, 5, 7, 9, 19, 3, 1, 1, 1}, Convolution{1, 16, 8, 8, 24, 3, 1, 0, 1},
                                 Convolution{3, 3, 3, 3, 5, 3, 1, 1, 1}, Convolution{1, 4, 3, 5, 6, 3, 1, 2, 1}}) {
      Pieces p;
      p.gives({convolution(p, c)});
      CHECK_EQ(steps(p, target), wanted);
      cases.same(p, "Conv", false, 1e-4);
      // Of this node alone, or of all others.
      const std::int32_t alone[] = {step}, others[] = {0};
      CHECK_EQ(steps(p, {.winograd_of = alone}), wanted);
      CHECK_EQ(steps(p, {.winograd = step, .winograd_of = others}).size(), 1u);
      Pieces q;
      const i32 y = convolution(q, c);
      q.gives({q.add(y, q.input(qir::Shape(q.at(y).shape)))});
      cases.same(q, "Conv and what is added", false, 1e-4);
      Pieces turned;
      turned.gives({turned.node(Op::Conv, {turned.transpose(turned.input({c.n, c.h, c.w, c.c}), {0, 3, 1, 2}),
                                           turned.column(c.m * c.c * 9, {c.m, c.c, 3, 3})})});
      if (c.h > 2 && c.w > 2) cases.same(turned, "Conv, channels last", false, 1e-4);
    }
    cases.run();
    // What it does not fit goes as ever.
    for (const Convolution &c : {Convolution{1, 4, 8, 8, 8, 3, 2, 1, 1}, Convolution{1, 4, 8, 8, 8, 3, 1, 1, 2},
                                 Convolution{1, 4, 8, 8, 8, 5, 1, 2, 1}}) {
      Pieces p;
      p.gives({convolution(p, c)});
      CHECK_EQ(steps(p, target), std::vector<gpu::Kernel>{gpu::Kernel::ConvTile});
    }
  }
}

TEST_CASE("tiles are fitted to a device and measured") {
  if (!has_device()) return;
  Pieces p;
  const i32 h = p.node(Op::MatMul, {p.input({40, 24}), p.column(24 * 48, {24, 48})});
  p.gives({p.node(Op::MatMul, {p.of(Op::Relu, h), p.column(48 * 40, {48, 40})})});
  auto compiled = gpu::compile(p.graph, {}, {});
  REQUIRE_OK(compiled);
  gpu::Plan &plan = compiled->plan;
  const auto before = plan.numbers;
  const qr_host host{};
  const auto engine = engine_under_test();
  gpu::fit_tiles(plan, engine->device());
  REQUIRE_OK(gpu::measure_tiles(plan, *engine, plugin::StopToken(nullptr, host)));
  CHECK_EQ(plan.numbers.size(), before.size());
  Vector<gpu::StepOperand> operands;
  for (const gpu::Step &step : plan.steps) {
    gpu::Form form;
    gpu::Bounds bounds;
    REQUIRE(gpu::form_of(plan, step, operands, form));
    REQUIRE_OK(gpu::find_bounds(form, bounds));
  }
}

TEST_CASE("a convolution goes by the quickest of all variants") {
  if (!has_device()) return;
  const qr_host host{};
  const plugin::StopToken stop(nullptr, host);
  Pieces p;
  const i32 x = p.input({1, 32, 20, 20});
  const auto filters = [&](std::int64_t m, std::int64_t c) { return p.column(m * c * 9, {m, c, 3, 3}); };
  const auto with = [](std::int64_t stride) {
    return Vector<qir::Attribute>{attribute("pads", Ints{1, 1, 1, 1}), attribute("strides", Ints{stride, stride})};
  };
  const i32 h = p.node(Op::Conv, {x, filters(32, 32)}, with(1));
  p.gives({p.node(Op::Conv, {p.node(Op::Conv, {h, filters(16, 32)}, with(2)), filters(24, 16)}, with(1))});
  auto compiled = gpu::compile_measured(p.graph, {}, {}, gpu::HostRegion::Refused, *engine_under_test(), stop);
  REQUIRE_OK(compiled);
  const gpu::Plan &plan = compiled->plan;
  std::vector<std::vector<gpu::Kernel>> of_nodes(3);
  Vector<gpu::StepOperand> operands;
  for (const gpu::Step &step : plan.steps) {
    gpu::Form form;
    gpu::Bounds bounds;
    REQUIRE(gpu::form_of(plan, step, operands, form));
    REQUIRE_OK(gpu::find_bounds(form, bounds));
    of_nodes.at(index_of(step.source)).push_back(form.kernel);
  }
  const std::vector<gpu::Kernel> direct{gpu::Kernel::ConvTile},
      winograd{gpu::Kernel::WinogradInput, gpu::Kernel::MatMulTile, gpu::Kernel::WinogradOutput};
  CHECK((of_nodes[0] == direct || of_nodes[0] == winograd));
  CHECK_EQ(of_nodes[1], direct);
  CHECK((of_nodes[2] == direct || of_nodes[2] == winograd));
}
