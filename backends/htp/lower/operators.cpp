// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "graph/ops/quantization.h"

namespace quarry::htp {

namespace {

// By its name: under the undefined-behaviour sanitizer the address of a function is no constant.
constexpr bool decomposes(std::string_view rule) noexcept { return rule == "rewritten"; }

constexpr OperatorRow kOperators[] = {
#define QR_HTP_OP(op, rule, refuses)                                                        \
  {qir::Op::op, rules::rule, sizeof(refuses) > 1 ? "not: " refuses : "",                    \
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
