// SPDX-License-Identifier: Apache-2.0
// The range of a few numbers that are all there: weights of a channel.
#pragma once

#include <span>

#include "quantize/ranges/grid.h"

namespace quarry::quantize {

// The range of one channel's (or a whole tensor's) weights with the least sum of squared errors: the outermost weights
// may be clipped.
Range clipped_range(std::span<const float> values, const Grid &grid);

}  // namespace quarry::quantize
