// SPDX-License-Identifier: Apache-2.0
// Data that is moved and not changed: strided copies, fills, rows picked by index.
#include "kernels/cpu/loops/distances.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Bytes that are worth another thread.
constexpr std::int64_t kGrainBytes = 128 * 1024;

// A loop nest whose strides are bytes, and which moves units of adjacent bytes. The innermost dimension is last.
struct Nest {
  std::int64_t unit = 0;
  int rank = 0;
  std::int64_t dims[kCopyRank], from[kCopyRank], to[kCopyRank];

  void remove(int at) noexcept {
    for (--rank; at < rank; ++at) dims[at] = dims[at + 1], from[at] = from[at + 1], to[at] = to[at + 1];
  }
};

// The nest of a copy: ordered by the destination, dimensions that are one merged, and adjacent elements taken as units.
Nest nest_of(const Copy &p) noexcept {
  Nest n;
  n.unit = p.width;
  for (std::uint32_t i = 0; i < p.rank; ++i) {
    if (p.dims[i] == 1) continue;
    const std::int64_t from = p.from[i] * p.width, to = p.to[i] * p.width;
    int at = n.rank++;
    for (; at > 0 && n.to[at - 1] < to; --at)
      n.dims[at] = n.dims[at - 1], n.from[at] = n.from[at - 1], n.to[at] = n.to[at - 1];
    n.dims[at] = p.dims[i], n.from[at] = from, n.to[at] = to;
  }
  for (int i = n.rank - 1; i > 0; --i)
    if (n.to[i - 1] == n.to[i] * n.dims[i] && n.from[i - 1] == n.from[i] * n.dims[i]) {
      n.dims[i - 1] *= n.dims[i], n.from[i - 1] = n.from[i], n.to[i - 1] = n.to[i];
      n.remove(i);
    }
  if (n.rank > 0 && n.from[n.rank - 1] == n.unit && n.to[n.rank - 1] == n.unit) n.unit *= n.dims[--n.rank];
  return n;
}

// `count` units, one after the other.
template <class T>
QR_INLINE void copy_row_as(const std::byte *from, std::byte *to, std::int64_t count, std::int64_t from_step,
                           std::int64_t to_step) noexcept {
  if (from_step == 0) {
    const T value = *reinterpret_cast<const T *>(from);
    if (to_step == static_cast<std::int64_t>(sizeof(T)))
      for (std::int64_t i = 0; i < count; ++i) reinterpret_cast<T *>(to)[i] = value;
    else
      for (std::int64_t i = 0; i < count; ++i) *reinterpret_cast<T *>(to + i * to_step) = value;
    return;
  }
  // (A short loop takes twice as long where it lies badly.)
  _Pragma("GCC unroll 4") for (std::int64_t i = 0; i < count; ++i) * reinterpret_cast<T *>(to + i * to_step) =
      *reinterpret_cast<const T *>(from + i * from_step);
}
template <int bytes>
QR_INLINE void copy_units(const std::byte *from, std::byte *to, std::int64_t count, std::int64_t from_step,
                          std::int64_t to_step) noexcept {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, bytes);
}
void copy_row(std::int64_t unit, const std::byte *from, std::byte *to, std::int64_t count, std::int64_t from_step,
              std::int64_t to_step) noexcept {
  switch (unit) {
    case 1: return copy_row_as<Unit1>(from, to, count, from_step, to_step);
    case 2: return copy_row_as<Unit2>(from, to, count, from_step, to_step);
    case 4: return copy_row_as<Unit4>(from, to, count, from_step, to_step);
    case 8: return copy_row_as<Unit8>(from, to, count, from_step, to_step);
    case 16: return copy_row_as<Unit16>(from, to, count, from_step, to_step);
    case 3: return copy_units<3>(from, to, count, from_step, to_step);
    case 6: return copy_units<6>(from, to, count, from_step, to_step);
    case 12: return copy_units<12>(from, to, count, from_step, to_step);
    case 24: return copy_units<24>(from, to, count, from_step, to_step);
    case 32: return copy_units<32>(from, to, count, from_step, to_step);
    case 64: return copy_units<64>(from, to, count, from_step, to_step);
    default:
      for (std::int64_t i = 0; i < count; ++i)
        std::memmove(to + i * to_step, from + i * from_step,
                     static_cast<std::size_t>(unit));  // a damaged plan may have them overlap
  }
}

// A nest as tasks: an index over the outer dimensions, and a part of the innermost one (or of the unit, where no
// dimension is left).
struct Tasks {
  Nest n;  // outer dimensions only
  std::int64_t unit;
  // The innermost loop: `count` units; or, with `columns` > 0, a transposition of count x columns units, where columns
  // are adjacent in the source and rows in the destination.
  std::int64_t count = 1, from_step = 0, to_step = 0, columns = 0, column_step = 0;
  std::int64_t part = 1, parts = 1, outer = 1;  // how much of `count` a task does
  // The dimension before which parts are counted: what is repeated is read once, and written again and again.
  int parts_at = 0;

  void move(const Threads &threads, const std::byte *from, std::byte *to, std::int64_t begin,
            std::int64_t end) const noexcept {
    if (columns > 0)
      for (Parts part = Parts::of_rows(threads, columns, end - begin); part.next();)
        transpose(unit, from + begin * from_step + part.begin * unit, to + begin * to_step + part.begin * column_step,
                  end - begin, part.end - part.begin, from_step, column_step);
    else if (unit == 1 && from_step == 1 && to_step == 1)
      std::memmove(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    else copy_row(unit, from + begin * from_step, to + begin * to_step, end - begin, from_step, to_step);
  }
  // The tasks [first, last).
  void run(const Threads &threads, const std::byte *x, std::byte *y, std::int64_t first,
           std::int64_t last) const noexcept {
    std::int64_t index[kCopyRank], rest = first, at_part = 0;
    for (int i = n.rank; i >= 0; --i) {
      if (i == parts_at) {
        at_part = rest % parts;
        rest /= parts;
      }
      if (i == 0) break;
      index[i - 1] = rest % n.dims[i - 1];
      rest /= n.dims[i - 1];
      x += index[i - 1] * n.from[i - 1], y += index[i - 1] * n.to[i - 1];
    }
    for (std::int64_t task = first; task < last; ++task) {
      move(threads, x, y, at_part * part, min_of(count, (at_part + 1) * part));
      for (int i = n.rank; i >= 0; --i) {
        if (i == parts_at) {
          if (++at_part < parts) break;
          at_part = 0;
        }
        if (i == 0) break;
        x += n.from[i - 1], y += n.to[i - 1];
        if (++index[i - 1] < n.dims[i - 1]) break;
        x -= n.dims[i - 1] * n.from[i - 1], y -= n.dims[i - 1] * n.to[i - 1];
        index[i - 1] = 0;
      }
    }
  }
};

Tasks tasks_of(const Copy &p, std::int64_t bytes) noexcept {
  Tasks t;
  t.n = nest_of(p);
  Nest &n = t.n;
  t.unit = n.unit;
  if (n.rank == 0 || t.unit >= 4096) {  // blocks of memory: their bytes are what is counted
    t.count = t.unit;
    t.unit = t.from_step = t.to_step = 1;
  } else {
    const int last = --n.rank;
    t.count = n.dims[last], t.from_step = n.from[last], t.to_step = n.to[last];
    const bool simple = t.unit <= 16 && (t.unit & (t.unit - 1)) == 0;
    if (simple && t.to_step == t.unit && t.from_step != 0)
      for (int i = 0; i < n.rank; ++i)
        if (n.from[i] == t.unit) {
          t.columns = n.dims[i], t.column_step = n.to[i];
          n.remove(i);
          break;
        }
  }
  for (int i = 0; i < n.rank; ++i) t.outer *= n.dims[i];
  // Parts are as small as threads want them, but of whole tiles.
  t.part = t.count;
  if (bytes > 2 * kGrainBytes && t.outer < 64) {
    const std::int64_t of_one = t.unit * max_of<std::int64_t>(1, t.columns);
    t.part = min_of(t.count, (max_of<std::int64_t>(1, kGrainBytes / 2 / of_one) + 63) / 64 * 64);
  }
  t.parts_at = n.rank;
  while (t.parts_at > 0 && n.from[t.parts_at - 1] == 0) --t.parts_at;
  constexpr std::int64_t kRepeated = 16384;  // bytes that stay in the first-level cache while they are written
  if (t.part < t.count && t.parts_at < n.rank && t.columns == 0)
    t.part = min_of(t.part, max_of<std::int64_t>(1, kRepeated / t.unit));
  t.parts = ceil_div(t.count, t.part);
  return t;
}

}  // namespace

void run_Copy(const Call &call) {
  const auto &p = call.as<Copy>();
  const std::byte *x = call.operands[0];
  std::byte *y = call.operands[1];
  std::int64_t bytes = p.width;
  for (std::uint32_t i = 0; i < p.rank; ++i) bytes *= p.dims[i];
  if (bytes == 0) return;
  const Tasks t = tasks_of(p, bytes);
  const std::int64_t count = t.outer * t.parts;
  if (bytes <= 2 * kGrainBytes) return t.run(call.threads, x, y, 0, count);
  const std::int64_t grain = max_of<std::int64_t>(1, kGrainBytes / max_of<std::int64_t>(1, bytes / count));
  call.threads.run(static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     t.run(call.threads, x, y, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
                   });
}

void run_Fill(const Call &call) {
  const auto &p = call.as<Fill>();
  std::byte *y = call.operands[0];
  call.threads.run(static_cast<std::uint64_t>(p.count), static_cast<std::uint64_t>(2 * kGrainBytes / p.width),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const auto count = static_cast<std::int64_t>(end - begin);
                     copy_row(p.width, reinterpret_cast<const std::byte *>(&p.value), y + begin * p.width, count, 0,
                              p.width);
                   });
}

namespace {

// Rows of one element: indices are checked and made distances a block at a time, once for all of outer.
void gather_elements(const Call &call, const Gather &p) noexcept {
  static constexpr std::int32_t kNoColumn[kIndexBlock] = {};
  const Indices indices{call.operands[1], p.index_bytes, p.rows, 1};
  const Pick pick = pick_of(p.row_bytes);
  bool bad = false;
  const std::int64_t blocks = ceil_div(p.count, kIndexBlock);
  call.threads.run(static_cast<std::uint64_t>(blocks), static_cast<std::uint64_t>(1 + 64 / p.outer),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto block = static_cast<std::int64_t>(begin); block < static_cast<std::int64_t>(end);
                          ++block) {
                       const std::int64_t from = block * kIndexBlock, count = min_of(kIndexBlock, p.count - from);
                       if (!indices.each(
                               from, count, kNoColumn,
                               [&](std::int64_t first, std::int64_t far, const std::int32_t *at, std::int64_t some)
                                   __attribute__((always_inline)) {
                                     for (std::int64_t o = 0; o < p.outer; ++o)
                                       pick(call.operands[0] + (o * p.rows + far) * p.row_bytes, at, some,
                                            call.operands[2] + (o * p.count + first) * p.row_bytes);
                                   }))
                         __atomic_store_n(&bad, true, __ATOMIC_RELAXED);
                     }
                   });
  if (bad) indices.report_bad(call);
}

}  // namespace

void run_Gather(const Call &call) {
  const auto &p = call.as<Gather>();
  if (p.outer > 0) {
    switch (p.row_bytes) {
      case 1:
      case 2:
      case 4:
      case 8: return gather_elements(call, p);
      default: break;
    }
  }
  const std::byte *table = call.operands[0], *indices = call.operands[1];
  std::byte *y = call.operands[2];
  const auto index_at = [&](std::int64_t i) {
    if (p.index_bytes == 4) {
      std::int32_t v;
      std::memcpy(&v, indices + i * 4, 4);
      return std::int64_t{v};
    }
    std::int64_t v;
    std::memcpy(&v, indices + i * 8, 8);
    return v;
  };
  for (std::int64_t i = 0; i < p.count; ++i) {
    const std::int64_t index = index_at(i);
    if (index >= -p.rows && index < p.rows) continue;
    call.bad_index[0] = index, call.bad_index[1] = i;
    return;
  }
  if (p.outer == 0 || p.row_bytes == 0) return;
  const std::int64_t grain = max_of<std::int64_t>(1, 2 * kGrainBytes / p.row_bytes);
  call.threads.run(static_cast<std::uint64_t>(p.outer * p.count), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     auto outer = static_cast<std::int64_t>(begin) / p.count,
                          at = static_cast<std::int64_t>(begin) % p.count;
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       std::int64_t index = index_at(at);
                       if (index < 0) index += p.rows;
                       copy_row(p.row_bytes, table + (outer * p.rows + index) * p.row_bytes, y + task * p.row_bytes, 1,
                                p.row_bytes, p.row_bytes);
                       if (++at == p.count) at = 0, ++outer;
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
