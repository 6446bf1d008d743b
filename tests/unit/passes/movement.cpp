// SPDX-License-Identifier: Apache-2.0
// Reshape, Transpose, Reshape in the ways that exporters write them.
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

struct Movement {
  const char *what;
  qir::Shape from, middle;
  Ints perm;
  qir::Shape to;
  const char *becomes;
};

}  // namespace

TEST_CASE("movements are found however they are cut into axes") {
  const Movement cases[] = {
      {"PixelShuffle of PyTorch", {2, 12, 3, 5}, {2, 3, 2, 2, 3, 5}, {0, 1, 4, 2, 5, 3}, {2, 3, 6, 10}, "DepthToSpace"},
      {"with axes of one element", {1, 9, 3, 5}, {1, 1, 3, 3, 3, 5}, {0, 1, 4, 2, 5, 3}, {1, 1, 9, 15}, "DepthToSpace"},
      {"without them", {1, 9, 3, 5}, {3, 3, 3, 5}, {2, 0, 3, 1}, {1, 1, 9, 15}, "DepthToSpace"},
      {"depth first", {2, 12, 3, 5}, {2, 2, 2, 3, 3, 5}, {0, 3, 4, 1, 5, 2}, {2, 3, 6, 10}, "DepthToSpace"},
      {"PixelUnshuffle", {2, 3, 6, 10}, {2, 3, 3, 2, 5, 2}, {0, 1, 3, 5, 2, 4}, {2, 12, 3, 5}, "SpaceToDepth"},
      {"space to depth, depth first",
       {2, 3, 6, 10},
       {2, 3, 3, 2, 5, 2},
       {0, 3, 5, 1, 2, 4},
       {2, 12, 3, 5},
       "SpaceToDepth"},
      {"windows of an image, channels last",
       {1, 6, 10, 4},
       {1, 2, 3, 2, 5, 4},
       {0, 1, 3, 2, 4, 5},
       {4, 15, 4},
       "Reshape Transpose Reshape"},
      {"channels that are shuffled",
       {1, 6, 4, 4},
       {1, 2, 3, 4, 4},
       {0, 2, 1, 3, 4},
       {1, 6, 4, 4},
       "Reshape Transpose Reshape"},
      {"nothing moves", {2, 3, 4}, {2, 1, 3, 4}, {1, 0, 2, 3}, {6, 4}, "Reshape Reshape"},
      {"another block",
       {1, 12, 3, 5},
       {1, 3, 2, 2, 3, 5},
       {0, 1, 4, 3, 5, 2},
       {1, 3, 6, 10},
       "Reshape Transpose Reshape"},
      {"as short as can be", {6, 4}, {2, 3, 4}, {2, 1, 0}, {4, 6}, "Reshape Transpose Reshape"},
  };
  for (const Movement &c : cases) {
    CAPTURE(c.what);
    Pieces p;
    const auto shaped = [&](i32 id, const qir::Shape &shape) {
      return p.node(Op::Reshape, {id, p.integers({shape.begin(), shape.end()})});
    };
    p.gives({shaped(p.transpose(shaped(p.input(c.from), c.middle), c.perm), c.to)});
    const std::vector<double> expected = run(p.graph);
    passes::simplify_movements(p.graph, p.store);
    CHECK_EQ(ops(p.graph), c.becomes);
    CHECK_EQ(run(p.graph), expected);
    for (const qir::Node &node : p.graph.nodes) {
      CHECK_GE(node.source, 0);
      if (node.op == Op::Transpose) CHECK_LE(p.at(node.inputs[0]).shape.size(), 5u);
    }
  }
}

TEST_CASE("a movement that somebody else looks into stays") {
  Pieces p;
  const i32 x = p.input({1, 9, 3, 5});
  const i32 middle = p.transpose(p.node(Op::Reshape, {x, p.integers({1, 1, 3, 3, 3, 5})}), {0, 1, 4, 2, 5, 3});
  p.gives({p.node(Op::Reshape, {middle, p.integers({1, 1, 9, 15})}), middle});
  passes::simplify_movements(p.graph, p.store);
  CHECK_EQ(ops(p.graph), "Reshape Transpose Reshape");
}
