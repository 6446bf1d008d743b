// SPDX-License-Identifier: Apache-2.0
// Constant folding: a node is run by cpu-reference, so that folding gives what running gives.
#pragma once

#include "graph/store.h"

namespace quarry::reference {

class ReferenceFolder final : public qir::Folder {
 public:
  bool fold(const qir::Graph &graph, const qir::Node &node, qir::Store &store, Vector<qir::Constant> *outputs) override;
};

}  // namespace quarry::reference
