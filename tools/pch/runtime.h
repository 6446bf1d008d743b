// SPDX-License-Identifier: Apache-2.0
// The headers of the core that most of its files read, precompiled.
#include "base/json_writer.h"
#include "runtime/capi/edge.h"
#include "runtime/compile/loaded_model.h"
#include "runtime/core/runtime.h"
#include "runtime/session/session.h"
#include "runtime/session/state.h"
#include "tools/pch/standard.h"
