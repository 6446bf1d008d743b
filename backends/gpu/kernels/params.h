// SPDX-License-Identifier: Apache-2.0
// The parameters of each kernel as a struct, made from its row of kernels.inc: rules write them by name
// (Lowering::emit), bounds, images and tune read them so. A step holds them as 32-bit numbers in the order of the row;
// here they are wide, so that rules need not look after overflow (`emit` refuses what does not fit) and sums of what a
// blob says are right.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "backends/gpu/kernels/kernel.h"

namespace quarry::gpu {

#define QR_GPU_FIELD(name) std::int64_t name = 0;
#define QR_GPU_FIELDS(name, count) std::int64_t name[count] = {};
#define QR_GPU_GROUP(type, member, fields) type member;
#define QR_GPU_PARAMS(type, fields) \
  struct type {                     \
    fields                          \
  };
#define QR_GPU_KERNEL(name, file, base, value, inner, fields, bounds) \
  struct name##Params {                                               \
    static constexpr Kernel kKernel = Kernel::name;                   \
    fields                                                            \
  };
#include "backends/gpu/kernels/kernels.inc"
#undef QR_GPU_KERNEL

#define QR_GPU_ENUM(name, ...) enum class name : std::int64_t { __VA_ARGS__, Count };
#include "backends/gpu/kernels/enums.inc"
#undef QR_GPU_ENUM

// A choice as a field's number, and whether a number is one of them.
template <class Enum>
constexpr std::int64_t field_of(Enum choice) noexcept {
  return static_cast<std::int64_t>(choice);
}
template <class Enum>
constexpr bool is_one_of(std::int64_t number) noexcept {
  return number >= 0 && number < field_of(Enum::Count);
}

template <class Params>
inline constexpr std::size_t kFieldCount = std::is_empty_v<Params> ? 0 : sizeof(Params) / sizeof(std::int64_t);

template <class Params>
constexpr std::array<std::int64_t, kFieldCount<Params>> numbers_of(const Params &params) noexcept {
  if constexpr (std::is_empty_v<Params>) return {};
  else return std::bit_cast<std::array<std::int64_t, kFieldCount<Params>>>(params);
}

// `fields` has as many numbers as the kernel's row (find_bounds).
template <class Params>
Params read_params(std::span<const std::int32_t> fields) noexcept {
  std::array<std::int64_t, kFieldCount<Params>> wide;
  std::copy_n(fields.begin(), wide.size(), wide.begin());
  return std::bit_cast<Params>(wide);
}
template <class Params>
Params read_params(const Form &form) noexcept {
  return read_params<Params>(form.fields);
}

// Lets `edit` change parameters of a matrix multiplication or convolution in tiles, which have `tile`, and of reals
// LOCAL and IMAGES too. False: the kernel is none.
template <class Params, class Edit>
bool edit_params(std::int32_t *fields, const Edit &edit) {
  Params params = read_params<Params>(std::span<const std::int32_t>(fields, kFieldCount<Params>));
  edit(params);
  const auto numbers = numbers_of(params);
  std::transform(numbers.begin(), numbers.end(), fields, [](std::int64_t n) { return static_cast<std::int32_t>(n); });
  return true;
}
template <class Edit>
bool edit_tiled(Kernel kernel, std::int32_t *fields, const Edit &edit) {
  switch (kernel) {
    case Kernel::MatMulTile: return edit_params<MatMulTileParams>(fields, edit);
    case Kernel::ConvTile: return edit_params<ConvTileParams>(fields, edit);
    case Kernel::MatMulDot: return edit_params<MatMulDotParams>(fields, edit);
    case Kernel::ConvDot: return edit_params<ConvDotParams>(fields, edit);
    default: return false;
  }
}
constexpr bool is_tiled(Kernel kernel) noexcept {
  return kernel == Kernel::MatMulTile || kernel == Kernel::ConvTile || kernel == Kernel::MatMulDot ||
         kernel == Kernel::ConvDot;
}

}  // namespace quarry::gpu
