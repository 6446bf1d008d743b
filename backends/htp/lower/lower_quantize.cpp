// SPDX-License-Identifier: Apache-2.0
// Where quantised and float parts meet. The integers on the quantised side have the node's own scale and zero point,
// whatever the type of the model's tensor says of them.
#include <algorithm>

#include "backends/htp/lower/rules.h"
#include "formats/qir/quantization.h"

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

}  // namespace

Status quantize(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const DataType dtype, fixed_point(l.tensor(node.outputs[0]).dtype));
  QR_ASSIGN_OR_RETURN(Encoding encoding, encoding_at(l, node));
  std::int32_t x = l.stored(node.inputs[0], order);
  if (encoding.scales.size() == 1 && is_dequantized(l.graph(), node.outputs[0]))
    x = saturated(l, x, l.tensor(node.outputs[0]).dtype, encoding);
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
  const std::int32_t x = l.stored(node.inputs[0], order);
  DraftTensor &from = l.drafted(x);
  const bool same = from.encoding.scales == encoding.scales && from.encoding.zero_points == encoding.zero_points;
  if (!same && from.type != qnn::TensorType::Native && is_plain_small(l.tensor(node.inputs[0])) &&
      l.users(node.inputs[0]) == 1) {
    // Plain integers from outside: they are given their meaning.
    from.dtype = dtype;
    from.encoding = std::move(encoding);
  } else if (!same && is_plain_small(l.tensor(node.inputs[0])) && encoding.scales.size() == 1) {
    const Vector<std::uint32_t> dims = from.dims;
    const std::int32_t counted = l.between(node.name, DataType::F32, dims),
                       moved = l.between(node.name, DataType::F32, dims);
    const float zero = static_cast<float>(encoding.zero_points[0]), scale = encoding.scales[0];
    l.node("Dequantize", {x}, {counted});
    l.node("ElementWiseSubtract", {counted, l.constant("zero point", DataType::F32, {1}, &zero, sizeof zero)}, {moved});
    l.node("ElementWiseMultiply", {moved, l.constant("scale", DataType::F32, {1}, &scale, sizeof scale)},
           {l.result(node.outputs[0], order)});
    return {};
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
