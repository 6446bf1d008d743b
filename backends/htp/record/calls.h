// SPDX-License-Identifier: Apache-2.0
// The rows of calls.inc as what a replay does with a call of each.
#pragma once

#include "backends/htp/record/replay.h"

namespace quarry::record {

struct Function {
  std::uint32_t number;
  const char *name;
  void (*make)(Replay &replay, const Replay::Made &made);
};
const Function *find_function(std::uint32_t number) noexcept;  // nullptr: there is none

}  // namespace quarry::record
