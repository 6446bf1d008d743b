// SPDX-License-Identifier: Apache-2.0
// Transposition of matrices of units of 1 to 16 bytes.
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

// Units that may lie anywhere (template arguments lose the attributes of a typedef, so structs).
template <class T>
struct __attribute__((packed, may_alias)) Unit {
  T value;
};
typedef std::uint64_t Pair __attribute__((vector_size(16)));
using Unit1 = Unit<std::uint8_t>;
using Unit2 = Unit<std::uint16_t>;
using Unit4 = Unit<std::uint32_t>;
using Unit8 = Unit<std::uint64_t>;
struct __attribute__((packed, may_alias)) Unit16 {
  Pair value;
};

// to[j][i] = from[i][j] for i < rows, j < columns; steps are bytes from row to row of each. In transpose.cpp.
void transpose(std::int64_t unit, const std::byte *from, std::byte *to, std::int64_t rows, std::int64_t columns,
               std::int64_t from_step, std::int64_t to_step) noexcept;

}  // namespace quarry::kernels::QR_ISA
