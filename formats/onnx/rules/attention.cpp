// SPDX-License-Identifier: Apache-2.0
// com.microsoft operators of transformers, in terms of the normal form: ONNX's Attention, RotaryEmbedding and the
// normalisations.
#include <array>
#include <cstring>

#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

namespace {

Status refuse_input(Rewriter &node, std::size_t i, const char *name) {
  return node.error(ErrorId::onnx_attribute, "has the input %zu, %s, which is not supported", i, name);
}

// [batch, length, heads * size] as [batch, heads, length, size].
Result<std::int32_t> heads_first(Rewriter &node, std::int32_t id, std::int64_t heads, std::string_view suffix) {
  const std::int64_t shape[] = {0, 0, heads, -1};
  QR_ASSIGN_OR_RETURN(
      const std::int32_t parts,
      node.step(Op::Reshape, {id, node.ints(String(suffix) + "/shape", shape)}, String(suffix) + "/parts"));
  qir::Node moved = node.make(Op::Transpose, {parts}, suffix);
  moved.set("perm", Vector<std::int64_t>{0, 2, 1, 3});
  return node.step(std::move(moved));
}

struct Heads {
  std::int64_t query = 0, key = 0;
};

// A mask of integers, 1 where a position may be looked at, as what is added to the scores; `axes` make it rank 4.
Result<std::int32_t> mask_bias(Rewriter &node, std::int32_t mask, std::initializer_list<std::int64_t> axes,
                               DType dtype) {
  qir::Node flags = node.make(Op::Cast, {mask}, "mask/flags");
  flags.set("to", static_cast<std::int64_t>(DType::Bool));
  QR_ASSIGN_OR_RETURN(std::int32_t id, node.step(std::move(flags)));
  QR_ASSIGN_OR_RETURN(id, unsqueeze(node, id, axes, "mask/shaped"));
  const std::int32_t allowed = node.number("mask/allowed", dtype, 0),
                     forbidden = node.number("mask/forbidden", dtype,
                                             static_cast<double>(node.get_float("mask_filter_value", -10000.0f)));
  return node.step(Op::Where, {id, allowed, forbidden}, "mask/bias");
}

// What both kinds of mask add.
Result<std::int32_t> joined(Rewriter &node, std::int32_t mask, std::int32_t bias) {
  if (mask == qir::kAbsent || bias == qir::kAbsent) return mask == qir::kAbsent ? bias : mask;
  return node.step(Op::Add, {mask, bias}, "bias/sum");
}

// The mask that is input `i`, a flag for each position, and input 5, which is added to the scores.
Result<std::int32_t> sum_of_masks(Rewriter &node, std::size_t i, const char *name) {
  std::int32_t mask = qir::kAbsent;
  if (node.has(i)) {
    const std::size_t rank = node.tensor(i).shape.size();
    const DType dtype = node.tensor(0).dtype;
    if (rank == 2) {
      QR_ASSIGN_OR_RETURN(mask, mask_bias(node, node.in(i), {1, 2}, dtype));
    } else if (rank == 3) {
      QR_ASSIGN_OR_RETURN(mask, mask_bias(node, node.in(i), {1}, dtype));
    } else {
      return node.error(ErrorId::onnx_attribute, "%s has rank %zu, expected 2 or 3 (a flag for each position)", name,
                        rank);
    }
  }
  return joined(node, mask, node.in(5));
}

qir::Node attention(Rewriter &node, Vector<std::int32_t> inputs, std::string_view suffix, Heads heads) {
  qir::Node made = node.make(Op::Attention, std::move(inputs), suffix);
  made.set("q_num_heads", heads.query);
  made.set("kv_num_heads", heads.key);
  if (node.get_int("unidirectional", 0) != 0) made.set("is_causal", std::int64_t{1});
  if (const float scale = node.get_float("scale", 0); scale != 0) made.set("scale", scale);
  return made;
}

Result<Heads> heads_of(Rewriter &node) {
  const std::int64_t heads = node.get_int("num_heads", 0);
  if (heads < 1) return node.error(ErrorId::onnx_attribute, "num_heads is %lld, expected 1 or more", heads);
  return Heads{heads, heads};
}

// [batch, heads, length, size] as the node's output, [batch, length, heads * size].
Status finish_rows(Rewriter &node, std::int32_t id) {
  qir::Node moved = node.make(Op::Transpose, {id}, "rows");
  moved.set("perm", Vector<std::int64_t>{0, 2, 1, 3});
  QR_ASSIGN_OR_RETURN(const std::int32_t rows, node.step(std::move(moved)));
  const std::int64_t shape[] = {0, 0, -1};
  qir::Node made = node.make(Op::Reshape, {rows, node.ints("shape", shape)}, "");
  return node.finish(std::move(made), 1);
}

}  // namespace

// query, key, value, bias?, key_padding_mask?, attention_bias?, past_key?, past_value?; query, key and value are
// [batch, length, hidden], or the latter two [batch, heads, length, size] as they come from a cache.
Status multi_head_attention(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (!node.has(1) || !node.has(2) || node.tensor(0).shape.size() != 3)
    return node.error(ErrorId::onnx_attribute, "has packed queries, keys and values, expected three tensors");
  if (node.has(8)) return refuse_input(node, 8, "past_sequence_length");
  if (node.has(9)) return refuse_input(node, 9, "cache_indirection");
  if (node.wants(3)) return node.error(ErrorId::onnx_attribute, "gives its scores, which is not supported");
  QR_ASSIGN_OR_RETURN(const Heads heads, heads_of(node));
  std::int32_t parts[] = {node.in(0), node.in(1), node.in(2)};
  if (node.has(3)) {
    const char *const names[] = {"query", "key", "value"};
    std::int64_t from = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const qir::Shape shape = node.builder.tensor(parts[i]).shape;
      const std::int64_t heads_width = shape.size() == 4 ? shape[1] * shape[3] : shape.back();
      if (shape.back() < 0 || heads_width < 0)
        return node.error(ErrorId::onnx_attribute, "the width of its %s is not known", names[i]);
      // A cache holds keys that have their bias.
      if (shape.size() == 3) {
        QR_ASSIGN_OR_RETURN(const std::int32_t bias,
                            slice(node, node.in(3), 0, from, from + heads_width, String(names[i]) + "/bias"));
        QR_ASSIGN_OR_RETURN(parts[i], node.step(Op::Add, {parts[i], bias}, String(names[i]) + "/biased"));
      }
      from += heads_width;
    }
  }
  QR_ASSIGN_OR_RETURN(const std::int32_t mask, sum_of_masks(node, 4, "key_padding_mask"));
  const bool cached = node.builder.tensor(parts[1]).shape.size() == 4;
  if (cached) {
    QR_ASSIGN_OR_RETURN(parts[0], heads_first(node, parts[0], heads.query, "query/heads"));
    if (node.builder.tensor(parts[2]).shape.size() == 3) {
      QR_ASSIGN_OR_RETURN(parts[2], heads_first(node, parts[2], heads.key, "value/heads"));
    }
  }
  qir::Node made = attention(node, {parts[0], parts[1], parts[2], mask, node.in(6), node.in(7)}, "", heads);
  if (!cached) return node.finish(std::move(made));
  made.name += "/heads";
  if (node.wants(1) || node.wants(2))
    return node.error(ErrorId::onnx_attribute,
                      "gives its keys although they come from a cache, which is not supported");
  QR_ASSIGN_OR_RETURN(const std::int32_t y, node.step(std::move(made)));
  return finish_rows(node, y);
}

namespace {

// Queries, keys and values of packed_attention, from one product.
Status unpack_heads(Rewriter &node, std::int32_t (&parts)[3]) {
  const qir::Shape weights = node.tensor(1).shape;
  if (weights.size() != 2 || weights[1] < 0)
    return node.error(ErrorId::onnx_attribute, "its weights have an unknown width, expected [inputs, 3 * hidden]");
  Vector<std::int64_t> sizes = node.get_ints("qkv_hidden_sizes").value_or(Vector<std::int64_t>());
  if (sizes.empty()) sizes.assign(3, weights[1] / 3);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != weights[1])
    return node.error(ErrorId::onnx_attribute, "qkv_hidden_sizes do not add up to the %lld columns of its weights",
                      weights[1]);
  QR_ASSIGN_OR_RETURN(std::int32_t all, node.step(Op::MatMul, {node.in(0), node.in(1)}, "product"));
  if (node.has(2)) {
    QR_ASSIGN_OR_RETURN(all, node.step(Op::Add, {all, node.in(2)}, "biased"));
  }
  std::int64_t from = 0;
  for (std::size_t i = 0; i < 3; from += sizes[i++]) {
    QR_ASSIGN_OR_RETURN(parts[i], slice(node, all, 2, from, from + sizes[i],
                                        i == 0   ? "query"
                                        : i == 1 ? "key"
                                                 : "value"));
  }
  return {};
}

Status unpack_past(Rewriter &node, std::int32_t (&past)[2]) {
  for (std::size_t i = 0; i < 2; ++i) {
    const char *const name = i == 0 ? "past/key" : "past/value";
    qir::Node taken = node.make(
        Op::Gather,
        {node.in(4), node.builder.add_number(node.name + "/" + name + "/index", DType::I64, static_cast<double>(i))},
        name);
    taken.set("axis", std::int64_t{0});
    QR_ASSIGN_OR_RETURN(past[i], node.step(std::move(taken)));
  }
  return {};
}

// Keys and values, those of before and the new ones, as one tensor.
Result<std::int32_t> pack_present(Rewriter &node, const std::int32_t (&parts)[3], const std::int32_t (&past)[2],
                                  Heads heads) {
  std::int32_t present[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const char *const name = i == 0 ? "present/key" : "present/value";
    QR_ASSIGN_OR_RETURN(std::int32_t id, heads_first(node, parts[i + 1], heads.key, String(name) + "/new"));
    if (past[i] != qir::kAbsent) {
      qir::Node both = node.make(Op::Concat, {past[i], id}, String(name) + "/all");
      both.set("axis", std::int64_t{2});
      QR_ASSIGN_OR_RETURN(id, node.step(std::move(both)));
    }
    QR_ASSIGN_OR_RETURN(present[i], unsqueeze(node, id, {0}, name));
  }
  qir::Node whole = node.make(Op::Concat, {present[0], present[1]}, "present");
  whole.set("axis", std::int64_t{0});
  return node.step(std::move(whole));
}

}  // namespace

// input, weights, bias?, mask_index?, past?, attention_bias?: the weights make queries, keys and values at once; past
// and present are keys and values as [2, batch, heads, length, size].
Status packed_attention(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(2));
  if (node.get_int("do_rotary", 0) != 0) return node.error(ErrorId::onnx_attribute, "do_rotary is not supported");
  if (node.has(6)) return refuse_input(node, 6, "past_sequence_length");
  QR_ASSIGN_OR_RETURN(const Heads heads, heads_of(node));
  std::int32_t parts[3];
  QR_RETURN_IF_ERROR(unpack_heads(node, parts));
  QR_ASSIGN_OR_RETURN(const std::int32_t mask, sum_of_masks(node, 3, "mask_index"));
  std::int32_t past[] = {qir::kAbsent, qir::kAbsent};
  if (node.has(4)) QR_RETURN_IF_ERROR(unpack_past(node, past));
  qir::Node made = attention(node, {parts[0], parts[1], parts[2], mask, past[0], past[1]}, "", heads);
  if (!node.wants(1)) return node.finish(std::move(made), 1);
  QR_ASSIGN_OR_RETURN(const std::int32_t cache, pack_present(node, parts, past, heads));
  QR_RETURN_IF_ERROR(node.finish(std::move(made), 1));
  node.bind(1, cache);
  return {};
}

namespace {

// query, key?, value?, past_key?, past_value?, seqlens_k, total_sequence_length, cos_cache?, sin_cache?, position_ids?,
// attention_bias?, head_sink?. The cache is one that grows, or one with room for all positions ("shared buffer"), into
// which the new keys and values are written behind those that count.
class GroupQueryAttention {
 public:
  explicit GroupQueryAttention(Rewriter &node) : node_(node) {}

  Status run() {
    QR_RETURN_IF_ERROR(read());
    std::int32_t q = node_.in(0), k = node_.in(1), v = node_.in(2);
    if (!node_.has(1)) {
      const std::int64_t wide = heads_.query * size_, narrow = heads_.key * size_;
      QR_ASSIGN_OR_RETURN(q, slice(node_, node_.in(0), 2, 0, wide, "query"));
      QR_ASSIGN_OR_RETURN(k, slice(node_, node_.in(0), 2, wide, wide + narrow, "key"));
      QR_ASSIGN_OR_RETURN(v, slice(node_, node_.in(0), 2, wide + narrow, wide + 2 * narrow, "value"));
    }
    if (node_.get_int("do_rotary", 0) != 0) {
      QR_ASSIGN_OR_RETURN(const std::int32_t positions, positions_of());
      QR_ASSIGN_OR_RETURN(q, turned(q, positions, heads_.query, "query/turned"));
      QR_ASSIGN_OR_RETURN(k, turned(k, positions, heads_.key, "key/turned"));
    }
    qir::Node made = node_.make(Op::Attention, {q, k, v, node_.in(10)}, "");
    made.set("is_causal", std::int64_t{1});
    if (const float scale = node_.get_float("scale", 0); scale != 0) made.set("scale", scale);
    if (const float cap = node_.get_float("softcap", 0); cap != 0) made.set("softcap", cap);
    if (const std::int64_t window = node_.get_int("local_window_size", -1); window > 0)
      made.set("left_window_size", window - 1);
    if (rows_) return finish_rows_of_run(q, k, v, std::move(made));
    // One batch entry has no gap between its past and what is new.
    const bool first = length_ == total_ && !of_run_, grows = past_ + length_ == total_ && batch_ == 1;
    if (past_ == 0 || (grows && !first)) {
      made.set("q_num_heads", heads_.query);
      made.set("kv_num_heads", heads_.key);
      made.inputs.resize(6, qir::kAbsent);
      if (past_ != 0) made.inputs.set(4, node_.in(3)), made.inputs.set(5, node_.in(4));
      return has_sink() ? finish_beside_sink(std::move(made)) : node_.finish(std::move(made), 3);
    }
    QR_ASSIGN_OR_RETURN(const std::int32_t queries, heads_first(node_, q, heads_.query, "query/heads"));
    made.inputs.set(0, queries);
    QR_ASSIGN_OR_RETURN(const std::int32_t keys, written(k, 3, "key"));
    QR_ASSIGN_OR_RETURN(const std::int32_t values, written(v, 4, "value"));
    if (first) {
      QR_ASSIGN_OR_RETURN(const std::int32_t new_keys, heads_first(node_, k, heads_.key, "key/heads"));
      made.inputs.set(1, new_keys);
      QR_ASSIGN_OR_RETURN(const std::int32_t new_values, heads_first(node_, v, heads_.key, "value/heads"));
      made.inputs.set(2, new_values);
    } else {
      made.inputs.set(1, keys), made.inputs.set(2, values);
      made.inputs.resize(6, qir::kAbsent);
      QR_ASSIGN_OR_RETURN(const std::int32_t counted, counts(1, "counted"));
      made.inputs.push_back(counted);
    }
    return finish_cached(std::move(made), keys, values);
  }

 private:
  Status read() {
    QR_RETURN_IF_ERROR(node_.need_inputs(1));
    if (!node_.has(5) || !node_.has(6))
      return node_.error(ErrorId::onnx_attribute, "lacks seqlens_k or total_sequence_length");
    for (std::size_t i = 12; i < node_.input_count(); ++i)
      if (node_.has(i)) return refuse_input(node_, i, "a scale of the cache or a weight of a norm");
    if (node_.get_int("sliding_window_cache", 0) != 0)
      return node_.error(ErrorId::onnx_attribute,
                         "keeps the last entries of its cache alone (sliding_window_cache), which is not supported: "
                         "build the model with windowed_kv_cache=false");
    for (const char *const name : {"k_quant_type", "v_quant_type"})
      if (const std::string_view kind = node_.get_string(name, "NONE"); kind != "NONE")
        return node_.error(ErrorId::onnx_attribute, "has a cache of integers (%s is %s), which is not supported", name,
                           printable(kind));
    if (node_.wants(3)) return node_.error(ErrorId::onnx_attribute, "gives its scores, which is not supported");
    QR_ASSIGN_OR_RETURN(heads_, heads_of(node_));
    heads_.key = node_.get_int("kv_num_heads", 0);
    const qir::Shape &q = node_.tensor(0).shape;
    if (heads_.key < 1 || q.size() != 3 || q[0] == 0 || q[1] == 0 || q[2] < 1)
      return node_.error(ErrorId::onnx_attribute,
                         "expected kv_num_heads and a query [batch, length, hidden] of a known width");
    batch_ = q[0], length_ = q[1];
    size_ = q[2] / (node_.has(1) ? heads_.query : heads_.query + 2 * heads_.key);
    if (node_.has(3)) {
      const qir::Shape &past = node_.tensor(3).shape;
      if (past.size() != 4) return node_.error(ErrorId::onnx_attribute, "its past keys are not of rank 4");
      past_ = past[2];
    }
    open_ = batch_ < 0 || length_ < 0 || past_ < 0;
    rows_ = open_;
    if (open_) return check_open();
    const qir::Tensor &total = node_.tensor(6);
    std::int32_t value = 0;
    if (total.dtype != DType::I32 || (total.is_constant && total.data.size < sizeof value))
      return node_.error(ErrorId::onnx_attribute, "total_sequence_length is no number of i32");
    if (!total.is_constant) return read_total_of_run();
    std::memcpy(&value, total.data.data, sizeof value);
    total_ = value;
    if (total_ < length_)
      return node_.error(ErrorId::onnx_attribute,
                         "total_sequence_length is %d, expected at least the %lld of its query", value, length_);
    return {};
  }
  // Lengths that are left to the runs: the cache grows. Of one row everything in it counts, whatever the two inputs say
  // (that is what they say of one row without gaps).
  Status check_open() const {
    if (past_ <= 0) return {};
    return node_.error(
        ErrorId::onnx_attribute,
        "leaves its lengths to the runs, with a past of %lld, expected a past that grows, or lengths that "
        "are bound (option shape)",
        past_);
  }
  // `made` works on heads; the caches that it reads are what the node gives beside its result.
  Status finish_cached(qir::Node made, std::int32_t keys, std::int32_t values) {
    made.name += "/heads";
    std::int32_t y = qir::kAbsent;
    if (has_sink()) {
      QR_ASSIGN_OR_RETURN(const Vector<std::int32_t> all, with_scores(std::move(made), false));
      QR_ASSIGN_OR_RETURN(const std::int32_t share, share_of_keys(all[3]));
      QR_ASSIGN_OR_RETURN(y, node_.step(Op::Mul, {all[0], share}, "beside_sink"));
    } else {
      QR_ASSIGN_OR_RETURN(y, node_.step(std::move(made)));
    }
    QR_RETURN_IF_ERROR(finish_rows(node_, y));
    node_.bind(1, keys);
    node_.bind(2, values);
    return {};
  }
  // A head's sink is one more score, of which no value comes: it takes its share of the softmax. smooth_softmax: a sink
  // of 0.
  bool has_sink() const { return node_.has(11) || node_.get_int("smooth_softmax", 0) > 0; }
  // The node with its scores as they are before the softmax, [batch, heads, length, total], as the fourth output.
  Result<Vector<std::int32_t>> with_scores(qir::Node made, bool with_caches) {
    made.set("qk_matmul_output_mode", std::int64_t{2});
    const auto named = [&](const char *what, bool wanted) { return wanted ? made.name + what : String(); };
    Vector<String> names{named("/seen", true), named("/keys", with_caches), named("/values", with_caches),
                         named("/scores", true)};
    Vector<std::int32_t> outputs;
    QR_RETURN_IF_ERROR(node_.builder.emit(std::move(made), names, &outputs));
    return outputs;
  }
  // [batch, heads, length, 1]: sum / (sum + e^sink), the sum being that of e^score.
  Result<std::int32_t> share_of_keys(std::int32_t scores) {
    const std::int64_t last = -1;
    qir::Node summed =
        node_.make(Op::ReduceLogSumExp, {scores, node_.ints("sink/axis", std::span(&last, 1))}, "sink/log_sum");
    QR_ASSIGN_OR_RETURN(std::int32_t id, node_.step(std::move(summed)));
    if (node_.has(11)) {
      const std::int64_t shape[] = {1, heads_.query, 1, 1};
      QR_ASSIGN_OR_RETURN(const std::int32_t sink,
                          node_.step(Op::Reshape, {node_.in(11), node_.ints("sink/shape", shape)}, "sink/shaped"));
      QR_ASSIGN_OR_RETURN(id, node_.step(Op::Sub, {id, sink}, "sink/above"));
    }
    return node_.step(Op::Sigmoid, {id}, "sink/share");
  }
  // The same where the node gives rows, [batch, length, heads * size].
  Status finish_beside_sink(qir::Node made) {
    made.name += "/rows";
    QR_ASSIGN_OR_RETURN(const Vector<std::int32_t> all, with_scores(std::move(made), true));
    QR_ASSIGN_OR_RETURN(const std::int32_t share, share_of_keys(all[3]));
    qir::Node moved = node_.make(Op::Transpose, {share}, "sink/rows");
    moved.set("perm", Vector<std::int64_t>{0, 2, 1, 3});
    QR_ASSIGN_OR_RETURN(const std::int32_t by_row, node_.step(std::move(moved)));
    const std::int64_t parts[] = {0, 0, heads_.query, -1}, whole[] = {0, 0, -1};
    QR_ASSIGN_OR_RETURN(const std::int32_t seen,
                        node_.step(Op::Reshape, {all[0], node_.ints("seen/shape", parts)}, "seen/heads"));
    QR_ASSIGN_OR_RETURN(const std::int32_t left, node_.step(Op::Mul, {seen, by_row}, "beside_sink"));
    QR_RETURN_IF_ERROR(node_.finish(node_.make(Op::Reshape, {left, node_.ints("shape", whole)}, ""), 1));
    node_.bind(1, all[1]);
    node_.bind(2, all[2]);
    return {};
  }
  // Several rows, or as many as a run brings: each has its own new entries behind those of it that count. Rows of the
  // first tokens begin at 0 however short they are, and what stands behind them is nobody's.
  Status finish_rows_of_run(std::int32_t q, std::int32_t k, std::int32_t v, qir::Node made) {
    QR_ASSIGN_OR_RETURN(const std::int32_t fresh, dimension(node_.in(0), 1, "new"));
    QR_ASSIGN_OR_RETURN(const std::int32_t before, rows_before(fresh));
    QR_ASSIGN_OR_RETURN(const std::int32_t counted, node_.step(Op::Add, {before, fresh}, "counted"));
    QR_ASSIGN_OR_RETURN(const std::int32_t queries, heads_first(node_, q, heads_.query, "query/heads"));
    QR_ASSIGN_OR_RETURN(const std::int32_t keys, written_behind(k, 3, before, "key"));
    QR_ASSIGN_OR_RETURN(const std::int32_t values, written_behind(v, 4, before, "value"));
    made.inputs.set(0, queries), made.inputs.set(1, keys), made.inputs.set(2, values);
    made.inputs.resize(6, qir::kAbsent);
    made.inputs.push_back(counted);
    return finish_cached(std::move(made), keys, values);
  }
  // [batch]: how many entries of each row count before the new ones. Of one row all do (check_open); whether it is one,
  // shapes say: where they are bound, nothing else is left of this (bind_dimensions).
  Result<std::int32_t> rows_before(std::int32_t fresh) {
    if (batch_ == 1 && open_) {
      if (!node_.has(3)) return node_.ints("before", std::array<std::int64_t, 1>{0});
      QR_ASSIGN_OR_RETURN(const std::int32_t past, dimension(node_.in(3), 2, "before/past"));
      return unsqueeze(node_, past, {0}, "before");
    }
    QR_ASSIGN_OR_RETURN(const std::int32_t all, counts(1, "all"));
    QR_ASSIGN_OR_RETURN(const std::int32_t left, node_.step(Op::Sub, {all, fresh}, "before/left"));
    const auto number = [&](const char *name, double value) {
      return node_.builder.add_number(node_.name + "/before/" + name, DType::I64, value);
    };
    QR_ASSIGN_OR_RETURN(const std::int32_t counted, node_.step(Op::Max, {left, number("none", 0)}, "before/counted"));
    if (!node_.has(3)) return counted;
    QR_ASSIGN_OR_RETURN(const std::int32_t rows, dimension(node_.in(0), 0, "before/rows"));
    QR_ASSIGN_OR_RETURN(const std::int32_t alone, node_.step(Op::Equal, {rows, number("one", 1)}, "before/alone"));
    QR_ASSIGN_OR_RETURN(const std::int32_t past, dimension(node_.in(3), 2, "before/past"));
    QR_ASSIGN_OR_RETURN(const std::int32_t shape, node_.shape_of(counted, "before/shape"));
    QR_ASSIGN_OR_RETURN(const std::int32_t whole, node_.step(Op::Expand, {past, shape}, "before/whole"));
    return node_.step(Op::Where, {alone, whole, counted}, "before");
  }
  // The past with the new entries in each row's place; joined first, for the room that they need.
  Result<std::int32_t> written_behind(std::int32_t fresh, std::size_t past, std::int32_t before,
                                      std::string_view name) {
    QR_ASSIGN_OR_RETURN(const std::int32_t rows, heads_first(node_, fresh, heads_.key, String(name) + "/new"));
    if (past_ == 0) return rows;
    qir::Node joined = node_.make(Op::Concat, {node_.in(past), rows}, String(name) + "/joined");
    joined.set("axis", std::int64_t{2});
    QR_ASSIGN_OR_RETURN(const std::int32_t cache, node_.step(std::move(joined)));
    if (batch_ == 1 && open_) return cache;
    return node_.step(Op::TensorScatter, {cache, rows, before}, String(name) + "/cache");
  }
  // A number of the run: without a past it is the query's length; a cache with room for all positions, which the model
  // states to stay as long as it is, has seqlens_k say what counts in it (of several rows of the first tokens it would
  // not say which); any other grows.
  Status read_total_of_run() {
    total_ = length_;
    if (past_ <= 0) return {};
    const pb::ValueInfoProto *const info =
        node_.proto.output_size() > 1 ? node_.importer.value_info(node_.scope, node_.proto.output(1)) : nullptr;
    Reasons reasons;
    const qir::Shape present =
        info ? node_.importer.known_extents(declare(*info, "value", reasons), node_.scope) : qir::Shape();
    of_run_ = present.size() == 4 && present[2] == past_;
    rows_ = !of_run_;
    total_ = of_run_ ? past_ : past_ + length_;
    if (!of_run_ || batch_ == 1 || length_ == 1) return {};
    return node_.error(
        ErrorId::onnx_attribute,
        "has a cache of constant size and total_sequence_length of the run, with a batch of %lld and %lld "
        "tokens, expected one row or one token",
        batch_, length_);
  }
  // seqlens_k and `more`, as i64.
  Result<std::int32_t> counts(std::int64_t more, std::string_view suffix) {
    qir::Node wide = node_.make(Op::Cast, {node_.in(5)}, String(suffix) + "/wide");
    wide.set("to", static_cast<std::int64_t>(DType::I64));
    QR_ASSIGN_OR_RETURN(std::int32_t id, node_.step(std::move(wide)));
    const std::int64_t flat[] = {batch_ < 0 ? -1 : batch_};
    QR_ASSIGN_OR_RETURN(
        id, node_.step(Op::Reshape, {id, node_.ints(String(suffix) + "/shape", flat)}, String(suffix) + "/flat"));
    return node_.step(Op::Add, {id, node_.ints(String(suffix) + "/more", std::span(&more, 1))}, suffix);
  }
  // [batch, length]: where each token stands.
  Result<std::int32_t> positions_of() {
    if (node_.has(9)) return node_.in(9);
    if (rows_) return row_positions();
    Vector<std::int64_t> steps;
    for (std::int64_t i = 0; i < length_; ++i) steps.push_back(i);
    const std::int32_t row = node_.ints("positions/steps", steps);
    const std::int64_t shape[] = {batch_, length_};
    if (length_ == total_ && !of_run_)
      return node_.step(Op::Expand, {row, node_.ints("positions/shape", shape)}, "positions");
    QR_ASSIGN_OR_RETURN(const std::int32_t before, counts(1 - length_, "positions/before"));
    QR_ASSIGN_OR_RETURN(const std::int32_t column, unsqueeze(node_, before, {1}, "positions/column"));
    return node_.step(Op::Add, {column, row}, "positions");
  }
  // The same of each row: those of it that count come before.
  Result<std::int32_t> row_positions() {
    QR_ASSIGN_OR_RETURN(const std::int32_t fresh, dimension(node_.in(0), 1, "positions/new"));
    QR_ASSIGN_OR_RETURN(const std::int32_t before, rows_before(fresh));
    const std::int32_t none = node_.builder.add_number(node_.name + "/positions/none", DType::I64, 0),
                       one = node_.builder.add_number(node_.name + "/positions/one", DType::I64, 1);
    QR_ASSIGN_OR_RETURN(const std::int32_t row, node_.step(Op::Range, {none, fresh, one}, "positions/row"));
    QR_ASSIGN_OR_RETURN(const std::int32_t column, unsqueeze(node_, before, {1}, "positions/column"));
    return node_.step(Op::Add, {column, row}, "positions");
  }
  // A dimension of a tensor, as a number of i64.
  Result<std::int32_t> dimension(std::int32_t id, std::int64_t axis, std::string_view suffix) {
    QR_ASSIGN_OR_RETURN(const std::int32_t shape, node_.shape_of(id, String(suffix) + "/shape"));
    const std::int32_t index =
        node_.builder.add_number(node_.name + "/" + String(suffix) + "/axis", DType::I64, static_cast<double>(axis));
    qir::Node made = node_.make(Op::Gather, {shape, index}, suffix);
    made.set("axis", std::int64_t{0});
    return node_.step(std::move(made));
  }
  Result<std::int32_t> turned(std::int32_t id, std::int32_t positions, std::int64_t heads, std::string_view suffix) {
    if (!node_.has(7) || !node_.has(8))
      return node_.error(ErrorId::onnx_attribute, "do_rotary is set without cos_cache and sin_cache");
    qir::Node made = node_.make(Op::RotaryEmbedding, {id, node_.in(7), node_.in(8), positions}, suffix);
    made.set("num_heads", heads);
    if (node_.get_int("rotary_interleaved", 0) != 0) made.set("interleaved", std::int64_t{1});
    const qir::Shape &cache = node_.tensor(7).shape;
    if (cache.size() == 2 && cache[1] > 0 && 2 * cache[1] < size_) made.set("rotary_embedding_dim", 2 * cache[1]);
    return node_.step(std::move(made));
  }
  // The cache with the new rows behind those that count.
  Result<std::int32_t> written(std::int32_t fresh, std::size_t past, std::string_view name) {
    QR_ASSIGN_OR_RETURN(const std::int32_t rows, heads_first(node_, fresh, heads_.key, String(name) + "/new"));
    std::int32_t cache = node_.in(past);
    if (past_ < total_) {
      const std::int64_t pads[] = {0, 0, 0, 0, 0, 0, total_ - past_, 0};
      QR_ASSIGN_OR_RETURN(
          cache, node_.step(Op::Pad, {cache, node_.ints(String(name) + "/room", pads)}, String(name) + "/longer"));
    }
    qir::Node made = node_.make(Op::TensorScatter, {cache, rows}, String(name) + "/cache");
    if (length_ != total_ || of_run_) {
      QR_ASSIGN_OR_RETURN(const std::int32_t before, counts(1 - length_, String(name) + "/before"));
      made.inputs.push_back(before);
    }
    return node_.step(std::move(made));
  }

  Rewriter &node_;
  Heads heads_;
  std::int64_t batch_ = 0, length_ = 0, size_ = 0, past_ = 0, total_ = 0;
  bool of_run_ = false;  // the total is known only at run time: the cache's room stands for it
  bool open_ = false;    // the lengths of the query and of its past are the runs'
  bool rows_ = false;    // each row of the batch has as many entries as seqlens_k says
};

}  // namespace

Status group_query_attention(Rewriter &node) { return GroupQueryAttention(node).run(); }

// input, position_ids, cos_cache, sin_cache; the positions are one offset or one for each token.
Status rotary_embedding(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(4));
  if (node.get_int("is_packed_batching", 0) != 0)
    return node.error(ErrorId::onnx_attribute, "is_packed_batching is not supported");
  const qir::Shape x = node.tensor(0).shape;
  std::int32_t positions = node.in(1);
  if (node.tensor(1).shape.size() < 2) {
    const std::size_t length_axis = x.size() == 4 ? 2 : 1;
    if (x.size() < 3 || x[0] < 0 || x[length_axis] < 0)
      return node.error(ErrorId::onnx_attribute, "one offset for all positions needs a known batch and length");
    Vector<std::int64_t> steps;
    for (std::int64_t i = 0; i < x[length_axis]; ++i) steps.push_back(i);
    QR_ASSIGN_OR_RETURN(positions,
                        node.step(Op::Add, {positions, node.ints("positions/steps", steps)}, "positions/row"));
    const std::int64_t shape[] = {x[0], x[length_axis]};
    QR_ASSIGN_OR_RETURN(positions,
                        node.step(Op::Expand, {positions, node.ints("positions/shape", shape)}, "positions"));
  }
  qir::Node made = node.make(Op::RotaryEmbedding, {node.in(0), node.in(2), node.in(3), positions}, "");
  if (const std::int64_t interleaved = node.get_int("interleaved", 0)) made.set("interleaved", interleaved);
  const std::int64_t turned = node.get_int("rotary_embedding_dim", 0);
  if (turned != 0) made.set("rotary_embedding_dim", turned);
  std::int64_t heads = node.get_int("num_heads", 0);
  if (heads == 0 && x.size() == 3) {
    const qir::Shape cache = node.tensor(2).shape;
    if (cache.size() != 2 || cache[1] < 1 || x[2] < 1)
      return node.error(ErrorId::onnx_attribute, "num_heads is not given, and the size of its heads is not known");
    heads = x[2] / (2 * cache[1]);
  }
  if (x.size() == 3) made.set("num_heads", heads);
  return node.finish(std::move(made));
}

// input_ids, segment_ids?, word, position, segment embeddings, gamma, beta, mask?, position_ids?: the sum of the
// embeddings, normalised; then how many positions of each row the mask has, and the sum.
Status embed_layer_normalization(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  for (const std::size_t i : {2u, 3u, 5u, 6u})
    if (!node.has(i)) return node.error(ErrorId::onnx_attribute, "lacks its input %zu", i);
  const auto look_up = [&](std::int32_t table, std::int32_t ids, const char *suffix) {
    qir::Node made = node.make(Op::Gather, {table, ids}, suffix);
    made.set("axis", std::int64_t{0});
    return node.step(std::move(made));
  };
  QR_ASSIGN_OR_RETURN(std::int32_t sum, look_up(node.in(2), node.in(0), "words"));
  std::int32_t positions = node.in(8);
  if (positions == qir::kAbsent) {
    const qir::Shape ids = node.tensor(0).shape;
    if (ids.size() != 2 || ids[1] < 0)
      return node.error(ErrorId::onnx_attribute,
                        "the length of its input_ids is not known, and there are no position_ids");
    QR_ASSIGN_OR_RETURN(positions, slice(node, node.in(3), 0, 0, ids[1], "positions"));
  } else {
    QR_ASSIGN_OR_RETURN(positions, look_up(node.in(3), positions, "positions"));
  }
  QR_ASSIGN_OR_RETURN(sum, node.step(Op::Add, {sum, positions}, "placed"));
  if (node.has(1) && node.has(4)) {
    QR_ASSIGN_OR_RETURN(const std::int32_t segments, look_up(node.in(4), node.in(1), "segments"));
    QR_ASSIGN_OR_RETURN(sum, node.step(Op::Add, {sum, segments}, "sum"));
  }
  qir::Node made = node.make(Op::LayerNormalization, {sum, node.in(5), node.in(6)}, "");
  made.set("epsilon", node.get_float("epsilon", 1e-12f));
  QR_RETURN_IF_ERROR(node.finish(std::move(made), 1));
  if (node.wants(1)) {
    const std::int64_t axis = 1;
    std::int32_t count = qir::kAbsent;
    if (node.has(7)) {
      qir::Node counted = node.make(Op::ReduceSum, {node.in(7), node.ints("mask/axis", std::span(&axis, 1))}, "mask");
      counted.set("keepdims", std::int64_t{0});
      QR_ASSIGN_OR_RETURN(count, node.step(std::move(counted)));
    } else {
      const qir::Shape ids = node.tensor(0).shape;
      if (ids[0] < 0) return node.error(ErrorId::onnx_attribute, "the batch of its input_ids is not known");
      const std::int64_t batch = ids[0];
      const std::int32_t zero = node.number("mask/none", DType::I32, 0);
      QR_ASSIGN_OR_RETURN(count, node.step(Op::Expand, {zero, node.ints("mask/shape", std::span(&batch, 1))}, "mask"));
    }
    node.bind(1, count);
  }
  node.bind(2, sum);
  return {};
}

}  // namespace quarry::onnx_import::rules
