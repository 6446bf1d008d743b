// SPDX-License-Identifier: Apache-2.0
// Every kernel function, declared from the table.
#pragma once

#include "kernels/reference/kernel.h"

namespace quarry::reference {

#define QR_KERNEL(op, function, handling, types, note) Status function(Context &context);
#include "kernels/reference/kernels.inc"
#undef QR_KERNEL

}  // namespace quarry::reference
