// SPDX-License-Identifier: Apache-2.0
// What becomes of each tensor: which nodes are quantised, which tensors share an encoding, what constants are stored
// as. Made in two steps: `lay_out` says what is to be observed, `give_encodings` lays the observed ranges on grids.
#pragma once

#include "graph/store.h"
#include "quantize/plan/overrides.h"
#include "quantize/plan/rules.h"

namespace quarry::quantize {

// An activation: as its maker gives it and, `converted`, as some of its readers take it.
struct Activation {
  bool quantized = false;
  Grid grid;
  Encoding encoding;
  bool has_convert = false;
  Grid convert_grid;
  Encoding converted;
  Vector<std::int32_t> receivers;  // nodes that read the converted form
};

// A constant as one node reads it.
struct Constant {
  std::int32_t node = 0, tensor = 0;
  std::size_t input = 0;
  DType dtype = DType::I8;
  qir::Quantization quant;
  bool reduced = false;  // of its encodings
  Vector<std::int32_t> stored;
};

struct Plan {
  Vector<bool> quantized;          // nodes
  Vector<bool> absorbed;           // nodes (Relu, Clip) that the encoding of their maker's result does
  Vector<Activation> activations;  // by tensor
  Vector<Constant> constants;

  const Constant *constant(std::size_t node, std::size_t input) const noexcept;
};

// Which nodes and tensors are quantised and with what types; no encodings yet. `raised`: tensors that get 16 bits.
Result<Plan> lay_out(const qir::Graph &graph, const Settings &settings, const Overrides &overrides);

// The tensors of f32 whose values the encodings need.
Vector<std::int32_t> observed_tensors(const qir::Graph &graph, const Plan &plan);

// Gives encodings. `range(tensor, grid)`: what was observed.
class Ranges {
 public:
  virtual Range range(std::int32_t tensor, const Grid &grid) const = 0;

 protected:
  ~Ranges() = default;
};
// Weights as integers depend on the graph, the settings and what is said of them, not on ranges: plans that are tried
// one after the other share them. By node.
struct KnownConstant {
  DType wanted;  // what was asked for
  Constant made;
};
using KnownWeights = OrderedMap<std::int32_t, Vector<KnownConstant>>;
Status give_encodings(const qir::Graph &graph, const Settings &settings, const Overrides &overrides,
                      const Ranges &ranges, Plan *plan, KnownWeights *known = nullptr);

// The graph with QuantizeLinear and DequantizeLinear where the plan says. Names are those that ONNX Runtime's tool
// gives.
qir::Graph write_qdq(const qir::Graph &graph, const Plan &plan, qir::Store &store);

// The name of the tensor in such a graph that has the values of `name` after quantisation.
String dequantized_name(std::string_view name);

}  // namespace quarry::quantize
