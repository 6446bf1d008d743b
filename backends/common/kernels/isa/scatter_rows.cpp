// SPDX-License-Identifier: Apache-2.0
// Rows of a tensor that are replaced, or that others are combined with.
#include "backends/common/kernels/isa/combine.h"
#include "backends/common/kernels/isa/kernels.h"
#include "backends/common/kernels/isa/numbers.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr std::int64_t kBlock = 256;

// How far from y's beginning the rows of a block lie; false where an index is out of range. `length`: indices of a
// tuple, or 0 where p says it.
template <std::uint32_t length>
bool distances(const ScatterRows &p, const std::int64_t *index, std::int64_t count, std::int64_t *to) noexcept {
  const std::uint32_t each = length ? length : p.length;
  std::int64_t signs = 0;  // negative where one is out of range
  for (std::int64_t t = 0; t < count; ++t) {
    std::int64_t at = 0;
    for (std::uint32_t k = 0; k < each; ++k) {
      const std::int64_t given = index[t * each + k], extent = p.dims[k];
      signs |= (given + extent) | (extent - 1 - given);
      at += (given + (extent & (given >> 63))) * p.steps[k];
    }
    to[t] = at;
  }
  return signs >= 0;
}
bool distances(const ScatterRows &p, const std::int64_t *index, std::int64_t count, std::int64_t *to) noexcept {
  switch (p.length) {
    case 1: return distances<1>(p, index, count, to);
    case 2: return distances<2>(p, index, count, to);
    case 3: return distances<3>(p, index, count, to);
    default: return distances<0>(p, index, count, to);
  }
}

// Rows of a size that is known, or (0) of any; gives the first tuple of a block in which an index is out of range, or
// -1.
template <std::size_t size>
std::int64_t put_rows(const ScatterRows &p, const std::int64_t *index, const std::byte *updates,
                      std::byte *y) noexcept {
  const std::size_t bytes = size ? size : static_cast<std::size_t>(p.row_bytes);
  std::int64_t to[kBlock];
  for (std::int64_t first = 0; first < p.tuples; first += kBlock) {
    const std::int64_t count = min_of(kBlock, p.tuples - first);
    if (!distances(p, index + first * p.length, count, to)) return first;
    for (std::int64_t t = 0; t < count; ++t, updates += bytes) std::memcpy(y + to[t], updates, bytes);
  }
  return -1;
}
std::int64_t put_rows(const ScatterRows &p, const std::int64_t *index, const std::byte *updates,
                      std::byte *y) noexcept {
  switch (p.row_bytes) {
    case 1: return put_rows<1>(p, index, updates, y);
    case 2: return put_rows<2>(p, index, updates, y);
    case 4: return put_rows<4>(p, index, updates, y);
    case 8: return put_rows<8>(p, index, updates, y);
    default: return put_rows<0>(p, index, updates, y);
  }
}

// The same where what is there is combined with the rows of updates, one after the other.
template <ElementOp op, class T, bool single>
std::int64_t combine_rows(const ScatterRows &p, const std::int64_t *index, const T *updates, std::byte *y) noexcept {
  const std::int64_t elements = single ? 1 : p.row_bytes / static_cast<std::int64_t>(sizeof(T));
  std::int64_t to[kBlock];
  for (std::int64_t first = 0; first < p.tuples; first += kBlock) {
    const std::int64_t count = min_of(kBlock, p.tuples - first);
    if (!distances(p, index + first * p.length, count, to)) return first;
    for (std::int64_t t = 0; t < count; ++t, updates += elements) {
      T *const row = reinterpret_cast<T *>(y + to[t]);
      if constexpr (single) *row = combine_one<op, T>(*row, *updates);
      else _Pragma("GCC ivdep") for (std::int64_t i = 0; i < elements; ++i) row[i] = combine<op, T>(row[i], updates[i]);
    }
  }
  return -1;
}

void copy_rest(const Call &call, const ScatterRows &p) noexcept {
  const std::byte *const x = call.operands[0];
  std::byte *const y = call.operands[3];
  constexpr std::int64_t kPart = 64 * 1024;
  if (x == y) return;
  call.threads.run(static_cast<std::uint64_t>(ceil_div(p.bytes, kPart)), 4,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const std::int64_t first = static_cast<std::int64_t>(begin) * kPart,
                                        last = min_of(p.bytes, static_cast<std::int64_t>(end) * kPart);
                     std::memcpy(y + first, x + first, static_cast<std::size_t>(last - first));
                   });
}
// `bad`: the first tuple of a block in which an index is out of range, or -1.
void tell_bad(const Call &call, const ScatterRows &p, std::int64_t bad) noexcept {
  const auto *const index = call.operand<const std::int64_t>(1);
  if (bad < 0) return;
  for (std::int64_t i = bad * p.length;; ++i)
    if (const std::int64_t extent = p.dims[i % p.length]; index[i] < -extent || index[i] >= extent) {
      call.bad_index[0] = index[i], call.bad_index[1] = i;
      return;
    }
}

}  // namespace

void run_ScatterRows(const Call &call) {
  const auto &p = call.as<ScatterRows>();
  copy_rest(call, p);
  tell_bad(call, p, put_rows(p, call.operand<const std::int64_t>(1), call.operands[2], call.operands[3]));
}

void run_ScatterInto(const Call &call) {
  const auto &p = call.as<ScatterInto>();
  copy_rest(call, p.rows);
  with_number(
      static_cast<DType>(p.dtype), [&]<class T>(T) __attribute__((always_inline)) {
        with_combination(
            p.op, [&]<ElementOp op>() __attribute__((always_inline)) {
              const auto *const index = call.operand<const std::int64_t>(1);
              const T *const updates = call.operand<const T>(2);
              std::byte *const y = call.operands[3];
              tell_bad(call, p.rows,
                       p.rows.row_bytes == static_cast<std::int64_t>(sizeof(T))
                           ? combine_rows<op, T, true>(p.rows, index, updates, y)
                           : combine_rows<op, T, false>(p.rows, index, updates, y));
            });
      });
}

}  // namespace quarry::kernels::QR_ISA
