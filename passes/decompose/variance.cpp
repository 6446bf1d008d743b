// SPDX-License-Identifier: Apache-2.0
// Means and variances in a form that needs no room beyond the values': JAX and others sum first and divide behind, and
// take the variance as mean(x * x) - mean(x)^2. In half precision the sum has no place, and the difference no digits.
#include <algorithm>
#include <cmath>

#include "graph/infer/infer.h"
#include "graph/ops/quantization.h"
#include "passes/edit.h"
#include "passes/fuse/pattern_matcher.h"

namespace quarry::passes {

using qir::at;
using qir::Op;

namespace {

struct Mean {
  std::int32_t of;
  Vector<std::int64_t> axes;  // sorted, from 0
  bool keeps;                 // reduced axes, as 1
};

// What a reduction takes away; nothing where that is not known.
std::optional<Mean> reduction(const qir::Graph &graph, const qir::Node &node) {
  const std::int32_t x = node.inputs[0], axes = node.inputs[1];
  const std::size_t rank = at(graph, x).shape.size();
  Vector<std::int64_t> given;
  if (axes != qir::kAbsent) {
    const qir::Tensor &constant = at(graph, axes);
    if (!constant.is_constant || constant.dtype != DType::I64) return std::nullopt;
    for (std::uint64_t i = 0; i < constant.data.size / 8; ++i)
      given.push_back(qir::stored_integer(constant.dtype, constant.data.data, i));
  }
  bool gone[qir::kMaxRank] = {};
  if (!qir::resolve_reduce(node, given, rank, &gone).ok()) return std::nullopt;
  Mean made{x, {}, node.get_int("keepdims", 1) != 0};
  for (std::size_t i = 0; i < rank; ++i)
    if (gone[i]) made.axes.push_back(static_cast<std::int64_t>(i));
  if (made.axes.empty()) return std::nullopt;
  return made;
}

class Finder {
 public:
  Finder(qir::Graph &graph, Store &store) : graph_(graph), look_(graph, store) {}

  // The node divides a sum by the number of its terms.
  std::optional<Mean> divided_sum(const qir::Node &node) const {
    for (std::size_t side = 0; side < 2; ++side) {
      if (node.op == Op::Div && side == 1) break;
      if (node.op != Op::Div && node.op != Op::Mul) break;
      const qir::Node *const sum = look_.made_by(node.inputs[side], Op::ReduceSum);
      const std::optional<float> factor = look_.scalar(node.inputs[1 - side]);
      if (!sum || !factor || at(graph_, node.outputs[0]).shape != at(graph_, sum->outputs[0]).shape) continue;
      std::optional<Mean> mean = reduction(graph_, *sum);
      if (!mean || !look_.plain_f32(mean->of)) continue;
      double terms = 1;
      for (const std::int64_t axis : mean->axes)
        terms *= static_cast<double>(at(graph_, mean->of).shape[index_of(axis)]);
      const double divisor = node.op == Op::Div ? static_cast<double>(*factor) : 1 / static_cast<double>(*factor);
      if (terms >= 1 && std::fabs(divisor - terms) <= 1e-5 * terms) return mean;
    }
    return std::nullopt;
  }

  // The node is mean(x * x) - mean(x)^2: the mean of x.
  std::optional<Mean> variance(const qir::Node &node) const {
    if (node.op != Op::Sub || !look_.plain_f32(node.outputs[0])) return std::nullopt;
    const std::optional<Mean> of_squares = mean(node.inputs[0]);
    const std::int32_t x = of_squares ? root(of_squares->of) : qir::kAbsent, m = root(node.inputs[1]);
    if (x == qir::kAbsent || m == qir::kAbsent) return std::nullopt;
    std::optional<Mean> of_x = mean(m);
    if (!of_x || of_x->of != x || of_x->axes != of_squares->axes || of_x->keeps != of_squares->keeps)
      return std::nullopt;
    return of_x;
  }

 private:
  std::optional<Mean> mean(std::int32_t id) const {
    for (const Op op : {Op::Mul, Op::Div})
      if (const qir::Node *const node = look_.made_by(id, op)) return divided_sum(*node);
    const qir::Node *const node = look_.made_by(id, Op::ReduceMean);
    return node ? reduction(graph_, *node) : std::nullopt;
  }
  // What the tensor is the square of.
  std::int32_t root(std::int32_t id) const {
    if (const qir::Node *const power = look_.made_by(id, Op::Pow))
      return look_.is_scalar(power->inputs[1], 2) ? power->inputs[0] : qir::kAbsent;
    const qir::Node *const square = look_.made_by(id, Op::Mul);
    return square && square->inputs[0] == square->inputs[1] ? square->inputs[0] : qir::kAbsent;
  }

  qir::Graph &graph_;
  const PatternMatcher look_;
};

}  // namespace

void steady_variances(qir::Graph &graph, Store &store) {
  struct Change {
    Mean mean;
    bool variance;
  };
  HashMap<std::size_t, Change> found;
  {
    const Finder finder(graph, store);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      if (std::optional<Mean> mean = finder.variance(graph.nodes[n])) found.emplace(n, Change{std::move(*mean), true});
      else if ((mean = finder.divided_sum(graph.nodes[n]))) found.emplace(n, Change{std::move(*mean), false});
    }
  }
  if (found.empty()) return;
  Rewriting rewriting(graph, store);
  for (std::size_t n = 0; n < rewriting.old.size() && !stop_asked(); ++n) {
    qir::Node &node = rewriting.old[n];
    const auto change = found.find(n);
    if (change == found.end()) {
      rewriting.keep(std::move(node));
      continue;
    }
    const Mean &mean = change->second.mean;
    const auto write_mean = [&](std::int32_t x, std::int32_t to, bool keeps) {
      const std::int32_t axes = rewriting.integers(node.name + "/axes", mean.axes);
      rewriting.emit(Op::ReduceMean, node, {x, axes}, to).set("keepdims", std::int64_t{keeps});
    };
    if (!change->second.variance) {
      write_mean(mean.of, node.outputs[0], mean.keeps);
      continue;
    }
    const qir::Shape full = at(graph, mean.of).shape;
    qir::Shape kept = full;
    for (const std::int64_t axis : mean.axes) kept[index_of(axis)] = 1;
    const std::int32_t middle = rewriting.tensor(node.name + "/mean", DType::F32, kept),
                       off = rewriting.tensor(node.name + "/off", DType::F32, full),
                       square = rewriting.tensor(node.name + "/square", DType::F32, full);
    write_mean(mean.of, middle, true);
    rewriting.emit(Op::Sub, node, {mean.of, middle}, off);
    rewriting.emit(Op::Mul, node, {off, off}, square);
    write_mean(square, node.outputs[0], mean.keeps);
  }
  remove_unused(graph);
}

}  // namespace quarry::passes
