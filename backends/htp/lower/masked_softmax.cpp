// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/masked_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "graph/edit/graph_edit.h"
#include "graph/ops/quantization.h"
#include "passes/edit.h"

namespace quarry::htp {

using qir::Op;

namespace {

// The document's bound for what is added to a row's least number: e^-20 of it is no step of 16 bits.
constexpr float kFarBelow = 20;
constexpr float kAdded = -30;

struct Range {
  float low = 0, high = 0;
};
// Of all that its stored type can say.
Range range_of(const qir::Tensor &tensor) {
  const qir::IntegerRange stored = qir::integer_range(tensor.dtype);
  const auto real = [&](std::int64_t value) {
    return static_cast<float>(value - tensor.quant->zero_points[0]) * tensor.quant->scales[0];
  };
  return {real(stored.low), real(stored.high)};
}
bool is_stored(const qir::Tensor &tensor) {
  return tensor.quant && tensor.quant->per_tensor() && (tensor.dtype == DType::U8 || tensor.dtype == DType::U16);
}
// Of `range` in the type.
qir::Quantization encoding_of(const Range &range, DType dtype) {
  const auto steps = static_cast<float>(qir::integer_range(dtype).high);
  const float scale = (range.high - range.low) / steps;
  qir::Quantization made;
  made.scales.push_back(scale);
  made.zero_points.push_back(static_cast<std::int32_t>(std::clamp(std::nearbyint(-range.low / scale), 0.0f, steps)));
  return made;
}

// The mask of one Softmax, and what it is laid on.
struct Masked {
  std::int32_t x = qir::kAbsent, y = qir::kAbsent, keep = qir::kAbsent;
  bool inverted = false;      // `keep` says what goes
  Vector<std::uint8_t> kept;  // of a constant that is added: instead of `keep`, in its shape
  qir::Shape shape;           // of that
  bool leaves_one = false;    // in each row, as is known
};

class MaskedSoftmax {
 public:
  MaskedSoftmax(qir::Graph &graph, qir::Store &store, bool any_rows)
      : graph_(graph), store_(store), any_rows_(any_rows), uses_(graph) {}

  void run() {
    HashMap<std::int32_t, Masked> found;  // by the node that lays the mask
    Vector<bool> gone(graph_.nodes.size());
    for (const qir::Node &node : graph_.nodes) {
      if (node.op != Op::Softmax || !has_form(node)) continue;
      Masked masked;
      masked.y = node.inputs[0];
      if (!is_stored(qir::at(graph_, masked.y)) || !uses_.used_once(masked.y)) continue;
      std::int32_t at = uses_.maker(masked.y), quantizes = qir::Uses::kNobody;
      // Beside a mask of floats the numbers are dequantised, and quantised again behind it.
      if (at >= 0 && converts(graph_.nodes[index_of(at)], Op::QuantizeLinear)) {
        const std::int32_t real = graph_.nodes[index_of(at)].inputs[0];
        quantizes = at;
        at = uses_.used_once(real) ? uses_.maker(real) : qir::Uses::kNobody;
      }
      if (at < 0) continue;
      const qir::Node &lays = graph_.nodes[index_of(at)];
      const bool fits = lays.op == Op::Where ? take_where(lays, masked) : lays.op == Op::Add && take_add(lays, masked);
      if (!fits || (!any_rows_ && !masked.leaves_one)) continue;
      if (quantizes >= 0) gone[index_of(quantizes)] = true;
      found.emplace(at, std::move(masked));
    }
    if (found.empty()) return;
    passes::Rewriting rewriting(graph_, store_);
    for (std::size_t i = 0; i < rewriting.old.size(); ++i) {
      qir::Node &node = rewriting.old[i];
      const auto masked = found.find(static_cast<std::int32_t>(i));
      if (masked != found.end()) write(rewriting, node, masked->second);
      else if (!gone[i]) rewriting.keep(std::move(node));
    }
  }

 private:
  // The real numbers of a constant; none: it is no such.
  Vector<float> reals_of(std::int32_t id) const {
    const qir::Tensor &tensor = qir::at(graph_, id);
    const std::optional<std::int64_t> count = element_count(tensor.shape.data(), tensor.shape.size());
    Vector<float> out;
    if (!tensor.is_constant || !count) return out;
    const float *const floats = qir::constant_floats(graph_, id);
    if (!floats && !is_stored(tensor)) return out;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(*count); ++i)
      out.push_back(floats ? floats[i]
                           : static_cast<float>(qir::stored_integer(tensor.dtype, tensor.data.data, i) -
                                                tensor.quant->zero_points[0]) *
                                 tensor.quant->scales[0]);
    return out;
  }
  bool has_form(const qir::Node &node) const {
    const auto rank = static_cast<std::int64_t>(qir::at(graph_, node.inputs[0]).shape.size());
    const std::int64_t axis = node.get_int("axis", -1);
    if (rank == 0 || (axis != -1 && axis != rank - 1)) return false;
    // Of 8 bits the library counts more than the row where one element is left of whole groups of 32.
    const qir::Tensor &x = qir::at(graph_, node.inputs[0]);
    return dtype_bits(x.dtype) != 8 || x.shape.back() == 1 || x.shape.back() % 32 != 1;
  }
  // A QuantizeLinear or DequantizeLinear that says what its integers' type does.
  bool converts(const qir::Node &node, Op op) const {
    if (node.op != op) return false;
    const qir::Tensor &stored = qir::at(graph_, op == Op::QuantizeLinear ? node.outputs[0] : node.inputs[0]);
    return is_stored(stored) && qir::read_quantization(graph_, node) == stored.quant;
  }
  // What was dequantised.
  std::int32_t stored_of(std::int32_t id) const {
    const std::int32_t at = uses_.maker(id);
    const bool is_real = at >= 0 && converts(graph_.nodes[index_of(at)], Op::DequantizeLinear);
    return is_real ? graph_.nodes[index_of(at)].inputs[0] : id;
  }
  // Who made what was quantised.
  std::int32_t maker_of(std::int32_t id) const {
    const std::int32_t at = uses_.maker(id);
    const bool is_stored = at >= 0 && converts(graph_.nodes[index_of(at)], Op::QuantizeLinear);
    return is_stored ? uses_.maker(graph_.nodes[index_of(at)].inputs[0]) : at;
  }
  // x has the type and shape of the masked numbers y.
  bool is_masked(std::int32_t x, std::int32_t y) const {
    const qir::Tensor &from = qir::at(graph_, x), &to = qir::at(graph_, y);
    return !from.is_constant && is_stored(from) && from.dtype == to.dtype && from.shape == to.shape;
  }
  float least_kept(std::int32_t x, std::int32_t y) const {
    return std::max(range_of(qir::at(graph_, x)).low, range_of(qir::at(graph_, y)).low);
  }

  // Where(keep, x, low), or Where(goes, low, x).
  bool take_where(const qir::Node &node, Masked &out) const {
    const std::int32_t y = out.y;
    out.keep = node.inputs[0];
    out.inverted = qir::at(graph_, node.inputs[1]).is_constant;
    out.x = stored_of(node.inputs[out.inverted ? 2 : 1]);
    const Vector<float> low = reals_of(node.inputs[out.inverted ? 1 : 2]);
    if (!is_masked(out.x, y)) return false;
    if (low.empty()) return is_far_below(stored_of(node.inputs[2]), out.x);
    // The result's type may have none so low.
    const float highest = std::max(std::ranges::max(low), range_of(qir::at(graph_, y)).low);
    out.leaves_one = leaves_one(out.keep, out.inverted);
    return highest <= least_kept(out.x, y) - kFarBelow;
  }

  // The form itself: ReduceMin(x) and a number that is low enough.
  bool is_far_below(std::int32_t id, std::int32_t x) const {
    const std::int32_t at = maker_of(id);
    if (at < 0 || graph_.nodes[index_of(at)].op != Op::Add) return false;
    const qir::Operands &operands = graph_.nodes[index_of(at)].inputs;
    const bool first = qir::at(graph_, operands[0]).is_constant;
    const Vector<float> added = reals_of(operands[first ? 0 : 1]);
    const std::int32_t least = maker_of(stored_of(operands[first ? 1 : 0]));
    if (least < 0 || added.empty() || std::ranges::max(added) > -kFarBelow) return false;
    const qir::Node &node = graph_.nodes[index_of(least)];
    return node.op == Op::ReduceMin && stored_of(node.inputs[0]) == x;
  }

  // x + Where(keep, 0, low), or a constant of 0 and of low ones.
  bool take_add(const qir::Node &node, Masked &out) const {
    const std::int32_t y = out.y, a = stored_of(node.inputs[0]), b = stored_of(node.inputs[1]);
    const bool first = is_masked(a, y) && !is_stored_mask(a);
    out.x = first ? a : b;
    const std::int32_t mask = first ? b : a;
    if (!is_masked(out.x, y)) return false;
    // What the mask leaves of the largest number.
    const float least = least_kept(out.x, y) - kFarBelow;
    if (range_of(qir::at(graph_, y)).low > least) return false;
    const auto is_low = [&](float value) { return range_of(qir::at(graph_, out.x)).high + value <= least; };
    if (qir::at(graph_, mask).is_constant) {
      const Vector<float> values = reals_of(mask);
      for (const float value : values) {
        if (value != 0 && !is_low(value)) return false;
        out.kept.push_back(value == 0);
      }
      out.shape = qir::at(graph_, mask).shape;
      out.leaves_one = one_in_each_row(out.kept, out.shape);
      return std::ranges::find(out.kept, 0) != out.kept.end();
    }
    if (!is_stored_mask(mask)) return false;
    const qir::Node &made = graph_.nodes[index_of(maker_of(mask))];
    const Vector<float> yes = reals_of(made.inputs[1]), no = reals_of(made.inputs[2]);
    out.keep = made.inputs[0];
    out.inverted = yes.size() == 1 && yes[0] != 0;
    if (yes.size() != 1 || no.size() != 1 || (out.inverted ? no : yes)[0] != 0) return false;
    const float low = std::max((out.inverted ? yes : no)[0], range_of(qir::at(graph_, mask)).low);
    out.leaves_one = leaves_one(out.keep, out.inverted);
    return is_low(low);
  }
  // Chosen between two constants.
  bool is_stored_mask(std::int32_t id) const {
    const std::int32_t at = maker_of(id);
    if (at < 0 || !is_stored(qir::at(graph_, id))) return false;
    const qir::Node &node = graph_.nodes[index_of(at)];
    return node.op == Op::Where && qir::at(graph_, node.inputs[1]).is_constant &&
           qir::at(graph_, node.inputs[2]).is_constant;
  }

  bool leaves_one(std::int32_t keep, bool inverted) const {
    const qir::Tensor &tensor = qir::at(graph_, keep);
    if (!tensor.is_constant) return false;
    const auto *const bytes = static_cast<const std::uint8_t *>(tensor.data.data);
    Vector<std::uint8_t> kept(bytes, bytes + tensor.data.size);
    for (std::uint8_t &one : kept) one = (one != 0) != inverted;
    return one_in_each_row(kept, tensor.shape);
  }
  static bool one_in_each_row(const Vector<std::uint8_t> &kept, const qir::Shape &shape) {
    const std::size_t row = shape.empty() ? 1 : static_cast<std::size_t>(shape.back());
    for (std::size_t at = 0; at + row <= kept.size(); at += row)
      if (std::all_of(kept.begin() + static_cast<std::ptrdiff_t>(at),
                      kept.begin() + static_cast<std::ptrdiff_t>(at + row), [](std::uint8_t one) { return one == 0; }))
        return false;
    return true;
  }

  void write(passes::Rewriting &rewriting, const qir::Node &node, const Masked &masked) {
    const std::int32_t y = masked.y;
    const qir::Tensor result = qir::at(graph_, y);
    const auto stored = [&](const char *suffix, const qir::Shape &shape, const qir::Quantization &quant) {
      const std::int32_t id = rewriting.tensor(node.name + suffix, result.dtype, shape);
      qir::at(graph_, id).quant = quant;
      return id;
    };
    std::int32_t x = masked.x;
    if (!qir::same_quantization(qir::at(graph_, x), result)) {
      const std::int32_t converted = stored("/kept", result.shape, *result.quant);
      rewriting.emit(Op::Identity, node, {x}, converted);
      x = converted;
    }
    qir::Shape rows = result.shape;
    rows.back() = 1;
    const std::int32_t least = stored("/least", rows, *result.quant);
    const std::int64_t last = static_cast<std::int64_t>(rows.size()) - 1;
    const std::int32_t axes = rewriting.integers(node.name + "/axes", {&last, 1});
    rewriting.emit(Op::ReduceMin, node, {x, axes}, least).set("keepdims", std::int64_t{1});
    const std::int32_t added = stored("/added", {1}, encoding_of({kAdded, 0}, result.dtype));
    const std::uint16_t lowest = 0;
    qir::at(graph_, added).is_constant = true;
    qir::at(graph_, added).data = store_.copy(&lowest, dtype_bits(result.dtype) / 8);
    const Range range = range_of(result);
    const qir::Quantization wider = encoding_of({range.low + kAdded, range.high}, result.dtype);
    const std::int32_t below = stored("/below", rows, wider);
    rewriting.emit(Op::Add, node, {least, added}, below);
    qir::at(graph_, y).quant = wider;
    rewriting.emit(Op::Where, node, {condition(rewriting, node, masked), x, below}, y);
  }

  std::int32_t condition(passes::Rewriting &rewriting, const qir::Node &node, const Masked &masked) {
    if (masked.keep == qir::kAbsent) {
      const std::int32_t made = rewriting.tensor(node.name + "/mask", DType::Bool, masked.shape);
      qir::at(graph_, made).is_constant = true;
      qir::at(graph_, made).data = store_.copy(masked.kept.data(), masked.kept.size());
      return made;
    }
    if (!masked.inverted) return masked.keep;
    const std::int32_t made = rewriting.tensor(node.name + "/keep", DType::Bool, qir::at(graph_, masked.keep).shape);
    rewriting.emit(Op::Not, node, {masked.keep}, made);
    return made;
  }

  qir::Graph &graph_;
  qir::Store &store_;
  bool any_rows_;
  const qir::Uses uses_;
};

}  // namespace

void compose_masked_softmax(qir::Graph &graph, qir::Store &store, bool any_rows) {
  MaskedSoftmax(graph, store, any_rows).run();
}

}  // namespace quarry::htp
