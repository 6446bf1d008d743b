// SPDX-License-Identifier: Apache-2.0
// Which range of real numbers a tensor's integers should stand for, from the tally of its values.
#pragma once

#include "quantize/ranges/noise.h"
#include "quantize/ranges/observer.h"

namespace quarry::quantize {

// By the methods that look at the tally alone (all but the moving average). Zeros have no say in percentile and
// entropy: they are stored exactly whatever the range is, and most of a Relu's results are zeros.
Range percentile_range(const Tally &tally, double percentile, bool symmetric);
// Least divergence (Kullback and Leibler) of the stored values' distribution from that of the real ones.
Range entropy_range(const Tally &tally, const Grid &grid);
// Least sum of squared errors, which is the best signal to noise.
Range least_squares_range(const Tally &tally, const Grid &grid);

// Fewer, equal intervals for a plot.
Histogram plotted(const Tally &tally);

}  // namespace quarry::quantize
