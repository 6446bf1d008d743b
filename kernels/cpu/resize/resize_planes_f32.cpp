// SPDX-License-Identifier: Apache-2.0
// Resizing of planes by tables of rows and columns: rows are blended first, then the columns of what came out, a vector
// of them at a time where they lie near each other.
#include "kernels/cpu/resize/resize_tap.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Whether there is an instruction that chooses lanes by number.
constexpr bool kChooses = QR_ISA_BYTES >= 32;

// What the columns of a row read, a vector of them after the other, relative to the first that this vector reads. The
// last vector has some of the one before once more.
struct Columns {
  std::int32_t *first, *low, *high;
  float *weight;
  std::int64_t count;

  bool alone = true;       // one vector is read for each
  std::int64_t reach = 0;  // elements from a row's first on that may be read

  Columns(const ResizePlanesF32 &p, const std::byte *table, std::byte *room) noexcept : count(p.ow), reach(p.iw) {
    const std::int64_t padded = ceil_div<std::int64_t>(count, kLanes) * kLanes;
    low = reinterpret_cast<std::int32_t *>(room), high = low + padded;
    weight = reinterpret_cast<float *>(high + padded);
    first = reinterpret_cast<std::int32_t *>(weight + padded);
    for (std::int64_t at = 0; at < padded; at += kLanes) {
      std::int32_t least = INT32_MAX, most = 0;
      for (std::int64_t i = at; i < at + kLanes; ++i) {
        const Tap tap = tap_at(table, min_of(place(at) + i - at, count - 1), p.iw);
        low[i] = tap.low, high[i] = p.nearest ? tap.low : tap.high, weight[i] = tap.weight;
        least = min_of(least, min_of(low[i], high[i])), most = max_of(most, max_of(low[i], high[i]));
      }
      const std::int32_t apart = most - least;
      // (Negative: too far apart. In its lowest bit: whether two vectors are read.)
      std::int32_t &where = first[at / kLanes];
      where = -1;
      alone &= kChooses && apart < kLanes;
      if (!kChooses || apart >= 2 * kLanes) continue;
      where = 2 * least + (apart >= kLanes);
      reach = max_of<std::int64_t>(reach, least + (apart >= kLanes ? 2 : 1) * kLanes);
      for (std::int64_t i = at; i < at + kLanes; ++i) low[i] -= least, high[i] -= least;
    }
  }

  std::int64_t place(std::int64_t at) const noexcept { return count < kLanes ? 0 : min_of(at, count - kLanes); }
  QR_INLINE VecF pick(const float *from, bool both, VecI index) noexcept {
    const VecF near = choose(load(from), index);
    return both ? select(index < splat(std::int32_t{kLanes}), near, choose(load(from + kLanes), index)) : near;
  }
  // To `same` rows that follow each other; `known` is that number, or 0.
  template <bool nearest, bool lone, int known>
  void run(const float *row, float *y, std::int64_t same) const noexcept {
    const std::int64_t all = count, rows = known > 0 ? known : same;
    const std::int32_t *const lows = low, *const highs = high, *const places = first;
    const float *const weights = weight;
    for (std::int64_t at = 0; at < all; at += kLanes) {
      const std::int32_t where = places[at / kLanes];
      float *const to = y + place(at);
      if (!lone && where < 0) {
        const std::int64_t lanes = min_of<std::int64_t>(kLanes, all);
        for (std::int64_t i = 0; i < lanes; ++i) {
          const float a = row[lows[at + i]], h = weights[at + i];
          const float v = nearest || h == 0 ? a : (1.0f - h) * a + h * row[highs[at + i]];
          for (std::int64_t k = 0; k < rows; ++k) to[k * all + i] = v;
        }
        continue;
      }
      const float *const from = row + (where >> 1);
      const bool both = !lone && (where & 1) != 0;
      VecF v = pick(from, both, load(lows + at));
      if constexpr (!nearest) {
        const VecF h = load(weights + at);
        // (A weight of 0 must not make NaN of an infinity.)
        v = h == VecF{} ? v : (splat(1.0f) - h) * v + h * pick(from, both, load(highs + at));
      }
      for (std::int64_t k = 0; k < rows; ++k) {
        if (all >= kLanes) store(to + k * all, v);
        else store_part(to + k * all, v, static_cast<int>(all));
      }
    }
  }
};

void blend_rows(const float *low, const float *high, float weight, float *to, std::int64_t count) noexcept {
  const VecF v = splat(weight), u = splat(1.0f - weight);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, u * load(low + i) + v * load(high + i));
  if (const int rest = static_cast<int>(count - i); rest > 0)
    store_part(to + i, u * load_part(low + i, rest) + v * load_part(high + i, rest), rest);
}

// The rows [row, last) of all planes.
void run_rows(const Call &call, const ResizePlanesF32 &p, std::int64_t row, std::int64_t last, float *work_rows) {
  const float *const x = call.operand<const float>(0);
  const std::byte *const rows = call.operands[1];
  float *const y = call.operand<float>(3);
  const std::int64_t width = p.iw, wide = width + kResizeBeyond;
  for (std::int64_t i = 0; i < kResizeWorkRows; ++i)
    for (std::int64_t j = width; j < wide; ++j) work_rows[i * wide + j] = 0;
  const Columns across(p, call.operands[2], reinterpret_cast<std::byte *>(work_rows + kResizeWorkRows * wide));
  const auto bytes = bytes_of<float>(width);
  const std::int64_t inside = p.planes * p.ih * width - across.reach;
  std::int64_t oy = row % p.oh, plane = row / p.oh * p.ih * width;
  const auto next = [&]() __attribute__((always_inline)) {
    ++row;
    if (++oy == p.oh) oy = 0, plane += p.ih * width;
  };
  if (p.nearest) {
    const auto source = [&]() __attribute__((always_inline)) { return plane + tap_at(rows, oy, p.ih).low * width; };
    std::int64_t low = source(), ahead = low;
    while (row < last) {
      float *const to = y + row * p.ow;
      std::int64_t same = 0;  // rows that are the same are written together
      do {
        ++same;
        next();
        ahead = source();
      } while (row < last && ahead == low);
      const float *from = x + low;
      if (low > inside) {  // vectors must not reach beyond the last plane
        std::memcpy(work_rows, from, bytes);
        from = work_rows;
      }
      if (!across.alone) across.run<true, false, 0>(from, to, same);
      else if (same == 2) across.run<true, true, 2>(from, to, same);
      else across.run<true, true, 0>(from, to, same);
      low = ahead;
    }
    return;
  }
  // Some rows at a time: what was just stored is slow to be read in other vectors.
  while (row < last) {
    const std::int64_t first = row, count = min_of(last - row, kResizeWorkRows);
    for (std::int64_t i = 0; i < count; ++i, next()) {
      const Tap v = tap_at(rows, oy, p.ih);
      const float *const low = x + plane + v.low * width;
      float *const line = work_rows + i * wide;
      if (v.low == v.high || v.weight == 0) std::memcpy(line, low, bytes);
      else blend_rows(low, x + plane + v.high * width, v.weight, line, width);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const float *const from = work_rows + i * wide;
      float *const to = y + (first + i) * p.ow;
      if (across.alone) across.run<false, true, 1>(from, to, 1);
      else across.run<false, false, 1>(from, to, 1);
    }
  }
}

}  // namespace

void run_ResizePlanesF32(const Call &call) {
  const auto &p = call.as<ResizePlanesF32>();
  call.threads.run(static_cast<std::uint64_t>(p.planes * p.oh),
                   static_cast<std::uint64_t>(max_of<std::int64_t>(1, 16384 / p.ow)),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     run_rows(call, p, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end),
                              reinterpret_cast<float *>(call.worker_scratch(worker)));
                   });
}

}  // namespace quarry::kernels::QR_ISA
