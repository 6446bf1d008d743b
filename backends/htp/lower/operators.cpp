// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "backends/common/op_types.h"
#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "graph/ops/op_spec.h"
#include "graph/ops/quantization.h"

namespace quarry::htp {

namespace {

// By its name: under the undefined-behaviour sanitizer the address of a function is no constant.
constexpr bool decomposes(std::string_view rule) noexcept { return rule == "rewritten"; }

// The words of the table.
constexpr std::uint32_t Reals = OperatorRow::bits(DType::F32, DType::F16) | OperatorRow::bits(DType::F64, DType::BF16),
                        Whole = OperatorRow::bits(DType::I32, DType::I64),
                        Counts = OperatorRow::bits(DType::U32, DType::U64),
                        Small = OperatorRow::bits(DType::I8, DType::U8),
                        Short = OperatorRow::bits(DType::I16, DType::U16),
                        Singles = Reals & ~OperatorRow::bits(DType::F16, DType::F16),
                        Byte = OperatorRow::bits(DType::U8, DType::U8),
                        Word = OperatorRow::bits(DType::U16, DType::U16),
                        Bools = OperatorRow::bits(DType::Bool, DType::Bool),
                        All = Reals | Whole | Counts | Small | Short | Bools;

constexpr OperatorRow kOperators[] = {
#define QR_HTP_OP(op, rule, types, refuses)                                                 \
  {qir::Op::op, rules::rule, types, sizeof(refuses) > 1 ? "not: " refuses : "",             \
   decomposes(#rule)     ? sizeof(refuses) > 1 ? "decomposed; not: " refuses : "decomposed" \
   : sizeof(refuses) > 1 ? "not: " refuses                                                  \
                         : ""},
#include "backends/htp/lower/operators.inc"
#undef QR_HTP_OP
};

}  // namespace

const OperatorRow *find_operator(qir::Op op) noexcept {
  const auto found =
      std::find_if(std::begin(kOperators), std::end(kOperators), [&](const OperatorRow &row) { return row.op == op; });
  return found == std::end(kOperators) ? nullptr : &*found;
}

namespace {

bool is_arithmetic(qir::Op op) noexcept {
  using qir::Op;
  return op == Op::Add || op == Op::Div || op == Op::Mod || op == Op::Mul || op == Op::Sub;
}

}  // namespace

String types_text(const OperatorRow &row) {
  String text = plugin::types_text(row.op, row.types);
  if ((row.types & Reals) != 0) text += text.empty() ? "quantised i8 i16 u8 u16" : ", quantised i8 i16 u8 u16";
  return text;
}

Status check_operand_types(const qir::Graph &graph, const qir::Node &node, const OperatorRow &row) {
  const qir::TypeSpec spec(qir::op_row(node.op).types);
  std::string_view first_of = spec.inputs().empty() ? spec.outputs() : spec.inputs();
  qir::TypeSlot first, slot;
  if (!qir::TypeSpec::next(&first_of, &first)) return {};
  const bool has_quantized = std::ranges::any_of(
      node.inputs, [&](std::int32_t id) { return id != qir::kAbsent && qir::at(graph, id).quant.has_value(); });
  const auto check = [&](std::string_view list, const auto &ids) -> Status {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!slot.variadic || i == 0) {
        if (!qir::TypeSpec::next(&list, &slot)) break;
      }
      if (ids[i] == qir::kAbsent || slot.type != first.type) continue;
      const qir::Tensor &tensor = qir::at(graph, ids[i]);
      // Sums of small integers were decomposed before, or saturate now.
      const bool saturates = is_plain_small(tensor) && is_arithmetic(node.op);
      // Beside quantised operands others are what belongs to them (a bias of i32), and for the library to check.
      if (tensor.quant || (has_quantized && !is_plain_small(tensor)) ||
          (!saturates && (row.types & qir::dtype_bit(tensor.dtype)) != 0))
        continue;
      return refuse(ErrorId::backend_type,
                    format("%s of %s without a quantisation, expected %s", qir::op_text(node), dtype_name(tensor.dtype),
                           types_text(row)),
                    is_plain_small(tensor) ? "on the device such integers would saturate: cast them to i32, or quantise"
                                           : "cast it before the node, and back behind it");
    }
    slot = {};
    return {};
  };
  QR_RETURN_IF_ERROR(check(spec.inputs(), node.inputs));
  return check(spec.outputs(), node.outputs);
}

bool is_rewritten(qir::Op op) noexcept {
  const OperatorRow *const row = find_operator(op);
  return row && row->rule == rules::rewritten;
}

bool is_decomposed(const qir::Graph &graph, const qir::Node &node) {
  using qir::Op;
  const auto constant = [&](std::size_t i) {
    const std::int32_t id = node.inputs[i];
    if (id == qir::kAbsent) return true;
    const qir::Tensor &t = qir::at(graph, id);
    return t.is_constant && element_count(t.shape.data(), t.shape.size()) == 1;
  };
  const auto dilated = [&] {
    const Vector<std::int64_t> *const given = node.get_ints("dilations");
    return given && std::ranges::any_of(*given, [](std::int64_t d) { return d != 1; });
  };
  switch (node.op) {
    case Op::Asin: return !qir::at(graph, node.inputs[0]).quant;
    case Op::ConvTranspose: return true;  // where the kernel has holes, or more is asked for than it reaches
    case Op::Pad: return true;            // where it cuts
    case Op::MaxPool: return dilated() || (node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent);
    case Op::TopK: return true;
    case Op::MatMulInteger: return !constant(2) || !constant(3);
    case Op::QuantizeLinear:
    case Op::DequantizeLinear: {
      const std::optional<qir::Quantization> read = qir::read_quantization(graph, node);
      return !read || !read->per_tensor();
    }
    case Op::Mod:
    case Op::Add:
    case Op::Div:
    case Op::Mul:
    case Op::Sub:
      return is_plain_small(qir::at(graph, node.outputs[0])) || (node.op == Op::Mod && node.get_int("fmod", 0) != 0);
    default: return is_rewritten(node.op);
  }
}

}  // namespace quarry::htp
