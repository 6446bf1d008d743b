// SPDX-License-Identifier: Apache-2.0
// The rules that operators.inc names, one file a family.
#pragma once

#include "backends/gpu/lower/lowering.h"
#include "graph/infer/infer.h"

namespace quarry::gpu {

#define QR_GPU_OPERATOR(op, rule, types, refuses, remark) Status rule(Lowering &l, const qir::Node &node);
#include "backends/gpu/lower/operators.inc"
#undef QR_GPU_OPERATOR

// The field CHECKED of kernels that read indices.
inline std::int64_t checked(const Lowering &l) { return l.checks_indices() ? 1 : 0; }
// Whether a view of a contraction's result can be walked as [..., pixels].
struct Reshapes {
  const Dims &dims;
  bool operator()(const View &v) const { return strided::reshaped(v, dims).has_value(); }
};
// The tile of a matrix multiplication of so many rows and columns, for any device.
TileParams tile_of(std::int64_t rows, std::int64_t columns);
// The window of a pool or a convolution over x: three axes of space, of which those that are not there have one
// element.
template <class Geometry>
WindowParams window_of(const Geometry &g, const View &x) {
  WindowParams w;
  for (std::uint32_t i = 0; i < 3; ++i) w.IN[i] = w.OUT[i] = w.KERNEL[i] = w.STRIDE[i] = w.DILATION[i] = 1;
  for (std::uint32_t i = 0; i < g.rank; ++i) {
    const std::size_t to = 3 - g.rank + i;
    w.IN[to] = g.in[i], w.X[to] = x.strides[2 + i], w.OUT[to] = g.out[i], w.KERNEL[to] = g.kernel[i];
    w.STRIDE[to] = g.stride[i], w.DILATION[to] = g.dilation[i], w.PAD[to] = g.pad_begin[i];
  }
  return w;
}
// winograd.cpp: the patches' pixels along an axis where a convolution goes by Winograd's form, else 0; and its
// steps.
std::int64_t winograd_step(const Lowering &l, const qir::Node &node, const qir::ConvGeometry &c);
Status emit_winograd(Lowering &l, const qir::Node &node, const qir::ConvGeometry &c, std::int64_t step,
                     const Dims &dims, const FusedExpression &elements);

}  // namespace quarry::gpu
