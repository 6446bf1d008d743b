// SPDX-License-Identifier: Apache-2.0
// LSTM whose weights are bytes. Rows of the input and of the state are each taken as whole numbers of 16 bits times a
// factor of their own, in two bytes, so that a product is two dot products of bytes for each vector of weights.
#include "kernels/cpu/recurrent/recurrent_layer.h"
#include "kernels/cpu/shapes/recurrent_shape.h"
#include "kernels/cpu/vector/int_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr int kGates = 4;
constexpr int kTogether = 2;  // rows that share weights in registers
constexpr std::int64_t kRowsOfTask = 64;

// value = scale * (256 * high + low - zero points of the two, as the dot product has them)
struct Factors {
  float scale, sum;  // sum: of all the whole numbers
};

// `row`: the high bytes, then the low ones; zeros behind `count`. Rows with a NaN or an infinity give a scale of NaN.
Factors take_apart(const float *from, std::int64_t count, std::int64_t row_bytes, std::byte *row) noexcept {
  constexpr float kMost = 32767;
  const auto at = [&](std::int64_t i) __attribute__((always_inline)) {
    return i + kLanes <= count ? load(from + i) : load_part(from + i, static_cast<int>(count - i));
  };
  VecF most{}, odd{};
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const VecF v = at(i);
    most = max(most, abs(v)), odd += v * splat(0.0f);
  }
  const float all = largest(most), inverse = all > 1e-30f ? kMost / all : 0;
  const VecF by = splat(inverse);
  using Byte = std::conditional_t<kDotSigned, std::int8_t, std::uint8_t>;
  constexpr std::int32_t kHigh = kDotSigned ? 0 : 128, kLow = kDotSigned ? -128 : 0;
  auto *const high = reinterpret_cast<Byte *>(row), *const low = high + row_bytes;
  VecI sums{};
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const VecI v = round_to_int(at(i) * by);
    sums += v;
    narrow(high + i, (v >> 8) + kHigh), narrow(low + i, (v & splat(255)) + kLow);
  }
  return {all / kMost + sum(odd), sum(to_float(sums))};
}

// Weights of a matrix, and what undoes that they are bytes.
struct Matrix {
  const std::int8_t *bytes;
  const std::int32_t *corrections;
  const float *scales, *zeros;
  std::int64_t steps, row_bytes, padded;
};

// Of a block of lanes, the gates' sums over R rows that lie `row_step` bytes apart.
template <int R>
QR_INLINE void gemm_block(const Matrix &m, std::int64_t block, const std::byte *rows, std::int64_t row_step,
                          const Factors *factors, VecF (&sums)[R][kGates]) noexcept {
  VecI high[R][kGates], low[R][kGates];
  QR_UNROLL for (int g = 0; g < kGates; ++g) {
    const VecI correction = load(m.corrections + g * m.padded + block * kLanes);
    QR_UNROLL for (int r = 0; r < R; ++r) {
      high[r][g] = kDotSigned ? VecI{} : correction, low[r][g] = kDotSigned ? correction : VecI{};
    }
  }
  const std::int8_t *w = m.bytes + block * m.steps * kGates * kBytes;
  for (std::int64_t s = 0; s < m.steps; ++s, w += kGates * kBytes) {
    VecB weights[kGates];
    QR_UNROLL for (int g = 0; g < kGates; ++g) std::memcpy(&weights[g], w + g * kBytes, sizeof weights[g]);
    QR_UNROLL for (int r = 0; r < R; ++r) {
      const std::byte *const row = rows + r * row_step + s * 4;
      std::int32_t upper, lower;
      std::memcpy(&upper, row, 4), std::memcpy(&lower, row + m.row_bytes, 4);
      const auto a = reinterpret_cast<VecB>(splat(upper)), b = reinterpret_cast<VecB>(splat(lower));
      QR_UNROLL for (int g = 0; g < kGates; ++g) high[r][g] = add_quads(high[r][g], a, weights[g]);
      QR_UNROLL for (int g = 0; g < kGates; ++g) low[r][g] = add_quads(low[r][g], b, weights[g]);
    }
    asm volatile("" ::: "memory");  // steps are not mixed: gemm_tile.cpp
  }
  QR_UNROLL for (int g = 0; g < kGates; ++g) {
    const std::int64_t at = g * m.padded + block * kLanes;
    const VecF scale = load(m.scales + at), zero = load(m.zeros + at);
    QR_UNROLL for (int r = 0; r < R; ++r) {
      const VecF whole = fma(to_float(high[r][g]), splat(256.0f), to_float(low[r][g]));
      sums[r][g] = fma(splat(factors[r].sum), zero, whole) * (scale * splat(factors[r].scale));
    }
  }
}

struct Cell8 {
  RecurrentBytesShape s;
  Matrix w, r;
  const float *x, *biases;
  float *gates;
  std::byte *rows;   // x, taken apart
  Factors *factors;  // of them
  RecurrentLayer layer;

  explicit Cell8(const Call &call) noexcept
      : s(recurrent_bytes_shape(call.as<RecurrentBytes>(), kLanes)),
        x(call.operand<const float>(0)),
        gates(reinterpret_cast<float *>(call.shared_scratch())),
        rows(call.shared_scratch() + s.gates_bytes),
        factors(reinterpret_cast<Factors *>(rows + s.rows_bytes)),
        layer(call, call.as<RecurrentBytes>().layer, 2, s.padded,
              reinterpret_cast<float *>(call.shared_scratch() + s.gates_bytes + s.rows_bytes + s.factors_bytes)) {
    const auto *from = call.operand<const std::byte>(1);
    const auto next = [&]<class T>(std::int64_t count, const T *&to) {
      to = reinterpret_cast<const T *>(from);
      from += bytes_of<T>(count);
    };
    next(s.w.bytes, w.bytes), next(s.r.bytes, r.bytes);
    for (Matrix *m : {&w, &r}) {
      next(s.columns, m->corrections), next(s.columns, m->scales), next(s.columns, m->zeros);
      m->padded = s.padded;
    }
    next(s.columns, biases);
    w.steps = s.w.steps, w.row_bytes = s.w.row_bytes, r.steps = s.r.steps, r.row_bytes = s.r.row_bytes;
    layer.gates = gates, layer.gates_next = s.padded;
    layer.gates_row = s.columns, layer.gates_step = layer.p.batch * s.columns;
  }

  // Products of all rows of x.
  void run_inputs(const Call &call) const noexcept {
    const RecurrentF32 &p = layer.p;
    const std::int64_t all = p.steps * p.batch, groups = ceil_div(all, kRowsOfTask), input = s.w.depth;
    call.threads.run(static_cast<std::uint64_t>(all), static_cast<std::uint64_t>(1 + 65536 / input),
                     [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                       for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i)
                         factors[i] = take_apart(x + i / p.batch * p.x_step + i % p.batch * p.x_row, input, w.row_bytes,
                                                 rows + i * 2 * w.row_bytes);
                     });
    const double work = static_cast<double>(min_of(all, kRowsOfTask) * input) * kGates * kLanes / 2;
    call.threads.run(
        static_cast<std::uint64_t>(groups * s.blocks), static_cast<std::uint64_t>(kWorthSharing / work) + 1,
        [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
          for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
            const std::int64_t block = task % s.blocks, first = task / s.blocks * kRowsOfTask,
                               last = min_of(all, first + kRowsOfTask);
            std::int64_t i = first;
            for (; i + kTogether <= last; i += kTogether) input_rows<kTogether>(block, i);
            for (; i < last; ++i) input_rows<1>(block, i);
          }
        });
  }
  template <int R>
  void input_rows(std::int64_t block, std::int64_t first) const noexcept {
    VecF sums[R][kGates];
    gemm_block<R>(w, block, rows + first * 2 * w.row_bytes, 2 * w.row_bytes, factors + first, sums);
    QR_UNROLL for (int r = 0; r < R; ++r) QR_UNROLL for (int g = 0; g < kGates; ++g) {
      const std::int64_t at = g * s.padded + block * kLanes;
      store(gates + (first + r) * s.columns + at, sums[r][g] + load(biases + at));
    }
  }

  template <int R>
  void block(std::int64_t step, std::int64_t block, std::int64_t entry, const std::byte *states,
             const Factors *of) const noexcept {
    VecF sums[R][kGates] = {};
    if (!layer.from_nothing(step)) gemm_block<R>(r, block, states, 2 * r.row_bytes, of, sums);
    for (int i = 0; i < R; ++i) finish(step, block, entry + i, sums[i]);
  }
  // (Once, and not for each number of rows.)
  __attribute__((noinline)) void finish(std::int64_t step, std::int64_t block, std::int64_t entry,
                                        VecF (&sums)[kGates]) const noexcept {
    layer.finish<kGates>(step, block, entry, false, nullptr, sums);
  }

  void run_step(const Call &call, std::int64_t step) const noexcept {
    const RecurrentF32 &p = layer.p;
    const std::int64_t groups = ceil_div<std::int64_t>(p.batch, kTogether);
    const double work =
        static_cast<double>(p.hidden) * kGates * kLanes * static_cast<double>(min_of<std::int64_t>(p.batch, kTogether));
    call.threads.run(
        static_cast<std::uint64_t>(s.blocks * groups), static_cast<std::uint64_t>(kWorthSharing / work) + 1,
        [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
          std::byte *const states = call.worker_scratch(worker);
          Factors of[kTogether] = {};
          std::int64_t taken = -1;
          for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
            const std::int64_t group = task / s.blocks, at = task % s.blocks, entry = group * kTogether,
                               count = min_of<std::int64_t>(kTogether, p.batch - entry);
            if (group != taken && !layer.from_nothing(step))
              for (std::int64_t i = 0; i < count; ++i)
                of[i] = take_apart(layer.before(step, entry + i), p.hidden, r.row_bytes, states + i * 2 * r.row_bytes);
            taken = group;
            if (count == kTogether) block<kTogether>(step, at, entry, states, of);
            else block<1>(step, at, entry, states, of);
          }
        });
  }
};

}  // namespace

void run_RecurrentBytes(const Call &call) {
  if constexpr (kIntGroup == 4) {  // elsewhere the check refuses
    const Cell8 cell(call);
    if (!cell.layer.lengths_fit(call)) return;
    cell.layer.begin();
    cell.run_inputs(call);
    for (std::int64_t step = 0; step < cell.layer.p.steps; ++step) cell.run_step(call, step);
    cell.layer.end();
  }
}

}  // namespace quarry::kernels::QR_ISA
