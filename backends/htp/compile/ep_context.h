// SPDX-License-Identifier: Apache-2.0
// Contexts as ONNX models of EPContext nodes, as ONNX Runtime's QNN provider writes and loads them.
#pragma once

#include <span>

#include "backends/htp/program/blob.h"
#include "base/file_sink.h"

namespace quarry::htp {

// What a node says of its context. A `file` beside the model: the binary is there, else it is in the node.
struct EpContext {
  std::span<const std::uint8_t> binary;
  std::string_view file, name_prefix, build_id, source;
};

// One graph of a blob; where the host quantises or narrows, with QuantizeLinear, DequantizeLinear and Cast around the
// node.
Result<Vector<std::uint8_t>> ep_context_model(const Blob &blob, std::size_t graph, const EpContext &context);

// A node for each graph of a binary; names of the borders are the model's, and must differ.
Vector<std::uint8_t> ep_context_model(const Vector<BlobGraph> &graphs, const EpContext &context);

// A graph of one binary as the file `name`, of several each as one with "_1", "_2" ... in front of ".onnx", and their
// binary in them or in one file before them.
Status write_ep_contexts(const Blob &blob, std::span<const std::uint8_t> binary, std::string_view name,
                         bool is_embedded, std::string_view name_prefix, FileSink &files);

}  // namespace quarry::htp
