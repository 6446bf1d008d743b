// SPDX-License-Identifier: Apache-2.0
// What this x86-64 processor has of what kernels are built for, and the system saves over a change of task.
#pragma once

namespace quarry::kernels {

struct X86Features {
  bool v3 = false;      // x86-64-v3: AVX2, BMI1 and 2, F16C, FMA, LZCNT, MOVBE
  bool avx512 = false;  // x86-64-v4 (AVX-512 F, BW, CD, DQ, VL) and VNNI
  bool vbmi = false;    // besides that AVX-512 VBMI
  bool amx = false;     // besides that AVX-512 BF16, and AMX TILE, INT8, BF16
};
// Looked up once. Not __builtin_cpu_supports: that asks for everything when the plugin is loaded, and in a virtual
// machine each CPUID goes to the host (17 us where it was measured, of which making a session took ten).
const X86Features &x86_features() noexcept;

}  // namespace quarry::kernels
