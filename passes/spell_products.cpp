// SPDX-License-Identifier: Apache-2.0
// Kernels with holes, and matrices that are known before the run.
#include <algorithm>
#include <cstring>

#include "formats/qir/infer.h"
#include "passes/spell.h"

namespace quarry::passes {

using qir::Op;

namespace {

// A kernel with holes is a larger one with zeros in them.
bool dilated_transpose(Speller &s) {
  const qir::Node &node = s.node();
  const qir::Tensor w = s.in(1);
  qir::ConvGeometry g;
  if (!w.is_constant || dtype_bits(w.dtype) % 8 != 0 || w.shape.size() < 3 ||
      !qir::resolve_conv_transpose(node, s.in(0).shape, w.shape, &g).ok())
    return false;
  const std::size_t bytes = dtype_bits(w.dtype) / 8, space = w.shape.size() - 2;
  std::int64_t zero = 0;
  if (w.quant) {
    zero = w.quant->zero_points.empty() ? 0 : w.quant->zero_points[0];
    if (w.quant->block_size != 0 ||
        std::ranges::any_of(w.quant->zero_points, [&](std::int32_t other) { return other != zero; }))
      return false;
  }
  qir::Shape shape = w.shape;
  std::int64_t count = 1, all = 1;
  bool dilated = false, fits = true;
  for (std::size_t i = 0; i < space; ++i) {
    dilated |= g.dilation[i] != 1;
    fits = fits && g.dilation[i] >= 1 && w.shape[i + 2] >= 1 && g.dilation[i] < 1 << 20 && w.shape[i + 2] < 1 << 20;
    if (fits) shape[i + 2] = (w.shape[i + 2] - 1) * g.dilation[i] + 1;
  }
  for (const std::int64_t extent : shape) {
    fits = fits && extent >= 1 && all <= (std::int64_t{1} << 30) / extent;
    if (fits) all *= extent;
  }
  for (const std::int64_t extent : w.shape) count *= extent;
  if (!dilated || !fits) return false;
  Vector<std::uint8_t> holes(static_cast<std::size_t>(all) * bytes);
  if (zero != 0)
    for (std::size_t i = 0; i < static_cast<std::size_t>(all); ++i) std::memcpy(holes.data() + i * bytes, &zero, bytes);
  const auto *const from = static_cast<const std::uint8_t *>(w.data.data);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, at = 0, step = 1;
    for (std::size_t axis = w.shape.size(); axis-- > 0;) {
      const std::int64_t place = rest % w.shape[axis];
      rest /= w.shape[axis];
      at += place * (axis < 2 ? 1 : g.dilation[axis - 2]) * step;
      step *= shape[axis];
    }
    std::memcpy(holes.data() + static_cast<std::size_t>(at) * bytes, from + static_cast<std::size_t>(i) * bytes, bytes);
  }
  qir::Node made = node;
  made.inputs[1] = s.constant_like(w, shape, holes.data(), holes.size());
  made.set("dilations", Vector<std::int64_t>(space, 1));
  made.set("kernel_shape", Vector<std::int64_t>(shape.begin() + 2, shape.end()));
  s.keep(std::move(made));
  return true;
}

// Whatever the tensor holds: only its shape is looked at.
bool eye_like(Speller &s) {
  const qir::Tensor out = s.out();
  if (out.shape.size() != 2 || out.quant) return false;
  Vector<float> ones(static_cast<std::size_t>(out.shape[0] * out.shape[1]));
  const std::int64_t k = s.node().get_int("k", 0);
  for (std::int64_t i = 0; i < out.shape[0]; ++i)
    if (i + k >= 0 && i + k < out.shape[1]) ones[static_cast<std::size_t>(i * out.shape[1] + i + k)] = 1;
  return s.give_constant(ones);
}

// Two axes alone. A place is a sum of what its row and its column give. So first a small product with the corners'
// matrix, of a line (what a row is multiplied by, and what each of the line's columns adds), and then one with the
// rows.
bool affine_grid(Speller &s) {
  const qir::Tensor out = s.out();
  const bool corners = s.node().get_int("align_corners", 0) != 0;
  if (out.shape.size() != 4 || s.in(0).dtype != DType::F32 || s.in(0).quant) return false;
  const std::int64_t batch = out.shape[0], rows = out.shape[1], columns = out.shape[2];
  const auto place = [&](std::int64_t i, std::int64_t extent) {
    const auto n = static_cast<double>(extent), at = static_cast<double>(i);
    if (!corners) return static_cast<float>((2 * at + 1) / n - 1);
    return extent == 1 ? 0.0f : static_cast<float>(2 * at / (n - 1) - 1);
  };
  Vector<float> line, before;
  for (std::int64_t x = 0; x < columns; ++x)
    for (const float value : {0.0f, 1.0f, 0.0f}) line.push_back(value);
  for (std::int64_t x = 0; x < columns; ++x)
    for (const float value : {place(x, columns), 0.0f, 1.0f}) line.push_back(value);
  for (std::int64_t y = 0; y < rows; ++y)
    for (const float value : {place(y, rows), 1.0f}) before.push_back(value);
  const std::int32_t turned = s.transpose(s.node().inputs[0], {0, 2, 1});
  const std::int32_t lines =
      s.of(Op::MatMul, {s.floats({1, 2 * columns, 3}, line), turned}, DType::F32, {batch, 2 * columns, 2});
  const std::int32_t all = s.of(Op::MatMul, {s.floats({1, rows, 2}, before), s.reshape(lines, {batch, 2, 2 * columns})},
                                DType::F32, {batch, rows, 2 * columns});
  s.give(Op::Reshape, {all, s.integers(out.shape)});
  return true;
}

}  // namespace

bool spell_products(Speller &s) {
  switch (s.node().op) {
    case Op::ConvTranspose: return dilated_transpose(s);
    case Op::EyeLike: return eye_like(s);
    case Op::AffineGrid: return affine_grid(s);
    default: return false;
  }
}

}  // namespace quarry::passes
