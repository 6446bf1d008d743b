// SPDX-License-Identifier: Apache-2.0
// The library divides by a reciprocal of f16, which a divisor past 16384 has none of: the quotient is 0.
#pragma once

#include "backends/htp/program/draft.h"
#include "graph/store.h"

namespace quarry::htp {

// Floats are divided by what is at most 16384: of larger ones an eighth, and so of the quotient. Divisors that are
// known to be smaller stay.
void scale_divisions(Draft &draft, qir::Store &store);

}  // namespace quarry::htp
