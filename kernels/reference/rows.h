// SPDX-License-Identifier: Apache-2.0
// Elements of any number type to and from the widest ones: for what is not worth a loop for each type.
#pragma once

#include "kernels/reference/tensors.h"

namespace quarry::reference {

// What the functions below take: f32, f64, integers and, as 0 and 1, bool.
bool is_loadable(DType dtype) noexcept;

// Elements first, first + step, ... of a tensor.
void load_reals(const View &from, std::int64_t first, std::int64_t step, std::int64_t count, double *to) noexcept;
// Those of floats are cut towards zero; u64 comes as its bits.
void load_integers(const View &from, std::int64_t first, std::int64_t step, std::int64_t count,
                   std::int64_t *to) noexcept;
// Neighbours from `first` on, rounded as round_to() does; and integers, whose higher bits are dropped.
void store_rounded(const View &to, std::int64_t first, std::int64_t count, const double *from) noexcept;
void store_integers(const View &to, std::int64_t first, std::int64_t count, const std::int64_t *from) noexcept;

}  // namespace quarry::reference
