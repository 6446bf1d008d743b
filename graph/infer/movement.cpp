// SPDX-License-Identifier: Apache-2.0
// Operators that move elements without looking at them.
#include <algorithm>
#include <limits>

#include "graph/infer/rules.h"

namespace quarry::qir {

using rules::is_known;
using rules::may_equal;

Status resolve_reshape(const Node &node, Dims data, Dims shape, IntList *out) {
  if (shape.size() > kMaxRank)
    return node_error(node, ErrorId::qir_rank, "the shape has %zu dimensions, expected at most %zu", shape.size(),
                      kMaxRank);
  const bool allow_zero = node.get_int("allowzero", 0) != 0;
  IntList result;
  result.size = static_cast<std::uint32_t>(shape.size());
  std::size_t open = kMaxRank;  // the -1
  // Dimensions copied from the input cancel out of the division; so an unknown one that is copied need not be known.
  std::int64_t from = 1, to = 1;
  bool cancelled[kMaxRank] = {}, zero = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    result.values[i] = shape[i];
    if (shape[i] == -1) {
      if (open != kMaxRank)
        return node_error(node, ErrorId::qir_shape, "the shape %s leaves more than one size open", text(shape));
      open = i;
    } else if (shape[i] < -1) {
      return node_error(node, ErrorId::qir_shape, "the shape has a negative entry, %lld", ll(shape[i]));
    } else if (shape[i] == 0 && !allow_zero) {
      if (i >= data.size())
        return node_error(node, ErrorId::qir_shape, "the shape copies size %zu of an input of rank %zu", i,
                          data.size());
      result.values[i] = data[i];
      cancelled[i] = !is_known(data[i]);
      zero |= data[i] == 0;
      if (is_known(data[i])) QR_RETURN_IF_ERROR(rules::multiply(node, to, data[i], &to));
    } else {
      zero |= shape[i] == 0;
      QR_RETURN_IF_ERROR(rules::multiply(node, to, shape[i], &to));
    }
  }
  bool known = true;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (cancelled[i]) continue;
    QR_RETURN_IF_ERROR(rules::multiply(node, from, data[i], &from));
    known = is_known(from);
    if (!known) break;
  }
  const auto mismatch = [&](const char *why) {
    return node_error(node, ErrorId::qir_shape, "%s does not reshape to %s: %s", text(data), text(shape), why);
  };
  if (open != kMaxRank) {
    if (zero && allow_zero) return mismatch("-1 beside a size of 0");
    if (known) {
      if (to == 0 && from != 0) return mismatch("the number of elements differs");
      if (to != 0 && from % to != 0) return mismatch("the open size is no whole number");
      result.values[open] = to == 0 ? 0 : from / to;
    }
  } else if (known && from != to &&
             std::none_of(std::begin(cancelled), std::end(cancelled), [](bool c) { return c; })) {
    return mismatch("the number of elements differs");
  }
  *out = result;
  return {};
}

Status resolve_slice(const Node &node, Dims data, Dims starts, Dims ends, Dims axes, Dims steps, SliceGeometry *out) {
  *out = SliceGeometry();
  out->rank = static_cast<std::uint32_t>(data.size());
  std::copy(data.begin(), data.end(), out->extent);
  std::fill_n(out->step, kMaxRank, 1);
  const std::size_t count = starts.size();
  if (ends.size() != count || (!axes.empty() && axes.size() != count) || (!steps.empty() && steps.size() != count) ||
      count > data.size())
    return node_error(node, ErrorId::qir_shape,
                      "starts, ends, axes and steps have %zu, %zu, %zu and %zu entries for a tensor of rank %zu", count,
                      ends.size(), axes.size(), steps.size(), data.size());
  IntList resolved;
  if (!axes.empty()) QR_RETURN_IF_ERROR(resolve_axes(node, axes, data.size(), &resolved));
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = axes.empty() ? i : index_of(resolved[i]);
    const std::int64_t step = steps.empty() ? 1 : steps[i], extent = data[axis];
    if (step == 0) return node_error(node, ErrorId::qir_shape, "the step of axis %zu is 0", axis);
    out->step[axis] = step;
    if (!is_known(extent)) continue;
    // As Python's slices: from the end when negative, then clamped to where the direction can begin and stop. But for
    // one thing: going backwards from before the first element begins with it, as ONNX has it.
    const auto clamp = [&](std::int64_t index, std::int64_t least, std::int64_t most) {
      if (index < 0) index = index < -extent ? least : index + extent;
      return std::clamp(index, least, most);
    };
    const std::int64_t first =
        step > 0 ? clamp(starts[i], 0, extent) : clamp(starts[i], std::min<std::int64_t>(extent - 1, 0), extent - 1);
    const std::int64_t stop = step > 0 ? clamp(ends[i], 0, extent) : clamp(ends[i], -1, extent - 1);
    const std::int64_t distance = step > 0 ? stop - first : first - stop;
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
    out->extent[axis] =
        distance <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / stride + 1);
    out->start[axis] = distance <= 0 ? 0 : first;
  }
  return {};
}

Status resolve_pad(const Node &node, Dims data, Dims pads, bool has_axes, Dims axes, PadGeometry *out) {
  *out = PadGeometry();
  out->rank = static_cast<std::uint32_t>(data.size());
  std::copy(data.begin(), data.end(), out->extent);
  IntList resolved;
  if (has_axes) QR_RETURN_IF_ERROR(resolve_axes(node, axes, data.size(), &resolved));
  const std::size_t count = has_axes ? resolved.size : data.size();
  if (pads.size() != 2 * count)
    return node_error(node, ErrorId::qir_shape, "pads has %zu entries, expected %zu (two per axis)", pads.size(),
                      2 * count);
  const std::string_view mode = node.get_string("mode", "constant");
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = has_axes ? index_of(resolved[i]) : i;
    const std::int64_t begin = pads[i], end = pads[count + i], have = data[axis];
    out->begin[axis] = begin;
    out->end[axis] = end;
    if (!is_known(have)) continue;
    std::int64_t extent;
    if (!checked_add(have, begin, &extent) || !checked_add(extent, end, &extent) || extent < 0)
      return node_error(node, ErrorId::qir_shape, "pads of %lld and %lld do not fit axis %zu of size %lld", ll(begin),
                        ll(end), axis, ll(have));
    if (mode != "constant" && have == 0 && extent > 0)
      return node_error(node, ErrorId::qir_shape, "axis %zu is empty: there is nothing to pad with in mode %.*s", axis,
                        mode);
    out->extent[axis] = extent;
  }
  return {};
}

Status resolve_split(const Node &node, std::int64_t extent, Dims sizes, Vector<std::int64_t> *out) {
  const std::size_t parts = node.outputs.size();
  if (!sizes.empty()) {
    if (node.find("num_outputs"))
      return node_error(node, ErrorId::qir_attribute, "both split and num_outputs are given, expected one of them");
    if (sizes.size() != parts)
      return node_error(node, ErrorId::qir_shape, "split has %zu entries for %zu outputs", sizes.size(), parts);
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes)
      if (size < 0 || !checked_add(sum, size, &sum))
        return node_error(node, ErrorId::qir_shape, "split has a part of %lld elements", ll(size));
    if (!may_equal(sum, extent))
      return node_error(node, ErrorId::qir_shape, "the parts of split add up to %lld, expected the axis' size, %lld",
                        ll(sum), ll(extent));
    out->assign(sizes.begin(), sizes.end());
    return {};
  }
  const std::int64_t count = node.get_int("num_outputs", static_cast<std::int64_t>(parts));
  if (count != static_cast<std::int64_t>(parts))
    return node_error(node, ErrorId::qir_attribute, "attribute 'num_outputs' is %lld, but the node has %zu outputs",
                      ll(count), parts);
  out->assign(parts, kUnknownDim);
  if (!is_known(extent)) return {};
  // All parts of one size; the last one is smaller when the dimension does not divide (as ONNX has it from opset 18).
  const std::int64_t size = extent / count + (extent % count != 0);
  for (std::size_t i = 0; i < parts; ++i)
    (*out)[i] = std::clamp<std::int64_t>(extent - size * static_cast<std::int64_t>(i), 0, size);
  return {};
}

namespace rules {

Status concat(const Node &node, Inputs inputs, Outputs outputs) {
  DimList shape(dims_of(inputs[0]));
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", 0), shape.size, &axis));
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const Dims next = dims_of(inputs[i]);
    bool fits = next.size() == shape.size;
    for (std::size_t d = 0; fits && d < next.size(); ++d) {
      if (d == axis) continue;
      fits = may_equal(next[d], shape[d]);
      shape.values[d] = known_of(shape[d], next[d]);
    }
    if (!fits)
      return node_error(node, ErrorId::qir_shape, "input %zu has shape %s, which does not join %s along axis %zu", i,
                        text(next), text(inputs[0].shape), axis);
    QR_RETURN_IF_ERROR(add(node, shape[axis], next[axis], &shape.values[axis]));
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status split(const Node &node, Inputs inputs, Outputs outputs) {
  DimList shape(dims_of(inputs[0]));
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", 0), shape.size, &axis));
  Vector<std::int64_t> parts, sizes;
  if (has_input(inputs, 1)) QR_RETURN_IF_ERROR(expect_rank(node, "split", dims_of(inputs[1]), 1));
  if (has_input(inputs, 1) && !value_known(inputs, 1)) {
    parts.assign(outputs.size(), kUnknownDim);
  } else {
    for (std::int64_t i = 0; value_known(inputs, 1) && i < inputs[1].shape[0]; ++i)
      sizes.push_back(int_at(inputs[1], index_of(i)));
    QR_RETURN_IF_ERROR(resolve_split(node, shape[axis], {sizes.data(), sizes.size()}, &parts));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    shape.values[axis] = parts[i];
    set_output(outputs, i, real_dtype(inputs[0]), shape);
  }
  return {};
}

Status reshape(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims target = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(expect_rank(node, "the shape", target, 1));
  IntList shape;
  if (inputs[1].value.data) {
    IntList wanted;
    QR_RETURN_IF_ERROR(read_ints(node, 1, inputs[1], &wanted));
    QR_RETURN_IF_ERROR(resolve_reshape(node, dims_of(inputs[0]), wanted, &shape));
  } else {
    if (!is_known(target[0]) || target[0] > static_cast<std::int64_t>(kMaxRank))
      return node_error(node, ErrorId::qir_rank,
                        "the rank of the result is %lld, expected at most %zu, known before the run", ll(target[0]),
                        kMaxRank);
    shape.size = static_cast<std::uint32_t>(target[0]);
    std::fill_n(shape.values, shape.size, kUnknownDim);
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status flatten(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  const std::int64_t rank = static_cast<std::int64_t>(x.size());
  std::int64_t axis = node.get_int("axis", 1);
  if (axis < -rank || axis > rank)
    return node_error(node, ErrorId::qir_shape, "axis %lld is outside a tensor of rank %zu, expected %lld to %lld",
                      ll(axis), x.size(), ll(-rank), ll(rank));
  if (axis < 0) axis += rank;
  std::int64_t shape[2];
  QR_RETURN_IF_ERROR(product(node, x.first(index_of(axis)), &shape[0]));
  QR_RETURN_IF_ERROR(product(node, x.subspan(index_of(axis)), &shape[1]));
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

namespace {
// How many axes an input names whose value comes only at run time: that settles the rank.
Status axis_count(const Node &node, const InferValue &axes, std::size_t most, std::size_t *out) {
  const std::int64_t count = axes.shape.empty() ? 1 : axes.shape.size() == 1 ? axes.shape[0] : kUnknownDim;
  if (count < 0 || count > static_cast<std::int64_t>(most))
    return node_error(node, ErrorId::qir_rank,
                      "axes has shape %s, expected a list of at most %zu, its length known before the run",
                      text(axes.shape), most);
  *out = static_cast<std::size_t>(count);
  return {};
}
}  // namespace

Status squeeze(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  bool gone[kMaxRank] = {};
  if (!has_input(inputs, 1)) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!is_known(x[i]))
        return node_error(node, ErrorId::qir_rank, "without axes, every size must be known, but the input has shape %s",
                          text(x));
      gone[i] = x[i] == 1;
    }
  } else if (inputs[1].value.data) {
    IntList given, axes;
    QR_RETURN_IF_ERROR(read_ints(node, 1, inputs[1], &given));
    QR_RETURN_IF_ERROR(resolve_axes(node, given, x.size(), &axes));
    for (const std::int64_t axis : Dims(axes)) {
      gone[axis] = true;
      if (!may_equal(x[index_of(axis)], 1))
        return node_error(node, ErrorId::qir_shape, "axis %lld has size %lld, expected 1", ll(axis),
                          ll(x[index_of(axis)]));
    }
  } else {
    std::size_t count = 0;
    QR_RETURN_IF_ERROR(axis_count(node, inputs[1], x.size(), &count));
    DimList unknown;
    for (std::size_t i = count; i < x.size(); ++i) unknown.push(kUnknownDim);
    set_output(outputs, 0, real_dtype(inputs[0]), unknown);
    return {};
  }
  DimList shape;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!gone[i]) shape.push(x[i]);
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status unsqueeze(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  if (!inputs[1].value.data) {
    std::size_t count = 0;
    QR_RETURN_IF_ERROR(axis_count(node, inputs[1], kMaxRank, &count));
    DimList unknown(x);
    for (std::size_t i = 0; i < count; ++i) unknown.push(kUnknownDim);
    std::fill_n(unknown.values, unknown.size, kUnknownDim);
    set_output(outputs, 0, real_dtype(inputs[0]), unknown);
    return {};
  }
  IntList given, axes;
  QR_RETURN_IF_ERROR(read_ints(node, 1, inputs[1], &given));
  const std::size_t rank = x.size() + given.size;
  if (rank > kMaxRank)
    return node_error(node, ErrorId::qir_rank, "the result has %zu dimensions, expected at most %zu", rank, kMaxRank);
  QR_RETURN_IF_ERROR(resolve_axes(node, given, rank, &axes));
  DimList shape;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool is_new =
        std::find(axes.values, axes.values + axes.size, static_cast<std::int64_t>(i)) != axes.values + axes.size;
    shape.push(is_new ? 1 : x[next++]);
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status transpose(const Node &node, Inputs inputs, Outputs outputs) {
  DimList shape(dims_of(inputs[0]));
  const Vector<std::int64_t> *perm = node.get_ints("perm");
  if (!perm) {
    std::reverse(shape.values, shape.values + shape.size);
  } else {
    IntList axes;
    if (perm->size() != shape.size)
      return node_error(node, ErrorId::qir_attribute, "attribute 'perm' has %zu entries, expected %u", perm->size(),
                        shape.size);
    // Who moves the data takes them as they are written, so -1 is not the last axis here; the importer writes that.
    for (const std::int64_t axis : *perm)
      if (axis < 0)
        return node_error(node, ErrorId::qir_attribute, "attribute 'perm' has the entry %lld, expected 0 to %u",
                          ll(axis), shape.size - 1);
    QR_RETURN_IF_ERROR(resolve_axes(node, {perm->data(), perm->size()}, shape.size, &axes));
    for (std::size_t i = 0; i < shape.size; ++i) shape.values[i] = inputs[0].shape[index_of(axes[i])];
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status expand(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims target = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(expect_rank(node, "the shape", target, 1));
  IntList shape;
  if (inputs[1].value.data) {
    QR_RETURN_IF_ERROR(read_ints(node, 1, inputs[1], &shape));
    for (const std::int64_t d : Dims(shape))
      if (d < 0) return node_error(node, ErrorId::qir_shape, "the shape has a negative entry, %lld", ll(d));
  } else {
    if (!is_known(target[0]) || target[0] > static_cast<std::int64_t>(kMaxRank))
      return node_error(node, ErrorId::qir_rank,
                        "the rank of the result is %lld, expected at most %zu, known before the run", ll(target[0]),
                        kMaxRank);
    shape.size = static_cast<std::uint32_t>(target[0]);
    std::fill_n(shape.values, shape.size, kUnknownDim);
  }
  QR_RETURN_IF_ERROR(resolve_broadcast(node, dims_of(inputs[0]), shape, &shape));
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status tile(const Node &node, Inputs inputs, Outputs outputs) {
  DimList shape(dims_of(inputs[0]));
  const std::int64_t rank = shape.size;
  QR_RETURN_IF_ERROR(expect_shape(node, "repeats", dims_of(inputs[1]), {&rank, 1}));
  IntList repeats;
  if (inputs[1].value.data) QR_RETURN_IF_ERROR(read_ints(node, 1, inputs[1], &repeats));
  for (std::size_t i = 0; i < shape.size; ++i) {
    if (repeats.size > 0 && repeats[i] < 0)
      return node_error(node, ErrorId::qir_shape, "axis %zu is to be repeated %lld times", i, ll(repeats[i]));
    QR_RETURN_IF_ERROR(multiply(node, shape[i], repeats.size > 0 ? repeats[i] : kUnknownDim, &shape.values[i]));
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status slice(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  IntList lists[4];  // starts, ends, axes, steps
  bool known[4], all = true;
  for (std::size_t i = 0; i < 4; ++i) {
    known[i] = !has_input(inputs, i + 1) || value_known(inputs, i + 1);
    all &= known[i];
    if (value_known(inputs, i + 1)) QR_RETURN_IF_ERROR(read_ints(node, i + 1, inputs[i + 1], &lists[i]));
  }
  DimList shape(x);
  if (all) {
    SliceGeometry g;
    QR_RETURN_IF_ERROR(resolve_slice(node, x, lists[0], lists[1], lists[2], lists[3], &g));
    std::copy_n(g.extent, g.rank, shape.values);
  } else if (known[2]) {
    // The axes that are cut are known; how far is not.
    IntList axes;
    QR_RETURN_IF_ERROR(resolve_axes(node, lists[2], x.size(), &axes));
    const std::int64_t cut = inputs[1].shape.size() == 1 ? inputs[1].shape[0] : kUnknownDim;
    if (has_input(inputs, 3))
      for (const std::int64_t axis : Dims(axes)) shape.values[axis] = kUnknownDim;
    else std::fill_n(shape.values, is_known(cut) ? std::min<std::int64_t>(cut, shape.size) : shape.size, kUnknownDim);
  } else {
    std::fill_n(shape.values, shape.size, kUnknownDim);
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status pad(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  if (has_input(inputs, 2)) QR_RETURN_IF_ERROR(expect_one_element(node, "constant_value", inputs[2]));
  const bool has_axes = has_input(inputs, 3), axes_known = value_known(inputs, 3);
  IntList axes, pads;
  if (axes_known) QR_RETURN_IF_ERROR(read_ints(node, 3, inputs[3], &axes));
  DimList shape(x);
  if (inputs[1].value.data && (!has_axes || axes_known)) {
    QR_RETURN_IF_ERROR(read_ints(node, 1, inputs[1], &pads));
    PadGeometry g;
    QR_RETURN_IF_ERROR(resolve_pad(node, x, pads, has_axes, axes, &g));
    std::copy_n(g.extent, g.rank, shape.values);
  } else if (axes_known) {
    QR_RETURN_IF_ERROR(resolve_axes(node, axes, x.size(), &axes));
    for (const std::int64_t axis : Dims(axes)) shape.values[axis] = kUnknownDim;
  } else {
    std::fill_n(shape.values, shape.size, kUnknownDim);
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

}  // namespace rules
}  // namespace quarry::qir
