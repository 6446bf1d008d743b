// SPDX-License-Identifier: Apache-2.0
// The table of one instruction set; compiled once for each.
#include "backends/common/kernels/isa/kernels.h"

namespace quarry::kernels::QR_ISA {

#define QR_TEXT_(x) #x
#define QR_TEXT(x) QR_TEXT_(x)

extern const Isa table;
const Isa table = {QR_TEXT(QR_ISA),
                   QR_ISA_FEATURES,
                   [](void) noexcept -> bool { return QR_ISA_USABLE; },
                   kLanes,
                   kF32Panel,
                   kIntGroup,
                   kBytePairs,
                   {
#define QR_KERNEL(enumerator, number, parameters, operands) run_##enumerator,
#include "backends/common/kernels/kernels.inc"
#undef QR_KERNEL
                   }};

}  // namespace quarry::kernels::QR_ISA
