// SPDX-License-Identifier: Apache-2.0
// Operators on bits as arithmetic, and shifts of signed integers out of what exporters make of them: to the bit.
#include <limits>

#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

bool on_bits(const qir::Graph &, const qir::Node &) { return true; }

// Inputs of 32 and 64 bits are numbers of 32.
i32 drawn(Pieces &p, DType dtype, std::int64_t count) {
  if (dtype != DType::I64) return p.input({count}, dtype);
  return p.node(Op::Cast, {p.input({count}, DType::I32)}, {number("to", static_cast<std::int64_t>(DType::I64))});
}

void check_bits(Pieces &p, Op op) {
  const std::vector<double> expected = run(p.graph);
  passes::decompose_unsupported(p.graph, p.store, on_bits);
  CHECK_EQ(count(p.graph, op), 0u);
  CHECK_EQ(run(p.graph), expected);
}

i32 mask(Pieces &p, DType dtype, qir::Shape shape, std::int64_t value) {
  switch (dtype) {
    case DType::U8: return p.constant<std::uint8_t>(dtype, std::move(shape), {static_cast<std::uint8_t>(value)});
    case DType::I8: return p.constant<std::int8_t>(dtype, std::move(shape), {static_cast<std::int8_t>(value)});
    case DType::U16: return p.constant<std::uint16_t>(dtype, std::move(shape), {static_cast<std::uint16_t>(value)});
    case DType::I16: return p.constant<std::int16_t>(dtype, std::move(shape), {static_cast<std::int16_t>(value)});
    case DType::I32: return p.constant<std::int32_t>(dtype, std::move(shape), {static_cast<std::int32_t>(value)});
    default: return p.constant<std::int64_t>(dtype, std::move(shape), {value});
  }
}

constexpr DType kTypes[] = {DType::U8, DType::I8, DType::U16, DType::I16, DType::I32, DType::I64};

// A constant mask, as the first operand and as the second.
void check_with_masks(Op op, DType dtype) {
  for (const std::int64_t value : {0ll, 1ll, 0x35ll, 0x7fll, -1ll, -0x1cll})
    for (const bool first : {false, true}) {
      Pieces known;
      const i32 x = drawn(known, dtype, 300), m = mask(known, dtype, {1, 1}, value);
      known.gives({known.node(op, {first ? m : x, first ? x : m})});
      check_bits(known, op);
    }
}

}  // namespace

TEST_CASE("operators on bits are arithmetic") {
  for (const DType dtype : kTypes) {
    CAPTURE(dtype_name(dtype));
    for (const Op op : {Op::BitwiseAnd, Op::BitwiseOr, Op::BitwiseXor}) {
      Pieces p;
      p.gives({p.node(op, {drawn(p, dtype, 300), drawn(p, dtype, 300)})});
      check_bits(p, op);
      check_with_masks(op, dtype);
    }
    Pieces p;
    p.gives({p.of(Op::BitwiseNot, drawn(p, dtype, 300))});
    check_bits(p, Op::BitwiseNot);
  }
}

TEST_CASE("shifts are products and quotients") {
  for (const DType dtype : kTypes) {
    CAPTURE(dtype_name(dtype));
    for (const char *const direction : {"LEFT", "RIGHT"}) {
      const Vector<qir::Attribute> attributes = {Pieces::attribute("direction", std::string_view(direction))};
      for (const std::int64_t by : {0, 1, 3, 7, 8, 15, 16, 30, 31, 40}) {
        if (dtype == DType::I64 && (by > 31 || direction[0] == 'L')) continue;  // past 32 bits
        Pieces p;
        p.gives({p.node(Op::BitShift, {drawn(p, dtype, 300), mask(p, dtype, {}, by)}, attributes)});
        check_bits(p, Op::BitShift);
      }
      if (dtype_bits(dtype) > 16) continue;
      Pieces p;
      p.gives({p.node(Op::BitShift, {drawn(p, dtype, 300), drawn(p, dtype, 300)}, attributes)});
      check_bits(p, Op::BitShift);
    }
  }
}

TEST_CASE("bits past what 32 bits hold stay") {
  const auto stays = [](Pieces &p, Op op) {
    passes::decompose_unsupported(p.graph, p.store, on_bits);
    CHECK_EQ(count(p.graph, op), 1u);
  };
  Pieces wide, amount, plain;
  wide.gives({wide.node(Op::BitwiseAnd, {wide.input({3}, DType::I64), mask(wide, DType::I64, {}, 0xffffffff)})});
  stays(wide, Op::BitwiseAnd);
  amount.gives({amount.node(Op::BitShift, {amount.input({3}, DType::I32), amount.input({3}, DType::I32)},
                            {Pieces::attribute("direction", std::string_view("RIGHT"))})});
  stays(amount, Op::BitShift);
  plain.gives({plain.of(Op::BitwiseNot, plain.input({3}, DType::U32))});
  stays(plain, Op::BitwiseNot);
}

namespace {

// x < 0 ? (x >> by | filled) : x >> by, or x << by, as PyTorch's exporter has them.
void exported(Pieces &p, bool right, std::int64_t by, std::uint64_t filled) {
  const auto cast = [&](i32 x, DType to) {
    return p.node(Op::Cast, {x}, {number("to", static_cast<std::int64_t>(to))});
  };
  const auto word = [&](std::uint64_t value) { return p.constant<std::uint64_t>(DType::U64, {}, {value}); };
  const i32 x = p.input({300}, DType::I64), plain = cast(x, DType::U64);
  const i32 shifted = p.node(Op::BitShift, {plain, word(static_cast<std::uint64_t>(by))},
                             {Pieces::attribute("direction", std::string_view(right ? "RIGHT" : "LEFT"))});
  if (!right) return void(p.gives({cast(shifted, DType::I64)}));
  const i32 negative = cast(p.node(Op::BitwiseOr, {shifted, word(filled)}), DType::I64);
  const i32 below = p.node(Op::Less, {x, p.constant<std::int64_t>(DType::I64, {}, {0})});
  p.gives({p.node(Op::Where, {below, negative, cast(shifted, DType::I64)})});
}

}  // namespace

TEST_CASE("shifts of signed integers are found in their casts") {
  for (const bool right : {false, true}) {
    Pieces p;
    exported(p, right, 3, std::uint64_t{7} << 61);
    const std::vector<double> expected = run(p.graph);
    passes::join_signed_shifts(p.graph, p.store);
    CHECK_EQ(ops(p.graph), "BitShift");
    REQUIRE_OK(qir::validate_graph(p.graph));
    CHECK_EQ(run(p.graph), expected);
  }
  Pieces other;  // not the bits that a sign fills
  exported(other, true, 3, std::uint64_t{3} << 61);
  const std::string before = ops(other.graph);
  passes::join_signed_shifts(other.graph, other.store);
  CHECK_EQ(ops(other.graph), before);
}
