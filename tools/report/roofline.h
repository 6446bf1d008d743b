// SPDX-License-Identifier: Apache-2.0
// How near each node of a profile comes to what the processor can do: operations and bytes a second beside the peaks.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "tools/report/processor_peaks.h"
#include "tools/report/profile_table.h"

namespace tools {

// Multiplications and additions of a node that is a product of some kind (convolution, matrix multiplication,
// attention, recurrence), from its operator and the shapes that its event has: "1x3x8x8 f32, 4x3x3x3 f32 -> 1x4x8x8
// f32". 0: it is none, or its shapes do not say.
double product_operations(const std::string &op, const std::string &kernel, const std::string &shapes);

struct RooflineRow {
  const NodeRow *node = nullptr;
  double gop = 0, gop_per_s = 0, of_peak = 0;  // 0: no product
  std::string peak;                            // which: "f32", "int8", "int16"
  double gb = 0, gb_per_s = 0, of_reading = 0;
};

// The longest node first, as in the table.
std::vector<RooflineRow> roofline_rows(const RunTable &table, const ProcessorPeaks &peaks);
std::string peaks_text(const ProcessorPeaks &peaks);
std::string roofline_text(const RunTable &table, const ProcessorPeaks &peaks, size_t top);
nlohmann::json roofline_json(const RunTable &table, const ProcessorPeaks &peaks);

}  // namespace tools
