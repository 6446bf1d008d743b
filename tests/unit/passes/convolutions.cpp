// SPDX-License-Identifier: Apache-2.0
// Convolutions behind SpaceToDepth, in the ways that exporters write it, and convolutions beside one another.
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

constexpr double kRounding = 1e-6;
const Ints kPads{1, 1, 1, 1};

// Each weight another number.
i32 weights(Pieces &p, qir::Shape shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return p.column(count, std::move(shape));
}
i32 conv(Pieces &p, i32 x, qir::Shape w, Ints pads, Ints strides = {1, 1}, std::int64_t group = 1, bool bias = true) {
  const std::int64_t channels = w[0];
  Vector<i32> inputs{x, weights(p, std::move(w))};
  if (bias) inputs.push_back(p.column(channels));
  return p.node(Op::Conv, inputs,
                {Pieces::attribute("pads", std::move(pads)), Pieces::attribute("strides", std::move(strides)),
                 Pieces::attribute("group", group)});
}
i32 slice(Pieces &p, i32 x, std::int64_t axis, std::int64_t start, std::int64_t step) {
  return p.node(Op::Slice, {x, p.integers({start}), p.integers({INT64_MAX}), p.integers({axis}), p.integers({step})});
}
// The four quarters of an image in this order (2 * row + column), as YOLOX has them.
i32 focus(Pieces &p, i32 x, const std::vector<std::int64_t> &order, std::int64_t step = 2) {
  Vector<i32> parts;
  for (const std::int64_t i : order) parts.push_back(slice(p, slice(p, x, 2, i / 2, step), 3, i % 2, step));
  return p.node(Op::Concat, std::move(parts), {Pieces::attribute("axis", std::int64_t{1})});
}
// What is left of the graph, whose results stay.
std::string simplified(Pieces &p, Vector<passes::Joined> *found = nullptr) {
  const std::vector<double> expected = run(p.graph);
  passes::simplify_convolutions(p.graph, p.store, false, found);
  CHECK_OK(qir::validate_graph(p.graph));
  CHECK_LE(difference(run(p.graph), expected), kRounding);
  return ops(p.graph);
}

}  // namespace

TEST_CASE("a convolution behind SpaceToDepth reads the image") {
  for (const Ints &strides : {Ints{1, 1}, Ints{2, 1}}) {
    Pieces p;
    const i32 x = p.input({2, 3, 8, 12});
    const i32 deep = p.node(Op::SpaceToDepth, {x}, {Pieces::attribute("blocksize", std::int64_t{2})});
    p.gives({conv(p, deep, {5, 12, 3, 3}, {1, 0, 1, 1}, strides)});
    CHECK_EQ(simplified(p), "Conv");
    CHECK_EQ(p.at(p.graph.nodes[0].inputs[1]).shape, (qir::Shape{5, 3, 6, 6}));
  }
}

TEST_CASE("quarters of an image in any order are SpaceToDepth") {
  for (const auto &order : {std::vector<std::int64_t>{0, 2, 1, 3}, {0, 1, 2, 3}, {3, 1, 0, 2}}) {
    Pieces p;
    p.gives({conv(p, focus(p, p.input({1, 3, 8, 10}), order), {7, 12, 3, 3}, kPads)});
    Vector<passes::Joined> found;
    CHECK_EQ(simplified(p, &found), "Conv");
    CHECK_EQ(found.size(), 9u);
    for (const passes::Joined &one : found) CHECK_EQ(one.into, 9);
  }
}

TEST_CASE("what is not quite SpaceToDepth stays") {
  const auto left = [](const std::vector<std::int64_t> &order, qir::Shape image, std::int64_t step, std::int64_t in) {
    Pieces p;
    p.gives({conv(p, focus(p, p.input(std::move(image)), order, step), {4, in, 3, 3}, kPads)});
    return simplified(p).ends_with("Concat Conv");
  };
  CHECK(!left({0, 2, 1, 3}, {1, 3, 8, 10}, 2, 12));
  CHECK(left({0, 2, 1, 1}, {1, 3, 8, 10}, 2, 12));  // one of them twice
  CHECK(left({0, 2, 1, 3}, {1, 5, 8, 10}, 2, 20));  // many channels
  CHECK(left({0, 2, 1, 3}, {1, 3, 8, 11}, 3, 12));  // pixels between them
  CHECK(left({0, 2}, {1, 3, 8, 10}, 2, 6));         // half of it
}

TEST_CASE("pieces that somebody else reads stay") {
  Pieces p;
  const i32 x = p.input({1, 3, 8, 10}), deep = focus(p, x, {0, 2, 1, 3});
  p.gives({conv(p, deep, {4, 12, 3, 3}, kPads), p.graph.nodes[1].outputs[0]});
  CHECK_EQ(simplified(p), "Slice Slice Conv");
  Pieces q;
  const i32 all = focus(q, q.input({1, 3, 8, 10}), {0, 2, 1, 3});
  q.gives({conv(q, all, {4, 12, 3, 3}, kPads), all});
  CHECK(simplified(q).ends_with("Concat Conv"));
}

TEST_CASE("small convolutions of one tensor become one, and depthwise ones behind them") {
  for (const bool bias : {true, false}) {
    Pieces p;
    const i32 x = p.input({1, 6, 5, 7});
    const i32 a = conv(p, x, {1, 6, 1, 1}, {0, 0, 0, 0}), b = conv(p, x, {4, 6, 1, 1}, {0, 0, 0, 0}, {1, 1}, 1, bias),
              c = conv(p, x, {2, 6, 1, 1}, {0, 0, 0, 0});
    const i32 c2 = conv(p, c, {2, 1, 3, 3}, kPads, {1, 1}, 2), a2 = conv(p, a, {1, 1, 3, 3}, kPads),
              b2 = conv(p, b, {4, 1, 3, 3}, kPads, {1, 1}, 4, bias);
    const i32 all = p.node(Op::Concat, {b2, a2, c2}, {Pieces::attribute("axis", std::int64_t{1})});
    p.gives({all});
    Vector<passes::Joined> found;
    CHECK_EQ(simplified(p, &found), "Conv Split Conv Split Concat");
    REQUIRE_EQ(found.size(), 4u);
    CHECK_EQ(found[0].source, 1);
    CHECK_EQ(found[0].into, 0);
  }
}

TEST_CASE("convolutions that differ, or fill vectors, stay by themselves") {
  Pieces p;
  const i32 x = p.input({1, 6, 5, 5});
  const i32 wide = conv(p, x, {16, 6, 1, 1}, {0, 0, 0, 0}), narrow = conv(p, x, {2, 6, 1, 1}, {0, 0, 0, 0}),
            large = conv(p, x, {2, 6, 3, 3}, kPads), other = conv(p, x, {2, 6, 1, 1}, {0, 0, 0, 0}, {2, 2}),
            each = conv(p, x, {6, 1, 3, 3}, kPads, {1, 1}, 6);
  p.gives({p.node(Op::Concat, {wide, narrow, large, each}, {Pieces::attribute("axis", std::int64_t{1})}), other});
  CHECK_EQ(simplified(p), "Conv Conv Conv Conv Conv Concat");
  // A depthwise one behind one part alone.
  Pieces q;
  const i32 y = q.input({1, 6, 5, 5}), first = conv(q, y, {2, 6, 1, 1}, {0, 0, 0, 0}),
            second = conv(q, y, {3, 6, 1, 1}, {0, 0, 0, 0}), filtered = conv(q, first, {2, 1, 3, 3}, kPads, {1, 1}, 2);
  q.gives({q.node(Op::Concat, {filtered, second}, {Pieces::attribute("axis", std::int64_t{1})})});
  CHECK_EQ(simplified(q), "Conv Split Conv Concat");
}
