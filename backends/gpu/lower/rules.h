// SPDX-License-Identifier: Apache-2.0
// The rules that operators.inc names, one file a family.
#pragma once

#include "backends/gpu/lower/lowering.h"
#include "graph/infer/infer.h"

namespace quarry::gpu {

Status lower_rewritten(Lowering &l, const qir::Node &node);    // what no pass could decompose
Status lower_late(Lowering &l, const qir::Node &node);         // results of data-dependent shapes (dynamic_region.h)
Status lower_elementwise(Lowering &l, const qir::Node &node);  // element_code.cpp
Status lower_view(Lowering &l, const qir::Node &node);         // movement.cpp, and so on
Status lower_tile(Lowering &l, const qir::Node &node);
Status lower_concat(Lowering &l, const qir::Node &node);
Status lower_blocks(Lowering &l, const qir::Node &node);
Status lower_gather(Lowering &l, const qir::Node &node);
Status lower_gather_nd(Lowering &l, const qir::Node &node);
Status lower_scatter(Lowering &l, const qir::Node &node);  // indexing.cpp
Status lower_roi_align(Lowering &l, const qir::Node &node);
Status lower_pad(Lowering &l, const qir::Node &node);
Status lower_coordinates(Lowering &l, const qir::Node &node);
Status lower_conv(Lowering &l, const qir::Node &node);  // contraction.cpp
Status lower_matmul(Lowering &l, const qir::Node &node);
Status lower_gemm(Lowering &l, const qir::Node &node);
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
Status lower_pool(Lowering &l, const qir::Node &node);  // resize.cpp
Status lower_lrn(Lowering &l, const qir::Node &node);
Status lower_grid_sample(Lowering &l, const qir::Node &node);
Status lower_resize(Lowering &l, const qir::Node &node);
Status lower_reduce(Lowering &l, const qir::Node &node);  // axis_scans.cpp
Status lower_dynamic_quantize(Lowering &l, const qir::Node &node);
Status lower_arg_reduce(Lowering &l, const qir::Node &node);
Status lower_scan(Lowering &l, const qir::Node &node);
Status lower_lp_normalization(Lowering &l, const qir::Node &node);
Status lower_top_k(Lowering &l, const qir::Node &node);
Status lower_softmax(Lowering &l, const qir::Node &node);
Status lower_normalize(Lowering &l, const qir::Node &node);

}  // namespace quarry::gpu
