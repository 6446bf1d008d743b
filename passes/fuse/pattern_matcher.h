// SPDX-License-Identifier: Apache-2.0
// What the finders of composite operators share: questions about what made a tensor.
#pragma once

#include <optional>

#include "graph/edit/graph_edit.h"
#include "graph/store.h"

namespace quarry::passes {

class PatternMatcher {
 public:
  PatternMatcher(qir::Graph &graph, qir::Store &store) : graph_(graph), store_(store), uses_(graph), names_(graph) {}

  const qir::Tensor &tensor(std::int32_t id) const { return qir::at(graph_, id); }
  bool plain_f32(std::int32_t id) const {
    return id != qir::kAbsent && tensor(id).dtype == DType::F32 && !tensor(id).quant;
  }
  // The node of this operator whose first output the tensor is; nullptr: another made it.
  const qir::Node *made_by(std::int32_t id, qir::Op op) const;
  // The value of an f32 constant of one element.
  std::optional<float> scalar(std::int32_t id) const;
  bool is_scalar(std::int32_t id, double wanted) const;
  // Of a node with two operands: the one beside a scalar of this value, or beside `one`; kAbsent where there is none.
  std::int32_t beside_scalar(const qir::Node &node, double wanted) const;
  static std::int32_t beside(const qir::Node &node, std::int32_t one);

  // What a product of products multiplies: scalars together, and everything else. Divisions by scalars count, and so do
  // squares and cubes. `x` is not looked into.
  struct Factors {
    double scalar = 1;
    Vector<std::int32_t> others;
    bool only(std::int32_t x, std::size_t times) const;
    // Exporters write some of these numbers with four digits.
    bool is(double wanted, double tolerance = 1e-4) const;
  };
  Factors factors(std::int32_t id, std::int32_t x = qir::kAbsent) const;

  // A new f32 constant.
  std::int32_t add(std::string_view name, const qir::Shape &shape, qir::Bytes contents);
  std::int32_t add_ones(std::string_view name, std::int64_t count);

 private:
  void multiply_into(Factors *out, std::int32_t id, std::int32_t x, int depth) const;

  qir::Graph &graph_;
  qir::Store &store_;
  const qir::Uses uses_;
  qir::Names names_;
};

// What a node is the last piece of: operator, inputs and attributes; nothing where it is none.
using Found = std::optional<qir::Node>;
Found found(qir::Op op, Vector<std::int32_t> inputs);

Found match_gelu(PatternMatcher &match, const qir::Node &node);
Found match_gelu_tanh(PatternMatcher &match, const qir::Node &node);
Found match_swish(PatternMatcher &match, const qir::Node &node);
Found match_hard_swish(PatternMatcher &match, const qir::Node &node);
Found match_hard_sigmoid(PatternMatcher &match, const qir::Node &node);
Found match_mish(PatternMatcher &match, const qir::Node &node);
// With scale and shift, with scale, without either.
Found match_layer_norm_shifted(PatternMatcher &match, const qir::Node &node);
Found match_layer_norm_scaled(PatternMatcher &match, const qir::Node &node);
Found match_layer_norm_plain(PatternMatcher &match, const qir::Node &node);
Found match_rms_norm_scaled(PatternMatcher &match, const qir::Node &node);
Found match_rms_norm_plain(PatternMatcher &match, const qir::Node &node);

}  // namespace quarry::passes
