// SPDX-License-Identifier: Apache-2.0
// Elements put, or combined with what is there, where an index for each says. Columns are independent of each other, so
// threads share those; what meets in one place comes in the order of the updates.
#include "kernels/cpu/loops/distances.h"
#include "kernels/cpu/vector/combine.h"
#include "kernels/cpu/vector/isa_kernels.h"
#include "kernels/cpu/vector/numbers.h"

namespace quarry::kernels::QR_ISA {

namespace {

// `count` updates into what `to` points at, `at` elements from there.
using Put = void (*)(std::byte *to, const std::byte *updates, const std::int32_t *at, std::int64_t count) noexcept;

template <class T>
void replace(std::byte *to, const std::byte *updates, const std::int32_t *__restrict at, std::int64_t count) noexcept {
  T *const y = reinterpret_cast<T *>(to);
  const T *const __restrict from = reinterpret_cast<const T *>(updates);
  _Pragma("GCC unroll 4") for (std::int64_t j = 0; j < count; ++j) y[at[j]] = from[j];
}
template <ElementOp op, class T>
void put_combined(std::byte *to, const std::byte *updates, const std::int32_t *__restrict at,
                  std::int64_t count) noexcept {
  T *const y = reinterpret_cast<T *>(to);
  const T *const __restrict from = reinterpret_cast<const T *>(updates);
  _Pragma("GCC unroll 2") for (std::int64_t j = 0; j < count; ++j) y[at[j]] = combine_one<op, T>(y[at[j]], from[j]);
}

Put put_of(const ScatterElements &p, std::int64_t width) noexcept {
  if (!p.combines) switch (width) {
      case 1: return replace<std::uint8_t>;
      case 2: return replace<std::uint16_t>;
      case 4: return replace<std::uint32_t>;
      default: return replace<std::uint64_t>;
    }
  Put put = nullptr;
  with_number(
      static_cast<DType>(p.dtype), [&]<class T>(T) __attribute__((always_inline)) {
        with_combination(
            p.op, [&]<ElementOp op>() __attribute__((always_inline)) { put = put_combined<op, CombinedAs<op, T>>; });
      });
  return put;
}

struct Scatterer {
  const ScatterElements &p;
  std::int64_t width;  // of an element
  Put put;
  Indices indices;
  const std::byte *x, *updates;
  std::byte *y;
  bool *bad;

  // Updates [begin, begin + count) into y, distances counted from element `to`.
  void block(std::int64_t begin, std::int64_t count, std::int64_t to, const std::int32_t *column) const noexcept {
    if (!indices.each(
            begin, count, column,
            [&](std::int64_t first, std::int64_t far, const std::int32_t *at, std::int64_t some)
                __attribute__((always_inline)) { put(y + (to + far) * width, updates + first * width, at, some); }))
      __atomic_store_n(bad, true, __ATOMIC_RELAXED);
  }
  void copy(std::int64_t first, std::int64_t count) const noexcept {
    if (x != y) std::memcpy(y + first * width, x + first * width, static_cast<std::size_t>(count * width));
  }

  void narrow(const Threads &threads) const noexcept {
    const NarrowColumns columns(p.outer, p.rows, p.count, p.inner);
    const std::int64_t line = p.count * p.inner, plane = p.rows * p.inner, together = columns.together;
    threads.run(static_cast<std::uint64_t>(ceil_div(p.outer, together)),
                static_cast<std::uint64_t>(1 + 16384 / (together * (line + plane))),
                [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                  for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                    const std::int64_t outer = task * together, planes = min_of(together, p.outer - outer);
                    copy(outer * plane, planes * plane);
                    for (std::int64_t first = 0; first < planes * line; first += kIndexBlock)
                      block(outer * line + first, min_of(kIndexBlock, planes * line - first), outer * plane,
                            columns.at + first % p.inner);
                  }
                });
  }

  // Some columns after the others, so that what may be written stays near.
  void wide(const Threads &threads) const noexcept {
    constexpr std::int64_t kNear = 128 << 10;
    const WideColumns each;
    const std::int64_t fit = kNear / width / p.rows, columns = min_of(p.inner, max_of(kNarrow, fit)),
                       parts = ceil_div(p.inner, columns);
    threads.run(static_cast<std::uint64_t>(p.outer * parts),
                static_cast<std::uint64_t>(1 + 16384 / (columns * (p.count + p.rows))),
                [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                  for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                    const std::int64_t outer = task / parts, first = task % parts * columns,
                                       last = min_of(p.inner, first + columns), plane = outer * p.rows * p.inner;
                    if (parts == 1) copy(plane, p.rows * p.inner);
                    else
                      for (std::int64_t r = 0; r < p.rows; ++r) copy(plane + r * p.inner + first, last - first);
                    for (std::int64_t i = 0; i < p.count; ++i)
                      for (std::int64_t j = first; j < last; j += kIndexBlock)
                        block((outer * p.count + i) * p.inner + j, min_of(kIndexBlock, last - j), plane + j, each.at);
                  }
                });
  }
};

std::int64_t width_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::Bool:
    case DType::I8:
    case DType::U8: return 1;
    case DType::F16:
    case DType::BF16:
    case DType::I16:
    case DType::U16: return 2;
    case DType::F32:
    case DType::I32:
    case DType::U32: return 4;
    default: return 8;
  }
}

}  // namespace

void run_ScatterElements(const Call &call) {
  const auto &p = call.as<ScatterElements>();
  if (p.outer == 0 || p.inner == 0) return;
  const std::int64_t width = width_of(static_cast<DType>(p.dtype));
  bool bad = false;
  const Scatterer scatterer{p,
                            width,
                            put_of(p, width),
                            {call.operands[1], p.index_bytes, p.rows, p.inner},
                            call.operands[0],
                            call.operands[2],
                            call.operands[3],
                            &bad};
  if (p.inner < kNarrow) scatterer.narrow(call.threads);
  else scatterer.wide(call.threads);
  if (bad) scatterer.indices.report_bad(call);
}

}  // namespace quarry::kernels::QR_ISA
