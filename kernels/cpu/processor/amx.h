// SPDX-License-Identifier: Apache-2.0
// AMX, the tiles of some x86-64 processors: whether this process may use them. Linux saves their 8 KiB over a change of
// task only for processes that have asked for it.
#pragma once

namespace quarry::kernels {

enum class Amx {
  None,     // the processor has not all of TILE, INT8 and BF16, or the system knows nothing of them
  Refused,  // the system keeps tiles from this process
  Usable,
};
// Asks the system, once per process: whatever it answers stays so. Threads may call it together.
Amx amx_state() noexcept;
// What a user should know of it, or nullptr: why less is taken than the processor has.
const char *amx_note() noexcept;
inline bool has_amx() noexcept { return amx_state() == Amx::Usable; }

// What amx_state() looks at (amx_system.cpp; a test has others).
bool amx_processor() noexcept;   // CPUID, and what the system has switched on
bool amx_permission() noexcept;  // asks for it

}  // namespace quarry::kernels
