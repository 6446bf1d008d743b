// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/htp/lower/rules.h"

namespace quarry::htp {

namespace {

constexpr OperatorRow kOperators[] = {
#define QR_HTP_OP(op, rule, note) {qir::Op::op, rules::rule, sizeof(note) > 1 ? "not: " note : ""},
#include "backends/htp/lower/operators.inc"
#undef QR_HTP_OP
};

}  // namespace

const OperatorRow *find_operator(qir::Op op) noexcept {
  const auto found =
      std::find_if(std::begin(kOperators), std::end(kOperators), [&](const OperatorRow &row) { return row.op == op; });
  return found == std::end(kOperators) ? nullptr : &*found;
}

}  // namespace quarry::htp
