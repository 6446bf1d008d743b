// SPDX-License-Identifier: Apache-2.0
// Import without folding: what each rewriting rule makes of a node, and what is refused with which words.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/unit/onnx/imported.h"

using namespace quarry;
using namespace quarry::onnx_import;
using quarry::test::ModelText;

TEST_CASE("attributes become inputs") {
  ModelText text(9);
  text.input("x", {2, 3, 4});
  ModelText::set(text.node("Unsqueeze", {"x"}, {"u"}), "axes", std::vector<std::int64_t>{0});
  auto *slice = text.node("Slice", {"u"}, {"s"});
  ModelText::set(slice, "starts", std::vector<std::int64_t>{1});
  ModelText::set(slice, "ends", std::vector<std::int64_t>{9});
  ModelText::set(slice, "axes", std::vector<std::int64_t>{2});
  ModelText::set(text.node("ReduceSum", {"s"}, {"r"}), "axes", std::vector<std::int64_t>{-1});
  ModelText::set(text.node("Clip", {"r"}, {"y"}), "max", 6.0f);
  text.output("y");
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  CHECK_EQ(done.graph.nodes.size(), 4u);
  CHECK_EQ(done.find(qir::Op::Unsqueeze)->inputs.size(), 2u);
  CHECK_EQ(done.find(qir::Op::Slice)->inputs.size(), 4u);
  CHECK_EQ(done.ints(done.find(qir::Op::ReduceSum)->inputs[1])[0], -1);
  const qir::Node *clip = done.find(qir::Op::Clip);
  CHECK_EQ(clip->inputs.size(), 3u);
  CHECK_EQ(clip->inputs[1], qir::kAbsent);
  CHECK(done.tensor(done.graph.outputs[0]).name == "y");
  CHECK((done.tensor(done.graph.outputs[0]).shape == qir::Shape{1, 2, 2, 1}));
}

TEST_CASE("softmax before opset 13 works on rows") {
  ModelText text(11);
  text.input("x", {2, 3, 4});
  ModelText::set(text.node("Softmax", {"x"}, {"y"}), "axis", std::int64_t{1});
  ModelText::set(text.node("Softmax", {"x"}, {"z"}), "axis", std::int64_t{2});
  text.output("y");
  text.output("z");
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  CHECK(done.find(qir::Op::Flatten) != nullptr);
  CHECK_EQ(done.graph.nodes.size(), 4u);  // Flatten, Softmax, Reshape; and one Softmax as it is
}

TEST_CASE("axes of Transpose are written as they count") {
  const auto axes = [](std::vector<std::int64_t> perm) {
    ModelText text(21);
    text.input("x", {2, 3, 4});
    ModelText::set(text.node("Transpose", {"x"}, {"y"}), "perm", perm);
    text.output("y");
    return text;
  };
  Imported done;
  import(axes({0, -1, -2}), done);
  REQUIRE_OK(done.status);
  CHECK((*done.graph.nodes[0].get_ints("perm") == Vector<std::int64_t>{0, 2, 1}));
  CHECK((done.tensor(done.graph.outputs[0]).shape == qir::Shape{2, 4, 3}));
  const std::vector<std::int64_t> wrong[] = {{0, 1, -1, 2}, {0, 2, -1}, {0, 1, -4}, {0, 1, 3}};
  for (const std::vector<std::int64_t> &bad : wrong) {
    Imported refused;
    import(axes(bad), refused);
    CHECK_FALSE(refused.status.ok());
  }
}

TEST_CASE("old resize and upsample") {
  ModelText text(10);
  text.input("x", {1, 1, 2, 2});
  text.floats("scales", {4}, {1, 1, 2, 2});
  ModelText::set(text.node("Resize", {"x", "scales"}, {"y"}), "mode", "nearest");
  text.output("y");
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  const qir::Node &resize = done.graph.nodes[0];
  CHECK_EQ(resize.get_string("coordinate_transformation_mode", ""), "asymmetric");
  CHECK_EQ(resize.get_string("nearest_mode", ""), "floor");
  CHECK((done.tensor(done.graph.outputs[0]).shape == qir::Shape{1, 1, 4, 4}));
}

TEST_CASE("corners that are aligned where the model states the length of the result") {
  const auto stretched = [](bool constant, std::initializer_list<std::int64_t> stated) {
    ModelText text(13);
    text.input("x", {1, 1, 4, 4});
    if (constant) text.floats("scales", {4}, {1, 1, 1.7f, 1.7f});
    else text.input("scales", {4});
    ModelText::set(text.node("Resize", {"x", "", "scales"}, {"y"}), "coordinate_transformation_mode", "align_corners");
    text.output("y", stated);
    Imported done;
    import(text, done);
    REQUIRE_OK(done.status);
    const qir::Node *const resize = done.find(qir::Op::Resize);
    return resize->inputs[2] == qir::kAbsent && resize->inputs[3] != qir::kAbsent;  // by sizes
  };
  CHECK(stretched(true, {1, 1, 6, 6}));
  CHECK(stretched(true, {1, 1, -1, -1}));  // a name states it too
  CHECK_FALSE(stretched(true, {1, 1, 7, 6}));
  CHECK_FALSE(stretched(true, {}));  // to 6.8
  CHECK_FALSE(stretched(false, {1, 1, 6, 6}));
}

TEST_CASE("group normalization per channel") {
  ModelText text(18);
  text.input("x", {1, 4, 2});
  text.input("scale", {2});
  text.input("bias", {2});
  ModelText::set(text.node("GroupNormalization", {"x", "scale", "bias"}, {"y"}), "num_groups", std::int64_t{2});
  text.output("y");
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  const qir::Node *norm = done.find(qir::Op::GroupNormalization);
  CHECK((done.tensor(norm->inputs[1]).shape == qir::Shape{4}));
}

TEST_CASE("every reason is reported") {
  ModelText text(13);
  text.input("x", {2});
  text.node("NoSuchOp", {"x"}, {"a"});
  text.node("Relu", {"a"}, {"b"});  // follows from the first: not reported again
  text.node("OtherOp", {"b"}, {"c"}, "my.domain");
  ModelText::set(text.node("Relu", {"x"}, {"d"}), "speed", std::int64_t{3});
  text.node("Add", {"x", "nowhere"}, {"e"});
  text.output("c");
  Imported done;
  import(text, done);
  CHECK_EQ(done.status.id(), "QR-O0004");
  CHECK(done.has_reason("QR-O0005 NoSuchOp 'a': operator ai.onnx.NoSuchOp is not supported"));
  CHECK(done.has_reason("QR-O0002 OtherOp 'c': the model imports no version of the domain of my.domain::OtherOp"));
  CHECK(done.has_reason("speed"));
  CHECK(done.has_reason("input 1 'nowhere' is made by no node, input or initializer"));
  CHECK_EQ(done.status.payload()->details.size(), 4u);
}

TEST_CASE("reasons of one kind keep their id") {
  ModelText text(13);
  text.input("x", {2});
  text.node("NoSuchOp", {"x"}, {"y"});
  text.node("NorThis", {"x"}, {"z"});
  text.output("y");
  Imported done;
  import(text, done);
  CHECK_EQ(done.status.id(), "QR-O0005");
  CHECK_EQ(done.status.payload()->details.size(), 2u);
}

TEST_CASE("a context of another runtime comes with its bytes") {
  ModelText text(13);
  text.input("x", {2});
  auto *node = text.node("EPContext", {"x"}, {"y"}, "com.microsoft");
  ModelText::set(node, "source", "Qnn");
  ModelText::set(node, "main_context", std::int64_t{1});
  ModelText::set(node, "embed_mode", std::int64_t{1});
  ModelText::set(node, "ep_cache_context", "bytes");
  text.output("y", {2});
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  const qir::Node *made = done.find(qir::Op::Custom);
  CHECK_EQ(made->get_string("source", ""), "Qnn");
  const qir::Attribute *context = made->find("ep_cache_context");
  REQUIRE(context);
  REQUIRE_EQ(context->tensors.size(), 1u);
  CHECK_EQ(std::string_view(static_cast<const char *>(context->tensors[0].data.data), 5), "bytes");
}

TEST_CASE("contexts of other runtimes that are not there") {
  for (const auto &[location, words] : {std::pair<const char *, const char *>{"", "no bytes"},
                                        {"../other.bin", "external data file '../other.bin'"},
                                        {"/etc/passwd", "external data file '/etc/passwd'"},
                                        {"missing.bin", "external data file 'missing.bin'"}}) {
    ModelText text(13);
    text.input("x", {2});
    auto *node = text.node("EPContext", {"x"}, {"y"}, "com.microsoft");
    ModelText::set(node, "embed_mode", std::int64_t{*location ? 0 : 1});
    ModelText::set(node, "ep_cache_context", location);
    text.output("y", {2});
    Imported done;
    import(text, done);
    const bool said = !done.status.ok() && done.status.message().find(words) != std::string_view::npos;
    CHECK_MESSAGE(said, location, ": ", done.status.message());
  }
}

TEST_CASE("types that are not taken") {
  ModelText text(13);
  text.input("x", {2}, 8);
  text.output("y");
  text.node("Identity", {"x"}, {"y"});
  Imported done;
  import(text, done);
  CHECK_EQ(done.status.id(), "QR-O0006");
  CHECK(done.status.message().find("input 'x'") != std::string_view::npos);
  CHECK(done.status.message().find("string") != std::string_view::npos);
}

TEST_CASE("bad files") {
  const std::string junk = "this is not a model";
  CHECK_EQ(Model::open({junk.data(), junk.size()}, {}).status().id(), "QR-O0001");
  CHECK_EQ(Model::open({}, {}).status().id(), "QR-O0001");
  ModelText text(99);
  text.output("y");
  const std::string bytes = text.bytes();
  const auto model = Model::open({bytes.data(), bytes.size()}, {});
  CHECK_EQ(model.status().id(), "QR-O0003");
  CHECK(model.status().message().find("99") != std::string_view::npos);
}

TEST_CASE("cycles and order") {
  ModelText text(13);
  text.input("x", {2});
  text.node("Relu", {"b"}, {"y"});  // out of order: put right
  text.node("Abs", {"x"}, {"b"});
  text.output("y");
  Imported sorted;
  import(text, sorted);
  CHECK_OK(sorted.status);
  CHECK(sorted.graph.nodes[0].op == qir::Op::Abs);

  ModelText cycle(13);
  cycle.input("x", {2});
  cycle.node("Add", {"x", "b"}, {"a"});
  cycle.node("Relu", {"a"}, {"b"});
  cycle.output("b");
  Imported stuck;
  import(cycle, stuck);
  CHECK_EQ(stuck.status.id(), "QR-O0002");
}

TEST_CASE("sizes of initializers are checked") {
  ModelText text(13);
  text.input("x", {2});
  text.floats("w", {1000000000, 1000000000}, {1, 2});
  text.floats("v", {3}, {1, 2});
  text.node("Add", {"x", "v"}, {"y"});
  text.output("y");
  Imported done;
  import(text, done);
  CHECK(!done.status.ok());
  CHECK(done.has_reason("initializer 'w'"));
  CHECK(done.has_reason("initializer 'v': raw_data (bytes) holds 8, shape [3] of f32 needs 12"));
}

TEST_CASE("external data") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "quarry-äußere-daten";
  std::filesystem::create_directories(folder);
  {
    std::ofstream file(folder / "gewichte-重み.bin", std::ios::binary);
    const float values[] = {9, 1, 2};
    file.write(reinterpret_cast<const char *>(values), sizeof values);
  }
  const auto with = [&](const char *location, const char *offset, const char *length) {
    ModelText text(13);
    text.input("x", {2});
    auto *tensor = text.proto.mutable_graph()->add_initializer();
    tensor->set_name("w");
    tensor->set_data_type(1);
    tensor->add_dims(2);
    tensor->set_data_location(::onnx::TensorProto_DataLocation_EXTERNAL);
    const std::pair<const char *, const char *> entries[] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    for (const auto &[key, value] : entries) {
      auto *entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    text.node("Add", {"x", "w"}, {"y"});
    text.output("y");
    return text;
  };
  Imported good;
  import(with("gewichte-重み.bin", "4", "8"), good, folder.string());
  REQUIRE_OK(good.status);
  const qir::Tensor &w = good.tensor(good.graph.nodes[0].inputs[1]);
  CHECK_EQ(static_cast<const float *>(w.data.data)[1], 2.0f);
  const struct {
    const char *location, *offset, *length, *part;
  } bad[] = {{"../w.bin", "0", "8", "leaves the model's folder"},
             {"/etc/passwd", "0", "8", "absolute"},
             {"a/../../w.bin", "0", "8", "leaves the model's folder"},
             {"missing.bin", "0", "8", "is not there"},
             {"gewichte-重み.bin", "8", "8", "has 12 bytes; the model wants 8 at offset 8"},
             {"gewichte-重み.bin", "0", "4", "needs 8"},
             {"gewichte-重み.bin", "x", "8", "is no number"},
             {"gewichte-重み.bin", "18446744073709551615", "8", "has 12 bytes"},
             {".", "0", "8", "no regular file"}};
  for (const auto &one : bad) {
    Imported done;
    import(with(one.location, one.offset, one.length), done, folder.string());
    CHECK_MESSAGE(done.has_reason(one.part), one.location, ": ", done.status.message());
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("external data are opened with the model") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "quarry-read-data";
  const auto external = [&](::onnx::TensorProto *tensor, const char *name, int dtype, auto value) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / name, std::ios::binary).write(reinterpret_cast<const char *>(&value), sizeof value);
    tensor->set_name(name);
    tensor->set_data_type(dtype);
    tensor->add_dims(1);
    tensor->set_data_location(::onnx::TensorProto_DataLocation_EXTERNAL);
    auto *entry = tensor->add_external_data();
    entry->set_key("location");
    entry->set_value(name);
  };
  const auto constant = [&](::onnx::NodeProto *node, const char *name, float value) {
    auto *attribute = node->add_attribute();
    attribute->set_name("value");
    attribute->set_type(::onnx::AttributeProto_AttributeType_TENSOR);
    external(attribute->mutable_t(), name, 1, value);
  };
  ModelText text(13);
  auto *graph = text.proto.mutable_graph();
  external(graph->add_initializer(), "initializer", 1, 1.0f);
  auto *sparse = graph->add_sparse_initializer();
  external(sparse->mutable_values(), "values", 1, 2.0f);
  external(sparse->mutable_indices(), "indices", 7, std::int64_t{0});
  sparse->add_dims(1);
  constant(text.node("Constant", {}, {"attribute"}), "attribute", 3);
  text.input("c", {}, 9);
  auto *node = text.node("If", {"c"}, {"chosen"});
  for (const char *branch : {"then_branch", "else_branch"}) {
    auto *body = ModelText::graph(node, branch);
    external(body->add_initializer(), branch, 1, 4.0f);
    ModelText::add_node(body->add_node(), "Neg", {branch}, {std::string(branch) + "/y"});
    ModelText::fill(body->add_output(), std::string(branch) + "/y", 1, {1});
  }
  auto *function = text.proto.add_functions();
  function->set_name("Five");
  function->set_domain("local");
  function->add_output("five");
  auto *import_of_function = function->add_opset_import();
  import_of_function->set_version(13);
  constant(ModelText::add_node(function->add_node(), "Constant", {}, {"five"}), "function", 5);
  auto *local = text.proto.add_opset_import();
  local->set_domain("local");
  local->set_version(1);
  text.node("Five", {}, {"five"}, "local");
  text.node("Sum", {"initializer", "values", "attribute", "chosen", "five"}, {"y"});
  text.output("y");
  const std::string bytes = text.bytes();
  const auto open = [&](ExternalUse use) { return open_bytes(bytes, folder.string(), use); };

  Imported whole, read, mapped;
  import(open(ExternalUse::Map), whole);
  CHECK_OK(whole.status);
  auto kept = open(ExternalUse::Read), later = open(ExternalUse::Map);
  std::filesystem::remove_all(folder);
  import(std::move(kept), read);
  CHECK_OK(read.status);
  import(std::move(later), mapped);
  CHECK_OK(mapped.status);
  std::filesystem::create_directories(folder);
  CHECK_EQ(test::outcome(open(ExternalUse::Read)), "QR-O0007 external data file 'initializer': is not there");
  // What was not there when the model was opened is not taken later, and all of it is reported.
  auto without = open(ExternalUse::Map);
  std::ofstream(folder / "initializer", std::ios::binary) << "1234";
  Imported refused;
  import(std::move(without), refused);
  CHECK(refused.has_reason("external data file 'initializer': is not there"));
  CHECK(refused.has_reason("external data file 'function': is not there"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("captures are passed") {
  ModelText text(13);
  text.input("c", {}, 9);
  text.input("x", {2});
  text.floats("k", {1}, {3});
  auto *node = text.node("If", {"c"}, {"y"});
  auto *then_graph = ModelText::graph(node, "then_branch");
  ModelText::add_node(then_graph->add_node(), "Add", {"x", "k"}, {"t"});
  ModelText::fill(then_graph->add_output(), "t", 1, {2});
  auto *else_graph = ModelText::graph(node, "else_branch");
  ModelText::add_node(else_graph->add_node(), "Neg", {"x"}, {"e"});
  ModelText::fill(else_graph->add_output(), "e", 1, {2});
  text.output("y", {2});
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  const qir::Node &made = done.graph.nodes[0];
  CHECK_EQ(made.inputs.size(), 2u);  // the condition and x; k is a constant of the body
  CHECK_EQ(made.subgraphs[0].inputs.size(), 1u);
  CHECK_EQ(made.subgraphs[1].inputs.size(), 1u);
}

TEST_CASE("constant condition is inlined") {
  ModelText text(13);
  text.input("x", {2});
  text.constant<unsigned char>("c", 9, {}, {1});
  auto *node = text.node("If", {"c"}, {"y"});
  auto *then_graph = ModelText::graph(node, "then_branch");
  ModelText::add_node(then_graph->add_node(), "Abs", {"x"}, {"t"});
  ModelText::fill(then_graph->add_output(), "t", 1, {2});
  auto *else_graph = ModelText::graph(node, "else_branch");
  ModelText::add_node(else_graph->add_node(), "NoSuchOp", {"x"}, {"e"});
  ModelText::fill(else_graph->add_output(), "e", 1, {2});
  text.output("y", {2});
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  CHECK_EQ(done.graph.nodes.size(), 1u);
  CHECK(done.graph.nodes[0].op == qir::Op::Abs);
}

// An If on a run-time condition of a model whose else branch is this operator of a vector of two.
static void import_choice(const char *other, Imported &done) {
  ModelText text(13);
  text.input("c", {}, 9);
  text.input("x", {2});
  auto *node = text.node("If", {"c"}, {"y"});
  for (const char *const name : {"then_branch", "else_branch"}) {
    auto *graph = ModelText::graph(node, name);
    ModelText::add_node(graph->add_node(), name[0] == 't' ? "Abs" : other, {"x"}, {name});
    ModelText::fill(graph->add_output(), name, 1, {2});
  }
  text.output("y", {2});
  import(text, done);
}

TEST_CASE("a branch that cannot be imported may be one that is never taken") {
  Imported done;
  import_choice("NoSuchOp", done);
  CHECK(done.has_reason("its else branch cannot be imported; if it is never taken, give the input"));
}

TEST_CASE("a branch that the shapes do not fit fails when it is taken") {
  Imported done;
  import_choice("Det", done);
  REQUIRE_OK(done.status);
  const qir::Node &made = done.graph.nodes[0];
  REQUIRE_EQ(made.subgraphs.size(), 2u);
  CHECK_EQ(made.inputs.size(), 3u);  // the condition, x, and the condition for the branch that fails by it
  CHECK_EQ(made.inputs[2], made.inputs[0]);
  CHECK((done.tensor(made.outputs[0]).shape == qir::Shape{2}));
  const qir::Graph &failing = made.subgraphs[1];
  CHECK(failing.nodes[0].op == qir::Op::Not);
  CHECK(failing.nodes[0].name.find("the else branch of If 'y', which these shapes do not fit (Det") == 0);
  CHECK_OK(qir::validate_graph(done.graph));
}

TEST_CASE("RNN of one direction takes the first of two activations") {
  const auto kept = [](const char *direction, std::int64_t directions) {
    ModelText text(14);
    text.input("x", {3, 2, 5}), text.input("w", {directions, 4, 5}), text.input("r", {directions, 4, 4});
    auto *node = text.node("RNN", {"x", "w", "r"}, {"y"});
    ModelText::set(node, "hidden_size", std::int64_t{4});
    ModelText::set(node, "direction", direction);
    auto *to = node->add_attribute();
    to->set_name("activations");
    to->set_type(::onnx::AttributeProto_AttributeType_STRINGS);
    to->add_strings("Relu"), to->add_strings("Tanh");
    text.output("y");
    Imported done;
    import(text, done);
    CHECK_OK(done.status);
    const qir::Node *const found = done.find(qir::Op::RNN);
    return found ? *found->get_strings("activations") : Vector<String>();
  };
  CHECK((kept("reverse", 1) == Vector<String>{"Relu"}));
  CHECK((kept("bidirectional", 2) == Vector<String>{"Relu", "Tanh"}));
}

TEST_CASE("loop whose value grows") {
  ModelText text(13);
  text.input("x", {1});
  text.constant<std::int64_t>("m", 7, {}, {3});
  auto *node = text.node("Loop", {"m", "", "x"}, {"y"});
  auto *body = ModelText::graph(node, "body");
  ModelText::fill(body->add_input(), "i", 7, {});
  ModelText::fill(body->add_input(), "c", 9, {});
  ModelText::fill(body->add_input(), "v", 1, {1});
  ModelText::add_node(body->add_node(), "Identity", {"c"}, {"c2"});
  ModelText::set(ModelText::add_node(body->add_node(), "Concat", {"v", "x"}, {"v2"}), "axis", std::int64_t{0});
  ModelText::fill(body->add_output(), "c2", 9, {});
  ModelText::fill(body->add_output(), "v2", 1, {2});
  text.output("y");
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  const qir::Node &loop = done.graph.nodes[0];
  CHECK_EQ(loop.get_int("carried", 0), 1);
  CHECK_EQ(loop.inputs.size(), 4u);  // m, no condition, x carried, x captured
  const qir::Graph &graph = loop.subgraphs[0];
  CHECK_EQ(graph.tensors[static_cast<std::size_t>(graph.inputs[2])].shape[0], qir::kUnknownDim);
}

TEST_CASE("functions are inlined with their attributes") {
  ModelText text(17);
  auto *import_local = text.proto.add_opset_import();
  import_local->set_domain("local");
  import_local->set_version(1);
  auto *function = text.proto.add_functions();
  function->set_domain("local");
  function->set_name("Leak");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("slope");
  auto *opset = function->add_opset_import();
  opset->set_domain("");
  opset->set_version(17);
  auto *inner = ModelText::add_node(function->add_node(), "LeakyRelu", {"a"}, {"b"});
  auto *reference = inner->add_attribute();
  reference->set_name("alpha");
  reference->set_type(::onnx::AttributeProto_AttributeType_FLOAT);
  reference->set_ref_attr_name("slope");
  text.input("x", {2});
  ModelText::set(text.node("Leak", {"x"}, {"t"}, "local"), "slope", 0.25f);
  text.node("Leak", {"t"}, {"y"}, "local");
  text.output("y", {2});
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  CHECK_EQ(done.graph.nodes.size(), 2u);
  CHECK_EQ(done.graph.nodes[0].get_float("alpha", 0), 0.25f);
  CHECK(done.graph.nodes[1].find("alpha") == nullptr);
  CHECK(done.tensor(done.graph.outputs[0]).name == "y");
}

TEST_CASE("recursive functions end") {
  ModelText text(17);
  auto *function = text.proto.add_functions();
  function->set_domain("local");
  function->set_name("Again");
  function->add_input("a");
  function->add_output("b");
  ModelText::add_node(function->add_node(), "Again", {"a"}, {"b"}, "local");
  text.input("x", {2});
  text.node("Again", {"x"}, {"y"}, "local");
  text.output("y", {2});
  Imported done;
  import(text, done);
  CHECK_EQ(done.status.id(), "QR-O0002");
}

TEST_CASE("outputs keep their names") {
  ModelText text(13);
  text.input("x", {2});
  text.floats("w", {2}, {1, 2});
  text.node("Identity", {"x"}, {"same"});
  text.node("Relu", {"x"}, {"r"});
  text.node("Identity", {"r"}, {"first"});
  text.node("Identity", {"r"}, {"second"});
  for (const char *name : {"same", "first", "second", "w"}) text.output(name, {2});
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  const char *names[] = {"same", "first", "second", "w"};
  for (std::size_t i = 0; i < 4; ++i) CHECK_EQ(done.tensor(done.graph.outputs[i]).name, names[i]);
}

TEST_CASE("opset 6 broadcast") {
  ModelText text(6);
  text.input("x", {2, 3, 4});
  text.input("b", {3});
  auto *add = text.node("Add", {"x", "b"}, {"y"});
  ModelText::set(add, "broadcast", std::int64_t{1});
  ModelText::set(add, "axis", std::int64_t{1});
  text.output("y");
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  CHECK((done.tensor(done.find(qir::Op::Add)->inputs[1]).shape == qir::Shape{3, 1}));
}

TEST_CASE("ONNX Runtime's simplified norm in ONNX's own domain") {
  ModelText text(17);
  text.input("x", {2, 4});
  text.floats("scale", {4}, {1, 2, 3, 4});
  auto *norm = text.node("SimplifiedLayerNormalization", {"x", "scale"}, {"y"});
  ModelText::set(norm, "axis", std::int64_t{-1});
  text.output("y");
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  CHECK(done.find(qir::Op::RMSNormalization));
}
