// SPDX-License-Identifier: Apache-2.0
// Reshape -> Transpose -> Reshape: what it moves, whatever axes an exporter cut it into.
#include <algorithm>

#include "base/small_sort.h"
#include "passes/edit.h"

namespace quarry::passes {

using qir::at;
using qir::Op;

namespace {

// A Transpose that is written with as few axes as it has: none of dimension 1, and none that keeps its neighbour.
struct Movement {
  Vector<std::int64_t> dims, perm;
  friend bool operator==(const Movement &, const Movement &) = default;
};

Movement movement_of(const qir::Shape &shape, const Vector<std::int64_t> &perm) {
  // Axes in the order of the result, those of dimension 1 left out, in groups that stay together.
  Vector<std::pair<std::int64_t, std::int64_t>> groups;  // first axis and elements
  std::int64_t previous = -1;
  for (const std::int64_t axis : perm) {
    const std::int64_t extent = shape[index_of(axis)];
    if (extent == 1) continue;
    bool follows = previous >= 0 && previous < axis;
    for (std::int64_t between = previous + 1; follows && between < axis; ++between)
      follows = shape[index_of(between)] == 1;
    if (follows) groups.back().second *= extent;
    else groups.emplace_back(axis, extent);
    previous = axis;
  }
  Vector<std::pair<std::int64_t, std::int64_t>> sorted = groups;
  small_sort(sorted);
  Movement made;
  for (const auto &group : sorted) made.dims.push_back(group.second);
  for (const auto &group : groups) made.perm.push_back(std::ranges::find(sorted, group) - sorted.begin());
  return made;
}

// An operator that gives the same elements another shape.
bool is_view(const qir::Node &node) {
  return node.op == Op::Reshape || node.op == Op::Flatten || node.op == Op::Squeeze || node.op == Op::Unsqueeze;
}

bool is_known(const qir::Shape &shape) {
  return std::ranges::all_of(shape, [](std::int64_t extent) { return extent > 0; });
}

struct Space {
  Op op;
  std::int64_t block;
  const char *mode;
};

// Whether it is one of ONNX's own.
std::optional<Space> space_of(const qir::Shape &from, const qir::Shape &to, const Movement &movement) {
  if (from.size() != 4 || to.size() != 4 || from[0] != to[0]) return std::nullopt;
  const bool grows = to[2] > from[2];
  const qir::Shape &small = grows ? from : to, &large = grows ? to : from;
  const std::int64_t block = large[2] / small[2], n = from[0], h = small[2], w = small[3], c = large[1];
  if (block < 2 || large[2] != block * h || large[3] != block * w || small[1] != c * block * block) return std::nullopt;
  const std::int64_t b = block;
  for (const char *const mode : {"DCR", "CRD"}) {
    const bool depth_first = std::string_view(mode) == "DCR";
    Movement wanted;
    if (grows)
      wanted = depth_first ? movement_of({n, b, b, c, h, w}, {0, 3, 4, 1, 5, 2})
                           : movement_of({n, c, b, b, h, w}, {0, 1, 4, 2, 5, 3});
    else
      wanted = depth_first ? movement_of({n, c, h, b, w, b}, {0, 3, 5, 1, 2, 4})
                           : movement_of({n, c, h, b, w, b}, {0, 1, 3, 5, 2, 4});
    if (movement == wanted) return Space{grows ? Op::DepthToSpace : Op::SpaceToDepth, block, mode};
  }
  return std::nullopt;
}

// The nodes of a movement: a view, what turns its axes, another view.
struct Turn {
  std::size_t before, turn, behind;
};

// The movement whose Transpose node `n` is, where none of its tensors is needed elsewhere.
std::optional<Turn> turn_of(const qir::Graph &graph, const qir::Uses &uses, std::size_t n) {
  const qir::Node &node = graph.nodes[n];
  const Vector<std::int64_t> *const perm = node.get_ints("perm");
  if (node.op != Op::Transpose || !perm) return std::nullopt;
  const std::int32_t from = node.inputs[0], to = node.outputs[0];
  if (uses.maker(from) < 0 || !uses.used_once(from) || !uses.used_once(to)) return std::nullopt;
  const auto before = index_of(uses.maker(from)), behind = index_of(uses.users(to)[0]);
  const qir::Node &first = graph.nodes[before], &last = graph.nodes[behind];
  if (!is_view(first) || !is_view(last) || last.inputs[0] != to) return std::nullopt;
  const qir::Tensor &x = at(graph, first.inputs[0]);
  if (!is_known(at(graph, from).shape) || !is_known(x.shape) || !is_known(at(graph, last.outputs[0]).shape) ||
      (x.quant && !x.quant->per_tensor()))
    return std::nullopt;
  const Movement movement = movement_of(at(graph, from).shape, *perm);
  if (movement.dims.size() >= at(graph, from).shape.size() &&
      !space_of(x.shape, at(graph, last.outputs[0]).shape, movement))
    return std::nullopt;
  return Turn{before, n, behind};
}

// A reshape to `shape`; `to`: the tensor that it makes, or kAbsent for a new one.
std::int32_t emit_view(Rewriting &rewriting, std::int32_t id, const qir::Node &like, const qir::Shape &shape,
                       std::int32_t to) {
  if (to == qir::kAbsent) {
    const qir::Tensor from = at(rewriting.graph, id);
    to = rewriting.tensor(like.name + "/moved", from.dtype, shape);
    at(rewriting.graph, to).quant = from.quant;
  }
  const std::int32_t extents = rewriting.integers(like.name + "/shape", shape);
  rewriting.emit(Op::Reshape, like, {id, extents}, to);
  return to;
}

// One node for the movement where ONNX has it, else a Reshape for each view with no more axes than need be.
void emit_movement(Rewriting &rewriting, const Turn &found) {
  qir::Graph &graph = rewriting.graph;
  const qir::Node &first = rewriting.old[found.before], &turn = rewriting.old[found.turn],
                  &last = rewriting.old[found.behind];
  const std::int32_t x = first.inputs[0], y = last.outputs[0];
  Movement movement = movement_of(at(graph, turn.inputs[0]).shape, *turn.get_ints("perm"));
  if (const std::optional<Space> space = space_of(at(graph, x).shape, at(graph, y).shape, movement)) {
    qir::Node &made = rewriting.emit(space->op, turn, {x}, y);
    made.set("blocksize", space->block);
    made.set("mode", std::string_view(space->mode));
    return;
  }
  std::int32_t moved = emit_view(rewriting, x, first, movement.dims, qir::kAbsent);
  if (movement.perm.size() > 1) {
    qir::Shape shape;
    for (const std::int64_t axis : movement.perm) shape.push_back(movement.dims[index_of(axis)]);
    const qir::Tensor like = at(graph, moved);
    const std::int32_t turned = rewriting.tensor(turn.name + "/turned", like.dtype, shape);
    at(graph, turned).quant = like.quant;
    rewriting.emit(Op::Transpose, turn, {moved}, turned).set("perm", std::move(movement.perm));
    moved = turned;
  }
  const qir::Shape shape = at(graph, y).shape;
  emit_view(rewriting, moved, last, shape, y);
}

}  // namespace

void simplify_movements(qir::Graph &graph, Store &store) {
  if (std::ranges::none_of(graph.nodes, [](const qir::Node &node) { return node.op == Op::Transpose; })) return;
  const qir::Uses uses(graph);
  HashMap<std::size_t, Turn> found;  // by its last node
  Vector<bool> taken(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const std::optional<Turn> turn = turn_of(graph, uses, n);
    if (!turn || taken[turn->before] || taken[turn->behind]) continue;
    taken[turn->before] = taken[n] = taken[turn->behind] = true;
    found.emplace(turn->behind, *turn);
  }
  if (found.empty()) return;
  Rewriting rewriting(graph, store);
  for (std::size_t n = 0; n < rewriting.old.size() && !stop_asked(); ++n) {
    if (const auto turn = found.find(n); turn != found.end()) emit_movement(rewriting, turn->second);
    else if (!taken[n]) rewriting.keep(std::move(rewriting.old[n]));
  }
}

}  // namespace quarry::passes
