// SPDX-License-Identifier: Apache-2.0
// Where the greatest or least of lines stands. Of rows: first what it is, then where. Of lines whose elements lie
// apart, side by side: both at once. Numbers of a width are compared as integers of that width, whose bits are changed
// for those without a sign, and where the least are wanted.
#include <type_traits>

#include "kernels/cpu/vector/double_vec.h"
#include "kernels/cpu/vector/isa_kernels.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/cpu/vector/number_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

template <bool least>
QR_INLINE VecF better(VecF a, VecF b) noexcept {
  return least ? min(a, b) : max(a, b);
}
QR_INLINE std::uint32_t equal_lanes(VecF v, VecF wanted) noexcept {
  return lanes_from(splat(-1), reinterpret_cast<VecI>(v == wanted));  // of long, where that is as wide
}

// The first or last place that `is`.
template <class Is>
QR_INLINE std::int64_t first_place(const Threads &threads, std::int64_t n, bool last, Is &&is) noexcept {
  for (Parts part(threads, n); part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i)
      if (const std::int64_t at = last ? n - 1 - i : i; is(at)) return at;
  return 0;  // it was stopped
}
template <class T>
__attribute__((noinline)) std::int64_t place_of_nan(const Threads &threads, const T *x, std::int64_t n,
                                                    bool last) noexcept {
  return first_place(
      threads, n, last, [=](std::int64_t i) __attribute__((always_inline)) { return x[i] != x[i]; });
}

// The least or greatest of a row; NaN where there is one.
template <bool least>
float extreme(const Threads &threads, const float *x, std::int64_t n) noexcept {
  NanSeen nan;
  if (n < kLanes) {
    const int count = static_cast<int>(n);
    const VecF v = load_part(x, count);
    nan.see(v, v);
    if (nan.any()) return __builtin_nanf("");
    const float best = largest(first_lanes(count) ? (least ? -v : v) : splat(-__builtin_inff()));
    return least ? -best : best;
  }
  VecF a = load(x), b = load(x + n - kLanes);  // the last vector, which may overlap another
  nan.see(a, b);
  std::int64_t i = kLanes;
  for (Parts part(threads, n); part.next();)
    for (; i + 2 * kLanes <= part.end; i += 2 * kLanes) {
      const VecF v = load(x + i), w = load(x + i + kLanes);
      nan.see(v, w);
      a = better<least>(v, a), b = better<least>(w, b);
    }
  if (i + kLanes <= n) {
    const VecF v = load(x + i);
    nan.see(v, v);
    a = better<least>(v, a);
  }
  if (nan.any()) return __builtin_nanf("");
  a = better<least>(a, b);
  return least ? -largest(-a) : largest(a);
}

template <bool least>
std::int64_t place(const Threads &threads, const float *x, std::int64_t n, bool last) noexcept {
  const float value = extreme<least>(threads, x, n);
  if (value != value) return place_of_nan(threads, x, n, last);
  const VecF wanted = splat(value);
  std::int64_t i = last ? n : 0;
  if (last) {
    for (Parts part(threads, n); part.next();)
      for (; i >= kLanes && n - i < part.end; i -= kLanes)
        if (const std::uint32_t found = equal_lanes(load(x + i - kLanes), wanted))
          return i - kLanes + 31 - __builtin_clz(found);
    if (i >= kLanes) return 0;  // it was stopped
    const int rest = static_cast<int>(i);
    return 31 - __builtin_clz(equal_lanes(load_part(x, rest), wanted) & ((1u << rest) - 1));
  }
  for (Parts part(threads, n); part.next();)
    for (; i + kLanes <= part.end; i += kLanes)
      if (const std::uint32_t found = equal_lanes(load(x + i), wanted)) return i + __builtin_ctz(found);
  if (n - i >= kLanes) return 0;
  return i + __builtin_ctz(equal_lanes(load_part(x + i, static_cast<int>(n - i)), wanted));
}
std::int64_t place_of_f32(const Threads &threads, const float *x, std::int64_t n, bool least, bool last) noexcept {
  return least ? place<true>(threads, x, n, last) : place<false>(threads, x, n, last);
}

// The greatest lane of 16 bytes, none of which is NaN.
template <class T>
QR_INLINE T greatest_lane(T __attribute__((vector_size(16))) v) noexcept {
  typedef T Part __attribute__((vector_size(16)));
  typedef std::uint32_t Words __attribute__((vector_size(16)));
  const auto with = [&](Words other) __attribute__((always_inline)) {
    v = greater_of(reinterpret_cast<Part>(other), v);
  };
  const auto words = [&]() __attribute__((always_inline)) { return reinterpret_cast<Words>(v); };
  with(__builtin_shufflevector(words(), words(), 2, 3, 0, 1));
  if constexpr (sizeof(T) < 8) with(__builtin_shufflevector(words(), words(), 1, 0, 3, 2));
  if constexpr (sizeof(T) < 4) with(words() >> 16);
  if constexpr (sizeof(T) < 2) with(words() >> 8);
  return v[0];
}

// The greatest of a row of 16 bytes or more whose bits are changed, as it was; NaN where there is one.
template <class T>
__attribute__((noinline)) T best_of_row(const Threads &threads, const T *x, std::int64_t n, BitsOf<T> change) noexcept {
  using V = typename Of<T>::Vec;
  constexpr int kCount = Of<T>::kCount, kPart = 16 / sizeof(T);
  typedef T Part __attribute__((vector_size(16)));
  typedef BitsOf<T> PartBits __attribute__((vector_size(16)));
  struct __attribute__((packed, may_alias)) PartMemory {
    Part value;
  };
  bool nan_seen = false;
  Part best;
  if constexpr (!kInVectors<T>) {
    T some[4];
    for (T &v : some) v = changed(x[n - 1], change);
    for (Parts part(threads, n); part.next();) {
      std::int64_t i = part.begin;
      for (; i + 4 <= part.end; i += 4)
        QR_UNROLL for (int k = 0; k < 4; ++k) some[k] = greater_of(changed(x[i + k], change), some[k]);
      for (; i < part.end; ++i) some[0] = greater_of(changed(x[i], change), some[0]);
    }
    return changed(greater_of(greater_of(some[0], some[1]), greater_of(some[2], some[3])), change);
  }
  if (n < 2 * kCount) {  // the last part may overlap another
    const auto part = [&](std::int64_t i) __attribute__((always_inline)) {
      const Part v = reinterpret_cast<const PartMemory *>(x + i)->value;
      return reinterpret_cast<Part>(reinterpret_cast<PartBits>(v) ^ change);
    };
    best = part(n - kPart);
    auto nan = best != best;
    _Pragma("GCC unroll 1") for (std::int64_t i = 0; i + kPart < n; i += kPart) {
      const Part v = part(i);
      if constexpr (kReal<T>) nan |= v != v;
      best = greater_of(v, best);
    }
    if constexpr (kReal<T>) nan_seen = (nan[0] | nan[1]) != 0;
  } else {
    V some[4];
    QR_UNROLL for (int k = 0; k < 4; ++k) some[k] = changed<T>(get(x + n - kCount), change);
    VecL nan{};
    if constexpr (kReal<T>) nan = some[0] != some[0];
    const auto take = [&](const T *p, V &to) __attribute__((always_inline)) {
      const V v = changed<T>(get(p), change);
      if constexpr (kReal<T>) nan |= v != v;
      to = greater_of(v, to);
    };
    for (Parts part(threads, n); part.next();) {
      std::int64_t i = part.begin;
      for (; i + 4 * kCount <= part.end; i += 4 * kCount)
        QR_UNROLL for (int k = 0; k < 4; ++k) take(x + i + k * kCount, some[k]);
      for (; i + kCount <= part.end; i += kCount) take(x + i, some[0]);
    }
    if constexpr (kReal<T>) nan_seen = any(nan);
    some[0] = greater_of(greater_of(some[0], some[1]), greater_of(some[2], some[3]));
    Part parts[kBytes / 16];
    std::memcpy(parts, &some[0], kBytes);
    best = parts[0];
    QR_UNROLL for (int k = 1; k < kBytes / 16; ++k) best = greater_of(parts[k], best);
  }
  if constexpr (kReal<T>)
    if (nan_seen) return __builtin_nan("");
  return changed(greatest_lane<T>(best), change);
}

// The first or last place of a value that is there.
template <class T>
__attribute__((noinline)) std::int64_t place_of(const Threads &threads, const T *x, std::int64_t n, T value,
                                                bool last) noexcept {
  using V = typename Of<T>::Vec;
  constexpr int kCount = Of<T>::kCount;
  if (value != value) return place_of_nan(threads, x, n, last);
  const auto is_there = [=](std::int64_t at) __attribute__((always_inline)) { return x[at] == value; };
  if (!kInVectors<T>) return first_place(threads, n, last, is_there);
  const V wanted = V{} + value;
  // Whether it stands in a vector, or in four.
  const auto in_one = [&](const T *p) __attribute__((always_inline)) { return any_lane(get(p) == wanted); };
  const auto in_four = [&](const T *p) __attribute__((always_inline)) {
    return any_lane((get(p) == wanted) | (get(p + kCount) == wanted) | (get(p + 2 * kCount) == wanted) |
                    (get(p + 3 * kCount) == wanted));
  };
  std::int64_t passed = 0;
  for (Parts part(threads, n); part.next();) {
    const auto next = [&](int count) __attribute__((always_inline)) {
      return x + (last ? n - passed - count : passed);
    };
    while (passed + 4 * kCount <= part.end && !in_four(next(4 * kCount))) passed += 4 * kCount;
    if (passed + 4 * kCount <= part.end || part.end == n) break;
  }
  if (passed + 4 * kCount <= n && !in_four(x + (last ? n - passed - 4 * kCount : passed))) return 0;  // it was stopped
  while (passed + kCount <= n && !in_one(x + (last ? n - passed - kCount : passed))) passed += kCount;
  if (last) {
    while (x[n - 1 - passed] != value) ++passed;
    return n - 1 - passed;
  }
  while (x[passed] != value) ++passed;
  return passed;
}

template <class T>
std::int64_t place_in_row(const Threads &threads, const std::byte *from, std::int64_t n, std::int64_t bits,
                          bool last) noexcept {
  // (Bytes have a maximum as ones without a sign, and a comparison as ones with.)
  const auto change = static_cast<BitsOf<T>>(sizeof(T) == 1 ? bits ^ 128 : bits);
  const T *const x = reinterpret_cast<const T *>(from);
  if constexpr (__is_same(T, float)) {
    return place_of_f32(threads, x, n, change != 0, last);
  } else {
    T best = x[0];
    if (n >= 16 / static_cast<std::int64_t>(sizeof(T))) {
      best = best_of_row(threads, x, n, change);
      if (n >= 2 * Of<T>::kCount || best != best) return place_of(threads, x, n, best, last);
    } else {
      best = changed(best, change);
      _Pragma("GCC unroll 1") for (std::int64_t i = 1; i < n; ++i) {
        const T v = changed(x[i], change);
        best = (v > best) | (v != v) ? v : best;  // (no row of f64 is as short as three)
      }
      best = changed(best, change);
    }
    const std::int64_t step = last ? -1 : 1;
    std::int64_t at = last ? n - 1 : 0;
    while (x[at] != best) at += step;
    return at;
  }
}

// Columns: `count` of them, whose rows are visited in the order in which the first of equal ones is wanted.
struct Columns {
  const std::byte *x;          // the row that is visited first
  std::int64_t n, step, room;  // rows, bytes from one to the next, bytes from x to the tensor's end
  std::int64_t count;
  bool last;
};
// Where row `at` of those visited stands.
QR_INLINE std::int64_t place_of_row(const Columns &l, std::int64_t at) noexcept { return l.last ? l.n - 1 - at : at; }

// Places among rows are counted in lanes of the elements' width, so many rows at a time.
template <class T>
using PlaceOf = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t, std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>>;
template <class T>
inline constexpr std::int64_t kRowsCounted = sizeof(T) <= 2 ? std::int64_t{1} << 8 * sizeof(T) : INT32_MAX;

__attribute__((noinline)) void copy_row(const std::byte *x, std::int64_t bytes, void *to) noexcept {
  std::memcpy(to, x, static_cast<std::size_t>(bytes));
}
template <class Place>
__attribute__((noinline)) void put_places(const Columns &l, const Place *at, std::int64_t *y) noexcept {
  const std::int64_t first = l.last ? l.n : 0, turn = l.last ? -1 : 0;
  for (std::int64_t j = 0; j < l.count; ++j) y[j] = first + (static_cast<std::int64_t>(at[j]) ^ turn);
}
// What rows behind others found, where it is better.
template <class T>
__attribute__((noinline)) void put_better(const Columns &l, std::int64_t from, const T *found, const PlaceOf<T> *at,
                                          T *best, std::int64_t *y) noexcept {
  for (std::int64_t j = 0; j < l.count; ++j)
    if (found[j] > best[j]) best[j] = found[j], y[j] = place_of_row(l, from + static_cast<std::int64_t>(at[j]));
}

// What no value is better than where there are none.
template <class T>
QR_INLINE T least_of() noexcept {
  if constexpr (kReal<T>) return -static_cast<T>(__builtin_inf());
  else return static_cast<T>(std::uint64_t{1} << (sizeof(T) * 8 - 1));
}

// Of the last two of `vectors` as many lines are meant as `count` leaves; where it leaves none of the last one, that
// does the first one's work again.
template <class T, int vectors>
void positions_in_columns(const Threads &threads, const Columns &l, std::int64_t bits, std::int64_t *y) noexcept {
  using V = typename Of<T>::Vec;
  using Place = PlaceOf<T>;
  using P = typename Of<Place>::Vec;
  constexpr int kCount = Of<T>::kCount;
  const auto change = static_cast<BitsOf<T>>(bits);
  T best_there[vectors * kCount], found[vectors * kCount], last_row[vectors * kCount];
  Place places[vectors * kCount];
  const bool all = l.count > (vectors - 1) * kCount;
  const std::int64_t last_at = all ? (vectors - 1) * kCount : 0, reach = (all ? vectors : vectors - 1) * kBytes;
  const std::byte *x = l.x;
  std::int64_t room = l.room;
  for (std::int64_t from = 0; from < l.n; from += kRowsCounted<T>) {
    const std::int64_t rows = min_of(kRowsCounted<T>, l.n - from);
    V best[vectors];
    P at[vectors] = {}, place{};
    QR_UNROLL for (int v = 0; v < vectors; ++v) best[v] = V{} + least_of<T>();
    for (Parts part = Parts::of_rows(threads, rows, vectors * kCount); part.next();)
      for (std::int64_t i = part.begin; i < part.end; ++i, x += l.step, room -= l.step) {
        const T *row = reinterpret_cast<const T *>(x);
        if (room < reach) {  // nothing of what follows the tensor
          copy_row(x, l.count * static_cast<std::int64_t>(sizeof(T)), last_row);
          row = last_row;
        }
        QR_UNROLL for (int v = 0; v < vectors; ++v) {
          const V value = changed<T>(get(row + (v == vectors - 1 ? last_at : v * kCount)), change);
          const auto take = [&](auto better) __attribute__((always_inline)) {
            best[v] = select_lanes(better, value, best[v]);
            at[v] = select_lanes(better, place, at[v]);
          };
          // NaN is better than any number, and stays.
          if constexpr (kReal<T>) take(~(value <= best[v]) & (best[v] == best[v]));
          else if constexpr (sizeof(T) == 8) take(greater(value, best[v]));
          else take(value > best[v]);
        }
        place += 1;
      }
    T *const to = from == 0 ? best_there : found;
    QR_UNROLL for (int v = 0; v < vectors; ++v) put(to + v * kCount, best[v]), put(places + v * kCount, at[v]);
    if (from == 0) put_places(l, places, y);
    else put_better(l, from, found, places, best_there, y);
  }
}

// What is done with a type of elements.
struct Kind {
  std::int64_t width;
  std::int64_t (*row)(const Threads &threads, const std::byte *x, std::int64_t n, std::int64_t bits,
                      bool last) noexcept;
  using OfColumns = void (*)(const Threads &threads, const Columns &l, std::int64_t bits, std::int64_t *y) noexcept;
  OfColumns few_columns;  // of up to 2 vectors
  OfColumns columns;      // of 3 or 4
};
// Rows are taken as T, lines side by side as Side.
template <class T, class Side = T>
constexpr Kind kKind = {sizeof(T), place_in_row<T>, positions_in_columns<Side, 2>, positions_in_columns<Side, 4>};

const Kind &kind_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::F32: return kKind<float>;
    case DType::F64: return kKind<double>;
    case DType::I8:
    case DType::U8: return kKind<std::uint8_t, std::int8_t>;
    case DType::I16:
    case DType::U16: return kKind<std::int16_t>;
    case DType::I32:
    case DType::U32: return kKind<std::int32_t>;
    default: return kKind<std::int64_t>;
  }
}
void run_rows(const Call &call, const Kind &kind, std::int64_t bits, bool last) noexcept {
  const auto &p = call.as<ArgExtreme>();
  auto *const y = call.operand<std::int64_t>(1);
  call.threads.run(static_cast<std::uint64_t>(p.outer), static_cast<std::uint64_t>(1 + 65536 / p.n),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i)
                       y[i] = kind.row(call.threads, call.operands[0] + i * p.n * kind.width, p.n, bits, last);
                   });
}
void run_columns(const Call &call, const Kind &kind, std::int64_t bits, bool last) noexcept {
  const auto &p = call.as<ArgExtreme>();
  auto *const y = call.operand<std::int64_t>(1);
  const std::int64_t vector = kBytes / kind.width, together = 4 * vector, parts = ceil_div(p.inner, together),
                     step = p.inner * kind.width, bytes = p.outer * p.n * step;
  call.threads.run(
      static_cast<std::uint64_t>(p.outer * parts), static_cast<std::uint64_t>(1 + 65536 / p.n / together),
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
        for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
          const std::int64_t outer = task / parts, j = task % parts * together, count = min_of(p.inner - j, together),
                             at = (outer * p.n + (last ? p.n - 1 : 0)) * step + j * kind.width;
          (count > 2 * vector ? kind.columns : kind.few_columns)(
              call.threads, Columns{call.operands[0] + at, p.n, last ? -step : step, bytes - at, count, last}, bits,
              y + outer * p.inner + j);
        }
      });
}

}  // namespace

void run_ArgExtremeF32(const Call &call) {
  const auto &p = call.as<ArgExtremeF32>();
  const auto *const x = call.operand<const float>(0);
  auto *const y = call.operand<std::int64_t>(1);
  call.threads.run(static_cast<std::uint64_t>(p.rows), static_cast<std::uint64_t>(1 + 65536 / p.cols),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i)
                       y[i] = place_of_f32(call.threads, x + i * p.cols, p.cols, p.least != 0, p.last != 0);
                   });
}

void run_ArgExtreme(const Call &call) {
  const auto &p = call.as<ArgExtreme>();
  const Kind &kind = kind_of(static_cast<DType>(p.dtype));
  if (p.inner == 1) run_rows(call, kind, change_to_order(static_cast<DType>(p.dtype), p.least != 0), p.last != 0);
  else run_columns(call, kind, change_to_order(static_cast<DType>(p.dtype), p.least != 0), p.last != 0);
}

}  // namespace quarry::kernels::QR_ISA
