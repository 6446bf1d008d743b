// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/block_weights.h"

#include <algorithm>
#include <cmath>

#include "backends/htp/lower/rules.h"
#include "base/float16.h"
#include "graph/ops/quantization.h"

namespace quarry::htp {

using qir::Op;
using qnn::DataType;

namespace {

// weight(out, in) = (value - zero) * scale; a block is `block` neighbours among the inputs.
struct BlockMatrix {
  std::uint32_t ins = 0, outs = 0, block = 0, bits = 0;
  Vector<std::int16_t> values;  // [out][in]
  Vector<float> scales;         // [out][block]
  Vector<std::int16_t> zeros;   // as many
  std::uint32_t blocks() const noexcept { return ins / block; }
  std::size_t block_of(std::size_t i) const noexcept { return i / ins * blocks() + i % ins / block; }

  // Whether all distances from the zero points have so many bits.
  bool fits(std::uint32_t width) const {
    const int most = (1 << (width - 1)) - 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int distance = values[i] - zeros[block_of(i)];
      if (distance < -most - 1 || distance > most) return false;
    }
    return true;
  }
  void take_zeros_off() {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::int16_t>(values[i] - zeros[block_of(i)]);
    std::ranges::fill(zeros, std::int16_t{0});
  }
};

// Empty: of no size that is expanded, or blocks that do not divide it.
std::optional<BlockMatrix> matrix_of(std::int64_t ins, std::int64_t outs, std::int64_t block, std::uint32_t bits) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (ins <= 0 || outs <= 0 || block <= 0 || ins % block != 0 || ins >= kMost || outs >= kMost / ins) return {};
  BlockMatrix m;
  m.ins = static_cast<std::uint32_t>(ins), m.outs = static_cast<std::uint32_t>(outs);
  m.block = static_cast<std::uint32_t>(block), m.bits = bits;
  m.values.resize(std::size_t{m.ins} * m.outs);
  m.scales.resize(std::size_t{m.blocks()} * m.outs);
  m.zeros.resize(m.scales.size());
  return m;
}

// The weights of a MatMul, Gemm or Conv.
std::optional<BlockMatrix> read(const qir::Node &node, const qir::Tensor &stored) {
  const qir::Shape &shape = stored.shape;
  const bool conv = node.op == Op::Conv, outs_first = conv || (node.op == Op::Gemm && node.get_int("transB", 0) != 0);
  if (!stored.is_constant || !stored.quant || stored.quant->block_size <= 0 || shape.size() != (conv ? 4u : 2u) ||
      stored.quant->axis != (outs_first ? 1 : 0) || (conv && (shape[2] != 1 || shape[3] != 1)))
    return {};
  const DType dtype = stored.dtype;
  if (dtype != DType::I4 && dtype != DType::U4 && dtype != DType::I8 && dtype != DType::U8) return {};
  std::optional<BlockMatrix> m =
      matrix_of(shape[outs_first ? 1 : 0], shape[outs_first ? 0 : 1], stored.quant->block_size, dtype_bits(dtype));
  if (!m || stored.quant->scales.size() != m->scales.size()) return {};
  const std::uint32_t blocks = m->blocks();
  for (std::uint32_t o = 0; o < m->outs; ++o) {
    for (std::uint32_t i = 0; i < m->ins; ++i)
      m->values[std::size_t{o} * m->ins + i] = static_cast<std::int16_t>(qir::stored_integer(
          dtype, stored.data.data, outs_first ? std::size_t{o} * m->ins + i : std::size_t{i} * m->outs + o));
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const std::size_t from = outs_first ? std::size_t{o} * blocks + b : std::size_t{b} * m->outs + o;
      m->scales[std::size_t{o} * blocks + b] = stored.quant->scales[from];
      m->zeros[std::size_t{o} * blocks + b] = static_cast<std::int16_t>(stored.quant->zero_points[from]);
    }
  }
  return m;
}

// Those of a MatMulNBits: rows of packed values for each output, each row of whole blocks.
std::optional<BlockMatrix> read_packed(const qir::Graph &graph, const qir::Node &node) {
  const auto bits = static_cast<std::uint32_t>(node.get_int("bits", 4));
  std::optional<BlockMatrix> m =
      matrix_of(node.get_int("K", 0), node.get_int("N", 0), node.get_int("block_size", 0), bits);
  const std::int32_t zero_id = node.inputs[3];
  const qir::Tensor &packed = qir::at(graph, node.inputs[1]), &scales = qir::at(graph, node.inputs[2]);
  const float *const given = qir::constant_floats(graph, node.inputs[2]);
  if (!m || (bits != 4 && bits != 8) || !packed.is_constant || !given ||
      scales.data.size < m->scales.size() * sizeof(float) || packed.data.size < m->values.size() * bits / 8)
    return {};
  const DType dtype = bits == 4 ? DType::U4 : DType::U8;
  const std::size_t blocks = m->blocks(), in_row = bits == 4 ? (blocks + 1) / 2 * 2 : blocks;  // rows begin at bytes
  const qir::Tensor *const zeros = zero_id == qir::kAbsent ? nullptr : &qir::at(graph, zero_id);
  if (zeros && (!zeros->is_constant || zeros->dtype != DType::U8 || zeros->data.size < m->outs * in_row * bits / 8))
    return {};
  for (std::size_t i = 0; i < m->values.size(); ++i)
    m->values[i] = static_cast<std::int16_t>(qir::stored_integer(dtype, packed.data.data, i));
  std::copy_n(given, m->scales.size(), m->scales.begin());
  for (std::size_t i = 0; i < m->zeros.size(); ++i) {
    const std::size_t at = i / blocks * in_row + i % blocks;
    m->zeros[i] = static_cast<std::int16_t>(zeros ? qir::stored_integer(dtype, zeros->data.data, at)
                                                  : std::int64_t{1} << (bits - 1));
  }
  return m;
}

// Scales as 1 to 16 times one of their output channel, to the rounding of f16.
struct Multiples {
  Vector<float> units;               // [out]
  Vector<std::uint8_t> multipliers;  // [out][block]
};
std::optional<Multiples> multiples_of(const BlockMatrix &m) {
  constexpr double kNear = 1.0 / 4096;
  Multiples out;
  const std::uint32_t blocks = m.blocks();
  for (std::uint32_t o = 0; o < m.outs; ++o) {
    const std::span<const float> scales(m.scales.data() + std::size_t{o} * blocks, blocks);
    const double largest = *std::ranges::max_element(scales);
    if (!std::ranges::all_of(scales, [](float s) { return s > 0 && std::isfinite(s); })) return {};
    int most = 1;
    const auto near = [&](float scale) {
      const double ratio = scale * most / largest, whole = std::nearbyint(ratio);
      return whole >= 1 && std::fabs(ratio - whole) <= kNear * whole;
    };
    while (most <= 16 && !std::ranges::all_of(scales, near)) ++most;
    if (most > 16) return {};
    out.units.push_back(static_cast<float>(largest / most));
    for (const float scale : scales)
      out.multipliers.push_back(static_cast<std::uint8_t>(std::nearbyint(scale * most / largest)));
  }
  return out;
}

// Other blocks, and inputs that do not fill 32, give nonsense.
bool has_quantised_form(const BlockMatrix &m) {
  return m.ins % 32 == 0 && (m.block == 16 || m.block % 32 == 0) && m.fits(4) && multiples_of(m);
}
bool has_half_form(const BlockMatrix &m) {
  if (m.outs == 1) return false;  // nonsense
  const bool finite = std::ranges::all_of(m.scales, [](float s) { return std::isfinite(s); });
  return finite && (m.bits == 4 ? m.block % 8 == 0 : m.block % 4 == 0 && m.fits(8));
}

// [1, 1, in, out].
std::int32_t weights_of(Lowering &l, std::string_view name, const BlockMatrix &m, Encoding encoding) {
  auto *const bytes = static_cast<std::int8_t *>(l.store().allocate(m.values.size()));
  for (std::size_t o = 0; o < m.outs; ++o)
    for (std::size_t i = 0; i < m.ins; ++i) bytes[i * m.outs + o] = static_cast<std::int8_t>(m.values[o * m.ins + i]);
  return l.constant(name, DataType::SQ8, {1, 1, m.ins, m.outs}, {bytes, m.values.size()}, std::move(encoding));
}
std::int32_t quantised_weights(Lowering &l, std::string_view name, BlockMatrix m) {
  m.take_zeros_off();
  std::optional<Multiples> multiples = multiples_of(m);
  Encoding encoding;
  encoding.scales = std::move(multiples->units);
  encoding.zero_points.assign(m.outs, 0);
  encoding.multipliers = std::move(multiples->multipliers);
  encoding.axis = 3, encoding.bits = 4;
  return weights_of(l, name, m, std::move(encoding));
}
std::int32_t half_weights(Lowering &l, std::string_view name, BlockMatrix m) {
  if (m.bits == 8 || m.fits(4)) m.take_zeros_off();
  // What is left is of u4, stored 8 less.
  const bool is_far = std::ranges::any_of(m.zeros, [](std::int16_t zero) { return zero != 0; });
  const bool is_unsigned = is_far && !std::ranges::all_of(m.values, [](std::int16_t v) { return v >= -8 && v <= 7; });
  Encoding encoding;
  encoding.scales = m.scales;
  for (const std::int16_t zero : m.zeros) encoding.zero_points.push_back(is_unsigned ? zero - 8 : zero);
  if (is_unsigned)
    for (std::int16_t &value : m.values) value = static_cast<std::int16_t>(value - 8);
  encoding.block = {1, 1, m.block, 1}, encoding.bits = m.bits;
  return weights_of(l, name, m, std::move(encoding));
}

std::int32_t half_bias(Lowering &l, const qir::Tensor &bias, std::uint32_t count) {
  const auto *const from = static_cast<const float *>(bias.data.data);
  auto *const to = static_cast<std::uint16_t *>(l.store().allocate(std::uint64_t{count} * 2));
  std::transform(from, from + count, to, [](float v) { return f32_to_f16(std::clamp(v, -kLargestF16, kLargestF16)); });
  return l.constant(bias.name, DataType::F16, {count}, {to, std::uint64_t{count} * 2});
}

std::int32_t halved(Lowering &l, std::int32_t from) {
  const DraftTensor like = l.drafted(from);
  const std::int32_t made = l.between(like.name + "~half", DataType::F16, like.dims);
  l.node("Cast", {from}, {made});
  return made;
}

// Where a Conv reads and writes its pixels one by one; the strides are the node's.
bool is_pointwise(const qir::Graph &graph, const qir::Node &node, std::uint32_t strides[2]) {
  qir::ConvGeometry g;
  if (!qir::resolve_conv(node, qir::at(graph, node.inputs[0]).shape, qir::at(graph, node.inputs[1]).shape, &g).ok() ||
      g.rank != 2 || g.group != 1)
    return false;
  for (std::size_t i = 0; i < 2; ++i) {
    if (g.kernel[i] != 1 || g.pad_begin[i] != 0 || g.pad_end[i] != 0) return false;
    strides[i] = static_cast<std::uint32_t>(g.stride[i]);
  }
  return true;
}

// A product of rows with a matrix, and what is added to them; the bias is absent or a row of constants.
bool is_plain_product(const qir::Graph &graph, const qir::Node &node, std::int32_t bias, std::uint32_t outs) {
  std::uint32_t strides[2];
  if (node.op == Op::Conv ? !is_pointwise(graph, node, strides) : qir::at(graph, node.inputs[0]).shape.size() < 2)
    return false;
  if (node.op == Op::Gemm && (node.get_int("transA", 0) != 0 || node.get_float("alpha", 1) != 1)) return false;
  if (bias == qir::kAbsent) return true;
  const qir::Tensor &b = qir::at(graph, bias);
  return b.is_constant && b.dtype == DType::F32 && b.data.size == std::uint64_t{outs} * sizeof(float) &&
         (b.shape.size() == 1 || (b.shape.size() == 2 && b.shape[0] == 1)) &&
         (node.op != Op::Gemm || node.get_float("beta", 1) == 1);
}

bool takes_blocks(Op op) noexcept { return op == Op::MatMul || op == Op::Gemm || op == Op::Conv; }

}  // namespace

void BlockSources::add(const void *reals, const qir::Tensor &stored, const qir::Quantization &quant) {
  sources_.push_back({reals, stored});
  sources_.back().stored.quant = quant;
}

const qir::Tensor *BlockSources::find(const void *reals) const noexcept {
  const auto found = std::ranges::find(sources_, reals, &Source::reals);
  return found == sources_.end() ? nullptr : &found->stored;
}

bool multiplies_blocks(const qir::Graph &graph, const qir::Node &node) {
  if (!takes_blocks(node.op) || node.inputs[2] != qir::kAbsent) return false;
  const qir::Tensor &x = qir::at(graph, node.inputs[0]), &y = qir::at(graph, node.outputs[0]);
  if (!x.quant || !y.quant || x.is_constant || x.dtype != y.dtype) return false;
  const std::optional<BlockMatrix> m = read(node, qir::at(graph, node.inputs[1]));
  return m && is_plain_product(graph, node, qir::kAbsent, m->outs) && has_quantised_form(*m);
}

bool block_product(Lowering &l, const qir::Node &node) {
  const qir::Graph &graph = l.graph();
  const qir::Tensor &x = l.tensor(node.inputs[0]), &w = l.tensor(node.inputs[1]);
  const bool packed = node.op == Op::MatMulNBits, quantised = x.quant.has_value();
  if (!packed && !takes_blocks(node.op)) return false;
  const qir::Tensor *const stored = w.quant ? &w : l.block_source(w.data.data);
  if (!packed && !stored) return false;
  const std::optional<BlockMatrix> m = packed ? read_packed(graph, node) : read(node, *stored);
  const std::int32_t bias_id = node.inputs[packed ? 5 : 2];
  if (!m || !is_plain_product(graph, node, bias_id, m->outs)) return false;
  if (quantised ? !multiplies_blocks(graph, node)
                : x.dtype != DType::F32 || l.soc().arch < 69 || !has_half_form(*m) ||
                      (packed && node.inputs[4] != qir::kAbsent))
    return false;

  std::uint32_t strides[2] = {1, 1};
  const bool conv = node.op == Op::Conv && is_pointwise(graph, node, strides);
  const std::int32_t from = conv ? l.stored(node.inputs[0], channels_last(4)) : l.natural(node.inputs[0]);
  const std::int32_t to = conv ? l.result(node.outputs[0], channels_last(4)) : l.result(node.outputs[0]);
  std::int32_t image = from, made = to;
  if (!conv) {  // rows are pixels
    std::uint32_t rows = 1;
    for (std::size_t i = 0; i + 1 < x.shape.size(); ++i) rows *= static_cast<std::uint32_t>(x.shape[i]);
    image = l.between(node.inputs[0], "~pixels", {1, 1, rows, m->ins});
    made = l.between(node.outputs[0], "~pixels", {1, 1, rows, m->outs});
    l.node("Reshape", {from}, {image});
  }
  std::int32_t product = made, bias = -1;
  if (!quantised) {
    image = halved(l, image);
    product = l.between(l.drafted(made).name + "~half", DataType::F16, l.drafted(made).dims);
    if (bias_id != qir::kAbsent) bias = half_bias(l, l.tensor(bias_id), m->outs);
  }
  const std::int32_t weights = quantised ? quantised_weights(l, w.name, *m) : half_weights(l, w.name, *m);
  DraftNode &written = l.node("Conv2d", {image, weights, bias}, {product});
  const std::uint32_t pads[4] = {0, 0, 0, 0};
  l.param(written, "stride", std::span<const std::uint32_t>(strides));
  l.param(written, "pad_amount", std::span<const std::uint32_t>(pads), {2, 2});
  if (product != made) l.node("Cast", {product}, {made});
  if (made != to) l.node("Reshape", {made}, {to});
  return true;
}

}  // namespace quarry::htp
