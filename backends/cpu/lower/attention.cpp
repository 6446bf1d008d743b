// SPDX-License-Identifier: Apache-2.0
// Attention, and what models put beside it.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

using kernels::Kernel;
using qir::Op;

namespace {

// Keys and values where they are kept, if both are in one way; rows are adjacent along one dimension of each.
bool take_kept(const Lowering &l, std::int32_t keys, std::size_t along_keys, std::int32_t values,
               std::size_t along_values, kernels::AttentionF32 &p) {
  const Narrow *const k = l.narrow(keys), *const v = l.narrow(values);
  if (!k || !v || k->as != v->as) return false;
  const auto lies = [](const Narrow &kept, std::size_t along) {
    const bool is_row = kept.codes.strides[along] == 1 || kept.codes.dims[along] == 1;
    return is_row && (kept.as != Narrow::Rows || kept.scales.strides[along] == 0 || kept.scales.dims[along] == 1);
  };
  if (!lies(*k, along_keys) || !lies(*v, along_values)) return false;
  switch (k->as) {
    case Narrow::F16: p.kept = kernels::KeptType::F16; return true;
    case Narrow::BF16: p.kept = kernels::KeptType::BF16; return true;
    case Narrow::Rows: p.kept = kernels::KeptType::Rows; return true;
    default: return false;
  }
}

// A form whose elements are adjacent along a dimension; without a value where there is none.
View row_form(Lowering &l, std::int32_t id, std::size_t adjacent) {
  l.any(id);
  for (const View &form : l.forms(id))
    if (form.strides[adjacent] == 1 || form.dims[adjacent] == 1) return form;
  return {};
}
// Transposed keys whose rows are adjacent.
View keys_of(Lowering &l, std::int32_t id) {
  const std::size_t rank = l.tensor(id).shape.size();
  if (const View there = row_form(l, id, rank - 2); there.value != kNoValue) return there;
  const View from = l.any(id);
  Vector<std::size_t> order(rank);
  for (std::size_t d = 0; d < rank; ++d) order[d] = d;
  std::swap(order[rank - 2], order[rank - 1]);
  const View made = l.new_dense(from.dims, order, 4);
  l.copy(from, made, 4, id);
  l.define(id, made);
  return made;
}

std::uint64_t width_of(kernels::KeptType kept) {
  return kept == kernels::KeptType::F32 ? 4 : kept == kernels::KeptType::Rows ? 1 : 2;
}

}  // namespace

Result<Lowered> lower_attention(Lowering &l, const Group &group) {
  const qir::Shape &q_shape = l.tensor(group.q).shape, &k_shape = l.tensor(group.k_transposed).shape,
                   &v_shape = l.tensor(group.v).shape;
  const std::size_t rank = q_shape.size(), row = rank - 2, col = rank - 1;
  kernels::AttentionF32 p;
  p.q_rows = q_shape[row], p.qk_cols = q_shape[col], p.kv_rows = k_shape[col], p.v_cols = v_shape[col];
  if (k_shape[row] != p.qk_cols || v_shape[row] != p.kv_rows) return Lowered::NotMine;
  const bool is_kept = take_kept(l, group.k_transposed, row, group.v, col, p);
  View q = row_form(l, group.q, col), k, v, k_scales, v_scales;
  if (q.value == kNoValue) q = l.row_major(group.q);
  if (is_kept) {
    const Narrow &keys = *l.narrow(group.k_transposed), &values = *l.narrow(group.v);
    k = keys.codes, v = values.codes, k_scales = keys.scales, v_scales = values.scales;
  } else {
    k = keys_of(l, group.k_transposed), v = row_form(l, group.v, col);
  }
  if (v.value == kNoValue) v = l.row_major(group.v);
  // Heads side by side in a row, as the projection behind it reads them, where that follows.
  Vector<std::size_t> order(rank);
  for (std::size_t d = 0; d < rank; ++d) order[d] = d;
  if (rank == 4 && l.uses().used_once(group.output)) {
    const qir::Node &user = l.graph().nodes[index_of(l.uses().users(group.output)[0])];
    const auto *perm = user.op == Op::Transpose ? user.get_ints("perm") : nullptr;
    if (perm && *perm == Vector<std::int64_t>{0, 2, 1, 3}) order = {0, 2, 1, 3};
  }
  const View y = l.new_dense(l.tensor(group.output).shape, order, 4);
  l.define(group.output, y);
  const auto strides = [&](const View &view, std::size_t rows, std::int64_t(&to)[3]) {
    to[0] = rank == 4 ? view.strides[0] : 0, to[1] = view.strides[rank - 3], to[2] = view.strides[rows];
  };
  p.batches = rank == 4 ? q.dims[0] : 1, p.heads = q.dims[rank - 3];
  strides(q, row, p.q), strides(k, col, p.k), strides(v, row, p.v), strides(y, row, p.y);
  const bool of_rows = p.kept == kernels::KeptType::Rows;
  if (of_rows) strides(k_scales, col, p.k_scales), strides(v_scales, row, p.v_scales);
  p.scale = group.scale;
  p.masked_nan = 1;  // as Softmax has it
  p.has_mask = group.mask != qir::kAbsent;
  Vector<Arg> args{arg(q), arg(k, width_of(p.kept)), arg(v, width_of(p.kept))};
  View mask;
  if (p.has_mask) {
    Dims scores(q.dims);
    scores[col] = p.kv_rows;
    mask = broadcast(l.any(group.mask), scores);
    p.mask[0] = rank == 4 ? mask.strides[0] : 0;
    for (std::size_t d = 0; d < 3; ++d) p.mask[1 + d] = mask.strides[rank - 3 + d];
    args.push_back(arg(mask));
  }
  if (of_rows) args.push_back(arg(k_scales)), args.push_back(arg(v_scales));
  args.push_back(arg(y));
  return l.finish(Kernel::AttentionF32, &p, args);
}

namespace {

// Which columns a query sees. False: cpu-reference says what is wrong.
bool take_limits(const Lowering &l, const qir::Node &node, kernels::AttentionF32 &p) {
  const auto window = [&](const char *name) { return std::clamp<std::int64_t>(node.get_int(name, -1), -1, 1 << 30); };
  p.left = window("left_window_size"), p.right = window("right_window_size");
  if (node.get_int("is_causal", 0) != 0) p.right = 0;
  const std::int32_t valid = l.input(node, 6);
  if (valid == qir::kAbsent) return true;
  const qir::Tensor &count = l.tensor(valid);
  if (count.dtype != DType::I64 || count_of(count.shape) != p.batches) return false;
  const auto *const known = static_cast<const std::int64_t *>(count.data.data);
  if (count.is_constant && std::all_of(known, known + p.batches, [&](std::int64_t n) { return n == p.kv_rows; }))
    p.first = p.kv_rows - p.q_rows;
  else p.has_valid = 1;
  return true;
}

// The operator of [batch, heads, length, size] without a past (passes::attention_on_heads).
bool matches_on_heads(const Lowering &l, const qir::Node &node, kernels::AttentionF32 &p) {
  const std::int32_t mask = l.input(node, 3);
  const qir::Shape &q = l.tensor(node.inputs[0]).shape, &k = l.tensor(node.inputs[1]).shape;
  if (q.size() != 4 || l.input(node, 4) != qir::kAbsent || node.get_float("softcap", 0) > 0) return false;
  for (const std::int32_t id : {node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[0]})
    if (!l.is_f32(id)) return false;
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != qir::kAbsent) return false;
  p.has_mask = mask != qir::kAbsent;
  if (p.has_mask && (!l.is_f32(mask) || l.tensor(mask).shape.empty() || l.tensor(mask).shape.back() != k[2]))
    return false;
  p.batches = q[0], p.heads = q[1], p.q_rows = q[2], p.kv_rows = k[2];
  p.qk_cols = q[3], p.v_cols = l.tensor(node.inputs[2]).shape[3];
  if (k[1] < 1 || p.heads % k[1] != 0) return false;
  p.group = static_cast<std::uint32_t>(p.heads / k[1]);
  p.scale = node.get_float("scale", static_cast<float>(1 / std::sqrt(static_cast<double>(p.qk_cols))));
  return take_limits(l, node, p);
}

// One query of each head: those that read the same keys are its rows. It stands at the last column, if it is limited.
void make_rows_of_heads(kernels::AttentionF32 &p) {
  const bool at_end = p.right < 0 || p.has_valid || p.first == p.kv_rows - 1;
  if (p.q_rows != 1 || p.group == 1 || p.left >= 0 || !at_end || (p.has_mask && p.mask[1] != 0)) return;
  p.q_rows = p.group, p.heads /= p.group, p.right = -1;
  for (auto *const side : {&p.q, &p.y}) (*side)[2] = (*side)[1], (*side)[1] *= p.q_rows;
  p.mask[2] = 0, p.group = 1, p.first = 0;
}

}  // namespace

Result<Lowered> lower_attention_on_heads(Lowering &l, const qir::Node &node) {
  kernels::AttentionF32 p;
  if (!matches_on_heads(l, node, p)) return Lowered::NotMine;
  const std::int32_t mi = l.input(node, 3), yi = node.outputs[0];
  const qir::Shape &q_shape = l.tensor(node.inputs[0]).shape;
  constexpr std::size_t kHead = 1, kRow = 2, kColumn = 3;
  const auto find = [&](std::int32_t id) {
    l.any(id);
    for (const View &form : l.forms(id))
      if (form.strides[kColumn] == 1 || form.dims[kColumn] == 1) return form;
    return l.row_major(id);
  };
  const bool is_kept = take_kept(l, node.inputs[1], kColumn, node.inputs[2], kColumn, p);
  const View q = find(node.inputs[0]), k = is_kept ? l.narrow(node.inputs[1])->codes : find(node.inputs[1]),
             v = is_kept ? l.narrow(node.inputs[2])->codes : find(node.inputs[2]);
  // Heads side by side in a row, as the projection behind it reads them, where that follows.
  Vector<std::size_t> order{0, 1, 2, 3};
  if (l.uses().used_once(yi)) {
    const qir::Node &user = l.graph().nodes[index_of(l.uses().users(yi)[0])];
    const auto *perm = user.op == Op::Transpose ? user.get_ints("perm") : nullptr;
    if (perm && *perm == Vector<std::int64_t>{0, 2, 1, 3}) order = {0, 2, 1, 3};
  }
  View mask;
  if (p.has_mask) {
    mask = broadcast(l.any(mi), Dims{q_shape[0], q_shape[1], q_shape[2], p.kv_rows});
    for (std::size_t d = 0; d < 4; ++d) p.mask[d] = mask.strides[d];
  }
  const View y = l.new_dense(l.tensor(yi).shape, order, 4);
  const auto strides = [&](const View &view, std::int64_t(&to)[3]) {
    to[0] = view.strides[0], to[1] = view.strides[kHead], to[2] = view.strides[kRow];
  };
  strides(q, p.q), strides(k, p.k), strides(v, p.v), strides(y, p.y);
  View k_scales, v_scales;
  if (p.kept == kernels::KeptType::Rows) {
    strides(k_scales = l.narrow(node.inputs[1])->scales, p.k_scales);
    strides(v_scales = l.narrow(node.inputs[2])->scales, p.v_scales);
  }
  make_rows_of_heads(p);
  Vector<Arg> args{arg(q), arg(k, width_of(p.kept)), arg(v, width_of(p.kept))};
  if (p.has_mask) args.push_back(arg(mask));
  View counts;
  if (p.has_valid) args.push_back(arg(counts = l.row_major(l.input(node, 6)), 8));
  if (p.kept == kernels::KeptType::Rows) args.push_back(arg(k_scales)), args.push_back(arg(v_scales));
  args.push_back(arg(y));
  l.define(yi, y);
  return l.finish(Kernel::AttentionF32, &p, args);
}

Result<Lowered> lower_rotary(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], ci = node.inputs[1], si = node.inputs[2], pi = l.input(node, 3),
                     yi = node.outputs[0];
  const qir::Shape &shape = l.tensor(xi).shape;
  if (!l.is_f32(xi) || !l.is_f32(ci) || !l.is_f32(si) || !l.is_f32(yi) || (shape.size() != 3 && shape.size() != 4) ||
      (pi != qir::kAbsent && l.tensor(pi).dtype != DType::I64))
    return Lowered::NotMine;
  const bool packed = shape.size() == 3;
  kernels::RotaryF32 p;
  p.batches = shape[0], p.length = shape[packed ? 1 : 2];
  p.heads = packed ? node.get_int("num_heads", 0) : shape[1];
  if (p.heads < 1 || (packed && shape[2] % p.heads != 0)) return Lowered::NotMine;  // cpu-reference says what is wrong
  p.size = packed ? shape[2] / p.heads : shape[3];
  const std::int64_t asked = node.get_int("rotary_embedding_dim", 0), turned = asked == 0 ? p.size : asked;
  if (turned < 2 || turned > p.size || turned % 2 != 0) return Lowered::NotMine;
  p.half = turned / 2;
  p.interleaved = node.get_int("interleaved", 0) != 0;
  p.has_positions = pi != qir::kAbsent;
  const qir::Shape &table = l.tensor(ci).shape;
  const qir::Shape expected =
      p.has_positions ? qir::Shape{table.empty() ? 0 : table[0], p.half} : qir::Shape{p.batches, p.length, p.half};
  if (table != expected || l.tensor(si).shape != expected ||
      (p.has_positions && count_of(l.tensor(pi).shape) != p.batches * p.length))
    return Lowered::NotMine;
  if (p.has_positions) p.positions = table[0];
  // As x lies, where its rows are whole; a transpose in front of it (heads first) costs nothing then.
  View x = l.peek(xi);
  const bool as_it_is = x.strides.back() == 1 && is_dense(x);
  if (!as_it_is) x = {kNoValue, 0, shape, cpu::row_major(shape)};
  const auto strides = [&](const View &view, std::int64_t *out) {
    const Dims &s = view.strides;
    out[0] = s[0], out[1] = packed ? p.size : s[1], out[2] = packed ? s[1] : s[2];
    const std::int64_t extents[] = {p.batches, p.heads, p.length};
    for (int i = 0; i < 3; ++i)
      if (extents[i] == 1) out[i] = 0;
  };
  strides(x, p.x), strides({kNoValue, 0, shape, dense_strides(shape, memory_order(x))}, p.y);
  if (!l.takes(Kernel::RotaryF32, &p)) return Lowered::NotMine;
  x = as_it_is ? l.any(xi) : l.row_major(xi);
  const View y = l.new_like(x, 4);
  Vector<Arg> args{arg(x)};
  const View cosines = l.row_major(ci), sines = l.row_major(si);
  args.push_back(arg(cosines)), args.push_back(arg(sines));
  View positions;
  if (p.has_positions) args.push_back(arg(positions = l.row_major(pi), 8));
  args.push_back(arg(y));
  l.define(yi, y);
  return l.finish(Kernel::RotaryF32, &p, args);
}

Result<Lowered> lower_linear_attention(Lowering &l, const qir::Node &node) {
  const std::int32_t qi = node.inputs[0], ki = node.inputs[1], vi = node.inputs[2], past = l.input(node, 3),
                     decay = l.input(node, 4), rate = l.input(node, 5), yi = node.outputs[0],
                     present = node.outputs.size() > 1 ? node.outputs[1] : qir::kAbsent;
  for (const std::int32_t id : {qi, ki, vi, yi})
    if (!l.is_f32(id)) return Lowered::NotMine;
  for (const std::int32_t id : {past, decay, rate, present})
    if (id != qir::kAbsent && !l.is_f32(id)) return Lowered::NotMine;
  const std::string_view rule = node.get_string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", corrected = rule == "delta" || rule == "gated_delta";
  const qir::Shape &q = l.tensor(qi).shape, &v = l.tensor(vi).shape;
  kernels::LinearAttentionF32 p;
  p.q_heads = node.get_int("q_num_heads", 0), p.heads = node.get_int("kv_num_heads", 0);
  // (Where something does not fit cpu-reference says so.)
  if (p.heads < 1 || p.q_heads < 1 || p.q_heads % p.heads != 0 || q.size() != 3 || v.size() != 3 ||
      q[2] % p.q_heads != 0 || v[2] % p.heads != 0 || gated != (decay != qir::kAbsent) ||
      corrected != (rate != qir::kAbsent))
    return Lowered::NotMine;
  p.batches = q[0], p.length = q[1], p.d_k = q[2] / p.q_heads, p.d_v = v[2] / p.heads;
  p.has_past = past != qir::kAbsent, p.has_present = present != qir::kAbsent;
  if (gated)
    p.decay = count_of(l.tensor(decay).shape) == p.batches * p.length * p.heads ? kernels::LinearDecay::Head
                                                                                : kernels::LinearDecay::Key;
  if (corrected)
    p.rate = count_of(l.tensor(rate).shape) == p.batches * p.length * p.heads ? kernels::LinearRate::Head
                                                                              : kernels::LinearRate::Shared;
  const float scale = node.get_float("scale", 0);
  p.scale = scale == 0 ? static_cast<float>(1 / std::sqrt(static_cast<double>(p.d_k))) : scale;
  kernels::Needs needs;
  if (!l.takes(Kernel::LinearAttentionF32, &p, &needs)) return Lowered::NotMine;
  Vector<std::int32_t> read;
  for (const std::int32_t id : {qi, ki, vi, past, decay, rate}) {
    if (id == qir::kAbsent) continue;
    if (static_cast<std::uint64_t>(count_of(l.tensor(id).shape)) * 4 != needs.operand_bytes[read.size()])
      return Lowered::NotMine;
    read.push_back(id);
  }
  Vector<View> views;
  for (const std::int32_t id : read) views.push_back(l.row_major(id));
  for (const std::int32_t id : {yi, present}) {
    if (id == qir::kAbsent) continue;
    views.push_back(l.new_row_major(l.tensor(id).shape, 4));
    l.define(id, views.back());
  }
  Vector<Arg> args;
  for (const View &view : views) args.push_back(arg(view));
  return l.finish(Kernel::LinearAttentionF32, &p, args);
}

}  // namespace quarry::cpu
