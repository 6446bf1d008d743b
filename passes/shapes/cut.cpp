// SPDX-License-Identifier: Apache-2.0
#include "passes/shapes/cut.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/stop.h"
#include "graph/infer/infer.h"
#include "passes/shapes/fold_list.h"

namespace quarry::passes {

namespace {

using qir::Op;

// Takes tensors over as they are met.
class PartMaker {
 public:
  explicit PartMaker(const qir::Graph &from) : from_(from), local_(from.tensors.size(), qir::kAbsent) {
    part_.graph.name = from.name;
  }
  // As an input, where nothing of the part has made it.
  std::int32_t read(std::int32_t id) {
    const bool met = local_[index_of(id)] != qir::kAbsent;
    const std::int32_t mine = take(id);
    if (!met && !at(from_, id).is_constant) {
      part_.graph.inputs.push_back(mine);
      part_.inputs.push_back(id);
    }
    return mine;
  }
  void node(const qir::Node &node) {
    qir::Node copy = node;
    for (std::int32_t &id : copy.inputs)
      if (id != qir::kAbsent) id = read(id);
    for (std::int32_t &id : copy.outputs)
      if (id != qir::kAbsent) id = take(id);
    part_.graph.nodes.push_back(std::move(copy));
  }
  void output(std::int32_t id, std::int32_t of_whole) {
    part_.graph.outputs.push_back(read(id));
    part_.outputs.push_back(id);
    part_.positions.push_back(of_whole);
    gives_.insert(id);
  }
  bool gives(std::int32_t id) const { return gives_.contains(id); }
  // Its inputs are some of the graph's, in an order of their own, and what other nodes make.
  Part take_part() {
    HashMap<std::int32_t, std::uint32_t> mine;
    for (std::uint32_t i = 0; i < part_.inputs.size(); ++i) mine.emplace(part_.inputs[i], i);
    part_.graph.dimensions = from_.dimensions;
    for (qir::Dimension &dimension : part_.graph.dimensions) {
      std::erase_if(dimension.places, [&](qir::Dimension::Place &place) {
        const auto found = mine.find(from_.inputs[place.input]);
        if (found != mine.end()) place.input = found->second;
        return found == mine.end();
      });
    }
    return std::move(part_);
  }

 private:
  std::int32_t take(std::int32_t id) {
    std::int32_t &mine = local_[index_of(id)];
    if (mine == qir::kAbsent) {
      mine = static_cast<std::int32_t>(part_.graph.tensors.size());
      part_.graph.tensors.push_back(at(from_, id));
    }
    return mine;
  }

  const qir::Graph &from_;
  Vector<std::int32_t> local_;
  HashSet<std::int32_t> gives_;
  Part part_;
};

}  // namespace

bool known(const qir::Shape &shape) noexcept {
  return std::none_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; });
}

Parts cut(const qir::Graph &graph, const Vector<bool> &in_first) {
  PartMaker first(graph), second(graph);
  enum : std::uint8_t { Nobody, First, Second };
  Vector<std::uint8_t> maker(graph.tensors.size(), Nobody);
  for (std::size_t n = 0; n < graph.nodes.size() && !stop_asked(); ++n) {
    for (const std::int32_t id : graph.nodes[n].outputs)
      if (id != qir::kAbsent) maker[index_of(id)] = in_first[n] ? First : Second;
    (in_first[n] ? first : second).node(graph.nodes[n]);
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::int32_t id = graph.outputs[i];
    const bool early = maker[index_of(id)] == First || (maker[index_of(id)] == Nobody && known(at(graph, id).shape));
    (early ? first : second).output(id, static_cast<std::int32_t>(i));
  }
  Parts parts;
  parts.second = second.take_part();
  for (const std::int32_t id : parts.second.inputs)
    if (maker[index_of(id)] == First && !first.gives(id)) first.output(id, qir::kAbsent);
  parts.first = first.take_part();
  return parts;
}

Vector<bool> plannable(const qir::Graph &graph, bool (*is_late)(const qir::Node &)) {
  Vector<bool> late(graph.tensors.size()), taken(graph.nodes.size());
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) late[t] = !known(graph.tensors[t].shape);
  const auto any_late = [&](const Vector<std::int32_t> &list) {
    return std::ranges::any_of(list, [&](std::int32_t id) { return id != qir::kAbsent && late[index_of(id)]; });
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const qir::Node &node = graph.nodes[n];
    taken[n] = !any_late(node.inputs) && !any_late(node.outputs) && !(is_late && is_late(node));
    if (taken[n]) continue;
    for (const std::int32_t id : node.outputs)
      if (id != qir::kAbsent) late[index_of(id)] = true;
  }
  return taken;
}

Vector<bool> telling(const qir::Graph &graph) {
  Vector<bool> there(graph.tensors.size()), taken(graph.nodes.size());
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) there[t] = graph.tensors[t].is_constant;
  for (const std::int32_t id : graph.inputs) there[index_of(id)] = known(at(graph, id).shape);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    taken[n] = std::ranges::all_of(graph.nodes[n].inputs,
                                   [&](std::int32_t id) { return id == qir::kAbsent || there[index_of(id)]; });
  return taken;
}

bool has_contractions(const qir::Graph &graph) noexcept {
  return std::ranges::any_of(graph.nodes,
                             [](const qir::Node &node) { return qir::op_row(node.op).has(qir::OpTraits::Gemm); });
}

namespace {

// A list of dimensions, or their product: what Shape and Size give.
void make_constant(qir::Tensor &tensor, std::span<const std::int64_t> values, qir::Store &store) {
  tensor.is_constant = true;
  tensor.data = store.copy(values.data(), values.size() * sizeof(std::int64_t));
}

bool fold_shape(qir::Graph &graph, const qir::Node &node, qir::Store &store) {
  if (node.op != Op::Shape && node.op != Op::Size) return false;
  const qir::Shape shape = at(graph, node.inputs[0]).shape;
  if (!known(shape)) return false;
  qir::Tensor &made = at(graph, node.outputs[0]);
  if (node.op == Op::Size) {
    const auto count = element_count(shape.data(), shape.size());
    if (!count) return false;
    make_constant(made, {&*count, 1}, store);
    return true;
  }
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t start = bound(node.get_int("start", 0)), end = std::max(start, bound(node.get_int("end", rank)));
  make_constant(made, {shape.data() + start, static_cast<std::size_t>(end - start)}, store);
  return true;
}

bool fold_small(qir::Graph &graph, const qir::Node &node, qir::Folder &folder, qir::Store &store) {
  constexpr std::int64_t kMost = 1 << 16;
  if (!node.subgraphs.empty() || node.inputs.empty() || qir::is_random(node.op)) return false;
  for (const std::int32_t id : node.inputs)
    if (id != qir::kAbsent && !at(graph, id).is_constant) return false;
  for (const std::int32_t id : node.outputs) {
    if (id == qir::kAbsent) continue;
    const qir::Tensor &tensor = at(graph, id);
    const auto count = known(tensor.shape) ? element_count(tensor.shape.data(), tensor.shape.size()) : std::nullopt;
    if (tensor.quant || !count || *count > kMost) return false;
  }
  Vector<qir::Constant> results;
  if (!folder.fold(graph, node, store, &results)) return false;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == qir::kAbsent) continue;
    qir::Tensor &tensor = at(graph, node.outputs[i]);
    tensor.dtype = results[i].dtype, tensor.shape = results[i].shape;
    tensor.is_constant = true, tensor.data = results[i].data;
  }
  return true;
}

Status put_in(qir::Graph &graph, std::span<const qir::Shape> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    qir::Shape &stated = at(graph, graph.inputs[i]).shape;
    bool fits = stated.size() == inputs[i].size();
    for (std::size_t d = 0; fits && d < stated.size(); ++d)
      fits = inputs[i][d] >= 0 && (stated[d] < 0 || stated[d] == inputs[i][d]);
    if (!fits)
      return Status::error(
          ErrorId::run_shape,
          format("tensor '%s': found shape %s, expected %s", printable(at(graph, graph.inputs[i]).name),
                 shape_text(inputs[i].data(), inputs[i].size()), shape_text(stated.data(), stated.size())));
    stated = inputs[i];
  }
  return {};
}

// The number that all elements of a constant of i64 are.
std::optional<std::int64_t> uniform(const qir::Tensor &tensor) {
  if (!tensor.is_constant || tensor.dtype != DType::I64 || tensor.quant || tensor.data.size < 8) return std::nullopt;
  const auto *const values = static_cast<const std::int64_t *>(tensor.data.data);
  for (std::uint64_t i = 1; i < tensor.data.size / 8; ++i)
    if (values[i] != values[0]) return std::nullopt;
  return values[0];
}

// What a node gives of its inputs, as the dimensions say: of a Where of one choice that; of new entries of a cache that
// are put where a Concat has them already the cache. kAbsent: nothing so.
std::int32_t input_given(const qir::Graph &graph, const qir::Node &node,
                         const HashMap<std::int32_t, std::size_t> &concats) {
  if (node.op == Op::Where) {
    const qir::Tensor &condition = at(graph, node.inputs[0]);
    if (!condition.is_constant || condition.data.size == 0) return qir::kAbsent;
    const auto *const truth = static_cast<const std::uint8_t *>(condition.data.data);
    if (std::any_of(truth, truth + condition.data.size,
                    [&](std::uint8_t one) { return (one != 0) != (truth[0] != 0); }))
      return qir::kAbsent;
    const std::int32_t chosen = node.inputs[truth[0] != 0 ? 1 : 2];
    const qir::Tensor &made = at(graph, node.outputs[0]);
    return at(graph, chosen).shape == made.shape && at(graph, chosen).quant == made.quant ? chosen : qir::kAbsent;
  }
  if (node.op != Op::TensorScatter || node.inputs.size() < 3 || node.inputs[2] == qir::kAbsent) return qir::kAbsent;
  const auto joined = concats.find(node.inputs[0]);
  if (joined == concats.end() || node.get_string("mode", "linear") != "linear") return qir::kAbsent;
  const qir::Node &concat = graph.nodes[joined->second];
  const qir::Shape &first = at(graph, concat.inputs[0]).shape;
  const auto rank = static_cast<std::int64_t>(first.size());
  const auto axis = [rank](std::int64_t given) { return given < 0 ? given + rank : given; };
  const std::int64_t along = axis(concat.get_int("axis", 0));
  const bool is_there = concat.inputs.size() == 2 && concat.inputs[1] == node.inputs[1] &&
                        axis(node.get_int("axis", -2)) == along && along >= 0 && along < rank &&
                        uniform(at(graph, node.inputs[2])) == first[index_of(along)];
  return is_there ? node.inputs[0] : qir::kAbsent;
}
// True: nothing is left of the node, whose result is a constant.
bool give_input(qir::Graph &graph, qir::Node &node, std::int32_t given, bool is_output) {
  qir::Tensor &made = at(graph, node.outputs[0]);
  if (at(graph, given).is_constant && !is_output) {
    made.is_constant = true, made.data = at(graph, given).data;
    return true;
  }
  node.op = Op::Identity;
  node.inputs = {given};
  node.attributes.clear();
  return false;
}

}  // namespace

Status bind_dimensions(qir::Graph &graph, std::span<const qir::Shape> inputs, qir::Folder &folder, qir::Store &store) {
  QR_RETURN_IF_ERROR(put_in(graph, inputs));
  Vector<bool> dead(graph.nodes.size(), false), shown(graph.tensors.size());
  for (const std::int32_t id : graph.outputs) shown[index_of(id)] = true;
  Vector<qir::InferValue> values;
  Vector<qir::InferType> types;
  HashMap<std::int32_t, std::size_t> concats;  // that make a cache
  bool leaves_some = false;                    // nodes whose results nobody reads now
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    QR_RETURN_IF_ERROR(stop_status("run"));
    qir::Node &node = graph.nodes[n];
    if (!node.outputs.empty() && node.outputs[0] != qir::kAbsent && !shown[index_of(node.outputs[0])] &&
        fold_list(graph, node, store)) {
      dead[n] = true;
      continue;
    }
    values.resize(node.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      qir::InferValue &value = values[i];
      value.present = node.inputs[i] != qir::kAbsent;
      const qir::Tensor &tensor = at(graph, node.inputs[i]);  // of no type where it is absent
      value.dtype = tensor.dtype, value.shape = tensor.shape, value.quant = value.present ? &tensor.quant : nullptr;
      value.value = tensor.is_constant ? tensor.data : qir::Bytes{};
    }
    types.clear();
    if (!node.subgraphs.empty()) QR_RETURN_IF_ERROR(qir::infer_subgraphs(node, values));
    QR_RETURN_IF_ERROR(qir::infer_node(node, values, types));
    bool is_output = false;
    for (std::size_t i = 0; i < node.outputs.size() && i < types.size(); ++i) {
      if (node.outputs[i] == qir::kAbsent) continue;
      qir::Shape &stated = at(graph, node.outputs[i]).shape;
      const qir::Shape &found = types[i].shape;
      for (std::size_t d = 0; d < stated.size() && d < found.size(); ++d)
        if (stated[d] < 0) stated[d] = found[d];
      is_output |= shown[index_of(node.outputs[i])];
    }
    dead[n] = !is_output && (fold_shape(graph, node, store) || fold_list(graph, node, store) ||
                             fold_small(graph, node, folder, store));
    if (dead[n]) continue;
    if (node.op == Op::Concat) concats[node.outputs[0]] = n;
    if (const std::int32_t given = input_given(graph, node, concats); given != qir::kAbsent) {
      dead[n] = give_input(graph, node, given, is_output);
      leaves_some = true;
    }
  }
  compact(graph, dead);
  if (leaves_some) remove_unused(graph);
  graph.dimensions.clear();
  return {};
}

}  // namespace quarry::passes
