// SPDX-License-Identifier: Apache-2.0
// Gathers what output pixels see into rows: [tap][channel of the group], as s16 or as bytes of the sign that the dot
// product wants. Taps beyond the border are the input's zero point.
#pragma once

#include "kernels/cpu/vector/int_vec.h"

namespace quarry::kernels::QR_ISA {

// Between s16 rows and bytes of either sign or s16; u16 are s16 whose upper bit is turned over (`flip`).
template <class T>
QR_INLINE VecH row_of(const T *from, std::int16_t flip) noexcept {
  if constexpr (sizeof(T) == 1) return widen_halves(from);
  else return widen_halves(from) ^ flip;
}
template <int N, class T>
QR_INLINE void widen_few(std::int16_t *to, const T *from, std::int16_t flip) noexcept {
  typedef T From __attribute__((vector_size(N * sizeof(T)), aligned(sizeof(T)), may_alias));
  typedef std::int16_t To __attribute__((vector_size(N * 2), aligned(2), may_alias));
  if constexpr (sizeof(T) == 1)
    *reinterpret_cast<To *>(to) = __builtin_convertvector(*reinterpret_cast<const From *>(from), To);
  else *reinterpret_cast<To *>(to) = *reinterpret_cast<const From *>(from) ^ flip;
}
template <class T>
QR_INLINE void gather_run(std::int16_t *to, const T *from, std::int64_t count, std::int16_t flip) noexcept {
  if (count >= kHalves) {
    std::int64_t i = 0;
    for (; i + kHalves <= count; i += kHalves) store(to + i, row_of(from + i, flip));
    if (i < count) store(to + count - kHalves, row_of(from + count - kHalves, flip));
    return;
  }
  if constexpr (kHalves > 16) {
    if (count >= 16) return widen_few<16>(to, from, flip), widen_few<16>(to + count - 16, from + count - 16, flip);
  }
  if constexpr (kHalves > 8) {
    if (count >= 8) return widen_few<8>(to, from, flip), widen_few<8>(to + count - 8, from + count - 8, flip);
  }
  if (count >= 4) return widen_few<4>(to, from, flip), widen_few<4>(to + count - 4, from + count - 4, flip);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int16_t>(sizeof(T) == 1 ? from[i] : from[i] ^ flip);
}
// `count` bytes, N <= count, by moves of N; the last overlaps the one before.
template <int N>
QR_INLINE void copy_bytes(std::int8_t *to, const std::int8_t *from, std::int64_t count, std::int8_t flip) noexcept {
  typedef std::int8_t Any __attribute__((vector_size(N), aligned(1), may_alias));
  const auto move = [&](std::int64_t i) __attribute__((always_inline)) {
    *reinterpret_cast<Any *>(to + i) = *reinterpret_cast<const Any *>(from + i) ^ flip;
  };
  std::int64_t i = 0;
  for (; i + N <= count; i += N) move(i);
  if (i < count) move(count - N);
}
QR_INLINE void gather_run(std::int8_t *to, const std::int8_t *from, std::int64_t count, std::int8_t flip) noexcept {
  if (count >= kBytes) return copy_bytes<kBytes>(to, from, count, flip);
  if constexpr (kBytes > 32) {
    if (count >= 32) return copy_bytes<32>(to, from, count, flip);
  }
  if constexpr (kBytes > 16) {
    if (count >= 16) return copy_bytes<16>(to, from, count, flip);
  }
  if (count >= 8) return copy_bytes<8>(to, from, count, flip);
  if (count >= 4) return copy_bytes<4>(to, from, count, flip);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int8_t>(from[i] ^ flip);
}

template <class Element>
class Gather {
 public:
  Gather(const ConvInt &p, const ConvIntShape &shape, const std::byte *x) noexcept
      : p_(p),
        s_(shape),
        x_(x),
        zero_(static_cast<Element>(p.x.zero - shape.zero_shift)),
        flip_(shape.zero_shift == 0  ? Element{0}
              : sizeof(Element) == 1 ? -128
                                     : static_cast<Element>(-32768)) {}

  bool flips() const noexcept { return flip_ != 0; }  // whether elements change their sign on the way

  // `count` output pixels from the `first` one on, of one group, each to a row of s_.steps * s_.elements.
  void rows(std::int64_t first, std::int64_t count, std::int64_t group, Element *to) const noexcept {
    // Of the types that one sort of rows has.
    const auto from = [&](auto tag) {
      rows_of(reinterpret_cast<const decltype(tag) *>(x_) + group * s_.group_ic, first, count, to);
    };
    if constexpr (sizeof(Element) == 2) {
      if (quant_bytes(p_.x.dtype) == 2) return from(std::int16_t{});
      if (p_.x.dtype == kU8) return from(std::uint8_t{});
    }
    from(std::int8_t{});
  }

 private:
  template <class T>
  __attribute__((noinline)) void rows_of(const T *x, std::int64_t first, std::int64_t count,
                                         Element *to) const noexcept {
    const Window &w = p_.window;
    const std::int64_t length = s_.steps * s_.elements;
    if (s_.taps == 1 && w.sh == 1 && w.sw == 1 && w.pad_top == 0 && w.pad_left == 0 && w.oh == w.ih && w.ow == w.iw) {
      if (length == p_.x_stride) return gather_run(to, x + first * p_.x_stride, count * length, flip_);
      for (std::int64_t i = 0; i < count; ++i, to += length) {
        gather_run(to, x + (first + i) * p_.x_stride, s_.k, flip_);
        for (std::int64_t k = s_.k; k < length; ++k) to[k] = 0;
      }
      return;
    }
    std::int64_t ox = first % w.ow, oy = first / w.ow % w.oh, image = first / w.ow / w.oh;
    const bool adjacent = w.dw == 1 && p_.x_stride == s_.group_ic;  // the taps of a row
    // Few channels (the first layer): a vector takes all taps of a row, and what it brings beyond them is overwritten
    // by the next.
    const std::int64_t run = w.kw * s_.group_ic;
    const bool short_runs = adjacent && sizeof(Element) == 2 && run <= kHalves;
    const T *const end = x + (std::int64_t{w.n} * w.ih * w.iw - 1) * p_.x_stride + s_.group_ic;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t ix = ox * w.sw - w.pad_left;
      [[maybe_unused]] Element *const row_end = to + length;
      if constexpr (sizeof(Element) == sizeof(T)) {
        const std::int64_t n = adjacent ? copy_inside(x, end, count - i, image, oy, ox, to) : 0;
        if (n > 0) {
          to += n * length, i += n - 1, ox += n;
          if (ox == w.ow) {
            ox = 0;
            if (++oy == w.oh) oy = 0, ++image;
          }
          continue;
        }
      }
      if constexpr (sizeof(Element) == 2) {
        const std::int64_t iy = oy * w.sh - w.pad_top;
        const T *from = x + ((image * w.ih + iy) * w.iw + ix) * p_.x_stride;
        if (short_runs && ix >= 0 && ix + w.kw <= w.iw && iy >= 0 && iy + (w.kh - 1) * w.dh < w.ih &&
            from + (w.kh - 1) * w.dh * w.iw * p_.x_stride + kHalves <= end) {
          for (std::int64_t ky = 0; ky < w.kh; ++ky, from += w.dh * w.iw * p_.x_stride, to += run)
            store(to, row_of(from, flip_));
          while (to < row_end) *to++ = 0;
          if (++ox == w.ow) {
            ox = 0;
            if (++oy == w.oh) oy = 0, ++image;
          }
          continue;
        }
      }
      for (std::int64_t ky = 0; ky < w.kh; ++ky) {
        const std::int64_t iy = oy * w.sh - w.pad_top + ky * w.dh;
        if (iy < 0 || iy >= w.ih) {
          to = fill(to, w.kw * s_.group_ic);
          continue;
        }
        const T *const line = x + (image * w.ih + iy) * w.iw * p_.x_stride;
        if (adjacent) {
          const std::int64_t from = min_of(max_of<std::int64_t>(-ix, 0), std::int64_t{w.kw}),
                             until = max_of(from, min_of(w.iw - ix, std::int64_t{w.kw}));
          to = fill(to, from * s_.group_ic);
          gather_run(to, line + (ix + from) * p_.x_stride, (until - from) * s_.group_ic, flip_);
          to = fill(to + (until - from) * s_.group_ic, (w.kw - until) * s_.group_ic);
          continue;
        }
        for (std::int64_t kx = 0; kx < w.kw; ++kx, to += s_.group_ic) {
          const std::int64_t at = ix + kx * w.dw;
          if (at < 0 || at >= w.iw) fill(to, s_.group_ic);
          else gather_run(to, line + at * p_.x_stride, s_.group_ic, flip_);
        }
      }
      while (to < row_end) *to++ = 0;
      if (++ox == w.ow) {
        ox = 0;
        if (++oy == w.oh) oy = 0, ++image;
      }
    }
  }
  // Rows of the next pixels of a row of output, at most `count`, as long as all their taps are inside: each
  // row of taps by moves of one size, which may bring more than the taps (never from behind `end`). The next row of
  // taps or pixel overwrites that; behind the last row of taps it meets weights of zero, and behind the last pixel
  // there is room (kGatherSlack). Returns how many there were.
  template <class T>
  QR_MEMBER std::int64_t copy_inside(const T *x, const T *end, std::int64_t count, std::int64_t image, std::int64_t oy,
                                     std::int64_t ox, Element *to) const noexcept {
    const Window &w = p_.window;
    const std::int64_t ix = ox * w.sw - w.pad_left, iy = oy * w.sh - w.pad_top;
    if (ix < 0 || ix + w.kw > w.iw || iy < 0 || iy + (w.kh - 1) * w.dh >= w.ih) return 0;
    const std::int64_t run = w.kw * s_.group_ic, line = w.dh * w.iw * p_.x_stride, move = w.sw * p_.x_stride;
    constexpr std::int64_t kEach = sizeof(Element);
    const int size = run * kEach <= 16 ? 16 : run * kEach <= 32 || kBytes < 64 ? 32 : 64;
    const std::int64_t pieces = ceil_div<std::int64_t>(run * kEach, size);
    const T *const from = x + ((image * w.ih + iy) * w.iw + ix) * p_.x_stride;
    std::int64_t n = min_of(count, min_of<std::int64_t>(w.ow - ox, (w.iw - w.kw - ix) / w.sw + 1));
    while (n > 0 && end - from < (n - 1) * move + (w.kh - 1) * line + pieces * size / kEach) --n;
    if (n <= 0) return 0;
    const Copy c{reinterpret_cast<const Element *>(from),
                 n,
                 w.kh,
                 line,
                 move,
                 run,
                 s_.steps * s_.elements,
                 pieces * size / kEach,
                 flip_};
    if (size == 16) w.kh == 3 ? copy_taps<3, 16>(c, to) : copy_taps<0, 16>(c, to);
    else if (size == 32 && kEach == 2 && w.kh == 3) copy_taps<3, 32>(c, to);
    else if (size == 32) w.kh == 7 ? copy_taps<7, 32>(c, to) : copy_taps<0, 32>(c, to);
    else w.kh == 3 ? copy_taps<3, 64>(c, to) : copy_taps<0, 64>(c, to);
    return n;
  }
  struct Copy {
    const Element *from;
    std::int64_t pixels, kh, line, move, run, length;
    std::int64_t moved;  // of a row of taps: the run in whole moves
    Element flip;
  };
  // KH: rows of taps, 0: any number of them; N: bytes of a move.
  template <int KH, int N>
  QR_MEMBER void copy_taps(const Copy &c, Element *to) const noexcept {
    typedef Element Any __attribute__((vector_size(N), aligned(sizeof(Element)), may_alias));
    constexpr std::int64_t kMove = N / sizeof(Element);
    const Element *from = c.from, flip = c.flip;
    for (std::int64_t i = 0; i < c.pixels; ++i, from += c.move, to += c.length) {
      const std::int64_t rows = KH ? KH : c.kh;
      QR_UNROLL
      for (std::int64_t ky = 0; ky < rows; ++ky) {
        std::int64_t j = 0;
        do
          *reinterpret_cast<Any *>(to + ky * c.run + j) = *reinterpret_cast<const Any *>(from + ky * c.line + j) ^ flip;
        while ((j += kMove) < c.moved);
      }
    }
  }
  static QR_MEMBER Element *fill_at(Element *to, std::int64_t count, Element zero) noexcept {
    for (std::int64_t i = 0; i < count; ++i) to[i] = zero;
    return to + count;
  }
  Element *fill(Element *to, std::int64_t count) const noexcept { return fill_at(to, count, zero_); }

  const ConvInt &p_;
  const ConvIntShape &s_;
  const std::byte *x_;
  Element zero_, flip_;
};

}  // namespace quarry::kernels::QR_ISA
