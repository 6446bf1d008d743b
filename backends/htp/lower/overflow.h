// SPDX-License-Identifier: Apache-2.0
// Values past what the library's arithmetic of floats has.
#pragma once

#include "backends/htp/program/draft.h"

namespace quarry::htp {

// enable_htp_fp16_clamp_overflow: what f16 cannot hold becomes its largest number, and not infinity, from which the
// next operations make NaN.
void clamp_overflow(Draft &draft);

// Functions of floats get no number whose result the library has wrong.
void bound_operands(Draft &draft);

}  // namespace quarry::htp
