// SPDX-License-Identifier: Apache-2.0
// The op table, what every node is checked for before its rule runs, control flow, and inference of whole graphs.
#include "graph/infer/infer.h"
#include "graph/ops/op_spec.h"
#include "infer_case.h"
#include "tests/support/check.h"

namespace quarry::qir::test {
namespace {

constexpr DType F32 = DType::F32, I32 = DType::I32, I64 = DType::I64;
using C = InferCase;

TEST_CASE("table is found by name") {
  CHECK(op_count() > 180);
  for (std::size_t i = 0; i < op_count(); ++i) {
    const OpRow &row = op_row(static_cast<Op>(i));
    CHECK((find_op(row.domain, row.name) == &row));
  }
  CHECK((find_op("ai.onnx", "Conv") == &op_row(Op::Conv)));
  CHECK(find_op("com.microsoft", "Conv") == nullptr);
  CHECK(find_op("", "NoSuchOp") == nullptr);
}

TEST_CASE("attribute text is read") {
  AttributeSpecs walk("axis:int=0; axes:ints?; mode:string=constant{constant,edge}; alpha:float");
  AttributeSpec spec;
  CHECK((walk.next(&spec) && spec.name == "axis" && spec.kind == Attribute::Kind::Int && spec.fallback == "0" &&
         !spec.required));
  CHECK((walk.next(&spec) && spec.name == "axes" && spec.kind == Attribute::Kind::Ints && !spec.has_default &&
         !spec.required));
  CHECK((walk.next(&spec) && spec.name == "mode" && spec.fallback == "constant" && spec.allowed == "constant,edge"));
  CHECK((walk.next(&spec) && spec.name == "alpha" && spec.required));
  CHECK((!walk.next(&spec) && !walk.bad()));
  AttributeSpecs wrong("axis:number");
  CHECK((!wrong.next(&spec) && wrong.bad()));
  CHECK_EQ(dtype_mask("i64,f8"), dtype_bit(I64) | dtype_mask("f8"));
  CHECK_EQ(dtype_mask("i64,string"), 0u);
}

TEST_CASE("signature checks") {
  CHECK_INFERS(C(Op::Add).f32({1}), "QR-G0001 Add 'n': 1 inputs, expected 2");
  CHECK_INFERS(C(Op::TopK).f32({1}).ints({1}), "QR-G0001 TopK 'n': 1 outputs, expected 2");
  CHECK_INFERS(C(Op::Add).f32({1}).absent(), "QR-G0001 Add 'n': input 1 is absent, but required");
  CHECK_INFERS(C(Op::Add).f32({1}).in(I32, {1}), "QR-G0003 Add 'n': input 1 is i32, expected f32 as input 0");
  CHECK_INFERS(C(Op::Relu).in(DType::Bool, {1}),
               "QR-G0003 Relu 'n': input 0 is bool, expected f32, i8, i16, i32, i64, f16, f64, bf16");
  CHECK_INFERS(C(Op::Relu).f32({1}).set("alpha", 1.0f),
               "QR-G0005 Relu 'n': attribute 'alpha' is unknown; Relu takes: none");
  CHECK_INFERS(C(Op::Elu).f32({1}).set("alpha", 1),
               "QR-G0005 Elu 'n': attribute 'alpha' is of kind int, expected float");
  CHECK_INFERS(C(Op::Gelu).f32({1}).set("approximate", "erf"),
               "QR-G0005 Gelu 'n': attribute 'approximate' is \"erf\", expected one of none,tanh");
  CHECK_INFERS(C(Op::Concat).f32({1}), "QR-G0005 Concat 'n': attribute 'axis' is missing; Concat requires it");
  CHECK_INFERS(C(Op::Relu).f32({1, 1, 1, 1, 1, 1, 1, 1, 1}),
               "QR-G0006 Relu 'n': input 0 has 9 dimensions, expected at most 8");
  CHECK_INFERS(C(Op::Relu).f32({-2}), "QR-G0004 Relu 'n': input 0 has shape [?], expected no negative size");
  CHECK_INFERS(C(Op::Expand).f32({1}).ints({INT64_MAX / 2, 3}),
               "QR-G0004 Expand 'n': output 0 of shape [4611686018427387903,3] has more elements than 64 bits count");
  C twice(Op::Relu);
  twice.f32({1}).node().attributes.resize(2);
  twice.node().attributes[0].name = twice.node().attributes[1].name = "alpha";
  CHECK_INFERS(twice, "QR-G0005 Relu 'n': attribute 'alpha' is unknown; Relu takes: none");
}

TEST_CASE("geometry") {
  Node node;
  node.op = Op::Conv;
  node.name = "n";
  node.set("auto_pad", std::string_view("SAME_LOWER"));
  node.set("strides", Vector<std::int64_t>{2, 1});
  node.set("group", std::int64_t{2});
  ConvGeometry g;
  const std::int64_t x[] = {1, 4, 6, 6}, w[] = {8, 2, 3, 4};
  CHECK_OK(resolve_conv(node, x, w, &g));
  CHECK_EQ(g.out[0], 3);
  CHECK_EQ(g.pad_begin[0], 1);
  CHECK_EQ(g.pad_end[0], 0);
  CHECK_EQ(g.pad_begin[1], 2);
  CHECK_EQ(g.pad_end[1], 1);
  CHECK_EQ(g.in_per_group, 2);
  CHECK_EQ(g.out_per_group, 4);

  node = Node();
  node.op = Op::Slice;
  node.name = "n";
  SliceGeometry slice;
  const std::int64_t data[] = {10}, starts[] = {-2}, ends[] = {-100}, steps[] = {-3};
  CHECK_OK(resolve_slice(node, data, starts, ends, {}, steps, &slice));
  CHECK_EQ(slice.start[0], 8);
  CHECK_EQ(slice.step[0], -3);
  CHECK_EQ(slice.extent[0], 3);

  EinsumPlan plan;
  node.op = Op::Einsum;
  node.set("equation", std::string_view("...ij,j->i..."));
  const std::int64_t a[] = {5, 1, 3}, b[] = {3};
  const Dims operands[] = {a, b};
  CHECK_OK(parse_einsum(node, operands, &plan));
  CHECK_EQ(plan.label_count, 3u);
  CHECK_EQ(plan.inputs[0].rank, 3u);
  CHECK_EQ(plan.output.rank, 2u);
  CHECK_EQ(plan.extent[plan.output.label[0]], 1);
  CHECK_EQ(plan.extent[plan.output.label[1]], 5);

  std::int64_t count;
  CHECK(range_count(std::int64_t{0}, std::int64_t{7}, std::int64_t{3}, &count));
  CHECK_EQ(count, 3);
  CHECK(!range_count(0.0, 1.0, 0.0, &count));
}

// ---- graphs -------------------------------------------------------------------------------------

struct GraphMaker {
  Graph graph;
  std::int32_t tensor(const char *name, DType dtype = DType::Unknown, Shape shape = {}) {
    Tensor t;
    t.name = name;
    t.dtype = dtype;
    t.shape = std::move(shape);
    graph.tensors.push_back(std::move(t));
    return static_cast<std::int32_t>(graph.tensors.size() - 1);
  }
  std::int32_t constant(const char *name, DType dtype, Shape shape, const void *data, std::uint64_t size) {
    const std::int32_t i = tensor(name, dtype, std::move(shape));
    graph.tensors.back().is_constant = true;
    graph.tensors.back().data = {data, size};
    return i;
  }
  Node &node(Op op, Vector<std::int32_t> inputs, Vector<std::int32_t> outputs) {
    Node n;
    n.op = op;
    n.name = format("%s_%zu", op_name(op), graph.nodes.size());
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    graph.nodes.push_back(std::move(n));
    return graph.nodes.back();
  }
  String shape_of(std::int32_t i) const {
    const Tensor &t = graph.tensors[static_cast<std::size_t>(i)];
    return format("%s%s", dtype_name(t.dtype), shape_text(t.shape.data(), t.shape.size()).c_str());
  }
};

TEST_CASE("graph is inferred in order") {
  static const std::int64_t target[] = {2, -1};
  GraphMaker m;
  const std::int32_t x = m.tensor("x", F32, {4, 3}), shape = m.constant("s", I64, {2}, target, sizeof target);
  const std::int32_t y = m.tensor("y"), z = m.tensor("z");
  m.node(Op::Reshape, {x, shape}, {y});
  m.node(Op::Transpose, {y}, {z});
  m.graph.inputs = {x};
  m.graph.outputs = {z};
  CHECK_OK(infer_graph(m.graph));
  CHECK_EQ(m.shape_of(z), String("f32[6,2]"));
}

TEST_CASE("a graph reports all failures and only their causes") {
  GraphMaker m;
  const std::int32_t a = m.tensor("a", F32, {2}), b = m.tensor("b", F32, {3});
  const std::int32_t c = m.tensor("c"), d = m.tensor("d"), e = m.tensor("e");
  m.node(Op::Add, {a, b}, {c});  // fails
  m.node(Op::Relu, {c}, {d});    // depends on it: not reported
  m.node(Op::Trilu, {a}, {e});   // fails on its own
  m.graph.inputs = {a, b};
  m.graph.outputs = {d, e};
  const Status status = infer_graph(m.graph);
  CHECK_EQ(status.id(), std::string_view("QR-G0004"));
  std::size_t reasons = 0;
  for (const Status::Detail &detail : status.payload()->details) reasons += std::string_view(detail.key) == "reason";
  CHECK_EQ(reasons, 2u);
}

Graph branch(Op op, const char *name) {
  GraphMaker m;
  m.graph.name = name;
  const std::int32_t x = m.tensor("x"), y = m.tensor("y");
  m.node(op, {x}, {y});
  m.graph.inputs = {x};
  m.graph.outputs = {y};
  return std::move(m.graph);
}

TEST_CASE("if joins its branches") {
  static const bool yes = true;
  for (const bool known : {false, true}) {
    GraphMaker m;
    const std::int32_t condition = known ? m.constant("c", DType::Bool, {}, &yes, 1) : m.tensor("c", DType::Bool, {});
    const std::int32_t x = m.tensor("x", F32, {2, 3}), y = m.tensor("y");
    Node &node = m.node(Op::If, {condition, x}, {y});
    node.subgraphs.push_back(branch(Op::Transpose, "then"));
    node.subgraphs.push_back(branch(Op::Relu, "else"));
    CHECK_OK(infer_graph(m.graph));
    CHECK_EQ(m.shape_of(y), String(known ? "f32[3,2]" : "f32[?,?]"));
  }
  GraphMaker m;
  const std::int32_t condition = m.tensor("c", DType::Bool, {}), x = m.tensor("x", F32, {1, 3}), y = m.tensor("y");
  Node &node = m.node(Op::If, {condition, x}, {y});
  node.subgraphs.push_back(branch(Op::Squeeze, "then"));
  node.subgraphs.push_back(branch(Op::Relu, "else"));
  CHECK_EQ(infer_graph(m.graph).message(),
           std::string_view(
               "If 'If_0': branch output 0 has shape [3] in one place and [1,3] in the other, expected one rank"));
}

// iteration, condition, v -> condition, next(v), v
Graph loop_body(bool grows) {
  GraphMaker m;
  m.graph.name = "body";
  const std::int32_t i = m.tensor("i"), c = m.tensor("c"), v = m.tensor("v"), next = m.tensor("next"),
                     scanned = m.tensor("scanned");
  if (grows) m.node(Op::Concat, {v, v}, {next}).set("axis", std::int64_t{0});
  else m.node(Op::Relu, {v}, {next});
  m.node(Op::Neg, {v}, {scanned});
  m.graph.inputs = {i, c, v};
  m.graph.outputs = {c, next, scanned};
  return std::move(m.graph);
}

TEST_CASE("loop counts its trips") {
  static const std::int64_t five = 5;
  for (const bool grows : {false, true}) {
    GraphMaker m;
    const std::int32_t trips = m.constant("m", I64, {}, &five, sizeof five), x = m.tensor("x", F32, {2, 3});
    const std::int32_t last = m.tensor("last"), all = m.tensor("all");
    Node &node = m.node(Op::Loop, {trips, kAbsent, x}, {last, all});
    node.set("carried", std::int64_t{1});
    node.subgraphs.push_back(loop_body(grows));
    CHECK_OK(infer_graph(m.graph));
    CHECK_EQ(m.shape_of(last), String(grows ? "f32[?,3]" : "f32[2,3]"));
    CHECK_EQ(m.shape_of(all), String(grows ? "f32[5,?,3]" : "f32[5,2,3]"));
  }
}

TEST_CASE("scan cuts and stacks") {
  GraphMaker body;
  const std::int32_t s = body.tensor("s"), slice = body.tensor("slice"), sum = body.tensor("sum"),
                     out = body.tensor("out");
  body.node(Op::Add, {s, slice}, {sum});
  body.node(Op::Identity, {sum}, {out});
  body.graph.inputs = {s, slice};
  body.graph.outputs = {sum, out};
  GraphMaker m;
  const std::int32_t state = m.tensor("state", F32, {4}), x = m.tensor("x", F32, {4, 7}), last = m.tensor("last"),
                     all = m.tensor("all");
  Node &node = m.node(Op::Scan, {state, x}, {last, all});
  node.set("num_scan_inputs", std::int64_t{1});
  node.set("states", std::int64_t{1});
  node.set("scan_input_axes", Vector<std::int64_t>{1});
  node.set("scan_output_axes", Vector<std::int64_t>{-1});
  node.subgraphs.push_back(std::move(body.graph));
  CHECK_OK(infer_graph(m.graph));
  CHECK_EQ(m.shape_of(last), String("f32[4]"));
  CHECK_EQ(m.shape_of(all), String("f32[4,7]"));
}

}  // namespace
}  // namespace quarry::qir::test
