// SPDX-License-Identifier: Apache-2.0
// How the weights of a recurrent cell lie in memory: what its check function, its packing and its kernel agree upon.
//
// Packed: [block of lanes of the state][state k][gate][lane], padded with zeros; a GRU whose reset gate works before
// the product has two such matrices, of two gates and of one.
#pragma once

#include "kernels/cpu/params.h"

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

// Bytes: [block of lanes][four of the depth][gate][lane][4]. Behind those of w and r, for each of them and each column
// ([gate][lane]): what to add for the zero points of the other side's bytes (i32), a factor and a zero point (f32);
// then the biases.
struct RecurrentBytesShape {
  struct Matrix {
    std::int64_t depth, steps, row_bytes;  // row_bytes: of a row of the other side, of its high or its low bytes
    std::int64_t bytes;
  };
  Matrix w, r;
  std::int64_t blocks, padded, columns;
  std::int64_t weights;  // bytes in all
  // Shared scratch: the products of x, x taken apart, factors of its rows, then as above. And each worker's.
  std::int64_t gates_bytes, rows_bytes, factors_bytes, shared_bytes, worker_bytes;
};
[[maybe_unused]] static inline RecurrentBytesShape recurrent_bytes_shape(const RecurrentBytes &p,
                                                                         std::int64_t lanes) noexcept {
  const RecurrentShape layer = recurrent_shape(p.layer, lanes);
  RecurrentBytesShape s{};
  s.blocks = layer.blocks, s.padded = layer.padded, s.columns = layer.gates * layer.padded;
  const auto matrix = [&](std::int64_t depth) {
    const std::int64_t steps = (depth + 3) / 4;
    return RecurrentBytesShape::Matrix{depth, steps, (depth + lanes - 1) / lanes * lanes, s.columns * steps * 4};
  };
  const auto lines = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
  s.w = matrix(p.input), s.r = matrix(p.layer.hidden);
  s.weights = s.w.bytes + s.r.bytes + 7 * s.columns * 4;
  const std::int64_t rows = p.layer.steps * p.layer.batch;
  s.gates_bytes = lines(rows * s.columns * 4);
  s.rows_bytes = lines(rows * 2 * s.w.row_bytes), s.factors_bytes = lines(rows * 8);
  s.shared_bytes = s.gates_bytes + s.rows_bytes + s.factors_bytes + lines(layer.shared * 4);
  s.worker_bytes = lines(2 * 2 * s.r.row_bytes);
  return s;
}

}  // namespace quarry::kernels
