// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan, unfolded: what cpu-reference gives for the node and for what it became.
#include <deque>

#include "backends/cpu-reference/folder.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

// A graph, and what holds the constants of its bodies.
struct Model : Pieces {
  std::deque<Pieces> bodies;
};
// `made` becomes a body of the node.
void add_body(Model &p, Pieces &made, i32 node) {
  p.graph.nodes[static_cast<std::size_t>(node)].subgraphs.emplace_back(std::move(made.graph));
}

i32 add_node(Model &p, Op op, Vector<i32> inputs, Vector<i32> outputs, Vector<qir::Attribute> attributes = {}) {
  qir::Node &node = p.graph.nodes.emplace_back();
  node.op = op;
  node.name = "control";
  node.source = static_cast<i32>(p.graph.nodes.size() - 1);
  node.inputs = std::move(inputs), node.outputs = std::move(outputs), node.attributes = std::move(attributes);
  return node.source;
}
void check_unfolded(Model &p, Op op) {
  const Status valid = qir::validate_graph(p.graph);
  REQUIRE_OK(valid);
  const std::vector<double> wanted = run(p.graph);
  passes::unfold_control_flow(p.graph, p.store, 16);
  CHECK_EQ(count(p.graph, op), 0u);
  REQUIRE_OK(qir::validate_graph(p.graph));
  CHECK_EQ(run(p.graph), wanted);
}
void check_stays(Model &p, Op op, std::int64_t most = 16) {
  REQUIRE_OK(qir::validate_graph(p.graph));
  passes::unfold_control_flow(p.graph, p.store, most);
  CHECK_EQ(count(p.graph, op), 1u);
  CHECK_EQ(ops(p.graph), qir::op_name(op));
}

// then: x * 2 + 1; else: Neg(x), of a row less where `shorter`.
void branches(Model &p, bool shorter, std::optional<std::uint8_t> known) {
  const i32 x = p.input({2, 3});
  const i32 condition = known ? p.constant<std::uint8_t>(DType::Bool, {1}, {*known}) : p.input({1}, DType::Bool);
  const i32 y = p.tensor(DType::F32, {shorter ? -1 : 2, 3});
  const i32 node = add_node(p, Op::If, {condition, x}, {y});
  Pieces &yes = p.bodies.emplace_back(), &no = p.bodies.emplace_back();
  const i32 a = yes.input({2, 3});
  yes.gives({yes.add(yes.mul(a, 2.0), 1.0)});
  const i32 b = no.input({2, 3});
  const i32 turned = no.of(Op::Neg, b);
  no.gives({shorter ? no.node(Op::Slice, {turned, no.integers({0}), no.integers({1}), no.integers({0})}) : turned});
  add_body(p, yes, node), add_body(p, no, node);
  p.gives({y});
}

// carried = carried * 1.5 + x; slices of it.
void loop(Model &p, std::int64_t times, bool may_end, bool collects) {
  const i32 x = p.input({3}), start = p.column(3);
  const i32 trips = p.constant<std::int64_t>(DType::I64, {}, {times});
  const i32 last = p.tensor(DType::F32, {3}), all = p.tensor(DType::F32, {may_end ? -1 : times, 3});
  Vector<i32> outputs = {last};
  if (collects) outputs.push_back(all);
  const i32 node = add_node(p, Op::Loop, {trips, qir::kAbsent, start, x}, outputs, {number("carried", 1)});
  Pieces &once = p.bodies.emplace_back();
  once.input({}, DType::I64);
  const i32 go = once.input({}, DType::Bool), state = once.input({3}), added = once.input({3});
  const i32 made = once.add(once.mul(state, 1.5), added);
  i32 on = go;
  if (may_end) {
    const i32 sum = once.node(Op::ReduceSum, {made}, {number("keepdims", 0)});
    on = once.node(Op::Less, {sum, once.scalar(12)});
  }
  once.gives({on, made});
  if (collects) once.graph.outputs.push_back(once.of(Op::Neg, made));
  add_body(p, once, node);
  p.gives({collects ? all : last});
}

void scan(Model &p, bool backwards, std::int64_t axis, bool state_wanted) {
  const i32 x = p.input(axis == 0 ? qir::Shape{4, 3} : qir::Shape{3, 4}), start = p.column(3), scale = p.scalar(0.5f);
  const i32 last = p.tensor(DType::F32, {3}), all = p.tensor(DType::F32, {3, 4});
  Vector<qir::Attribute> attributes = {number("num_scan_inputs", 1), number("states", 1)};
  attributes.push_back(Pieces::attribute("scan_input_axes", Ints{axis}));
  attributes.push_back(Pieces::attribute("scan_output_axes", Ints{-1}));
  if (backwards) {
    attributes.push_back(Pieces::attribute("scan_input_directions", Ints{1}));
    attributes.push_back(Pieces::attribute("scan_output_directions", Ints{1}));
  }
  const i32 node = add_node(p, Op::Scan, {start, x, scale}, {last, all}, attributes);
  Pieces &once = p.bodies.emplace_back();
  const i32 state = once.input({3}), slice = once.input({3}), factor = once.input({});
  const i32 made = once.add(once.mul(state, factor), slice);
  once.gives({made, once.of(Op::Abs, made)});
  add_body(p, once, node);
  p.gives({state_wanted ? last : all});
}

}  // namespace

TEST_CASE("If becomes both branches and a choice, or the one that is known") {
  for (const std::optional<std::uint8_t> known : {std::optional<std::uint8_t>(), {0}, {1}}) {
    Model p;
    branches(p, false, known);
    check_unfolded(p, Op::If);
    CHECK_EQ(count(p.graph, Op::Where), known ? 0u : 1u);
  }
  Model p;
  branches(p, true, std::nullopt);
  check_stays(p, Op::If);
}

TEST_CASE("Loop becomes its body, so many times; one that may end keeps what it had") {
  for (const bool may_end : {false, true})
    for (const std::int64_t times : {1, 5}) {
      Model p;
      loop(p, times, may_end, false);
      check_unfolded(p, Op::Loop);
    }
  for (const std::int64_t times : {1, 5}) {
    Model p;
    loop(p, times, false, true);
    check_unfolded(p, Op::Loop);
  }
  Model early, long_one;
  loop(early, 5, true, true);
  check_stays(early, Op::Loop);
  loop(long_one, 5, false, false);
  check_stays(long_one, Op::Loop, 4);
}

namespace {

// Goes on while a number that grows by 2 is below 9, at most so often (-1: not said); of a number of the run where
// `open`.
void counts(Model &p, std::int64_t most, bool open, bool collects) {
  const i32 x = p.input({3}), first = open ? p.input({}, DType::I64) : p.constant<std::int64_t>(DType::I64, {}, {0});
  const i32 trips = most < 0 ? qir::kAbsent : p.constant<std::int64_t>(DType::I64, {}, {most});
  const i32 number_behind = p.tensor(DType::I64, {}), last = p.tensor(DType::F32, {3}),
            all = p.tensor(DType::F32, {-1, 3});
  Vector<i32> outputs = {number_behind, last};
  if (collects) outputs.push_back(all);
  const i32 node = add_node(p, Op::Loop, {trips, qir::kAbsent, first, x, x}, outputs, {number("carried", 2)});
  Pieces &once = p.bodies.emplace_back();
  once.input({}, DType::I64), once.input({}, DType::Bool);
  const i32 at = once.input({}, DType::I64), state = once.input({3}), added = once.input({3});
  const i32 next = once.add(at, once.constant<std::int64_t>(DType::I64, {}, {2}));
  const i32 made = once.add(once.mul(state, 1.5), added);
  once.gives({once.node(Op::Less, {next, once.constant<std::int64_t>(DType::I64, {}, {9})}), next, made});
  if (collects) once.graph.outputs.push_back(once.of(Op::Neg, made));
  add_body(p, once, node);
  p.gives({collects ? all : last});
}

}  // namespace

TEST_CASE("a Loop whose condition follows from constants is counted") {
  reference::ReferenceFolder folder;
  for (const std::int64_t most : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{5}, INT64_MAX})
    for (const bool collects : {false, true}) {
      CAPTURE(most);
      Model p;
      counts(p, most, false, collects);
      REQUIRE_OK(qir::validate_graph(p.graph));
      const std::vector<double> wanted = run(p.graph);
      passes::unfold_control_flow(p.graph, p.store, 16, &folder);
      CHECK_EQ(count(p.graph, Op::Loop), 0u);
      CHECK_EQ(count(p.graph, Op::Where), 0u);
      REQUIRE_OK(qir::validate_graph(p.graph));
      CHECK_EQ(run(p.graph), wanted);
    }
  Model open, early;
  counts(open, -1, true, false), counts(early, -1, false, false);
  passes::unfold_control_flow(open.graph, open.store, 16, &folder);
  CHECK_EQ(ops(open.graph), "Loop");
  passes::unfold_control_flow(early.graph, early.store, 4, &folder);  // fewer than it takes
  CHECK_EQ(ops(early.graph), "Loop");
}

TEST_CASE("Scan becomes its body for each slice, in both directions") {
  for (const bool backwards : {false, true})
    for (const std::int64_t axis : {0, 1})
      for (const bool state : {false, true}) {
        Model p;
        scan(p, backwards, axis, state);
        check_unfolded(p, Op::Scan);
      }
}

TEST_CASE("the loops of a graph become a stated number of nodes in all") {
  constexpr std::size_t kLoops = 24, kTimes = 16, kNodes = 250, kMost = std::size_t{1} << 16;
  static_assert(kLoops * kTimes * kNodes > kMost);
  Model p;
  i32 x = p.input({3});
  for (std::size_t i = 0; i < kLoops; ++i) {
    const i32 trips = p.constant<std::int64_t>(DType::I64, {}, {kTimes}), last = p.tensor(DType::F32, {3});
    const i32 node = add_node(p, Op::Loop, {trips, qir::kAbsent, x}, {last}, {number("carried", 1)});
    Pieces &once = p.bodies.emplace_back();
    once.input({}, DType::I64);
    const i32 go = once.input({}, DType::Bool);
    i32 made = once.input({3});
    for (std::size_t k = 0; k < kNodes; ++k) made = once.of(Op::Neg, made);
    once.gives({go, made});
    add_body(p, once, node);
    x = last;
  }
  p.gives({x});
  REQUIRE_OK(qir::validate_graph(p.graph));
  passes::unfold_control_flow(p.graph, p.store, kTimes);
  CHECK_EQ(count(p.graph, Op::Loop), kLoops - kMost / (kTimes * kNodes));
  CHECK(p.graph.nodes.size() <= kMost + kLoops);
  REQUIRE_OK(qir::validate_graph(p.graph));
}
