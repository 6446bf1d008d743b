// SPDX-License-Identifier: Apache-2.0
// Pools over f32 planes, as ONNX has them: the rows of a window are joined first, then the columns of what came out.
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

QR_INLINE void see_all(NanSeen &all, const NanSeen &more) noexcept {
  all.lanes = static_cast<decltype(all.lanes)>(all.lanes | more.lanes);
}

// What at(0) to at(count - 1) come to; `known` is that number, or 0 where the compiler does not know it. `seen` gets
// where NaN was; nullptr: it is known that there is none.
template <bool greatest, int known, class At>
QR_INLINE VecF join(std::int64_t count, NanSeen *seen, At &&at) noexcept {
  VecF acc = splat(greatest ? -__builtin_inff() : 0.0f);
  if constexpr (known > 0) {
    VecF v[known];
    QR_UNROLL for (int k = 0; k < known; ++k) v[k] = at(k);
    acc = v[0];
    QR_UNROLL for (int k = 1; k < known; ++k) acc = greatest ? max(v[k], acc) : acc + v[k];
    if constexpr (greatest) {
      if (seen) {
        NanSeen nan;
        QR_UNROLL for (int k = 0; k < known; k += 2) nan.see(v[k], v[k + 1 < known ? k + 1 : k]);
        acc = nan.put(acc);
        see_all(*seen, nan);
      }
    }
  } else {
    if constexpr (greatest) {
      // (Two at a time, so that one does not wait for the other.)
      VecF other = acc;
      NanSeen nan;
      std::int64_t k = 0;
      for (; k + 2 <= count; k += 2) {
        const VecF a = at(k), b = at(k + 1);
        if (seen) nan.see(a, b);
        acc = max(a, acc), other = max(b, other);
      }
      if (k < count) {
        const VecF a = at(k);
        if (seen) nan.see(a, a);
        acc = max(a, acc);
      }
      acc = max(acc, other);
      if (seen) {
        acc = nan.put(acc);
        see_all(*seen, nan);
      }
    } else {
      for (std::int64_t k = 0; k < count; ++k) acc += at(k);
    }
  }
  return acc;
}
// Every second element of two vectors that lie side by side.
QR_INLINE VecF even_of(VecF a, VecF b) noexcept {
#if QR_ISA_BYTES == 64
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif QR_ISA_BYTES == 32
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
  return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}

QR_INLINE VecF odd_of(VecF a, VecF b) noexcept {
#if QR_ISA_BYTES == 64
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif QR_ISA_BYTES == 32
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  return __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}
// The last of one and all but the last of another; all but the first of one and the first of another.
QR_INLINE VecF after(VecF before, VecF v) noexcept {
#if QR_ISA_BYTES == 64
  return __builtin_shufflevector(before, v, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
#elif QR_ISA_BYTES == 32
  return __builtin_shufflevector(before, v, 7, 8, 9, 10, 11, 12, 13, 14);
#else
  return __builtin_shufflevector(before, v, 3, 4, 5, 6);
#endif
}
QR_INLINE VecF ahead(VecF v, VecF next) noexcept {
#if QR_ISA_BYTES == 64
  return __builtin_shufflevector(v, next, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
#elif QR_ISA_BYTES == 32
  return __builtin_shufflevector(v, next, 1, 2, 3, 4, 5, 6, 7, 8);
#else
  return __builtin_shufflevector(v, next, 1, 2, 3, 4);
#endif
}
// The same by two.
QR_INLINE VecF after_two(VecF before, VecF v) noexcept {
#if QR_ISA_BYTES == 64
  return __builtin_shufflevector(before, v, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);
#elif QR_ISA_BYTES == 32
  return __builtin_shufflevector(before, v, 6, 7, 8, 9, 10, 11, 12, 13);
#else
  return __builtin_shufflevector(before, v, 2, 3, 4, 5);
#endif
}
QR_INLINE VecF two_ahead(VecF v, VecF next) noexcept {
#if QR_ISA_BYTES == 64
  return __builtin_shufflevector(v, next, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17);
#elif QR_ISA_BYTES == 32
  return __builtin_shufflevector(v, next, 2, 3, 4, 5, 6, 7, 8, 9);
#else
  return __builtin_shufflevector(v, next, 2, 3, 4, 5);
#endif
}
// `lanes` elements that lie `step` apart.
__attribute__((noinline)) VecF every(const float *p, std::int64_t step, int lanes) noexcept {
  float room[kLanes] = {};
  for (int i = 0; i < lanes; ++i) room[i] = p[i * step];
  return load(room);
}
// The first `count` elements, as many as a vector has or fewer, and `least` behind them.
QR_INLINE VecF load_least(const float *p, std::int64_t count, VecF least = splat(-__builtin_inff())) noexcept {
  if (count >= kLanes) return load(p);
  if (count <= 0) return least;
  const int lanes = static_cast<int>(count);
#if defined(__AVX512F__) && QR_ISA_BYTES == 64 && !defined(QR_EMULATED_AVX512)
  return reinterpret_cast<VecF>(
      _mm512_mask_loadu_ps(reinterpret_cast<__m512>(least), static_cast<__mmask16>((1u << lanes) - 1), p));
#else
  return select(first_lanes(lanes), load_part(p, lanes), least);
#endif
}

// The taps of one axis from `start` on that hit the image, and those that hit it or its padding.
struct Hits {
  std::int64_t first, last, padded;
};
QR_INLINE Hits hits_of(std::int64_t start, std::int64_t step, std::int64_t taps, std::int64_t size,
                       std::int64_t pad_end) noexcept {
  if (start >= 0 && start + (taps - 1) * step < size) return {0, taps, taps};  // nearly always
  Hits h{0, 0, 0};
  for (std::int64_t t = 0; t < taps; ++t) {
    const std::int64_t at = start + t * step;
    h.first += at < 0, h.last += at < size, h.padded += at < size + pad_end;
  }
  h.first = min_of(h.first, h.last);
  return h;
}

#define QR_PLANES_INLINE __attribute__((always_inline))

// The columns of a row, each of which `taps` make: in parts where the compiler does not know how many (Parts).
template <int known>
struct ColumnParts : Parts {
  ColumnParts(const Threads &threads, std::int64_t columns, std::int64_t taps) noexcept
      : Parts(threads, columns, max_of<std::int64_t>(1, kElements / max_of<std::int64_t>(1, taps) / kLanes) * kLanes) {}
};
template <int known>
requires(known > 0) struct ColumnParts<known> : OnePart {
  ColumnParts(const Threads &threads, std::int64_t columns, std::int64_t) noexcept : OnePart(threads, columns) {}
};

template <bool greatest>
struct Planes {
  const PoolPlanesF32 &p;
  const Threads &threads;
  // What the rows of a window came to, with the padding of a row; of a few windows, because what was just stored is
  // slow to be read in other vectors.
  float *work_rows;
  float *divisors;  // of averages, without the window's rows

  static VecF none() noexcept { return splat(greatest ? -__builtin_inff() : 0.0f); }

  Planes(const PoolPlanesF32 &params, const Threads &workers, std::byte *scratch) noexcept
      : p(params),
        threads(workers),
        work_rows(reinterpret_cast<float *>(scratch)),
        divisors(work_rows + kPoolWorkRows * pool_row_floats(params)) {
    const Window &w = p.window;
    for (std::int64_t i = 0; i < kPoolWorkRows * pool_row_floats(p); i += kLanes) store(work_rows + i, none());
    if (greatest) return;
    for (std::int64_t ox = 0; ox < w.ow; ++ox) {
      const Hits h = hits_of(std::int64_t{ox} * w.sw - w.pad_left, w.dw, w.kw, w.iw, p.pad_right);
      divisors[ox] = static_cast<float>(p.op == PoolOp::AverageIncludePad ? h.padded : h.last - h.first);
    }
  }

  // Returns how many rows average is over; `has_nan` says whether there is one.
  float down(const float *plane, std::int64_t oy, float *line, bool &has_nan) const noexcept {
    NanSeen nan;
    const Window &w = p.window;
    const std::int64_t top = oy * w.sh - w.pad_top;
    const Hits v = hits_of(top, w.dh, w.kh, w.ih, p.pad_bottom);
    const float *const from = plane + (top + v.first * w.dh) * w.iw;
    const std::int64_t rows = v.last - v.first;
    float *const to = line + w.pad_left;
    if (rows == 3) down_rows<3>(from, to, rows, nan);
    else if (rows == 2) down_rows<2>(from, to, rows, nan);
    else if (rows == 5) down_rows<5>(from, to, rows, nan);
    else down_rows<0>(from, to, rows, nan);
    has_nan = greatest && nan.any();
    return static_cast<float>(p.op == PoolOp::AverageIncludePad ? v.padded : rows);
  }
  template <int known>
  QR_PLANES_INLINE void down_rows(const float *from, float *to, std::int64_t rows, NanSeen &nan) const noexcept {
    const Window &w = p.window;
    const std::int64_t step = std::int64_t{w.dh} * w.iw,
                       columns = min_of<std::int64_t>(w.iw, padded_width(p) - w.pad_left);
    for (ColumnParts<known> part(threads, columns, rows); part.next();)
      for (std::int64_t i = part.begin; i < part.end; i += kLanes) {
        const int lanes = static_cast<int>(min_of<std::int64_t>(kLanes, columns - i));
        const VecF v = join<greatest, known>(
            rows, &nan, [=](std::int64_t r) __attribute__((always_inline)) {
              const float *const at = from + r * step + i;
              return lanes == kLanes ? load(at) : load_part(at, lanes);
            });
        if (lanes == kLanes) store(to + i, v);
        else store_part(to + i, v, lanes);
      }
  }

  // The rows oy and oy + dh at once, whose windows have all rows but one in common; false where they do not lie wholly
  // in the image. (Of averages the order of additions would depend on how rows are shared out.)
  bool down_two(const float *plane, std::int64_t oy, float *one, float *two, bool &has_nan) const noexcept {
    NanSeen nan;
    const Window &w = p.window;
    const std::int64_t top = oy - w.pad_top;
    if (!greatest || w.sh != 1 || oy + w.dh >= w.oh || top < 0 || top + std::int64_t{w.kh} * w.dh >= w.ih) return false;
    const float *const from = plane + top * w.iw;
    if (w.kh == 3) down_two_rows<3>(from, one + w.pad_left, two + w.pad_left, nan);
    else if (w.kh == 2) down_two_rows<2>(from, one + w.pad_left, two + w.pad_left, nan);
    else if (w.kh == 5) down_two_rows<5>(from, one + w.pad_left, two + w.pad_left, nan);
    else return false;
    has_nan = nan.any();
    return true;
  }
  template <int known>
  QR_PLANES_INLINE void down_two_rows(const float *from, float *one, float *two, NanSeen &seen) const noexcept {
    const Window &w = p.window;
    const std::int64_t step = std::int64_t{w.dh} * w.iw,
                       columns = min_of<std::int64_t>(w.iw, padded_width(p) - w.pad_left);
    for (std::int64_t i = 0; i < columns; i += kLanes) {
      const int lanes = static_cast<int>(min_of<std::int64_t>(kLanes, columns - i));
      VecF v[known + 1];
      QR_UNROLL for (int k = 0; k <= known; ++k) v[k] =
          lanes == kLanes ? load(from + k * step + i) : load_part(from + k * step + i, lanes);
      VecF both = v[1];
      NanSeen nan, first, second;
      QR_UNROLL for (int k = 2; k < known; ++k) both = max(v[k], both);
      QR_UNROLL for (int k = 1; k < known; k += 2) nan.see(v[k], v[k + 1 < known ? k + 1 : k]);
      first = second = nan;
      first.see(v[0], v[0]), second.see(v[known], v[known]);
      const VecF a = first.put(max(both, v[0])), b = second.put(max(v[known], both));  // the first of equal ones
      see_all(seen, first), see_all(seen, second);
      if (lanes == kLanes) store(one + i, a), store(two + i, b);
      else store_part(one + i, a, lanes), store_part(two + i, b, lanes);
    }
  }

  // Windows of two or three columns, every second one: which of the columns before, at, behind and two behind twice the
  // output's they have.
  enum class Pairs { None, AtBehind, Before, BeforeAt, Ahead };
  Pairs pairs() const noexcept {
    const Window &w = p.window;
    if (!greatest || w.sw != 2 || (w.kw != 1 && w.dw != 1)) return Pairs::None;
    if (w.kw == 3) return w.pad_left == 1 ? Pairs::Before : w.pad_left == 0 ? Pairs::Ahead : Pairs::None;
    if (w.kw == 2) return w.pad_left == 0 ? Pairs::AtBehind : w.pad_left == 1 ? Pairs::BeforeAt : Pairs::None;
    return Pairs::None;
  }
  // A row of those; false where there is a NaN in it.
  bool by_pairs(Pairs form, const float *plane, std::int64_t oy, float *y) const noexcept {
    const Window &w = p.window;
    const std::int64_t top = oy * w.sh - w.pad_top;
    const Hits v = hits_of(top, w.dh, w.kh, w.ih, p.pad_bottom);
    const float *const from = plane + (top + v.first * w.dh) * w.iw;
    const std::int64_t rows = v.last - v.first;
    switch (form) {
      case Pairs::AtBehind: return by_rows<Pairs::AtBehind, 2>(from, y, rows);
      case Pairs::Before: return by_rows<Pairs::Before, 3>(from, y, rows);
      case Pairs::BeforeAt: return by_rows<Pairs::BeforeAt, 2>(from, y, rows);
      default: return by_rows<Pairs::Ahead, 3>(from, y, rows);
    }
  }
  // `usual`: rows of windows that are as high as wide.
  template <Pairs form, int usual>
  bool by_rows(const float *from, float *y, std::int64_t rows) const noexcept {
    if (rows == usual) return row_of_pairs<form, usual>(from, y, rows);
    return row_of_pairs<form, 0>(from, y, rows);
  }
  template <Pairs form, int known>
  QR_PLANES_INLINE bool row_of_pairs(const float *from, float *y, std::int64_t rows) const noexcept {
    const Window &w = p.window;
    const std::int64_t step = std::int64_t{w.dh} * w.iw, width = w.iw, ow = w.ow;
    NanSeen nan;
    const auto down = [&](std::int64_t column) __attribute__((always_inline)) {
      const std::int64_t left = width - column;
      VecF v[known > 0 ? known : 1], acc = splat(-__builtin_inff());
      if constexpr (known > 0) {
        QR_UNROLL for (int k = 0; k < known; ++k) v[k] = load_least(from + k * step + column, left);
        acc = v[0];
        QR_UNROLL for (int k = 1; k < known; ++k) acc = max(v[k], acc);
        QR_UNROLL for (int k = 0; k < known; k += 2) nan.see(v[k], v[k + 1 < known ? k + 1 : k]);
      } else {
        for (std::int64_t r = 0; r < rows; ++r) {
          v[0] = load_least(from + r * step + column, left);
          nan.see(v[0], v[0]);
          acc = max(v[0], acc);
        }
      }
      return acc;
    };
    VecF a = down(0), b = down(kLanes), before = splat(-__builtin_inff());
    for (std::int64_t ox = 0; ox < ow; ox += kLanes) {
      const VecF at = even_of(a, b), behind = odd_of(a, b);
      VecF acc;
      if constexpr (form == Pairs::Before) acc = max(max(at, behind), after(before, behind));
      else if constexpr (form == Pairs::BeforeAt) acc = max(at, after(before, behind));
      else acc = max(at, behind);
      before = behind;
      if (ox + kLanes < ow || form == Pairs::Ahead) {
        const std::int64_t next = 2 * (ox + kLanes);
        a = down(next), b = down(next + kLanes);
      }
      if constexpr (form == Pairs::Ahead) acc = max(acc, ahead(at, even_of(a, b)));
      if (ox + kLanes <= ow) store(y + ox, acc);
      else store_part(y + ox, acc, static_cast<int>(ow - ox));
    }
    return !nan.any();
  }

  // Windows of three or five columns around each column: what rows come to stays in registers, and columns are shifted.
  bool centred() const noexcept {
    const Window &w = p.window;
    return w.sw == 1 && w.dw == 1 && (w.kw == 3 || w.kw == 5) && w.pad_left == w.kw / 2 && w.ow == w.iw;
  }
  // A row of those; false where the greatest of it are asked for and there is a NaN in it. `inverses`: of averages,
  // what sums are multiplied by, made for so many rows.
  bool by_shifts(const float *plane, std::int64_t oy, float *y, float *inverses, float &inverted) const noexcept {
    const Window &w = p.window;
    const std::int64_t top = oy * w.sh - w.pad_top;
    const Hits v = hits_of(top, w.dh, w.kh, w.ih, p.pad_bottom);
    const float *const from = plane + (top + v.first * w.dh) * w.iw;
    const std::int64_t rows = v.last - v.first;
    const auto counted = static_cast<float>(p.op == PoolOp::AverageIncludePad ? v.padded : rows);
    if (!greatest && counted != inverted) invert(inverted = counted, inverses);
    if (w.kw == 3)
      return rows == 3 ? shifted_row<3, 3>(from, y, rows, inverses) : shifted_row<3, 0>(from, y, rows, inverses);
    return rows == 5 ? shifted_row<5, 5>(from, y, rows, inverses) : shifted_row<5, 0>(from, y, rows, inverses);
  }
  template <int taps, int known>
  QR_PLANES_INLINE bool shifted_row(const float *from, float *y, std::int64_t rows,
                                    const float *inverses) const noexcept {
    const Window &w = p.window;
    const std::int64_t step = std::int64_t{w.dh} * w.iw, width = w.iw;
    const VecF least = splat(greatest ? -__builtin_inff() : 0.0f);
    const auto both = [](VecF a, VecF b) __attribute__((always_inline)) { return greatest ? max(a, b) : a + b; };
    NanSeen nan;
    const auto down = [&](std::int64_t column) __attribute__((always_inline)) {
      const std::int64_t left = width - column;
      if (left <= 0) return least;
      VecF v[known > 0 ? known : 1], acc = least;
      if constexpr (known > 0) {
        QR_UNROLL for (int k = 0; k < known; ++k) v[k] = load_least(from + k * step + column, left, least);
        acc = v[0];
        QR_UNROLL for (int k = 1; k < known; ++k) acc = both(v[k], acc);
        if constexpr (greatest)
          QR_UNROLL for (int k = 0; k < known; k += 2) nan.see(v[k], v[k + 1 < known ? k + 1 : k]);
      } else {
        for (std::int64_t r = 0; r < rows; ++r) {
          v[0] = load_least(from + r * step + column, left, least);
          if constexpr (greatest) nan.see(v[0], v[0]);
          acc = both(v[0], acc);
        }
      }
      return acc;
    };
    VecF before = least, at = down(0);
    for (std::int64_t ox = 0; ox < width; ox += kLanes) {
      const VecF next = down(ox + kLanes);
      VecF acc = both(after(before, at), ahead(at, next));
      if constexpr (taps == 5) acc = both(acc, both(after_two(before, at), two_ahead(at, next)));
      acc = both(acc, at);
      const int lanes = static_cast<int>(min_of<std::int64_t>(kLanes, width - ox));
      if (lanes == kLanes) store(y + ox, greatest ? acc : acc * load(inverses + ox));
      else store_part(y + ox, greatest ? acc : acc * load_part(inverses + ox, lanes), lanes);
      before = at, at = next;
    }
    return !nan.any();
  }

  // One over what averages of a line are divided by, which has `rows` rows in each window.
  void invert(float rows, float *inverses) const noexcept {
    const VecF one = splat(1.0f), counted = splat(rows);
    std::int64_t ox = 0;
    for (; ox + kLanes <= p.window.ow; ox += kLanes)
      store(inverses + ox, one / max(one, load(divisors + ox) * counted));
    if (const int rest = static_cast<int>(p.window.ow - ox); rest > 0)
      store_part(inverses + ox, one / max(one, load_part(divisors + ox, rest) * counted), rest);
  }

  // (A stride of 0 is one that the compiler does not know.)
  template <int stride, int known, bool careful>
  QR_PLANES_INLINE void across(const float *line, float *y, const float *inverses) const noexcept {
    NanSeen nan;
    const Window &w = p.window;
    const std::int64_t dw = w.dw, ow = w.ow, kw = w.kw, step = stride > 0 ? stride : std::int64_t{w.sw};
    for (ColumnParts<known> part(threads, ow, kw); part.next();)
      for (std::int64_t ox = part.begin; ox < part.end; ox += kLanes) {
        const int lanes = static_cast<int>(min_of<std::int64_t>(kLanes, ow - ox));
        VecF acc = join<greatest, known>(
            kw, careful ? &nan : nullptr, [=](std::int64_t k) __attribute__((always_inline)) {
              const float *const at = line + ox * step + k * dw;
              if constexpr (stride == 1) return load(at);
              else if constexpr (stride == 2) return even_of(load(at), load(at + kLanes));
              else return every(at, step, lanes);
            });
        if (lanes == kLanes) store(y + ox, greatest ? acc : acc * load(inverses + ox));
        else store_part(y + ox, greatest ? acc : acc * load_part(inverses + ox, lanes), lanes);
      }
  }
  template <int stride, bool careful>
  void across(const float *line, float *y, const float *inverses) const noexcept {
    if (p.window.kw == 3) across<stride, 3, careful>(line, y, inverses);
    else if (p.window.kw == 2) across<stride, 2, careful>(line, y, inverses);
    else if (p.window.kw == 5) across<stride, 5, careful>(line, y, inverses);
    else across<stride, 0, careful>(line, y, inverses);
  }
  template <int stride>
  void across(const float *line, float *y, const float *inverses, bool has_nan) const noexcept {
    if (greatest && has_nan) across<stride, true>(line, y, inverses);
    else across<stride, false>(line, y, inverses);
  }
};

// The rows [row, last) of windows by pairs.
void pool_pairs(const Planes<true> &planes, Planes<true>::Pairs form, const float *x, float *y, std::int64_t row,
                std::int64_t last) noexcept {
  const Window &w = planes.p.window;
  std::int64_t oy = row % w.oh;
  const float *plane = x + row / w.oh * w.ih * w.iw;
  for (; row < last; ++row) {
    float *const to = y + row * w.ow;
    if (!planes.by_pairs(form, plane, oy, to)) {
      bool has_nan;
      (void)planes.down(plane, oy, planes.work_rows, has_nan);
      planes.across<2>(planes.work_rows, to, nullptr, has_nan);
    }
    if (++oy == w.oh) oy = 0, plane += std::int64_t{w.ih} * w.iw;
  }
}

// The rows [row, last) of windows around columns.
template <bool greatest>
void pool_centred(const Planes<greatest> &planes, const float *x, float *y, std::int64_t row,
                  std::int64_t last) noexcept {
  const Window &w = planes.p.window;
  float *const inverses = planes.work_rows + (kPoolWorkRows - 1) * pool_row_floats(planes.p);
  float inverted = -1;
  std::int64_t oy = row % w.oh;
  const float *plane = x + row / w.oh * w.ih * w.iw;
  for (; row < last; ++row) {
    float *const to = y + row * w.ow;
    if (!planes.by_shifts(plane, oy, to, inverses, inverted)) {
      bool has_nan;
      (void)planes.down(plane, oy, planes.work_rows, has_nan);
      planes.template across<1>(planes.work_rows, to, nullptr, has_nan);
    }
    if (++oy == w.oh) oy = 0, plane += std::int64_t{w.ih} * w.iw;
  }
}

template <bool greatest>
void pool(const Call &call, const PoolPlanesF32 &p) {
  const Window &w = p.window;
  const float *const x = call.operand<const float>(0);
  float *const y = call.operand<float>(1);
  const std::int64_t grain = max_of<std::int64_t>(1, 32768 / (std::int64_t{w.iw} * w.kh + std::int64_t{w.ow} * w.kw));
  call.threads.run(
      static_cast<std::uint64_t>(p.planes * w.oh), static_cast<std::uint64_t>(grain),
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        const Planes<greatest> planes(p, call.threads, call.worker_scratch(worker));
        if constexpr (greatest)
          if (const auto form = planes.pairs(); form != Planes<true>::Pairs::None)
            return pool_pairs(planes, form, x, y, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
        if (planes.centred())
          return pool_centred<greatest>(planes, x, y, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
        const std::int64_t row_floats = pool_row_floats(p);
        const auto last = static_cast<std::int64_t>(end);
        // (The last line has what averages are multiplied by.)
        constexpr std::int64_t kWorked = kPoolWorkRows - 1;
        float *const inverses = planes.work_rows + kWorked * row_floats;
        float inverted = -1;
        std::int64_t oy = static_cast<std::int64_t>(begin) % w.oh;
        const float *plane = x + static_cast<std::int64_t>(begin) / w.oh * w.ih * w.iw;
        const auto next = [&]() __attribute__((always_inline)) {
          if (++oy == w.oh) oy = 0, plane += std::int64_t{w.ih} * w.iw;
        };
        for (auto row = static_cast<std::int64_t>(begin); row < last; row += kWorked) {
          const std::int64_t rows = min_of(last - row, kWorked);
          float counted[kWorked];
          bool has_nan[kWorked];
          std::uint32_t made = 0;
          for (std::int64_t i = 0; i < rows; ++i, next()) {
            if ((made >> i & 1) != 0) continue;
            const std::int64_t other = i + w.dh;
            float *const to = planes.work_rows + i * row_floats;
            if (other < rows && planes.down_two(plane, oy, to, to + w.dh * row_floats, has_nan[i]))
              made |= 1u << other, has_nan[other] = has_nan[i], counted[i] = counted[other] = static_cast<float>(w.kh);
            else counted[i] = planes.down(plane, oy, to, has_nan[i]);
          }
          for (std::int64_t i = 0; i < rows; ++i) {
            const float *const from = planes.work_rows + i * row_floats;
            float *const to = y + (row + i) * w.ow;
            if (!greatest && counted[i] != inverted) {
              inverted = counted[i];
              planes.invert(inverted, inverses);
            }
            if (w.sw == 1) planes.template across<1>(from, to, inverses, has_nan[i]);
            else if (w.sw == 2) planes.template across<2>(from, to, inverses, has_nan[i]);
            else planes.template across<0>(from, to, inverses, has_nan[i]);
          }
        }
      });
}

}  // namespace

void run_PoolPlanesF32(const Call &call) {
  const auto &p = call.as<PoolPlanesF32>();
  if (p.op == PoolOp::Max) pool<true>(call, p);
  else pool<false>(call, p);
}

}  // namespace quarry::kernels::QR_ISA
