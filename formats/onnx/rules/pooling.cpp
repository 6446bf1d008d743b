// SPDX-License-Identifier: Apache-2.0
// Pooling.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

Status roi_align(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::RoiAlign, node.inputs()));
  if (node.opset < 16 && !made.find("coordinate_transformation_mode"))
    made.set("coordinate_transformation_mode", std::string_view("output_half_pixel"));
  return node.finish(std::move(made));
}

// Opset 1 pools and normalisations have p as a float.
Status float_p(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made,
                      node.copy(qir::find_op("", node.proto.op_type())->op, node.inputs(), {"p", "consumed_inputs"}));
  made.set("p", node.get_int("p", static_cast<std::int64_t>(node.get_float("p", 2))));
  return node.finish(std::move(made));
}

}  // namespace quarry::onnx_import::rules
