// SPDX-License-Identifier: Apache-2.0
// What libQnnIr.so adds to the interface: a backend without a device, which writes a finalized graph to a DLC file.
#pragma once

#include "backends/htp/qnn/abi.h"

namespace quarry::qnn {

// GraphConfig.custom
struct IrGraphConfig {
  uint32_t option;           // 1: how the graph is written
  alignas(8) uint32_t type;  // 1: a DLC file
  const char *path;
};

}  // namespace quarry::qnn
