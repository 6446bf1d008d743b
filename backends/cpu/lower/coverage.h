// SPDX-License-Identifier: Apache-2.0
// What `quarry ops` and docs/operators.md say of an operator on cpu, from the rules and what each takes.
#pragma once

#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

// How the operator runs where that is no kernel of cpu's ("decomposed", "by the reference"), then what of it the rules
// leave to cpu-reference, then the limits of its kernel there. Called by the slot `supports`.
String note_of(qir::Op op);

}  // namespace quarry::cpu
