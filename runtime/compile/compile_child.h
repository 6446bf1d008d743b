// SPDX-License-Identifier: Apache-2.0
// Compiling and checking in a process of its own, the program quarry-compiler: a backend's library that crashes or that
// nothing stops takes nobody with it. The option compile.process.
#pragma once

#include "base/target_writer.h"
#include "runtime/compile/compile.h"

namespace quarry {

// Whether the options ask for it.
bool wants_child(const OptionSet *options) noexcept;

// As compile_to and check_report: what the child makes it sends here, and this process writes it. What the child
// measures stays there: of its events there is one.
Status compile_in_child(const Model &model, const OptionSet &options, TargetWriter &out, const CallWatch &watch);
Result<String> check_in_child(const Model &model, const OptionSet &options, const CallWatch &watch);

}  // namespace quarry
