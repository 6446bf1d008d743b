// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/fewer_axes.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/small_sort.h"

namespace quarry::htp {

using qnn::TensorType;
using Dims = Vector<std::uint32_t>;

namespace {

constexpr std::size_t kMostAxes = 5;  // that any operation has
constexpr std::size_t kUsual = 4;     // that nearly all have

// Which axes an operation treats alike, so that they may become one.
enum class Kind : std::uint8_t {
  Elements,     // along which the same operands are stretched
  Along,        // all but that of the parameter `axis`; of all operands
  Data,         // likewise, of the first operand and the results alone
  LastAxis,     // all but the last one
  Space,        // those between the first and the last one
  Reduction,    // those that go, and those that stay
  Index,        // those but `axis` of which data and indices have one dimension
  Part,         // those that are taken wholly
  Pads,         // those that are not padded
  Repeats,      // those that are not repeated
  Permutation,  // those that stay side by side
  Product,      // rows beside one matrix; batches
};
struct Row {
  std::string_view type;
  Kind kind;
  std::size_t most = kUsual;  // of axes, that the library prepares and computes it rightly with
};
constexpr Row kRows[] = {
#define QR_HTP_AXES(operation, kind, most) {#operation, Kind::kind, most},
#include "backends/htp/lower/fewer_axes.inc"
#undef QR_HTP_AXES
};

const Row *row_of(const char *type) {
  const auto found = std::ranges::find(kRows, std::string_view(type), &Row::type);
  return found == std::end(kRows) ? nullptr : &*found;
}

// Axes side by side that are one: begins[i] says that axis i begins another one.
using Begins = Vector<bool>;

// Of `rank` axes the leftmost that may are joined, until `most` are left. `is_free`: of dimension 1 everywhere, and so
// alike to any; others are compared with the one before that is not.
template <class Alike, class Free>
bool join(Begins &begins, std::size_t most, std::size_t rank, Alike &&alike, Free &&is_free) {
  begins.assign(rank, true);
  std::size_t left = rank;
  std::size_t last = rank;  // of the group at hand, not free; rank: there is none
  for (std::size_t i = 0; i < rank; ++i) {
    if (i > 0 && left > most && (last == rank || is_free(i) || alike(last, i))) begins[i] = false, --left;
    else last = rank;
    if (!is_free(i)) last = i;
  }
  return left <= most;
}

std::optional<Dims> joined(const Dims &from, const Begins &begins) {
  Dims out;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (begins[i]) {
      out.push_back(from[i]);
    } else if (!checked_mul<std::uint32_t>(out.back(), from[i], &out.back())) {
      return std::nullopt;
    }
  }
  return out;
}

std::size_t place_of(const Begins &begins, std::size_t axis) {
  return static_cast<std::size_t>(
             std::count(begins.begin(), begins.begin() + static_cast<std::ptrdiff_t>(axis) + 1, true)) -
         1;
}

Dims stretched(const Dims &from, std::size_t rank) {
  Dims out(rank - std::min(rank, from.size()), 1);
  out.insert(out.end(), from.begin(), from.end());
  return out;
}

class FewerAxes {
 public:
  FewerAxes(Draft &draft, qir::Store &store) : draft_(draft), store_(store) {}

  void run(Vector<Status> &refused) {
    if (std::ranges::none_of(draft_.tensors, [](const DraftTensor &t) { return t.dims.size() > kUsual; })) return;
    Vector<DraftNode> old = std::move(draft_.nodes);
    draft_.nodes = {};
    for (DraftNode &node : old) {
      const Row *const row = row_of(node.type);
      const std::size_t axes = most_axes(node);
      const bool has_whole = has_integers(node);
      // Of five axes that can be four the library prepares each operation by itself, but not every few of them
      // together: behind a MatMul, whose batches are one, it crashes or reads other elements. Integers of 32 bits it
      // cannot reshape.
      const bool fits = node.custom || !row || axes <= kUsual || has_axes_of_scales(node);
      if (fits || !merge(node, axes > kMostAxes || has_whole ? Row{row->type, row->kind} : *row))
        draft_.nodes.push_back(std::move(node));
    }
    join_reshapes();
    narrow_borders();
    forget_unused();
    refuse_the_rest(refused);
  }

 private:
  DraftTensor &tensor(std::int32_t id) { return draft_.tensors[index_of(id)]; }
  const Dims &dims(std::int32_t id) { return tensor(id).dims; }
  std::size_t most_axes(const DraftNode &node) {
    std::size_t most = 0;
    for (const auto *list : {&node.inputs, &node.outputs})
      for (const std::int32_t id : *list) most = std::max(most, dims(id).size());
    return most;
  }
  bool has_integers(const DraftNode &node) {
    const auto is_one = [&](std::int32_t id) {
      return tensor(id).dtype == qnn::DataType::I32 || tensor(id).dtype == qnn::DataType::U32;
    };
    return std::ranges::any_of(node.inputs, is_one) || std::ranges::any_of(node.outputs, is_one);
  }
  bool has_axes_of_scales(const DraftNode &node) {
    for (const auto *list : {&node.inputs, &node.outputs})
      for (const std::int32_t id : *list)
        if (tensor(id).encoding.scales.size() > 1 || !tensor(id).encoding.block.empty()) return true;
    return false;
  }

  // ---- parameters ----
  static DraftParam *param(DraftNode &node, std::string_view name) {
    const auto found = std::ranges::find_if(node.params, [&](const DraftParam &p) { return name == p.name; });
    return found == node.params.end() ? nullptr : &*found;
  }
  static std::size_t axis_of(DraftNode &node) {
    const DraftParam *const given = param(node, "axis");
    if (!given) return 0;
    if (const auto *i = std::get_if<std::int32_t>(&given->value)) return static_cast<std::size_t>(*i);
    const auto *const u = std::get_if<std::uint32_t>(&given->value);
    return u ? *u : 0;
  }
  static void set_axis(DraftNode &node, std::size_t axis) {
    DraftParam *const given = param(node, "axis");
    if (!given) return;
    if (std::holds_alternative<std::int32_t>(given->value)) given->value = static_cast<std::int32_t>(axis);
    else given->value = static_cast<std::uint32_t>(axis);
  }
  // A list of numbers of 32 bits.
  Vector<std::int32_t> list(DraftNode &node, std::string_view name) {
    const DraftParam *const given = param(node, name);
    const auto *const ref = given ? std::get_if<DraftParam::Ref>(&given->value) : nullptr;
    if (!ref) return {};
    const qir::Bytes data = tensor(ref->tensor).data;
    Vector<std::int32_t> values(data.size / sizeof(std::int32_t));
    if (!values.empty()) std::memcpy(values.data(), data.data, data.size);
    return values;
  }
  void set_list(DraftNode &node, std::string_view name, const Vector<std::int32_t> &values, std::uint32_t columns = 1) {
    DraftParam &given = *param(node, name);
    Dims shape{static_cast<std::uint32_t>(values.size()) / columns};
    if (columns > 1) shape.push_back(columns);
    const std::size_t bytes = values.size() * sizeof(std::int32_t);
    given.value = DraftParam::Ref{add(tensor(std::get<DraftParam::Ref>(given.value).tensor), std::move(shape),
                                      store_.copy(values.data(), bytes))};
  }

  // ---- tensors ----
  std::int32_t add(DraftTensor made, Dims shape, qir::Bytes data) {
    made.name += format("~axes%zu", draft_.tensors.size()).c_str();
    made.type = data.data ? TensorType::Static : TensorType::Native;
    made.dims = std::move(shape);
    made.data = data;
    draft_.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(draft_.tensors.size() - 1);
  }
  std::int32_t shaped(std::int32_t id, const Dims &shape, const DraftNode &like) {
    if (dims(id) == shape) return id;
    const auto key = std::make_pair(id, shape);
    if (const auto found = seen_.find(key); found != seen_.end()) return found->second;
    const std::int32_t made = add(tensor(id), shape, tensor(id).data);
    if (tensor(made).type != TensorType::Static) reshape(id, made, like, draft_.nodes);
    seen_.emplace(key, made);
    return made;
  }
  static void reshape(std::int32_t from, std::int32_t to, const DraftNode &like, Vector<DraftNode> &nodes) {
    nodes.push_back({like.name, "Reshape", {from}, {to}, {}, like.source});
  }

  // ---- nodes ----
  struct Shapes {
    Vector<std::optional<Dims>> inputs, outputs;  // none: as it is
    void of_inputs(std::size_t count, const DraftNode &node, FewerAxes &self, const Begins &begins) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        inputs.push_back(i < count ? self.joined_of(node.inputs[i], begins) : std::nullopt);
    }
    void of_outputs(const DraftNode &node, FewerAxes &self, const Begins &begins) {
      for (const std::int32_t id : node.outputs) outputs.push_back(self.joined_of(id, begins));
    }
  };
  std::optional<Dims> joined_of(std::int32_t id, const Begins &begins) {
    return joined(stretched(dims(id), begins.size()), begins);
  }
  // `node` with operands of other shapes, Reshapes around it.
  bool write(DraftNode &node, const Shapes &shapes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (shapes.inputs[i]) node.inputs[i] = shaped(node.inputs[i], *shapes.inputs[i], node);
    Vector<DraftNode> behind;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!shapes.outputs[i] || dims(node.outputs[i]) == *shapes.outputs[i]) continue;
      const std::int32_t made = add(tensor(node.outputs[i]), *shapes.outputs[i], {});
      reshape(made, node.outputs[i], node, behind);
      node.outputs[i] = made;
    }
    draft_.nodes.push_back(std::move(node));
    for (DraftNode &one : behind) draft_.nodes.push_back(std::move(one));
    return true;
  }

  bool is_one(const DraftNode &node, std::size_t inputs, std::size_t axis, std::size_t rank) {
    const auto one = [&](std::int32_t id) { return stretched(dims(id), rank)[axis] == 1; };
    return std::all_of(node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(inputs), one);
  }

  bool merge(DraftNode &node, const Row &row) {
    switch (row.kind) {
      case Kind::Elements: return elements(node, row.most);
      case Kind::Reduction: return reduction(node, row.most);
      case Kind::Permutation: return permutation(node, row.most);
      case Kind::Product: return product(node, row.most);
      default: return along(node, row);
    }
  }

  // Operands along an axis of the result: stretched or not.
  bool alike(const Vector<std::int32_t> &ids, const Dims &all, std::size_t a, std::size_t b) {
    return std::ranges::all_of(ids, [&](std::int32_t id) {
      const Dims own = stretched(dims(id), all.size());
      return (own[a] == all[a]) == (own[b] == all[b]);
    });
  }
  // An operand as large as the result.
  std::int32_t repeated(std::int32_t id, const Dims &all, const DraftNode &like) {
    Dims own = stretched(dims(id), all.size());
    const auto count = [](const Dims &from, std::size_t begin, std::size_t end) {
      std::uint32_t product = 1;
      for (std::size_t i = begin; i < end; ++i) product *= from[i];
      return product;
    };
    for (std::size_t axis = 0; axis < all.size(); ++axis) {
      if (own[axis] == all[axis]) continue;
      Dims shape{count(own, 0, axis), 1, count(own, axis + 1, own.size())};
      const std::int32_t from = shaped(id, shape, like);
      shape[1] = own[axis] = all[axis];
      const std::int32_t made = add(tensor(from), shape, {}), multiples = add(tensor(from), {3}, {});
      const std::int32_t times[3] = {1, static_cast<std::int32_t>(all[axis]), 1};
      tensor(multiples).type = TensorType::Static, tensor(multiples).dtype = qnn::DataType::U32;
      tensor(multiples).encoding = {};
      tensor(multiples).data = store_.copy(times, sizeof times);
      draft_.nodes.push_back(
          {like.name, "Tile", {from}, {made}, {{"multiples", DraftParam::Ref{multiples}}}, like.source});
      id = made;
    }
    return shaped(id, all, like);
  }
  bool elements(DraftNode &node, std::size_t most) {
    const Dims all = dims(node.outputs[0]);
    Begins begins;
    if (!join(
            begins, kUsual, all.size(), [&](std::size_t a, std::size_t b) { return alike(node.inputs, all, a, b); },
            [&](std::size_t axis) { return all[axis] == 1; })) {
      if (all.size() <= most) return false;
      for (std::int32_t &id : node.inputs)
        if (dims(id) != Dims{1}) id = repeated(id, all, node);
      return elements(node, most);
    }
    Shapes shapes;
    shapes.of_inputs(node.inputs.size(), node, *this, begins);
    shapes.of_outputs(node, *this, begins);
    // A single number needs no axes.
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (dims(node.inputs[i]) == Dims{1}) shapes.inputs[i].reset();
    return write(node, shapes);
  }

  bool along(DraftNode &node, const Row &row) {
    const std::size_t rank = dims(node.inputs[0]).size();
    if (!param(node, "keep_dims") && dims(node.outputs[0]).size() != rank) return false;
    const std::size_t operands = row.kind == Kind::Along || row.kind == Kind::Index ? node.inputs.size() : 1;
    std::size_t axis = rank;  // that is alone
    if (row.kind == Kind::Along || row.kind == Kind::Data || row.kind == Kind::Index) axis = axis_of(node);
    if (row.kind == Kind::LastAxis) axis = rank - 1;
    const Dims from = dims(node.inputs[0]);
    const Vector<std::int32_t> ranges = list(node, "ranges"), pads = list(node, "pad_amount"),
                               multiples = list(node, "multiples");
    // Whether the operation does something along it.
    const auto works = [&](std::size_t i) {
      switch (row.kind) {
        case Kind::Space: return i == 0 || i + 1 == rank;
        case Kind::Part:
          return ranges[3 * i] != 0 || ranges[3 * i + 1] != static_cast<std::int32_t>(from[i]) ||
                 ranges[3 * i + 2] != 1;
        case Kind::Pads: return pads[2 * i] != 0 || pads[2 * i + 1] != 0;
        case Kind::Repeats: return multiples[i] != 1;
        default: return i == axis;
      }
    };
    Begins begins;
    const auto joins = [&](std::size_t most) {
      return join(
          begins, most, rank,
          [&](std::size_t a, std::size_t b) {
            if (works(a) || works(b)) return false;
            return row.kind != Kind::Index || dims(node.inputs[1])[b] == from[b];
          },
          [&](std::size_t i) { return !works(i) && is_one(node, operands, i, rank); });
    };
    if (!joins(kUsual)) {
      if (row.kind == Kind::Repeats) return repeats_by_steps(node, multiples, works);
      if (row.kind == Kind::Part) return part_by_steps(node, ranges, works);
      if (!joins(row.most)) return false;
    }
    Shapes shapes;
    shapes.of_inputs(operands, node, *this, begins);
    if (DraftParam *const keeps = param(node, "keep_dims"); keeps && dims(node.outputs[0]).size() != rank) {
      keeps->value = true;
      Dims kept = from;
      kept[axis] = 1;
      shapes.outputs.push_back(joined(kept, begins));
    } else {
      shapes.of_outputs(node, *this, begins);
    }
    const std::size_t left = static_cast<std::size_t>(std::count(begins.begin(), begins.end(), true));
    // A group is as the one of its axes at which something is done.
    const auto grouped = [&](const Vector<std::int32_t> &all, std::size_t columns, bool product) {
      Vector<std::int32_t> made;
      for (std::size_t i = 0; i < rank; ++i) {
        const auto own = all.begin() + static_cast<std::ptrdiff_t>(columns * i);
        if (begins[i]) made.insert(made.end(), own, own + static_cast<std::ptrdiff_t>(columns));
        else if (works(i)) std::copy_n(own, columns, made.end() - static_cast<std::ptrdiff_t>(columns));
        else if (product && !works_in_group(begins, i, works)) made[made.size() - 2] *= own[1];
      }
      return made;
    };
    if (DraftParam *const open = param(node, "end_mask"); open && row.kind == Kind::Part) {
      std::uint32_t mask = 0;  // by group
      for (std::size_t i = 0; i < rank; ++i)
        if (std::get<std::uint32_t>(open->value) >> i & 1) mask |= 1u << place_of(begins, i);
      open->value = mask;
    }
    if (!ranges.empty() && row.kind == Kind::Part) set_list(node, "ranges", grouped(ranges, 3, true), 3);
    if (!pads.empty() && row.kind == Kind::Pads) set_list(node, "pad_amount", grouped(pads, 2, false), 2);
    if (!multiples.empty() && row.kind == Kind::Repeats) set_list(node, "multiples", grouped(multiples, 1, false));
    if (row.kind == Kind::LastAxis && param(node, "axes"))
      set_list(node, "axes", {static_cast<std::int32_t>(left) - 1});
    if (row.kind == Kind::Along || row.kind == Kind::Data || row.kind == Kind::Index)
      set_axis(node, place_of(begins, axis));
    return write(node, shapes);
  }
  static bool works_in_group(const Begins &begins, std::size_t i, const auto &works) {
    for (;; --i) {
      if (works(i)) return true;
      if (begins[i]) return false;
    }
  }

  // Axis by axis, from the last: a step for each that works, on what is before the axis, the axis, and what is behind
  // it. `to`: what the axes are afterwards (a copy: a step adds tensors). `write_params(step, shape, axis)` gives the
  // step its parameters.
  bool by_steps(const DraftNode &node, Dims to, const auto &works, const auto &write_params) {
    std::int32_t x = node.inputs[0];
    Dims left = dims(x);
    for (std::size_t axis = left.size(); axis-- > 0;) {
      if (!works(axis)) continue;
      Dims shape{1, left[axis], 1};
      for (std::size_t i = 0; i < left.size(); ++i)
        if (i != axis) shape[i < axis ? 0 : 2] *= left[i];
      DraftNode step = node;
      step.inputs = {shaped(x, shape, node)};
      write_params(step, shape, axis);
      left[axis] = shape[1] = to[axis];
      x = add(tensor(node.outputs[0]), shape, {});
      step.outputs = {x};
      draft_.nodes.push_back(std::move(step));
    }
    reshape(x, node.outputs[0], node, draft_.nodes);
    return true;
  }

  bool part_by_steps(const DraftNode &node, const Vector<std::int32_t> &ranges, const auto &works) {
    return by_steps(node, dims(node.outputs[0]), works, [&](DraftNode &step, const Dims &shape, std::size_t axis) {
      const std::int32_t *const own = ranges.data() + 3 * axis;
      const auto whole = [&](std::size_t i) { return static_cast<std::int32_t>(shape[i]); };
      set_list(step, "ranges", {0, whole(0), 1, own[0], own[1], own[2], 0, whole(2), 1}, 3);
      if (DraftParam *const open = param(step, "end_mask"))
        open->value = (std::get<std::uint32_t>(open->value) >> axis & 1) << 1;
    });
  }

  bool repeats_by_steps(const DraftNode &node, const Vector<std::int32_t> &multiples, const auto &works) {
    return by_steps(node, dims(node.outputs[0]), works, [&](DraftNode &step, const Dims &, std::size_t axis) {
      set_list(step, "multiples", {1, multiples[axis], 1});
    });
  }

  // Of integers with a scale only where a part of the result lies in its range.
  bool reduction_by_steps(const DraftNode &node, const Vector<bool> &gone) {
    if (!tensor(node.outputs[0]).encoding.scales.empty() && std::string_view(node.type) == "ReduceSum") return false;
    const Dims from = dims(node.inputs[0]);
    const auto works = [&](std::size_t axis) { return gone[axis] && from[axis] != 1; };
    return by_steps(node, Dims(from.size(), 1), works, [&](DraftNode &step, const Dims &, std::size_t) {
      set_list(step, "axes", {1});
      param(step, "keep_dims")->value = true;
    });
  }

  bool reduction(DraftNode &node, std::size_t most) {
    const Dims from = dims(node.inputs[0]);
    Vector<bool> gone(from.size());
    for (const std::int32_t axis : list(node, "axes")) gone[index_of(axis)] = true;
    Begins begins;
    if (!join(
            begins, most, from.size(), [&](std::size_t a, std::size_t b) { return gone[a] == gone[b]; },
            [&](std::size_t axis) { return from[axis] == 1; }))
      return reduction_by_steps(node, gone);
    Dims kept = from;
    Vector<bool> goes;  // by group
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (begins[i]) goes.push_back(false);
      if (gone[i]) kept[i] = 1;
      if (gone[i] && from[i] != 1) goes.back() = true;
    }
    Vector<std::int32_t> axes;
    for (std::size_t i = 0; i < goes.size(); ++i)
      if (goes[i]) axes.push_back(static_cast<std::int32_t>(i));
    if (axes.empty()) {  // there is nothing along them
      const Encoding &a = tensor(node.inputs[0]).encoding, &b = tensor(node.outputs[0]).encoding;
      if (a.scales != b.scales || a.zero_points != b.zero_points) return false;
      reshape(node.inputs[0], node.outputs[0], node, draft_.nodes);
      return true;
    }
    set_list(node, "axes", axes);
    param(node, "keep_dims")->value = true;
    Shapes shapes;
    shapes.of_inputs(1, node, *this, begins);
    shapes.outputs.push_back(joined(kept, begins));
    return write(node, shapes);
  }

  // Axes of dimension 1 move nothing. What is left with too many of them is moved one by one to where it belongs.
  bool permutation(DraftNode &node, std::size_t most) {
    const Dims from = dims(node.inputs[0]);
    const Vector<std::int32_t> perm = list(node, "perm");
    Vector<std::size_t> wide;
    for (const std::int32_t axis : perm)
      if (from[index_of(axis)] != 1) wide.push_back(index_of(axis));
    Vector<std::size_t> groups;  // first axes of groups, in the order of the result
    Vector<std::uint32_t> extents(from.size(), 1);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const auto next = [&](std::size_t a, std::size_t b) {
        return a < b &&
               std::all_of(from.begin() + static_cast<std::ptrdiff_t>(a) + 1,
                           from.begin() + static_cast<std::ptrdiff_t>(b), [](std::uint32_t d) { return d == 1; });
      };
      if (i == 0 || !next(wide[i - 1], wide[i])) groups.push_back(wide[i]);
      if (!checked_mul<std::uint32_t>(extents[groups.back()], from[wide[i]], &extents[groups.back()])) return false;
    }
    Vector<std::size_t> now = groups;  // in the order of what is there
    small_sort(now);
    const auto shape_of = [&](const Vector<std::size_t> &order) {
      Dims out;
      for (const std::size_t group : order) out.push_back(extents[group]);
      if (out.empty()) out.push_back(1);
      return out;
    };
    std::int32_t x = node.inputs[0];
    const auto turn = [&](const Dims &shape, const Vector<std::int32_t> &places, const Dims &result) {
      Dims turned;
      for (const std::int32_t place : places) turned.push_back(shape[index_of(place)]);
      const std::int32_t before = shaped(x, shape, node), behind = add(tensor(x), turned, {});
      DraftNode made = node;
      made.inputs = {before}, made.outputs = {behind};
      set_list(made, "perm", places);
      draft_.nodes.push_back(std::move(made));
      x = shaped(behind, result, node);
    };
    if (groups.size() <= most) {
      Vector<std::int32_t> places;
      for (const std::size_t group : groups)
        places.push_back(static_cast<std::int32_t>(std::ranges::find(now, group) - now.begin()));
      if (now != groups) turn(shape_of(now), places, shape_of(groups));
    } else {
      for (std::size_t i = 0; i < groups.size(); ++i) {
        const auto at = static_cast<std::size_t>(std::ranges::find(now, groups[i]) - now.begin());
        if (at == i) continue;
        Dims shape{1, 1, extents[groups[i]], 1};  // in place, passed by, moved, behind it
        for (std::size_t k = 0; k < now.size(); ++k)
          if (k != at) shape[k < i ? 0 : k < at ? 1 : 3] *= extents[now[k]];
        now.erase(now.begin() + static_cast<std::ptrdiff_t>(at));
        now.insert(now.begin() + static_cast<std::ptrdiff_t>(i), groups[i]);
        turn(shape, {0, 2, 1, 3}, shape_of(now));
      }
    }
    reshape(x, node.outputs[0], node, draft_.nodes);
    return true;
  }

  bool product(DraftNode &node, std::size_t most) {
    if (node.inputs.size() != 2) return false;
    const std::size_t rank = dims(node.outputs[0]).size();
    const Dims left = stretched(dims(node.inputs[0]), rank), right = stretched(dims(node.inputs[1]), rank);
    Shapes shapes;
    if (std::all_of(right.begin(), right.end() - 2, [](std::uint32_t d) { return d == 1; })) {
      Begins begins(rank, false);
      begins[0] = begins[rank - 1] = true;
      shapes.inputs = {joined(left, begins), Dims(right.end() - 2, right.end())};
      shapes.outputs = {joined(dims(node.outputs[0]), begins)};
      return shapes.inputs[0] && shapes.outputs[0] && write(node, shapes);
    }
    const Dims all = dims(node.outputs[0]);
    Begins begins;
    if (!join(
            begins, most, rank,
            [&](std::size_t a, std::size_t b) { return b + 2 < rank && alike(node.inputs, all, a, b); },
            [&](std::size_t axis) { return axis + 2 < rank && all[axis] == 1; })) {
      if (rank <= kUsual) return false;
      for (std::int32_t &id : node.inputs) {  // each matrix as often as there are products of it
        Dims whole = stretched(dims(id), rank);
        std::copy_n(all.begin(), rank - 2, whole.begin());
        id = repeated(id, whole, node);
      }
      return product(node, most);
    }
    shapes.of_inputs(node.inputs.size(), node, *this, begins);
    shapes.of_outputs(node, *this, begins);
    return write(node, shapes);
  }

  // ---- what is between ----
  static bool is_reshape(const DraftNode &node) { return std::string_view(node.type) == "Reshape" && !node.custom; }
  // One that gives integers another scale does more than that.
  bool only_reshapes(const DraftNode &node) {
    const Encoding &from = tensor(node.inputs[0]).encoding, &to = tensor(node.outputs[0]).encoding;
    return is_reshape(node) && from.scales == to.scales && from.zero_points == to.zero_points;
  }
  // Of two Reshapes behind each other the second reads what the first does.
  void join_reshapes() {
    HashMap<std::int32_t, std::int32_t> same;  // tensor -> what its Reshape reads
    for (DraftNode &node : draft_.nodes) {
      if (!only_reshapes(node)) continue;
      const std::int32_t to = node.outputs[0];
      if (const auto found = same.find(node.inputs[0]); found != same.end()) node.inputs[0] = found->second;
      if (tensor(to).type == TensorType::Native && dims(to).size() > kUsual) same.emplace(to, node.inputs[0]);
    }
    // Those that are left without effect.
    HashMap<std::int32_t, std::int32_t> alias;
    std::erase_if(draft_.nodes, [&](DraftNode &node) {
      for (std::int32_t &id : node.inputs)
        if (const auto found = alias.find(id); found != alias.end()) id = found->second;
      if (!only_reshapes(node) || tensor(node.outputs[0]).type != TensorType::Native ||
          dims(node.inputs[0]) != dims(node.outputs[0]))
        return false;
      alias.emplace(node.outputs[0], node.inputs[0]);
      return true;
    });
    Vector<bool> read(draft_.tensors.size());
    Vector<DraftNode> left;
    for (auto node = draft_.nodes.rbegin(); node != draft_.nodes.rend(); ++node) {
      const std::int32_t to = node->outputs[0];
      if (is_reshape(*node) && tensor(to).type == TensorType::Native && !read[index_of(to)]) continue;
      for (const std::int32_t id : node->inputs) read[index_of(id)] = true;
      left.push_back(std::move(*node));
    }
    std::ranges::reverse(left);
    draft_.nodes = std::move(left);
  }

  // Inputs and outputs that Reshapes alone read and write may have the same bytes in another shape.
  void narrow_borders() {
    Vector<bool> fixed(draft_.tensors.size());
    for (const DraftNode &node : draft_.nodes)
      for (const auto *list : {&node.inputs, &node.outputs})
        for (const std::int32_t id : *list)
          if (!is_reshape(node)) fixed[index_of(id)] = true;
    for (std::size_t i = 0; i < draft_.tensors.size(); ++i) {
      DraftTensor &border = draft_.tensors[i];
      if (fixed[i] || border.dims.size() <= kUsual ||
          (border.type != TensorType::AppRead && border.type != TensorType::AppWrite))
        continue;
      Begins begins;
      (void)join(
          begins, kUsual, border.dims.size(), [](std::size_t, std::size_t) { return true; },
          [](std::size_t) { return false; });
      if (std::optional<Dims> fewer = joined(border.dims, begins)) border.dims = std::move(*fewer);
    }
  }

  // The library gets no tensor that nothing is done with.
  void forget_unused() {
    Vector<bool> used(draft_.tensors.size());
    for (const DraftNode &node : draft_.nodes) {
      for (const auto *list : {&node.inputs, &node.outputs})
        for (const std::int32_t id : *list) used[index_of(id)] = true;
      for (const DraftParam &one : node.params)
        if (const auto *ref = std::get_if<DraftParam::Ref>(&one.value)) used[index_of(ref->tensor)] = true;
    }
    for (std::size_t i = 0; i < draft_.tensors.size(); ++i) {
      DraftTensor &one = draft_.tensors[i];
      if (!used[i] && (one.type == TensorType::Native || one.type == TensorType::Static)) one.type = TensorType::Null;
    }
  }

  void refuse_the_rest(Vector<Status> &refused) {
    for (const DraftNode &node : draft_.nodes) {
      const auto source = index_of(node.source);
      const std::size_t most = most_axes(node);
      if (node.source < 0 || source >= refused.size() || !refused[source].ok() || most <= kMostAxes) continue;
      refused[source] = Status::error(
          ErrorId::backend_limit,
          format("%s of %zu axes that cannot be joined to fewer, expected at most %zu", node.type, most, kMostAxes),
          "write it on tensors of fewer axes, by a Reshape before and behind it");
    }
  }

  Draft &draft_;
  qir::Store &store_;
  OrderedMap<std::pair<std::int32_t, Dims>, std::int32_t> seen_;
};

}  // namespace

void give_fewer_axes(Draft &draft, qir::Store &store, Vector<Status> &refused) { FewerAxes(draft, store).run(refused); }

}  // namespace quarry::htp
