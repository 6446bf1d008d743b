// SPDX-License-Identifier: Apache-2.0
// Operators that fold axes into one number, or run along an axis.
#include <algorithm>

#include "graph/infer/rules.h"

namespace quarry::qir {

Status resolve_reduce(const Node &node, Dims axes, std::size_t rank, bool (*reduced)[kMaxRank]) {
  std::fill(std::begin(*reduced), std::end(*reduced), false);
  if (axes.empty()) {
    std::fill_n(*reduced, rank, node.get_int("noop_with_empty_axes", 0) == 0);
    return {};
  }
  IntList resolved;
  QR_RETURN_IF_ERROR(resolve_axes(node, axes, rank, &resolved));
  for (const std::int64_t axis : Dims(resolved)) (*reduced)[axis] = true;
  return {};
}

namespace rules {

Status reduce(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  const bool keep = node.get_int("keepdims", 1) != 0;
  DimList shape;
  if (!has_input(inputs, 1) || value_known(inputs, 1)) {
    IntList axes;
    if (has_input(inputs, 1)) QR_RETURN_IF_ERROR(read_ints(node, 1, inputs[1], &axes));
    bool reduced[kMaxRank];
    QR_RETURN_IF_ERROR(resolve_reduce(node, axes, x.size(), &reduced));
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!reduced[i]) shape.push(x[i]);
      else if (keep) shape.push(1);
    }
  } else if (keep) {
    for (std::size_t i = 0; i < x.size(); ++i) shape.push(x[i] == 1 ? 1 : kUnknownDim);
  } else {
    const std::int64_t count = inputs[1].shape.empty() ? 1 : inputs[1].shape[0];
    if (count < 1 || count > static_cast<std::int64_t>(x.size()))  // none: all of them go, or none does
      return node_error(node, ErrorId::qir_rank,
                        "the axes are computed at run time, so the rank of the result is not known");
    for (std::size_t i = static_cast<std::size_t>(count); i < x.size(); ++i) shape.push(kUnknownDim);
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status arg_reduce(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", 0), x.size(), &axis));
  if (x[axis] == 0)
    return node_error(node, ErrorId::qir_shape, "axis %zu is empty: it has no largest or smallest element", axis);
  DimList shape(x.first(axis));
  if (node.get_int("keepdims", 1) != 0) shape.push(1);
  for (const std::int64_t d : x.subspan(axis + 1)) shape.push(d);
  set_output(outputs, 0, DType::I64, shape);
  return {};
}

Status scan_axis(const Node &node, Inputs inputs, Outputs outputs) {
  std::int64_t given = 0;
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 1, "axis", &given));
  if (value_known(inputs, 1)) QR_RETURN_IF_ERROR(resolve_axis(node, given, inputs[0].shape.size(), &axis));
  return same(node, inputs, outputs);
}

Status top_k(const Node &node, Inputs inputs, Outputs outputs) {
  DimList shape(dims_of(inputs[0]));
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", -1), shape.size, &axis));
  std::int64_t k = kUnknownDim;
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 1, "K", &k));
  if (value_known(inputs, 1) && (k < 0 || (is_known(shape[axis]) && k > shape[axis])))
    return node_error(node, ErrorId::qir_shape, "K is %lld, expected 0 to the %lld elements along axis %zu", ll(k),
                      ll(shape[axis]), axis);
  shape.values[axis] = k;
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  set_output(outputs, 1, DType::I64, shape);
  return {};
}

namespace {
// Scores [N, C, ...], labels [N, ...], class weights [C].
Status loss(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims scores = dims_of(inputs[0]);
  QR_RETURN_IF_ERROR(expect_rank_from(node, "the scores", scores, 2));
  DimList labels(scores.first(1));
  for (const std::int64_t d : scores.subspan(2)) labels.push(d);
  QR_RETURN_IF_ERROR(expect_shape(node, "the labels", dims_of(inputs[1]), labels));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 2, "the class weights", scores.subspan(1, 1)));
  set_output(outputs, 0, real_dtype(inputs[0]), node.get_string("reduction", "mean") == "none" ? Dims(labels) : Dims());
  return {};
}
}  // namespace

Status loss_nll(const Node &node, Inputs inputs, Outputs outputs) { return loss(node, inputs, outputs); }

Status loss_sce(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(loss(node, inputs, outputs));
  set_output(outputs, 1, real_dtype(inputs[0]), dims_of(inputs[0]));
  return {};
}

}  // namespace rules
}  // namespace quarry::qir
