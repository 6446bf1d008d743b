// SPDX-License-Identifier: Apache-2.0
// Custom operators in a graph: through bytes and back, listed, held to their rules, left as they are by inference.
#include <functional>

#include "formats/flatbuffer.h"
#include "graph/infer/infer.h"
#include "graph/limits.h"
#include "qir_generated.h"
#include "sample_graph.h"
#include "tests/support/check.h"

namespace quarry {
namespace {

using qir::Attribute;
using qir::Op;
using test::AlignedBytes;
using test::SampleGraph;

// y, (absent), z = my.domain::MyOp(x, absent); w = my.domain::MyOp(x) version 4: with every kind of attribute.
struct CustomGraph {
  Vector<std::int32_t> table{5, 6, -7};
  Vector<float> list{0.5f};
  qir::Graph graph;

  CustomGraph() {
    graph.name = "custom";
    const auto x = SampleGraph::tensor(graph, "x", DType::F32, {2, 3}),
               y = SampleGraph::tensor(graph, "y", DType::F16, {2, qir::kUnknownDim}),
               z = SampleGraph::tensor(graph, "z", DType::I64, {}), w = SampleGraph::tensor(graph, "w", DType::U8, {7});
    qir::Node &n = SampleGraph::node(graph, Op::Custom, "mine", {x, qir::kAbsent}, {y, qir::kAbsent, z});
    qir::CustomOp op;
    op.domain = "my.domain";
    op.type = "MyOp";
    op.version = 3;
    n.custom = quarry::make_shared<const qir::CustomOp>(op);
    n.set("count", std::int64_t{-7});
    n.set("rate", -0.0f);
    n.set("mode", std::string_view("fast"));
    n.set("axes", Vector<std::int64_t>{1, 2});
    n.set("weights", Vector<float>{0.25f});
    n.set("words", Vector<String>{"one", "two"});
    Attribute &one = n.attributes.emplace_back();
    one.name = "table";
    one.kind = Attribute::Kind::Tensor;
    one.tensors.push_back(constant("t", DType::I32, {3}, table.data(), 12));
    Attribute &many = n.attributes.emplace_back();
    many.name = "tables";
    many.kind = Attribute::Kind::Tensors;
    many.tensors.push_back(constant("", DType::F32, {}, list.data(), 4));
    many.tensors.push_back(constant("again", DType::I32, {3}, table.data(), 12));
    Attribute &none = n.attributes.emplace_back();
    none.name = "none";
    none.kind = Attribute::Kind::Tensors;
    qir::Node &second = SampleGraph::node(graph, Op::Custom, "other", {x}, {w});
    op.version = 4;
    second.custom = quarry::make_shared<const qir::CustomOp>(op);
    graph.inputs = {x};
    graph.outputs = {y, z, w};
  }
  CustomGraph(const CustomGraph &) = delete;
  CustomGraph &operator=(const CustomGraph &) = delete;

  static qir::Tensor constant(const char *name, DType dtype, qir::Shape shape, const void *data, std::uint64_t size) {
    qir::Tensor made;
    made.name = name;
    made.dtype = dtype;
    made.shape = std::move(shape);
    made.is_constant = true;
    made.data = {data, size};
    return made;
  }
  qir::Node &node() { return graph.nodes[0]; }
};

// A graph as bytes, with its constants.
struct Written {
  qir::ConstantPool pool;
  Vector<std::uint8_t> qir;
  std::unique_ptr<AlignedBytes> segment;

  explicit Written(const qir::Graph &graph) {
    Result<Vector<std::uint8_t>> bytes = qir::write_graph(graph, pool);
    CHECK_OK(bytes);
    if (bytes.ok()) qir = std::move(*bytes);
    segment = std::make_unique<AlignedBytes>(pool.size());
    pool.write_to(segment->data());
  }
};

std::string refusal(const std::function<void(CustomGraph &)> &damage) {
  CustomGraph made;
  damage(made);
  const Status status = qir::validate_graph(made.graph);
  return status.ok() ? "accepted" : std::string(status.id()) + " " + std::string(status.message());
}
#define REFUSED(damage, message) CHECK_EQ(refusal([](CustomGraph &g) { damage; }), message)

// Changes the name of the first node's operator.
void rename(CustomGraph &g, const String &domain, const String &type, std::int64_t version = 1) {
  qir::CustomOp op;
  op.domain = domain;
  op.type = type;
  op.version = version;
  g.node().custom = quarry::make_shared<const qir::CustomOp>(op);
}

TEST_CASE("custom nodes are read as they were written") {
  CustomGraph made;
  const Written written(made.graph);
  const qir::Bytes segment = written.segment->bytes();
  Result<qir::Graph> read = qir::read_graph({written.qir.data(), written.qir.size()}, &segment, 1);
  CHECK_OK(read);
  if (!read.ok()) return;
  CHECK_EQ(qir::print_graph(*read), qir::print_graph(made.graph));
  const qir::Node &n = read->nodes.at(0), &second = read->nodes.at(1);
  CHECK((n.custom && n.custom->domain == "my.domain" && n.custom->type == "MyOp" && n.custom->version == 3));
  CHECK((second.custom && second.custom->version == 4));
  CHECK_EQ(n.inputs.size(), 2u);
  CHECK_EQ(n.outputs.size(), 3u);
  CHECK_EQ(n.outputs[1], qir::kAbsent);
  CHECK_EQ(n.attributes.size(), 9u);
  for (std::size_t i = 0; i < n.attributes.size() && i < 9; ++i) {
    const Attribute &a = n.attributes[i], &b = made.node().attributes[i];
    CHECK((a.name == b.name && a.kind == b.kind && a.i == b.i && std::memcmp(&a.f, &b.f, 4) == 0 && a.s == b.s &&
           a.ints == b.ints && a.floats == b.floats && a.strings == b.strings && a.tensors.size() == b.tensors.size()));
    for (std::size_t k = 0; k < a.tensors.size() && k < b.tensors.size(); ++k) {
      const qir::Tensor &s = a.tensors[k], &t = b.tensors[k];
      CHECK((s.name == t.name && s.dtype == t.dtype && s.shape == t.shape && s.is_constant &&
             s.data.size == t.data.size && std::memcmp(s.data.data, t.data.data, t.data.size) == 0));
    }
  }
  const Written again(*read);
  CHECK(written.qir == again.qir);
  CHECK_EQ(written.pool.size(), 68u);  // equal contents once: 12 bytes, and 4 from the next multiple of 64 on
}

TEST_CASE("the listing names custom operators") {
  CustomGraph made;
  const String text = qir::print_graph(made.graph);
  CHECK(text.find("%y: f16[2,?], -, %z: i64[] = my.domain::MyOp(%x, -) {count: -7, ") != String::npos);
  CHECK(text.find("table: [const i32[3]], tables: [const f32[],const i32[3]], none: []} version 3  # mine") !=
        String::npos);
  rename(made, "evil\n", "O'p");
  CHECK(qir::print_graph(made.graph).find("evil\n") == String::npos);
}

TEST_CASE("custom rules") {
  REFUSED((void)g, "accepted");
  REFUSED(g.node().custom = nullptr,
          "QR-G0001 Custom 'mine': found a custom operator without its name, expected a custom operator and its name "
          "together");
  REFUSED(g.node().op = Op::Relu,
          "QR-G0001 my.domain::MyOp 'mine': found the name of a custom operator, expected a custom operator and its "
          "name together");
  REFUSED(rename(g, "", "MyOp"),
          "QR-G0001 ::MyOp 'mine': found a custom operator 'MyOp' of domain '', expected a name and a domain that is "
          "not ONNX's");
  REFUSED(rename(g, "ai.onnx", "MyOp"),
          "QR-G0001 ai.onnx::MyOp 'mine': found a custom operator 'MyOp' of domain 'ai.onnx', expected a name and a "
          "domain that is not ONNX's");
  REFUSED(rename(g, "d", ""),
          "QR-G0001 d:: 'mine': found a custom operator '' of domain 'd', expected a name and a domain that is not "
          "ONNX's");
  REFUSED(rename(g, "d", "o", 0), "QR-G0001 d::o 'mine': found version 0 of its domain, expected 1 or more");
  REFUSED(rename(g, String(qir::kMaxNameBytes, 'd'), "o"), "accepted");
  CHECK(refusal([](CustomGraph &g) {
          rename(g, String(qir::kMaxNameBytes + 1, 'd'), "o");
        }).ends_with("found 4097 bytes of domain, expected at most 4096"));
  CHECK(refusal([](CustomGraph &g) {
          rename(g, "d", String(qir::kMaxNameBytes + 1, 'o'));
        }).ends_with("found 4097 bytes of operator, expected at most 4096"));
}

TEST_CASE("custom attribute rules") {
  REFUSED(g.node().attributes[6].tensors.clear(),
          "QR-G0005 my.domain::MyOp 'mine': found 0 tensors in attribute 'table', expected 1");
  REFUSED(g.node().attributes[0].tensors = g.node().attributes[6].tensors,
          "QR-G0005 my.domain::MyOp 'mine': found 1 tensors in attribute 'count', expected 0");
  REFUSED(g.node().attributes[6].tensors[0].is_constant = false,
          "QR-G0005 my.domain::MyOp 'mine': found a tensor without data in attribute 'table', expected constants");
  REFUSED(g.node().attributes[6].tensors[0].data.size = 8,
          "QR-G0001 tensor 't': found 8 bytes of data, expected 12 for i32[3]");
  REFUSED(g.node().attributes[1].name = "count", "QR-G0005 my.domain::MyOp 'mine': found attribute 'count' twice");
  SampleGraph sample;
  Attribute &added = sample.find_node("relu").attributes.emplace_back();
  added.name = "table";
  added.kind = Attribute::Kind::Tensors;
  CHECK_EQ(qir::validate_graph(sample.graph).message(),
           "Relu 'relu': found tensors in attribute 'table', expected them of a custom operator alone");
}

TEST_CASE("custom results must have types") {
  CustomGraph made;
  qir::Node &n = made.node();
  Vector<qir::InferValue> inputs(2);
  inputs[0] = {true, DType::F32, {2, 3}, nullptr, {}};
  Vector<qir::InferType> types;
  qir::stated_types(made.graph, n, &types);
  CHECK_OK(qir::infer_node(n, inputs, types));
  CHECK((types.size() == 3 && types[0].dtype == DType::F16 && types[0].shape == (qir::Shape{2, qir::kUnknownDim})));
  types.clear();
  CHECK_EQ(qir::infer_node(n, inputs, types).id(), "QR-G0003");
  // Inference of the graph leaves what it states.
  const String before = qir::print_graph(made.graph);
  CHECK_OK(qir::infer_graph(made.graph));
  CHECK_EQ(qir::print_graph(made.graph), before);
}

TEST_CASE("the row of custom operators is no operator of a file") {
  for (const std::int64_t version : {0, -1}) {
    flatbuffers::FlatBufferBuilder b;
    namespace fb = qir::fb;
    const auto domain = b.CreateString("quarry"), name = b.CreateString("Custom"), node_name = b.CreateString("n"),
               tensor_name = b.CreateString("t");
    const auto op = fb::CreateOperator(b, domain, name, version);
    const auto ops = b.CreateVector(&op, 1);
    const auto tensor = fb::CreateTensor(b, tensor_name, 1);
    const auto tensors = b.CreateVector(&tensor, 1);
    const std::int32_t output = 0;
    const auto outputs = b.CreateVector(&output, 1);
    const auto node = fb::CreateNode(b, 0, node_name, 0, outputs);
    const auto nodes = b.CreateVector(&node, 1);
    fb::FinishModelBuffer(b, fb::CreateModel(b, 28, ops, fb::CreateGraph(b, 0, tensors, nodes)));
    const Result<qir::Graph> read = qir::read_graph({b.GetBufferPointer(), b.GetSize()}, nullptr, 0);
    CHECK_EQ(read.status().message(),
             version == 0 ? "Custom 'n': found a custom operator without its name, expected a custom operator and its "
                            "name together"
                          : "quarry::Custom 'n': found version -1 of its domain, expected 1 or more");
  }
}

TEST_CASE("damaged custom graphs are survived") {
  CustomGraph made;
  const Written written(made.graph);
  const qir::Bytes segment = written.segment->bytes();
  for (std::size_t size = 0; size < written.qir.size(); ++size) {
    const AlignedBytes cut(written.qir.data(), size);
    if (Result<qir::Graph> read = qir::read_graph(cut.bytes(), &segment, 1); read.ok())
      CHECK_EQ(qir::print_graph(*read), qir::print_graph(made.graph));
  }
  for (std::size_t at = 0; at < written.qir.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      AlignedBytes damaged(written.qir.data(), written.qir.size());
      damaged.data()[at] ^= static_cast<std::uint8_t>(1 << bit);
      if (Result<qir::Graph> read = qir::read_graph(damaged.bytes(), &segment, 1); read.ok()) {
        qir::print_graph(*read);
        CHECK_OK(qir::validate_graph(*read));
      }
    }
}

}  // namespace
}  // namespace quarry
