// SPDX-License-Identifier: Apache-2.0
// Integer kernels. Bounds: ConvInt, BinaryInt, PoolInt (averages), MeanInt, Requantize: one quantum from cpu-reference, and that only next to ties (few
// elements; see kOffLimit); the rest: equal.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "backends/common/kernels/pack.h"
#include "tests/kernels/driver.h"

namespace quarry::kernel_test {

namespace {

using namespace kernels;

constexpr std::uint32_t kU8 = 2, kI8 = 3, kU16 = 4, kI16 = 5;
std::int32_t low_of(std::uint32_t dtype) { return dtype == kI8 ? -128 : dtype == kI16 ? -32768 : 0; }
std::int32_t high_of(std::uint32_t dtype) { return dtype == kU8 ? 255 : dtype == kI8 ? 127 : dtype == kU16 ? 65535 : 32767; }
std::size_t width_of(std::uint32_t dtype) { return dtype >= kU16 ? 2 : 1; }

std::int32_t get(const Bytes &bytes, std::uint32_t dtype, std::size_t index) {
  const auto *at = bytes.data() + index * width_of(dtype);
  std::uint16_t half = 0;
  std::memcpy(&half, at, width_of(dtype));
  return dtype == kI8 ? static_cast<std::int8_t>(half) : dtype == kI16 ? static_cast<std::int16_t>(half) : half;
}
void set(Bytes &bytes, std::uint32_t dtype, std::size_t index, std::int32_t value) {
  const auto half = static_cast<std::uint16_t>(value);
  std::memcpy(bytes.data() + index * width_of(dtype), &half, width_of(dtype));
}
Bytes random_ints(Random &random, std::uint32_t dtype, std::size_t count) {
  Bytes bytes(count * width_of(dtype));
  for (std::size_t i = 0; i < count; ++i) set(bytes, dtype, i, static_cast<std::int32_t>(random.integer(low_of(dtype), high_of(dtype))));
  return bytes;
}

// n x h x w pixels of c channels, `stride` apart -> dense NCHW, and back into `to`.
Bytes to_nchw(const Bytes &from, std::int64_t n, std::int64_t pixels, std::int64_t c, std::int64_t stride, std::size_t width) {
  Bytes to(static_cast<std::size_t>(n * pixels * c) * width);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t k = 0; k < c; ++k)
        std::memcpy(to.data() + static_cast<std::size_t>((i * c + k) * pixels + p) * width, from.data() + static_cast<std::size_t>((i * pixels + p) * stride + k) * width, width);
  return to;
}
Bytes to_nhwc(const Bytes &from, std::int64_t n, std::int64_t pixels, std::int64_t c, std::int64_t stride, std::size_t width, Bytes to) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t k = 0; k < c; ++k)
        std::memcpy(to.data() + static_cast<std::size_t>((i * pixels + p) * stride + k) * width, from.data() + static_cast<std::size_t>((i * c + k) * pixels + p) * width, width);
  return to;
}

qir::Quantization quant_of(const Quant &q) {
  qir::Quantization quant;
  quant.scales.push_back(q.scale);
  quant.zero_points.push_back(q.zero);
  return quant;
}
Quant quant(std::uint32_t dtype, std::int32_t zero, float scale) { return {dtype, zero, scale, 0}; }
// A zero point inside the type's range, away from the middle.
Quant some_quant(std::uint32_t dtype, float scale) {
  const std::int32_t zero = dtype == kU8 ? 117 : dtype == kI8 ? -9 : dtype == kU16 ? 30011 : 1203;
  return quant(dtype, zero, scale);
}

// Every element of y: within one of expected, and but few of them off at all.
constexpr double kOffLimit = 0.002;
void expect_quanta(const std::string &what, const Bytes &found, const Bytes &expected, std::uint32_t dtype, double off_limit = kOffLimit) {
  if (found.size() != expected.size()) throw std::runtime_error(what + ": sizes differ");
  std::size_t off = 0;
  const std::size_t count = found.size() / width_of(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t f = get(found, dtype, i), e = get(expected, dtype, i);
    if (std::abs(f - e) > 1) throw std::runtime_error(what + ": element " + std::to_string(i) + ": found " + std::to_string(f) + ", expected " + std::to_string(e));
    off += f != e;
  }
  if (static_cast<double>(off) > 2 + off_limit * static_cast<double>(count)) throw std::runtime_error(what + ": " + std::to_string(off) + " of " + std::to_string(count) + " are off by one");
}

// ---- convolutions ------------------------------------------------------------------------------------------------------------

struct ConvCase {
  const char *name;
  std::int32_t n, h, w, ic, oc, groups, kh, kw, sh, sw, dh, dw, pad;
};
struct Types {
  std::uint32_t x, y;
  std::uint32_t w_bits;
  bool residual;
};

ConvInt conv_params(const ConvCase &c, const Types &types, std::int32_t slack) {
  ConvInt p;
  Window &w = p.window;
  w.n = c.n, w.ih = c.h, w.iw = c.w, w.kh = c.kh, w.kw = c.kw, w.sh = c.sh, w.sw = c.sw, w.dh = c.dh, w.dw = c.dw, w.pad_top = w.pad_left = c.pad;
  w.oh = (c.h + 2 * c.pad - c.dh * (c.kh - 1) - 1) / c.sh + 1;
  w.ow = (c.w + 2 * c.pad - c.dw * (c.kw - 1) - 1) / c.sw + 1;
  p.ic = c.ic, p.oc = c.oc, p.groups = c.groups;
  p.x_stride = c.ic + slack, p.y_stride = c.oc + 2 * slack, p.r_stride = c.oc + slack;
  p.has_residual = types.residual;
  p.w_bits = types.w_bits;
  const auto span = [](std::uint32_t dtype) { return dtype >= kU16 ? 65535.0f : 255.0f; };
  // Values of x reach +-2.
  p.x = some_quant(types.x, 4.0f / span(types.x));
  const float reach = 1.3f * std::sqrt(static_cast<float>(c.kh * c.kw * c.ic / c.groups));
  p.y = some_quant(types.y, 4 * reach / span(types.y));
  p.lo = low_of(types.y), p.hi = high_of(types.y);
  if (types.residual) {
    p.mid = some_quant(types.y, 3.7f * reach / span(types.y));
    p.r = some_quant(types.x, 2.9f * reach / span(types.x));
    p.mid_lo = low_of(types.y) + 7, p.mid_hi = high_of(types.y) - 5;
    p.lo = p.y.zero, p.hi = high_of(types.y) - 3;  // Relu, and then some
  }
  return p;
}

struct ConvData {
  std::vector<std::int32_t> weights, bias;  // oc, ic / groups, kh, kw
  std::vector<float> scales;
  std::vector<Operand> operands;
};
ConvData conv_data(const Isa &isa, const ConvInt &p, Random &random) {
  ConvData d;
  const Needs needs = [&] {
    Needs n;
    if (const Status status = check_ConvInt(&p, isa, n); !status.ok()) throw std::runtime_error(std::string(status.message()));
    return n;
  }();
  const std::int64_t ic = p.ic / p.groups, taps = p.window.kh * p.window.kw;
  const auto high = static_cast<std::int32_t>((1 << (p.w_bits - 1)) - 1);
  d.weights.resize(static_cast<std::size_t>(p.oc * ic * taps));
  for (std::int32_t &w : d.weights) w = static_cast<std::int32_t>(random.integer(p.w_bits == 16 ? -high : -high - 1, high));
  d.bias.resize(static_cast<std::size_t>(p.oc));
  d.scales.resize(d.bias.size());
  for (float &scale : d.scales) scale = random.real(0.6f, 1.1f) / static_cast<float>(high);
  std::vector<float> multiplier;
  const Quant &out = p.has_residual ? p.mid : p.y;
  for (std::size_t i = 0; i < d.bias.size(); ++i) {
    d.bias[i] = static_cast<std::int32_t>(random.real(-0.5f, 0.5f) / (p.x.scale * d.scales[i]));
    multiplier.push_back(p.x.scale * d.scales[i] / out.scale);
  }
  Bytes packed(needs.operand_bytes[1]), bias(needs.operand_bytes[2]), multipliers(needs.operand_bytes[3]);
  const FilterView<std::int32_t> view{d.weights.data(), ic * taps, taps, p.window.kw, 1};
  if (!pack_conv_int(p, isa, view, d.bias.data(), packed.data(), bias.data())) throw std::runtime_error("weights do not fit");
  std::memcpy(multipliers.data(), multiplier.data(), multiplier.size() * sizeof(float));
  d.operands = {{random_ints(random, p.x.dtype, needs.operand_bytes[0] / width_of(p.x.dtype))}, {std::move(packed)}, {std::move(bias)}, {std::move(multipliers)}};
  if (p.has_residual) d.operands.push_back({random_ints(random, p.r.dtype, needs.operand_bytes[4] / width_of(p.r.dtype))});
  d.operands.push_back({random_ints(random, p.y.dtype, needs.operand_bytes[needs.operand_count - 1] / width_of(p.y.dtype)), true});
  return d;
}

Bytes conv_expected(const ConvInt &p, const ConvData &d) {
  const Window &w = p.window;
  const std::int64_t ic = p.ic / p.groups;
  qir::Node node;
  node.op = qir::Op::Conv;
  node.name = "conv";
  node.inputs = {0, 1, 2};
  node.outputs = {3};
  node.set("group", std::int64_t{p.groups});
  node.set("strides", Vector<std::int64_t>{w.sh, w.sw});
  node.set("dilations", Vector<std::int64_t>{w.dh, w.dw});
  node.set("kernel_shape", Vector<std::int64_t>{w.kh, w.kw});
  // Enough at the far edge for the output rows that there are.
  const std::int64_t bottom = (w.oh - 1) * w.sh + (w.kh - 1) * w.dh + 1 - w.pad_top - w.ih, right = (w.ow - 1) * w.sw + (w.kw - 1) * w.dw + 1 - w.pad_left - w.iw;
  node.set("pads", Vector<std::int64_t>{w.pad_top, w.pad_left, std::max<std::int64_t>(bottom, 0), std::max<std::int64_t>(right, 0)});
  const Tensor x{static_cast<DType>(p.x.dtype), {w.n, p.ic, w.ih, w.iw},
                 to_nchw([&] { Bytes b = d.operands[0].contents; b.resize(static_cast<std::size_t>(w.n * w.ih * w.iw * p.x_stride) * width_of(p.x.dtype)); return b; }(), w.n, w.ih * w.iw,
                         p.ic, p.x_stride, width_of(p.x.dtype)),
                 quant_of(p.x)};
  // Weights of 9 bits are u8 with a zero point in the model; here i16 stands for all that i8 does not hold.
  Tensor weights{p.w_bits == 8 ? DType::I8 : DType::I16, {p.oc, ic, w.kh, w.kw}, {}, qir::Quantization{}};
  weights.data.resize(d.weights.size() * (p.w_bits == 8 ? 1 : 2));
  for (std::size_t i = 0; i < d.weights.size(); ++i) set(weights.data, p.w_bits == 8 ? kI8 : kI16, i, d.weights[i]);
  for (const float scale : d.scales) weights.quant->scales.push_back(scale), weights.quant->zero_points.push_back(0);
  const Tensor bias{DType::I32, {p.oc}, bytes_of(d.bias), {}};
  const Quant &out = p.has_residual ? p.mid : p.y;
  std::vector<reference::OutputType> types{{static_cast<DType>(out.dtype), quant_of(out)}};
  Tensor result = reference(node, {x, weights, bias}, &types)[0];
  const auto clip = [](Bytes &bytes, std::uint32_t dtype, std::int32_t lo, std::int32_t hi) {
    for (std::size_t i = 0; i < bytes.size() / width_of(dtype); ++i) set(bytes, dtype, i, std::clamp(get(bytes, dtype, i), lo, hi));
  };
  if (p.has_residual) {
    clip(result.data, p.mid.dtype, p.mid_lo, p.mid_hi);
    result.quant = quant_of(p.mid);
    qir::Node add;
    add.op = qir::Op::Add;
    add.name = "add";
    add.inputs = {0, 1};
    add.outputs = {2};
    Bytes r = d.operands[4].contents;
    r.resize(static_cast<std::size_t>(w.n * w.oh * w.ow * p.r_stride) * width_of(p.r.dtype));
    const Tensor other{static_cast<DType>(p.r.dtype), {w.n, p.oc, w.oh, w.ow}, to_nchw(r, w.n, w.oh * w.ow, p.oc, p.r_stride, width_of(p.r.dtype)), quant_of(p.r)};
    types = {{static_cast<DType>(p.y.dtype), quant_of(p.y)}};
    result = reference(add, {result, other}, &types)[0];
  }
  clip(result.data, p.y.dtype, p.lo, p.hi);
  return to_nhwc(result.data, w.n, w.oh * w.ow, p.oc, p.y_stride, width_of(p.y.dtype), d.operands.back().contents);
}

void test_conv(const Isa &isa, const ConvCase &c, const Types &types, std::int32_t slack) {
  const ConvInt p = conv_params(c, types, slack);
  Random random(static_cast<std::uint64_t>(c.h * 131 + c.ic * 17 + c.oc));
  const ConvData d = conv_data(isa, p, random);
  const std::string what = std::string(c.name) + " x " + std::to_string(types.x) + " y " + std::to_string(types.y) + " w_bits " + std::to_string(types.w_bits) +
                           (types.residual ? " residual" : "") + " slack " + std::to_string(slack);
  std::vector<Bytes> found;
  try {
    found = run(isa, Kernel::ConvInt, &p, d.operands);
  } catch (const std::exception &error) {
    throw std::runtime_error(what + ": " + error.what());
  }
  // With a residual the quotient of scales is rounded too; with 16 bits a quantum is so small that the product's rounding shows more often.
  expect_quanta(what, found[0], conv_expected(p, d), p.y.dtype, types.y >= kU16 ? 0.05 : types.residual ? 0.01 : kOffLimit);
}

constexpr ConvCase kDense[] = {
    // name, n, h, w, ic, oc, groups, kh, kw, sh, sw, dh, dw, pad
    {"1x1", 1, 7, 9, 24, 40, 1, 1, 1, 1, 1, 1, 1, 0},
    {"1x1 odd", 2, 5, 3, 17, 33, 1, 1, 1, 1, 1, 1, 1, 0},
    {"1x1 step 2", 1, 9, 8, 16, 8, 1, 1, 1, 2, 2, 1, 1, 0},
    {"1x1 one channel", 1, 4, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0},
    {"gemv", 1, 1, 1, 300, 77, 1, 1, 1, 1, 1, 1, 1, 0},
    {"gemm 5", 1, 1, 5, 64, 130, 1, 1, 1, 1, 1, 1, 1, 0},
    {"3x3", 1, 10, 11, 16, 24, 1, 3, 3, 1, 1, 1, 1, 1},
    {"3x3 odd", 2, 7, 6, 5, 19, 1, 3, 3, 1, 1, 1, 1, 1},
    {"3x3 many", 1, 14, 15, 40, 72, 1, 3, 3, 1, 1, 1, 1, 1},
    {"3x3 no border", 1, 9, 13, 8, 12, 1, 3, 3, 1, 1, 1, 1, 0},
    {"3x3 step 2", 1, 13, 12, 8, 9, 1, 3, 3, 2, 2, 1, 1, 1},
    {"stem", 1, 15, 17, 3, 32, 1, 3, 3, 2, 2, 1, 1, 1},
    {"stem 7x7", 1, 21, 19, 3, 20, 1, 7, 7, 2, 2, 1, 1, 3},
    {"dilated", 1, 12, 11, 6, 10, 1, 3, 2, 1, 2, 2, 3, 2},
    {"far border", 1, 3, 2, 4, 5, 1, 5, 5, 1, 1, 1, 1, 4},
    {"groups", 1, 6, 7, 12, 20, 2, 3, 3, 1, 1, 1, 1, 1},
    {"groups of few", 2, 5, 5, 9, 15, 3, 1, 1, 1, 1, 1, 1, 0},
    {"3x3 winograd", 1, 13, 15, 32, 40, 1, 3, 3, 1, 1, 1, 1, 1},
    {"3x3 winograd, few tiles of a row", 3, 24, 3, 64, 17, 1, 3, 3, 1, 1, 1, 1, 1},
    {"3x3 winograd, no border", 1, 17, 14, 16, 16, 1, 3, 3, 1, 1, 1, 1, 0},
    {"long", 1, 3, 3, 700, 18, 1, 3, 3, 1, 1, 1, 1, 1},
};
constexpr ConvCase kDepthwise[] = {
    {"dw 3x3", 1, 9, 10, 32, 32, 32, 3, 3, 1, 1, 1, 1, 1},   {"dw 3x3 odd", 2, 7, 7, 13, 13, 13, 3, 3, 1, 1, 1, 1, 1},
    {"dw 3x3 step 2", 1, 11, 12, 40, 40, 40, 3, 3, 2, 2, 1, 1, 1}, {"dw 5x5", 1, 8, 9, 24, 24, 24, 5, 5, 1, 1, 1, 1, 2},
    {"dw 5x5 step 2", 1, 10, 9, 19, 19, 19, 5, 5, 2, 2, 1, 1, 2},  {"dw 3x3 dilated", 1, 9, 9, 8, 8, 8, 3, 3, 1, 1, 2, 2, 2},
    {"dw 7x7", 1, 9, 8, 11, 11, 11, 7, 7, 1, 1, 1, 1, 3},          {"dw 2x4", 1, 6, 7, 5, 5, 5, 2, 4, 1, 3, 1, 1, 1},
    {"dw 1x1", 1, 6, 7, 5, 5, 5, 1, 1, 1, 1, 1, 1, 0},             {"dw wide", 1, 3, 300, 9, 9, 9, 3, 3, 1, 1, 1, 1, 1},
    {"dw far border", 1, 2, 2, 16, 16, 16, 5, 5, 1, 1, 1, 1, 4},   {"dw many", 1, 14, 14, 200, 200, 200, 3, 3, 1, 1, 1, 1, 1},
    {"dw 3x3 no border", 1, 9, 10, 16, 16, 16, 3, 3, 1, 1, 1, 1, 0}, {"dw tall", 1, 40, 3, 8, 8, 8, 3, 3, 2, 1, 1, 1, 1},
};
constexpr Types kTypes[] = {{kU8, kU8, 8, false},   {kI8, kI8, 8, false},   {kU8, kU8, 9, false},  {kU8, kU16, 8, false}, {kU16, kU16, 8, false},  {kI16, kI16, 8, false},
                            {kU16, kU16, 9, false}, {kU16, kU8, 16, false}, {kU8, kI8, 8, true},   {kI8, kU8, 8, true},   {kU16, kU16, 8, true}};

void register_conv(Registry &registry) {
  for (const auto &cases : {std::span<const ConvCase>(kDense), std::span<const ConvCase>(kDepthwise)})
    for (const ConvCase &c : cases)
      registry.test(std::string("conv_int ") + c.name, [c](const Isa &isa) {
        for (const Types &types : kTypes) {
          test_conv(isa, c, types, 0);
          test_conv(isa, c, types, 5);
        }
      });
  // Sums as large as they come: nothing saturates before the end.
  registry.test("conv_int extremes", [](const Isa &isa) {
    for (const Types &types : kTypes)
      for (const int kind : {0, 1, 2})
        for (const int sign : {1, -1}) {
          const ConvCase c = kind == 0   ? ConvCase{"extreme dw", 1, 6, 6, 20, 20, 20, 5, 5, 1, 1, 1, 1, 0}
                             : kind == 1 ? ConvCase{"extreme", 1, 6, 6, 150, 20, 1, 3, 3, 1, 1, 1, 1, 0}
                                         : ConvCase{"extreme winograd", 1, 14, 14, 1024, 20, 1, 3, 3, 1, 1, 1, 1, 0};
          if (types.residual) continue;
          ConvInt p = conv_params(c, types, 0);
          p.x.zero = 0;
          Random random(3);
          ConvData d = conv_data(isa, p, random);
          const std::int32_t high = (1 << (p.w_bits - 1)) - 1;
          for (std::size_t i = 0; i < d.weights.size(); ++i) d.weights[i] = sign > 0 ? high : p.w_bits == 16 ? -high : -high - 1;
          const std::size_t count = d.operands[0].contents.size() / width_of(p.x.dtype);
          for (std::size_t i = 0; i < count; ++i) set(d.operands[0].contents, p.x.dtype, i, sign > 0 ? high_of(p.x.dtype) : p.x.dtype == kI8 || p.x.dtype == kI16 ? low_of(p.x.dtype) : high_of(p.x.dtype));
          // So scaled that the sum lies within y.
          const std::int64_t k = std::int64_t{c.kh} * c.kw * c.ic / c.groups;
          for (std::size_t i = 0; i < d.scales.size(); ++i) {
            d.scales[i] = 0.4f * static_cast<float>(high_of(p.y.dtype)) * p.y.scale / (static_cast<float>(k) * p.x.scale * static_cast<float>(high_of(p.x.dtype)) * static_cast<float>(high));
            reinterpret_cast<float *>(d.operands[3].contents.data())[i] = p.x.scale * d.scales[i] / p.y.scale;
            d.bias[i] = 0;
          }
          const FilterView<std::int32_t> view{d.weights.data(), k, std::int64_t{c.kh} * c.kw, c.kw, 1};
          if (!pack_conv_int(p, isa, view, d.bias.data(), d.operands[1].contents.data(), d.operands[2].contents.data())) throw std::runtime_error("weights do not fit");
          expect_quanta(std::string(c.name) + " x " + std::to_string(types.x) + " w_bits " + std::to_string(types.w_bits), run(isa, Kernel::ConvInt, &p, d.operands)[0], conv_expected(p, d),
                        p.y.dtype, 1);
        }
  });
  registry.test("conv_int huge bias", [](const Isa &isa) {
    // The sum with such a bias does not fit i32.
    ConvInt p = conv_params(kDense[0], kTypes[0], 0);
    Random random(7);
    ConvData d = conv_data(isa, p, random);
    for (std::size_t i = 0; i < d.bias.size(); ++i) d.bias[i] = i % 2 ? 0x7fffffff : i % 4 ? -0x7fffffff : 0;
    const FilterView<std::int32_t> view{d.weights.data(), p.ic, 1, 1, 1};
    if (!pack_conv_int(p, isa, view, d.bias.data(), d.operands[1].contents.data(), d.operands[2].contents.data())) throw std::runtime_error("weights do not fit");
    expect_quanta("huge bias", run(isa, Kernel::ConvInt, &p, d.operands)[0], conv_expected(p, d), p.y.dtype);
  });
  registry.test("conv_int packing refuses", [](const Isa &isa) {
    ConvInt p = conv_params(kDense[0], kTypes[0], 0);
    Random random(5);
    ConvData d = conv_data(isa, p, random);
    const FilterView<std::int32_t> view{d.weights.data(), p.ic, 1, 1, 1};
    const auto packs = [&] { return pack_conv_int(p, isa, view, d.bias.data(), d.operands[1].contents.data(), d.operands[2].contents.data()); };
    d.weights[3] = 128;
    if (packs()) throw std::runtime_error("128 went into 8 bits");
    d.weights[3] = 0;
    if (!packs()) throw std::runtime_error("refused what fits");
  });
  registry.test("conv_int check", [](const Isa &isa) {
    const ConvInt good = conv_params(kDense[0], kTypes[8], 0);
    const auto refused = [&](const char *what, auto &&spoil) {
      ConvInt p = good;
      spoil(p);
      Needs needs;
      if (check_ConvInt(&p, isa, needs).ok()) throw std::runtime_error(std::string("took ") + what);
    };
    refused("no groups", [](ConvInt &p) { p.groups = 0; });
    refused("groups that do not divide", [](ConvInt &p) { p.groups = 5; });
    refused("negative channels", [](ConvInt &p) { p.ic = -1; });
    refused("too many channels", [](ConvInt &p) { p.oc = 1 << 30; });
    refused("a short stride", [](ConvInt &p) { p.x_stride = 23; });
    refused("a wrong type", [](ConvInt &p) { p.x.dtype = 1; });
    refused("a zero point out of range", [](ConvInt &p) { p.y.zero = 128; });
    refused("limits upside down", [](ConvInt &p) { p.lo = 5, p.hi = 4; });
    refused("a limit out of range", [](ConvInt &p) { p.mid_hi = 300; });
    refused("no bits", [](ConvInt &p) { p.w_bits = 0; });
    refused("17 bits", [](ConvInt &p) { p.w_bits = 17; });
    refused("a scale of NaN", [](ConvInt &p) { p.x.scale = NAN; });
    refused("a scale of 0", [](ConvInt &p) { p.r.scale = 0; });
    refused("a huge window", [](ConvInt &p) { p.window.kh = p.window.kw = 1 << 16; });
    refused("residual 2", [](ConvInt &p) { p.has_residual = 2; });
  });
}

// ---- the rest ------------------------------------------------------------------------------------------------------------------

constexpr std::uint32_t kAll[] = {kU8, kI8, kU16, kI16};

Tensor tensor_of(const Quant &q, std::vector<std::int64_t> shape, Bytes data) { return {static_cast<DType>(q.dtype), std::move(shape), std::move(data), quant_of(q)}; }
qir::Node node_of(qir::Op op, int inputs) {
  qir::Node node;
  node.op = op;
  node.name = "node";
  for (int i = 0; i < inputs; ++i) node.inputs.push_back(i);
  node.outputs = {inputs};
  return node;
}
Bytes reference_quantised(const qir::Node &node, const std::vector<Tensor> &inputs, const Quant &y) {
  const std::vector<reference::OutputType> types{{static_cast<DType>(y.dtype), quant_of(y)}};
  return reference(node, inputs, &types)[0].data;
}

void test_binary(const Isa &isa, BinaryOp op, const Quant &qa, const Quant &qb, const Quant &qy, std::vector<std::int64_t> a_shape, std::vector<std::int64_t> b_shape) {
  Random random(11);
  BinaryInt p;
  p.op = op;
  p.rank = static_cast<std::uint32_t>(a_shape.size());
  p.qa = qa, p.qb = qb, p.qy = qy;
  p.lo = low_of(qy.dtype) + 3, p.hi = high_of(qy.dtype) - 2;
  std::int64_t a_count = 1, b_count = 1, count = 1;
  for (std::size_t i = a_shape.size(); i-- > 0;) {
    p.dims[i] = std::max(a_shape[i], b_shape[i]);
    p.a[i] = a_shape[i] == 1 ? 0 : a_count;
    p.b[i] = b_shape[i] == 1 ? 0 : b_count;
    a_count *= a_shape[i], b_count *= b_shape[i], count *= p.dims[i];
  }
  const Bytes a = random_ints(random, qa.dtype, static_cast<std::size_t>(a_count)), b = random_ints(random, qb.dtype, static_cast<std::size_t>(b_count));
  const Bytes found = run(isa, Kernel::BinaryInt, &p, {{a}, {b}, {Bytes(static_cast<std::size_t>(count) * width_of(qy.dtype)), true}})[0];
  const qir::Op ops[] = {qir::Op::Add, qir::Op::Sub, qir::Op::Mul};
  Bytes expected = reference_quantised(node_of(ops[static_cast<int>(op)], 2), {tensor_of(qa, a_shape, a), tensor_of(qb, b_shape, b)}, qy);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) set(expected, qy.dtype, i, std::clamp(get(expected, qy.dtype, i), p.lo, p.hi));
  expect_quanta("binary " + std::to_string(static_cast<int>(op)) + " types " + std::to_string(qa.dtype) + std::to_string(qb.dtype) + std::to_string(qy.dtype), found, expected, qy.dtype, 0.02);
}

void register_binary(Registry &registry) {
  registry.test("binary_int types", [](const Isa &isa) {
    for (const BinaryOp op : {BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul})
      for (const std::uint32_t a : kAll)
        for (const std::uint32_t b : kAll)
          for (const std::uint32_t y : kAll)
            test_binary(isa, op, some_quant(a, a >= kU16 ? 3e-5f : 0.007f), some_quant(b, b >= kU16 ? 2.3e-5f : 0.0061f), some_quant(y, y >= kU16 ? 4.7e-5f : 0.0119f), {3, 37}, {3, 37});
  });
  registry.test("binary_int shapes", [](const Isa &isa) {
    const std::vector<std::int64_t> shapes[][2] = {{{1}, {1}}, {{7}, {7}}, {{65}, {1}}, {{1}, {65}}, {{5, 40}, {1, 40}}, {{5, 1}, {1, 40}}, {{3, 1, 5, 9}, {1, 4, 5, 1}}, {{40000}, {40000}},
                                               {{2, 3, 20000}, {2, 1, 20000}}, {{2, 2, 2, 2, 2, 3}, {1, 2, 1, 2, 1, 3}}};
    for (const auto &shape : shapes)
      for (const BinaryOp op : {BinaryOp::Add, BinaryOp::Mul}) test_binary(isa, op, some_quant(kU8, 0.02f), some_quant(kI8, 0.011f), some_quant(kU8, 0.031f), shape[0], shape[1]);
  });
  registry.test("binary_int strided", [](const Isa &isa) {
    // Every second element of a, and a nest with nothing in it.
    BinaryInt p;
    p.qa = p.qb = p.qy = quant(kU8, 0, 1);
    p.hi = 255;
    p.dims[0] = 21;
    p.a[0] = 2, p.b[0] = 1;
    Bytes a(41), b(21);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::byte(i);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::byte(i);
    const Bytes y = run(isa, Kernel::BinaryInt, &p, {{a}, {b}, {Bytes(21), true}})[0];
    for (std::size_t i = 0; i < y.size(); ++i)
      if (y[i] != std::byte(3 * i)) throw std::runtime_error("strided sum is wrong");
    p.dims[0] = 0;
    run(isa, Kernel::BinaryInt, &p, {{{}}, {{}}, {{}, true}});
  });
}

void test_pool(const Isa &isa, PoolOp op, std::uint32_t x_type, std::uint32_t y_type, std::int32_t c, Window w, std::int32_t pad_bottom, std::int32_t pad_right, std::int32_t slack) {
  Random random(23);
  PoolInt p;
  p.op = op;
  p.window = w;
  p.c = c;
  p.x_stride = c + slack, p.y_stride = c + 2 * slack;
  p.pad_bottom = pad_bottom, p.pad_right = pad_right;
  p.x = some_quant(x_type, 0.013f);
  p.y = op == PoolOp::Max ? p.x : some_quant(y_type, x_type >= kU16 && y_type <= kI8 ? 2.9f : 0.011f);
  const std::size_t x_count = static_cast<std::size_t>((w.n * w.ih * w.iw - 1) * p.x_stride + c), y_count = static_cast<std::size_t>((w.n * w.oh * w.ow - 1) * p.y_stride + c);
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
  const Bytes expected = reference_quantised(node, {tensor_of(p.x, {w.n, c, w.ih, w.iw}, to_nchw(x, w.n, w.ih * w.iw, c, p.x_stride, width_of(x_type)))}, p.y);
  expect_quanta("pool " + std::to_string(static_cast<int>(op)) + " c " + std::to_string(c), found, to_nhwc(expected, w.n, w.oh * w.ow, c, p.y_stride, width_of(y_type), y), y_type,
                op == PoolOp::Max ? 0 : 0.03);
}

void register_pool(Registry &registry) {
  registry.test("pool_int", [](const Isa &isa) {
    //                         n  ih iw oh ow kh kw sh sw dh dw top left
    const Window windows[] = {{1, 9, 8, 9, 8, 3, 3, 1, 1, 1, 1, 1, 1}, {2, 7, 7, 3, 3, 3, 3, 2, 2, 1, 1, 0, 0}, {1, 8, 9, 4, 4, 2, 2, 2, 2, 1, 1, 0, 0},
                              {1, 6, 7, 2, 3, 3, 3, 1, 1, 2, 2, 0, 0}, {1, 8, 8, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0}};
    const std::int32_t pads[][2] = {{1, 1}, {0, 0}, {0, 0}, {0, 0}, {0, 0}};
    for (std::size_t i = 0; i < std::size(windows); ++i)
      for (const std::int32_t c : {1, 5, 16, 43, 80})
        for (const std::int32_t slack : {0, 3}) {
          for (const std::uint32_t type : kAll) {
            test_pool(isa, PoolOp::Max, type, type, c, windows[i], pads[i][0], pads[i][1], slack);
            test_pool(isa, PoolOp::AverageExcludePad, type, type, c, windows[i], pads[i][0], pads[i][1], slack);
          }
          test_pool(isa, PoolOp::AverageIncludePad, kU8, kU8, c, windows[i], pads[i][0], pads[i][1], slack);
          test_pool(isa, PoolOp::AverageIncludePad, kU16, kI8, c, windows[i], pads[i][0], pads[i][1], slack);
        }
  });
  registry.test("mean_int", [](const Isa &isa) {
    Random random(31);
    const std::int64_t extents[][3] = {{1, 49, 1280}, {2, 7, 13}, {3, 50, 1}, {1, 1, 5}, {1, 70000, 3}, {2, 70001, 1}, {0, 3, 4}};
    for (const auto &e : extents)
      for (const std::uint32_t x_type : kAll)
        for (const std::uint32_t y_type : {x_type, kU8}) {
          MeanInt p;
          p.outer = e[0], p.reduced = e[1], p.inner = e[2];
          p.x = some_quant(x_type, 0.013f);
          p.y = some_quant(y_type, x_type >= kU16 && y_type <= kI8 ? 2.9f : 0.0071f);
          const Bytes x = random_ints(random, x_type, static_cast<std::size_t>(e[0] * e[1] * e[2]));
          const Bytes found = run(isa, Kernel::MeanInt, &p, {{x}, {Bytes(static_cast<std::size_t>(e[0] * e[2]) * width_of(y_type)), true}})[0];
          if (e[0] == 0) continue;
          qir::Node node = node_of(qir::Op::ReduceMean, 2);
          node.set("keepdims", std::int64_t{0});
          const Tensor axes{DType::I64, {1}, bytes_of(std::vector<std::int64_t>{1}), {}};
          expect_quanta("mean", found, reference_quantised(node, {tensor_of(p.x, {e[0], e[1], e[2]}, x), axes}, p.y), y_type, 0.02);
        }
  });
}

void register_conversions(Registry &registry) {
  registry.test("lookup8", [](const Isa &isa) {
    Random random(41);
    const Bytes table = random_ints(random, kU8, 256);
    for (const std::int64_t count : {0, 1, 7, 8, 31, 64, 100, 70001}) {
      const Lookup8 p{count};
      const Bytes x = random_ints(random, kU8, static_cast<std::size_t>(count));
      const Bytes y = run(isa, Kernel::Lookup8, &p, {{x}, {table}, {Bytes(x.size()), true}})[0];
      for (std::size_t i = 0; i < x.size(); ++i)
        if (y[i] != table[static_cast<std::size_t>(x[i])]) throw std::runtime_error("element " + std::to_string(i) + " is wrong");
    }
  });
  registry.test("quantize", [](const Isa &isa) {
    Random random(43);
    for (const std::uint32_t type : kAll)
      for (const std::size_t count : {0, 1, 5, 8, 33, 100000}) {
        Quantize p;
        p.count = static_cast<std::int64_t>(count);
        p.y = some_quant(type, type >= kU16 ? 1e-4f : 0.03f);
        std::vector<float> x = random.reals(count, -5, 5);
        const float special[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0.0f, -0.0f, 0.5f * p.y.scale, 1.5f * p.y.scale, -2.5f * p.y.scale, 1e-40f};
        for (std::size_t i = 0; i < count && i < std::size(special); ++i) x[count - 1 - i] = special[i];
        const Bytes found = run(isa, Kernel::Quantize, &p, {{bytes_of(x)}, {Bytes(count * width_of(type)), true}})[0];
        if (count == 0) continue;
        const Tensor tensors[] = {{DType::F32, {p.count}, bytes_of(x), {}}, {DType::F32, {}, bytes_of(std::vector<float>{p.y.scale}), {}}, {static_cast<DType>(type), {}, Bytes(width_of(type)), {}}};
        Tensor zero = tensors[2];
        set(zero.data, type, 0, p.y.zero);
        if (found != reference(node_of(qir::Op::QuantizeLinear, 3), {tensors[0], tensors[1], zero})[0].data) throw std::runtime_error("differs from QuantizeLinear, type " + std::to_string(type));
      }
  });
  registry.test("dequantize", [](const Isa &isa) {
    Random random(47);
    for (const std::uint32_t type : kAll)
      for (const std::size_t count : {0, 1, 5, 8, 33, 100000}) {
        Dequantize p;
        p.count = static_cast<std::int64_t>(count);
        p.x = some_quant(type, 0.0123f);
        const Bytes x = random_ints(random, type, count);
        const Bytes found = run(isa, Kernel::Dequantize, &p, {{x}, {Bytes(count * 4), true}})[0];
        if (count == 0) continue;
        Tensor zero{static_cast<DType>(type), {}, Bytes(width_of(type)), {}};
        set(zero.data, type, 0, p.x.zero);
        const Tensor scale{DType::F32, {}, bytes_of(std::vector<float>{p.x.scale}), {}};
        if (found != reference(node_of(qir::Op::DequantizeLinear, 3), {{static_cast<DType>(type), {p.count}, x, {}}, scale, zero})[0].data)
          throw std::runtime_error("differs from DequantizeLinear, type " + std::to_string(type));
      }
  });
  registry.test("requantize", [](const Isa &isa) {
    Random random(53);
    for (const std::uint32_t x_type : kAll)
      for (const std::uint32_t y_type : kAll)
        for (const std::size_t count : {1, 5, 8, 33, 70000}) {
          Requantize p;
          p.count = static_cast<std::int64_t>(count);
          p.x = some_quant(x_type, x_type >= kU16 ? 3e-5f : 0.007f);
          p.y = some_quant(y_type, y_type >= kU16 ? 2.3e-5f : 0.0083f);
          p.lo = p.y.zero - 2, p.hi = high_of(y_type);
          const Bytes x = random_ints(random, x_type, count);
          const Bytes found = run(isa, Kernel::Requantize, &p, {{x}, {Bytes(count * width_of(y_type)), true}})[0];
          Bytes expected = reference_quantised(node_of(qir::Op::Relu, 1), {tensor_of({x_type, low_of(x_type), p.x.scale, 0}, {p.count}, x)}, p.y);
          // Relu of values that are never negative is the identity; but the zero point is another: compute it here.
          for (std::size_t i = 0; i < count; ++i) {
            const float real = static_cast<float>(get(x, x_type, i) - p.x.zero) * p.x.scale;
            set(expected, y_type, i, static_cast<std::int32_t>(std::clamp<double>(std::nearbyint(static_cast<double>(real / p.y.scale)) + p.y.zero, p.lo, p.hi)));
          }
          expect_quanta("requantize", found, expected, y_type, 0.02);
        }
  });
}

// ---- benchmarks ----------------------------------------------------------------------------------------------------------------

void register_benches(Registry &registry) {
  const auto conv = [&](const ConvCase &c, std::uint32_t type, bool residual = false) {
    const std::string name = std::string("conv_int ") + (type == kU8 ? "u8 " : "u16 ") + c.name + (residual ? " +r" : "");
    registry.bench(name, [c, type, residual](const Isa &isa) {
      const ConvInt p = conv_params(c, {type, type, 8, residual}, 0);
      Random random(1);
      ConvData d = conv_data(isa, p, random);
      const double pixels = double(p.window.n) * p.window.oh * p.window.ow;
      Work work{2.0 * pixels * c.oc * (double(c.ic) / c.groups) * c.kh * c.kw, 0};
      for (const Operand &operand : d.operands) work.bytes += static_cast<double>(operand.contents.size());
      return Registry::Prepared{Kernel::ConvInt, params_of(p), std::move(d.operands), work};
    });
  };
  const ConvCase cases[] = {
      // name, n, h, w, ic, oc, groups, kh, kw, sh, sw, dh, dw, pad
      {"stem 224 3-32 s2", 1, 224, 224, 3, 32, 1, 3, 3, 2, 2, 1, 1, 1},
      {"stem 224 3-64 7x7 s2", 1, 224, 224, 3, 64, 1, 7, 7, 2, 2, 1, 1, 3},
      {"1x1 112 32-16", 1, 112, 112, 32, 16, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 112 16-96", 1, 112, 112, 16, 96, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 56 96-24", 1, 56, 56, 96, 24, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 56 24-144", 1, 56, 56, 24, 144, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 28 192-32", 1, 28, 28, 192, 32, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 14 384-64", 1, 14, 14, 384, 64, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 14 64-384", 1, 14, 14, 64, 384, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 7 320-1280", 1, 7, 7, 320, 1280, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 56 64-256", 1, 56, 56, 64, 256, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 56 256-64", 1, 56, 56, 256, 64, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 14 1024-256", 1, 14, 14, 1024, 256, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 13 512-1000", 1, 13, 13, 512, 1000, 1, 1, 1, 1, 1, 1, 1, 0},
      {"3x3 56 64-64", 1, 56, 56, 64, 64, 1, 3, 3, 1, 1, 1, 1, 1},
      {"3x3 28 128-128", 1, 28, 28, 128, 128, 1, 3, 3, 1, 1, 1, 1, 1},
      {"3x3 14 256-256", 1, 14, 14, 256, 256, 1, 3, 3, 1, 1, 1, 1, 1},
      {"3x3 7 512-512", 1, 7, 7, 512, 512, 1, 3, 3, 1, 1, 1, 1, 1},
      {"3x3 55 16-64", 1, 55, 55, 16, 64, 1, 3, 3, 1, 1, 1, 1, 1},
      {"fc 1280-1000", 1, 1, 1, 1280, 1000, 1, 1, 1, 1, 1, 1, 1, 0},
      {"dw 3x3 112 32", 1, 112, 112, 32, 32, 32, 3, 3, 1, 1, 1, 1, 1},
      {"dw 3x3 112 96 s2", 1, 112, 112, 96, 96, 96, 3, 3, 2, 2, 1, 1, 1},
      {"dw 3x3 56 144", 1, 56, 56, 144, 144, 144, 3, 3, 1, 1, 1, 1, 1},
      {"dw 3x3 14 384", 1, 14, 14, 384, 384, 384, 3, 3, 1, 1, 1, 1, 1},
      {"dw 3x3 7 960", 1, 7, 7, 960, 960, 960, 3, 3, 1, 1, 1, 1, 1},
      {"dw 5x5 28 120", 1, 28, 28, 120, 120, 120, 5, 5, 1, 1, 1, 1, 2},
  };
  for (const ConvCase &c : cases) conv(c, kU8);
  for (const ConvCase &c : {cases[6], cases[10]}) conv(c, kU8, true);
  for (const ConvCase &c : cases) conv(c, kU16);
  const auto binary = [&](const char *name, std::uint32_t type, std::int64_t count) {
    registry.bench(std::string("binary_int add ") + name, [=](const Isa &) {
      BinaryInt p;
      p.qa = some_quant(type, 0.02f), p.qb = some_quant(type, 0.013f), p.qy = some_quant(type, 0.03f);
      p.lo = low_of(type), p.hi = high_of(type);
      p.dims[0] = count, p.a[0] = p.b[0] = 1;
      const std::size_t bytes = static_cast<std::size_t>(count) * width_of(type);
      return Registry::Prepared{Kernel::BinaryInt, params_of(p), {{Bytes(bytes)}, {Bytes(bytes)}, {Bytes(bytes), true}}, {0, 3.0 * static_cast<double>(bytes)}};
    });
  };
  binary("u8 56x56x24", kU8, 56 * 56 * 24);
  binary("u16 56x56x24", kU16, 56 * 56 * 24);
  binary("u8 8", kU8, 8);
  registry.bench("lookup8 65536", [](const Isa &) {
    Random random(3);
    return Registry::Prepared{Kernel::Lookup8, params_of(Lookup8{65536}), {{random_ints(random, kU8, 65536)}, {random_ints(random, kU8, 256)}, {Bytes(65536), true}}, {0, 131072}};
  });
  registry.bench("pool_int max 112x112x64 3x3 s2", [](const Isa &) {
    PoolInt p;
    p.window = {1, 112, 112, 56, 56, 3, 3, 2, 2, 1, 1, 1, 1};
    p.c = p.x_stride = p.y_stride = 64;
    p.pad_bottom = p.pad_right = 1;
    p.x = p.y = some_quant(kU8, 0.02f);
    return Registry::Prepared{Kernel::PoolInt, params_of(p), {{Bytes(112 * 112 * 64)}, {Bytes(56 * 56 * 64), true}}, {0, 112 * 112 * 64 + 56 * 56 * 64.0}};
  });
  registry.bench("mean_int 49x1280", [](const Isa &) {
    MeanInt p{1, 49, 1280, some_quant(kU8, 0.02f), some_quant(kU8, 0.02f)};
    return Registry::Prepared{Kernel::MeanInt, params_of(p), {{Bytes(49 * 1280)}, {Bytes(1280), true}}, {0, 50 * 1280.0}};
  });
  const auto conversions = [&](std::uint32_t type) {
    const std::string name = std::string(type == kU8 ? "u8" : "u16") + " 224x224x3";
    constexpr std::int64_t kCount = 224 * 224 * 3;
    const std::size_t bytes = static_cast<std::size_t>(kCount) * width_of(type);
    registry.bench("quantize " + name, [=](const Isa &) {
      return Registry::Prepared{Kernel::Quantize, params_of(Quantize{kCount, some_quant(type, 0.02f)}), {{Bytes(kCount * 4)}, {Bytes(bytes), true}}, {0, kCount * 4.0 + double(bytes)}};
    });
    registry.bench("dequantize " + name, [=](const Isa &) {
      return Registry::Prepared{Kernel::Dequantize, params_of(Dequantize{kCount, some_quant(type, 0.02f)}), {{Bytes(bytes)}, {Bytes(kCount * 4), true}}, {0, kCount * 4.0 + double(bytes)}};
    });
    registry.bench("requantize " + name, [=](const Isa &) {
      return Registry::Prepared{Kernel::Requantize, params_of(Requantize{kCount, some_quant(type, 0.02f), some_quant(type, 0.03f), low_of(type), high_of(type)}), {{Bytes(bytes)}, {Bytes(bytes), true}},
                                {0, 2.0 * double(bytes)}};
    });
  };
  conversions(kU8);
  conversions(kU16);
}

}  // namespace

void register_int(Registry &registry) {
  register_conv(registry);
  register_binary(registry);
  register_pool(registry);
  register_conversions(registry);
  register_benches(registry);
}

}  // namespace quarry::kernel_test
