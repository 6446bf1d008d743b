// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/alloc.h"

namespace quarry {

// The processor's features that kernels may use, spaces between: "sse4.2 avx2 fma".
String cpu_features();

}  // namespace quarry
