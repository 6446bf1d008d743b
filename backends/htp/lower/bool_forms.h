// SPDX-License-Identifier: Apache-2.0
// Operations that the library has for no bools, which only move them: as u8 of steps of 1 between casts.
#pragma once

#include "backends/htp/program/draft.h"
#include "graph/store.h"

namespace quarry::htp {

void give_bool_forms(Draft &draft, qir::Store &store);

}  // namespace quarry::htp
