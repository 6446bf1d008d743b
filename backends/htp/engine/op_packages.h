// SPDX-License-Identifier: Apache-2.0
// Packages of operators that are not the library's own (op_packages): registered with the backend object that compiles
// or loads, found by the operator's name in the model.
#pragma once

#include "base/status.h"

namespace quarry::htp {

struct OpPackage {
  String op, path, symbol, target;  // target: "CPU" or "HTP" of a library for it; empty: unknown
};

// "OP:PATH:SYMBOL[:TARGET]" with commas between.
Result<Vector<OpPackage>> read_op_packages(std::string_view text);

}  // namespace quarry::htp
