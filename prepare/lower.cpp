// SPDX-License-Identifier: Apache-2.0
#include "prepare/lower.h"

#include "prepare/fold.h"
#include "prepare/passes.h"

namespace quarry::prepare {

Result<qir::Graph> lower_graph(onnx_import::Model &model, const Vector<qir::Shape> &shapes, onnx_import::Store &store,
                               onnx_import::Watcher *watcher) {
  ReferenceFolder folder;
  QR_ASSIGN_OR_RETURN(qir::Graph graph, onnx_import::import_graph(model, shapes, store, &folder, watcher));
  remove_unused(graph);
  remove_no_ops(graph);
  fold_batch_normalization(graph, store);
  make_quantized_types(graph, store);
  fold_constants(graph, store);
  remove_no_ops(graph);
  remove_unused(graph);
  if (graph.name.empty()) graph.name = "main";
  // What the passes made is held to the same rules as what a file brings.
  if (Status status = qir::validate_graph(graph); !status.ok()) return status;
  return graph;
}

}  // namespace quarry::prepare
