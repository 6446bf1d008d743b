// SPDX-License-Identifier: Apache-2.0
// Windows has exceptions in place of such signals, and what handles them is not one function.
#include "base/os/signal_handlers.h"

namespace quarry::os {

KeptSignalHandlers::KeptSignalHandlers() noexcept { room_[0] = 0; }
KeptSignalHandlers::~KeptSignalHandlers() = default;

}  // namespace quarry::os
