// SPDX-License-Identifier: Apache-2.0
// Normalisations, and softmax.
#include <algorithm>
#include <cmath>

#include "backends/htp/lower/rules.h"
#include "base/checked.h"

namespace quarry::htp::rules {

using qir::Op;
using qnn::DataType;

Status batch_normalization(Lowering &l, const qir::Node &node) {
  const qir::Tensor &x = l.tensor(node.inputs[0]);
  if (node.get_int("training_mode", 0) != 0) return refuse(ErrorId::backend_limit, "training_mode 1, expected 0");
  const float *values[4];
  for (std::size_t i = 0; i < 4; ++i) {
    values[i] = qir::constant_floats(l.graph(), node.inputs[i + 1]);
    if (!values[i] || x.quant || x.dtype != DType::F32)
      return refuse(ErrorId::backend_type,
                    format("parameter %zu is no f32 constant, expected one beside f32 data", i + 1));
  }
  const std::size_t channels = static_cast<std::size_t>(x.shape.size() > 1 ? x.shape[1] : x.shape[0]);
  Vector<float> weight(channels), bias(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    weight[c] = values[0][c] / std::sqrt(values[3][c] + node.get_float("epsilon", 1e-5f));
    bias[c] = values[1][c] - values[2][c] * weight[c];
  }
  const Order order = channels_last(x.shape.size());
  const Vector<std::uint32_t> dims = {static_cast<std::uint32_t>(channels)};
  const std::int32_t from = l.stored(node.inputs[0], order);
  const std::int32_t w = l.constant(node.name + ".weight", DataType::F32, dims, weight.data(), channels * 4);
  const std::int32_t b = l.constant(node.name + ".bias", DataType::F32, dims, bias.data(), channels * 4);
  l.node("Batchnorm", {from, w, b}, {l.result(node.outputs[0], order)});
  return {};
}

Status instance_normalization(Lowering &l, const qir::Node &node) {
  if (l.soc().arch == 68 && !l.tensor(node.inputs[0]).quant)  // the library cannot prepare its own
    return group_normalization(l, node);
  const Order order = channels_last(l.rank(node.inputs[0]));
  const std::int32_t x = l.stored(node.inputs[0], order), scale = l.natural(node.inputs[1]),
                     bias = l.natural(node.inputs[2]), y = l.result(node.outputs[0], order);
  const auto normalize = [&](std::int32_t from, std::int32_t to) {
    l.param(l.node("InstanceNorm", {from, scale, bias}, {to}), "epsilon", node.get_float("epsilon", 1e-5f));
  };
  // Rows of several batches are images of one row: the library refuses three axes there.
  if (Vector<std::uint32_t> image = l.drafted(x).dims; image.size() == 3 && image[0] > 1) {
    image.insert(image.begin() + 1, 1);
    const std::int32_t from = l.reshaped(x, image), to = l.between(node.outputs[0], "~image", image);
    normalize(from, to);
    l.node("Reshape", {to}, {y});
    return {};
  }
  normalize(x, y);
  return {};
}

namespace {

bool wants(const qir::Node &node, std::size_t output) {
  return output < node.outputs.size() && node.outputs[output] != qir::kAbsent;
}

// The outputs of LayerNormalization that training reads: mean, and one over the deviation. Beside f16 data they are
// f32, and are computed as f16 all the same.
void write_statistics(Lowering &l, const qir::Node &node, std::int32_t x, const Vector<std::uint32_t> &axes) {
  const Vector<std::uint32_t> full = l.drafted(x).dims;
  Vector<std::uint32_t> kept = full;
  for (const std::uint32_t axis : axes) kept[axis] = 1;
  const auto mean_of = [&](std::int32_t from, std::int32_t to) {
    DraftNode &made = l.node("ReduceMean", {from}, {to});
    l.param(made, "axes", axes);
    l.param(made, "keep_dims", true);
    return to;
  };
  const auto fresh = [&](const Vector<std::uint32_t> &dims) { return l.between(node.inputs[0], "~statistics", dims); };
  const auto step = [&](const char *type, std::initializer_list<std::int32_t> inputs,
                        const Vector<std::uint32_t> &dims) {
    const std::int32_t made = fresh(dims);
    l.node(type, inputs, {made});
    return made;
  };
  const bool narrow = l.drafted(x).dtype != DataType::F32;
  const auto give = [&](std::size_t output, auto &&write) {
    const std::int32_t to = l.result(node.outputs[output]), made = narrow ? fresh(kept) : to;
    write(made);
    if (narrow) l.node("Cast", {made}, {to});
    return made;
  };
  const auto write_mean = [&](std::int32_t to) { mean_of(x, to); };
  const std::int32_t mean = wants(node, 1) ? give(1, write_mean) : mean_of(x, fresh(kept));
  if (!wants(node, 2)) return;
  const std::int32_t off = step("ElementWiseSubtract", {x, mean}, full),
                     variance = mean_of(step("ElementWiseMultiply", {off, off}, full), fresh(kept));
  const std::int32_t epsilon = scalar_like(l, node.inputs[0], "epsilon", node.get_float("epsilon", 1e-5f)),
                     one = scalar_like(l, node.inputs[0], "one", 1);
  const std::int32_t root = step("ElementWiseSquareRoot", {step("ElementWiseAdd", {variance, epsilon}, kept)}, kept);
  give(2, [&](std::int32_t to) { l.node("ElementWiseDivide", {one, root}, {to}); });
}

// The library has no scale of s8 beside u8 or u16: the same numbers as u8.
std::int32_t unsigned_scale(Lowering &l, std::int32_t scale) {
  const DraftTensor from = l.drafted(scale);
  if (from.dtype != DataType::SQ8 || from.type != qnn::TensorType::Static || from.encoding.scales.size() != 1)
    return scale;
  auto *const bytes = static_cast<std::uint8_t *>(l.store().allocate(from.data.size));
  for (std::uint64_t i = 0; i < from.data.size; ++i)
    bytes[i] = static_cast<const std::uint8_t *>(from.data.data)[i] ^ 0x80;
  Encoding encoding = from.encoding;
  encoding.zero_points[0] += 128;
  return l.constant(from.name, DataType::UQ8, from.dims, {bytes, from.data.size}, std::move(encoding));
}

// The library rounds what is normalised and its shift to steps of the result one by one, which is another step in a
// quarter of the elements of 8 bits, and what reads them (other norms, attention) makes more of it. Of 16 bits it is
// none.
Encoding in_256ths(Encoding encoding) {
  for (float &scale : encoding.scales) scale /= 256;
  for (std::int32_t &zero_point : encoding.zero_points) zero_point *= 256;
  return encoding;
}

std::uint64_t elements(Lowering &l, std::int32_t id) {
  const qir::Shape &shape = l.tensor(id).shape;
  return static_cast<std::uint64_t>(element_count(shape.data(), shape.size()).value_or(0));
}

// An operand of LayerNormalization as a row of as many elements as are normalised.
std::int32_t as_row(Lowering &l, std::int32_t operand, std::uint32_t count) {
  if (operand < 0) return operand;
  const DraftTensor given = l.drafted(operand);
  const std::uint64_t own = tensor_bytes(given) / std::max<std::size_t>(element_bytes(given.dtype), 1);
  if (own == count) return l.reshaped(operand, {count});
  const std::int32_t number = l.reshaped(operand, {1}),
                     made = l.between(given.name, given.dtype, {count}, given.encoding);
  l.param(l.node("Tile", {number}, {made}), "multiples", Vector<std::uint32_t>{count});
  return made;
}

Status check_layer_normalization(Lowering &l, const qir::Node &node, std::uint64_t count) {
  if ((wants(node, 1) || wants(node, 2)) && l.tensor(node.inputs[0]).quant)
    return refuse(ErrorId::backend_limit,
                  "mean or deviation of quantised data are asked for, expected the first output alone");
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == qir::kAbsent) continue;
    if (const std::uint64_t own = elements(l, node.inputs[i]); own != 1 && own != count)
      return refuse(
          ErrorId::backend_limit,
          format("a scale or bias of %llu elements, expected %llu, which are normalised together, or one", own, count),
          "multiply and add behind the node, which then has a scale of ones");
  }
  return {};
}

}  // namespace

Status layer_normalization(Lowering &l, const qir::Node &node) {
  const bool rms = node.op == Op::RMSNormalization;
  const std::size_t rank = l.rank(node.inputs[0]), first = axis_of(node, "axis", -1, rank);
  const Vector<std::uint32_t> all = Lowering::dims_of(l.tensor(node.inputs[0]).shape, natural_order(rank));
  Vector<std::uint32_t> rows = {1, 1}, axes;
  for (std::size_t i = 0; i < rank; ++i) rows[i < first ? 0 : 1] *= all[i];
  for (std::size_t i = first; i < rank; ++i) axes.push_back(static_cast<std::uint32_t>(i));
  QR_RETURN_IF_ERROR(check_layer_normalization(l, node, rows[1]));
  const std::int32_t x = l.natural(node.inputs[0]);
  std::int32_t scale = unsigned_scale(l, l.natural(node.inputs[1]));
  std::int32_t shift = rms || node.inputs[2] == qir::kAbsent ? -1 : l.natural(node.inputs[2]);
  // The library has rows with one scale for each element, so several axes become one; and its RmsNorm is wrong in every
  // batch but the first.
  const bool has_batches =
      rank > 2 && std::any_of(all.begin(), all.end() - 2, [](std::uint32_t extent) { return extent != 1; });
  const bool one_axis = axes.size() == 1 && !(rms && has_batches) && elements(l, node.inputs[1]) == all.back() &&
                        (shift < 0 || elements(l, node.inputs[2]) == all.back());
  std::int32_t from = x, to = -1;
  if (one_axis) {
    to = l.result(node.outputs[0]);
  } else {
    from = l.between(node.inputs[0], "~rows", rows), to = l.between(node.outputs[0], "~rows", rows);
    l.node("Reshape", {x}, {from});
    scale = as_row(l, scale, rows[1]), shift = as_row(l, shift, rows[1]);
  }
  const std::int32_t narrow = to;
  if (shift >= 0 && l.drafted(from).dtype == DataType::UQ8 && l.drafted(to).dtype == DataType::UQ8) {
    const DraftTensor x8 = l.drafted(from), y8 = l.drafted(to);
    const std::int32_t wide = l.between(x8.name + "~16", DataType::UQ16, x8.dims, in_256ths(x8.encoding));
    l.node("Convert", {from}, {wide});
    from = wide, to = l.between(y8.name + "~16", DataType::UQ16, y8.dims, in_256ths(y8.encoding));
  }
  DraftNode &made = l.node(rms ? "RmsNorm" : "LayerNorm", {from, scale, shift}, {to});
  l.param(made, "epsilon", node.get_float("epsilon", 1e-5f));
  l.param(made, "axes", one_axis ? axes : Vector<std::uint32_t>{1});
  if (to != narrow) l.node("Convert", {to}, {narrow});
  if (!one_axis) l.node("Reshape", {narrow}, {l.result(node.outputs[0])});
  if (!rms && (wants(node, 1) || wants(node, 2))) write_statistics(l, node, x, axes);
  return {};
}

// Over the axis that is stored last.
Status softmax(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", -1, rank);
  Order order = l.order(node.inputs[0]);
  if (const std::uint32_t position = place_of(order, axis); position + 1 != rank) {
    order.erase(order.begin() + position);
    order.push_back(static_cast<std::uint8_t>(axis));
  }
  const std::int32_t x = l.stored(node.inputs[0], order), y = l.result(node.outputs[0], order);
  const auto last = static_cast<std::uint32_t>(rank - 1);
  if (node.op == Op::LogSoftmax && !l.tensor(node.inputs[0]).quant) {
    log_softmax(l, node, x, last, y);
    return {};
  }
  l.param(l.node(node.op == Op::LogSoftmax ? "LogSoftmax" : "Softmax", {x}, {y}), "axis", last);
  return {};
}

}  // namespace quarry::htp::rules
