// SPDX-License-Identifier: Apache-2.0
// Elements put, or combined with what is there, where an index for each says. Indices are checked and made distances in
// vectors, a block at a time. Columns are independent of each other, so threads share those; what meets in one place
// comes in the order of the updates.
#include "backends/common/kernels/isa/combine.h"
#include "backends/common/kernels/isa/distances.h"
#include "backends/common/kernels/isa/kernels.h"
#include "backends/common/kernels/isa/numbers.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Replaces {
  template <class T>
  QR_INLINE T of(T, T update) noexcept {
    return update;
  }
};
template <ElementOp op>
struct Combines {
  template <class T>
  QR_INLINE T of(T old, T update) noexcept {
    return combine_one<op, T>(old, update);
  }
};

template <class T, class Index, class Distance, class How>
struct Scatterer {
  const ScatterElements &p;
  const T *x;
  const Index *index;
  const T *updates;
  T *y;
  bool *bad;

  // Updates [begin, begin + count) into y, distances counted from `to`.
  template <bool narrow>
  __attribute__((always_inline)) void put(std::int64_t begin, std::int64_t count, T *to,
                                          const std::int32_t *column) const noexcept {
    Distance at[kIndexBlock];
    if (!distances(index + begin, count, p.rows, p.inner, column, at)) {
      __atomic_store_n(bad, true, __ATOMIC_RELAXED);
      return;
    }
    const T *const from = updates + begin;
    if constexpr (narrow)
      for (std::int64_t j = 0; j < count; ++j) to[at[j]] = How::of(to[at[j]], from[j]);
    else
      for (std::int64_t j = 0; j < count; ++j) (to + j)[at[j]] = How::of((to + j)[at[j]], from[j]);
  }

  void narrow(const Threads &threads) const noexcept {
    std::int32_t columns[kIndexBlock + kNarrow];
    for (std::int64_t j = 0; j < kIndexBlock + kNarrow; ++j) columns[j] = static_cast<std::int32_t>(j % p.inner);
    const std::int64_t line = p.count * p.inner, plane = p.rows * p.inner;
    threads.run(static_cast<std::uint64_t>(p.outer), static_cast<std::uint64_t>(1 + 16384 / (line + plane)),
                [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                  const auto from = static_cast<std::int64_t>(begin);
                  if (x != y)
                    std::memcpy(y + from * plane, x + from * plane,
                                (end - begin) * static_cast<std::size_t>(plane) * sizeof(T));
                  for (std::int64_t outer = from; outer < static_cast<std::int64_t>(end); ++outer) {
                    T *const to = y + outer * plane;
                    for (std::int64_t first = 0; first < line; first += kIndexBlock) {
                      const std::int64_t count = min_of(kIndexBlock, line - first);
                      if (p.inner == 1) put<true>(outer * line + first, count, to, nullptr);
                      else put<true>(outer * line + first, count, to, columns + first % p.inner);
                    }
                  }
                });
  }

  // Some columns after the others, so that what may be written stays near.
  void wide(const Threads &threads) const noexcept {
    constexpr std::int64_t kNear = 128 << 10;
    const std::int64_t fit = kNear / static_cast<std::int64_t>(sizeof(T)) / p.rows,
                       columns = min_of(p.inner, max_of(kNarrow, fit)), parts = ceil_div(p.inner, columns);
    threads.run(static_cast<std::uint64_t>(p.outer * parts),
                static_cast<std::uint64_t>(1 + 16384 / (columns * (p.count + p.rows))),
                [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                  for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                    const std::int64_t outer = task / parts, first = task % parts * columns,
                                       last = min_of(p.inner, first + columns);
                    const std::int64_t plane = outer * p.rows * p.inner;
                    if (x != y && parts == 1)
                      std::memcpy(y + plane, x + plane, static_cast<std::size_t>(p.rows * p.inner) * sizeof(T));
                    else if (x != y)
                      for (std::int64_t r = 0; r < p.rows; ++r)
                        std::memcpy(y + plane + r * p.inner + first, x + plane + r * p.inner + first,
                                    static_cast<std::size_t>(last - first) * sizeof(T));
                    for (std::int64_t i = 0; i < p.count; ++i)
                      for (std::int64_t j = first; j < last; j += kIndexBlock)
                        put<false>((outer * p.count + i) * p.inner + j, min_of(kIndexBlock, last - j), y + plane + j,
                                   nullptr);
                  }
                });
  }
};

template <class T, class Index, class Distance, class How>
void run_as(const Call &call) noexcept {
  const auto &p = call.as<ScatterElements>();
  bool bad = false;
  const Index *const index = call.operand<const Index>(1);
  const Scatterer<T, Index, Distance, How> scatterer{
      p, call.operand<const T>(0), index, call.operand<const T>(2), call.operand<T>(3), &bad};
  if (p.inner < kNarrow) scatterer.narrow(call.threads);
  else scatterer.wide(call.threads);
  if (bad) tell_bad_index(call, index, p.rows);
}
template <class T, class How>
void run_of(const Call &call) noexcept {
  const auto &p = call.as<ScatterElements>();
  const bool small = p.rows <= INT32_MAX / p.inner;
  if (p.index_bytes == 4) return run_as<T, std::int32_t, std::int64_t, How>(call);
  if (small) return run_as<T, std::int64_t, std::int32_t, How>(call);
  run_as<T, std::int64_t, std::int64_t, How>(call);
}

}  // namespace

void run_ScatterElements(const Call &call) {
  const auto &p = call.as<ScatterElements>();
  if (p.outer == 0 || p.inner == 0) return;
  const auto dtype = static_cast<DType>(p.dtype);
  if (p.combines)
    return with_number(
        dtype, [&]<class T>(T) __attribute__((always_inline)) {
          with_combination(
              p.op, [&]<ElementOp op>() __attribute__((always_inline)) { run_of<T, Combines<op>>(call); });
        });
  switch (dtype) {  // by width
    case DType::Bool:
    case DType::I8:
    case DType::U8: return run_of<std::uint8_t, Replaces>(call);
    case DType::F16:
    case DType::BF16:
    case DType::I16:
    case DType::U16: return run_of<std::uint16_t, Replaces>(call);
    case DType::F32:
    case DType::I32:
    case DType::U32: return run_of<std::uint32_t, Replaces>(call);
    default: return run_of<std::uint64_t, Replaces>(call);
  }
}

}  // namespace quarry::kernels::QR_ISA
