// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/rules/rules.h"

#include <algorithm>

namespace quarry::onnx_import {

using qir::Op;

namespace rules {

Op op_of(const Rewriter &node) { return qir::find_op("", node.proto.op_type())->op; }

// An ints attribute that is input `index` from opset `since` on.
Status ints_to_input(Rewriter &node, const char *attribute, std::int64_t since, std::size_t index) {
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < since)
    if (const auto values = node.get_ints(attribute)) {
      inputs.resize(std::max(inputs.size(), index + 1), qir::kAbsent);
      inputs[index] = node.ints(attribute, *values);
    }
  QR_ASSIGN_OR_RETURN(qir::Node made, node.opset < since ? node.copy(op_of(node), std::move(inputs), {attribute})
                                                         : node.copy(op_of(node), std::move(inputs)));
  return node.finish(std::move(made));
}

Status need_image(const Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (node.tensor(0).shape.size() == 4) return {};
  return node.error(ErrorId::onnx_invalid, "its input has %zu dimensions, expected 4: [N,C,H,W]",
                    node.tensor(0).shape.size());
}

Result<std::int32_t> to_real(Rewriter &node, std::int32_t id, std::string_view suffix) {
  qir::Node made = node.make(Op::Cast, {id}, suffix);
  made.set("to", static_cast<std::int64_t>(DType::F32));
  return node.step(std::move(made));
}

Result<std::int32_t> unsqueeze(Rewriter &node, std::int32_t id, std::initializer_list<std::int64_t> axes,
                               std::string_view suffix) {
  const std::int32_t given = node.ints(String(suffix) + "/axes", {axes.begin(), axes.size()});
  return node.step(Op::Unsqueeze, {id, given}, suffix);
}

Result<std::int32_t> slice(Rewriter &node, std::int32_t id, std::int64_t axis, std::int64_t from, std::int64_t to,
                           std::string_view suffix) {
  const auto one = [&](const char *what, std::int64_t value) {
    return node.ints(String(suffix) + what, std::span(&value, 1));
  };
  return node.step(Op::Slice, {id, one("/from", from), one("/to", to), one("/axis", axis)}, suffix);
}

}  // namespace rules

namespace {

// Where a rule holds: ai.onnx before opset 7, before opset 10, and from opset 7 on; its operators on sequences;
// operators on quantised values of both domains; com.microsoft.
enum class RuleSet : std::uint8_t { Legacy, Experimental, Standard, Sequence, Quantized, Microsoft };

constexpr struct {
  RuleSet set;
  std::string_view op;
  Rule rule;
} kRules[] = {
#define QR_IMPORT_RULE(set, op, function) {RuleSet::set, op, rules::function},
#include "formats/onnx/rules/rules.inc"
#undef QR_IMPORT_RULE
};

Rule find_in(RuleSet set, std::string_view op) {
  const auto *found = std::ranges::find_if(kRules, [&](const auto &row) { return row.set == set && row.op == op; });
  return found == std::end(kRules) ? nullptr : found->rule;
}

}  // namespace

bool is_sequence_operator(std::string_view op) {
  return op == "SequenceMap" || find_in(RuleSet::Sequence, op) != nullptr;
}

Rule find_rule(std::string_view domain, std::string_view op, std::int64_t opset) {
  if (domain.empty()) {
    if (opset < 7)
      if (const Rule rule = find_in(RuleSet::Legacy, op)) return rule;
    if (opset < 10)
      if (const Rule rule = find_in(RuleSet::Experimental, op)) return rule;
    if (op == "If") return import_if;
    if (op == "Loop") return import_loop;
    if (op == "Scan") return import_scan;
    if (op == "SequenceMap") return import_sequence_map;
    if (const Rule rule = find_in(RuleSet::Standard, op)) return rule;
    if (const Rule rule = find_in(RuleSet::Sequence, op)) return rule;
    // ONNX Runtime keeps it in this domain.
    if (op == "SimplifiedLayerNormalization") return find_in(RuleSet::Microsoft, op);
    // The table has those that ai.onnx has.
    return qir::find_op("", op) ? find_in(RuleSet::Quantized, op) : nullptr;
  }
  if (domain == "com.microsoft") {
    if (const Rule rule = find_in(RuleSet::Quantized, op)) return rule;
    return find_in(RuleSet::Microsoft, op);
  }
  return nullptr;
}

}  // namespace quarry::onnx_import
