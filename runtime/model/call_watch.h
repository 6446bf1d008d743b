// SPDX-License-Identifier: Apache-2.0
// How the work of one call is watched: its signal, its progress, its profile.
#pragma once

#include "runtime/core/signal.h"
#include "runtime/model/model.h"
#include "runtime/profile/profile.h"

namespace quarry {

// How a long call is stopped, followed and measured: qr_call_options. Made where the call begins: its waiting counts.
struct CallWatch {
  CallSignal signal{nullptr};
  Progress progress;
  Profile *profile = nullptr;
};

}  // namespace quarry
