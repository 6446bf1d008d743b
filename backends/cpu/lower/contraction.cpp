// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/convolution.h"
#include "backends/cpu/lower/quantized_nodes.h"
#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

using kernels::Kernel;
using qir::Op;

// Gemm and MatMul with a constant right side: a convolution of one row.
Result<Lowered> lower_gemm(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1];
  if (!l.is_f32(ai) || !l.is_f32(group.output) || l.constant(ai) || !qir::constant_floats(l.graph(), bi) ||
      l.tensor(bi).shape.size() != 2 || l.tensor(ai).shape.empty())
    return Lowered::NotMine;
  const bool gemm = node.op == Op::Gemm;
  if (gemm && node.get_int("transA", 0) != 0) return Lowered::NotMine;
  const bool b_transposed = gemm && node.get_int("transB", 0) != 0;
  const float alpha = gemm ? node.get_float("alpha", 1) : group.scale, beta = gemm ? node.get_float("beta", 1) : 1;
  const std::int64_t k = l.tensor(bi).shape[b_transposed ? 1 : 0], n = l.tensor(bi).shape[b_transposed ? 0 : 1];
  const std::int64_t m = count_of(l.tensor(ai).shape) / k;
  if (m < 1 || m > 1 << 24 || n > 1 << 24 || k > 1 << 24) return Lowered::NotMine;
  Vector<float> bias;
  if (!bias_of(l, group, n, beta, gemm ? l.input(node, 2) : qir::kAbsent, &bias)) return Lowered::NotMine;

  // Rows at even distances, columns adjacent.
  std::optional<View> a;
  l.any(ai);
  for (const View &form : l.forms(ai)) {
    a = reshaped(form, {m, k});
    if (a && (k == 1 || a->strides[1] == 1) && (m == 1 || a->strides[0] >= k) && a->strides[0] <= INT32_MAX) break;
    a.reset();
  }
  if (!a) a = reshaped(l.row_major(ai), {m, k});
  kernels::ConvF32 p;
  p.window.iw = p.window.ow = narrow(m);
  p.ic = narrow(k), p.oc = narrow(n);
  p.x_stride = narrow(m == 1 ? k : a->strides[0]), p.y_stride = narrow(n);
  p.act = group.act;
  p.has_bias = !bias.empty();
  View r;
  if (group.residual != qir::kAbsent) {
    r = l.row_major(group.residual);
    p.r_stride = narrow(n), p.residual = group.residual_mode;
  }
  const float *weights = qir::constant_floats(l.graph(), bi);
  Vector<float> scaled;
  if (alpha != 1 && !l.options().dry_run) {
    scaled.assign(weights, weights + n * k);
    for (float &w : scaled) w *= alpha;
    weights = scaled.data();
  }
  choose_numbers(l, &p, weights, n * k);
  const kernels::FilterView<float> filter{weights, b_transposed ? k : 1, b_transposed ? 1 : n, 0, 0};
  const View y = l.new_row_major(l.tensor(group.output).shape, 4);
  l.define(group.output, y);
  return done(emit_gemm(l, p, *a, filter, bias, y, group.residual == qir::kAbsent ? nullptr : &r));
}

namespace {

// Dimensions and strides of batches of matrix multiplications, with y row-major; false where there are too many
// dimensions. wide_a, wide_b: the operands for all batches. A vector is a matrix of one row, or of one column.
template <class P>
bool matmul_strides(View a, View b, Dims out, View *wide_a, View *wide_b, P *p) {
  if (b.rank() == 1) b.dims.push_back(1), b.strides.push_back(0), out.push_back(1);
  if (a.rank() == 1)
    a.dims.insert(a.dims.begin(), 1), a.strides.insert(a.strides.begin(), 0), out.insert(out.end() - 1, 1);
  if (a.rank() < 2 || b.rank() < 2 || out.size() - 2 > kernels::kBatchRank) return false;
  const std::size_t row = out.size() - 2, col = out.size() - 1, lead = kernels::kBatchRank - row;
  p->m = a.dims[a.rank() - 2], p->k = a.dims[a.rank() - 1], p->n = b.dims[b.rank() - 1];
  Dims a_dims(out.begin(), out.end()), b_dims = a_dims;
  a_dims[col] = p->k;
  b_dims[row] = p->k;
  *wide_a = broadcast(a, a_dims), *wide_b = broadcast(b, b_dims);
  const Dims y = row_major(out);
  for (std::size_t d = 0; d < row; ++d) {
    p->batch[lead + d] = out[d];
    p->a_batch[lead + d] = wide_a->strides[d], p->b_batch[lead + d] = wide_b->strides[d], p->y_batch[lead + d] = y[d];
  }
  p->a_row = wide_a->strides[row], p->a_col = wide_a->strides[col];
  p->b_row = wide_b->strides[row], p->b_col = wide_b->strides[col], p->y_row = y[row];
  return true;
}

}  // namespace

Result<Lowered> lower_batched_matmul(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1];
  if (!l.is_f32(ai) || !l.is_f32(bi) || !l.is_f32(group.output)) return Lowered::NotMine;
  kernels::MatMulF32 p;
  View wide_a, wide_b;
  if (!matmul_strides(l.peek(ai), l.peek(bi), l.tensor(node.outputs[0]).shape, &wide_a, &wide_b, &p))
    return Lowered::NotMine;
  Vector<float> bias;
  if (!bias_of(l, group, p.n, 1, qir::kAbsent, &bias)) return Lowered::NotMine;
  wide_a.value = l.any(ai).value, wide_b.value = l.any(bi).value;
  const View y = l.new_row_major(l.tensor(group.output).shape, 4);
  l.define(group.output, y);
  p.act = group.act;
  p.alpha = group.scale;
  p.has_bias = !bias.empty();
  Vector<Arg> args{arg(wide_a), arg(wide_b)};
  View bias_view, r;
  if (!bias.empty()) {
    bias_view = l.constant_floats(bias, {p.n});
    args.push_back(arg(bias_view));
  }
  if (group.residual != qir::kAbsent) {
    r = l.row_major(group.residual);
    p.residual = group.residual_mode;
    args.push_back(arg(r));
  }
  args.push_back(arg(y));
  return l.finish(Kernel::MatMulF32, &p, args);
}

// Matrix multiplications of f64 and of integers that wrap around.
Result<Lowered> lower_matmul_wide(Lowering &l, const qir::Node &node) {
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1], yi = node.outputs[0];
  const DType dtype = l.tensor(ai).dtype;
  if ((dtype != DType::F64 && dtype != DType::I32 && dtype != DType::U32 && dtype != DType::I64 && dtype != DType::U64))
    return Lowered::NotMine;
  for (const std::int32_t id : {ai, bi, yi})
    if (l.tensor(id).quant || l.tensor(id).dtype != dtype) return Lowered::NotMine;
  kernels::MatMulWide p;
  View a, b;
  if (!matmul_strides(l.peek(ai), l.peek(bi), l.tensor(yi).shape, &a, &b, &p)) return Lowered::NotMine;
  a.value = l.any(ai).value, b.value = l.any(bi).value;
  p.dtype = static_cast<std::uint32_t>(dtype);
  const std::uint64_t each = l.width(ai);
  const View y = l.new_row_major(l.tensor(yi).shape, each);
  l.define(yi, y);
  return l.finish_step(Kernel::MatMulWide, p, {arg(a, each), arg(b, each), arg(y, each)});
}

Result<Lowered> lower_distances(Lowering &l, const qir::Node &node) {
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1], yi = node.outputs[0];
  const qir::Shape &a_shape = l.tensor(ai).shape, &y_shape = l.tensor(yi).shape;
  if (!l.is_f32(ai) || !l.is_f32(bi) || !l.is_f32(yi)) return Lowered::NotMine;
  kernels::DistanceF32 p;
  p.m = y_shape[0], p.n = y_shape[1], p.k = a_shape[1];
  p.root = node.get_string("metric", "sqeuclidean") == "euclidean";
  if (!l.takes(Kernel::DistanceF32, &p)) return Lowered::NotMine;
  const View a = l.row_major(ai), b = l.row_major(bi), y = l.new_row_major(y_shape, 4);
  l.define(yi, y);
  return l.finish_step(Kernel::DistanceF32, p, {arg(a), arg(b), arg(y)});
}

// Bytes whose sums stay integers, neither side packed beforehand.
Result<Lowered> lower_matmul_int(Lowering &l, const qir::Node &node) {
  if (!integer_matrices(l.graph(), node)) return Lowered::NotMine;
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1], yi = node.outputs[0], a_zeros = l.input(node, 2),
                     b_zeros = l.input(node, 3);
  kernels::MatMulInt p;
  View a, b;
  if (!matmul_strides(l.peek(ai), l.peek(bi), l.tensor(yi).shape, &a, &b, &p)) return Lowered::NotMine;
  a.value = l.any(ai).value, b.value = l.any(bi).value;
  p.a_dtype = static_cast<std::uint32_t>(l.tensor(ai).dtype),
  p.b_dtype = static_cast<std::uint32_t>(l.tensor(bi).dtype);
  Vector<Arg> args{arg(a, 1), arg(b, 1)};
  View zeros[2];
  const auto take = [&](std::int32_t id, View *view, kernels::ByteZeros *form) {
    if (id == qir::kAbsent) return;
    *form = count_of(l.tensor(id).shape) == 1 ? kernels::ByteZeros::One : kernels::ByteZeros::Each;
    *view = l.row_major(id);
    args.push_back(arg(*view, 1));
  };
  take(a_zeros, &zeros[0], &p.a_zeros), take(b_zeros, &zeros[1], &p.b_zeros);
  const View y = l.new_row_major(l.tensor(yi).shape, 4);
  l.define(yi, y);
  args.push_back(arg(y));
  return l.finish(Kernel::MatMulInt, &p, args);
}

// Weights stay as the file has them.
Result<Lowered> lower_matmul_blocks(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1], si = node.inputs[2], zi = l.input(node, 3),
                     bi = l.input(node, 5), yi = node.outputs[0];
  if (!l.is_f32(xi) || !l.is_f32(yi) || !l.constant(wi) || l.tensor(wi).dtype != DType::U8 || !l.is_f32(si) ||
      l.input(node, 4) != qir::kAbsent || (bi != qir::kAbsent && !l.is_f32(bi)))
    return Lowered::NotMine;
  kernels::MatMulBlocks p;
  p.k = node.get_int("K", 0), p.n = node.get_int("N", 0);
  const std::int64_t bits = node.get_int("bits", 4), block = node.get_int("block_size", 0);
  if (p.k < 1 || p.n < 1 || bits < 2 || bits > 8 || block < 16 || block > kernels::kMostBlock ||
      l.tensor(xi).shape.empty() || l.tensor(xi).shape.back() != p.k)
    return Lowered::NotMine;
  p.m = count_of(l.tensor(xi).shape) / p.k;
  p.bits = static_cast<std::uint32_t>(bits), p.block = static_cast<std::uint32_t>(block);
  if (zi != qir::kAbsent) {
    if (l.tensor(zi).dtype == DType::U8) p.zeros = kernels::BlockZeros::Packed;
    else if (l.is_f32(zi)) p.zeros = kernels::BlockZeros::F32;
    else return Lowered::NotMine;
  }
  p.has_bias = bi != qir::kAbsent;
  kernels::Needs needs;
  if (!l.takes(Kernel::MatMulBlocks, &p, &needs)) return Lowered::NotMine;
  const std::int32_t operands[] = {xi, wi, si, zi, bi};
  Vector<std::int32_t> read;
  for (const std::int32_t id : operands) {
    if (id == qir::kAbsent) continue;
    const std::uint64_t bytes = static_cast<std::uint64_t>(count_of(l.tensor(id).shape)) * l.width(id);
    if (bytes != needs.operand_bytes[read.size()]) return Lowered::NotMine;  // cpu-reference says what is wrong
    read.push_back(id);
  }
  Vector<View> views;
  for (const std::int32_t id : read) views.push_back(l.row_major(id));
  const View y = l.new_row_major(l.tensor(yi).shape, 4);
  l.define(yi, y);
  Vector<Arg> args;
  for (std::size_t i = 0; i < views.size(); ++i) args.push_back(arg(views[i], l.width(read[i])));
  args.push_back(arg(y));
  return l.finish(Kernel::MatMulBlocks, &p, args);
}

}  // namespace quarry::cpu
