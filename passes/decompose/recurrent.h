// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"

namespace quarry::passes {

// A function of a recurrent cell.
struct CellFunction {
  const char *name;
  int parameters;  // 1: alpha; 2: alpha and beta
  float alpha, beta;
};

// Those of an LSTM, GRU or RNN, of all directions, in order; false: one is not known here. As the reference reads them:
// the entries of activation_alpha and activation_beta belong to the functions that take them.
bool read_cell_functions(const qir::Node &node, std::int64_t directions, Vector<CellFunction> *out);

}  // namespace quarry::passes
