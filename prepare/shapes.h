// SPDX-License-Identifier: Apache-2.0
// Binding of symbolic dimensions: "input=1x3x224x224,batch=1" -> a shape for every input.
#pragma once

#include "formats/onnx/model.h"

namespace quarry::prepare {

// One shape per model input, all extents known. An entry names an input (all its extents, "x" between them; nothing for
// a scalar) or a symbolic dimension. An extent given through an input binds its symbol everywhere.
Result<Vector<qir::Shape>> bind_shapes(const onnx_import::Model &model, std::string_view text);

}  // namespace quarry::prepare
