// SPDX-License-Identifier: Apache-2.0
// Recurrent cells (2e-5 of a state within [-1, 1]), products with weights in blocks (2e-5 of the sum of magnitudes),
// running sums, quantisation by the values' own range (exact).
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/cpu/pack/pack.h"
#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

std::vector<Tensor> expected_of(const qir::Node &node, std::vector<Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (node.inputs[i] == qir::kAbsent) inputs[i].dtype = DType::Unknown;
  return reference(node, inputs);
}
std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

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

void test_rotary(const Isa &isa) {
  Random random(14);
  for (const std::int64_t half : {1, 3, 8, 16, 21, 40})
    for (unsigned options = 0; options < 16; ++options) {
      RotaryF32 p;
      p.batches = 2, p.heads = 3, p.length = 5, p.half = half, p.size = 2 * half + (options & 1 ? 19 : 0);
      p.interleaved = options >> 1 & 1, p.has_positions = options >> 2 & 1, p.positions = p.has_positions ? 11 : 0;
      const bool packed = options >> 3;
      const std::int64_t row = packed ? p.heads * p.size : p.size, head = packed ? p.size : p.length * p.size;
      p.x[0] = p.y[0] = p.heads * p.length * p.size, p.x[1] = p.y[1] = head, p.x[2] = p.y[2] = row;
      auto x = random.reals(size(p.batches * p.x[0]));
      x[1] = kNan, x[2] = kInf;
      const Dims table = p.has_positions ? Dims{p.positions, half} : Dims{p.batches, p.length, half};
      const auto cosines = random.reals(product(table)), sines = random.reals(product(table));
      std::vector<std::int64_t> positions(size(p.batches * p.length));
      for (std::int64_t &position : positions) position = random.integer(0, 10);
      qir::Node node = node_of(Op::RotaryEmbedding, p.has_positions ? 4 : 3);
      node.set("interleaved", std::int64_t{p.interleaved}), node.set("num_heads", p.heads),
          node.set("rotary_embedding_dim", 2 * half);
      const Dims shape = packed ? Dims{p.batches, p.length, row} : Dims{p.batches, p.heads, p.length, p.size};
      std::vector<Tensor> inputs{tensor_of(shape, x), tensor_of(table, cosines), tensor_of(table, sines)};
      std::vector<Operand> operands{in(x), in(cosines), in(sines)};
      if (p.has_positions)
        inputs.push_back(tensor_of({p.batches, p.length}, positions)), operands.push_back({bytes_of(positions)});
      operands.push_back(out(x.size() * 4));
      expect_close("turned", values_of<float>(run(isa, Kernel::RotaryF32, &p, operands)[0]),
                   reference_values(node, inputs), 1e-6f, 1e-6f);
    }
  RotaryF32 p;
  p.length = 2, p.size = 4, p.half = 2, p.has_positions = 1, p.positions = 3, p.x[2] = p.y[2] = 4;
  for (const std::int64_t wrong : {-1, 3}) {
    float x[8] = {}, angles[6] = {}, y[8];
    std::int64_t positions[2] = {2, wrong}, found[2] = {};
    std::byte *const pointers[5] = {reinterpret_cast<std::byte *>(x), reinterpret_cast<std::byte *>(angles),
                                    reinterpret_cast<std::byte *>(angles), reinterpret_cast<std::byte *>(positions),
                                    reinterpret_cast<std::byte *>(y)};
    const Threads threads;
    isa.run[static_cast<std::size_t>(Kernel::RotaryF32)](Call{&p, pointers, threads, nullptr, 0, found});
    if (found[0] != wrong || found[1] != 1) throw std::runtime_error("a position beyond the tables was not reported");
  }
  refuse(isa, Kernel::RotaryF32, p, "more pairs than a row has", [](auto &q) { q.half = 3; });
  refuse(isa, Kernel::RotaryF32, p, "no rows", [](auto &q) { q.length = 0; });
  refuse(isa, Kernel::RotaryF32, p, "no positions", [](auto &q) { q.positions = 0; });
  refuse(isa, Kernel::RotaryF32, p, "a flag of 2", [](auto &q) { q.interleaved = 2; });
  refuse(isa, Kernel::RotaryF32, p, "rows of y over each other", [](auto &q) { q.y[2] = 3; });
  refuse(isa, Kernel::RotaryF32, p, "a negative stride", [](auto &q) { q.x[2] = -4; });
}

void test_linear_attention(const Isa &isa) {
  Random random(40);
  struct Shape {
    std::int64_t batches, length, q_heads, heads, d_k, d_v;
  };
  constexpr const char *kRules[] = {"linear", "gated", "delta", "gated_delta"};
  for (const Shape &s : {Shape{1, 1, 1, 1, 1, 1},
                         {2, 5, 4, 2, 7, 19},
                         {1, 3, 6, 2, 16, 64},
                         {2, 9, 3, 3, 33, 65},
                         {1, 4, 2, 1, 40, 130}})
    for (int rule = 0; rule < 4; ++rule)
      for (int form = 0; form < 4; ++form) {
        LinearAttentionF32 p{s.batches, s.length, s.q_heads, s.heads, s.d_k, s.d_v};
        p.has_past = form & 1, p.has_present = form < 3;
        if (rule & 1) p.decay = form & 2 ? LinearDecay::Head : LinearDecay::Key;
        if (rule & 2) p.rate = form & 1 ? LinearRate::Head : LinearRate::Shared;
        p.scale = 0.3f;
        qir::Node node = node_of(Op::LinearAttention, 6, 2);
        node.set("q_num_heads", s.q_heads), node.set("kv_num_heads", s.heads);
        node.set("update_rule", kRules[rule]), node.set("scale", p.scale);
        const std::int64_t tokens = s.batches * s.length;
        const Dims q{s.batches, s.length, s.q_heads * s.d_k}, k{s.batches, s.length, s.heads * s.d_k},
            v{s.batches, s.length, s.heads * s.d_v}, state{s.batches, s.heads, s.d_k, s.d_v},
            decay{s.batches, s.length, p.decay == LinearDecay::Key ? k[2] : s.heads},
            rate{s.batches, s.length, p.rate == LinearRate::Shared ? 1 : s.heads};
        std::vector<Tensor> inputs;
        std::vector<Operand> operands;
        const auto give = [&](std::size_t place, const Dims &shape, bool there, float low, float high) {
          const auto values = random.reals(there ? product(shape) : 0, low, high);
          inputs.push_back(tensor_of(shape, values));
          if (there) operands.push_back({bytes_of(values)});
          else node.inputs.set(place, qir::kAbsent);
        };
        give(0, q, true, -1, 1), give(1, k, true, -0.4f, 0.4f), give(2, v, true, -1, 1);
        give(3, state, p.has_past, -1, 1);
        give(4, decay, p.decay != LinearDecay::None, -2, 0), give(5, rate, p.rate != LinearRate::None, 0, 1);
        operands.push_back(out(size(tokens * s.q_heads * s.d_v) * 4));
        if (p.has_present) operands.push_back(out(product(state) * 4));
        const auto expected = expected_of(node, inputs);
        const auto found = run(isa, Kernel::LinearAttentionF32, &p, operands);
        for (std::size_t i = 0; i < found.size(); ++i)
          expect_close(std::string("linear attention, ") + kRules[rule], values_of<float>(found[i]),
                       values_of<float>(expected[i].data), 2e-5f, 2e-5f);
      }
  const LinearAttentionF32 p{1, 2, 4, 2, 3, 5};
  refuse(isa, Kernel::LinearAttentionF32, p, "heads that make no groups", [](auto &q) { q.q_heads = 3; });
  refuse(isa, Kernel::LinearAttentionF32, p, "no tokens", [](auto &q) { q.length = 0; });
  refuse(isa, Kernel::LinearAttentionF32, p, "a flag of 2", [](auto &q) { q.has_past = 2; });
  refuse(isa, Kernel::LinearAttentionF32, p, "an unknown decay", [](auto &q) { q.decay = LinearDecay::Count; });
  refuse(isa, Kernel::LinearAttentionF32, p, "a reserved field", [](auto &q) { q.reserved = 1; });
  refuse(isa, Kernel::LinearAttentionF32, p, "2^60 elements", [](auto &q) { q.batches = q.length = q.d_k = 1 << 20; });
}

void test_blocks(const Isa &isa) {
  Random random(12);
  for (const std::int64_t bits : {2, 4, 8})
    for (const std::int64_t block : {16, 32, 64, 128, 1024})
      for (const BlockZeros zeros : {BlockZeros::Middle, BlockZeros::Packed, BlockZeros::F32})
        for (const std::int64_t m : {1, 4, 7, 16, 37}) {
          MatMulBlocks p;
          p.m = m, p.n = random.integer(1, m > 7 ? 200 : 30), p.k = random.integer(1, 2 * block + 5);
          p.bits = static_cast<std::uint32_t>(bits), p.block = static_cast<std::uint32_t>(block);
          p.zeros = zeros, p.has_bias = m % 2 == 0;
          const std::int64_t blocks = (p.k + block - 1) / block, zero_bytes = (blocks * bits + 7) / 8;
          const auto x = random.reals(size(p.m * p.k)), scales = random.reals(size(p.n * blocks), 0.1f, 1),
                     middle = random.reals(size(p.n * blocks), 0, 3), bias = random.reals(size(p.n));
          std::vector<std::uint8_t> w(size(p.n * blocks * block * bits / 8)), packed(size(p.n * zero_bytes));
          for (auto &v : w) v = static_cast<std::uint8_t>(random.bits());
          for (auto &v : packed) v = static_cast<std::uint8_t>(random.bits());
          qir::Node node = node_of(Op::MatMulNBits, 6, 1);
          node.set("K", p.k), node.set("N", p.n), node.set("bits", bits), node.set("block_size", block);
          node.inputs.set(4, qir::kAbsent);
          std::vector<Tensor> inputs{tensor_of({p.m, p.k}, x),
                                     {DType::U8, {p.n, blocks, block * bits / 8}, bytes_of(w), {}},
                                     tensor_of({p.n * blocks}, scales),
                                     {},
                                     {},
                                     tensor_of({p.n}, bias)};
          std::vector<Operand> operands{{bytes_of(x)}, {bytes_of(w)}, {bytes_of(scales)}};
          if (zeros == BlockZeros::Middle) node.inputs.set(3, qir::kAbsent);
          if (zeros == BlockZeros::Packed) {
            inputs[3] = {DType::U8, {p.n * zero_bytes}, bytes_of(packed), {}};
            operands.push_back({bytes_of(packed)});
          }
          if (zeros == BlockZeros::F32) {
            inputs[3] = tensor_of({p.n * blocks}, middle);
            operands.push_back({bytes_of(middle)});
          }
          if (p.has_bias) operands.push_back({bytes_of(bias)});
          else node.inputs.set(5, qir::kAbsent);
          operands.push_back(out(size(p.m * p.n) * 4));
          const float most = static_cast<float>(1 << bits) * static_cast<float>(p.k);
          expect_close("weights in blocks", values_of<float>(run(isa, Kernel::MatMulBlocks, &p, operands)[0]),
                       values_of<float>(expected_of(node, inputs)[0].data), 0, 2e-7f * most);
        }
  MatMulBlocks p;
  p.m = p.n = p.k = 1;
  refuse(isa, Kernel::MatMulBlocks, p, "3 bits", [](auto &q) { q.bits = 3; });
  refuse(isa, Kernel::MatMulBlocks, p, "a block of 8", [](auto &q) { q.block = 8; });
  refuse(isa, Kernel::MatMulBlocks, p, "a block of 48", [](auto &q) { q.block = 48; });
  refuse(isa, Kernel::MatMulBlocks, p, "a block of 2048", [](auto &q) { q.block = 2048; });
  refuse(isa, Kernel::MatMulBlocks, p, "no rows", [](auto &q) { q.m = 0; });
  refuse(isa, Kernel::MatMulBlocks, p, "unknown zeros", [](auto &q) { q.zeros = BlockZeros::Count; });
}

template <class T>
void cumulate(const Isa &isa, DType dtype, Random &random) {
  for (const std::int64_t inner : {1, 5, 600})
    for (std::uint32_t flags = 0; flags < 8; ++flags) {
      Cumulate p;
      p.outer = 3, p.n = 21, p.inner = inner, p.dtype = static_cast<std::uint32_t>(dtype);
      p.product = flags & 1, p.exclusive = flags >> 1 & 1, p.backwards = flags >> 2;
      std::vector<T> x(size(p.outer * p.n * p.inner));
      for (T &v : x) v = static_cast<T>(random.integer(1, 3));  // exact in every type
      qir::Node node = node_of(p.product ? Op::CumProd : Op::CumSum, 2, 1);
      node.set("exclusive", std::int64_t{p.exclusive}), node.set("reverse", std::int64_t{p.backwards});
      const auto expected = reference(node, {{dtype, {p.outer, p.n, p.inner}, bytes_of(x), {}},
                                             {DType::I64, {}, bytes_of(std::vector<std::int64_t>{1}), {}}});
      if (run(isa, Kernel::Cumulate, &p, {{bytes_of(x)}, out(x.size() * sizeof(T))})[0] != expected[0].data)
        throw std::runtime_error(std::string("running sums of ") + dtype_name(dtype) + ": not the reference's");
    }
}
void test_cumulate(const Isa &isa) {
  Random random(13);
  cumulate<float>(isa, DType::F32, random), cumulate<double>(isa, DType::F64, random);
  cumulate<std::int32_t>(isa, DType::I32, random), cumulate<std::uint64_t>(isa, DType::U64, random);
  Cumulate p;
  p.dtype = static_cast<std::uint32_t>(DType::F32);
  refuse(isa, Kernel::Cumulate, p, "halves", [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::F16); });
  refuse(isa, Kernel::Cumulate, p, "a flag of 2", [](auto &q) { q.product = 2; });
  refuse(isa, Kernel::Cumulate, p, "negative dimensions", [](auto &q) { q.n = -1; });
}

void test_dynamic_quantize(const Isa &isa) {
  Random random(14);
  for (const std::int64_t count : {1, 3, 16, 33, 64, 1000, 100000})
    for (const float low : {-3.0f, 0.5f, -7.0f}) {
      auto x = random.reals(size(count), low, low + 4);
      if (count == 16) std::fill(x.begin(), x.end(), 0.0f);
      if (count > 60) x[7] = std::nanf("");
      const DynamicQuantize p{count};
      const auto found = run(isa, Kernel::DynamicQuantize, &p, {{bytes_of(x)}, out(size(count)), out(4), out(1)});
      const auto expected = reference(node_of(Op::DynamicQuantizeLinear, 1, 3), {tensor_of({count}, x)});
      for (std::size_t i = 0; i < 3; ++i)
        if (found[i] != expected[i].data) throw std::runtime_error("quantised by range: not the reference's");
    }
  refuse(isa, Kernel::DynamicQuantize, DynamicQuantize{1}, "a negative count", [](auto &q) { q.count = -1; });
}

// Zeros in all operands: nothing here takes longer for other numbers.
template <class P>
Registry::Prepared of_zeros(const Isa &isa, Kernel kernel, const P &params, double flops) {
  Needs needs;
  if (Status status = kernel_row(kernel).check(&params, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  Registry::Prepared prepared{kernel, params_of(params), {}, {flops, 0}};
  for (std::size_t i = 0; i < needs.operand_count; ++i) {
    prepared.operands.push_back({Bytes(needs.operand_bytes[i]), needs.written[i]});
    prepared.work.bytes += static_cast<double>(needs.operand_bytes[i]);
  }
  return prepared;
}

void register_axis_scans_benches(Registry &registry) {
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
  for (const std::uint32_t bits : {2u, 4u, 8u})
    for (const std::int64_t rows : {1, 4, 64})
      registry.bench("MatMulBlocks " + std::to_string(rows) + "x1024x1024 of " + std::to_string(bits) + " bits",
                     [=](const Isa &isa) {
                       MatMulBlocks p;
                       p.m = rows, p.n = p.k = 1024, p.bits = bits, p.zeros = BlockZeros::Packed;
                       return of_zeros(isa, Kernel::MatMulBlocks, p, 2.0 * static_cast<double>(rows * p.n * p.k));
                     });
}

}  // namespace

void register_axis_scans(Registry &registry) {
  registry.test("linear attention", test_linear_attention);
  registry.test("RotaryF32", test_rotary);
  registry.test("recurrent cells", test_recurrent);
  registry.test("recurrent cells of bytes", test_recurrent_bytes);
  registry.test("weights in blocks", test_blocks);
  registry.test("running sums", test_cumulate);
  registry.test("quantised by range", test_dynamic_quantize);
  register_axis_scans_benches(registry);
}

}  // namespace quarry::kernel_test
