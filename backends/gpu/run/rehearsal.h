// SPDX-License-Identifier: Apache-2.0
// One run of zeros before a program's binary is taken: drivers for processors (PoCL) finish a kernel when it is
// launched for the first time, and what they make then stands in the binary too. Otherwise each process would wait for
// it.
#pragma once

#include "backends/gpu/run/context.h"
#include "quarry/backend.h"

namespace quarry::gpu {

Status rehearse(const LoadedContext &context, const qr_host &host);

}  // namespace quarry::gpu
