// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN, step by step. A task is a block of the state's lanes and some entries of the batch: the products
// of all gates with the state before, and the cell's functions of them, so that a step is one loop (two where a gate
// works on the state before the product).
#include "kernels/cpu/recurrent/recurrent_layer.h"
#include "kernels/cpu/shapes/recurrent_shape.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Entries of the batch that share weights in registers.
#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__aarch64__)
constexpr int kEntries = 4;
#else
constexpr int kEntries = 2;
#endif

// sums[r][g] = sum over k of state[r][k] * w[k][g]. Several sums at a time where there are few, so that they need not
// wait for each other.
template <int R, int G>
QR_INLINE void gemm_block(const float *const *state, const float *w, std::int64_t count, VecF (&sums)[R][G]) noexcept {
  constexpr int kParts = R * G >= 8 ? 1 : R * G >= 4 ? 2 : R * G >= 2 ? 4 : 8;
  VecF part[kParts][R][G] = {};
  std::int64_t k = 0;
  for (; k + kParts <= count; k += kParts, w += kParts * G * kLanes) {
    QR_UNROLL
    for (int u = 0; u < kParts; ++u) {
      VecF weights[G];
      QR_UNROLL
      for (int g = 0; g < G; ++g) weights[g] = load(w + (u * G + g) * kLanes);
      QR_UNROLL
      for (int r = 0; r < R; ++r) {
        const VecF h = splat(state[r][k + u]);
        QR_UNROLL
        for (int g = 0; g < G; ++g) part[u][r][g] = fma(h, weights[g], part[u][r][g]);
      }
    }
  }
  for (; k < count; ++k, w += G * kLanes) {
    QR_UNROLL
    for (int r = 0; r < R; ++r) {
      const VecF h = splat(state[r][k]);
      QR_UNROLL
      for (int g = 0; g < G; ++g) part[0][r][g] = fma(h, load(w + g * kLanes), part[0][r][g]);
    }
  }
  QR_UNROLL
  for (int r = 0; r < R; ++r) {
    QR_UNROLL
    for (int g = 0; g < G; ++g) {
      sums[r][g] = part[0][r][g];
      QR_UNROLL
      for (int u = 1; u < kParts; ++u) sums[r][g] += part[u][r][g];
    }
  }
}

struct Layer {
  RecurrentShape s;
  const float *w;
  RecurrentLayer layer;

  explicit Layer(const Call &call) noexcept
      : s(recurrent_shape(call.as<RecurrentF32>(), kLanes)),
        w(call.operand<const float>(1)),
        layer(call, call.as<RecurrentF32>(), 2, s.padded, reinterpret_cast<float *>(call.shared_scratch())) {
    layer.gates = call.operand<const float>(0);
    layer.gates_step = layer.p.x_step, layer.gates_row = layer.p.x_row, layer.gates_next = layer.p.hidden;
  }

  template <int R, int G>
  void block(std::int64_t step, std::int64_t block, std::int64_t entry, bool second) const noexcept {
    const std::int64_t hidden = layer.p.hidden;
    const float *states[R];
    for (int r = 0; r < R; ++r) {
      states[r] = second ? layer.kept + (entry + r) * s.padded : layer.before(step, entry + r);
    }
    VecF sums[R][G] = {};
    if (!layer.from_nothing(step))
      gemm_block<R, G>(states, w + (second ? s.second : 0) + block * hidden * G * kLanes, hidden, sums);
    for (int r = 0; r < R; ++r) layer.finish<G>(step, block, entry + r, second, states[r], sums[r]);
  }

  template <int G>
  void run_step(const Call &call, std::int64_t step, bool second) const noexcept {
    const RecurrentF32 &p = layer.p;
    const std::int64_t groups = ceil_div<std::int64_t>(p.batch, kEntries);
    const double work =
        static_cast<double>(p.hidden) * G * kLanes * 2 * static_cast<double>(min_of<std::int64_t>(p.batch, kEntries));
    call.threads.run(
        static_cast<std::uint64_t>(s.blocks * groups), static_cast<std::uint64_t>(kWorthSharing / work) + 1,
        [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
          for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
            const std::int64_t at = task / groups, last = min_of(p.batch, (task % groups + 1) * kEntries);
            std::int64_t entry = task % groups * kEntries;
            for (; entry + kEntries <= last; entry += kEntries) block<kEntries, G>(step, at, entry, second);
            for (; entry < last; ++entry) block<1, G>(step, at, entry, second);
          }
        });
  }
};

}  // namespace

void run_RecurrentF32(const Call &call) {
  const Layer layer(call);
  if (!layer.layer.lengths_fit(call)) return;
  layer.layer.begin();
  for (std::int64_t step = 0; step < layer.layer.p.steps; ++step) {
    switch (layer.layer.p.cell) {
      case Cell::Lstm: layer.run_step<4>(call, step, false); break;
      case Cell::GruAfter: layer.run_step<3>(call, step, false); break;
      case Cell::Gru:
        layer.run_step<2>(call, step, false);
        layer.run_step<1>(call, step, true);
        break;
      default: layer.run_step<1>(call, step, false);
    }
  }
  layer.layer.end();
}

}  // namespace quarry::kernels::QR_ISA
