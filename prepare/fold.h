// SPDX-License-Identifier: Apache-2.0
// Constant folding: a node is run by cpu-reference, so that folding has the meaning that running has.
#pragma once

#include "formats/onnx/builder.h"

namespace quarry::prepare {

class ReferenceFolder final : public onnx_import::Folder {
 public:
  bool fold(const qir::Graph &graph, const qir::Node &node, onnx_import::Store &store,
            Vector<onnx_import::Constant> *outputs) override;
};

}  // namespace quarry::prepare
