// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/lower/coverage.h"

#include <algorithm>

#include "backends/common/op_types.h"
#include "backends/cpu/lower/rewrite.h"
#include "graph/ops/op_spec.h"
#include "kernels/reference/kernel.h"

namespace quarry::cpu {

namespace {

void append(String *to, std::string_view text, const char *between) {
  if (!text.empty()) *to += (to->empty() ? "" : between) + String(text);
}

bool by_rule(qir::Op op, DType dtype) {
  // f16 and bf16 are widened before the rules see them, unless the node only moves elements.
  const DType seen = dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype;
  return std::ranges::any_of(rules_for(op, false),
                             [&](RuleId id) { return id != RuleId::None && takes_type(id, op, seen); });
}

// The types that cpu-reference takes and no rule does.
String types_left(qir::Op op, const reference::KernelRow &row) {
  std::uint32_t left = 0;
  for (std::int64_t number = 1; number < 32; ++number)
    if (const auto dtype = dtype_from_number(number);
        dtype && reference::takes_dtype(row, *dtype) && !by_rule(op, *dtype))
      left |= qir::dtype_bit(*dtype);
  return plugin::types_text(op, left);
}

}  // namespace

String note_of(qir::Op op) {
  const reference::KernelRow *const row = reference::find_kernel(op);
  String note;
  if (has_rules(op)) {
    String left = row ? types_left(op, *row) : String();
    append(&left, leaves_of(op), "; ");
    if (!left.empty()) note = "by the reference: " + left;
  } else {
    note = decomposes(op) ? "decomposed" : "by the reference";
  }
  if (row) append(&note, row->note, "; ");
  return note;
}

}  // namespace quarry::cpu
