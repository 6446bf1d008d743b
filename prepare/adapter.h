// SPDX-License-Identifier: Apache-2.0
// An adapter's file to the inputs of a graph that it fills (low_rank.h): names, shapes and ranks checked, scaled,
// converted, padded with zeros.
#pragma once

#include "base/status.h"
#include "prepare/prepare_api.h"

namespace quarry::prepare {

// How many weights it changes.
Result<std::uint64_t> read_adapter(const qr_prepare_adapter &from);

}  // namespace quarry::prepare
