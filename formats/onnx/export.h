// SPDX-License-Identifier: Apache-2.0
// qir::Graph -> ModelProto: what the importer reads, and other programs that know ONNX.
#pragma once

#include <string>

#include "formats/qir/graph.h"

namespace quarry::onnx_import {

// The bytes of a model. No tensor that a node computes with may be quantised (passes::take_apart_quantized): ONNX has
// quantisation as nodes alone. A failure carries every node that ONNX has no form for.
Result<std::string> export_graph(const qir::Graph &graph);

}  // namespace quarry::onnx_import
