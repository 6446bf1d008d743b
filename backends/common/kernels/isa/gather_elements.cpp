// SPDX-License-Identifier: Apache-2.0
// Elements picked by an index for each. Indices are checked and made distances in vectors, a block at a time; then
// elements are moved one by one, which is as quick as the gathers of vectors that processors have. Of a large table
// some columns are copied first (gather_shape.h).
#include "backends/common/kernels/gather_shape.h"
#include "backends/common/kernels/isa/distances.h"
#include "backends/common/kernels/isa/kernels.h"
#include "backends/common/kernels/isa/prefetch.h"

namespace quarry::kernels::QR_ISA {

namespace {

template <class T, class Index, class Distance>
struct Picker {
  const GatherElements &p;
  const T *x;
  const Index *index;
  T *y;
  bool *bad;

  // Elements [begin, begin + count) of index and y; `from`: the element of x from where distances count, whose rows
  // are `step` apart. Where `narrow`, columns follow `column`, else each is one further.
  template <bool narrow>
  __attribute__((always_inline)) void pick(std::int64_t begin, std::int64_t count, const T *from, std::int64_t step,
                                           const std::int32_t *column) const noexcept {
    Distance at[kIndexBlock];
    if (!distances(index + begin, count, p.rows, step, column, at)) {
      __atomic_store_n(bad, true, __ATOMIC_RELAXED);
      return;
    }
    T *const to = y + begin;
    if constexpr (narrow)
      for (std::int64_t j = 0; j < count; ++j) to[j] = from[at[j]];
    else
      for (std::int64_t j = 0; j < count; ++j) to[j] = (from + j)[at[j]];
  }

  void narrow(const Threads &threads) const noexcept {
    // The columns of a block that begins at any of them.
    std::int32_t columns[kIndexBlock + kNarrow];
    for (std::int64_t j = 0; j < kIndexBlock + kNarrow; ++j) columns[j] = static_cast<std::int32_t>(j % p.inner);
    const std::int64_t line = p.count * p.inner, blocks = ceil_div(line, kIndexBlock);
    threads.run(static_cast<std::uint64_t>(p.outer * blocks), 64,
                [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                  for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                    const std::int64_t outer = task / blocks, first = task % blocks * kIndexBlock,
                                       count = min_of(kIndexBlock, line - first);
                    const T *const from = x + outer * p.rows * p.inner;
                    if (p.inner == 1) pick<true>(outer * line + first, count, from, p.inner, nullptr);
                    else pick<true>(outer * line + first, count, from, p.inner, columns + first % p.inner);
                  }
                });
  }

  // Some columns after the others, so that what may be read stays near.
  void wide(const Threads &threads) const noexcept {
    constexpr std::int64_t kTask = 16384;
    const std::int64_t fit = kGatherNear / static_cast<std::int64_t>(sizeof(T)) / p.rows,
                       columns = min_of(p.inner, max_of(kNarrow, fit)), parts = ceil_div(p.inner, columns),
                       rows = max_of<std::int64_t>(1, kTask / columns), groups = ceil_div(p.count, rows);
    threads.run(static_cast<std::uint64_t>(p.outer * parts * groups), 1,
                [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                  for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                    const std::int64_t outer = task / (parts * groups), part = task / groups % parts,
                                       group = task % groups, first = part * columns,
                                       last = min_of(p.inner, first + columns);
                    for (std::int64_t i = group * rows; i < min_of(p.count, (group + 1) * rows); ++i)
                      for (std::int64_t j = first; j < last; j += kIndexBlock)
                        pick<false>((outer * p.count + i) * p.inner + j, min_of(kIndexBlock, last - j),
                                    x + outer * p.rows * p.inner + j, p.inner, nullptr);
                  }
                });
  }

  // The same from a copy of some columns, whose rows lie one behind the other.
  void copied(const Call &call, std::int64_t columns) const noexcept {
    constexpr std::int64_t kAhead = 2;  // rows of indices
    const std::int64_t parts = ceil_div(p.inner, columns);
    call.threads.run(
        static_cast<std::uint64_t>(p.outer * parts), 1,
        [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
          T *const copy = reinterpret_cast<T *>(call.worker_scratch(worker));
          for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
            const std::int64_t outer = task / parts, first = task % parts * columns,
                               count = min_of(columns, p.inner - first);
            const T *const from = x + outer * p.rows * p.inner + first;
            for (std::int64_t i = 0; i < p.rows; ++i)
              std::memcpy(copy + i * columns, from + i * p.inner, static_cast<std::size_t>(count) * sizeof(T));
            for (std::int64_t i = 0; i < p.count; ++i) {
              const std::int64_t row = (outer * p.count + i) * p.inner + first;
              const auto ahead = reinterpret_cast<std::uintptr_t>(index + row + kAhead * p.inner);
              for (std::int64_t at = 0; at < count; at += 64 / static_cast<std::int64_t>(sizeof(Index)))
                prefetch_near(reinterpret_cast<const void *>(ahead + static_cast<std::size_t>(at) * sizeof(Index)));
              for (std::int64_t j = 0; j < count; j += kIndexBlock)
                pick<false>(row + j, min_of(kIndexBlock, count - j), copy + j, columns, nullptr);
            }
          }
        });
  }
};

template <class T, class Index, class Distance>
void run_as(const Call &call) noexcept {
  const auto &p = call.as<GatherElements>();
  bool bad = false;
  const Index *const index = call.operand<const Index>(1);
  const Picker<T, Index, Distance> picker{p, call.operand<const T>(0), index, call.operand<T>(2), &bad};
  if (const std::int64_t columns = gathered_columns(p)) picker.copied(call, columns);
  else if (p.inner < kNarrow) picker.narrow(call.threads);
  else picker.wide(call.threads);
  if (bad) tell_bad_index(call, index, p.rows);
}
template <class T>
void run_of(const Call &call) noexcept {
  const auto &p = call.as<GatherElements>();
  // Distances of 32 bits, unless the table is too large for them.
  const bool small = p.rows <= INT32_MAX / p.inner;
  if (p.index_bytes == 4 && small) run_as<T, std::int32_t, std::int32_t>(call);
  else if (p.index_bytes == 4) run_as<T, std::int32_t, std::int64_t>(call);
  else if (small) run_as<T, std::int64_t, std::int32_t>(call);
  else run_as<T, std::int64_t, std::int64_t>(call);
}

}  // namespace

void run_GatherElements(const Call &call) {
  const auto &p = call.as<GatherElements>();
  if (p.outer == 0 || p.count == 0 || p.inner == 0) return;
  switch (p.width) {
    case 1: return run_of<std::uint8_t>(call);
    case 2: return run_of<std::uint16_t>(call);
    case 4: return run_of<std::uint32_t>(call);
    default: return run_of<std::uint64_t>(call);
  }
}

}  // namespace quarry::kernels::QR_ISA
