// SPDX-License-Identifier: Apache-2.0
// Resizing and samples. Bounds (rtol, atol): linear resizing 2e-6, 4e-7, nearest exact; samples 4e-6, 1e-6.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/kernels/images.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

struct Tap {
  std::int32_t low, high;
  float weight;
};
std::vector<Tap> taps_of(std::int32_t in, std::int32_t out, bool nearest) {  // coordinates: half_pixel
  std::vector<Tap> taps;
  for (std::int32_t i = 0; i < out; ++i) {
    const float scale = static_cast<float>(out) / static_cast<float>(in),
                at = (static_cast<float>(i) + 0.5f) / scale - 0.5f;
    if (nearest) {
      const auto index = std::clamp(static_cast<std::int32_t>(std::ceil(at - 0.5f)), 0, in - 1);
      taps.push_back({index, index, 0});
    } else {
      const float low = std::floor(at);
      taps.push_back({std::clamp(static_cast<std::int32_t>(low), 0, in - 1),
                      std::clamp(static_cast<std::int32_t>(low) + 1, 0, in - 1), at - low});
    }
  }
  return taps;
}

void test_resize(const Isa &isa) {
  Random random(2);
  struct Shape {
    std::int32_t n, ih, iw, oh, ow;
  };
  for (const Shape s : {Shape{1, 1, 1, 1, 1},
                        {2, 3, 5, 6, 10},
                        {1, 7, 4, 13, 9},
                        {1, 16, 20, 5, 7},
                        {2, 20, 20, 40, 40},
                        {1, 6, 70, 3, 35},
                        {1, 6, 40, 5, 97},
                        {1, 3, 200, 4, 40},
                        {1, 9, 9, 9, 18}})
    for (const std::int32_t c : {1, 3, 8, 21, 64})
      for (const bool nearest : {false, true})
        for (const std::int32_t gap : {0, 3}) {
          ResizeF32 p;
          p.n = s.n, p.ih = s.ih, p.iw = s.iw, p.c = c, p.oh = s.oh, p.ow = s.ow, p.x_stride = c + gap,
          p.y_stride = c + 2 * gap, p.nearest = nearest;
          Image x = Image::random(s.n, s.ih, s.iw, c, p.x_stride, random), y(s.n, s.oh, s.ow, c, p.y_stride);
          const Bytes rows = bytes_of(taps_of(s.ih, s.oh, nearest)), columns = bytes_of(taps_of(s.iw, s.ow, nearest));
          const Bytes found =
              run(isa, Kernel::ResizeF32, &p, {{bytes_of(x.data)}, {rows}, {columns}, {bytes_of(y.data), true}})[0];
          qir::Node node = node_of(Op::Resize, 0);
          node.inputs.push_back(0), node.inputs.push_back(qir::kAbsent), node.inputs.push_back(qir::kAbsent),
              node.inputs.push_back(3);
          node.set("mode", std::string_view(nearest ? "nearest" : "linear"));
          Tensor absent;
          absent.dtype = DType::Unknown;
          y.set_planes(values_of<float>(
              reference(node, {x.planes(),
                               absent,
                               absent,
                               {DType::I64, {4}, bytes_of(std::vector<std::int64_t>{s.n, c, s.oh, s.ow}), {}}})[0]
                  .data));
          expect_close(nearest ? "nearest" : "linear", values_of<float>(found), y.data, nearest ? 0 : 2e-6f,
                       nearest ? 0 : 4e-7f);
          if (gap > 0) continue;
          const ResizePlanesF32 q{std::int64_t{s.n} * c, s.ih, s.iw, s.oh, s.ow, nearest, 0};
          const Tensor planes = y.planes();
          const Bytes flat =
              run(isa, Kernel::ResizePlanesF32, &q, {{x.planes().data}, {rows}, {columns}, out(planes.data.size())})[0];
          expect_close("planes", values_of<float>(flat), values_of<float>(planes.data), nearest ? 0 : 2e-6f,
                       nearest ? 0 : 4e-7f);
        }
  // Tables that point anywhere stay inside the image.
  ResizeF32 p;
  p.ih = p.iw = 2, p.oh = p.ow = 3, p.c = p.x_stride = p.y_stride = 5;
  const Bytes wild = bytes_of(std::vector<Tap>{{-7, 9000, 0.5f}, {INT32_MIN, INT32_MAX, kNan}, {1, 2, 2}});
  for (const std::uint32_t nearest : {0u, 1u}) {
    p.nearest = nearest;
    (void)run(isa, Kernel::ResizeF32, &p, {{bytes_of(random.reals(20))}, {wild}, {wild}, {Bytes(180), true}});
    const ResizePlanesF32 q{5, 2, 2, 3, 3, nearest, 0};
    (void)run(isa, Kernel::ResizePlanesF32, &q, {{bytes_of(random.reals(20))}, {wild}, {wild}, {Bytes(180), true}});
    refuse(isa, Kernel::ResizePlanesF32, q, "no planes", [](auto &r) { r.planes = 0; });
    refuse(isa, Kernel::ResizePlanesF32, q, "rows without end", [](auto &r) { r.iw = INT32_MAX; });
    refuse(isa, Kernel::ResizePlanesF32, q, "a flag of 2", [](auto &r) { r.nearest = 2; });
  }
  refuse(isa, Kernel::ResizeF32, p, "no rows", [](auto &q) { q.oh = 0; });
  refuse(isa, Kernel::ResizeF32, p, "a stride below the channels", [](auto &q) { q.y_stride = 4; });
  refuse(isa, Kernel::ResizeF32, p, "a flag of 2", [](auto &q) { q.nearest = 2; });
}

void test_roi_align(const Isa &isa) {
  Random random(21);
  for (const std::int32_t c : {1, 3, 16, 37, 80})
    for (unsigned options = 0; options < 16; ++options) {
      RoiAlignF32 p;
      p.n = 2, p.h = 9, p.w = 11, p.c = c, p.x_stride = options & 1 ? c : c + 3;
      p.rows = 3, p.columns = 2, p.regions = 7, p.ratio = options & 2 ? 3 : 0, p.half_pixel = options >> 2 & 1,
      p.greatest = options >> 3, p.scale = 0.75f, p.index_bytes = options & 1 ? 4 : 8;
      Image x = Image::random(p.n, p.h, p.w, c, p.x_stride, random);
      std::vector<float> rois;
      std::vector<std::int64_t> batches;
      std::vector<std::int32_t> short_batches;
      for (int i = 0; i < 7; ++i) {
        const float left = random.real(-6, 10), top = random.real(-6, 10);
        for (const float v : {left, top, left + random.real(-1, 30), top + random.real(-1, 9)}) rois.push_back(v);
        batches.push_back(i % 2), short_batches.push_back(i % 2);
      }
      // Pixels that are met with weight 0 do not count, whatever they are.
      rois[4] = rois[5] = 0, rois[6] = 8, rois[7] = 12;
      Image y(7, p.rows, p.columns, c, c);
      const Bytes found = run(isa, Kernel::RoiAlignF32, &p,
                              {{bytes_of(x.data)},
                               {bytes_of(rois)},
                               {options & 1 ? bytes_of(short_batches) : bytes_of(batches)},
                               {bytes_of(y.data), true}})[0];
      qir::Node node = node_of(Op::RoiAlign, 3);
      node.set("output_height", std::int64_t{p.rows}), node.set("output_width", std::int64_t{p.columns}),
          node.set("sampling_ratio", std::int64_t{p.ratio}), node.set("spatial_scale", p.scale);
      node.set("coordinate_transformation_mode", std::string_view(p.half_pixel ? "half_pixel" : "output_half_pixel"));
      node.set("mode", std::string_view(p.greatest ? "max" : "avg"));
      y.set_planes(values_of<float>(
          reference(node,
                    {x.planes(), {DType::F32, {7, 4}, bytes_of(rois), {}}, {DType::I64, {7}, bytes_of(batches), {}}})[0]
              .data));
      expect_close("regions", values_of<float>(found), y.data, 4e-6f, 1e-6f);
    }
  RoiAlignF32 p;
  p.h = p.w = 4, p.c = p.x_stride = 2, p.regions = 2;
  float x[32] = {}, y[4];
  for (const bool image : {true, false}) {
    float rois[8] = {0, 0, 1, 1, 0, 0, image ? 1 : kNan, 1};
    std::int64_t batches[2] = {0, image ? 5 : 0}, found[2] = {};
    std::byte *const pointers[4] = {reinterpret_cast<std::byte *>(x), reinterpret_cast<std::byte *>(rois),
                                    reinterpret_cast<std::byte *>(batches), reinterpret_cast<std::byte *>(y)};
    const Threads threads;
    isa.run[static_cast<std::size_t>(Kernel::RoiAlignF32)](Call{&p, pointers, threads, nullptr, 0, found});
    if (found[0] != 2 || found[1] != batches[1]) throw std::runtime_error("a region of no image was not reported");
  }
  refuse(isa, Kernel::RoiAlignF32, p, "no regions", [](auto &q) { q.regions = 0; });
  refuse(isa, Kernel::RoiAlignF32, p, "no bins", [](auto &q) { q.rows = 0; });
  refuse(isa, Kernel::RoiAlignF32, p, "a negative ratio", [](auto &q) { q.ratio = -1; });
  refuse(isa, Kernel::RoiAlignF32, p, "a flag of 2", [](auto &q) { q.greatest = 2; });
  refuse(isa, Kernel::RoiAlignF32, p, "indices of 2 bytes", [](auto &q) { q.index_bytes = 2; });
  refuse(isa, Kernel::RoiAlignF32, p, "a stride below the channels", [](auto &q) { q.x_stride = 1; });
}

void test_grid_sample(const Isa &isa) {
  Random random(22);
  const char *const modes[] = {"nearest", "linear", "cubic"}, *const paddings[] = {"zeros", "border", "reflection"};
  for (const std::int32_t c : {1, 3, 32, 37, 70})
    for (std::uint32_t mode = 0; mode < 3; ++mode)
      for (std::uint32_t padding = 0; padding < 3; ++padding)
        for (const std::uint32_t align : {0u, 1u}) {
          GridSampleF32 p;
          p.n = 2, p.h = c == 3 ? 1 : 6, p.w = 5, p.c = c, p.oh = 7, p.ow = 9, p.x_stride = c + 2, p.y_stride = c + 1;
          p.mode = static_cast<SampleMode>(mode), p.padding = static_cast<SamplePadding>(padding),
          p.align_corners = align;
          Image x = Image::random(p.n, p.h, p.w, c, p.x_stride, random), y(p.n, p.oh, p.ow, c, p.y_stride);
          std::vector<float> grid = random.reals(2 * 2 * 63, -2.5f, 2.5f);
          grid[0] = kNan, grid[3] = kInf, grid[4] = -kInf, grid[7] = 1, grid[8] = -1, grid[11] = 0, grid[12] = 3e38f;
          const Bytes found =
              run(isa, Kernel::GridSampleF32, &p, {{bytes_of(x.data)}, {bytes_of(grid)}, {bytes_of(y.data), true}})[0];
          qir::Node node = node_of(Op::GridSample, 2);
          node.set("mode", std::string_view(modes[mode])),
              node.set("padding_mode", std::string_view(paddings[padding])),
              node.set("align_corners", std::int64_t{align});
          y.set_planes(
              values_of<float>(reference(node, {x.planes(), {DType::F32, {2, 7, 9, 2}, bytes_of(grid), {}}})[0].data));
          expect_close(modes[mode], values_of<float>(found), y.data, mode == 0 ? 0 : 4e-6f, mode == 0 ? 0 : 1e-6f);
          if (mode == 2) continue;
          p.planes = 1, p.x_stride = p.y_stride = c;
          const Bytes planes = run(isa, Kernel::GridSampleF32, &p,
                                   {{x.planes().data}, {bytes_of(grid)}, out(y.planes().data.size())})[0];
          expect_close("planes", values_of<float>(planes), values_of<float>(y.planes().data), mode == 0 ? 0 : 4e-6f,
                       mode == 0 ? 0 : 1e-6f);
        }
  GridSampleF32 p;
  p.h = p.w = p.oh = p.ow = 3, p.c = p.x_stride = p.y_stride = 4;
  refuse(isa, Kernel::GridSampleF32, p, "an unknown mode", [](auto &q) { q.mode = SampleMode::Count; });
  refuse(isa, Kernel::GridSampleF32, p, "an unknown padding", [](auto &q) { q.padding = SamplePadding::Count; });
  refuse(isa, Kernel::GridSampleF32, p, "a flag of 2", [](auto &q) { q.align_corners = 2; });
  refuse(isa, Kernel::GridSampleF32, p, "a stride below the channels", [](auto &q) { q.y_stride = 3; });
  refuse(isa, Kernel::GridSampleF32, p, "cubic planes", [](auto &q) { q.planes = 1, q.mode = SampleMode::Cubic; });
  refuse(isa, Kernel::GridSampleF32, p, "planes with gaps", [](auto &q) { q.planes = 1, q.x_stride = 5; });
  // More places than are worked on at a time. A place near 40 is rounded by 2e-6, and pixels beside it differ by up
  // to 2.
  p = {}, p.n = 2, p.c = p.x_stride = p.y_stride = 3, p.h = 9, p.w = 40, p.oh = 30, p.ow = 41, p.planes = 1;
  const auto pixels = random.reals(2 * 3 * 9 * 40), places = random.reals(2 * 30 * 41 * 2, -1.1f, 1.1f);
  const auto expected = reference_values(node_of(Op::GridSample, 2),
                                         {tensor_of({2, 3, 9, 40}, pixels), tensor_of({2, 30, 41, 2}, places)});
  expect_close(
      "many places",
      values_of<float>(run(isa, Kernel::GridSampleF32, &p, {in(pixels), in(places), out(expected.size() * 4)})[0]),
      expected, 4e-6f, 1e-5f);
}

void register_resize_benches(Registry &registry) {
  struct Resize {
    std::int32_t in, out, c;
    bool nearest;
  };
  for (const Resize &b : {Resize{20, 40, 256, true},
                          {40, 80, 128, true},
                          {28, 56, 64, false},
                          {65, 513, 21, false},
                          {224, 448, 3, false}})
    registry.bench("ResizeF32 " + std::string(b.nearest ? "nearest " : "linear ") + std::to_string(b.in) + " to " +
                       std::to_string(b.out) + " x" + std::to_string(b.c),
                   [=](const Isa &) {
                     ResizeF32 p;
                     p.ih = p.iw = b.in, p.oh = p.ow = b.out, p.c = p.x_stride = p.y_stride = b.c,
                     p.nearest = b.nearest;
                     const Bytes taps = bytes_of(taps_of(b.in, b.out, b.nearest));
                     const std::size_t x = static_cast<std::size_t>(b.in) * static_cast<std::size_t>(b.in * b.c) * 4,
                                       y = static_cast<std::size_t>(b.out) * static_cast<std::size_t>(b.out * b.c) * 4;
                     return Registry::Prepared{Kernel::ResizeF32,
                                               params_of(p),
                                               {{Bytes(x)}, {taps}, {taps}, {Bytes(y), true}},
                                               {0, static_cast<double>(x + y)}};
                   });
  for (const Resize &b : {Resize{20, 40, 256, true}, {65, 513, 21, false}, {224, 112, 3, false}})
    registry.bench("ResizePlanesF32 " + std::string(b.nearest ? "nearest " : "linear ") + std::to_string(b.in) +
                       " to " + std::to_string(b.out) + " x" + std::to_string(b.c),
                   [=](const Isa &) {
                     const ResizePlanesF32 p{b.c, b.in, b.in, b.out, b.out, b.nearest, 0};
                     const Bytes taps = bytes_of(taps_of(b.in, b.out, b.nearest));
                     const std::size_t x = static_cast<std::size_t>(b.in) * static_cast<std::size_t>(b.in * b.c) * 4,
                                       y = static_cast<std::size_t>(b.out) * static_cast<std::size_t>(b.out * b.c) * 4;
                     return Registry::Prepared{Kernel::ResizePlanesF32,
                                               params_of(p),
                                               {{Bytes(x)}, {taps}, {taps}, {Bytes(y), true}},
                                               {0, static_cast<double>(x + y)}};
                   });
}

}  // namespace

void register_resize(Registry &registry) {
  registry.test("ResizeF32", test_resize);
  registry.test("RoiAlignF32", test_roi_align);
  registry.test("GridSampleF32", test_grid_sample);
  register_resize_benches(registry);
}

}  // namespace quarry::kernel_test
