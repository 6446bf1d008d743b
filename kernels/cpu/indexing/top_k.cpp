// SPDX-License-Identifier: Apache-2.0
// The k greatest or least of rows. Elements become integers that order as they do. A bound that at least k of them
// reach is found by counting (of the greatest of groups, where k is small beside the row), those that reach it are
// collected, and only they are put in order.
#include <type_traits>

#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/shapes/top_k_shape.h"
#include "kernels/cpu/vector/isa_kernels.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/cpu/vector/numbers.h"

namespace quarry::kernels::QR_ISA {

namespace {

typedef std::int64_t VecLUnaligned __attribute__((vector_size(QR_ISA_BYTES), aligned(8), may_alias));

template <class K>
struct Of;
template <>
struct Of<std::int32_t> {
  using Vec = VecI;
  using Unsigned = std::uint32_t;
  static constexpr int kCount = kLanes;
  static constexpr std::int32_t kLeast = INT32_MIN;
};
template <>
struct Of<std::int64_t> {
  using Vec = VecL;
  using Unsigned = std::uint64_t;
  static constexpr int kCount = kDoubles;
  static constexpr std::int64_t kLeast = INT64_MIN;
};

QR_INLINE VecI keys_at(const std::int32_t *p) noexcept { return load(p); }
QR_INLINE VecL keys_at(const std::int64_t *p) noexcept { return *reinterpret_cast<const VecLUnaligned *>(p); }
QR_INLINE void put_keys(std::int32_t *p, VecI v) noexcept { store(p, v); }
QR_INLINE void put_keys(std::int64_t *p, VecL v) noexcept { *reinterpret_cast<VecLUnaligned *>(p) = v; }

// -0 is 0, and NaN after every number.
QR_INLINE VecI key_of(VecF x) noexcept {
  const VecI bits = reinterpret_cast<VecI>(x + VecF{}), key = bits ^ ((bits >> 31) & splat(INT32_MAX));
  return x != x ? splat(INT32_MAX) : key;
}
QR_INLINE VecL key_of(VecD x) noexcept {
  const VecL bits = bits_of(x + VecD{}), key = bits ^ ((bits < VecL{}) & splat(INT64_MAX));
  return x != x ? splat(INT64_MAX) : key;
}

// The keys of n elements, of which the greatest are wanted; `flip`: all bits where the least are. Behind them stands
// the least key.
template <class T, class K>
void make_keys(const std::byte *from, std::int64_t n, K flip, K *keys) noexcept {
  const T *const x = reinterpret_cast<const T *>(from);
  std::int64_t i = 0;
  if constexpr (kReal<T>) {
    constexpr int kCount = Of<K>::kCount;
    for (; i + kCount <= n; i += kCount) put_keys(keys + i, key_of(load(x + i)) ^ splat(flip));
    if (i < n) put_keys(keys + i, key_of(load_part(x + i, static_cast<int>(n - i))) ^ splat(flip));
  } else {
    const K change = static_cast<K>(flip ^ (kSigned<T> || sizeof(T) < sizeof(K) ? K{0} : Of<K>::kLeast));
    for (; i < n; ++i) keys[i] = static_cast<K>(static_cast<K>(x[i]) ^ change);
  }
  for (i = n; i < n + kTopKPadding; ++i) keys[i] = Of<K>::kLeast;
}

// The greatest of groups of `step` keys each, count groups (whole vectors) of the first `vectors` vectors.
template <class K>
std::int64_t greatest_of_groups(const Threads &threads, const K *keys, std::int64_t vectors, std::int64_t step,
                                K *to) noexcept {
  using Vec = typename Of<K>::Vec;
  constexpr int kCount = Of<K>::kCount;
  std::int64_t groups = 0;
  Asker asker(threads);
  for (std::int64_t i = 0; i < vectors && !asker.stopped(step * kCount); i += step, ++groups) {
    const std::int64_t end = min_of(vectors, i + step);
    Vec best = keys_at(keys + i * kCount);
    for (Parts part(threads, end - i, Parts::kElements / kCount); part.next();)
      for (std::int64_t j = i + part.begin; j < i + part.end; ++j) {
        const Vec v = keys_at(keys + j * kCount);
        best = v > best ? v : best;
      }
    put_keys(to + groups * kCount, best);
  }
  return groups * kCount;
}

// How many of `count` keys (whole vectors) are not less than `bound`.
template <class K>
QR_INLINE std::int64_t count_from(const Threads &threads, const K *keys, std::int64_t count, K bound) noexcept {
  using Vec = typename Of<K>::Vec;
  constexpr int kCount = Of<K>::kCount;
  const Vec least = splat(bound);
  if (count <= 8 * kCount && kBytes >= 32) {  // the bits of masks, rather than lanes in the end
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < count; i += kCount) total += __builtin_popcount(lanes_from(keys_at(keys + i), least));
    return total;
  }
  Vec a{}, b{};
  for (Parts part(threads, count); part.next();) {
    std::int64_t i = part.begin;
    for (; i + 2 * kCount <= part.end; i += 2 * kCount) {
      a += keys_at(keys + i) >= least;
      b += keys_at(keys + i + kCount) >= least;
    }
    if (i < part.end) a += keys_at(keys + i) >= least;
  }
  a += b;
  std::int64_t total = 0;
  QR_UNROLL for (int lane = 0; lane < kCount; ++lane) total -= a[lane];
  return total;
}

// A bound that at least k of the keys reach, and at most `enough`, or else the k-th key itself. The first n of `count`
// (whole vectors) are to be looked at, the others are the least key.
template <class K>
K bound_of(const Threads &threads, const K *keys, std::int64_t n, std::int64_t count, std::int64_t k,
           std::int64_t enough) noexcept {
  using Vec = typename Of<K>::Vec;
  using Unsigned = typename Of<K>::Unsigned;
  constexpr int kCount = Of<K>::kCount;
  K low = keys[0], high = keys[0];
  Vec lows = splat(low), highs = lows;
  for (Parts part(threads, n); part.next();) {
    std::int64_t i = part.begin;
    for (; i + kCount <= part.end; i += kCount) {
      const Vec v = keys_at(keys + i);
      lows = v < lows ? v : lows, highs = v > highs ? v : highs;
    }
    for (; i < part.end; ++i) low = min_of(low, keys[i]), high = max_of(high, keys[i]);
  }
  for (int lane = 0; lane < kCount; ++lane) low = min_of<K>(low, lows[lane]), high = max_of<K>(high, highs[lane]);
  while (low != high) {
    const Unsigned range = static_cast<Unsigned>(high) - static_cast<Unsigned>(low);
    const K middle = static_cast<K>(static_cast<Unsigned>(low) + range / 2 + (range & 1));
    const std::int64_t found = count_from(threads, keys, count, middle);
    if (found < k) {
      high = static_cast<K>(middle - 1);
    } else {
      low = middle;
      if (found <= enough) break;
    }
  }
  return low;
}

// Keys that reach the bound and where they stand, in their order, behind `found` that are there; stops where `room`
// are. Writes up to a vector beyond them.
template <class K>
std::int64_t collect(const Threads &threads, const K *keys, std::int64_t n, K bound, K *to, std::int32_t *positions,
                     std::int64_t found, std::int64_t room) noexcept {
  using Vec = typename Of<K>::Vec;
  constexpr int kCount = Of<K>::kCount;
  const Vec least = splat(bound);
  for (Parts part(threads, n); part.next();)
    for (std::int64_t i = part.begin; i < part.end; i += kCount) {
      const Vec v = keys_at(keys + i);
      std::uint32_t bits = lanes_from(v, least);
      if (bits == 0) continue;
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
      const VecI lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                 at = lane + splat(static_cast<std::int32_t>(i));
      if constexpr (sizeof(K) == 4)
        put_keys(to + found, reinterpret_cast<Vec>(_mm512_maskz_compress_epi32(static_cast<__mmask16>(bits),
                                                                               reinterpret_cast<__m512i>(v))));
      else
        put_keys(to + found, reinterpret_cast<Vec>(_mm512_maskz_compress_epi64(static_cast<__mmask8>(bits),
                                                                               reinterpret_cast<__m512i>(v))));
      store(positions + found, reinterpret_cast<VecI>(_mm512_maskz_compress_epi32(static_cast<__mmask16>(bits),
                                                                                  reinterpret_cast<__m512i>(at))));
      found += __builtin_popcount(bits);
#else
      for (; bits != 0; bits &= bits - 1) {
        const int lane = __builtin_ctz(bits);
        to[found] = keys[i + lane], positions[found++] = static_cast<std::int32_t>(i + lane);
      }
#endif
      if (found >= room) return room;
    }
  return min_of(found, room);
}
// The first keys that are the bound itself, behind `found` that are there, until there are k.
template <class K>
void collect_equal(const Threads &threads, const K *keys, std::int64_t n, K bound, K *to, std::int32_t *positions,
                   std::int64_t found, std::int64_t k) noexcept {
  for (Parts part(threads, n); found < k && part.next();)
    for (std::int64_t i = part.begin; found < k && i < part.end; ++i)
      if (keys[i] == bound) to[found] = bound, positions[found++] = static_cast<std::int32_t>(i);
}

// Few: each key's place is the number of those before it. Keys and their positions have room for whole vectors.
template <class K>
void rank(K *keys, const std::int32_t *positions, std::int64_t count, std::int32_t *order) noexcept {
  using Vec = typename Of<K>::Vec;
  constexpr int kCount = Of<K>::kCount;
  Vec lane{};
  QR_UNROLL for (int i = 0; i < kCount; ++i) lane[i] = i;
  for (std::int64_t begin = 0; begin < count; begin += kCount) {
    const Vec own = keys_at(keys + begin);
    const int lanes = static_cast<int>(min_of<std::int64_t>(kCount, count - begin));
    Vec a{}, b{};
    std::int64_t j = 0;
    for (; j < begin; j += 2) a -= splat(keys[j]) >= own, b -= splat(keys[j + 1]) >= own;
    for (int i = 0; i < lanes; ++i, ++j) {
      const Vec other = splat(keys[j]);
      a -= (other > own) | ((other == own) & (lane > splat(static_cast<K>(i))));
    }
    for (; j + 2 <= count; j += 2) a -= splat(keys[j]) > own, b -= splat(keys[j + 1]) > own;
    if (j < count) a -= splat(keys[j]) > own;
    a += b;
    for (int i = 0; i < lanes; ++i) order[a[i]] = positions[begin + i];
  }
}

// Many: by one digit after the other, from the last. Gives where the positions lie in order.
template <class K>
const std::int32_t *sort(const Threads &threads, K *keys, std::int32_t *positions, K *other_keys,
                         std::int32_t *other_positions, std::int64_t count) noexcept {
  using Unsigned = typename Of<K>::Unsigned;
  constexpr int kDigits = static_cast<int>(sizeof(K));
  std::uint32_t counts[kDigits][256] = {};
  // The greatest first: digits of the complement, of the order of unsigned numbers.
  constexpr auto kFlip = static_cast<Unsigned>(~static_cast<Unsigned>(Of<K>::kLeast));
  for (Parts part(threads, count); part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      const Unsigned key = static_cast<Unsigned>(keys[i]) ^ kFlip;
      QR_UNROLL for (int d = 0; d < kDigits; ++d)++ counts[d][key >> 8 * d & 255];
    }
  for (int d = 0; d < kDigits; ++d) {
    std::uint32_t *const at = counts[d];
    if (at[(static_cast<Unsigned>(keys[0]) ^ kFlip) >> 8 * d & 255] == static_cast<std::uint32_t>(count)) continue;
    std::uint32_t before = 0;
    for (int i = 0; i < 256; ++i) {
      const std::uint32_t these = at[i];
      at[i] = before;
      before += these;
    }
    for (Parts part(threads, count); part.next();)
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        const K key = keys[i];
        const std::uint32_t to = at[(static_cast<Unsigned>(key) ^ kFlip) >> 8 * d & 255]++;
        other_keys[to] = key, other_positions[to] = positions[i];
      }
    if (count > Parts::kElements && threads.stopped()) return nullptr;
    K *const k = keys;
    keys = other_keys, other_keys = k;
    std::int32_t *const p = positions;
    positions = other_positions, other_positions = p;
  }
  return positions;
}

template <class K>
struct Room {
  K *keys, *first, *second;
  std::int32_t *positions, *order;
};

template <class K>
using MakeKeys = void (*)(const std::byte *from, std::int64_t n, K flip, K *keys) noexcept;

// The positions of the best k, in order; null where the run was stopped.
template <class K>
const std::int32_t *choose(const TopK &p, const Threads &threads, const std::byte *x, std::int64_t width,
                           MakeKeys<K> make, const Room<K> &room) noexcept {
  constexpr int kCount = Of<K>::kCount;
  const std::int64_t n = p.n, k = p.k;
  // What is known then is of a part of the row: too few keys, say.
  const auto told = [&] { return n > Parts::kElements && threads.stopped(); };
  for (Parts part(threads, n); part.next();)
    make(x + part.begin * width, part.end - part.begin, p.least ? static_cast<K>(-1) : K{0}, room.keys + part.begin);
  const std::int64_t vectors = n / kCount, padded = ceil_div<std::int64_t>(n, kCount) * kCount, enough = k + k / 8 + 16,
                     most = top_k_candidates(p);
  std::int64_t count = n;
  if (n <= kTopKFew || n <= enough) {
    for (Parts part(threads, n); part.next();) {
      std::memcpy(room.first + part.begin, room.keys + part.begin, bytes_of<K>(part.end - part.begin));
      for (std::int64_t i = part.begin; i < part.end; ++i) room.positions[i] = static_cast<std::int32_t>(i);
    }
  } else {
    // Of four groups for each that is wanted, or more, k have an element that reaches the bound.
    const std::int64_t step = vectors / max_of<std::int64_t>(1, ceil_div<std::int64_t>(4 * k, kCount));
    K bound;
    if (step >= 2) {
      const std::int64_t groups = greatest_of_groups(threads, room.keys, vectors, step, room.second);
      bound = bound_of(threads, room.second, groups, groups, k, enough);
    } else {
      bound = bound_of(threads, room.keys, n, padded, k, enough);
    }
    count = collect(threads, room.keys, n, bound, room.first, room.positions, 0, most);
    if (told()) return nullptr;
    if (count == most) {  // perhaps more
      bound = bound_of(threads, room.keys, n, padded, k, k);
      count = bound == static_cast<K>(~Of<K>::kLeast)
                  ? 0
                  : collect(threads, room.keys, n, static_cast<K>(bound + 1), room.first, room.positions, 0, most);
      collect_equal(threads, room.keys, n, bound, room.first, room.positions, count, k);
      count = k;
    }
  }
  if (told()) return nullptr;
  constexpr std::int64_t kRanked = 192;
  if (count > kRanked) return sort(threads, room.first, room.positions, room.second, room.order, count);
  rank(room.first, room.positions, count, room.order);
  return room.order;
}

// to[i * step] = x[positions[i]].
template <class T>
void put_values(const std::byte *x, const std::int32_t *positions, std::int64_t count, std::byte *to,
                std::int64_t step) noexcept {
  for (std::int64_t i = 0; i < count; ++i)
    reinterpret_cast<T *>(to)[i * step] = reinterpret_cast<const T *>(x)[positions[i]];
}
void put_values(std::int64_t width, const std::byte *x, const std::int32_t *positions, std::int64_t count,
                std::byte *to, std::int64_t step) noexcept {
  switch (width) {
    case 1: return put_values<std::uint8_t>(x, positions, count, to, step);
    case 2: return put_values<std::uint16_t>(x, positions, count, to, step);
    case 4: return put_values<std::uint32_t>(x, positions, count, to, step);
    default: return put_values<std::uint64_t>(x, positions, count, to, step);
  }
}

// Where the outputs of TopK lie; nullptr: they are not wanted.
struct Chosen {
  std::byte *values;
  std::int64_t *indices;
  std::int64_t step;  // from one chosen element to the next
};
// `count` elements of `width` bytes, those of x at `positions`, from element `to` on.
void put_chosen(const Threads &threads, const Chosen &out, std::int64_t width, const std::byte *x,
                const std::int32_t *positions, std::int64_t count, std::int64_t to) noexcept {
  for (Parts part(threads, count); part.next();) {
    const std::int64_t first = to + part.begin * out.step;
    if (out.values)
      put_values(width, x, positions + part.begin, part.end - part.begin, out.values + first * width, out.step);
    for (std::int64_t i = 0; out.indices && i < part.end - part.begin; ++i)
      out.indices[first + i * out.step] = positions[part.begin + i];
  }
}

// Elements of `width` bytes.
template <class K>
void run_as(const Call &call, std::int64_t width, MakeKeys<K> make) {
  const auto &p = call.as<TopK>();
  const Chosen out{p.has_values ? call.operands[1] : nullptr,
                   p.has_indices ? call.operand<std::int64_t>(1 + p.has_values) : nullptr, p.inner};
  const TopKRoom at = top_k_room(p);
  const std::int64_t columns = top_k_columns(p), parts = ceil_div(p.inner, columns);
  const auto grain = static_cast<std::uint64_t>(1 + 32768 / (p.n * columns));
  call.threads.run(static_cast<std::uint64_t>(p.outer * parts), grain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     std::byte *const scratch = call.worker_scratch(worker);
                     const Room<K> room{reinterpret_cast<K *>(scratch + at.keys),
                                        reinterpret_cast<K *>(scratch + at.first_keys),
                                        reinterpret_cast<K *>(scratch + at.second_keys),
                                        reinterpret_cast<std::int32_t *>(scratch + at.first_positions),
                                        reinterpret_cast<std::int32_t *>(scratch + at.second_positions)};
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const std::int64_t outer = task / parts, first = task % parts * columns,
                                          count = min_of(columns, p.inner - first);
                       const std::byte *x = call.operands[0] + (outer * p.n * p.inner + first) * width;
                       if (p.inner > 1) {
                         transpose(width, x, scratch + at.rows, p.n, count, p.inner * width, p.n * width);
                         x = scratch + at.rows;
                       }
                       for (std::int64_t row = 0; row < count; ++row, x += p.n * width) {
                         const std::int32_t *const positions = choose(p, call.threads, x, width, make, room);
                         if (!positions) return;
                         const std::int64_t to = outer * p.k * p.inner + first + row;
                         put_chosen(call.threads, out, width, x, positions, p.k, to);
                       }
                     }
                   });
}
template <class T>
void run_of(const Call &call) {
  using K = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  run_as<K>(call, sizeof(T), make_keys<T, K>);
}

}  // namespace

void run_TopK(const Call &call) {
  with_number(
      static_cast<DType>(call.as<TopK>().dtype), [&]<class T>(T) __attribute__((always_inline)) { run_of<T>(call); });
}

}  // namespace quarry::kernels::QR_ISA
