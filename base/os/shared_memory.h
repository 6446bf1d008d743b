// SPDX-License-Identifier: Apache-2.0
// Memory that processes share.
#pragma once

#include <cstdint>

#include "base/open_fd.h"

namespace quarry::os {

// `size` bytes of zeros, to be mapped (mapping.h) by whoever gets the descriptor. `name` is what the system's own lists
// show. None: errno says why.
OpenFd make_shared_memory(const char *name, std::uint64_t size) noexcept;

// The bytes of what a descriptor is for: a file, shared memory, a dma-buf. Its position stays. False: it has no size,
// errno says why.
bool get_size(int fd, std::uint64_t *out) noexcept;

// The processor's accesses to a dma-buf stand between a begin and an end, so that it and a device see what the other
// wrote. False where the descriptor is of something else, or the driver refuses: errno says why.
enum class DmaEdge : std::uint8_t { Begin, End };
bool sync_dma(int fd, DmaEdge edge, bool reads, bool writes) noexcept;

}  // namespace quarry::os
