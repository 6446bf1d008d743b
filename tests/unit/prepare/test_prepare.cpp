// SPDX-License-Identifier: Apache-2.0
// libquarry-prepare through its own table, and its passes against the graph that they started from.
#include "tests/unit/prepare/prepare_test.h"

using namespace quarry;
using namespace quarry::test;

namespace {

// What the model means as imported: no pass but folding has touched it.
std::vector<float> run_unfused(const ModelText &from, std::vector<float> input) {
  const std::string bytes = from.bytes();
  auto model = onnx_import::Model::open({bytes.data(), bytes.size()}, {});
  REQUIRE_OK(model);
  auto shapes = prepare::bind_shapes(**model, "", prepare::Ranges::Refused);
  onnx_import::Store store;
  auto graph = onnx_import::import_graph(**model, shapes->inputs, store, nullptr, nullptr);
  return CHECK_OK(graph) ? run(*graph, std::move(input)) : std::vector<float>();
}

std::size_t count(const qir::Graph &graph, qir::Op op) {
  std::size_t found = 0;
  for (const qir::Node &node : graph.nodes) found += node.op == op;
  return found;
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(static_cast<int>(i * 37 % 64) - 32) * 0.0713f);
  return values;
}

void quantize(ModelText &model, const std::string &from, const std::string &to, const std::string &scale,
              const std::string &zero) {
  model.node("QuantizeLinear", {from, scale, zero}, {to + "_q"});
  model.node("DequantizeLinear", {to + "_q", scale, zero}, {to});
}

// x -> Q -> DQ -> Conv (-> Relu) -> Q -> DQ -> y, weights i8 per channel, bias i32.
ModelText quantized_conv(bool relu, std::uint8_t output_zero, float bias_factor = 1) {
  ModelText model(13);
  model.input("x", {1, 2, 4, 4});
  model.floats("sx", {}, {0.02f});
  model.constant<std::uint8_t>("zx", 2, {}, {120});
  model.floats("sw", {3}, {0.01f, 0.03f, 0.002f});
  model.constant<std::int8_t>("zw", 3, {3}, {0, 0, 0});
  model.floats("sb", {3}, {0.02f * 0.01f * bias_factor, 0.02f * 0.03f * bias_factor, 0.02f * 0.002f * bias_factor});
  model.constant<std::int32_t>("zb", 6, {3}, {0, 0, 0});
  model.floats("sy", {}, {0.05f});
  model.constant<std::uint8_t>("zy", 2, {}, {output_zero});
  std::vector<std::int8_t> weights;
  for (int i = 0; i < 3 * 2 * 3 * 3; ++i) weights.push_back(static_cast<std::int8_t>(i * 29 % 251 - 125));
  model.constant<std::int8_t>("w", 3, {3, 2, 3, 3}, weights);
  model.constant<std::int32_t>("b", 6, {3}, {100, -2000, 30000});
  quantize(model, "x", "xd", "sx", "zx");
  ModelText::set(model.node("DequantizeLinear", {"w", "sw", "zw"}, {"wd"}), "axis", std::int64_t{0});
  ModelText::set(model.node("DequantizeLinear", {"b", "sb", "zb"}, {"bd"}), "axis", std::int64_t{0});
  ModelText::set(model.node("Conv", {"xd", "wd", "bd"}, {"c"}), "pads", std::vector<std::int64_t>{1, 1, 1, 1});
  if (relu) model.node("Relu", {"c"}, {"r"});
  quantize(model, relu ? "r" : "c", "y", "sy", "zy");
  model.output("y", {1, 3, 4, 4});
  return model;
}

}  // namespace

TEST_CASE("inputs with a default") {
  ModelText text(13);
  text.input("x", {2});
  text.input("k", {2});
  text.floats("k", {2}, {10, 20});
  text.node("Add", {"x", "k"}, {"y"});
  text.output("y", {2});
  const std::string bytes = text.bytes();
  auto model = onnx_import::Model::open({bytes.data(), bytes.size()}, {});
  REQUIRE_OK(model);
  CHECK_EQ((*model)->inputs().size(), 1u);
  const auto import = [&](const char *shape, qir::Graph *graph) {
    auto bound = prepare::bind_shapes(**model, shape, prepare::Ranges::Refused);
    if (!bound.ok()) return test::outcome(bound);
    static onnx_import::Store store;
    auto made = onnx_import::import_graph(**model, bound->inputs, store, nullptr, nullptr);
    if (made.ok()) *graph = std::move(*made);
    return test::outcome(made);
  };
  const auto result = [&](const char *shape) {
    qir::Graph graph;
    CHECK_EQ(import(shape, &graph), "ok");
    return run(graph, {1, 2});
  };
  CHECK((result("") == std::vector<float>{11, 22}));
  CHECK((result("k=[3 4]") == std::vector<float>{4, 6}));  // another constant
  CHECK((result("k=[5]") == std::vector<float>{6, 7}));
  qir::Graph graph;
  CHECK_EQ(import("k=2", &graph), "ok");  // an input
  CHECK_EQ(graph.inputs.size(), 2u);
  CHECK(import("k=3", &graph).find("declared as [2]") != std::string::npos);
  CHECK(import("k=[1 2 3]", &graph).find("found 3 values for [2]") != std::string::npos);
}

TEST_CASE("another version is refused") {
  CHECK(qr_prepare_query(QR_PREPARE_VERSION + 1) == nullptr);
  CHECK_EQ(qr_prepare_query(QR_PREPARE_VERSION)->struct_size, sizeof(qr_prepare_api));
}

TEST_CASE("io and inspect") {
  ModelText model(13);
  model.input("x", {-1, 3});
  model.node("Relu", {"x"}, {"y"});
  model.output("y", {-1, 3});
  const std::string bytes = model.bytes();
  const qr_prepare_api *api = qr_prepare_query(QR_PREPARE_VERSION);
  Errors errors;
  qr_prepared_model *opened = nullptr;
  REQUIRE_EQ(api->open(&kHost, {bytes.data(), bytes.size()}, -1, 0, nullptr, nullptr, &opened, &errors.sink), 0);
  CHECK_EQ(api->input_count(opened), 1u);
  qr_prepare_io io;
  api->input(opened, 0, &io);
  CHECK_EQ(std::string_view(io.name.data, io.name.size), "x");
  CHECK_EQ(io.rank, 2u);
  CHECK_EQ(io.dims[0], -1);
  CHECK_EQ(std::string_view(io.dim_names[0].data, io.dim_names[0].size), "n");
  CHECK_EQ(io.dims[1], 3);
  qr_plugin_string json;
  CHECK_EQ(api->inspect(opened, &json, &errors.sink), 0);
  CHECK(std::string_view(json.data, json.size).find("\"Relu\": 1") != std::string_view::npos);
  api->destroy(opened);
  api->destroy(nullptr);
  api->lowered_destroy(nullptr);
  CHECK_EQ(live_blocks, 0);
}

TEST_CASE("buckets share constants") {
  ModelText model(13);
  model.input("x", {-1, 64});
  model.floats("w", {64, 64}, ramp(64 * 64));
  model.node("MatMul", {"x", "w"}, {"y"});
  model.output("y", {-1, 64});
  const LoweredModel one(model, {"n=1"}), three(model, {"n=1", "n=2", "n=7"});
  CHECK_EQ(three.graphs.size(), 3u);
  CHECK_EQ(one.pool.size, three.pool.size);
  CHECK((three.graphs[2].tensors[static_cast<std::size_t>(three.graphs[2].outputs[0])].shape == qir::Shape{7, 64}));
}

TEST_CASE("shape chains fold") {
  ModelText model(13);
  model.input("x", {2, 3, 4});
  model.ints("zero", {0});
  model.ints("minus", {-1});
  model.node("Shape", {"x"}, {"s"});
  model.node("Gather", {"s", "zero"}, {"d"});
  ModelText::set(model.node("Concat", {"d", "minus"}, {"t"}), "axis", std::int64_t{0});
  model.node("Reshape", {"x", "t"}, {"r"});
  model.node("Reshape", {"r", "t"}, {"again"});  // changes nothing
  model.node("Relu", {"again"}, {"y"});
  model.output("y");
  const LoweredModel done(model);
  REQUIRE_EQ(done.code, 0);
  CHECK_EQ(done.graphs[0].nodes.size(), 2u);
  CHECK((done.graphs[0].tensors[static_cast<std::size_t>(done.graphs[0].outputs[0])].shape == qir::Shape{2, 12}));
}

TEST_CASE("folding does not blow up") {
  ModelText model(13);
  model.input("x", {1});
  model.ints("big", {1024, 1024, 4});
  model.floats("one", {1}, {1});
  model.node("Expand", {"one", "big"}, {"e"});
  model.node("Add", {"e", "x"}, {"y"});
  model.output("y");
  const LoweredModel done(model);
  REQUIRE_EQ(done.code, 0);
  CHECK_EQ(count(done.graphs[0], qir::Op::Expand), 1u);
  CHECK(done.pool.size < 1024u);
}

TEST_CASE("batch normalization folds") {
  for (const char *op : {"Conv", "ConvTranspose"}) {
    ModelText model(13);
    model.input("x", {1, 4, 3, 3});
    model.floats("w", {4, 2, 3, 3}, ramp(4 * 2 * 3 * 3));
    auto *conv = model.node(op, {"x", "w"}, {"c"});
    ModelText::set(conv, "group", std::int64_t{2});
    for (const char *name : {"scale", "bias", "mean"}) model.floats(name, {4}, {0.5f, -1.25f, 2, 0.75f});
    model.floats("var", {4}, {0.1f, 1, 2, 3});
    model.node("BatchNormalization", {"c", "scale", "bias", "mean", "var"}, {"y"});
    model.output("y");
    const LoweredModel done(model);
    REQUIRE_EQ(done.code, 0);
    CHECK_EQ(count(done.graphs[0], qir::Op::BatchNormalization), 0u);
    const auto input = ramp(4 * 3 * 3);
    const auto found = run(done.graphs[0], input), expected = run_unfused(model, input);
    REQUIRE_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      REQUIRE(std::fabs(found[i] - expected[i]) <= 1e-5f * (1 + std::fabs(expected[i])));
  }
}

TEST_CASE("qdq becomes quantised types") {
  const ModelText model = quantized_conv(false, 100);
  const LoweredModel done(model);
  REQUIRE_EQ(done.code, 0);
  const qir::Graph &graph = done.graphs[0];
  CHECK_EQ(graph.nodes.size(), 3u);  // QuantizeLinear, Conv, DequantizeLinear: the model's edge is float
  CHECK_EQ(count(graph, qir::Op::Conv), 1u);
  for (const qir::Node &node : graph.nodes) {
    if (node.op != qir::Op::Conv) continue;
    CHECK_EQ(graph.tensors[static_cast<std::size_t>(node.inputs[0])].dtype, DType::U8);
    const qir::Tensor &weights = graph.tensors[static_cast<std::size_t>(node.inputs[1])];
    CHECK((weights.quant && weights.quant->scales.size() == 3 && weights.quant->axis == 0));
    CHECK_EQ(graph.tensors[static_cast<std::size_t>(node.inputs[2])].dtype, DType::I32);
    CHECK(graph.tensors[static_cast<std::size_t>(node.outputs[0])].quant.has_value());
  }
  const auto input = ramp(2 * 4 * 4);
  CHECK(run(graph, input) == run_unfused(model, input));
}

TEST_CASE("relu that saturation does") {
  const ModelText implied = quantized_conv(true, 0), needed = quantized_conv(true, 100);
  const LoweredModel gone(implied), kept(needed);
  REQUIRE_EQ(gone.code, 0);
  REQUIRE_EQ(kept.code, 0);
  CHECK_EQ(count(gone.graphs[0], qir::Op::Relu), 0u);
  CHECK_EQ(count(kept.graphs[0], qir::Op::Relu), 1u);
  const auto input = ramp(2 * 4 * 4);
  CHECK(run(gone.graphs[0], input) == run_unfused(implied, input));
  CHECK(run(kept.graphs[0], input) == run_unfused(needed, input));
}

TEST_CASE("bias of another scale stays float") {
  const ModelText model = quantized_conv(false, 100, 1.5f);
  const LoweredModel done(model);
  REQUIRE_EQ(done.code, 0);
  for (const qir::Node &node : done.graphs[0].nodes)
    if (node.op == qir::Op::Conv) CHECK(!done.graphs[0].tensors[static_cast<std::size_t>(node.inputs[0])].quant);
  const auto input = ramp(2 * 4 * 4);
  CHECK(run(done.graphs[0], input) == run_unfused(model, input));
}

TEST_CASE("moves between quantised operators") {
  ModelText model(13);
  model.input("x", {1, 2, 2});
  model.floats("s", {}, {0.1f});
  model.constant<std::uint8_t>("z", 2, {}, {128});
  model.ints("flat", {1, 4});
  quantize(model, "x", "a", "s", "z");
  model.node("Sigmoid", {"a"}, {"t"});
  quantize(model, "t", "b", "s", "z");
  model.node("Reshape", {"b", "flat"}, {"r"});
  model.node("Add", {"r", "r"}, {"sum"});
  quantize(model, "sum", "y", "s", "z");
  model.output("y", {1, 4});
  const LoweredModel done(model);
  REQUIRE_EQ(done.code, 0);
  const qir::Graph &graph = done.graphs[0];
  CHECK_EQ(count(graph, qir::Op::QuantizeLinear), 1u);
  CHECK_EQ(count(graph, qir::Op::DequantizeLinear), 1u);
  const std::vector<float> input = {-1.03f, 0.22f, 0.5f, 7};
  CHECK(run(graph, input) == run_unfused(model, input));
}

TEST_CASE("qlinear operators") {
  ModelText model(12);
  model.input("x", {1, 4});
  model.floats("s", {}, {0.1f});
  model.constant<std::uint8_t>("z", 2, {}, {128});
  model.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  model.node("QLinearAdd", {"q", "s", "z", "q", "s", "z", "s", "z"}, {"sum"}, "com.microsoft");
  model.node("DequantizeLinear", {"sum", "s", "z"}, {"y"});
  model.output("y", {1, 4});
  auto *import = model.proto.add_opset_import();
  import->set_domain("com.microsoft");
  import->set_version(1);
  const LoweredModel done(model);
  REQUIRE_EQ(done.code, 0);
  CHECK_EQ(done.graphs[0].nodes.size(), 3u);
  const auto found = run(done.graphs[0], {-1.03f, 0.22f, 0.5f, 3});
  CHECK((found.size() == 4 && std::fabs(found[0] + 2.0f) < 1e-6f && std::fabs(found[3] - 6.0f) < 1e-6f));
}

TEST_CASE("reasons cross the edge") {
  ModelText model(13);
  model.input("x", {2});
  model.node("NoSuchOp", {"x"}, {"a"});
  ModelText::set(model.node("Cast", {"x"}, {"b"}), "to", std::int64_t{8});  // to string
  model.output("a");
  model.output("b");
  const LoweredModel done(model);
  CHECK_EQ(done.errors.id, "QR-O0004");
  CHECK_EQ(done.errors.details.size(), 2u);
  CHECK(done.errors.says("2 reasons"));
}

TEST_CASE("an aborted signal stops") {
  ModelText model(13);
  model.input("x", {2});
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  const uint32_t aborted = 1;
  const qr_plugin_signal abort = {sizeof(qr_plugin_signal), 0, &aborted, 0};
  const uint32_t running = 0;
  const qr_plugin_signal late = {sizeof(qr_plugin_signal), 0, &running, 1};
  const LoweredModel one(model, {}, &abort), two(model, {}, &late);
  CHECK_EQ(one.errors.id, "QR-C0011");
  CHECK_EQ(two.errors.id, "QR-C0012");
}

// ---- operators that ai.onnx had on trial, and Scan over batches: values by hand --------------------

TEST_CASE("old image operators") {
  ModelText affine(9);
  affine.input("x", {1, 1, 2, 2});
  auto *node = affine.node("Affine", {"x"}, {"y"});
  ModelText::set(node, "alpha", 2.0f);
  ModelText::set(node, "beta", -1.0f);
  affine.output("y");
  const LoweredModel affine_done(affine);
  CHECK_EQ(affine_done.code, 0);
  CHECK(run_lowered(affine_done, {1, 2, 3, 4}) == std::vector<float>({1, 3, 5, 7}));

  ModelText scaler(1);
  scaler.input("x", {1, 2, 1, 2});
  node = scaler.node("ImageScaler", {"x"}, {"y"});
  ModelText::set(node, "scale", 0.5f);
  ModelText::set_floats(node, "bias", {10, -10});
  scaler.output("y");
  const LoweredModel scaler_done(scaler);
  CHECK_EQ(scaler_done.code, 0);
  CHECK(run_lowered(scaler_done, {2, 4, 6, 8}) == std::vector<float>({11, 12, -7, -6}));
  scaler.proto.mutable_graph()->mutable_node(0)->mutable_attribute(1)->add_floats(0);
  CHECK(LoweredModel(scaler).errors.says("bias has 3 entries, the image has 2 channels"));

  // 3 high, 4 wide: 0 1 2 3 / 4 5 6 7 / 8 9 10 11
  const std::vector<float> image = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  ModelText crop(7);
  crop.input("x", {1, 1, 3, 4});
  node = crop.node("Crop", {"x"}, {"y"});
  ModelText::set(node, "border", std::vector<std::int64_t>{1, 0, 2, 1});  // left, top, right, bottom
  crop.output("y");
  const LoweredModel crop_done(crop);
  CHECK_EQ(crop_done.code, 0);
  CHECK(run_lowered(crop_done, image) == std::vector<float>({1, 5}));
  ModelText::set(node, "scale", std::vector<std::int64_t>{2, 3});  // height, width from the corner on
  const LoweredModel kept(crop);
  CHECK_EQ(kept.code, 0);
  CHECK(run_lowered(kept, image) == std::vector<float>({1, 2, 3, 5, 6, 7}));
  node->mutable_attribute(1)->set_ints(0, 4);
  CHECK(LoweredModel(crop).errors.says("the image is 3 high, too little"));
  node->mutable_attribute(1)->clear_ints();
  node->mutable_attribute(0)->set_ints(3, 0);  // nothing off the bottom
  CHECK(run_lowered(LoweredModel(crop), image) == std::vector<float>({1, 5, 9}));

  crop.proto.mutable_opset_import(0)->set_version(10);
  CHECK(LoweredModel(crop).errors.says("operator ai.onnx.Crop is not supported"));
}

TEST_CASE("scan of opset 8 runs over batches") {
  // state + slice -> state and slice out: running sums, for each of two batches, the sequence backwards
  ModelText model(8);
  model.input("x", {2, 3, 2});
  model.floats("start", {2, 2}, {0, 0, 100, 200});
  model.floats("factor", {}, {10});  // taken from outside
  auto *scan = model.node("Scan", {"", "start", "x"}, {"last", "sums"});
  ModelText::set(scan, "num_scan_inputs", std::int64_t{1});
  ModelText::set(scan, "directions", std::vector<std::int64_t>{1});
  auto *body = ModelText::graph(scan, "body");
  body->set_name("body");
  ModelText::fill(body->add_input(), "sum_in", 1, {2});
  ModelText::fill(body->add_input(), "slice", 1, {2});
  ModelText::add_node(body->add_node(), "Mul", {"slice", "factor"}, {"scaled"});
  ModelText::add_node(body->add_node(), "Add", {"sum_in", "scaled"}, {"sum_out"});
  ModelText::add_node(body->add_node(), "Identity", {"sum_out"}, {"scan_out"});
  ModelText::fill(body->add_output(), "sum_out", 1, {2});
  ModelText::fill(body->add_output(), "scan_out", 1, {2});
  model.output("sums", {2, 3, 2});
  model.output("last", {2, 2});
  const LoweredModel done(model);
  CHECK_EQ(done.code, 0);
  CHECK_EQ(done.errors.message, "");
  CHECK(run_lowered(done, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) ==
        std::vector<float>({50, 60, 80, 100, 90, 120, 210, 320, 300, 420, 370, 500}));

  scan->set_input(0, "lengths");
  model.ints("lengths", {3, 2});
  CHECK(LoweredModel(model).errors.says("Scan of opset 8 with lengths of sequences"));
  scan->set_input(0, "");
  scan->mutable_attribute(0)->set_i(3);
  CHECK(LoweredModel(model).errors.says("num_scan_inputs is 3, the node has 2 states and scanned inputs"));
}

TEST_CASE("passes leave custom operators alone") {
  ModelText model(13);
  auto *import = model.proto.add_opset_import();
  import->set_domain("my.domain");
  import->set_version(1);
  model.input("x", {2});
  model.floats("c", {2}, {1, 2});
  model.floats("s", {}, {0.5f});
  model.constant<std::uint8_t>("z", 2, {}, {3});
  model.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  model.node("MyOp", {"c"}, {"a"}, "my.domain");  // constant inputs, and yet not folded
  model.node("MyOp", {"q", "a"}, {"b"}, "my.domain");
  model.node("DequantizeLinear", {"b", "s", "z"}, {"y"});
  ModelText::fill(model.proto.mutable_graph()->add_value_info(), "a", 1, {2});
  ModelText::fill(model.proto.mutable_graph()->add_value_info(), "b", 2, {2});
  model.output("y", {2});
  const LoweredModel done(model);
  CHECK_EQ(done.errors.message, "");
  REQUIRE_EQ(done.graphs.size(), 1u);
  const qir::Graph &graph = done.graphs[0];
  CHECK_EQ(count(graph, qir::Op::Custom), 2u);
  // What goes into it and comes out of it is what the model says: stored integers, not a quantised type.
  for (const qir::Node &node : graph.nodes)
    if (node.op == qir::Op::Custom)
      for (const auto *list : {&node.inputs, &node.outputs})
        for (const std::int32_t id : *list) CHECK(!graph.tensors[index_of(id)].quant);
}
