// SPDX-License-Identifier: Apache-2.0
// Operators on grids of samples: resizing, sampling, regions of interest, and moves between depth and space.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/infer/rules.h"

namespace quarry::qir {

using rules::is_known;

namespace {

// floor(size * scale + bias) as a dimension; false when it does not fit.
bool scaled_extent(std::int64_t extent, double scale, double bias, std::int64_t *out) noexcept {
  const double value = std::floor(static_cast<double>(extent) * scale + bias);
  if (!(value >= 0 && value < 9.0e18)) return false;
  *out = static_cast<std::int64_t>(value);
  return true;
}

// The `axes` attribute of Resize and CenterCropPad, normalised; all axes when it is absent.
Status read_axes(const Node &node, std::size_t rank, IntList *out) {
  if (const Vector<std::int64_t> *axes = node.get_ints("axes"); axes && !axes->empty())
    return resolve_axes(node, {axes->data(), axes->size()}, rank, out);
  out->size = static_cast<std::uint32_t>(rank);
  for (std::size_t i = 0; i < rank; ++i) out->values[i] = static_cast<std::int64_t>(i);
  return {};
}

Status refuse_resize(const Node &node, Dims x, std::size_t axis) {
  return node_error(node, ErrorId::qir_shape, "axis %zu of size %lld cannot be resized so", axis, ll(x[axis]));
}

Status resize_by_scales(const Node &node, Dims x, std::span<const float> scales, ResizeGeometry *out) {
  for (std::size_t i = 0; i < out->axes.size; ++i) {
    const std::size_t axis = index_of(out->axes[i]);
    const double scale = static_cast<double>(scales[i]);
    if (!(scale > 0))
      return node_error(node, ErrorId::qir_shape, "the scale of axis %zu is %g, expected more than 0", axis, scale);
    out->scale[axis] = scale;
    if (is_known(x[axis]) && !scaled_extent(x[axis], scale, 0, &out->extent[axis])) return refuse_resize(node, x, axis);
  }
  return {};
}

Status stretch_to_sizes(const Node &node, Dims x, Dims sizes, ResizeGeometry *out) {
  for (std::size_t i = 0; i < out->axes.size; ++i) {
    const std::size_t axis = index_of(out->axes[i]);
    out->extent[axis] = sizes[i];
    if (x[axis] == 0 && sizes[i] > 0) return refuse_resize(node, x, axis);
    if (x[axis] > 0) out->scale[axis] = static_cast<double>(sizes[i]) / static_cast<double>(x[axis]);
  }
  return {};
}

// One scale for all the axes: the smallest that the sizes ask for, or the largest. As ONNX's, it is a float.
Status keep_aspect_ratio(const Node &node, Dims x, Dims sizes, bool smaller, ResizeGeometry *out) {
  float scale = smaller ? std::numeric_limits<float>::max() : 0.0f;
  bool known = true;
  for (std::size_t i = 0; i < out->axes.size; ++i) {
    const std::size_t axis = index_of(out->axes[i]);
    if (x[axis] == 0) return refuse_resize(node, x, axis);
    known &= is_known(x[axis]);
    const float wanted = static_cast<float>(sizes[i]) / static_cast<float>(x[axis]);
    scale = smaller ? std::min(scale, wanted) : std::max(scale, wanted);
  }
  for (std::size_t i = 0; i < out->axes.size; ++i) {
    const std::size_t axis = index_of(out->axes[i]);
    out->extent[axis] = kUnknownDim;
    if (!known) continue;
    out->scale[axis] = static_cast<double>(scale);
    if (!scaled_extent(x[axis], static_cast<double>(scale * static_cast<float>(x[axis])) / static_cast<double>(x[axis]),
                       0.5, &out->extent[axis]))
      return refuse_resize(node, x, axis);
  }
  return {};
}

}  // namespace

Status resolve_resize(const Node &node, Dims x, std::span<const float> scales, Dims sizes, ResizeGeometry *out) {
  *out = ResizeGeometry();
  out->rank = static_cast<std::uint32_t>(x.size());
  std::copy(x.begin(), x.end(), out->extent);
  std::fill_n(out->scale, kMaxRank, 1.0);
  QR_RETURN_IF_ERROR(read_axes(node, x.size(), &out->axes));
  const std::size_t count = out->axes.size;
  if (scales.empty() == sizes.empty())
    return node_error(node, ErrorId::qir_shape, "%s scales and sizes are given, expected one of them",
                      scales.empty() ? "neither" : "both");
  if ((scales.empty() ? sizes.size() : scales.size()) != count)
    return node_error(node, ErrorId::qir_shape, "%s has %zu entries, expected %zu, one per resized axis",
                      scales.empty() ? "sizes" : "scales", scales.empty() ? sizes.size() : scales.size(), count);
  if (sizes.empty()) return resize_by_scales(node, x, scales, out);
  for (const std::int64_t size : sizes)
    if (size < 0) return node_error(node, ErrorId::qir_shape, "sizes has a negative entry, %lld", ll(size));
  const std::string_view policy = node.get_string("keep_aspect_ratio_policy", "stretch");
  return policy == "stretch" ? stretch_to_sizes(node, x, sizes, out)
                             : keep_aspect_ratio(node, x, sizes, policy == "not_larger", out);
}

Status resolve_center_crop_pad(const Node &node, Dims data, Dims shape, CropPadGeometry *out) {
  *out = CropPadGeometry();
  out->rank = static_cast<std::uint32_t>(data.size());
  std::copy(data.begin(), data.end(), out->extent);
  std::copy(data.begin(), data.end(), out->length);
  IntList axes;
  QR_RETURN_IF_ERROR(read_axes(node, data.size(), &axes));
  if (shape.size() != axes.size)
    return node_error(node, ErrorId::qir_shape, "shape has %zu entries, expected %u, one per axis", shape.size(),
                      axes.size);
  for (std::size_t i = 0; i < axes.size; ++i) {
    const std::size_t axis = index_of(axes[i]);
    const std::int64_t have = data[axis], want = shape[i];
    if (want < kUnknownDim) return node_error(node, ErrorId::qir_shape, "shape has a negative entry, %lld", ll(want));
    out->extent[axis] = want;
    if (!is_known(have) || !is_known(want)) continue;
    out->length[axis] = std::min(have, want);
    if (have > want) out->in_start[axis] = (have - want) / 2;
    else out->out_start[axis] = (want - have) / 2;
  }
  return {};
}

namespace rules {

Status resize(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  // An empty list stands for an absent input: ONNX needed one of the two before opset 13.
  const auto given = [&](std::size_t i) { return has_input(inputs, i) && inputs[i].shape != Shape{0}; };
  IntList sizes;
  float scales[kMaxRank];
  std::size_t scale_count = 0;
  bool known = true;
  for (const std::size_t i : {1u, 2u})
    if (has_input(inputs, i) && inputs[i].quant && *inputs[i].quant)
      return node_error(node, ErrorId::qir_type, "%s is quantised, expected real numbers", i == 1 ? "roi" : "scales");
  if (given(2)) {
    QR_RETURN_IF_ERROR(expect_rank(node, "scales", dims_of(inputs[2]), 1));
    known = value_known(inputs, 2);
    if (known) {
      if (inputs[2].shape[0] > static_cast<std::int64_t>(kMaxRank))
        return node_error(node, ErrorId::qir_shape, "scales has %lld entries, expected at most %zu",
                          ll(inputs[2].shape[0]), kMaxRank);
      scale_count = static_cast<std::size_t>(inputs[2].shape[0]);
      std::copy_n(static_cast<const char *>(inputs[2].value.data), scale_count * sizeof(float),
                  reinterpret_cast<char *>(scales));
    }
  }
  if (given(3)) {
    QR_RETURN_IF_ERROR(expect_rank(node, "sizes", dims_of(inputs[3]), 1));
    known &= value_known(inputs, 3);
    if (value_known(inputs, 3)) QR_RETURN_IF_ERROR(read_ints(node, 3, inputs[3], &sizes));
  }
  if (!given(2) && !given(3))
    return node_error(node, ErrorId::qir_shape, "neither scales nor sizes are given, expected one of them");
  if (node.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize") {
    IntList axes;
    QR_RETURN_IF_ERROR(read_axes(node, x.size(), &axes));
    const std::int64_t corners = 2 * std::int64_t{axes.size};
    if (!has_input(inputs, 1))
      return node_error(node, ErrorId::qir_shape, "tf_crop_and_resize is given without roi, expected %lld numbers",
                        ll(corners));
    QR_RETURN_IF_ERROR(expect_elements(node, inputs, 1, "roi", corners));
  }
  DimList shape(x);
  if (known) {
    ResizeGeometry g;
    QR_RETURN_IF_ERROR(resolve_resize(node, x, {scales, scale_count}, sizes, &g));
    std::copy_n(g.extent, g.rank, shape.values);
  } else {
    IntList axes;
    QR_RETURN_IF_ERROR(read_axes(node, x.size(), &axes));
    for (const std::int64_t axis : Dims(axes)) shape.values[axis] = kUnknownDim;
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status center_crop_pad(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims data = dims_of(inputs[0]);
  IntList shape;
  if (inputs[1].value.data) QR_RETURN_IF_ERROR(read_ints(node, 1, inputs[1], &shape));
  else {
    QR_RETURN_IF_ERROR(read_axes(node, data.size(), &shape));
    std::fill_n(shape.values, shape.size, kUnknownDim);
  }
  CropPadGeometry g;
  QR_RETURN_IF_ERROR(resolve_center_crop_pad(node, data, shape, &g));
  set_output(outputs, 0, real_dtype(inputs[0]), {g.extent, g.rank});
  return {};
}

Status grid_sample(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]), grid = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(expect_rank_from(node, "X", x, 3));
  DimList expected;  // [N, out..., spatial rank]
  expected.push(x[0]);
  for (std::size_t i = 2; i < x.size(); ++i) expected.push(kUnknownDim);
  expected.push(static_cast<std::int64_t>(x.size()) - 2);
  QR_RETURN_IF_ERROR(expect_shape(node, "the grid", grid, expected));
  DimList shape;
  shape.push(known_of(x[0], grid[0]));
  shape.push(x[1]);
  for (std::size_t i = 1; i + 1 < grid.size(); ++i) shape.push(grid[i]);
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status affine_grid(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims theta = dims_of(inputs[0]);
  QR_RETURN_IF_ERROR(expect_rank(node, "theta", theta, 3));
  QR_RETURN_IF_ERROR(expect_rank(node, "size", dims_of(inputs[1]), 1));
  const std::int64_t size_count = inputs[1].shape[0];
  std::int64_t space = theta[1];
  if (!is_known(space)) space = is_known(theta[2]) ? theta[2] - 1 : size_count - 2;
  if (space != 2 && space != 3)
    return node_error(node, ErrorId::qir_shape, "theta has shape %s, expected [N,2,3] or [N,3,4]", text(theta));
  const std::int64_t matrix[] = {theta[0], space, space + 1}, entries = space + 2;
  QR_RETURN_IF_ERROR(expect_shape(node, "theta", theta, matrix));
  QR_RETURN_IF_ERROR(expect_shape(node, "size", dims_of(inputs[1]), {&entries, 1}));
  IntList size;
  size.size = static_cast<std::uint32_t>(entries);
  std::fill_n(size.values, size.size, kUnknownDim);
  if (inputs[1].value.data) QR_RETURN_IF_ERROR(read_ints(node, 1, inputs[1], &size));
  DimList shape;
  if (!may_equal(size[0], theta[0]))
    return node_error(node, ErrorId::qir_shape, "size names a batch of %lld, but theta has %lld", ll(size[0]),
                      ll(theta[0]));
  shape.push(known_of(theta[0], size[0]));
  for (std::size_t i = 2; i < size.size; ++i) shape.push(size[i]);
  shape.push(space);
  for (const std::int64_t d : Dims(shape))
    if (d < kUnknownDim) return node_error(node, ErrorId::qir_shape, "size has a negative entry, %lld", ll(d));
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status roi_align(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]), rois = dims_of(inputs[1]), batch = dims_of(inputs[2]);
  QR_RETURN_IF_ERROR(expect_rank(node, "X", x, 4));
  const std::int64_t boxes[] = {kUnknownDim, 4};
  QR_RETURN_IF_ERROR(expect_shape(node, "rois", rois, boxes));
  QR_RETURN_IF_ERROR(expect_shape(node, "batch_indices", batch, rois.first(1)));
  const std::int64_t shape[] = {known_of(rois[0], batch[0]), x[1], node.get_int("output_height", 1),
                                node.get_int("output_width", 1)};
  if (shape[2] < 1 || shape[3] < 1)
    return node_error(node, ErrorId::qir_attribute, "the output is to be %lld x %lld, expected 1 or more", ll(shape[2]),
                      ll(shape[3]));
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status max_roi_pool(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]), rois = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(expect_rank(node, "X", x, 4));
  const std::int64_t boxes[] = {kUnknownDim, 5};
  QR_RETURN_IF_ERROR(expect_shape(node, "rois", rois, boxes));
  const Vector<std::int64_t> *pooled = node.get_ints("pooled_shape");
  if (!pooled || pooled->size() != 2 || (*pooled)[0] < 1 || (*pooled)[1] < 1)
    return node_error(node, ErrorId::qir_attribute, "attribute 'pooled_shape' is not two positive numbers");
  const std::int64_t shape[] = {rois[0], x[1], (*pooled)[0], (*pooled)[1]};
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

namespace {
Status read_block(const Node &node, std::int64_t *block, std::int64_t *area) {
  *block = node.get_int("blocksize", 1);
  if (*block < 1 || !checked_mul(*block, *block, area))
    return node_error(node, ErrorId::qir_attribute, "attribute 'blocksize' is %lld, expected 1 or more", ll(*block));
  return {};
}
}  // namespace

Status depth_to_space(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  QR_RETURN_IF_ERROR(expect_rank(node, "the input", x, 4));
  std::int64_t block = 1, area = 1;
  QR_RETURN_IF_ERROR(read_block(node, &block, &area));
  if (is_known(x[1]) && x[1] % area != 0)
    return node_error(node, ErrorId::qir_shape, "%lld channels do not divide by blocksize * blocksize, %lld", ll(x[1]),
                      ll(area));
  std::int64_t shape[] = {x[0], is_known(x[1]) ? x[1] / area : kUnknownDim, 0, 0};
  QR_RETURN_IF_ERROR(multiply(node, x[2], block, &shape[2]));
  QR_RETURN_IF_ERROR(multiply(node, x[3], block, &shape[3]));
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status space_to_depth(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  QR_RETURN_IF_ERROR(expect_rank(node, "the input", x, 4));
  std::int64_t block = 1, area = 1;
  QR_RETURN_IF_ERROR(read_block(node, &block, &area));
  std::int64_t shape[] = {x[0], 0, kUnknownDim, kUnknownDim};
  QR_RETURN_IF_ERROR(multiply(node, x[1], area, &shape[1]));
  for (std::size_t i = 2; i < 4; ++i) {
    if (!is_known(x[i])) continue;
    if (x[i] % block != 0)
      return node_error(node, ErrorId::qir_shape, "axis %zu of size %lld does not divide by blocksize %lld", i,
                        ll(x[i]), ll(block));
    shape[i] = x[i] / block;
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

}  // namespace rules
}  // namespace quarry::qir
