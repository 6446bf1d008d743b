// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/check.h"

namespace quarry::kernels {

Status check_ConvInt(const void *, const Isa &, Needs &) { return {}; }
Status check_BinaryInt(const void *, const Isa &, Needs &) { return {}; }
Status check_Lookup8(const void *, const Isa &, Needs &) { return {}; }
Status check_PoolInt(const void *, const Isa &, Needs &) { return {}; }
Status check_MeanInt(const void *, const Isa &, Needs &) { return {}; }
Status check_Quantize(const void *, const Isa &, Needs &) { return {}; }
Status check_Dequantize(const void *, const Isa &, Needs &) { return {}; }
Status check_Requantize(const void *, const Isa &, Needs &) { return {}; }

}  // namespace quarry::kernels
