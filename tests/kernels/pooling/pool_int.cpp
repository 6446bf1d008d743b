// SPDX-License-Identifier: Apache-2.0
// Pools and means of stored integers. Bounds: averages: one quantum from cpu-reference, and that only next to ties (few
// elements; see kOffLimit); Max: equal.
#include "tests/kernels/operands.h"
#include "tests/kernels/quantization.h"

namespace quarry::kernel_test {

namespace {

void test_pool_int(const Isa &isa, PoolOp op, std::uint32_t x_type, std::uint32_t y_type, std::int32_t c, Window w,
                   std::int32_t pad_bottom, std::int32_t pad_right, std::int32_t slack) {
  Random random(23);
  PoolInt p;
  p.op = op;
  p.window = w;
  p.c = c;
  p.x_stride = c + slack, p.y_stride = c + 2 * slack;
  p.pad_bottom = pad_bottom, p.pad_right = pad_right;
  p.x = some_quant(x_type, 0.013f);
  p.y = op == PoolOp::Max ? p.x : some_quant(y_type, x_type >= kU16 && y_type <= kI8 ? 2.9f : 0.011f);
  const std::size_t x_count = static_cast<std::size_t>((w.n * w.ih * w.iw - 1) * p.x_stride + c),
                    y_count = static_cast<std::size_t>((w.n * w.oh * w.ow - 1) * p.y_stride + c);
  Bytes x = random_ints(random, x_type, x_count), y = random_ints(random, y_type, y_count);
  const Bytes found = run(isa, Kernel::PoolInt, &p, {{x}, {y, true}})[0];
  qir::Node node = node_of(op == PoolOp::Max ? qir::Op::MaxPool : qir::Op::AveragePool, 1);
  node.set("kernel_shape", Vector<std::int64_t>{w.kh, w.kw});
  node.set("strides", Vector<std::int64_t>{w.sh, w.sw});
  node.set("dilations", Vector<std::int64_t>{w.dh, w.dw});
  node.set("pads", Vector<std::int64_t>{w.pad_top, w.pad_left, pad_bottom, pad_right});
  // The extra row that ceil_mode adds.
  if ((w.oh - 1) * w.sh + (w.kh - 1) * w.dh + 1 > w.ih + w.pad_top + pad_bottom) node.set("ceil_mode", std::int64_t{1});
  if (op == PoolOp::AverageIncludePad) node.set("count_include_pad", std::int64_t{1});
  x.resize(static_cast<std::size_t>(w.n * w.ih * w.iw * p.x_stride) * width_of(x_type));
  const Bytes expected = reference_quantised(
      node, {tensor_of(p.x, {w.n, c, w.ih, w.iw}, to_nchw(x, w.n, w.ih * w.iw, c, p.x_stride, width_of(x_type)))}, p.y);
  expect_quanta("pool " + std::to_string(static_cast<int>(op)) + " c " + std::to_string(c), found,
                to_nhwc(expected, w.n, w.oh * w.ow, c, p.y_stride, width_of(y_type), y), y_type,
                op == PoolOp::Max ? 0 : 0.03);
}

void register_pool_int_cases(Registry &registry) {
  registry.test("pool_int", [](const Isa &isa) {
    //                         n  ih iw oh ow kh kw sh sw dh dw top left
    const Window windows[] = {{1, 9, 8, 9, 8, 3, 3, 1, 1, 1, 1, 1, 1},
                              {2, 7, 7, 3, 3, 3, 3, 2, 2, 1, 1, 0, 0},
                              {1, 8, 9, 4, 4, 2, 2, 2, 2, 1, 1, 0, 0},
                              {1, 6, 7, 2, 3, 3, 3, 1, 1, 2, 2, 0, 0},
                              {1, 8, 8, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0}};
    const std::int32_t pads[][2] = {{1, 1}, {0, 0}, {0, 0}, {0, 0}, {0, 0}};
    for (std::size_t i = 0; i < std::size(windows); ++i)
      for (const std::int32_t c : {1, 5, 16, 43, 80})
        for (const std::int32_t slack : {0, 3}) {
          for (const std::uint32_t type : kAll) {
            test_pool_int(isa, PoolOp::Max, type, type, c, windows[i], pads[i][0], pads[i][1], slack);
            test_pool_int(isa, PoolOp::AverageExcludePad, type, type, c, windows[i], pads[i][0], pads[i][1], slack);
          }
          test_pool_int(isa, PoolOp::AverageIncludePad, kU8, kU8, c, windows[i], pads[i][0], pads[i][1], slack);
          test_pool_int(isa, PoolOp::AverageIncludePad, kU16, kI8, c, windows[i], pads[i][0], pads[i][1], slack);
        }
  });
  registry.test("mean_int", [](const Isa &isa) {
    Random random(31);
    const std::int64_t extents[][3] = {{1, 49, 1280}, {2, 7, 13},    {3, 50, 1}, {1, 1, 5},
                                       {1, 70000, 3}, {2, 70001, 1}, {0, 3, 4}};
    for (const auto &e : extents)
      for (const std::uint32_t x_type : kAll)
        for (const std::uint32_t y_type : {x_type, kU8}) {
          MeanInt p;
          p.outer = e[0], p.reduced = e[1], p.inner = e[2];
          p.x = some_quant(x_type, 0.013f);
          p.y = some_quant(y_type, x_type >= kU16 && y_type <= kI8 ? 2.9f : 0.0071f);
          const Bytes x = random_ints(random, x_type, static_cast<std::size_t>(e[0] * e[1] * e[2]));
          const Bytes found = run(isa, Kernel::MeanInt, &p,
                                  {{x}, {Bytes(static_cast<std::size_t>(e[0] * e[2]) * width_of(y_type)), true}})[0];
          if (e[0] == 0) continue;
          qir::Node node = node_of(qir::Op::ReduceMean, 2);
          node.set("keepdims", std::int64_t{0});
          const Tensor axes{DType::I64, {1}, bytes_of(std::vector<std::int64_t>{1}), {}};
          expect_quanta("mean", found, reference_quantised(node, {tensor_of(p.x, {e[0], e[1], e[2]}, x), axes}, p.y),
                        y_type, 0.02);
        }
  });
}

void register_pool_int_benches(Registry &registry) {
  registry.bench("pool_int max 112x112x64 3x3 s2", [](const Isa &) {
    PoolInt p;
    p.window = {1, 112, 112, 56, 56, 3, 3, 2, 2, 1, 1, 1, 1};
    p.c = p.x_stride = p.y_stride = 64;
    p.pad_bottom = p.pad_right = 1;
    p.x = p.y = some_quant(kU8, 0.02f);
    return Registry::Prepared{Kernel::PoolInt,
                              params_of(p),
                              {{Bytes(112 * 112 * 64)}, {Bytes(56 * 56 * 64), true}},
                              {0, 112 * 112 * 64 + 56 * 56 * 64.0}};
  });
  registry.bench("mean_int 49x1280", [](const Isa &) {
    MeanInt p{1, 49, 1280, some_quant(kU8, 0.02f), some_quant(kU8, 0.02f)};
    return Registry::Prepared{
        Kernel::MeanInt, params_of(p), {{Bytes(49 * 1280)}, {Bytes(1280), true}}, {0, 50 * 1280.0}};
  });
}

}  // namespace

void register_pool_int(Registry &registry) {
  register_pool_int_cases(registry);
  register_pool_int_benches(registry);
}

}  // namespace quarry::kernel_test
