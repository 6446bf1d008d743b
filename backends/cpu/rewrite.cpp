// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/rewrite.h"

#include "backends/cpu-reference/folder.h"
#include "backends/cpu-reference/widen.h"
#include "backends/cpu/quantized.h"

namespace quarry::cpu {

Status rewrite(qir::Graph &graph, qir::Store &store) {
  QR_RETURN_IF_ERROR(reference::widen_halves(graph));
  passes::take_apart_quantized(graph, store, integer_way);
  QR_RETURN_IF_ERROR(passes::einsum_to_matmul(graph, store));
  reference::ReferenceFolder folder;
  const auto conversions = [](qir::Op op) { return op == qir::Op::Cast || op == qir::Op::DequantizeLinear; };
  passes::fold_constants(graph, store, folder, {.wanted = conversions, .may_grow = true});
  passes::compose(graph, store, kComposites);
  return qir::validate_graph(graph);
}

}  // namespace quarry::cpu
