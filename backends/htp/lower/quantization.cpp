// SPDX-License-Identifier: Apache-2.0
// Where quantised and float parts meet. The integers on the quantised side have the node's own scale and zero point,
// whatever the type of the model's tensor says of them.
#include <algorithm>
#include <cmath>

#include "backends/htp/lower/rules.h"
#include "graph/ops/quantization.h"

namespace quarry::htp::rules {

using qnn::DataType;

namespace {

Result<DataType> fixed_point(DType dtype) {
  switch (dtype) {
    case DType::U8: return DataType::UQ8;
    case DType::I8: return DataType::SQ8;
    case DType::U16: return DataType::UQ16;
    case DType::I16: return DataType::SQ16;
    case DType::I32: return DataType::SQ32;
    default: break;
  }
  return refuse(ErrorId::backend_type, format("found %s, expected 8 or 16 bits", dtype_name(dtype)));
}

Result<Encoding> encoding_at(Lowering &l, const qir::Node &node) {
  const std::optional<qir::Quantization> read = qir::read_quantization(l.graph(), node);
  if (!read || read->block_size != 0)
    return refuse(ErrorId::backend_limit, "scale or zero point is no constant, expected one");
  QR_RETURN_IF_ERROR(check_scales(l.tensor(node.inputs[0]).name, read->scales));
  Encoding encoding;
  encoding.scales = read->scales, encoding.zero_points = read->zero_points;
  if (!read->per_tensor())  // the library refuses the one, and computes the other with the first scale alone
    return refuse(ErrorId::backend_limit, "scales along an axis of run-time data, expected one of the whole tensor");
  return encoding;
}

bool is_dequantized(const qir::Graph &graph, std::int32_t id) {
  return std::ranges::any_of(
      graph.nodes, [&](const qir::Node &node) { return node.op == qir::Op::DequantizeLinear && node.inputs[0] == id; });
}

// The library takes Quantize and the Dequantize behind it for nothing, and with them goes what they saturate, which in
// most models is a Relu or Clip.
std::int32_t saturated(Lowering &l, std::int32_t x, DType dtype, const Encoding &encoding) {
  const DraftTensor from = l.drafted(x);
  const qir::IntegerRange range = qir::integer_range(dtype);
  const auto real = [&](std::int64_t stored) {
    return static_cast<float>(stored - encoding.zero_points[0]) * encoding.scales[0];
  };
  const std::int32_t made = l.between(from.name, from.dtype, from.dims);
  DraftNode &clamp = l.node("ReluMinMax", {x}, {made});
  l.param(clamp, "min_value", real(range.low));
  l.param(clamp, "max_value", real(range.high));
  return made;
}

bool is_dequantized_by(const qir::Graph &graph, const qir::Node &node, const Encoding &encoding) {
  if (node.op != qir::Op::DequantizeLinear) return false;
  const std::optional<qir::Quantization> read = qir::read_quantization(graph, node);
  return read && read->scales == encoding.scales && read->zero_points == encoding.zero_points;
}

// Somebody reads the integers as such, or by another scale.
bool is_read_as_integers(const qir::Graph &graph, std::int32_t id, const Encoding &encoding) {
  return std::ranges::any_of(graph.nodes, [&](const qir::Node &node) {
    return std::ranges::find(node.inputs, id) != node.inputs.end() && !is_dequantized_by(graph, node, encoding);
  });
}

bool is_dequantized_by(const qir::Graph &graph, std::int32_t id, const Encoding &encoding) {
  return std::ranges::any_of(graph.nodes, [&](const qir::Node &node) {
    return is_dequantized_by(graph, node, encoding) && node.inputs[0] == id;
  });
}

constexpr float kMostHalf = 65504;

// f16 has every whole number up to 2048; around a zero point far from it the integers of the library, which are some
// steps off, are nearer.
bool is_counted_in_integers(DataType dtype, std::int32_t zero_point) {
  return (dtype == DataType::UQ16 || dtype == DataType::SQ16) && std::abs(zero_point) > 1024;
}

// A number as an operand beside integers: one step of its scale.
std::int32_t step_of(Lowering &l, DataType dtype, float value) {
  const bool is_signed = dtype == DataType::SQ16 || dtype == DataType::SQ8, wide = element_bytes(dtype) == 2;
  Encoding encoding;
  encoding.scales = {value == 0 ? 1.0f : std::fabs(value)};
  encoding.zero_points = {value < 0 && !is_signed ? 1 : 0};
  const std::int16_t stored = static_cast<std::int16_t>(value == 0 ? 0 : value > 0 ? 1 : is_signed ? -1 : 0);
  const std::int8_t byte = static_cast<std::int8_t>(stored);
  return l.constant("number", dtype, {1}, wide ? static_cast<const void *>(&stored) : &byte, wide ? 2 : 1,
                    std::move(encoding));
}

// As floats first: the library's sums and products of integers are steps off where their scales are far apart.
void quantize_by_steps(Lowering &l, std::int32_t x, const Encoding &by, Encoding steps, std::int32_t id,
                       const Order &order) {
  const DraftTensor from = l.drafted(x);
  const auto step = [&](const char *type, std::initializer_list<std::int32_t> inputs) {
    const std::int32_t made = l.between(from.name, from.dtype, from.dims);
    return l.node(type, inputs, {made}), made;
  };
  const auto number = [&](float value) { return l.constant("number", DataType::F32, {1}, &value, sizeof value); };
  const std::int32_t places = step("ElementWiseRound", {step("ElementWiseMultiply", {x, number(1 / by.scales[0])})});
  const std::int32_t counted = step("ElementWiseAdd", {places, number(static_cast<float>(by.zero_points[0]))});
  const std::int32_t y = l.result(id, order);
  const qir::IntegerRange range = qir::integer_range(l.tensor(id).dtype);
  const std::int32_t clipped = l.between(from.name, from.dtype, from.dims);
  DraftNode &clamp = l.node("ReluMinMax", {counted}, {clipped});
  l.param(clamp, "min_value", static_cast<float>(range.low));
  l.param(clamp, "max_value", static_cast<float>(range.high));
  l.drafted(y).encoding = std::move(steps);
  l.node("Quantize", {clipped}, {y});
}

// The same stored integers by another scale and zero point: (stored - zero) * scale, times a factor, and more. The
// library itself has nothing that reads them in another way, and takes for the same what only casts or reshapes.
std::int32_t reread(Lowering &l, std::int32_t x, DataType dtype, const Encoding &to) {
  const DraftTensor from = l.drafted(x);
  Encoding scaled;
  scaled.scales = to.scales, scaled.zero_points = from.encoding.zero_points;
  const float factor = to.scales[0] / from.encoding.scales[0],
              shift = static_cast<float>(from.encoding.zero_points[0] - to.zero_points[0]) * to.scales[0];
  if (factor != 1) {
    const std::int32_t made = l.between(from.name, dtype, from.dims, scaled);
    l.node("ElementWiseMultiply", {x, step_of(l, dtype, factor)}, {made});
    x = made;
  }
  if (shift != 0) {
    const std::int32_t made = l.between(from.name, dtype, from.dims, to);
    l.node("ElementWiseAdd", {x, step_of(l, dtype, shift)}, {made});
    x = made;
  }
  return x;
}

}  // namespace

Status quantize(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const DataType dtype, fixed_point(l.tensor(node.outputs[0]).dtype));
  QR_ASSIGN_OR_RETURN(Encoding encoding, encoding_at(l, node));
  std::int32_t x = l.stored(node.inputs[0], order);
  if (encoding.scales.size() == 1 && is_dequantized(l.graph(), node.outputs[0]))
    x = saturated(l, x, l.tensor(node.outputs[0]).dtype, encoding);
  else if (l.drafted(x).type == qnn::TensorType::Native) {
    const std::int32_t made = l.between(node.name, l.drafted(x).dtype, l.drafted(x).dims);
    clip_nothing(l, x, made);
    x = made;
  }
  if (is_plain_small(l.tensor(node.outputs[0])) && is_read_as_integers(l.graph(), node.outputs[0], encoding)) {
    const DraftTensor from = l.drafted(x);
    const bool counts = !is_counted_in_integers(dtype, encoding.zero_points[0]) && encoding.scales[0] > 1 / kMostHalf;
    std::int32_t scaled = -1;
    if (!counts || is_dequantized_by(l.graph(), node.outputs[0], encoding)) {
      scaled = l.between(from.name, dtype, from.dims, encoding);
      l.node("Quantize", {x}, {scaled});
      l.has_encoded(node.outputs[0], scaled);
    }
    Encoding steps;
    steps.scales = {1}, steps.zero_points = {0};
    if (counts) quantize_by_steps(l, x, encoding, steps, node.outputs[0], order);
    else l.same_as(node.outputs[0], reread(l, scaled, dtype, steps), order);
    return {};
  }
  const std::int32_t y = l.result(node.outputs[0], order);
  l.drafted(y).dtype = dtype;
  l.drafted(y).encoding = std::move(encoding);
  l.node("Quantize", {x}, {y});
  return {};
}

Status dequantize(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const DataType dtype, fixed_point(l.tensor(node.inputs[0]).dtype));
  QR_ASSIGN_OR_RETURN(Encoding encoding, encoding_at(l, node));
  std::int32_t x = l.stored(node.inputs[0], order);
  const auto is_same = [&](std::int32_t id) {
    const Encoding &own = l.drafted(id).encoding;
    return own.scales == encoding.scales && own.zero_points == encoding.zero_points;
  };
  if (const std::int32_t scaled = l.encoded(node.inputs[0]); scaled >= 0 && is_same(scaled)) x = scaled;
  DraftTensor &from = l.drafted(x);
  const bool same = is_same(x);
  const bool is_given = from.type != qnn::TensorType::Native && from.type != qnn::TensorType::AppRead;
  if (!same && is_given && is_plain_small(l.tensor(node.inputs[0])) && l.users(node.inputs[0]) == 1) {
    // Plain integers from outside: they are given their meaning.
    from.dtype = dtype;
    from.encoding = std::move(encoding);
  } else if (!same && is_plain_small(l.tensor(node.inputs[0])) &&
             is_counted_in_integers(dtype, encoding.zero_points[0])) {
    x = reread(l, x, dtype, encoding);
  } else if (!same && is_plain_small(l.tensor(node.inputs[0]))) {
    const Vector<std::uint32_t> dims = from.dims;
    const std::int32_t counted = l.between(node.name, DataType::F32, dims),
                       moved = l.between(node.name, DataType::F32, dims);
    const float zero = static_cast<float>(encoding.zero_points[0]), scale = encoding.scales[0];
    l.node("Dequantize", {x}, {counted});
    l.node("ElementWiseSubtract", {counted, l.constant("zero point", DataType::F32, {1}, &zero, sizeof zero)}, {moved});
    l.node("ElementWiseMultiply", {moved, l.constant("scale", DataType::F32, {1}, &scale, sizeof scale)},
           {l.result(node.outputs[0], order)});
    return {};
  } else if (dtype == DataType::SQ32 && from.type != qnn::TensorType::Static) {
    return refuse(
        ErrorId::backend_limit,
        format("i32 that only a run knows (%s), expected i8, i16, u8 or u16, or a constant",
               printable(l.tensor(node.inputs[0]).name)),
        "cast it to f32 and multiply that by the scale, where it stays within the 65504 of f16; or dequantise "
        "it before the model");
  } else if (from.encoding.scales.empty() && dtype == DataType::SQ32) {  // i32, which is plain elsewhere
    from.dtype = dtype;
    from.encoding = std::move(encoding);
  } else if (!same) {
    return refuse(ErrorId::backend_limit,
                  "integers of one quantisation are read as those of another, expected the same on both sides");
  }
  l.node("Dequantize", {x}, {l.result(node.outputs[0], order)});
  return {};
}

}  // namespace quarry::htp::rules
