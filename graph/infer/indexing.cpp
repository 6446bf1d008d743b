// SPDX-License-Identifier: Apache-2.0
// Operators that pick or place elements by index.
#include <algorithm>

#include "graph/infer/rules.h"

namespace quarry::qir::rules {

Status gather(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims data = dims_of(inputs[0]), indices = dims_of(inputs[1]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", 0), data.size(), &axis));
  DimList shape(data.first(axis));
  for (const std::int64_t d : indices) shape.push(d);
  for (const std::int64_t d : data.subspan(axis + 1)) shape.push(d);
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status gather_elements(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims data = dims_of(inputs[0]), indices = dims_of(inputs[1]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", 0), data.size(), &axis));
  QR_RETURN_IF_ERROR(expect_rank(node, "the index tensor", indices, data.size()));
  for (std::size_t i = 0; i < data.size(); ++i)
    if (i != axis && is_known(data[i]) && indices[i] > data[i])
      return node_error(node, ErrorId::qir_shape,
                        "the index tensor has shape %s, longer than the data's %s along axis %zu", text(indices),
                        text(data), i);
  set_output(outputs, 0, real_dtype(inputs[0]), indices);
  return {};
}

namespace {
// The last dimension of GatherND's and ScatterND's indices: how many axes an index names.
Status index_depth(const Node &node, Dims data, Dims indices, std::size_t batch, std::size_t *out) {
  QR_RETURN_IF_ERROR(expect_rank_from(node, "the data", data, 1));
  QR_RETURN_IF_ERROR(expect_rank_from(node, "the index tensor", indices, 1));
  const std::int64_t depth = indices[indices.size() - 1];
  if (depth < 0 || depth > static_cast<std::int64_t>(data.size() - batch))
    return node_error(node, ErrorId::qir_shape,
                      "an index has %lld entries (shape %s), expected at most %zu for data of shape %s", ll(depth),
                      text(indices), data.size() - batch, text(data));
  *out = static_cast<std::size_t>(depth);
  return {};
}
}  // namespace

Status gather_nd(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims data = dims_of(inputs[0]), indices = dims_of(inputs[1]);
  const std::int64_t batch_dims = node.get_int("batch_dims", 0);
  if (batch_dims < 0 || batch_dims >= static_cast<std::int64_t>(std::min(data.size(), indices.size())))
    return node_error(node, ErrorId::qir_attribute,
                      "attribute 'batch_dims' is %lld, expected 0 or more and less than the ranks %zu and %zu",
                      ll(batch_dims), data.size(), indices.size());
  const std::size_t batch = static_cast<std::size_t>(batch_dims);
  for (std::size_t i = 0; i < batch; ++i)
    if (!may_equal(data[i], indices[i]))
      return node_error(node, ErrorId::qir_shape,
                        "batch axis %zu has size %lld in the data and %lld in the index tensor", i, ll(data[i]),
                        ll(indices[i]));
  std::size_t depth = 0;
  QR_RETURN_IF_ERROR(index_depth(node, data, indices, batch, &depth));
  DimList shape(indices.first(indices.size() - 1));
  for (const std::int64_t d : data.subspan(batch + depth)) shape.push(d);
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status scatter_elements(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims data = dims_of(inputs[0]), indices = dims_of(inputs[1]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", 0), data.size(), &axis));
  QR_RETURN_IF_ERROR(expect_rank(node, "the index tensor", indices, data.size()));
  QR_RETURN_IF_ERROR(expect_shape(node, "updates", dims_of(inputs[2]), indices));
  for (std::size_t i = 0; i < data.size(); ++i)
    if (i != axis && is_known(data[i]) && indices[i] > data[i])
      return node_error(node, ErrorId::qir_shape,
                        "the index tensor has shape %s, longer than the data's %s along axis %zu", text(indices),
                        text(data), i);
  return same(node, inputs, outputs);
}

Status scatter_nd(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims data = dims_of(inputs[0]), indices = dims_of(inputs[1]);
  std::size_t depth = 0;
  QR_RETURN_IF_ERROR(index_depth(node, data, indices, 0, &depth));
  DimList expected(indices.first(indices.size() - 1));
  for (const std::int64_t d : data.subspan(depth)) expected.push(d);
  QR_RETURN_IF_ERROR(expect_shape(node, "updates", dims_of(inputs[2]), expected));
  return same(node, inputs, outputs);
}

Status tensor_scatter(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims cache = dims_of(inputs[0]), update = dims_of(inputs[1]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", -2), cache.size(), &axis));
  if (axis == 0) return node_error(node, ErrorId::qir_attribute, "attribute 'axis' names axis 0, which is the batch");
  DimList expected(cache);
  if (update.size() == cache.size()) {
    if (is_known(cache[axis]) && update[axis] > cache[axis])
      return node_error(node, ErrorId::qir_shape, "the update is %lld long, more than the cache's %lld",
                        ll(update[axis]), ll(cache[axis]));
    expected.values[axis] = update[axis];
  }
  QR_RETURN_IF_ERROR(expect_shape(node, "the update", update, expected));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 2, "write_indices", cache.first(1)));
  return same(node, inputs, outputs);
}

Status reverse_sequence(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  QR_RETURN_IF_ERROR(expect_rank_from(node, "the input", x, 2));
  std::size_t batch = 0, time = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("batch_axis", 1), x.size(), &batch));
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("time_axis", 0), x.size(), &time));
  if (batch > 1 || time > 1 || batch == time)
    return node_error(node, ErrorId::qir_attribute,
                      "batch_axis is %zu and time_axis is %zu, expected 0 and 1 or 1 and 0", batch, time);
  QR_RETURN_IF_ERROR(expect_shape(node, "sequence_lens", dims_of(inputs[1]), x.subspan(batch, 1)));
  return same(node, inputs, outputs);
}

Status trilu(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_rank_from(node, "the input", dims_of(inputs[0]), 2));
  if (has_input(inputs, 1)) QR_RETURN_IF_ERROR(expect_one_element(node, "k", inputs[1]));
  return same(node, inputs, outputs);
}

Status one_hot(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims indices = dims_of(inputs[0]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(expect_one_element(node, "depth", inputs[1]));
  const std::int64_t pair = 2;
  QR_RETURN_IF_ERROR(expect_shape(node, "values", dims_of(inputs[2]), {&pair, 1}));
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", -1), indices.size() + 1, &axis));
  std::int64_t depth = kUnknownDim;
  if (inputs[1].value.data) {
    double value = 0;
    if (!number_at(inputs[1], 0, &value) || !(value >= 0 && value < 9.0e15))
      return node_error(node, ErrorId::qir_shape, "depth is %g, expected a number of classes", value);
    depth = static_cast<std::int64_t>(value);
  }
  DimList shape(indices.first(axis));
  shape.push(depth);
  for (const std::int64_t d : indices.subspan(axis)) shape.push(d);
  set_output(outputs, 0, real_dtype(inputs[2]), shape);
  return {};
}

}  // namespace quarry::qir::rules
