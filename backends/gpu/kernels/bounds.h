// SPDX-License-Identifier: Apache-2.0
// What each kernel's fields imply: which elements it touches, and how many work items it wants. Fields are not trusted.
#pragma once

#include "backends/gpu/kernels/kernel.h"

namespace quarry::gpu {

struct WindowParams;

Status bounds_elementwise(const Form &form, Bounds &out);
Status bounds_matmul(const Form &form, Bounds &out);
Status bounds_matmul_tile(const Form &form, Bounds &out);  // bounds_tiles.cpp
Status bounds_conv_tile(const Form &form, Bounds &out);
Status bounds_winograd_input(const Form &form, Bounds &out);
Status bounds_winograd_output(const Form &form, Bounds &out);
Status bounds_conv_dot(const Form &form, Bounds &out);
Status bounds_matmul_dot(const Form &form, Bounds &out);
Status bounds_conv(const Form &form, Bounds &out);
Status bounds_conv_integer(const Form &form, Bounds &out);
Status bounds_matmul_integer(const Form &form, Bounds &out);
Status bounds_conv_transpose(const Form &form, Bounds &out);
Status bounds_pool(const Form &form, Bounds &out);
Status bounds_reduce(const Form &form, Bounds &out);
Status bounds_arg_reduce(const Form &form, Bounds &out);
Status bounds_softmax(const Form &form, Bounds &out);
Status bounds_normalize(const Form &form, Bounds &out);
Status bounds_gather(const Form &form, Bounds &out);
Status bounds_gather_nd(const Form &form, Bounds &out);
Status bounds_scatter(const Form &form, Bounds &out);
Status bounds_scatter_winner(const Form &form, Bounds &out);
Status bounds_scatter_take(const Form &form, Bounds &out);
Status bounds_roi_align(const Form &form, Bounds &out);
Status bounds_pad(const Form &form, Bounds &out);
Status bounds_resize(const Form &form, Bounds &out);
Status bounds_lrn(const Form &form, Bounds &out);
Status bounds_rank(const Form &form, Bounds &out);
Status bounds_grid_sample(const Form &form, Bounds &out);
Status bounds_scan(const Form &form, Bounds &out);

// What windows of an image may touch of operand 0.
Status window_bounds(const Form &form, Bounds &out, const WindowParams &w);

// Channels that a work item of `conv` computes, where weights are packed; columns of a panel of packed weights.
inline constexpr std::int64_t kTile = 8, kPanel = 16;
inline constexpr std::int64_t kMostInGroup = 64;  // work items; every device has so many
// Of a line of so many elements: one work item, or a group of them where it is long.
constexpr std::int64_t lanes_for(std::int64_t length) { return length >= 4 * kMostInGroup ? kMostInGroup : 1; }

}  // namespace quarry::gpu
