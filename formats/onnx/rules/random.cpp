// SPDX-License-Identifier: Apache-2.0
// Dropout.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

Status dropout(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (node.opset >= 12 && node.has(2)) {
    const std::int32_t mode = node.in(2);
    const bool inference = node.builder.is_constant(mode) && node.builder.tensor(mode).dtype == DType::Bool &&
                           node.builder.tensor(mode).data.size == 1 &&
                           *static_cast<const std::uint8_t *>(node.builder.tensor(mode).data.data) == 0;
    if (!inference) {
      QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Dropout, node.inputs()));
      return node.finish(std::move(made));
    }
  }
  node.bind(0, node.in(0));
  if (node.wants(1)) {  // nothing is dropped: the mask is all true (ones of the data's type before opset 10)
    QR_ASSIGN_OR_RETURN(const std::int32_t shape, node.shape_of(node.in(0), "shape"));
    const std::int32_t one = node.number("one", node.opset < 10 ? node.tensor(0).dtype : DType::Bool, 1);
    QR_ASSIGN_OR_RETURN(const std::int32_t mask, node.step(Op::Expand, {one, shape}, "mask"));
    node.bind(1, mask);
  }
  return {};
}

Status old_dropout(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (node.wants(1)) return node.error(ErrorId::onnx_attribute, "its second output is for training and not supported");
  node.bind(0, node.in(0));
  return {};
}

}  // namespace quarry::onnx_import::rules
