// SPDX-License-Identifier: Apache-2.0
// Operations on f32 elements, of one operand and of two.
#include "backends/common/kernels/isa/activate.h"
#include "backends/common/kernels/isa/kernels.h"
#include "backends/common/kernels/isa/pow_f32.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Elements that are worth another thread.
constexpr std::uint64_t kGrain = 32768;

template <class F>
QR_INLINE void map_array(const float *x, float *y, std::int64_t count, F f) noexcept {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, f(load(x + i)));
  if (const int rest = static_cast<int>(count - i); rest > 0) store_part(y + i, f(load_part(x + i, rest)), rest);
}

void activate_array(const Activation &act, const float *x, float *y, std::int64_t count) noexcept {
  with_each_activation(
      act, [&](auto f) __attribute__((always_inline)) { map_array(x, y, count, f); });
}

// Exponents that are simpler. False: it is none of them.
bool pow_array(const float *x, float exponent, float *y, std::int64_t count) noexcept {
  if (exponent == 2) map_array(x, y, count, [](VecF v) { return v * v; });
  else if (exponent == 1) map_array(x, y, count, [](VecF v) { return v; });
  else if (exponent == 3) map_array(x, y, count, [](VecF v) { return v * v * v; });
  else if (exponent == -1) map_array(x, y, count, [](VecF v) { return splat(1.0f) / v; });
  else if (exponent == 0.5f)  // of -0 it is +0, of -inf +inf
    map_array(x, y, count, [](VecF v) { return v == splat(-__builtin_inff()) ? -v : sqrt(v + VecF{}); });
  else return false;
  return true;
}

template <BinaryOp op>
QR_INLINE VecF combine(VecF a, VecF b) noexcept {
  if constexpr (op == BinaryOp::Add) return a + b;
  else if constexpr (op == BinaryOp::Sub) return a - b;
  else if constexpr (op == BinaryOp::Mul) return a * b;
  else if constexpr (op == BinaryOp::Div) return a / b;
  else if constexpr (op == BinaryOp::Min) return a != a ? a : min(a, b);  // min and max give b where either is NaN
  else if constexpr (op == BinaryOp::Max) return a != a ? a : max(a, b);
  else if constexpr (op == BinaryOp::Pow) return pow(a, b);
  else return a < VecF{} ? a * b : a;
}

enum class Sides { Both, ScalarA, ScalarB };
template <Sides sides>
QR_INLINE VecF element(const float *p, std::int64_t i, VecF scalar, Sides which) noexcept {
  return sides == which ? scalar : load(p + i);
}

// y[i] = min(max(a[i] op b[i], low), high), where one side may be a scalar. y may be a or b.
template <BinaryOp op, Sides sides>
void combine_row(const float *a, const float *b, float *y, std::int64_t count, VecF low, VecF high) noexcept {
  const VecF a0 = splat(a[0]), b0 = splat(b[0]);
  const auto at = [=](std::int64_t i) __attribute__((always_inline)) {
    return clamp(combine<op>(element<sides>(a, i, a0, Sides::ScalarA), element<sides>(b, i, b0, Sides::ScalarB)), low,
                 high);
  };
  std::int64_t i = 0;
  constexpr int kUnroll = op == BinaryOp::Pow ? 1 : 4;
  if constexpr (kUnroll > 1) {
    for (; i + kUnroll * kLanes <= count; i += kUnroll * kLanes) {
      VecF v[kUnroll];
      QR_UNROLL for (int k = 0; k < kUnroll; ++k) v[k] = at(i + k * kLanes);
      QR_UNROLL for (int k = 0; k < kUnroll; ++k) store(y + i + k * kLanes, v[k]);
    }
  }
  for (; i + kLanes <= count; i += kLanes) store(y + i, at(i));
  if (const int rest = static_cast<int>(count - i); rest > 0) {
    const VecF va = sides == Sides::ScalarA ? a0 : load_part(a + i, rest),
               vb = sides == Sides::ScalarB ? b0 : load_part(b + i, rest);
    store_part(y + i, clamp(combine<op>(va, vb), low, high), rest);
  }
}

using Row = void (*)(const float *a, const float *b, float *y, std::int64_t count, VecF low, VecF high) noexcept;
template <BinaryOp op>
Row row_of(std::int64_t a_step, std::int64_t b_step) noexcept {
  return a_step == 0   ? combine_row<op, Sides::ScalarA>
         : b_step == 0 ? combine_row<op, Sides::ScalarB>
                       : combine_row<op, Sides::Both>;
}
Row row_of(BinaryOp op, std::int64_t a_step, std::int64_t b_step) noexcept {
  switch (op) {
    case BinaryOp::Add: return row_of<BinaryOp::Add>(a_step, b_step);
    case BinaryOp::Sub: return row_of<BinaryOp::Sub>(a_step, b_step);
    case BinaryOp::Mul: return row_of<BinaryOp::Mul>(a_step, b_step);
    case BinaryOp::Div: return row_of<BinaryOp::Div>(a_step, b_step);
    case BinaryOp::Min: return row_of<BinaryOp::Min>(a_step, b_step);
    case BinaryOp::Max: return row_of<BinaryOp::Max>(a_step, b_step);
    case BinaryOp::Pow: return row_of<BinaryOp::Pow>(a_step, b_step);
    default: return row_of<BinaryOp::Prelu>(a_step, b_step);
  }
}

// How the rows of a call are done.
struct RowPlan {
  Row row;
  BinaryOp op;
  const Activation &act;
  std::int64_t a_step, b_step;  // along the row
  VecF low, high;

  RowPlan(const BinaryF32 &p) noexcept
      : op(p.op),
        act(p.act),
        a_step(p.a[p.rank - 1]),
        b_step(p.b[p.rank - 1]),
        low(splat(-__builtin_inff())),
        high(splat(__builtin_inff())) {
    if (p.act.kind == Act::Clip) low = splat(p.act.a), high = splat(p.act.b);
    // Both sides scalar: only where the row is one element, or all of it is the same.
    row = row_of(p.op, a_step == 0 && b_step == 0 ? 1 : a_step, b_step == 0 && a_step == 0 ? 1 : b_step);
  }

  void unit(const float *a, const float *b, float *y, std::int64_t count) const noexcept {
    if (op == BinaryOp::Pow && b_step == 0 && act.kind != Act::Clip && pow_array(a, *b, y, count)) return;
    row(a, b, y, count, low, high);
  }
  // Elements that do not lie side by side are gathered first.
  __attribute__((noinline)) void strided(const float *a, const float *b, float *y, std::int64_t count) const noexcept {
    constexpr std::int64_t kChunk = 256;
    float a_chunk[kChunk], b_chunk[kChunk];
    const Row both = row_of(op, 1, 1);
    for (std::int64_t at = 0; at < count; at += kChunk) {
      const std::int64_t n = min_of(kChunk, count - at);
      for (std::int64_t i = 0; i < n; ++i) a_chunk[i] = a[(at + i) * a_step];
      for (std::int64_t i = 0; i < n; ++i) b_chunk[i] = b[(at + i) * b_step];
      both(a_chunk, b_chunk, y + at, n, low, high);
    }
  }
  void operator()(const float *a, const float *b, float *y, std::int64_t count) const noexcept {
    if (a_step > 1 || b_step > 1 || (a_step == 0 && b_step == 0)) strided(a, b, y, count);
    else unit(a, b, y, count);
    if (act.kind != Act::None && act.kind != Act::Clip) activate_array(act, y, y, count);
  }
};

// Elements [begin, end) of y, in rows of the innermost dimension.
void run_nest(const BinaryF32 &p, const RowPlan &plan, const float *a, const float *b, float *y, std::int64_t begin,
              std::int64_t end) noexcept {
  const int last = static_cast<int>(p.rank) - 1;
  std::int64_t index[kLoopRank], a_at = 0, b_at = 0, rest = begin;
  for (int i = last; i >= 0; --i) {
    index[i] = rest % p.dims[i];
    rest /= p.dims[i];
    a_at += index[i] * p.a[i], b_at += index[i] * p.b[i];
  }
  // Activations other than bounds go over y once more, so rows are cut to what stays in the cache.
  constexpr std::int64_t kLongest = 4096;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t count = min_of(min_of(p.dims[last] - index[last], end - at), kLongest);
    plan(a + a_at, b + b_at, y + at, count);
    at += count;
    index[last] += count, a_at += count * p.a[last], b_at += count * p.b[last];
    for (int i = last; i > 0 && index[i] == p.dims[i]; --i) {
      a_at += p.a[i - 1] - p.dims[i] * p.a[i], b_at += p.b[i - 1] - p.dims[i] * p.b[i];
      index[i] = 0;
      ++index[i - 1];
    }
  }
}

// Short rows of b (channels) that all rows of a dense a share: b is laid out several times, and rows become long.
constexpr std::int64_t kTile = 512;
bool shares_short_rows(const BinaryF32 &p) noexcept {
  const std::int64_t c = p.dims[1];
  return p.rank == 2 && c > 1 && c <= kTile / 4 && p.a[1] == 1 && p.a[0] == c && p.b[0] == 0 && p.b[1] == 1;
}
void run_tiles(const BinaryF32 &p, const RowPlan &plan, const float *a, const float *b, float *y, std::int64_t begin,
               std::int64_t end) noexcept {
  float tile[kTile];
  const std::int64_t c = p.dims[1], rows = min_of(kTile / c, end - begin);
  std::memcpy(tile, b, static_cast<std::size_t>(c) * 4);
  for (std::int64_t have = 1; have < rows;) {  // doubled each time
    const std::int64_t more = min_of(have, rows - have);
    std::memcpy(tile + have * c, tile, static_cast<std::size_t>(more * c) * 4);
    have += more;
  }
  for (std::int64_t row = begin; row < end; row += rows)
    plan(a + row * c, tile, y + row * c, min_of(rows, end - row) * c);
}

}  // namespace

void activate_in_place(const Activation &act, float *data, std::int64_t count) noexcept {
  if (act.kind != Act::None) activate_array(act, data, data, count);
}

void run_BinaryF32(const Call &call) {
  const auto &p = call.as<BinaryF32>();
  const float *a = call.operand<const float>(0), *b = call.operand<const float>(1);
  float *y = call.operand<float>(2);
  std::int64_t count = 1;
  for (std::uint32_t i = 0; i < p.rank; ++i) count *= p.dims[i];
  if (count == 0) return;
  const RowPlan plan(p);
  if (p.rank == 1 && count <= 4096) return plan(a, b, y, count);
  if (shares_short_rows(p)) {
    const auto grain = kGrain / static_cast<std::uint64_t>(p.dims[1]);
    return call.threads.run(
        static_cast<std::uint64_t>(p.dims[0]), grain, [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
          run_tiles(p, plan, a, b, y, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
        });
  }
  call.threads.run(static_cast<std::uint64_t>(count), kGrain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     run_nest(p, plan, a, b, y, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
                   });
}

void run_UnaryF32(const Call &call) {
  const auto &p = call.as<UnaryF32>();
  const float *x = call.operand<const float>(0);
  float *y = call.operand<float>(1);
  call.threads.run(static_cast<std::uint64_t>(p.count), kGrain / 2,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     activate_array(p.act, x + begin, y + begin, static_cast<std::int64_t>(end - begin));
                   });
}

}  // namespace quarry::kernels::QR_ISA
