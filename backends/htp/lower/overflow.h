// SPDX-License-Identifier: Apache-2.0
// enable_htp_fp16_clamp_overflow: what f16 cannot hold becomes its largest number, and not infinity, from which the
// next operations make NaN.
#pragma once

#include "backends/htp/program/draft.h"

namespace quarry::htp {

void clamp_overflow(Draft &draft);

}  // namespace quarry::htp
