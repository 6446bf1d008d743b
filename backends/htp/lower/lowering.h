// SPDX-License-Identifier: Apache-2.0
// QIR to a QNN graph. Each operator has a rule (operators.inc) that writes nodes; this is what rules write with.
//
// Layout: the NPU wants images with the channels last, models have them second. Every value is stored in some order of
// its axes; a rule takes its inputs in the order that it needs or in the one they have, and says in which its result
// is. A Transpose is written only where a rule asks for another order, once for each; a Transpose of the model moves
// nothing where the next rule takes the stored order.
#pragma once

#include <map>
#include <span>

#include "backends/htp/engine/op_packages.h"
#include "backends/htp/program/draft.h"
#include "backends/htp/soc/soc.h"
#include "graph/edit/graph_edit.h"
#include "graph/store.h"

namespace quarry::htp {

class BlockSources;
class Lowering;

using Rule = Status (*)(Lowering &, const qir::Node &);

// order[i]: the axis of the tensor that is stored as the i-th.
using Order = Vector<std::uint8_t>;
Order natural_order(std::size_t rank);
Order channels_last(std::size_t rank);  // N, spatial axes, C
bool is_natural(const Order &order) noexcept;
// The position at which an axis of the tensor is stored.
std::uint32_t place_of(const Order &order, std::size_t axis) noexcept;

// Integers of 8 or 16 bits without a quantisation, which are stored with a scale of 1.
bool is_plain_small(const qir::Tensor &tensor) noexcept;

class Lowering {
 public:
  Lowering(const qir::Graph &graph, const Soc &soc, qir::Store &store, Draft &draft);

  const qir::Graph &graph() const noexcept { return graph_; }
  const Soc &soc() const noexcept { return soc_; }
  qir::Store &store() noexcept { return store_; }
  const qir::Tensor &tensor(std::int32_t id) const { return qir::at(graph_, id); }
  std::size_t rank(std::int32_t id) const { return tensor(id).shape.size(); }
  // How many nodes and outputs of the model read a tensor.
  std::size_t users(std::int32_t id) const;
  DraftTensor &drafted(std::int32_t draft_id) { return draft_.tensors[index_of(draft_id)]; }

  // Whether a convolution made a drafted tensor, by itself or with what the library puts into it (multiplications by
  // constants and so on) behind it.
  bool is_of_convolution(std::int32_t draft_id);
  bool is_of_product(std::int32_t draft_id, int sums = 3);

  // ---- what nodes read ----
  Order order(std::int32_t id) const;  // in which a value is stored now; natural for constants
  std::int32_t stored(std::int32_t id, const Order &order);
  std::int32_t natural(std::int32_t id) { return stored(id, natural_order(rank(id))); }
  // For operators that broadcast: of `rank` axes in the given order, with dimensions of 1 in front.
  std::int32_t broadcast(std::int32_t id, const Order &order);

  // ---- what nodes write ----
  std::int32_t result(std::int32_t id, const Order &order);
  std::int32_t result(std::int32_t id) { return result(id, natural_order(rank(id))); }
  // The value of `id` is what another tensor holds, its axes stored in this order; converted where quantisations
  // differ.
  void same_as(std::int32_t id, std::int32_t draft_id, Order order);
  // Plain integers that a QuantizeLinear made are stored with a scale of 1; this is the tensor with its own scale and
  // zero point, in the same order, for who dequantises it by these. -1: there is none.
  void has_encoded(std::int32_t id, std::int32_t draft_id) { encoded_[id] = draft_id; }
  std::int32_t encoded(std::int32_t id) const {
    const auto found = encoded_.find(id);
    return found == encoded_.end() ? -1 : found->second;
  }
  // The value of `id` is a constant of the model.
  void constant_is(std::int32_t id, std::int32_t constant) { values_[index_of(id)].constant = constant; }
  // A value between two nodes of a rule: like the QIR tensor, in its own shape.
  std::int32_t between(std::int32_t like, const char *suffix, Vector<std::uint32_t> dims);
  std::int32_t between(std::string_view name, qnn::DataType dtype, Vector<std::uint32_t> dims, Encoding encoding = {});
  std::int32_t constant(std::string_view name, qnn::DataType dtype, Vector<std::uint32_t> dims, qir::Bytes data,
                        Encoding encoding = {});
  std::int32_t constant(std::string_view name, qnn::DataType dtype, Vector<std::uint32_t> dims, const void *data,
                        std::size_t bytes, Encoding encoding = {}) {
    return constant(name, dtype, std::move(dims), store_.copy(data, bytes), std::move(encoding));
  }

  // A drafted tensor in another shape of as many elements.
  std::int32_t reshaped(std::int32_t draft_id, Vector<std::uint32_t> dims);

  DraftNode &node(const char *type, std::initializer_list<std::int32_t> inputs,
                  std::initializer_list<std::int32_t> outputs);
  void param(DraftNode &node, const char *name, std::uint32_t value) { node.params.push_back({name, value}); }
  void param(DraftNode &node, const char *name, std::int32_t value) { node.params.push_back({name, value}); }
  void param(DraftNode &node, const char *name, float value) { node.params.push_back({name, value}); }
  void param(DraftNode &node, const char *name, bool value) { node.params.push_back({name, value}); }
  void param(DraftNode &node, const char *name, const void *) = delete;  // an array would become a bool
  void param(DraftNode &node, const char *name, std::span<const std::uint32_t> values, Vector<std::uint32_t> dims = {});
  void param(DraftNode &node, const char *name, std::span<const std::int32_t> values, Vector<std::uint32_t> dims = {});

  // ---- types ----
  // What the library calls a tensor of the model: 64-bit integers are 32 bits wide there.
  static Result<qnn::DataType> type_of(const qir::Tensor &tensor);
  static Encoding encoding_of(const qir::Tensor &tensor, const Order &order);
  // Dimensions in the order, at least one axis.
  static Vector<std::uint32_t> dims_of(const qir::Shape &shape, const Order &order);

  // Operators that packages of the user's have.
  void take_custom(std::span<const OpPackage> packages) noexcept { packages_ = packages; }
  void take_block_sources(const BlockSources &sources) noexcept { block_sources_ = &sources; }
  // The stored weights that the bytes of a constant were dequantised from, where they have scales for blocks.
  const qir::Tensor *block_source(const void *reals) const noexcept;
  // Runs the rules of all nodes. `refused` has one entry per node; a refused node's results are taken as if they were
  // there, so that the rest is checked too.
  Status run(Vector<Status> &refused);
  // Runs one rule. If it refuses, draft and lowering are what they were before, except for memory of the store.
  Status apply(Rule rule, const qir::Node &node);

 private:
  struct Value {
    std::int32_t tensor = -1;
    Order order;
    std::int32_t constant = qir::kAbsent;  // the tensor of the model that it is
  };
  struct Mark;  // the draft before a rule
  Mark mark();
  void undo(const Mark &mark, const qir::Node &node);
  Status lower_node(const qir::Node &node);
  Status check_types(const qir::Node &node) const;
  Status check_border(std::int32_t id) const;
  std::int32_t copy_of(std::int32_t id, const Order &order);  // that was made before; -1: none
  const DraftNode *maker_of(std::int32_t draft_id);           // nullptr: an input or a constant
  bool is_row_in_one(std::int32_t draft_id);
  bool is_turned_flat(std::int32_t draft_id);
  // Writes a value into a tensor in another order of its axes.
  void move(const Value &value, const Order &order, std::int32_t to);
  String unique(std::string_view name);
  std::int32_t add(DraftTensor tensor);
  std::int32_t constant_in(std::int32_t id, const qir::Shape &shape, const Order &order);
  qir::Bytes within_half(const qir::Tensor &tensor, qir::Bytes data, std::uint64_t count);
  void border(std::int32_t id, bool output);

  const qir::Graph &graph_;
  const Soc &soc_;
  qir::Store &store_;
  Draft &draft_;
  std::span<const OpPackage> packages_;
  const BlockSources *block_sources_ = nullptr;
  const qir::Node *at_ = nullptr;  // whose rule runs
  StringMap<std::uint32_t> names_;
  Vector<std::uint32_t *> taken_;             // counters in names_ that the rule at hand raised
  HashSet<std::int32_t> clamped_;             // draft tensors: constants with values past 32 bits
  std::int32_t past_32_bits_ = qir::kAbsent;  // such a constant of the model that the rule at hand reads
  Vector<std::uint32_t> users_;               // per tensor of the graph: nodes and outputs that read it
  Vector<bool> is_border_, is_output_;
  Vector<Value> values_;               // per tensor of the graph: as its maker gave it
  Vector<std::int32_t> draft_makers_;  // per tensor of the draft, of the nodes that were met
  std::size_t draft_nodes_met_ = 0;
  HashMap<std::int32_t, std::int32_t> encoded_;
  HashSet<std::int32_t> given_;  // draft tensors that borders have
  using Copy = std::pair<std::int32_t, Order>;
  std::map<Copy, std::int32_t, std::less<>, Alloc<std::pair<const Copy, std::int32_t>>> copies_;
};

// A node with a constant operand whose value the rule needs, as integers; a refusal where it is not constant.
Result<Vector<std::int64_t>> constant_ints(const Lowering &lowering, const qir::Node &node, std::size_t input,
                                           const char *what);

Status lower_custom(Lowering &l, const qir::Node &node);

struct OperatorRow {
  static constexpr std::uint32_t bits(DType one, DType other) noexcept {
    return std::uint32_t{1} << static_cast<unsigned>(one) | std::uint32_t{1} << static_cast<unsigned>(other);
  }
  qir::Op op;
  Rule rule;
  std::uint32_t types;  // of its first operand, and what has the type of that; quantised tensors are reals
  const char *refuses;  // "not: " and what it does not take; empty: nothing
  const char *note;     // for reports: that, behind "decomposed" where passes decompose it
};
// The library's own GRU takes the node; others are unrolled, and on v68, which has none, all.
bool is_library_gru(const qir::Graph &graph, const qir::Node &node);
const OperatorRow *find_operator(qir::Op op) noexcept;
// The types of a row as `quarry ops` prints them, and a refusal where a node has another.
String types_text(const OperatorRow &row);
Status check_operand_types(const qir::Graph &graph, const qir::Node &node, const OperatorRow &row);
// Whether passes::decompose_unsupported is to write the node as others, since no rule takes it as it is. is_rewritten:
// no rule takes any node of the operator.
bool is_rewritten(qir::Op op) noexcept;
bool is_decomposed(const qir::Graph &graph, const qir::Node &node);

// Equal, Greater and their like (elementwise.cpp).
bool is_comparison(qir::Op op) noexcept;

// Refuses a quantisation with a subnormal scale, which the library does not take.
Status check_scales(std::string_view name, std::span<const float> scales);

// A refusal: subject and found in `reason`.
Status refuse(ErrorId id, String reason, std::string_view hint = {});

}  // namespace quarry::htp
