// SPDX-License-Identifier: Apache-2.0
// Operands by number: whoever asks for one that is not there reads nothing.
#include <type_traits>

#include "graph/edit/graph_edit.h"
#include "tests/support/check.h"
#include "tests/unit/graph/sample_graph.h"

using namespace quarry;
using qir::kAbsent;

// Only set() writes: a number that is read is no place.
static_assert(std::is_same_v<decltype(std::declval<qir::Operands &>()[0]), std::int32_t>);

TEST_CASE("operands have no end") {
  qir::Node node;
  CHECK_EQ(node.inputs[0], kAbsent);
  CHECK_EQ(node.outputs[7], kAbsent);
  node.inputs = {4, kAbsent};
  CHECK_EQ(node.inputs[0], 4);
  CHECK_EQ(node.inputs[1], kAbsent);
  CHECK_EQ(node.inputs[2], kAbsent);
  CHECK_EQ(node.inputs[static_cast<std::size_t>(kAbsent)], kAbsent);
  node.inputs.set(3, 9);
  CHECK_EQ(node.inputs.size(), 4u);
  CHECK_EQ(node.inputs[2], kAbsent);
  CHECK_EQ(node.inputs[3], 9);
}

TEST_CASE("what is absent is no tensor, and nobody's") {
  qir::Graph graph = test::SampleGraph().graph;
  for (const std::int32_t id :
       {kAbsent, std::int32_t{-2}, static_cast<std::int32_t>(graph.tensors.size()), INT32_MAX}) {
    const qir::Tensor &none = at(std::as_const(graph), id);
    CHECK(none.name.empty());
    CHECK(none.dtype == DType::Unknown);
    CHECK(!none.is_constant);
    CHECK_EQ(qir::constant_floats(graph, id), nullptr);
    const qir::Uses uses(graph);
    CHECK_EQ(uses.maker(id), qir::Uses::kNobody);
    CHECK(uses.users(id).empty());
    CHECK(!uses.used_once(id));
    CHECK(!uses.is_input(id));
    CHECK(!uses.is_output(id));
  }
}
