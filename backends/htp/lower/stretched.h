// SPDX-License-Identifier: Apache-2.0
// Sums and products of which an operand is the same matrix for each batch: the library takes, where some operations
// follow (LayerNorm, Sigmoid and others, also behind more operations on elements), the first batch's matrix and then
// what lies behind it. A clip behind the sum keeps them apart. And products of integers that are a row and a column,
// each by a Reshape: wrong for one size of both, so something stands between. And sums with a constant that are
// multiplied by a number, which become differences.
#pragma once

#include "backends/htp/program/draft.h"
#include "backends/htp/soc/soc.h"
#include "graph/store.h"

namespace quarry::htp {

void keep_stretched_apart(Draft &draft, const Soc &soc, qir::Store &store);

}  // namespace quarry::htp
