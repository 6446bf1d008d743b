// SPDX-License-Identifier: Apache-2.0
// Operators that compare elements to find, order or count them.
//
// NaN is ordered as numpy does: after every number.
#include <algorithm>
#include <bit>

#include "kernels/reference/axis_scans.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/rows.h"

namespace quarry::reference {

using qir::kMaxRank;

namespace {

// Integers that order as the values do: numbers, then NaN. All sorting is done on them. Of elements first, first +
// step,
// ...
using OrderKeys = void (*)(const void *data, std::int64_t first, std::int64_t step, std::int64_t count,
                           std::uint64_t *keys);
template <class T>
void order_keys(const void *data, std::int64_t first, std::int64_t step, std::int64_t count, std::uint64_t *keys) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  const T *const from = static_cast<const T *>(data) + first;
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = from[i * step];
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      constexpr Bits kTop = Bits{1} << (sizeof(T) * 8 - 1);
      const auto bits = std::bit_cast<Bits>(value + T{0});  // -0 is 0
      const Bits key = bits & kTop ? ~bits : bits | kTop;
      keys[i] = value != value ? ~Bits{0} : key;
    } else {
      keys[i] = std::is_signed_v<T> ? static_cast<std::uint64_t>(value) ^ kSign : static_cast<std::uint64_t>(value);
    }
  }
}
OrderKeys find_order_keys(DType dtype) {  // nullptr: no kernel takes it
  OrderKeys found = nullptr;
  dispatch_any(dtype, [&](auto tag) { found = order_keys<decltype(tag)>; });
  return found;
}

// The first position from `i` on that may hold something better than position `worst_at`: blocks that hold nothing are
// passed over without branches.
template <class T>
std::int64_t next_better(const void *row, std::int64_t step, std::int64_t i, std::int64_t end, std::int64_t worst_at,
                         bool largest) {
  constexpr std::int64_t kBlock = 32;
  const T *const x = static_cast<const T *>(row);
  const T worst = x[worst_at * step];
  const auto any = [&](auto better) {
    for (; step == 1 && i + kBlock <= end; i += kBlock) {
      std::uint32_t found = 0;
      for (std::int64_t j = 0; j < kBlock; ++j) found |= static_cast<std::uint32_t>(better(x[i + j]));
      if (found) break;
    }
    while (i < end && !better(x[i * step])) ++i;
    return i;
  };
  // NaN is for the caller to treat; as the worst of the least it is worse than any number.
  if (!largest && worst != worst) return i;
  if (largest) return any([worst](T value) { return (value > worst) | (value != value); });
  return any([worst](T value) { return (value < worst) | (value != value); });
}

struct Keyed {
  std::uint64_t key;
  std::int64_t at;
};
// The same as in_parts(), with body(i).
template <class Body>
bool for_items(const Context &context, std::int64_t count, Body &&body) {
  return in_parts(context, count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

// Sorts by key; equal ones stay in their order. Digits that all have in common take no pass. False: it was stopped.
bool sort_by_key(const Context &context, Keyed *items, Keyed *room, std::int64_t count) {
  constexpr int kBits = 11, kDigits = 1 << kBits;
  std::uint64_t differ = 0;
  if (!for_items(context, count, [&](std::int64_t i) { differ |= items[i].key ^ items[0].key; })) return false;
  Keyed *from = items, *to = room;
  for (int shift = 0; shift < 64; shift += kBits) {
    if (((differ >> shift) & (kDigits - 1)) == 0) continue;
    std::int64_t begins[kDigits + 1] = {};
    const auto digit = [&](std::int64_t i) { return (from[i].key >> shift) & (kDigits - 1); };
    if (!for_items(context, count, [&](std::int64_t i) { ++begins[digit(i) + 1]; })) return false;
    for (int d = 0; d < kDigits; ++d) begins[d + 1] += begins[d];
    if (!for_items(context, count, [&](std::int64_t i) { to[begins[digit(i)]++] = from[i]; })) return false;
    std::swap(from, to);
  }
  return from == items || for_items(context, count, [&](std::int64_t i) { items[i] = from[i]; });
}

// Moves the k least to the front, in any order but equal ones in their own; of equal ones the first are taken. Both
// `rest` and `items` have room for count. False: it was stopped.
bool least_to_front(const Context &context, Keyed *items, Keyed *rest, std::int64_t count, std::int64_t k) {
  constexpr int kBits = 11, kDigits = 1 << kBits;
  std::uint64_t differ = 0;
  if (!for_items(context, count, [&](std::int64_t i) { differ |= items[i].key ^ items[0].key; })) return false;
  Keyed *chosen = items;  // what is chosen is never ahead of what is looked at
  const Keyed *from = items;
  while (k > 0 && k < count) {
    const int bits = std::bit_width(differ), shift = std::max(0, bits - kBits);
    std::int64_t counts[kDigits] = {}, border = 0, below = 0;
    if (!for_items(context, count, [&](std::int64_t i) { ++counts[(from[i].key >> shift) & (kDigits - 1)]; }))
      return false;
    while (below + counts[border] < k) below += counts[border++];
    Keyed *undecided = rest;
    const bool all = for_items(context, count, [&](std::int64_t i) {
      const Keyed item = from[i];
      const auto digit = static_cast<std::int64_t>((item.key >> shift) & (kDigits - 1));
      *chosen = item, *undecided = item;  // without branches: what lies there was looked at
      chosen += digit < border, undecided += digit == border;
    });
    if (!all) return false;
    k -= below;
    count = undecided - rest;
    from = rest;
    if (shift == 0) break;
    differ &= (std::uint64_t{1} << shift) - 1;
  }
  return from != rest || for_items(context, k, [&](std::int64_t i) { chosen[i] = rest[i]; });
}

std::int64_t *integers(Context &context, std::int64_t count) {
  return static_cast<std::int64_t *>(context.scratch(static_cast<std::uint64_t>(count) * sizeof(std::int64_t)));
}
}  // namespace

Status kernel_top_k(Context &context) {
  const View &in = *context.input(0);
  std::size_t axis;
  std::int64_t k;
  QR_RETURN_IF_ERROR(read_axis(context, -1, in.rank, &axis));
  QR_RETURN_IF_ERROR(read_integer(context, 1, 0, &k));
  const AxisRows rows(in, axis);
  if (k < 0 || k > rows.extent) {
    return qir::node_error(context.node(), ErrorId::run_value, "found k %lld, expected 0 to %lld", k, rows.extent);
  }
  std::int64_t dims[kMaxRank];
  std::copy_n(in.dims, in.rank, dims);
  dims[axis] = k;
  View *values, *indices;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, in.rank, &values));
  QR_RETURN_IF_ERROR(make_output(context, 1, dims, in.rank, &indices));
  if (k == 0 || in.count == 0) return {};
  const std::uint64_t flip = context.node().get_int("largest", 1) != 0 ? ~std::uint64_t{0} : 0;
  const OrderKeys keys_of = find_order_keys(in.dtype);
  if (!keys_of) return type_error(context, in.dtype);
  struct Entry {
    std::uint64_t key;
    std::int64_t at;
    bool operator<(const Entry &other) const { return key != other.key ? key < other.key : at < other.at; }
  };
  // The best k so far, the worst of them on top.
  auto *const heap = static_cast<Entry *>(context.unfilled_scratch(static_cast<std::uint64_t>(k) * sizeof(Entry)));
  // Where many are wanted, digits of the keys say which; of a great many always, for a heap of them is not stopped.
  constexpr std::int64_t kMany = 64, kOfSo = 16, kBlock = 256, kGreatMany = 1 << 16;
  const bool by_digits = k >= kMany && (k >= rows.extent / kOfSo || k >= kGreatMany);
  const std::uint64_t bytes = by_digits ? static_cast<std::uint64_t>(rows.extent) * sizeof(Keyed) : 0;
  auto *const keyed = static_cast<Keyed *>(context.unfilled_scratch(bytes));
  auto *const room = static_cast<Keyed *>(context.unfilled_scratch(bytes));
  Poll poll(context);
  // Short rows are not worth looking ahead.
  constexpr std::int64_t kShort = 16;
  decltype(next_better<float>) *next = nullptr;
  if (rows.extent > kShort)
    dispatch_ordered(loop_dtype(in.dtype), [&](auto tag) { next = next_better<decltype(tag)>; });
  for (std::int64_t o = 0; o < rows.outer && !context.stopped(); ++o) {
    for (std::int64_t j = 0; j < rows.inner && !poll.stopped(k); ++j) {
      const std::int64_t first = o * rows.extent * rows.inner + j;
      std::uint64_t keys[kBlock];
      const auto each_key = [&](std::int64_t begin, std::int64_t end, auto &&body) {
        for (; begin < end && !poll.stopped(kBlock); begin += kBlock) {
          const std::int64_t count = std::min(kBlock, end - begin);
          keys_of(in.data, first + begin * rows.inner, rows.inner, count, keys);
          for (std::int64_t i = 0; i < count; ++i) body(begin + i, keys[i] ^ flip);
        }
      };
      const auto offer = [&](std::int64_t i, std::uint64_t key) {
        if (key >= heap[0].key) return;  // of equal ones the first is taken
        std::pop_heap(heap, heap + k);
        heap[k - 1] = {key, i};
        std::push_heap(heap, heap + k);
      };
      const auto put = [&](std::int64_t position, std::int64_t i) {
        const std::int64_t to = (o * k + position) * rows.inner + j;
        if (values) std::memcpy(element(*values, to), element(in, first + i * rows.inner), in.width);
        if (indices) indices->as<std::int64_t>()[to] = i;
      };
      if (by_digits) {
        each_key(0, rows.extent, [&](std::int64_t i, std::uint64_t key) { keyed[i] = {key, i}; });
        if (poll.stopped(0) || !least_to_front(context, keyed, room, rows.extent, k) ||
            !sort_by_key(context, keyed, room, k))
          return {};  // who runs the kernel asks too
        for_items(context, k, [&](std::int64_t i) { put(i, keyed[i].at); });
        continue;
      }
      each_key(0, next ? k : rows.extent, [&](std::int64_t i, std::uint64_t key) {
        if (i >= k) return offer(i, key);
        heap[i] = {key, i};
        if (i + 1 == k) std::make_heap(heap, heap + k);
      });
      if (poll.stopped(0)) return {};
      for (std::int64_t i = next ? k : rows.extent; i < rows.extent;) {
        const std::int64_t begin = i, end = std::min(rows.extent, i + kGreatMany);
        i = next(element(in, first), rows.inner, i, end, heap[0].at, flip != 0);
        if (poll.stopped(i - begin)) return {};
        if (i == end) continue;
        keys_of(in.data, first + i * rows.inner, 1, 1, keys);
        offer(i++, keys[0] ^ flip);
      }
      std::sort(heap, heap + k);
      for (std::int64_t i = 0; i < k; ++i) put(i, heap[i].at);
    }
  }
  return {};
}

namespace {

// How many elements are not 0, and then where they are: axis i of number c at to[i * found + c]. `mask`: the bits that
// count, which are not the sign of a float.
template <class Bits>
std::int64_t count_nonzero(const View &in, Bits mask) {
  const Bits *const data = in.as<const Bits>();
  return std::count_if(data, data + in.count, [mask](Bits bits) { return (bits & mask) != 0; });
}
template <class Bits>
void list_nonzero(const View &in, Bits mask, std::int64_t found, std::int64_t *to) {
  if (in.rank == 0) {  // numpy takes a scalar for a list of one
    *to = 0;
    return;
  }
  const Bits *data = in.as<const Bits>();
  const std::uint32_t last = in.rank - 1;
  const std::int64_t length = in.dims[last];
  for (Odometer row(in.dims, last); !row.done(); row.next(), data += length) {
    for (std::int64_t x = 0; x < length; ++x) {
      if ((data[x] & mask) == 0) continue;
      for (std::uint32_t i = 0; i < last; ++i) to[i * found] = row[i];
      to[last * found] = x;
      ++to;
    }
  }
}

}  // namespace

Status kernel_non_zero(Context &context) {
  const View &in = *context.input(0);
  if (!is_loadable(in.dtype)) return type_error(context, in.dtype);
  const DType bits = in.width == 1 ? DType::U8 : in.width == 2 ? DType::U16 : in.width == 4 ? DType::U32 : DType::U64;
  Status status;
  dispatch<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(bits, [&](auto tag) {
    using Bits = decltype(tag);
    const Bits all = std::numeric_limits<Bits>::max(), mask = is_float(in.dtype) ? all >> 1 : all;
    const std::int64_t found = count_nonzero(in, mask), dims[] = {std::max<std::int64_t>(in.rank, 1), found};
    View *out;
    status = make_output(context, 0, dims, 2, &out);
    if (status.ok() && found != 0) list_nonzero(in, mask, found, out->as<std::int64_t>());
  });
  return status;
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
  const AxisRows rows(view, axis);
  const std::int64_t items = rows.extent;
  std::int64_t *order = integers(context, items), *group_of = integers(context, items),
               *first = integers(context, items);
  std::int64_t *count = integers(context, items), *position = integers(context, items);
  const OrderKeys keys_of = find_order_keys(in.dtype);
  if (!keys_of) return type_error(context, in.dtype);
  auto *const keys =
      static_cast<std::uint64_t *>(context.scratch(static_cast<std::uint64_t>(in.count) * sizeof(std::uint64_t)));
  keys_of(in.data, 0, 1, in.count, keys);
  const auto compare = [&](std::int64_t a, std::int64_t b) {  // below 0, 0, above 0
    for (std::int64_t o = 0; o < rows.outer; ++o) {
      for (std::int64_t j = 0; j < rows.inner; ++j) {
        const std::uint64_t x = keys[(o * items + a) * rows.inner + j], y = keys[(o * items + b) * rows.inner + j];
        if (x != y) return x < y ? -1 : 1;
      }
    }
    return 0;
  };
  constexpr std::int64_t kWorthDigits = 256;
  if (in.count == items && items >= kWorthDigits) {
    const auto bytes = static_cast<std::uint64_t>(items) * sizeof(Keyed);
    auto *const keyed = static_cast<Keyed *>(context.unfilled_scratch(bytes));
    auto *const room = static_cast<Keyed *>(context.unfilled_scratch(bytes));
    if (!for_items(context, items,
                   [&](std::int64_t i) {
                     keyed[i] = {keys[i], i};
                   }) ||
        !sort_by_key(context, keyed, room, items) ||
        !for_items(context, items, [&](std::int64_t i) { order[i] = keyed[i].at; }))
      return {};
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
  // Which position in the output a group takes.
  for (std::int64_t g = 0; g < groups; ++g) order[g] = g;
  if (!sorted) std::sort(order, order + groups, [&](std::int64_t a, std::int64_t b) { return first[a] < first[b]; });
  for (std::int64_t i = 0; i < groups; ++i) position[order[i]] = i;

  std::int64_t dims[kMaxRank];
  std::copy_n(view.dims, view.rank, dims);
  dims[axis] = groups;
  View *values, *indices, *inverse, *counts;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, view.rank, &values));
  QR_RETURN_IF_ERROR(make_output(context, 1, &groups, 1, &indices));
  QR_RETURN_IF_ERROR(make_output(context, 2, &items, 1, &inverse));
  QR_RETURN_IF_ERROR(make_output(context, 3, &groups, 1, &counts));
  const std::int64_t row_bytes = rows.inner * in.width;
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t o = 0; values && row_bytes > 0 && o < rows.outer; ++o) {
      std::memcpy(values->as<char>() + (o * groups + position[g]) * row_bytes,
                  in.as<const char>() + (o * items + first[g]) * row_bytes, static_cast<std::size_t>(row_bytes));
    }
    if (indices) indices->as<std::int64_t>()[position[g]] = first[g];
    if (counts) counts->as<std::int64_t>()[position[g]] = count[g];
  }
  for (std::int64_t i = 0; inverse && i < items; ++i) inverse->as<std::int64_t>()[i] = position[group_of[i]];
  return {};
}

}  // namespace quarry::reference
