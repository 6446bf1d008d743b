// SPDX-License-Identifier: Apache-2.0
// Binding of symbolic dimensions and of inputs: "input=1x3x224x224,batch=1..8,rate=[16000]" -> a shape for every input.
#pragma once

#include "formats/onnx/importer.h"

namespace quarry::prepare {

struct BoundShapes {
  Vector<onnx_import::InputBinding> inputs;  // one for each input of the model
  Vector<qir::Dimension> dimensions;         // those that a run binds; places name `inputs`
  bool has_ranges = false;                   // the text has some that end; else what it does not bind has no end
};

// Whether a dimension may be left to the run.
enum class Ranges : std::uint8_t { Refused, Taken };

// An entry names an input (all its dimensions, "x" between them; nothing for a scalar) or a symbolic dimension; each is
// a number or a range, "1..512", or "0.." without an end. A dimension given through an input binds its symbol
// everywhere; what its name says of others ("past + 1") follows from them. Numbers in brackets, with spaces between
// them, are an input's value: one for each element, or one for all.
Result<BoundShapes> bind_shapes(const onnx_import::Model &model, std::string_view text, Ranges ranges);

}  // namespace quarry::prepare
