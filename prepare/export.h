// SPDX-License-Identifier: Apache-2.0
// Graphs as files for other programs: qr_model_export.
#pragma once

#include "base/file_sink.h"
#include "graph/graph.h"

namespace quarry::prepare {

// A graph as ONNX. `name` ends in .onnx, and constants lie in the model where they fit and in `name`.data before it
// where they do not; or it ends in .onnx.data, and they lie there in any case. No tensor that a node computes with may
// be quantised.
Status write_model(const qir::Graph &graph, std::string_view name, FileSink &files);

// `name`: as above (one graph alone), or in .json, which describes all. `names`: of the graphs.
Status export_graphs(const Vector<qir::Graph> &graphs, const Vector<std::string_view> &names, std::string_view name,
                     FileSink &files);

}  // namespace quarry::prepare
