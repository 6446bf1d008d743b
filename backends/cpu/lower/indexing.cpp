// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements: by their order, or by indices for each.
#include <algorithm>

#include "backends/cpu/lower/rules.h"
#include "kernels/cpu/element_types.h"

namespace quarry::cpu {

using kernels::Kernel;

Result<Lowered> lower_gather(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], yi = node.outputs[0];
  const qir::Shape &shape = l.tensor(xi).shape;
  if (!same_type(l.tensor(xi), l.tensor(yi)) || l.width(xi) == 0) return Lowered::NotMine;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), shape.size(), &axis));
  if (const auto index = l.integers(ii); index && index->size() == 1) {
    std::int64_t at = (*index)[0];
    if (at < 0) at += shape[axis];
    if (at < 0 || at >= shape[axis]) return Lowered::NotMine;
    const auto picked = [&](const View &form) { return reshaped(without(form, axis, at), l.tensor(yi).shape); };
    if (picked(l.peek(xi)) ||
        std::ranges::any_of(l.forms(xi), [&](const View &form) { return picked(form).has_value(); })) {
      l.any(xi);
      const Vector<View> forms = l.forms(xi);
      for (const View &form : forms)
        if (auto same = picked(form)) l.define(yi, std::move(*same));
      return Lowered::Done;
    }
  }
  if (l.tensor(ii).dtype != DType::I64 && l.tensor(ii).dtype != DType::I32) return Lowered::NotMine;
  const View table = l.row_major(xi), index = l.row_major(ii);
  kernels::Gather p;
  p.index_bytes = static_cast<std::uint32_t>(l.width(ii));
  p.rows = shape[axis];
  p.count = count_of(l.tensor(ii).shape);
  p.row_bytes = static_cast<std::int64_t>(l.width(xi));
  for (std::size_t d = 0; d < axis; ++d) p.outer *= shape[d];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) p.row_bytes *= shape[d];
  const View y = l.new_row_major(l.tensor(yi).shape, l.width(xi));
  l.define(yi, y);
  return l.finish_step(Kernel::Gather, p, {arg(table, l.width(xi)), arg(index, l.width(ii)), arg(y, l.width(xi))});
}

Result<Lowered> lower_top_k(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0];
  const qir::Tensor &x = l.tensor(xi);
  const auto k = l.integers(l.input(node, 1));
  if (!k || k->size() != 1 || l.width(xi) == 0 || x.shape.empty() || (x.quant && !x.quant->per_tensor()))
    return Lowered::NotMine;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), x.shape.size(), &axis));
  kernels::TopK p;
  p.n = x.shape[axis], p.k = (*k)[0];
  for (std::size_t d = 0; d < axis; ++d) p.outer *= x.shape[d];
  for (std::size_t d = axis + 1; d < x.shape.size(); ++d) p.inner *= x.shape[d];
  p.dtype = static_cast<std::uint32_t>(x.dtype), p.least = node.get_int("largest", 1) == 0;
  const std::int32_t values = node.outputs[0], indices = node.outputs.size() > 1 ? node.outputs[1] : qir::kAbsent;
  p.has_values = values != qir::kAbsent, p.has_indices = indices != qir::kAbsent;
  if (p.has_values && (l.tensor(values).dtype != x.dtype || l.tensor(values).quant != x.quant)) return Lowered::NotMine;
  if (!l.takes(Kernel::TopK, &p)) return Lowered::NotMine;
  const View from = l.row_major(xi);
  Vector<Arg> args{arg(from, l.width(xi))};
  View to[2];
  for (const std::int32_t id : {values, indices}) {
    if (id == qir::kAbsent) continue;
    View &view = to[id == values ? 0 : 1];
    view = l.new_row_major(l.tensor(id).shape, l.width(id));
    l.define(id, view);
    args.push_back(arg(view, l.width(id)));
  }
  return l.finish(Kernel::TopK, &p, args);
}

Result<Lowered> lower_gather_elements(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], yi = node.outputs[0];
  const qir::Tensor &x = l.tensor(xi), &y = l.tensor(yi);
  const qir::Shape &picked = l.tensor(ii).shape;
  if (l.width(xi) == 0 || l.width(xi) > 8 || y.dtype != x.dtype || y.quant != x.quant ||
      (x.quant && !x.quant->per_tensor()) || picked.size() != x.shape.size() || picked != y.shape ||
      (l.tensor(ii).dtype != DType::I64 && l.tensor(ii).dtype != DType::I32))
    return Lowered::NotMine;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), x.shape.size(), &axis));
  kernels::GatherElements p;
  p.rows = x.shape[axis], p.count = picked[axis];
  // Along the other axes the table may have more than the indices, which nobody asks for.
  bool whole = true;
  for (std::size_t d = 0; d < picked.size(); ++d) {
    if (d == axis) continue;
    if (picked[d] > x.shape[d]) return Lowered::NotMine;  // cpu-reference says what is wrong
    whole &= picked[d] == x.shape[d];
    (d < axis ? p.outer : p.inner) *= picked[d];
  }
  p.width = static_cast<std::uint32_t>(l.width(xi)), p.index_bytes = static_cast<std::uint32_t>(l.width(ii));
  if (!l.takes(Kernel::GatherElements, &p)) return Lowered::NotMine;
  View table = l.row_major(xi);
  if (!whole) {
    View part = table;
    for (std::size_t d = 0; d < picked.size(); ++d)
      if (d != axis) part = sliced(part, d, 0, picked[d]);
    table = l.new_row_major(part.dims, p.width);
    l.copy(part, table, p.width, xi);
  }
  const View index = l.row_major(ii), to = l.new_row_major(picked, p.width);
  l.define(yi, to);
  return l.finish_step(Kernel::GatherElements, p, {arg(table, p.width), arg(index, l.width(ii)), arg(to, p.width)});
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

// Whether a scattering moves elements of one type; where it combines them too, those that kernels have.
bool scatters(const Lowering &l, const qir::Node &node) {
  const qir::Tensor &x = l.tensor(node.inputs[0]), &updates = l.tensor(node.inputs[2]), &y = l.tensor(node.outputs[0]);
  const auto op = combination(node);
  return op && l.width(node.inputs[0]) != 0 && l.width(node.inputs[0]) <= 8 && y.dtype == x.dtype &&
         updates.dtype == x.dtype && updates.quant == x.quant && y.quant == x.quant &&
         (!x.quant || x.quant->per_tensor()) &&
         (*op == kernels::ElementOp::Select || (kernels::is_number(x.dtype) && !x.quant));
}

}  // namespace

// Rows that are replaced, of elements of any type; numbers are also combined with what is there.
Result<Lowered> lower_scatter_rows(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], ui = node.inputs[2], yi = node.outputs[0];
  const qir::Tensor &x = l.tensor(xi), &indices = l.tensor(ii), &updates = l.tensor(ui);
  if (!scatters(l, node) || indices.dtype != DType::I64 || indices.shape.empty()) return Lowered::NotMine;
  const auto length = static_cast<std::size_t>(indices.shape.back());
  if (length < 1 || length > x.shape.size() || length > kernels::kCopyRank) return Lowered::NotMine;
  kernels::ScatterRows p;
  const auto each = static_cast<std::int64_t>(l.width(xi));
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
  if (count_of(updates.shape) * each != p.tuples * p.row_bytes || !l.takes(Kernel::ScatterRows, &p))
    return Lowered::NotMine;  // cpu-reference says what is wrong
  const View from = l.row_major(xi), index = l.row_major(ii), rows = l.row_major(ui),
             to = l.new_row_major(x.shape, l.width(xi));
  l.define(yi, to);
  const Arg args[] = {arg(from, l.width(xi)), arg(index, 8), arg(rows, l.width(xi)), arg(to, l.width(xi))};
  const kernels::ElementOp op = *combination(node);
  if (op == kernels::ElementOp::Select) return l.finish(Kernel::ScatterRows, &p, args);
  const kernels::ScatterInto into{p, op, static_cast<std::uint32_t>(x.dtype)};
  return l.finish(Kernel::ScatterInto, &into, args);
}

namespace {

// Where the new entries go; all to the beginning where nobody says.
View starts_of(Lowering &l, std::int32_t id, std::int64_t batches) {
  if (id != qir::kAbsent) return l.row_major(id);
  const std::uint32_t zeros = l.own_constant(Vector<std::uint8_t>(static_cast<std::size_t>(batches) * 8));
  return {static_cast<std::int32_t>(zeros), 0, {batches}, {1}};
}

}  // namespace

// In place where the cache is a block that is appended to, which nobody else reads (block_of).
Result<Lowered> lower_tensor_scatter(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], ui = node.inputs[1], ii = l.input(node, 2), yi = node.outputs[0];
  const qir::Tensor &x = l.tensor(xi), &updates = l.tensor(ui);
  const std::size_t rank = x.shape.size();
  const std::uint64_t each = l.width(xi);
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -2), rank, &axis));
  if (each == 0 || axis == 0 || !same_type(x, updates) || !same_type(x, l.tensor(yi)) || updates.shape.size() != rank ||
      (ii != qir::kAbsent && (l.tensor(ii).dtype != DType::I64 || count_of(l.tensor(ii).shape) != x.shape[0])))
    return Lowered::NotMine;
  for (std::size_t d = 0; d < rank; ++d)
    if (d != axis && updates.shape[d] != x.shape[d]) return Lowered::NotMine;
  const View *const block = l.block_of(yi);
  const View lies = l.peek(xi);
  // (Nor may anybody else read the past, of which a shorter row's entries are written over.)
  const std::int32_t joined = l.uses().maker(xi);
  const bool in_place = block && lies.value == block->value && lies.offset == block->offset &&
                        lies.strides == block->strides && l.uses().used_once(xi) && joined >= 0 &&
                        l.graph().nodes[index_of(joined)].op == Op::Concat &&
                        l.uses().used_once(l.graph().nodes[index_of(joined)].inputs[0]);
  const auto row_major_view = [](const qir::Shape &shape) { return View{kNoValue, 0, shape, cpu::row_major(shape)}; };
  // As [batch, heads, entries, what lies behind].
  const auto flat = [&](const View &view) {
    qir::Shape shape{view.dims[0], 1, view.dims[axis], 1};
    for (std::size_t d = 1; d < rank; ++d)
      if (d != axis) shape[d < axis ? 1 : 3] *= view.dims[d];
    return reshaped(view, shape);
  };
  const auto to = flat(in_place ? lies : row_major_view(x.shape)), given = flat(row_major_view(updates.shape));
  if (!to || !given || (to->strides[3] != 1 && to->dims[3] != 1)) return Lowered::NotMine;
  kernels::TensorScatter p;
  p.batches = to->dims[0], p.heads = to->dims[1], p.length = to->dims[2], p.added = given->dims[2];
  p.entry_bytes = to->dims[3] * static_cast<std::int64_t>(each);
  for (std::size_t i = 0; i < 3; ++i) {
    p.updates[i] = given->strides[i] * static_cast<std::int64_t>(each);
    p.y[i] = to->strides[i] * static_cast<std::int64_t>(each);
  }
  p.circular = node.get_string("mode", "linear") == "circular";
  if (!l.takes(Kernel::TensorScatter, &p)) return Lowered::NotMine;  // cpu-reference says what is wrong
  const View from = l.row_major(ui), starts = starts_of(l, ii, p.batches);
  const View y = in_place ? lies : l.new_row_major(x.shape, each);
  if (!in_place) l.copy(l.any(xi), y, each, xi);
  l.define(yi, y);
  return l.finish_step(Kernel::TensorScatter, p, {arg(from, each), arg(starts, 8), arg(y, each)});
}

Result<Lowered> lower_scatter_elements(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], ui = node.inputs[2], yi = node.outputs[0];
  const qir::Tensor &x = l.tensor(xi);
  const qir::Shape &given = l.tensor(ii).shape;
  if (!scatters(l, node) || x.shape.empty() || given.size() != x.shape.size() || l.tensor(ui).shape != given ||
      (l.tensor(ii).dtype != DType::I64 && l.tensor(ii).dtype != DType::I32))
    return Lowered::NotMine;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), x.shape.size(), &axis));
  kernels::ScatterElements p;
  p.rows = x.shape[axis], p.count = given[axis];
  for (std::size_t d = 0; d < given.size(); ++d) {
    if (d == axis) continue;
    if (given[d] != x.shape[d]) return Lowered::NotMine;
    (d < axis ? p.outer : p.inner) *= given[d];
  }
  const kernels::ElementOp op = *combination(node);
  p.dtype = static_cast<std::uint32_t>(x.dtype), p.index_bytes = static_cast<std::uint32_t>(l.width(ii));
  p.combines = op != kernels::ElementOp::Select;
  if (p.combines) p.op = op;
  if (!l.takes(Kernel::ScatterElements, &p)) return Lowered::NotMine;
  const View from = l.row_major(xi), index = l.row_major(ii), updates = l.row_major(ui),
             to = l.new_row_major(x.shape, l.width(xi));
  l.define(yi, to);
  return l.finish_step(
      Kernel::ScatterElements, p,
      {arg(from, l.width(xi)), arg(index, l.width(ii)), arg(updates, l.width(xi)), arg(to, l.width(xi))});
}

// Of rows of f32 whose elements are neighbours; and along an axis, of any numbers.
Result<Lowered> lower_arg_extreme(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const qir::Tensor &x = l.tensor(xi);
  if (!kernels::is_number(x.dtype) || x.shape.empty() || (x.quant && !x.quant->per_tensor())) return Lowered::NotMine;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), x.shape.size(), &axis));
  kernels::ArgExtreme p;
  p.n = x.shape[axis];
  for (std::size_t d = 0; d < axis; ++d) p.outer *= x.shape[d];
  for (std::size_t d = axis + 1; d < x.shape.size(); ++d) p.inner *= x.shape[d];
  p.dtype = static_cast<std::uint32_t>(x.dtype);
  p.least = node.op == qir::Op::ArgMin, p.last = node.get_int("select_last_index", 0) != 0;
  if (!l.takes(Kernel::ArgExtreme, &p)) return Lowered::NotMine;
  const View from = l.row_major(xi), y = l.new_row_major(l.tensor(yi).shape, 8);
  l.define(yi, y);
  const Arg args[] = {arg(from, l.width(xi)), arg(y, 8)};
  if (x.dtype != DType::F32 || p.inner != 1) return l.finish(Kernel::ArgExtreme, &p, args);
  const kernels::ArgExtremeF32 rows{p.outer, p.n, p.least, p.last};
  return l.finish(Kernel::ArgExtremeF32, &rows, args);
}

}  // namespace quarry::cpu
