// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set, and the shapes of its packed weights.
#pragma once

#include "kernels/cpu/vector/vec.h"

// An instruction set that stands on another has its own of some kernels, and the other's of the rest (isa_table.cpp).
#if defined(QR_ISA_BASE)
namespace quarry::kernels::QR_ISA_BASE {
#define QR_KERNEL(enumerator, number, parameters, operands, own) void run_##enumerator(const Call &call);
#include "kernels/cpu/kernels.inc"
#undef QR_KERNEL
}  // namespace quarry::kernels::QR_ISA_BASE
#endif

namespace quarry::kernels::QR_ISA {

#define QR_KERNEL(enumerator, number, parameters, operands, own) void run_##enumerator(const Call &call);
#include "kernels/cpu/kernels.inc"
#undef QR_KERNEL

// Vectors of output channels in the widest tile: with 32 registers 4, else 2.
#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__aarch64__)
inline constexpr int kF32Panel = 4;
#else
inline constexpr int kF32Panel = 2;
#endif
// Input channels that lie together in packed integer weights: 4 where there is a dot product of four bytes, else 2.
#if defined(__AVX512VNNI__) || defined(__ARM_FEATURE_DOTPROD)
inline constexpr int kIntGroup = 4;
#else
inline constexpr int kIntGroup = 2;
#endif

#if defined(QR_ISA_BASE)
inline constexpr bool kSplitsF32 = true;
#else
inline constexpr bool kSplitsF32 = false;
#endif

#if defined(__AVX2__) && QR_ISA_BYTES == 32
inline constexpr bool kBytePairs = true;
#else
inline constexpr bool kBytePairs = false;
#endif

// What a product is cut into for each worker, so that one that is held up does not hold up all (measured: 16 tasks for
// two workers take 0.91 to 1.0 of the time of 8).
inline constexpr std::int64_t kTasksPerWorker = 8;

// Operations of a product that are worth another thread's while: a few microseconds, against one to hand them over
// while the threads of a run are awake.
inline constexpr double kWorthSharing = 2.5e5;
// None that takes longer than some milliseconds: between tasks it is asked whether to go on.
inline constexpr double kLongTask = 1e8;
[[maybe_unused]] static inline std::int64_t tasks_wanted(std::int64_t workers, double operations) noexcept {
  const std::int64_t shared = workers > 1 ? kTasksPerWorker * workers : 1;
  const auto short_ones = static_cast<std::int64_t>(operations / kLongTask);
  return shared > short_ones ? shared : short_ones;
}

// ConvF32 as a part of a larger operation; few_rows: all of that operation's rows are few (gemm_tile.h). In
// conv_f32.cpp.
void run_conv(const Call &call, bool few_rows) noexcept;
// ConvF32 by ConvAlgorithm::Groups. In conv_groups_f32.cpp.
void run_conv_groups(const Call &call) noexcept;

// Weights of a product that lie in memory as f16 or bf16. In cast.cpp.
void widen_weights(WeightType type, const std::uint16_t *from, float *to, std::int64_t count) noexcept;
// The way back, to the nearest. `type` is not F32.
void narrow_numbers(NumberType type, const float *from, std::uint16_t *to, std::int64_t count) noexcept;

}  // namespace quarry::kernels::QR_ISA
