// SPDX-License-Identifier: Apache-2.0
// Which operators stay on quantised tensors. Others are taken apart before lowering: dequantised, computed in f16, and
// quantised again, which on a result of 8 bits is right within a step.
#pragma once

#include "formats/qir/store.h"

namespace quarry::htp {

bool computes_quantized(const qir::Graph &graph, const qir::Node &node);

// Computes DequantizeLinear of constants.
class ConstantDequantizer final : public qir::Folder {
 public:
  bool fold(const qir::Graph &graph, const qir::Node &node, qir::Store &store,
            Vector<qir::Constant> *outputs) override;
};

}  // namespace quarry::htp
