// SPDX-License-Identifier: Apache-2.0
#include "quantize/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "graph/ops/quantization.h"
#include "quantize/plan/weights.h"
#include "quantize/stop.h"

namespace quarry::quantize {

using qir::at;
using qir::Op;

namespace {

bool is_real(const qir::Graph &graph, std::int32_t id) {
  return id != qir::kAbsent && at(graph, id).dtype == DType::F32;
}

bool is_activation(const qir::Graph &graph, std::int32_t id) {
  return is_real(graph, id) && !at(graph, id).is_constant;
}

bool contains(const Vector<String> &names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// What the planning steps share.
class Planner {
 public:
  Planner(const qir::Graph &graph, const Settings &settings, const Overrides &overrides, Plan &plan)
      : graph_(graph), settings_(settings), overrides_(overrides), plan_(plan), uses_(graph) {}

  Status lay_out() {
    plan_.quantized.assign(graph_.nodes.size(), false);
    plan_.absorbed.assign(graph_.nodes.size(), false);
    plan_.activations.assign(graph_.tensors.size(), {});
    QR_RETURN_IF_ERROR(check_names());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) choose(n);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) absorb(n);
    for (std::size_t i = 0; i < plan_.activations.size(); ++i) plan_.activations[i].grid = settings_.activation_grid();
    return types();
  }

 private:
  Status check_names() const {
    for (const auto &[name, unused] : overrides_)
      if (std::ranges::find(graph_.tensors, name, &qir::Tensor::name) == graph_.tensors.end())
        return Status::error(
                   ErrorId::bad_option_value,
                   format("an override: found the tensor '%s', expected one of the prepared model", printable(name)),
                   "the report lists the tensors")
            .with("tensor", name);
    for (const String &name : settings_.float_nodes)
      if (std::ranges::find(graph_.nodes, name, &qir::Node::name) == graph_.nodes.end())
        return Status::error(ErrorId::bad_option_value,
                             format("option float_nodes: found '%s', expected the name of a node of the prepared model",
                                    printable(name)),
                             "the report lists the nodes")
            .with("node", name);
    return {};
  }

  // A node is quantised where it has a rule and reads or gives real numbers.
  void choose(std::size_t n) {
    const qir::Node &node = graph_.nodes[n];
    if (contains(settings_.float_nodes, node.name) || contains(settings_.float_operators, qir::op_name(node.op)))
      return;
    const auto rule = rule_of(graph_, node);
    if (!rule) return;
    bool any = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      any |= rule->role(i) != Role::None && is_activation(graph_, node.inputs[i]);
    if (!any) return;
    plan_.quantized[n] = true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (rule->role(i) != Role::None && is_activation(graph_, node.inputs[i]))
        plan_.activations[index_of(node.inputs[i])].quantized = true;
    for (const std::int32_t id : node.outputs)
      if (is_real(graph_, id)) plan_.activations[index_of(id)].quantized = true;
  }

  // Relu and Clip behind an operator that computes: its result saturates where they do. Whether it does so is known
  // when there are encodings; this says where it may.
  void absorb(std::size_t n) {
    const qir::Node &node = graph_.nodes[n];
    if (!plan_.quantized[n] || (node.op != Op::Relu && node.op != Op::Clip)) return;
    const std::int32_t from = node.inputs[0], maker = uses_.maker(from);
    if (maker == qir::Uses::kNobody || !plan_.quantized[index_of(maker)] || !uses_.used_once(from) ||
        overrides_.contains(at(graph_, from).name))
      return;
    const qir::Node &made_by = graph_.nodes[index_of(maker)];
    if (made_by.op == Op::Relu || made_by.op == Op::Clip || qir::moves_real_values(graph_, made_by)) return;
    const auto rule = rule_of(graph_, made_by);
    if (rule->moves || rule->of) return;
    if (node.op == Op::Clip)
      for (std::size_t i = 1; i < node.inputs.size(); ++i)
        if (node.inputs[i] != qir::kAbsent && !qir::constant_floats(graph_, node.inputs[i])) return;
    plan_.absorbed[n] = true;
    plan_.activations[index_of(from)].quantized = false;
  }

  // ---- types ------------------------------------------------------------------------------------

  // A node's results, as it gives them when Relu or Clip behind it is absorbed.
  Vector<std::int32_t> results(std::size_t n) const {
    Vector<std::int32_t> out;
    for (std::int32_t id : graph_.nodes[n].outputs) {
      if (!is_real(graph_, id)) continue;
      if (uses_.users(id).size() == 1 && plan_.absorbed[index_of(uses_.users(id)[0])])
        id = graph_.nodes[index_of(uses_.users(id)[0])].outputs[0];
      out.push_back(id);
    }
    return out;
  }
  // Who computes a tensor: what is in front of an absorbed node.
  std::int32_t maker(std::int32_t id) const {
    const std::int32_t n = uses_.maker(id);
    return n != qir::Uses::kNobody && plan_.absorbed[index_of(n)] ? uses_.maker(graph_.nodes[index_of(n)].inputs[0])
                                                                  : n;
  }

  struct Request {
    std::optional<Grid> maker, readers;
    Vector<std::int32_t> nodes;  // those readers
  };

  // All that a node reads and gives is to have one type.
  Status request(std::int32_t n, const Grid &grid, OrderedMap<std::int32_t, Request> &requests) {
    if (n == qir::Uses::kNobody || !plan_.quantized[index_of(n)] || plan_.absorbed[index_of(n)]) return {};
    const qir::Node &node = graph_.nodes[index_of(n)];
    const auto refuse = [&](std::int32_t id) {
      return Status::error(
                 ErrorId::bad_option_value,
                 format("option tensor_types: the tensor '%s' is wanted in two types, one of them by node '%s'",
                        printable(at(graph_, id).name), printable(node.name)),
                 "give tensors that meet in a node the same type")
          .with("tensor", at(graph_, id).name);
    };
    for (const std::int32_t id : results(index_of(n))) {
      Request &one = requests[id];
      if (one.maker && *one.maker != grid) return refuse(id);
      one.maker = grid;
    }
    const auto rule = rule_of(graph_, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::int32_t id = node.inputs[i];
      if (rule->role(i) == Role::None || !is_activation(graph_, id)) continue;
      Request &one = requests[id];
      if (one.readers && *one.readers != grid) return refuse(id);
      one.readers = grid;
      if (std::ranges::find(one.nodes, n) == one.nodes.end()) one.nodes.push_back(n);
    }
    return {};
  }

  Vector<std::int32_t> quantized_readers(std::int32_t id) const {
    Vector<std::int32_t> out;
    for (const std::int32_t n : uses_.users(id))
      if (plan_.quantized[index_of(n)] && std::ranges::find(out, n) == out.end()) out.push_back(n);
    return out;
  }

  void convert(Activation &activation, const Grid &grid, Vector<std::int32_t> nodes) {
    if (nodes.empty()) return;  // an output that nobody reads stays as it is
    activation.has_convert = true;
    activation.convert_grid = grid;
    for (const std::int32_t n : nodes)
      if (std::ranges::find(activation.receivers, n) == activation.receivers.end()) activation.receivers.push_back(n);
  }

  // Overrides as given; then the nodes around a tensor of another type get that type, with a conversion wherever a
  // tensor is wanted in both.
  Status types() {
    OrderedMap<std::int32_t, Request> requests;
    const Grid usual = settings_.activation_grid();
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const auto found = overrides_.find(graph_.tensors[i].name);
      const auto id = static_cast<std::int32_t>(i);
      if (found == overrides_.end() || !is_activation(graph_, id)) continue;
      Activation &activation = plan_.activations[i];
      const auto grid_of = [&](const Override &from) {
        return Grid{from.dtype.value_or(usual.dtype), from.symmetric.value_or(usual.symmetric)};
      };
      activation.grid = grid_of(found->second.own);
      if (found->second.has_convert) {
        Vector<std::int32_t> nodes = quantized_readers(id);
        if (!found->second.all_receive)
          std::erase_if(nodes, [&](std::int32_t n) {
            return !contains(found->second.receivers, graph_.nodes[index_of(n)].name);
          });
        convert(activation, grid_of(found->second.convert), nodes);
        continue;
      }
      if (activation.grid == usual) continue;
      QR_RETURN_IF_ERROR(request(maker(id), activation.grid, requests));
      for (const std::int32_t n : quantized_readers(id)) QR_RETURN_IF_ERROR(request(n, activation.grid, requests));
    }
    for (auto &[id, wanted] : requests) {
      Activation &activation = plan_.activations[index_of(id)];
      const Vector<std::int32_t> readers = quantized_readers(id);
      if (wanted.maker) activation.grid = *wanted.maker;
      if (wanted.maker && !wanted.readers) {
        convert(activation, usual, readers);
      } else if (wanted.readers && *wanted.readers != activation.grid) {
        convert(activation, *wanted.readers, wanted.nodes);
      } else if (wanted.maker && wanted.readers) {
        Vector<std::int32_t> others;
        for (const std::int32_t n : readers)
          if (std::ranges::find(wanted.nodes, n) == wanted.nodes.end()) others.push_back(n);
        if (!others.empty()) convert(activation, usual, others);
      }
    }
    return {};
  }

  const qir::Graph &graph_;
  const Settings &settings_;
  const Overrides &overrides_;
  Plan &plan_;
  qir::Uses uses_;
};

// ---- encodings ----------------------------------------------------------------------------------

// Forms of activations (each tensor has two: its own and the converted one) that share an encoding.
class Groups {
 public:
  explicit Groups(std::size_t tensors) : parent_(2 * tensors) { std::iota(parent_.begin(), parent_.end(), 0u); }
  std::size_t root(std::size_t at) {
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }
  void join(std::size_t a, std::size_t b) { parent_[root(b)] = root(a); }

 private:
  Vector<std::size_t> parent_;
};

class Encoder {
 public:
  Encoder(const qir::Graph &graph, const Settings &settings, const Overrides &overrides, const Ranges &ranges,
          KnownWeights *known, Plan &plan)
      : graph_(graph),
        settings_(settings),
        overrides_(overrides),
        ranges_(ranges),
        known_(known),
        plan_(plan),
        groups_(graph.tensors.size()),
        uses_(graph) {}

  Status run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) join(n);
    give();
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (plan_.absorbed[n] && !saturates(n)) keep(n);
    return constants();
  }

 private:
  std::size_t form(std::int32_t id, bool converted) const { return 2 * index_of(id) + (converted ? 1 : 0); }
  bool reads_converted(std::size_t n, std::int32_t id) const {
    const Activation &a = plan_.activations[index_of(id)];
    return a.has_convert && std::ranges::find(a.receivers, static_cast<std::int32_t>(n)) != a.receivers.end();
  }
  const Grid &grid_of(std::size_t form) const {
    const Activation &a = plan_.activations[form / 2];
    return form % 2 ? a.convert_grid : a.grid;
  }

  void join(std::size_t n) {
    const qir::Node &node = graph_.nodes[n];
    if (!plan_.quantized[n]) return;
    const auto rule = rule_of(graph_, node);
    if (!rule->moves) return;
    std::size_t outputs = node.op == Op::Split ? node.outputs.size() : 1;
    std::optional<std::size_t> first;
    const auto add = [&](std::size_t at) {
      if (overrides_fix(at)) return;
      if (!first) first = at;
      else if (grid_of(*first) == grid_of(at)) groups_.join(*first, at);
    };
    for (std::size_t o = 0; o < outputs; ++o)
      if (is_activation(graph_, node.outputs[o])) add(form(node.outputs[o], false));
    for (std::size_t i = 0; i < rule->moved && i < node.inputs.size(); ++i)
      if (is_activation(graph_, node.inputs[i])) add(form(node.inputs[i], reads_converted(n, node.inputs[i])));
  }

  const Override *override_of(std::size_t form) const {
    const auto found = overrides_.find(graph_.tensors[form / 2].name);
    if (found == overrides_.end()) return nullptr;
    return form % 2 ? (found->second.has_convert ? &found->second.convert : nullptr) : &found->second.own;
  }
  bool overrides_fix(std::size_t form) const {
    const Override *own = override_of(form);
    return own && (own->scale || own->low || own->high);
  }

  // What the tensor's maker always gives. A conversion behind it is free to have what was seen.
  std::optional<Range> fixed(std::size_t form, const Grid &grid) const {
    if (form % 2 != 0) return std::nullopt;
    const std::int32_t maker = uses_.maker(static_cast<std::int32_t>(form / 2));
    const bool wanted = settings_.fixed_ranges == "auto" ? dtype_bits(grid.dtype) == 16 : settings_.fixed_ranges == "1";
    if (!wanted || maker == qir::Uses::kNobody || !plan_.quantized[index_of(maker)]) return std::nullopt;
    return rule_of(graph_, graph_.nodes[index_of(maker)])->of;
  }

  void give() {
    Vector<std::optional<Range>> wide(2 * graph_.tensors.size());
    Vector<std::size_t> members(wide.size());
    for (std::size_t f = 0; f < wide.size(); ++f) {
      if (!in_use(f)) continue;
      const auto id = static_cast<std::int32_t>(f / 2);
      const auto function = fixed(f, grid_of(f));
      Range range = function ? *function : ranges_.range(id, grid_of(f));
      range = widened(range, grid_of(f).symmetric);
      const std::size_t root = groups_.root(f);
      ++members[root];
      std::optional<Range> &all = wide[root];
      all = all ? Range{std::min(all->low, range.low), std::max(all->high, range.high)} : range;
    }
    bound_masks(wide);
    for (std::size_t f = 0; f < wide.size(); ++f) {
      if (!in_use(f)) continue;
      Encoding encoding = encode(*wide[groups_.root(f)], grid_of(f));
      // What QNN demands of 16 bits: the steps are those of 2^-16, or of 2^-15 where there are negative numbers.
      if (const auto function = fixed(f, grid_of(f));
          function && members[groups_.root(f)] == 1 && dtype_bits(grid_of(f).dtype) == 16) {
        const bool is_signed = dtype_kind(grid_of(f).dtype) == DTypeKind::Signed;
        encoding.scale = function->low < 0 || is_signed ? 1.0f / 32768 : 1.0f / 65536;
        encoding.zero_point = function->low < 0 && !is_signed ? 32768 : 0;
      }
      if (const Override *own = override_of(f)) {
        Range range = *wide[groups_.root(f)];
        if (own->low) range.low = *own->low;
        if (own->high) range.high = *own->high;
        if (own->low || own->high) encoding = encode(range, grid_of(f));
        if (own->scale) encoding.scale = *own->scale, encoding.zero_point = own->zero_point.value_or(0);
      }
      (f % 2 ? plan_.activations[f / 2].converted : plan_.activations[f / 2].encoding) = encoding;
    }
  }

  // An Add whose sums Softmax alone reads: a mask of -1e9 says no more there than what brings every sum to the lower
  // end of their range, and integers of the sums' size can be added to it.
  bool adds_mask(std::size_t n) const {
    const qir::Node &node = graph_.nodes[n];
    return plan_.quantized[n] && node.op == Op::Add && softmax_row(graph_, uses_, node.outputs[0]) > 1;
  }
  // The least that operand `input` has to say of such an Add.
  double least_operand(std::size_t n, std::size_t input, const Vector<std::optional<Range>> &wide) {
    const qir::Node &node = graph_.nodes[n];
    const std::int32_t other = node.inputs[1 - input];
    double most = 0;
    if (is_activation(graph_, other)) {
      if (const auto &range = wide[groups_.root(form(other, reads_converted(n, other)))]) most = range->high;
    } else if (const float *values = qir::constant_floats(graph_, other)) {
      const std::size_t count = at(graph_, other).data.size / sizeof(float);
      for (std::size_t i = 0; i < count; ++i) most = std::max(most, static_cast<double>(values[i]));
    }
    const auto &sums = wide[groups_.root(form(node.outputs[0], false))];
    return sums ? std::min(0.0, sums->low - most) : -HUGE_VAL;
  }
  // A constant with minus infinity in it.
  bool forbids(std::int32_t id) const {
    const float *const values = qir::constant_floats(graph_, id);
    return values && std::ranges::count(std::span(values, at(graph_, id).data.size / sizeof(float)), -HUGE_VALF) != 0;
  }
  void bound_masks(Vector<std::optional<Range>> &wide) {
    OrderedMap<std::size_t, double> least;  // by root
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!adds_mask(n)) continue;
      for (std::size_t i = 0; i < 2; ++i) {
        const std::int32_t id = graph_.nodes[n].inputs[i];
        const double limit = least_operand(n, i, wide);
        if (!is_activation(graph_, id)) {
          mask_limits_[graph_.nodes[n].inputs[i]] = std::min(mask_limits_[id], limit);
          continue;
        }
        double &of_root = least[groups_.root(form(id, reads_converted(n, id)))];
        of_root = std::min(of_root, limit);
      }
    }
    for (const auto &[root, limit] : least) {
      bool alone = true;  // nobody else reads any tensor of that encoding
      for (std::size_t f = 0; alone && f < wide.size(); ++f) {
        if (!in_use(f) || groups_.root(f) != root) continue;
        const auto id = static_cast<std::int32_t>(f / 2);
        alone = !uses_.is_output(id) && !overrides_fix(f);
        for (const std::int32_t n : uses_.users(id)) {
          const std::int32_t out = graph_.nodes[index_of(n)].outputs[0];
          alone = alone && plan_.quantized[index_of(n)] &&
                  (adds_mask(index_of(n)) || (is_activation(graph_, out) && groups_.root(form(out, false)) == root));
        }
      }
      if (std::optional<Range> &range = wide[root]; alone && range) range->low = std::max(range->low, limit);
    }
  }

  bool in_use(std::size_t f) const {
    const Activation &a = plan_.activations[f / 2];
    return a.quantized && (f % 2 == 0 || a.has_convert);
  }

  // What the encoding of the result says is what Relu or Clip lets through, to half a step.
  bool saturates(std::size_t n) const {
    const qir::Node &node = graph_.nodes[n];
    const Encoding &encoding = plan_.activations[index_of(node.outputs[0])].encoding;
    const Range covers = covered(encoding);
    const double half = static_cast<double>(encoding.scale) * 0.501;
    double low = node.op == Op::Relu ? 0 : -HUGE_VAL, high = HUGE_VAL;
    for (std::size_t i = 1; node.op == Op::Clip && i < node.inputs.size(); ++i)
      if (node.inputs[i] != qir::kAbsent)
        (i == 1 ? low : high) = static_cast<double>(*qir::constant_floats(graph_, node.inputs[i]));
    return covers.low >= low - half && covers.high <= high + half && low <= 0 && high >= 0;
  }

  // The node stays, and what it reads has an encoding of its own.
  void keep(std::size_t n) {
    plan_.absorbed[n] = false;
    const std::int32_t from = graph_.nodes[n].inputs[0];
    Activation &before = plan_.activations[index_of(from)];
    before.quantized = true;
    before.grid = plan_.activations[index_of(graph_.nodes[n].outputs[0])].grid;
    before.encoding = encode(ranges_.range(from, before.grid), before.grid);
  }

  Encoding input_encoding(std::size_t n, std::int32_t id) const {
    const Activation &a = plan_.activations[index_of(id)];
    return reads_converted(n, id) ? a.converted : a.encoding;
  }

  // What input `i` of a node is stored as.
  Status constant(std::size_t n, std::size_t i, const Rule &rule) {
    const qir::Node &node = graph_.nodes[n];
    Constant made;
    made.node = static_cast<std::int32_t>(n), made.tensor = node.inputs[i], made.input = i;
    if (rule.role(i) == Role::Bias) {
      if (!bias(n, made)) return {};
    } else if (rule.role(i) == Role::Weights) {
      weights(node, made);
      QR_RETURN_IF_ERROR(stop_status(kStopped));
    } else if (rule.moves && i < rule.moved && is_activation(graph_, node.outputs[0])) {
      quantize_as(graph_, plan_.activations[index_of(node.outputs[0])].encoding, made);
    } else {
      quantize_other(n, made);
    }
    plan_.constants.push_back(std::move(made));
    return {};
  }

  // A constant that stands for an activation. A mask reaches no lower than its limit.
  void quantize_other(std::size_t n, Constant &made) {
    const std::int32_t id = made.tensor;
    const Grid grid = constant_grid(n);
    const auto mask = mask_limits_.find(id);
    const bool is_mask = adds_mask(n) && mask != mask_limits_.end() && !overrides_.contains(at(graph_, id).name);
    quantize_whole(graph_, overrides_, grid, made);
    if (!is_mask) return;
    Range covers = covered({made.dtype, made.quant.scales[0], made.quant.zero_points[0]});
    if (!(covers.low < mask->second || (std::isfinite(mask->second) && forbids(id)))) return;
    covers.low = mask->second;
    quantize_as(graph_, encode(covers, grid), made);
  }

  Status constants() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const qir::Node &node = graph_.nodes[n];
      if (!plan_.quantized[n] || plan_.absorbed[n]) continue;
      const auto rule = rule_of(graph_, node);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const std::int32_t id = node.inputs[i];
        if (rule->role(i) == Role::None || !is_real(graph_, id) || !at(graph_, id).is_constant) continue;
        QR_RETURN_IF_ERROR(constant(n, i, *rule));
      }
    }
    return {};
  }

  void weights(const qir::Node &node, Constant &made) {
    const std::int32_t x = node.inputs[0];
    const bool is_wide = settings_.widens_weights && is_product(node.op) && made.input == 1 &&
                         settings_.block_size == 0 && is_activation(graph_, x) &&
                         dtype_bits(input_encoding(index_of(made.node), x).dtype) == 16;
    const DType wanted = is_wide ? DType::I16 : settings_.weights;
    if (!known_) return quantize_weights(graph_, settings_, overrides_, node, wanted, made);
    Vector<KnownConstant> &of_node = (*known_)[made.node];
    for (const KnownConstant &one : of_node)
      if (one.wanted == wanted && one.made.input == made.input) {
        made = one.made;
        return;
      }
    quantize_weights(graph_, settings_, overrides_, node, wanted, made);
    if (!stop_asked()) of_node.push_back({wanted, made});
  }

  // A constant among activations has the type of those that it meets.
  Grid constant_grid(std::size_t n) const {
    const qir::Node &node = graph_.nodes[n];
    const auto rule = rule_of(graph_, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (rule->role(i) != Role::None && is_activation(graph_, node.inputs[i])) {
        const Activation &a = plan_.activations[index_of(node.inputs[i])];
        return reads_converted(n, node.inputs[i]) ? a.convert_grid : a.grid;
      }
    return settings_.activation_grid();
  }

  // False: the operands have no scales whose product a bias could count in.
  bool bias(std::size_t n, Constant &made) {
    const qir::Node &node = graph_.nodes[n];
    if (!is_activation(graph_, node.inputs[0])) return false;
    const auto weights = std::ranges::find_if(plan_.constants, [&](const Constant &one) {
      return one.node == static_cast<std::int32_t>(n) && one.input == 1;
    });
    if (weights == plan_.constants.end()) {
      if (!is_activation(graph_, node.inputs[1])) return false;
      const Encoding w = input_encoding(n, node.inputs[1]);
      qir::Quantization quant;
      quant.scales = {w.scale}, quant.zero_points = {0};
      return quantize_bias(graph_, node, input_encoding(n, node.inputs[0]).scale, quant, made, nullptr);
    }
    if (weights->quant.block_size > 0) return false;
    return quantize_bias(graph_, node, input_encoding(n, node.inputs[0]).scale, weights->quant, made, &*weights);
  }

  const qir::Graph &graph_;
  const Settings &settings_;
  const Overrides &overrides_;
  const Ranges &ranges_;
  KnownWeights *known_;
  Plan &plan_;
  Groups groups_;
  qir::Uses uses_;
  OrderedMap<std::int32_t, double> mask_limits_;  // of constants
};

}  // namespace

const Constant *Plan::constant(std::size_t node, std::size_t input) const noexcept {
  for (const Constant &one : constants)
    if (one.node == static_cast<std::int32_t>(node) && one.input == input) return &one;
  return nullptr;
}

Result<Plan> lay_out(const qir::Graph &graph, const Settings &settings, const Overrides &overrides) {
  Plan plan;
  QR_RETURN_IF_ERROR(Planner(graph, settings, overrides, plan).lay_out());
  return plan;
}

Vector<std::int32_t> observed_tensors(const qir::Graph &graph, const Plan &plan) {
  Vector<std::int32_t> out;
  Vector<bool> wanted(graph.tensors.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) wanted[i] = plan.activations[i].quantized;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (plan.absorbed[n]) wanted[index_of(graph.nodes[n].inputs[0])] = true;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) out.push_back(static_cast<std::int32_t>(i));
  return out;
}

Status give_encodings(const qir::Graph &graph, const Settings &settings, const Overrides &overrides,
                      const Ranges &ranges, Plan *plan, KnownWeights *known) {
  return Encoder(graph, settings, overrides, ranges, known, *plan).run();
}

}  // namespace quarry::quantize
