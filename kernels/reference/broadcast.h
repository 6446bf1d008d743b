// SPDX-License-Identifier: Apache-2.0
// Loops over operands that broadcast to the shape of the output: neighbouring axes are merged, so that the innermost
// loop is long and has a stride of 0 or 1 per operand, which the compiler can vectorise.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/reference/kernel.h"

namespace quarry::reference {

// Calls body(begin, end) for stretches of [0, count), on the caller's threads when there is enough to do.
void for_stretches(Context &context, std::int64_t count, void (*body)(void *user, std::int64_t begin, std::int64_t end),
                   void *user);
template <class Body>
void for_stretches(Context &context, std::int64_t count, Body &&body) {
  for_stretches(
      context, count,
      [](void *user, std::int64_t begin, std::int64_t end) {
        (*static_cast<std::remove_reference_t<Body> *>(user))(begin, end);
      },
      &body);
}

template <std::size_t N>
struct Broadcast {
  std::uint32_t rank = 0;  // at least 1 after merging
  std::int64_t dims[qir::kMaxRank] = {};
  std::int64_t strides[N][qir::kMaxRank] = {};  // of the operands, in elements; 0 where one is repeated
  std::int64_t count = 1;

  Broadcast(const View &out, const View *const (&operands)[N]) noexcept {
    for (std::uint32_t axis = 0; axis < out.rank; ++axis) {
      std::int64_t step[N];
      for (std::size_t k = 0; k < N; ++k) step[k] = stride_of(*operands[k], out.rank, axis);
      count *= out.dims[axis];
      if (out.dims[axis] == 1) continue;
      bool merges = rank > 0;
      for (std::size_t k = 0; k < N; ++k) merges = merges && strides[k][rank - 1] == step[k] * out.dims[axis];
      if (!merges) ++rank;
      dims[rank - 1] = merges ? dims[rank - 1] * out.dims[axis] : out.dims[axis];
      for (std::size_t k = 0; k < N; ++k) strides[k][rank - 1] = step[k];
    }
    if (rank == 0) dims[rank++] = 1;
  }

  // Calls run(position in the output, offsets of the operands, length) for stretches of the innermost axis inside
  // [begin, end).
  template <class Run>
  void walk(std::int64_t begin, std::int64_t end, Run &&run) const {
    const std::int64_t inner = dims[rank - 1];
    for (std::int64_t at = begin; at < end;) {
      std::int64_t offsets[N] = {}, rest = at / inner;
      const std::int64_t first = at % inner, length = std::min(inner - first, end - at);
      for (std::size_t k = 0; k < N; ++k) offsets[k] = first * strides[k][rank - 1];
      for (std::uint32_t axis = rank - 1; axis-- > 0; rest /= dims[axis])
        for (std::size_t k = 0; k < N; ++k) offsets[k] += rest % dims[axis] * strides[k][axis];
      run(at, offsets, length);
      at += length;
    }
  }

 private:
  static std::int64_t stride_of(const View &operand, std::uint32_t out_rank, std::uint32_t axis) noexcept {
    const std::uint32_t missing = out_rank - operand.rank;
    if (axis < missing || operand.dims[axis - missing] == 1) return 0;
    std::int64_t stride = 1;
    for (std::uint32_t i = axis - missing + 1; i < operand.rank; ++i) stride *= operand.dims[i];
    return stride;
  }
};

// z[i] = f(x[i * x_step], y[i * y_step]) for `length` elements, f being what `user` points to.
using BinaryRow = void (*)(const void *user, const void *x, std::int64_t x_step, const void *y, std::int64_t y_step,
                           void *z, std::int64_t length);
void broadcast_rows(Context &context, const View &a, const View &b, const View &out, BinaryRow row, const void *user);

template <class A, class B, class R, class F>
void binary_row(const void *user, const void *left, std::int64_t left_step, const void *right, std::int64_t right_step,
                void *result, std::int64_t length) {
  const F f = *static_cast<const F *>(user);
  const A *const x = static_cast<const A *>(left);
  const B *const y = static_cast<const B *>(right);
  R *const z = static_cast<R *>(result);
  if (left_step == 1 && right_step == 1) {
    for (std::int64_t i = 0; i < length; ++i) z[i] = f(x[i], y[i]);
    return;
  }
  if constexpr (sizeof(A) >= 4 && sizeof(A) == sizeof(B)) {  // what is worth a loop for each pattern
    if (left_step == 1) {
      const B same = y[0];
      for (std::int64_t i = 0; i < length; ++i) z[i] = f(x[i], same);
      return;
    }
    if (right_step == 1) {
      const A same = x[0];
      for (std::int64_t i = 0; i < length; ++i) z[i] = f(same, y[i]);
      return;
    }
  }
  for (std::int64_t i = 0; i < length; ++i) z[i] = f(x[i * left_step], y[i * right_step]);
}

// out[i] = f(a[i], b[i]) with a and b broadcast. Only the row is compiled for each type and each f.
template <class A, class B, class R, class F>
void broadcast_binary(Context &context, const View &a, const View &b, const View &out, const F &f) {
  broadcast_rows(context, a, b, out, binary_row<A, B, R, F>, &f);
}

}  // namespace quarry::reference
