// SPDX-License-Identifier: Apache-2.0
// Operators that need no step: another view of what is there.
#include <algorithm>

#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

namespace {

bool is_view(const Lowering &l, const qir::Node &node) {
  return moves_elements(l, node) && l.width(node.inputs[0]) != 0;  // under 8 bits cpu-reference unpacks them
}

}  // namespace

bool same_type(const qir::Tensor &a, const qir::Tensor &b) {
  return a.dtype == b.dtype && a.quant == b.quant && (!a.quant || a.quant->per_tensor());
}

bool moves_elements(const Lowering &l, const qir::Node &node) {
  if (node.inputs.empty() || node.inputs[0] == qir::kAbsent || node.outputs.empty()) return false;
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != qir::kAbsent) return false;
  return same_type(l.tensor(node.inputs[0]), l.tensor(node.outputs[0]));
}

Result<Lowered> view_with(Lowering &l, const qir::Node &node, View (*make)(const void *, const View &),
                          const void *self) {
  if (const Narrow *const kept = l.narrow(node.inputs[0])) {
    l.set_narrow(node.outputs[0],
                 {kept->as, make(self, kept->codes), kept->as == Narrow::Rows ? make(self, kept->scales) : View{}});
    return Lowered::Done;
  }
  l.any(node.inputs[0]);
  const Vector<View> forms = l.forms(node.inputs[0]);
  for (const View &form : forms) l.define(node.outputs[0], make(self, form));
  return Lowered::Done;
}

Result<Lowered> lower_same(Lowering &l, const qir::Node &node) {
  const bool trains = node.op == qir::Op::Dropout && l.input(node, 2) != qir::kAbsent;
  if (trains || !moves_elements(l, node)) return Lowered::NotMine;
  return view_as(l, node, [](const View &form) { return form; });
}

// Each form that the new shape can be read from; if there is none, from the elements in ONNX's order.
Result<Lowered> lower_reshape(Lowering &l, const qir::Node &node) {
  if (!moves_elements(l, node)) return Lowered::NotMine;
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const qir::Shape &shape = l.tensor(yi).shape;
  const auto fits = [&](const View &form) { return reshaped(form, shape).has_value(); };
  if (const Narrow *const kept = l.narrow(xi);
      kept && fits(kept->codes) && (kept->as != Narrow::Rows || fits(kept->scales))) {
    l.set_narrow(yi, {kept->as, *reshaped(kept->codes, shape),
                      kept->as == Narrow::Rows ? *reshaped(kept->scales, shape) : View{}});
    return Lowered::Done;
  }
  const bool some = l.forms(xi).empty() || std::ranges::any_of(l.forms(xi), fits);
  if (!some && l.width(xi) == 0) return Lowered::NotMine;
  if (!some) l.row_major(xi);
  l.any(xi);
  const Vector<View> forms = l.forms(xi);
  for (const View &form : forms)
    if (auto same = reshaped(form, shape)) l.define(yi, std::move(*same));
  return Lowered::Done;
}

Result<Lowered> lower_transpose(Lowering &l, const qir::Node &node) {
  if (!is_view(l, node)) return Lowered::NotMine;
  const std::size_t rank = l.tensor(node.inputs[0]).shape.size();
  Vector<std::int64_t> perm;
  if (const auto *given = node.get_ints("perm")) perm = *given;
  else
    for (std::size_t d = rank; d-- > 0;) perm.push_back(static_cast<std::int64_t>(d));
  if (perm.size() != rank) return Lowered::NotMine;
  return view_as(l, node, [&](const View &form) { return transposed(form, perm); });
}

Result<Lowered> lower_expand(Lowering &l, const qir::Node &node) {
  if (!is_view(l, node)) return Lowered::NotMine;
  return view_as(l, node, [&](const View &form) { return broadcast(form, l.tensor(node.outputs[0]).shape); });
}

Result<Lowered> lower_slice(Lowering &l, const qir::Node &node) {
  if (!is_view(l, node)) return Lowered::NotMine;
  Vector<std::int64_t> lists[4];
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == qir::kAbsent) continue;
    const auto values = l.integers(node.inputs[i]);
    if (!values) return Lowered::NotMine;
    lists[i - 1] = *values;
  }
  qir::SliceGeometry slice;
  QR_RETURN_IF_ERROR(
      qir::resolve_slice(node, l.tensor(node.inputs[0]).shape, lists[0], lists[1], lists[2], lists[3], &slice));
  if (std::any_of(slice.step, slice.step + slice.rank, [](std::int64_t step) { return step < 0; }))
    return Lowered::NotMine;
  return view_as(l, node, [&](View form) {
    for (std::size_t d = 0; d < slice.rank; ++d) form = sliced(form, d, slice.start[d], slice.extent[d], slice.step[d]);
    return form;
  });
}

Result<Lowered> lower_split(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0];
  if (xi == qir::kAbsent || l.width(xi) == 0) return Lowered::NotMine;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), l.tensor(xi).shape.size(), &axis));
  for (const std::int32_t out : node.outputs)
    if (out == qir::kAbsent || !same_type(l.tensor(xi), l.tensor(out))) return Lowered::NotMine;
  l.any(xi);
  const Vector<View> forms = l.forms(xi);
  std::int64_t start = 0;
  for (const std::int32_t out : node.outputs) {
    for (const View &form : forms) l.define(out, sliced(form, axis, start, l.tensor(out).shape[axis]));
    start += l.tensor(out).shape[axis];
  }
  return Lowered::Done;
}

// Of one operand without sums: a label that stands twice is a diagonal, whose stride is the sum of both axes'.
Result<Lowered> lower_einsum(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  if (node.inputs.size() != 1 || l.width(xi) == 0 || l.tensor(xi).quant || l.tensor(yi).quant ||
      l.tensor(yi).dtype != l.tensor(xi).dtype)
    return Lowered::NotMine;
  const qir::Dims dims[] = {{l.tensor(xi).shape.data(), l.tensor(xi).shape.size()}};
  qir::EinsumPlan plan;
  QR_RETURN_IF_ERROR(qir::parse_einsum(node, dims, &plan));
  const qir::EinsumPlan::Operand &from = plan.inputs[0], &to = plan.output;
  const View x = l.peek(xi);
  View y{x.value, x.offset, l.tensor(yi).shape, Dims(to.rank)};
  if (y.dims.size() != to.rank || x.rank() != from.rank) return Lowered::NotMine;
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < to.rank; ++i)
    for (std::uint32_t d = 0; d < from.rank; ++d) {
      if (from.label[d] != to.label[i]) continue;
      if (from.broadcast[d] || x.dims[d] != y.dims[i]) return Lowered::NotMine;
      y.strides[i] += x.strides[d];
      ++used;
    }
  if (used != from.rank) return Lowered::NotMine;
  y.value = l.any(xi).value;
  l.define(yi, std::move(y));
  return Lowered::Done;
}

}  // namespace quarry::cpu
