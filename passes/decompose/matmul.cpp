// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications of other operands than kernels take: Gemm of a transposed one, MatMulInteger of weights that
// are no constant, Einsum of one operand or of more than two. cpu, gpu and htp call this pass before they lower.
#include <algorithm>

#include "graph/infer/infer.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::at;
using qir::Op;

namespace {

// ---- MatMulInteger, Gemm --------------------------------------------------------------------------

// MatMul of f32 by parts: a sum of 256 products of two bytes is exact in f32.
bool integer_matmul(Decomposer &s) {
  constexpr std::int64_t kExact = 256, kMostParts = 16;
  const qir::Node &node = s.node();
  const qir::Shape a = s.in(0).shape, b = s.in(1).shape;
  if (s.in(1).is_constant || a.size() < 2 || b.size() < 2 || a.back() > kExact * kMostParts) return false;
  std::int32_t operands[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int32_t zero = node.inputs[2 + i];
    if (zero != qir::kAbsent && elements(s.tensor(zero).shape) != 1) return false;
    operands[i] = s.cast(node.inputs[i], DType::F32);
    if (zero != qir::kAbsent) operands[i] = s.of(Op::Sub, {operands[i], s.reshape(s.cast(zero, DType::F32), {})});
  }
  const qir::Shape shape = s.out().shape;
  std::int32_t sum = qir::kAbsent;
  for (std::int64_t k = 0; k < a.back(); k += kExact) {
    const std::int64_t end = std::min(a.back(), k + kExact);
    const std::int32_t part = s.cast(
        s.of(Op::MatMul, {s.slice(operands[0], a.size() - 1, k, end, 1), s.slice(operands[1], b.size() - 2, k, end, 1)},
             DType::F32, shape),
        DType::I32);
    sum = sum == qir::kAbsent ? part : s.of(Op::Add, {sum, part});
  }
  s.give(Op::Identity, {sum});
  return true;
}

bool gemm_of_transposed(Decomposer &s) {
  const qir::Node &node = s.node();
  if (node.get_int("transA", 0) == 0) return false;
  Vector<std::int32_t> inputs = node.inputs;
  inputs[0] = s.transpose(inputs[0], {1, 0});
  qir::Node &made = s.give(Op::Gemm, std::move(inputs));
  made.attributes = node.attributes;
  made.set("transA", std::int64_t{0});
  return true;
}

// ---- Einsum ---------------------------------------------------------------------------------------

using Labels = Vector<std::uint8_t>;

class Contraction {
 public:
  Contraction(Decomposer &s, const qir::EinsumPlan &plan) : s_(s), plan_(plan) {
    for (std::uint32_t i = 0; i < plan.output.rank; ++i) out_.push_back(plan.output.label[i]);
  }

  // One operand: moved, and what is not in the result summed over. More: from the left, two at a time.
  bool run() {
    if (plan_.label_count > 52) return false;
    Vector<Labels> operands;
    for (const qir::EinsumPlan::Operand &operand : plan_.inputs) {
      Labels &labels = operands.emplace_back();
      for (std::uint32_t i = 0; i < operand.rank; ++i) {
        if (operand.broadcast[i]) return false;
        labels.push_back(operand.label[i]);
      }
    }
    Vector<std::int32_t> given;
    for (std::size_t i = 0; i < operands.size(); ++i) given.push_back(diagonals(s_.node().inputs[i], operands[i]));
    std::int32_t left = given[0];
    Labels labels = operands[0];
    for (std::size_t i = 1; i < operands.size(); ++i) {
      const auto needed = [&](std::uint8_t label) {
        return has(out_, label) || std::any_of(operands.begin() + static_cast<std::ptrdiff_t>(i) + 1, operands.end(),
                                               [&](const Labels &later) { return has(later, label); });
      };
      // What one of the two has alone and nobody needs is summed over before there is a product.
      const auto both = [&](std::uint8_t label) { return needed(label) || has(operands[i], label); };
      left = summed(left, labels, both);
      Labels right = operands[i];
      const std::int32_t other =
          summed(given[i], right, [&](std::uint8_t label) { return needed(label) || has(labels, label); });
      const Labels made = i + 1 == operands.size() ? out_ : either(labels, right, needed);
      const String equation = text(labels) + "," + text(right) + "->" + text(made);
      if (i + 1 == operands.size()) {
        s_.give(Op::Einsum, {left, other}).set("equation", std::string_view(equation));
        return true;
      }
      left = s_.of(Op::Einsum, {left, other}, DType::F32, shape(made));
      s_.last_made().set("equation", std::string_view(equation));
      labels = made;
    }
    left = summed(left, labels, [&](std::uint8_t label) { return has(out_, label); });
    Vector<std::int64_t> perm;
    for (const std::uint8_t label : out_) perm.push_back(std::ranges::find(labels, label) - labels.begin());
    if (std::ranges::is_sorted(perm)) s_.give(Op::Identity, {left});
    else s_.give(Op::Transpose, {left}).set("perm", std::move(perm));
    return true;
  }

 private:
  static bool has(const Labels &labels, std::uint8_t label) { return std::ranges::find(labels, label) != labels.end(); }
  // What is needed of the labels of either, in their order.
  template <class Needed>
  static Labels either(const Labels &labels, const Labels &right, const Needed &needed) {
    Labels made;
    for (const Labels *list : {&labels, &right})
      for (const std::uint8_t label : *list)
        if (needed(label) && !has(made, label)) made.push_back(label);
    return made;
  }
  qir::Shape shape(const Labels &labels) const {
    qir::Shape made;
    for (const std::uint8_t label : labels) made.push_back(plan_.extent[label]);
    return made;
  }
  static String text(const Labels &labels) {
    String made;
    for (const std::uint8_t label : labels)
      made.push_back(static_cast<char>(label < 26 ? 'a' + label : 'A' + label - 26));
    return made;
  }
  // Of a label that stands twice what lies on the diagonal: every n + 1st of the n * n elements.
  std::int32_t diagonals(std::int32_t id, Labels &labels) {
    for (std::size_t second = 1; second < labels.size();) {
      const std::size_t first = static_cast<std::size_t>(std::ranges::find(labels, labels[second]) - labels.begin());
      if (first == second) {
        ++second;
        continue;
      }
      const std::uint8_t label = labels[second];
      const std::int64_t extent = plan_.extent[label];
      Vector<std::int64_t> perm;
      Labels rest;
      for (std::size_t i = 0; i < labels.size(); ++i)
        if (i != first && i != second) perm.push_back(static_cast<std::int64_t>(i)), rest.push_back(labels[i]);
      qir::Shape flat = shape(rest);
      perm.push_back(static_cast<std::int64_t>(first)), perm.push_back(static_cast<std::int64_t>(second));
      flat.push_back(extent * extent);
      id = s_.slice(s_.reshape(s_.transpose(id, perm), flat), rest.size(), 0, extent * extent, extent + 1);
      rest.push_back(label);
      labels = std::move(rest);
      second = 1;
    }
    return id;
  }
  template <class Stays>
  std::int32_t summed(std::int32_t id, Labels &labels, const Stays &stays) {
    Vector<std::int64_t> axes;
    Labels rest;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (stays(labels[i])) rest.push_back(labels[i]);
      else axes.push_back(static_cast<std::int64_t>(i));
    }
    if (axes.empty()) return id;
    labels = rest;
    const std::int32_t made = s_.of(Op::ReduceSum, {id, s_.integers(axes)}, DType::F32, shape(rest));
    s_.last_made().set("keepdims", std::int64_t{0});
    return made;
  }

  Decomposer &s_;
  const qir::EinsumPlan &plan_;
  Labels out_;
};

bool einsum(Decomposer &s) {
  const qir::Node &node = s.node();
  Vector<qir::Dims> dims;
  for (const std::int32_t id : node.inputs) dims.push_back({s.tensor(id).shape.data(), s.tensor(id).shape.size()});
  qir::EinsumPlan plan;
  return qir::parse_einsum(node, dims, &plan).ok() && Contraction(s, plan).run();
}

bool decompose_node(Decomposer &s) {
  const Op op = s.node().op;
  if (op == Op::MatMulInteger) return integer_matmul(s);
  if (op == Op::QuantizeLinear) return decompose_float16_quantize(s);
  if (s.in(0).dtype != DType::F32 || s.out().dtype != DType::F32) return false;
  return op == Op::Gemm ? gemm_of_transposed(s) : op == Op::Einsum && einsum(s);
}

}  // namespace

void decompose_matmul(qir::Graph &graph, Store &store, NodeTest stays) {
  decompose_nodes(graph, store, stays, decompose_node);
}

}  // namespace quarry::passes
