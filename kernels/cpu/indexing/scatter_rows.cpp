// SPDX-License-Identifier: Apache-2.0
// Rows of a tensor that are replaced, or that others are combined with.
#include "kernels/cpu/vector/combine.h"
#include "kernels/cpu/vector/isa_kernels.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/cpu/vector/number_vec.h"
#include "kernels/cpu/vector/numbers.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr std::int64_t kBlock = 256;

// How far from y's beginning the rows of a block lie; false where an index is out of range. `length`: indices of a
// tuple, or 0 where p says it.
template <std::uint32_t length>
bool distances(const ScatterRows &p, const std::int64_t *index, std::int64_t count, std::int64_t *to) noexcept {
  const std::uint32_t each = length ? length : p.length;
  std::int64_t signs = 0;  // negative where one is out of range
  for (std::int64_t t = 0; t < count; ++t) {
    std::int64_t at = 0;
    for (std::uint32_t k = 0; k < each; ++k) {
      const std::int64_t given = index[t * each + k], extent = p.dims[k];
      signs |= (given + extent) | (extent - 1 - given);
      at += (given + (extent & (given >> 63))) * p.steps[k];
    }
    to[t] = at;
  }
  return signs >= 0;
}
bool distances(const ScatterRows &p, const std::int64_t *index, std::int64_t count, std::int64_t *to) noexcept {
  switch (p.length) {
    case 1: return distances<1>(p, index, count, to);
    case 2: return distances<2>(p, index, count, to);
    case 3: return distances<3>(p, index, count, to);
    default: return distances<0>(p, index, count, to);
  }
}

// `count` rows of updates, each of so many bytes, to[t] bytes from y.
using Put = void (*)(std::byte *y, const std::int64_t *to, std::int64_t count, const std::byte *updates,
                     std::int64_t row_bytes) noexcept;

// Rows of a size that is known, or (0) of any.
template <std::size_t size>
void replace(std::byte *y, const std::int64_t *to, std::int64_t count, const std::byte *updates,
             std::int64_t row_bytes) noexcept {
  const std::size_t bytes = size ? size : static_cast<std::size_t>(row_bytes);
  _Pragma("GCC unroll 4") for (std::int64_t t = 0; t < count; ++t)
      std::memcpy(y + to[t], updates + static_cast<std::size_t>(t) * bytes, bytes);
}
Put replacing(std::int64_t row_bytes) noexcept {
  switch (row_bytes) {
    case 1: return replace<1>;
    case 2: return replace<2>;
    case 4: return replace<4>;
    case 8: return replace<8>;
    default: return replace<0>;
  }
}

// The same where what is there is combined with the rows of updates, one after the other.
template <ElementOp op, class T>
void combine_elements(std::byte *y, const std::int64_t *to, std::int64_t count, const std::byte *updates,
                      std::int64_t) noexcept {
  const T *const from = reinterpret_cast<const T *>(updates);
  for (std::int64_t t = 0; t < count; ++t) {
    T *const at = reinterpret_cast<T *>(y + to[t]);
    *at = combine_one<op, T>(*at, from[t]);
  }
}
template <ElementOp op, class T>
struct InLanes {
  template <class V>
  __attribute__((always_inline)) static V of(V a, V b) noexcept {
    if constexpr (op == ElementOp::Add) return a + b;
    else if constexpr (op == ElementOp::Mul) return a * b;
    else if constexpr (kReal<T>) return select_lanes((op == ElementOp::Min ? a < b : a > b) | (a != a), a, b);
    else if constexpr (op == ElementOp::Min) return a < b ? a : b;
    else return a > b ? a : b;
  }
};
template <ElementOp op, class T>
void combine_rows(std::byte *y, const std::int64_t *to, std::int64_t count, const std::byte *updates,
                  std::int64_t row_bytes) noexcept {
  const std::int64_t whole = kInVectors<T> || op == ElementOp::Add ? row_bytes / kBytes * kBytes : 0;
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  using V = typename Of<T>::Vec;
  const auto rest = static_cast<__mmask64>((std::uint64_t{1} << (row_bytes - whole)) - 1);
  for (std::int64_t t = 0; t < count; ++t, updates += row_bytes) {
    std::byte *const row = y + to[t];
    std::int64_t i = 0;
    for (; i < whole; i += kBytes) {
      T *const at = reinterpret_cast<T *>(row + i);
      put(at, InLanes<op, T>::of(get(at), get(reinterpret_cast<const T *>(updates + i))));
    }
    if (rest) {
      const __m512i a = _mm512_maskz_loadu_epi8(rest, row + i), b = _mm512_maskz_loadu_epi8(rest, updates + i);
      const V v = InLanes<op, T>::of(reinterpret_cast<V>(a), reinterpret_cast<V>(b));
      _mm512_mask_storeu_epi8(row + i, rest, reinterpret_cast<__m512i>(v));
    }
  }
#else
  // What is no whole vector in vectors of 16 and of 8 bytes.
  typedef T Part __attribute__((vector_size(16)));
  typedef T Half __attribute__((vector_size(8)));
  struct __attribute__((packed, may_alias)) PartMemory {
    Part value;
  };
  struct __attribute__((packed, may_alias)) HalfMemory {
    Half value;
  };
  const std::int64_t parts = whole + (whole > 0 || kInVectors<T> ? (row_bytes - whole) / 16 * 16 : 0);
  for (std::int64_t t = 0; t < count; ++t, updates += row_bytes) {
    std::byte *const row = y + to[t];
    std::int64_t i = 0;
    for (; i < whole; i += kBytes) {
      T *const at = reinterpret_cast<T *>(row + i);
      put(at, InLanes<op, T>::of(get(at), get(reinterpret_cast<const T *>(updates + i))));
    }
    if (kBytes > 16)
      for (; i < parts; i += 16) {
        auto *const at = reinterpret_cast<PartMemory *>(row + i);
        at->value = InLanes<op, T>::of(at->value, reinterpret_cast<const PartMemory *>(updates + i)->value);
      }
    if constexpr (sizeof(T) < 4)
      if (i + 8 <= row_bytes) {
        auto *const at = reinterpret_cast<HalfMemory *>(row + i);
        at->value = InLanes<op, T>::of(at->value, reinterpret_cast<const HalfMemory *>(updates + i)->value);
        i += 8;
      }
    _Pragma("GCC unroll 1") for (; i < row_bytes; i += sizeof(T)) {
      T *const at = reinterpret_cast<T *>(row + i);
      *at = combine_one<op, T>(*at, *reinterpret_cast<const T *>(updates + i));
      asm volatile("");  // no vectors for the rest
    }
  }
#endif
}
Put combining(const ScatterInto &p) noexcept {
  Put put = nullptr;
  with_number(
      static_cast<DType>(p.dtype), [&]<class T>(T) __attribute__((always_inline)) {
        with_combination(
            p.op, [&]<ElementOp op>() __attribute__((always_inline)) {
              using As = CombinedAs<op, T>;
              put = p.rows.row_bytes == static_cast<std::int64_t>(sizeof(T)) ? combine_elements<op, As>
                                                                             : combine_rows<op, As>;
            });
      });
  return put;
}

// Gives the first tuple of a block in which an index is out of range, or -1.
std::int64_t put_rows(const Call &call, const ScatterRows &p, Put put) noexcept {
  const auto *const index = call.operand<const std::int64_t>(1);
  std::int64_t to[kBlock];
  for (std::int64_t first = 0; first < p.tuples; first += kBlock) {
    const std::int64_t count = min_of(kBlock, p.tuples - first);
    if (!distances(p, index + first * p.length, count, to)) return first;
    put(call.operands[3], to, count, call.operands[2] + first * p.row_bytes, p.row_bytes);
  }
  return -1;
}

void copy_rest(const Call &call, const ScatterRows &p) noexcept {
  const std::byte *const x = call.operands[0];
  std::byte *const y = call.operands[3];
  constexpr std::int64_t kPart = 64 * 1024;
  if (x == y) return;
  call.threads.run(static_cast<std::uint64_t>(ceil_div(p.bytes, kPart)), 4,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const std::int64_t first = static_cast<std::int64_t>(begin) * kPart,
                                        last = min_of(p.bytes, static_cast<std::int64_t>(end) * kPart);
                     std::memcpy(y + first, x + first, static_cast<std::size_t>(last - first));
                   });
}
// `bad`: the first tuple of a block in which an index is out of range, or -1.
void report_bad(const Call &call, const ScatterRows &p, std::int64_t bad) noexcept {
  const auto *const index = call.operand<const std::int64_t>(1);
  if (bad < 0) return;
  for (std::int64_t i = bad * p.length;; ++i)
    if (const std::int64_t extent = p.dims[i % p.length]; index[i] < -extent || index[i] >= extent) {
      call.bad_index[0] = index[i], call.bad_index[1] = i;
      return;
    }
}

}  // namespace

void run_ScatterRows(const Call &call) {
  const auto &p = call.as<ScatterRows>();
  copy_rest(call, p);
  report_bad(call, p, put_rows(call, p, replacing(p.row_bytes)));
}

void run_ScatterInto(const Call &call) {
  const auto &p = call.as<ScatterInto>();
  copy_rest(call, p.rows);
  report_bad(call, p.rows, put_rows(call, p.rows, combining(p)));
}

}  // namespace quarry::kernels::QR_ISA
