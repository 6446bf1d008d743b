// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/compose.h"

#include <algorithm>
#include <utility>

#include "passes/edit.h"
#include "passes/fuse/attention.h"
#include "passes/fuse/pattern_matcher.h"

namespace quarry::passes {

using qir::at;
using qir::Op;

namespace {

struct Row {
  Composite what;
  Found (*find)(PatternMatcher &match, const qir::Node &node);
};
// One sweep after the other, for what is left of a LayerNormalization without its shift would pass for one without, and
// without its centring for an RMSNormalization.
constexpr Row kShifted[] = {{Composite::LayerNormalization, match_layer_norm_shifted}};
constexpr Row kScaled[] = {{Composite::Gelu, match_gelu},
                           {Composite::GeluTanh, match_gelu_tanh},
                           {Composite::Swish, match_swish},
                           {Composite::HardSwish, match_hard_swish},
                           {Composite::Mish, match_mish},
                           {Composite::LayerNormalization, match_layer_norm_scaled},
                           {Composite::RMSNormalization, match_rms_norm_scaled}};
constexpr Row kPlain[] = {{Composite::HardSigmoid, match_hard_sigmoid},
                          {Composite::LayerNormalization, match_layer_norm_plain},
                          {Composite::RMSNormalization, match_rms_norm_plain}};

class Composer {
 public:
  Composer(qir::Graph &graph, Store &store, Composites wanted, Vector<Composed> *found)
      : graph_(graph), store_(store), wanted_(wanted), found_(found) {}

  template <class Rows>
  void sweep(const Rows &rows) {
    if (std::ranges::none_of(rows, [&](const Row &row) { return wanted_.has(row.what); })) return;
    PatternMatcher match(graph_, store_);
    Vector<Change> changes;
    for (std::size_t n = 0; n < graph_.nodes.size() && !stop_asked(); ++n) {
      const Op op = graph_.nodes[n].op;
      if ((op != Op::Add && op != Op::Mul && op != Op::Div) || !match.plain_f32(graph_.nodes[n].outputs[0])) continue;
      for (const Row &row : rows) {
        if (!wanted_.has(row.what)) continue;
        Found made = row.find(match, graph_.nodes[n]);
        // The pieces may broadcast their input, which the one operator does not.
        if (!made || at(graph_, made->inputs[0]).shape != at(graph_, graph_.nodes[n].outputs[0]).shape) continue;
        qir::Node &node = graph_.nodes[n];
        changes.push_back({row.what, static_cast<std::int32_t>(n), std::move(node.inputs)});
        node.op = made->op;
        node.inputs = std::move(made->inputs);
        node.attributes = std::move(made->attributes);
        break;
      }
    }
    finish(changes);
  }

  // Heads become a dimension of their own where there is none.
  void attention() {
    if (!wanted_.has(Composite::Attention)) return;
    const qir::Uses uses(graph_);
    HashMap<std::size_t, AttentionPieces> matches;
    Vector<bool> taken(graph_.nodes.size(), false);
    for (std::size_t n = 0; n < graph_.nodes.size() && !stop_asked(); ++n) {
      auto pieces = match_attention(graph_, uses, n);
      if (!pieces || pieces->scale <= 0 || !mask_fits(*pieces) ||
          std::ranges::any_of(pieces->nodes, [&](std::int32_t i) { return taken[index_of(i)]; }))
        continue;
      for (const std::int32_t i : pieces->nodes) taken[index_of(i)] = true;
      matches.emplace(n, std::move(*pieces));
    }
    if (matches.empty()) return;
    Rewriting rewriting(graph_, store_);
    for (std::size_t n = 0; n < rewriting.old.size() && !stop_asked(); ++n) {
      const auto match = matches.find(n);
      if (match == matches.end()) {
        if (!taken[n]) rewriting.keep(std::move(rewriting.old[n]));
        continue;
      }
      if (found_) {
        Composed &one = found_->emplace_back(Composed{Composite::Attention, rewriting.old[n].source, {}});
        for (const std::int32_t i : match->second.nodes)
          if (i != static_cast<std::int32_t>(n)) one.pieces.push_back(rewriting.old[index_of(i)].source);
      }
      write_attention(rewriting, rewriting.old[n], match->second);
    }
    remove_unused(graph_);
  }

 private:
  struct Change {
    Composite what;
    std::int32_t node;
    Vector<std::int32_t> old_inputs;
  };

  // The pieces that nobody reads any more go, and are reported.
  void finish(const Vector<Change> &changes) {
    if (changes.empty() || stop_asked()) return;
    if (found_) {
      const qir::Uses uses(graph_);
      const Vector<bool> used = used_nodes();
      Vector<std::int32_t> seen_by(graph_.nodes.size(), -1);
      for (const Change &change : changes) {
        if (stop_asked()) return;
        if (!used[index_of(change.node)]) continue;
        Composed one{change.what, graph_.nodes[index_of(change.node)].source, {}};
        Vector<std::int32_t> look_at = change.old_inputs;
        while (!look_at.empty()) {
          const std::int32_t id = look_at.back();
          look_at.pop_back();
          const std::int32_t maker = id == qir::kAbsent ? qir::Uses::kNobody : uses.maker(id);
          if (maker < 0 || used[index_of(maker)] || std::exchange(seen_by[index_of(maker)], change.node) == change.node)
            continue;
          const qir::Node &piece = graph_.nodes[index_of(maker)];
          one.pieces.push_back(piece.source);
          look_at.insert(look_at.end(), piece.inputs.begin(), piece.inputs.end());
        }
        found_->push_back(std::move(one));
      }
    }
    remove_unused(graph_);
  }

  Vector<bool> used_nodes() const {
    Vector<bool> used(graph_.nodes.size(), false), wanted(graph_.tensors.size(), false);
    for (const std::int32_t id : graph_.outputs) wanted[index_of(id)] = true;
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      for (const std::int32_t id : graph_.nodes[i].outputs)
        if (id != qir::kAbsent && wanted[index_of(id)]) used[i] = true;
      if (!used[i]) continue;
      for (const std::int32_t id : graph_.nodes[i].inputs)
        if (id != qir::kAbsent) wanted[index_of(id)] = true;
    }
    return used;
  }

  // Attention takes a mask that is shorter than the keys for one that forbids the rest; Add stretches it.
  bool mask_fits(const AttentionPieces &pieces) const {
    if (pieces.mask == qir::kAbsent) return true;
    const qir::Shape &mask = at(graph_, pieces.mask).shape;
    return !mask.empty() && mask.back() == at(graph_, pieces.k_transposed).shape.back();
  }

  std::int32_t with_heads(Rewriting &rewriting, const qir::Node &like, std::int32_t id) {
    qir::Shape shape = at(graph_, id).shape;
    if (shape.size() != 3) return id;
    shape.insert(shape.begin() + 1, 1);
    const std::int64_t axis = 1;
    const std::int32_t axes = rewriting.integers(like.name + "/axes", {&axis, 1}),
                       made = rewriting.tensor(at(graph_, id).name + "/heads", DType::F32, shape);
    rewriting.emit(Op::Unsqueeze, like, {id, axes}, made);
    return made;
  }

  void write_attention(Rewriting &rewriting, const qir::Node &last, const AttentionPieces &pieces) {
    const bool heads = at(graph_, pieces.q).shape.size() == 4;
    qir::Shape shape = at(graph_, pieces.k_transposed).shape;
    Vector<std::int64_t> perm(shape.size());
    for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(d);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    const std::int32_t k = rewriting.tensor(at(graph_, pieces.k_transposed).name + "/rows", DType::F32, shape);
    rewriting.emit(Op::Transpose, last, {pieces.k_transposed}, k).set("perm", std::move(perm));
    Vector<std::int32_t> inputs;
    for (const std::int32_t id : {pieces.q, k, pieces.v}) inputs.push_back(with_heads(rewriting, last, id));
    if (pieces.mask != qir::kAbsent) inputs.push_back(with_heads(rewriting, last, pieces.mask));
    std::int32_t y = last.outputs[0];
    if (!heads) {
      qir::Shape own = at(graph_, y).shape;
      own.insert(own.begin() + 1, 1);
      y = rewriting.tensor(at(graph_, y).name + "/heads", DType::F32, own);
    }
    rewriting.emit(Op::Attention, last, std::move(inputs), y).set("scale", pieces.scale);
    if (heads) return;
    const std::int64_t axis = 1;
    const std::int32_t axes = rewriting.integers(last.name + "/axes", {&axis, 1});
    rewriting.emit(Op::Squeeze, last, {y, axes}, last.outputs[0]);
  }

  qir::Graph &graph_;
  Store &store_;
  const Composites wanted_;
  Vector<Composed> *const found_;
};

}  // namespace

void compose(qir::Graph &graph, Store &store, Composites wanted, Vector<Composed> *found) {
  Composer composer(graph, store, wanted, found);
  composer.sweep(kShifted);
  composer.sweep(kScaled);
  composer.sweep(kPlain);
  composer.attention();
}

}  // namespace quarry::passes
