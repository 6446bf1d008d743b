// SPDX-License-Identifier: Apache-2.0
// The processor and memory of this machine, as the devices of CPU backends report them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarry::plugin {

// What the processor calls itself ("model name" of /proc/cpuinfo), or the machine that uname reports; it ends in NUL.
void processor_name(char *name, std::size_t room) noexcept;
// Physical memory in bytes; 0 where the system does not say.
std::uint64_t memory_bytes() noexcept;

}  // namespace quarry::plugin
