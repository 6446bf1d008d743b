// SPDX-License-Identifier: Apache-2.0
#include "graph/edit/graph_part.h"

#include <algorithm>

#include "graph/edit/graph_edit.h"

namespace quarry::qir {
namespace {

bool makes_any(const Node &node, const Vector<bool> &tensors) {
  return std::ranges::any_of(node.outputs, [&](std::int32_t id) { return id != kAbsent && tensors[index_of(id)]; });
}
bool uses_any(const Node &node, const Vector<bool> &tensors) {
  return std::ranges::any_of(node.inputs, [&](std::int32_t id) { return id != kAbsent && tensors[index_of(id)]; });
}
void mark(const Vector<std::int32_t> &ids, Vector<bool> &tensors) {
  for (const std::int32_t id : ids)
    if (id != kAbsent) tensors[index_of(id)] = true;
}

Result<Vector<std::int32_t>> find_tensors(const Graph &graph, const Vector<std::string_view> &names,
                                          const char *option) {
  Vector<std::int32_t> found;
  if (names.empty()) return found;
  HashMap<std::string_view, std::int32_t> places;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if (!graph.tensors[i].is_constant) places.emplace(graph.tensors[i].name, static_cast<std::int32_t>(i));
  Vector<bool> met(graph.tensors.size());
  for (const std::string_view name : names) {
    const auto at = places.find(name);
    if (at == places.end())
      return Status::hinted(ErrorId::bad_option_value, "qr_model_check names the tensors of every node",
                            "option %s: found '%s', expected a tensor that a node of the graph makes or that is "
                            "an input of it",
                            option, printable(name).c_str())
          .with("option", option);
    if (!met[index_of(at->second)]) found.push_back(at->second);
    met[index_of(at->second)] = true;
  }
  return found;
}

// What depends on the tensors, through nodes.
Vector<bool> behind(const Graph &graph, const Vector<std::int32_t> &from) {
  Vector<bool> tensors(graph.tensors.size());
  mark(from, tensors);
  for (const Node &node : graph.nodes)
    if (uses_any(node, tensors)) mark(node.outputs, tensors);
  return tensors;
}

// Keeps what makes the outputs, and of the inputs what that uses.
void trim(Graph &graph, const Vector<std::int32_t> &always_inputs) {
  Vector<bool> wanted(graph.tensors.size()), dead(graph.nodes.size());
  mark(graph.outputs, wanted);
  Vector<bool> given(graph.tensors.size());
  mark(graph.inputs, given);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    dead[i] = !makes_any(graph.nodes[i], wanted);
    if (dead[i]) continue;
    for (const std::int32_t id : graph.nodes[i].inputs)
      if (id != kAbsent && !given[index_of(id)]) wanted[index_of(id)] = true;
  }
  Vector<bool> used(graph.tensors.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (!dead[i]) mark(graph.nodes[i].inputs, used);
  mark(graph.outputs, used);
  mark(always_inputs, used);
  std::erase_if(graph.inputs, [&](std::int32_t id) { return !used[index_of(id)]; });
  compact(graph, dead);
}

// Where the dimensions of inputs are, by names: a part has other inputs.
class DimensionPlaces {
 public:
  explicit DimensionPlaces(const Graph &graph) {
    for (const std::int32_t id : graph.inputs) inputs_.push_back(at(graph, id).name);
  }
  void put(Graph &graph) const {
    HashMap<std::string_view, std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < graph.inputs.size(); ++i) numbers.emplace(at(graph, graph.inputs[i]).name, i);
    for (Dimension &dimension : graph.dimensions) {
      std::erase_if(dimension.places, [&](Dimension::Place &place) {
        const auto found = numbers.find(inputs_[place.input]);
        if (found != numbers.end()) place.input = found->second;
        return found == numbers.end();
      });
    }
  }

 private:
  Vector<String> inputs_;
};

}  // namespace

Status take_part(Graph &graph, const Part &part) {
  if (part.tail.empty() && part.head.empty() && part.watch.empty()) return {};
  const DimensionPlaces places(graph);
  QR_ASSIGN_OR_RETURN(const Vector<std::int32_t> tail, find_tensors(graph, part.tail, "graph.tail"));
  QR_ASSIGN_OR_RETURN(const Vector<std::int32_t> head, find_tensors(graph, part.head, "graph.head"));
  const bool all = std::ranges::find(part.watch, "*") != part.watch.end();
  QR_ASSIGN_OR_RETURN(const Vector<std::int32_t> watch,
                      find_tensors(graph, all ? Vector<std::string_view>() : part.watch, "graph.watch"));
  if (!head.empty()) {
    const Vector<bool> late = behind(graph, head);
    std::erase_if(graph.outputs, [&](std::int32_t id) { return late[index_of(id)]; });
    graph.outputs.insert(graph.outputs.end(), head.begin(), head.end());
  }
  if (!tail.empty()) {
    const Vector<bool> late = behind(graph, tail);
    Vector<bool> is_given(graph.tensors.size()), is_input(graph.tensors.size());
    mark(tail, is_given), mark(graph.inputs, is_input);
    std::erase_if(graph.outputs, [&](std::int32_t id) {  // a tensor of the cut itself is given by the head
      return !late[index_of(id)] || is_given[index_of(id)];
    });
    // Nobody makes what is given. A node with several outputs of which one is given must stay for the others, under
    // another name.
    Names names(graph);
    for (Node &node : graph.nodes)
      for (std::int32_t &made : node.outputs) {
        if (made == kAbsent || !is_given[index_of(made)]) continue;
        Tensor copy = graph.tensors[index_of(made)];
        copy.name = names.fresh(copy.name);
        graph.tensors.push_back(std::move(copy));
        made = static_cast<std::int32_t>(graph.tensors.size() - 1);
        is_given.push_back(false);
      }
    for (const std::int32_t id : tail)
      if (!is_input[index_of(id)]) graph.inputs.push_back(id);
    // An input that was given and that no second part needs goes; one that it does need stays in front.
    std::ranges::stable_partition(graph.inputs, [&](std::int32_t id) { return is_given[index_of(id)]; });
  }
  if (graph.outputs.empty())
    return Status::error(ErrorId::bad_option_value,
                         "options graph.head and graph.tail: found nothing between them, expected tensors with nodes "
                         "between: no output of the model depends on those of graph.tail")
        .with("option", "graph.tail");
  trim(graph, tail);
  places.put(graph);
  if (all || !watch.empty()) {
    Vector<bool> taken(graph.tensors.size());
    mark(graph.outputs, taken);
    mark(graph.inputs, taken);
    // Of all that is what inputs have to do with: constants are backends' to take into their weights.
    const Vector<bool> moves = behind(graph, graph.inputs);
    const HashSet<std::string_view> watched(part.watch.begin(), part.watch.end());
    const auto wanted = [&](std::int32_t id) {
      return all ? moves[index_of(id)] : watched.contains(graph.tensors[index_of(id)].name);
    };
    for (const Node &node : graph.nodes)
      for (const std::int32_t id : node.outputs)
        if (id != kAbsent && !taken[index_of(id)] && wanted(id)) graph.outputs.push_back(id);
  }
  return {};
}

CutPoints find_cuts(const Graph &graph, const Vector<bool> &refused) {
  constexpr std::size_t kMaxTries = 64;  // of the splits of the refused nodes into those in front and those behind
  const std::size_t count = graph.nodes.size();
  Vector<std::size_t> bad;
  for (std::size_t i = 0; i < count; ++i)
    if (refused[i]) bad.push_back(i);
  CutPoints best;
  if (bad.empty()) return best;
  const std::size_t stride = bad.size() / kMaxTries + 1;
  for (std::size_t split = 0; split <= bad.size();
       split = split == bad.size() ? split + 1 : std::min(bad.size(), split + stride)) {
    // In front: the first `split` refused nodes and what makes their inputs. Behind: the others and what uses them.
    Vector<bool> front(count), back(count), front_needs(graph.tensors.size()), back_makes(graph.tensors.size());
    for (std::size_t k = 0; k < split; ++k) front[bad[k]] = true;
    for (std::size_t k = split; k < bad.size(); ++k) back[bad[k]] = true;
    for (std::size_t i = count; i-- > 0;) {
      front[i] = front[i] || makes_any(graph.nodes[i], front_needs);
      if (front[i]) mark(graph.nodes[i].inputs, front_needs);
    }
    std::size_t kept = 0;
    bool crosses = false;
    for (std::size_t i = 0; i < count; ++i) {
      back[i] = back[i] || uses_any(graph.nodes[i], back_makes);
      if (back[i]) mark(graph.nodes[i].outputs, back_makes);
      crosses |= back[i] && front[i];
      kept += !back[i] && !front[i];
    }
    if (crosses || kept <= best.kept) continue;
    best = {{}, {}, kept};
    Vector<bool> from_front(graph.tensors.size()), from_middle(graph.tensors.size()), taken(graph.tensors.size());
    for (std::size_t i = 0; i < count; ++i)
      if (!back[i]) mark(graph.nodes[i].outputs, front[i] ? from_front : from_middle);
    for (std::size_t i = 0; i < count; ++i) {
      if (front[i]) continue;
      for (const std::int32_t id : graph.nodes[i].inputs) {
        if (id == kAbsent || taken[index_of(id)]) continue;
        const bool crosses_back = back[i] && from_middle[index_of(id)];
        if (!crosses_back && !(from_front[index_of(id)] && !back[i])) continue;
        taken[index_of(id)] = true;
        (crosses_back ? best.back : best.front).push_back(id);
      }
    }
  }
  return best;
}

}  // namespace quarry::qir
