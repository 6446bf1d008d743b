// SPDX-License-Identifier: Apache-2.0
// Finds composite operators in the pieces that exporters make of them. A backend names those that it has a better way
// for than for the pieces; nothing else is touched. f32 tensors alone: widen or dequantise first.
//
// What is found means what the pieces meant up to the rounding of f32, with the exceptions that the rows below name.
#pragma once

#include <initializer_list>

#include "graph/edit/graph_edit.h"
#include "graph/store.h"

namespace quarry::passes {

enum class Composite : std::uint8_t {
  Gelu,                // x / 2 * (1 + erf(x / sqrt(2))) -> Gelu
  GeluTanh,            // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) -> Gelu, approximate = tanh
  Swish,               // x * sigmoid(alpha * x) -> Swish
  HardSwish,           // x * clip(x + 3, 0, 6) / 6, or x * HardSigmoid -> HardSwish
  HardSigmoid,         // clip(x + 3, 0, 6) / 6 -> HardSigmoid
  Mish,                // x * tanh(softplus(x)) -> Mish
  LayerNormalization,  // over the last axis, with or without scale and shift -> LayerNormalization
  RMSNormalization,    // likewise -> RMSNormalization
  Attention,           // softmax(q k^T * scale + mask) v -> Attention. A row that the mask forbids wholly (minus
                       // infinity everywhere) gives zeros, where the pieces gave NaN
  Count
};

// A set of them.
class Composites {
 public:
  constexpr Composites() = default;
  constexpr Composites(std::initializer_list<Composite> list) {
    for (const Composite one : list) bits_ |= 1u << static_cast<unsigned>(one);
  }
  static constexpr Composites all() {
    Composites set;
    set.bits_ = (1u << static_cast<unsigned>(Composite::Count)) - 1;
    return set;
  }
  constexpr bool has(Composite one) const { return (bits_ >> static_cast<unsigned>(one) & 1u) != 0; }

 private:
  std::uint32_t bits_ = 0;
};

// One that was found: the node that it is now, by Node::source, and the nodes that went into it.
struct Composed {
  Composite what{};
  std::int32_t node = qir::kNoSource;
  Vector<std::int32_t> pieces;
};

// Pieces that nobody else reads go. `found` (may be nullptr) gets one entry for each composite.
void compose(qir::Graph &graph, qir::Store &store, Composites wanted, Vector<Composed> *found = nullptr);

}  // namespace quarry::passes
