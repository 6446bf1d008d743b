// SPDX-License-Identifier: Apache-2.0
// Operations on tensors of more axes than the library has them for, as the same on tensors of fewer: axes that an
// operation treats alike become one, between Reshapes that move nothing. It crashes on some, refuses others, and takes
// some that it then cannot prepare. Called when a graph is compiled (compile.cpp, `give_forms`). Tests:
// tests/unit/htp/fewer_axes.cpp; on the library tests/integration/check_htp_kinds.py, FIVE, SIX and EIGHT.
#pragma once

#include "backends/htp/program/draft.h"
#include "graph/store.h"

namespace quarry::htp {

// `refused` by source, as of Lowering::run: what is left with more axes than any operation has is said there.
void give_fewer_axes(Draft &draft, qir::Store &store, Vector<Status> &refused);

}  // namespace quarry::htp
