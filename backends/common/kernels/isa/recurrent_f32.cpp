// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN, step by step. A task is a block of the state's lanes and some entries of the batch: the products
// of all gates with the state before, and the cell's functions of them, so that a step is one loop (two where a gate
// works on the state before the product).
#include "backends/common/kernels/isa/activate.h"
#include "backends/common/kernels/isa/kernels.h"
#include "backends/common/kernels/recurrent_shape.h"

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
QR_INLINE void products(const float *const *state, const float *w, std::int64_t count, VecF (&sums)[R][G]) noexcept {
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
  const RecurrentF32 &p;
  RecurrentShape s;
  const float *gates, *w, *bias, *h, *c, *peepholes;
  const std::int32_t *lengths;
  float *y, *last_h, *last_c;
  float *cells, *zeros, *update, *kept;  // shared scratch, rows of s.padded
  VecF clip;

  explicit Layer(const Call &call) noexcept : p(call.as<RecurrentF32>()), s(recurrent_shape(p, kLanes)) {
    std::size_t next = 0;
    const auto operand = [&](bool there) { return there ? call.operand<float>(next++) : nullptr; };
    gates = operand(true), w = operand(true), bias = operand(p.has_bias), h = operand(p.has_h), c = operand(p.has_c);
    peepholes = operand(p.has_peepholes);
    lengths = p.has_lengths ? call.operand<const std::int32_t>(next++) : nullptr;
    y = operand(true), last_h = operand(true), last_c = operand(p.cell == Cell::Lstm);
    const std::int64_t part = p.batch * s.padded;
    cells = reinterpret_cast<float *>(call.shared_scratch());
    zeros = cells + part, update = zeros + part, kept = update + part;
    clip = splat(p.clip > 0 ? p.clip : __builtin_inff());
  }

  std::int64_t length(std::int64_t entry) const noexcept { return lengths ? lengths[entry] : p.steps; }
  // Where a step of an entry stands in its sequence; what is behind its end comes last in both directions.
  std::int64_t time(std::int64_t step, std::int64_t entry) const noexcept {
    const std::int64_t of = length(entry);
    return p.backwards && step < of ? of - 1 - step : step;
  }
  // The state before a step, of an entry.
  const float *before(std::int64_t step, std::int64_t entry) const noexcept {
    if (step > 0) return y + time(step - 1, entry) * p.y_step + entry * p.y_row;
    return h ? h + entry * p.state_row : zeros + entry * s.padded;
  }
  // `count` lanes of a row that ends somewhere.
  static VecF take(const float *from, int count) noexcept {
    return count == kLanes ? load(from) : load_part(from, count);
  }
  static void put(float *to, VecF v, int count) noexcept {
    if (count == kLanes) store(to, v);
    else store_part(to, v, count);
  }
  VecF bounded(VecF v) const noexcept { return clamp(v, -clip, clip); }

  template <int R, int G>
  void block(std::int64_t step, std::int64_t block, std::int64_t entry, bool second) const noexcept {
    const std::int64_t at = block * kLanes;
    const int count = static_cast<int>(min_of<std::int64_t>(kLanes, p.hidden - at));
    const float *states[R];
    for (int r = 0; r < R; ++r) states[r] = second ? kept + (entry + r) * s.padded : before(step, entry + r);
    VecF sums[R][G];
    products<R, G>(states, w + (second ? s.second : 0) + block * p.hidden * G * kLanes, p.hidden, sums);
    for (int r = 0; r < R; ++r) {
      const std::int64_t row = entry + r, room = row * s.padded + at;
      const float *const x = gates + time(step, row) * p.x_step + row * p.x_row + at;
      float *const out = y + time(step, row) * p.y_step + row * p.y_row + at;
      if (step >= length(row)) {
        if (G != 2) put(out, VecF{}, count);
        continue;
      }
      const auto gate = [&](int g) __attribute__((always_inline)) { return take(x + g * p.hidden, count); };
      const VecF one = splat(1.0f);
      if constexpr (G == 4) {
        const VecF old = load(cells + room);
        const auto peephole = [&](int which, VecF cell) __attribute__((always_inline)) {
          return peepholes ? take(peepholes + which * p.hidden + at, count) * cell : VecF{};
        };
        const VecF in = activate(p.f, bounded(gate(0) + sums[r][0] + peephole(0, old)));
        const VecF forget = p.coupled ? one - in : activate(p.f, bounded(gate(2) + sums[r][2] + peephole(2, old)));
        const VecF cell = fma(forget, old, in * activate(p.g, bounded(gate(3) + sums[r][3])));
        store(cells + room, cell);
        const VecF open = activate(p.f, bounded(gate(1) + sums[r][1] + peephole(1, cell)));
        put(out, open * activate(p.h, cell), count);
      } else if constexpr (G == 3) {
        const VecF z = activate(p.f, bounded(gate(0) + sums[r][0])),
                   reset = activate(p.f, bounded(gate(1) + sums[r][1]));
        const VecF product = bias ? sums[r][2] + take(bias + at, count) : sums[r][2];
        const VecF fresh = activate(p.g, bounded(fma(product, reset, gate(2))));
        put(out, fma(z, take(states[r] + at, count), (one - z) * fresh), count);
      } else if constexpr (G == 2) {
        store(update + room, activate(p.f, bounded(gate(0) + sums[r][0])));
        store(kept + room, activate(p.f, bounded(gate(1) + sums[r][1])) * take(states[r] + at, count));
      } else {
        const VecF fresh = activate(second ? p.g : p.f, bounded((second ? gate(2) : gate(0)) + sums[r][0]));
        if (second) {
          const VecF z = load(update + room);
          put(out, fma(z, take(before(step, row) + at, count), (one - z) * fresh), count);
        } else {
          put(out, fresh, count);
        }
      }
    }
  }

  template <int G>
  void run_step(const Call &call, std::int64_t step, bool second) const noexcept {
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

  void run(const Call &call) const noexcept {
    for (std::int64_t entry = 0; entry < p.batch; ++entry) {
      float *const row = cells + entry * s.padded;
      std::memset(row, 0, static_cast<std::size_t>(s.padded) * 4);
      if (c) std::memcpy(row, c + entry * p.state_row, static_cast<std::size_t>(p.hidden) * 4);
    }
    if (!h) std::memset(zeros, 0, static_cast<std::size_t>(p.batch * s.padded) * 4);
    for (std::int64_t step = 0; step < p.steps; ++step) {
      switch (p.cell) {
        case Cell::Lstm: run_step<4>(call, step, false); break;
        case Cell::GruAfter: run_step<3>(call, step, false); break;
        case Cell::Gru:
          run_step<2>(call, step, false);
          run_step<1>(call, step, true);
          break;
        default: run_step<1>(call, step, false);
      }
    }
    for (std::int64_t entry = 0; entry < p.batch; ++entry) {
      const std::size_t bytes = static_cast<std::size_t>(p.hidden) * 4;
      std::memcpy(last_h + entry * p.state_row, before(length(entry), entry), bytes);
      if (last_c) std::memcpy(last_c + entry * p.state_row, cells + entry * s.padded, bytes);
    }
  }
};

}  // namespace

void run_RecurrentF32(const Call &call) {
  const Layer layer(call);
  for (std::int64_t entry = 0; layer.lengths && entry < layer.p.batch; ++entry) {
    const std::int32_t length = layer.lengths[entry];
    if (length >= 0 && length <= layer.p.steps) continue;
    call.bad_index[0] = length, call.bad_index[1] = entry;
    return;
  }
  layer.run(call);
}

}  // namespace quarry::kernels::QR_ISA
