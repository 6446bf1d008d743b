// SPDX-License-Identifier: Apache-2.0
// The processor of this machine, as the devices of CPU backends report it.
#pragma once

#include <cstddef>

namespace quarry::plugin {

// What the processor calls itself ("model name" of /proc/cpuinfo), or the machine that uname reports; it ends in NUL.
void processor_name(char *name, std::size_t room) noexcept;

}  // namespace quarry::plugin
