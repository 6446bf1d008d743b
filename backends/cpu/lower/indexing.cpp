// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements: by their order, or by indices for each.
#include <algorithm>

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"
#include "kernels/cpu/element_types.h"

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

namespace {

// What the attribute `reduction` says; Select: none.
std::optional<kernels::ElementOp> combination(const qir::Node &node) {
  const std::string_view name = node.get_string("reduction", "none");
  if (name == "none") return kernels::ElementOp::Select;
  if (name == "add") return kernels::ElementOp::Add;
  if (name == "mul") return kernels::ElementOp::Mul;
  if (name == "min") return kernels::ElementOp::Min;
  if (name == "max") return kernels::ElementOp::Max;
  return std::nullopt;
}

}  // namespace

// Whether a scattering moves elements of one type; where it combines them too, those that kernels have.
bool Lowering::scatters(const qir::Node &node) const {
  const qir::Tensor &x = tensor(node.inputs[0]), &updates = tensor(node.inputs[2]), &y = tensor(node.outputs[0]);
  const auto op = combination(node);
  return op && width(node.inputs[0]) != 0 && width(node.inputs[0]) <= 8 && y.dtype == x.dtype &&
         updates.dtype == x.dtype && updates.quant == x.quant && y.quant == x.quant &&
         (!x.quant || x.quant->per_tensor()) &&
         (*op == kernels::ElementOp::Select || (kernels::is_number(x.dtype) && !x.quant));
}

// Rows that are replaced, of elements of any type; numbers are also combined with what is there.
Status Lowering::lower_scatter_rows(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], ui = node.inputs[2], yi = node.outputs[0];
  const qir::Tensor &x = tensor(xi), &indices = tensor(ii), &updates = tensor(ui);
  if (!scatters(node) || indices.dtype != DType::I64 || indices.shape.empty()) return {};
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
  const Arg args[] = {arg(from, width(xi)), arg(index, 8), arg(rows, width(xi)), arg(to, width(xi))};
  const kernels::ElementOp op = *combination(node);
  if (op == kernels::ElementOp::Select) return emit(Kernel::ScatterRows, &p, args);
  const kernels::ScatterInto into{p, op, static_cast<std::uint32_t>(x.dtype)};
  return emit(Kernel::ScatterInto, &into, args);
}

Status Lowering::lower_scatter_elements(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], ui = node.inputs[2], yi = node.outputs[0];
  const qir::Tensor &x = tensor(xi);
  const qir::Shape &given = tensor(ii).shape;
  if (!scatters(node) || x.shape.empty() || given.size() != x.shape.size() || tensor(ui).shape != given ||
      (tensor(ii).dtype != DType::I64 && tensor(ii).dtype != DType::I32))
    return {};
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), x.shape.size(), &axis));
  kernels::ScatterElements p;
  p.rows = x.shape[axis], p.count = given[axis];
  for (std::size_t d = 0; d < given.size(); ++d) {
    if (d == axis) continue;
    if (given[d] != x.shape[d]) return {};
    (d < axis ? p.outer : p.inner) *= given[d];
  }
  const kernels::ElementOp op = *combination(node);
  p.dtype = static_cast<std::uint32_t>(x.dtype), p.index_bytes = static_cast<std::uint32_t>(width(ii));
  p.combines = op != kernels::ElementOp::Select;
  if (p.combines) p.op = op;
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::ScatterElements).check(&p, *plan_.isa, needs).ok()) return {};
  const View from = row_major(xi), index = row_major(ii), updates = row_major(ui),
             to = new_row_major(x.shape, width(xi));
  define(yi, to);
  *done = true;
  return emit_step(Kernel::ScatterElements, p,
                   {arg(from, width(xi)), arg(index, width(ii)), arg(updates, width(xi)), arg(to, width(xi))});
}

// Of rows of f32 whose elements are neighbours; and of lines of any numbers.
Status Lowering::lower_arg_extreme(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const qir::Tensor &x = tensor(xi);
  if (!kernels::is_number(x.dtype) || x.shape.empty() || (x.quant && !x.quant->per_tensor())) return {};
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), x.shape.size(), &axis));
  kernels::ArgExtreme p;
  p.n = x.shape[axis];
  for (std::size_t d = 0; d < axis; ++d) p.outer *= x.shape[d];
  for (std::size_t d = axis + 1; d < x.shape.size(); ++d) p.inner *= x.shape[d];
  p.dtype = static_cast<std::uint32_t>(x.dtype);
  p.least = node.op == qir::Op::ArgMin, p.last = node.get_int("select_last_index", 0) != 0;
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::ArgExtreme).check(&p, *plan_.isa, needs).ok()) return {};
  const View from = row_major(xi), y = new_row_major(tensor(yi).shape, 8);
  define(yi, y);
  *done = true;
  const Arg args[] = {arg(from, width(xi)), arg(y, 8)};
  if (x.dtype != DType::F32 || p.inner != 1) return emit(Kernel::ArgExtreme, &p, args);
  const kernels::ArgExtremeF32 rows{p.outer, p.n, p.least, p.last};
  return emit(Kernel::ArgExtremeF32, &rows, args);
}

}  // namespace quarry::cpu
