// SPDX-License-Identifier: Apache-2.0
#include "prepare/state_type.h"

#include <algorithm>
#include <optional>

#include "graph/edit/graph_edit.h"
#include "passes/arithmetic.h"
#include "prepare/prepare_api.h"

namespace quarry::prepare {

namespace {

using qir::at;
using qir::Op;

// What is kept, and of bytes the numbers of its rows.
struct Made {
  std::int32_t codes = qir::kAbsent, scales = qir::kAbsent;
};
struct Pair {
  std::int32_t input = qir::kAbsent, output = qir::kAbsent;
  // The node that puts new entries behind the input, -1: another makes the output; and the one behind it that moves
  // them to each row's own place (GroupQueryAttention of several rows), -1: none does.
  std::int32_t concat = -1, scatter = -1;
  std::int32_t given = qir::kAbsent;  // for readers of the input's numbers, in the model's type
  Made kept, joined;                  // the input; what the Concat makes
};

bool is_real(DType dtype) { return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16; }

// Numbers as they are kept, and back.
class Codes : private passes::Arithmetic {
 public:
  Codes(passes::Rewriting &to, const qir::Node &like, DType model, DType kept)
      : Arithmetic(to, like), model_(model), kept_(kept) {}

  Made narrow(std::int32_t x) {
    if (kept_ != DType::U8) return {cast(x, kept_), qir::kAbsent};
    x = cast(x, DType::F32);
    qir::Shape rows = shape_of(x);
    rows.back() = 1;
    const std::int32_t axis = ints({static_cast<std::int64_t>(rows.size()) - 1});
    const std::int32_t largest = op(Op::ReduceMax, {op(Op::Abs, x), axis}, rows);
    to_.graph.nodes.back().set("keepdims", std::int64_t{1});
    // (A row of zeros has a number too.)
    const std::int32_t scales = op(Op::Max, op(Op::Mul, largest, number(1.0f / 127)), number(1e-30f));
    const std::int32_t steps = op(Op::Round, op(Op::Div, x, scales));
    return {cast(op(Op::Add, steps, number(kZero)), DType::U8), scales};
  }
  void widen(Made kept, std::int32_t to) {
    std::int32_t x = kept.codes;
    if (kept_ == DType::U8) {
      x = op(Op::Sub, cast(x, DType::F32), number(kZero));
      if (model_ == DType::F32) return void(to_.emit(Op::Mul, node_, {x, kept.scales}, to));
      x = op(Op::Mul, x, kept.scales);
    }
    to_.emit(Op::Cast, node_, {x}, to).set("to", static_cast<std::int64_t>(model_));
  }

 private:
  static constexpr float kZero = 128;
  const DType model_, kept_;
};

class Retyping : passes::Rewriting {
 public:
  Retyping(qir::Graph &to, qir::Store &constants, Vector<Pair> pairs, DType kept)
      : Rewriting(to, constants), pairs_(std::move(pairs)), kept_(kept) {}

  Status run() {
    for (Pair &pair : pairs_) take_input(pair);
    for (std::size_t i = 0; i < old.size() && !stop_asked(); ++i) {
      const auto node = static_cast<std::int32_t>(i);
      const auto joins = std::ranges::find(pairs_, node, &Pair::concat);
      const auto moves = std::ranges::find(pairs_, node, &Pair::scatter);
      read_given(old[i]);
      if (joins != pairs_.end()) append(*joins, old[i]);
      else if (moves != pairs_.end()) scatter(*moves, old[i]);
      else keep(std::move(old[i]));
    }
    for (const Pair &pair : pairs_)
      if (pair.concat < 0) give(pair);
    return stop_status("setting the type of the state");
  }

 private:
  DType model_type(const Pair &pair) const { return at(graph, pair.output).dtype; }
  // A tensor that has the name and the type of another, which gets another name.
  std::int32_t instead(std::int32_t of, const char *more, DType dtype) {
    const std::int32_t id = static_cast<std::int32_t>(graph.tensors.size());
    qir::Tensor made;
    made.name = at(graph, of).name + more;
    made.dtype = dtype;
    made.shape = at(graph, of).shape;
    graph.tensors.push_back(std::move(made));
    return id;
  }
  // The input gets its type; who reads its numbers reads others.
  void take_input(Pair &pair) {
    pair.given = tensor(at(graph, pair.input).name, model_type(pair), at(graph, pair.input).shape);
    at(graph, pair.input).dtype = kept_;
    pair.kept.codes = pair.input;
    if (kept_ == DType::U8) graph.inputs.push_back(pair.kept.scales = scales_of(pair.input));
  }
  std::int32_t scales_of(std::int32_t id) {
    const std::int32_t made = instead(id, QR_STATE_SCALES, DType::F32);
    at(graph, made).shape.back() = 1;
    return made;
  }
  // (What asks for a shape alone may ask the input as it is.)
  void read_given(qir::Node &node) {
    if (node.op == Op::Shape || node.op == Op::Size) return;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto pair = std::ranges::find(pairs_, node.inputs[i], &Pair::input);
      if (node.inputs[i] == qir::kAbsent || pair == pairs_.end() || (i == 0 && is_concat_of(*pair, node))) continue;
      if (std::ranges::find(widened_, pair->input) == widened_.end()) {
        widened_.push_back(pair->input);
        Codes(*this, node, model_type(*pair), kept_).widen(pair->kept, pair->given);
      }
      node.inputs.set(i, pair->given);
    }
  }
  bool is_concat_of(const Pair &pair, const qir::Node &node) const {
    return pair.concat >= 0 && &node == &old[index_of(pair.concat)];
  }
  // New entries; the two nodes of a pair read the same.
  Made narrowed(const Pair &pair, const qir::Node &like, std::int32_t id) {
    const auto [at_place, is_new] = narrowed_.emplace(id, Made());
    if (is_new) at_place->second = Codes(*this, like, model_type(pair), kept_).narrow(id);
    return at_place->second;
  }
  // The node once more, on what is kept; of bytes on their numbers too.
  Made again(const qir::Node &like, const Vector<Made> &parts, const Vector<std::int32_t> &rest, Made to) {
    const auto one = [&](std::int32_t Made::*side) {
      Vector<std::int32_t> inputs;
      for (const Made &part : parts) inputs.push_back(part.*side);
      inputs.insert(inputs.end(), rest.begin(), rest.end());
      emit(like.op, like, std::move(inputs), to.*side).attributes = like.attributes;
    };
    one(&Made::codes);
    if (kept_ == DType::U8) one(&Made::scales);
    return to;
  }
  void append(Pair &pair, const qir::Node &concat) {
    Vector<Made> parts{pair.kept};
    for (std::size_t i = 1; i < concat.inputs.size(); ++i) parts.push_back(narrowed(pair, concat, concat.inputs[i]));
    if (pair.scatter < 0) return finish(pair, concat, parts, {});
    const qir::Tensor &whole = at(graph, concat.outputs[0]);
    const String name = whole.name;
    qir::Shape shape = whole.shape;
    Made to{tensor(name, kept_, shape)};
    shape.back() = 1;
    if (kept_ == DType::U8) to.scales = tensor(name, DType::F32, shape);
    pair.joined = again(concat, parts, {}, to);
  }
  void scatter(const Pair &pair, const qir::Node &node) {
    Vector<std::int32_t> rest;
    for (std::size_t i = 2; i < node.inputs.size(); ++i) rest.push_back(node.inputs[i]);
    finish(pair, node, {pair.joined, narrowed(pair, node, node.inputs[1])}, rest);
  }
  // The graph gives what is kept; readers of the node read what that stands for.
  void finish(const Pair &pair, const qir::Node &node, const Vector<Made> &parts, const Vector<std::int32_t> &rest) {
    const std::int32_t made = node.outputs[0];
    Made whole{give_instead(pair, kept_)};
    if (kept_ == DType::U8) graph.outputs.push_back(whole.scales = scales_of(whole.codes));
    again(node, parts, rest, whole);
    Codes(*this, node, model_type(pair), kept_).widen(whole, made);
  }
  // The whole of an output that is made otherwise.
  void give(const Pair &pair) {
    qir::Node like;
    like.name = at(graph, pair.output).name;
    const std::int32_t made = pair.output;
    emit(Op::Cast, like, {made}, give_instead(pair, kept_)).set("to", static_cast<std::int64_t>(kept_));
  }
  // What the graph gives instead of the pair's output, under its name.
  std::int32_t give_instead(const Pair &pair, DType dtype) {
    const std::int32_t made = instead(pair.output, "", dtype);
    at(graph, pair.output).name = names.fresh(at(graph, pair.output).name + "/wide");
    std::ranges::replace(graph.outputs, pair.output, made);
    return made;
  }

  Vector<Pair> pairs_;
  Vector<std::int32_t> widened_;
  HashMap<std::int32_t, Made> narrowed_;
  const DType kept_;
};

std::int32_t place_of(const qir::Graph &graph, const auto &list, std::string_view name) {
  for (const std::int32_t id : list)
    if (at(graph, id).name == name) return id;
  return qir::kAbsent;
}

Status bad(const char *what, const qir::Tensor &tensor, const String &found) {
  return Status::errorf(ErrorId::bad_state_option, "option state.type: %s '%s': found %s", what, printable(tensor.name),
                        found)
      .with("option", "state.type")
      .with("tensor", tensor.name);
}

// The nodes that make the output of the input and what is put behind it.
void find_makers(const qir::Graph &graph, const qir::Uses &uses, Pair &pair) {
  std::int32_t made = pair.output, maker, scatter = -1;
  for (; (maker = uses.maker(made)) >= 0; made = graph.nodes[index_of(maker)].inputs[0]) {
    const qir::Node &node = graph.nodes[index_of(maker)];
    if (node.op == Op::TensorScatter && scatter < 0) scatter = maker;
    else if (node.op != Op::Identity) break;
  }
  if (maker < 0 || graph.nodes[index_of(maker)].op != Op::Concat) return;
  const qir::Node &node = graph.nodes[index_of(maker)];
  // (What lies between the two has no other reader.)
  if (node.inputs[0] != pair.input || (scatter >= 0 && !uses.used_once(node.outputs[0]))) return;
  pair.concat = maker, pair.scatter = scatter;
}

// Rows of bytes: what is not appended as a Concat has it would be rounded in each run anew, and drift.
Status check_rows(const qir::Graph &graph, const Pair &pair) {
  const std::int64_t rank = static_cast<std::int64_t>(at(graph, pair.input).shape.size());
  const std::int64_t axis = pair.concat < 0 ? -1 : graph.nodes[index_of(pair.concat)].get_int("axis", 0);
  if (axis == -1 || axis == rank - 1)
    return bad("output", at(graph, pair.output),
               "what is no Concat of its input and new entries along an axis before the last, expected one: rows of "
               "bytes are rounded once");
  for (const std::int32_t id : {pair.input, pair.output}) {
    const String scales = at(graph, id).name + QR_STATE_SCALES;
    if (std::ranges::any_of(graph.tensors, [&](const qir::Tensor &t) { return t.name == scales; }))
      return bad("tensor", at(graph, id), format("a tensor %s, expected that name to be free", printable(scales)));
  }
  return {};
}

}  // namespace

Status set_state_type(qir::Graph &graph, qir::Store &store, const StateType &wanted) {
  const qir::Uses uses(graph);
  Vector<Pair> pairs;
  for (std::size_t i = 0; i + 1 < wanted.pairs.size(); i += 2) {
    Pair pair{place_of(graph, graph.inputs, wanted.pairs[i]), place_of(graph, graph.outputs, wanted.pairs[i + 1])};
    if (pair.input == qir::kAbsent || pair.output == qir::kAbsent) continue;  // (of a part that was taken)
    const qir::Tensor &input = at(graph, pair.input);
    if (input.dtype == wanted.dtype) continue;
    if (!is_real(input.dtype) || input.quant)
      return bad("input", input, format("%s, expected real numbers", dtype_name(input.dtype)));
    find_makers(graph, uses, pair);
    if (wanted.dtype == DType::U8) QR_RETURN_IF_ERROR(check_rows(graph, pair));
    pairs.push_back(pair);
  }
  if (pairs.empty()) return {};
  return Retyping(graph, store, std::move(pairs), wanted.dtype).run();
}

}  // namespace quarry::prepare
