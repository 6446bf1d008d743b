// SPDX-License-Identifier: Apache-2.0
// Operators that compare elements to find, order or count them, and running sums along an axis.
//
// NaN is ordered as numpy does: after every number in TopK and Unique, and ArgMax and ArgMin both stop at it.
#include <algorithm>
#include <bit>

#include "backends/cpu-reference/kernels/kernels.h"
#include "backends/cpu-reference/kernels/tensors.h"

namespace quarry::reference {

using qir::kMaxRank;

namespace {

// An integer that orders as the values do: numbers, then NaN. All sorting is done on it.
template <class T>
std::uint64_t order_key(T value) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  if constexpr (std::is_floating_point_v<T>) {
    if (value != value) return ~std::uint64_t{0};
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(value) + 0.0);  // -0 is 0
    return bits & kSign ? ~bits : bits | kSign;
  } else {
    return std::is_signed_v<T> ? static_cast<std::uint64_t>(value) ^ kSign : static_cast<std::uint64_t>(value);
  }
}

// The first place from `i` on that may hold something better than `worst`: blocks that hold nothing are passed over
// without branches.
template <class T>
std::int64_t next_better(const T *x, std::int64_t i, std::int64_t end, T worst, bool largest) {
  constexpr std::int64_t kBlock = 32;
  const auto any = [&](auto better) {
    for (; i + kBlock <= end; i += kBlock) {
      std::uint32_t found = 0;
      for (std::int64_t j = 0; j < kBlock; ++j) found |= static_cast<std::uint32_t>(better(x[i + j]));
      if (found) break;
    }
    while (i < end && !better(x[i])) ++i;
    return i;
  };
  // NaN is for the caller to judge; as the worst of the least it is worse than any number.
  if (!largest && worst != worst) return i;
  if (largest) return any([worst](T value) { return (value > worst) | (value != value); });
  return any([worst](T value) { return (value < worst) | (value != value); });
}

struct Keyed {
  std::uint64_t key;
  std::int64_t at;
};
// Sorts by key; equal ones stay in their order. Digits that all have in common take no pass.
void sort_by_key(Keyed *items, Keyed *room, std::int64_t count) {
  constexpr int kBits = 11, kDigits = 1 << kBits;
  std::uint64_t differ = 0;
  for (std::int64_t i = 0; i < count; ++i) differ |= items[i].key ^ items[0].key;
  Keyed *from = items, *to = room;
  for (int shift = 0; shift < 64; shift += kBits) {
    if (((differ >> shift) & (kDigits - 1)) == 0) continue;
    std::int64_t begins[kDigits + 1] = {};
    for (std::int64_t i = 0; i < count; ++i) ++begins[((from[i].key >> shift) & (kDigits - 1)) + 1];
    for (int d = 0; d < kDigits; ++d) begins[d + 1] += begins[d];
    for (std::int64_t i = 0; i < count; ++i) to[begins[(from[i].key >> shift) & (kDigits - 1)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, count, items);
}

// Moves the k least to the front, in any order but equal ones in their own; of equal ones the first are taken. Both
// `rest` and `items` have room for count.
void least_to_front(Keyed *items, Keyed *rest, std::int64_t count, std::int64_t k) {
  constexpr int kBits = 11, kDigits = 1 << kBits;
  std::uint64_t differ = 0;
  for (std::int64_t i = 0; i < count; ++i) differ |= items[i].key ^ items[0].key;
  Keyed *chosen = items;  // what is chosen is never ahead of what is looked at
  const Keyed *from = items;
  while (k > 0 && k < count) {
    const int bits = std::bit_width(differ), shift = std::max(0, bits - kBits);
    std::int64_t counts[kDigits] = {}, border = 0, below = 0;
    for (std::int64_t i = 0; i < count; ++i) ++counts[(from[i].key >> shift) & (kDigits - 1)];
    while (below + counts[border] < k) below += counts[border++];
    Keyed *undecided = rest;
    for (std::int64_t i = 0; i < count; ++i) {
      const Keyed item = from[i];
      const auto digit = static_cast<std::int64_t>((item.key >> shift) & (kDigits - 1));
      *chosen = item, *undecided = item;  // without branches: what lies there was looked at
      chosen += digit < border, undecided += digit == border;
    }
    k -= below;
    count = undecided - rest;
    from = rest;
    if (shift == 0) break;
    differ &= (std::uint64_t{1} << shift) - 1;
  }
  if (from == rest) std::copy_n(rest, k, chosen);
}

std::int64_t *integers(Context &context, std::int64_t count) {
  return static_cast<std::int64_t *>(context.scratch(static_cast<std::uint64_t>(count) * sizeof(std::int64_t)));
}
std::uint64_t *order_keys(Context &context, std::int64_t count) {
  return static_cast<std::uint64_t *>(context.scratch(static_cast<std::uint64_t>(count) * sizeof(std::uint64_t)));
}

// Lines of a tensor along an axis: element i of line (o, j) is at (o * extent + i) * inner + j.
struct Lines {
  std::int64_t outer, extent, inner;
  Lines(const View &view, std::size_t axis)
      : outer(product(view.dims, 0, axis)), extent(view.dims[axis]), inner(product(view.dims, axis + 1, view.rank)) {}
};

// The places of the best of some neighbouring lines: `at` counts along the lines. NaN is better than any number,
// whichever way the comparison goes.
constexpr std::int64_t kLines = 64;
template <bool largest, bool last, class T>
void best_of_lines(const T *x, std::int64_t extent, std::int64_t step, std::int64_t count, T *best, std::int32_t *at) {
  for (std::int64_t j = 0; j < count; ++j) best[j] = x[j], at[j] = 0;
  for (std::int64_t i = 1; i < extent; ++i) {
    const T *const row = x + i * step;
    const auto place = static_cast<std::int32_t>(i);
    for (std::int64_t j = 0; j < count; ++j) {  // without branches
      const T a = last ? best[j] : row[j], b = last ? row[j] : best[j], value = row[j];
      const bool better = (largest ? a > b : a < b) | ((a != a) & (b == b)), take = better != last;
      best[j] = take ? value : best[j];
      at[j] = take ? place : at[j];
    }
  }
}
// One line of neighbouring elements: its elements as rows of a few lines, of whose best the first (or last) is taken.
template <bool largest, bool last, class T>
std::int64_t best_of_line(const T *x, std::int64_t extent) {
  constexpr std::int64_t kWide = 16;
  T best[kWide];
  std::int32_t at[kWide];
  const std::int64_t rows = extent / kWide;
  std::int64_t found = 0, i = 0;
  T champion = x[0];
  const auto offer = [&](T value, std::int64_t index) {
    const auto better = [](T a, T b) { return (largest ? a > b : a < b) | ((a != a) & (b == b)); };
    const bool equal = !better(value, champion) && !better(champion, value);
    if (better(value, champion) || (equal && (last ? index > found : index < found))) champion = value, found = index;
  };
  if (rows > 1) {
    best_of_lines<largest, last>(x, rows, kWide, kWide, best, at);
    for (std::int64_t k = 0; k < kWide; ++k) offer(best[k], at[k] * kWide + k);
    i = rows * kWide;
  }
  for (; i < extent; ++i) offer(x[i], i);
  return found;
}

template <bool largest, bool last>
Status arg_extreme_of(Context &context) {
  const View &in = *context.input(0);
  View &out = *context.output(0);
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_axis(context, 0, in.rank, &axis));
  const Lines lines(in, axis);
  if (out.count != lines.outer * lines.inner || (out.count > 0 && lines.extent == 0) ||
      lines.extent > std::numeric_limits<std::int32_t>::max()) {
    return qir::node_error(context.node(), ErrorId::run_value, "axis %zu of %s has nothing to choose from", axis,
                           shape_text(in.dims, in.rank).c_str());
  }
  if (out.count == 0) return {};
  const bool known = dispatch_any(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    std::int64_t *to = out.as<std::int64_t>();
    for (std::int64_t o = 0; o < lines.outer; ++o) {
      const T *const block = in.as<const T>() + o * lines.extent * lines.inner;
      if (lines.inner == 1) {
        *to++ = best_of_line<largest, last>(block, lines.extent);
        continue;
      }
      T best[kLines];
      std::int32_t at[kLines];
      for (std::int64_t j = 0; j < lines.inner; j += kLines) {
        const std::int64_t count = std::min(kLines, lines.inner - j);
        best_of_lines<largest, last>(block + j, lines.extent, lines.inner, count, best, at);
        for (std::int64_t k = 0; k < count; ++k) *to++ = at[k];
      }
    }
  });
  return known ? Status() : type_error(context, in.dtype);
}
Status arg_extreme(Context &context, bool largest) {
  const bool last = context.node().get_int("select_last_index", 0) != 0;
  if (largest) return last ? arg_extreme_of<true, true>(context) : arg_extreme_of<true, false>(context);
  return last ? arg_extreme_of<false, true>(context) : arg_extreme_of<false, false>(context);
}

// Running sums and products; `step` joins the value so far and the next element. Floats accumulate in double.
template <class Step>
Status cumulate(Context &context, double neutral, Step &&step) {
  const View &in = *context.input(0);
  View &out = *context.output(0);
  std::int64_t given;
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(read_integer(context, 1, 0, &given));
  if (in.rank > 0) QR_RETURN_IF_ERROR(qir::resolve_axis(context.node(), given, in.rank, &axis));
  const bool exclusive = context.node().get_int("exclusive", 0) != 0,
             reverse = context.node().get_int("reverse", 0) != 0;
  View row = in;  // a scalar is a line of one
  if (in.rank == 0) row.rank = 1, row.dims[0] = 1;
  const Lines lines(row, axis);
  const bool known = dispatch_any(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
    for (std::int64_t o = 0; o < lines.outer; ++o) {
      for (std::int64_t j = 0; j < lines.inner; ++j) {
        Sum sum = static_cast<Sum>(neutral);
        for (std::int64_t i = 0; i < lines.extent; ++i) {
          const std::int64_t at = (o * lines.extent + (reverse ? lines.extent - 1 - i : i)) * lines.inner + j;
          const Sum next = step(sum, static_cast<Sum>(in.as<const T>()[at]));
          out.as<T>()[at] = static_cast<T>(exclusive ? sum : next);
          sum = next;
        }
      }
    }
  });
  return known ? Status() : type_error(context, in.dtype);
}

}  // namespace

Status kernel_arg_max(Context &context) { return arg_extreme(context, true); }
Status kernel_arg_min(Context &context) { return arg_extreme(context, false); }

Status kernel_cum_sum(Context &context) {
  return cumulate(context, 0, [](auto a, auto b) { return add(a, b); });
}
Status kernel_cum_prod(Context &context) {
  return cumulate(context, 1, [](auto a, auto b) { return multiply(a, b); });
}

Status kernel_top_k(Context &context) {
  const View &in = *context.input(0);
  std::size_t axis;
  std::int64_t k;
  QR_RETURN_IF_ERROR(read_axis(context, -1, in.rank, &axis));
  QR_RETURN_IF_ERROR(read_integer(context, 1, 0, &k));
  const Lines lines(in, axis);
  if (k < 0 || k > lines.extent) {
    return qir::node_error(context.node(), ErrorId::run_value, "found k %lld, expected 0 to %lld",
                           static_cast<long long>(k), static_cast<long long>(lines.extent));
  }
  std::int64_t dims[kMaxRank];
  std::copy_n(in.dims, in.rank, dims);
  dims[axis] = k;
  View *values, *indices;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, in.rank, &values));
  QR_RETURN_IF_ERROR(make_output(context, 1, dims, in.rank, &indices));
  if (k == 0 || in.count == 0) return {};
  const std::uint64_t flip = context.node().get_int("largest", 1) != 0 ? ~std::uint64_t{0} : 0;
  struct Entry {
    std::uint64_t key;
    std::int64_t at;
    bool operator<(const Entry &other) const { return key != other.key ? key < other.key : at < other.at; }
  };
  // The best k so far, the worst of them on top.
  auto *const heap = static_cast<Entry *>(context.scratch(static_cast<std::uint64_t>(k) * sizeof(Entry)));
  // Where many are wanted, digits of the keys say which.
  constexpr std::int64_t kMany = 64, kOfSo = 16;
  const bool by_digits = k >= kMany && k >= lines.extent / kOfSo;
  const std::uint64_t bytes = by_digits ? static_cast<std::uint64_t>(lines.extent) * sizeof(Keyed) : 0;
  auto *const keyed = static_cast<Keyed *>(context.scratch(bytes)), *const room =
                                                                        static_cast<Keyed *>(context.scratch(bytes));
  const bool known = dispatch_any(in.dtype, [&](auto tag) {
    const auto *data = in.as<const decltype(tag)>();
    for (std::int64_t o = 0; o < lines.outer && !context.stopped(); ++o) {
      for (std::int64_t j = 0; j < lines.inner; ++j) {
        const auto *const line = data + o * lines.extent * lines.inner + j;
        if (by_digits) {
          for (std::int64_t i = 0; i < lines.extent; ++i) keyed[i] = {order_key(line[i * lines.inner]) ^ flip, i};
          least_to_front(keyed, room, lines.extent, k);
          sort_by_key(keyed, room, k);
          for (std::int64_t i = 0; i < k; ++i) {
            const std::int64_t to = (o * k + i) * lines.inner + j;
            if (values) values->as<decltype(tag)>()[to] = line[keyed[i].at * lines.inner];
            if (indices) indices->as<std::int64_t>()[to] = keyed[i].at;
          }
          continue;
        }
        for (std::int64_t i = 0; i < k; ++i) heap[i] = {order_key(line[i * lines.inner]) ^ flip, i};
        std::make_heap(heap, heap + k);
        for (std::int64_t i = k; i < lines.extent; ++i) {
          if (lines.inner == 1) i = next_better(line, i, lines.extent, line[heap[0].at], flip != 0);
          if (i == lines.extent) break;
          const std::uint64_t key = order_key(line[i * lines.inner]) ^ flip;
          if (key >= heap[0].key) continue;  // of equal ones the first is taken
          std::pop_heap(heap, heap + k);
          heap[k - 1] = {key, i};
          std::push_heap(heap, heap + k);
        }
        std::sort(heap, heap + k);
        for (std::int64_t i = 0; i < k; ++i) {
          const std::int64_t to = (o * k + i) * lines.inner + j;
          if (values) values->as<decltype(tag)>()[to] = line[heap[i].at * lines.inner];
          if (indices) indices->as<std::int64_t>()[to] = heap[i].at;
        }
      }
    }
  });
  return known ? Status() : type_error(context, in.dtype);
}

Status kernel_non_zero(Context &context) {
  const View &in = *context.input(0);
  Status status;
  const bool known = dispatch_any(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T *data = in.as<const T>();
    const std::int64_t found = in.count - std::count(data, data + in.count, T{});
    const std::int64_t dims[] = {in.rank, found};
    View *out;
    status = make_output(context, 0, dims, 2, &out);
    if (status || found == 0) return;
    std::int64_t column = 0, position = 0;
    for (Odometer index(in.dims, in.rank); !index.done(); index.next(), ++position) {
      if (data[position] == T{}) continue;
      for (std::uint32_t i = 0; i < in.rank; ++i) out->as<std::int64_t>()[i * found + column] = index[i];
      ++column;
    }
  });
  return known ? std::move(status) : type_error(context, in.dtype);
}

Status kernel_unique(Context &context) {
  const View &in = *context.input(0);
  // Without an axis the items are the elements, else the slices along the axis: `inner` * `outer` elements each.
  const bool flat = context.node().find("axis") == nullptr;
  const bool sorted = context.node().get_int("sorted", 1) != 0;
  View view = in;
  if (flat) view.rank = 1, view.dims[0] = in.count;
  std::size_t axis = 0;
  if (!flat) QR_RETURN_IF_ERROR(read_axis(context, 0, in.rank, &axis));
  const Lines lines(view, axis);
  const std::int64_t items = lines.extent;
  std::int64_t *order = integers(context, items), *group_of = integers(context, items),
               *first = integers(context, items);
  std::int64_t *count = integers(context, items), *place = integers(context, items);
  std::uint64_t *keys = order_keys(context, in.count);
  const bool known = dispatch_any(in.dtype, [&](auto tag) {
    const auto *data = in.as<const decltype(tag)>();
    std::transform(data, data + in.count, keys, [](auto value) { return order_key(value); });
  });
  if (!known) return type_error(context, in.dtype);
  const auto compare = [&](std::int64_t a, std::int64_t b) {  // below 0, 0, above 0
    for (std::int64_t o = 0; o < lines.outer; ++o) {
      for (std::int64_t j = 0; j < lines.inner; ++j) {
        const std::uint64_t x = keys[(o * items + a) * lines.inner + j], y = keys[(o * items + b) * lines.inner + j];
        if (x != y) return x < y ? -1 : 1;
      }
    }
    return 0;
  };
  constexpr std::int64_t kWorthDigits = 256;
  if (in.count == items && items >= kWorthDigits) {
    const auto bytes = static_cast<std::uint64_t>(items) * sizeof(Keyed);
    auto *const keyed = static_cast<Keyed *>(context.scratch(bytes)), *const room =
                                                                          static_cast<Keyed *>(context.scratch(bytes));
    for (std::int64_t i = 0; i < items; ++i) keyed[i] = {keys[i], i};
    sort_by_key(keyed, room, items);
    for (std::int64_t i = 0; i < items; ++i) order[i] = keyed[i].at;
  } else {
    for (std::int64_t i = 0; i < items; ++i) order[i] = i;
    std::sort(order, order + items, [&](std::int64_t a, std::int64_t b) {
      const int sign = compare(a, b);
      return sign != 0 ? sign < 0 : a < b;
    });
  }
  // Equal items follow each other now, the first occurrence in front. Groups are numbered in sorted order.
  std::int64_t groups = 0;
  for (std::int64_t i = 0; i < items; ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0) first[groups++] = order[i];
    group_of[order[i]] = groups - 1;
    ++count[groups - 1];
  }
  // Which place in the output a group takes.
  for (std::int64_t g = 0; g < groups; ++g) order[g] = g;
  if (!sorted) std::sort(order, order + groups, [&](std::int64_t a, std::int64_t b) { return first[a] < first[b]; });
  for (std::int64_t i = 0; i < groups; ++i) place[order[i]] = i;

  std::int64_t dims[kMaxRank];
  std::copy_n(view.dims, view.rank, dims);
  dims[axis] = groups;
  View *values, *indices, *inverse, *counts;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, view.rank, &values));
  QR_RETURN_IF_ERROR(make_output(context, 1, &groups, 1, &indices));
  QR_RETURN_IF_ERROR(make_output(context, 2, &items, 1, &inverse));
  QR_RETURN_IF_ERROR(make_output(context, 3, &groups, 1, &counts));
  const std::int64_t row = lines.inner * in.width;  // bytes
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t o = 0; values && row > 0 && o < lines.outer; ++o) {
      std::memcpy(values->as<char>() + (o * groups + place[g]) * row,
                  in.as<const char>() + (o * items + first[g]) * row, static_cast<std::size_t>(row));
    }
    if (indices) indices->as<std::int64_t>()[place[g]] = first[g];
    if (counts) counts->as<std::int64_t>()[place[g]] = count[g];
  }
  for (std::int64_t i = 0; inverse && i < items; ++i) inverse->as<std::int64_t>()[i] = place[group_of[i]];
  return {};
}

}  // namespace quarry::reference
