// SPDX-License-Identifier: Apache-2.0
// Whether a quantised model is near enough to be used, and what to try where it is not.
#pragma once

#include "quantize/report/report.h"
#include "quantize/settings/settings.h"

namespace quarry::quantize {

// Of a report whose outputs, tensors and layers are there. `missed`: the outputs are not as near as the option target
// says, for they are of samples that it was not sought with. `wanted`: its decibels, 0 where it is of another measure.
Verdict verdict_of(const Report &report, const Settings &settings, bool missed, double wanted);

}  // namespace quarry::quantize
