// SPDX-License-Identifier: Apache-2.0
// Weights of u4, which the library has no type for: the same numbers as s4 (a zero point of 8), or as s8.
#pragma once

#include "graph/store.h"

namespace quarry::htp {

void make_small_weights_signed(qir::Graph &graph, qir::Store &store);

}  // namespace quarry::htp
