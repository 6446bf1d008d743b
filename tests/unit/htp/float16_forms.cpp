// SPDX-License-Identifier: Apache-2.0
// f32 graphs on v68: between which casts they run in f16.
#include "backends/htp/lower/float16_forms.h"

#include "backends/htp/lower/lowering.h"
#include "backends/htp/lower/overflow.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

struct Halved {
  Halved(Pieces &pieces, std::uint32_t soc, bool half) {
    Vector<Status> refused(pieces.graph.nodes.size());
    htp::Lowering lowering(pieces.graph, *htp::find_soc(soc), pieces.store, draft);
    REQUIRE_OK(lowering.run(refused));
    htp::give_float16_forms(draft, *htp::find_soc(soc), half, pieces.store);
  }
  std::string types() const {
    std::string text;
    for (const htp::DraftNode &node : draft.nodes) text += (text.empty() ? "" : " ") + std::string(node.type);
    return text;
  }
  htp::Draft draft;
};

constexpr std::uint32_t kV68 = 30, kV75 = 57;

void build(Pieces &p) {
  const i32 x = p.input({4});
  p.gives({p.of(Op::Atan, p.add(x, p.column(4)))});
}

}  // namespace

TEST_CASE("on v68 floats are narrowed at the borders alone") {
  Pieces p;
  build(p);
  const Halved made(p, kV68, true);
  CHECK_EQ(made.types(), "Cast ElementWiseAdd ElementWiseAtan Cast");
  const htp::DraftNode &add = made.draft.nodes[1];
  for (const i32 id : add.inputs) {
    const htp::DraftTensor &tensor = made.draft.tensors[index_of(id)];
    CHECK(tensor.dtype == qnn::DataType::F16);
    if (tensor.type == qnn::TensorType::Static) CHECK_EQ(tensor.data.size, 8u);
  }
  // The model's borders stay.
  for (const htp::IoBinding &border : made.draft.outputs)
    CHECK(made.draft.tensors[static_cast<std::size_t>(border.tensor)].dtype == qnn::DataType::F32);
}

TEST_CASE("f32 that is asked for is left, but for what the library cannot prepare") {
  Pieces p;
  build(p);
  CHECK_EQ(Halved(p, kV68, false).types(), "ElementWiseAdd Cast ElementWiseAtan Cast");
}

TEST_CASE("bf16: operations that have it run in it, between casts") {
  Pieces p;
  build(p);  // Elu has none
  Halved made(p, kV75, true);
  htp::give_brain_forms(made.draft, p.store);
  CHECK_EQ(made.types(), "Cast ElementWiseAdd Cast ElementWiseAtan");
  for (const i32 id : made.draft.nodes[1].inputs) {
    const htp::DraftTensor &tensor = made.draft.tensors[index_of(id)];
    CHECK(tensor.dtype == qnn::DataType::BF16);
    if (tensor.type == qnn::TensorType::Static) CHECK_EQ(tensor.data.size, 8u);
  }
}

TEST_CASE("overflow is clamped behind inputs and what may grow, alone") {
  Pieces p;
  build(p);
  Halved made(p, kV75, true);
  htp::clamp_overflow(made.draft);
  CHECK_EQ(made.types(), "ReluMinMax ElementWiseAdd ReluMinMax ElementWiseAtan");
  const auto &nodes = made.draft.nodes;
  CHECK_EQ(nodes[1].inputs[0], nodes[0].outputs[0]);
  CHECK_EQ(nodes[2].inputs[0], nodes[1].outputs[0]);
  CHECK_EQ(nodes[3].inputs[0], nodes[2].outputs[0]);
  CHECK(made.draft.tensors[static_cast<std::size_t>(made.draft.inputs[0].tensor)].type == qnn::TensorType::AppWrite);
}

TEST_CASE("later architectures do it by themselves") {
  Pieces p;
  build(p);
  CHECK_EQ(Halved(p, kV75, true).types(), "ElementWiseAdd ElementWiseAtan");
}
