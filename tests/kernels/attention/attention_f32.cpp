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

// Layout [batch, row, head, column], as heads lie before any transpose. `heads` are those of q, `group` of one of k.
AttentionF32 attention(std::int64_t batches, std::int64_t heads, std::int64_t q_rows, std::int64_t kv_rows,
                       std::int64_t qk_cols, std::int64_t v_cols, std::uint32_t group = 1) {
  AttentionF32 p;
  p.group = group;
  p.batches = batches, p.heads = heads, p.q_rows = q_rows, p.kv_rows = kv_rows, p.qk_cols = qk_cols, p.v_cols = v_cols;
  const auto lay = [&](std::int64_t *steps, std::int64_t rows, std::int64_t columns, std::int64_t side_by_side) {
    steps[1] = columns, steps[2] = side_by_side * columns, steps[0] = rows * steps[2];
  };
  lay(p.q, q_rows, qk_cols, heads), lay(p.y, q_rows, v_cols, heads);
  lay(p.k, kv_rows, qk_cols, heads / group), lay(p.v, kv_rows, v_cols, heads / group);
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
  std::vector<std::int64_t> valid;
  Bytes kept[2];                 // k and v as they lie, where that is not f32
  std::vector<float> scales[2];  // of their rows
};

// k or v as a cache keeps them; the reals become what that stands for.
void keep(KeptType type, std::int64_t columns, std::vector<float> &values, Bytes &kept, std::vector<float> &scales,
          Random &random) {
  const std::size_t row = static_cast<std::size_t>(columns), each = type == KeptType::Rows ? 1 : 2;
  kept.resize(values.size() * each);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == KeptType::Rows) {
      if (i % row == 0) scales.push_back(random.reals(1, 0.001f, 0.0156f)[0]);
      const auto code = static_cast<std::uint8_t>(random.integer(0, 255));
      std::memcpy(kept.data() + i, &code, 1);
      values[i] = (static_cast<float>(code) - 128) * scales.back();
      continue;
    }
    const std::uint16_t half = type == KeptType::F16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
    std::memcpy(kept.data() + 2 * i, &half, 2);
    values[i] = type == KeptType::F16 ? f16_to_f32(half) : bf16_to_f32(half);
  }
}
void set_kept(AttentionF32 &p, KeptType type, AttentionData &d, Random &random) {
  p.kept = type;
  keep(type, p.qk_cols, d.k, d.kept[0], d.scales[0], random);
  keep(type, p.v_cols, d.v, d.kept[1], d.scales[1], random);
  for (std::size_t i = 0; i < 3 && type == KeptType::Rows; ++i)
    p.k_scales[i] = p.k[i] / p.qk_cols, p.v_scales[i] = p.v[i] / p.v_cols;
}
AttentionData attention_data(const AttentionF32 &p, Random &random) {
  AttentionData d;
  d.q = random.reals(static_cast<std::size_t>(p.batches * p.q[0]), -2, 2);
  d.k = random.reals(static_cast<std::size_t>(p.batches * p.k[0]), -2, 2);
  d.v = random.reals(static_cast<std::size_t>(p.batches * p.v[0]));
  if (p.has_mask) d.mask = random.reals(static_cast<std::size_t>(p.batches * p.mask[0]), -2, 2);
  for (std::int64_t b = 0; p.has_valid && b < p.batches; ++b) d.valid.push_back(random.integer(-1, p.kv_rows + 1));
  return d;
}

std::vector<float> run_attention(const Isa &isa, const AttentionF32 &p, const AttentionData &d) {
  const bool is_kept = p.kept != KeptType::F32;
  std::vector<Operand> operands = {
      {bytes_of(d.q)}, {is_kept ? d.kept[0] : bytes_of(d.k)}, {is_kept ? d.kept[1] : bytes_of(d.v)}};
  if (p.has_mask) operands.push_back({bytes_of(d.mask)});
  if (p.has_valid) operands.push_back({bytes_of(d.valid)});
  if (p.kept == KeptType::Rows)
    operands.push_back({bytes_of(d.scales[0])}), operands.push_back({bytes_of(d.scales[1])});
  operands.push_back({bytes_of(std::vector<float>(static_cast<std::size_t>(p.batches * p.y[0]), -77.0f)), true});
  return values_of<float>(run(isa, Kernel::AttentionF32, &p, operands).at(0));
}

void check_attention(const Isa &isa, const AttentionF32 &p, const AttentionData &d) {
  const std::vector<float> y = run_attention(isa, p, d);
  qir::Node node;
  node.op = qir::Op::Attention;
  node.name = "attention";
  node.set("q_num_heads", p.heads);
  node.set("kv_num_heads", p.heads / p.group);
  node.set("left_window_size", p.left);
  node.set("right_window_size", p.right);
  node.set("scale", p.scale);
  const auto f32 = [](std::vector<std::int64_t> shape, const std::vector<float> &values) {
    return Tensor{DType::F32, std::move(shape), bytes_of(values), {}};
  };
  std::vector<Tensor> inputs = {f32({p.batches, p.q_rows, p.heads * p.qk_cols}, d.q),
                                f32({p.batches, p.kv_rows, p.heads / p.group * p.qk_cols}, d.k),
                                f32({p.batches, p.kv_rows, p.heads / p.group * p.v_cols}, d.v)};
  inputs.resize(7, Tensor{DType::Unknown, {}, {}, {}});
  node.inputs = {0, 1, 2, 3, 4, 5, 6};
  for (const std::size_t absent : {4u, 5u}) node.inputs.set(absent, qir::kAbsent);
  if (p.has_mask) inputs[3] = f32({p.batches, p.mask[1] ? p.heads : 1, p.q_rows, p.kv_rows}, d.mask);
  else node.inputs.set(3, qir::kAbsent);
  if (p.has_valid) inputs[6] = {DType::I64, {p.batches}, bytes_of(d.valid), {}};
  else node.inputs.set(6, qir::kAbsent);
  node.outputs = {7};
  char what[200];
  std::snprintf(
      what, sizeof what,
      "batches %lld heads %lld in groups of %u, rows %lld, %lld columns %lld, %lld mask %u valid %u left %lld "
      "right %lld, kept as %u",
      static_cast<long long>(p.batches), static_cast<long long>(p.heads), p.group, static_cast<long long>(p.q_rows),
      static_cast<long long>(p.kv_rows), static_cast<long long>(p.qk_cols), static_cast<long long>(p.v_cols),
      p.has_mask, p.has_valid, static_cast<long long>(p.left), static_cast<long long>(p.right),
      static_cast<unsigned>(p.kept));
  expect_close(what, y, values_of<float>(reference(node, inputs).at(0).data), 2e-5f, 2e-6f);
}

void test_attention(const Isa &isa) {
  Random random(9);
  for (int i = 0; i < 120; ++i) {
    const auto size = [&](std::int64_t most) { return random.integer(1, most); };
    const std::int64_t rows = i % 3 ? size(70) : size(4), group = size(3);
    AttentionF32 p = attention(size(2), group * size(3), rows, random.integer(0, 1) ? rows : size(i % 8 ? 60 : 3000),
                               size(i % 4 ? 40 : 100), size(70), static_cast<std::uint32_t>(group));
    if (random.integer(0, 1)) set_mask(p, random.integer(0, 1) != 0);
    p.has_valid = random.integer(0, 2) == 0;
    if (random.integer(0, 1)) p.right = random.integer(0, 1) ? 0 : random.integer(0, p.kv_rows + 2);
    if (random.integer(0, 1)) p.left = random.integer(0, p.kv_rows + 2);
    AttentionData d = attention_data(p, random);
    for (std::size_t j = 0; j < d.mask.size(); j += 3) d.mask[j] = -kInf;
    check_attention(isa, p, d);
    for (const KeptType type : {KeptType::F16, KeptType::BF16, KeptType::Rows}) {
      AttentionData kept = d;
      set_kept(p, type, kept, random);
      check_attention(isa, p, kept);
    }
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

  const AttentionF32 groups = attention(1, 6, 2, 4, 3, 3, 2);
  refuse(isa, Kernel::AttentionF32, groups, "heads that make no groups", [](auto &q) { q.group = 4; });
  refuse(isa, Kernel::AttentionF32, groups, "no group", [](auto &q) { q.group = 0; });
  refuse(isa, Kernel::AttentionF32, groups, "a type of keys that there is not",
         [](auto &q) { q.kept = KeptType::Count; });
  refuse(isa, Kernel::AttentionF32, groups, "numbers of rows that overflow",
         [](auto &q) { q.kept = KeptType::Rows, q.k_scales[2] = INT64_MAX; });
  refuse(isa, Kernel::AttentionF32, groups, "less than no window", [](auto &q) { q.left = -2; });
  refuse(isa, Kernel::AttentionF32, groups, "a window that overflows", [](auto &q) { q.right = INT64_MAX; });
  refuse(isa, Kernel::AttentionF32, groups, "a place that overflows", [](auto &q) { q.first = INT64_MIN; });
}

// The last of some tokens: a cache of which a part counts, eight heads of queries for each of keys.
void register_decode_bench(Registry &registry, std::int64_t room, std::int64_t valid, KeptType kept = KeptType::F32) {
  AttentionF32 p = attention(1, 4, 8, room, 64, 64);
  p.q[1] = 8 * 64, p.q[2] = 64, p.k[1] = p.v[1] = room * 64, p.k[2] = p.v[2] = 64;
  p.y[1] = 8 * 64, p.y[2] = 64;
  p.has_valid = 1;
  registry.bench(
      "AttentionF32: one token of 32 heads, " + std::to_string(valid) + " columns of " + std::to_string(room) +
          (kept == KeptType::F32   ? ""
           : kept == KeptType::F16 ? ", kept as f16"
                                   : ", kept as bytes"),
      [p, valid, kept](const Isa &) {
        Random random(1);
        AttentionF32 as = p;
        AttentionData d = attention_data(p, random);
        d.valid = {valid};
        if (kept != KeptType::F32) set_kept(as, kept, d, random);
        const bool is_wide = kept == KeptType::F32;
        Registry::Prepared prepared{Kernel::AttentionF32,
                                    params_of(as),
                                    {{bytes_of(d.q)},
                                     {is_wide ? bytes_of(d.k) : d.kept[0]},
                                     {is_wide ? bytes_of(d.v) : d.kept[1]},
                                     {bytes_of(d.valid)}},
                                    {}};
        if (kept == KeptType::Rows)
          prepared.operands.push_back({bytes_of(d.scales[0])}), prepared.operands.push_back({bytes_of(d.scales[1])});
        prepared.operands.push_back({Bytes(d.q.size() * 4), true});
        prepared.work.flops = 4.0 * static_cast<double>(p.heads * p.q_rows * valid * p.qk_cols);
        prepared.work.bytes = (is_wide                 ? 8.0
                               : kept == KeptType::F16 ? 4.0
                                                       : 2.0) *
                              static_cast<double>(p.heads * valid * p.qk_cols);
        return prepared;
      });
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
  for (const std::int64_t valid : {33, 512}) register_decode_bench(registry, 2048, valid);
  for (const KeptType kept : {KeptType::F16, KeptType::Rows}) register_decode_bench(registry, 2048, 512, kept);
  registry.test("AttentionF32: random", test_attention);
  registry.test("AttentionF32: what is masked, NaN", test_attention_edges);
  register_attention_benches(registry);
}

}  // namespace quarry::kernel_test
