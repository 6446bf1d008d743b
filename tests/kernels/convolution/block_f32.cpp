// SPDX-License-Identifier: Apache-2.0
// Inverted residual blocks (BlockF32) against three plain loops in double.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/kernels/convolution/conv_f32.h"

namespace quarry::kernel_test {

using namespace kernels;

namespace {

struct BlockData {
  std::vector<float> x, r, w1, b1, w2, b2, w3, b3;
};

std::size_t count(std::int64_t a, std::int64_t b, std::int64_t c = 1, std::int64_t d = 1) {
  return static_cast<std::size_t>(a * b * c * d);
}

// 1x1: pixels of `stride` elements to pixels of as many as there are outputs. w is [outputs][inputs].
std::vector<double> pointwise(const std::vector<double> &x, std::int64_t pixels, std::int64_t inputs,
                              std::int64_t stride, const ConvF32 &p, const std::vector<float> &w,
                              const std::vector<float> &bias) {
  std::vector<double> y(count(pixels, p.oc));
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t o = 0; o < p.oc; ++o) {
      double sum = p.has_bias ? static_cast<double>(bias[static_cast<std::size_t>(o)]) : 0;
      for (std::int64_t k = 0; k < inputs; ++k)
        sum += x[static_cast<std::size_t>(i * stride + k)] *
               static_cast<double>(w[static_cast<std::size_t>(o * inputs + k)]);
      y[static_cast<std::size_t>(i * p.oc + o)] = sum;
    }
  return y;
}

std::vector<double> depthwise(const std::vector<double> &x, const DepthwiseF32 &p, const std::vector<float> &w,
                              const std::vector<float> &bias) {
  const Window &win = p.window;
  std::vector<double> y(count(win.n, win.oh, win.ow, p.c));
  std::size_t at = 0;
  for (std::int64_t n = 0; n < win.n; ++n)
    for (std::int64_t oy = 0; oy < win.oh; ++oy)
      for (std::int64_t ox = 0; ox < win.ow; ++ox)
        for (std::int64_t c = 0; c < p.c; ++c, ++at) {
          double sum = p.has_bias ? static_cast<double>(bias[static_cast<std::size_t>(c)]) : 0;
          for (std::int64_t ky = 0; ky < win.kh; ++ky)
            for (std::int64_t kx = 0; kx < win.kw; ++kx) {
              const std::int64_t iy = oy * win.sh - win.pad_top + ky, ix = ox * win.sw - win.pad_left + kx;
              if (iy < 0 || iy >= win.ih || ix < 0 || ix >= win.iw) continue;
              sum += x[static_cast<std::size_t>(((n * win.ih + iy) * win.iw + ix) * p.c + c)] *
                     static_cast<double>(w[static_cast<std::size_t>((c * win.kh + ky) * win.kw + kx)]);
            }
          y[at] = sum;
        }
  return y;
}

void activate(const Activation &act, std::vector<double> &values) {
  for (double &v : values) v = apply(act, v);
}

Registry::Prepared prepare(const Isa &isa, const BlockF32 &p, Random &random, BlockData *data) {
  const Window &d = p.depthwise.window;
  const std::int64_t pixels_in = std::int64_t{d.n} * d.ih * d.iw, pixels_out = std::int64_t{d.n} * d.oh * d.ow,
                     c = p.depthwise.c, taps = std::int64_t{d.kh} * d.kw;
  const auto weights = [&](std::size_t many, std::int64_t terms) {
    const auto spread = static_cast<float>(std::sqrt(3.0 / static_cast<double>(terms)));
    return random.reals(many, -spread, spread);
  };
  data->x = random.reals(count(pixels_in, p.expand.x_stride));
  data->r = random.reals(count(pixels_out, std::max(p.project.r_stride, 1)));
  data->w1 = weights(count(c, p.expand.ic), p.expand.ic), data->b1 = random.reals(count(c, 1));
  data->w2 = weights(count(c, taps), taps), data->b2 = random.reals(count(c, 1));
  data->w3 = weights(count(p.project.oc, c), c), data->b3 = random.reals(count(p.project.oc, 1));
  Registry::Prepared prepared{Kernel::BlockF32, Bytes(sizeof p), {}, {}};
  std::memcpy(prepared.params.data(), &p, sizeof p);
  prepared.operands.push_back({bytes_of(data->x)});
  const auto part = [&](Kernel kernel, const auto &params, const std::vector<float> &bias, auto pack) {
    Needs needs;
    if (const Status status = kernel_row(kernel).check(&params, isa, needs); !status.ok())
      throw std::runtime_error(std::string(status.message()));
    Bytes packed(needs.operand_bytes[1]);
    pack(packed.data());
    prepared.operands.push_back({packed});
    if (!params.has_bias) return;
    Bytes padded(needs.operand_bytes[2]);
    pack_channels(bias.data(), static_cast<std::int64_t>(bias.size()), padded.data(), padded.size());
    prepared.operands.push_back({padded});
  };
  part(Kernel::ConvF32, p.expand, data->b1, [&](void *to) {
    pack_conv_f32(p.expand, isa, FilterView<float>{data->w1.data(), p.expand.ic, 1, 0, 0}, to);
  });
  part(Kernel::DepthwiseF32, p.depthwise, data->b2, [&](void *to) {
    pack_depthwise_f32(p.depthwise, isa, FilterView<float>{data->w2.data(), taps, 0, d.kw, 1}, to);
  });
  part(Kernel::ConvF32, p.project, data->b3, [&](void *to) {
    pack_conv_f32(p.project, isa, FilterView<float>{data->w3.data(), c, 1, 0, 0}, to);
  });
  if (p.project.residual != Residual::None) prepared.operands.push_back({bytes_of(data->r)});
  prepared.operands.push_back({bytes_of(std::vector<float>(count(pixels_out, p.project.y_stride), -77.0f)), true});
  const auto flops = static_cast<double>(pixels_in * c * p.expand.ic + pixels_out * c * (taps + p.project.oc));
  prepared.work = {2 * flops, 4.0 * static_cast<double>(pixels_in * p.expand.ic + pixels_out * p.project.oc)};
  return prepared;
}

BlockF32 block(std::int32_t size, std::int32_t ic, std::int32_t c, std::int32_t oc, std::int32_t k, std::int32_t step,
               std::int32_t pad) {
  BlockF32 p;
  Window &d = p.depthwise.window, &e = p.expand.window, &o = p.project.window;
  d.ih = d.iw = size, d.kh = d.kw = k, d.sh = d.sw = step, d.pad_top = d.pad_left = pad;
  d.oh = d.ow = (size + 2 * pad - k) / step + 1;
  e.ih = e.oh = e.iw = e.ow = size;
  o.ih = o.oh = o.iw = o.ow = d.oh;
  p.expand.ic = p.expand.x_stride = ic, p.expand.oc = p.expand.y_stride = c;
  p.depthwise.c = p.depthwise.x_stride = p.depthwise.y_stride = c;
  p.project.ic = p.project.x_stride = c, p.project.oc = p.project.y_stride = p.project.r_stride = oc;
  p.expand.has_bias = p.depthwise.has_bias = p.project.has_bias = 1;
  p.expand.act = p.depthwise.act = {Act::Clip, 0, 6, 0};
  return p;
}

void check_block(const Isa &isa, const BlockF32 &p, std::uint64_t seed) {
  Random random(seed);
  BlockData data;
  const Registry::Prepared prepared = prepare(isa, p, random, &data);
  const std::vector<float> found =
      values_of<float>(run(isa, prepared.kernel, prepared.params.data(), prepared.operands).at(0));
  const Window &d = p.depthwise.window;
  const std::int64_t pixels = std::int64_t{d.n} * d.oh * d.ow;
  std::vector<double> t = pointwise({data.x.begin(), data.x.end()}, std::int64_t{d.n} * d.ih * d.iw, p.expand.ic,
                                    p.expand.x_stride, p.expand, data.w1, data.b1);
  activate(p.expand.act, t);
  t = depthwise(t, p.depthwise, data.w2, data.b2);
  activate(p.depthwise.act, t);
  t = pointwise(t, pixels, p.project.ic, p.project.ic, p.project, data.w3, data.b3);
  std::vector<float> expected(found.size(), -77.0f);
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t o = 0; o < p.project.oc; ++o) {
      double v = t[static_cast<std::size_t>(i * p.project.oc + o)];
      const double r = p.project.residual == Residual::None
                           ? 0
                           : static_cast<double>(data.r[static_cast<std::size_t>(i * p.project.r_stride + o)]);
      if (p.project.residual == Residual::BeforeAct) v += r;
      v = apply(p.project.act, v);
      if (p.project.residual == Residual::AfterAct) v += r;
      expected[static_cast<std::size_t>(i * p.project.y_stride + o)] = static_cast<float>(v);
    }
  expect_close("BlockF32", found, expected, 2e-5f, 2e-5f);
}

}  // namespace

void register_block(Registry &registry) {
  registry.test("BlockF32: random", [](const Isa &isa) {
    Random random(77);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return static_cast<std::int32_t>(random.integer(low, high));
    };
    for (int i = 0; i < 80; ++i) {
      const std::int32_t k = pick(0, 1) ? 3 : 5;
      BlockF32 p = block(pick(5, 40), pick(1, 30), pick(1, 70), pick(1, 40), k, pick(1, 2), pick(0, k / 2));
      const std::int32_t images = pick(1, 2);
      p.expand.window.n = p.depthwise.window.n = p.project.window.n = images;
      p.expand.x_stride += pick(0, 1) * pick(1, 9), p.project.y_stride += pick(0, 1) * pick(1, 9);
      p.project.residual = static_cast<Residual>(pick(0, 2));
      p.project.act = {pick(0, 1) ? Act::None : Act::HardSwish, 0, 0, 0};
      if (pick(0, 2) == 0) p.expand.act = {Act::HardSwish, 0, 0, 0};
      if (pick(0, 2) == 0) p.depthwise.act = {Act::Silu, 1, 0, 0};
      p.expand.has_bias = static_cast<std::uint32_t>(pick(0, 1)),
      p.project.has_bias = static_cast<std::uint32_t>(pick(0, 1));
      check_block(isa, p, static_cast<std::uint64_t>(i));
    }
  });
  registry.test("BlockF32: more rows than are worked on at a time", [](const Isa &isa) {
    check_block(isa, block(90, 8, 96, 12, 3, 1, 1), 1);
    check_block(isa, block(61, 8, 144, 12, 5, 2, 2), 2);
  });
  registry.test("BlockF32: refusals", [](const Isa &isa) {
    const auto refuses = [&](const char *what, auto change) {
      BlockF32 p = block(9, 4, 12, 6, 3, 1, 1);
      change(p);
      Needs needs;
      if (kernel_row(Kernel::BlockF32).check(&p, isa, needs).ok())
        throw std::runtime_error(std::string("the check accepts ") + what);
    };
    refuses("another number of channels between", [](BlockF32 &p) { p.project.ic = p.project.x_stride = 11; });
    refuses("another image between", [](BlockF32 &p) { p.expand.window.ih = p.expand.window.oh = 8; });
    refuses("gaps between", [](BlockF32 &p) { p.expand.y_stride = 13; });
  });
  for (const auto &[name, p] :
       {std::pair{"BlockF32: 112 16->96->24, step 2 (mobilenet)", block(112, 16, 96, 24, 3, 2, 1)},
        std::pair{"BlockF32: 56 24->144->24 (mobilenet)", block(56, 24, 144, 24, 3, 1, 1)}})
    registry.bench(name, [p = p](const Isa &isa) {
      Random random(1);
      BlockData data;
      return prepare(isa, p, random, &data);
    });
}

}  // namespace quarry::kernel_test
