// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications with weights in blocks: 2e-7 of the largest sum of magnitudes.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/cpu/pack/pack.h"
#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

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

}  // namespace

void register_matmul_blocks(Registry &registry) {
  registry.test("weights in blocks", test_blocks);
  for (const std::uint32_t bits : {2u, 4u, 8u})
    for (const std::int64_t rows : {1, 4, 64})
      registry.bench("MatMulBlocks " + std::to_string(rows) + "x1024x1024 of " + std::to_string(bits) + " bits",
                     [=](const Isa &isa) {
                       MatMulBlocks p;
                       p.m = rows, p.n = p.k = 1024, p.bits = bits, p.zeros = BlockZeros::Packed;
                       return of_zeros(isa, Kernel::MatMulBlocks, p, 2.0 * static_cast<double>(rows * p.n * p.k));
                     });
}

}  // namespace quarry::kernel_test
