// SPDX-License-Identifier: Apache-2.0
// Kernels with holes, and matrices that are known before the run.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "graph/infer/infer.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::Op;

namespace {

// Of a tensor that is made here: no small model becomes a large one.
constexpr std::int64_t kMostElements = std::int64_t{1} << 22;

// The elements of `w`, as far apart as the dilations say in a kernel of `shape` that is else full of `zero`.
Vector<std::uint8_t> with_holes(const qir::Tensor &w, const qir::ConvGeometry &g, const qir::Shape &shape,
                                std::int64_t zero) {
  const std::size_t bytes = dtype_bits(w.dtype) / 8;
  const std::int64_t all = elements(shape), count = elements(w.shape);
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
    std::memcpy(holes.data() + index_of(at) * bytes, from + index_of(i) * bytes, bytes);
  }
  return holes;
}

// A kernel with holes is a larger one with zeros in them; and what is asked for beyond the kernel's reach (by
// output_padding or output_shape) is what one reaches that has zeros at its end.
bool wider_transpose(Decomposer &s) {
  const qir::Node &node = s.node();
  const qir::Tensor w = s.in(1);
  qir::ConvGeometry g;
  if (!w.is_constant || dtype_bits(w.dtype) % 8 != 0 || w.shape.size() < 3 ||
      !qir::resolve_conv_transpose(node, s.in(0).shape, w.shape, &g).ok())
    return false;
  const std::size_t space = w.shape.size() - 2;
  std::int64_t zero = 0;
  if (w.quant) {
    zero = w.quant->zero_points.empty() ? 0 : w.quant->zero_points[0];
    if (w.quant->block_size != 0 ||
        std::ranges::any_of(w.quant->zero_points, [&](std::int32_t other) { return other != zero; }))
      return false;
  }
  qir::Shape shape = w.shape;
  Vector<std::int64_t> pads(2 * space);
  std::int64_t count = 1, all = 1;
  bool differs = false, fits = true;
  constexpr std::int64_t kMostExtent = 1 << 20;
  for (std::size_t i = 0; i < space; ++i) {
    for (const std::int64_t extent : {g.in[i], g.out[i], g.kernel[i], g.stride[i], g.dilation[i]})
      fits = fits && extent >= 1 && extent < kMostExtent;
    fits = fits && g.pad_begin[i] >= 0 && g.pad_begin[i] < kMostExtent;
    if (!fits) return false;
    shape[i + 2] = (g.kernel[i] - 1) * g.dilation[i] + 1;
    const std::int64_t behind = (g.in[i] - 1) * g.stride[i] + shape[i + 2] - g.pad_begin[i] - g.out[i];
    if (behind < 0) shape[i + 2] -= behind;
    pads[i] = g.pad_begin[i], pads[space + i] = std::max<std::int64_t>(behind, 0);
    differs = differs || g.dilation[i] != 1 || behind < 0;
  }
  for (const std::int64_t extent : shape) {
    fits = fits && extent >= 1 && all <= (std::int64_t{1} << 30) / extent;
    if (fits) all *= extent;
  }
  for (const std::int64_t extent : w.shape) count *= extent;
  if (!differs || !fits || (all > kMostElements && all / 64 > count)) return false;
  const Vector<std::uint8_t> holes = with_holes(w, g, shape, zero);
  qir::Node made = node;
  made.inputs.set(1, s.constant_like(w, shape, holes.data(), holes.size()));
  made.set("dilations", Vector<std::int64_t>(space, 1));
  made.set("kernel_shape", Vector<std::int64_t>(shape.begin() + 2, shape.end()));
  std::erase_if(made.attributes, [](const qir::Attribute &one) {
    return one.name == "auto_pad" || one.name == "output_padding" || one.name == "output_shape";
  });
  made.set("pads", std::move(pads));
  s.keep(std::move(made));
  return true;
}

// What lies in columns is added up where it belongs: a ConvTranspose whose kernels have one 1 each.
bool col2im(Decomposer &s) {
  const qir::Shape x = s.in(0).shape, out = s.out().shape;
  const std::int32_t block_id = s.node().inputs[2];
  if (s.in(0).dtype != DType::F32 || s.in(0).quant || x.size() != 3 || out.size() < 3 ||
      !s.tensor(block_id).is_constant)
    return false;
  const std::size_t space = out.size() - 2;
  const std::optional<Vector<std::int64_t>> block = constant_integers(s, 2);
  qir::Window w;
  const qir::Shape image(out.begin() + 2, out.end());
  if (!block || block->size() != space || !qir::resolve_col2im(s.node(), x, image, *block, &w).ok()) return false;
  const std::int64_t channels = out[1];
  qir::Shape columns{x[0], x[1]}, kernel{x[1], 1};
  Vector<std::int64_t> pads(2 * space), strides;
  std::int64_t places = 1, positions = 1;
  constexpr std::int64_t kMostExtent = 1 << 20;
  for (std::size_t i = 0; i < space; ++i) {
    for (const std::int64_t extent : {w.in[i], w.out[i], w.kernel[i], w.stride[i], w.dilation[i]})
      if (extent < 1 || extent > kMostExtent) return false;
    if (w.pad_begin[i] < 0 || w.pad_begin[i] > kMostExtent) return false;
    std::int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
    const std::int64_t behind = (w.out[i] - 1) * w.stride[i] + reach - w.pad_begin[i] - w.in[i];
    if (behind < 0) reach -= behind;
    pads[i] = w.pad_begin[i], pads[space + i] = std::max<std::int64_t>(behind, 0);
    columns.push_back(w.out[i]), kernel.push_back(reach), strides.push_back(w.stride[i]);
    if (!checked_mul(places, w.kernel[i], &places) || !checked_mul(positions, w.out[i], &positions)) return false;
  }
  const auto count = element_count(kernel.data(), kernel.size());
  if (!count || *count > kMostElements || x[1] != channels * places || x[2] != positions) return false;
  Vector<float> ones(static_cast<std::size_t>(*count));
  const std::int64_t each = *count / x[1];
  for (std::int64_t row = 0; row < x[1]; ++row) {
    std::int64_t rest = row % places, at = 0, step = 1;
    for (std::size_t i = space; i-- > 0;) {
      at += rest % w.kernel[i] * w.dilation[i] * step;
      rest /= w.kernel[i], step *= kernel[i + 2];
    }
    ones[index_of(row * each + at)] = 1;
  }
  const std::int32_t columns_id = s.reshape(s.node().inputs[0], columns);
  qir::Node &made = s.give(Op::ConvTranspose, {columns_id, s.floats(kernel, ones)});
  made.set("group", channels);
  made.set("strides", std::move(strides));
  made.set("pads", std::move(pads));
  made.set("dilations", Vector<std::int64_t>(space, 1));
  made.set("kernel_shape", Vector<std::int64_t>(kernel.begin() + 2, kernel.end()));
  return true;
}

// Whatever the tensor holds: only its shape is looked at.
bool eye_like(Decomposer &s) {
  const qir::Tensor out = s.out();
  if (out.shape.size() != 2 || out.quant || elements(out.shape) > kMostElements) return false;
  Vector<float> ones(static_cast<std::size_t>(out.shape[0] * out.shape[1]));
  const std::int64_t k = std::clamp(s.node().get_int("k", 0), -out.shape[0], out.shape[1]);
  for (std::int64_t i = 0; i < out.shape[0]; ++i)
    if (i + k >= 0 && i + k < out.shape[1]) ones[index_of(i * out.shape[1] + i + k)] = 1;
  return s.give_constant(ones);
}

// Two axes alone. A place is the sum of what its row and its column give.
bool affine_grid(Decomposer &s) {
  const qir::Tensor out = s.out();
  const bool corners = s.node().get_int("align_corners", 0) != 0;
  if (out.shape.size() != 4 || s.in(0).dtype != DType::F32 || s.in(0).quant) return false;
  const std::int64_t batch = out.shape[0], rows = out.shape[1], columns = out.shape[2];
  if (rows > kMostElements || columns > kMostElements) return false;
  const auto place = [&](std::int64_t i, std::int64_t extent) {
    const auto n = static_cast<double>(extent), at = static_cast<double>(i);
    if (!corners) return static_cast<float>((2 * at + 1) / n - 1);
    return extent == 1 ? 0.0f : static_cast<float>(2 * at / (n - 1) - 1);
  };
  // The last column + the first * x + the second * y, as the operator adds them. Not products with a matrix of 0 and 1:
  // an infinity of one column would be NaN in all results.
  Vector<float> xs, ys;
  for (std::int64_t x = 0; x < columns; ++x) xs.push_back(place(x, columns));
  for (std::int64_t y = 0; y < rows; ++y) ys.push_back(place(y, rows));
  const qir::Shape each = {batch, 1, 1, 2}, along = {batch, 1, columns, 2}, down = {batch, rows, 1, 2};
  const auto column = [&](std::int64_t i) { return s.reshape(s.slice(s.node().inputs[0], 2, i, i + 1, 1), each); };
  const std::int32_t from_x = s.of(Op::Mul, {column(0), s.floats({1, 1, columns, 1}, xs)}, DType::F32, along);
  const std::int32_t from_y = s.of(Op::Mul, {column(1), s.floats({1, rows, 1, 1}, ys)}, DType::F32, down);
  s.give(Op::Add, {s.of(Op::Add, {column(2), from_x}, DType::F32, along), from_y});
  return true;
}

// Every row of A beside every row of B: the differences, [M, N, K], are reduced over K.
bool distances(Decomposer &s) {
  const qir::Shape a = s.in(0).shape, b = s.in(1).shape;
  const qir::Shape all{a[0], b[0], a[1]};
  if (s.in(0).quant || s.in(1).quant || elements(all) > kMostElements) return false;
  const std::int32_t left = s.reshape(s.node().inputs[0], {a[0], 1, a[1]}),
                     right = s.reshape(s.node().inputs[1], {1, b[0], b[1]});
  const bool root = s.node().get_string("metric", "sqeuclidean") == "euclidean";
  const std::int32_t differences = s.of(Op::Sub, {left, right}, s.in(0).dtype, all);
  s.give(root ? Op::ReduceL2 : Op::ReduceSumSquare, {differences, s.integers(Vector<std::int64_t>{2})})
      .set("keepdims", std::int64_t{0});
  return true;
}

}  // namespace

bool decompose_contractions(Decomposer &s) {
  switch (s.node().op) {
    case Op::CDist: return distances(s);
    case Op::Col2Im: return col2im(s);
    case Op::ConvTranspose: return wider_transpose(s);
    case Op::EyeLike: return eye_like(s);
    case Op::AffineGrid: return affine_grid(s);
    default: return false;
  }
}

}  // namespace quarry::passes
