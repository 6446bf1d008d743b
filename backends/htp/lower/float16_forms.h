// SPDX-License-Identifier: Apache-2.0
// v68 computes with f32 and with f16, but the library cannot prepare every operation of f32: validation takes them, and
// finalisation ends with 1002, or gives wrong numbers. So a graph of floats runs in f16 between casts, as later
// architectures do by themselves; where the user asks for f32, only those operations do.
#pragma once

#include "backends/htp/program/draft.h"
#include "backends/htp/soc/soc.h"
#include "graph/store.h"

namespace quarry::htp {

void give_float16_forms(Draft &draft, const Soc &soc, bool half_precision, qir::Store &store);

// htp_bf16_enable, on v81: operations that the library has for bf16 run in it, between casts; the rest as ever in f16.
void give_brain_forms(Draft &draft, qir::Store &store);

}  // namespace quarry::htp
