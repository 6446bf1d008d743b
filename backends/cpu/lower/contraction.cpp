// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/convolution.h"
#include "backends/cpu/lower/quantized_nodes.h"
#include "backends/cpu/lower/rules.h"
#include "kernels/cpu/shapes/matmul_shape.h"

namespace quarry::cpu {

using kernels::Kernel;
using qir::Op;

namespace {

// A matrix multiplication as a Gemm: MatMul is one of neither side transposed.
struct Product {
  bool a_transposed = false, b_transposed = false;
  float alpha = 1, beta = 1;
  std::int32_t c = qir::kAbsent;
};
Product product_of(const Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  Product p;
  p.alpha = group.scale;
  if (node.op != Op::Gemm) return p;
  p.a_transposed = node.get_int("transA", 0) != 0, p.b_transposed = node.get_int("transB", 0) != 0;
  p.alpha = node.get_float("alpha", 1), p.beta = node.get_float("beta", 1), p.c = l.input(node, 2);
  if (p.beta == 0) p.c = qir::kAbsent;  // not read, whatever it holds
  return p;
}
View turned(const View &view, bool turns) {
  constexpr std::int64_t kTurned[] = {1, 0};
  return turns ? transposed(view, kTurned) : view;
}

// What is added to the sums: a number a column, or a row, or an element.
struct Added {
  Bias bias;
  std::int32_t rows = qir::kAbsent, elements = qir::kAbsent;
  float scale = 1;  // of rows and elements
};
// False: there is more than a step takes, or other shapes.
bool match_added(const Lowering &l, const Group &group, const Product &product, std::int64_t m, std::int64_t n,
                 Added *out) {
  *out = {};
  if (bias_of(l, group, n, product.beta, product.c, &out->bias)) return true;
  if (!l.is_f32(product.c) || !bias_of(l, group, n, 1, qir::kAbsent, &out->bias)) return false;
  out->scale = product.beta;
  const std::int64_t count = count_of(l.tensor(product.c).shape);
  if (count == m * n && group.residual == qir::kAbsent) out->elements = product.c;
  else if (count == m && out->bias.empty()) out->rows = product.c;
  else return false;
  return true;
}
// The tensor times the factor.
Result<View> scaled(Lowering &l, std::int32_t id, float factor) {
  View from = l.row_major(id);
  if (factor == 1) return from;
  const View made = l.new_row_major(from.dims, 4);
  const kernels::UnaryF32 p{count_of(from.dims), {kernels::Act::Linear, factor, 0, 0}};
  QR_RETURN_IF_ERROR(l.emit_step(Kernel::UnaryF32, p, {arg(from), arg(made)}));
  return made;
}
// The tensor that is added element by element, if there is one: Gemm's, or of an Add behind.
Result<View> residual_of(Lowering &l, const Group &group, const Added &added, kernels::Residual *mode) {
  if (added.elements != qir::kAbsent) {
    *mode = kernels::Residual::BeforeAct;
    return scaled(l, added.elements, added.scale);
  }
  if (group.residual == qir::kAbsent) return View();
  *mode = group.residual_mode;
  return l.row_major(group.residual);
}

}  // namespace

// Gemm and MatMul with a constant right side: a convolution of one row.
Result<Lowered> lower_gemm(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1];
  if (!l.is_f32(ai) || !l.is_f32(group.output) || l.constant(ai) || !qir::constant_floats(l.graph(), bi) ||
      l.tensor(bi).shape.size() != 2 || l.tensor(ai).shape.empty())
    return Lowered::NotMine;
  const Product product = product_of(l, group);
  if (product.a_transposed) return Lowered::NotMine;
  const float alpha = node.op == Op::Gemm ? product.alpha : group.scale;
  const std::int64_t k = l.tensor(bi).shape[product.b_transposed ? 1 : 0],
                     n = l.tensor(bi).shape[product.b_transposed ? 0 : 1];
  const std::int64_t m = count_of(l.tensor(ai).shape) / k;
  if (m < 1 || m > 1 << 24 || n > 1 << 24 || k > 1 << 24) return Lowered::NotMine;
  Added added;
  if (!match_added(l, group, product, m, n, &added) || added.rows != qir::kAbsent) return Lowered::NotMine;

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
  p.has_bias = !added.bias.empty();
  QR_ASSIGN_OR_RETURN(const View r, residual_of(l, group, added, &p.residual));
  if (p.residual != kernels::Residual::None) p.r_stride = narrow(n);
  const float *weights = qir::constant_floats(l.graph(), bi);
  Vector<float> scaled_weights;
  if (alpha != 1 && !l.options().dry_run) {
    scaled_weights.assign(weights, weights + n * k);
    for (float &w : scaled_weights) w *= alpha;
    weights = scaled_weights.data();
  }
  choose_numbers(l, &p, weights, n * k);
  const FilterSource filter{{weights, product.b_transposed ? k : 1, product.b_transposed ? 1 : n, 0, 0}, n * k, {}};
  const View y = l.new_row_major(l.tensor(group.output).shape, 4);
  l.define(group.output, y);
  return done(emit_gemm(l, p, *a, filter, added.bias, y, p.residual == kernels::Residual::None ? nullptr : &r));
}

namespace {

// Where a step begins in both operands and in y.
struct Begin {
  std::int64_t a = 0, b = 0, y = 0;
};
// The loops over the matrices: of neighbours that are walked as one, one; those that a step has no room for, the
// outermost, become steps of their own.
struct Batches {
  struct Loop {
    std::int64_t count, a, b, y;
  };
  Vector<Loop> loops;

  void add(const Loop &inner) {  // behind those there
    if (inner.count == 1) return;
    if (!loops.empty()) {
      Loop &outer = loops.back();
      if (outer.a == inner.a * inner.count && outer.b == inner.b * inner.count && outer.y == inner.y * inner.count) {
        outer = {outer.count * inner.count, inner.a, inner.b, inner.y};
        return;
      }
    }
    loops.push_back(inner);
  }
  // False: there would be too many steps.
  template <class P>
  bool take(P *p, Vector<Begin> *begins) const {
    constexpr std::size_t kMostSteps = 256;
    *begins = {Begin()};
    const std::size_t apart = loops.size() > kernels::kBatchRank ? loops.size() - kernels::kBatchRank : 0;
    for (std::size_t i = 0; i < apart; ++i) {
      if (loops[i].count > static_cast<std::int64_t>(kMostSteps / begins->size())) return false;
      Vector<Begin> more;
      for (const Begin &at : *begins)
        for (std::int64_t n = 0; n < loops[i].count; ++n)
          more.push_back({at.a + n * loops[i].a, at.b + n * loops[i].b, at.y + n * loops[i].y});
      *begins = std::move(more);
    }
    const std::size_t lead = kernels::kBatchRank - (loops.size() - apart);
    for (std::size_t i = apart; i < loops.size(); ++i) {
      const std::size_t d = lead + i - apart;
      p->batch[d] = loops[i].count;
      p->a_batch[d] = loops[i].a, p->b_batch[d] = loops[i].b, p->y_batch[d] = loops[i].y;
    }
    return true;
  }
};

// Dimensions and strides of batches of matrix multiplications, with y row-major; false where there are too many
// dimensions. wide_a, wide_b: the operands for all batches. A vector is a matrix of one row, or of one column. One step
// for each of `begins`.
template <class P>
bool matmul_strides(View a, View b, Dims out, View *wide_a, View *wide_b, P *p, Vector<Begin> *begins) {
  if (b.rank() == 1) b.dims.push_back(1), b.strides.push_back(0), out.push_back(1);
  if (a.rank() == 1)
    a.dims.insert(a.dims.begin(), 1), a.strides.insert(a.strides.begin(), 0), out.insert(out.end() - 1, 1);
  if (a.rank() < 2 || b.rank() < 2) return false;
  const std::size_t row = out.size() - 2, col = out.size() - 1;
  p->m = a.dims[a.rank() - 2], p->k = a.dims[a.rank() - 1], p->n = b.dims[b.rank() - 1];
  Dims a_dims(out.begin(), out.end()), b_dims = a_dims;
  a_dims[col] = p->k;
  b_dims[row] = p->k;
  *wide_a = broadcast(a, a_dims), *wide_b = broadcast(b, b_dims);
  const Dims y = row_major(out);
  Batches batches;
  for (std::size_t d = 0; d < row; ++d) batches.add({out[d], wide_a->strides[d], wide_b->strides[d], y[d]});
  p->a_row = wide_a->strides[row], p->a_col = wide_a->strides[col];
  p->b_row = wide_b->strides[row], p->b_col = wide_b->strides[col], p->y_row = y[row];
  return batches.take(p, begins);
}

View moved(View view, std::int64_t by) {
  view.offset += by;
  return view;
}

}  // namespace

// Of f32, neither side packed beforehand: MatMul, and Gemm of sides that may be transposed.
Result<Lowered> lower_batched_matmul(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1];
  if (!l.is_f32(ai) || !l.is_f32(bi) || !l.is_f32(group.output)) return Lowered::NotMine;
  const Product product = product_of(l, group);
  kernels::MatMulF32 p;
  View wide_a, wide_b;
  Vector<Begin> begins;
  Added added;
  if (!matmul_strides(turned(l.peek(ai), product.a_transposed), turned(l.peek(bi), product.b_transposed),
                      l.tensor(node.outputs[0]).shape, &wide_a, &wide_b, &p, &begins) ||
      !match_added(l, group, product, p.m, p.n, &added))
    return Lowered::NotMine;
  wide_a.value = l.any(ai).value, wide_b.value = l.any(bi).value;
  const View y = l.new_row_major(l.tensor(group.output).shape, 4);
  l.define(group.output, y);
  p.act = group.act;
  p.alpha = product.alpha;
  View bias;
  if (added.rows != qir::kAbsent) {
    p.has_bias = kernels::kBiasPerRow;
    QR_ASSIGN_OR_RETURN(bias, scaled(l, added.rows, added.scale));
  } else if (!added.bias.empty()) {
    p.has_bias = 1;
    QR_RETURN_IF_ERROR(bias_operand(l, added.bias, static_cast<std::uint64_t>(p.n) * 4, &bias));
  }
  QR_ASSIGN_OR_RETURN(const View r, residual_of(l, group, added, &p.residual));
  for (const Begin &at : begins) {
    const View from_a = moved(wide_a, at.a), from_b = moved(wide_b, at.b), from_r = moved(r, at.y), to = moved(y, at.y);
    Vector<Arg> args{arg(from_a), arg(from_b)};
    if (p.has_bias) args.push_back(arg(bias));
    if (p.residual != kernels::Residual::None) args.push_back(arg(from_r));
    args.push_back(arg(to));
    QR_RETURN_IF_ERROR(l.emit(Kernel::MatMulF32, &p, args));
  }
  return Lowered::Done;
}

// Matrix multiplications of f64 and of integers that wrap around; Gemm of them where nothing is scaled.
Result<Lowered> lower_matmul_wide(Lowering &l, const qir::Node &node) {
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1], yi = node.outputs[0];
  const DType dtype = l.tensor(ai).dtype;
  if ((dtype != DType::F64 && dtype != DType::I32 && dtype != DType::U32 && dtype != DType::I64 && dtype != DType::U64))
    return Lowered::NotMine;
  const bool gemm = node.op == Op::Gemm;
  const bool a_transposed = gemm && node.get_int("transA", 0) != 0,
             b_transposed = gemm && node.get_int("transB", 0) != 0;
  const std::int32_t ci = gemm ? l.input(node, 2) : qir::kAbsent;
  if (gemm && (node.get_float("alpha", 1) != 1 || node.get_float("beta", 1) != 1)) return Lowered::NotMine;
  for (const std::int32_t id : {ai, bi, ci, yi})
    if (id != qir::kAbsent && (l.tensor(id).quant || l.tensor(id).dtype != dtype)) return Lowered::NotMine;
  kernels::MatMulWide p;
  View a, b;
  Vector<Begin> begins;
  if (!matmul_strides(turned(l.peek(ai), a_transposed), turned(l.peek(bi), b_transposed), l.tensor(yi).shape, &a, &b,
                      &p, &begins))
    return Lowered::NotMine;
  a.value = l.any(ai).value, b.value = l.any(bi).value;
  p.dtype = static_cast<std::uint32_t>(dtype);
  const std::uint64_t each = l.width(ai);
  const View y = l.new_row_major(l.tensor(yi).shape, each);
  l.define(yi, y);
  for (const Begin &at : begins) {
    const View from_a = moved(a, at.a), from_b = moved(b, at.b), to = moved(y, at.y);
    QR_RETURN_IF_ERROR(l.emit_step(Kernel::MatMulWide, p, {arg(from_a, each), arg(from_b, each), arg(to, each)}));
  }
  if (ci == qir::kAbsent) return Lowered::Done;
  const View c = broadcast(l.row_major(ci), y.dims);
  kernels::Elements sum;
  sum.dtype = p.dtype;
  const View *const operands[] = {&y, &c};
  return done(emit_elements(l, sum, operands, y));
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
  Vector<Begin> begins;
  if (!matmul_strides(l.peek(ai), l.peek(bi), l.tensor(yi).shape, &a, &b, &p, &begins)) return Lowered::NotMine;
  a.value = l.any(ai).value, b.value = l.any(bi).value;
  p.a_dtype = static_cast<std::uint32_t>(l.tensor(ai).dtype),
  p.b_dtype = static_cast<std::uint32_t>(l.tensor(bi).dtype);
  View zeros[2];
  Vector<Arg> zero_args;
  const auto take = [&](std::int32_t id, View *view, kernels::ByteZeros *form) {
    if (id == qir::kAbsent) return;
    *form = count_of(l.tensor(id).shape) == 1 ? kernels::ByteZeros::One : kernels::ByteZeros::Each;
    *view = l.row_major(id);
    zero_args.push_back(arg(*view, 1));
  };
  take(a_zeros, &zeros[0], &p.a_zeros), take(b_zeros, &zeros[1], &p.b_zeros);
  const View y = l.new_row_major(l.tensor(yi).shape, 4);
  l.define(yi, y);
  for (const Begin &at : begins) {
    const View from_a = moved(a, at.a), from_b = moved(b, at.b), to = moved(y, at.y);
    Vector<Arg> args{arg(from_a, 1), arg(from_b, 1)};
    args.insert(args.end(), zero_args.begin(), zero_args.end());
    args.push_back(arg(to));
    QR_RETURN_IF_ERROR(l.emit(Kernel::MatMulInt, &p, args));
  }
  return Lowered::Done;
}

// Weights stay as the file has them. Accuracy level 4 lets x be rounded to bytes.
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
  const Kernel kernel = node.get_int("accuracy_level", 0) == 4 && kernels::bytes_pay(p, l.isa())
                            ? Kernel::MatMulBlocksBytes
                            : Kernel::MatMulBlocks;
  kernels::Needs needs;
  if (!l.takes(kernel, &p, &needs)) return Lowered::NotMine;
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
  return l.finish(kernel, &p, args);
}

}  // namespace quarry::cpu
