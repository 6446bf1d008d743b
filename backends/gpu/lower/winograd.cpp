// SPDX-License-Identifier: Apache-2.0
// Convolutions by Winograd's form: patches of the image and filters become numbers, whose products are fewer than those
// of the window, and these become pixels again (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks).
#include <cmath>

#include "backends/gpu/kernels/bounds.h"
#include "backends/gpu/lower/lowering.h"
#include "backends/gpu/lower/rules.h"
#include "graph/infer/infer.h"

namespace quarry::gpu {

namespace {

constexpr double kTwo[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
constexpr double kFour[6][3] = {{1.0 / 4, 0, 0},
                                {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                {0, 0, 1}};

// A filter of 3 x 3 with its columns turned: [number][x].
void turn_columns(const double (*rows)[3], std::int64_t side, const float *filter, double (*to)[3]) {
  for (std::int64_t i = 0; i < side; ++i)
    for (int x = 0; x < 3; ++x) {
      to[i][x] = 0;
      for (int y = 0; y < 3; ++y) to[i][x] += rows[i][y] * static_cast<double>(filter[y * 3 + x]);
    }
}

double dot_of_three(const double *a, const double *b) {
  double sum = 0;
  for (int x = 0; x < 3; ++x) sum += a[x] * b[x];
  return sum;
}

// Filters [M, C, 3, 3] as [number][M][C].
qir::Bytes turned_filters(Lowering &l, const float *from, std::int64_t filters, std::int64_t step) {
  const auto *const rows = step == 2 ? kTwo : kFour;
  const std::int64_t side = step + 2;
  const auto bytes = static_cast<std::uint64_t>(side * side * filters) * sizeof(float);
  auto *const to = static_cast<float *>(l.store().allocate(bytes));
  for (std::int64_t f = 0; f < filters; ++f) {
    double half_way[6][3];
    turn_columns(rows, side, from + f * 9, half_way);
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t j = 0; j < side; ++j)
        to[(i * side + j) * filters + f] = static_cast<float>(dot_of_three(half_way[i], rows[j]));
  }
  return {to, bytes};
}

}  // namespace

std::int64_t winograd_step(const Lowering &l, const qir::Node &node, const qir::ConvGeometry &c) {
  const Target &target = l.target();
  const auto source = index_of(node.source);
  const std::int64_t step =
      node.source >= 0 && source < target.winograd_of.size() ? target.winograd_of[source] : target.winograd;
  const qir::Tensor &weights = l.tensor(node.inputs[1]);
  if ((step != 2 && step != 4) || node.op != qir::Op::Conv || !weights.is_constant || weights.quant ||
      weights.dtype != DType::F32 || l.dtype(node.inputs[0]) != DType::F32 || c.rank != 2 || c.group != 1)
    return 0;
  for (int i = 0; i < 2; ++i)
    if (c.kernel[i] != 3 || c.stride[i] != 1 || c.dilation[i] != 1 || c.pad_begin[i] < 0 || c.pad_begin[i] > 2)
      return 0;
  // What comes of an image's numbers can be repaired (winograd_output.cl), what comes of filters cannot.
  const auto *const w = static_cast<const float *>(weights.data.data);
  constexpr float kMost = 1e30f;
  for (std::uint64_t i = 0; i < weights.data.size / sizeof(float); ++i)
    if (!(std::fabs(w[i]) < kMost)) return 0;
  return step;
}

Status emit_winograd(Lowering &l, const qir::Node &node, const qir::ConvGeometry &c, std::int64_t step,
                     const Dims &dims, const FusedExpression &elements) {
  const View &x = l.view(node.inputs[0]);
  const std::int64_t side = step + 2, numbers = side * side, channels = c.in_channels, filters = c.out_channels,
                     down = (c.out[0] + step - 1) / step, across = (c.out[1] + step - 1) / step,
                     patches = c.batch * down * across, panels = (patches + kPanel - 1) / kPanel;
  const View patched = l.between({numbers, panels, channels, kPanel}, DType::F32),
             multiplied = l.between({numbers, filters, patches}, DType::F32);
  const qir::Bytes turned =
      turned_filters(l, static_cast<const float *>(l.tensor(node.inputs[1]).data.data), filters * channels, step);
  const View w = l.constant(turned, {numbers, filters, channels});
  {
    const Dims nest{c.batch, channels, down * across};
    const Arg base[] = {{{x.value, x.offset, nest, {x.strides[0], x.strides[1], 0}}, DType::F32}};
    const WindowParams window{.IN = {1, c.in[0], c.in[1]},
                              .X = {0, x.strides[2], x.strides[3]},
                              .OUT = {1, down, across},
                              .KERNEL = {1, side, side},
                              .STRIDE = {1, step, step},
                              .DILATION = {1, 1, 1},
                              .PAD = {0, c.pad_begin[0], c.pad_begin[1]}};
    QR_RETURN_IF_ERROR(l.emit(WinogradInputParams{.window = window}, nest, base, {},
                              {{patched.value, patched.offset, nest, Dims(3, 0)}, DType::F32}));
  }
  {
    const Dims nest{numbers, filters, patches};
    const Arg base[] = {{{w.value, w.offset, nest, {filters * channels, channels, 0}}, DType::F32},
                        {{patched.value, patched.offset, nest, {panels * channels * kPanel, 0, 0}}, DType::F32}};
    FusedExpression none;
    const MatMulTileParams p{
        .K = channels, .A_K = 1, .B_K = kPanel, .PANEL = kPanel, .tile = tile_of(filters, patches)};
    QR_RETURN_IF_ERROR(l.emit(p, nest, base, none, {multiplied, DType::F32}));
  }
  const WinogradOutputParams p{.STEP = step,
                               .OUT = {c.out[0], c.out[1]},
                               .PATCHES = {down, across},
                               .CHANNELS = channels,
                               .X_CHANNEL = x.strides[1],
                               .IN = {c.in[0], c.in[1]},
                               .X = {x.strides[2], x.strides[3]},
                               .PAD = {c.pad_begin[0], c.pad_begin[1]}};
  Dims images(dims.size(), 0);
  images[0] = x.strides[0];
  const Arg base[] = {{{multiplied.value, multiplied.offset, dims, Dims(dims.size(), 0)}, DType::F32},
                      {{x.value, x.offset, dims, images}, DType::F32},
                      {{w.value, w.offset, dims, Dims(dims.size(), 0)}, DType::F32}};
  return l.emit(p, dims, base, elements, {l.result(elements.result), l.dtype(elements.result)});
}

}  // namespace quarry::gpu
