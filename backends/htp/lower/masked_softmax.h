// SPDX-License-Identifier: Apache-2.0
// Softmax of quantised numbers some of which a mask takes out, as attention has it: in the form of which the library
// makes its MaskedSoftmax, Softmax(Select(keep, x, ReduceMin(x) - 30)).
#pragma once

#include "graph/store.h"

namespace quarry::htp {

// Rewrites Softmax(Where(mask, x, low)), and Softmax(x + Where(mask, 0, low)), along the last axis, where what is taken
// out lies so far below all else that it counts nothing. Of a row without any number left ONNX has equal parts, and the
// library zeros: that is for the caller to allow (`any_rows`); else masks alone are taken that are constant and leave
// one in each row.
void compose_masked_softmax(qir::Graph &graph, qir::Store &store, bool any_rows);

}  // namespace quarry::htp
