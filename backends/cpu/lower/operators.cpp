// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "backends/cpu/lower/rules.h"
#include "kernels/cpu/element_types.h"
#include "kernels/cpu/shapes/elements_shape.h"

namespace quarry::cpu {

namespace {

constexpr std::size_t kMostRules = 5;

struct OperatorRow {
  qir::Op op;
  RuleId plain[kMostRules], quantized[1];
  const char *leaves;
};

// What rules take (operators.inc).
enum class RuleTypes : std::uint8_t {
  F32,
  F64,    // of functions that UnaryF64 has
  Reals,  // f32, f64
  Wide,   // f64, integers of 32 and 64 bits
  F32orWide,
  Bytes,  // i8, u8
  F32orBytes,
  Numbers,    // f32, f64, integers of 8 bits and more
  Limits,     // of Clip and Relu: what the kernel's Min has
  Element,    // what the kernel of the operator's elements has
  Variadic,   // f32, and what that kernel has for sums, Min and Max
  Reduction,  // f32, and what the kernel of sums has
  Castable,
  Quantize,  // reals to integers; integers of any kind to reals
  Any,       // that the rule itself looks at; quantised tensors too
};
constexpr RuleTypes kRuleTypes[] = {
    RuleTypes::Any,
#define QR_CPU_GROUP_RULE(name, types) RuleTypes::types,
#define QR_CPU_NODE_RULE(name, types) RuleTypes::types,
#include "backends/cpu/lower/operators.inc"
};

// (One pointer a rule: each costs a relocation.)
union RuleFunction {
  Result<Lowered> (*of_group)(Lowering &, const Group &);
  Result<Lowered> (*of_node)(Lowering &, const qir::Node &);
};
constexpr RuleFunction kRules[] = {
    {},
#define QR_CPU_GROUP_RULE(name, ...) {.of_group = lower_##name},
#define QR_CPU_NODE_RULE(name, ...) {.of_node = lower_##name},
#include "backends/cpu/lower/operators.inc"
};
constexpr bool kOfNode[] = {
    false,
#define QR_CPU_GROUP_RULE(name, ...) false,
#define QR_CPU_NODE_RULE(name, ...) true,
#include "backends/cpu/lower/operators.inc"
};

constexpr auto kOperators = [] {
  using enum RuleId;
  return std::to_array<OperatorRow>({
#define QR_CPU_RULES(...) \
  { __VA_ARGS__ }
#define QR_CPU_OPERATOR(op, plain, quantized, leaves) {qir::Op::op, plain, quantized, leaves},
#include "backends/cpu/lower/operators.inc"
#undef QR_CPU_RULES
  });
}();

const OperatorRow *operator_row(qir::Op op) noexcept {
  const auto row = std::ranges::find(kOperators, op, &OperatorRow::op);
  return row == kOperators.end() ? nullptr : &*row;
}

bool is_wide_number(DType dtype) noexcept {
  return dtype == DType::F64 || (is_integer(dtype) && dtype_bits(dtype) >= 32);
}

}  // namespace

bool takes_type(RuleId id, qir::Op op, DType dtype) noexcept {
  using qir::Op;
  const bool f32 = dtype == DType::F32, f64 = dtype == DType::F64, bytes = dtype == DType::I8 || dtype == DType::U8;
  switch (kRuleTypes[index_of(id)]) {
    case RuleTypes::F32: return f32;
    case RuleTypes::F64: {
      const auto act = function_f64_of(op);
      return f64 && act && kernels::takes_f64(*act);
    }
    case RuleTypes::Reals: return f32 || f64;
    case RuleTypes::Wide: return is_wide_number(dtype);
    case RuleTypes::F32orWide: return f32 || is_wide_number(dtype);
    case RuleTypes::Bytes: return bytes;
    case RuleTypes::F32orBytes: return f32 || bytes;
    case RuleTypes::Numbers: return kernels::is_number(dtype);
    case RuleTypes::Limits:
      return (op == Op::Clip && f32) ||
             ((op == Op::Clip || op == Op::Relu) && kernels::takes(kernels::ElementOp::Min, dtype));
    case RuleTypes::Element: {
      const auto element = element_of(op);
      return element && (op == Op::Where ? dtype == DType::Bool : kernels::takes(*element, dtype));
    }
    case RuleTypes::Variadic:
      return f32 || (op != Op::Mean &&
                     kernels::takes(op == Op::Sum ? kernels::ElementOp::Add : kernels::ElementOp::Min, dtype));
    case RuleTypes::Reduction: {
      const auto reduction = reduction_of(op);
      return reduction && (f32 || kernels::takes(*reduction, dtype));
    }
    case RuleTypes::Castable: return castable(dtype);
    case RuleTypes::Quantize: return op == Op::DequantizeLinear ? is_integer(dtype) : f32;
    case RuleTypes::Any: break;
  }
  return true;
}

bool has_rules(qir::Op op) noexcept { return operator_row(op) != nullptr; }
const char *leaves_of(qir::Op op) noexcept {
  const OperatorRow *const row = operator_row(op);
  return row ? row->leaves : "";
}

std::span<const RuleId> rules_for(qir::Op op, bool quantized) noexcept {
  const OperatorRow *const row = operator_row(op);
  if (!row) return {};
  return quantized ? std::span<const RuleId>(row->quantized) : std::span<const RuleId>(row->plain);
}

Rule rule_of(RuleId id) noexcept {
  const RuleFunction &rule = kRules[index_of(id)];
  return kOfNode[index_of(id)] ? Rule{nullptr, rule.of_node} : Rule{rule.of_group, nullptr};
}

}  // namespace quarry::cpu
