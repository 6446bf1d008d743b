// SPDX-License-Identifier: Apache-2.0
// Elements by index.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

Status top_k(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < 10) {
    const std::int64_t k = node.get_int("k", -1);
    if (k < 0) return node.error(ErrorId::onnx_invalid, "has no attribute k");
    inputs = {node.in(0), node.ints("k", {&k, 1})};
  }
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::TopK, std::move(inputs), {"k"}));
  return node.finish(std::move(made));
}

Status scatter(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::ScatterElements, node.inputs()));
  return node.finish(std::move(made));
}

}  // namespace quarry::onnx_import::rules
