// SPDX-License-Identifier: Apache-2.0
// What keeps passes from the square of a graph: names, replacements, quantisation that moves through chains; and what
// stops them.
#include "base/stop.h"
#include "graph/edit/graph_edit.h"
#include "tests/support/check.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;

namespace {

qir::Tensor named(const char *name) {
  qir::Tensor tensor;
  tensor.name = name;
  tensor.dtype = DType::F32;
  tensor.shape = {4};
  return tensor;
}

}  // namespace

TEST_CASE("new names are of no tensor, those added since and those asked for included") {
  qir::Graph graph;
  graph.tensors = {named("a"), named("a~1"), named("b")};
  qir::Names names(graph);
  CHECK_EQ(names.fresh("c"), "c");
  CHECK_EQ(names.fresh("c"), "c~1");
  CHECK_EQ(names.fresh("a"), "a~2");
  graph.tensors.push_back(named("a~3"));
  CHECK_EQ(names.fresh("a"), "a~4");
  CHECK_EQ(names.fresh("b"), "b~1");
  graph.tensors.resize(1);  // a pass took some out
  CHECK_EQ(names.fresh("b"), "b");
  CHECK_EQ(qir::fresh_name(graph, "a"), "a~1");
}

TEST_CASE("replacements follow one another") {
  qir::Graph graph;
  for (int i = 0; i < 6; ++i) graph.tensors.push_back(named("t"));
  qir::Node node;
  node.inputs = {1, qir::kAbsent, 3, 5};
  node.outputs = {2};
  graph.nodes = {node};
  graph.outputs = {3, 2};
  qir::Replacements replaced(graph);
  replaced.replace(3, 1);
  replaced.replace(1, 0);
  replaced.replace(2, 4);
  replaced.replace(0, 3);  // itself by now
  CHECK_EQ(replaced.now(3), 0);
  CHECK_EQ(replaced.now(qir::kAbsent), qir::kAbsent);
  CHECK_EQ(replaced.now(9), 9);  // added since
  replaced.apply(graph);
  CHECK((graph.nodes[0].inputs == Vector<std::int32_t>{0, qir::kAbsent, 0, 5}));
  CHECK((graph.nodes[0].outputs == Vector<std::int32_t>{4}));
  CHECK((graph.outputs == Vector<std::int32_t>{0, 4}));
}

namespace {

// Says stop when it was asked so often.
struct Patience final : StopSource {
  explicit Patience(int asks) : left(asks) {}
  bool stopped() const noexcept override { return --left < 0; }
  Status status(std::string_view) const noexcept override { return {}; }  // it was taken back
  mutable int left;
};

}  // namespace

TEST_CASE("a stop that was asked for once holds to the end") {
  CHECK_FALSE(stop_asked());
  CHECK_OK(stop_status("test"));
  const Patience patience(1), none(0);
  const StopScope scope(patience);
  CHECK_FALSE(stop_asked());
  CHECK(stop_asked());
  CHECK_EQ(stop_status("test").id(), "QR-C0011");
  patience.left = 1000;  // an abort that is taken back leaves half done what is half done
  CHECK(stop_asked());
  {
    const Patience other(1000);
    const StopScope inner(other);
    CHECK_FALSE(stop_asked());
  }
  CHECK(stop_asked());
}
