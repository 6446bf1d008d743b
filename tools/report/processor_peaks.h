// SPDX-License-Identifier: Apache-2.0
// What the processor can do at most, measured: multiplications and additions in vectors, and reading memory.
#pragma once

#include <string>
#include <string_view>

namespace tools {

// Billions of operations a second; a multiplication and the addition behind it are two. 0: nothing here measures it.
struct ProcessorPeaks {
  unsigned threads = 1;
  std::string f32_by, int8_by, int16_by;  // instructions: "vfmadd231ps zmm"
  double f32 = 0, int8 = 0, int16 = 0;
  double read_gb_per_s = 0;  // of memory that no cache holds
};

// Takes about half a second, and 256 MB. features: qr_runtime_cpu_features().
ProcessorPeaks measure_peaks(unsigned threads, std::string_view features);

}  // namespace tools
