// SPDX-License-Identifier: Apache-2.0
// Operators of foreign domains pass through the import whole, or are refused by name.
#include <cstring>

#include "tests/unit/onnx/imported.h"

using namespace quarry;
using namespace quarry::onnx_import;
using quarry::test::ModelText;

namespace {

// A model that imports version 3 of my.domain.
struct CustomModel : ModelText {
  CustomModel() { use("my.domain", 3); }
  void use(const char *domain, std::int64_t version) {
    auto *import = proto.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  // States the type of a value; a dimension of -1 is called `symbol`.
  void state(const std::string &name, std::initializer_list<std::int64_t> dims, int dtype = 1,
             const char *symbol = "n") {
    auto *info = proto.mutable_graph()->add_value_info();
    fill(info, name, dtype, dims);
    for (auto &dim : *info->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
      if (dim.has_dim_param()) dim.set_dim_param(symbol);
  }
  static ::onnx::AttributeProto *attribute(::onnx::NodeProto *node, const char *name,
                                           ::onnx::AttributeProto_AttributeType type) {
    auto *made = node->add_attribute();
    made->set_name(name);
    made->set_type(type);
    return made;
  }
  static void fill_tensor(::onnx::TensorProto *to, const char *name, const std::vector<std::int32_t> &values) {
    to->set_name(name);
    to->set_data_type(6);
    to->add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int32_t value : values) to->add_int32_data(value);
  }
};

std::string message_of(const ModelText &text) {
  Imported done;
  import(text, done);
  return std::string(done.status.id()) + " " + std::string(done.status.message());
}

}  // namespace

TEST_CASE("custom operator survives whole") {
  CustomModel text;
  text.input("x", {-1, 3});
  auto *node = text.node("MyOp", {"x", "", "w", ""}, {"a", "", "b"}, "my.domain");
  node->set_name("mine");
  text.floats("w", {2}, {1, 2});
  ModelText::set(node, "count", std::int64_t{7});
  ModelText::set(node, "rate", -0.5f);
  ModelText::set(node, "mode", "fast");
  ModelText::set(node, "axes", std::vector<std::int64_t>{1, -1});
  ModelText::set_floats(node, "weights", {0.25f, 4});
  for (const char *each : {"one", "two"}) {
    if (node->attribute_size() == 5)
      CustomModel::attribute(node, "words", ::onnx::AttributeProto_AttributeType_STRINGS);
    node->mutable_attribute(5)->add_strings(each);
  }
  CustomModel::fill_tensor(
      CustomModel::attribute(node, "table", ::onnx::AttributeProto_AttributeType_TENSOR)->mutable_t(), "t", {5, 6, -7});
  auto *list = CustomModel::attribute(node, "tables", ::onnx::AttributeProto_AttributeType_TENSORS);
  CustomModel::fill_tensor(list->add_tensors(), "", {1});
  CustomModel::fill_tensor(list->add_tensors(), "second", {2, 3});
  ModelText::set(node, "consumed_inputs", std::vector<std::int64_t>{0});  // of a custom operator it may mean anything
  text.state("a", {-1, 4});
  text.state("b", {5, -1}, 7, "m");
  text.node("Relu", {"a"}, {"y"});
  text.output("y", {-1, 4});
  text.output("b");
  Imported done;
  import(text, done);
  CHECK_OK(done.status);
  const qir::Node *found = done.find(qir::Op::Custom);
  REQUIRE(found != nullptr);
  REQUIRE(found->custom != nullptr);
  CHECK_EQ(found->custom->domain, "my.domain");
  CHECK_EQ(found->custom->type, "MyOp");
  CHECK_EQ(found->custom->version, 3);
  CHECK_EQ(found->name, "mine");
  CHECK_EQ(qir::op_text(*found), "my.domain::MyOp");
  CHECK_EQ(found->inputs.size(), 4u);  // the absent one at the end too
  CHECK_EQ(found->inputs[1], qir::kAbsent);
  CHECK_EQ(found->inputs[3], qir::kAbsent);
  CHECK_EQ(found->outputs.size(), 3u);
  CHECK_EQ(found->outputs[1], qir::kAbsent);
  // n is bound by the input, m is not.
  const qir::Tensor &a = done.tensor(found->outputs[0]), &b = done.tensor(found->outputs[2]);
  CHECK((a.name == "a" && a.dtype == DType::F32 && a.shape == (qir::Shape{2, 4})));
  CHECK((b.name == "b" && b.dtype == DType::I64 && b.shape == (qir::Shape{5, qir::kUnknownDim})));
  CHECK_EQ(found->attributes.size(), 9u);
  CHECK_EQ(found->get_int("count", 0), 7);
  CHECK_EQ(found->get_float("rate", 0), -0.5f);
  CHECK_EQ(found->get_string("mode", ""), "fast");
  CHECK((found->get_ints("axes") && *found->get_ints("axes") == (Vector<std::int64_t>{1, -1})));
  CHECK((found->get_floats("weights") && *found->get_floats("weights") == (Vector<float>{0.25f, 4})));
  CHECK((found->get_strings("words") && *found->get_strings("words") == (Vector<String>{"one", "two"})));
  CHECK(found->find("consumed_inputs") != nullptr);
  const qir::Attribute *table = found->find("table"), *tables = found->find("tables");
  CHECK((table && table->kind == qir::Attribute::Kind::Tensor && table->tensors.size() == 1));
  CHECK((tables && tables->kind == qir::Attribute::Kind::Tensors && tables->tensors.size() == 2));
  if (!table || table->tensors.size() != 1 || !tables || tables->tensors.size() != 2) return;
  const qir::Tensor &tensor = table->tensors[0];
  const std::int32_t expected[] = {5, 6, -7};
  CHECK((tensor.name == "t" && tensor.is_constant && tensor.dtype == DType::I32 && tensor.shape == qir::Shape{3}));
  CHECK((tensor.data.size == sizeof expected && std::memcmp(tensor.data.data, expected, sizeof expected) == 0));
  CHECK_EQ(tables->tensors[1].name, "second");
}

TEST_CASE("types of results must be stated") {
  CustomModel text;
  text.input("x", {2});
  text.node("MyOp", {"x"}, {"hidden"}, "my.domain");
  text.node("Relu", {"hidden"}, {"y"});
  text.output("y");
  Imported done;
  import(text, done);
  CHECK_EQ(done.status.id(), "QR-O0005");
  CHECK_EQ(done.status.message(),
           "MyOp 'hidden': operator my.domain::MyOp is none that Quarry knows; to keep it as a custom operator the "
           "model must state the type of its result 'hidden', but has no value_info for it");
  CHECK_EQ(done.status.hint(), "export the model with a value_info (type and shape) for each result of the operator");
  text.state("hidden", {});
  text.proto.mutable_graph()->mutable_value_info(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  CHECK(message_of(text).find("gives its element type without a shape") != std::string::npos);
  text.proto.mutable_graph()->clear_value_info();
  text.state("hidden", {2}, 8);
  CHECK(message_of(text).find("value 'hidden'") != std::string::npos);  // strings are not taken
  text.proto.mutable_graph()->clear_value_info();
  text.state("hidden", {2});
  CHECK_EQ(message_of(text), " ");
  // The domain has no version.
  text.proto.mutable_opset_import(1)->set_domain("other.domain");
  CHECK_EQ(message_of(text), "QR-O0002 MyOp 'hidden': the model imports no version of the domain of my.domain::MyOp");
}

TEST_CASE("results of a model are stated by its outputs") {
  CustomModel text;
  text.input("x", {2});
  text.node("MyOp", {"x"}, {"y"}, "my.domain");
  text.output("y", {2, 2});
  Imported done;
  import(text, done);
  CHECK_OK(done.status);
  CHECK((done.find(qir::Op::Custom) && done.tensor(done.graph.outputs[0]).shape == (qir::Shape{2, 2})));
}

TEST_CASE("attributes that cannot be kept are named") {
  for (const auto &[type, what] : {std::pair(::onnx::AttributeProto_AttributeType_GRAPH, "a graph"),
                                   std::pair(::onnx::AttributeProto_AttributeType_GRAPHS, "graphs"),
                                   std::pair(::onnx::AttributeProto_AttributeType_SPARSE_TENSOR, "a sparse tensor"),
                                   std::pair(::onnx::AttributeProto_AttributeType_TYPE_PROTO, "a type")}) {
    CustomModel text;
    text.input("x", {2});
    auto *node = text.node("MyOp", {"x"}, {"y"}, "my.domain");
    CustomModel::attribute(node, "body", type);
    text.output("y", {2});
    CHECK_EQ(message_of(text), "QR-O0010 MyOp 'y': attribute 'body' holds " + std::string(what) +
                                   ", which a custom operator cannot keep");
  }
}

TEST_CASE("unknown operators of known domains") {
  CustomModel text;
  text.use("com.microsoft", 1);
  text.use("quarry", 1);
  text.input("x", {2});
  text.node("NotYetKnown", {"x"}, {"a"}, "com.microsoft");
  text.node("Custom", {"x"}, {"b"}, "quarry");  // not the row of the table, which no model can name
  text.output("a", {2});
  text.output("b", {2});
  Imported done;
  import(text, done);
  CHECK_OK(done.status);
  CHECK_EQ(done.graph.nodes.size(), 2u);
  if (done.graph.nodes.size() != 2) return;
  CHECK_EQ(qir::op_text(done.graph.nodes[0]), "com.microsoft::NotYetKnown");
  CHECK_EQ(qir::op_text(done.graph.nodes[1]), "quarry::Custom");
  ModelText standard(13);
  standard.input("x", {2});
  standard.node("NotYetKnown", {"x"}, {"y"});
  standard.output("y", {2});
  CHECK_EQ(message_of(standard), "QR-O0005 NotYetKnown 'y': operator ai.onnx.NotYetKnown is not supported");
}

TEST_CASE("functions of foreign domains are inlined") {
  CustomModel text;
  auto *function = text.proto.add_functions();
  function->set_domain("my.domain");
  function->set_name("MyOp");
  function->add_input("in");
  function->add_output("out");
  auto *opset = function->add_opset_import();
  opset->set_domain("");
  opset->set_version(13);
  opset = function->add_opset_import();
  opset->set_domain("my.domain");
  opset->set_version(4);
  ModelText::add_node(function->add_node(), "Relu", {"in"}, {"r"});
  ModelText::add_node(function->add_node(), "Inner", {"r"}, {"out"}, "my.domain");
  text.input("x", {2});
  text.node("MyOp", {"x"}, {"y"}, "my.domain");
  text.output("y", {2});
  CHECK(message_of(text).find("result 'out', but has no value_info") != std::string::npos);
  // FunctionProto.value_info is newer than the headers: field 12.
  ::onnx::ValueInfoProto info;
  ModelText::fill(&info, "out", 1, {2, -1});
  function->GetReflection()->MutableUnknownFields(function)->AddLengthDelimited(12, info.SerializeAsString());
  Imported done;
  import(text, done);
  CHECK_OK(done.status);
  CHECK(done.find(qir::Op::Relu) != nullptr);
  const qir::Node *inner = done.find(qir::Op::Custom);
  CHECK((inner && qir::op_text(*inner) == "my.domain::Inner" && inner->custom->version == 4));
  CHECK((inner && done.tensor(inner->outputs[0]).shape == (qir::Shape{2, qir::kUnknownDim})));
}

TEST_CASE("custom operators in bodies") {
  CustomModel text;
  text.input("x", {2});
  text.input("c", {}, 9);
  auto *choice = text.node("If", {"c"}, {"y"});
  for (const char *name : {"then_branch", "else_branch"}) {
    auto *branch = ModelText::graph(choice, name);
    branch->set_name(name);
    ModelText::add_node(branch->add_node(), "MyOp", {"x"}, {"out"}, "my.domain");
    ModelText::fill(branch->add_output(), "out", 1, {2});
  }
  text.output("y", {2});
  Imported done;
  import(text, done);
  CHECK_OK(done.status);
  const qir::Node *found = done.find(qir::Op::If);
  CHECK((found && found->subgraphs.size() == 2 && found->subgraphs[1].nodes.at(0).op == qir::Op::Custom));
}
