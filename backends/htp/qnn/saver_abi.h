// SPDX-License-Identifier: Apache-2.0
// What libQnnSaver.so adds to the interface: where its record of calls goes.
#pragma once

#include "backends/htp/qnn/abi.h"

namespace quarry::qnn {

struct SaverConfig {  // of QnnSaver_initialize, before the first call
  uint32_t option;    // 0 folder, 1 with the time, 2 for which backend, 3 names of the two files
  union {
    const char *folder;
    uint8_t flag;
    uint32_t backend_id;
    struct {
      const char *calls, *data;
    } files;
  };
};

}  // namespace quarry::qnn
