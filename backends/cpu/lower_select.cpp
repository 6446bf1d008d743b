// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements: by their order, or by indices for each.
#include <algorithm>

#include "backends/cpu/lowering.h"
#include "formats/qir/infer.h"

namespace quarry::cpu {

using kernels::Kernel;

Status Lowering::lower_top_k(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0];
  const qir::Tensor &x = tensor(xi);
  const auto k = integers(input(node, 1));
  if (!k || k->size() != 1 || width(xi) == 0 || x.shape.empty() || (x.quant && !x.quant->per_tensor())) return {};
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), x.shape.size(), &axis));
  kernels::TopK p;
  p.n = x.shape[axis], p.k = (*k)[0];
  for (std::size_t d = 0; d < axis; ++d) p.outer *= x.shape[d];
  for (std::size_t d = axis + 1; d < x.shape.size(); ++d) p.inner *= x.shape[d];
  p.dtype = static_cast<std::uint32_t>(x.dtype), p.least = node.get_int("largest", 1) == 0;
  const std::int32_t values = node.outputs[0], indices = node.outputs.size() > 1 ? node.outputs[1] : qir::kAbsent;
  p.has_values = values != qir::kAbsent, p.has_indices = indices != qir::kAbsent;
  if (p.has_values && (tensor(values).dtype != x.dtype || tensor(values).quant != x.quant)) return {};
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::TopK).check(&p, *plan_.isa, needs).ok()) return {};
  const View from = row_major(xi);
  Vector<Arg> args{arg(from, width(xi))};
  View to[2];
  for (const std::int32_t id : {values, indices}) {
    if (id == qir::kAbsent) continue;
    View &view = to[id == values ? 0 : 1];
    view = new_row_major(tensor(id).shape, width(id));
    define(id, view);
    args.push_back(arg(view, width(id)));
  }
  *done = true;
  return emit(Kernel::TopK, &p, args);
}

Status Lowering::lower_gather_elements(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], yi = node.outputs[0];
  const qir::Tensor &x = tensor(xi), &y = tensor(yi);
  const qir::Shape &picked = tensor(ii).shape;
  if (width(xi) == 0 || width(xi) > 8 || y.dtype != x.dtype || y.quant != x.quant ||
      (x.quant && !x.quant->per_tensor()) || picked.size() != x.shape.size() || picked != y.shape ||
      (tensor(ii).dtype != DType::I64 && tensor(ii).dtype != DType::I32))
    return {};
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), x.shape.size(), &axis));
  kernels::GatherElements p;
  p.rows = x.shape[axis], p.count = picked[axis];
  // Along the other axes the table may have more than the indices, which nobody asks for.
  bool whole = true;
  for (std::size_t d = 0; d < picked.size(); ++d) {
    if (d == axis) continue;
    if (picked[d] > x.shape[d]) return {};  // cpu-reference says what is wrong
    whole &= picked[d] == x.shape[d];
    (d < axis ? p.outer : p.inner) *= picked[d];
  }
  p.width = static_cast<std::uint32_t>(width(xi)), p.index_bytes = static_cast<std::uint32_t>(width(ii));
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::GatherElements).check(&p, *plan_.isa, needs).ok()) return {};
  View table = row_major(xi);
  if (!whole) {
    View part = table;
    for (std::size_t d = 0; d < picked.size(); ++d)
      if (d != axis) part = sliced(part, d, 0, picked[d]);
    table = new_row_major(part.dims, p.width);
    copy(part, table, p.width, xi);
  }
  const View index = row_major(ii), to = new_row_major(picked, p.width);
  define(yi, to);
  *done = true;
  return emit_step(Kernel::GatherElements, p, {arg(table, p.width), arg(index, width(ii)), arg(to, p.width)});
}

// Rows that are replaced, of elements of any type; what is reduced into them is cpu-reference's.
Status Lowering::lower_scatter_rows(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], ui = node.inputs[2], yi = node.outputs[0];
  const qir::Tensor &x = tensor(xi), &indices = tensor(ii), &updates = tensor(ui);
  if (node.get_string("reduction", "none") != "none" || width(xi) == 0 || indices.dtype != DType::I64 ||
      tensor(yi).dtype != x.dtype || updates.dtype != x.dtype || updates.quant != x.quant ||
      tensor(yi).quant != x.quant || (x.quant && !x.quant->per_tensor()) || indices.shape.empty())
    return {};
  const auto length = static_cast<std::size_t>(indices.shape.back());
  if (length < 1 || length > x.shape.size() || length > kernels::kCopyRank) return {};
  kernels::ScatterRows p;
  const auto each = static_cast<std::int64_t>(width(xi));
  p.bytes = count_of(x.shape) * each, p.tuples = count_of(indices.shape) / indices.shape.back();
  p.length = static_cast<std::uint32_t>(length);
  p.row_bytes = each;
  for (std::size_t d = x.shape.size(); d-- > 0;) {
    if (d < length) p.dims[d] = x.shape[d], p.steps[d] = p.row_bytes;
    if (d < length) {
      for (std::size_t e = d + 1; e < length; ++e) p.steps[d] *= x.shape[e];
    } else {
      p.row_bytes *= x.shape[d];
    }
  }
  kernels::Needs needs;
  if (count_of(updates.shape) * each != p.tuples * p.row_bytes ||
      !kernels::kernel_row(Kernel::ScatterRows).check(&p, *plan_.isa, needs).ok())
    return {};  // cpu-reference says what is wrong
  const View from = row_major(xi), index = row_major(ii), rows = row_major(ui), to = new_row_major(x.shape, width(xi));
  define(yi, to);
  *done = true;
  return emit_step(Kernel::ScatterRows, p,
                   {arg(from, width(xi)), arg(index, 8), arg(rows, width(xi)), arg(to, width(xi))});
}

// Of rows whose elements are neighbours.
Status Lowering::lower_arg_extreme(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const qir::Shape &shape = tensor(xi).shape;
  if (!is_f32(xi) || shape.empty()) return {};
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), shape.size(), &axis));
  for (std::size_t d = axis + 1; d < shape.size(); ++d)
    if (shape[d] != 1) return {};
  kernels::ArgExtremeF32 p;
  p.cols = shape[axis], p.rows = count_of(shape) / p.cols;
  p.least = node.op == qir::Op::ArgMin, p.last = node.get_int("select_last_index", 0) != 0;
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::ArgExtremeF32).check(&p, *plan_.isa, needs).ok()) return {};
  const View x = row_major(xi), y = new_row_major(tensor(yi).shape, 8);
  define(yi, y);
  *done = true;
  return emit_step(Kernel::ArgExtremeF32, p, {arg(x), arg(y, 8)});
}

}  // namespace quarry::cpu
