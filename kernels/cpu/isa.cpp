// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/isa.h"

#if !defined(QR_KERNEL_ISAS)  // tests name theirs
#include "kernels/cpu/built_isas.h"
#endif

#if defined(__aarch64__)
#include "base/os/processor.h"
#endif

namespace quarry::kernels {

// QR_KERNEL_ISAS(X, a): X(namespace, names, a) for each instruction set that is built in, best first; from meson.build.
#define QR_DECLARE(isa, names, a) \
  namespace isa {                 \
  extern const Isa table;         \
  }
QR_KERNEL_ISAS(QR_DECLARE, )
#undef QR_DECLARE

namespace {
#define QR_ENTRY(isa, names, a) &isa::table,
constexpr const Isa *kIsas[] = {QR_KERNEL_ISAS(QR_ENTRY, )};
#undef QR_ENTRY
}  // namespace

std::span<const Isa *const> isas() noexcept { return kIsas; }

const Isa &best_isa() noexcept {
  for (const Isa *isa : kIsas)
    if (isa->usable()) return *isa;
  return **(std::end(kIsas) - 1);
}

const Isa *find_isa(std::string_view name) noexcept {
  for (const Isa *isa : kIsas)
    if (name == isa->name) return isa;
  return nullptr;
}

#if defined(__aarch64__)
// All that -march=armv8.2-a+dotprod+fp16 lets the compiler use, not dot products alone: atomics and rounding products
// come with 8.1.
bool has_dotprod() noexcept {
  constexpr std::uint64_t kNeeded = os::kArmDotProducts | os::kArmNeonHalf | os::kArmHalf | os::kArmAtomics |
                                    os::kArmRoundingProducts | os::kArmCrc32;
  return (os::processor_features().first & kNeeded) == kNeeded;
}
#endif

const KernelRow *kernel_row(std::uint64_t number) noexcept {
  static constexpr KernelRow kRows[] = {
#define QR_KERNEL(enumerator, number_, parameters, operands_, own) \
  {#enumerator, operands_, sizeof(parameters), check_##enumerator},
#include "kernels/cpu/kernels.inc"
#undef QR_KERNEL
  };
  return number < kKernelCount ? &kRows[number] : nullptr;
}

// The rows stand in the order of their numbers.
#define QR_KERNEL(enumerator, number_, parameters, operands_, own) \
  static_assert(sizeof(parameters) % 4 == 0 && static_cast<int>(Kernel::enumerator) == number_);
#include "kernels/cpu/kernels.inc"
#undef QR_KERNEL

}  // namespace quarry::kernels
