// SPDX-License-Identifier: Apache-2.0
// Fourier transforms.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

Status dft(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < 20)
    inputs = {node.in(0), node.in(1), node.builder.add_int(node.name + "/axis", node.get_int("axis", 1))};
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::DFT, std::move(inputs), {"axis"}));
  return node.finish(std::move(made));
}

}  // namespace quarry::onnx_import::rules
