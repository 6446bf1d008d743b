// SPDX-License-Identifier: Apache-2.0
// Instruction sets: the sources of the families are compiled once for each (QR_ISA names the namespace), and each gives
// one of these.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/processor/amx.h"

namespace quarry::kernels {

struct Isa {
  const char *name;           // "avx2": stands in blobs
  const char *features;       // what a processor must have, for messages: "AVX2, FMA, F16C"
  bool (*usable)() noexcept;  // on this processor
  // Shapes of packed weights.
  std::uint32_t f32_lanes;  // elements of a vector
  std::uint32_t f32_panel;  // vectors of output channels in the widest tile of ConvF32
  std::uint32_t
      int_group;    // input channels that lie together in packed integer weights: 4 (dot products of bytes) or 2
  bool splits_f32;  // whether there is ConvAlgorithm::Split
  bool byte_pairs;  // whether there is a product of pairs of bytes whose sum saturates at 16 bits (IntForm)
  Run run[kKernelCount];
};

// Best first; only those this library was built with. The last runs everywhere.
std::span<const Isa *const> isas() noexcept;
const Isa &best_isa() noexcept;                       // the first usable one
const Isa *find_isa(std::string_view name) noexcept;  // usable or not

// Whether this processor runs what is compiled for an instruction set; the conditions of meson.build. (x86-64 has a
// builtin for it.)
#if defined(__aarch64__)
bool has_dotprod() noexcept;
#endif

}  // namespace quarry::kernels
