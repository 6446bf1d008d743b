// SPDX-License-Identifier: Apache-2.0
// The option graph.export: graphs as a file for other programs.
#pragma once

#include "formats/qir/graph.h"

namespace quarry::prepare {

// A graph as ONNX. `path` ends in .onnx, and constants lie in the model where they fit and in `path`.data beside it
// where they do not; or it ends in .onnx.data, and they lie there in any case. No tensor that a node computes with may
// be quantised. Files appear whole or not at all; one of the two does not appear without the other.
Status write_model(const qir::Graph &graph, std::string_view path);

// `path`: as above (one graph alone), or in .json, which describes all. `names`: of the graphs.
Status export_graphs(const Vector<qir::Graph> &graphs, const Vector<std::string_view> &names, std::string_view path);

}  // namespace quarry::prepare
