// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/check.h"

namespace quarry::kernels {

Status check_ConvF32(const void *, const Isa &, Needs &) { return {}; }
Status check_DepthwiseF32(const void *, const Isa &, Needs &) { return {}; }
Status check_MatMulF32(const void *, const Isa &, Needs &) { return {}; }
Status check_AttentionF32(const void *, const Isa &, Needs &) { return {}; }

}  // namespace quarry::kernels
