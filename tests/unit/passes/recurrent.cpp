// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN, step by step: what cpu-reference gives for the node and for what it became.
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

constexpr std::int64_t kSteps = 4, kBatch = 2, kInput = 3, kHidden = 5;

struct Recurrent {
  Op op;
  const char *direction = "forward";
  bool bias = false, states = false, peepholes = false, run_time = false, batch_first = false;
  std::vector<std::int32_t> lengths = {};
  Vector<qir::Attribute> more = {};
};

// A node with the wanted output first.
void build(Pieces &p, const Recurrent &c, std::size_t output) {
  const std::int64_t directions = std::string_view(c.direction) == "bidirectional" ? 2 : 1;
  const std::int64_t gates = c.op == Op::LSTM ? 4 : c.op == Op::GRU ? 3 : 1;
  const auto constant = [&](qir::Shape shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    if (c.run_time) return p.input(shape);
    const i32 made = p.column(count, shape);
    float *const values = static_cast<float *>(const_cast<void *>(p.at(made).data.data));
    for (std::int64_t i = 0; i < count; ++i) values[i] -= 1;
    return made;
  };
  const i32 x = c.batch_first ? p.input({kBatch, kSteps, kInput}) : p.input({kSteps, kBatch, kInput});
  const i32 w = constant({directions, gates * kHidden, kInput}), r = constant({directions, gates * kHidden, kHidden});
  const qir::Shape state =
      c.batch_first ? qir::Shape{kBatch, directions, kHidden} : qir::Shape{directions, kBatch, kHidden};
  Vector<i32> inputs = {x, w, r, qir::kAbsent, qir::kAbsent, qir::kAbsent};
  if (c.bias) inputs[3] = constant({directions, 2 * gates * kHidden});
  if (!c.lengths.empty()) inputs[4] = p.constant<std::int32_t>(DType::I32, {kBatch}, c.lengths);
  if (c.states) inputs[5] = p.input(state);
  if (c.op == Op::LSTM) {
    inputs.push_back(c.states ? p.input(state) : qir::kAbsent);
    inputs.push_back(c.peepholes ? constant({directions, 3 * kHidden}) : qir::kAbsent);
  }
  Vector<qir::Attribute> attributes = c.more;
  attributes.push_back(Pieces::attribute("direction", std::string_view(c.direction)));
  attributes.push_back(Pieces::attribute("hidden_size", kHidden));
  if (c.batch_first) attributes.push_back(Pieces::attribute("layout", std::int64_t{1}));
  const i32 y = p.node(c.op, inputs, attributes);
  const i32 h = p.tensor(DType::F32, state), cell = p.tensor(DType::F32, state);
  qir::Node &node = p.graph.nodes.back();
  node.outputs = {y, h};
  if (c.op == Op::LSTM) node.outputs.push_back(cell);
  p.gives({node.outputs[output]});
}

}  // namespace

TEST_CASE("recurrent operators are unrolled") {
  const qir::Attribute clip = Pieces::attribute("clip", 0.4f);
  const auto functions = [](std::initializer_list<const char *> names) {
    Vector<String> list;
    for (const char *const name : names) list.emplace_back(name);
    return Pieces::attribute("activations", std::move(list));
  };
  const Recurrent cases[] = {
      {.op = Op::LSTM},
      {.op = Op::LSTM, .direction = "reverse", .bias = true},
      {.op = Op::LSTM, .direction = "bidirectional", .bias = true, .states = true, .peepholes = true},
      {.op = Op::LSTM, .direction = "bidirectional", .bias = true, .states = true, .peepholes = true, .run_time = true},
      {.op = Op::LSTM, .bias = true, .states = true, .batch_first = true},
      {.op = Op::LSTM, .direction = "bidirectional", .bias = true, .batch_first = true, .lengths = {2, 4}},
      {.op = Op::LSTM, .bias = true, .states = true, .lengths = {0, 3}, .more = {number("input_forget", 1), clip}},
      {.op = Op::LSTM, .bias = true, .more = {functions({"HardSigmoid", "Softsign", "ScaledTanh"})}},
      {.op = Op::GRU},
      {.op = Op::GRU, .bias = true, .more = {number("linear_before_reset", 1)}},
      {.op = Op::GRU, .bias = true, .states = true, .run_time = true, .more = {number("linear_before_reset", 1)}},
      {.op = Op::GRU, .direction = "bidirectional", .bias = true, .states = true},
      {.op = Op::GRU, .direction = "reverse", .bias = true, .states = true, .run_time = true, .lengths = {3, 1}},
      {.op = Op::RNN, .bias = true},
      {.op = Op::RNN, .direction = "bidirectional", .states = true, .batch_first = true, .lengths = {0, 0}},
      {.op = Op::RNN,
       .bias = true,
       .more = {functions({"Affine"}), Pieces::attribute("activation_alpha", Vector<float>{0.5f}),
                Pieces::attribute("activation_beta", Vector<float>{0.1f})}},
  };
  std::size_t at = 0;
  for (const Recurrent &c : cases) {
    CAPTURE(at);
    ++at;
    for (std::size_t output = 0; output < (c.op == Op::LSTM ? 3u : 2u); ++output) {
      CAPTURE(output);
      Pieces p;
      build(p, c, output);
      const std::vector<double> expected = run(p.graph);
      passes::unroll_recurrent(p.graph, p.store, kSteps);
      CHECK_EQ(count(p.graph, c.op), 0u);
      CHECK(difference(run(p.graph), expected) < 1e-5);
      for (const qir::Node &node : p.graph.nodes) CHECK_EQ(node.source, 0);
    }
  }
}

TEST_CASE("what is too long, or knows another activation, stays") {
  Pieces p;
  build(p, {.op = Op::GRU}, 0);
  passes::unroll_recurrent(p.graph, p.store, kSteps - 1);
  CHECK_EQ(ops(p.graph), "GRU");
  Vector<String> names = {"ThresholdedRelu"};
  Pieces other;
  build(other, {.op = Op::RNN, .more = {Pieces::attribute("activations", std::move(names))}}, 0);
  passes::unroll_recurrent(other.graph, other.store, kSteps);
  CHECK_EQ(ops(other.graph), "RNN");
}
