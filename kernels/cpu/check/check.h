// SPDX-License-Identifier: Apache-2.0
// What the check functions share: dimensions of loop nests in checked arithmetic, messages.
#pragma once

#include <string_view>

#include "kernels/cpu/kernel.h"

namespace quarry::kernels {

// Of a tensor, of a nest from its first to its last: so that sums and products of some of them stay in 63 bits.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

Status refuse(std::string_view kernel, std::string_view what, std::int64_t found, std::string_view expected);

// Elements from the first to the last of a nest, inclusive: 1 + sum (dims[i] - 1) * strides[i]; 0 where a dimension is
// 0. False on a negative dimension or stride, or where it exceeds 2^48.
bool nest_extent(const std::int64_t *dims, const std::int64_t *strides, std::size_t rank, std::uint64_t *out) noexcept;

// Bytes of n images of h x w pixels, `stride` elements apart, of which the last has c channels; false where that is
// nothing sensible.
bool image_bytes(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t stride, std::int64_t c,
                 std::uint64_t width, std::uint64_t *out) noexcept;

// A window whose taps and dimensions are positive and within bounds that keep all products in 63 bits.
Status check_window(std::string_view kernel, const Window &window);

bool valid(const Activation &act) noexcept;
Status check_act(std::string_view kernel, const Activation &act);

// Appends an operand.
inline void add(Needs &needs, std::uint64_t bytes, bool written = false) noexcept {
  needs.operand_bytes[needs.operand_count] = bytes;
  needs.written[needs.operand_count++] = written;
}

}  // namespace quarry::kernels
