// SPDX-License-Identifier: Apache-2.0
// Functions of one element as the nodes of their expression (graph/ops/functions.inc).
#pragma once

#include "passes/decompose/decompose.h"

namespace quarry::passes {

// The node by the expression of reals of its operator. False: it has none, or one that is not written with the
// operators and functions that expression.cpp knows; nothing was written then. Asked for operators that no file has a
// better form of.
bool decompose_expression(Decomposer &s);

}  // namespace quarry::passes
