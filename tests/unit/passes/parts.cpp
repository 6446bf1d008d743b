// SPDX-License-Identifier: Apache-2.0
// Parts of graphs: what a head and the part behind it hold, and where a graph is cut around nodes that are refused.
#include "graph/edit/graph_part.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

std::string names(const qir::Graph &graph, const Vector<i32> &ids) {
  std::string text;
  for (const i32 id : ids) (text += text.empty() ? "" : " ") += graph.tensors[index_of(id)].name;
  return text;
}

// abs -> sqrt -> exp -> neg, and abs + neg; `x` is t1.
struct Chain {
  Pieces p;
  i32 x, abs, sqrt, exp, neg, sum;
  Chain() {
    x = p.input({4});
    abs = p.of(Op::Abs, x), sqrt = p.of(Op::Sqrt, abs), exp = p.of(Op::Exp, sqrt), neg = p.of(Op::Neg, exp);
    sum = p.add(abs, neg);
    p.gives({sum, sqrt});
  }
  std::string_view name(i32 id) { return p.at(id).name; }
};

}  // namespace

TEST_CASE("a head ends at tensors, what is behind it begins at them") {
  Chain head;
  REQUIRE_OK(qir::take_part(head.p.graph, {.head = {head.name(head.exp), head.name(head.abs)}}));
  CHECK_EQ(ops(head.p.graph), "Abs Sqrt Exp");
  CHECK_EQ(names(head.p.graph, head.p.graph.outputs), "t4 t2");
  Chain tail;
  REQUIRE_OK(qir::take_part(tail.p.graph, {.tail = {tail.name(tail.exp), tail.name(tail.abs)}}));
  CHECK_EQ(ops(tail.p.graph), "Sqrt Neg Add");
  CHECK_EQ(names(tail.p.graph, tail.p.graph.inputs), "t4 t2");
  Chain middle;
  REQUIRE_OK(qir::take_part(middle.p.graph, {.tail = {middle.name(middle.sqrt)}, .head = {middle.name(middle.exp)}}));
  CHECK_EQ(ops(middle.p.graph), "Exp");
  CHECK_EQ(names(middle.p.graph, middle.p.graph.inputs), "t3");
}

TEST_CASE("what the part behind needs from in front of the cut it computes again") {
  Chain c;
  REQUIRE_OK(qir::take_part(c.p.graph, {.tail = {c.name(c.exp)}}));
  CHECK_EQ(ops(c.p.graph), "Abs Neg Add");
  CHECK_EQ(names(c.p.graph, c.p.graph.inputs), "t4 t1");
  CHECK_EQ(c.p.graph.outputs.size(), 1u);
}

TEST_CASE("watched tensors come behind the outputs") {
  Chain c;
  const std::string own = names(c.p.graph, c.p.graph.outputs);
  REQUIRE_OK(qir::take_part(c.p.graph, {.watch = {"*"}}));
  CHECK_EQ(names(c.p.graph, c.p.graph.outputs), own + " t2 t4 t5");
  Chain one;
  REQUIRE_OK(qir::take_part(one.p.graph, {.watch = {one.name(one.exp)}}));
  CHECK_EQ(names(one.p.graph, one.p.graph.outputs), own + " t4");
}

TEST_CASE("tensors that are none, and parts with nothing in them") {
  Chain c;
  CHECK_EQ(qir::take_part(c.p.graph, {.head = {"nowhere"}}).id(), "QR-C0102");
  Chain empty;
  CHECK_EQ(qir::take_part(empty.p.graph, {.tail = {empty.name(empty.exp)}, .head = {empty.name(empty.abs)}}).id(),
           "QR-C0102");
}

TEST_CASE("cuts leave as many nodes as can be") {
  const auto cut = [](std::initializer_list<std::size_t> bad) {
    Chain c;
    Vector<bool> refused(c.p.graph.nodes.size());
    for (const std::size_t node : bad) refused[node] = true;
    const qir::CutPoints found = qir::find_cuts(c.p.graph, refused);
    return format("%zu: %s | %s", found.kept, names(c.p.graph, found.front).c_str(),
                  names(c.p.graph, found.back).c_str());
  };
  CHECK_EQ(cut({}), "0:  | ");
  CHECK_EQ(cut({0}), "4: t2 | ");
  CHECK_EQ(cut({4}), "4:  | t2 t5");
  CHECK_EQ(cut({0, 4}), "3: t2 | t5");
  CHECK_EQ(cut({1}), "3: t3 t2 | ");
  CHECK_EQ(cut({0, 1, 2, 3, 4}), "0:  | ");
}
