// SPDX-License-Identifier: Apache-2.0
// Attention (expected: cpu-reference's; bound 2e-6 of the largest value and 2e-5 of the result, which the rounding of
// scores of some units comes to).
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using namespace kernels;

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

void register_attention_benches(Registry &registry) {
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

}  // namespace

void register_attention(Registry &registry) {
  registry.test("AttentionF32: random", test_attention);
  registry.test("AttentionF32: what is masked, NaN", test_attention_edges);
  register_attention_benches(registry);
}

}  // namespace quarry::kernel_test
