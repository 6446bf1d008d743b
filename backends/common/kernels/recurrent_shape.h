// SPDX-License-Identifier: Apache-2.0
// How the weights of a recurrent cell lie in memory: what its check function, its packing and its kernel agree upon.
//
// Packed: [block of lanes of the state][state k][gate][lane], padded with zeros; a GRU whose reset gate works before
// the product has two such matrices, of two gates and of one.
#pragma once

#include "backends/common/kernels/params.h"

namespace quarry::kernels {

struct RecurrentShape {
  int gates, first_gates;       // of the cell; of the first product of a step
  std::int64_t blocks, padded;  // of the state; its lanes with those that fill the last block
  std::int64_t second;          // elements before the second matrix
  std::int64_t weights;         // elements in all
  std::int64_t shared;          // floats: cells, states before the first step, update gates, what was reset
};
[[maybe_unused]] static inline RecurrentShape recurrent_shape(const RecurrentF32 &p, std::int64_t lanes) noexcept {
  RecurrentShape s{};
  s.gates = p.cell == Cell::Lstm ? 4 : p.cell == Cell::Rnn ? 1 : 3;
  s.first_gates = p.cell == Cell::Gru ? 2 : s.gates;
  s.blocks = (p.hidden + lanes - 1) / lanes;
  s.padded = s.blocks * lanes;
  s.second = s.padded * p.hidden * s.first_gates;
  s.weights = s.padded * p.hidden * s.gates;
  s.shared = 4 * p.batch * s.padded;
  return s;
}

}  // namespace quarry::kernels
