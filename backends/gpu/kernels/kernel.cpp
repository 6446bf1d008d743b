// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/kernels/kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/gpu/kernels/bounds.h"
#include "backends/gpu/text_of_kernels.h"

namespace quarry::gpu {

namespace {

// The fields' names as a text: "K X_CHANNEL IN*3 ".
#define QR_GPU_FIELD(name) #name " "
#define QR_GPU_FIELDS(name, count) #name "*" #count " "
#define QR_GPU_GROUP(type, member, fields) fields
constexpr KernelRow kKernels[] = {
#define QR_GPU_KERNEL(name, file, base, value, inner, fields, bounds) \
  {#name, file, kText_##name, base, value, inner, "" fields, bounds},
#include "backends/gpu/kernels/kernels.inc"
#undef QR_GPU_KERNEL
};
using Result = ElementRow::Result;
constexpr ElementRow kElements[] = {
#define QR_GPU_ELEMENT(name, operands, result, reals, integers) {#name, operands, Result::result, reals, integers},
#include "backends/gpu/kernels/elements.inc"
#undef QR_GPU_ELEMENT
};

Status check_code(const Form &form, const KernelRow &row) {
  if (row.value == 0 && row.base > 0)  // stores by itself
    return form.code.empty() && form.operands.size() == row.base + 1 ? Status()
                                                                     : bad_form(form, "code, which it does not run");
  // Registers: `value`, then each operand that the row does not read itself, but for the result.
  std::size_t registers = row.value + form.operands.size() - 1 - row.base;
  if (form.code.size() > kMaxCode) return bad_form(form, "too much code");
  for (const Instruction &one : form.code) {
    if (one.element >= static_cast<std::uint32_t>(Element::Count) ||
        one.number >= static_cast<std::uint32_t>(Number::Count))
      return bad_form(form, "an instruction that is not known");
    const ElementRow &element = kElements[one.element];
    const std::uint32_t read[] = {one.a, one.b, one.c};
    for (std::uint32_t i = 0; i < element.operands; ++i)
      if (read[i] >= registers) return bad_form(form, "an instruction that reads what is not there");
    if (static_cast<Element>(one.element) == Element::Index && one.p >= form.nest.rank)
      return bad_form(form, "a coordinate that is not there");
    ++registers;
  }
  return registers == 0 ? bad_form(form, "nothing to store") : Status();
}

// Kernels whose elements may be stored as integers of a scale: they touch them by LOAD and STORE alone.
bool may_scale(Kernel kernel) {
  switch (kernel) {
    case Kernel::GridSample:
    case Kernel::Lrn:
    case Kernel::Normalize:
    case Kernel::Pool:
    case Kernel::Reduce:
    case Kernel::Resize:
    case Kernel::Softmax: return true;
    default: return false;
  }
}

Status check_operand(const Form &form, const StepOperand &operand) {
  const auto number = number_of(operand.dtype);
  if (!number) return bad_form(form, "an element type that kernels do not have");
  if (operand.scale == 0) return {};
  if (!may_scale(form.kernel) || !(operand.scale > 0) || !std::isfinite(operand.scale) || *number == Number::Truth ||
      is_real(*number) || dtype_bits(operand.dtype) > 16)
    return bad_form(form, "a scale of what has none");
  const std::int32_t bits = static_cast<std::int32_t>(dtype_bits(operand.dtype));
  if (operand.zero < -(1 << (bits - 1)) || operand.zero >= 1 << bits)
    return bad_form(form, "a zero point that is none");
  return {};
}

}  // namespace

std::optional<Number> number_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::F32:
    case DType::F16:
    case DType::BF16: return Number::Float;
    case DType::F64: return Number::Double;
    case DType::I8:
    case DType::I16:
    case DType::I32: return Number::Int;
    case DType::U8:
    case DType::U16:
    case DType::U32: return Number::Uint;
    case DType::I64: return Number::Long;
    case DType::U64: return Number::Ulong;
    case DType::Bool: return Number::Truth;
    default: return std::nullopt;
  }
}

std::optional<Number> number_of(const StepOperand &operand) noexcept {
  return operand.scale != 0 ? std::optional(Number::Float) : number_of(operand.dtype);
}

const KernelRow &kernel_row(Kernel kernel) noexcept { return kKernels[index_of(kernel)]; }
const ElementRow &element_row(Element element) noexcept { return kElements[index_of(element)]; }

std::size_t field_count(const KernelRow &row) noexcept {
  std::size_t count = 0;
  for (const char *at = row.fields; *at; ++at) {
    if (at == row.fields || at[-1] == ' ') ++count;
    if (*at == '*') count += static_cast<std::size_t>(at[1] - '1');
  }
  return count;
}

Status bad_form(const Form &form, const char *what) {
  return Status::error(ErrorId::backend_bad_blob, format("gpu plan: %s: found %s", kernel_row(form.kernel).name, what));
}

void add_distance(Range &range, std::int64_t count, std::int64_t step) noexcept {
  if (count <= 1) return;
  // Whatever is too far is refused; sums of what is cut here do not overflow.
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  (step < 0 ? range.low : range.high) += std::clamp((count - 1) * step, -kFar, kFar);
}

Status nest_bounds(const Form &form, Bounds &out) {
  for (std::size_t o = 0; o < form.operands.size(); ++o)
    for (std::uint32_t d = 0; d < form.nest.rank; ++d)
      add_distance(out.ranges[o], form.nest.dims[d], form.nest.strides[o][d]);
  return {};
}

Status find_bounds(const Form &form, Bounds &out) {
  if (form.kernel >= Kernel::Count)
    return Status::error(ErrorId::backend_bad_blob, "gpu plan: found a kernel that is not known");
  const KernelRow &row = kernel_row(form.kernel);
  if (form.operands.size() <= row.base || form.operands.size() > kMaxOperands)
    return bad_form(form, "a number of operands that it does not take");
  if (form.fields.size() != field_count(row)) return bad_form(form, "a number of fields that it does not have");
  if (form.nest.rank > kMaxRank || form.nest.rank < row.inner) return bad_form(form, "a number of coordinates");
  std::int64_t count = 1;
  for (std::uint32_t d = 0; d < form.nest.rank; ++d) {
    if (form.nest.dims[d] < 1 || __builtin_mul_overflow(count, form.nest.dims[d], &count) || count > INT32_MAX)
      return bad_form(form, "dimensions that are none");
  }
  for (const StepOperand &operand : form.operands) QR_RETURN_IF_ERROR(check_operand(form, operand));
  QR_RETURN_IF_ERROR(check_code(form, row));
  out = Bounds();
  QR_RETURN_IF_ERROR(row.bounds(form, out));
  // Indices are computed in 32 bits.
  for (std::size_t o = 0; o < form.operands.size(); ++o) {
    const std::int64_t offset = form.operands[o].offset;
    if (offset < 0 || offset + out.ranges[o].low < 0 || offset + out.ranges[o].high > INT32_MAX)
      return bad_form(form, "an operand that does not lie in its value");
  }
  return {};
}

}  // namespace quarry::gpu
