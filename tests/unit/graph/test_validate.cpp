// SPDX-License-Identifier: Apache-2.0
// The rules of a graph, each broken alone: each has its own message.
#include <cmath>
#include <functional>

#include "graph/limits.h"
#include "sample_graph.h"
#include "tests/support/check.h"

namespace quarry {
namespace {

using qir::Op;
using test::SampleGraph;

std::string refusal(const std::function<void(SampleGraph &)> &damage) {
  SampleGraph sample;
  damage(sample);
  const Status status = qir::validate_graph(sample.graph);
  return status.ok() ? "accepted" : std::string(status.id()) + " " + std::string(status.message());
}
#define REFUSED(damage, message) CHECK_EQ(refusal([](SampleGraph &s) { damage; }), message)

TEST_CASE("the sample is valid") { REFUSED((void)s, "accepted"); }

TEST_CASE("tensor rules") {
  REFUSED(s.find("logits").name = "", "QR-G0001 graph 'sample': found a tensor without a name");
  REFUSED(s.find("logits").name = "image",
          "QR-G0001 graph 'sample': found two tensors named 'image', expected unique names");
  REFUSED(s.find("logits").dtype = DType::Unknown,
          "QR-G0003 tensor 'logits': found type number 0, expected one of ONNX's that Quarry knows");
  REFUSED(s.find("logits").shape = qir::Shape(9, 1),
          "QR-G0006 tensor 'logits': found 9 dimensions, expected at most 8");
  REFUSED(s.find("logits").shape[1] = -2,
          "QR-G0004 tensor 'logits': found size -2, expected at least 0, or -1 for unknown");
  REFUSED(s.find("logits").shape[1] = std::int64_t{1} << 39,
          "QR-G0002 tensor 'logits': found [1,549755813888] elements of f32, expected at most 1099511627776 bytes");
  REFUSED(s.find("logits").shape = (qir::Shape{1ll << 40, 1ll << 40}),
          "QR-G0002 tensor 'logits': found [1099511627776,1099511627776] elements of f32, expected at most "
          "1099511627776 bytes");
  REFUSED(s.find("conv.bias").shape[0] = -1, "QR-G0004 tensor 'conv.bias': found a constant of unknown shape [?]");
  REFUSED(s.find("conv.bias").data.size = 12,
          "QR-G0001 tensor 'conv.bias': found 12 bytes of data, expected 16 for f32[4]");
  REFUSED(s.find("conv.bias").data.data = nullptr,
          "QR-G0001 tensor 'conv.bias': found 16 bytes of data, expected 16 for f32[4]");
}

TEST_CASE("quantisation rules") {
  REFUSED(s.find("logits").quant = (qir::Quantization{{1.f}, {0}, 0, 0}),
          "QR-G0003 tensor 'logits': found a quantised f32, expected an integer of at most 32 bits");
  REFUSED(s.find("relu_out").quant->zero_points.clear(),
          "QR-G0001 tensor 'relu_out': found 0 zero points for 1 scales");
  REFUSED(s.find("relu_out").quant->block_size = -1,
          "QR-G0001 tensor 'relu_out': found block size -1, expected at least 0");
  REFUSED(s.find("fc.weight").quant->axis = 2,
          "QR-G0001 tensor 'fc.weight': found quantisation axis 2, expected one under its rank 2");
  REFUSED(s.find("fc.weight").quant->axis = -1,
          "QR-G0001 tensor 'fc.weight': found quantisation axis -1, expected one under its rank 2");
  REFUSED(s.find("fc.weight").quant->axis = 0,
          "QR-G0001 tensor 'fc.weight': found 3 scales for [256,3] along axis 0 in blocks of 0");
  REFUSED((s.find("fc.weight").quant->scales.clear(), s.find("fc.weight").quant->zero_points.clear()),
          "QR-G0001 tensor 'fc.weight': found 0 scales for [256,3] along axis 1 in blocks of 0");
  REFUSED(s.find("fc.weight").quant->block_size = 64,
          "QR-G0001 tensor 'fc.weight': found 3 scales for [256,3] along axis 1 in blocks of 64");
  REFUSED(s.find("relu_out").quant->scales[0] = 0,
          "QR-G0001 tensor 'relu_out': found scale 0, expected a finite one above 0");
  REFUSED(s.find("relu_out").quant->scales[0] = -1,
          "QR-G0001 tensor 'relu_out': found scale -1, expected a finite one above 0");
  REFUSED(s.find("relu_out").quant->scales[0] = INFINITY,
          "QR-G0001 tensor 'relu_out': found scale inf, expected a finite one above 0");
  REFUSED(s.find("relu_out").quant->scales[0] = NAN,
          "QR-G0001 tensor 'relu_out': found scale nan, expected a finite one above 0");
  REFUSED(s.find("relu_out").quant->zero_points[0] = 256,
          "QR-G0001 tensor 'relu_out': found zero point 256, expected one of u8");
  REFUSED(s.find("relu_out").quant->zero_points[0] = -1,
          "QR-G0001 tensor 'relu_out': found zero point -1, expected one of u8");
  REFUSED(s.find("fc.weight").quant->zero_points[0] = 128,
          "QR-G0001 tensor 'fc.weight': found zero point 128, expected one of i8");
  REFUSED(s.find("fc.weight").quant->zero_points[0] = -128, "accepted");
}

TEST_CASE("blocks are counted rounded up") {
  qir::Tensor t;
  t.name = "t";
  t.dtype = DType::I4;
  t.shape = {3, 65};
  t.quant = qir::Quantization{Vector<float>(9, 1.f), Vector<std::int32_t>(9), 1, 32};
  CHECK_OK(qir::validate_tensor(t));
  t.quant->scales.pop_back();
  t.quant->zero_points.pop_back();
  CHECK_EQ(qir::validate_tensor(t).message(), "tensor 't': found 8 scales for [3,65] along axis 1 in blocks of 32");
  t.quant = qir::Quantization{{1.f}, {8}, 0, 0};
  CHECK_EQ(qir::validate_tensor(t).message(), "tensor 't': found zero point 8, expected one of i4");
  t.dtype = DType::U32;
  t.quant->zero_points[0] = 0x7fffffff;
  CHECK_OK(qir::validate_tensor(t));
}

TEST_CASE("index and order rules") {
  REFUSED(s.graph.inputs[0] = 12, "QR-G0001 graph 'sample': found tensor index 12 for an input, expected one under 12");
  REFUSED(s.graph.inputs[0] = -1, "QR-G0001 graph 'sample': found tensor index -1 for an input, expected one under 12");
  REFUSED(s.graph.outputs[0] = 99,
          "QR-G0001 graph 'sample': found tensor index 99 for an output, expected one under 12");
  REFUSED(s.graph.inputs.push_back(0),
          "QR-G0001 graph 'sample': tensor 'image' is an input twice, or an input and a constant");
  REFUSED(s.graph.inputs.push_back(1),
          "QR-G0001 graph 'sample': tensor 'conv.weight' is an input twice, or an input and a constant");
  REFUSED(s.find_node("relu").inputs.set(0, 40),
          "QR-G0001 Relu 'relu': found tensor index 40 for an input, expected one under 12");
  REFUSED(s.find_node("relu").inputs.set(0, -2),
          "QR-G0001 Relu 'relu': found tensor index -2 for an input, expected one under 12");
  REFUSED(s.find_node("relu").outputs.set(0, 40),
          "QR-G0001 Relu 'relu': found tensor index 40 for an output, expected one under 12");
  REFUSED(std::swap(s.graph.nodes[0], s.graph.nodes[1]),
          "QR-G0001 Relu 'relu': uses tensor 'conv_out' before it is made");
  REFUSED(s.find_node("relu").outputs.set(0, 3),
          "QR-G0001 Relu 'relu': makes tensor 'conv_out', which is an input, a constant or made already");
  REFUSED(s.find_node("relu").outputs.set(0, 1),
          "QR-G0001 Relu 'relu': makes tensor 'conv.weight', which is an input, a constant or made already");
  REFUSED(s.find_node("relu").outputs.set(0, 0),
          "QR-G0001 Relu 'relu': makes tensor 'image', which is an input, a constant or made already");
  REFUSED(s.graph.nodes.pop_back(), "QR-G0001 graph 'sample': output 'limited' is made by no node");
}

TEST_CASE("node rules") {
  REFUSED(s.find_node("relu").name = "", "QR-G0001 graph 'sample': found a Relu node without a name");
  REFUSED(s.find_node("relu").op = static_cast<Op>(60000),
          "QR-G0001 node 'relu': found operator number 60000, expected one under " + std::to_string(qir::op_count()));
  REFUSED(s.find_node("conv").attributes.push_back(s.find_node("conv").attributes[0]),
          "QR-G0005 Conv 'conv': found attribute 'kernel_shape' twice");
  REFUSED(s.find_node("conv").attributes[0].name = "",
          "QR-G0005 Conv 'conv': found an attribute name of 0 bytes, expected 1 to 4096");
  // What the operator's row says is checked by its rule; the messages are those of infer.cpp.
  CHECK(refusal([](SampleGraph &s) { s.find_node("relu").inputs.push_back(0); }).find("Relu") != std::string::npos);
  CHECK(refusal([](SampleGraph &s) { s.find_node("conv").set("frobnicate", std::int64_t{1}); }).find("frobnicate") !=
        std::string::npos);
  CHECK(refusal([](SampleGraph &s) { s.find_node("conv").set("group", 1.5f); }).find("group") != std::string::npos);
}

TEST_CASE("stated types are those of the operator") {
  REFUSED(s.find("conv_out").shape[2] = 9,
          "QR-G0004 Conv 'conv': found output 'conv_out' of shape [1,4,9,8], expected [1,4,8,8]");
  REFUSED(s.find("conv_out").dtype = DType::F16,
          "QR-G0003 Conv 'conv': found output 'conv_out' of type f16, expected f32");
  REFUSED(s.find("logits").dtype = DType::I32,
          "QR-G0003 MatMul 'classify': found output 'logits' of type i32, expected f32");
  REFUSED(s.find("flat").shape = (qir::Shape{256}),
          "QR-G0004 Reshape 'flatten': found output 'flat' of shape [256], expected [1,256]");
  REFUSED((s.shape[0] = 2, s.shape[1] = 128),
          "QR-G0004 Reshape 'flatten': found output 'flat' of shape [1,256], expected [2,128]");
}

TEST_CASE("subgraph rules") {
  REFUSED(s.find_node("choose").subgraphs.pop_back(), "QR-G0001 If 'choose': found 1 subgraphs, expected 2");
  REFUSED(s.find_node("relu").subgraphs.emplace_back(), "QR-G0001 Relu 'relu': found 1 subgraphs, expected 0");
  REFUSED(s.find_node("choose").subgraphs[1].inputs.clear(),
          "QR-G0001 LeakyRelu 'leaky': uses tensor 'in' before it is made");
  REFUSED(s.find_node("choose").subgraphs[1].outputs.clear(),
          "QR-G0001 If 'choose': subgraph 'else' has 1 inputs and 0 outputs, expected 1 and 1");
  REFUSED(s.find_node("choose").subgraphs[1].tensors[0].shape[1] =
              s.find_node("choose").subgraphs[1].tensors[1].shape[1] = 4,
          "QR-G0003 If 'choose': tensor 'logits' (f32[1,3], quantisation: none) does not fit 'in' of the subgraph "
          "(f32[1,4], quantisation: none)");
  REFUSED((s.find_node("choose").subgraphs[0].tensors[0].dtype = s.find_node("choose").subgraphs[0].tensors[1].dtype =
               DType::F16),
          "QR-G0003 If 'choose': tensor 'logits' (f32[1,3], quantisation: none) does not fit 'in' of the subgraph "
          "(f16[1,3], quantisation: none)");
}

// A loop of one carried value, one scanned and one capture; `damage` breaks it.
std::string loop_refusal(const std::function<void(qir::Graph &, qir::Node &, qir::Graph &)> &damage) {
  static const std::int64_t kTrips = 4;
  static const bool kGo = true;
  qir::Graph g;
  g.name = "looping";
  const auto trips = SampleGraph::constant(g, "trips", DType::I64, {}, &kTrips, 8),
             go = SampleGraph::constant(g, "go", DType::Bool, {}, &kGo, 1);
  const auto start = SampleGraph::tensor(g, "start", DType::F32, {2}),
             step = SampleGraph::tensor(g, "step", DType::F32, {2});
  const auto last = SampleGraph::tensor(g, "last", DType::F32, {2}),
             all = SampleGraph::tensor(g, "all", DType::F32, {-1, 2});
  qir::Node &loop = SampleGraph::node(g, Op::Loop, "loop", {trips, go, start, step}, {last, all});
  loop.set("carried", std::int64_t{1});
  qir::Graph &body = loop.subgraphs.emplace_back();
  body.name = "body";
  const auto i = SampleGraph::tensor(body, "i", DType::I64, {}), on = SampleGraph::tensor(body, "on", DType::Bool, {});
  const auto value = SampleGraph::tensor(body, "value", DType::F32, {2}),
             by = SampleGraph::tensor(body, "by", DType::F32, {2});
  const auto next = SampleGraph::tensor(body, "next", DType::F32, {2});
  SampleGraph::node(body, Op::Add, "add", {value, by}, {next});
  body.inputs = {i, on, value, by};
  body.outputs = {on, next, next};
  g.inputs = {start, step};
  g.outputs = {last, all};
  damage(g, loop, body);
  const Status status = qir::validate_graph(g);
  return status.ok() ? "accepted" : std::string(status.id()) + " " + std::string(status.message());
}
#define LOOP_REFUSED(damage, message)                                                     \
  CHECK_EQ(loop_refusal([]([[maybe_unused]] qir::Graph &g, [[maybe_unused]] qir::Node &n, \
                           [[maybe_unused]] qir::Graph &body) { damage; }),               \
           message)

TEST_CASE("loop rules") {
  LOOP_REFUSED(, "accepted");
  LOOP_REFUSED(n.set("carried", std::int64_t{3}), "QR-G0005 Loop 'loop': found carried = 3, expected 0 to 2");
  LOOP_REFUSED(n.set("carried", std::int64_t{-1}), "QR-G0005 Loop 'loop': found carried = -1, expected 0 to 2");
  LOOP_REFUSED(body.outputs.pop_back(),
               "QR-G0001 Loop 'loop': subgraph 'body' has 4 inputs and 2 outputs, expected 4 and 3");
  LOOP_REFUSED(n.inputs.pop_back(),
               "QR-G0001 Loop 'loop': subgraph 'body' has 4 inputs and 3 outputs, expected 3 and 3");
  LOOP_REFUSED(n.inputs.resize(1), "QR-G0001 Loop 'loop': found 1 inputs, expected at least 2");
  LOOP_REFUSED(n.inputs.set(3, qir::kAbsent),
               "QR-G0001 Loop 'loop': input 3 is absent, expected a value for the subgraph");
  LOOP_REFUSED(body.tensors[0].dtype = DType::I32,
               "QR-G0003 Loop 'loop': found 'i' of the subgraph as i32[], expected one i64");
  LOOP_REFUSED(body.tensors[1].shape = {2},
               "QR-G0003 Loop 'loop': found 'on' of the subgraph as bool[2], expected one bool");
  LOOP_REFUSED(g.tensors[5].shape = {2},
               "QR-G0003 Loop 'loop': tensor 'all' (f32[2], quantisation: none) does not fit 'next' of the subgraph "
               "(f32[2], quantisation: none)");
}

// ---- limits: at the limit, and one past it ------------------------------------------------------

std::string named(std::size_t bytes) { return std::string(bytes, 'n'); }

TEST_CASE("name limits") {
  SampleGraph sample;
  sample.find("logits").name = String(named(qir::kMaxNameBytes));
  sample.find_node("relu").name = String(named(qir::kMaxNameBytes));
  CHECK_OK(qir::validate_graph(sample.graph));
  sample.find_node("conv").name += named(qir::kMaxNameBytes);
  CHECK_EQ(qir::validate_graph(sample.graph).id(), "QR-G0002");
  sample.graph.tensors[0].name = String(named(qir::kMaxNameBytes + 1));
  CHECK(qir::validate_graph(sample.graph).message().find("found 4097 bytes of name, expected at most 4096") !=
        std::string_view::npos);
}

// Nested Ifs, `depth` levels deep.
qir::Graph nested(std::uint32_t depth, const bool *condition) {
  qir::Graph g;
  g.name = "level";
  const auto yes = SampleGraph::constant(g, "yes", DType::Bool, {}, condition, 1);
  const auto out = SampleGraph::tensor(g, "out", DType::Bool, {});
  if (depth == 0) {
    SampleGraph::node(g, Op::Not, "not", {yes}, {out});
  } else {
    qir::Node &n = SampleGraph::node(g, Op::If, "if", {yes}, {out});
    n.subgraphs.push_back(nested(depth - 1, condition));
    n.subgraphs.push_back(nested(0, condition));
  }
  g.outputs = {out};
  return g;
}

TEST_CASE("subgraph limits") {
  const bool yes = true;
  CHECK_OK(qir::validate_graph(nested(qir::kMaxSubgraphDepth, &yes)));
  CHECK_EQ(qir::validate_graph(nested(qir::kMaxSubgraphDepth + 1, &yes)).message(),
           "subgraph 'level': found 65 levels of subgraphs, expected at most 64");
  for (const std::uint32_t ifs : {qir::kMaxSubgraphs / 2, qir::kMaxSubgraphs / 2 + 1}) {
    qir::Graph g;
    g.name = "wide";
    const auto condition = SampleGraph::constant(g, "yes", DType::Bool, {}, &yes, 1);
    for (std::uint32_t i = 0; i < ifs; ++i) {
      const auto out = SampleGraph::tensor(g, ("out" + std::to_string(i)).c_str(), DType::Bool, {});
      qir::Node &n = SampleGraph::node(g, Op::If, "if", {condition}, {out});
      n.subgraphs = {nested(0, &yes), nested(0, &yes)};
    }
    const Status status = qir::validate_graph(g);
    CHECK_EQ(status.message(), ifs == qir::kMaxSubgraphs / 2
                                   ? ""
                                   : "subgraph 'level': found 1025 subgraphs in all, expected at most 1024");
  }
}

TEST_CASE("count limits") {
  {
    qir::Graph g;
    g.tensors.resize(qir::kMaxTensors + 1);
    CHECK_EQ(qir::validate_graph(g).message(), "graph '': found 1048577 tensors, expected at most 1048576");
    g.tensors.pop_back();
    CHECK_EQ(qir::validate_graph(g).message(), "graph '': found a tensor without a name");
    g.tensors.clear();
    g.nodes.resize(qir::kMaxNodes + 1);
    CHECK_EQ(qir::validate_graph(g).message(), "graph '': found 1048577 nodes, expected at most 1048576");
  }
  SampleGraph sample;
  qir::Node &relu = sample.find_node("relu");
  relu.inputs.resize(qir::kMaxNodeArity + 1, qir::kAbsent);
  CHECK_EQ(qir::validate_graph(sample.graph).message(), "Relu 'relu': found 65537 inputs, expected at most 65536");
  relu.inputs.resize(1);
  for (std::uint32_t i = 0; i <= qir::kMaxAttributes; ++i) relu.set("a" + std::to_string(i), std::int64_t{1});
  CHECK_EQ(qir::validate_graph(sample.graph).message(), "Relu 'relu': found 257 attributes, expected at most 256");
  relu.attributes.clear();
  relu.set("a", Vector<std::int64_t>(qir::kMaxAttributeElements + 1));
  CHECK_EQ(qir::validate_graph(sample.graph).message(),
           "Relu 'relu': found 1048577 elements in one attribute, expected at most 1048576");
}

}  // namespace
}  // namespace quarry
