// SPDX-License-Identifier: Apache-2.0
// Integer products with a scale behind them: what cpu-reference gives before and after.
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

i32 byte_weights(Pieces &p, qir::Shape shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  std::vector<std::int8_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<std::int8_t>(i * 37 % 255 - 127));
  return p.constant(DType::I8, std::move(shape), values);
}
// The sums as reals, times a scale that is an input.
i32 scaled(Pieces &p, i32 sums, qir::Shape scale) {
  const i32 real = p.node(Op::Cast, {sums}, {Pieces::attribute("to", static_cast<std::int64_t>(DType::F32))});
  return p.mul(p.input(std::move(scale)), real);
}
void compare(Pieces &p, i32 result, std::string_view left) {
  p.gives({result});
  const std::vector<double> expected = run(p.graph);
  passes::scale_integer_products(p.graph, p.store);
  CHECK_EQ(ops(p.graph), left);
  CHECK(difference(run(p.graph), expected) < 1e-5);
}

}  // namespace

TEST_CASE("integer products that are scaled become products of reals") {
  {
    Pieces p;
    const i32 x = p.input({2, 3, 40}, DType::U8), zero = p.input({}, DType::U8);
    const i32 zeros = p.constant<std::int8_t>(DType::I8, {5}, {-3, 0, 7, 100, -128});
    const i32 sums = p.node(Op::MatMulInteger, {x, byte_weights(p, {40, 5}), zero, zeros});
    compare(p, scaled(p, sums, {5}), "DequantizeLinear DequantizeLinear MatMul Mul Mul");
  }
  {
    Pieces p;
    const i32 x = p.input({1, 4, 6, 5}, DType::U8), zero = p.input({1}, DType::U8);
    const i32 sums = p.node(Op::ConvInteger, {x, byte_weights(p, {6, 2, 3, 3}), zero},
                            {Pieces::attribute("group", std::int64_t{2}), Pieces::attribute("pads", Ints{1, 1, 0, 1})});
    compare(p, scaled(p, sums, {}), "Reshape DequantizeLinear DequantizeLinear Conv Mul Mul");
  }
}

TEST_CASE("integer products that are read as integers stay") {
  Pieces p;
  const i32 x = p.input({3, 40}, DType::U8);
  const i32 sums = p.node(Op::MatMulInteger, {x, byte_weights(p, {40, 5})});
  const i32 result = scaled(p, sums, {});
  p.gives({result, sums});
  passes::scale_integer_products(p.graph, p.store);
  CHECK_EQ(ops(p.graph), "MatMulInteger Cast Mul");
}
