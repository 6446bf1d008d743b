// SPDX-License-Identifier: Apache-2.0
// Kernels on images that have no weights: pools, resizing. Bounds (rtol, atol): Max exact; averages 2e-6, 4e-7; linear
// resizing 2e-6, 4e-7, nearest exact; samples 4e-6, 1e-6.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

// n x h x w pixels of c channels, `stride` apart; what lies between is a value that must survive.
struct Image {
  std::int32_t n, h, w, c, stride;
  std::vector<float> data;

  Image(std::int32_t n_, std::int32_t h_, std::int32_t w_, std::int32_t c_, std::int32_t stride_)
      : n(n_),
        h(h_),
        w(w_),
        c(c_),
        stride(stride_),
        data(static_cast<std::size_t>((std::int64_t{n_} * h_ * w_ - 1) * stride_ + c_), -77.0f) {}
  float &at(std::int64_t pixel, std::int64_t channel) {
    return data[static_cast<std::size_t>(pixel * stride + channel)];
  }
  std::int64_t pixels() const { return std::int64_t{n} * h * w; }

  static Image random(std::int32_t n, std::int32_t h, std::int32_t w, std::int32_t c, std::int32_t stride,
                      Random &random) {
    Image image(n, h, w, c, stride);
    for (std::int64_t i = 0; i < image.pixels(); ++i)
      for (std::int32_t k = 0; k < c; ++k) image.at(i, k) = random.real(-1, 1);
    return image;
  }
  // As ONNX has it: [n, c, h, w].
  Tensor planes() {
    Tensor tensor{DType::F32, {n, c, h, w}, {}, {}};
    std::vector<float> values;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int32_t k = 0; k < c; ++k)
        for (std::int64_t p = 0; p < std::int64_t{h} * w; ++p) values.push_back(at(i * h * w + p, k));
    tensor.data = bytes_of(values);
    return tensor;
  }
  void set_planes(const std::vector<float> &values) {
    std::size_t next = 0;
    if (values.size() != static_cast<std::size_t>(pixels() * c))
      throw std::runtime_error("the reference's shape differs");
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int32_t k = 0; k < c; ++k)
        for (std::int64_t p = 0; p < std::int64_t{h} * w; ++p) at(i * h * w + p, k) = values[next++];
  }
};

Vector<std::int64_t> list(std::initializer_list<std::int64_t> values) { return Vector<std::int64_t>(values); }

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

void test_col2im(const Isa &isa) {
  Random random(23);
  struct Shape {
    std::int32_t planes, h, w, kh, kw, sh, dh, dw, top, left, bottom, right;
  };
  for (const Shape &s : {Shape{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
                         {3, 28, 28, 3, 3, 1, 1, 1, 1, 1, 1, 1},
                         {2, 9, 70, 3, 5, 2, 1, 1, 0, 2, 1, 0},
                         {2, 11, 12, 2, 3, 3, 2, 4, 1, 0, 0, 3},
                         {5, 7, 5, 4, 5, 1, 1, 1, 3, 4, 3, 4},
                         {1, 6, 19, 1, 4, 1, 1, 6, 0, 3, 0, 0}}) {
    Col2ImF32 p;
    p.planes = s.planes;
    p.window = {1,
                s.h,
                s.w,
                (s.h + s.top + s.bottom - (s.kh - 1) * s.dh - 1) / s.sh + 1,
                s.w + s.left + s.right - (s.kw - 1) * s.dw,
                s.kh,
                s.kw,
                s.sh,
                1,
                s.dh,
                s.dw,
                s.top,
                s.left};
    const std::int64_t places = std::int64_t{p.window.oh} * p.window.ow, taps = std::int64_t{s.kh} * s.kw;
    const auto x = random.reals(static_cast<std::size_t>(s.planes * taps * places));
    qir::Node node = node_of(Op::Col2Im, 3);
    node.set("strides", list({s.sh, 1})), node.set("dilations", list({s.dh, s.dw}));
    node.set("pads", list({s.top, s.left, s.bottom, s.right}));
    const auto expected = reference_values(
        node, {tensor_of({1, s.planes * taps, places}, x), tensor_of({2}, std::vector<std::int64_t>{s.h, s.w}),
               tensor_of({2}, std::vector<std::int64_t>{s.kh, s.kw})});
    const auto found = run(isa, Kernel::Col2ImF32, &p, {in(x), out(expected.size() * 4)})[0];
    expect_close("places", values_of<float>(found), expected, 0, 0);
  }
  const Col2ImF32 p;
  refuse(isa, Kernel::Col2ImF32, p, "steps of 2", [](auto &q) { q.window.sw = 2; });
  refuse(isa, Kernel::Col2ImF32, p, "no planes", [](auto &q) { q.planes = 0; });
  refuse(isa, Kernel::Col2ImF32, p, "two images", [](auto &q) { q.window.n = 2; });
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
  registry.test("PoolF32", test_pool);
  registry.test("PoolPlanesF32", test_pool_planes);
  registry.test("ResizeF32", test_resize);
  registry.test("Col2ImF32", test_col2im);
  registry.test("RoiAlignF32", test_roi_align);
  registry.test("GridSampleF32", test_grid_sample);
  register_resize_benches(registry);
}

}  // namespace quarry::kernel_test
