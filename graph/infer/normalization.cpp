// SPDX-License-Identifier: Apache-2.0
// Normalisations, recurrent layers and attention.
#include <algorithm>

#include "graph/infer/rules.h"

namespace quarry::qir {

using rules::is_known;
using rules::known_of;
using rules::may_equal;

Status resolve_rnn(const Node &node, Dims x, Dims w, Dims r, RnnGeometry *out) {
  *out = RnnGeometry();
  QR_RETURN_IF_ERROR(rules::expect_rank(node, "X", x, 3));
  QR_RETURN_IF_ERROR(rules::expect_rank(node, "W", w, 3));
  QR_RETURN_IF_ERROR(rules::expect_rank(node, "R", r, 3));
  const std::int64_t gates = node.op == Op::LSTM ? 4 : node.op == Op::GRU ? 3 : 1;
  const std::string_view direction = node.get_string("direction", "forward");
  const std::int64_t layout = node.get_int("layout", 0);
  if (layout != 0 && layout != 1)
    return node_error(node, ErrorId::qir_attribute, "attribute 'layout' is %lld, expected 0 or 1", ll(layout));
  out->directions = direction == "bidirectional" ? 2 : 1;
  out->reverse = direction == "reverse";
  out->batch_first = layout == 1;
  out->sequence = x[layout == 1 ? 1 : 0];
  out->batch = x[layout == 1 ? 0 : 1];
  out->input = known_of(x[2], w[2]);
  out->hidden = node.get_int("hidden_size", r[2]);
  if (out->hidden < 1 && (node.find("hidden_size") || is_known(r[2])))
    return node_error(node, ErrorId::qir_attribute, "the hidden size is %lld, expected 1 or more", ll(out->hidden));
  std::int64_t rows;
  QR_RETURN_IF_ERROR(rules::multiply(node, gates, out->hidden, &rows));
  const std::int64_t w_shape[] = {out->directions, rows, x[2]}, r_shape[] = {out->directions, rows, out->hidden};
  QR_RETURN_IF_ERROR(rules::expect_shape(node, "W", w, w_shape));
  return rules::expect_shape(node, "R", r, r_shape);
}

Status resolve_attention(const Node &node, Dims q, Dims k, Dims v, Dims past_key, AttentionGeometry *out) {
  *out = AttentionGeometry();
  if ((q.size() != 3 && q.size() != 4) || k.size() != q.size() || v.size() != q.size())
    return node_error(node, ErrorId::qir_shape,
                      "Q, K and V have shapes %s, %s and %s, expected rank 3 or rank 4 for all", text(q), text(k),
                      text(v));
  out->packed = q.size() == 3;
  if (out->packed) {
    out->q_heads = node.get_int("q_num_heads", 0);
    out->kv_heads = node.get_int("kv_num_heads", 0);
    if (out->q_heads < 1 || out->kv_heads < 1)
      return node_error(node, ErrorId::qir_attribute,
                        "q_num_heads and kv_num_heads are %lld and %lld, expected 1 or more for inputs of rank 3",
                        ll(out->q_heads), ll(out->kv_heads));
    const auto per_head = [&](const char *what, std::int64_t width, std::int64_t heads, std::int64_t *size) -> Status {
      *size = is_known(width) ? width / heads : kUnknownDim;
      if (!is_known(width) || width % heads == 0) return {};
      return node_error(node, ErrorId::qir_shape, "%s has width %lld, which does not divide into %lld heads", what,
                        ll(width), ll(heads));
    };
    std::int64_t k_size;
    QR_RETURN_IF_ERROR(per_head("Q", q[2], out->q_heads, &out->head_size));
    QR_RETURN_IF_ERROR(per_head("K", k[2], out->kv_heads, &k_size));
    QR_RETURN_IF_ERROR(per_head("V", v[2], out->kv_heads, &out->v_head_size));
    if (!may_equal(out->head_size, k_size))
      return node_error(node, ErrorId::qir_shape, "a head of Q has size %lld, but one of K %lld", ll(out->head_size),
                        ll(k_size));
    out->head_size = known_of(out->head_size, k_size);
    out->q_length = q[1];
    out->kv_length = known_of(k[1], v[1]);
    if (!may_equal(k[1], v[1]))
      return node_error(node, ErrorId::qir_shape, "K has length %lld, but V %lld", ll(k[1]), ll(v[1]));
  } else {
    out->q_heads = q[1];
    out->kv_heads = known_of(k[1], v[1]);
    out->q_length = q[2];
    out->kv_length = known_of(k[2], v[2]);
    out->head_size = known_of(q[3], k[3]);
    out->v_head_size = v[3];
    const std::int64_t k_shape[] = {q[0], out->kv_heads, out->kv_length, out->head_size};
    const std::int64_t v_shape[] = {q[0], out->kv_heads, out->kv_length, v[3]};
    QR_RETURN_IF_ERROR(rules::expect_shape(node, "K", k, k_shape));
    QR_RETURN_IF_ERROR(rules::expect_shape(node, "V", v, v_shape));
  }
  out->batch = known_of(q[0], known_of(k[0], v[0]));
  if (!may_equal(q[0], k[0]) || !may_equal(q[0], v[0]))
    return node_error(node, ErrorId::qir_shape, "Q, K and V have batches of %lld, %lld and %lld", ll(q[0]), ll(k[0]),
                      ll(v[0]));
  if (is_known(out->q_heads) && is_known(out->kv_heads) && (out->kv_heads == 0 || out->q_heads % out->kv_heads != 0))
    return node_error(node, ErrorId::qir_shape, "%lld query heads do not divide by %lld key heads", ll(out->q_heads),
                      ll(out->kv_heads));
  if (!past_key.empty()) {
    const std::int64_t shape[] = {out->batch, out->kv_heads, kUnknownDim, out->head_size};
    QR_RETURN_IF_ERROR(rules::expect_shape(node, "past_key", past_key, shape));
    out->past_length = past_key[2];
  }
  return rules::add(node, out->past_length, out->kv_length, &out->total_length);
}

namespace rules {
namespace {

// scale, bias and the like: one number per channel (axis 1).
Status expect_per_channel(const Node &node, Inputs inputs, std::size_t first, std::size_t count, Dims channels) {
  static constexpr const char *kNames[] = {"X", "scale", "the bias", "the mean", "the variance"};
  for (std::size_t i = first; i < first + count; ++i)
    QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, i, kNames[i], channels));
  return {};
}

// The parameter broadcasts to `normalised`, as ONNX's function body has it.
Status expect_fits(const Node &node, const char *what, Dims value, Dims normalised) {
  bool fits = value.size() <= normalised.size();
  for (std::size_t i = 0; fits && i < value.size(); ++i) {
    const std::int64_t have = value[value.size() - 1 - i];
    fits = have == 1 || may_equal(have, normalised[normalised.size() - 1 - i]);
  }
  if (fits) return {};
  return node_error(node, ErrorId::qir_shape, "%s has shape %s, which does not broadcast to %s", what, text(value),
                    text(normalised));
}

}  // namespace

Status batch_norm(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  QR_RETURN_IF_ERROR(expect_rank_from(node, "X", x, 1));
  // One dimension: every element is a sample of the only channel.
  const std::int64_t one = 1;
  QR_RETURN_IF_ERROR(expect_per_channel(node, inputs, 1, 4, x.size() == 1 ? Dims(&one, 1) : x.subspan(1, 1)));
  if (node.get_int("training_mode", 0) == 0 && outputs.size() > 1)
    return node_error(node, ErrorId::qir_bad, "%zu outputs, expected one with training_mode 0", outputs.size());
  set_output(outputs, 1, real_dtype(inputs[3]), dims_of(inputs[3]));
  set_output(outputs, 2, real_dtype(inputs[4]), dims_of(inputs[4]));
  return same(node, inputs, outputs);
}

Status instance_norm(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_rank_from(node, "X", dims_of(inputs[0]), 3));
  QR_RETURN_IF_ERROR(expect_per_channel(node, inputs, 1, 2, dims_of(inputs[0]).subspan(1, 1)));
  return same(node, inputs, outputs);
}

Status group_norm(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_rank_from(node, "X", dims_of(inputs[0]), 2));
  QR_RETURN_IF_ERROR(expect_per_channel(node, inputs, 1, 2, dims_of(inputs[0]).subspan(1, 1)));
  const std::int64_t groups = node.get_int("num_groups", 1), channels = inputs[0].shape[1];
  if (groups < 1 || (is_known(channels) && channels % groups != 0))
    return node_error(node, ErrorId::qir_attribute,
                      "attribute 'num_groups' is %lld, expected a divisor of the %lld channels", ll(groups),
                      ll(channels));
  return same(node, inputs, outputs);
}

Status layer_norm(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", -1), x.size(), &axis));
  QR_RETURN_IF_ERROR(expect_fits(node, "scale", dims_of(inputs[1]), x));
  if (has_input(inputs, 2)) QR_RETURN_IF_ERROR(expect_fits(node, "the bias", dims_of(inputs[2]), x));
  DimList statistics(x);
  std::fill(statistics.values + axis, statistics.values + statistics.size, 1);
  DType stash = DType::F32;
  if (outputs.size() > 1) QR_RETURN_IF_ERROR(dtype_attribute(node, "stash_type", DType::F32, &stash));
  set_output(outputs, 1, stash, statistics);
  set_output(outputs, 2, stash, statistics);
  return same(node, inputs, outputs);
}

Status rms_norm(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", -1), x.size(), &axis));
  QR_RETURN_IF_ERROR(expect_fits(node, "scale", dims_of(inputs[1]), x));
  set_output(outputs, 0, real_dtype(inputs[1]), x);
  return {};
}

Status rnn(const Node &node, Inputs inputs, Outputs outputs) {
  RnnGeometry g;
  QR_RETURN_IF_ERROR(resolve_rnn(node, dims_of(inputs[0]), dims_of(inputs[1]), dims_of(inputs[2]), &g));
  const std::int64_t gates = node.op == Op::LSTM ? 4 : node.op == Op::GRU ? 3 : 1;
  const std::int64_t functions = g.directions * (node.op == Op::LSTM ? 3 : node.op == Op::GRU ? 2 : 1);
  if (const auto *names = node.get_strings("activations");
      names && !names->empty() && static_cast<std::int64_t>(names->size()) != functions)
    return node_error(node, ErrorId::qir_attribute, "attribute 'activations' names %zu functions, expected %lld",
                      names->size(), ll(functions));
  std::int64_t bias[] = {g.directions, 0}, peepholes[] = {g.directions, 0};
  QR_RETURN_IF_ERROR(multiply(node, g.hidden, 2 * gates, &bias[1]));
  QR_RETURN_IF_ERROR(multiply(node, g.hidden, 3, &peepholes[1]));
  DimList state;  // layout 0: [directions, batch, hidden]
  state.push(g.batch_first ? g.batch : g.directions);
  state.push(g.batch_first ? g.directions : g.batch);
  state.push(g.hidden);
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 3, "B", bias));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 4, "sequence_lens", {&g.batch, 1}));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 5, "initial_h", state));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 6, "initial_c", state));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 7, "P", peepholes));
  const std::int64_t all[] = {g.sequence, g.directions, g.batch, g.hidden},
                     batch_first[] = {g.batch, g.sequence, g.directions, g.hidden};
  set_output(outputs, 0, real_dtype(inputs[0]), g.batch_first ? Dims(batch_first) : Dims(all));
  set_output(outputs, 1, real_dtype(inputs[0]), state);
  set_output(outputs, 2, real_dtype(inputs[0]), state);
  return {};
}

Status attention(const Node &node, Inputs inputs, Outputs outputs) {
  if (has_input(inputs, 4) != has_input(inputs, 5))
    return node_error(node, ErrorId::qir_bad, "past_%s is given without past_%s",
                      has_input(inputs, 4) ? "key" : "value", has_input(inputs, 4) ? "value" : "key");
  AttentionGeometry g;
  QR_RETURN_IF_ERROR(resolve_attention(node, dims_of(inputs[0]), dims_of(inputs[1]), dims_of(inputs[2]),
                                       has_input(inputs, 4) ? dims_of(inputs[4]) : Dims(), &g));
  const std::int64_t past_value[] = {g.batch, g.kv_heads, g.past_length, g.v_head_size};
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 5, "past_value", past_value));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 6, "nonpad_kv_seqlen", {&g.batch, 1}));
  const std::int64_t scores[] = {g.batch, g.q_heads, g.q_length, g.total_length};
  if (has_input(inputs, 3)) {
    const Dims mask = dims_of(inputs[3]);
    // The last dimension may be shorter than the keys: the rest is masked.
    bool fits =
        !mask.empty() && mask.size() <= 4 && (!is_known(g.total_length) || mask[mask.size() - 1] <= g.total_length);
    for (std::size_t i = 1; fits && i < mask.size(); ++i) {
      const std::int64_t have = mask[mask.size() - 1 - i];
      fits = have == 1 || may_equal(have, scores[3 - i]);
    }
    if (!fits)
      return node_error(node, ErrorId::qir_shape, "attn_mask has shape %s, which does not broadcast to %s", text(mask),
                        text(scores));
  }
  const DType real = real_dtype(inputs[0]);
  if (g.packed) {
    std::int64_t shape[] = {g.batch, g.q_length, 0};
    QR_RETURN_IF_ERROR(multiply(node, g.q_heads, g.v_head_size, &shape[2]));
    set_output(outputs, 0, real, shape);
  } else {
    const std::int64_t shape[] = {g.batch, g.q_heads, g.q_length, g.v_head_size};
    set_output(outputs, 0, real, shape);
  }
  const std::int64_t key[] = {g.batch, g.kv_heads, g.total_length, g.head_size};
  const std::int64_t value[] = {g.batch, g.kv_heads, g.total_length, g.v_head_size};
  set_output(outputs, 1, real, key);
  set_output(outputs, 2, real_dtype(inputs[2]), value);
  set_output(outputs, 3, real, scores);
  return {};
}

Status linear_attention(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims q = dims_of(inputs[0]), k = dims_of(inputs[1]), v = dims_of(inputs[2]);
  const std::int64_t q_heads = node.get_int("q_num_heads", 0), kv_heads = node.get_int("kv_num_heads", 0);
  if (kv_heads < 1 || q_heads < 1 || q_heads % kv_heads != 0)
    return node_error(node, ErrorId::qir_attribute, "q_num_heads is %lld, expected a multiple of kv_num_heads, %lld",
                      ll(q_heads), ll(kv_heads));
  QR_RETURN_IF_ERROR(expect_rank(node, "the query", q, 3));
  const std::int64_t like_query[] = {q[0], q[1], kUnknownDim};
  QR_RETURN_IF_ERROR(expect_shape(node, "the key", k, like_query));
  QR_RETURN_IF_ERROR(expect_shape(node, "the value", v, like_query));
  if ((is_known(q[2]) && q[2] % q_heads != 0) || (is_known(k[2]) && k[2] % kv_heads != 0) ||
      (is_known(v[2]) && v[2] % kv_heads != 0))
    return node_error(
        node, ErrorId::qir_shape,
        "query, key and value have widths %lld, %lld and %lld, which do not divide into %lld and %lld heads", ll(q[2]),
        ll(k[2]), ll(v[2]), ll(q_heads), ll(kv_heads));
  const std::int64_t key_size = is_known(q[2]) ? q[2] / q_heads : is_known(k[2]) ? k[2] / kv_heads : kUnknownDim;
  const std::int64_t value_size = is_known(v[2]) ? v[2] / kv_heads : kUnknownDim;
  if (is_known(k[2]) && !may_equal(key_size, k[2] / kv_heads))
    return node_error(node, ErrorId::qir_shape, "a head of the query has size %lld, but one of the key %lld",
                      ll(key_size), ll(k[2] / kv_heads));
  const std::int64_t state[] = {q[0], kv_heads, key_size, value_size};
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 3, "past_state", state));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 4, "the decay", like_query));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 5, "beta", like_query));
  std::int64_t shape[] = {q[0], q[1], 0};
  QR_RETURN_IF_ERROR(multiply(node, q_heads, value_size, &shape[2]));
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  set_output(outputs, 1, has_input(inputs, 3) ? real_dtype(inputs[3]) : real_dtype(inputs[0]), state);
  return {};
}

Status rotary_embedding(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]), cos = dims_of(inputs[1]);
  if (x.size() != 3 && x.size() != 4)
    return node_error(node, ErrorId::qir_shape, "X has shape %s, expected rank 3 or 4", text(x));
  const bool packed = x.size() == 3;
  const std::int64_t heads = packed ? node.get_int("num_heads", 0) : x[1];
  if (packed && (heads < 1 || (is_known(x[2]) && x[2] % heads != 0)))
    return node_error(node, ErrorId::qir_attribute,
                      "attribute 'num_heads' is %lld, expected a divisor of X's width %lld", ll(heads), ll(x[2]));
  const std::int64_t head_size = !packed ? x[3] : is_known(x[2]) ? x[2] / heads : kUnknownDim;
  const std::int64_t part = node.get_int("rotary_embedding_dim", 0), rotated = part == 0 ? head_size : part;
  if (part < 0 || (is_known(rotated) && rotated % 2 != 0) || (is_known(head_size) && rotated > head_size))
    return node_error(node, ErrorId::qir_attribute,
                      "%lld of %lld numbers per head are to be rotated, expected an even number within them",
                      ll(rotated), ll(head_size));
  const std::int64_t half = is_known(rotated) ? rotated / 2 : kUnknownDim, length = packed ? x[1] : x[2];
  const std::int64_t by_position[] = {kUnknownDim, half}, direct[] = {x[0], length, half}, positions[] = {x[0], length};
  QR_RETURN_IF_ERROR(expect_shape(node, "cos_cache", cos, has_input(inputs, 3) ? Dims(by_position) : Dims(direct)));
  QR_RETURN_IF_ERROR(expect_shape(node, "sin_cache", dims_of(inputs[2]), cos));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 3, "position_ids", positions));
  return same(node, inputs, outputs);
}

Status causal_conv(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]), w = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(expect_rank(node, "the input", x, 3));
  const std::int64_t weight[] = {x[1], 1, kUnknownDim};
  QR_RETURN_IF_ERROR(expect_shape(node, "the weight", w, weight));
  if (w[2] == 0) return node_error(node, ErrorId::qir_shape, "the kernel has size 0, expected 1 or more");
  const std::int64_t channels = known_of(x[1], w[0]);
  const std::int64_t state[] = {x[0], channels, is_known(w[2]) ? w[2] - 1 : kUnknownDim};
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 2, "the bias", {&channels, 1}));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 3, "past_state", state));
  set_output(outputs, 1, real_dtype(inputs[0]), state);
  return same(node, inputs, outputs);
}

}  // namespace rules
}  // namespace quarry::qir
