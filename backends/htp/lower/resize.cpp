// SPDX-License-Identifier: Apache-2.0
// Resize: by the library's own operations where they compute what ONNX says, else as multiplications by constant
// matrices, one for each axis, which say exactly what every element is made of.
#include <algorithm>
#include <cmath>

#include "backends/htp/lower/rules.h"
#include "graph/ops/resize_coordinates.h"

namespace quarry::htp::rules {

namespace {

using qir::Coordinates;

struct Axis : qir::ResizeAxis {
  std::size_t axis;
};

// The scales of the model, or none where sizes are given; the sizes likewise.
std::span<const float> given_scales(Lowering &l, const qir::Node &node) {
  const std::int32_t id = node.inputs[2];
  const float *const values = id == qir::kAbsent ? nullptr : qir::constant_floats(l.graph(), id);
  return values ? std::span<const float>(values, l.tensor(id).data.size / sizeof(float)) : std::span<const float>();
}

Result<Vector<Axis>> axes_of(Lowering &l, const qir::Node &node) {
  const qir::Shape &in = l.tensor(node.inputs[0]).shape;
  const std::span<const float> scales = given_scales(l, node);
  Vector<std::int64_t> sizes;
  if (scales.empty()) {
    QR_ASSIGN_OR_RETURN(sizes, constant_ints(l, node, 3, "sizes"));
  }
  qir::ResizeGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_resize(node, in, scales, sizes, &g));
  Vector<Axis> axes;
  for (std::size_t i = 0; i < in.size(); ++i) {
    Axis &axis = axes.emplace_back();
    axis.in = in[i], axis.out = g.extent[i], axis.scale = static_cast<float>(g.scale[i]), axis.axis = i;
  }
  if (qir::coordinates_of(node) == Coordinates::Crop) {
    const std::int32_t id = node.inputs[1];
    const float *const roi = id == qir::kAbsent ? nullptr : qir::constant_floats(l.graph(), id);
    const std::size_t count = g.axes.size;
    if (!roi || l.tensor(id).data.size != 2 * count * sizeof(float))
      return refuse(ErrorId::backend_limit,
                    "roi (input 1) is no constant of f32, expected one of a start and an end for each axis");
    for (std::size_t i = 0; i < count; ++i) {
      Axis &axis = axes[index_of(g.axes[i])];
      axis.roi_start = roi[i], axis.roi_end = roi[count + i];
    }
  }
  std::erase_if(axes, [](const Axis &axis) {
    return axis.in == axis.out && axis.scale == 1 && axis.roi_start == 0 && axis.roi_end == 1;
  });
  return axes;
}

// [in, out]: column y says of what output y is made. False: an output lies outside and is not zero.
bool fill_matrix(const qir::Node &node, const Axis &axis, float *matrix) {
  const Coordinates coordinates = qir::coordinates_of(node);
  const std::string_view mode = node.get_string("mode", "nearest");
  const bool cubic = mode == "cubic", excludes = node.get_int("exclude_outside", 0) != 0,
             smooth = node.get_int("antialias", 0) != 0 && mode != "nearest";
  const double coefficient = static_cast<double>(node.get_float("cubic_coeff_a", -0.75f));
  // Antialiasing stretches the filter where the axis shrinks.
  const double stretch = smooth ? std::min(static_cast<double>(axis.scale), 1.0) : 1.0;
  const auto first = static_cast<std::int64_t>(std::floor((cubic ? -2.0 : -1.0) / stretch) + 1);
  std::fill_n(matrix, axis.in * axis.out, 0.0f);
  for (std::int64_t y = 0; y < axis.out; ++y) {
    const float x = qir::original(axis, coordinates, y);
    if (coordinates == Coordinates::Crop && !(x >= 0 && x <= static_cast<float>(axis.in - 1))) {
      if (node.get_float("extrapolation_value", 0) != 0) return false;
      continue;
    }
    const auto at = [&](float position) -> float & {
      return matrix[qir::clamp_index(position, axis.in) * axis.out + y];
    };
    if (mode == "nearest") {
      at(qir::nearest_index(x, qir::nearest_of(node))) = 1;
      continue;
    }
    const float floor = std::floor(x);
    const double ratio = static_cast<double>(x) - static_cast<double>(floor);
    double sum = 0;
    for (const bool adds : {false, true}) {
      for (std::int64_t t = first; t <= 1 - first; ++t) {
        const float position = floor + static_cast<float>(t);
        const double distance = (static_cast<double>(t) - ratio) * stretch;
        double weight = cubic ? qir::cubic_weight(distance, coefficient) : std::max(1 - std::fabs(distance), 0.0);
        if (excludes && !(position >= 0 && position < static_cast<float>(axis.in))) weight = 0;
        if (!adds) sum += weight;
        else at(position) += static_cast<float>((excludes || smooth) && sum != 0 ? weight / sum : weight);
      }
    }
  }
  return true;
}

Status by_matrices(Lowering &l, const qir::Node &node, const Vector<Axis> &axes) {
  constexpr std::int64_t kMostElements = 4 << 20;
  Vector<Vector<float>> matrices;
  for (const Axis &axis : axes) {
    if (axis.in > kMostElements / std::max<std::int64_t>(axis.out, 1))
      return refuse(ErrorId::backend_limit,
                    format("an axis of %lld to %lld, expected a matrix of at most %lld elements", axis.in, axis.out,
                           kMostElements));
    if (!fill_matrix(node, axis, matrices.emplace_back(static_cast<std::size_t>(axis.in * axis.out)).data()))
      return refuse(ErrorId::backend_limit, "an extrapolation_value beside positions outside, expected 0");
  }
  std::int32_t x = l.natural(node.inputs[0]);
  const std::size_t rank = l.rank(node.inputs[0]);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis &axis = axes[i];
    const Vector<float> &matrix = matrices[i];
    const auto in = static_cast<std::uint32_t>(axis.in), out = static_cast<std::uint32_t>(axis.out);
    const std::int32_t weights =
        l.constant(node.name + ".resize", qnn::DataType::F32, {in, out}, matrix.data(), matrix.size() * sizeof(float));
    Vector<std::uint32_t> dims = l.drafted(x).dims, turned = dims;
    std::swap(turned[axis.axis], turned.back());
    Vector<std::uint32_t> perm;
    for (std::uint32_t a = 0; a < rank; ++a) perm.push_back(a);
    std::swap(perm[axis.axis], perm.back());
    const bool moves = axis.axis + 1 != rank;
    if (moves) {
      const std::int32_t made = l.between(node.inputs[0], "~turned", turned);
      l.param(l.node("Transpose", {x}, {made}), "perm", perm);
      x = made;
    }
    dims[axis.axis] = out, turned.back() = out;
    const bool is_last = i + 1 == axes.size();
    const std::int32_t product =
        is_last && !moves ? l.result(node.outputs[0]) : l.between(node.inputs[0], "~resized", turned);
    l.node("MatMul", {x, weights}, {product});
    x = product;
    if (moves) {
      const std::int32_t back = is_last ? l.result(node.outputs[0]) : l.between(node.inputs[0], "~resized", dims);
      l.param(l.node("Transpose", {x}, {back}), "perm", perm);
      x = back;
    }
  }
  return {};
}

// Whether the library's operations compute it. They know no scales, only dimensions.
bool library_has(const qir::Node &node, const qir::Shape &in, const qir::Shape &out, const Vector<Axis> &axes) {
  const std::string_view mode = node.get_string("mode", "nearest"),
                         where = node.get_string("coordinate_transformation_mode", "half_pixel");
  if (in.size() != 4 || in[0] != out[0] || in[1] != out[1] || mode == "cubic" || where == "tf_crop_and_resize" ||
      where == "half_pixel_symmetric" || node.get_int("antialias", 0) != 0 || node.get_int("exclude_outside", 0) != 0)
    return false;
  if (where == "pytorch_half_pixel" && mode == "linear" && (out[2] == 1 || out[3] == 1)) return false;
  return std::ranges::all_of(axes, [](const Axis &axis) {
    const float exact = static_cast<float>(axis.out) / static_cast<float>(axis.in);
    return std::fabs(axis.scale - exact) <= 1e-3f * exact;
  });
}

// Which input each output of an axis is.
Vector<std::int32_t> positions_of(const qir::Node &node, const Axis &axis) {
  Vector<std::int32_t> positions;
  for (std::int64_t y = 0; y < axis.out; ++y)
    positions.push_back(static_cast<std::int32_t>(qir::clamp_index(
        qir::nearest_index(qir::original(axis, qir::coordinates_of(node), y), qir::nearest_of(node)), axis.in)));
  return positions;
}

// The library's own takes the input that begins at or before the output; another one is gathered, axis by axis.
Status nearest_of_all(Lowering &l, const qir::Node &node, const Vector<Axis> &axes) {
  bool plain = l.rank(node.inputs[0]) == 4;
  Vector<Vector<std::int32_t>> positions;
  for (const Axis &axis : axes) {
    positions.push_back(positions_of(node, axis));
    plain = plain && axis.axis >= 2;
    for (std::int64_t y = 0; plain && y < axis.out; ++y)
      plain = positions.back()[index_of(y)] == y * axis.in / axis.out;
  }
  if (plain) {
    const Order order = channels_last(4);
    const std::int32_t x = l.stored(node.inputs[0], order);
    DraftNode &made = l.node("ResizeNearestNeighbor", {x}, {l.result(node.outputs[0], order)});
    l.param(made, "align_corners", false);
    l.param(made, "half_pixel_centers", false);
    return {};
  }
  std::int32_t x = l.natural(node.inputs[0]);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Vector<std::uint32_t> dims = l.drafted(x).dims;
    dims[axes[i].axis] = static_cast<std::uint32_t>(axes[i].out);
    const std::int32_t at =
        l.constant(node.name + ".places", qnn::DataType::I32, {static_cast<std::uint32_t>(positions[i].size())},
                   positions[i].data(), positions[i].size() * sizeof(std::int32_t));
    const bool last = i + 1 == axes.size();
    const std::int32_t y = last ? l.result(node.outputs[0]) : l.between(node.inputs[0], "~axis", dims);
    l.param(l.node("Gather", {x, at}, {y}), "axis", static_cast<std::int32_t>(axes[i].axis));
    x = y;
  }
  return {};
}

// The last two of four axes, as the library has them.
void emit_resize(Lowering &l, const qir::Node &node) {
  const qir::Shape &out = l.tensor(node.outputs[0]).shape;
  const std::string_view mode = node.get_string("mode", "nearest"),
                         where = node.get_string("coordinate_transformation_mode", "half_pixel"),
                         nearest = node.get_string("nearest_mode", "round_prefer_floor");
  const Order order = channels_last(4);
  const std::int32_t x = l.stored(node.inputs[0], order), y = l.result(node.outputs[0], order);
  const bool half = where == "half_pixel" || (where == "pytorch_half_pixel" && out[2] > 1 && out[3] > 1),
             corners = where == "align_corners";
  if (mode == "linear") {
    DraftNode &made = l.node("ResizeBilinear", {x}, {y});
    l.param(made, "align_corners", corners);
    l.param(made, "half_pixel_centers", half);
    return;
  }
  if (where == "asymmetric" && nearest == "floor") {
    DraftNode &made = l.node("ResizeNearestNeighbor", {x}, {y});
    l.param(made, "align_corners", false);
    l.param(made, "half_pixel_centers", false);
    return;
  }
  DraftNode &made = l.node("Resize", {x}, {y});
  l.param(made, "transformation_mode",
          std::uint32_t{where == "half_pixel"           ? 0u
                        : where == "pytorch_half_pixel" ? 1u
                        : corners                       ? 2u
                                                        : 3u});
  l.param(made, "interpolation_mode", std::uint32_t{0});
  l.param(made, "nearest_mode",
          std::uint32_t{nearest == "round_prefer_floor"  ? 0u
                        : nearest == "round_prefer_ceil" ? 1u
                        : nearest == "floor"             ? 2u
                                                         : 3u});
}

}  // namespace

Status resize(Lowering &l, const qir::Node &node) {
  const qir::Shape &in = l.tensor(node.inputs[0]).shape, &out = l.tensor(node.outputs[0]).shape;
  QR_ASSIGN_OR_RETURN(const Vector<Axis> axes, axes_of(l, node));
  if (axes.empty()) return identity(l, node);
  const std::string_view mode = node.get_string("mode", "nearest"),
                         where = node.get_string("coordinate_transformation_mode", "half_pixel");
  const bool one_quantisation =
      !l.tensor(node.inputs[0]).quant || l.tensor(node.inputs[0]).quant == l.tensor(node.outputs[0]).quant;
  if (mode == "nearest" && where != "tf_crop_and_resize" && one_quantisation) return nearest_of_all(l, node, axes);
  // The library's cubic is a little nearer than two products, where it has what is asked for.
  if (mode == "cubic" && where == "half_pixel" && in.size() == 4 && node.get_int("antialias", 0) == 0 &&
      node.get_int("exclude_outside", 0) == 0 && !l.tensor(node.inputs[0]).quant &&
      std::all_of(axes.begin(), axes.end(),
                  [](const Axis &axis) { return axis.axis >= 2 && axis.out == axis.in * 2 && axis.scale == 2; })) {
    const Order order = channels_last(4);
    const std::int32_t x = l.stored(node.inputs[0], order);
    DraftNode &made = l.node("Resize", {x}, {l.result(node.outputs[0], order)});
    l.param(made, "transformation_mode", std::uint32_t{0});
    l.param(made, "interpolation_mode", std::uint32_t{2});
    l.param(made, "cubic_coeff", node.get_float("cubic_coeff_a", -0.75f));
    return {};
  }
  if (!library_has(node, in, out, axes)) {
    if (!l.tensor(node.inputs[0]).quant && l.tensor(node.inputs[0]).dtype == DType::F32)
      return by_matrices(l, node, axes);
    return refuse(ErrorId::backend_limit,
                  format("a resize of quantised %s to %s, mode %s with coordinates by %s, expected f32, or one of the "
                         "last two of four "
                         "axes, nearest or linear, by half_pixel, align_corners or asymmetric",
                         shape_text(in.data(), in.size()), shape_text(out.data(), out.size()), printable(mode),
                         printable(where)));
  }
  emit_resize(l, node);
  return {};
}

}  // namespace quarry::htp::rules
