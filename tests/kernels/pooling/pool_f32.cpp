// SPDX-License-Identifier: Apache-2.0
// Pools. Bounds (rtol, atol): Max exact; averages 2e-6, 4e-7.
#include "tests/kernels/images.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

struct PoolCase {
  std::int32_t n, h, w, kh, kw, sh, sw, dh, dw, top, left, bottom, right;
  bool ceil;
};

void test_pool_case(const Isa &isa, const PoolCase &c, PoolOp op, std::int32_t channels, std::int32_t gap, bool special,
                    Random &random) {
  const auto extent = [&](std::int32_t in, std::int32_t before, std::int32_t after, std::int32_t kernel,
                          std::int32_t step, std::int32_t dilation) {
    const std::int32_t room = in + before + after - (kernel - 1) * dilation - 1;
    std::int32_t out = (room + (c.ceil ? step - 1 : 0)) / step + 1;
    if (c.ceil && (out - 1) * step >= in + before) --out;
    return out;
  };
  PoolF32 p;
  p.window = {c.n,
              c.h,
              c.w,
              extent(c.h, c.top, c.bottom, c.kh, c.sh, c.dh),
              extent(c.w, c.left, c.right, c.kw, c.sw, c.dw),
              c.kh,
              c.kw,
              c.sh,
              c.sw,
              c.dh,
              c.dw,
              c.top,
              c.left};
  p.c = channels, p.x_stride = channels + gap, p.y_stride = channels + 2 * gap, p.pad_bottom = c.bottom,
  p.pad_right = c.right, p.op = op;
  Image x = Image::random(c.n, c.h, c.w, channels, p.x_stride, random),
        y(c.n, p.window.oh, p.window.ow, channels, p.y_stride);
  if (special) {
    x.at(x.pixels() / 2, channels / 2) = kNan;
    x.at(0, 0) = kInf;
    for (std::int64_t i = 0; i < x.pixels(); ++i) x.at(i, channels - 1) = -kInf;
  }
  qir::Node node = node_of(op == PoolOp::Max ? Op::MaxPool : Op::AveragePool, 1);
  node.set("kernel_shape", list({c.kh, c.kw}));
  node.set("strides", list({c.sh, c.sw}));
  node.set("dilations", list({c.dh, c.dw}));
  node.set("pads", list({c.top, c.left, c.bottom, c.right}));
  node.set("ceil_mode", std::int64_t{c.ceil});
  if (op != PoolOp::Max) node.set("count_include_pad", std::int64_t{op == PoolOp::AverageIncludePad});
  const Bytes found = run(isa, Kernel::PoolF32, &p, {{bytes_of(x.data)}, {bytes_of(y.data), true}})[0];
  const Tensor given = x.planes(), expected = reference(node, {given})[0];
  y.set_planes(values_of<float>(expected.data));
  const bool exact = op == PoolOp::Max;
  PoolPlanesF32 q{p.window, std::int64_t{c.n} * channels, c.bottom, c.right, op, 0};
  q.window.n = 1;
  const Bytes planes =
      run(isa, Kernel::PoolPlanesF32, &q, {{given.data}, {Bytes(expected.data.size(), std::byte{0xa5}), true}})[0];
  expect_close("planes " + std::to_string(static_cast<int>(op)), values_of<float>(planes),
               values_of<float>(expected.data), exact ? 0 : 2e-6f, exact ? 0 : 4e-7f);
  expect_close("pool " + std::to_string(static_cast<int>(op)), values_of<float>(found), y.data, exact ? 0 : 2e-6f,
               exact ? 0 : 4e-7f);
}

void test_pool(const Isa &isa) {
  Random random(1);
  const PoolCase cases[] = {
      {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, false},     {2, 9, 11, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, false},
      {1, 8, 8, 2, 2, 2, 2, 1, 1, 0, 0, 0, 0, false},     {1, 13, 13, 3, 3, 2, 2, 1, 1, 0, 0, 0, 0, true},
      {1, 14, 10, 3, 2, 2, 3, 1, 1, 1, 0, 1, 1, true},    {1, 12, 12, 3, 3, 1, 2, 2, 3, 2, 2, 2, 2, false},
      {2, 7, 7, 7, 7, 1, 1, 1, 1, 0, 0, 0, 0, false},     {1, 5, 5, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, false},
      {1, 20, 30, 20, 30, 1, 1, 1, 1, 0, 0, 0, 0, false}, {3, 40, 40, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, false}};
  for (const PoolCase &c : cases)
    for (const PoolOp op : {PoolOp::Max, PoolOp::AverageExcludePad, PoolOp::AverageIncludePad})
      for (const std::int32_t channels : {1, 3, 8, 17, 64, 100})
        for (const bool special : {false, true}) test_pool_case(isa, c, op, channels, special ? 5 : 0, special, random);
  test_pool_case(isa, {1, 7, 7, 7, 7, 1, 1, 1, 1, 0, 0, 0, 0, false}, PoolOp::AverageExcludePad, 2048, 0, false,
                 random);
  // Windows that hit nothing, as ceil_mode and padding can make them.
  PoolF32 p;
  p.window = {1, 2, 2, 3, 3, 2, 2, 4, 4, 1, 1, 3, 3};
  p.c = p.x_stride = p.y_stride = 3;
  for (const PoolOp op : {PoolOp::Max, PoolOp::AverageExcludePad, PoolOp::AverageIncludePad}) {
    p.op = op;
    const auto y = values_of<float>(
        run(isa, Kernel::PoolF32, &p, {{bytes_of(std::vector<float>(12, 1.0f))}, {Bytes(108), true}})[0]);
    if (y[0] != (op == PoolOp::Max ? -kInf : 0.0f)) throw std::runtime_error("a window of nothing");
  }
  refuse(isa, Kernel::PoolF32, p, "a stride below the channels", [](auto &q) { q.x_stride = 2; });
  refuse(isa, Kernel::PoolF32, p, "no channels", [](auto &q) { q.c = 0; });
  refuse(isa, Kernel::PoolF32, p, "a step of 0", [](auto &q) { q.window.sh = 0; });
  refuse(isa, Kernel::PoolF32, p, "an unknown operator", [](auto &q) { q.op = PoolOp::Count; });
  refuse(isa, Kernel::PoolF32, p, "negative padding", [](auto &q) { q.pad_right = -1; });
}

void test_pool_planes(const Isa &isa) {
  Random random(1);
  for (const std::int32_t w : {16, 17, 31, 32, 33, 64, 70})
    for (const std::int32_t step : {1, 2, 3, 5})
      for (const PoolOp op : {PoolOp::Max, PoolOp::AverageExcludePad, PoolOp::AverageIncludePad})
        test_pool_case(isa, {1, 6, w, 3, 3, step, step, 1, 1, 1, 1, 1, 1, w % 2 != 0}, op, 3, 0, w > 32, random);
  for (const std::int32_t k : {4, 5, 9, 13})
    for (const std::int32_t w : {7, 20, 35})
      for (const std::int32_t step : {1, 2})
        for (const PoolOp op : {PoolOp::Max, PoolOp::AverageExcludePad, PoolOp::AverageIncludePad})
          for (const bool special : {false, true})
            test_pool_case(isa, {1, 14, w, k, k, step, step, 1, 1, k / 2, k / 2, k / 2, k / 2, false}, op, 3, 0,
                           special, random);
  PoolPlanesF32 p{{1, 4, 4, 2, 2, 2, 2, 2, 2, 1, 1, 0, 0}, 3, 0, 0, PoolOp::Max, 0};
  refuse(isa, Kernel::PoolPlanesF32, p, "no planes", [](auto &q) { q.planes = 0; });
  refuse(isa, Kernel::PoolPlanesF32, p, "steps of 0", [](auto &q) { q.window.sw = 0; });
  refuse(isa, Kernel::PoolPlanesF32, p, "two images", [](auto &q) { q.window.n = 2; });
  refuse(isa, Kernel::PoolPlanesF32, p, "windows that all lie left of the image",
         [](auto &q) { q.window.pad_left = 9; });
  refuse(isa, Kernel::PoolPlanesF32, p, "an unknown operator", [](auto &q) { q.op = PoolOp::Count; });
}

void register_pool_benches(Registry &registry) {
  struct Pool {
    const char *name;
    PoolOp op;
    std::int32_t h, c, k, s, pad;
  };
  for (const Pool &b : {Pool{"max 3x3/2 112x112x64 (resnet)", PoolOp::Max, 112, 64, 3, 2, 1},
                        {"max 3x3/2 27x27x256 (squeezenet)", PoolOp::Max, 27, 256, 3, 2, 0},
                        {"max 2x2/2 56x56x128", PoolOp::Max, 56, 128, 2, 2, 0},
                        {"average 7x7x2048 (resnet50)", PoolOp::AverageExcludePad, 7, 2048, 7, 1, 0},
                        {"average 7x7x1280 (mobilenet_v2)", PoolOp::AverageExcludePad, 7, 1280, 7, 1, 0},
                        {"average 3x3/3 36x36x64", PoolOp::AverageExcludePad, 36, 64, 3, 3, 0},
                        {"average 3x3/1 35x35x192", PoolOp::AverageIncludePad, 35, 192, 3, 1, 1},
                        {"max 5x5/1 20x20x256 (yolo)", PoolOp::Max, 20, 256, 5, 1, 2}}) {
    registry.bench(std::string("PoolPlanesF32 ") + b.name, [=](const Isa &) {
      const std::int32_t o = (b.h + 2 * b.pad - b.k) / b.s + 1;
      const PoolPlanesF32 p{{1, b.h, b.h, o, o, b.k, b.k, b.s, b.s, 1, 1, b.pad, b.pad}, b.c, b.pad, b.pad, b.op, 0};
      const std::size_t x = static_cast<std::size_t>(b.h) * static_cast<std::size_t>(b.h * b.c) * 4,
                        y = static_cast<std::size_t>(o) * static_cast<std::size_t>(o * b.c) * 4;
      return Registry::Prepared{Kernel::PoolPlanesF32,
                                params_of(p),
                                {{Bytes(x)}, {Bytes(y), true}},
                                {static_cast<double>(y) / 4 * b.k * b.k, static_cast<double>(x + y)}};
    });
    registry.bench(std::string("PoolF32 ") + b.name, [=](const Isa &) {
      PoolF32 p;
      const std::int32_t o = (b.h + 2 * b.pad - b.k) / b.s + 1;
      p.window = {1, b.h, b.h, o, o, b.k, b.k, b.s, b.s, 1, 1, b.pad, b.pad};
      p.c = p.x_stride = p.y_stride = b.c, p.op = b.op, p.pad_bottom = p.pad_right = b.pad;
      const std::size_t x = static_cast<std::size_t>(b.h) * static_cast<std::size_t>(b.h * b.c) * 4,
                        y = static_cast<std::size_t>(o) * static_cast<std::size_t>(o * b.c) * 4;
      return Registry::Prepared{Kernel::PoolF32,
                                params_of(p),
                                {{Bytes(x)}, {Bytes(y), true}},
                                {static_cast<double>(y) / 4 * b.k * b.k, static_cast<double>(x + y)}};
    });
  }
}

}  // namespace

void register_pooling(Registry &registry) {
  registry.test("PoolF32", test_pool);
  registry.test("PoolPlanesF32", test_pool_planes);
  register_pool_benches(registry);
}

}  // namespace quarry::kernel_test
