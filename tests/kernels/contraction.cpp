// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications (expected: sums in f64 here, bounds as in convolution.cpp) and attention (expected:
// cpu-reference's Attention; bound 2e-6 of the largest value and 2e-5 of the result, which the rounding of scores of
// some units comes to).
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/cpu/shapes/matmul_shape.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/convolution.h"

namespace quarry::kernel_test {

using namespace kernels;

namespace {

std::size_t extent(const std::int64_t *dims, const std::int64_t *steps, int rank) {
  std::int64_t last = 0;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] == 0) return 0;
    last += (dims[i] - 1) * steps[i];
  }
  return static_cast<std::size_t>(last + 1);
}

struct MatMulData {
  std::vector<float> a, b, bias, r, y;
};
MatMulData matmul_data(const MatMulF32 &p, Random &random) {
  const auto matrix = [&](const std::int64_t *batch, std::int64_t rows, std::int64_t columns, std::int64_t row,
                          std::int64_t column) {
    std::int64_t dims[kBatchRank + 2], steps[kBatchRank + 2];
    std::copy_n(p.batch, kBatchRank, dims), std::copy_n(batch, kBatchRank, steps);
    dims[kBatchRank] = rows, dims[kBatchRank + 1] = columns, steps[kBatchRank] = row, steps[kBatchRank + 1] = column;
    return extent(dims, steps, kBatchRank + 2);
  };
  MatMulData d;
  d.a = random.reals(matrix(p.a_batch, p.m, p.k, p.a_row, p.a_col));
  d.b = random.reals(matrix(p.b_batch, p.k, p.n, p.b_row, p.b_col));
  d.y.assign(matrix(p.y_batch, p.m, p.n, p.y_row, 1), -77.0f);
  d.bias = random.reals(static_cast<std::size_t>(p.has_bias == kBiasPerRow ? p.m : p.n));
  d.r = random.reals(d.y.size());
  return d;
}
std::vector<Operand> operands_of(const MatMulF32 &p, const MatMulData &d) {
  std::vector<Operand> operands = {{bytes_of(d.a)}, {bytes_of(d.b)}};
  if (p.has_bias) operands.push_back({bytes_of(d.bias)});
  if (p.residual != Residual::None) operands.push_back({bytes_of(d.r)});
  operands.push_back({bytes_of(d.y), true});
  return operands;
}

void check_matmul(const Isa &isa, const MatMulF32 &p) {
  Random random(static_cast<std::uint64_t>(p.m * 5 + p.n * 3 + p.k));
  const MatMulData d = matmul_data(p, random);
  char what[160];
  std::snprintf(what, sizeof what,
                "m %lld n %lld k %lld a %lld %lld b %lld %lld residual %d act %d: ", static_cast<long long>(p.m),
                static_cast<long long>(p.n), static_cast<long long>(p.k), static_cast<long long>(p.a_row),
                static_cast<long long>(p.a_col), static_cast<long long>(p.b_row), static_cast<long long>(p.b_col),
                static_cast<int>(p.residual), static_cast<int>(p.act.kind));
  try {
    const std::vector<float> y = values_of<float>(run(isa, Kernel::MatMulF32, &p, operands_of(p, d)).at(0));
    std::int64_t batches = 1;
    for (const std::int64_t dim : p.batch) batches *= dim;
    std::vector<bool> seen(y.size());
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      std::int64_t a = 0, b = 0, at = 0, rest = batch;
      for (int i = kBatchRank - 1; i >= 0; --i) {
        const std::int64_t index = rest % p.batch[i];
        rest /= p.batch[i];
        a += index * p.a_batch[i], b += index * p.b_batch[i], at += index * p.y_batch[i];
      }
      for (std::int64_t m = 0; m < p.m; ++m)
        for (std::int64_t n = 0; n < p.n; ++n) {
          double sum = 0, size = 0;
          for (std::int64_t k = 0; k < p.k; ++k) {
            const double term = static_cast<double>(d.a[static_cast<std::size_t>(a + m * p.a_row + k * p.a_col)]) *
                                static_cast<double>(d.b[static_cast<std::size_t>(b + k * p.b_row + n * p.b_col)]);
            sum += term, size += std::fabs(term);
          }
          const auto i = static_cast<std::size_t>(at + m * p.y_row + n);
          const double bias = p.has_bias ? static_cast<double>(
                                               d.bias[static_cast<std::size_t>(p.has_bias == kBiasPerRow ? m : n)])
                                         : 0,
                       alpha = static_cast<double>(p.alpha);
          const double r = p.residual == Residual::None ? 0 : static_cast<double>(d.r[i]);
          seen[i] = true;
          expect_result("row " + std::to_string(m) + " column " + std::to_string(n), y[i], alpha * sum + bias,
                        (5 + std::sqrt(static_cast<double>(p.k))) * 0x1p-24 *
                            (std::fabs(alpha) * size + std::fabs(bias) + std::fabs(r)),
                        p.residual, r, p.act);
        }
    }
    for (std::size_t i = 0; i < y.size(); ++i)
      if (!seen[i] && y[i] != -77.0f) throw std::runtime_error("a gap was written to");
  } catch (const std::exception &error) {
    throw std::runtime_error(what + std::string(error.what()));
  }
}

MatMulF32 matmul(std::int64_t m, std::int64_t k, std::int64_t n, std::int64_t batch = 1) {
  MatMulF32 p;
  p.m = m, p.k = k, p.n = n;
  p.a_row = k, p.b_row = n, p.y_row = n;
  p.batch[kBatchRank - 1] = batch;
  p.a_batch[kBatchRank - 1] = m * k, p.b_batch[kBatchRank - 1] = k * n, p.y_batch[kBatchRank - 1] = m * n;
  return p;
}

MatMulF32 random_matmul(Random &random) {
  const auto size = [&] { return random.integer(1, random.integer(0, 3) ? 30 : 80); };
  MatMulF32 p = matmul(size(), random.integer(0, 5) ? size() : 700, size());
  if (random.integer(0, 2) == 0) p.a_row = 1 + random.integer(0, 1), p.a_col = p.m * p.a_row + random.integer(0, 3);
  else p.a_row += random.integer(0, 3);
  if (random.integer(0, 1) == 0) p.b_row = 1 + random.integer(0, 1), p.b_col = p.k * p.b_row + random.integer(0, 3);
  else p.b_row += random.integer(0, 3);
  p.y_row += random.integer(0, 5);
  std::int64_t y = p.m * p.y_row;
  for (int i = kBatchRank - 1; i >= 0; --i) {
    p.batch[i] = random.integer(0, 1) ? 1 : random.integer(1, 3);
    p.y_batch[i] = y;
    p.a_batch[i] = random.integer(0, 2) * 7, p.b_batch[i] = random.integer(0, 2) * 5;
    y *= p.batch[i];
  }
  p.alpha = random.integer(0, 1) ? 1.0f : random.real(-2, 2);
  p.has_bias = static_cast<std::uint32_t>(random.integer(0, kBiasPerRow));
  p.residual = static_cast<Residual>(random.integer(0, 2));
  p.act = {
      random.integer(0, 2) ? Act::Clip : static_cast<Act>(random.integer(0, static_cast<std::int64_t>(Act::Count) - 1)),
      -0.5f, 0.8f, 0};
  return p;
}

// Layout [batch, row, head, column], as heads lie before any transpose.
AttentionF32 attention(std::int64_t batches, std::int64_t heads, std::int64_t q_rows, std::int64_t kv_rows,
                       std::int64_t qk_cols, std::int64_t v_cols) {
  AttentionF32 p;
  p.batches = batches, p.heads = heads, p.q_rows = q_rows, p.kv_rows = kv_rows, p.qk_cols = qk_cols, p.v_cols = v_cols;
  const auto lay = [&](std::int64_t *steps, std::int64_t rows, std::int64_t columns) {
    steps[1] = columns, steps[2] = heads * columns, steps[0] = rows * steps[2];
  };
  lay(p.q, q_rows, qk_cols), lay(p.k, kv_rows, qk_cols), lay(p.v, kv_rows, v_cols), lay(p.y, q_rows, v_cols);
  p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(qk_cols)));
  return p;
}
void set_mask(AttentionF32 &p, bool per_head) {
  p.has_mask = 1;
  p.mask[3] = 1, p.mask[2] = p.kv_rows, p.mask[1] = per_head ? p.q_rows * p.kv_rows : 0,
  p.mask[0] = (per_head ? p.heads : 1) * p.q_rows * p.kv_rows;
}

struct AttentionData {
  std::vector<float> q, k, v, mask;
};
AttentionData attention_data(const AttentionF32 &p, Random &random) {
  AttentionData d;
  d.q = random.reals(static_cast<std::size_t>(p.batches * p.q[0]), -2, 2);
  d.k = random.reals(static_cast<std::size_t>(p.batches * p.k[0]), -2, 2);
  d.v = random.reals(static_cast<std::size_t>(p.batches * p.v[0]));
  if (p.has_mask) d.mask = random.reals(static_cast<std::size_t>(p.batches * p.mask[0]), -2, 2);
  return d;
}

std::vector<float> run_attention(const Isa &isa, const AttentionF32 &p, const AttentionData &d) {
  std::vector<Operand> operands = {{bytes_of(d.q)}, {bytes_of(d.k)}, {bytes_of(d.v)}};
  if (p.has_mask) operands.push_back({bytes_of(d.mask)});
  operands.push_back({bytes_of(std::vector<float>(static_cast<std::size_t>(p.batches * p.y[0]), -77.0f)), true});
  return values_of<float>(run(isa, Kernel::AttentionF32, &p, operands).at(0));
}

void check_attention(const Isa &isa, const AttentionF32 &p, const AttentionData &d) {
  const std::vector<float> y = run_attention(isa, p, d);
  qir::Node node;
  node.op = qir::Op::Attention;
  node.name = "attention";
  node.inputs = {0, 1, 2};
  node.outputs = {4};
  node.set("q_num_heads", p.heads);
  node.set("kv_num_heads", p.heads);
  node.set("is_causal", std::int64_t{p.causal});
  node.set("scale", p.scale);
  const auto f32 = [](std::vector<std::int64_t> shape, const std::vector<float> &values) {
    return Tensor{DType::F32, std::move(shape), bytes_of(values), {}};
  };
  std::vector<Tensor> inputs = {f32({p.batches, p.q_rows, p.heads * p.qk_cols}, d.q),
                                f32({p.batches, p.kv_rows, p.heads * p.qk_cols}, d.k),
                                f32({p.batches, p.kv_rows, p.heads * p.v_cols}, d.v)};
  if (p.has_mask) {
    node.inputs.push_back(3);
    inputs.push_back(f32({p.batches, p.mask[1] ? p.heads : 1, p.q_rows, p.kv_rows}, d.mask));
  }
  char what[120];
  std::snprintf(what, sizeof what, "batches %lld heads %lld rows %lld, %lld columns %lld, %lld mask %u causal %u",
                static_cast<long long>(p.batches), static_cast<long long>(p.heads), static_cast<long long>(p.q_rows),
                static_cast<long long>(p.kv_rows), static_cast<long long>(p.qk_cols), static_cast<long long>(p.v_cols),
                p.has_mask, p.causal);
  expect_close(what, y, values_of<float>(reference(node, inputs).at(0).data), 2e-5f, 2e-6f);
}

void test_attention(const Isa &isa) {
  Random random(9);
  for (int i = 0; i < 60; ++i) {
    const auto size = [&](std::int64_t most) { return random.integer(1, most); };
    const std::int64_t rows = size(70);
    AttentionF32 p = attention(size(2), size(3), rows, random.integer(0, 1) ? rows : size(i % 8 ? 60 : 3000),
                               size(i % 4 ? 40 : 100), size(70));
    if (random.integer(0, 1)) set_mask(p, random.integer(0, 1) != 0);
    p.causal = p.q_rows == p.kv_rows && random.integer(0, 1);
    AttentionData d = attention_data(p, random);
    for (std::size_t j = 0; j < d.mask.size(); j += 3) d.mask[j] = -kInf;
    check_attention(isa, p, d);
  }
}

void test_attention_edges(const Isa &isa) {
  Random random(10);
  for (const std::int64_t kv : {9, 2500}) {
    AttentionF32 p = attention(1, 2, 5, kv, 6, 11);
    set_mask(p, false);
    AttentionData d = attention_data(p, random);
    // Row 1 sees nothing; row 2 nothing of the first part of the columns; column 3 holds NaN and row 3 and 4 do not see
    // it.
    for (std::int64_t j = 0; j < kv; ++j) d.mask[static_cast<std::size_t>(kv + j)] = -kInf;
    for (std::int64_t j = 0; j < kv - 2; ++j) d.mask[static_cast<std::size_t>(2 * kv + j)] = -kInf;
    d.mask[static_cast<std::size_t>(3 * kv + 3)] = d.mask[static_cast<std::size_t>(4 * kv + 3)] = -kInf;
    check_attention(isa, p, d);
    d.v[static_cast<std::size_t>(3 * p.v[2])] = kNan;
    d.k[static_cast<std::size_t>(3 * p.k[2] + 1)] = kInf;
    check_attention(isa, p, d);
    d.q[0] = kNan;
    check_attention(isa, p, d);
  }
  AttentionF32 p = attention(1, 1, 4, 20, 3, 3);
  set_mask(p, false);
  p.masked_nan = 1;
  AttentionData d = attention_data(p, random);
  std::fill_n(d.mask.begin(), 20, -kInf);
  const std::vector<float> y = run_attention(isa, p, d);
  for (std::size_t i = 0; i < y.size(); ++i)
    if (std::isnan(y[i]) != (i < 3))
      throw std::runtime_error("masked_nan: NaN belongs into the first row, and only there");
}

Registry::Prepared prepare(const MatMulF32 &p) {
  Random random(1);
  const MatMulData d = matmul_data(p, random);
  Registry::Prepared prepared{Kernel::MatMulF32, params_of(p), operands_of(p, d), {}};
  double batches = 1;
  for (const std::int64_t dim : p.batch) batches *= static_cast<double>(dim);
  prepared.work.flops = 2 * batches * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  prepared.work.bytes = 4.0 * static_cast<double>(d.a.size() + d.b.size() + d.y.size());
  return prepared;
}

}  // namespace

void register_matmul(Registry &registry) {
  registry.test("MatMulF32: random", [](const Isa &isa) {
    Random random(4);
    for (int i = 0; i < 150; ++i) check_matmul(isa, random_matmul(random));
  });
  registry.test("MatMulF32: nothing", [](const Isa &isa) {
    check_matmul(isa, matmul(3, 0, 5));
    check_matmul(isa, matmul(0, 3, 5));
    check_matmul(isa, matmul(3, 4, 0));
    check_matmul(isa, matmul(3, 4, 5, 0));
  });
  registry.test("MatMulF32: few rows", [](const Isa &isa) {
    for (std::int64_t m = 1; m <= 4; ++m)
      for (const std::int64_t n : {40, 1500})
        for (const std::int64_t k : {1, 7, 600})
          for (const Residual residual : {Residual::None, Residual::BeforeAct, Residual::AfterAct}) {
            MatMulF32 p = matmul(m, k, n + 1);
            p.residual = residual;
            p.has_bias = residual == Residual::AfterAct ? 1 : residual == Residual::BeforeAct ? kBiasPerRow : 0;
            p.alpha = k == 7 ? 0.3f : 1.0f;
            if (residual != Residual::None) p.act = {Act::HardSigmoid, 0.2f, 0.5f, 0};
            check_matmul(isa, p);
          }
  });
  registry.test("MatMulF32: many rows", [](const Isa &isa) {
    check_matmul(isa, matmul(900, 10, 40));
    MatMulF32 p = matmul(250, 300, 40);
    p.a_row = 1, p.a_col = 250;
    check_matmul(isa, p);
  });
  registry.test("AttentionF32: random", test_attention);
  registry.test("AttentionF32: what is masked, NaN", test_attention_edges);

  const auto bench = [&](const char *name, const MatMulF32 &p) {
    registry.bench(std::string("MatMulF32: ") + name, [p](const Isa &) { return prepare(p); });
  };
  MatMulF32 heads = matmul(197, 64, 197, 12);
  heads.a_row = 2304, heads.b_row = 1, heads.b_col = 2304,
  heads.a_batch[kBatchRank - 1] = heads.b_batch[kBatchRank - 1] = 64;
  bench("q k^T 197x64x197 x12", heads);
  MatMulF32 values = matmul(197, 197, 64, 12);
  values.b_row = 2304, values.b_batch[kBatchRank - 1] = 64, values.y_row = 768, values.y_batch[kBatchRank - 1] = 64;
  bench("p v 197x197x64 x12", values);
  bench("512x512x512", matmul(512, 512, 512));
  bench("1x768x3072", matmul(1, 768, 3072));
  for (const std::int64_t rows : {128, 197}) {
    AttentionF32 p = attention(1, 12, rows, rows, 64, 64);
    if (rows == 128) set_mask(p, false);
    registry.bench("AttentionF32: 12 heads of 64, " + std::to_string(rows) + " rows", [p](const Isa &) {
      Random random(1);
      const AttentionData d = attention_data(p, random);
      Registry::Prepared prepared{
          Kernel::AttentionF32, params_of(p), {{bytes_of(d.q)}, {bytes_of(d.k)}, {bytes_of(d.v)}}, {}};
      if (p.has_mask) prepared.operands.push_back({bytes_of(d.mask)});
      prepared.operands.push_back({Bytes(d.q.size() * 4), true});
      prepared.work.flops = 4.0 * static_cast<double>(p.heads * p.q_rows * p.kv_rows * p.qk_cols);
      prepared.work.bytes = 16.0 * static_cast<double>(d.q.size());
      return prepared;
    });
  }
}

}  // namespace quarry::kernel_test
