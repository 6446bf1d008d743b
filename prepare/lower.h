// SPDX-License-Identifier: Apache-2.0
// ONNX model + bound shapes -> QIR: import, passes, checks.
#pragma once

#include "formats/onnx/importer.h"

namespace quarry::prepare {

// The result's constants point into the model and the store.
Result<qir::Graph> lower_graph(onnx_import::Model &model, const Vector<onnx_import::InputBinding> &bindings,
                               onnx_import::Store &store, onnx_import::Watcher *watcher);

}  // namespace quarry::prepare
