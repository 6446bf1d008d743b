// SPDX-License-Identifier: Apache-2.0
// Operations on f32 elements, of one operand and of two.
#include "kernels/cpu/loops/activate_array.h"
#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/isa_kernels.h"
#include "kernels/cpu/vector/pow_f32.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Elements that are worth another thread.
constexpr std::uint64_t kGrain = 32768;

template <int unroll = 1, class F>
QR_INLINE void map_array(const float *x, float *y, std::int64_t count, F f) noexcept {
  std::int64_t i = 0;
  if constexpr (unroll > 1) {
    for (; i + unroll * kLanes <= count; i += unroll * kLanes) {
      VecF v[unroll];
      QR_UNROLL for (int k = 0; k < unroll; ++k) v[k] = f(load(x + i + k * kLanes));
      QR_UNROLL for (int k = 0; k < unroll; ++k) store(y + i + k * kLanes, v[k]);
    }
  }
  for (; i + kLanes <= count; i += kLanes) store(y + i, f(load(x + i)));
  if (const int rest = static_cast<int>(count - i); rest > 0) store_part(y + i, f(load_part(x + i, rest)), rest);
}

// Those that wait for memory: several vectors are read before one is written.
constexpr bool waits_for_memory(Act kind) noexcept {
  return kind == Act::Clip || kind == Act::LeakyRelu || kind == Act::HardSigmoid || kind == Act::HardSwish ||
         kind == Act::Linear || kind == Act::Square || (kind >= Act::Abs && kind <= Act::Round);
}

}  // namespace

void activate_array(const Activation &act, const float *x, float *y, std::int64_t count) noexcept {
  with_each_activation(
      act, [&](auto f) __attribute__((always_inline)) { map_array<waits_for_memory(f.kind) ? 4 : 1>(x, y, count, f); });
}

namespace {

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

  RowPlan(BinaryOp operation, const Activation &activation, std::int64_t step_of_a, std::int64_t step_of_b) noexcept
      : op(operation),
        act(activation),
        a_step(step_of_a),
        b_step(step_of_b),
        low(splat(-__builtin_inff())),
        high(splat(__builtin_inff())) {
    if (act.kind == Act::Clip) low = splat(act.a), high = splat(act.b);
    // Both sides scalar: only where the row is one element, or all of it is the same.
    row = row_of(op, a_step == 0 && b_step == 0 ? 1 : a_step, b_step == 0 && a_step == 0 ? 1 : b_step);
  }
  explicit RowPlan(const BinaryF32 &p) noexcept : RowPlan(p.op, p.act, p.a[p.rank - 1], p.b[p.rank - 1]) {}

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
void repeat(std::int64_t c, std::int64_t rows, float *tile) noexcept {
  for (std::int64_t have = 1; have < rows;) {  // doubled each time
    const std::int64_t more = min_of(have, rows - have);
    std::memcpy(tile + have * c, tile, bytes_of<float>(more * c));
    have += more;
  }
}
void lay_out(const float *row, std::int64_t c, std::int64_t rows, float *tile) noexcept {
  std::memcpy(tile, row, bytes_of<float>(c));
  repeat(c, rows, tile);
}
void run_tiles(const BinaryF32 &p, const RowPlan &plan, const float *a, const float *b, float *y, std::int64_t begin,
               std::int64_t end) noexcept {
  float tile[kTile];
  const std::int64_t c = p.dims[1], rows = min_of(kTile / c, end - begin);
  lay_out(b, c, rows, tile);
  for (std::int64_t row = begin; row < end; row += rows)
    plan(a + row * c, tile, y + row * c, min_of(rows, end - row) * c);
}

// The stages of a chain on one row, or on a piece of it: y is what each reads and writes, so it is kept short enough
// for the first cache.
class ChainRows {
 public:
  static constexpr std::int64_t kLongest = 2048;

  explicit ChainRows(const ChainF32 &p) noexcept : p_(p) {}
  // `steps`: along the row, of x and of the operand of each stage that has one.
  void run(const float *const *from, const std::int64_t *steps, float *y, std::int64_t count) const noexcept {
    if (count < kLanes && run_in_register(from, steps, y, static_cast<int>(count))) return;
    const float *value = *from++;
    std::int64_t step = *steps++;
    for (std::uint32_t s = 0; s < p_.stages; ++s) {
      const ChainStage &stage = p_.stage[s];
      if (stage.form == ChainForm::Alone) alone(stage.act, value, step, y, count);
      else if (stage.form == ChainForm::ValueFirst)
        RowPlan(stage.op, stage.act, step, *steps++)(value, *from++, y, count);
      else RowPlan(stage.op, stage.act, *steps++, step)(*from++, value, y, count);
      value = y, step = 1;
    }
  }

 private:
  static void alone(const Activation &act, const float *x, std::int64_t step, float *y, std::int64_t count) noexcept {
    if (step == 1) return activate_array(act, x, y, count);
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i * step];
    activate_array(act, y, y, count);
  }

  // What fills no vector stays in one: a part of a vector that was just stored is slow to load again. False: that is
  // not for this chain.
  bool run_in_register(const float *const *from, const std::int64_t *steps, float *y, int count) const noexcept {
    std::uint32_t operands = 0;
    const auto next = [&]() __attribute__((always_inline)) {
      const float *at = from[operands];
      return steps[operands++] == 0 ? splat(*at) : load_part(at, count);
    };
    for (std::uint32_t o = 0, s = 0; s <= p_.stages; ++s) {
      if (s > 0 && p_.stage[s - 1].op == BinaryOp::Pow) return false;  // RowPlan knows simple exponents
      if (s > 0 && p_.stage[s - 1].form == ChainForm::Alone) continue;
      if (steps[o++] > 1) return false;
    }
    VecF value = next();
    for (std::uint32_t s = 0; s < p_.stages; ++s) {
      const ChainStage &stage = p_.stage[s];
      if (stage.form != ChainForm::Alone) {
        const VecF other = next();
        value = stage.form == ChainForm::ValueFirst ? combine_any(stage.op, value, other)
                                                    : combine_any(stage.op, other, value);
      }
      if (stage.act.kind == Act::Clip) value = clamp(value, splat(stage.act.a), splat(stage.act.b));
      else if (stage.act.kind != Act::None)
        with_each_activation(
            stage.act, [&](auto f) __attribute__((always_inline)) { value = f(value); });
    }
    store_part(y, value, count);
    return true;
  }
  static VecF combine_any(BinaryOp op, VecF a, VecF b) noexcept {
    switch (op) {
      case BinaryOp::Add: return combine<BinaryOp::Add>(a, b);
      case BinaryOp::Sub: return combine<BinaryOp::Sub>(a, b);
      case BinaryOp::Mul: return combine<BinaryOp::Mul>(a, b);
      case BinaryOp::Div: return combine<BinaryOp::Div>(a, b);
      case BinaryOp::Min: return combine<BinaryOp::Min>(a, b);
      case BinaryOp::Max: return combine<BinaryOp::Max>(a, b);
      default: return combine<BinaryOp::Prelu>(a, b);
    }
  }

  const ChainF32 &p_;
};

// x and the operands of a chain as it walks through them.
struct ChainWalk {
  const std::int64_t *strides[kChainStages + 1];
  const float *from[kChainStages + 1];  // of 16-bit numbers only an address
  NumberType type[kChainStages + 1], y_type;
  std::uint32_t count = 1;
  bool mixed;  // not all is f32

  ChainWalk(const ChainF32 &p, const Call &call) noexcept {
    strides[0] = p.x, from[0] = call.operand<const float>(0), type[0] = p.x_type, y_type = p.y_type;
    mixed = p.x_type != NumberType::F32 || p.y_type != NumberType::F32;
    for (std::uint32_t s = 0; s < p.stages; ++s) {
      if (p.stage[s].form == ChainForm::Alone) continue;
      strides[count] = p.stage[s].b;
      from[count] = call.operand<const float>(count);
      type[count] = p.stage[s].b_type;
      mixed |= type[count] != NumberType::F32;
      ++count;
    }
  }

  // `elements` of `type` on.
  template <class T>
  static T *on(T *from, NumberType type, std::int64_t elements) noexcept {
    using Byte = const std::byte;
    auto *const at = reinterpret_cast<Byte *>(from) + elements * (type == NumberType::F32 ? 4 : 2);
    return const_cast<T *>(reinterpret_cast<const T *>(at));
  }
  void move(std::uint32_t operand, std::int64_t elements) noexcept {
    from[operand] = on(from[operand], type[operand], elements);
  }

  // The stages on `count` elements from where it stands; y of y_type.
  void run(const ChainRows &rows, const std::int64_t *steps, float *y, std::int64_t elements) const noexcept {
    if (mixed) run_mixed(rows, steps, y, elements);
    else rows.run(from, steps, y, elements);
  }

 private:
  // What is of 16 bits is f32 for a short while, in the first cache.
  void run_mixed(const ChainRows &rows, const std::int64_t *steps, float *y, std::int64_t elements) const noexcept {
    constexpr std::int64_t kPiece = 512;
    float wide[kChainStages + 1][kPiece], result[kPiece];
    const float *piece[kChainStages + 1];
    std::int64_t along[kChainStages + 1];
    for (std::int64_t at = 0; at < elements; at += kPiece) {
      const std::int64_t n = min_of(kPiece, elements - at);
      for (std::uint32_t o = 0; o < count; ++o) {
        along[o] = steps[o];
        piece[o] = on(from[o], type[o], at * steps[o]);
        if (type[o] == NumberType::F32) continue;
        const auto *const halves = reinterpret_cast<const std::uint16_t *>(piece[o]);
        if (steps[o] <= 1) {
          widen_weights(type[o], halves, wide[o], steps[o] == 0 ? 1 : n);
        } else {
          std::uint16_t gathered[kPiece];
          for (std::int64_t i = 0; i < n; ++i) gathered[i] = halves[i * steps[o]];
          widen_weights(type[o], gathered, wide[o], n);
          along[o] = 1;
        }
        piece[o] = wide[o];
      }
      if (y_type == NumberType::F32) {
        rows.run(piece, along, y + at, n);
      } else {
        rows.run(piece, along, result, n);
        narrow_numbers(y_type, result, reinterpret_cast<std::uint16_t *>(y) + at, n);
      }
    }
  }
};

void run_chain_nest(const ChainF32 &p, ChainWalk walk, float *y, std::int64_t begin, std::int64_t end) noexcept {
  const ChainRows rows(p);
  const int last = static_cast<int>(p.rank) - 1;
  std::int64_t index[kLoopRank], steps[kChainStages + 1], rest = begin;
  for (int i = last; i >= 0; --i) {
    index[i] = rest % p.dims[i];
    rest /= p.dims[i];
  }
  for (std::uint32_t o = 0; o < walk.count; ++o) {
    steps[o] = walk.strides[o][last];
    for (int i = 0; i <= last; ++i) walk.move(o, index[i] * walk.strides[o][i]);
  }
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t count = min_of(min_of(p.dims[last] - index[last], end - at), ChainRows::kLongest);
    walk.run(rows, steps, ChainWalk::on(y, walk.y_type, at), count);
    at += count;
    index[last] += count;
    for (std::uint32_t o = 0; o < walk.count; ++o) walk.move(o, count * steps[o]);
    for (int i = last; i > 0 && index[i] == p.dims[i]; --i) {
      for (std::uint32_t o = 0; o < walk.count; ++o)
        walk.move(o, walk.strides[o][i - 1] - p.dims[i] * walk.strides[o][i]);
      index[i] = 0;
      ++index[i - 1];
    }
  }
}

// Rows too short to be walked one by one, which all operands share, are whole or are scalars: what is shared is laid
// out several times, and rows become long.
bool has_short_rows(const ChainF32 &p, const ChainWalk &walk) noexcept {
  const std::int64_t c = p.dims[1];
  if (p.rank != 2 || c < 2 || c > kTile / 4) return false;
  for (std::uint32_t o = 0; o < walk.count; ++o) {
    const std::int64_t down = walk.strides[o][0], along = walk.strides[o][1];
    if (!(along == 1 && (down == c || down == 0)) && !(along == 0 && down == 0)) return false;
  }
  return true;
}
void run_chain_tiles(const ChainF32 &p, ChainWalk walk, float *y, std::int64_t begin, std::int64_t end) noexcept {
  float tiles[kChainStages + 1][kTile];
  std::int64_t steps[kChainStages + 1], moves[kChainStages + 1];
  const std::int64_t c = p.dims[1], rows = min_of(kTile / c, end - begin);
  for (std::uint32_t o = 0; o < walk.count; ++o) {
    steps[o] = walk.strides[o][1], moves[o] = walk.strides[o][0];
    if (steps[o] == 1 && moves[o] == 0) {
      if (walk.type[o] == NumberType::F32) {
        lay_out(walk.from[o], c, rows, tiles[o]);
      } else {
        widen_weights(walk.type[o], reinterpret_cast<const std::uint16_t *>(walk.from[o]), tiles[o], c);
        repeat(c, rows, tiles[o]);
      }
      walk.from[o] = tiles[o], walk.type[o] = NumberType::F32;
    } else {
      walk.move(o, begin * moves[o]);
    }
  }
  const ChainRows chain(p);
  for (std::int64_t row = begin; row < end; row += rows) {
    const std::int64_t some = min_of(rows, end - row);
    walk.run(chain, steps, ChainWalk::on(y, walk.y_type, row * c), some * c);
    for (std::uint32_t o = 0; o < walk.count; ++o) walk.move(o, some * moves[o]);
  }
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

void run_ChainF32(const Call &call) {
  const auto &p = call.as<ChainF32>();
  const ChainWalk walk(p, call);
  float *y = call.operand<float>(walk.count);
  std::int64_t count = 1;
  for (std::uint32_t i = 0; i < p.rank; ++i) count *= p.dims[i];
  if (count == 0) return;
  if (p.rank == 1 && count <= ChainRows::kLongest) {
    std::int64_t steps[kChainStages + 1];
    for (std::uint32_t o = 0; o < walk.count; ++o) steps[o] = walk.strides[o][0];
    return walk.run(ChainRows(p), steps, y, count);
  }
  const std::uint64_t grain = kGrain / p.stages;
  if (has_short_rows(p, walk))
    return call.threads.run(static_cast<std::uint64_t>(p.dims[0]), grain / static_cast<std::uint64_t>(p.dims[1]),
                            [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                              run_chain_tiles(p, walk, y, static_cast<std::int64_t>(begin),
                                              static_cast<std::int64_t>(end));
                            });
  call.threads.run(static_cast<std::uint64_t>(count), grain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     run_chain_nest(p, walk, y, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
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
