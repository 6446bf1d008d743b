// SPDX-License-Identifier: Apache-2.0
// Operators along lines of a tensor, and products with weights in blocks.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"

namespace quarry::cpu {

using kernels::BinaryOp;
using kernels::Kernel;
using qir::Op;

// CumSum, CumProd.
Status Lowering::lower_cumulate(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const DType dtype = tensor(xi).dtype;
  const auto axis_given = integers(input(node, 1));
  if (!axis_given || axis_given->size() != 1 || tensor(xi).quant || tensor(yi).quant || tensor(yi).dtype != dtype)
    return {};
  std::size_t axis;
  const qir::Shape &shape = tensor(xi).shape;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, (*axis_given)[0], shape.size(), &axis));
  kernels::Cumulate p;
  p.n = shape[axis];
  for (std::size_t d = 0; d < axis; ++d) p.outer *= shape[d];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) p.inner *= shape[d];
  p.dtype = static_cast<std::uint32_t>(dtype), p.product = node.op == Op::CumProd;
  p.exclusive = node.get_int("exclusive", 0) != 0, p.backwards = node.get_int("reverse", 0) != 0;
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::Cumulate).check(&p, *plan_.isa, needs).ok()) return {};
  const View x = row_major(xi), y = new_row_major(shape, width(xi));
  define(yi, y);
  *done = true;
  return emit_step(Kernel::Cumulate, p, {arg(x, width(xi)), arg(y, width(xi))});
}

Status Lowering::lower_rotary(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], ci = node.inputs[1], si = node.inputs[2], pi = input(node, 3),
                     yi = node.outputs[0];
  const qir::Shape &shape = tensor(xi).shape;
  if (!is_f32(xi) || !is_f32(ci) || !is_f32(si) || !is_f32(yi) || (shape.size() != 3 && shape.size() != 4) ||
      (pi != qir::kAbsent && tensor(pi).dtype != DType::I64))
    return {};
  const bool packed = shape.size() == 3;
  kernels::RotaryF32 p;
  p.batches = shape[0], p.length = shape[packed ? 1 : 2];
  p.heads = packed ? node.get_int("num_heads", 0) : shape[1];
  if (p.heads < 1 || (packed && shape[2] % p.heads != 0)) return {};  // cpu-reference says what is wrong
  p.size = packed ? shape[2] / p.heads : shape[3];
  const std::int64_t asked = node.get_int("rotary_embedding_dim", 0), turned = asked == 0 ? p.size : asked;
  if (turned < 2 || turned > p.size || turned % 2 != 0) return {};
  p.half = turned / 2;
  p.interleaved = node.get_int("interleaved", 0) != 0;
  p.has_positions = pi != qir::kAbsent;
  const qir::Shape &table = tensor(ci).shape;
  const qir::Shape expected =
      p.has_positions ? qir::Shape{table.empty() ? 0 : table[0], p.half} : qir::Shape{p.batches, p.length, p.half};
  if (table != expected || tensor(si).shape != expected ||
      (p.has_positions && count_of(tensor(pi).shape) != p.batches * p.length))
    return {};
  if (p.has_positions) p.positions = table[0];
  // As x lies, where its rows are whole; a transpose in front of it (heads first) costs nothing then.
  View x = any(xi);
  if (x.strides.back() != 1 || !is_dense(x)) x = row_major(xi);
  const View y = new_like(x, 4);
  const auto strides = [&](const View &view, std::int64_t *out) {
    const Dims &s = view.strides;
    out[0] = s[0], out[1] = packed ? p.size : s[1], out[2] = packed ? s[1] : s[2];
    const std::int64_t extents[] = {p.batches, p.heads, p.length};
    for (int i = 0; i < 3; ++i)
      if (extents[i] == 1) out[i] = 0;
  };
  strides(x, p.x), strides(y, p.y);
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::RotaryF32).check(&p, *plan_.isa, needs).ok()) return {};
  Vector<Arg> args{arg(x)};
  const View cosines = row_major(ci), sines = row_major(si);
  args.push_back(arg(cosines)), args.push_back(arg(sines));
  View positions;
  if (p.has_positions) args.push_back(arg(positions = row_major(pi), 8));
  args.push_back(arg(y));
  define(yi, y);
  *done = true;
  return emit(Kernel::RotaryF32, &p, args);
}

// Weights stay as the file has them.
Status Lowering::lower_matmul_blocks(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1], si = node.inputs[2], zi = input(node, 3),
                     bi = input(node, 5), yi = node.outputs[0];
  if (!is_f32(xi) || !is_f32(yi) || !constant(wi) || tensor(wi).dtype != DType::U8 || !is_f32(si) ||
      input(node, 4) != qir::kAbsent || (bi != qir::kAbsent && !is_f32(bi)))
    return {};
  kernels::MatMulBlocks p;
  p.k = node.get_int("K", 0), p.n = node.get_int("N", 0);
  const std::int64_t bits = node.get_int("bits", 4), block = node.get_int("block_size", 0);
  if (p.k < 1 || p.n < 1 || bits < 2 || bits > 8 || block < 16 || block > kernels::kMostBlock ||
      tensor(xi).shape.empty() || tensor(xi).shape.back() != p.k)
    return {};
  p.m = count_of(tensor(xi).shape) / p.k;
  p.bits = static_cast<std::uint32_t>(bits), p.block = static_cast<std::uint32_t>(block);
  if (zi != qir::kAbsent) {
    if (tensor(zi).dtype == DType::U8) p.zeros = kernels::BlockZeros::Packed;
    else if (is_f32(zi)) p.zeros = kernels::BlockZeros::F32;
    else return {};
  }
  p.has_bias = bi != qir::kAbsent;
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::MatMulBlocks).check(&p, *plan_.isa, needs).ok()) return {};
  const std::int32_t operands[] = {xi, wi, si, zi, bi};
  Vector<View> views;
  Vector<std::uint64_t> widths;
  for (const std::int32_t id : operands) {
    if (id == qir::kAbsent) continue;
    const std::uint64_t bytes = static_cast<std::uint64_t>(count_of(tensor(id).shape)) * width(id);
    if (bytes != needs.operand_bytes[views.size()]) return {};  // cpu-reference says what is wrong
    views.push_back(row_major(id));
    widths.push_back(width(id));
  }
  const View y = new_row_major(tensor(yi).shape, 4);
  define(yi, y);
  Vector<Arg> args;
  for (std::size_t i = 0; i < views.size(); ++i) args.push_back(arg(views[i], widths[i]));
  args.push_back(arg(y));
  *done = true;
  return emit(Kernel::MatMulBlocks, &p, args);
}

Status Lowering::lower_linear_attention(const qir::Node &node, bool *done) {
  const std::int32_t qi = node.inputs[0], ki = node.inputs[1], vi = node.inputs[2], past = input(node, 3),
                     decay = input(node, 4), rate = input(node, 5), yi = node.outputs[0],
                     present = node.outputs.size() > 1 ? node.outputs[1] : qir::kAbsent;
  for (const std::int32_t id : {qi, ki, vi, yi})
    if (!is_f32(id)) return {};
  for (const std::int32_t id : {past, decay, rate, present})
    if (id != qir::kAbsent && !is_f32(id)) return {};
  const std::string_view rule = node.get_string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", corrected = rule == "delta" || rule == "gated_delta";
  const qir::Shape &q = tensor(qi).shape, &v = tensor(vi).shape;
  kernels::LinearAttentionF32 p;
  p.q_heads = node.get_int("q_num_heads", 0), p.heads = node.get_int("kv_num_heads", 0);
  // (Where something does not fit cpu-reference says so.)
  if (p.heads < 1 || p.q_heads < 1 || p.q_heads % p.heads != 0 || q.size() != 3 || v.size() != 3 ||
      q[2] % p.q_heads != 0 || v[2] % p.heads != 0 || gated != (decay != qir::kAbsent) ||
      corrected != (rate != qir::kAbsent))
    return {};
  p.batches = q[0], p.length = q[1], p.d_k = q[2] / p.q_heads, p.d_v = v[2] / p.heads;
  p.has_past = past != qir::kAbsent, p.has_present = present != qir::kAbsent;
  if (gated)
    p.decay = count_of(tensor(decay).shape) == p.batches * p.length * p.heads ? kernels::LinearDecay::Head
                                                                              : kernels::LinearDecay::Key;
  if (corrected)
    p.rate = count_of(tensor(rate).shape) == p.batches * p.length * p.heads ? kernels::LinearRate::Head
                                                                            : kernels::LinearRate::Shared;
  const float scale = node.get_float("scale", 0);
  p.scale = scale == 0 ? static_cast<float>(1 / std::sqrt(static_cast<double>(p.d_k))) : scale;
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::LinearAttentionF32).check(&p, *plan_.isa, needs).ok()) return {};
  Vector<View> views;
  for (const std::int32_t id : {qi, ki, vi, past, decay, rate}) {
    if (id == qir::kAbsent) continue;
    if (static_cast<std::uint64_t>(count_of(tensor(id).shape)) * 4 != needs.operand_bytes[views.size()]) return {};
    views.push_back(row_major(id));
  }
  for (const std::int32_t id : {yi, present}) {
    if (id == qir::kAbsent) continue;
    views.push_back(new_row_major(tensor(id).shape, 4));
    define(id, views.back());
  }
  Vector<Arg> args;
  for (const View &view : views) args.push_back(arg(view));
  *done = true;
  return emit(Kernel::LinearAttentionF32, &p, args);
}

}  // namespace quarry::cpu
