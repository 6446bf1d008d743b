// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/byte_weights.h"

#include <algorithm>

#include "base/checked.h"
#include "graph/ops/quantization.h"

namespace quarry::htp {

namespace {

constexpr std::int64_t kLeast = -128, kMost = 127;

std::int64_t zero_of(const Vector<std::int32_t> &zeros, std::uint64_t channel) {
  return zeros.size() == 1 ? zeros[0] : zeros[index_of(channel)];
}

}  // namespace

bool passes_byte(const qir::Tensor &weights) {
  if (!weights.is_constant || !weights.quant || weights.quant->block_size > 0 || weights.shape.empty() ||
      (weights.dtype != DType::U8 && weights.dtype != DType::I8))
    return false;
  const Vector<std::int32_t> &zeros = weights.quant->zero_points;
  const std::int64_t count = element_count(weights.shape.data(), weights.shape.size()).value_or(0);
  const std::int64_t channels = weights.shape[0];
  if (count <= 0 ||
      (zeros.size() != 1 && (weights.quant->axis != 0 || zeros.size() != static_cast<std::size_t>(channels))))
    return false;
  const auto each = static_cast<std::uint64_t>(count / channels);
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    const std::int64_t value = qir::stored_integer(weights.dtype, weights.data.data, i) - zero_of(zeros, i / each);
    if (value < kLeast || value > kMost) return true;
  }
  return false;
}

namespace {

// The data with copies of some channels behind its own.
std::int32_t with_channels(Lowering &l, std::int32_t id, std::int32_t x, const Vector<std::uint32_t> &channels) {
  const DraftTensor data = l.drafted(x);
  Vector<std::int32_t> parts{x};
  for (std::size_t i = data.dims[3]; i < channels.size(); ++i) {
    const Vector<std::uint32_t> &dims = data.dims;
    const std::int32_t part = l.between(id, "~channel", {dims[0], dims[1], dims[2], 1});
    Vector<std::int32_t> ranges;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      const auto channel = static_cast<std::int32_t>(channels[i]);
      ranges.push_back(axis == 3 ? channel : 0);
      ranges.push_back(axis == 3 ? channel + 1 : static_cast<std::int32_t>(dims[axis]));
      ranges.push_back(1);
    }
    DraftNode &slice = l.node("StridedSlice", {x}, {part});
    l.param(slice, "ranges", ranges, {4, 3});
    for (const char *const mask : {"begin_mask", "end_mask", "shrink_axes", "new_axes_mask"})
      l.param(slice, mask, std::uint32_t{0});
    parts.push_back(part);
  }
  const std::int32_t wide = l.between(
      id, "~channels", {data.dims[0], data.dims[1], data.dims[2], static_cast<std::uint32_t>(channels.size())});
  DraftNode &concat = l.node("Concat", {}, {wide});
  concat.inputs = std::move(parts);
  l.param(concat, "axis", std::uint32_t{3});
  return wide;
}

}  // namespace

ProductOperands within_bytes(Lowering &l, const qir::Node &node, ProductOperands given) {
  const DraftTensor from = l.drafted(given.weights);
  const qir::Tensor &x = l.tensor(node.inputs[0]);
  if (!x.quant || dtype_bits(x.dtype) != 8 || from.type != qnn::TensorType::Static || from.dims.size() != 4 ||
      from.encoding.bits != 0 || !passes_byte(l.tensor(node.inputs[1])))
    return given;
  const DType dtype = from.dtype == qnn::DataType::UQ8 ? DType::U8 : DType::I8;
  const std::uint64_t window = std::uint64_t{from.dims[0]} * from.dims[1];
  const std::uint32_t ins = from.dims[2], outs = from.dims[3];
  const auto distance = [&](std::uint64_t at, std::uint32_t in, std::uint32_t out) {
    return qir::stored_integer(dtype, from.data.data, (at * ins + in) * outs + out) -
           zero_of(from.encoding.zero_points, out);
  };
  // Which input channels there are: the data's own, then copies; how often a weight was taken before.
  Vector<std::uint32_t> channels(ins), rounds(ins, 0);
  for (std::uint32_t in = 0; in < ins; ++in) channels[in] = in;
  for (std::uint32_t in = 0; in < ins; ++in) {
    std::int64_t farthest = 0;
    for (std::uint64_t at = 0; at < window; ++at)
      for (std::uint32_t out = 0; out < outs; ++out) {
        const std::int64_t value = distance(at, in, out);
        farthest = std::max(farthest, value > 0 ? (value - 1) / kMost : (value + 1) / kLeast);
      }
    for (std::int64_t round = 1; round <= farthest; ++round) {
      channels.push_back(in);
      rounds.push_back(static_cast<std::uint32_t>(round));
    }
  }
  const std::uint64_t all = channels.size();
  auto *const bytes = static_cast<std::int8_t *>(l.store().allocate(window * all * outs));
  for (std::uint64_t at = 0; at < window; ++at)
    for (std::uint64_t in = 0; in < all; ++in)
      for (std::uint32_t out = 0; out < outs; ++out) {
        const std::int64_t value = distance(at, channels[in], out), round = rounds[in];
        bytes[(at * all + in) * outs + out] =
            static_cast<std::int8_t>(value > 0 ? std::clamp<std::int64_t>(value - round * kMost, 0, kMost)
                                               : std::clamp<std::int64_t>(value - round * kLeast, kLeast, 0));
      }
  Encoding encoding = from.encoding;
  std::ranges::fill(encoding.zero_points, 0);
  const auto width = static_cast<std::uint32_t>(all);
  const std::int32_t weights = l.constant(from.name, qnn::DataType::SQ8, {from.dims[0], from.dims[1], width, outs},
                                          {bytes, window * all * outs}, std::move(encoding));
  return {with_channels(l, node.inputs[0], given.x, channels), weights};
}

}  // namespace quarry::htp
