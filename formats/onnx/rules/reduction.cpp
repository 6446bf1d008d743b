// SPDX-License-Identifier: Apache-2.0
// Reductions: axes became an input.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

Status reduce_sum(Rewriter &node) { return ints_to_input(node, "axes", 13, 1); }

Status reduce(Rewriter &node) { return ints_to_input(node, "axes", 18, 1); }

}  // namespace quarry::onnx_import::rules
