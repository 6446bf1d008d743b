// SPDX-License-Identifier: Apache-2.0
// Operators that read or write where an index tensor says. Every index is checked; negative ones count from the end.
#include <algorithm>

#include "backends/cpu-reference/kernels/kernels.h"
#include "backends/cpu-reference/kernels/tensors.h"

namespace quarry::reference {

using qir::kMaxRank;

namespace {

// Walks the elements of `indices` (of the rank of `data`): body(position in indices, position in data), where the entry
// of the index tensor replaces the index along `axis`.
template <class F>
Status walk_elements(const Context &context, const View &data, const View &indices, std::size_t axis, F &&body) {
  bool fits = data.rank == indices.rank;
  for (std::size_t i = 0; fits && i < data.rank; ++i) fits = i == axis || indices.dims[i] <= data.dims[i];
  if (!fits) {
    return qir::node_error(
        context.node(), ErrorId::run_value, "indices are %s, expected nothing larger than %s except along axis %zu",
        shape_text(indices.dims, indices.rank).c_str(), shape_text(data.dims, data.rank).c_str(), axis);
  }
  if (indices.count == 0) return {};
  std::int64_t strides[kMaxRank] = {};
  dense_strides(data.dims, data.rank, strides);
  const std::size_t last = data.rank - 1;
  const std::int64_t extent = data.dims[axis], stride = strides[axis], step = axis == last ? 0 : 1,
                     count = indices.dims[last];
  // Axes in front of the one that is indexed, and behind it, where those of both are the same.
  const std::int64_t outer = product(data.dims, 0, axis), inner = product(data.dims, axis + 1, data.rank);
  const bool planes = inner > 1 && indices.count == outer * indices.dims[axis] * inner;
  const auto size = static_cast<std::uint64_t>(extent);
  const auto walk = [&](const auto *given) -> Status {
    const auto part = [&](std::int64_t position, std::int64_t base, std::int64_t length) -> Status {
      // Some are checked at once, so that reading them needs no branches.
      constexpr std::int64_t kBlock = 64;
      for (std::int64_t begin = 0; begin < length; begin += kBlock) {
        const std::int64_t end = std::min(length, begin + kBlock);
        std::uint64_t signs = 0;  // of what is negative where one is out of range
        for (std::int64_t j = begin; j < end; ++j) {
          const auto index = static_cast<std::uint64_t>(static_cast<std::int64_t>(given[position + j]));
          signs |= (index + size) | (size - 1 - index);
        }
        std::int64_t index;
        for (std::int64_t j = begin; static_cast<std::int64_t>(signs) < 0 && j < end; ++j)
          if (!resolve_index(given[position + j], extent, &index))
            return index_error(context, given[position + j], extent);
        const auto at = [&](std::int64_t j) {
          const std::int64_t found = given[position + j];
          return found + (extent & (found >> 63));
        };
        if (step == 0) {
          for (std::int64_t j = begin; j < end; ++j) body(position + j, base + at(j));
        } else {
          for (std::int64_t j = begin; j < end; ++j) body(position + j, base + at(j) * stride + j);
        }
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
  };
  return indices.dtype == DType::I32 ? walk(indices.as<const std::int32_t>()) : walk(indices.as<const std::int64_t>());
}

// Walks the index tuples of `indices` (its last axis): body(tuple number, first element of the slice of data that it
// names). `batch` axes at the front are common to both.
template <class F>
Status walk_tuples(const Context &context, const View &data, const View &indices, std::uint32_t batch, F &&body) {
  const std::int64_t length = indices.rank > 0 ? indices.dims[indices.rank - 1] : 0;
  if (indices.rank == 0 || batch >= indices.rank || length > data.rank - static_cast<std::int64_t>(batch) ||
      length < 0) {
    return qir::node_error(context.node(), ErrorId::run_value, "indices are %s for data %s",
                           shape_text(indices.dims, indices.rank).c_str(), shape_text(data.dims, data.rank).c_str());
  }
  std::int64_t strides[kMaxRank];
  dense_strides(data.dims, data.rank, strides);
  const std::int64_t batches = product(indices.dims, 0, batch), tuples = product(indices.dims, batch, indices.rank - 1);
  const std::int64_t per_batch = product(data.dims, batch, data.rank);
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t t = 0; t < tuples; ++t) {
      const std::int64_t tuple = b * tuples + t;
      std::int64_t first = b * per_batch;
      for (std::int64_t k = 0; k < length; ++k) {
        const std::int64_t given = integer_at(indices, tuple * length + k), extent = data.dims[batch + k];
        std::int64_t index;
        if (!resolve_index(given, extent, &index)) return index_error(context, given, extent);
        first += index * strides[batch + k];
      }
      body(tuple, first);
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
struct Greatest {
  template <class T>
  static T of(T old, T update) {
    return old > update || old != old ? old : update;
  }
};
struct Least {
  template <class T>
  static T of(T old, T update) {
    return old < update || old != old ? old : update;
  }
};

// Copies the data and then runs walk(store), where store(to, from, count) reduces `count` elements of the updates, from
// element `from` on, into those of the output from `to` on.
template <class Walk>
Status scatter(Context &context, Walk &&walk) {
  const View &data = *context.input(0);
  const View &updates = *context.input(2);
  View &out = *context.output(0);
  if (out.count > 0) std::memmove(out.data, data.data, static_cast<std::size_t>(data.count) * data.width);
  const std::string_view name = context.node().get_string("reduction", "none");
  // Elements that are only put elsewhere are bytes, whatever their type: a truth value may be another byte than 0 or 1.
  if (name == "none")
    return walk([&](std::int64_t target, std::int64_t source, std::int64_t count) {
      std::memcpy(out.as<std::byte>() + target * static_cast<std::int64_t>(data.width),
                  updates.as<const std::byte>() + source * static_cast<std::int64_t>(data.width),
                  static_cast<std::size_t>(count) * data.width);
    });
  Status status;
  const bool known = dispatch_any(data.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto by = [&](auto reduction) {
      return walk([to = out.as<T>(), from = updates.as<const T>()](std::int64_t target, std::int64_t source,
                                                                   std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i)
          to[target + i] = decltype(reduction)::of(to[target + i], from[source + i]);
      });
    };
    status = name == "add" ? by(Add()) : name == "mul" ? by(Multiply()) : name == "max" ? by(Greatest()) : by(Least());
  });
  return known ? std::move(status) : type_error(context, data.dtype);
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
    return qir::node_error(context.node(), ErrorId::run_value, "found %lld indices for output %s",
                           static_cast<long long>(indices.count), shape_text(out.dims, out.rank).c_str());
  }
  const std::size_t bytes = static_cast<std::size_t>(inner) * data.width;
  for (std::int64_t i = 0; i < indices.count; ++i) {
    const std::int64_t given = integer_at(indices, i);
    std::int64_t index;
    if (!resolve_index(given, extent, &index)) return index_error(context, given, extent);
    if (bytes == 0) continue;
    for (std::int64_t o = 0; o < outer; ++o) {
      std::memcpy(element(out, (o * indices.count + i) * inner), element(data, (o * extent + index) * inner), bytes);
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
  const auto move = [&](auto unit) {
    auto *const to = out->as<decltype(unit)>();
    const auto *const from = data.as<const decltype(unit)>();
    return walk_elements(context, data, indices, axis,
                         [to, from](std::int64_t position, std::int64_t source) { to[position] = from[source]; });
  };
  switch (data.width) {
    case 1: return move(std::uint8_t{});
    case 2: return move(std::uint16_t{});
    case 4: return move(std::uint32_t{});
    case 8: return move(std::uint64_t{});
    default:
      return walk_elements(context, data, indices, axis, [&](std::int64_t position, std::int64_t source) {
        std::memcpy(element(*out, position), element(data, source), data.width);
      });
  }
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
                           shape_text(indices.dims, indices.rank).c_str(), shape_text(data.dims, data.rank).c_str(),
                           shape_text(out.dims, out.rank).c_str());
  }
  return walk_tuples(context, data, indices, batch, [&](std::int64_t tuple, std::int64_t first) {
    std::memcpy(element(out, tuple * inner), element(data, first), static_cast<std::size_t>(inner) * data.width);
  });
}

Status kernel_scatter_elements(Context &context) {
  const View &data = *context.input(0);
  const View &indices = *context.input(1);
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, 0, data.rank, &axis));
  if (context.input(2)->count != indices.count) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %lld updates for %lld indices",
                           static_cast<long long>(context.input(2)->count), static_cast<long long>(indices.count));
  }
  return scatter(context, [&](auto store) {
    return walk_elements(context, data, indices, axis,
                         [&](std::int64_t position, std::int64_t target) { store(target, position, 1); });
  });
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
                           shape_text(context.input(2)->dims, context.input(2)->rank).c_str(),
                           shape_text(indices.dims, indices.rank).c_str(), shape_text(data.dims, data.rank).c_str());
  }
  return scatter(context, [&](auto store) {
    return walk_tuples(context, data, indices, 0,
                       [&](std::int64_t tuple, std::int64_t first) { store(first, tuple * inner, inner); });
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
                           shape_text(update.dims, update.rank).c_str(), shape_text(past.dims, past.rank).c_str(),
                           axis);
  }
  if (past.count == 0) return {};
  std::memmove(out.data, past.data, static_cast<std::size_t>(past.count) * past.width);
  const std::int64_t outer = product(past.dims, 0, axis), per_batch = outer / past.dims[0];
  for (std::int64_t o = 0; o < outer; ++o) {
    const std::int64_t start = starts ? integer_at(*starts, o / per_batch) : 0;
    if (start < 0 || (circular ? start > std::numeric_limits<std::int64_t>::max() - added : start > length - added)) {
      return qir::node_error(context.node(), ErrorId::run_value, "found write index %lld, expected 0 to %lld",
                             static_cast<long long>(start), static_cast<long long>(length - added));
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
                           static_cast<long long>(depth_view.count), static_cast<long long>(values.count));
  }
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, -1, indices.rank + 1, &axis));
  std::int64_t depth = -1;
  const bool depth_known = dispatch_number(depth_view.dtype, [&](auto tag) {
    depth = round_to<std::int64_t>(static_cast<double>(depth_view.as<decltype(tag)>()[0]));
  });
  if (!depth_known) return type_error(context, depth_view.dtype);
  if (depth < 0) {
    return qir::node_error(context.node(), ErrorId::run_value, "found depth %lld, expected 0 or more",
                           static_cast<long long>(depth));
  }
  std::int64_t dims[kMaxRank + 1];
  std::copy_n(indices.dims, axis, dims);
  dims[axis] = depth;
  std::copy(indices.dims + axis, indices.dims + indices.rank, dims + axis + 1);
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, indices.rank + 1, &out));
  if (out->count == 0) return {};
  fill(out->data, out->count, values.data, out->width);
  const std::int64_t inner = product(indices.dims, axis, indices.rank);
  const bool known = dispatch_number(indices.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T *given = indices.as<const T>();
    for (std::int64_t i = 0; i < indices.count; ++i) {
      std::int64_t index;
      if constexpr (std::is_floating_point_v<T>) {
        if (!(given[i] > static_cast<T>(-depth) - 1 && given[i] < static_cast<T>(depth))) continue;
      }
      if (!resolve_index(static_cast<std::int64_t>(given[i]), depth, &index)) continue;  // such a row has no "on"
      std::memcpy(element(*out, (i / inner * depth + index) * inner + i % inner), element(values, 1), out->width);
    }
  });
  return known ? Status() : type_error(context, indices.dtype);
}

}  // namespace quarry::reference
