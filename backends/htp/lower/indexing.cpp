// SPDX-License-Identifier: Apache-2.0
// Operators that move values by indices, and sums along an axis.
#include <limits>

#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "base/float16.h"

namespace quarry::htp::rules {

using qnn::DataType;

namespace {

// Of ScatterElements and ScatterNd; nothing: the library has none.
std::optional<std::uint32_t> reduction_of(const qir::Node &node) {
  const std::string_view word = node.get_string("reduction", "none");
  if (word == "none") return 0u;
  if (word == "add") return 1u;
  if (word == "mul") return 2u;
  return std::nullopt;
}

Status no_reduction(const qir::Node &node) {
  return refuse(ErrorId::backend_limit,
                format("reduction %s, expected none, add or mul", printable(node.get_string("reduction", "none"))));
}

// The library's own sums and products of plain 8 and 16 bits are a unit off, and saturate.
Status check_reduced(Lowering &l, const qir::Node &node, std::uint32_t reduction) {
  if (reduction == 0 || !is_plain_small(l.tensor(node.inputs[0]))) return {};
  return refuse(ErrorId::backend_limit,
                format("reduction %s of %s, expected i32 or floats", printable(node.get_string("reduction", "none")),
                       dtype_name(l.tensor(node.inputs[0]).dtype)),
                "cast data and updates to i32 before the node, and back behind it");
}

// How many axes an index of GatherND or ScatterND names.
std::size_t indexed_axes(Lowering &l, const qir::Node &node) {
  return static_cast<std::size_t>(l.tensor(node.inputs[1]).shape.back());
}

}  // namespace

// A negative index counts from the end; the library takes it for 0. Those of a constant are counted here, others on the
// device. `extents`: one for all, or one for each element of the last axis.
Result<std::int32_t> indices_of(Lowering &l, const qir::Node &node, std::size_t input,
                                std::span<const std::int64_t> extents) {
  const qir::Tensor &indices = l.tensor(node.inputs[input]);
  const Vector<std::uint32_t> dims = Lowering::dims_of(indices.shape, natural_order(indices.shape.size()));
  if (indices.is_constant) {
    QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, constant_ints(l, node, input, "indices"));
    Vector<std::int32_t> values;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const std::int64_t extent = extents[i % extents.size()], index = given[i];
      if (index < -extent || index >= extent)
        return refuse(ErrorId::backend_limit,
                      format("index %lld, expected one from %lld to %lld", index, -extent, extent - 1));
      values.push_back(static_cast<std::int32_t>(index < 0 ? index + extent : index));
    }
    return l.constant(indices.name, DataType::I32, dims, values.data(), values.size() * 4);
  }
  Vector<std::int32_t> ends;
  for (const std::int64_t extent : extents) ends.push_back(static_cast<std::int32_t>(extent));
  // As a list of what lies along the last axis: integers of five axes the library cannot always reshape.
  const bool is_list = dims.size() > 4;
  Vector<std::uint32_t> shape = dims;
  if (is_list) {
    shape = {1, dims.back()};
    for (std::size_t i = 0; i + 1 < dims.size(); ++i) shape[0] *= dims[i];
  }
  Vector<std::uint32_t> end_dims(shape.size(), 1);
  end_dims.back() = static_cast<std::uint32_t>(ends.size());
  const std::int32_t at = l.reshaped(l.natural(node.inputs[input]), shape),
                     zero = scalar_like(l, node.inputs[input], "zero", 0);
  const std::int32_t end = l.constant(node.name + ".extent", DataType::I32, end_dims, ends.data(), ends.size() * 4);
  const std::int32_t is_negative = l.between(node.name + ".negative", DataType::Bool8, shape);
  const std::int32_t from_end = l.between(node.name + ".from_end", DataType::I32, shape);
  const std::int32_t counted = l.between(node.name + ".indices", DataType::I32, shape);
  l.node("ElementWiseLess", {at, zero}, {is_negative});
  l.node("ElementWiseAdd", {at, end}, {from_end});
  l.node("ElementWiseSelect", {is_negative, from_end, at}, {counted});
  return l.reshaped(counted, dims);
}

Status gather_elements(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", 0, rank);
  QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 1, {&l.tensor(node.inputs[0]).shape[axis], 1}));
  const std::int32_t x = l.natural(node.inputs[0]);
  DraftNode &made = l.node("GatherElements", {x, at}, {l.result(node.outputs[0])});
  l.param(made, "axis", static_cast<std::uint32_t>(axis));
  return {};
}

namespace {

// The positions that indices of several axes name, as those of one: [indices].
std::int32_t as_one_axis(Lowering &l, const qir::Node &node, std::int32_t at, std::span<const std::int64_t> extents) {
  const auto axes = static_cast<std::uint32_t>(extents.size());
  const DraftTensor given = l.drafted(at);
  std::uint32_t count = 1;
  for (std::size_t i = 0; i + 1 < given.dims.size(); ++i) count *= given.dims[i];
  if (axes == 1) return l.reshaped(at, {count});
  Vector<std::int32_t> strides(axes, 1);
  for (std::size_t i = axes - 1; i-- > 0;) strides[i] = strides[i + 1] * static_cast<std::int32_t>(extents[i + 1]);
  if (given.type == qnn::TensorType::Static) {
    const auto *const values = static_cast<const std::int32_t *>(given.data.data);
    Vector<std::int32_t> places(count, 0);
    for (std::uint32_t i = 0; i < count * axes; ++i) places[i / axes] += values[i] * strides[i % axes];
    return l.constant(given.name, DataType::I32, {count}, places.data(), places.size() * 4);
  }
  const std::int32_t steps = l.constant(node.name + ".strides", DataType::I32, {1, axes}, strides.data(), axes * 4);
  const std::int32_t scaled = l.between(node.name + ".scaled", DataType::I32, {count, axes});
  l.node("ElementWiseMultiply", {l.reshaped(at, {count, axes}), steps}, {scaled});
  std::int32_t sum = part_of(l, scaled, 1, 0, 1);
  for (std::uint32_t i = 1; i < axes; ++i) {
    const std::int32_t more = l.between(node.name + ".place", DataType::I32, {count, 1});
    l.node("ElementWiseAdd", {sum, part_of(l, scaled, 1, i, i + 1)}, {more});
    sum = more;
  }
  return l.reshaped(sum, {count});
}

// Positions of several batches behind each other, each of `places`.
std::int32_t by_batch(Lowering &l, const qir::Node &node, std::int32_t at, std::uint32_t batches,
                      std::uint32_t places) {
  if (batches == 1) return at;
  const DraftTensor given = l.drafted(at);
  const std::uint32_t count = given.dims[0];
  Vector<std::int32_t> begins(count);
  for (std::uint32_t i = 0; i < count; ++i)
    begins[i] = static_cast<std::int32_t>(i / (count / batches) * places) +
                (given.type == qnn::TensorType::Static ? static_cast<const std::int32_t *>(given.data.data)[i] : 0);
  const std::int32_t made = l.constant(node.name + ".batches", DataType::I32, {count}, begins.data(), count * 4);
  if (given.type == qnn::TensorType::Static) return made;
  const std::int32_t sum = l.between(node.name + ".of_batches", DataType::I32, {count});
  l.node("ElementWiseAdd", {at, made}, {sum});
  return sum;
}

}  // namespace

// As a Gather of rows: the library's own takes other elements of some shapes (bytes of columns, integers of five axes).
Status gather_nd(Lowering &l, const qir::Node &node) {
  const std::size_t batch = static_cast<std::size_t>(node.get_int("batch_dims", 0)), indexed = indexed_axes(l, node);
  const std::span<const std::int64_t> shape = l.tensor(node.inputs[0]).shape;
  std::uint32_t batches = 1, places = 1, rest = 1, all = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::uint32_t &of = i < batch ? batches : i < batch + indexed ? places : rest;
    const auto extent = static_cast<std::uint32_t>(shape[i]);
    if (of *= extent; !checked_mul<std::uint32_t>(all, extent, &all) || all > std::numeric_limits<std::int32_t>::max())
      return refuse(ErrorId::backend_limit, format("more than %d elements", std::numeric_limits<std::int32_t>::max()));
  }
  QR_ASSIGN_OR_RETURN(const std::int32_t given, indices_of(l, node, 1, shape.subspan(batch, indexed)));
  const std::int32_t at =
      by_batch(l, node, as_one_axis(l, node, given, shape.subspan(batch, indexed)), batches, places);
  const Vector<std::uint32_t> rows{batches * places, rest}, out{l.drafted(at).dims[0], rest};
  const std::int32_t x = l.reshaped(l.natural(node.inputs[0]), rows);
  const std::int32_t y = l.result(node.outputs[0]);
  const bool is_whole = l.drafted(y).dims == out;
  const std::int32_t found = is_whole ? y : l.between(node.outputs[0], "~gathered", out);
  l.param(l.node("Gather", {x, at}, {found}), "axis", std::int32_t{0});
  if (!is_whole) l.node("Reshape", {found}, {y});
  return {};
}

namespace {

// What ScatterElements does with what is there and what comes to it.
struct Reduction {
  const char *with, *along;  // nullptr: the product has no operation along an axis
  float nothing;             // that changes nothing
};
std::optional<Reduction> composed_reduction(const qir::Node &node, bool integers) {
  const std::string_view word = node.get_string("reduction", "none");
  const float most = integers ? 2147483520.0f : kLargestF16;
  if (word == "add") return Reduction{"ElementWiseAdd", "ReduceSum", 0};
  if (word == "mul") return Reduction{"ElementWiseMultiply", nullptr, 1};
  if (word == "max") return Reduction{"ElementWiseMaximum", "ReduceMax", -most};
  if (word == "min") return Reduction{"ElementWiseMinimum", "ReduceMin", most};
  return std::nullopt;
}

Status check_pairs(const Vector<std::uint32_t> &grouped, std::uint64_t places) {
  constexpr std::uint64_t kMostElements = 1 << 22;
  std::uint64_t count = places;
  for (const std::uint32_t extent : grouped)
    if (!checked_mul<std::uint64_t>(count, extent, &count)) count = std::numeric_limits<std::uint64_t>::max();
  if (count <= kMostElements) return {};
  return refuse(ErrorId::backend_limit,
                format("%llu pairs of updates and positions, expected at most %llu", count, kMostElements),
                "scatter along a shorter axis, or fewer updates at a time");
}

// The library has none that combines. Each position of the axis takes the updates whose index it is, and none
// of the others: [before, updates, positions, behind], which is reduced over the updates.
// What comes to each position, [.., positions, ..] of `grouped` [before, updates, 1, behind]: of a pair of an update
// and a position the update where it is for that position, else nothing; combined along the updates.
std::int32_t combined_updates(Lowering &l, const qir::Node &node, const Reduction &reduction, std::int32_t at,
                              std::int32_t updates, const Vector<std::uint32_t> &grouped, std::uint32_t places) {
  Vector<std::int32_t> numbers;
  for (std::uint32_t i = 0; i < places; ++i) numbers.push_back(static_cast<std::int32_t>(i));
  const std::int32_t each = l.constant(node.name + ".places", DataType::I32, {1, 1, places, 1}, numbers.data(),
                                       numbers.size() * sizeof(std::int32_t));
  Vector<std::uint32_t> pairs = grouped, one = grouped, met = l.drafted(at).dims;
  pairs[2] = one[2] = met[2] = places, one[1] = 1;
  const std::int32_t is_it = l.between(node.name + ".is_it", DataType::Bool8, met),
                     chosen = l.between(node.inputs[2], "~chosen", pairs);
  l.node("ElementWiseEqual", {at, each}, {is_it});
  l.node("ElementWiseSelect",
         {is_it, l.reshaped(updates, grouped), scalar_like(l, node.inputs[0], "nothing", reduction.nothing)}, {chosen});
  if (!reduction.along) return product_along(l, chosen, 1);
  const std::int32_t combined = l.between(node.inputs[2], "~combined", one);
  DraftNode &made = l.node(reduction.along, {chosen}, {combined});
  l.param(made, "axes", Vector<std::uint32_t>{1});
  l.param(made, "keep_dims", true);
  return combined;
}

Status scatter_combined(Lowering &l, const qir::Node &node, const Reduction &reduction) {
  const qir::Shape &data = l.tensor(node.inputs[0]).shape, &index = l.tensor(node.inputs[1]).shape;
  const std::size_t rank = data.size(), axis = axis_of(node, "axis", 0, rank);
  Vector<std::uint32_t> grouped{1, static_cast<std::uint32_t>(index[axis]), 1, 1};
  for (std::size_t i = 0; i < rank; ++i)
    if (i != axis) grouped[i < axis ? 0 : 3] *= static_cast<std::uint32_t>(index[i]);
  const auto places = static_cast<std::uint32_t>(data[axis]);
  QR_RETURN_IF_ERROR(check_pairs(grouped, places));
  QR_ASSIGN_OR_RETURN(const std::int32_t given, indices_of(l, node, 1, {&data[axis], 1}));
  const std::int32_t combined =
      combined_updates(l, node, reduction, l.reshaped(given, grouped), l.natural(node.inputs[2]), grouped, places);
  // Updates may be for the first elements of other axes alone.
  Vector<std::uint32_t> reached = Lowering::dims_of(index, natural_order(rank));
  reached[axis] = places;
  const std::int32_t x = l.natural(node.inputs[0]);
  std::int32_t part = x;
  for (std::size_t i = 0; i < rank; ++i)
    if (reached[i] != l.drafted(part).dims[i]) part = part_of(l, part, i, 0, reached[i]);
  const bool is_whole = part == x;
  const std::int32_t y = l.result(node.outputs[0]);
  std::int32_t made = is_whole ? y : l.between(node.inputs[0], "~part", reached);
  l.node(reduction.with, {part, l.reshaped(combined, reached)}, {made});
  for (std::size_t i = 0; i < rank && !is_whole; ++i) {
    const std::uint32_t extent = l.drafted(x).dims[i];
    if (reached[i] == extent) continue;
    std::int32_t rest = part_of(l, x, i, reached[i], extent);
    for (std::size_t k = i + 1; k < rank; ++k)
      if (reached[k] != l.drafted(rest).dims[k]) rest = part_of(l, rest, k, 0, reached[k]);
    reached[i] = extent;
    const bool is_last = reached == l.drafted(x).dims;
    const std::int32_t with = is_last ? y : l.between(node.inputs[0], "~part", reached);
    l.param(l.node("Concat", {made, rest}, {with}), "axis", static_cast<std::uint32_t>(i));
    made = with;
  }
  return {};
}

}  // namespace

Status scatter_elements(Lowering &l, const qir::Node &node) {
  const qir::Tensor &data = l.tensor(node.inputs[0]);
  const bool integers = data.dtype == DType::I32 || data.dtype == DType::I64;
  if (const std::optional<Reduction> reduction = composed_reduction(node, integers);
      reduction && (integers || data.dtype == DType::F32 || data.dtype == DType::F16) && !data.quant)
    return scatter_combined(l, node, *reduction);
  const std::optional<std::uint32_t> reduction = reduction_of(node);
  if (!reduction) return no_reduction(node);
  QR_RETURN_IF_ERROR(check_reduced(l, node, *reduction));
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", 0, rank);
  QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 1, {&l.tensor(node.inputs[0]).shape[axis], 1}));
  const std::int32_t x = l.natural(node.inputs[0]), updates = l.natural(node.inputs[2]);
  DraftNode &made = l.node("ScatterElements", {x, at, updates}, {l.result(node.outputs[0])});
  l.param(made, "axis", static_cast<std::uint32_t>(axis));
  l.param(made, "reduction", *reduction);
  return {};
}

Status scatter_nd(Lowering &l, const qir::Node &node) {
  const std::optional<std::uint32_t> reduction = reduction_of(node);
  const std::span<const std::int64_t> shape = l.tensor(node.inputs[0]).shape;
  const std::size_t indexed = indexed_axes(l, node);
  if (!reduction) {
    const qir::Tensor &data = l.tensor(node.inputs[0]);
    const bool integers = data.dtype == DType::I32 || data.dtype == DType::I64;
    const std::optional<Reduction> composed = composed_reduction(node, integers);
    if (!composed || data.quant || (!integers && data.dtype != DType::F32 && data.dtype != DType::F16))
      return no_reduction(node);
    std::uint64_t places = 1, rest = 1;
    for (std::size_t i = 0; i < shape.size(); ++i)
      (i < indexed ? places : rest) *= static_cast<std::uint64_t>(shape[i]);
    if (places > 1 << 22 || rest > 1 << 22)
      return refuse(ErrorId::backend_limit,
                    format("%llu positions of %llu elements, expected at most %d of either", places, rest, 1 << 22));
    const qir::Shape &index = l.tensor(node.inputs[1]).shape;
    std::uint32_t count = 1;
    for (std::size_t i = 0; i + 1 < index.size(); ++i) count *= static_cast<std::uint32_t>(index[i]);
    const Vector<std::uint32_t> grouped{1, count, 1, static_cast<std::uint32_t>(rest)};
    QR_RETURN_IF_ERROR(check_pairs(grouped, places));
    QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 1, shape.first(indexed)));
    const std::int32_t where = as_one_axis(l, node, at, shape.first(indexed));
    const std::int32_t combined =
        combined_updates(l, node, *composed, l.reshaped(where, {1, count, 1, 1}), l.natural(node.inputs[2]), grouped,
                         static_cast<std::uint32_t>(places));
    const std::int32_t x = l.natural(node.inputs[0]);
    l.node(composed->with, {x, l.reshaped(combined, l.drafted(x).dims)}, {l.result(node.outputs[0])});
    return {};
  }
  QR_RETURN_IF_ERROR(check_reduced(l, node, *reduction));
  QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 1, shape.first(indexed)));
  // A list of indices and one of what goes there, on one axis for all that are indexed and one for the rest where the
  // library would have more than it has an operation for.
  std::int32_t x = l.natural(node.inputs[0]), updates = l.natural(node.inputs[2]), where = at;
  const std::int32_t y = l.result(node.outputs[0]);
  const bool is_list =
      std::max({l.drafted(x).dims.size(), l.drafted(updates).dims.size(), l.drafted(at).dims.size()}) > 4;
  if (!is_list) {
    l.param(l.node("ScatterNd", {x, at, updates}, {y}), "reduction", *reduction);
    return {};
  }
  where = as_one_axis(l, node, at, shape.first(indexed));
  const std::uint32_t count = l.drafted(where).dims[0];
  std::uint32_t places = 1, rest = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) (i < indexed ? places : rest) *= l.drafted(x).dims[i];
  const Vector<std::uint32_t> rows{places, rest};
  const std::int32_t made = l.between(node.outputs[0], "~rows", rows);
  x = l.reshaped(x, rows), updates = l.reshaped(updates, {count, rest}), where = l.reshaped(where, {count, 1});
  l.param(l.node("ScatterNd", {x, where, updates}, {made}), "reduction", *reduction);
  l.node("Reshape", {made}, {y});
  return {};
}

namespace {

// On v68 the library prepares none of floats: a product with a matrix of ones on one side of the diagonal.
Status sum_by_product(Lowering &l, const qir::Node &node, std::size_t axis, bool exclusive, bool reverse) {
  constexpr std::uint32_t kMost = 2048;
  Order order = natural_order(l.rank(node.inputs[0]));
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(axis));
  order.push_back(static_cast<std::uint8_t>(axis));
  const auto n = static_cast<std::uint32_t>(l.tensor(node.inputs[0]).shape[axis]);
  if (n > kMost)
    return refuse(ErrorId::backend_limit, format("an axis of %u on v68, expected at most %u", n, kMost),
                  "compile for another SoC");
  std::int32_t x = l.stored(node.inputs[0], order);
  const std::int32_t y = l.result(node.outputs[0], order);
  const Vector<std::uint32_t> dims = l.drafted(x).dims;
  const bool is_half = l.drafted(x).dtype == DataType::F16;
  if (is_half) {
    const std::int32_t wide = l.between(node.inputs[0], "~wide", dims);
    l.drafted(wide).dtype = DataType::F32;
    l.node("Cast", {x}, {wide});
    x = wide;
  }
  Vector<float> matrix(std::size_t{n} * n);
  for (std::uint32_t from = 0; from < n; ++from)
    for (std::uint32_t to = 0; to < n; ++to)
      matrix[std::size_t{from} * n + to] =
          (reverse ? from > to : from < to) || (from == to && !exclusive) ? 1.0f : 0.0f;
  Vector<std::uint32_t> rows{1, n};
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) rows[0] *= dims[i];
  std::int32_t sums = l.between(node.outputs[0], "~rows", rows);
  l.drafted(sums).dtype = DataType::F32;
  l.node(
      "MatMul",
      {l.reshaped(x, rows), l.constant(node.name + ".ones", DataType::F32, {n, n}, matrix.data(), matrix.size() * 4)},
      {sums});
  if (is_half) {
    const std::int32_t half = l.between(node.outputs[0], "~half", rows);
    l.node("Cast", {sums}, {half});
    sums = half;
  }
  l.node("Reshape", {sums}, {y});
  return {};
}

}  // namespace

// The library cannot prepare the exclusive one, nor the one from the end: that is the sum of what lies in another
// order, or one position further.
Status cumulative_sum(Lowering &l, const qir::Node &node) {
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> axes, constant_ints(l, node, 1, "axis"));
  const std::size_t rank = l.rank(node.inputs[0]);
  const std::int64_t given = axes.empty() ? 0 : axes[0];
  const std::size_t axis = static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(rank) : given);
  const Order order = l.order(node.inputs[0]);
  const std::uint32_t place = place_of(order, axis);
  const bool exclusive = node.get_int("exclusive", 0) != 0, reverse = node.get_int("reverse", 0) != 0;
  const qir::Tensor &data = l.tensor(node.inputs[0]);
  if (l.soc().arch == 68 && (data.dtype == DType::F32 || data.dtype == DType::F16) && !data.quant)
    return sum_by_product(l, node, axis, exclusive, reverse);
  std::int32_t x = l.stored(node.inputs[0], order);
  const DraftTensor like = l.drafted(x);
  const auto fresh = [&](const Vector<std::uint32_t> &dims) {
    return l.between(like.name, like.dtype, dims, like.encoding);
  };
  if (exclusive && like.dims[place] == 1) {
    l.node("ElementWiseMultiply", {x, scalar_like(l, node.inputs[0], "zero", 0)}, {l.result(node.outputs[0], order)});
    return {};
  }
  if (reverse) {
    const std::int32_t turned = fresh(like.dims);
    backwards(l, x, place, turned);
    x = turned;
  }
  if (exclusive) {
    Vector<std::uint32_t> first = like.dims;
    first[place] = 1;
    const std::int32_t zero = like.encoding.scales.empty() ? 0 : like.encoding.zero_points[0];
    const std::int32_t shifted = fresh(like.dims), rest = part_of(l, x, place, 0, like.dims[place] - 1);
    l.param(l.node("Concat", {filled_like(l, x, first, zero), rest}, {shifted}), "axis", place);
    x = shifted;
  }
  const std::int32_t y = l.result(node.outputs[0], order);
  const std::int32_t sum =
      reverse ? l.between(l.drafted(y).name, l.drafted(y).dtype, like.dims, l.drafted(y).encoding) : y;
  DraftNode &made = l.node("CumulativeSum", {x}, {sum});
  l.param(made, "axis", place);
  l.param(made, "exclusive", false);
  l.param(made, "reverse", false);
  if (reverse) backwards(l, sum, place, y);
  return {};
}

// A constant mask chooses between the values and zero.
Status trilu(Lowering &l, const qir::Node &node) {
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, constant_ints(l, node, 1, "k"));
  const std::int64_t k = given.empty() ? 0 : given[0];
  const bool upper = node.get_int("upper", 1) != 0;
  const qir::Shape &shape = l.tensor(node.inputs[0]).shape;
  const std::size_t rank = shape.size();
  const std::int64_t rows = shape[rank - 2], columns = shape[rank - 1];
  Vector<std::uint8_t> mask;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) mask.push_back(upper ? j - i >= k : j - i <= k);
  Vector<std::uint32_t> dims(rank, 1);
  dims[rank - 2] = static_cast<std::uint32_t>(rows), dims[rank - 1] = static_cast<std::uint32_t>(columns);
  const std::int32_t x = l.natural(node.inputs[0]);
  const std::int32_t chosen = l.constant(node.name + ".mask", qnn::DataType::Bool8, dims, mask.data(), mask.size());
  if (l.tensor(node.inputs[0]).dtype == DType::Bool) {
    l.node("ElementWiseAnd", {x, chosen}, {l.result(node.outputs[0])});
    return {};
  }
  const std::int32_t zero = scalar_like(l, node.inputs[0], "zero", 0);
  l.node("ElementWiseSelect", {chosen, x, zero}, {l.result(node.outputs[0])});
  return {};
}

}  // namespace quarry::htp::rules
