// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, as multiplications by constant matrices; and Lp norms along axes and in windows.
#include <cmath>
#include <cstring>

#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "base/real/real.h"

namespace quarry::htp::rules {

using qnn::DataType;
using Dims = Vector<std::uint32_t>;

namespace {

constexpr std::int64_t kMostElements = 1 << 24;  // of a matrix that is made here

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

std::optional<std::int64_t> number(Lowering &l, const qir::Node &node, std::size_t input) {
  const Result<Vector<std::int64_t>> values = constant_ints(l, node, input, "a length");
  if (!values.ok() || values.value().size() != 1) return std::nullopt;
  return values.value()[0];
}

struct Transform {
  std::int64_t length = 0, in = 0, out = 0;  // of the transform; samples that are there; frequencies that are wanted
  bool complex_in = false, inverse = false, real_out = false;
};
// Of one half of the frequencies the real samples, [in * 2, out]: the other half is its mirror.
Vector<float> real_matrix_of(const Transform &t) {
  Vector<float> matrix(static_cast<std::size_t>(t.in * 2 * t.out));
  const double turn = 2 * real::acos(-1.0) / static_cast<double>(t.length);
  for (std::int64_t k = 0; k < t.in; ++k) {
    const double factor = (k == 0 || 2 * k == t.length ? 1.0 : 2.0) / static_cast<double>(t.length);
    for (std::int64_t n = 0; n < t.out; ++n) {
      const double angle = turn * static_cast<double>(n * k % t.length);
      matrix[index_of(2 * k * t.out + n)] = static_cast<float>(factor * real::cos(angle));
      matrix[index_of((2 * k + 1) * t.out + n)] = static_cast<float>(-factor * real::sin(angle));
    }
  }
  return matrix;
}
// [in * (1 or 2), out * 2]: real and imaginary parts lie beside each other. `window`: a factor for each sample.
Vector<float> matrix_of(const Transform &t, const float *window) {
  const std::int64_t parts = t.complex_in ? 2 : 1;
  Vector<float> matrix(static_cast<std::size_t>(t.in * parts * t.out * 2));
  const double turn = (t.inverse ? 2 : -2) * real::acos(-1.0) / static_cast<double>(t.length);
  const double scale = t.inverse ? 1.0 / static_cast<double>(t.length) : 1.0;
  for (std::int64_t n = 0; n < t.in; ++n) {
    const double factor = scale * (window ? static_cast<double>(window[n]) : 1.0);
    for (std::int64_t k = 0; k < t.out; ++k) {
      const double angle = turn * static_cast<double>(n * k % t.length);
      const double re = factor * real::cos(angle), im = factor * real::sin(angle);
      float *const from_real = &matrix[index_of((n * parts * t.out + k) * 2)];
      from_real[0] = static_cast<float>(re), from_real[1] = static_cast<float>(im);
      if (!t.complex_in) continue;
      float *const from_imaginary = from_real + t.out * 2;
      from_imaginary[0] = static_cast<float>(-im), from_imaginary[1] = static_cast<float>(re);
    }
  }
  return matrix;
}

Status too_large(const Transform &t) {
  return refuse(
      ErrorId::backend_limit,
      format("a transform of %lld samples to %lld frequencies, expected a matrix of at most 16 million numbers", t.in,
             t.out));
}

bool fits(const Transform &t) {
  std::int64_t count;
  return checked_mul<std::int64_t>(t.in * (t.complex_in ? 2 : 1), t.out * 2, &count) && count <= kMostElements;
}

}  // namespace

// The axis and the parts of its numbers are moved to the end; then it is one matrix multiplication.
Status fourier(Lowering &l, const qir::Node &node) {
  const qir::Shape &shape = l.tensor(node.inputs[0]).shape;
  const std::size_t rank = shape.size();
  std::int64_t axis = static_cast<std::int64_t>(rank) - 2;
  if (node.inputs[2] != qir::kAbsent) {
    const std::optional<std::int64_t> given = number(l, node, 2);
    if (!given) return refuse(ErrorId::backend_limit, "the axis is known only at run time, expected a constant");
    axis = *given < 0 ? *given + static_cast<std::int64_t>(rank) : *given;
  }
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank) - 1 || l.tensor(node.inputs[0]).dtype != DType::F32)
    return refuse(ErrorId::backend_limit, "expected f32 and an axis before the last one");
  const auto at = index_of(axis);
  Transform t;
  t.length = shape[at];
  if (node.inputs[1] != qir::kAbsent) {
    const std::optional<std::int64_t> given = number(l, node, 1);
    if (!given) return refuse(ErrorId::backend_limit, "the length is known only at run time, expected a constant");
    t.length = *given;
  }
  t.in = std::min(t.length, shape[at]), t.out = l.tensor(node.outputs[0]).shape[at];
  t.complex_in = shape.back() == 2, t.inverse = node.get_int("inverse", 0) != 0;
  t.real_out = l.tensor(node.outputs[0]).shape.back() == 1;
  if (t.in != shape[at] ||
      (t.real_out && (!t.inverse || !t.complex_in || t.in != t.length / 2 + 1 || t.out != t.length)))
    return refuse(ErrorId::backend_limit, "a transform of a part of the samples, expected of all");
  if (!fits(t)) return too_large(t);
  Order order;
  for (std::size_t i = 0; i + 1 < rank; ++i)
    if (i != at) order.push_back(static_cast<std::uint8_t>(i));
  order.push_back(static_cast<std::uint8_t>(at)), order.push_back(static_cast<std::uint8_t>(rank - 1));
  const std::int32_t x = l.stored(node.inputs[0], order);
  Dims rows = {1, u32(t.in * shape.back())};
  for (std::size_t i = 0; i + 2 < rank; ++i) rows[0] *= u32(shape[order[i]]);
  const std::int32_t flat = l.between(node.inputs[0], "~rows", rows),
                     product = l.between(node.outputs[0], "~rows", {rows[0], u32(t.out * (t.real_out ? 1 : 2))});
  const Vector<float> matrix = t.real_out ? real_matrix_of(t) : matrix_of(t, nullptr);
  l.node("Reshape", {x}, {flat});
  l.node("MatMul",
         {flat, l.constant(node.name + ".matrix", DataType::F32, {rows[1], l.drafted(product).dims[1]}, matrix.data(),
                           matrix.size() * sizeof(float))},
         {product});
  l.node("Reshape", {product}, {l.result(node.outputs[0], order)});
  return {};
}

// Frames are gathered, and are the rows of the product.
Status short_fourier(Lowering &l, const qir::Node &node) {
  const qir::Shape &shape = l.tensor(node.inputs[0]).shape, &out = l.tensor(node.outputs[0]).shape;
  const std::optional<std::int64_t> step = number(l, node, 1);
  const std::int32_t window_id = node.inputs[2];
  const float *const window = window_id == qir::kAbsent ? nullptr : qir::constant_floats(l.graph(), window_id);
  if (!step || (window_id != qir::kAbsent && !window) || l.tensor(node.inputs[0]).dtype != DType::F32)
    return refuse(ErrorId::backend_limit, "step or window are known only at run time, expected constants and f32 data");
  std::optional<std::int64_t> length;
  if (node.inputs[3] != qir::kAbsent) length = number(l, node, 3);
  else if (window) length = l.tensor(window_id).shape[0];
  if (!length || out.size() != 4) return refuse(ErrorId::backend_limit, "the length of a frame is no constant");
  if (window && l.tensor(window_id).shape[0] != *length)
    return refuse(ErrorId::backend_limit, "a window of another length than the frame, expected the same");
  Transform t;
  t.length = t.in = *length, t.out = out[2], t.complex_in = shape.size() == 3 && shape[2] == 2;
  if (t.complex_in) return refuse(ErrorId::backend_limit, "a complex signal, expected a real one");
  if (!fits(t)) return too_large(t);
  const std::int64_t frames = out[1];
  Vector<std::int32_t> positions;
  for (std::int64_t frame = 0; frame < frames; ++frame)
    for (std::int64_t n = 0; n < *length; ++n) positions.push_back(static_cast<std::int32_t>(frame * *step + n));
  const std::int32_t x = l.natural(node.inputs[0]);
  const std::int32_t signal = l.between(node.inputs[0], "~signal", {u32(shape[0]), u32(shape[1])}),
                     framed = l.between(node.inputs[0], "~frames", {u32(shape[0]), u32(frames), u32(*length)}),
                     rows = l.between(node.inputs[0], "~rows", {u32(shape[0] * frames), u32(*length)}),
                     product = l.between(node.outputs[0], "~rows", {u32(shape[0] * frames), u32(t.out * 2)});
  const Vector<float> matrix = matrix_of(t, window);
  l.node("Reshape", {x}, {signal});
  l.param(l.node("Gather",
                 {signal, l.constant(node.name + ".places", DataType::I32, {u32(frames), u32(*length)},
                                     positions.data(), positions.size() * sizeof(std::int32_t))},
                 {framed}),
          "axis", std::int32_t{1});
  l.node("Reshape", {framed}, {rows});
  l.node("MatMul",
         {rows, l.constant(node.name + ".matrix", DataType::F32, {u32(*length), u32(t.out * 2)}, matrix.data(),
                           matrix.size() * sizeof(float))},
         {product});
  l.node("Reshape", {product}, {l.result(node.outputs[0])});
  return {};
}

Status lp_normalization(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", -1, rank);
  const std::int64_t p = node.get_int("p", 2);
  if (p != 2 && (p != 1 || l.tensor(node.inputs[0]).quant))
    return refuse(ErrorId::backend_limit, format("p %lld, expected 2, or 1 on floats", p));
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order);
  if (p == 2) {
    DraftNode &made = l.node("L2Norm", {x}, {l.result(node.outputs[0], order)});
    l.param(made, "axis", place_of(order, axis));
    l.param(made, "epsilon", 1e-12f);
    return {};
  }
  Dims dims = l.drafted(x).dims;
  const std::int32_t sizes = l.between(node.inputs[0], "~sizes", dims);
  dims[place_of(order, axis)] = 1;
  const std::int32_t sum = l.between(node.inputs[0], "~sum", dims);
  l.node("ElementWiseAbs", {x}, {sizes});
  DraftNode &made = l.node("ReduceSum", {sizes}, {sum});
  l.param(made, "axes", Dims{place_of(order, axis)});
  l.param(made, "keep_dims", true);
  l.node("ElementWiseDivide", {x, sum}, {l.result(node.outputs[0], order)});
  return {};
}

}  // namespace quarry::htp::rules
