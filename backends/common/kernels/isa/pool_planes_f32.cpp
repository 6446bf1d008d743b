// SPDX-License-Identifier: Apache-2.0
// Pools over f32 planes, as ONNX has them: the rows of a window are joined first, then the columns of what came out.
#include "backends/common/kernels/isa/kernels.h"

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

template <bool greatest>
struct Planes {
  const PoolPlanesF32 &p;
  // What the rows of a window came to, with the padding of a row; of a few windows, because what was just stored is
  // slow to be read in other vectors.
  float *lines;
  float *divisors;  // of averages, without the window's rows

  static VecF none() noexcept { return splat(greatest ? -__builtin_inff() : 0.0f); }

  Planes(const PoolPlanesF32 &params, std::byte *scratch) noexcept
      : p(params), lines(reinterpret_cast<float *>(scratch)), divisors(lines + kPoolLines * pool_line_floats(params)) {
    const Window &w = p.window;
    for (std::int64_t i = 0; i < kPoolLines * pool_line_floats(p); i += kLanes) store(lines + i, none());
    if (greatest) return;
    for (std::int64_t ox = 0; ox < w.ow; ++ox) {
      const Hits h = hits_of(std::int64_t{ox} * w.sw - w.pad_left, w.dw, w.kw, w.iw, p.pad_right);
      divisors[ox] = static_cast<float>(p.op == PoolOp::AverageIncludePad ? h.padded : h.last - h.first);
    }
  }

  // Returns how many rows average is over; `has_nan` tells whether there is one.
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
    for (std::int64_t i = 0; i < columns; i += kLanes) {
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
  // in the image. (Of averages the order of additions would hang on how rows are shared out.)
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

  // One over what averages of a line are divided by, which has `rows` rows in each window.
  void invert(float rows, float *inverses) const noexcept {
    const VecF one = splat(1.0f), counted = splat(rows);
    std::int64_t ox = 0;
    for (; ox + kLanes <= p.window.ow; ox += kLanes)
      store(inverses + ox, one / max(one, load(divisors + ox) * counted));
    if (const int rest = static_cast<int>(p.window.ow - ox); rest > 0)
      store_part(inverses + ox, one / max(one, load_part(divisors + ox, rest) * counted), rest);
  }

  template <int stride, int known, bool careful>
  QR_PLANES_INLINE void across(const float *line, float *y, const float *inverses) const noexcept {
    NanSeen nan;
    const Window &w = p.window;
    const std::int64_t dw = w.dw, ow = w.ow, kw = w.kw;
    for (std::int64_t ox = 0; ox < ow; ox += kLanes) {
      const int lanes = static_cast<int>(min_of<std::int64_t>(kLanes, ow - ox));
      VecF acc = join<greatest, known>(
          kw, careful ? &nan : nullptr, [=](std::int64_t k) __attribute__((always_inline)) {
            const float *const at = line + ox * stride + k * dw;
            if constexpr (stride == 1) return load(at);
            else return even_of(load(at), load(at + kLanes));
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

template <bool greatest>
void pool(const Call &call, const PoolPlanesF32 &p) {
  const Window &w = p.window;
  const float *const x = call.operand<const float>(0);
  float *const y = call.operand<float>(1);
  const std::int64_t grain = max_of<std::int64_t>(1, 32768 / (std::int64_t{w.iw} * w.kh + std::int64_t{w.ow} * w.kw));
  call.threads.run(static_cast<std::uint64_t>(p.planes * w.oh), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     const Planes<greatest> planes(p, call.worker_scratch(worker));
                     const std::int64_t line = pool_line_floats(p);
                     const auto last = static_cast<std::int64_t>(end);
                     // (The last line has what averages are multiplied by.)
                     constexpr std::int64_t kWorked = kPoolLines - 1;
                     float *const inverses = planes.lines + kWorked * line;
                     float inverted = -1;
                     for (auto row = static_cast<std::int64_t>(begin); row < last; row += kWorked) {
                       const std::int64_t rows = min_of(last - row, kWorked);
                       float counted[kWorked];
                       bool has_nan[kWorked];
                       std::uint32_t made = 0;
                       for (std::int64_t i = 0; i < rows; ++i) {
                         if ((made >> i & 1) != 0) continue;
                         const float *const plane = x + (row + i) / w.oh * w.ih * w.iw;
                         const std::int64_t oy = (row + i) % w.oh, other = i + w.dh;
                         float *const to = planes.lines + i * line;
                         if (other < rows && planes.down_two(plane, oy, to, to + w.dh * line, has_nan[i]))
                           made |= 1u << other, has_nan[other] = has_nan[i];
                         else counted[i] = planes.down(plane, oy, to, has_nan[i]);
                       }
                       for (std::int64_t i = 0; i < rows; ++i) {
                         const float *const from = planes.lines + i * line;
                         float *const to = y + (row + i) * w.ow;
                         if (!greatest && counted[i] != inverted) {
                           inverted = counted[i];
                           planes.invert(inverted, inverses);
                         }
                         if (w.sw == 1) planes.template across<1>(from, to, inverses, has_nan[i]);
                         else planes.template across<2>(from, to, inverses, has_nan[i]);
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
