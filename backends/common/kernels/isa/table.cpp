// SPDX-License-Identifier: Apache-2.0
// The table of one instruction set; compiled once for each.
#include "backends/common/kernels/isa/kernels.h"
#if defined(__x86_64__)
#include "backends/common/kernels/x86_features.h"
#endif

namespace quarry::kernels::QR_ISA {

#define QR_TEXT_(x) #x
#define QR_TEXT(x) QR_TEXT_(x)

#if defined(QR_ISA_BASE)
// AMX on AVX-512: what has a source of its own here.
constexpr Run of(Kernel kernel, Run base) noexcept {
  return kernel == Kernel::ConvInt ? run_ConvInt : kernel == Kernel::ConvF32 ? run_ConvF32 : base;
}
#define QR_RUN(enumerator) of(Kernel::enumerator, QR_ISA_BASE::run_##enumerator)
#else
#define QR_RUN(enumerator) run_##enumerator
#endif

extern const Isa table;
const Isa table = {QR_TEXT(QR_ISA),
                   QR_ISA_FEATURES,
                   [](void) noexcept -> bool { return QR_ISA_USABLE; },
                   kLanes,
                   kF32Panel,
                   kIntGroup,
                   kSplitsF32,
                   kBytePairs,
                   {
#define QR_KERNEL(enumerator, number, parameters, operands) QR_RUN(enumerator),
#include "backends/common/kernels/kernels.inc"
#undef QR_KERNEL
                   }};

}  // namespace quarry::kernels::QR_ISA
