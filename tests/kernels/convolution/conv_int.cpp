// SPDX-License-Identifier: Apache-2.0
// Integer convolutions. One quantum from cpu-reference, and that only next to ties (few elements; see kOffLimit).
#include <functional>

#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/conv_int_shape.h"
#include "tests/kernels/quantization.h"

namespace quarry::kernel_test {

namespace {

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
  w.n = c.n, w.ih = c.h, w.iw = c.w, w.kh = c.kh, w.kw = c.kw, w.sh = c.sh, w.sw = c.sw, w.dh = c.dh, w.dw = c.dw,
  w.pad_top = w.pad_left = c.pad;
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
struct DoNotFit : std::runtime_error {
  using runtime_error::runtime_error;
};
// Weights of 17 bits are u16 with this zero point.
constexpr std::int32_t kZeroOf17 = 9000;
ConvData conv_data(const Isa &isa, const ConvInt &p, Random &random, const std::function<std::int32_t()> &weight = {}) {
  ConvData d;
  const Needs needs = [&] {
    Needs n;
    if (const Status status = check_ConvInt(&p, isa, n); !status.ok())
      throw std::runtime_error(std::string(status.message()));
    return n;
  }();
  const std::int64_t ic = p.ic / p.groups, taps = p.window.kh * p.window.kw;
  const auto high = static_cast<std::int32_t>((1 << (p.w_bits - 1)) - 1);
  d.weights.resize(static_cast<std::size_t>(p.oc * ic * taps));
  const std::int32_t low = p.w_bits == 17 ? -kZeroOf17 : p.w_bits == 16 ? -high : -high - 1;
  for (std::int32_t &w : d.weights)
    w = weight ? weight() : static_cast<std::int32_t>(random.integer(low, p.w_bits == 17 ? 65535 - kZeroOf17 : high));
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
  if (!pack_conv_int(p, isa, view, d.bias.data(), packed.data(), bias.data())) throw DoNotFit("weights do not fit");
  std::memcpy(multipliers.data(), multiplier.data(), multiplier.size() * sizeof(float));
  d.operands = {{random_ints(random, p.x.dtype, needs.operand_bytes[0] / width_of(p.x.dtype))},
                {std::move(packed)},
                {std::move(bias)},
                {std::move(multipliers)}};
  if (p.has_residual)
    d.operands.push_back({random_ints(random, p.r.dtype, needs.operand_bytes[4] / width_of(p.r.dtype))});
  d.operands.push_back(
      {random_ints(random, p.y.dtype, needs.operand_bytes[needs.operand_count - 1] / width_of(p.y.dtype)), true});
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
  const std::int64_t bottom = (w.oh - 1) * w.sh + (w.kh - 1) * w.dh + 1 - w.pad_top - w.ih,
                     right = (w.ow - 1) * w.sw + (w.kw - 1) * w.dw + 1 - w.pad_left - w.iw;
  node.set("pads", Vector<std::int64_t>{w.pad_top, w.pad_left, std::max<std::int64_t>(bottom, 0),
                                        std::max<std::int64_t>(right, 0)});
  const Tensor x{static_cast<DType>(p.x.dtype),
                 {w.n, p.ic, w.ih, w.iw},
                 to_nchw(
                     [&] {
                       Bytes b = d.operands[0].contents;
                       b.resize(static_cast<std::size_t>(w.n * w.ih * w.iw * p.x_stride) * width_of(p.x.dtype));
                       return b;
                     }(),
                     w.n, w.ih * w.iw, p.ic, p.x_stride, width_of(p.x.dtype)),
                 quant_of(p.x)};
  // Weights of 9 bits are u8 with a zero point in the model; here i16 stands for all that i8 does not hold.
  const std::int32_t weight_zero = p.w_bits == 17 ? kZeroOf17 : 0;
  Tensor weights{p.w_bits == 8    ? DType::I8
                 : p.w_bits == 17 ? DType::U16
                                  : DType::I16,
                 {p.oc, ic, w.kh, w.kw},
                 {},
                 qir::Quantization{}};
  weights.data.resize(d.weights.size() * (p.w_bits == 8 ? 1 : 2));
  for (std::size_t i = 0; i < d.weights.size(); ++i)
    set(weights.data, p.w_bits == 8 ? kI8 : kI16, i, d.weights[i] + weight_zero);
  for (const float scale : d.scales)
    weights.quant->scales.push_back(scale), weights.quant->zero_points.push_back(weight_zero);
  const Tensor bias{DType::I32, {p.oc}, bytes_of(d.bias), {}};
  const Quant &out = p.has_residual ? p.mid : p.y;
  std::vector<reference::OutputType> types{{static_cast<DType>(out.dtype), quant_of(out)}};
  Tensor result = reference(node, {x, weights, bias}, &types)[0];
  const auto clip = [](Bytes &bytes, std::uint32_t dtype, std::int32_t lo, std::int32_t hi) {
    for (std::size_t i = 0; i < bytes.size() / width_of(dtype); ++i)
      set(bytes, dtype, i, std::clamp(get(bytes, dtype, i), lo, hi));
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
    const Tensor other{static_cast<DType>(p.r.dtype),
                       {w.n, p.oc, w.oh, w.ow},
                       to_nchw(r, w.n, w.oh * w.ow, p.oc, p.r_stride, width_of(p.r.dtype)),
                       quant_of(p.r)};
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
  const std::string what = std::string(c.name) + " x " + std::to_string(types.x) + " y " + std::to_string(types.y) +
                           " w_bits " + std::to_string(types.w_bits) + (types.residual ? " residual" : "") + " slack " +
                           std::to_string(slack);
  std::vector<Bytes> found;
  try {
    found = run(isa, Kernel::ConvInt, &p, d.operands);
  } catch (const std::exception &error) {
    throw std::runtime_error(what + ": " + error.what());
  }
  // With a residual the quotient of scales is rounded too; with 16 bits a quantum is so small that the product's
  // rounding shows more often.
  expect_quanta(what, found[0], conv_expected(p, d), p.y.dtype,
                types.y >= kU16  ? 0.05
                : types.residual ? 0.01
                                 : kOffLimit);
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
    {"3x3 of 7", 2, 6, 8, 7, 65, 1, 3, 3, 1, 1, 1, 1, 1},
    {"3x3 of 22", 1, 6, 8, 22, 12, 1, 3, 3, 2, 1, 1, 1, 1},
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
    {"dw 3x3", 1, 9, 10, 32, 32, 32, 3, 3, 1, 1, 1, 1, 1},
    {"dw 3x3 odd", 2, 7, 7, 13, 13, 13, 3, 3, 1, 1, 1, 1, 1},
    {"dw 3x3 step 2", 1, 11, 12, 40, 40, 40, 3, 3, 2, 2, 1, 1, 1},
    {"dw 5x5", 1, 8, 9, 24, 24, 24, 5, 5, 1, 1, 1, 1, 2},
    {"dw 5x5 step 2", 1, 10, 9, 19, 19, 19, 5, 5, 2, 2, 1, 1, 2},
    {"dw 3x3 dilated", 1, 9, 9, 8, 8, 8, 3, 3, 1, 1, 2, 2, 2},
    {"dw 7x7", 1, 9, 8, 11, 11, 11, 7, 7, 1, 1, 1, 1, 3},
    {"dw 2x4", 1, 6, 7, 5, 5, 5, 2, 4, 1, 3, 1, 1, 1},
    {"dw 1x1", 1, 6, 7, 5, 5, 5, 1, 1, 1, 1, 1, 1, 0},
    {"dw wide", 1, 3, 300, 9, 9, 9, 3, 3, 1, 1, 1, 1, 1},
    {"dw far border", 1, 2, 2, 16, 16, 16, 5, 5, 1, 1, 1, 1, 4},
    {"dw many", 1, 14, 14, 200, 200, 200, 3, 3, 1, 1, 1, 1, 1},
    {"dw 3x3 no border", 1, 9, 10, 16, 16, 16, 3, 3, 1, 1, 1, 1, 0},
    {"dw 3x3 of 96", 2, 5, 7, 96, 96, 96, 3, 3, 1, 1, 1, 1, 1},
    {"dw 3x3 of 144, step 2", 1, 9, 7, 144, 144, 144, 3, 3, 2, 2, 1, 1, 1},
    {"dw 3x3, steps 2 and 1", 1, 9, 5, 30, 30, 30, 3, 3, 2, 1, 1, 1, 0},
    {"dw 3x3, one row", 1, 1, 6, 20, 20, 20, 3, 3, 1, 1, 1, 1, 1},
    {"dw tall", 1, 40, 3, 8, 8, 8, 3, 3, 2, 1, 1, 1, 1},
    {"dw 5x5 of 70", 1, 8, 37, 70, 70, 70, 5, 5, 1, 1, 1, 1, 2},
    {"dw 5x5 of 64, step 2", 2, 9, 41, 64, 64, 64, 5, 5, 2, 2, 1, 1, 2},
    {"dw 7x7 of 50", 1, 9, 23, 50, 50, 50, 7, 7, 1, 1, 1, 1, 3},
    {"dw 7x7 of 130, steps 1 and 2", 1, 8, 39, 130, 130, 130, 7, 7, 1, 2, 1, 1, 3},
    {"dw 3x3 of 64 dilated", 1, 11, 52, 64, 64, 64, 3, 3, 1, 1, 2, 3, 3},
    {"dw 3x3 of 40 dilated, few columns", 1, 9, 9, 40, 40, 40, 3, 3, 1, 1, 4, 5, 5},
    {"dw 5x5 of 48 dilated, step 2", 1, 12, 13, 48, 48, 48, 5, 5, 2, 1, 2, 2, 4},
    {"dw 8x3 of 40", 1, 12, 19, 40, 40, 40, 8, 3, 1, 1, 1, 1, 2},
    {"dw 4x5 of 36, far border", 1, 2, 3, 36, 36, 36, 4, 5, 1, 1, 1, 1, 4},
};
// Weights as byte pairs: those that pair as they lie, those that need other partners, some within the 16 bytes and some
// beyond, and those that find none.
void test_byte_pairs(const Isa &isa) {
  if (!isa.byte_pairs) return;
  const ConvCase cases[] = {
      {"1x1 in place", 1, 7, 9, 64, 40, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 of many", 1, 13, 12, 320, 72, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 odd", 2, 5, 3, 111, 33, 1, 1, 1, 1, 1, 1, 1, 0},
      {"3x3 step 2", 1, 13, 12, 27, 50, 1, 3, 3, 2, 2, 1, 1, 1},
      {"gemv", 1, 1, 1, 300, 77, 1, 1, 1, 1, 1, 1, 1, 0},
      {"one channel out", 1, 6, 5, 48, 1, 1, 1, 1, 1, 1, 1, 1, 0},
      {"1x1 of 24", 1, 7, 9, 24, 40, 1, 1, 1, 1, 1, 1, 1, 0},
  };
  int as_they_lie = 0, shuffled = 0, with_zero = 0, with_another = 0;
  for (const ConvCase &c : cases)
    for (const Types &types :
         {Types{kU8, kU8, 8, false}, Types{kI8, kI8, 8, false}, Types{kU8, kU16, 8, false}, Types{kI8, kU8, 8, true}})
      for (const IntForm form : {IntForm::BytePairs1, IntForm::BytePairs2})
        for (const double heavy : {0.0, 0.004, 0.03})
          for (const bool most : {false, true}) {
            ConvInt p = conv_params(c, types, most ? 3 : 0);
            p.form = form;
            Random random(static_cast<std::uint64_t>(heavy * 1000) + static_cast<std::uint64_t>(c.ic));
            const auto weight = [&] {
              return static_cast<std::int32_t>(
                  random.real(0, 1) < heavy
                      ? (random.integer(0, 1) ? random.integer(90, 127) : random.integer(-128, -90))
                      : random.integer(-64, 64));
            };
            ConvData d;
            try {
              d = conv_data(isa, p, random, weight);
            } catch (const DoNotFit &) {
              if (heavy < 0.01) throw;
              continue;
            }
            if (most)  // sums of pairs as large as they come
              for (std::size_t i = 0; i < d.operands[0].contents.size() / width_of(p.x.dtype); ++i)
                set(d.operands[0].contents, p.x.dtype, i, i % 7 == 0 ? low_of(p.x.dtype) : high_of(p.x.dtype));
            const std::string what = std::string("byte pairs, ") + c.name + " x " + std::to_string(types.x) + " y " +
                                     std::to_string(types.y) + " form " + std::to_string(static_cast<int>(form)) +
                                     " heavy " + std::to_string(heavy) + (most ? " most" : "");
            expect_quanta(what, run(isa, Kernel::ConvInt, &p, d.operands)[0], conv_expected(p, d), p.y.dtype,
                          types.y >= kU16 ? 0.05 : 0.02);
            const ConvIntShape s =
                conv_int_shape(p, static_cast<std::int32_t>(isa.f32_lanes), static_cast<std::int32_t>(isa.f32_panel),
                               static_cast<std::int32_t>(isa.int_group));
            for (std::int64_t at = 0; at < s.group_weights; at += s.pair_group_bytes) {
              BytePairHeader header;
              std::memcpy(&header, d.operands[1].contents.data() + at, sizeof header);
              ++(header.shuffled ? shuffled : as_they_lie);
              if (header.more) ++(header.bytes_more[1] == 0xffff ? with_zero : with_another);
            }
          }
  if (!as_they_lie || !shuffled || !with_zero || !with_another)
    throw std::runtime_error("not every kind of group was met: " + std::to_string(as_they_lie) + " " +
                             std::to_string(shuffled) + " " + std::to_string(with_zero) + " " +
                             std::to_string(with_another));
  // Weights that cannot be paired are refused, and so are sums that do not fit.
  ConvInt p = conv_params(cases[0], {kU8, kU8, 8, false}, 0);
  p.form = IntForm::BytePairs2;
  Random random(1);
  bool refused = false;
  try {
    conv_data(isa, p, random, [] { return 127; });
  } catch (const DoNotFit &) {
    refused = true;
  }
  if (!refused) throw std::runtime_error("pairs of 127 and 127 were taken");
  ConvData d = conv_data(isa, p, random, [] { return 1; });
  d.bias[3] = 0x7fffffff;
  const FilterView<std::int32_t> view{d.weights.data(), p.ic, 1, 1, 1};
  if (pack_conv_int(p, isa, view, d.bias.data(), d.operands[1].contents.data(), d.operands[2].contents.data()))
    throw std::runtime_error("a sum beyond 32 bits was taken");
  p.x.dtype = kU16;
  Needs needs;
  if (check_ConvInt(&p, isa, needs).ok()) throw std::runtime_error("took pairs of bytes of u16");
}

constexpr Types kTypes[] = {{kU8, kU8, 8, false},   {kI8, kI8, 8, false},   {kU8, kU8, 9, false},
                            {kU8, kU16, 8, false},  {kU16, kU16, 8, false}, {kI16, kI16, 8, false},
                            {kU16, kU16, 9, false}, {kU16, kU8, 16, false}, {kU16, kU16, 17, true},
                            {kI16, kI8, 13, false}, {kU8, kU8, 17, false},  {kU8, kI8, 8, true},
                            {kI8, kU8, 8, true},    {kU16, kU16, 8, true}};

// Sums as large as they come: nothing saturates before the end.
void test_conv_int_extremes(const Isa &isa) {
  for (const Types &types : kTypes)
    for (const int kind : {0, 1, 2})
      for (const int sign : {1, -1}) {
        const ConvCase c = kind == 0   ? ConvCase{"extreme dw", 1, 6, 6, 20, 20, 20, 5, 5, 1, 1, 1, 1, 0}
                           : kind == 1 ? ConvCase{"extreme", 1, 6, 6, 150, 20, 1, 3, 3, 1, 1, 1, 1, 0}
                                       : ConvCase{"extreme winograd", 1, 14, 14, 1024, 20, 1, 3, 3, 1, 1, 1, 1, 0};
        if (types.residual || (types.w_bits == 17 && kind == 0)) continue;
        ConvInt p = conv_params(c, types, 0);
        p.x.zero = 0;
        Random random(3);
        ConvData d = conv_data(isa, p, random);
        const std::int32_t high = (1 << (p.w_bits - 1)) - 1;
        for (std::size_t i = 0; i < d.weights.size(); ++i)
          d.weights[i] = p.w_bits == 17   ? (sign > 0 ? 65535 - kZeroOf17 : -kZeroOf17)
                         : sign > 0       ? high
                         : p.w_bits == 16 ? -high
                                          : -high - 1;
        const std::size_t count = d.operands[0].contents.size() / width_of(p.x.dtype);
        for (std::size_t i = 0; i < count; ++i)
          set(d.operands[0].contents, p.x.dtype, i,
              sign > 0                                ? high_of(p.x.dtype)
              : p.x.dtype == kI8 || p.x.dtype == kI16 ? low_of(p.x.dtype)
                                                      : high_of(p.x.dtype));
        // So scaled that the sum lies within y.
        const std::int64_t k = std::int64_t{c.kh} * c.kw * c.ic / c.groups;
        for (std::size_t i = 0; i < d.scales.size(); ++i) {
          d.scales[i] =
              0.4f * static_cast<float>(high_of(p.y.dtype)) * p.y.scale /
              (static_cast<float>(k) * p.x.scale * static_cast<float>(high_of(p.x.dtype)) * static_cast<float>(high));
          reinterpret_cast<float *>(d.operands[3].contents.data())[i] = p.x.scale * d.scales[i] / p.y.scale;
          d.bias[i] = 0;
        }
        const FilterView<std::int32_t> view{d.weights.data(), k, std::int64_t{c.kh} * c.kw, c.kw, 1};
        if (!pack_conv_int(p, isa, view, d.bias.data(), d.operands[1].contents.data(), d.operands[2].contents.data()))
          throw std::runtime_error("weights do not fit");
        expect_quanta(std::string(c.name) + " x " + std::to_string(types.x) + " w_bits " + std::to_string(types.w_bits),
                      run(isa, Kernel::ConvInt, &p, d.operands)[0], conv_expected(p, d), p.y.dtype, 1);
      }
}

void test_huge_bias(const Isa &isa) {
  // The sum with such a bias does not fit i32.
  ConvInt p = conv_params(kDense[0], kTypes[0], 0);
  Random random(7);
  ConvData d = conv_data(isa, p, random);
  for (std::size_t i = 0; i < d.bias.size(); ++i) d.bias[i] = i % 2 ? 0x7fffffff : i % 4 ? -0x7fffffff : 0;
  const FilterView<std::int32_t> view{d.weights.data(), p.ic, 1, 1, 1};
  if (!pack_conv_int(p, isa, view, d.bias.data(), d.operands[1].contents.data(), d.operands[2].contents.data()))
    throw std::runtime_error("weights do not fit");
  expect_quanta("huge bias", run(isa, Kernel::ConvInt, &p, d.operands)[0], conv_expected(p, d), p.y.dtype);
}

void test_packing_refuses(const Isa &isa) {
  ConvInt p = conv_params(kDense[0], kTypes[0], 0);
  Random random(5);
  ConvData d = conv_data(isa, p, random);
  const FilterView<std::int32_t> view{d.weights.data(), p.ic, 1, 1, 1};
  const auto packs = [&] {
    return pack_conv_int(p, isa, view, d.bias.data(), d.operands[1].contents.data(), d.operands[2].contents.data());
  };
  d.weights[3] = 128;
  if (packs()) throw std::runtime_error("128 went into 8 bits");
  d.weights[3] = 0;
  if (!packs()) throw std::runtime_error("refused what fits");
}

void test_conv_int_check(const Isa &isa) {
  const ConvInt good = conv_params(kDense[0], {kU8, kI8, 8, true}, 0);
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
  refused("18 bits", [](ConvInt &p) { p.w_bits = 18; });
  refused("17 bits of depthwise weights", [](ConvInt &p) { p.w_bits = 17, p.groups = p.oc = p.ic; });
  refused("a scale of NaN", [](ConvInt &p) { p.x.scale = NAN; });
  refused("a scale of 0", [](ConvInt &p) { p.r.scale = 0; });
  refused("a huge window", [](ConvInt &p) { p.window.kh = p.window.kw = 1 << 16; });
  refused("residual 2", [](ConvInt &p) { p.has_residual = 2; });
}

void register_conv(Registry &registry) {
  for (const auto &cases : {std::span<const ConvCase>(kDense), std::span<const ConvCase>(kDepthwise)})
    for (const ConvCase &c : cases)
      registry.test(std::string("conv_int ") + c.name, [c](const Isa &isa) {
        for (const Types &types : kTypes) {
          if (types.w_bits == 17 && c.groups > 1 && c.groups == c.ic && c.groups == c.oc) continue;  // refused
          test_conv(isa, c, types, 0);
          test_conv(isa, c, types, 5);
        }
      });
  registry.test("conv_int extremes", test_conv_int_extremes);
  registry.test("conv_int byte pairs", [](const Isa &isa) { test_byte_pairs(isa); });
  registry.test("conv_int huge bias", test_huge_bias);
  registry.test("conv_int packing refuses", test_packing_refuses);
  registry.test("conv_int check", test_conv_int_check);
}

void register_convolution_int_benches(Registry &registry) {
  const auto conv = [&](const ConvCase &c, std::uint32_t type, bool residual = false) {
    const std::string name =
        std::string("conv_int ") + (type == kU8 ? "u8 " : "u16 ") + c.name + (residual ? " +r" : "");
    registry.bench(name, [c, type, residual](const Isa &isa) {
      ConvInt p = conv_params(c, {type, type, 8, residual}, 0);
      Random random(1);
      // As in a network: many small weights, few large ones; packed as a plan would have them.
      const auto weight = [&] {
        float sum = 0;
        for (int i = 0; i < 12; ++i) sum += random.real(-0.5f, 0.5f);
        return std::clamp(static_cast<std::int32_t>(sum * 32), -128, 127);
      };
      ConvData d;
      for (const IntForm form : {IntForm::BytePairs2, IntForm::BytePairs1, IntForm::Plain}) {
        p.form = form;
        if (form != IntForm::Plain && !may_pair_bytes(p, isa)) continue;
        try {
          d = conv_data(isa, p, random, weight);
          break;
        } catch (const DoNotFit &) {
        }
      }
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
}

}  // namespace

void register_conv_int(Registry &registry) {
  register_conv(registry);
  register_convolution_int_benches(registry);
}

}  // namespace quarry::kernel_test
