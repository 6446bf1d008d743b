// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN by kernels, and LSTM whose weights are bytes: what cpu-reference gives.
#include "tests/unit/cpu/one_node.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;

namespace {

template <class F>
void change(OneNode &one, i32 constant, F &&f) {
  auto &bytes = one.b.data[constant];
  Vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), values.size() * 4);
  for (std::size_t i = 0; i < values.size(); ++i) f(values[i], i);
  std::memcpy(bytes.data(), values.data(), values.size() * 4);
}

}  // namespace

TEST_CASE("recurrent operators") {
  for (std::uint64_t seed = 1; seed <= 90; ++seed) {
    OneNode one(seed);
    Random &random = one.random;
    const Op op = std::initializer_list<Op>{Op::LSTM, Op::GRU, Op::RNN}.begin()[seed % 3];
    const std::int64_t gates = op == Op::LSTM  ? 4
                               : op == Op::GRU ? 3
                                               : 1,
                       layout = random.integer(0, 1), directions = random.one_of({1, 1, 2}),
                       hidden = random.integer(1, 40), entries = random.integer(1, 6), steps = random.integer(1, 7),
                       width = random.integer(1, 20);
    Vector<std::int64_t> state{directions, entries, hidden}, x{steps, entries, width};
    if (layout == 1) std::swap(state[0], state[1]), std::swap(x[0], x[1]);
    Vector<i32> inputs{one.input(DType::F32, x), one.either(DType::F32, {directions, gates * hidden, width}),
                       one.either(DType::F32, {directions, gates * hidden, hidden})};
    // Weights of 2 and more would drive every gate to its end.
    for (std::size_t i = 1; i < 3; ++i)
      if (one.b.data.contains(inputs[i])) change(one, inputs[i], [](float &value, std::size_t) { value *= 0.15f; });
    inputs.push_back(random.chance(70) ? one.either(DType::F32, {directions, 2 * gates * hidden}) : qir::kAbsent);
    inputs.push_back(random.chance(50) ? one.constant(DType::I32, {entries}, steps + 1) : qir::kAbsent);
    inputs.push_back(random.chance(50) ? one.input(DType::F32, state) : qir::kAbsent);
    if (op == Op::LSTM) {
      inputs.push_back(random.chance(50) ? one.input(DType::F32, state) : qir::kAbsent);
      inputs.push_back(random.chance(30) ? one.constant(DType::F32, {directions, 3 * hidden}) : qir::kAbsent);
    }
    const Vector<DType> outputs(op == Op::LSTM ? 3 : 2, DType::F32);
    one.check(format("recurrent, seed %d", static_cast<int>(seed)).c_str(), op, inputs, outputs, 2e-5f,
              [&](qir::Node &node) {
                node.set("hidden_size", hidden), node.set("layout", layout);
                if (directions == 2) node.set("direction", std::string_view("bidirectional"));
                else if (random.chance(40)) node.set("direction", std::string_view("reverse"));
                if (op == Op::GRU) node.set("linear_before_reset", random.integer(0, 1));
                if (op == Op::LSTM && random.chance(20)) node.set("input_forget", std::int64_t{1});
                if (random.chance(20)) node.set("clip", 0.5f);
              });
  }
}

TEST_CASE("a length of a sequence that is none is reported") {
  OneNode one(1);
  const i32 lengths = one.input(DType::I32, {2}), y = one.shaped(DType::F32, {3, 1, 2, 4});
  const i32 x = one.constant(DType::F32, {3, 2, 5}), w = one.constant(DType::F32, {1, 12, 5}),
            r = one.constant(DType::F32, {1, 12, 4});
  one.b.node(Op::GRU, {x, w, r, qir::kAbsent, lengths}, {y}).set("hidden_size", std::int64_t{4});
  one.b.graph.outputs = {y};
  const PlanCase sample(one.b.graph);
  REQUIRE_EQ(sample.ok(), true);
  CHECK_EQ(sample.reference_steps(), 0);
  for (const std::int32_t length : {-1, 4, 3, 0}) {
    const std::int32_t given[2] = {3, length};
    Data inputs(1), outputs;
    inputs[0].assign(reinterpret_cast<const std::uint8_t *>(given), reinterpret_cast<const std::uint8_t *>(given + 2));
    const Status status = sample.run(inputs, outputs);
    CHECK_EQ(status.ok(), length >= 0 && length <= 3);
    if (status.ok()) continue;
    CHECK_EQ(status.id(), Status::error(ErrorId::run_value, "").id());
    CHECK_NE(status.message().find(format("sequence_lens[1]: found %d, expected 0 to 3", length)), std::string::npos);
  }
}

TEST_CASE("an LSTM that may be rounded runs on bytes where its weights are such") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    OneNode one(seed);
    Random &random = one.random;
    const std::int64_t layout = random.integer(0, 1), directions = random.one_of({1, 2}),
                       hidden = random.integer(1, 40), entries = random.integer(1, 4), steps = random.integer(1, 5),
                       width = random.integer(2, 20);
    Vector<std::int64_t> state{directions, entries, hidden}, x{steps, entries, width};
    if (layout == 1) std::swap(state[0], state[1]), std::swap(x[0], x[1]);
    Vector<i32> inputs{one.input(DType::F32, x), one.constant(DType::F32, {directions, 4 * hidden, width}),
                       one.constant(DType::F32, {directions, 4 * hidden, hidden})};
    const bool bytes = seed % 4 != 0;
    for (std::size_t i = 1; i < 3; ++i) {
      const auto row = static_cast<std::size_t>(i == 1 ? width : hidden);
      change(one, inputs[i], [&](float &value, std::size_t at) {
        const float scale = 0.2f / 127 * static_cast<float>(at / row % 5 + 1);
        value = static_cast<float>(random.integer(-127, 127)) * scale + (bytes || at % 3 != 1 ? 0 : scale * 0.3f);
      });
    }
    inputs.push_back(random.chance(70) ? one.constant(DType::F32, {directions, 8 * hidden}) : qir::kAbsent);
    inputs.push_back(random.chance(50) ? one.constant(DType::I32, {entries}, steps + 1) : qir::kAbsent);
    inputs.push_back(random.chance(50) ? one.input(DType::F32, state) : qir::kAbsent);
    inputs.push_back(random.chance(50) ? one.input(DType::F32, state) : qir::kAbsent);
    const i32 made[] = {one.shaped(DType::F32, {}), one.shaped(DType::F32, {}), one.shaped(DType::F32, {})};
    qir::Node &node = one.b.node(Op::LSTM, inputs, {made[0], made[1], made[2]});
    node.set("hidden_size", hidden), node.set("layout", layout), node.set("dynamic_quantize", std::int64_t{1});
    if (directions == 2) node.set("direction", std::string_view("bidirectional"));
    one.b.graph.outputs = {made[0], made[1], made[2]};
    REQUIRE_OK(qir::infer_graph(one.b.graph));
    const PlanCase sample(one.b.graph);
    REQUIRE_EQ(sample.ok(), true);
    const bool dots = kernels::best_isa().int_group == 4;
    CHECK_EQ(sample.steps().find("RecurrentBytes") != std::string::npos, bytes && dots);
    CHECK_EQ(sample.reference_steps(), 0);
    same_results(sample, "rounded", random, 5e-4f);
  }
}
