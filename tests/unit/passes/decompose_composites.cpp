// SPDX-License-Identifier: Apache-2.0
// Composite operators decomposed: what cpu-reference gives for the node and for what it became.
#include <limits>

#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

qir::Attribute real(const char *name, float value) { return Pieces::attribute(name, value); }

bool everything(const qir::Graph &, const qir::Node &) { return true; }

// Before and after; nothing of the node is left.
void compare(Pieces &p, Op op) {
  const std::vector<double> expected = run(p.graph);
  passes::decompose_unsupported(p.graph, p.store, everything);
  CHECK_EQ(count(p.graph, op), 0u);
  CHECK(difference(run(p.graph), expected) < 1e-5);
  for (const qir::Node &node : p.graph.nodes) CHECK_EQ(node.source, 0);
}

constexpr std::int64_t kAttentionBatch = 2, kQueries = 3, kKeys = 4, kPast = 2, kSize = 6, kValueSize = 5;
enum class Mask { None, Flags, Reals, Short };

struct AttentionCase {
  std::int64_t q_heads = 2, kv_heads = 2;
  bool packed = false, past = false;
  Mask mask = Mask::None;
  std::vector<std::int64_t> valid = {};
  Vector<qir::Attribute> more = {};
  bool run_time = false;  // the flags are an input
};

void build(Pieces &p, const AttentionCase &c, std::size_t output) {
  const auto heads = [&](std::int64_t count, std::int64_t length, std::int64_t size) {
    return p.input(c.packed ? qir::Shape{kAttentionBatch, length, count * size}
                            : qir::Shape{kAttentionBatch, count, length, size});
  };
  const i32 q = heads(c.q_heads, kQueries, kSize), k = heads(c.kv_heads, kKeys, kSize),
            v = heads(c.kv_heads, kKeys, kValueSize);
  Vector<i32> inputs = {q, k, v, qir::kAbsent, qir::kAbsent, qir::kAbsent, qir::kAbsent};
  const std::int64_t total = kKeys + (c.past ? kPast : 0);
  if (c.mask == Mask::Flags) {
    // One query may look at nothing.
    std::vector<std::uint8_t> flags;
    for (std::int64_t i = 0; i < kQueries * total; ++i)
      flags.push_back(static_cast<std::uint8_t>(i / total != 1 && i % 3 != 0));
    inputs[3] = c.run_time ? p.input({kAttentionBatch, 1, kQueries, total}, DType::Bool)
                           : p.constant(DType::Bool, {kQueries, total}, flags);
  } else if (c.mask != Mask::None) {
    const std::int64_t length = c.mask == Mask::Short ? total - 1 : total;
    std::vector<float> values;
    for (std::int64_t i = 0; i < kAttentionBatch * kQueries * length; ++i)
      values.push_back(i / length == 1 || i % 4 == 1 ? -kInfinity : 0.25f * static_cast<float>(i % 3));
    inputs[3] = p.constant(DType::F32, {kAttentionBatch, 1, kQueries, length}, values);
  }
  if (c.past) {
    inputs[4] = p.input({kAttentionBatch, c.kv_heads, kPast, kSize});
    inputs[5] = p.input({kAttentionBatch, c.kv_heads, kPast, kValueSize});
  }
  if (!c.valid.empty()) inputs[6] = p.integers(c.valid);
  Vector<qir::Attribute> attributes = c.more;
  if (c.packed) {
    attributes.push_back(number("q_num_heads", c.q_heads));
    attributes.push_back(number("kv_num_heads", c.kv_heads));
  }
  const i32 y = p.node(Op::Attention, inputs, attributes);
  const i32 present_k = p.tensor(DType::F32, {kAttentionBatch, c.kv_heads, total, kSize}),
            present_v = p.tensor(DType::F32, {kAttentionBatch, c.kv_heads, total, kValueSize}),
            scores = p.tensor(DType::F32, {kAttentionBatch, c.q_heads, kQueries, total});
  qir::Node &node = p.graph.nodes.back();
  node.outputs = {y, present_k, present_v, scores};
  p.gives({node.outputs[output]});
}

}  // namespace

TEST_CASE("Attention is decomposed") {
  const AttentionCase cases[] = {
      {},
      {.packed = true, .more = {number("is_causal", 1)}},
      {.q_heads = 6, .kv_heads = 2},
      {.q_heads = 6, .kv_heads = 3, .packed = true, .past = true, .more = {number("is_causal", 1)}},
      {.more = {real("scale", 0.3f), real("softcap", 1.5f)}},
      {.past = true, .more = {number("left_window_size", 1), number("right_window_size", 1)}},
      {.mask = Mask::Flags},
      {.mask = Mask::Flags, .run_time = true},
      {.q_heads = 4, .kv_heads = 2, .mask = Mask::Flags, .more = {number("is_causal", 1)}, .run_time = true},
      {.mask = Mask::Flags, .more = {number("left_window_size", 0)}},
      {.past = true, .mask = Mask::Reals, .more = {number("qk_matmul_output_mode", 3)}},
      {.q_heads = 4, .kv_heads = 2, .mask = Mask::Short, .more = {number("is_causal", 1)}},
      {.valid = {2, 4}},
      {.packed = true, .valid = {3, 4}, .more = {number("is_causal", 1), number("left_window_size", 1)}},
      {.more = {number("qk_matmul_output_mode", 1), real("softcap", 2.0f)}},
  };
  std::size_t at = 0;
  for (const AttentionCase &c : cases) {
    CAPTURE(at);
    ++at;
    for (std::size_t output = 0; output < 4; ++output) {
      CAPTURE(output);
      Pieces p;
      build(p, c, output);
      compare(p, Op::Attention);
    }
  }
}

TEST_CASE("Attention that shows its scores under the mask stays") {
  Pieces p;
  build(p, {.mask = Mask::Flags, .more = {number("qk_matmul_output_mode", 2)}}, 3);
  passes::decompose_unsupported(p.graph, p.store, everything);
  CHECK_EQ(ops(p.graph), "Attention");
}

TEST_CASE("RotaryEmbedding is decomposed") {
  struct Case {
    bool packed, interleaved, positions;
    std::int64_t turned;
  };
  const Case cases[] = {
      {false, false, true, 0}, {true, false, false, 4}, {false, true, false, 0}, {true, true, true, 2}};
  constexpr std::int64_t heads = 3, length = 4, size = 6, known = 7;
  for (const Case &c : cases) {
    Pieces p;
    const std::int64_t half = (c.turned == 0 ? size : c.turned) / 2;
    const i32 x = p.input(c.packed ? qir::Shape{kAttentionBatch, length, heads * size}
                                   : qir::Shape{kAttentionBatch, heads, length, size});
    const qir::Shape cache = c.positions ? qir::Shape{known, half} : qir::Shape{kAttentionBatch, length, half};
    const std::int64_t many = c.positions ? known * half : kAttentionBatch * length * half;
    Vector<i32> inputs = {x, p.column(many, cache), p.column(many, cache)};
    if (c.positions)
      inputs.push_back(p.constant<std::int64_t>(DType::I64, {kAttentionBatch, length}, {0, 6, 2, 3, 5, 5, 1, 4}));
    Vector<qir::Attribute> attributes = {number("interleaved", c.interleaved),
                                         number("rotary_embedding_dim", c.turned)};
    if (c.packed) attributes.push_back(number("num_heads", heads));
    p.gives({p.node(Op::RotaryEmbedding, inputs, attributes)});
    compare(p, Op::RotaryEmbedding);
  }
}

TEST_CASE("gates and fused matrix multiplications are decomposed") {
  {
    Pieces p;
    const i32 x = p.input({3, 5}), y = p.input({3, 5});
    p.gives({p.node(Op::SwiGLU, {x, y}, {real("alpha", 1.5f)})});
    compare(p, Op::SwiGLU);
  }
  {
    Pieces p;
    p.gives({p.node(Op::QuickGelu, {p.input({7})})});
    compare(p, Op::QuickGelu);
  }
  for (const std::int64_t flags : {0, 1, 2, 4, 8, 3, 12, 15}) {
    CAPTURE(flags);
    // Both operands, before they are turned: [2, 3, 4] by [2, 4, 5].
    const auto shape = [&](std::int64_t rows, std::int64_t columns, bool trans, bool trans_batch) {
      if (trans) std::swap(rows, columns);
      return trans_batch ? qir::Shape{rows, 2, columns} : qir::Shape{2, rows, columns};
    };
    Pieces p;
    const i32 a = p.input(shape(3, 4, (flags & 1) != 0, (flags & 4) != 0)),
              b = p.input(shape(4, 5, (flags & 2) != 0, (flags & 8) != 0));
    p.gives({p.node(
        Op::FusedMatMul, {a, b},
        {real("alpha", flags == 3 ? 1.0f : 0.5f), number("transA", flags & 1), number("transB", (flags >> 1) & 1),
         number("transBatchA", (flags >> 2) & 1), number("transBatchB", (flags >> 3) & 1)})});
    compare(p, Op::FusedMatMul);
  }
}

TEST_CASE("TensorScatter is decomposed") {
  struct Case {
    std::int64_t rows;
    std::vector<std::int64_t> first;
  };
  for (const Case &c : {Case{1, {3, 0}}, Case{3, {1, 4}}, Case{2, {}}}) {
    Pieces p;
    Vector<i32> inputs = {p.input({2, 3, 7, 4}), p.input({2, 3, c.rows, 4})};
    if (!c.first.empty()) inputs.push_back(p.integers(c.first));
    p.gives({p.node(Op::TensorScatter, inputs)});
    compare(p, Op::TensorScatter);
  }
  Pieces p;
  // An infinity stays where it is.
  const float inf = std::numeric_limits<float>::infinity();
  Pieces q;
  const i32 fresh = q.constant<float>(DType::F32, {2, 1, 2, 2}, {-inf, 1, inf, 2, 3, inf, -inf, -inf});
  q.gives(
      {q.node(Op::TensorScatter, {q.input({2, 1, 5, 2}), fresh, q.constant<std::int64_t>(DType::I64, {2}, {0, 3})})});
  const std::vector<double> expected = run(q.graph);
  passes::decompose_unsupported(
      q.graph, q.store, [](const qir::Graph &, const qir::Node &node) { return node.op == Op::TensorScatter; }, true);
  CHECK_EQ(count(q.graph, Op::TensorScatter), 0u);
  CHECK_EQ(count(q.graph, Op::MatMul), 0u);
  CHECK(run(q.graph) == expected);
  p.gives({p.node(Op::TensorScatter, {p.input({2, 3, 7, 4}), p.input({2, 3, 2, 4})},
                  {Pieces::attribute("mode", std::string_view("circular"))})});
  passes::decompose_unsupported(p.graph, p.store, everything);
  CHECK_EQ(ops(p.graph), "TensorScatter");
}

TEST_CASE("MeanVarianceNormalization is decomposed") {
  struct Case {
    qir::Shape shape;
    Vector<std::int64_t> axes;  // none: as ONNX has them, 0, 2 and 3
  };
  for (const Case &c : {Case{{2, 3, 4, 5}, {}}, Case{{2, 3, 4}, {-1}}, Case{{3, 4, 5}, {1}}, Case{{2, 3}, {0, 1}}}) {
    Pieces p;
    Vector<qir::Attribute> attributes;
    if (!c.axes.empty()) attributes.push_back(Pieces::attribute("axes", c.axes));
    p.gives({p.node(Op::MeanVarianceNormalization, {p.input(c.shape)}, attributes)});
    compare(p, Op::MeanVarianceNormalization);
    CHECK_EQ(count(p.graph, Op::InstanceNormalization), 1u);
  }
  Pieces p;  // of which there is no mean
  p.gives(
      {p.node(Op::MeanVarianceNormalization, {p.input({2, 0})}, {Pieces::attribute("axes", Vector<std::int64_t>{1})})});
  passes::decompose_unsupported(p.graph, p.store, everything);
  CHECK_EQ(ops(p.graph), "MeanVarianceNormalization");
}
