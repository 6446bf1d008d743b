// SPDX-License-Identifier: Apache-2.0
// What recurrent kernels share, whatever their weights are: where the states of a step lie, and the cells' functions
// of a step's sums.
#pragma once

#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

struct RecurrentLayer {
  const RecurrentF32 &p;
  std::int64_t padded;  // lanes of a row of scratch
  // Products with the inputs: elements between steps, entries of the batch, gates.
  const float *gates;
  std::int64_t gates_step, gates_row, gates_next;
  const float *bias, *h, *c, *peepholes;
  const std::int32_t *lengths;
  float *y, *last_h, *last_c;
  float *cells, *zeros, *update, *kept;  // shared scratch, rows of `padded`
  VecF clip;

  // Operands from `next` on: those behind the weights.
  RecurrentLayer(const Call &call, const RecurrentF32 &params, std::size_t next, std::int64_t lanes_of_row,
                 float *shared) noexcept
      : p(params), padded(lanes_of_row), gates(nullptr), gates_step(0), gates_row(0), gates_next(0) {
    const auto operand = [&](bool there) { return there ? call.operand<float>(next++) : nullptr; };
    bias = operand(p.has_bias), h = operand(p.has_h), c = operand(p.has_c), peepholes = operand(p.has_peepholes);
    lengths = p.has_lengths ? call.operand<const std::int32_t>(next++) : nullptr;
    y = operand(true), last_h = operand(true), last_c = operand(p.cell == Cell::Lstm);
    const std::int64_t part = p.batch * padded;
    cells = shared, zeros = cells + part, update = zeros + part, kept = update + part;
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
    return h ? h + entry * p.state_row : zeros + entry * padded;
  }
  // Whether the states before a step are zeros, whose products need not be made.
  bool from_nothing(std::int64_t step) const noexcept { return step == 0 && !h; }

  // `count` lanes of a row that ends somewhere.
  static VecF take(const float *from, int count) noexcept {
    return count == kLanes ? load(from) : load_part(from, count);
  }
  static void put(float *to, VecF v, int count) noexcept {
    if (count == kLanes) store(to, v);
    else store_part(to, v, count);
  }
  VecF bounded(VecF v) const noexcept { return clamp(v, -clip, clip); }
  // (Not inline: a cell has up to five, each of which would be code for all kinds.)
  __attribute__((noinline)) static VecF activated(const Activation &act, VecF x) noexcept { return activate(act, x); }

  // What becomes of the sums of G gates of a block of lanes, of an entry; `state` is what the sums were made of.
  template <int G>
  __attribute__((always_inline)) void finish(std::int64_t step, std::int64_t block, std::int64_t row, bool second,
                                             const float *state, const VecF (&sums)[G]) const noexcept {
    const std::int64_t at = block * kLanes, room = row * padded + at;
    const int count = static_cast<int>(min_of<std::int64_t>(kLanes, p.hidden - at));
    const float *const x = gates + time(step, row) * gates_step + row * gates_row + at;
    float *const out = y + time(step, row) * p.y_step + row * p.y_row + at;
    if (step >= length(row)) {
      if (G != 2) put(out, VecF{}, count);
      return;
    }
    const auto gate = [&](int g) __attribute__((always_inline)) { return take(x + g * gates_next, count); };
    const VecF one = splat(1.0f);
    if constexpr (G == 4) {
      const VecF old = load(cells + room);
      const auto peephole = [&](int which, VecF cell) __attribute__((always_inline)) {
        return peepholes ? take(peepholes + which * p.hidden + at, count) * cell : VecF{};
      };
      const VecF in = activated(p.f, bounded(gate(0) + sums[0] + peephole(0, old)));
      const VecF forget = p.coupled ? one - in : activated(p.f, bounded(gate(2) + sums[2] + peephole(2, old)));
      const VecF cell = fma(forget, old, in * activated(p.g, bounded(gate(3) + sums[3])));
      store(cells + room, cell);
      const VecF open = activated(p.f, bounded(gate(1) + sums[1] + peephole(1, cell)));
      put(out, open * activated(p.h, cell), count);
    } else if constexpr (G == 3) {
      const VecF z = activated(p.f, bounded(gate(0) + sums[0])), reset = activated(p.f, bounded(gate(1) + sums[1]));
      const VecF product = bias ? sums[2] + take(bias + at, count) : sums[2];
      const VecF fresh = activated(p.g, bounded(fma(product, reset, gate(2))));
      put(out, fma(z, take(state + at, count), (one - z) * fresh), count);
    } else if constexpr (G == 2) {
      store(update + room, activated(p.f, bounded(gate(0) + sums[0])));
      store(kept + room, activated(p.f, bounded(gate(1) + sums[1])) * take(state + at, count));
    } else {
      const VecF fresh = activated(second ? p.g : p.f, bounded((second ? gate(2) : gate(0)) + sums[0]));
      if (second) {
        const VecF z = load(update + room);
        put(out, fma(z, take(before(step, row) + at, count), (one - z) * fresh), count);
      } else {
        put(out, fresh, count);
      }
    }
  }

  // False where a length is none.
  bool lengths_fit(const Call &call) const noexcept {
    for (std::int64_t entry = 0; lengths && entry < p.batch; ++entry) {
      if (lengths[entry] >= 0 && lengths[entry] <= p.steps) continue;
      call.bad_index[0] = lengths[entry], call.bad_index[1] = entry;
      return false;
    }
    return true;
  }
  void begin() const noexcept {
    for (std::int64_t entry = 0; entry < p.batch; ++entry) {
      float *const row = cells + entry * padded;
      std::memset(row, 0, bytes_of<float>(padded));
      if (c) std::memcpy(row, c + entry * p.state_row, bytes_of<float>(p.hidden));
    }
    if (!h) std::memset(zeros, 0, bytes_of<float>(p.batch * padded));
  }
  void end() const noexcept {
    for (std::int64_t entry = 0; entry < p.batch; ++entry) {
      const std::size_t bytes = bytes_of<float>(p.hidden);
      std::memcpy(last_h + entry * p.state_row, before(length(entry), entry), bytes);
      if (last_c) std::memcpy(last_c + entry * p.state_row, cells + entry * padded, bytes);
    }
  }
};

}  // namespace quarry::kernels::QR_ISA
