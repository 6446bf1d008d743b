// SPDX-License-Identifier: Apache-2.0
// The option graph.export: graphs as a file for other programs.
#pragma once

#include "formats/qir/graph.h"

namespace quarry::prepare {

// `path` ends in .onnx (one graph alone), or in .json, which describes all. The file appears whole or not at all.
// `names`: of the graphs.
Status export_graphs(const Vector<qir::Graph> &graphs, const Vector<std::string_view> &names, std::string_view path);

}  // namespace quarry::prepare
