// SPDX-License-Identifier: Apache-2.0
// Memory of the scripted backend: its own (a memfd), descriptors that it maps, and pointers of the caller's.
#pragma once

#include "backends/common/plugin_support.h"

namespace quarry::scripted {

extern const qr_plugin_memory_api kMemory;

// Where an input or output lies: registered memory is read through its registration, to prove that the host passed the
// right one.
char *place_of(const qr_io_buffer &buffer) noexcept;

}  // namespace quarry::scripted
