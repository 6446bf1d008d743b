// SPDX-License-Identifier: Apache-2.0
// Gathers what output pixels see into rows: [tap][channel of the group], as s16 or as bytes of the sign that the dot
// product wants. Taps beyond the border are the input's zero point.
#pragma once

#include "backends/common/kernels/isa/int_vec.h"

namespace quarry::kernels::QR_ISA {

// Between s16 rows and each type of input.
template <class T, int N>
QR_INLINE void widen_few(std::int16_t *to, const T *from) noexcept {
  typedef T From __attribute__((vector_size(N * sizeof(T)), aligned(sizeof(T)), may_alias));
  typedef std::int16_t To __attribute__((vector_size(N * 2), aligned(2), may_alias));
  if constexpr (sizeof(T) == 1)
    *reinterpret_cast<To *>(to) = __builtin_convertvector(*reinterpret_cast<const From *>(from), To);
  else
    *reinterpret_cast<To *>(to) = reinterpret_cast<To>(*reinterpret_cast<const From *>(from)) ^
                                  static_cast<std::int16_t>(T(-1) < T(0) ? 0 : -32768);
}
template <class T>
QR_INLINE void gather_run(std::int16_t *to, const T *from, std::int64_t count, std::int8_t) noexcept {
  if (count >= kHalves) {
    std::int64_t i = 0;
    for (; i + kHalves <= count; i += kHalves) store(to + i, widen_halves(from + i));
    if (i < count) store(to + count - kHalves, widen_halves(from + count - kHalves));
    return;
  }
  if constexpr (kHalves > 16) {
    if (count >= 16) return widen_few<T, 16>(to, from), widen_few<T, 16>(to + count - 16, from + count - 16);
  }
  if constexpr (kHalves > 8) {
    if (count >= 8) return widen_few<T, 8>(to, from), widen_few<T, 8>(to + count - 8, from + count - 8);
  }
  if (count >= 4) return widen_few<T, 4>(to, from), widen_few<T, 4>(to + count - 4, from + count - 4);
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<std::int16_t>(sizeof(T) == 2 && T(-1) > T(0) ? static_cast<std::int32_t>(from[i]) - 32768
                                                                     : static_cast<std::int32_t>(from[i]));
}
template <class T>
QR_INLINE void gather_run(std::int8_t *to, const T *from, std::int64_t count, std::int8_t flip) noexcept {
  if constexpr (sizeof(T) == 1) {
    typedef std::int8_t Any __attribute__((vector_size(16), aligned(1), may_alias));
    const auto *bytes = reinterpret_cast<const std::int8_t *>(from);
    if (count >= 16) {
      std::int64_t i = 0;
      for (; i + 16 <= count; i += 16)
        *reinterpret_cast<Any *>(to + i) = *reinterpret_cast<const Any *>(bytes + i) ^ flip;
      if (i < count)
        *reinterpret_cast<Any *>(to + count - 16) = *reinterpret_cast<const Any *>(bytes + count - 16) ^ flip;
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int8_t>(bytes[i] ^ flip);
  }
}

template <class Element>
class Gather {
 public:
  Gather(const ConvInt &p, const ConvIntShape &shape, const std::byte *x) noexcept
      : p_(p),
        s_(shape),
        x_(x),
        zero_(static_cast<Element>(p.x.zero - shape.zero_shift)),
        flip_(shape.zero_shift != 0 && sizeof(Element) == 1 ? -128 : 0) {}

  // `count` output pixels from the `first` one on, of one group, each to a row of s_.steps * s_.elements.
  void rows(std::int64_t first, std::int64_t count, std::int64_t group, Element *to) const noexcept {
    with_dtype(p_.x.dtype, [&](auto tag) {
      rows_of(reinterpret_cast<const decltype(tag) *>(x_) + group * s_.group_ic, first, count, to);
    });
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
      Element *const row_end = to + length;
      if constexpr (sizeof(Element) == 2) {
        const std::int64_t iy = oy * w.sh - w.pad_top;
        const T *from = x + ((image * w.ih + iy) * w.iw + ix) * p_.x_stride;
        if (short_runs && ix >= 0 && ix + w.kw <= w.iw && iy >= 0 && iy + (w.kh - 1) * w.dh < w.ih &&
            from + (w.kh - 1) * w.dh * w.iw * p_.x_stride + kHalves <= end) {
          for (std::int64_t ky = 0; ky < w.kh; ++ky, from += w.dh * w.iw * p_.x_stride, to += run)
            store(to, widen_halves(from));
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
  static QR_MEMBER Element *fill_at(Element *to, std::int64_t count, Element zero) noexcept {
    for (std::int64_t i = 0; i < count; ++i) to[i] = zero;
    return to + count;
  }
  Element *fill(Element *to, std::int64_t count) const noexcept { return fill_at(to, count, zero_); }

  const ConvInt &p_;
  const ConvIntShape &s_;
  const std::byte *x_;
  Element zero_;
  std::int8_t flip_;
};

}  // namespace quarry::kernels::QR_ISA
