// SPDX-License-Identifier: Apache-2.0
// Operators whose shapes come from values: they ask for a size, count what they find, or make tensors out of nothing.
#include <algorithm>
#include <cmath>

#include "graph/infer/rules.h"

namespace quarry::qir {

bool range_count(double start, double limit, double delta, std::int64_t *out) noexcept {
  const double count = std::ceil((limit - start) / delta);
  if (delta == 0 || std::isnan(count) || count > 9.0e18) return false;
  *out = count > 0 ? static_cast<std::int64_t>(count) : 0;
  return true;
}

bool range_count(std::int64_t start, std::int64_t limit, std::int64_t delta, std::int64_t *out) noexcept {
  if (delta == 0) return false;
  *out = 0;
  if (delta > 0 ? start >= limit : start <= limit) return true;
  const std::uint64_t distance = delta > 0 ? static_cast<std::uint64_t>(limit) - static_cast<std::uint64_t>(start)
                                           : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(limit);
  const std::uint64_t step = delta > 0 ? static_cast<std::uint64_t>(delta) : 0 - static_cast<std::uint64_t>(delta);
  const std::uint64_t count = (distance - 1) / step + 1;
  if (count > INT64_MAX) return false;
  *out = static_cast<std::int64_t>(count);
  return true;
}

namespace rules {

Status shape(const Node &node, Inputs inputs, Outputs outputs) {
  const std::int64_t rank = static_cast<std::int64_t>(inputs[0].shape.size());
  const auto clamp = [rank](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? (i < -rank ? 0 : i + rank) : i, 0, rank);
  };
  const std::int64_t start = clamp(node.get_int("start", 0)), end = clamp(node.get_int("end", rank));
  const std::int64_t count = std::max<std::int64_t>(end - start, 0);
  set_output(outputs, 0, DType::I64, {&count, 1});
  return {};
}

Status size(const Node &, Inputs, Outputs outputs) {
  set_output(outputs, 0, DType::I64, {});
  return {};
}

namespace {
// A shape that an input gives: its entries, or as many unknown dimensions as it has entries.
Status shape_from(const Node &node, Inputs inputs, std::size_t i, IntList *out) {
  const Dims list = dims_of(inputs[i]);
  QR_RETURN_IF_ERROR(expect_rank(node, "the shape", list, 1));
  if (!is_known(list[0]) || list[0] > static_cast<std::int64_t>(kMaxRank))
    return node_error(node, ErrorId::qir_rank, "the result has rank %lld, expected at most %zu, known before the run",
                      ll(list[0]), kMaxRank);
  if (inputs[i].value.data) {
    QR_RETURN_IF_ERROR(read_ints(node, i, inputs[i], out));
    for (const std::int64_t d : Dims(*out))
      if (d < 0) return node_error(node, ErrorId::qir_shape, "the shape has a negative entry, %lld", ll(d));
    return {};
  }
  out->size = static_cast<std::uint32_t>(list[0]);
  std::fill_n(out->values, out->size, kUnknownDim);
  return {};
}
}  // namespace

Status constant_of_shape(const Node &node, Inputs inputs, Outputs outputs) {
  IntList shape;
  QR_RETURN_IF_ERROR(shape_from(node, inputs, 0, &shape));
  if (has_input(inputs, 1)) QR_RETURN_IF_ERROR(expect_one_element(node, "the value", inputs[1]));
  set_output(outputs, 0, has_input(inputs, 1) ? real_dtype(inputs[1]) : DType::F32, shape);
  return {};
}

Status range(const Node &node, Inputs inputs, Outputs outputs) {
  static constexpr const char *kNames[] = {"start", "limit", "delta"};
  bool known = true;
  for (std::size_t i = 0; i < 3; ++i) {
    QR_RETURN_IF_ERROR(expect_one_element(node, kNames[i], inputs[i]));
    known &= inputs[i].value.data != nullptr;
  }
  std::int64_t count = kUnknownDim;
  if (known) {
    double numbers[3];
    bool fits = true;
    for (std::size_t i = 0; i < 3; ++i) fits &= number_at(inputs[i], 0, &numbers[i]);
    if (inputs[0].dtype == DType::I64)
      fits = range_count(int_at(inputs[0], 0), int_at(inputs[1], 0), int_at(inputs[2], 0), &count);
    else fits = fits && range_count(numbers[0], numbers[1], numbers[2], &count);
    if (!fits)
      return node_error(node, ErrorId::qir_shape, "from %g to %g by %g is no range with an end", numbers[0], numbers[1],
                        numbers[2]);
  }
  set_output(outputs, 0, real_dtype(inputs[0]), {&count, 1});
  return {};
}

Status eye_like(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_rank(node, "the input", dims_of(inputs[0]), 2));
  DType dtype;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "dtype", real_dtype(inputs[0]), &dtype));
  set_output(outputs, 0, dtype, dims_of(inputs[0]));
  return {};
}

Status non_zero(const Node &, Inputs inputs, Outputs outputs) {
  // numpy takes a scalar for a list of one.
  const std::int64_t shape[] = {std::max<std::int64_t>(static_cast<std::int64_t>(inputs[0].shape.size()), 1),
                                kUnknownDim};
  set_output(outputs, 0, DType::I64, shape);
  return {};
}

Status non_max_suppression(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims boxes = dims_of(inputs[0]), scores = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(expect_rank(node, "boxes", boxes, 3));
  const std::int64_t boxes_shape[] = {boxes[0], boxes[1], 4}, scores_shape[] = {boxes[0], kUnknownDim, boxes[1]};
  QR_RETURN_IF_ERROR(expect_shape(node, "boxes", boxes, boxes_shape));
  QR_RETURN_IF_ERROR(expect_shape(node, "scores", scores, scores_shape));
  static constexpr const char *kNames[] = {"max_output_boxes_per_class", "iou_threshold", "score_threshold"};
  for (std::size_t i = 2; i < 5; ++i)
    if (has_input(inputs, i)) QR_RETURN_IF_ERROR(expect_one_element(node, kNames[i - 2], inputs[i]));
  const std::int64_t shape[] = {kUnknownDim, 3};
  set_output(outputs, 0, DType::I64, shape);
  return {};
}

Status unique(const Node &node, Inputs inputs, Outputs outputs) {
  DimList shape(dims_of(inputs[0]));
  std::int64_t inverse = kUnknownDim;
  if (node.find("axis")) {
    std::size_t axis = 0;
    QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", 0), shape.size, &axis));
    inverse = shape[axis];
    shape.values[axis] = kUnknownDim;
  } else {
    QR_RETURN_IF_ERROR(product(node, shape, &inverse));
    shape.size = 1;
    shape.values[0] = kUnknownDim;
  }
  const std::int64_t found = kUnknownDim;
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  set_output(outputs, 1, DType::I64, {&found, 1});
  set_output(outputs, 2, DType::I64, {&inverse, 1});
  set_output(outputs, 3, DType::I64, {&found, 1});
  return {};
}

Status compress(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]), condition = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(expect_rank(node, "the condition", condition, 1));
  std::int64_t kept = kUnknownDim, extent;
  DimList shape(x);
  std::size_t axis = 0;
  if (node.find("axis")) {
    QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", 0), x.size(), &axis));
    extent = x[axis];
  } else {
    QR_RETURN_IF_ERROR(product(node, x, &extent));
    shape.size = 1;
  }
  if (is_known(extent) && condition[0] > extent)
    return node_error(node, ErrorId::qir_shape, "the condition has %lld entries for %lld elements", ll(condition[0]),
                      ll(extent));
  if (inputs[1].value.data) {
    const char *bits = static_cast<const char *>(inputs[1].value.data);
    kept = std::count_if(bits, bits + condition[0], [](char c) { return c != 0; });
  }
  shape.values[axis] = kept;
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

// ---- signals ------------------------------------------------------------------------------------

Status window(const Node &node, Inputs inputs, Outputs outputs) {
  std::int64_t length = kUnknownDim;
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 0, "size", &length));
  if (inputs[0].value.data && length < 0)
    return node_error(node, ErrorId::qir_shape, "the window is to have %lld samples, expected 0 or more", ll(length));
  DType dtype;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "output_datatype", DType::F32, &dtype));
  set_output(outputs, 0, dtype, {&length, 1});
  return {};
}

Status mel_weight_matrix(const Node &node, Inputs inputs, Outputs outputs) {
  std::int64_t bins = kUnknownDim, length = kUnknownDim;
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 0, "num_mel_bins", &bins));
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 1, "dft_length", &length));
  static constexpr const char *kNames[] = {"sample_rate", "lower_edge_hertz", "upper_edge_hertz"};
  for (std::size_t i = 2; i < 5; ++i) QR_RETURN_IF_ERROR(expect_one_element(node, kNames[i - 2], inputs[i]));
  if ((inputs[0].value.data && bins < 0) || (inputs[1].value.data && length < 0))
    return node_error(node, ErrorId::qir_shape, "num_mel_bins or dft_length is negative");
  DType dtype;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "output_datatype", DType::F32, &dtype));
  const std::int64_t shape[] = {is_known(length) ? length / 2 + 1 : kUnknownDim, bins};
  set_output(outputs, 0, dtype, shape);
  return {};
}

Status dft(const Node &node, Inputs inputs, Outputs outputs) {
  DimList shape(dims_of(inputs[0]));
  QR_RETURN_IF_ERROR(expect_rank_from(node, "the input", shape, 2));
  const std::int64_t parts = shape[shape.size - 1];
  if (is_known(parts) && parts != 1 && parts != 2)
    return node_error(node, ErrorId::qir_shape, "the last axis has size %lld, expected 1 (real) or 2 (complex)",
                      ll(parts));
  const bool inverse = node.get_int("inverse", 0) != 0, onesided = node.get_int("onesided", 0) != 0;
  if (onesided && parts == (inverse ? 1 : 2))
    return node_error(node, ErrorId::qir_shape, "onesided takes %s input, but the last axis has size %lld",
                      inverse ? "complex" : "real", ll(parts));
  std::int64_t given = -2, length = kUnknownDim;
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 2, "axis", &given));
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 1, "dft_length", &length));
  if (value_known(inputs, 1) && length < 1)
    return node_error(node, ErrorId::qir_shape, "dft_length is %lld, expected 1 or more", ll(length));
  if (has_input(inputs, 2) && !value_known(inputs, 2)) {
    std::fill_n(shape.values, shape.size - 1, kUnknownDim);
  } else {
    std::size_t axis = 0;
    QR_RETURN_IF_ERROR(resolve_axis(node, given, shape.size, &axis));
    if (axis + 1 == shape.size)
      return node_error(node, ErrorId::qir_shape,
                        "axis %zu holds the parts of the complex numbers, expected another one", axis);
    const std::int64_t extent = shape[axis];
    if (!has_input(inputs, 1)) length = onesided && inverse && is_known(extent) ? 2 * (extent - 1) : extent;
    shape.values[axis] = onesided && !inverse && is_known(length) ? length / 2 + 1 : length;
  }
  shape.values[shape.size - 1] = onesided && inverse ? 1 : 2;
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status stft(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims signal = dims_of(inputs[0]);
  // Without a last axis a signal is real: ONNX does not speak of it, but PyTorch writes it so.
  const bool has_parts = signal.size() == 3;
  if ((!has_parts && signal.size() != 2) || (has_parts && is_known(signal[2]) && signal[2] != 1 && signal[2] != 2))
    return node_error(node, ErrorId::qir_shape,
                      "the signal has shape %s, expected [batch,length], [batch,length,1] or [batch,length,2]",
                      text(signal));
  std::int64_t step = kUnknownDim, length = kUnknownDim;
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 1, "frame_step", &step));
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 3, "frame_length", &length));
  if (value_known(inputs, 1) && step < 1)
    return node_error(node, ErrorId::qir_shape, "frame_step is %lld, expected 1 or more", ll(step));
  if (has_input(inputs, 2)) {
    QR_RETURN_IF_ERROR(expect_rank(node, "the window", dims_of(inputs[2]), 1));
    if (!may_equal(length, inputs[2].shape[0]))
      return node_error(node, ErrorId::qir_shape, "the window has %lld samples, expected frame_length, %lld",
                        ll(inputs[2].shape[0]), ll(length));
    length = known_of(length, inputs[2].shape[0]);
  } else if (!has_input(inputs, 3)) {
    length = signal[1];
  }
  if ((is_known(length) || value_known(inputs, 3)) && (length < 1 || (is_known(signal[1]) && length > signal[1])))
    return node_error(node, ErrorId::qir_shape, "a frame has %lld samples, expected 1 to the signal's %lld", ll(length),
                      ll(signal[1]));
  const bool onesided = node.get_int("onesided", 1) != 0;
  if (onesided && has_parts && signal[2] == 2)
    return node_error(node, ErrorId::qir_shape, "onesided takes a real signal, but this one is complex");
  const bool known = is_known(signal[1]) && is_known(length) && is_known(step);
  const std::int64_t shape[] = {signal[0], known ? (signal[1] - length) / step + 1 : kUnknownDim,
                                is_known(length) && onesided ? length / 2 + 1 : length, 2};
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

// ---- random numbers -----------------------------------------------------------------------------

Status bernoulli(const Node &node, Inputs inputs, Outputs outputs) { return random_like(node, inputs, outputs); }

Status random_like(const Node &node, Inputs inputs, Outputs outputs) {
  DType dtype;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "dtype", real_dtype(inputs[0]), &dtype));
  set_output(outputs, 0, dtype, dims_of(inputs[0]));
  return {};
}

Status random(const Node &node, Inputs, Outputs outputs) {
  DType dtype;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "dtype", DType::F32, &dtype));
  const Vector<std::int64_t> *shape = node.get_ints("shape");
  if (shape->size() > kMaxRank || std::any_of(shape->begin(), shape->end(), [](std::int64_t d) { return d < 0; }))
    return node_error(node, ErrorId::qir_attribute, "attribute 'shape' is %s, expected at most %zu sizes", text(*shape),
                      kMaxRank);
  set_output(outputs, 0, dtype, {shape->data(), shape->size()});
  return {};
}

Status multinomial(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_rank(node, "the input", dims_of(inputs[0]), 2));
  DType dtype;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "dtype", DType::I32, &dtype));
  const std::int64_t samples = node.get_int("sample_size", 1);
  if (samples < 1)
    return node_error(node, ErrorId::qir_attribute, "attribute 'sample_size' is %lld, expected 1 or more", ll(samples));
  const std::int64_t shape[] = {inputs[0].shape[0], samples};
  set_output(outputs, 0, dtype, shape);
  return {};
}

}  // namespace rules
}  // namespace quarry::qir
