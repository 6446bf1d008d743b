// SPDX-License-Identifier: Apache-2.0
// Which divisions by floats are scaled, on drafts.
#include "backends/htp/lower/divisors.h"

#include "backends/htp/lower/lowering.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

constexpr const char *kScaled =
    "ElementWiseAbs ElementWiseGreater ElementWiseSelect ElementWiseMultiply "
    "ElementWiseDivide ElementWiseMultiply";

std::string divided(Pieces &p) {
  htp::Draft draft;
  Vector<Status> refused(p.graph.nodes.size());
  htp::Lowering lowering(p.graph, *htp::find_soc(57), p.store, draft);
  REQUIRE_OK(lowering.run(refused));
  htp::scale_divisions(draft, p.store);
  std::string text;
  for (const htp::DraftNode &node : draft.nodes) text += (text.empty() ? "" : " ") + std::string(node.type);
  return text;
}

}  // namespace

TEST_CASE("a divisor that may be past what has a reciprocal is scaled, and the quotient") {
  Pieces p;
  const i32 x = p.input({2, 3});
  p.gives({p.div(x, p.input({2, 3}))});
  CHECK_EQ(divided(p), kScaled);
  Pieces large, one;
  large.gives({large.div(large.input({2}), large.constant<float>(DType::F32, {2}, {1, 20000}))});
  CHECK_EQ(divided(large), kScaled);
  one.gives({one.of(Op::Reciprocal, one.input({2}))});
  CHECK_EQ(divided(one), kScaled);
}

TEST_CASE("a divisor that is known to be smaller stays") {
  Pieces numbers, root, limited, sum, whole;
  numbers.gives({numbers.div(numbers.input({2}), numbers.column(2))});
  CHECK_EQ(divided(numbers), "ElementWiseDivide");
  const i32 x = root.input({2});
  root.gives({root.div(x, root.of(Op::Sqrt, root.add(root.mul(x, x), 1e-5)))});
  CHECK_EQ(divided(root), "ElementWiseMultiply ElementWiseAdd ElementWiseSquareRoot ElementWiseDivide");
  limited.gives({limited.div(limited.input({2}), limited.clip(limited.input({2}), 0.5, 100))});
  CHECK_EQ(divided(limited), "ReluMinMax ElementWiseDivide");
  sum.gives({sum.div(sum.input({2}), sum.add(sum.of(Op::Sigmoid, sum.input({2})), 1.0))});
  CHECK_EQ(divided(sum), "Sigmoid ElementWiseAdd ElementWiseDivide");
  whole.gives({whole.div(whole.input({2}, DType::I32), whole.input({2}, DType::I32))});
  CHECK_EQ(divided(whole),
           "ElementWiseAbs ElementWiseEqual ElementWiseAdd ElementWiseSelect ElementWiseAbs ElementWiseDivide "
           "ElementWiseAdd ElementWiseSelect ElementWiseLess ElementWiseLess ElementWiseXor ElementWiseSubtract "
           "ElementWiseSelect");  // toward zero
}
