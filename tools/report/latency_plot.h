// SPDX-License-Identifier: Apache-2.0
// How long runs took, drawn: a row for each measurement with the distribution of its times, one axis for all.
#pragma once

#include <string>
#include <vector>

namespace tools {

struct LatencySeries {
  std::string title, about;       // "cpu, 2 threads"; "4096 runs"
  std::vector<double> quantiles;  // in ms, of parts that are even from 0 (the quickest) to 1 (the slowest)
};

std::string threads_text(const std::string &count);  // "2 threads"
// As many quantiles as a file of figures holds: each half percent.
std::vector<double> quantiles_of(const std::vector<double> &sorted);
// What was measured before: the JSON that `quarry bench --json` wrote. Throws UsageError.
LatencySeries read_latencies(const std::string &path);

// The drawing, an SVG document by itself.
std::string latency_svg(const std::string &title, const std::vector<LatencySeries> &series);

}  // namespace tools
