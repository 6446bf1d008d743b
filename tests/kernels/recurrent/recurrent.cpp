// SPDX-License-Identifier: Apache-2.0
// Recurrent cells: 2e-5 of a state within [-1, 1].
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/cpu/pack/pack.h"
#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

// The inputs count for nothing (W is zero, its bias gives the gates), so that the reference sees what the kernel does.
// `ends`: each entry of the batch has a length of its own, from none to all.
void one_cell(const Isa &isa, Cell cell, std::int64_t steps, std::int64_t batch, std::int64_t hidden, bool states,
              bool ends, Random &random) {
  RecurrentF32 p;
  p.cell = cell, p.steps = steps, p.batch = batch, p.hidden = hidden;
  const bool lstm = cell == Cell::Lstm, rnn = cell == Cell::Rnn;
  const std::int64_t gates = lstm ? 4 : rnn ? 1 : 3, wide = gates * hidden;
  p.backwards = states, p.has_h = states, p.has_c = p.has_peepholes = states && lstm, p.clip = states ? 0.7f : 0;
  p.has_bias = cell == Cell::GruAfter;
  p.x_row = wide, p.x_step = batch * wide, p.y_row = hidden, p.y_step = batch * hidden, p.state_row = hidden;
  p.f = {rnn ? Act::Tanh : Act::Sigmoid, 0, 0, 0}, p.g = p.h = {Act::Tanh, 0, 0, 0};
  const auto x = random.reals(size(steps * batch * wide)), r = random.reals(size(wide * hidden), -0.4f, 0.4f),
             bias = random.reals(size(hidden)), h = random.reals(size(batch * hidden)),
             c = random.reals(size(batch * hidden)), peepholes = random.reals(size(3 * hidden));
  // x itself as the input, through a W that is the unit matrix.
  std::vector<float> unit(size(wide * wide), 0), biases(size(2 * wide), 0);
  for (std::int64_t i = 0; i < wide; ++i) unit[size(i * wide + i)] = 1;
  if (p.has_bias) std::copy(bias.begin(), bias.end(), biases.begin() + static_cast<std::ptrdiff_t>(wide + 2 * hidden));
  qir::Node node = node_of(lstm ? Op::LSTM : rnn ? Op::RNN : Op::GRU, lstm ? 8 : 6, lstm ? 3 : 2);
  node.set("hidden_size", hidden);
  std::vector<std::int32_t> lengths(size(batch));
  for (std::int32_t &length : lengths) length = static_cast<std::int32_t>(random.integer(0, steps));
  if (!ends) node.inputs.set(4, qir::kAbsent);
  p.has_lengths = ends;
  if (cell == Cell::GruAfter) node.set("linear_before_reset", std::int64_t{1});
  if (p.backwards) node.set("direction", std::string_view("reverse"));
  if (p.clip > 0) node.set("clip", p.clip);
  std::vector<Tensor> inputs{tensor_of({steps, batch, wide}, x),
                             tensor_of({1, wide, wide}, unit),
                             tensor_of({1, wide, hidden}, r),
                             tensor_of({1, 2 * wide}, biases),
                             {DType::I32, {batch}, bytes_of(lengths), {}},
                             tensor_of({1, batch, hidden}, h)};
  if (lstm) inputs.push_back(tensor_of({1, batch, hidden}, c)), inputs.push_back(tensor_of({1, 3 * hidden}, peepholes));
  if (!states)
    for (std::size_t i = 5; i < node.inputs.size(); ++i) node.inputs.set(i, qir::kAbsent);
  Needs needs;
  if (Status status = kernel_row(Kernel::RecurrentF32).check(&p, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  Bytes packed(needs.operand_bytes[1]);
  pack_recurrent_f32(p, isa, r.data(), packed.data());
  std::vector<Operand> operands{{bytes_of(x)}, {packed}};
  if (p.has_bias) operands.push_back({bytes_of(bias)});
  if (p.has_h) operands.push_back({bytes_of(h)});
  if (p.has_c) operands.push_back({bytes_of(c)});
  if (p.has_peepholes) operands.push_back({bytes_of(peepholes)});
  if (p.has_lengths) operands.push_back({bytes_of(lengths)});
  operands.push_back(out(size(steps * batch * hidden) * 4));
  for (int i = 0; i < (lstm ? 2 : 1); ++i) operands.push_back(out(size(batch * hidden) * 4));
  const auto found = run(isa, Kernel::RecurrentF32, &p, operands);
  const auto expected = expected_of(node, inputs);
  for (std::size_t i = 0; i < found.size(); ++i)
    expect_close("cell " + std::to_string(static_cast<int>(cell)), values_of<float>(found[i]),
                 values_of<float>(expected[i].data), 2e-5f, 2e-5f);
}

// Weights of bytes with a factor and, from some rows on, a zero point that takes them beyond [-128, 127]. What rounding
// rows to 16 bits does is at most about 1e-4 of a state (of 8 bits it would be 1e-2).
void byte_cell(const Isa &isa, std::int64_t steps, std::int64_t batch, std::int64_t input, std::int64_t hidden,
               bool states, bool ends, Random &random) {
  RecurrentBytes p;
  RecurrentF32 &layer = p.layer;
  layer.cell = Cell::Lstm, layer.steps = steps, layer.batch = batch, layer.hidden = hidden, p.input = input;
  layer.backwards = layer.has_h = layer.has_c = layer.has_peepholes = states, layer.has_lengths = ends;
  layer.x_row = input, layer.x_step = batch * input, layer.y_row = hidden, layer.y_step = batch * hidden,
  layer.state_row = hidden;
  layer.f = {Act::Sigmoid, 0, 0, 0}, layer.g = layer.h = {Act::Tanh, 0, 0, 0};
  const std::int64_t wide = 4 * hidden;
  const auto weights = [&](std::int64_t depth) {
    std::vector<float> made;
    for (std::int64_t row = 0; row < wide; ++row) {
      const float scale = 0.3f / 127 * random.real(0.5f, 1.5f);
      const std::int64_t zero = row % 3 == 2 ? 50 : 0;
      for (std::int64_t i = 0; i < depth; ++i)
        made.push_back(static_cast<float>(random.integer(-128, 127) - zero) * scale);
    }
    return made;
  };
  const auto x = random.reals(size(steps * batch * input), -3, 3), w = weights(input), r = weights(hidden),
             bias = random.reals(size(2 * wide)), h = random.reals(size(batch * hidden)),
             c = random.reals(size(batch * hidden)), peepholes = random.reals(size(3 * hidden));
  std::vector<float> both;
  for (std::int64_t i = 0; i < wide; ++i) both.push_back(bias[size(i)] + bias[size(wide + i)]);
  std::vector<std::int32_t> lengths(size(batch));
  for (std::int32_t &length : lengths) length = static_cast<std::int32_t>(random.integer(0, steps));
  qir::Node node = node_of(Op::LSTM, 8, 3);
  node.set("hidden_size", hidden);
  if (!ends) node.inputs.set(4, qir::kAbsent);
  if (states) node.set("direction", std::string_view("reverse"));
  else
    for (std::size_t i = 5; i < node.inputs.size(); ++i) node.inputs.set(i, qir::kAbsent);
  Needs needs;
  if (Status status = kernel_row(Kernel::RecurrentBytes).check(&p, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  Bytes packed(needs.operand_bytes[1]);
  if (!pack_recurrent_bytes(p, isa, w.data(), r.data(), both.data(), packed.data()))
    throw std::runtime_error("weights of bytes do not pack as such");
  std::vector<Operand> operands{{bytes_of(x)}, {packed}};
  if (states) operands.insert(operands.end(), {{bytes_of(h)}, {bytes_of(c)}, {bytes_of(peepholes)}});
  if (ends) operands.push_back({bytes_of(lengths)});
  operands.push_back(out(size(steps * batch * hidden) * 4));
  for (int i = 0; i < 2; ++i) operands.push_back(out(size(batch * hidden) * 4));
  const auto found = run(isa, Kernel::RecurrentBytes, &p, operands);
  const auto expected = expected_of(node, {tensor_of({steps, batch, input}, x),
                                           tensor_of({1, wide, input}, w),
                                           tensor_of({1, wide, hidden}, r),
                                           tensor_of({1, 2 * wide}, bias),
                                           {DType::I32, {batch}, bytes_of(lengths), {}},
                                           tensor_of({1, batch, hidden}, h),
                                           tensor_of({1, batch, hidden}, c),
                                           tensor_of({1, 3 * hidden}, peepholes)});
  for (std::size_t i = 0; i < found.size(); ++i)
    expect_close("cell of bytes", values_of<float>(found[i]), values_of<float>(expected[i].data), 2e-4f, 2e-4f);
}

void test_recurrent_bytes(const Isa &isa) {
  RecurrentBytes p;
  p.layer.cell = Cell::Lstm, p.input = 3;
  p.layer.steps = p.layer.batch = 2, p.layer.hidden = 4, p.layer.x_row = 3, p.layer.x_step = 6;
  p.layer.y_row = p.layer.state_row = 4, p.layer.y_step = 8;
  Needs needs;
  if (isa.int_group != 4) {
    if (kernel_row(Kernel::RecurrentBytes).check(&p, isa, needs).ok())
      throw std::runtime_error("RecurrentBytes without a dot product of bytes is not refused");
    return;
  }
  Random random(12);
  for (const std::int64_t hidden : {1, 3, 16, 17, 40})
    for (const std::int64_t batch : {1, 2, 5})
      for (const bool states : {false, true})
        for (const bool ends : {false, true})
          byte_cell(isa, hidden == 3 ? 1 : 4, batch, hidden == 16 ? 64 : hidden + 2, hidden, states, ends, random);
  byte_cell(isa, 70, 1, 37, 160, true, false, random);
  refuse(isa, Kernel::RecurrentBytes, p, "another cell", [](auto &q) { q.layer.cell = Cell::Rnn; });
  refuse(isa, Kernel::RecurrentBytes, p, "no input", [](auto &q) { q.input = 0; });
  refuse(isa, Kernel::RecurrentBytes, p, "a reserved field", [](auto &q) { q.layer.reserved = 1; });
  refuse(isa, Kernel::RecurrentBytes, p, "steps beyond all bounds", [](auto &q) {
    q.layer.steps = 1 << 24, q.layer.batch = 2, q.layer.y_row = std::int64_t{1} << 27, q.layer.y_step = 4;
  });
  // Weights that are no whole numbers of one factor; and rows that hold a NaN, which takes its columns alone.
  std::vector<float> w(size(16 * 3), 1), r(size(16 * 4), 1);
  if (Status status = kernel_row(Kernel::RecurrentBytes).check(&p, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  Bytes packed(needs.operand_bytes[1]);
  w[4] = 0.123457f, w[5] = 0.7654321f;
  if (pack_recurrent_bytes(p, isa, w.data(), r.data(), nullptr, packed.data()))
    throw std::runtime_error("weights that are no bytes pack as such");
  w[4] = w[5] = 1;
  if (!pack_recurrent_bytes(p, isa, w.data(), r.data(), nullptr, packed.data()))
    throw std::runtime_error("ones do not pack as bytes");
  std::vector<float> x(12, 0.5f);
  x[0] = std::nanf("");  // entry 0
  const auto y =
      values_of<float>(run(isa, Kernel::RecurrentBytes, &p, {{bytes_of(x)}, {packed}, out(64), out(32), out(32)})[0]);
  for (std::size_t i = 0; i < y.size(); ++i)
    if (std::isnan(y[i]) != (i / 4 % 2 == 0)) throw std::runtime_error("a NaN is lost, or meets another entry");
}

void test_recurrent(const Isa &isa) {
  Random random(11);
  for (const Cell cell : {Cell::Rnn, Cell::Gru, Cell::GruAfter, Cell::Lstm})
    for (const std::int64_t hidden : {1, 3, 16, 17, 40})
      for (const std::int64_t batch : {1, 2, 5})
        for (const bool states : {false, true})
          for (const bool ends : {false, true})
            one_cell(isa, cell, hidden == 3 ? 1 : 4, batch, hidden, states, ends, random);
  one_cell(isa, Cell::Lstm, 3, 3, 160, true, false, random);
  one_cell(isa, Cell::Gru, 3, 9, 144, true, true, random);
  RecurrentF32 p;
  p.steps = 2, p.batch = 2, p.hidden = 4, p.x_row = p.y_row = p.state_row = 4, p.x_step = p.y_step = 8;
  refuse(isa, Kernel::RecurrentF32, p, "an unknown cell", [](auto &q) { q.cell = Cell::Count; });
  refuse(isa, Kernel::RecurrentF32, p, "a reserved field", [](auto &q) { q.reserved = 1; });
  refuse(isa, Kernel::RecurrentF32, p, "no steps", [](auto &q) { q.steps = 0; });
  refuse(isa, Kernel::RecurrentF32, p, "a cell's state in an RNN", [](auto &q) { q.has_c = 1; });
  refuse(isa, Kernel::RecurrentF32, p, "rows of y over each other", [](auto &q) { q.y_row = 3; });
  refuse(isa, Kernel::RecurrentF32, p, "steps of y over each other", [](auto &q) { q.y_step = 7; });
  refuse(isa, Kernel::RecurrentF32, p, "states over each other", [](auto &q) { q.state_row = 3; });
  refuse(isa, Kernel::RecurrentF32, p, "a negative stride", [](auto &q) { q.x_step = -8; });
  refuse(isa, Kernel::RecurrentF32, p, "clip of NaN", [](auto &q) { q.clip = std::nanf(""); });
  refuse(isa, Kernel::RecurrentF32, p, "an unknown activation", [](auto &q) { q.f.kind = Act::Count; });
}

void register_recurrent_benches(Registry &registry) {
  struct Layer {
    const char *name;
    Cell cell;
    std::int64_t steps, batch, hidden;
  };
  for (const Layer &b : {Layer{"LSTM 1x256, 32 steps", Cell::Lstm, 32, 1, 256},
                         {"LSTM 8x128, 32 steps", Cell::Lstm, 32, 8, 128},
                         {"GRU 1x128, 32 steps", Cell::Gru, 32, 1, 128},
                         {"GRU 4x64, reset after, 32 steps", Cell::GruAfter, 32, 4, 64},
                         {"RNN 1x128, 32 steps", Cell::Rnn, 32, 1, 128}})
    registry.bench(std::string("RecurrentF32 ") + b.name, [=](const Isa &isa) {
      RecurrentF32 p;
      const std::int64_t gates = b.cell == Cell::Lstm ? 4 : b.cell == Cell::Rnn ? 1 : 3;
      p.cell = b.cell, p.steps = b.steps, p.batch = b.batch, p.hidden = b.hidden, p.has_h = 1;
      p.x_row = gates * b.hidden, p.x_step = b.batch * p.x_row, p.y_row = p.state_row = b.hidden;
      p.y_step = b.batch * b.hidden;
      p.f = {b.cell == Cell::Rnn ? Act::Tanh : Act::Sigmoid, 0, 0, 0}, p.g = p.h = {Act::Tanh, 0, 0, 0};
      return of_zeros(isa, Kernel::RecurrentF32, p,
                      2.0 * static_cast<double>(b.steps * b.batch * b.hidden * b.hidden * gates));
    });
}

}  // namespace

void register_recurrent(Registry &registry) {
  registry.test("recurrent cells", test_recurrent);
  registry.test("recurrent cells of bytes", test_recurrent_bytes);
  register_recurrent_benches(registry);
}

}  // namespace quarry::kernel_test
