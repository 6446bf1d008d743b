// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/movement/transpose.h"

#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Four-byte units in registers: a square of kSide.
constexpr int kSide = QR_ISA_BYTES >= 32 ? 8 : 4;
typedef std::int32_t SideVec __attribute__((vector_size(kSide * 4)));
typedef std::int32_t SideVecUnaligned __attribute__((vector_size(kSide * 4), aligned(1), may_alias));

QR_INLINE void transpose_square(const std::byte *from, std::byte *to, std::int64_t from_step,
                                std::int64_t to_step) noexcept {
  SideVec r[kSide], t[kSide];
  QR_UNROLL for (int i = 0; i < kSide; ++i) r[i] = *reinterpret_cast<const SideVecUnaligned *>(from + i * from_step);
#if QR_ISA_BYTES >= 32
  // Halves of rows i and i + 4 side by side, then 4 x 4 within each half.
  QR_UNROLL for (int i = 0; i < 4; ++i) {
    t[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    t[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  QR_UNROLL for (int i = 0; i < 8; i += 4) {
    r[i] = __builtin_shufflevector(t[i], t[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    r[i + 1] = __builtin_shufflevector(t[i], t[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    r[i + 2] = __builtin_shufflevector(t[i + 2], t[i + 3], 0, 8, 1, 9, 4, 12, 5, 13);
    r[i + 3] = __builtin_shufflevector(t[i + 2], t[i + 3], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  QR_UNROLL for (int i = 0; i < 8; i += 4) {
    t[i] = __builtin_shufflevector(r[i], r[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    t[i + 2] = __builtin_shufflevector(r[i + 1], r[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    t[i + 3] = __builtin_shufflevector(r[i + 1], r[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#else
  const SideVec a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
                b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
  const SideVec c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
                d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  t[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  t[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  t[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  t[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
#endif
  QR_UNROLL for (int j = 0; j < kSide; ++j) * reinterpret_cast<SideVecUnaligned *>(to + j * to_step) = t[j];
}

// Units of 1, 2 and 8 bytes: as many rows as a 16-byte vector has lanes. A round of interleaving rows i and i + n / 2
// doubles the run of what came from one column; after log2(n) of them columns are rows.
template <class T>
struct Lanes {
  static constexpr int kCount = 16 / sizeof(T);
  typedef T Vec __attribute__((vector_size(16)));
  struct __attribute__((packed, may_alias)) Memory {
    Vec value;
  };
};
QR_INLINE void interleave(Lanes<std::uint8_t>::Vec a, Lanes<std::uint8_t>::Vec b, Lanes<std::uint8_t>::Vec *low,
                          Lanes<std::uint8_t>::Vec *high) noexcept {
  *low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  *high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
QR_INLINE void interleave(Lanes<std::uint16_t>::Vec a, Lanes<std::uint16_t>::Vec b, Lanes<std::uint16_t>::Vec *low,
                          Lanes<std::uint16_t>::Vec *high) noexcept {
  *low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  *high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
QR_INLINE void interleave(Lanes<std::uint64_t>::Vec a, Lanes<std::uint64_t>::Vec b, Lanes<std::uint64_t>::Vec *low,
                          Lanes<std::uint64_t>::Vec *high) noexcept {
  *low = __builtin_shufflevector(a, b, 0, 2);
  *high = __builtin_shufflevector(a, b, 1, 3);
}
template <class T>
QR_INLINE void transpose_lanes(const std::byte *from, std::byte *to, std::int64_t from_step,
                               std::int64_t to_step) noexcept {
  constexpr int n = Lanes<T>::kCount;
  typename Lanes<T>::Vec r[n], t[n];
  QR_UNROLL for (int i = 0; i < n; ++i) r[i] =
      reinterpret_cast<const typename Lanes<T>::Memory *>(from + i * from_step)->value;
  QR_UNROLL for (int round = 1; round < n; round *= 2) {
    QR_UNROLL for (int i = 0; i < n / 2; ++i) interleave(r[i], r[i + n / 2], &t[2 * i], &t[2 * i + 1]);
    QR_UNROLL for (int i = 0; i < n; ++i) r[i] = t[i];
  }
  QR_UNROLL for (int j = 0; j < n; ++j) reinterpret_cast<typename Lanes<T>::Memory *>(to + j * to_step)->value = r[j];
}

// Three channels of bytes, 16 pixels at a time; returns how many pixels are done.
#if defined(__SSSE3__)
struct Masks {
  std::uint8_t join[3][3][16], split[3][3][16];  // [output vector][input vector]; 0x80: none of that one
  constexpr Masks() : join(), split() {
    for (int v = 0; v < 3; ++v)
      for (int p = 0; p < 3; ++p)
        for (int i = 0; i < 16; ++i) {
          join[v][p][i] = static_cast<std::uint8_t>((16 * v + i) % 3 == p ? (16 * v + i) / 3 : 0x80);
          split[p][v][i] = static_cast<std::uint8_t>((3 * i + p) / 16 == v ? (3 * i + p) % 16 : 0x80);
        }
  }
};
alignas(16) constexpr Masks kMasks;
QR_INLINE __m128i pick(const __m128i in[3], const std::uint8_t masks[3][16]) noexcept {
  __m128i parts[3];
  QR_UNROLL for (int k = 0; k < 3; ++k) parts[k] =
      _mm_shuffle_epi8(in[k], _mm_load_si128(reinterpret_cast<const __m128i *>(masks[k])));
  return _mm_or_si128(_mm_or_si128(parts[0], parts[1]), parts[2]);
}
std::int64_t join_bytes(const std::byte *from, std::byte *to, std::int64_t pixels, std::int64_t from_step) noexcept {
  std::int64_t i = 0;
  for (; i + 16 <= pixels; i += 16) {
    __m128i in[3];
    QR_UNROLL for (int k = 0; k < 3; ++k) in[k] =
        _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + k * from_step + i));
    QR_UNROLL for (int k = 0; k < 3; ++k)
        _mm_storeu_si128(reinterpret_cast<__m128i *>(to + 3 * i + 16 * k), pick(in, kMasks.join[k]));
  }
  return i;
}
std::int64_t split_bytes(const std::byte *from, std::byte *to, std::int64_t pixels, std::int64_t to_step) noexcept {
  std::int64_t i = 0;
  for (; i + 16 <= pixels; i += 16) {
    __m128i in[3];
    QR_UNROLL for (int k = 0; k < 3; ++k) in[k] =
        _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + 3 * i + 16 * k));
    QR_UNROLL for (int k = 0; k < 3; ++k)
        _mm_storeu_si128(reinterpret_cast<__m128i *>(to + k * to_step + i), pick(in, kMasks.split[k]));
  }
  return i;
}
#elif defined(__ARM_NEON)
std::int64_t join_bytes(const std::byte *from, std::byte *to, std::int64_t pixels, std::int64_t from_step) noexcept {
  const auto *x = reinterpret_cast<const std::uint8_t *>(from);
  std::int64_t i = 0;
  for (; i + 16 <= pixels; i += 16) {
    const uint8x16x3_t v = {{vld1q_u8(x + i), vld1q_u8(x + from_step + i), vld1q_u8(x + 2 * from_step + i)}};
    vst3q_u8(reinterpret_cast<std::uint8_t *>(to) + 3 * i, v);  // a macro of clang's
  }
  return i;
}
std::int64_t split_bytes(const std::byte *from, std::byte *to, std::int64_t pixels, std::int64_t to_step) noexcept {
  auto *y = reinterpret_cast<std::uint8_t *>(to);
  std::int64_t i = 0;
  for (; i + 16 <= pixels; i += 16) {
    const uint8x16x3_t v = vld3q_u8(reinterpret_cast<const std::uint8_t *>(from) + 3 * i);
    for (int k = 0; k < 3; ++k) vst1q_u8(y + k * to_step + i, v.val[k]);
  }
  return i;
}
#else
std::int64_t join_bytes(const std::byte *, std::byte *, std::int64_t, std::int64_t) noexcept { return 0; }
std::int64_t split_bytes(const std::byte *, std::byte *, std::int64_t, std::int64_t) noexcept { return 0; }
#endif

// Two or three channels of four bytes, 4 pixels at a time or more; returns how many pixels are done.
typedef std::int32_t Four __attribute__((vector_size(16)));
struct __attribute__((packed, may_alias)) FourAnywhere {
  Four value;
};
QR_INLINE Four four_at(const std::byte *from) noexcept { return reinterpret_cast<const FourAnywhere *>(from)->value; }
QR_INLINE void put_four(std::byte *to, Four value) noexcept { reinterpret_cast<FourAnywhere *>(to)->value = value; }
QR_INLINE std::int64_t join_two(const std::byte *from, std::byte *to, std::int64_t pixels,
                                std::int64_t from_step) noexcept {
  std::int64_t i = 0;
  for (; i + 4 <= pixels; i += 4, from += 16, to += 32) {
    const Four a = four_at(from), b = four_at(from + from_step);
    put_four(to, __builtin_shufflevector(a, b, 0, 4, 1, 5));
    put_four(to + 16, __builtin_shufflevector(a, b, 2, 6, 3, 7));
  }
  return i;
}
QR_INLINE std::int64_t join_three(const std::byte *from, std::byte *to, std::int64_t pixels,
                                  std::int64_t from_step) noexcept {
  std::int64_t i = 0;
#if QR_ISA_BYTES == 64
  // 16 pixels: the first two channels where they go, the third put between them.
  typedef float Anywhere __attribute__((vector_size(64), aligned(1), may_alias));
  for (; i + 16 <= pixels; i += 16, from += 64, to += 192) {
    const VecF a = *reinterpret_cast<const Anywhere *>(from), b = *reinterpret_cast<const Anywhere *>(from + from_step),
               c = *reinterpret_cast<const Anywhere *>(from + 2 * from_step);
    const VecF first = __builtin_shufflevector(a, b, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5),
               middle = __builtin_shufflevector(a, b, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26),
               last = __builtin_shufflevector(a, b, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0);
    Anywhere *const y = reinterpret_cast<Anywhere *>(to);  // (auto would forget its alignment)
    y[0] = __builtin_shufflevector(first, c, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15);
    y[1] = __builtin_shufflevector(middle, c, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15);
    y[2] = __builtin_shufflevector(last, c, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31);
  }
#endif
  for (; i + 4 <= pixels; i += 4, from += 16, to += 48) {
    const Four a = four_at(from), b = four_at(from + from_step), c = four_at(from + 2 * from_step);
    const Four first = __builtin_shufflevector(a, b, 0, 4, 1, 5), last = __builtin_shufflevector(a, b, 2, 6, 3, 7),
               middle = __builtin_shufflevector(b, c, 1, 5, 1, 5);
    put_four(to, __builtin_shufflevector(first, c, 0, 1, 4, 2));
    put_four(to + 16, __builtin_shufflevector(middle, last, 0, 1, 4, 5));
    put_four(to + 32, __builtin_shufflevector(c, last, 2, 6, 7, 3));
  }
  return i;
}

// The way back, as many pixels at a time as a vector has lanes.
typedef std::int32_t Wide __attribute__((vector_size(QR_ISA_BYTES)));
struct __attribute__((packed, may_alias)) WideAnywhere {
  Wide value;
};
QR_INLINE std::int64_t split_two(const std::byte *from, std::byte *to, std::int64_t pixels,
                                 std::int64_t to_step) noexcept {
  constexpr std::int64_t kPixels = QR_ISA_BYTES / 4;
  std::int64_t i = 0;
  for (; i + kPixels <= pixels; i += kPixels, from += 2 * QR_ISA_BYTES, to += QR_ISA_BYTES) {
    const Wide a = reinterpret_cast<const WideAnywhere *>(from)->value,
               b = reinterpret_cast<const WideAnywhere *>(from + QR_ISA_BYTES)->value;
#if QR_ISA_BYTES == 64
    const Wide first = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
               second = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif QR_ISA_BYTES == 32
    const Wide first = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
               second = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
    const Wide first = __builtin_shufflevector(a, b, 0, 2, 4, 6), second = __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
    reinterpret_cast<WideAnywhere *>(to)->value = first;
    reinterpret_cast<WideAnywhere *>(to + to_step)->value = second;
  }
  for (; i + 4 <= pixels; i += 4, from += 32, to += 16) {
    const Four a = four_at(from), b = four_at(from + 16);
    put_four(to, __builtin_shufflevector(a, b, 0, 2, 4, 6));
    put_four(to + to_step, __builtin_shufflevector(a, b, 1, 3, 5, 7));
  }
  return i;
}

// A block that may be ragged.
template <class T>
QR_INLINE void transpose_plain(const std::byte *from, std::byte *to, std::int64_t rows, std::int64_t columns,
                               std::int64_t from_step, std::int64_t to_step) noexcept {
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i)
      reinterpret_cast<T *>(to + j * to_step)[i] = reinterpret_cast<const T *>(from + i * from_step)[j];
}
// Few columns or few rows: channels of an image.
template <class T, int columns>
QR_INLINE void split_columns(const std::byte *from, std::byte *to, std::int64_t rows, std::int64_t from_step,
                             std::int64_t to_step) noexcept {
  for (std::int64_t i = 0; i < rows; ++i)
    QR_UNROLL for (int j = 0; j < columns; ++j) reinterpret_cast<T *>(to + j * to_step)[i] =
        reinterpret_cast<const T *>(from + i * from_step)[j];
}
template <class T, int rows>
QR_INLINE void join_rows(const std::byte *from, std::byte *to, std::int64_t columns, std::int64_t from_step,
                         std::int64_t to_step) noexcept {
  for (std::int64_t j = 0; j < columns; ++j)
    QR_UNROLL for (int i = 0; i < rows; ++i) reinterpret_cast<T *>(to + j * to_step)[i] =
        reinterpret_cast<const T *>(from + i * from_step)[j];
}

template <class T>
void transpose_as(const std::byte *from, std::byte *to, std::int64_t rows, std::int64_t columns, std::int64_t from_step,
                  std::int64_t to_step) noexcept {
  if constexpr (sizeof(T) == 1) {
    if (columns == 3 && from_step == 3) {
      const std::int64_t done = split_bytes(from, to, rows, to_step);
      from += 3 * done, to += done, rows -= done;
    } else if (rows == 3 && to_step == 3) {
      const std::int64_t done = join_bytes(from, to, columns, from_step);
      from += done, to += 3 * done, columns -= done;
    }
  }
  if constexpr (sizeof(T) == 4) {
    if (columns > 4 && rows * 4 == to_step && (rows == 2 || rows == 3)) {
      const std::int64_t done =
          rows == 2 ? join_two(from, to, columns, from_step) : join_three(from, to, columns, from_step);
      from += done * 4, to += done * to_step, columns -= done;
    } else if (columns == 2 && from_step == 8) {
      const std::int64_t done = split_two(from, to, rows, to_step);
      from += done * 8, to += done * 4, rows -= done;
    }
  }
  switch (columns) {
    case 0: return;
    case 1: return split_columns<T, 1>(from, to, rows, from_step, to_step);
    case 2: return split_columns<T, 2>(from, to, rows, from_step, to_step);
    case 3: return split_columns<T, 3>(from, to, rows, from_step, to_step);
    case 4: return split_columns<T, 4>(from, to, rows, from_step, to_step);
  }
  switch (rows) {
    case 1: return join_rows<T, 1>(from, to, columns, from_step, to_step);
    case 2: return join_rows<T, 2>(from, to, columns, from_step, to_step);
    case 3: return join_rows<T, 3>(from, to, columns, from_step, to_step);
    case 4: return join_rows<T, 4>(from, to, columns, from_step, to_step);
  }
  // Blocks of whole cache lines on both sides, and several of them of what is read side by side.
  constexpr std::int64_t kBlock = sizeof(T) >= 4 ? 16 : 32, kWide = 4 * kBlock;
  for (std::int64_t j = 0; j < columns; j += kWide)
    for (std::int64_t i = 0; i < rows; i += kBlock) {
      const std::byte *const f = from + i * from_step + j * static_cast<std::int64_t>(sizeof(T));
      std::byte *const t = to + j * to_step + i * static_cast<std::int64_t>(sizeof(T));
      const std::int64_t r = min_of(kBlock, rows - i), c = min_of(kWide, columns - j);
      if constexpr (sizeof(T) == 4) {
        std::int64_t jj = 0;
        for (; jj + kSide <= c; jj += kSide) {
          std::int64_t ii = 0;
          for (; ii + kSide <= r; ii += kSide)
            transpose_square(f + ii * from_step + jj * 4, t + jj * to_step + ii * 4, from_step, to_step);
          if (ii < r)
            transpose_plain<T>(f + ii * from_step + jj * 4, t + jj * to_step + ii * 4, r - ii, kSide, from_step,
                               to_step);
        }
        if (jj < c) transpose_plain<T>(f + jj * 4, t + jj * to_step, r, c - jj, from_step, to_step);
      } else if constexpr (sizeof(T) < 16) {
        using Element = decltype(T::value);
        constexpr std::int64_t n = Lanes<Element>::kCount, width = sizeof(T);
        std::int64_t jj = 0;
        for (; jj + n <= c; jj += n) {
          std::int64_t ii = 0;
          for (; ii + n <= r; ii += n)
            transpose_lanes<Element>(f + ii * from_step + jj * width, t + jj * to_step + ii * width, from_step,
                                     to_step);
          if (ii < r)
            transpose_plain<T>(f + ii * from_step + jj * width, t + jj * to_step + ii * width, r - ii, n, from_step,
                               to_step);
        }
        if (jj < c) transpose_plain<T>(f + jj * width, t + jj * to_step, r, c - jj, from_step, to_step);
      } else {
        transpose_plain<T>(f, t, r, c, from_step, to_step);
      }
    }
}

}  // namespace

void transpose(std::int64_t unit, const std::byte *from, std::byte *to, std::int64_t rows, std::int64_t columns,
               std::int64_t from_step, std::int64_t to_step) noexcept {
  switch (unit) {
    case 1: return transpose_as<Unit1>(from, to, rows, columns, from_step, to_step);
    case 2: return transpose_as<Unit2>(from, to, rows, columns, from_step, to_step);
    case 4: return transpose_as<Unit4>(from, to, rows, columns, from_step, to_step);
    case 8: return transpose_as<Unit8>(from, to, rows, columns, from_step, to_step);
    default: return transpose_as<Unit16>(from, to, rows, columns, from_step, to_step);
  }
}

}  // namespace quarry::kernels::QR_ISA
