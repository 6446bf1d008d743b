// SPDX-License-Identifier: Apache-2.0
#include "backends/common/op_types.h"

#include <algorithm>
#include <span>

#include "graph/ops/op_spec.h"

namespace quarry::plugin {

String types_text(qir::Op op, std::uint32_t taken) {
  constexpr DType kFloats[] = {DType::F16, DType::BF16, DType::F32, DType::F64};
  constexpr DType kSmallFloats[] = {DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ,
                                    DType::F4E2M1};
  constexpr DType kSmallIntegers[] = {DType::I4, DType::U4, DType::I2, DType::U2};
  constexpr DType kIntegers[] = {DType::I8, DType::I16, DType::I32, DType::I64,
                                 DType::U8, DType::U16, DType::U32, DType::U64};
  constexpr DType kBool[] = {DType::Bool};
  const qir::TypeSpec spec(qir::op_row(op).types);
  std::string_view list = spec.inputs().empty() ? spec.outputs() : spec.inputs();
  qir::TypeSlot slot;
  const std::uint32_t mask = qir::TypeSpec::next(&list, &slot) ? spec.mask(slot.type) & taken : 0;
  String text;
  const auto add = [&](std::span<const DType> types, const char *all) {
    const auto has = [&](DType dtype) { return (mask & qir::dtype_bit(dtype)) != 0; };
    if (std::ranges::all_of(types, has)) text += (text.empty() ? "" : " ") + String(all);
    else
      for (const DType dtype : types)
        if (has(dtype)) text += (text.empty() ? "" : " ") + String(dtype_name(dtype));
  };
  add(kFloats, "floats"), add(kIntegers, "integers"), add(kBool, "bool");
  add(kSmallFloats, "small_floats"), add(kSmallIntegers, "small_integers");
  return text;
}

}  // namespace quarry::plugin
