// SPDX-License-Identifier: Apache-2.0
// What `quarry ops` says of the types that a backend takes. A backend has one row for each operator, whose types its
// lowering checks and this prints.
#pragma once

#include "graph/graph.h"

namespace quarry::plugin {

// The types of the operator's first operand that are among `taken` (a bit for each DType number): "floats i32 bool".
String types_text(qir::Op op, std::uint32_t taken);

}  // namespace quarry::plugin
