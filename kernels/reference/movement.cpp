// SPDX-License-Identifier: Apache-2.0
// Operators that put elements elsewhere: new shapes, permutations, parts, repetitions.
#include <algorithm>

#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {

using qir::kMaxRank;

namespace {

// The same elements in the same order under another shape.
Status copy_all(Context &context) {
  const View &in = *context.input(0);
  View *out = context.output(0);
  if (out->count != in.count) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %lld elements for shape %s", in.count,
                           shape_text(out->dims, out->rank));
  }
  if (in.count > 0) std::memmove(out->data, in.data, in.bytes());
  return {};
}

// Copies a permuted view of the input: axis i of the output is axis perm[i] of `dims`.
void permute(const Context &context, const View &in, const std::int64_t *dims, std::size_t rank,
             const std::uint32_t *perm, View *out) {
  std::int64_t strides[kMaxCopyRank], extents[kMaxCopyRank], from[kMaxCopyRank], to[kMaxCopyRank];
  dense_strides(dims, rank, strides);
  for (std::size_t i = 0; i < rank; ++i) {
    extents[i] = dims[perm[i]];
    from[i] = strides[perm[i]];
  }
  dense_strides(extents, rank, to);
  Poll poll(context);
  copy_strided(in.width, rank, extents, out->data, to, in.data, from, &poll);
}

}  // namespace

Status kernel_reshape(Context &context) { return copy_all(context); }
Status kernel_flatten(Context &context) { return copy_all(context); }
Status kernel_squeeze(Context &context) { return copy_all(context); }
Status kernel_unsqueeze(Context &context) { return copy_all(context); }

Status kernel_transpose(Context &context) {
  const View &in = *context.input(0);
  const Vector<std::int64_t> *given = context.node().get_ints("perm");
  std::uint32_t perm[kMaxRank];
  std::int64_t dims[kMaxRank];
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    perm[i] = given ? static_cast<std::uint32_t>((*given)[i]) : in.rank - 1 - i;
    dims[i] = in.dims[perm[i]];
  }
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, in.rank, &out));
  permute(context, in, in.dims, in.rank, perm, out);
  return {};
}

Status kernel_concat(Context &context) {
  View &out = *context.output(0);
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, 0, out.rank, &axis));
  const std::int64_t outer = product(out.dims, 0, axis), inner = product(out.dims, axis + 1, out.rank);
  std::int64_t start = 0;
  for (std::uint32_t i = 0; i < context.input_count(); ++i) {
    const View &in = *context.input(i);
    if (in.dims[axis] > out.dims[axis] - start) break;
    const std::int64_t row = in.dims[axis] * inner;
    const std::int64_t dims[] = {outer, row}, to[] = {out.dims[axis] * inner, 1}, from[] = {row, 1};
    Poll poll(context);
    copy_strided(out.width, 2, dims, element(out, start * inner), to, in.data, from, &poll);
    start += in.dims[axis];
  }
  if (start != out.dims[axis]) {
    return qir::node_error(context.node(), ErrorId::run_value, "the inputs do not fill axis %zu of %s", axis,
                           shape_text(out.dims, out.rank));
  }
  return {};
}

Status kernel_split(Context &context) {
  const View &in = *context.input(0);
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, 0, in.rank, &axis));
  const View *split = context.input(1);
  Vector<std::int64_t> given, sizes;
  for (std::int64_t i = 0; split && i < split->count; ++i) given.push_back(integer_at(*split, i));
  QR_RETURN_IF_ERROR(qir::resolve_split(context.node(), in.dims[axis], given, &sizes));
  const std::int64_t outer = product(in.dims, 0, axis), inner = product(in.dims, axis + 1, in.rank);
  std::int64_t start = 0, dims[kMaxRank];
  std::copy_n(in.dims, in.rank, dims);
  for (std::uint32_t i = 0; i < sizes.size() && i < context.output_count(); start += sizes[i], ++i) {
    dims[axis] = sizes[i];
    View *out;
    QR_RETURN_IF_ERROR(make_output(context, i, dims, in.rank, &out));
    if (!out) continue;
    const std::int64_t row = sizes[i] * inner;
    const std::int64_t block[] = {outer, row}, to[] = {row, 1}, from[] = {in.dims[axis] * inner, 1};
    Poll poll(context);
    copy_strided(in.width, 2, block, out->data, to, element(in, start * inner), from, &poll);
  }
  return {};
}

Status kernel_slice(Context &context) {
  const View &in = *context.input(0);
  qir::IntList starts, ends, axes, steps;
  QR_RETURN_IF_ERROR(read_list(context, 1, &starts));
  QR_RETURN_IF_ERROR(read_list(context, 2, &ends));
  QR_RETURN_IF_ERROR(read_list(context, 3, &axes));
  QR_RETURN_IF_ERROR(read_list(context, 4, &steps));
  qir::SliceGeometry slice;
  QR_RETURN_IF_ERROR(qir::resolve_slice(context.node(), dims_of(in), starts, ends, axes, steps, &slice));
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, slice.extent, in.rank, &out));
  if (out->count == 0) return {};
  std::int64_t from[kMaxRank], to[kMaxRank], first = 0;
  dense_strides(in.dims, in.rank, from);
  dense_strides(slice.extent, in.rank, to);
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    first += slice.start[i] * from[i];
    from[i] = slice.extent[i] > 1 ? from[i] * slice.step[i] : 0;  // a step may be as large as an integer gets
  }
  Poll poll(context);
  copy_strided(in.width, in.rank, slice.extent, out->data, to, element(in, first), from, &poll);
  return {};
}

Status kernel_expand(Context &context) {
  const View &in = *context.input(0);
  qir::IntList shape, dims;
  QR_RETURN_IF_ERROR(read_list(context, 1, &shape));
  QR_RETURN_IF_ERROR(qir::resolve_broadcast(context.node(), dims_of(in), shape, &dims));
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims.values, dims.size, &out));
  std::int64_t from[kMaxRank] = {}, to[kMaxRank];
  const std::uint32_t added = out->rank - in.rank;
  dense_strides(in.dims, in.rank, from + added);
  dense_strides(out->dims, out->rank, to);
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    if (in.dims[i] == 1) from[added + i] = 0;
  }
  Poll poll(context);
  copy_strided(in.width, out->rank, out->dims, out->data, to, in.data, from, &poll);
  return {};
}

Status kernel_tile(Context &context) {
  const View &in = *context.input(0);
  qir::IntList repeats;
  QR_RETURN_IF_ERROR(read_list(context, 1, &repeats));
  if (repeats.size != in.rank) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %u repeats, expected %u", repeats.size, in.rank);
  }
  // Each axis becomes two: which repetition, and where in the original.
  std::int64_t dims[kMaxRank], block[kMaxCopyRank], to[kMaxCopyRank], from[kMaxCopyRank], strides[kMaxRank];
  dense_strides(in.dims, in.rank, strides);
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    if (repeats[i] < 0 || !checked_mul(in.dims[i], repeats[i], &dims[i])) {
      return qir::node_error(context.node(), ErrorId::run_value, "found %lld repeats of axis %u, expected 0 or more",
                             repeats[i], i);
    }
    block[2 * i] = repeats[i];
    block[2 * i + 1] = in.dims[i];
    from[2 * i] = 0;
    from[2 * i + 1] = strides[i];
  }
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, in.rank, &out));
  dense_strides(block, 2 * in.rank, to);
  Poll poll(context);
  copy_strided(in.width, 2 * in.rank, block, out->data, to, in.data, from, &poll);
  return {};
}

namespace {

// Where an index of one padded axis comes from; kPadded where it is the constant.
constexpr std::int64_t kPadded = -1;
enum class PadMode { Constant, Edge, Wrap, Reflect };
std::int64_t pad_source(std::int64_t index, std::int64_t extent, PadMode mode) {
  if (index >= 0 && index < extent) return index;
  if (mode == PadMode::Constant || extent == 0) return kPadded;
  if (mode == PadMode::Edge) return index < 0 ? 0 : extent - 1;
  if (mode == PadMode::Wrap) {
    if (index < 0 && index >= -extent) return index + extent;
    return ((index % extent) + extent) % extent;
  }
  if (extent == 1) return 0;
  const std::int64_t period = 2 * (extent - 1);
  if (index < 0 && index > -extent) return -index;  // divisions are slow, and few pads are longer than the axis
  if (index >= extent && index <= period) return period - index;
  const std::int64_t phase = ((index % period) + period) % period;  // reflect: the edge is not repeated
  return phase < extent ? phase : period - phase;
}
// Likewise of an output's axis. What negative pads cut is not there to be repeated or mirrored, as ONNX Runtime has it.
struct PaddedAxis {
  std::int64_t cut = 0, extent = 0, begin = 0;
  void set(std::int64_t in, std::int64_t pad_begin, std::int64_t pad_end) {
    cut = std::max<std::int64_t>(-pad_begin, 0);
    extent = in - cut - std::max<std::int64_t>(-pad_end, 0);
    begin = std::max<std::int64_t>(pad_begin, 0);
  }
  std::int64_t source(std::int64_t index, PadMode mode) const {
    const std::int64_t from = pad_source(index - begin, extent, mode);
    return from == kPadded ? from : from + cut;
  }
};
PadMode pad_mode(std::string_view name) {
  return name == "constant" ? PadMode::Constant
         : name == "edge"   ? PadMode::Edge
         : name == "wrap"   ? PadMode::Wrap
                            : PadMode::Reflect;
}

// Elements first + from[j] of a tensor, as neighbours from `to` on.
void take(const View &in, std::int64_t first, const std::int64_t *from, std::int64_t count, View &out,
          std::int64_t to) {
  const auto each = [&](auto unit) {
    auto *const made = out.as<decltype(unit)>() + to;
    const auto *const source = in.as<const decltype(unit)>() + first;
    for (std::int64_t j = 0; j < count; ++j) made[j] = source[from[j]];
  };
  switch (in.width) {
    case 1: return each(std::uint8_t{});
    case 2: return each(std::uint16_t{});
    case 4: return each(std::uint32_t{});
    case 8: return each(std::uint64_t{});
    default:
      for (std::int64_t j = 0; j < count; ++j)
        std::memcpy(element(out, to + j), element(in, first + from[j]), in.width);
  }
}

// Where the indices of each axis come from. Of the last axis, indices [inside, inside_end) of the result are one run of
// the input: only what is around them is in its table (working memory is zeroed for each run).
struct PadSources {
  const std::int64_t *of_axis[kMaxRank];
  std::int64_t inside, inside_end;
  const std::int64_t *before, *after;  // of the last axis

  PadSources(Context &context, const View &in, const qir::PadGeometry &pad, const PaddedAxis *axes, PadMode mode) {
    const std::uint32_t last = in.rank - 1;
    const std::int64_t row = pad.extent[last];
    inside = std::clamp<std::int64_t>(pad.begin[last], 0, row);
    inside_end = std::clamp<std::int64_t>(pad.begin[last] + in.dims[last], inside, row);
    std::int64_t total = row - (inside_end - inside);
    for (std::uint32_t i = 0; i < last; ++i) total += pad.extent[i];
    auto *sources =
        static_cast<std::int64_t *>(context.scratch(static_cast<std::uint64_t>(total) * sizeof(std::int64_t)));
    for (std::uint32_t i = 0; i < last; ++i) {
      of_axis[i] = sources;
      for (std::int64_t j = 0; j < pad.extent[i]; ++j) *sources++ = axes[i].source(j, mode);
    }
    before = sources, after = before + inside;
    for (std::int64_t j = 0; j < inside; ++j) *sources++ = axes[last].source(j, mode);
    for (std::int64_t j = inside_end; j < row; ++j) *sources++ = axes[last].source(j, mode);
  }
};

}  // namespace

Status kernel_pad(Context &context) {
  const View &in = *context.input(0);
  const View *value = context.input(2);
  const std::string_view mode_name = context.node().get_string("mode", "constant");
  const PadMode mode = pad_mode(mode_name);
  qir::IntList pads, axes;
  QR_RETURN_IF_ERROR(read_list(context, 1, &pads));
  QR_RETURN_IF_ERROR(read_list(context, 3, &axes));
  qir::PadGeometry pad;
  QR_RETURN_IF_ERROR(qir::resolve_pad(context.node(), dims_of(in), pads, context.input(3) != nullptr, axes, &pad));
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, pad.extent, in.rank, &out));
  if (out->count == 0) return {};
  if (in.rank == 0) return copy_all(context);
  PaddedAxis padded_axes[kMaxRank];
  bool is_empty = false;
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    padded_axes[i].set(in.dims[i], pad.begin[i], pad.end[i]);
    is_empty |= padded_axes[i].extent <= 0;
  }
  if (mode != PadMode::Constant && is_empty) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %s, which has nothing to %s",
                           shape_text(in.dims, in.rank), String(mode_name));
  }

  const std::uint64_t zero = 0;
  const void *const constant = value && value->count > 0 ? value->data : &zero;
  if (mode == PadMode::Constant) fill(context, *out, constant);
  const PadSources sources(context, in, pad, padded_axes, mode);
  const std::uint32_t last = in.rank - 1;
  const std::int64_t row = pad.extent[last], inside = sources.inside, inside_end = sources.inside_end;
  std::int64_t strides[kMaxRank];
  dense_strides(in.dims, in.rank, strides);
  std::int64_t written = 0;
  Poll poll(context);
  for (Odometer index(pad.extent, last); !index.done() && !poll.stopped(row); index.next(), written += row) {
    std::int64_t from = 0;
    bool padded = false;
    for (std::uint32_t i = 0; i < last; ++i) {
      const std::int64_t source = sources.of_axis[i][index[i]];
      padded |= source == kPadded;
      from += source * strides[i];
    }
    if (padded) continue;  // filled above
    if (inside < inside_end) {
      std::memcpy(element(*out, written + inside), element(in, from + inside - pad.begin[last]),
                  static_cast<std::size_t>(inside_end - inside) * in.width);
    }
    if (mode == PadMode::Constant) continue;
    take(in, from, sources.before, inside, *out, written);
    take(in, from, sources.after, row - inside_end, *out, written + inside_end);
  }
  return {};
}

Status kernel_center_crop_pad(Context &context) {
  const View &in = *context.input(0);
  qir::IntList shape;
  QR_RETURN_IF_ERROR(read_list(context, 1, &shape));
  qir::CropPadGeometry crop;
  QR_RETURN_IF_ERROR(qir::resolve_center_crop_pad(context.node(), dims_of(in), shape, &crop));
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, crop.extent, in.rank, &out));
  if (out->count == 0) return {};
  std::memset(out->data, 0, out->bytes());
  std::int64_t from[kMaxRank], to[kMaxRank], from_first = 0, to_first = 0;
  dense_strides(in.dims, in.rank, from);
  dense_strides(out->dims, out->rank, to);
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    from_first += crop.in_start[i] * from[i];
    to_first += crop.out_start[i] * to[i];
  }
  Poll poll(context);
  if (in.count > 0)
    copy_strided(in.width, in.rank, crop.length, element(*out, to_first), to, element(in, from_first), from, &poll);
  return {};
}

Status kernel_trilu(Context &context) {
  const View &in = *context.input(0);
  View &out = *context.output(0);
  std::int64_t k;
  QR_RETURN_IF_ERROR(read_integer(context, 1, 0, &k));
  if (in.count == 0) return {};
  const bool upper = context.node().get_int("upper", 1) != 0;
  const std::int64_t rows = in.dims[in.rank - 2], columns = in.dims[in.rank - 1];
  k = std::clamp<std::int64_t>(k, -rows - 1, columns + 1);
  std::memset(out.data, 0, out.bytes());
  for (std::int64_t each = 0; each < in.count / columns; ++each) {
    const std::int64_t row = each % rows;
    const std::int64_t begin = upper ? std::clamp<std::int64_t>(row + k, 0, columns) : 0;
    const std::int64_t end = upper ? columns : std::clamp<std::int64_t>(row + k + 1, 0, columns);
    std::memcpy(element(out, each * columns + begin), element(in, each * columns + begin),
                static_cast<std::size_t>(end - begin) * in.width);
  }
  return {};
}

Status kernel_depth_to_space(Context &context) {
  const View &in = *context.input(0);
  const std::int64_t block = context.node().get_int("blocksize", 1);
  const std::int64_t n = in.dims[0], c = in.dims[1] / (block * block), h = in.dims[2], w = in.dims[3];
  const std::int64_t dims[] = {n, c, h * block, w * block};
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, 4, &out));
  if (context.node().get_string("mode", "DCR") == "DCR") {
    const std::int64_t split[] = {n, block, block, c, h, w};
    const std::uint32_t perm[] = {0, 3, 4, 1, 5, 2};
    permute(context, in, split, 6, perm, out);
  } else {
    const std::int64_t split[] = {n, c, block, block, h, w};
    const std::uint32_t perm[] = {0, 1, 4, 2, 5, 3};
    permute(context, in, split, 6, perm, out);
  }
  return {};
}

Status kernel_space_to_depth(Context &context) {
  const View &in = *context.input(0);
  const std::int64_t block = context.node().get_int("blocksize", 1);
  const std::int64_t n = in.dims[0], c = in.dims[1], h = in.dims[2] / block, w = in.dims[3] / block;
  const std::int64_t dims[] = {n, c * block * block, h, w}, split[] = {n, c, h, block, w, block};
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, 4, &out));
  const std::uint32_t depth_first[] = {0, 3, 5, 1, 2, 4}, column_first[] = {0, 1, 3, 5, 2, 4};
  permute(context, in, split, 6, context.node().get_string("mode", "DCR") == "DCR" ? depth_first : column_first, out);
  return {};
}

Status kernel_reverse_sequence(Context &context) {
  const View &in = *context.input(0);
  const View &lengths = *context.input(1);
  View &out = *context.output(0);
  std::size_t batch_axis, time_axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(context.node(), context.node().get_int("batch_axis", 1), in.rank, &batch_axis));
  QR_RETURN_IF_ERROR(qir::resolve_axis(context.node(), context.node().get_int("time_axis", 0), in.rank, &time_axis));
  if (batch_axis + time_axis != 1 || lengths.count != in.dims[batch_axis]) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "found batch axis %zu, time axis %zu and %lld lengths, expected axes 0 and 1 "
                           "and one length per batch",
                           batch_axis, time_axis, lengths.count);
  }
  const std::int64_t batch = in.dims[batch_axis], time = in.dims[time_axis], inner = product(in.dims, 2, in.rank);
  std::int64_t strides[kMaxRank];
  dense_strides(in.dims, in.rank, strides);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = integer_at(lengths, b);
    if (length < 0 || length > time) {
      return qir::node_error(context.node(), ErrorId::run_value, "found sequence length %lld, expected 0 to %lld",
                             length, time);
    }
  }
  if (inner == 0) return {};
  // In the order of the results.
  const std::int64_t b_step = strides[batch_axis], t_step = strides[time_axis];
  char *to = out.as<char>();
  const std::size_t bytes = static_cast<std::size_t>(inner) * in.width;
  for (std::int64_t i = 0; i < in.dims[0]; ++i) {
    for (std::int64_t j = 0; j < in.dims[1]; ++j, to += bytes) {
      const std::int64_t b = batch_axis == 0 ? i : j, t = batch_axis == 0 ? j : i, length = integer_at(lengths, b);
      std::memcpy(to, element(in, b * b_step + (t < length ? length - 1 - t : t) * t_step), bytes);
    }
  }
  return {};
}

Status kernel_compress(Context &context) {
  const View &in = *context.input(0);
  const View &condition = *context.input(1);
  // Without an axis the input counts as flat.
  const bool flat = context.node().find("axis") == nullptr;
  std::size_t axis = 0;
  if (!flat) QR_RETURN_IF_ERROR(read_axis(context, 0, in.rank, &axis));
  const std::int64_t extent = flat ? in.count : in.dims[axis];
  const std::int64_t outer = flat ? 1 : product(in.dims, 0, axis),
                     inner = flat ? 1 : product(in.dims, axis + 1, in.rank);
  if (condition.count > extent) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %lld conditions, expected at most %lld",
                           condition.count, extent);
  }
  const bool *keep = condition.as<const bool>();
  const std::int64_t kept = std::count(keep, keep + condition.count, true);
  std::int64_t dims[kMaxRank] = {kept};
  if (!flat) {
    std::copy_n(in.dims, in.rank, dims);
    dims[axis] = kept;
  }
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, flat ? 1 : in.rank, &out));
  if (out->count == 0) return {};
  char *to = out->as<char>();
  const std::size_t bytes = static_cast<std::size_t>(inner) * in.width;
  // Single elements without branches, which nobody can foretell: each is written, and the next over it if it goes.
  const auto pick = [&](auto unit) {
    auto *put = out->as<decltype(unit)>();
    for (std::int64_t o = 0; o < outer; ++o) {
      const auto *const from = in.as<const decltype(unit)>() + o * extent;
      for (std::int64_t i = 0, made = 0; made < kept; ++i) {
        put[made] = from[i];
        made += keep[i];
      }
      put += kept;
    }
    return Status();
  };
  if (bytes == 1) return pick(std::uint8_t{});
  if (bytes == 2) return pick(std::uint16_t{});
  if (bytes == 4) return pick(std::uint32_t{});
  if (bytes == 8) return pick(std::uint64_t{});
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < condition.count; ++i) {
      if (!keep[i]) continue;
      std::memcpy(to, element(in, (o * extent + i) * inner), bytes);
      to += bytes;
    }
  }
  return {};
}

}  // namespace quarry::reference
