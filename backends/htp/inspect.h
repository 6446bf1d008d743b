// SPDX-License-Identifier: Apache-2.0
// What a blob says, for readers and for other runtimes; neither needs the library.
#pragma once

#include <span>

#include "backends/htp/blob.h"

namespace quarry::htp {

// A JSON object: SoC, versions, sizes; of each graph its tensors with ids, types and encodings, and what it takes.
String describe_blob(const Blob &blob);

// The context as an ONNX model of EPContext nodes, as ONNX Runtime's QNN provider writes and loads it; where the host
// quantises or narrows, with QuantizeLinear, DequantizeLinear and Cast around the node. Of a blob with one graph. An
// empty name: the binary lies in the model.
Result<Vector<std::uint8_t>> ep_context_model(const Blob &blob, std::span<const std::uint8_t> binary,
                                              std::string_view binary_name, std::string_view name_prefix);

}  // namespace quarry::htp
