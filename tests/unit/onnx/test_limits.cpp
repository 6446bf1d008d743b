// SPDX-License-Identifier: Apache-2.0
// Small models that become large: what is counted while they are imported, and where it ends.
#include "graph/infer/infer.h"
#include "tests/unit/onnx/imported.h"

using namespace quarry;
using namespace quarry::onnx_import;
using test::ModelText;

namespace {

constexpr const char *kLimit = "QR-G0002";

// Functions of which each calls the next twice: 2^depth nodes.
void add_doubling(ModelText &text, int depth, const std::string &value = "m") {
  auto *import = text.proto.add_opset_import();
  import->set_domain("ours"), import->set_version(1);
  for (int i = 0; i < depth; ++i) {
    auto *function = text.proto.add_functions();
    function->set_domain("ours"), function->set_name("F" + std::to_string(i));
    function->add_input("a"), function->add_output("b");
    for (const auto &one : text.proto.opset_import()) *function->add_opset_import() = one;
    const std::string next = "F" + std::to_string(i + 1);
    if (i + 1 < depth) {
      ModelText::add_node(function->add_node(), next, {"a"}, {value}, "ours");
      ModelText::add_node(function->add_node(), next, {value}, {"b"}, "ours");
    } else {
      ModelText::add_node(function->add_node(), "Neg", {"a"}, {"b"});
    }
  }
  text.input("x", {4});
  text.node("F0", {"x"}, {"y"}, "ours");
  text.output("y");
}

// Loops within loops, each of which carries `carried` values that grow one after the other: their bodies are imported
// again until all dimensions hold still.
void fill_loop(::onnx::GraphProto *body, int level, int depth, int carried) {
  const auto at = [&](const std::string &name, int i = -1) {
    return name + std::to_string(level) + (i < 0 ? "" : "_" + std::to_string(i));
  };
  body->set_name(at("body"));
  ModelText::fill(body->add_input(), at("i"), 7, {});
  ModelText::fill(body->add_input(), at("go"), 9, {});
  for (int j = 0; j < carried; ++j) ModelText::fill(body->add_input(), at("v", j), 1, {-1});
  ModelText::add_node(body->add_node(), "Identity", {at("go")}, {at("more")});
  auto *grows = ModelText::add_node(body->add_node(), "Concat", {at("v", 0), at("v", 0)}, {at("o", 0)});
  ModelText::set(grows, "axis", std::int64_t{0});
  if (level < depth) {
    auto *loop = ModelText::add_node(body->add_node(), "Loop", {"times", "go"}, {});
    for (int j = 0; j < carried; ++j) loop->add_input("one"), loop->add_output(at("l", j));
    fill_loop(ModelText::graph(loop, "body"), level + 1, depth, carried);
  }
  for (int j = 1; j < carried; ++j) ModelText::add_node(body->add_node(), "Identity", {at("v", j - 1)}, {at("o", j)});
  ModelText::fill(body->add_output(), at("more"), 9, {});
  for (int j = 0; j < carried; ++j) ModelText::fill(body->add_output(), at("o", j), 1, {-1});
}
ModelText loops(int depth, int carried) {
  ModelText text(17);
  text.input("x", {1}), text.input("go", {}, 9);
  text.constant<std::int64_t>("times", 7, {}, {1});
  text.floats("one", {1}, {1});
  auto *loop = text.node("Loop", {"times", "go"}, {"y"});
  for (int j = 0; j < carried; ++j) loop->add_input("x");
  for (int j = 1; j < carried; ++j) loop->add_output("z" + std::to_string(j));
  fill_loop(ModelText::graph(loop, "body"), 1, depth, carried);
  text.output("y");
  return text;
}

void check_limit(const ModelText &text) {
  Imported out;
  import(text, out);
  CHECK_EQ(out.status.id(), kLimit);
  CHECK(out.status.message().find("expected at most") != std::string_view::npos);
  CHECK_FALSE(out.status.hint().empty());
}

}  // namespace

TEST_CASE("functions that call functions are counted as often as they are called") {
  {
    ModelText text(17);
    add_doubling(text, 9);
    Imported out;
    import(text, out);
    REQUIRE_OK(out.status);
    CHECK_EQ(out.graph.nodes.size(), 256);
  }
  ModelText text(17);
  add_doubling(text, 31);
  check_limit(text);
}

TEST_CASE("names that become long count for more") {
  ModelText text(17);
  add_doubling(text, 16, std::string(4000, 'm'));  // 2^15 nodes
  check_limit(text);
}

TEST_CASE("loops within loops are counted as often as they are imported") {
  {
    Imported out;
    import(loops(2, 8), out);
    CHECK_OK(out.status);
  }
  check_limit(loops(6, 8));
}

TEST_CASE("rounds of inference are counted") {
  Imported out;
  import(loops(2, 8), out);
  REQUIRE_OK(out.status);
  qir::Node *loop = nullptr;
  for (qir::Node &node : out.graph.nodes)
    if (node.op == qir::Op::Loop) loop = &node;
  REQUIRE(loop);
  Vector<qir::InferValue> inputs;
  for (const std::int32_t id : loop->inputs) {
    qir::InferValue &value = inputs.emplace_back();
    if (id == qir::kAbsent) continue;
    const qir::Tensor &from = out.tensor(id);
    value = {true, from.dtype, from.shape, &from.quant, from.data};
  }
  CHECK_OK(qir::infer_subgraphs(*loop, inputs));
  std::uint64_t left = 100;
  const Status status = qir::infer_subgraphs(*loop, inputs, &left);
  CHECK_EQ(status.id(), kLimit);
  CHECK_FALSE(status.hint().empty());
}

TEST_CASE("a function's constant is read once, however often it is called") {
  ModelText text(17);
  auto *import_ours = text.proto.add_opset_import();
  import_ours->set_domain("ours"), import_ours->set_version(1);
  auto *function = text.proto.add_functions();
  function->set_domain("ours"), function->set_name("F");
  function->add_input("a"), function->add_output("b");
  *function->add_opset_import() = text.proto.opset_import(0);
  auto *constant = ModelText::add_node(function->add_node(), "Constant", {}, {"c"});
  auto *value = constant->add_attribute();
  value->set_name("value"), value->set_type(::onnx::AttributeProto_AttributeType_TENSOR);
  value->mutable_t()->set_data_type(1), value->mutable_t()->add_dims(4);
  for (int i = 0; i < 4; ++i) value->mutable_t()->add_float_data(1);
  ModelText::add_node(function->add_node(), "Add", {"a", "c"}, {"b"});
  text.input("x", {4});
  text.node("F", {"x"}, {"t"}, "ours");
  text.node("F", {"t"}, {"y"}, "ours");
  text.output("y");
  Imported out;
  import(text, out);
  REQUIRE_OK(out.status);
  const void *data = nullptr;
  int constants = 0;
  for (const qir::Tensor &tensor : out.graph.tensors) {
    if (!tensor.is_constant) continue;
    ++constants;
    CHECK((!data || data == tensor.data.data));
    data = tensor.data.data;
  }
  CHECK_EQ(constants, 2);
}

TEST_CASE("a sparse tensor of few values is not expanded at any size") {
  ModelText text(17);
  text.input("x", {1});
  auto *sparse = text.proto.mutable_graph()->add_sparse_initializer();
  sparse->mutable_values()->set_name("w"), sparse->mutable_values()->set_data_type(1);
  sparse->mutable_values()->add_dims(1), sparse->mutable_values()->add_float_data(1);
  sparse->mutable_indices()->set_data_type(7), sparse->mutable_indices()->add_dims(1);
  sparse->mutable_indices()->add_int64_data(5);
  sparse->add_dims(std::int64_t{1} << 34);
  text.node("Add", {"x", "w"}, {"y"});
  text.output("y");
  check_limit(text);
}
