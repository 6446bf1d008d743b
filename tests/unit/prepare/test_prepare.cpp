// SPDX-License-Identifier: Apache-2.0
// libquarry-prepare through its own table, and its passes against the graph that they started from.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "backends/cpu-reference/folder.h"
#include "backends/cpu-reference/interpreter.h"
#include "graph/dimensions.h"
#include "prepare/lower.h"
#include "prepare/prepare_api.h"
#include "prepare/shapes.h"
#include "tests/support/check.h"
#include "tests/unit/onnx/model_text.h"

extern "C" const qr_prepare_api *qr_prepare_query(uint32_t version);

using namespace quarry;
using quarry::test::ModelText;

namespace {

std::int64_t live_blocks = 0;
void *host_alloc(void *, uint64_t size, uint64_t align) {
  void *ptr = nullptr;
  if (posix_memalign(&ptr, align < 16 ? 16 : align, size ? size : 1) != 0) return nullptr;
  ++live_blocks;
  return ptr;
}
void host_free(void *, void *ptr, uint64_t, uint64_t) {
  --live_blocks;
  std::free(ptr);
}
const qr_host kHost = {sizeof(qr_host),
                       1,
                       0,
                       0,
                       QR_PLUGIN_MAGIC,
                       nullptr,
                       host_alloc,
                       host_free,
                       [](void *, int32_t, qr_plugin_string, qr_plugin_string) {},
                       [](void *) -> uint64_t { return 1000; },
                       [](void *, const char *) -> const void * { return nullptr; }};

struct Errors {
  std::string id, message, hint;
  std::vector<std::string> details;
  qr_error_sink sink = {
      sizeof(qr_error_sink), 0, this,
      [](void *self, qr_plugin_code, qr_plugin_string id, qr_plugin_string message, qr_plugin_string hint) {
        auto *errors = static_cast<Errors *>(self);
        errors->id.assign(id.data, id.size);
        errors->message.assign(message.data, message.size);
        errors->hint.assign(hint.data, hint.size);
      },
      [](void *self, qr_plugin_string, qr_plugin_string value) {
        static_cast<Errors *>(self)->details.emplace_back(value.data, value.size);
      }};
  bool says(const char *part) const { return message.find(part) != std::string::npos; }
};

qr_plugin_string text(const char *from) { return {from, std::strlen(from)}; }

// A model through the table: opened, lowered for the given buckets, read back.
struct LoweredModel {
  const qr_prepare_api *api = qr_prepare_query(QR_PREPARE_VERSION);
  std::string bytes;
  qr_prepared_model *model = nullptr;
  qr_lowered *lowered = nullptr;
  Errors errors;
  qr_plugin_code code = 0;
  Vector<qir::Graph> graphs;
  qir::Bytes pool;

  LoweredModel(const ModelText &from, std::vector<const char *> buckets = {}, const qr_plugin_signal *signal = nullptr,
               bool takes_ranges = false)
      : bytes(from.bytes()) {
    code = api->open(&kHost, {bytes.data(), bytes.size()}, -1, 0, nullptr, nullptr, &model, &errors.sink);
    if (code != 0) return;
    std::vector<qr_plugin_string> shapes;
    for (const char *bucket : buckets) shapes.push_back(text(bucket));
    code = api->lower(model, shapes.data(), shapes.size(), takes_ranges, signal, nullptr, &lowered, &errors.sink);
    if (code != 0) return;
    const qr_plugin_bytes all = api->pool(lowered);
    pool = {all.data, all.size};
    for (uint64_t i = 0; i < api->graph_count(lowered); ++i) {
      qr_lowered_graph one;
      api->graph(lowered, i, &one);
      auto graph = qir::read_graph({one.qir.data, one.qir.size}, &pool, 1);
      REQUIRE_OK(graph);
      graphs.push_back(std::move(*graph));
    }
  }
  ~LoweredModel() {
    api->lowered_destroy(lowered);
    api->destroy(model);
  }
};

// The first output for one input.
std::vector<float> run(const qir::Graph &graph, std::vector<float> input) {
  auto program = reference::Program::build(graph);
  REQUIRE_OK(program);
  reference::Execution execution(**program);
  struct Alone final : reference::Environment {
  } alone;
  reference::IoBuffer in;
  std::vector<reference::IoBuffer> out(graph.outputs.size());
  in.data = input.data();
  in.size_bytes = input.size() * sizeof(float);
  const qir::Shape &shape = graph.tensors[static_cast<std::size_t>(graph.inputs[0])].shape;
  in.rank = static_cast<std::uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), in.dims);
  REQUIRE_OK(execution.run(&in, 1, out.data(), out.size(), alone));
  const auto *data = static_cast<const float *>(out[0].data);
  return std::vector<float>(data, data + out[0].used_bytes / sizeof(float));
}

std::vector<float> run_lowered(const LoweredModel &done, std::vector<float> input) {
  return done.graphs.empty() ? std::vector<float>() : run(done.graphs[0], std::move(input));
}

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

TEST_CASE("shapes are bound") {
  ModelText model(13);
  model.input("image", {-1, 3});
  model.input("other", {-1});
  model.node("Relu", {"image"}, {"y"});
  model.output("y", {-1, 3});
  const struct {
    const char *shape, *id, *part;
  } bad[] = {{"", "QR-O0008", "input 'image' [n,3], input 'other' [n]"},
             {"imagee=2x3", "QR-O0009", "did you mean 'image'"},
             {"image=2x4", "QR-O0009", "declared as [n,3]"},
             {"image=2", "QR-O0009", "declared as [n,3]"},
             {"image=2x3,other=5", "QR-O0009", "bound to 2"},
             {"n=-4", "QR-O0009", "a number, or a range"},
             {"n=1..4", "QR-O0009", "found the range 1..4, expected a number"},
             {"n", "QR-O0009", "no '='"},
             {"n=9223372036854775807", "QR-O0009", "more elements than a tensor can"},
             {"image=2x", "QR-O0009", "expected dimensions"},
             {"image=[1 two]", "QR-O0009", "expected numbers"},
             {"image=[", "QR-O0009", "expected numbers"},
             {"image=[ ]", "QR-O0009", "no number"},
             {"n=2,image=[1 2 3]", "QR-O0009", "3 values for [2,3]"},
             {"image=[1]", "QR-O0008", "unbound"}};
  for (const auto &one : bad) {
    const LoweredModel done(model, {one.shape});
    CHECK_EQ(done.errors.id, one.id);
    CHECK_MESSAGE(done.errors.says(one.part), one.shape, ": ", done.errors.message);
  }
  for (const char *good : {"n=2", "image=2x3", " image = 2x3 , n = 2 ", "other=2"}) {
    const LoweredModel done(model, {good});
    REQUIRE_EQ(done.code, 0);

    CHECK((done.graphs[0].tensors[static_cast<std::size_t>(done.graphs[0].inputs[0])].shape == qir::Shape{2, 3}));
  }
  CHECK_EQ(live_blocks, 0);
}

TEST_CASE("dimensions are ranges where a backend takes them") {
  ModelText model(13);
  model.input("x", {-1, 3});
  model.node("Relu", {"x"}, {"y"});
  model.output("y", {-1, 3});
  const auto lowered = [&](std::vector<const char *> shapes) { return LoweredModel(model, shapes, nullptr, true); };
  const struct {
    const char *shape;
    std::int64_t low, high;
  } good[] = {{"n=1..512", 1, 512}, {"x=2..8x3", 2, 8}, {"n=0..4", 0, 4}, {"", 1, qir::kMaxExtent}};
  for (const auto &one : good) {
    const LoweredModel done = lowered({one.shape});
    REQUIRE_EQ(done.code, 0);
    const qir::Graph &graph = done.graphs[0];
    CHECK((qir::at(graph, graph.inputs[0]).shape == qir::Shape{-1, 3}));
    REQUIRE_EQ(graph.dimensions.size(), 1u);
    CHECK_EQ(graph.dimensions[0].name, "n");
    CHECK_EQ(graph.dimensions[0].low, one.low);
    CHECK_EQ(graph.dimensions[0].high, one.high);
    CHECK((graph.dimensions[0].places == Vector<qir::Dimension::Place>{{0, 0}}));
  }
  CHECK(lowered({"n=5"}).graphs[0].dimensions.empty());
  CHECK_EQ(lowered({"n=4..1"}).errors.id, "QR-O0009");
  CHECK(lowered({"n=1..1099511627777"}).errors.says("the limit is 1099511627776"));
  CHECK_EQ(lowered({"n=1..2,x=1..3x3"}).errors.id, "QR-O0009");
  CHECK(lowered({"n=1..2", "n=4"}).errors.says("there are other buckets"));
  CHECK_EQ(live_blocks, 0);
}

TEST_CASE("a dimension whose name says what it is follows from others") {
  ModelText model(13);
  const char *const names[] = {"past", "seq", "past + 2*seq - 1"};
  for (int i = 0; i < 3; ++i) {
    model.input(std::string(1, static_cast<char>('a' + i)).c_str(), {-1});
    model.proto.mutable_graph()
        ->mutable_input(i)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param(names[i]);
  }
  auto *const axis = model.node("Concat", {"a", "b", "c"}, {"y"})->add_attribute();
  axis->set_name("axis"), axis->set_type(::onnx::AttributeProto::INT), axis->set_i(0);
  model.output("y", {-1});
  const LoweredModel fixed(model, {"past=3,seq=2"});
  REQUIRE_EQ(fixed.code, 0);
  CHECK((qir::at(fixed.graphs[0], fixed.graphs[0].inputs[2]).shape == qir::Shape{6}));
  const LoweredModel open(model, {"past=3,seq=1..4"}, nullptr, true);
  REQUIRE_EQ(open.code, 0);
  const Vector<qir::Dimension> &dimensions = open.graphs[0].dimensions;
  REQUIRE_EQ(dimensions.size(), 2u);
  CHECK_EQ(dimensions[1].name, "past + 2*seq - 1");
  CHECK_EQ(dimensions[1].added, 2);
  CHECK((dimensions[1].terms == Vector<qir::Dimension::Term>{{0, 2}}));
  CHECK_EQ(LoweredModel(model, {""}).errors.hint, "bind them with the option shape: past=N,seq=N");
}

namespace {

// One input for each dimension, whose name it has.
ModelText vectors(std::initializer_list<const char *> names) {
  ModelText model(13);
  for (const char *name : names) {
    const std::string input = "in_" + std::to_string(model.proto.graph().input_size());
    model.input(input.c_str(), {-1});
    model.proto.mutable_graph()
        ->mutable_input(model.proto.graph().input_size() - 1)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param(name);
    model.node("Relu", {input}, {"out_" + input});
    model.output(("out_" + input).c_str(), {-1});
  }
  return model;
}

}  // namespace

TEST_CASE("a sum that is bound to a number is kept to by the runs") {
  const ModelText model = vectors({"past", "seq", "past + seq"});
  const auto lowered = [&](const char *shape) { return LoweredModel(model, {shape}, nullptr, true); };
  const LoweredModel bound = lowered("past=0..8,seq=1..2,past + seq=4");
  REQUIRE_EQ(bound.code, 0);
  const qir::Graph &graph = bound.graphs[0];
  const auto check = [&](std::int64_t past, std::int64_t seq, std::int64_t all) {
    const Vector<qir::Shape> shapes{{past}, {seq}, {all}};
    return test::outcome(qir::check_dimensions(graph, shapes));
  };
  CHECK_EQ(check(3, 1, 4), "ok");
  CHECK(check(3, 2, 5).find("expected 4..4") != std::string::npos);
  CHECK(check(3, 2, 4).find("expected 'past' (3) + 'seq' (2)") != std::string::npos);
  // What no run can give.
  for (const char *none : {"past=0..8,seq=1..2,past + seq=100..200", "past=0..8,seq=1..2,past + seq=11",
                           "past=2..8,seq=2,past + seq=0..3", "past=1,seq=2,past + seq=4", "past + seq=0"})
    CHECK_EQ(lowered(none).errors.id, "QR-O0009");
  CHECK_EQ(LoweredModel(model, {"past=1,seq=2,past + seq=4"}).errors.id, "QR-O0009");
  CHECK_EQ(LoweredModel(model, {"past=1,seq=2,past + seq=3"}).code, 0);
  CHECK(lowered("past=1,seq=2").graphs[0].dimensions.empty());
}

TEST_CASE("names of dimensions: sums of sums, and a minus in a name") {
  const LoweredModel chain(vectors({"2*3*n", "3*n", "n"}), {}, nullptr, true);
  REQUIRE_EQ(chain.code, 0);
  const auto check = [&](std::int64_t six, std::int64_t three, std::int64_t one) {
    const Vector<qir::Shape> shapes{{six}, {three}, {one}};
    return qir::check_dimensions(chain.graphs[0], shapes);
  };
  CHECK_OK(check(12, 6, 2));
  CHECK_EQ(check(13, 6, 2).id(), "QR-R0003");
  CHECK_EQ(check(14, 7, 2).id(), "QR-R0003");
  const auto terms = [](const char *name) {
    const LoweredModel made(vectors({"seq", "len", name}), {}, nullptr, true);
    return made.graphs[0].dimensions[2].terms.size() + made.graphs[0].dimensions[0].terms.size();
  };
  CHECK_EQ(terms("seq-len"), 0u);
  CHECK_EQ(terms("seq - len"), 2u);
  CHECK_EQ(terms("seq-1"), 1u);
}

TEST_CASE("of many unbound inputs three are named") {
  ModelText model(13);
  for (int i = 0; i < 5; ++i) model.input(("x" + std::to_string(i)).c_str(), {-1});
  model.node("Sum", {"x0", "x1", "x2", "x3", "x4"}, {"y"});
  model.output("y", {-1});
  CHECK(LoweredModel(model, {""}).errors.says("input 'x2' [n] and 2 more"));
}

TEST_CASE("dimensions without a name stand for themselves") {
  for (const char *name : {"?", ""}) {
    ModelText model(13);
    model.input("a", {-1, -1});
    model.input("b", {-1, 3});
    for (int i = 0; i < 2; ++i)
      for (auto &dim : *model.proto.mutable_graph()
                            ->mutable_input(i)
                            ->mutable_type()
                            ->mutable_tensor_type()
                            ->mutable_shape()
                            ->mutable_dim())
        if (dim.has_dim_param()) dim.set_dim_param(name);
    model.node("MatMul", {"a", "b"}, {"y"});
    model.output("y");
    const LoweredModel done(model, {"a=2x5,b=5x3"});
    CHECK_EQ(done.code, 0);
    CHECK_EQ(done.graphs.size(), 1u);
    if (done.graphs.size() == 1)
      CHECK((done.graphs[0].tensors[static_cast<std::size_t>(done.graphs[0].outputs[0])].shape == qir::Shape{2, 3}));
    const LoweredModel open(model, {"a=2x5"});
    CHECK_EQ(open.errors.id, "QR-O0008");
    CHECK(open.errors.says("input 'b' [?,3]"));
    CHECK_EQ(open.errors.hint, "bind them with the option shape: b=1x...");
    CHECK_EQ(LoweredModel(model, {"?=5"}).errors.id, "QR-O0009");
  }
}

TEST_CASE("a scalar may be given as one element") {
  ModelText model(13);
  model.input("x", {2});
  model.input("rate", {});
  model.node("Mul", {"x", "rate"}, {"y"});
  model.output("y", {2});
  for (const char *good : {"rate=", "rate=1", ""}) CHECK_EQ(LoweredModel(model, {good}).code, 0);
  CHECK_EQ(LoweredModel(model, {"rate=2"}).errors.id, "QR-O0009");
}

TEST_CASE("an input may be given its value") {
  ModelText model(13);
  model.input("x", {2});
  model.input("rate", {});
  model.node("Mul", {"x", "rate"}, {"y"});
  model.output("y", {2});
  const LoweredModel done(model, {"rate=[ -2.5 ]"});
  CHECK_EQ(done.code, 0);
  REQUIRE_EQ(done.graphs.size(), 1u);
  CHECK_EQ(done.graphs[0].inputs.size(), 1u);
  CHECK((run_lowered(done, {1, 3}) == std::vector<float>{-2.5f, -7.5f}));
  CHECK((run_lowered(LoweredModel(model, {"rate=[2],x=2"}), {1, 3}) == std::vector<float>{2, 6}));
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
