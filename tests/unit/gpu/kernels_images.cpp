// SPDX-License-Identifier: Apache-2.0
// Products that read weights and values between steps as images, against cpu-reference, and what becomes of such plans
// where images are too small or missing.
#include "backends/gpu/compile/compile.h"
#include "backends/gpu/kernels/params.h"
#include "backends/gpu/program/images.h"
#include "tests/unit/gpu/kernel_case.h"

using namespace quarry;
using namespace quarry::test;

namespace {

const gpu::Target kAll{.doubles = false, .images = gpu::Images::All};

// Images wherever they fit, with tiles of so many columns. Without a device: lines too, which a device that has no
// views of buffers reads as buffers.
Cases::Change with_images(std::int32_t rows, std::int32_t cols, const opencl::Device *device, std::int32_t wanted) {
  return [=](gpu::Plan &plan) {
    std::int32_t found = 0;
    for (const gpu::Step &step : plan.steps) {
      std::int32_t *const field = gpu::image_field(plan, step);
      if (!field) continue;
      gpu::edit_tiled(static_cast<gpu::Kernel>(step.kernel), plan.numbers.data() + step.numbers, [&](auto &p) {
        p.tile.ROWS = rows;
        p.tile.COLS = std::min<std::int64_t>(p.tile.COLS, cols);
      });
    }
    auto note = gpu::fit_images(plan, kAll, device);
    REQUIRE_OK(note);
    for (const gpu::Step &step : plan.steps) {
      found |= gpu::image_layouts(plan, step);
      if (device) CHECK_EQ(gpu::images_on(plan, step, *device), gpu::image_layouts(plan, step));
    }
    const std::int32_t lines = device && !device->views_images() ? gpu::kRowImages : 0;
    CHECK_EQ(found, wanted & ~lines);
  };
}

bool has_images() {
  if (!has_device()) return false;
  if (engine_under_test()->device().has_images) return true;
  MESSAGE("the device has no images: not tested");
  return false;
}

i32 weights(Pieces &p, const qir::Shape &shape, DType dtype) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  const i32 made = p.column(count, shape);
  return dtype == DType::F32 ? made : p.node(Op::Cast, {made}, {attribute("to", static_cast<std::int64_t>(dtype))});
}

void products(Cases &cases, DType dtype) {
  const double tolerance = dtype == DType::F16 ? 1e-2 : 1e-4;
  for (const auto &[a, b] : std::vector<std::pair<qir::Shape, qir::Shape>>{
           {{17, 33}, {33, 37}}, {{2, 3, 5}, {5, 16}}, {{9, 40}, {40, 4}}, {{1, 7}, {7, 130}}}) {
    Pieces p;
    p.gives({p.of(Op::Relu, p.node(Op::MatMul, {p.input(a, dtype), weights(p, b, dtype)}))});
    cases.same(p, "MatMul", dtype == DType::F32, tolerance);
  }
  struct Convolution {
    std::int64_t n, c, h, w, m, k, stride, pad, group;
  };
  for (const Convolution &c : {Convolution{2, 5, 7, 9, 19, 3, 1, 1, 1}, Convolution{1, 8, 6, 5, 10, 2, 2, 1, 2},
                               Convolution{1, 12, 4, 5, 18, 1, 1, 0, 1}, Convolution{2, 6, 3, 3, 10, 1, 1, 0, 2},
                               Convolution{1, 7, 5, 4, 5, 1, 1, 0, 1}}) {
    Pieces p;
    const i32 x = p.input({c.n, c.c, c.h, c.w}, dtype);
    p.gives({p.of(Op::Relu, p.node(Op::Conv, {x, weights(p, {c.m, c.c / c.group, c.k, c.k}, dtype)},
                                   {attribute("pads", Ints{c.pad, c.pad, c.pad, c.pad}),
                                    attribute("strides", Ints{c.stride, c.stride}), attribute("group", c.group)}))});
    cases.same(p, "Conv", false, tolerance);
  }
  // Both operands are of steps before.
  for (const auto &[a, b] :
       std::vector<std::pair<qir::Shape, qir::Shape>>{{{2, 6, 20}, {2, 20, 12}}, {{70, 64}, {64, 132}}}) {
    Pieces p;
    p.gives({p.node(Op::MatMul, {p.of(Op::Sigmoid, p.input(a, dtype)), p.of(Op::Tanh, p.input(b, dtype))})});
    cases.same(p, "MatMul between steps", false, tolerance);
  }
}

// A product by weights of 1000 x 20 and one by 16 x 20.
void two_products(Pieces &p) {
  const i32 h = p.node(Op::MatMul, {p.input({3, 1000}), p.column(20000, {1000, 20})});
  p.gives({h, p.node(Op::MatMul, {p.input({3, 16}), p.column(320, {16, 20})})});
}

}  // namespace

TEST_CASE("products that read images") {
  if (!has_images()) return;
  const opencl::Device &device = engine_under_test()->device();
  for (const auto &[rows, cols] : {std::pair{8, 16}, std::pair{4, 8}, std::pair{1, 4}})
    for (const opencl::Device *const of : {&device, static_cast<const opencl::Device *>(nullptr)}) {
      if (!of && rows != 8) continue;
      Cases cases(with_images(rows, cols, of, gpu::kConstantImages | gpu::kRowImages));
      products(cases, DType::F32);
      cases.run();
      Cases small(with_images(rows, cols, of, gpu::kConstantImages | gpu::kRowImages));
      products(small, DType::F16);
      small.run();
      if (of && !of->views_images()) MESSAGE("the device has no views of buffers: lines are read as buffers");
    }
}

TEST_CASE("products of f16 in 16 bits that read images") {
  if (!has_images()) return;
  if (engine_under_test()->device().platform_name == "Oclgrind") {
    MESSAGE("Oclgrind says cl_khr_fp16 and has no constants of f16 (src/core/common.cpp): not tested");
    return;
  }
  const gpu::Target target{.doubles = false, .float16 = true};
  Cases cases(target, with_images(4, 8, &engine_under_test()->device(), gpu::kConstantImages | gpu::kRowImages));
  products(cases, DType::F16);
  cases.run();
}

TEST_CASE("convolutions by Winograd's form that read images") {
  if (!has_images()) return;
  const gpu::Target target{.doubles = false, .winograd = 4};
  Cases cases(target, with_images(4, 8, &engine_under_test()->device(), gpu::kRowsOfLeft | gpu::kRightAsRows));
  Pieces p;
  p.gives({p.node(Op::Conv, {p.input({2, 5, 7, 9}), p.column(19 * 5 * 9, {19, 5, 3, 3})},
                  {attribute("pads", Ints{1, 1, 1, 1})})});
  cases.same(p, "Conv", false, 1e-4);
  cases.run();
}

TEST_CASE("what is too large for an image, and a device without images: buffers") {
  if (!has_images()) return;
  Pieces p;
  two_products(p);
  auto compiled = gpu::compile(p.graph, {}, {});
  REQUIRE_OK(compiled);
  opencl::Device small = engine_under_test()->device();
  small.image_width = small.image_height = 900;
  gpu::Plan plan = compiled->plan;
  auto note = gpu::fit_images(plan, kAll, &small);
  REQUIRE_OK(note);
  CHECK_NE(note->find("1 products read images, 1 read as buffers what is too large for one; "), String::npos);
  CHECK_NE(note->find("found an image of 8 x 1000 texels, expected at most 900 x 900"), String::npos);
  // A plan of a larger device's images.
  auto whole = gpu::fit_images(plan, kAll, &engine_under_test()->device());
  REQUIRE_OK(whole);
  CHECK(whole->empty());
  CHECK_EQ(gpu::image_layouts(plan, plan.steps[0]), gpu::kPanelsOfRight);
  CHECK_EQ(gpu::source_of(plan, &small).images, Vector<std::int32_t>({0, gpu::kPanelsOfRight}));
  opencl::Device none = small;
  none.has_images = false;
  CHECK_EQ(gpu::source_of(plan, &none).images, Vector<std::int32_t>({0, 0}));
  CHECK_EQ(gpu::source_of(plan, &none).text.find("image2d_t p"), String::npos);
  CHECK_NE(gpu::source_of(plan, &small).text.find("image2d_t p"), String::npos);
  // Panels of 16 columns fill their texels; the buffer is not kept beside them.
  CHECK_EQ(gpu::bytes_for_images(plan, small), 0);
  // Five rows of 7 are 5 x 2 texels; with a reader of the filters as they are, the buffer stays as well.
  for (const bool read_twice : {false, true}) {
    Pieces q;
    const i32 filters = q.column(35, {5, 7, 1, 1}), x = q.input({1, 7, 3, 3});
    const i32 y = q.node(Op::Conv, {x, filters});
    if (read_twice) q.gives({y, q.add(filters, q.input({5, 7, 1, 1}))});
    else q.gives({y});
    auto conv = gpu::compile(q.graph, {}, {});
    REQUIRE_OK(conv);
    REQUIRE_OK(gpu::fit_images(conv->plan, kAll, &small).status());
    CHECK_EQ(gpu::bytes_for_images(conv->plan, small), read_twice ? 160 : 160 - 140);
  }
}

TEST_CASE("a plan says which images it reads, and one that does not fit is refused") {
  Pieces p;
  two_products(p);
  auto compiled = gpu::compile(p.graph, {}, {});
  REQUIRE_OK(compiled);
  gpu::Plan &plan = compiled->plan;
  REQUIRE_OK(gpu::fit_images(plan, kAll, nullptr).status());
  CHECK_EQ(String(plan.names.data() + plan.paths[0].text), "matmul_tile, images");
  for (const std::int32_t layouts : {3, 6, 9, 16, -1, static_cast<int>(gpu::kLineOfLeft)}) {
    CAPTURE(layouts);
    Vector<gpu::StepOperand> operands;
    Vector<std::int32_t> fields;
    gpu::Form form;
    REQUIRE(gpu::form_with_images(plan, plan.steps[1], layouts, operands, fields, form));
    gpu::Bounds bounds;
    // Of an operand of 16 steps a line would be right.
    CHECK_EQ(gpu::find_bounds(form, bounds).ok(), layouts == gpu::kLineOfLeft || layouts == 3);
  }
}

TEST_CASE("images among the layouts that are measured") {
  if (!has_images()) return;
  Pieces p;
  two_products(p);
  const qr_host host{};
  const plugin::StopToken stop(nullptr, host);
  for (const gpu::Images images : {gpu::Images::All, gpu::Images::Measured, gpu::Images::None}) {
    auto compiled =
        gpu::compile_measured(p.graph, {}, {.images = images}, gpu::HostRegion::Refused, *engine_under_test(), stop);
    REQUIRE_OK(compiled);
    for (const gpu::Step &step : compiled->plan.steps) {
      const std::int32_t layouts = gpu::image_layouts(compiled->plan, step);
      if (images == gpu::Images::All) CHECK_EQ(layouts, gpu::kPanelsOfRight);
      else CHECK((layouts == 0 || (images == gpu::Images::Measured && layouts == gpu::kPanelsOfRight)));
    }
  }
}
