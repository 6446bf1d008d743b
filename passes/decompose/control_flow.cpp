// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan as the nodes of their bodies, once for each time that these run.
#include <algorithm>

#include "base/checked.h"
#include "passes/edit.h"
#include "passes/shapes/cut.h"

namespace quarry::passes {

using qir::at;
using qir::kAbsent;
using qir::Op;

namespace {

// Nodes that all bodies of one node may become, and those of all nodes together: a body may hold others.
constexpr std::size_t kMostNodes = 4096, kMostInAll = std::size_t{1} << 16;

std::size_t nodes_of(const qir::Graph &graph) {
  std::size_t nodes = graph.nodes.size();
  for (const qir::Node &node : graph.nodes)
    for (const qir::Graph &body : node.subgraphs) nodes += nodes_of(body);
  return nodes;
}

bool is_plain(const qir::Tensor &tensor) { return known(tensor.shape) && !tensor.quant; }
bool all_plain(const qir::Graph &graph, const Vector<std::int32_t> &ids) {
  return std::ranges::all_of(ids, [&](std::int32_t id) { return id == kAbsent || is_plain(at(graph, id)); });
}
// A constant that is one number of a type; `fallback` for an input that is not there.
template <class T>
std::optional<T> constant_of(const qir::Graph &graph, std::int32_t id, std::optional<T> fallback = std::nullopt) {
  if (id == kAbsent) return fallback;
  const qir::Tensor &tensor = at(graph, id);
  if (!tensor.is_constant || tensor.data.size != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, tensor.data.data, sizeof value);
  return value;
}
std::int64_t entry(const qir::Node &node, std::string_view list, std::size_t index) {
  const Vector<std::int64_t> *const values = node.get_ints(list);
  return values && index < values->size() ? (*values)[index] : 0;
}

class Unfolded {
 public:
  Unfolded(Rewriting &to, const qir::Node &node, std::size_t &left, qir::Folder *folder)
      : to_(to), node_(node), left_(left), folder_(folder) {}

  // False: the node stays, and nothing was written.
  bool run(std::int64_t most_times) {
    // A Loop that ends by its condition does not say how many slices it gives.
    const auto ends = node_.op == Op::Loop && folder_ ? static_cast<std::ptrdiff_t>(node_.get_int("carried", 0))
                                                      : std::ssize(node_.outputs);
    const Ids outputs(node_.outputs.begin(), node_.outputs.begin() + std::min(ends, std::ssize(node_.outputs)));
    if (!all_plain(to_.graph, node_.inputs) || !all_plain(to_.graph, outputs)) return false;
    for (const qir::Graph &body : node_.subgraphs)
      for (const qir::Tensor &tensor : body.tensors)
        if (!known(tensor.shape)) return false;
    switch (node_.op) {
      case Op::If: return choose();
      case Op::Loop: return loop(most_times);
      case Op::Scan: return scan(most_times);
      default: return false;
    }
  }

 private:
  using Ids = Vector<std::int32_t>;

  std::int32_t fresh(const qir::Tensor &like) {
    qir::Tensor made = like;
    made.name = format("%s~%zu", node_.name, to_.graph.tensors.size());
    made.name = to_.names.fresh(made.name);
    to_.graph.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(to_.graph.tensors.size() - 1);
  }
  std::int32_t fresh(DType dtype, const qir::Shape &shape) {
    qir::Tensor like;
    like.dtype = dtype, like.shape = shape;
    return fresh(like);
  }
  const qir::Tensor &tensor(std::int32_t id) const { return at(to_.graph, id); }
  std::int32_t integers(std::span<const std::int64_t> values) { return to_.integers(node_.name, values); }
  bool wants(std::size_t output) const { return output < node_.outputs.size() && node_.outputs[output] != kAbsent; }
  void give(std::size_t output, std::int32_t from) {
    if (wants(output)) to_.emit(Op::Identity, node_, {from}, node_.outputs[output]);
  }
  std::int32_t reshape(std::int32_t id, const qir::Shape &shape) {
    const std::int32_t made = fresh(tensor(id).dtype, shape), extents = integers(shape);
    to_.emit(Op::Reshape, node_, {id, extents}, made);
    return made;
  }
  std::int32_t where(std::int32_t condition, std::int32_t yes, std::int32_t no) {
    const std::int32_t made = fresh(tensor(yes).dtype, tensor(yes).shape);
    to_.emit(Op::Where, node_, {condition, yes, no}, made);
    return made;
  }

  // A body's nodes, with these operands: its results.
  Ids body(const qir::Graph &from, const Ids &given) {
    Ids local(from.tensors.size(), kAbsent), results;
    for (std::size_t i = 0; i < from.inputs.size(); ++i) local[index_of(from.inputs[i])] = given[i];
    const auto take = [&](std::int32_t id) {
      if (id == kAbsent) return kAbsent;
      std::int32_t &mine = local[index_of(id)];
      if (mine == kAbsent && at(from, id).is_constant) {
        std::int32_t &shared = constants_[&at(from, id)];
        if (shared == 0) shared = fresh(at(from, id)) + 1;
        mine = shared - 1;
      }
      if (mine == kAbsent) mine = fresh(at(from, id));
      return mine;
    };
    for (const qir::Node &node : from.nodes) {
      qir::Node copy = node;
      copy.source = node_.source;
      for (std::int32_t &id : copy.inputs) id = take(id);
      for (std::int32_t &id : copy.outputs) id = take(id);
      to_.keep(std::move(copy));
    }
    for (const std::int32_t id : from.outputs) results.push_back(take(id));
    return results;
  }
  bool fits(std::int64_t times) {
    std::size_t nodes = 0, all = 0;
    for (const qir::Graph &one : node_.subgraphs) nodes += one.nodes.size(), all += nodes_of(one);
    const auto count = static_cast<std::size_t>(times);
    if (times < 0 || nodes * count > kMostNodes || all * count > left_) return false;
    left_ -= all * count;
    return true;
  }
  // Operands and what a body declares of them are of one type.
  bool same_types(const qir::Graph &from, const Ids &given) const {
    if (from.inputs.size() != given.size()) return false;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (given[i] == kAbsent || tensor(given[i]).dtype != at(from, from.inputs[i]).dtype ||
          tensor(given[i]).shape != at(from, from.inputs[i]).shape)
        return false;
    return true;
  }

  // Both branches, and of each result the one that is wanted.
  bool choose() {
    const Ids captures(node_.inputs.begin() + 1, node_.inputs.end());
    for (const qir::Graph &branch : node_.subgraphs) {
      if (!same_types(branch, captures) || branch.outputs.size() != node_.outputs.size()) return false;
      for (std::size_t i = 0; i < branch.outputs.size(); ++i) {
        const qir::Tensor &result = at(branch, branch.outputs[i]);
        if (wants(i) && (result.dtype != tensor(node_.outputs[i]).dtype ||
                         result.shape != tensor(node_.outputs[i]).shape || result.quant))
          return false;
      }
    }
    if (!fits(1)) return false;
    if (const auto known_one = constant_of<std::uint8_t>(to_.graph, node_.inputs[0])) {
      const Ids results = body(node_.subgraphs[*known_one ? 0 : 1], captures);
      for (std::size_t i = 0; i < results.size(); ++i) give(i, results[i]);
      return true;
    }
    const std::int32_t condition =
        tensor(node_.inputs[0]).shape.empty() ? node_.inputs[0] : reshape(node_.inputs[0], {});
    const Ids yes = body(node_.subgraphs[0], captures), no = body(node_.subgraphs[1], captures);
    for (std::size_t i = 0; i < node_.outputs.size(); ++i)
      if (wants(i)) to_.emit(Op::Where, node_, {condition, yes[i], no[i]}, node_.outputs[i]);
    return true;
  }

  // What a body says of whether to go on: true, whatever it is given.
  bool always_goes_on(const qir::Graph &from) const {
    std::int32_t id = from.outputs[0];
    for (std::size_t n = from.nodes.size(); n-- > 0;)
      if (from.nodes[n].op == Op::Identity && from.nodes[n].outputs[0] == id) id = from.nodes[n].inputs[0];
    if (id == from.inputs[1]) return true;
    const auto value = constant_of<std::uint8_t>(from, id);
    return value && *value != 0;
  }

  // How often a body runs whose condition follows from constants: at most so often.
  std::optional<std::int64_t> counted(const qir::Graph &from, std::size_t carried, std::int64_t limit) {
    struct Known {
      bool is = false;
      qir::Constant value;
    };
    Vector<Known> states(carried);
    for (std::size_t i = 0; i < carried; ++i)
      if (const qir::Tensor &start = tensor(node_.inputs[2 + i]); start.is_constant)
        states[i] = {true, {start.dtype, start.shape, start.data}};
    const std::uint8_t goes_on = 1;
    for (std::int64_t t = 0; t < limit && !stop_asked(); ++t) {
      qir::Graph once = from;
      const auto bind = [&](std::int32_t id, const void *data, std::size_t bytes) {
        at(once, id).is_constant = true, at(once, id).data = to_.store.copy(data, bytes);
      };
      bind(from.inputs[0], &t, sizeof t), bind(from.inputs[1], &goes_on, sizeof goes_on);
      for (std::size_t i = 0; i < from.inputs.size() - 2; ++i) {
        const qir::Tensor &given = tensor(node_.inputs[2 + i]);
        if (i < carried && states[i].is) at(once, from.inputs[2 + i]).data = states[i].value.data;
        else if (i >= carried && given.is_constant) at(once, from.inputs[2 + i]).data = given.data;
        else continue;
        at(once, from.inputs[2 + i]).is_constant = true;
      }
      fold_constants(once, to_.store, *folder_, {.outputs = true});
      const auto more = constant_of<std::uint8_t>(once, once.outputs[0]);
      if (!more) return std::nullopt;
      if (!*more) return t + 1;
      for (std::size_t i = 0; i < carried; ++i) {
        const qir::Tensor &next = at(once, once.outputs[1 + i]);
        states[i] = {next.is_constant, {next.dtype, next.shape, next.data}};
      }
    }
    return limit;
  }

  // How often the body runs at most, and whether exactly so often; nothing: that is not known.
  struct Times {
    std::int64_t most;
    bool exactly;
  };
  std::optional<Times> times_of(const qir::Graph &from, std::size_t carried, std::int64_t most_times) {
    const auto most = node_.inputs[0] == kAbsent ? std::numeric_limits<std::int64_t>::max()
                                                 : constant_of<std::int64_t>(to_.graph, node_.inputs[0]);
    const auto begins = constant_of<std::uint8_t>(to_.graph, node_.inputs[1], std::uint8_t{1});
    if (!most || !begins) return std::nullopt;
    const std::int64_t limit = *begins ? std::max<std::int64_t>(*most, 0) : 0;
    Times times{limit, always_goes_on(from)};
    if (!times.exactly && folder_ && from.nodes.size() <= kMostNodes / static_cast<std::size_t>(most_times))
      if (const auto found = counted(from, carried, std::min(limit, most_times));
          found && (*found < most_times || limit <= most_times))
        times = {*found, true};
    return times.most <= most_times ? std::optional(times) : std::nullopt;
  }

  bool loop(std::int64_t most_times) {
    const qir::Graph &from = node_.subgraphs[0];
    const std::size_t carried = node_.get_count("carried");
    if (from.inputs.size() != node_.inputs.size() || from.outputs.size() < 1 + carried) return false;
    if (!one(at(from, from.inputs[0]), DType::I64) || !one(at(from, from.inputs[1]), DType::Bool) ||
        !one(at(from, from.outputs[0]), DType::Bool))
      return false;
    const auto times = times_of(from, carried, most_times);
    if (!times) return false;
    const std::int64_t count = times->most;
    const std::size_t collected = from.outputs.size() - 1 - carried;
    // Results of a body that ends early, or never begins, have other shapes.
    const bool goes_on = times->exactly;
    if (!fits(count) || (collected > 0 && (!goes_on || count == 0))) return false;
    const auto go = [&](std::uint8_t value) {
      const std::int32_t id = fresh(DType::Bool, at(from, from.inputs[1]).shape);
      at(to_.graph, id).is_constant = true;
      at(to_.graph, id).data = to_.store.copy(&value, 1);
      return id;
    };
    Ids given(from.inputs.size());
    for (std::size_t i = 2; i < given.size(); ++i) given[i] = node_.inputs[i];
    for (std::size_t i = 2; i < given.size(); ++i)
      if (given[i] == kAbsent || tensor(given[i]).dtype != at(from, from.inputs[i]).dtype ||
          tensor(given[i]).shape != at(from, from.inputs[i]).shape)
        return false;
    for (std::size_t i = 0; i < carried; ++i)
      if (at(from, from.outputs[1 + i]).shape != at(from, from.inputs[2 + i]).shape) return false;
    given[1] = go(1);
    std::int32_t still = kAbsent;  // whether this time counts; absent: it does
    Vector<Ids> slices(collected);
    for (std::int64_t t = 0; t < count; ++t) {
      given[0] = fresh(DType::I64, at(from, from.inputs[0]).shape);
      at(to_.graph, given[0]).is_constant = true;
      at(to_.graph, given[0]).data = to_.store.copy(&t, sizeof t);
      const Ids results = body(from, given);
      for (std::size_t i = 0; i < carried; ++i)
        given[2 + i] = still == kAbsent ? results[1 + i] : where(still, results[1 + i], given[2 + i]);
      for (std::size_t i = 0; i < collected; ++i) slices[i].push_back(results[1 + carried + i]);
      if (goes_on) continue;
      const std::int32_t more = tensor(results[0]).shape.empty() ? results[0] : reshape(results[0], {});
      if (still == kAbsent) {
        still = more;
      } else {
        const std::int32_t both = fresh(DType::Bool, {});
        to_.emit(Op::And, node_, {still, more}, both);
        still = both;
      }
    }
    for (std::size_t i = 0; i < carried; ++i) give(i, given[2 + i]);
    for (std::size_t i = 0; i < collected; ++i) {
      if (!wants(carried + i)) continue;
      qir::Shape shape = tensor(slices[i][0]).shape;
      shape.insert(shape.begin(), count);
      at(to_.graph, node_.outputs[carried + i]).shape = shape;
      stack(slices[i], 0, node_.outputs[carried + i]);
    }
    return true;
  }
  static bool one(const qir::Tensor &tensor, DType dtype) {
    return tensor.dtype == dtype && element_count(tensor.shape.data(), tensor.shape.size()).value_or(0) == 1;
  }

  bool scan(std::int64_t most_times) {
    const qir::Graph &from = node_.subgraphs[0];
    const std::size_t states = node_.get_count("states"), scanned = node_.get_count("num_scan_inputs");
    const std::size_t collected = from.outputs.size() - states;
    const auto axis_of = [&](std::string_view list, std::size_t i, std::size_t rank) {
      const std::int64_t axis = entry(node_, list, i);
      return axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
    };
    std::int64_t length = -1;
    for (std::size_t i = 0; i < scanned; ++i) {
      const qir::Shape &shape = tensor(node_.inputs[states + i]).shape;
      const std::int64_t axis = axis_of("scan_input_axes", i, shape.size());
      if (axis < 0 || axis >= std::ssize(shape)) return false;
      const std::int64_t extent = shape[index_of(axis)];
      if (length >= 0 && extent != length) return false;
      length = extent;
    }
    if (length < 1 || length > most_times || !fits(length)) return false;
    for (std::size_t i = 0; i < states; ++i)
      if (tensor(node_.inputs[i]).shape != at(from, from.inputs[i]).shape ||
          at(from, from.outputs[i]).shape != at(from, from.inputs[i]).shape)
        return false;
    for (std::size_t i = 0; i < collected; ++i) {
      if (!wants(states + i)) continue;
      const std::size_t rank = at(from, from.outputs[states + i]).shape.size() + 1;
      const std::int64_t axis = axis_of("scan_output_axes", i, rank);
      if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return false;
    }
    Ids given = node_.inputs;
    Vector<Ids> slices(collected);
    for (std::int64_t t = 0; t < length; ++t) {
      for (std::size_t i = 0; i < scanned; ++i) {
        const std::int32_t whole = node_.inputs[states + i];
        qir::Shape shape = tensor(whole).shape;
        const auto axis = index_of(axis_of("scan_input_axes", i, shape.size()));
        const std::int64_t from_here = entry(node_, "scan_input_directions", i) != 0 ? length - 1 - t : t;
        shape[axis] = 1;
        const std::int64_t begin[] = {from_here}, end[] = {from_here + 1}, along[] = {static_cast<std::int64_t>(axis)};
        const std::int32_t begins = integers(begin), ends = integers(end), axes = integers(along);
        const std::int32_t cut = fresh(tensor(whole).dtype, shape);
        to_.emit(Op::Slice, node_, {whole, begins, ends, axes}, cut);
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
        given[states + i] = reshape(cut, shape);
      }
      const Ids results = body(from, given);
      for (std::size_t i = 0; i < states; ++i) given[i] = results[i];
      for (std::size_t i = 0; i < collected; ++i) slices[i].push_back(results[states + i]);
    }
    for (std::size_t i = 0; i < states; ++i) give(i, given[i]);
    for (std::size_t i = 0; i < collected; ++i) {
      if (!wants(states + i)) continue;
      if (entry(node_, "scan_output_directions", i) != 0) std::ranges::reverse(slices[i]);
      stack(slices[i], axis_of("scan_output_axes", i, tensor(slices[i][0]).shape.size() + 1),
            node_.outputs[states + i]);
    }
    return true;
  }

  // One after the other along a new axis.
  void stack(const Ids &slices, std::int64_t axis, std::int32_t output) {
    Ids parts;
    for (const std::int32_t slice : slices) {
      qir::Shape shape = tensor(slice).shape;
      shape.insert(shape.begin() + axis, 1);
      parts.push_back(reshape(slice, shape));
    }
    if (parts.size() == 1) to_.emit(Op::Identity, node_, {parts[0]}, output);
    else to_.emit(Op::Concat, node_, std::move(parts), output).set("axis", axis);
  }

  Rewriting &to_;
  const qir::Node &node_;
  std::size_t &left_;                                        // of kMostInAll
  qir::Folder *const folder_;                                // may be nullptr
  OrderedMap<const qir::Tensor *, std::int32_t> constants_;  // of bodies: here, and one more
};

bool has_control_flow(const qir::Graph &graph) {
  return std::ranges::any_of(graph.nodes, [](const qir::Node &node) { return is_control_flow(node); });
}

}  // namespace

bool is_control_flow(const qir::Node &node) noexcept { return qir::op_row(node.op).family == qir::OpFamily::Control; }

void unfold_control_flow(qir::Graph &graph, Store &store, std::int64_t most_times, qir::Folder *folder) {
  std::size_t left = kMostInAll;
  for (bool more = has_control_flow(graph); more;) {
    more = false;
    Rewriting rewriting(graph, store);
    for (qir::Node &node : rewriting.old) {
      if (stop_asked()) return;
      const bool unfolded = is_control_flow(node) && Unfolded(rewriting, node, left, folder).run(most_times);
      if (!unfolded) rewriting.keep(std::move(node));
      more |= unfolded;
    }
    more = more && has_control_flow(graph);
  }
}

}  // namespace quarry::passes
