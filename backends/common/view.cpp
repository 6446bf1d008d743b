// SPDX-License-Identifier: Apache-2.0
#include "backends/common/view.h"

#include <algorithm>

namespace quarry::strided {

std::int64_t count_of(const Dims &dims) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) count *= extent;
  return count;
}

Dims row_major(const Dims &dims) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

Dims dense_strides(const Dims &dims, std::span<const std::size_t> order) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= dims[order[i]];
  }
  return strides;
}

Vector<std::size_t> memory_order(const View &view) {
  // Where a dimension is 1 its stride means nothing: those dimensions stay where they are, the others are sorted.
  Vector<std::size_t> order(view.rank());
  Vector<std::size_t> real;
  for (std::size_t d = 0; d < view.rank(); ++d) {
    if (view.dims[d] == 1) continue;
    real.push_back(d);  // in front of those with less of a stride
    for (std::size_t i = real.size(); --i > 0 && view.strides[real[i - 1]] < view.strides[d];)
      std::swap(real[i - 1], real[i]);
  }
  std::size_t next = 0;
  for (std::size_t d = 0; d < view.rank(); ++d) order[d] = view.dims[d] == 1 ? d : real[next++];
  return order;
}

bool is_row_major(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides) noexcept {
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && strides[i] != stride) return false;
    stride *= dims[i];
  }
  return true;
}
bool is_row_major(const View &view) noexcept { return is_row_major(view.dims, view.strides); }

bool is_dense(const View &view) noexcept {
  // Walks from the innermost outwards, each time looking for the dimension that goes on where the last ended.
  std::int64_t stride = 1;
  std::uint32_t seen = 0;
  for (std::size_t left = view.rank(); left > 0; --left) {
    bool found = false;
    for (std::size_t d = view.rank(); d-- > 0;) {
      if (seen >> d & 1u || (view.dims[d] != 1 && view.strides[d] != stride)) continue;
      seen |= 1u << d;
      stride *= view.dims[d];
      found = true;
      break;
    }
    if (!found) return false;
  }
  return true;
}

bool is_channels_last(const View &view, std::int64_t *out_pixel) noexcept {
  if (view.rank() < 3 || view.rank() > 4) return false;
  const Dims &d = view.dims, &s = view.strides;
  const std::int64_t c = d[1], h = view.rank() == 4 ? d[2] : 1, w = d.back();
  if (c != 1 && s[1] != 1) return false;
  std::int64_t pixel = c;
  if (w != 1) pixel = s.back();
  else if (h != 1) pixel = s[2];
  else if (d[0] != 1) pixel = s[0];
  if (pixel < c) return false;
  if (w != 1 && s.back() != pixel) return false;
  if (view.rank() == 4 && h != 1 && s[2] != w * pixel) return false;
  if (d[0] != 1 && s[0] != h * w * pixel) return false;
  *out_pixel = pixel;
  return true;
}

Vector<std::size_t> channels_last_order(std::size_t rank) {
  Vector<std::size_t> order{0};
  for (std::size_t d = 2; d < rank; ++d) order.push_back(d);
  order.push_back(1);
  return order;
}

View transposed(const View &view, std::span<const std::int64_t> perm) {
  View out{view.value, view.offset, Dims(view.rank()), Dims(view.rank())};
  for (std::size_t i = 0; i < view.rank(); ++i) {
    out.dims[i] = view.dims[index_of(perm[i])];
    out.strides[i] = view.strides[index_of(perm[i])];
  }
  return out;
}

std::optional<View> reshaped(const View &view, const Dims &dims) {
  View out{view.value, view.offset, dims, Dims(dims.size())};
  if (count_of(dims) == 0) {
    out.strides = row_major(dims);
    return out;
  }
  // Both shapes are cut where their products meet; in each piece the old dimensions must walk as one.
  Vector<std::size_t> old;
  for (std::size_t d = 0; d < view.rank(); ++d)
    if (view.dims[d] != 1) old.push_back(d);
  std::size_t o = 0, n = 0;
  while (n < dims.size()) {
    if (dims[n] == 1) {
      out.strides[n++] = 0;
      continue;
    }
    if (o == old.size()) return std::nullopt;
    std::size_t o_end = o + 1, n_end = n + 1;
    std::int64_t have = view.dims[old[o]], want = dims[n];
    while (have != want) {
      if (have < want) {
        if (o_end == old.size()) return std::nullopt;
        have *= view.dims[old[o_end++]];
      } else {
        if (n_end == dims.size()) return std::nullopt;
        want *= dims[n_end++];
      }
    }
    for (std::size_t i = o; i + 1 < o_end; ++i)
      if (view.strides[old[i]] != view.strides[old[i + 1]] * view.dims[old[i + 1]]) return std::nullopt;
    std::int64_t stride = view.strides[old[o_end - 1]];
    for (std::size_t i = n_end; i-- > n;) {
      out.strides[i] = stride;
      stride *= dims[i];
    }
    o = o_end;
    n = n_end;
  }
  return out;
}

View sliced(const View &view, std::size_t axis, std::int64_t start, std::int64_t count, std::int64_t step) {
  View out = view;
  out.offset += start * view.strides[axis];
  out.dims[axis] = count;
  out.strides[axis] *= step;
  return out;
}

View without(const View &view, std::size_t axis, std::int64_t index) {
  View out = view;
  out.offset += index * view.strides[axis];
  out.dims.erase(out.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  out.strides.erase(out.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  return out;
}

View broadcast(const View &view, const Dims &dims) {
  View out{view.value, view.offset, dims, Dims(dims.size(), 0)};
  const std::size_t lead = dims.size() - view.rank();
  for (std::size_t d = 0; d < view.rank(); ++d)
    if (view.dims[d] == dims[lead + d] && view.dims[d] != 1) out.strides[lead + d] = view.strides[d];
  return out;
}

bool make_nest(std::span<const View *const> views, std::size_t most, Nest &out) {
  const View &lead = *views[0];
  Vector<std::size_t> order;
  for (const std::size_t d : memory_order(lead))
    if (lead.dims[d] != 1) order.push_back(d);
  out.dims.clear();
  out.strides.assign(views.size(), {});
  for (const std::size_t d : order) {
    bool merges = !out.dims.empty();
    for (std::size_t v = 0; merges && v < views.size(); ++v)
      merges = out.strides[v].back() == views[v]->strides[d] * lead.dims[d];
    if (merges) out.dims.back() *= lead.dims[d];
    else out.dims.push_back(lead.dims[d]);
    for (std::size_t v = 0; v < views.size(); ++v) {
      if (merges) out.strides[v].back() = views[v]->strides[d];
      else out.strides[v].push_back(views[v]->strides[d]);
    }
  }
  if (out.dims.empty()) {
    out.dims.push_back(1);
    for (Dims &strides : out.strides) strides.push_back(1);
  }
  return out.dims.size() <= most;
}

}  // namespace quarry::strided
