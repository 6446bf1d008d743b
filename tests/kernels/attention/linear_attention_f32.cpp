// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings and linear attention.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/cpu/pack/pack.h"
#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

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

}  // namespace

void register_linear_attention(Registry &registry) {
  registry.test("linear attention", test_linear_attention);
  registry.test("RotaryF32", test_rotary);
}

}  // namespace quarry::kernel_test
