// SPDX-License-Identifier: Apache-2.0
// Values of i8 and i16 as u8 and u16: the same numbers with another zero point, for which the library has every
// operator that it has at all. Weights stay signed.
#pragma once

#include "backends/htp/program/io_binding.h"
#include "graph/store.h"

namespace quarry::htp {

// Their second operand is weights, which keep a type of their own.
inline bool is_product(qir::Op op) noexcept {
  return op == qir::Op::Conv || op == qir::Op::ConvTranspose || op == qir::Op::Gemm || op == qir::Op::MatMul;
}

// `host`: what the host does at the borders of this graph.
void make_unsigned(qir::Graph &graph, qir::Store &store, HostBorders &host);

}  // namespace quarry::htp
