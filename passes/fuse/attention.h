// SPDX-License-Identifier: Apache-2.0
// MatMul(Softmax(MatMul(q, k^T) [* or / scale] [+ mask]), v): who fuses it himself asks here; compose.h makes the
// operator Attention of it.
#pragma once

#include "graph/edit/graph_edit.h"

namespace quarry::passes {

struct AttentionPieces {
  Vector<std::int32_t> nodes;  // from the first product to the second
  // Of rank 3 or 4, with the same dimensions before the last two. The mask may be absent.
  std::int32_t q = qir::kAbsent, k_transposed = qir::kAbsent, v = qir::kAbsent, mask = qir::kAbsent;
  float scale = 1;
};

// What the node, the second product, is the last piece of. All tensors are f32, and nobody else reads what lies between
// the pieces.
std::optional<AttentionPieces> match_attention(const qir::Graph &graph, const qir::Uses &uses, std::size_t node);

}  // namespace quarry::passes
