// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/isa/kernels.h"

namespace quarry::kernels::QR_ISA {


}  // namespace quarry::kernels::QR_ISA
