// SPDX-License-Identifier: Apache-2.0
// QIR as bytes: what is written is read again, exactly; what is not QIR is refused.
#include <algorithm>
#include <cmath>
#include <map>

#include "formats/flatbuffer.h"
#include "graph/io/outline.h"
#include "graph/limits.h"
#include "qir_generated.h"
#include "tests/support/check.h"
#include "sample_graph.h"

namespace quarry {
namespace {

using test::AlignedBytes;
using test::SampleGraph;

struct Written {
  qir::ConstantPool pool;
  Vector<std::uint8_t> qir;
  std::unique_ptr<AlignedBytes> segment;

  explicit Written(const qir::Graph &graph) {
    Result<Vector<std::uint8_t>> bytes = qir::write_graph(graph, pool);
    REQUIRE_OK(bytes);
    qir = std::move(*bytes);
    segment = std::make_unique<AlignedBytes>(pool.size());
    pool.write_to(segment->data());
  }
  Result<qir::Graph> read() const {
    const qir::Bytes bytes = segment->bytes();
    return qir::read_graph({qir.data(), qir.size()}, &bytes, 1);
  }
};

bool same(const qir::Graph &a, const qir::Graph &b);
bool same(const qir::Attribute &a, const qir::Attribute &b) {
  return a.name == b.name && a.kind == b.kind && a.i == b.i && std::memcmp(&a.f, &b.f, 4) == 0 && a.s == b.s &&
         a.ints == b.ints && a.floats == b.floats && a.strings == b.strings;
}
bool same(const qir::Node &a, const qir::Node &b) {
  bool equal = a.op == b.op && a.name == b.name && a.inputs == b.inputs && a.outputs == b.outputs &&
               a.attributes.size() == b.attributes.size() && a.subgraphs.size() == b.subgraphs.size();
  for (std::size_t i = 0; equal && i < a.attributes.size(); ++i) equal = same(a.attributes[i], b.attributes[i]);
  for (std::size_t i = 0; equal && i < a.subgraphs.size(); ++i) equal = same(a.subgraphs[i], b.subgraphs[i]);
  return equal;
}
bool same(const qir::Tensor &a, const qir::Tensor &b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.quant == b.quant &&
         a.is_constant == b.is_constant && a.data.size == b.data.size &&
         (a.data.size == 0 || std::memcmp(a.data.data, b.data.data, a.data.size) == 0);
}
bool same(const qir::Graph &a, const qir::Graph &b) {
  bool equal = a.name == b.name && a.inputs == b.inputs && a.outputs == b.outputs &&
               a.tensors.size() == b.tensors.size() && a.nodes.size() == b.nodes.size();
  for (std::size_t i = 0; equal && i < a.tensors.size(); ++i) equal = same(a.tensors[i], b.tensors[i]);
  for (std::size_t i = 0; equal && i < a.nodes.size(); ++i) equal = same(a.nodes[i], b.nodes[i]);
  return equal;
}

TEST_CASE("what is written is read again") {
  SampleGraph sample;
  const Written written(sample.graph);
  Result<qir::Graph> read = written.read();
  REQUIRE_OK(read);
  CHECK(same(sample.graph, *read));
  // Node for node, and deterministic.
  const Written again(*read);
  CHECK(written.qir == again.qir);
  CHECK_EQ(written.pool.size(), again.pool.size());
}

TEST_CASE("negative zero survives") {
  SampleGraph sample;
  const Written written(sample.graph);
  Result<qir::Graph> read = written.read();
  REQUIRE_OK(read);
  const float alpha = read->nodes[4].subgraphs[0].nodes[0].get_float("alpha", 1.0f);
  CHECK((alpha == 0.0f && std::signbit(alpha)));
}

TEST_CASE("bytes may lie anywhere") {
  SampleGraph sample;
  const Written written(sample.graph);
  AlignedBytes shifted(written.qir.size() + 1);
  std::memcpy(shifted.data() + 1, written.qir.data(), written.qir.size());
  const qir::Bytes segment = written.segment->bytes();
  CHECK_OK(qir::read_graph({shifted.data() + 1, written.qir.size()}, &segment, 1));
}

TEST_CASE("pool stores equal contents once") {
  qir::ConstantPool pool;
  const char a[] = "the same", b[] = "the same", c[] = "different";
  CHECK_EQ(pool.add({a, 8}), 0u);
  CHECK_EQ(pool.add({c, 9}), 64u);
  CHECK_EQ(pool.add({b, 8}), 0u);
  CHECK_EQ(pool.add({c, 8}), 128u);  // a prefix is another content
  CHECK_EQ(pool.add({nullptr, 0}), 0u);
  CHECK_EQ(pool.size(), 136u);
  CHECK_EQ(pool.parts().size(), 3u);
  std::string all(136, 'x');
  pool.write_to(all.data());
  CHECK(all == std::string("the same") + std::string(56, '\0') + "different" + std::string(55, '\0') + "differen");
}

TEST_CASE("setters replace and getters check the kind") {
  qir::Node n;
  n.set("axis", std::int64_t{2});
  n.set("axis", std::int64_t{-1});
  CHECK_EQ(n.attributes.size(), 1u);
  CHECK_EQ(n.get_int("axis", 7), -1);
  CHECK_EQ(n.get_float("axis", 0.5f), 0.5f);
  n.set("axis", 1.5f);
  CHECK_EQ(n.attributes.size(), 1u);
  CHECK_EQ(n.get_int("axis", 7), 7);
  CHECK_EQ(n.get_float("axis", 0.f), 1.5f);
  n.set("mode", std::string_view("edge"));
  n.set("mode", n.get_string("mode", ""));  // from itself
  CHECK_EQ(n.get_string("mode", ""), std::string_view("edge"));
  n.set("sizes", Vector<std::int64_t>{1, 2});
  CHECK_EQ(n.get_ints("sizes")->size(), 2u);
  CHECK((n.get_floats("sizes") == nullptr && n.get_strings("missing") == nullptr && n.find("missing") == nullptr));
}

TEST_CASE("the listing names everything") {
  SampleGraph sample;
  const String text = qir::print_graph(sample.graph);
  CHECK(text.find("graph 'sample' (12 tensors, 6 nodes)\n") == 0);
  CHECK(text.find("%conv_out: f32[1,4,8,8] = Conv(%image, const %conv.weight: f32[4,1,3,3], const %conv.bias: f32[4]) "
                  "{kernel_shape: [3,3], "
                  "pads: [1,1,1,1], auto_pad: 'NOTSET', group: 1}  # conv") != String::npos);
  CHECK(text.find("quantised(3 scales, axis 1)") != String::npos);
  CHECK(text.find("quantised(0.0500000007, 3)") != String::npos);
  CHECK(text.find("= Clip(%chosen, -, -)") != String::npos);
  CHECK(text.find("graph 'then'") != String::npos);
  sample.graph.nodes[0].inputs.set(0, 99);
  CHECK(qir::print_graph(sample.graph).find("%<bad index 99>") != String::npos);
}

// ---- bytes that no writer wrote -----------------------------------------------------------------

TEST_CASE("no qir") {
  const std::string text = "this is no graph at all, just a line of text";
  const Result<qir::Graph> read = qir::read_graph({text.data(), text.size()}, nullptr, 0);
  CHECK_EQ(read.status().id(), "QR-G0001");
  CHECK_EQ(read.status().message(), "graph: its 44 bytes are no well-formed QIR");
  CHECK_EQ(qir::read_graph({nullptr, 0}, nullptr, 0).status().id(), "QR-G0001");
  const Result<qir::Graph> big = qir::read_graph({text.data(), qir::kMaxGraphBytes + 1}, nullptr, 0);
  CHECK_EQ(big.status().id(), "QR-G0002");
}

using flatbuffers::FlatBufferBuilder;
namespace fb = qir::fb;

std::string refusal(FlatBufferBuilder &builder, const qir::Bytes *segments = nullptr, std::uint64_t count = 0) {
  const Result<qir::Graph> read = qir::read_graph({builder.GetBufferPointer(), builder.GetSize()}, segments, count);
  return std::string(read.status().id()) + " " + std::string(read.status().message());
}

TEST_CASE("a newer normal form is refused") {
  FlatBufferBuilder b;
  fb::FinishModelBuffer(b, fb::CreateModel(b, 29, 0, fb::CreateGraph(b)));
  CHECK_EQ(refusal(b), "QR-G0007 graph: found normal form of opset 29, expected at most 28");
}

TEST_CASE("a model without a graph is refused") {
  FlatBufferBuilder b;
  fb::FinishModelBuffer(b, fb::CreateModel(b, 28));
  CHECK_EQ(refusal(b), "QR-G0001 graph: found a model without a graph");
}

TEST_CASE("an unknown operator is named") {
  FlatBufferBuilder b;
  const auto domain = b.CreateString("org.example"), name = b.CreateString("Frobnicate");
  const auto op = fb::CreateOperator(b, domain, name);
  const auto ops = b.CreateVector(&op, 1);
  fb::FinishModelBuffer(b, fb::CreateModel(b, 28, ops, fb::CreateGraph(b)));
  CHECK_EQ(refusal(b),
           "QR-G0001 graph: found operator 'Frobnicate' of domain 'org.example', expected one that this version knows");
}

TEST_CASE("an operator number out of range is refused") {
  FlatBufferBuilder b;
  const auto name = b.CreateString("n");
  const auto node = fb::CreateNode(b, 5, name);
  const auto nodes = b.CreateVector(&node, 1);
  fb::FinishModelBuffer(b, fb::CreateModel(b, 28, 0, fb::CreateGraph(b, 0, 0, nodes)));
  CHECK_EQ(refusal(b), "QR-G0001 node 'n': found operator number 5, expected one under 0");
}

TEST_CASE("shared bytes cannot ask for terabytes") {
  FlatBufferBuilder b;
  // One string of 4000 bytes that 1000 tensors call their name: 8 MB from 20 kB, and it could be terabytes from
  // megabytes.
  const auto name = b.CreateString(std::string(4000, 'n'));
  std::vector<flatbuffers::Offset<fb::Tensor>> tensors;
  for (int i = 0; i < 1000; ++i) tensors.push_back(fb::CreateTensor(b, name, 1));
  const auto all = b.CreateVector(tensors);
  fb::FinishModelBuffer(b, fb::CreateModel(b, 28, 0, fb::CreateGraph(b, 0, all)));
  CHECK_EQ(refusal(b), "QR-G0001 graph: found strings or lists that share bytes, expected each its own");
}

// A graph of one constant, its place given.
std::string constant_refusal(std::uint32_t segment, std::uint64_t offset, std::uint64_t size, std::uint8_t dtype,
                             std::int64_t extent) {
  FlatBufferBuilder b;
  const auto name = b.CreateString("c");
  const auto shape = b.CreateVector(&extent, 1);
  const auto tensor = fb::CreateTensor(b, name, dtype, shape, 0, fb::CreateConstant(b, segment, offset, size));
  const auto tensors = b.CreateVector(&tensor, 1);
  fb::FinishModelBuffer(b, fb::CreateModel(b, 28, 0, fb::CreateGraph(b, 0, tensors)));
  AlignedBytes room(256);
  std::memset(room.data(), 0, 256);
  const qir::Bytes bytes = room.bytes();
  return refusal(b, &bytes, 1);
}

TEST_CASE("constants lie in their segment") {
  CHECK_EQ(constant_refusal(0, 64, 16, 1, 4), " ");
  CHECK_EQ(constant_refusal(0, 192, 64, 1, 16), " ");
  CHECK_EQ(constant_refusal(1, 0, 16, 1, 4), "QR-G0001 tensor 'c': found its data in segment 1, expected one under 1");
  CHECK_EQ(constant_refusal(0, 192, 65, 3, 65),
           "QR-G0001 tensor 'c': found its data at 192 + 65 bytes, expected them within the segment's 256");
  CHECK_EQ(constant_refusal(0, ~std::uint64_t{63}, 128, 3, 128),
           "QR-G0001 tensor 'c': found its data at 18446744073709551552 + 128 bytes, expected them within the "
           "segment's 256");
  CHECK_EQ(constant_refusal(0, 32, 16, 1, 4),
           "QR-G0001 tensor 'c': found its data at offset 32, expected a multiple of 64 in an aligned segment");
  CHECK_EQ(constant_refusal(0, 0, 12, 1, 4), "QR-G0001 tensor 'c': found 12 bytes of data, expected 16 for f32[4]");
  CHECK_EQ(constant_refusal(0, 0, 2, 22, 3), " ");  // three i4 in two bytes
  CHECK_EQ(constant_refusal(0, 0, 3, 22, 3), "QR-G0001 tensor 'c': found 3 bytes of data, expected 2 for i4[3]");
  CHECK_EQ(constant_refusal(0, 0, 4, 8, 4),
           "QR-G0003 tensor 'c': found type number 8, expected one of ONNX's that Quarry knows");
}

void count(const qir::Graph &graph, std::map<std::string, std::uint64_t> &counts) {
  for (const qir::Node &node : graph.nodes) {
    ++counts[std::string(qir::op_text(node))];
    for (const qir::Graph &body : node.subgraphs) count(body, counts);
  }
}

TEST_CASE("an outline is what the graph says") {
  SampleGraph sample;
  const Written written(sample.graph);
  const qir::Bytes segment = written.segment->bytes();
  const auto outline = qir::Outline::read({written.qir.data(), written.qir.size()}, {&segment, 1});
  REQUIRE_OK(outline);
  REQUIRE_EQ(outline.value().node_count(), sample.graph.nodes.size());
  std::map<std::string, std::uint64_t> counts;
  for (std::size_t n = 0; n < sample.graph.nodes.size(); ++n) {
    const qir::Node &node = sample.graph.nodes[n];
    CHECK_EQ(outline.value().node_name(n), std::string_view(node.name));
    CHECK_EQ(outline.value().op_text(n), qir::op_text(node));
    CHECK(std::ranges::equal(outline.value().node_inputs(n), node.inputs));
    CHECK(std::ranges::equal(outline.value().node_outputs(n), node.outputs));
  }
  count(sample.graph, counts);
  for (std::size_t i = 0; i < sample.graph.tensors.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    CHECK_EQ(outline.value().tensor_name(id), std::string_view(sample.graph.tensors[i].name));
    CHECK_EQ(outline.value().is_constant(id), sample.graph.tensors[i].is_constant);
  }
  const auto operators = outline.value().operators();
  CHECK_EQ(operators.size(), counts.size());
  for (const auto &[name, nodes] : operators) CHECK_EQ(counts[std::string(name)], nodes);
  for (std::size_t i = 0; i < sample.graph.inputs.size(); ++i)
    CHECK_EQ(outline.value().inputs()[i].name, at(sample.graph, sample.graph.inputs[i]).name);
  for (std::size_t i = 0; i < sample.graph.outputs.size(); ++i)
    CHECK(outline.value().outputs()[i].shape == at(sample.graph, sample.graph.outputs[i]).shape);
  CHECK_EQ(qir::Outline::read({written.qir.data(), written.qir.size()}, {}).status().id(), "QR-G0001");
}

// An outline of one node, which reads `input` by operator number `op`; " ": it is taken.
std::string outline_refusal(std::uint32_t op, std::int32_t input, std::int32_t output, std::size_t name = 1) {
  flatbuffers::FlatBufferBuilder b;
  const std::string text(name, 'n');
  const std::int32_t in[] = {input}, out[] = {output}, graph_out[] = {1};
  const auto row = qir::fb::CreateOperator(b, 0, b.CreateString("Relu"));
  const auto node = qir::fb::CreateNode(b, op, b.CreateString(text), b.CreateVector(in, 1), b.CreateVector(out, 1));
  const flatbuffers::Offset<qir::fb::Tensor> tensors[] = {qir::fb::CreateTensor(b, b.CreateString("x"), 1),
                                                          qir::fb::CreateTensor(b, b.CreateString("y"), 1)};
  const std::int32_t graph_in[] = {0};
  const auto graph = qir::fb::CreateGraph(b, b.CreateString("g"), b.CreateVector(tensors, 2), b.CreateVector(&node, 1),
                                          b.CreateVector(graph_in, 1), b.CreateVector(graph_out, 1));
  qir::fb::FinishModelBuffer(b, qir::fb::CreateModel(b, 21, b.CreateVector(&row, 1), graph));
  const auto read = qir::Outline::read({b.GetBufferPointer(), b.GetSize()}, {});
  return std::string(read.status().id()) + " " + std::string(read.status().message());
}

TEST_CASE("an outline of what is out of range is refused") {
  CHECK_EQ(outline_refusal(0, 0, 1), " ");
  CHECK_EQ(outline_refusal(0, qir::kAbsent, 1), " ");
  CHECK_EQ(outline_refusal(1, 0, 1), "QR-G0001 node 'n': found operator number 1, expected one under 1");
  CHECK_EQ(outline_refusal(0, 2, 1),
           "QR-G0001 graph: found an input or output that is no tensor in 'n', expected none");
  CHECK_EQ(outline_refusal(0, 0, -2),
           "QR-G0001 graph: found an input or output that is no tensor in 'n', expected none");
  CHECK_EQ(outline_refusal(0, 0, 1, qir::kMaxNameBytes), " ");
  CHECK(outline_refusal(0, 0, 1, qir::kMaxNameBytes + 1).find("a node's name that is too long") != std::string::npos);
}

TEST_CASE("every truncation and flip is survived") {
  SampleGraph sample;
  const Written written(sample.graph);
  const qir::Bytes segment = written.segment->bytes();
  for (std::size_t size = 0; size < written.qir.size(); ++size) {
    const AlignedBytes cut(written.qir.data(), size);
    Result<qir::Graph> read = qir::read_graph(cut.bytes(), &segment, 1);
    CHECK((!read.ok() || same(*read, sample.graph)));  // the last bytes are padding
  }
  // QIR has no sum of its own (its container has): a flip may give another graph, and that is then a valid one.
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < written.qir.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      AlignedBytes damaged(written.qir.data(), written.qir.size());
      damaged.data()[at] ^= static_cast<std::uint8_t>(1 << bit);
      Result<qir::Graph> read = qir::read_graph(damaged.bytes(), &segment, 1);
      const auto outline = qir::Outline::read(damaged.bytes(), {&segment, 1});
      if (!read.ok()) continue;
      CHECK_OK(outline);
      ++accepted;
      qir::print_graph(*read);
      CHECK_OK(qir::validate_graph(*read));
    }
  CHECK(accepted < written.qir.size() * 4);
}

}  // namespace
}  // namespace quarry
