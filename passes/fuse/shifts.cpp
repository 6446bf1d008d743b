// SPDX-License-Identifier: Apache-2.0
// Shifts of signed integers. ONNX has none: exporters shift what a Cast makes of them as unsigned ones, and put the
// sign back in.
#include <cstring>

#include "base/checked.h"
#include "passes/edit.h"
#include "passes/fuse/pattern_matcher.h"

namespace quarry::passes {

using qir::Op;

namespace {

struct SignedShift {
  std::int32_t x = qir::kAbsent;
  std::int64_t amount = 0;
};

class SignedShifts {
 public:
  explicit SignedShifts(const PatternMatcher &match) : match_(match) {}

  // What the node is as a shift of a signed tensor.
  std::optional<SignedShift> left(const qir::Node &node) const {
    return node.op == Op::Cast ? shifted(node, "LEFT") : std::nullopt;
  }
  // x < 0 ? (x >> n | the n highest bits) : x >> n
  std::optional<SignedShift> right(const qir::Node &node) const {
    if (node.op != Op::Where) return std::nullopt;
    const qir::Node *const less = match_.made_by(node.inputs[0], Op::Less);
    const qir::Node *const filled = match_.made_by(node.inputs[1], Op::Cast);
    const qir::Node *const plain = match_.made_by(node.inputs[2], Op::Cast);
    const auto found = plain ? shifted(*plain, "RIGHT") : std::nullopt;
    if (!less || !filled || !found || less->inputs[0] != found->x || integer(less->inputs[1]) != 0 ||
        !same_type(filled->outputs[0], found->x))
      return std::nullopt;
    const qir::Node *const joined = match_.made_by(filled->inputs[0], Op::BitwiseOr);
    if (!joined) return std::nullopt;
    for (std::size_t side = 0; side < 2; ++side) {
      const auto mask = integer(joined->inputs[1 - side]);
      const auto other = shift_of(joined->inputs[side], "RIGHT");
      if (mask && other && other->x == found->x && other->amount == found->amount && *mask == sign_bits(*found))
        return found;
    }
    return std::nullopt;
  }

 private:
  bool same_type(std::int32_t a, std::int32_t b) const { return match_.tensor(a).dtype == match_.tensor(b).dtype; }
  std::size_t bits(std::int32_t x) const { return dtype_bits(match_.tensor(x).dtype); }
  std::int64_t sign_bits(const SignedShift &shift) const {
    const std::uint64_t all = UINT64_MAX >> (64 - bits(shift.x));
    return static_cast<std::int64_t>(all & ~(all >> shift.amount));
  }
  // A constant of one integer.
  std::optional<std::int64_t> integer(std::int32_t id) const {
    const qir::Tensor &tensor = match_.tensor(id);
    const std::size_t size = dtype_bits(tensor.dtype) / 8;
    if (!tensor.is_constant || tensor.data.size != size || (size != 4 && size != 8) ||
        element_count(tensor.shape.data(), tensor.shape.size()) != 1)
      return std::nullopt;
    std::int64_t value = 0;
    std::memcpy(&value, tensor.data.data, size);
    return value;
  }
  // Of a Cast of a signed tensor to the unsigned type of as many bits.
  std::optional<SignedShift> shift_of(std::int32_t id, std::string_view direction) const {
    const qir::Node *const shift = match_.made_by(id, Op::BitShift);
    const qir::Node *const cast = shift ? match_.made_by(shift->inputs[0], Op::Cast) : nullptr;
    if (!cast || shift->get_string("direction", "") != direction) return std::nullopt;
    const DType from = match_.tensor(cast->inputs[0]).dtype, to = match_.tensor(cast->outputs[0]).dtype;
    const bool fits = (from == DType::I64 && to == DType::U64) || (from == DType::I32 && to == DType::U32);
    const auto amount = integer(shift->inputs[1]);
    if (!fits || !amount || *amount < 0 || *amount >= static_cast<std::int64_t>(dtype_bits(from)) ||
        match_.tensor(cast->inputs[0]).shape != match_.tensor(id).shape)
      return std::nullopt;
    return SignedShift{cast->inputs[0], *amount};
  }
  // And back to that type.
  std::optional<SignedShift> shifted(const qir::Node &cast, std::string_view direction) const {
    const auto found = shift_of(cast.inputs[0], direction);
    return found && same_type(cast.outputs[0], found->x) ? found : std::nullopt;
  }

  const PatternMatcher &match_;
};

}  // namespace

void join_signed_shifts(qir::Graph &graph, Store &store) {
  if (std::ranges::none_of(graph.nodes, [](const qir::Node &node) { return node.op == Op::BitShift; })) return;
  const PatternMatcher match(graph, store);
  const SignedShifts shifts(match);
  struct Change {
    std::size_t node;
    SignedShift shift;
    const char *direction;
  };
  Vector<Change> changes;
  for (std::size_t n = 0; n < graph.nodes.size() && !stop_asked(); ++n) {
    if (const auto left = shifts.left(graph.nodes[n])) changes.push_back({n, *left, "LEFT"});
    else if (const auto right = shifts.right(graph.nodes[n])) changes.push_back({n, *right, "RIGHT"});
  }
  qir::Names names(graph);
  for (const Change &change : changes) {
    qir::Node &node = graph.nodes[change.node];
    qir::Tensor amount;
    amount.name = names.fresh(node.name + "/amount");
    amount.dtype = qir::at(graph, change.shift.x).dtype;
    amount.is_constant = true;
    amount.data = store.copy(&change.shift.amount, dtype_bits(amount.dtype) / 8);
    node.op = Op::BitShift;
    node.attributes = {};
    node.inputs = {change.shift.x, static_cast<std::int32_t>(graph.tensors.size())};
    node.set("direction", std::string_view(change.direction));
    graph.tensors.push_back(std::move(amount));
  }
  if (!changes.empty()) remove_unused(graph);
}

}  // namespace quarry::passes
