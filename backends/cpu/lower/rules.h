// SPDX-License-Identifier: Apache-2.0
// The rules that operators.inc names, one file a family, and what several families write with.
#pragma once

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"

namespace quarry::cpu {

inline std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

#define QR_CPU_GROUP_RULE(name, ...) Result<Lowered> lower_##name(Lowering &l, const Group &group);
#define QR_CPU_NODE_RULE(name, ...) Result<Lowered> lower_##name(Lowering &l, const qir::Node &node);
#include "backends/cpu/lower/operators.inc"

enum class RuleId : std::uint8_t {
  None,
#define QR_CPU_GROUP_RULE(name, ...) name,
#define QR_CPU_NODE_RULE(name, ...) name,
#include "backends/cpu/lower/operators.inc"
};

// operators.cpp. Rules of an operator in the order in which they are tried, up to the first None; whether it has any,
// and what all of them leave, in a few words.
std::span<const RuleId> rules_for(qir::Op op, bool quantized) noexcept;
Rule rule_of(RuleId id) noexcept;
bool has_rules(qir::Op op) noexcept;
const char *leaves_of(qir::Op op) noexcept;
// Whether the rule is tried for a node of the operator whose first input (its first output, where it has none) is of
// the type. Coverage is made from it.
bool takes_type(RuleId id, qir::Op op, DType dtype) noexcept;

// What operators compute where the type decides: a kernel of elements, of one f64, of sums along axes; casts.
std::optional<kernels::ElementOp> element_of(qir::Op op) noexcept;   // elements.cpp
std::optional<kernels::Act> function_f64_of(qir::Op op) noexcept;    // elementwise.cpp
std::optional<kernels::ReduceOp> reduction_of(qir::Op op) noexcept;  // axis_scans.cpp
bool castable(DType dtype) noexcept;                                 // movement.cpp

// views.cpp: whether elements mean the same on both sides; and the node's first input and output are such, and it has
// no other output.
bool same_type(const qir::Tensor &a, const qir::Tensor &b);
bool moves_elements(const Lowering &l, const qir::Node &node);
// Each form of the input becomes one of the output.
Result<Lowered> view_with(Lowering &l, const qir::Node &node, View (*make)(const void *, const View &),
                          const void *self);
template <class Make>
Result<Lowered> view_as(Lowering &l, const qir::Node &node, const Make &make) {
  const auto call = [](const void *self, const View &form) { return View((*static_cast<const Make *>(self))(form)); };
  return view_with(l, node, call, &make);
}

// elementwise.cpp: the loop nest of a result and two operands, as kernels take it.
void set_nest(const Nest &nest, std::uint32_t *rank, std::int64_t *dims, std::int64_t *a, std::int64_t *b);
// elementwise.cpp: one step of f32; a and b have y's dimensions.
Status emit_binary(Lowering &l, kernels::BinaryOp op, const View &a, const View &b, const View &y,
                   const kernels::Activation &act = {});

// elements.cpp: one step; the operands have been matched (Lowering::match_nest), or are of few dimensions.
Status emit_elements(Lowering &l, kernels::Elements params, std::span<const View *const> operands, const View &y);

// pooling.cpp: the window of a pooling node; false where a kernel cannot take it.
bool pool_window(const Lowering &l, const qir::Node &node, kernels::Window *window, std::int32_t *pad_bottom,
                 std::int32_t *pad_right, kernels::PoolOp *op);

// pooling.cpp: bytes or quantised images; what p says of quantisation is set.
Result<Lowered> emit_pool_int(Lowering &l, const qir::Node &node, kernels::PoolInt p);

// quantized.cpp: of a tensor with one scale, as kernels take it; what its type holds.
kernels::Quant quant_of(const qir::Tensor &tensor);
struct Limits {
  std::int32_t low, high;
};
Limits limits_of(DType dtype);
// Both per tensor, of 8 or 16 bits; the elements of one in the quantisation of the other.
bool requantizable(const Lowering &l, std::int32_t from, std::int32_t to);
Status requantized(Lowering &l, std::int32_t from, std::int32_t to, View *out);

}  // namespace quarry::cpu
