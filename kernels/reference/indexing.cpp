// SPDX-License-Identifier: Apache-2.0
// Operators that read or write where an index tensor says. Every index is checked; negative ones count from the end.
#include <algorithm>

#include "kernels/reference/kernels.h"
#include "kernels/reference/rows.h"

namespace quarry::reference {

using qir::kMaxRank;

namespace {

// A row of indices along the last axis: those from `position` on. Number j names element base + index of the data where
// that axis is the one that is indexed (`last`), else base + index * stride + j.
struct IndexRow {
  const View &indices;
  std::int64_t position, count;
  std::int64_t base, stride, extent;
  bool last;
};

// Whether one of them is out of range. All are looked at, so that it takes no branches.
template <class I>
bool any_outside(const IndexRow &row) noexcept {
  const I *const given = row.indices.as<const I>() + row.position;
  const auto size = static_cast<std::uint64_t>(row.extent);
  std::uint64_t signs = 0;  // of what is negative where one is out of range
  for (std::int64_t j = 0; j < row.count; ++j) {
    const auto index = static_cast<std::uint64_t>(static_cast<std::int64_t>(given[j]));
    signs |= (index + size) | (size - 1 - index);
  }
  return static_cast<std::int64_t>(signs) < 0;
}

// body(j, element of the data) for a row whose indices are in range.
template <class I, class F>
void for_elements(const IndexRow &row, F &&body) noexcept {
  const I *const given = row.indices.as<const I>() + row.position;
  const std::int64_t count = row.count, base = row.base, stride = row.stride, extent = row.extent;
  const auto at = [&](std::int64_t j) {
    const std::int64_t found = given[j];
    return found + (extent & (found >> 63));
  };
  if (row.last) {
    for (std::int64_t j = 0; j < count; ++j) body(j, base + at(j));
  } else {
    for (std::int64_t j = 0; j < count; ++j) body(j, base + at(j) * stride + j);
  }
}

// Walks the elements of `indices` (of the rank of `data`), whose entries replace the index along `axis`: body(row) for
// rows of at most kBlock of them, which have been checked.
constexpr std::int64_t kBlock = 256;
template <class F>
Status walk_elements(const Context &context, const View &data, const View &indices, std::size_t axis, F &&body) {
  bool fits = data.rank == indices.rank;
  for (std::size_t i = 0; fits && i < data.rank; ++i) fits = i == axis || indices.dims[i] <= data.dims[i];
  if (!fits) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "indices are %s, expected nothing larger than %s except along axis %zu",
                           shape_text(indices.dims, indices.rank), shape_text(data.dims, data.rank), axis);
  }
  if (indices.count == 0) return {};
  std::int64_t strides[kMaxRank] = {};
  dense_strides(data.dims, data.rank, strides);
  const std::size_t last = data.rank - 1;
  const std::int64_t extent = data.dims[axis], stride = strides[axis], count = indices.dims[last];
  // Axes in front of the one that is indexed, and behind it, where those of both are the same.
  const std::int64_t outer = product(data.dims, 0, axis), inner = product(data.dims, axis + 1, data.rank);
  const bool planes = inner > 1 && indices.count == outer * indices.dims[axis] * inner;
  const auto outside = indices.dtype == DType::I32 ? any_outside<std::int32_t> : any_outside<std::int64_t>;
  const auto part = [&](std::int64_t position, std::int64_t base, std::int64_t length) -> Status {
    for (std::int64_t begin = 0; begin < length; begin += kBlock) {
      const IndexRow row = {
          indices, position + begin, std::min(kBlock, length - begin), base + (axis == last ? 0 : begin), stride,
          extent,  axis == last};
      std::int64_t index;
      for (std::int64_t j = 0; outside(row) && j < row.count; ++j) {
        const std::int64_t given = integer_at(indices, row.position + j);
        if (!resolve_index(given, extent, &index)) return index_error(context, given, extent);
      }
      body(row);
    }
    return {};
  };
  if (planes) {  // some columns after the others, so that what may be read stays near
    constexpr std::int64_t kNear = 256 << 10, kLeast = 64;
    const std::int64_t columns = std::max(kLeast, kNear / (std::max<std::int64_t>(extent, 1) * data.width));
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t first = 0; first < inner; first += columns)
        for (std::int64_t i = 0; i < indices.dims[axis]; ++i)
          QR_RETURN_IF_ERROR(part((o * indices.dims[axis] + i) * inner + first, o * extent * inner + first,
                                  std::min(columns, inner - first)));
    return {};
  }
  std::int64_t position = 0;
  for (Odometer row(indices.dims, last); !row.done(); row.next(), position += count) {
    std::int64_t base = 0;
    for (std::size_t i = 0; i < last; ++i) base += i == axis ? 0 : row[i] * strides[i];
    QR_RETURN_IF_ERROR(part(position, base, count));
  }
  return {};
}

// Index tuples, each of `length` indices into the axes of `dims`, to the elements that they name. Returns how many of
// them are good: the next one is not.
template <class I>
std::int64_t find_positions(const void *indices, std::int64_t count, std::int64_t length, const std::int64_t *dims,
                            const std::int64_t *strides, std::int64_t base, std::int64_t *positions) {
  const I *tuple = static_cast<const I *>(indices);
  for (std::int64_t j = 0; j < count; ++j, tuple += length) {
    std::int64_t at = base;
    for (std::int64_t k = 0; k < length; ++k) {
      std::int64_t index;
      if (!resolve_index(tuple[k], dims[k], &index)) return j;
      at += index * strides[k];
    }
    positions[j] = at;
  }
  return count;
}

// Walks the index tuples of `indices` (its last axis): body(first tuple, count, the first element of the slice of data
// that each of them names) for some at a time. `batch` axes at the front are common to both.
template <class F>
Status walk_tuples(const Context &context, const View &data, const View &indices, std::uint32_t batch, F &&body) {
  const std::int64_t length = indices.rank > 0 ? indices.dims[indices.rank - 1] : 0;
  if (indices.rank == 0 || batch >= indices.rank || length > data.rank - static_cast<std::int64_t>(batch) ||
      length < 0) {
    return qir::node_error(context.node(), ErrorId::run_value, "indices are %s for data %s",
                           shape_text(indices.dims, indices.rank), shape_text(data.dims, data.rank));
  }
  std::int64_t strides[kMaxRank];
  dense_strides(data.dims, data.rank, strides);
  const std::int64_t batches = product(indices.dims, 0, batch), tuples = product(indices.dims, batch, indices.rank - 1);
  const std::int64_t per_batch = product(data.dims, batch, data.rank);
  const auto find = indices.dtype == DType::I32 ? find_positions<std::int32_t> : find_positions<std::int64_t>;
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t t = 0; t < tuples; t += kBlock) {
      const std::int64_t tuple = b * tuples + t, count = std::min(kBlock, tuples - t);
      std::int64_t positions[kBlock];
      const std::int64_t found = find(element(indices, tuple * length), count, length, data.dims + batch,
                                      strides + batch, b * per_batch, positions);
      for (std::int64_t k = 0; found < count && k < length; ++k) {
        const std::int64_t given = integer_at(indices, (tuple + found) * length + k), extent = data.dims[batch + k];
        std::int64_t index;
        if (!resolve_index(given, extent, &index)) return index_error(context, given, extent);
      }
      body(tuple, count, positions);
    }
  }
  return {};
}

// As numpy: NaN wins over any number in max and min.
struct Add {
  template <class T>
  static T of(T old, T update) {
    return add(old, update);
  }
};
struct Multiply {
  template <class T>
  static T of(T old, T update) {
    return multiply(old, update);
  }
};
struct KeepGreatest {
  template <class T>
  static T of(T old, T update) {
    return old > update || old != old ? old : update;
  }
};
struct KeepLeast {
  template <class T>
  static T of(T old, T update) {
    return old < update || old != old ? old : update;
  }
};
// Elements that are only put elsewhere are bits, whatever their type: a truth value may be another byte than 0 or 1.
struct Replace {
  template <class T>
  static T of(T, T update) {
    return update;
  }
};

// How updates get into the output.
struct Scatter {
  // Reduces those that belong to a row of indices into the elements that these name.
  void (*row)(const IndexRow &row, void *to, const void *updates);
  // Reduces `inner` of them each into the elements from positions[j] on.
  void (*slices)(const std::int64_t *positions, std::int64_t count, std::int64_t inner, void *to, const void *updates);
};

template <class By, class T>
void scatter_row(const IndexRow &row, void *to, const void *updates) {
  T *const out = static_cast<T *>(to);
  const T *const from = static_cast<const T *>(updates) + row.position;
  const auto put = [out, from](std::int64_t j, std::int64_t at) { out[at] = By::of(out[at], from[j]); };
  if (row.indices.dtype == DType::I32) for_elements<std::int32_t>(row, put);
  else for_elements<std::int64_t>(row, put);
}
template <class By, class T>
void scatter_slices(const std::int64_t *positions, std::int64_t count, std::int64_t inner, void *to,
                    const void *updates) {
  const T *from = static_cast<const T *>(updates);
  T *const out = static_cast<T *>(to);
  if (inner == 1) {
    for (std::int64_t j = 0; j < count; ++j) out[positions[j]] = By::of(out[positions[j]], from[j]);
    return;
  }
  for (std::int64_t j = 0; j < count; ++j, from += inner) {
    T *const slice = out + positions[j];
    if constexpr (std::is_same_v<By, Replace>) {
      std::memcpy(slice, from, static_cast<std::size_t>(inner) * sizeof(T));
    } else {
      for (std::int64_t i = 0; i < inner; ++i) slice[i] = By::of(slice[i], from[i]);
    }
  }
}

template <class By, class... Ts>
bool find_scatter(DType dtype, Scatter *out) {
  return dispatch<Ts...>(dtype, [&](auto tag) {
    *out = {scatter_row<By, decltype(tag)>, scatter_slices<By, decltype(tag)>};
  });
}
template <class By>
bool find_ordered(DType dtype, Scatter *out) {
  return find_scatter<By, float, double, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                      std::uint32_t, std::int64_t, std::uint64_t, bool>(dtype, out);
}
// Sums and products of signed and unsigned integers are the same bits.
template <class By>
bool find_modular(DType dtype, Scatter *out) {
  return find_scatter<By, float, double, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool>(
      unsigned_of(dtype), out);
}
bool find_replace(std::uint32_t width, Scatter *out) {
  const DType bits = width == 1 ? DType::U8 : width == 2 ? DType::U16 : width == 4 ? DType::U32 : DType::U64;
  return find_scatter<Replace, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(bits, out);
}

// Copies the data and says how updates are to follow.
Status begin_scatter(Context &context, Scatter *by) {
  const View &data = *context.input(0);
  View &out = *context.output(0);
  const std::string_view name = context.node().get_string("reduction", "none");
  const bool known = name == "none"  ? find_replace(data.width, by)
                     : name == "add" ? find_modular<Add>(data.dtype, by)
                     : name == "mul" ? find_modular<Multiply>(data.dtype, by)
                     : name == "max" ? find_ordered<KeepGreatest>(data.dtype, by)
                                     : find_ordered<KeepLeast>(data.dtype, by);
  if (!known) return type_error(context, data.dtype);
  if (out.count > 0) std::memmove(out.data, data.data, data.bytes());
  return {};
}

template <class T>
void gather_row(const IndexRow &row, void *to, const void *from) {
  const T *const data = static_cast<const T *>(from);
  T *const out = static_cast<T *>(to) + row.position;
  const auto take = [out, data](std::int64_t j, std::int64_t at) { out[j] = data[at]; };
  if (row.indices.dtype == DType::I32) for_elements<std::int32_t>(row, take);
  else for_elements<std::int64_t>(row, take);
}

}  // namespace

Status kernel_gather(Context &context) {
  const View &data = *context.input(0);
  const View &indices = *context.input(1);
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, 0, data.rank, &axis));
  View &out = *context.output(0);
  const std::int64_t outer = product(data.dims, 0, axis), extent = data.dims[axis],
                     inner = product(data.dims, axis + 1, data.rank);
  if (out.count != outer * indices.count * inner) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %lld indices for output %s", indices.count,
                           shape_text(out.dims, out.rank));
  }
  const std::size_t bytes = static_cast<std::size_t>(inner) * data.width;
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  Poll poll(context);
  for (std::int64_t i = 0; i < indices.count && !poll.stopped(1); ++i) {
    const std::int64_t given = integer_at(indices, i);
    std::int64_t index;
    if (!resolve_index(given, extent, &index)) return index_error(context, given, extent);
    if (bytes == 0) continue;
    for (std::int64_t o = 0; o < outer; ++o) {
      auto *const to = static_cast<char *>(element(out, (o * indices.count + i) * inner));
      const auto *const from = static_cast<const char *>(element(data, (o * extent + index) * inner));
      for (std::size_t at = 0; at < bytes && !poll.stopped(static_cast<std::int64_t>(std::min(kPiece, bytes - at)));
           at += kPiece)
        std::memcpy(to + at, from + at, std::min(kPiece, bytes - at));
    }
  }
  return {};
}

Status kernel_gather_elements(Context &context) {
  const View &data = *context.input(0);
  const View &indices = *context.input(1);
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, 0, data.rank, &axis));
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, indices.dims, indices.rank, &out));
  const auto gather = data.width == 1   ? gather_row<std::uint8_t>
                      : data.width == 2 ? gather_row<std::uint16_t>
                      : data.width == 4 ? gather_row<std::uint32_t>
                                        : gather_row<std::uint64_t>;
  return walk_elements(context, data, indices, axis, [&](const IndexRow &row) { gather(row, out->data, data.data); });
}

Status kernel_gather_nd(Context &context) {
  const View &data = *context.input(0);
  const View &indices = *context.input(1);
  View &out = *context.output(0);
  const auto batch = static_cast<std::uint32_t>(context.node().get_int("batch_dims", 0));
  if (out.count == 0) return {};
  const std::int64_t tuples = product(indices.dims, 0, indices.rank - 1), inner = out.count / tuples;
  const std::int64_t length = indices.dims[indices.rank - 1];
  if (inner != product(data.dims, batch + static_cast<std::size_t>(length), data.rank)) {
    return qir::node_error(context.node(), ErrorId::run_value, "indices are %s for data %s and output %s",
                           shape_text(indices.dims, indices.rank), shape_text(data.dims, data.rank),
                           shape_text(out.dims, out.rank));
  }
  return walk_tuples(context, data, indices, batch,
                     [&](std::int64_t tuple, std::int64_t count, const std::int64_t *positions) {
                       for (std::int64_t j = 0; j < count; ++j)
                         std::memcpy(element(out, (tuple + j) * inner), element(data, positions[j]),
                                     static_cast<std::size_t>(inner) * data.width);
                     });
}

Status kernel_scatter_elements(Context &context) {
  const View &data = *context.input(0);
  const View &indices = *context.input(1);
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, 0, data.rank, &axis));
  if (context.input(2)->count != indices.count) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %lld updates for %lld indices",
                           context.input(2)->count, indices.count);
  }
  Scatter by;
  QR_RETURN_IF_ERROR(begin_scatter(context, &by));
  return walk_elements(context, data, indices, axis,
                       [&](const IndexRow &row) { by.row(row, context.output(0)->data, context.input(2)->data); });
}

Status kernel_scatter_nd(Context &context) {
  const View &data = *context.input(0);
  const View &indices = *context.input(1);
  const std::int64_t length = indices.rank > 0 ? indices.dims[indices.rank - 1] : 0;
  const std::int64_t tuples = indices.rank > 0 ? product(indices.dims, 0, indices.rank - 1) : 0;
  const std::int64_t inner =
      product(data.dims, static_cast<std::size_t>(std::clamp<std::int64_t>(length, 0, data.rank)), data.rank);
  if (context.input(2)->count != tuples * inner) {
    return qir::node_error(context.node(), ErrorId::run_value, "updates are %s for indices %s and data %s",
                           shape_text(context.input(2)->dims, context.input(2)->rank),
                           shape_text(indices.dims, indices.rank), shape_text(data.dims, data.rank));
  }
  Scatter by;
  QR_RETURN_IF_ERROR(begin_scatter(context, &by));
  const View &updates = *context.input(2);
  return walk_tuples(context, data, indices, 0,
                     [&](std::int64_t tuple, std::int64_t count, const std::int64_t *positions) {
                       by.slices(positions, count, inner, context.output(0)->data, element(updates, tuple * inner));
                     });
}

Status kernel_tensor_scatter(Context &context) {
  const View &past = *context.input(0);
  const View &update = *context.input(1);
  const View *starts = context.input(2);
  View &out = *context.output(0);
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, -2, past.rank, &axis));
  const bool circular = context.node().get_string("mode", "linear") == "circular";
  const std::int64_t length = past.dims[axis], added = update.dims[axis],
                     inner = product(past.dims, axis + 1, past.rank);
  if (axis == 0 || added > length || (starts && starts->count != past.dims[0])) {
    return qir::node_error(context.node(), ErrorId::run_value, "update %s does not fit cache %s along axis %zu",
                           shape_text(update.dims, update.rank), shape_text(past.dims, past.rank), axis);
  }
  if (past.count == 0) return {};
  std::memmove(out.data, past.data, past.bytes());
  const std::int64_t outer = product(past.dims, 0, axis), per_batch = outer / past.dims[0];
  for (std::int64_t o = 0; o < outer; ++o) {
    const std::int64_t start = starts ? integer_at(*starts, o / per_batch) : 0;
    if (start < 0 || (circular ? start > std::numeric_limits<std::int64_t>::max() - added : start > length - added)) {
      return qir::node_error(context.node(), ErrorId::run_value, "found write index %lld, expected 0 to %lld", start,
                             length - added);
    }
    for (std::int64_t s = 0; s < added; ++s) {
      std::memcpy(element(out, (o * length + (start + s) % length) * inner), element(update, (o * added + s) * inner),
                  static_cast<std::size_t>(inner) * past.width);
    }
  }
  return {};
}

Status kernel_one_hot(Context &context) {
  const View &indices = *context.input(0);
  const View &depth_view = *context.input(1);
  const View &values = *context.input(2);  // off, on
  if (depth_view.count != 1 || values.count != 2) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %lld depths and %lld values, expected 1 and 2",
                           depth_view.count, values.count);
  }
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, -1, indices.rank + 1, &axis));
  if (!is_loadable(depth_view.dtype)) return type_error(context, depth_view.dtype);
  if (!is_loadable(indices.dtype)) return type_error(context, indices.dtype);
  double depth_given;
  load_reals(depth_view, 0, 0, 1, &depth_given);
  const auto depth = cast_to<std::int64_t>(depth_given);
  if (depth < 0) {
    return qir::node_error(context.node(), ErrorId::run_value, "found depth %lld, expected 0 or more", depth);
  }
  std::int64_t dims[kMaxRank + 1];
  std::copy_n(indices.dims, axis, dims);
  dims[axis] = depth;
  std::copy(indices.dims + axis, indices.dims + indices.rank, dims + axis + 1);
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, indices.rank + 1, &out));
  if (out->count == 0) return {};
  fill(context, *out, values.data);
  const std::int64_t inner = product(indices.dims, axis, indices.rank);
  // Reals that are no index of the depth have no "on".
  const bool real = is_float(indices.dtype);
  const double low = indices.dtype == DType::F64 ? static_cast<double>(-depth) - 1
                                                 : static_cast<double>(static_cast<float>(-depth) - 1),
               high = indices.dtype == DType::F64 ? static_cast<double>(depth)
                                                  : static_cast<double>(static_cast<float>(depth));
  for (std::int64_t begin = 0; begin < indices.count; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, indices.count - begin);
    double reals[kBlock];
    std::int64_t given[kBlock];
    if (real) load_reals(indices, begin, 1, count, reals);
    else load_integers(indices, begin, 1, count, given);
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t i = begin + j;
      if (real) {
        if (!(reals[j] > low && reals[j] < high)) continue;
        given[j] = static_cast<std::int64_t>(reals[j]);
      }
      std::int64_t index;
      if (!resolve_index(given[j], depth, &index)) continue;  // such a row has no "on"
      std::memcpy(element(*out, (i / inner * depth + index) * inner + i % inner), element(values, 1), out->width);
    }
  }
  return {};
}

}  // namespace quarry::reference
