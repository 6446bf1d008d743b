// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/check.h"

namespace quarry::kernels {

Status check_BinaryF32(const void *, const Isa &, Needs &) { return {}; }
Status check_UnaryF32(const void *, const Isa &, Needs &) { return {}; }
Status check_SoftmaxF32(const void *, const Isa &, Needs &) { return {}; }
Status check_LayerNormF32(const void *, const Isa &, Needs &) { return {}; }
Status check_ReduceF32(const void *, const Isa &, Needs &) { return {}; }
Status check_Copy(const void *, const Isa &, Needs &) { return {}; }
Status check_Fill(const void *, const Isa &, Needs &) { return {}; }
Status check_Gather(const void *, const Isa &, Needs &) { return {}; }
Status check_Cast(const void *, const Isa &, Needs &) { return {}; }

}  // namespace quarry::kernels
