// SPDX-License-Identifier: Apache-2.0
// A context binary of the library's with nothing around it, as qnn-context-binary-generator and ONNX Runtime leave
// them.
#pragma once

#include <span>

#include "backends/htp/qnn/library.h"

namespace quarry::htp {

struct RawBinary {
  Vector<std::uint8_t> model;  // ONNX, an EPContext node for each graph
  String about;                // JSON, as of a blob
};
// Reads what it says of itself; nothing is loaded. `file`: where it is, beside the model; empty: the model holds it.
Result<RawBinary> read_raw_binary(const qnn::Library &library, std::span<const std::uint8_t> bytes,
                                  std::string_view file);

}  // namespace quarry::htp
