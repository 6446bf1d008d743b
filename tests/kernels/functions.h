// SPDX-License-Identifier: Apache-2.0
// The functions of one element that kernels of cpu compute (graph/ops/functions.inc), with numbers that are no
// defaults.
#pragma once

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

struct KernelFunction {
  qir::Op op;
  Act act;                     // None: not of UnaryF32 and UnaryF64
  ElementOp element;           // Count: not of Elements
  const char *first, *second;  // attributes, "" where there is none
  float a, b;

  void set(qir::Node &node) const {
    if (*first) node.set(first, a);
    if (*second) node.set(second, b);
  }
};

constexpr float other_than(const char *name, float value) { return *name ? value / 2 + 0.25f : value; }
constexpr KernelFunction function_of(qir::Op op, Act act, const char *p, float a, const char *q, float b) {
  return {op, act, ElementOp::Count, p, q, other_than(p, a), other_than(q, b)};
}
constexpr KernelFunction function_of(qir::Op op, ElementOp element, const char *p, float a, const char *q, float b) {
  return {op, Act::None, element, p, q, other_than(p, a), other_than(q, b)};
}
inline constexpr KernelFunction kKernelFunctions[] = {
#define QR_FUNCTION(op, cpu, p, p_value, q, q_value, ...) function_of(qir::Op::op, cpu, p, p_value, q, q_value),
#include "graph/ops/functions.inc"
};

}  // namespace quarry::kernel_test
