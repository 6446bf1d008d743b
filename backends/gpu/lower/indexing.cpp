// SPDX-License-Identifier: Apache-2.0
// What writes where indices say, and regions of images.
#include <algorithm>
#include <bit>

#include "backends/gpu/lower/rules.h"
#include "graph/infer/infer.h"

namespace quarry::gpu {

using qir::Op;

namespace {

// Nothing: a word that the operator does not have.
std::optional<Scattering> scattering_of(const qir::Node &node) {
  const std::string_view word = node.get_string("reduction", "none");
  if (word == "none") return Scattering::Replace;
  if (word == "add") return Scattering::Add;
  if (word == "mul") return Scattering::Mul;
  if (word == "max") return Scattering::Max;
  return word == "min" ? std::optional(Scattering::Min) : std::nullopt;
}

// Each element of the result reads at most so many updates; of more, the last one is found first.
constexpr std::int64_t kFewUpdates = 16;

// What a scatter does: which axes its indices name, and how many updates there are.
struct Scatter {
  bool tuples = false, whole = true;  // ScatterND; every element of the result can be named
  Scattering how = Scattering::Replace;
  std::size_t axis = 0;
  std::int64_t of = 1, count = 1;
};

Result<Scatter> match_scatter(const Lowering &l, const qir::Node &node) {
  const qir::Shape &x = l.shape(node.inputs[0]), &indices = l.shape(node.inputs[1]), &updates = l.shape(node.inputs[2]);
  const std::size_t rank = x.size();
  Scatter out{.tuples = node.op == Op::ScatterND};
  const auto how = scattering_of(node);
  if (!how)
    return refuse(ErrorId::backend_limit, node,
                  format("found reduction '%s', expected none, add, mul, max or min",
                         printable(node.get_string("reduction", "none"))));
  out.how = *how;
  if (x.empty()) return refuse(ErrorId::backend_limit, node, "found no axes");
  if (out.tuples) {
    out.of = indices.empty() ? 1 : indices.back(), out.count = strided::count_of(indices) / out.of;
    if (out.of > static_cast<std::int64_t>(rank))
      return refuse(ErrorId::backend_limit, node, "found more indices than axes");
    std::int64_t size = 1;
    for (std::size_t d = static_cast<std::size_t>(out.of); d < rank; ++d) size *= x[d];
    if (strided::count_of(updates) != out.count * size)
      return refuse(ErrorId::backend_limit, node, "found another number of updates than of indices");
    return out;
  }
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), rank, &out.axis));
  if (indices.size() != rank || updates != indices)
    return refuse(ErrorId::backend_limit, node, "found indices and updates of other dimensions");
  out.count = indices[out.axis];
  for (std::size_t d = 0; d < rank; ++d) {
    if (d == out.axis) continue;
    if (indices[d] > x[d]) return refuse(ErrorId::backend_limit, node, "found more indices than elements");
    out.whole = out.whole && indices[d] == x[d];
  }
  return out;
}

// What kernels that scatter walk: the result, the indices and the updates of each of its elements.
struct ScatterViews {
  View x, to, indices, index, update;
  std::int64_t i_step = 0, u_step = 1, tuple_step = 0;

  std::int64_t extent(const Scatter &s, std::size_t d) const {
    return d < static_cast<std::size_t>(s.of) ? x.dims[s.axis + d] : 1;
  }
};

// Each update gives its element its number, of which the greatest stays; then every element reads one.
Status emit_winners(Lowering &l, const qir::Node &node, const Scatter &s, ScatterViews v) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], ui = node.inputs[2], yi = node.outputs[0];
  // Winners have the coordinates that indices name; along the others of a tuple's update they are the same.
  const Dims named =
      s.tuples ? Dims(v.to.dims.begin(), v.to.dims.begin() + static_cast<std::ptrdiff_t>(s.of)) : v.to.dims;
  const View winners = l.between(named, DType::I32);
  FusedExpression none;
  none.at = none.code.constant(Number::Int, -1);
  QR_RETURN_IF_ERROR(l.emit_elements(none, {winners, DType::I32}));
  ScatterWinnerParams p{.COUNT_OF = s.of, .TUPLE_STEP = v.tuple_step, .AXIS = static_cast<std::int64_t>(s.axis)};
  p.CHECKED = checked(l);
  for (std::size_t d = 0; d < kMaxRank; ++d) {
    p.EXTENT[d] = v.extent(s, d);
    p.STEP[d] = d < static_cast<std::size_t>(s.of) ? winners.strides[s.axis + d] : 0;
  }
  View from{v.indices.value, v.indices.offset, {s.count}, {v.i_step}},
      slot{winners.value, winners.offset, {s.count}, {0}};
  if (!s.tuples) {
    from = v.indices, slot = {winners.value, winners.offset, v.indices.dims, winners.strides};
    slot.strides[s.axis] = 0;
  }
  const Arg number[] = {{from, l.dtype(ii)}};
  QR_RETURN_IF_ERROR(l.emit(p, from.dims, number, {}, {slot, DType::I32}));
  View winner{winners.value, winners.offset, v.to.dims, winners.strides};
  winner.strides.resize(v.x.rank(), 0);
  v.update.dims = v.to.dims;
  const Arg take[] = {{v.x, l.dtype(xi)}, {winner, DType::I32}, {v.update, l.dtype(ui)}};
  return l.emit(ScatterTakeParams{.UPDATES = s.count, .U_STEP = v.u_step}, v.to.dims, take, {}, {v.to, l.dtype(yi)});
}

}  // namespace

// Results are the same from run to run. Where there are few updates, and where they are joined, every element of the
// result looks for its own: no two work items write one element. Of many that replace only the last is read.
Status lower_scatter(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], ui = node.inputs[2], yi = node.outputs[0];
  const bool nothing = strided::count_of(l.shape(ii)) == 0 || strided::count_of(l.shape(xi)) == 0;
  Scatter s{.tuples = node.op == Op::ScatterND};
  if (!nothing) {
    QR_ASSIGN_OR_RETURN(s, match_scatter(l, node));
  }
  ScatterViews v;
  v.x = l.view(xi);
  const std::size_t rank = v.x.rank();
  v.indices = s.tuples ? l.dense(ii) : l.view(ii);
  const View updates = s.tuples ? l.dense(ui) : l.view(ui);
  if (nothing) {
    l.define(yi, v.x);
    return {};
  }
  const View y = l.result(yi);
  v.to = y, v.index = {v.indices.value, v.indices.offset, {}, Dims(rank, 0)};
  v.update = {updates.value, updates.offset, {}, Dims(rank, 0)};
  if (s.tuples) {
    v.i_step = s.of, v.tuple_step = 1;
    for (std::size_t d = rank; d-- > static_cast<std::size_t>(s.of);)
      v.update.strides[d] = v.u_step, v.u_step *= v.x.dims[d];
  } else {
    v.i_step = v.indices.strides[s.axis], v.u_step = updates.strides[s.axis];
    for (std::size_t d = 0; d < rank; ++d)
      if (d != s.axis) v.index.strides[d] = v.indices.strides[d], v.update.strides[d] = updates.strides[d];
    // Elements that no index can name are copied; the others then read what is copied, each its own.
    if (!s.whole) {
      QR_RETURN_IF_ERROR(l.copy({v.x, l.dtype(xi)}, {y, l.dtype(yi)}));
      for (std::size_t d = 0; d < rank; ++d)
        if (d != s.axis) v.to = strided::sliced(v.to, d, 0, v.indices.dims[d]);
      v.x = v.to;
    }
  }
  if (s.how == Scattering::Replace && s.count > kFewUpdates) return emit_winners(l, node, s, std::move(v));
  ScatterParams p{.HOW = field_of(s.how), .UPDATES = s.count, .I_STEP = v.i_step, .U_STEP = v.u_step};
  p.COUNT_OF = s.of, p.TUPLE_STEP = v.tuple_step, p.AXIS = static_cast<std::int64_t>(s.axis), p.CHECKED = checked(l);
  for (std::size_t d = 0; d < kMaxRank; ++d) p.EXTENT[d] = v.extent(s, d);
  v.index.dims = v.update.dims = v.to.dims;
  const Arg base[] = {{v.x, l.dtype(xi)}, {v.index, l.dtype(ii)}, {v.update, l.dtype(ui)}};
  return l.emit(p, v.to.dims, base, {}, {v.to, l.dtype(yi)});
}

Status lower_roi_align(Lowering &l, const qir::Node &node) {
  const View x = l.view(node.inputs[0]), rois = l.view(node.inputs[1]), images = l.view(node.inputs[2]);
  const Dims &dims = l.shape(node.outputs[0]);
  if (x.rank() != 4 || rois.rank() != 2 || images.rank() != 1 || rois.dims[1] != 4 || images.dims[0] != rois.dims[0] ||
      strided::count_of(x.dims) == 0)
    return refuse(ErrorId::backend_limit, node, "found no images, or regions that are not four numbers each");
  const RoiAlignParams p{
      .HOW = field_of(node.get_string("mode", "avg") == "avg" ? RoiMode::Average : RoiMode::Max),
      .HALF = node.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel",
      .RATIO = std::clamp<std::int64_t>(node.get_int("sampling_ratio", 0), 0, 4096),
      .SCALE = std::bit_cast<std::int32_t>(node.get_float("spatial_scale", 1.0F)),
      .IMAGES = x.dims[0],
      .X_IMAGE = x.strides[0],
      .ROI_STEP = rois.strides[1],
      .IN = {x.dims[2], x.dims[3]},
      .X = {x.strides[2], x.strides[3]},
  };
  const Arg base[] = {{{x.value, x.offset, dims, {0, x.strides[1], 0, 0}}, l.dtype(node.inputs[0])},
                      {{rois.value, rois.offset, dims, {rois.strides[0], 0, 0, 0}}, l.dtype(node.inputs[1])},
                      {{images.value, images.offset, dims, {images.strides[0], 0, 0, 0}}, l.dtype(node.inputs[2])}};
  return l.emit(p, dims, base, {}, {l.result(node.outputs[0]), l.dtype(node.outputs[0])});
}

}  // namespace quarry::gpu
