// SPDX-License-Identifier: Apache-2.0
// Tensors as strides over values (backends/common/view.h), under the names of this backend.
#pragma once

#include "backends/common/view.h"

namespace quarry::cpu {

using namespace strided;

}  // namespace quarry::cpu
