// SPDX-License-Identifier: Apache-2.0
#include "prepare/lower.h"

#include "backends/cpu-reference/folder.h"
#include "base/stop.h"
#include "passes/passes.h"

namespace quarry::prepare {

Result<qir::Graph> lower_graph(onnx_import::Model &model, const Vector<onnx_import::InputBinding> &bindings,
                               onnx_import::Store &store, onnx_import::Watcher *watcher) {
  reference::ReferenceFolder folder;
  QR_ASSIGN_OR_RETURN(qir::Graph graph, onnx_import::import_graph(model, bindings, store, &folder, watcher));
  // What a pass that was stopped leaves is for no other to read.
  const auto stopped = [] { return stop_status("importing the model"); };
  QR_RETURN_IF_ERROR(stopped());
  passes::remove_unused(graph);
  QR_RETURN_IF_ERROR(stopped());
  passes::remove_no_ops(graph);
  QR_RETURN_IF_ERROR(stopped());
  passes::fold_batch_normalization(graph, store);
  QR_RETURN_IF_ERROR(stopped());
  passes::put_together_quantized(graph);
  QR_RETURN_IF_ERROR(stopped());
  // What was left for the pass before to see (DequantizeLinear), and what became constant since.
  passes::fold_constants(graph, store, folder);
  QR_RETURN_IF_ERROR(stopped());
  passes::remove_no_ops(graph);
  passes::remove_unused(graph);
  QR_RETURN_IF_ERROR(stopped());
  if (graph.name.empty()) graph.name = "main";
  // What the passes made is held to the same rules as what a file brings.
  if (Status status = qir::validate_graph(graph); !status.ok()) return status;
  return graph;
}

}  // namespace quarry::prepare
