// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

namespace {

constexpr std::size_t kMostRules = 5;

struct OperatorRow {
  qir::Op op;
  RuleId plain[kMostRules], quantized[1];
};

// (One pointer a rule: each costs a relocation.)
union RuleFunction {
  Result<Lowered> (*of_group)(Lowering &, const Group &);
  Result<Lowered> (*of_node)(Lowering &, const qir::Node &);
};
constexpr RuleFunction kRules[] = {
    {},
#define QR_CPU_GROUP_RULE(name) {.of_group = lower_##name},
#define QR_CPU_NODE_RULE(name) {.of_node = lower_##name},
#include "backends/cpu/lower/rules.inc"
#undef QR_CPU_GROUP_RULE
#undef QR_CPU_NODE_RULE
};
constexpr bool kOfNode[] = {
    false,
#define QR_CPU_GROUP_RULE(name) false,
#define QR_CPU_NODE_RULE(name) true,
#include "backends/cpu/lower/rules.inc"
#undef QR_CPU_GROUP_RULE
#undef QR_CPU_NODE_RULE
};

constexpr auto kOperators = [] {
  using enum RuleId;
  return std::to_array<OperatorRow>({
#define QR_CPU_RULES(...) \
  { __VA_ARGS__ }
#define QR_CPU_OPERATOR(op, plain, quantized, leaves) {qir::Op::op, plain, quantized},
#include "backends/cpu/lower/operators.inc"
#undef QR_CPU_RULES
#undef QR_CPU_OPERATOR
  });
}();

}  // namespace

std::span<const RuleId> rules_for(qir::Op op, bool quantized) noexcept {
  const auto row = std::ranges::find(kOperators, op, &OperatorRow::op);
  if (row == kOperators.end()) return {};
  return quantized ? std::span<const RuleId>(row->quantized) : std::span<const RuleId>(row->plain);
}

Rule rule_of(RuleId id) noexcept {
  const RuleFunction &rule = kRules[index_of(id)];
  return kOfNode[index_of(id)] ? Rule{nullptr, rule.of_node} : Rule{rule.of_group, nullptr};
}

}  // namespace quarry::cpu
