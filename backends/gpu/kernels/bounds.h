// SPDX-License-Identifier: Apache-2.0
// What each kernel's fields imply: which elements it touches, and how many work items it wants. Fields are not trusted.
#pragma once

#include "backends/gpu/kernels/kernel.h"

namespace quarry::gpu {

struct WindowParams;

// The functions that rows of kernels.inc name: bounds.cpp, those of tiles in bounds_tiles.cpp.
#define QR_GPU_KERNEL(name, file, base, value, inner, fields, bounds) Status bounds(const Form &form, Bounds &out);
#include "backends/gpu/kernels/kernels.inc"
#undef QR_GPU_KERNEL

// What windows of an image may touch of operand 0.
Status window_bounds(const Form &form, Bounds &out, const WindowParams &w);

// Channels that a work item of `conv` computes, where weights are packed; columns of a panel of packed weights.
inline constexpr std::int64_t kTile = 8, kPanel = 16;
inline constexpr std::int64_t kMostInGroup = 64;  // work items; every device has so many
// Of a row of so many elements: one work item, or a group of them where it is long.
constexpr std::int64_t lanes_for(std::int64_t length) { return length >= 4 * kMostInGroup ? kMostInGroup : 1; }

}  // namespace quarry::gpu
