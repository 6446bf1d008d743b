// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/program/compiled_plan.h"

#include <algorithm>

#include "base/checked.h"

namespace quarry::gpu {

bool is_refused(const Compiled &compiled) {
  return std::ranges::any_of(compiled.refused, [](const Status &status) { return !status.ok(); });
}

bool form_of(const Plan &plan, const Step &step, Vector<StepOperand> &operands, Form &out) {
  if (step.kernel >= static_cast<std::uint32_t>(Kernel::Count) || step.operand_count > kMaxOperands ||
      !range_fits(step.first_operand, step.operand_count, plan.operands.size()) ||
      !range_fits(step.first_code, step.code_count, plan.code.size()))
    return false;
  out.kernel = static_cast<Kernel>(step.kernel);
  const std::size_t fields = field_count(kernel_row(out.kernel));
  const std::span<const std::int32_t> numbers = plan.numbers;
  if (!range_fits(step.numbers, fields + 1, numbers.size())) return false;
  out.fields = numbers.subspan(step.numbers, fields);
  const std::int32_t rank = numbers[step.numbers + fields];
  if (rank < 0 || rank > static_cast<std::int32_t>(kMaxRank)) return false;
  const std::size_t r = static_cast<std::size_t>(rank), at = step.numbers + fields + 1;
  if (!range_fits(at, r * (step.operand_count + 1u), numbers.size())) return false;
  out.nest = Nest();
  out.nest.rank = static_cast<std::uint32_t>(rank);
  std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(at), r, out.nest.dims);
  operands.clear();
  for (std::size_t i = 0; i < step.operand_count; ++i) {
    const Operand &operand = plan.operands[step.first_operand + i];
    const auto dtype = dtype_from_number(operand.dtype);
    if (!dtype || operand.value >= plan.values.size()) return false;
    operands.push_back({*dtype, operand.offset, operand.scale, operand.zero});
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(at + r * (i + 1)), r, out.nest.strides[i]);
  }
  out.operands = operands;
  out.code = std::span(plan.code).subspan(step.first_code, step.code_count);
  return true;
}

}  // namespace quarry::gpu
