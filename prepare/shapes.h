// SPDX-License-Identifier: Apache-2.0
// Binding of symbolic dimensions and of inputs: "input=1x3x224x224,batch=1,rate=[16000]" -> a shape for every input.
#pragma once

#include "formats/onnx/importer.h"

namespace quarry::prepare {

// One for each input of the model. An entry names an input (all its dimensions, "x" between them; nothing for a scalar)
// or a symbolic dimension. A dimension given through an input binds its symbol everywhere. Numbers in brackets, with
// spaces between them, are an input's value: one for each element, or one for all.
Result<Vector<onnx_import::InputBinding>> bind_shapes(const onnx_import::Model &model, std::string_view text);

}  // namespace quarry::prepare
