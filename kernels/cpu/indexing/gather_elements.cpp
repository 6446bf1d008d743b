// SPDX-License-Identifier: Apache-2.0
// Elements picked by an index for each. Elements are moved one by one, which is as quick as the gathers of vectors that
// processors have. Of a large table some columns are copied first (gather_shape.h).
#include "kernels/cpu/loops/distances.h"
#include "kernels/cpu/loops/prefetch.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/shapes/gather_shape.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Of indices of 64 bits the lower half is what counts, and the upper half is its sign.
template <class Index>
bool distances_of(const Index *index, std::int64_t count, std::int32_t rows, std::int32_t step,
                  const std::int32_t *column, std::int32_t *__restrict to) noexcept {
  std::int32_t signs = 0;   // negative where one is out of range
  std::int32_t beyond = 0;  // not 0 where one is too large for 32 bits
  for (std::int64_t j = 0; j < count; ++j) {
    const auto low = static_cast<std::int32_t>(index[j]);
    if constexpr (sizeof(Index) == 8)
      beyond |= static_cast<std::int32_t>(static_cast<std::uint64_t>(index[j]) >> 32) ^ (low >> 31);
    const std::int32_t row = low + (rows & (low >> 31));
    signs |= row | (rows - 1 - row);
    to[j] = row * step + column[j];
  }
  return signs >= 0 && beyond == 0;
}

// (T: Unit1 to Unit8.)
template <class T>
void pick(const std::byte *from, const std::int32_t *__restrict at, std::int64_t count, std::byte *to) noexcept {
  const T *const x = reinterpret_cast<const T *>(from);
  T *const __restrict y = reinterpret_cast<T *>(to);
  _Pragma("GCC unroll 4") for (std::int64_t j = 0; j < count; ++j) y[j] = x[at[j]];
}

struct Picker {
  const GatherElements &p;
  std::int64_t width;
  Pick pick;
  Indices indices;
  const std::byte *x;
  std::byte *y;
  bool *bad;

  // Elements [begin, begin + count) of index and y, picked from what `from` points at.
  void block(const Indices &of, std::int64_t begin, std::int64_t count, const std::byte *from,
             const std::int32_t *column) const noexcept {
    if (!of.each(
            begin, count, column,
            [&](std::int64_t first, std::int64_t far, const std::int32_t *at, std::int64_t some)
                __attribute__((always_inline)) { pick(from + far * width, at, some, y + first * width); }))
      __atomic_store_n(bad, true, __ATOMIC_RELAXED);
  }

  void narrow(const Threads &threads) const noexcept {
    const NarrowColumns columns(p.outer, p.rows, p.count, p.inner);
    const std::int64_t together = columns.together, line = p.count * p.inner,
                       blocks = ceil_div(together * line, kIndexBlock);
    threads.run(static_cast<std::uint64_t>(ceil_div(p.outer, together) * blocks), 64,
                [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                  for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                    const std::int64_t outer = task / blocks * together, first = task % blocks * kIndexBlock,
                                       lines = min_of(together, p.outer - outer) * line;
                    block(indices, outer * line + first, min_of(kIndexBlock, lines - first),
                          x + outer * p.rows * p.inner * width, columns.at + first % p.inner);
                  }
                });
  }

  // Some columns after the others, so that what may be read stays near.
  void wide(const Threads &threads) const noexcept {
    constexpr std::int64_t kTask = 16384;
    const WideColumns each;
    const std::int64_t fit = kGatherNear / width / p.rows, columns = min_of(p.inner, max_of(kNarrow, fit)),
                       parts = ceil_div(p.inner, columns), rows = max_of<std::int64_t>(1, kTask / columns),
                       groups = ceil_div(p.count, rows);
    threads.run(static_cast<std::uint64_t>(p.outer * parts * groups), 1,
                [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                  for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                    const std::int64_t outer = task / (parts * groups), part = task / groups % parts,
                                       group = task % groups, first = part * columns,
                                       last = min_of(p.inner, first + columns);
                    for (std::int64_t i = group * rows; i < min_of(p.count, (group + 1) * rows); ++i)
                      for (std::int64_t j = first; j < last; j += kIndexBlock)
                        block(indices, (outer * p.count + i) * p.inner + j, min_of(kIndexBlock, last - j),
                              x + (outer * p.rows * p.inner + j) * width, each.at);
                  }
                });
  }

  // The same from a copy of some columns, whose rows lie one behind the other.
  void copied(const Call &call, std::int64_t columns) const noexcept {
    constexpr std::int64_t kAhead = 2;  // rows of indices
    const WideColumns each;
    const Indices of{indices.data, indices.bytes, p.rows, columns};
    const std::int64_t parts = ceil_div(p.inner, columns), bytes = p.index_bytes;
    call.threads.run(static_cast<std::uint64_t>(p.outer * parts), 1,
                     [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                       std::byte *const copy = call.worker_scratch(worker);
                       for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end);
                            ++task) {
                         const std::int64_t outer = task / parts, first = task % parts * columns,
                                            count = min_of(columns, p.inner - first);
                         const std::byte *const from = x + (outer * p.rows * p.inner + first) * width;
                         for (std::int64_t i = 0; i < p.rows; ++i)
                           std::memcpy(copy + i * columns * width, from + i * p.inner * width,
                                       static_cast<std::size_t>(count * width));
                         for (std::int64_t i = 0; i < p.count; ++i) {
                           const std::int64_t row = (outer * p.count + i) * p.inner + first;
                           const auto ahead = reinterpret_cast<std::uintptr_t>(indices.data) +
                                              static_cast<std::size_t>((row + kAhead * p.inner) * bytes);
                           for (std::int64_t at = 0; at < count * bytes; at += 64)
                             prefetch_near(reinterpret_cast<const void *>(ahead + static_cast<std::size_t>(at)));
                           for (std::int64_t j = 0; j < count; j += kIndexBlock)
                             block(of, row + j, min_of(kIndexBlock, count - j), copy + j * width, each.at);
                         }
                       }
                     });
  }
};

}  // namespace

bool Indices::distances(std::int64_t begin, std::int64_t count, const std::int32_t *column,
                        std::int32_t *to) const noexcept {
  const auto extent = static_cast<std::int32_t>(rows), each = static_cast<std::int32_t>(step);
  if (bytes == 4)
    return distances_of(reinterpret_cast<const std::int32_t *>(data) + begin, count, extent, each, column, to);
  return distances_of(reinterpret_cast<const std::int64_t *>(data) + begin, count, extent, each, column, to);
}

Pick pick_of(std::int64_t width) noexcept {
  switch (width) {
    case 1: return pick<Unit1>;
    case 2: return pick<Unit2>;
    case 4: return pick<Unit4>;
    default: return pick<Unit8>;
  }
}

void run_GatherElements(const Call &call) {
  const auto &p = call.as<GatherElements>();
  if (p.outer == 0 || p.count == 0 || p.inner == 0) return;
  bool bad = false;
  const Indices indices{call.operands[1], p.index_bytes, p.rows, p.inner};
  const Picker picker{p, p.width, pick_of(p.width), indices, call.operands[0], call.operands[2], &bad};
  if (const std::int64_t columns = gathered_columns(p)) picker.copied(call, columns);
  else if (p.inner < kNarrow) picker.narrow(call.threads);
  else picker.wide(call.threads);
  if (bad) indices.report_bad(call);
}

}  // namespace quarry::kernels::QR_ISA
