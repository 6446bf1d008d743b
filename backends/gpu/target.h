// SPDX-License-Identifier: Apache-2.0
// What a plan may rest on: what its device computes. Every device runs every plan but for f64: what it lacks is
// computed in another way, to the same result, that takes longer.
#pragma once

namespace quarry::gpu {

struct Target {
  bool doubles = false;  // f64
  bool dots = false;     // products of four integers of 8 bits, summed, where that pays
  bool halves = false;   // products of f16 in 16 bits, which its user asked for
};

}  // namespace quarry::gpu
