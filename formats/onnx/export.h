// SPDX-License-Identifier: Apache-2.0
// qir::Graph -> ModelProto: what the importer reads, and other programs that know ONNX.
#pragma once

#include <string>

#include "graph/graph.h"

namespace quarry::onnx_import {

// Constants that lie in a file beside the model ("external data"), so that a model may have more of them than the two
// gigabytes that a message of protobuf holds, and be mapped. Large ones begin at a multiple of what systems map by.
struct ExternalConstants {
  struct Part {
    std::uint64_t offset;
    qir::Bytes bytes;  // of the graph
  };
  std::string location;  // the file's name; empty: all constants lie in the model
  Vector<Part> parts;    // in order of offset; between them are zeros
  std::uint64_t size = 0;
};

// More bytes of constants than fit into a model by itself.
bool needs_external_data(const qir::Graph &graph) noexcept;

// The bytes of a model. No tensor that a node computes with may be quantised (passes::dequantize_nodes): ONNX has
// quantisation as nodes alone. A failure carries every node that ONNX has no form for. With a location in `external`,
// its parts are filled.
Result<std::string> export_graph(const qir::Graph &graph, ExternalConstants *external = nullptr);

}  // namespace quarry::onnx_import
