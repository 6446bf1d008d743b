// SPDX-License-Identifier: Apache-2.0
// What a plan may rest on: what its device computes. Every device runs every plan but for f64: what it lacks is
// computed in another way, to the same result, that takes longer.
#pragma once

#include <cstdint>
#include <span>

namespace quarry::gpu {

// Whether matrix multiplications read what they can as images: no; all; or as measured (option gpu.images, and where it
// is not given: what is known of the device).
enum class Images : std::uint8_t { None, All, Measured };

struct Target {
  bool doubles = false;  // f64
  bool dots = false;     // products of four integers of 8 bits, summed, where that pays
  bool float16 = false;  // products of float16 in 16 bits, which its user asked for
  Images images = Images::None;
  // Convolutions by Winograd's form, in patches of 2 x 2 or 4 x 4 pixels, where it fits: 0, 2 or 4; and per node of the
  // graph that was given, where there is an entry.
  std::int32_t winograd = 0;
  std::span<const std::int32_t> winograd_of = {};
};

}  // namespace quarry::gpu
