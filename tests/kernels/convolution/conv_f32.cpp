// SPDX-License-Identifier: Apache-2.0
// Convolutions; matrix multiplications have the same bounds. Bounds: a sum of K products in f32 may be off by (4 +
// sqrt(K)) * 2^-24 times the sum of the products' magnitudes (this is what independent rounding errors come to, with
// room); Winograd by 1e-5 times the largest such sum of the image. What an activation makes of that interval, and 4e-6
// of the value and (after an activation that is more than bounds) 1e-7, may be found.
#include "tests/kernels/operands.h"
#include "tests/kernels/convolution/conv_f32.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "base/float16.h"
#include "kernels/cpu/shapes/conv_shape.h"

namespace quarry::kernel_test {

using namespace kernels;

namespace {

Tensor tensor(std::vector<std::int64_t> shape, const std::vector<float> &values) {
  return {DType::F32, std::move(shape), bytes_of(values), {}};
}

std::string describe(const ConvCase &c) {
  const Window &w = c.p.window;
  char text[240];
  std::snprintf(text, sizeof text,
                "n %d ih %d iw %d oh %d ow %d k %dx%d s %dx%d d %dx%d pad %d,%d ic %d oc %d groups %d strides %d %d %d "
                "residual %d act %d bias %d algorithm %d weights %d",
                w.n, w.ih, w.iw, w.oh, w.ow, w.kh, w.kw, w.sh, w.sw, w.dh, w.dw, w.pad_top, w.pad_left, c.p.ic, c.p.oc,
                c.p.groups, c.p.x_stride, c.p.y_stride, c.p.r_stride, static_cast<int>(c.p.residual),
                static_cast<int>(c.p.act.kind), c.p.has_bias, static_cast<int>(c.p.algorithm),
                static_cast<int>(c.p.weights));
  return text;
}

// Channels-last with a stride to dense NCHW.
std::vector<float> to_nchw(const std::vector<float> &from, std::int64_t n, std::int64_t hw, std::int64_t c,
                           std::int64_t stride) {
  std::vector<float> to(static_cast<std::size_t>(n * c * hw));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t p = 0; p < hw; ++p)
      for (std::int64_t j = 0; j < c; ++j)
        to[static_cast<std::size_t>((i * c + j) * hw + p)] = from[static_cast<std::size_t>((i * hw + p) * stride + j)];
  return to;
}

std::vector<float> from_nchw(const std::vector<float> &from, std::int64_t n, std::int64_t hw, std::int64_t c) {
  std::vector<float> to(from.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t p = 0; p < hw; ++p)
      for (std::int64_t j = 0; j < c; ++j)
        to[static_cast<std::size_t>((i * hw + p) * c + j)] = from[static_cast<std::size_t>((i * c + j) * hw + p)];
  return to;
}

std::vector<float> magnitudes(std::vector<float> values) {
  for (float &value : values) value = std::fabs(value);
  return values;
}

// Outputs in pixel-major order, channels adjacent: the sum, without bias.
std::vector<float> reference_conv(ConvF32 p, const std::vector<float> &x, const std::vector<float> &w) {
  if (p.x_stride == kPlanes) p.x_stride = p.ic;
  const Window &win = p.window;
  qir::Node node;
  node.op = qir::Op::Conv;
  node.name = "conv";
  node.inputs = {0, 1};
  node.outputs = {2};
  const std::int64_t bottom =
      std::int64_t{win.oh - 1} * win.sh + std::int64_t{win.kh - 1} * win.dh + 1 - win.pad_top - win.ih;
  const std::int64_t right =
      std::int64_t{win.ow - 1} * win.sw + std::int64_t{win.kw - 1} * win.dw + 1 - win.pad_left - win.iw;
  node.set("kernel_shape", Vector<std::int64_t>{win.kh, win.kw});
  node.set("strides", Vector<std::int64_t>{win.sh, win.sw});
  node.set("dilations", Vector<std::int64_t>{win.dh, win.dw});
  node.set("pads", Vector<std::int64_t>{win.pad_top, win.pad_left, std::max<std::int64_t>(0, bottom),
                                        std::max<std::int64_t>(0, right)});
  node.set("group", std::int64_t{p.groups});
  const auto results = reference(
      node, {tensor({win.n, p.ic, win.ih, win.iw}, to_nchw(x, win.n, std::int64_t{win.ih} * win.iw, p.ic, p.x_stride)),
             tensor({p.oc, p.ic / p.groups, win.kh, win.kw}, w)});
  const std::vector<float> nchw = values_of<float>(results.at(0).data);
  const std::int64_t hw = std::int64_t{win.oh} * win.ow;
  if (nchw.size() != static_cast<std::size_t>(win.n * hw * p.oc))
    throw std::runtime_error("the case's output dimensions are not what Conv makes of it");
  std::vector<float> y(nchw.size());
  for (std::int64_t i = 0; i < win.n; ++i)
    for (std::int64_t j = 0; j < p.oc; ++j)
      for (std::int64_t pixel = 0; pixel < hw; ++pixel)
        y[static_cast<std::size_t>((i * hw + pixel) * p.oc + j)] =
            nchw[static_cast<std::size_t>((i * p.oc + j) * hw + pixel)];
  return y;
}

}  // namespace

double apply(const Activation &act, double x) {
  const double a = static_cast<double>(act.a), b = static_cast<double>(act.b);
  const auto clip = [](double v, double low, double high) {
    return std::isnan(v) ? v : std::min(std::max(v, low), high);
  };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  switch (act.kind) {
    case Act::Clip: return clip(x, a, b);
    case Act::LeakyRelu: return x < 0 ? a * x : x;
    case Act::HardSigmoid: return clip(a * x + b, 0, 1);
    case Act::HardSwish: return x * clip(x / 6 + 0.5, 0, 1);
    case Act::Sigmoid: return sigmoid(x);
    case Act::Silu: return x * sigmoid(a * x);
    case Act::Tanh: return std::tanh(x);
    case Act::Gelu: return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case Act::GeluTanh: return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Act::Elu: return x < 0 ? a * std::expm1(x) : x;
    case Act::Softplus: return std::log1p(std::exp(x));
    case Act::Mish: return x * std::tanh(std::log1p(std::exp(x)));
    case Act::Erf: return std::erf(x);
    case Act::Exp: return std::exp(x);
    case Act::Log: return std::log(x);
    case Act::Sqrt: return std::sqrt(x);
    case Act::Rsqrt: return 1 / std::sqrt(x);
    case Act::Reciprocal: return 1 / x;
    case Act::Abs: return std::fabs(x);
    case Act::Neg: return -x;
    case Act::Floor: return std::floor(x);
    case Act::Ceil: return std::ceil(x);
    case Act::Round: return std::nearbyint(x);
    case Act::Linear: return a * x + b;
    case Act::Square: return x * x;
    case Act::None:
    case Act::Count: break;
  }
  return x;
}

void expect_result(const std::string &what, float found, double sum, double error, Residual residual, double r,
                   const Activation &act) {
  double low = kInf, high = -kInf;
  bool nan = false, number = false;
  for (const double at : {sum - error, sum, sum + error}) {
    double v = apply(act, residual == Residual::BeforeAct ? at + r : at);
    if (residual == Residual::AfterAct) v += r;
    if (std::isnan(v)) nan = true;
    else number = true, low = std::min(low, v), high = std::max(high, v);
  }
  // The sum may be zero, next to which functions have their poles.
  if (act.kind == Act::Reciprocal && low < 0 && high > 0) low = -kInf, high = kInf;
  if (nan && number && act.kind == Act::Log) low = -kInf;
  if (nan && number && act.kind == Act::Sqrt) low = std::min(low, residual == Residual::AfterAct ? r : 0);
  if (nan && number && act.kind == Act::Rsqrt) high = kInf;
  const double slack = 4e-6 * std::max(std::fabs(low), std::fabs(high)) +
                       (residual == Residual::AfterAct ? 4e-6 * std::fabs(r) : 0) +
                       (act.kind > Act::Clip ? 1e-7 : 1e-30);
  const double value = static_cast<double>(found);
  const bool good = std::isnan(value)
                        ? nan
                        : number && (value == low || value == high || (value >= low - slack && value <= high + slack));
  if (good) return;
  char text[160];
  std::snprintf(text, sizeof text, ": found %.9g, expected %.9g to %.9g%s", value, low, high, nan ? " or NaN" : "");
  throw std::runtime_error(what + text);
}

Registry::Prepared prepare(const Isa &isa, const ConvCase &c, Random &random, ConvData *data) {
  const ConvF32 &p = c.p;
  const Window &w = p.window;
  const auto x_pixels = static_cast<std::size_t>(w.n) * static_cast<std::size_t>(w.ih) * static_cast<std::size_t>(w.iw);
  const auto y_pixels = static_cast<std::size_t>(w.n) * static_cast<std::size_t>(w.oh) * static_cast<std::size_t>(w.ow);
  const bool depthwise = c.depthwise;
  const std::int64_t group_inputs = p.ic / p.groups, taps = std::int64_t{w.kh} * w.kw;
  const bool planes = p.x_stride == kPlanes;
  data->x = random.reals(x_pixels * static_cast<std::size_t>(planes ? p.ic : p.x_stride));
  const float spread = static_cast<float>(std::sqrt(3.0 / static_cast<double>(group_inputs * taps)));
  data->w = random.reals(static_cast<std::size_t>(p.oc * group_inputs * taps), -spread, spread);
  if (!c.w.empty()) data->w = c.w;
  // What the weights are stored as holds them exactly.
  if (p.weights == WeightType::F16)
    for (float &v : data->w) v = f16_to_f32(f32_to_f16(v));
  if (p.weights == WeightType::BF16)
    for (float &v : data->w) v = bf16_to_f32(f32_to_bf16(v));
  data->bias = random.reals(static_cast<std::size_t>(p.oc));
  data->r = random.reals(y_pixels * static_cast<std::size_t>(std::max(p.r_stride, 1)));
  for (const auto &[index, value] : c.special_x) data->x[index % data->x.size()] = value;
  DepthwiseF32 d;
  d.window = w, d.c = p.ic, d.x_stride = p.x_stride, d.y_stride = p.y_stride, d.r_stride = p.r_stride,
  d.residual = p.residual, d.act = p.act, d.has_bias = p.has_bias;
  if (planes) d.y_stride = d.r_stride = kPlanes;
  ConvF32 asked = p;
  const bool both = planes && (depthwise || c.planes_out);
  if (both) asked.y_stride = asked.r_stride = kPlanes;
  Registry::Prepared prepared{
      depthwise ? Kernel::DepthwiseF32 : Kernel::ConvF32, depthwise ? params_of(d) : params_of(asked), {}, {}};
  Needs needs;
  if (const Status status = kernel_row(prepared.kernel).check(prepared.params.data(), isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  const FilterView<float> view{data->w.data(), group_inputs * taps, taps, w.kw, 1};
  Bytes packed(needs.operand_bytes[1]);
  if (depthwise) pack_depthwise_f32(d, isa, view, packed.data());
  else pack_conv_f32(asked, isa, view, packed.data());
  prepared.operands = {{bytes_of(planes ? to_nchw(data->x, w.n, std::int64_t{w.ih} * w.iw, p.ic, p.ic) : data->x)},
                       {packed}};
  if (p.has_bias) {
    Bytes bias(needs.operand_bytes[2]);
    pack_channels(data->bias.data(), p.oc, bias.data(), bias.size());
    prepared.operands.push_back({bias});
  }
  const std::int64_t y_plane = std::int64_t{w.oh} * w.ow;
  if (p.residual != Residual::None)
    prepared.operands.push_back({bytes_of(both ? to_nchw(data->r, w.n, y_plane, p.oc, p.r_stride) : data->r)});
  prepared.operands.push_back(
      {bytes_of(std::vector<float>(y_pixels * static_cast<std::size_t>(p.y_stride), -77.0f)), true});
  prepared.work.flops = 2.0 * static_cast<double>(y_pixels) * static_cast<double>(p.oc * group_inputs * taps);
  prepared.work.bytes = 4.0 * static_cast<double>(x_pixels) * p.ic + 4.0 * static_cast<double>(y_pixels) * p.oc +
                        static_cast<double>(packed.size());
  return prepared;
}

// y where r lies: the same numbers, and what stands between the pixels stays.
void check_in_place(const Isa &isa, const Registry::Prepared &prepared, const std::vector<float> &expected) {
  ConvF32 p;
  std::memcpy(&p, prepared.params.data(), sizeof p);
  Needs needs;
  if (const Status status = kernel_row(prepared.kernel).check(&p, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  std::vector<Bytes> memory;
  for (const Operand &operand : prepared.operands) memory.push_back(operand.contents);
  std::vector<std::byte *> pointers;
  for (Bytes &bytes : memory) pointers.push_back(bytes.data());
  pointers.back() = pointers[pointers.size() - 2];
  const Guarded scratch(needs.scratch_bytes, Guarded::Edge::Begin);
  std::vector<float> wanted = values_of<float>(memory[memory.size() - 2]);
  const Threads threads;
  isa.run[static_cast<std::size_t>(prepared.kernel)](
      Call{prepared.params.data(), pointers.data(), threads, scratch.data(), needs.scratch_bytes, nullptr});
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (i % static_cast<std::size_t>(p.y_stride) < static_cast<std::size_t>(p.oc)) wanted[i] = expected[i];
  expect_close("in place", values_of<float>(memory[memory.size() - 2]), wanted, 0, 0);
}

void check_conv(const Isa &isa, const ConvCase &c) {
  const ConvF32 &p = c.p;
  const Window &w = p.window;
  const std::string what = describe(c);
  Random random(static_cast<std::uint64_t>(p.ic * 7 + p.oc * 13 + w.ow));
  ConvData data;
  try {
    const Registry::Prepared prepared = prepare(isa, c, random, &data);
    std::vector<float> y = values_of<float>(run(isa, prepared.kernel, prepared.params.data(), prepared.operands).at(0));
    if ((c.depthwise || c.planes_out) && p.x_stride == kPlanes) y = from_nchw(y, w.n, std::int64_t{w.oh} * w.ow, p.oc);
    if (!c.depthwise && !c.planes_out && adds_in_place(p, isa)) check_in_place(isa, prepared, y);
    const std::vector<float> sums = reference_conv(p, data.x, data.w),
                             sizes = reference_conv(p, magnitudes(data.x), magnitudes(data.w));
    float largest = 0;
    for (const float size : sizes) largest = std::max(largest, size);
    const double terms = static_cast<double>(p.ic / p.groups) * w.kh * w.kw;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t pixel = i / static_cast<std::size_t>(p.y_stride),
                        channel = i % static_cast<std::size_t>(p.y_stride);
      if (channel >= static_cast<std::size_t>(p.oc)) {
        if (y[i] != -77.0f) throw std::runtime_error("a gap was written to");
        continue;
      }
      const std::size_t at = pixel * static_cast<std::size_t>(p.oc) + channel;
      const double bias = p.has_bias ? static_cast<double>(data.bias[channel]) : 0,
                   r = p.residual == Residual::None
                           ? 0
                           : static_cast<double>(data.r[pixel * static_cast<std::size_t>(p.r_stride) + channel]);
      const double size = static_cast<double>(sizes[at]) + std::fabs(bias) + std::fabs(r);
      const double error = is_winograd(p.algorithm)
                               ? 1e-5 * (static_cast<double>(largest) + std::fabs(bias) + std::fabs(r))
                               : (4 + std::sqrt(terms)) * 0x1p-24 * size;
      expect_result("pixel " + std::to_string(pixel) + " channel " + std::to_string(channel), y[i],
                    static_cast<double>(sums[at]) + bias, error, p.residual, r, p.act);
    }
  } catch (const std::exception &error) {
    throw std::runtime_error(what + ": " + error.what());
  }
}

ConvCase conv_case(std::int32_t size, std::int32_t ic, std::int32_t oc, std::int32_t k, std::int32_t step,
                   std::int32_t pad) {
  ConvCase c;
  Window &w = c.p.window;
  w.ih = w.iw = size;
  w.kh = w.kw = k;
  w.sh = w.sw = step;
  w.pad_top = w.pad_left = pad;
  w.oh = w.ow = (size + 2 * pad - k) / step + 1;
  c.p.ic = c.p.x_stride = ic;
  c.p.oc = c.p.y_stride = c.p.r_stride = oc;
  c.p.has_bias = 1;
  return c;
}
ConvCase gemm_case(std::int32_t m, std::int32_t k, std::int32_t n) {
  ConvCase c = conv_case(1, k, n, 1, 1, 0);
  c.p.window.iw = c.p.window.ow = m;
  return c;
}
ConvCase depthwise_case(std::int32_t size, std::int32_t channels, std::int32_t k, std::int32_t step, std::int32_t pad) {
  ConvCase c = conv_case(size, channels, channels, k, step, pad);
  c.depthwise = true;
  c.p.groups = channels;
  return c;
}

namespace {

constexpr ConvAlgorithm kAlgorithms[] = {ConvAlgorithm::Direct, ConvAlgorithm::Winograd4x4, ConvAlgorithm::Winograd2x2,
                                         ConvAlgorithm::Groups};
const char *const kAlgorithmNames[] = {"", ", Winograd", ", Winograd of 2x2", ", groups"};

ConvCase random_case(Random &random, bool depthwise, ConvAlgorithm algorithm, std::int32_t lanes) {
  const bool winograd = is_winograd(algorithm), groups = algorithm == ConvAlgorithm::Groups;
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return static_cast<std::int32_t>(random.integer(low, high));
  };
  for (;;) {
    ConvCase c;
    c.depthwise = depthwise;
    Window &w = c.p.window;
    w.n = pick(1, 2);
    w.ih = pick(1, 14), w.iw = pick(1, 19);
    w.kh = winograd ? 3 : pick(1, 5), w.kw = winograd ? 3 : pick(0, 2) ? w.kh : pick(1, 6);
    w.dh = pick(0, 3) ? 1 : pick(1, 3), w.dw = pick(0, 3) ? 1 : pick(1, 3);
    if (!winograd) w.sh = pick(1, 3), w.sw = pick(0, 1) ? w.sh : pick(1, 3);
    w.pad_top = pick(0, w.kh), w.pad_left = pick(0, w.kw);
    const std::int32_t height = w.ih + w.pad_top + pick(0, w.kh) - (w.kh - 1) * w.dh - 1,
                       width = w.iw + w.pad_left + pick(0, w.kw) - (w.kw - 1) * w.dw - 1;
    if (height < 0 || width < 0) continue;
    w.oh = height / w.sh + 1, w.ow = width / w.sw + 1;
    // Conv counts padding that no window reaches; ours follows from the output.
    const std::int32_t bottom = (w.oh - 1) * w.sh + (w.kh - 1) * w.dh + 1 - w.pad_top - w.ih,
                       right = (w.ow - 1) * w.sw + (w.kw - 1) * w.dw + 1 - w.pad_left - w.iw;
    if ((w.ih + w.pad_top + std::max(0, bottom) - (w.kh - 1) * w.dh - 1) / w.sh + 1 != w.oh ||
        (w.iw + w.pad_left + std::max(0, right) - (w.kw - 1) * w.dw - 1) / w.sw + 1 != w.ow)
      continue;
    c.p.groups = depthwise || pick(0, 3) ? 1 : pick(1, 3);
    c.p.ic = c.p.groups * pick(1, pick(0, 1) ? 5 : 40), c.p.oc = c.p.groups * pick(1, pick(0, 2) ? 40 : 140);
    if (depthwise) c.p.oc = c.p.groups = c.p.ic;
    if (groups) {
      std::int32_t each = 2;
      while (each < std::min(lanes, 16) && pick(0, 2)) each *= 2;
      c.p.groups = pick(2, 3 * lanes / each + 1), c.p.ic = c.p.oc = c.p.groups * each;
    }
    c.p.x_stride = c.p.ic + (pick(0, 1) ? 0 : pick(1, 9));
    if (!winograd && !groups && (depthwise || reads_planes(c.p)) && pick(0, 1)) c.p.x_stride = kPlanes;
    c.p.y_stride = c.p.oc + (pick(0, 1) ? 0 : pick(1, 9));
    c.p.r_stride = c.p.oc + (pick(0, 1) ? 0 : pick(1, 9));
    if (!depthwise && c.p.x_stride == kPlanes && pick(0, 1)) {
      ConvF32 planes = c.p;
      planes.weights = WeightType::F32;
      c.planes_out = writes_planes(planes, 16, 4) && writes_planes(planes, 8, 2) && writes_planes(planes, 4, 2);
    }
    if ((depthwise || c.planes_out) && c.p.x_stride == kPlanes) c.p.y_stride = c.p.r_stride = c.p.oc;
    c.p.has_bias = static_cast<std::uint32_t>(pick(0, 1));
    c.p.residual = static_cast<Residual>(pick(0, 2));
    c.p.act = {pick(0, 2) ? Act::Clip : static_cast<Act>(pick(0, static_cast<std::int64_t>(Act::Count) - 1)),
               random.real(-0.5f, 0.2f), random.real(0.3f, 1.0f), 0};
    c.p.algorithm = algorithm;
    if (!winograd && !groups && !depthwise && !c.planes_out) c.p.weights = static_cast<WeightType>(pick(0, 2));
    return c;
  }
}

void refuses(const Isa &isa, Kernel kernel, const void *params, const char *what) {
  Needs needs;
  if (kernel_row(kernel).check(params, isa, needs).ok())
    throw std::runtime_error(std::string("the check accepts ") + what);
}

void test_refusals(const Isa &isa) {
  const ConvF32 good = conv_case(9, 6, 4, 3, 1, 1).p;
  const auto refuse_conv = [&](const char *what, auto change) {
    ConvF32 p = good;
    change(p);
    refuses(isa, Kernel::ConvF32, &p, what);
  };
  refuse_conv("no input channels", [](ConvF32 &p) { p.ic = 0; });
  refuse_conv("groups that do not divide", [](ConvF32 &p) { p.groups = 4; });
  refuse_conv("no groups", [](ConvF32 &p) { p.groups = 0; });
  refuse_conv("overlapping pixels of x", [](ConvF32 &p) { p.x_stride = 5; });
  refuse_conv("overlapping pixels of y", [](ConvF32 &p) { p.y_stride = 3; });
  refuse_conv("overlapping pixels of r", [](ConvF32 &p) { p.residual = Residual::AfterAct, p.r_stride = 3; });
  refuse_conv("an unknown residual", [](ConvF32 &p) { p.residual = Residual::Count; });
  refuse_conv("an unknown activation", [](ConvF32 &p) { p.act.kind = Act::Count; });
  refuse_conv("an unknown type of weights", [](ConvF32 &p) { p.weights = WeightType::Count; });
  refuse_conv("Winograd with weights of 16 bits",
              [](ConvF32 &p) { p.algorithm = ConvAlgorithm::Winograd4x4, p.weights = WeightType::F16; });
  refuse_conv("an unknown algorithm", [](ConvF32 &p) { p.algorithm = ConvAlgorithm::Count; });
  refuse_conv("Winograd with a step", [](ConvF32 &p) { p.algorithm = ConvAlgorithm::Winograd4x4, p.window.sw = 2; });
  refuse_conv("Winograd with taps very far apart",
              [](ConvF32 &p) { p.algorithm = ConvAlgorithm::Winograd4x4, p.window.dh = 257; });
  refuse_conv("groups of three",
              [](ConvF32 &p) { p.oc = p.y_stride = 6, p.groups = 2, p.algorithm = ConvAlgorithm::Groups; });
  refuse_conv("groups of other outputs than inputs",
              [](ConvF32 &p) { p.ic = p.x_stride = 8, p.groups = 2, p.algorithm = ConvAlgorithm::Groups; });
  refuse_conv("one group", [](ConvF32 &p) { p.ic = p.x_stride = 4, p.algorithm = ConvAlgorithm::Groups; });
  refuse_conv("bias 2", [](ConvF32 &p) { p.has_bias = 2; });
  refuse_conv("an image beyond all memory", [](ConvF32 &p) { p.window.n = p.window.ih = p.window.iw = 1 << 24; });
  refuse_conv("weights beyond all memory",
              [](ConvF32 &p) { p.ic = p.x_stride = p.oc = p.y_stride = 1 << 24, p.window.kh = p.window.kw = 256; });
  MatMulF32 m;
  m.m = m.n = m.k = 4, m.a_row = m.b_row = m.y_row = 4;
  m.y_row = 3;
  refuses(isa, Kernel::MatMulF32, &m, "overlapping rows of y");
  m.y_row = 4, m.a_row = -4;
  refuses(isa, Kernel::MatMulF32, &m, "a negative stride");
  m.a_row = std::int64_t{1} << 60;
  refuses(isa, Kernel::MatMulF32, &m, "a stride beyond all memory");
}

void test_conv_planes(const Isa &isa) {
  for (const std::int32_t oc : {4, 7, 8, 13, 16})
    for (const std::int32_t step : {1, 2, 3})
      for (const std::int32_t size : {17, 64, 101}) {
        ConvCase c = conv_case(size, 1 + size % 3, oc, step == 3 ? 5 : 3, step, size == 64 ? 0 : 1);
        c.p.x_stride = kPlanes, c.p.y_stride = oc + step - 1, c.p.window.n = 2;
        c.p.act = {oc == 13 ? Act::Silu : Act::Clip, oc == 13 ? 1.0f : 0.0f, 1, 0}, c.p.has_bias = oc != 8;
        check_conv(isa, c);
      }
}

void test_conv_activations(const Isa &isa) {
  for (std::uint32_t kind = 0; kind < static_cast<std::uint32_t>(Act::Count); ++kind)
    for (const Residual residual : {Residual::None, Residual::BeforeAct, Residual::AfterAct})
      for (const ConvAlgorithm algorithm : kAlgorithms) {
        ConvCase c = conv_case(6, 5, 21, 3, 1, 1);
        c.p.act = {static_cast<Act>(kind), 0.3f, 0.6f, 0};
        c.p.residual = residual;
        c.p.algorithm = algorithm;
        if (algorithm == ConvAlgorithm::Groups)
          c.p.groups = 11, c.p.ic = c.p.x_stride = c.p.oc = c.p.y_stride = c.p.r_stride = 22;
        check_conv(isa, c);
      }
}

void test_conv_chunks(const Isa &isa) {
  for (ConvCase c : {conv_case(7, 600, 70, 3, 1, 1), conv_case(5, 1500, 40, 1, 1, 0), conv_case(40, 9, 20, 3, 1, 1),
                     conv_case(33, 40, 24, 5, 2, 2), gemm_case(1100, 20, 30), conv_case(45, 3, 70, 7, 2, 3),
                     conv_case(64, 1, 9, 3, 2, 1), conv_case(12, 4, 10, 11, 4, 2), gemm_case(13, 4000, 50)}) {
    c.p.residual = Residual::BeforeAct;
    c.p.act = {Act::Clip, 0, kInf, 0};
    for (const WeightType type : {WeightType::F32, WeightType::F16, WeightType::BF16}) {
      c.p.weights = type;
      check_conv(isa, c);
    }
  }
  ConvCase groups = conv_case(9, 64, 96, 3, 1, 1);
  groups.p.groups = 32;
  check_conv(isa, groups);
}

void test_filter_banks(const Isa &isa) {
  // One row of samples, windows of hundreds of them, and of more than a chunk holds.
  for (const auto &[samples, length, step, pad, channels] :
       {std::tuple{640, 256, 128, 0, 1}, std::tuple{700, 400, 160, 200, 1}, std::tuple{90, 65, 1, 32, 3},
        std::tuple{9000, 4096, 1000, 0, 2}, std::tuple{5200, 5000, 100, 0, 1}}) {
    ConvCase c = conv_case(samples, channels, 19, length, step, pad);
    c.p.window.ih = c.p.window.oh = c.p.window.kh = c.p.window.sh = 1, c.p.window.pad_top = 0;
    check_conv(isa, c);
  }
}

void test_conv_few_rows(const Isa &isa) {
  for (std::int32_t m = 1; m <= 14; ++m)
    for (const std::int32_t k : {1, 3, 4, 63, 1000}) {
      ConvCase c = gemm_case(m, k, m * 17 + 3);
      c.p.weights = static_cast<WeightType>((m + k) % 3);
      check_conv(isa, c);
    }
}

void test_conv_every_half(const Isa &isa) {
  for (const WeightType type : {WeightType::F16, WeightType::BF16})
    for (std::int32_t m = 1; m <= kFewRows; ++m) {
      ConvCase c = gemm_case(m, 1, 1 << 16);
      c.p.weights = type;
      for (std::uint32_t bits = 0; bits < 1 << 16; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        c.w.push_back(type == WeightType::F16 ? f16_to_f32(half) : bf16_to_f32(half));
      }
      check_conv(isa, c);
    }
}

void test_conv_specials(const Isa &isa) {
  for (ConvCase c : {conv_case(9, 10, 20, 3, 1, 1), conv_case(9, 3, 20, 3, 1, 1), gemm_case(9, 33, 20)}) {
    c.special_x = {{7, kNan}, {100, kInf}, {203, -kInf}};
    c.p.act = {Act::Clip, -0.1f, 0.2f, 0};
    check_conv(isa, c);
  }
  ConvCase c = depthwise_case(9, 10, 3, 1, 1);
  c.special_x = {{7, kNan}, {100, kInf}, {203, -kInf}};
  c.p.act = {Act::Clip, -0.1f, 0.2f, 0};
  check_conv(isa, c);
}

void test_conv_winograd(const Isa &isa) {
  for (ConvCase c : {conv_case(14, 256, 64, 3, 1, 1), conv_case(30, 64, 40, 3, 1, 1), conv_case(7, 300, 19, 3, 1, 1)})
    for (const ConvAlgorithm algorithm : {ConvAlgorithm::Winograd4x4, ConvAlgorithm::Winograd2x2}) {
      c.p.algorithm = algorithm;
      check_conv(isa, c);
    }
  // Groups whose channels fill vectors and not; phases of many tiles, of one, and of none.
  for (const auto [size, groups, step_y, step_x] : {std::array{30, 4, 1, 1}, {33, 1, 2, 3}, {9, 3, 6, 12}}) {
    ConvCase c = conv_case(size, 16 * 5 * groups, 20 * groups, 3, 1, 0);
    Window &w = c.p.window;
    w.dh = step_y, w.dw = step_x, w.pad_top = step_y, w.pad_left = step_x;
    w.oh = w.ow = size;
    c.p.groups = groups;
    for (const ConvAlgorithm algorithm : {ConvAlgorithm::Winograd4x4, ConvAlgorithm::Winograd2x2}) {
      c.p.algorithm = algorithm;
      check_conv(isa, c);
    }
  }
}

void test_conv_groups(const Isa &isa) {
  for (std::int32_t each = 2; each <= std::min(16, static_cast<std::int32_t>(isa.f32_lanes)); each *= 2)
    for (const std::int32_t step : {1, 2})
      for (const std::int32_t size : {7, 14, 15, 30})
        for (const Residual residual : {Residual::None, Residual::BeforeAct, Residual::AfterAct}) {
          ConvCase c = conv_case(size, 48, 48, 3, step, 1);
          c.p.groups = 48 / each, c.p.algorithm = ConvAlgorithm::Groups, c.p.residual = residual;
          c.p.act = size % 2 ? Activation{Act::Clip, 0, 6, 0} : Activation{};
          check_conv(isa, c);
        }
}

void test_shortest_exact(const Isa &) {
  const auto type = [](std::vector<float> values) {
    return shortest_exact(values.data(), static_cast<std::int64_t>(values.size()));
  };
  const auto demand = [](const char *what, bool good) {
    if (!good) throw std::runtime_error(what);
  };
  demand("f16: its bounds", type({0.0f, -0.0f, 65504.0f, 0x1p-24f, kInf, 1.0f + 0x1p-10f}) == WeightType::F16);
  demand("bf16: beyond f16", type({1e38f * 0, 0x1p100f, -3.0f}) == WeightType::BF16);
  demand("f32: more bits", type({1.0f, 1.0f + 0x1p-11f}) == WeightType::F32);
  demand("f32: NaN that f16 makes another of", type({1.0f, __builtin_bit_cast(float, 0x7fc01234u)}) == WeightType::F32);
}

void test_depthwise_sizes(const Isa &isa) {
  for (const std::int32_t k : {1, 2, 3, 4, 5, 7})
    for (const std::int32_t step : {1, 2})
      for (const std::int32_t size : {1, 2, 5, 7, 14, 23, 39, 75})
        if (size + k / 2 * 2 >= k) {
          ConvCase c = depthwise_case(size, 37, k, step, k / 2);
          check_conv(isa, c);
          c.p.x_stride = kPlanes;
          check_conv(isa, c);
        }
}

void test_depthwise_few_channels(const Isa &isa) {
  for (const std::int32_t channels : {1, 2, 3, 4, 8})
    for (const std::int32_t k : {3, 5})
      for (const std::int32_t size : {3, 5, 14, 23, 50})
        for (const Residual residual : {Residual::None, Residual::BeforeAct, Residual::AfterAct}) {
          ConvCase c = depthwise_case(size, channels, k, 1, k / 2);
          c.p.residual = residual;
          c.p.r_stride = residual == Residual::None ? 0 : channels;
          c.p.act = size % 2 ? Activation{Act::Clip, 0, 6, 0} : Activation{};
          check_conv(isa, c);
        }
}

void add_convs(Registry &registry) {
  for (const bool depthwise : {false, true})
    for (std::size_t i = 0; i < std::size(kAlgorithms); ++i) {
      const ConvAlgorithm algorithm = kAlgorithms[i];
      const bool winograd = is_winograd(algorithm);
      if (depthwise && algorithm != ConvAlgorithm::Direct) continue;
      const std::string name =
          depthwise ? std::string("DepthwiseF32: random") : std::string("ConvF32: random") + kAlgorithmNames[i];
      registry.test(name, [=](const Isa &isa) {
        Random random(depthwise ? 3 : winograd ? 2 : 1);
        for (int j = 0; j < (winograd ? 60 : 160); ++j)
          check_conv(isa, random_case(random, depthwise, algorithm, static_cast<std::int32_t>(isa.f32_lanes)));
      });
    }
  registry.test("ConvF32: wide planes to pixels", test_conv_planes);
  registry.test("ConvF32: every activation", test_conv_activations);
  registry.test("ConvF32: many chunks, panels and blocks", test_conv_chunks);
  registry.test("ConvF32: filter banks", test_filter_banks);
  registry.test("ConvF32: few rows", test_conv_few_rows);
  registry.test("ConvF32: few rows, every weight that 16 bits hold", test_conv_every_half);
  registry.test("ConvF32: NaN and infinities", test_conv_specials);
  registry.test("ConvF32: Winograd, many channels and blocks", test_conv_winograd);
  registry.test("ConvF32: groups that fill vectors", test_conv_groups);
  registry.test("ConvF32: what 16 bits hold", test_shortest_exact);
  registry.test("DepthwiseF32: sizes", test_depthwise_sizes);
  registry.test("DepthwiseF32: few channels", test_depthwise_few_channels);
  registry.test("ConvF32, MatMulF32: refusals", test_refusals);
}

ConvCase grouped_case(std::int32_t size, std::int32_t channels, std::int32_t each, std::int32_t step) {
  ConvCase c = conv_case(size, channels, channels, 3, step, 1);
  c.p.groups = channels / each;
  return c;
}
ConvCase planes(ConvCase c) {
  c.p.x_stride = kPlanes;
  return c;
}
ConvCase halves(ConvCase c) {
  c.p.weights = WeightType::F16;
  return c;
}

void add_conv_benches(Registry &registry) {
  const struct {
    const char *name;
    ConvCase c;
  } cases[] = {{"stem 7x7/2 224 3->64 (resnet)", conv_case(224, 3, 64, 7, 2, 3)},
               {"stem 3x3/2 224 3->32 (mobilenet)", conv_case(224, 3, 32, 3, 2, 1)},
               {"3x3 56 64->64", conv_case(56, 64, 64, 3, 1, 1)},
               {"3x3 28 128->128", conv_case(28, 128, 128, 3, 1, 1)},
               {"3x3 14 256->256", conv_case(14, 256, 256, 3, 1, 1)},
               {"3x3 7 512->512", conv_case(7, 512, 512, 3, 1, 1)},
               {"3x3/2 56 128->128", conv_case(56, 128, 128, 3, 2, 1)},
               {"3x3 27 48->192 (squeezenet)", conv_case(27, 48, 192, 3, 1, 1)},
               {"3x3 55 16->64 (squeezenet)", conv_case(55, 16, 64, 3, 1, 1)},
               {"3x3 56 32->32", conv_case(56, 32, 32, 3, 1, 1)},
               {"3x3 10 256->256", conv_case(10, 256, 256, 3, 1, 1)},
               {"3x3 13 64->256 (squeezenet)", conv_case(13, 64, 256, 3, 1, 1)},
               {"1x1 55 64->16 (squeezenet)", conv_case(55, 64, 16, 1, 1, 0)},
               {"1x1 56 64->256", conv_case(56, 64, 256, 1, 1, 0)},
               {"1x1 56 256->64", conv_case(56, 256, 64, 1, 1, 0)},
               {"1x1 28 512->128", conv_case(28, 512, 128, 1, 1, 0)},
               {"1x1 14 1024->256", conv_case(14, 1024, 256, 1, 1, 0)},
               {"1x1 14 256->1024", conv_case(14, 256, 1024, 1, 1, 0)},
               {"1x1 7 2048->512", conv_case(7, 2048, 512, 1, 1, 0)},
               {"1x1/2 56 256->512", conv_case(56, 256, 512, 1, 2, 0)},
               {"1x1 112 16->96 (mobilenet)", conv_case(112, 16, 96, 1, 1, 0)},
               {"1x1 112 32->16 (mobilenet)", conv_case(112, 32, 16, 1, 1, 0)},
               {"1x1 56 144->24 (mobilenet)", conv_case(56, 144, 24, 1, 1, 0)},
               {"1x1 14 96->576 (mobilenet)", conv_case(14, 96, 576, 1, 1, 0)},
               {"1x1 7 320->1280 (mobilenet)", conv_case(7, 320, 1280, 1, 1, 0)},
               {"gemm 1x2048x1000", gemm_case(1, 2048, 1000)},
               {"gemm 1x2048x1000, f16", halves(gemm_case(1, 2048, 1000))},
               {"gemm 1x4096x4096", gemm_case(1, 4096, 4096)},
               {"gemm 1x4096x4096, f16", halves(gemm_case(1, 4096, 4096))},
               {"gemm 4x4096x4096", gemm_case(4, 4096, 4096)},
               {"gemm 4x4096x4096, f16", halves(gemm_case(4, 4096, 4096))},
               {"gemm 8x4096x4096", gemm_case(8, 4096, 4096)},
               {"gemm 8x4096x4096, f16", halves(gemm_case(8, 4096, 4096))},
               {"gemm 32x4096x4096", gemm_case(32, 4096, 4096)},
               {"gemm 32x4096x4096, f16", halves(gemm_case(32, 4096, 4096))},
               {"gemm 128x768x3072, f16", halves(gemm_case(128, 768, 3072))},
               {"gemm 128x768x768 (bert)", gemm_case(128, 768, 768)},
               {"gemm 128x768x3072 (bert)", gemm_case(128, 768, 3072)},
               {"gemm 128x3072x768 (bert)", gemm_case(128, 3072, 768)},
               {"gemm 197x768x2304 (vit)", gemm_case(197, 768, 2304)},
               {"gemm 197x3072x768 (vit)", gemm_case(197, 3072, 768)},
               {"3x3 56 128, groups of 4 (resnext)", grouped_case(56, 128, 4, 1)},
               {"3x3/2 56 256, groups of 8 (resnext)", grouped_case(56, 256, 8, 2)},
               {"3x3 28 256, groups of 8 (resnext)", grouped_case(28, 256, 8, 1)},
               {"3x3 14 512, groups of 16 (resnext)", grouped_case(14, 512, 16, 1)},
               {"3x3 56 64, groups of 2", grouped_case(56, 64, 2, 1)},
               {"3x3 112 96", depthwise_case(112, 96, 3, 2, 1)},
               {"3x3 48 8", depthwise_case(48, 8, 3, 1, 1)},
               {"3x3 56 144", depthwise_case(56, 144, 3, 1, 1)},
               {"3x3/2 56 144", depthwise_case(56, 144, 3, 2, 1)},
               {"3x3 28 192", depthwise_case(28, 192, 3, 1, 1)},
               {"3x3 14 384", depthwise_case(14, 384, 3, 1, 1)},
               {"3x3 7 960", depthwise_case(7, 960, 3, 1, 1)},
               {"5x5 14 480", depthwise_case(14, 480, 5, 1, 2)},
               {"3x3 112 32, planes", planes(depthwise_case(112, 32, 3, 1, 1))},
               {"3x3/2 112 96, planes", planes(depthwise_case(112, 96, 3, 2, 1))},
               {"3x3 56 144, planes", planes(depthwise_case(56, 144, 3, 1, 1))},
               {"3x3 28 192, planes", planes(depthwise_case(28, 192, 3, 1, 1))},
               {"3x3 14 384, planes", planes(depthwise_case(14, 384, 3, 1, 1))},
               {"3x3 7 960, planes", planes(depthwise_case(7, 960, 3, 1, 1))},
               {"5x5 14 480, planes", planes(depthwise_case(14, 480, 5, 1, 2))},
               {"5x5/2 28 240, planes", planes(depthwise_case(28, 240, 5, 2, 2))},
               {"7x7 56 96, planes", planes(depthwise_case(56, 96, 7, 1, 3))}};
  for (const auto &item : cases)
    for (std::size_t i = 0; i < std::size(kAlgorithms); ++i) {
      ConvCase c = item.c;
      const Window &w = c.p.window;
      const bool groups = kAlgorithms[i] == ConvAlgorithm::Groups;
      if (c.depthwise && i > 0) continue;
      if (groups ? c.p.groups == 1 : i > 0 && (w.kh != 3 || w.sh != 1 || c.p.ic / c.p.groups < 16)) continue;
      c.p.act = {Act::Clip, 0, kInf, 0};
      c.p.algorithm = kAlgorithms[i];
      registry.bench(std::string(c.depthwise ? "DepthwiseF32: " : "ConvF32: ") + item.name + kAlgorithmNames[i],
                     [c, groups](const Isa &isa) {
                       Random random(1);
                       ConvData data;
                       ConvCase here = c;  // where vectors are too short for a group, as it goes there
                       if (groups && !groups_possible(c.p, isa.f32_lanes)) here.p.algorithm = ConvAlgorithm::Direct;
                       return prepare(isa, here, random, &data);
                     });
    }
}

}  // namespace

void register_convolution(Registry &registry) {
  add_convs(registry);
  add_conv_benches(registry);
  register_block(registry);
  register_matmul(registry);
}

}  // namespace quarry::kernel_test
