// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications with weights in blocks. x as f32: 2e-7 of the largest sum of magnitudes. x in bytes: what
// rounding each block of x may move a sum by, and the same numbers as sums that are made here in integers.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/matmul_shape.h"
#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

// A product and its operands.
struct BlockCase {
  MatMulBlocks p;
  std::int64_t blocks, zero_bytes;
  std::vector<float> x, scales, middle, bias;
  std::vector<std::uint8_t> w, packed;

  BlockCase(Random &random, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t bits, std::int64_t block,
            BlockZeros zeros) {
    p.m = m, p.n = n, p.k = k, p.zeros = zeros, p.has_bias = m % 2 == 0;
    p.bits = static_cast<std::uint32_t>(bits), p.block = static_cast<std::uint32_t>(block);
    blocks = (k + block - 1) / block, zero_bytes = (blocks * bits + 7) / 8;
    x = random.reals(size(m * k)), scales = random.reals(size(n * blocks), 0.1f, 1);
    middle = random.reals(size(n * blocks), 0, 3), bias = random.reals(size(n));
    w.resize(size(n * blocks * block * bits / 8)), packed.resize(size(n * zero_bytes));
    for (auto &v : w) v = static_cast<std::uint8_t>(random.bits());
    for (auto &v : packed) v = static_cast<std::uint8_t>(random.bits());
  }
  std::vector<float> found(const Isa &isa, Kernel kernel) const {
    std::vector<Operand> operands{{bytes_of(x)}, {bytes_of(w)}, {bytes_of(scales)}};
    if (p.zeros == BlockZeros::Packed) operands.push_back({bytes_of(packed)});
    if (p.zeros == BlockZeros::F32) operands.push_back({bytes_of(middle)});
    if (p.has_bias) operands.push_back({bytes_of(bias)});
    operands.push_back(out(size(p.m * p.n) * 4));
    return values_of<float>(run(isa, kernel, &p, operands)[0]);
  }
  std::vector<float> expected() const {
    qir::Node node = node_of(Op::MatMulNBits, 6, 1);
    node.set("K", p.k), node.set("N", p.n), node.set("bits", std::int64_t{p.bits});
    node.set("block_size", std::int64_t{p.block});
    node.inputs.set(4, qir::kAbsent);
    std::vector<Tensor> inputs{tensor_of({p.m, p.k}, x),
                               {DType::U8, {p.n, blocks, p.block * p.bits / 8}, bytes_of(w), {}},
                               tensor_of({p.n * blocks}, scales),
                               {},
                               {},
                               tensor_of({p.n}, bias)};
    if (p.zeros == BlockZeros::Middle) node.inputs.set(3, qir::kAbsent);
    if (p.zeros == BlockZeros::Packed) inputs[3] = {DType::U8, {p.n * zero_bytes}, bytes_of(packed), {}};
    if (p.zeros == BlockZeros::F32) inputs[3] = tensor_of({p.n * blocks}, middle);
    if (!p.has_bias) node.inputs.set(5, qir::kAbsent);
    return values_of<float>(expected_of(node, inputs)[0].data);
  }
  // A weight less its zero point, without its scale.
  double weight(std::int64_t n, std::int64_t k) const {
    const std::int64_t bits = p.bits, b = k / p.block, byte = (n * blocks * p.block + k) * bits / 8;
    const std::int64_t mask = (1 << bits) - 1, zero_at = n * zero_bytes + b * bits / 8;
    const double stored = static_cast<double>(w[size(byte)] >> (k * bits % 8) & mask);
    if (p.zeros == BlockZeros::F32) return stored - middle[size(n * blocks + b)];
    if (p.zeros == BlockZeros::Packed)
      return stored - static_cast<double>(packed[size(zero_at)] >> (b * bits % 8) & mask);
    return stored - static_cast<double>(1 << (bits - 1));
  }
  double scale(std::int64_t n, std::int64_t k) const { return scales[size(n * blocks + k / p.block)]; }
  // Of a row of x, or of numbers in its place, with a row of weights.
  double sum(const double *row, std::int64_t n) const {
    double total = p.has_bias ? static_cast<double>(bias[size(n)]) : 0;
    for (std::int64_t k = 0; k < p.k; ++k) total += row[k] * weight(n, k) * scale(n, k);
    return total;
  }
  // What half a step of each x may move a sum by.
  double moved(std::int64_t m, std::int64_t n) const {
    double total = 0;
    float half_step = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
      if (k % p.block == 0) half_step = largest(m, k) / 254;
      total += static_cast<double>(half_step) * std::fabs(weight(n, k) * scale(n, k));
    }
    return total;
  }
  float largest(std::int64_t m, std::int64_t k) const {  // |x| of the block that k is in
    float most = 0;
    for (std::int64_t i = k / p.block * p.block; i < std::min<std::int64_t>(p.k, (k / p.block + 1) * p.block); ++i)
      most = std::max(most, std::fabs(x[size(m * p.k + i)]));
    return most;
  }
};

void each_case(Random &random, const std::function<void(const BlockCase &)> &body) {
  constexpr std::int64_t kBits[] = {2, 4, 8}, kBlocks[] = {16, 32, 64, 128, 1024}, kRows[] = {1, 4, 7, 16, 37};
  constexpr BlockZeros kZeros[] = {BlockZeros::Middle, BlockZeros::Packed, BlockZeros::F32};
  for (std::size_t i = 0; i < 3 * 5 * 3 * 5; ++i) {
    const std::int64_t bits = kBits[i / 75], block = kBlocks[i / 15 % 5], m = kRows[i % 5];
    const std::int64_t n = random.integer(1, m > 7 ? 200 : 30), k = random.integer(1, 2 * block + 5);
    body(BlockCase(random, m, n, k, bits, block, kZeros[i / 5 % 3]));
  }
}

void test_blocks(const Isa &isa) {
  Random random(12);
  each_case(random, [&](const BlockCase &c) {
    const float most = static_cast<float>(1 << c.p.bits) * static_cast<float>(c.p.k);
    expect_close("weights in blocks", c.found(isa, Kernel::MatMulBlocks), c.expected(), 0, 2e-7f * most);
  });
  MatMulBlocks p;
  p.m = p.n = p.k = 1;
  refuse(isa, Kernel::MatMulBlocks, p, "3 bits", [](auto &q) { q.bits = 3; });
  refuse(isa, Kernel::MatMulBlocks, p, "a block of 8", [](auto &q) { q.block = 8; });
  refuse(isa, Kernel::MatMulBlocks, p, "a block of 48", [](auto &q) { q.block = 48; });
  refuse(isa, Kernel::MatMulBlocks, p, "a block of 2048", [](auto &q) { q.block = 2048; });
  refuse(isa, Kernel::MatMulBlocks, p, "no rows", [](auto &q) { q.m = 0; });
  refuse(isa, Kernel::MatMulBlocks, p, "unknown zeros", [](auto &q) { q.zeros = BlockZeros::Count; });
}

// Half a step of x, which is its block's largest / 127, times each weight; and what f32 may lose beside that.
void test_bytes(const Isa &isa) {
  Random random(13);
  each_case(random, [&](const BlockCase &c) {
    const std::vector<float> found = c.found(isa, Kernel::MatMulBlocksBytes), expected = c.expected();
    const double rest = 2e-7 * static_cast<double>(1 << c.p.bits) * static_cast<double>(c.p.k);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto m = static_cast<std::int64_t>(i) / c.p.n, n = static_cast<std::int64_t>(i) % c.p.n;
      const double bound = 1.0001 * c.moved(m, n) + rest;
      expect_close("x in bytes", std::span(&found[i], 1), std::span(&expected[i], 1), 0, static_cast<float>(bound));
    }
  });
  MatMulBlocks p;
  p.m = p.n = p.k = 1;
  refuse(isa, Kernel::MatMulBlocksBytes, p, "3 bits", [](auto &q) { q.bits = 3; });
  refuse(isa, Kernel::MatMulBlocksBytes, p, "a block of 2048", [](auto &q) { q.block = 2048; });
}

// Scales that are powers of two, and x whose blocks have 127 times one as their largest: all sums are exact in f32.
void test_bytes_exactly(const Isa &isa) {
  Random random(14);
  each_case(random, [&](const BlockCase &drawn) {
    BlockCase c = drawn;
    std::vector<double> rounded(c.x.size());
    for (float &scale : c.scales) scale = std::ldexp(1.0f, static_cast<int>(random.integer(-2, 1)));
    for (float &zero : c.middle) zero = static_cast<float>(random.integer(0, 3));
    for (float &added : c.bias) added = static_cast<float>(random.integer(-9, 9));
    for (std::int64_t i = 0; i < c.p.m * c.p.k; ++i) {
      const std::int64_t k = i % c.p.k;
      // Sixteenths of a step: ties go to the even number.
      const float step = (k / c.p.block) % 2 ? 0.5f : 1.0f,
                  drawn_steps = static_cast<float>(random.integer(-127 * 16, 127 * 16)) / 16,
                  steps = k % c.p.block ? drawn_steps : std::copysign(127.0f, drawn_steps);
      c.x[size(i)] = steps * step;
      rounded[size(i)] = static_cast<double>(std::nearbyint(steps) * step);
    }
    std::vector<float> expected;
    for (std::int64_t i = 0; i < c.p.m * c.p.n; ++i)
      expected.push_back(static_cast<float>(c.sum(&rounded[size(i / c.p.n * c.p.k)], i % c.p.n)));
    expect_close("x in bytes, exactly", c.found(isa, Kernel::MatMulBlocksBytes), expected, 0, 0);
  });
}

// Numbers at the ends of f32: what is not finite makes NaN of its row alone; what is too small to be rounded is 0.
void test_bytes_edges(const Isa &isa) {
  Random random(15);
  for (const std::int64_t m : {3, 20}) {
    BlockCase c(random, m, 5, 70, 4, 32, BlockZeros::Middle);
    for (std::int64_t k = 0; k < c.p.k; ++k)
      c.x[size(k)] = 1e-38f, c.x[size(c.p.k + k)] = 0, c.x[size(2 * c.p.k + k)] = 3e38f;
    c.x[size(2 * c.p.k + 40)] = m == 3 ? kNan : -kInf;
    const std::vector<float> found = c.found(isa, Kernel::MatMulBlocksBytes), expected = c.expected();
    for (std::int64_t n = 0; n < c.p.n; ++n) {
      const float bias = c.p.has_bias ? c.bias[size(n)] : 0;
      if (found[size(n)] != bias || found[size(c.p.n + n)] != bias || !std::isnan(found[size(2 * c.p.n + n)]))
        throw std::runtime_error("x in bytes: rows of nothing or of NaN");
      if (m > 3 && std::isnan(found[size(3 * c.p.n + n)])) throw std::runtime_error("x in bytes: NaN in another row");
    }
  }
}

}  // namespace

void register_matmul_blocks(Registry &registry) {
  registry.test("weights in blocks", test_blocks);
  registry.test("weights in blocks, x in bytes", test_bytes);
  registry.test("weights in blocks, x in bytes: exactly", test_bytes_exactly);
  registry.test("weights in blocks, x in bytes: edges", test_bytes_edges);
  for (const std::uint32_t bits : {2u, 4u, 8u})
    for (const std::int64_t rows : {1, 4, 64})
      for (const Kernel kernel : {Kernel::MatMulBlocks, Kernel::MatMulBlocksBytes})
        registry.bench(std::string(kernel_row(kernel).name) + " " + std::to_string(rows) + "x1024x1024 of " +
                           std::to_string(bits) + " bits",
                       [=](const Isa &isa) {
                         MatMulBlocks p;
                         p.m = rows, p.n = p.k = 1024, p.bits = bits, p.zeros = BlockZeros::Packed;
                         return of_zeros(isa, kernel, p, 2.0 * static_cast<double>(rows * p.n * p.k));
                       });
}

}  // namespace quarry::kernel_test
