// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN as the products and operators on elements that they are, one group of them for each step.
#include <algorithm>
#include <array>

#include "graph/infer/infer.h"
#include "passes/arithmetic.h"
#include "passes/decompose/recurrent.h"

namespace quarry::passes {

using qir::at;
using qir::kAbsent;
using qir::Op;

namespace {

using Function = CellFunction;

constexpr Function kFunctions[] = {
    {"Relu", 0, 0, 0},          {"Tanh", 0, 0, 0},       {"Sigmoid", 0, 0, 0}, {"Affine", 2, 1, 0},
    {"LeakyRelu", 1, 0.01f, 0}, {"ScaledTanh", 2, 1, 1}, {"Elu", 1, 1, 0},     {"HardSigmoid", 2, 0.2f, 0.5f},
    {"Softsign", 0, 0, 0},      {"Softplus", 0, 0, 0},
};

bool same_name(std::string_view a, std::string_view b) noexcept {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

bool read_cell_functions(const qir::Node &node, std::int64_t directions, Vector<CellFunction> *out) {
  Vector<String> names;
  const std::size_t each = node.op == Op::LSTM ? 3 : node.op == Op::GRU ? 2 : 1;
  if (const Vector<String> *given = node.get_strings("activations")) names = *given;
  if (names.empty()) {
    for (std::int64_t d = 0; d < directions; ++d)
      for (std::size_t i = 0; i < each; ++i) names.emplace_back(i == 0 && each > 1 ? "Sigmoid" : "Tanh");
  }
  if (names.size() != each * static_cast<std::size_t>(directions)) return false;
  const Vector<float> *const alphas = node.get_floats("activation_alpha"), *const betas =
                                                                               node.get_floats("activation_beta");
  std::size_t alpha = 0, beta = 0;
  for (const String &name : names) {
    const auto *const row =
        std::ranges::find_if(kFunctions, [&](const Function &f) { return same_name(f.name, name); });
    if (row == std::end(kFunctions)) return false;
    Function made = *row;
    if (row->parameters >= 1 && alphas && alpha < alphas->size()) made.alpha = (*alphas)[alpha++];
    if (row->parameters >= 2 && betas && beta < betas->size()) made.beta = (*betas)[beta++];
    out->push_back(made);
  }
  return true;
}

namespace {

class Unrolled : private Arithmetic {
 public:
  Unrolled(Rewriting &to, const qir::Node &node, const qir::RnnGeometry &g, Vector<Function> functions)
      : Arithmetic(to, node),
        g_(g),
        functions_(std::move(functions)),
        gates_(node.op == Op::LSTM  ? 4
               : node.op == Op::GRU ? 3
                                    : 1),
        clip_(node.get_float("clip", 0)) {}

  void run() {
    x_ = node_.inputs[0];
    if (g_.batch_first) x_ = transpose(x_, {1, 0, 2});
    x_ = reshape(x_, {g_.sequence * g_.batch, g_.input});
    Vector<std::int32_t> all, last_h, last_c;
    for (std::int64_t d = 0; d < g_.directions; ++d) {
      const Direction made = direction(d);
      if (wants(0)) {
        all.push_back(reshape(concat(made.steps, 0), {g_.sequence, 1, g_.batch, g_.hidden}));
      }
      const qir::Shape state = {1, g_.batch, g_.hidden};
      if (wants(1)) last_h.push_back(reshape(made.h, state));
      if (wants(2)) last_c.push_back(reshape(made.c, state));
    }
    give(0, std::move(all), 1, {2, 0, 1, 3});
    give(1, std::move(last_h), 0, {1, 0, 2});
    give(2, std::move(last_c), 0, {1, 0, 2});
  }

 private:
  struct Direction {
    Vector<std::int32_t> steps;  // h of each, [batch, hidden], in the order of the sequence
    std::int32_t h = kAbsent, c = kAbsent;
  };
  // What the cells of a direction share. Biases are rows or absent.
  struct Cell {
    std::int32_t r;            // [hidden, gates * hidden]
    std::int32_t r_last_bias;  // of GRU's new state, where it is reset after the product
    std::array<std::int32_t, 3> peepholes{kAbsent, kAbsent, kAbsent};
    const Function *functions;
  };

  // Nothing is zero.
  std::int32_t sum(std::int32_t a, std::int32_t b) {
    if (a == kAbsent) return b;
    return b == kAbsent ? a : op(Op::Add, a, b);
  }

  // ---- parameters ----
  // Rows from .. of [directions, rows, columns], turned: [columns, to - from]. Constants on the spot.
  std::int32_t turned(std::int32_t id, std::int64_t d) {
    const std::int64_t rows = shape_of(id)[1], columns = shape_of(id)[2];
    const float *const values = qir::constant_floats(to_.graph, id);
    if (!values) return transpose(reshape(slice(id, 0, d, d + 1), {rows, columns}), {1, 0});
    float *const made = static_cast<float *>(to_.store.allocate(static_cast<std::uint64_t>(rows * columns) * 4));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) made[j * rows + i] = values[(d * rows + i) * columns + j];
    const std::int32_t out = fresh({columns, rows});
    at(to_.graph, out).is_constant = true;
    at(to_.graph, out).data = {made, static_cast<std::uint64_t>(rows * columns) * 4};
    return out;
  }
  // Elements from .. to of a direction of [directions, elements], as a row.
  std::int32_t row(std::int32_t id, std::int64_t d, std::int64_t from, std::int64_t to) {
    if (id == kAbsent) return kAbsent;
    const float *const values = qir::constant_floats(to_.graph, id);
    if (values)
      return floats({1, to - from}, {values + d * shape_of(id)[1] + from, static_cast<std::size_t>(to - from)});
    return slice(slice(id, 0, d, d + 1), 1, from, to);
  }
  // The sum of both biases; of GRU that resets after the product without that of the new state.
  std::int32_t bias_row(std::int32_t id, std::int64_t d, bool without_last) {
    if (id == kAbsent) return kAbsent;
    const std::int64_t wide = gates_ * g_.hidden;
    const float *const values = qir::constant_floats(to_.graph, id);
    if (values) {
      Vector<float> sums;
      const float *const w = values + d * 2 * wide, *const r = w + wide;
      for (std::int64_t i = 0; i < wide; ++i)
        sums.push_back(without_last && i >= wide - g_.hidden ? w[i] : w[i] + r[i]);
      return floats({1, wide}, sums);
    }
    const std::int32_t w = row(id, d, 0, wide);
    if (!without_last) return sum(w, row(id, d, wide, 2 * wide));
    const std::int32_t first = sum(row(id, d, 0, wide - g_.hidden), row(id, d, wide, 2 * wide - g_.hidden)),
                       last = row(id, d, wide - g_.hidden, wide);
    return concat({first, last}, 1);
  }
  std::int32_t state(std::size_t input, std::int64_t d) {
    const std::int32_t id = node_.inputs[input];
    if (id == kAbsent) return kAbsent;
    return reshape(slice(id, g_.batch_first ? 1 : 0, d, d + 1), {g_.batch, g_.hidden});
  }

  // ---- cells ----
  std::int32_t apply(const Function &f, std::int32_t x, bool clipped = true) {
    if (clipped && clip_ > 0) {
      const qir::Shape shape = shape_of(x);
      const std::int32_t low = number(-clip_), high = number(clip_);
      x = op(Op::Clip, {x, low, high}, shape);
    }
    const std::string_view name = f.name;
    if (name == "Relu") return op(Op::Relu, x);
    if (name == "Tanh") return op(Op::Tanh, x);
    if (name == "Sigmoid") return op(Op::Sigmoid, x);
    if (name == "Softsign") return op(Op::Softsign, x);
    if (name == "Softplus") return op(Op::Softplus, x);
    if (name == "Affine") return op(Op::Add, op(Op::Mul, x, number(f.alpha)), number(f.beta));
    if (name == "ScaledTanh") return op(Op::Mul, op(Op::Tanh, op(Op::Mul, x, number(f.beta))), number(f.alpha));
    const Op what = name == "LeakyRelu" ? Op::LeakyRelu : name == "Elu" ? Op::Elu : Op::HardSigmoid;
    const std::int32_t made = op(what, x);
    to_.graph.nodes.back().set("alpha", f.alpha);
    if (what == Op::HardSigmoid) to_.graph.nodes.back().set("beta", f.beta);
    return made;
  }
  std::int32_t product(std::int32_t h, std::int32_t r) { return op(Op::MatMul, {h, r}, {g_.batch, shape_of(r)[1]}); }

  std::int32_t rnn(const Cell &cell, std::int32_t from_x, std::int32_t h) {
    return apply(cell.functions[0], sum(from_x, h == kAbsent ? kAbsent : product(h, cell.r)));
  }

  // Gates z (update), r (reset), h (new state); h = (1 - z) * new + z * h.
  std::int32_t gru(const Cell &cell, std::int32_t from_x, std::int32_t h) {
    const bool after = node_.get_int("linear_before_reset", 0) != 0;
    const Vector<std::int32_t> x = split(from_x, 1, 3);
    Vector<std::int32_t> p(3, kAbsent);
    std::int32_t r_new = kAbsent;
    if (h != kAbsent && after) {
      p = split(product(h, cell.r), 1, 3);
    } else if (h != kAbsent) {
      if (r_first_.find(cell.r) == r_first_.end()) r_first_[cell.r] = parts_of(cell.r);
      const auto [gates, new_state] = r_first_[cell.r];
      const Vector<std::int32_t> two = split(product(h, gates), 1, 2);
      p[0] = two[0], p[1] = two[1], r_new = new_state;
    }
    const std::int32_t update = apply(cell.functions[0], sum(x[0], p[0]));
    std::int32_t inner = kAbsent;
    if (h != kAbsent || cell.r_last_bias != kAbsent) {
      const std::int32_t reset = apply(cell.functions[0], sum(x[1], p[1]));
      if (after) {
        const std::int32_t linear = sum(p[2], cell.r_last_bias);
        inner = linear == kAbsent ? kAbsent : op(Op::Mul, reset, linear);
      } else if (h != kAbsent) {
        inner = product(op(Op::Mul, reset, h), r_new);
      }
    }
    const std::int32_t made = apply(cell.functions[1], sum(x[2], inner));
    // new + z * (h - new)
    const std::int32_t change = h == kAbsent ? op(Op::Neg, made) : op(Op::Sub, h, made);
    return op(Op::Add, made, op(Op::Mul, update, change));
  }
  // The columns of the first two gates, and those of the new state.
  std::pair<std::int32_t, std::int32_t> parts_of(std::int32_t r) {
    const std::int64_t n = g_.hidden;
    const float *const values = qir::constant_floats(to_.graph, r);
    if (!values) return {slice(r, 1, 0, 2 * n), slice(r, 1, 2 * n, 3 * n)};
    Vector<float> gates, made;
    for (std::int64_t i = 0; i < n; ++i) {
      gates.insert(gates.end(), values + i * 3 * n, values + i * 3 * n + 2 * n);
      made.insert(made.end(), values + i * 3 * n + 2 * n, values + i * 3 * n + 3 * n);
    }
    return {floats({n, 2 * n}, gates), floats({n, n}, made)};
  }

  // Gates i (input), o (output), f (forget), c (new cell); c = f * c + i * new, h = o * act(c). Peepholes as gates.
  std::int32_t lstm(const Cell &cell, std::int32_t from_x, std::int32_t h, std::int32_t *c) {
    const Vector<std::int32_t> gate = split(sum(from_x, h == kAbsent ? kAbsent : product(h, cell.r)), 1, 4);
    const auto peep = [&](std::size_t which, std::int32_t x, std::int32_t at_cell) {
      if (cell.peepholes[which] == kAbsent || at_cell == kAbsent) return x;
      return op(Op::Add, x, op(Op::Mul, at_cell, cell.peepholes[which]));
    };
    const std::int32_t in = apply(cell.functions[0], peep(0, gate[0], *c));
    const std::int32_t made = op(Op::Mul, in, apply(cell.functions[1], gate[3]));
    std::int32_t kept = kAbsent;
    if (*c != kAbsent) {
      const std::int32_t forget = node_.get_int("input_forget", 0) != 0
                                      ? op(Op::Add, op(Op::Neg, in), number(1))
                                      : apply(cell.functions[0], peep(2, gate[2], *c));
      kept = op(Op::Mul, forget, *c);
    }
    *c = sum(made, kept);
    const std::int32_t out = apply(cell.functions[0], peep(1, gate[1], *c));
    return op(Op::Mul, out, apply(cell.functions[2], *c, false));
  }

  // ---- sequences ----
  // Whether the step is within each entry's length: a column of bools; absent: within all. `none`: within no entry's.
  std::int32_t within(std::int64_t t, bool *none) {
    *none = false;
    const std::int32_t id = node_.inputs[4];
    if (id == kAbsent) return kAbsent;
    const qir::Tensor &lengths = at(to_.graph, id);
    if (lengths.is_constant) {
      Vector<std::uint8_t> mask;
      for (std::int64_t b = 0; b < g_.batch; ++b) {
        std::int32_t length;
        std::memcpy(&length, static_cast<const std::uint8_t *>(lengths.data.data) + 4 * b, 4);
        mask.push_back(t < length);
      }
      *none = std::ranges::none_of(mask, [](std::uint8_t one) { return one != 0; });
      if (std::ranges::all_of(mask, [](std::uint8_t one) { return one != 0; })) return kAbsent;
      return constant({g_.batch, 1}, mask.data(), mask.size(), DType::Bool);
    }
    if (lengths_ == kAbsent) {
      lengths_ = fresh({g_.batch, 1}, DType::I32);
      const std::int32_t extents = ints({g_.batch, 1});
      to_.emit(Op::Reshape, node_, {id, extents}, lengths_);
    }
    const std::int32_t step = static_cast<std::int32_t>(t), at_step = constant({1, 1}, &step, 4, DType::I32);
    const std::int32_t made = fresh({g_.batch, 1}, DType::Bool);
    to_.emit(Op::Greater, node_, {lengths_, at_step}, made);
    return made;
  }
  std::int32_t zeros() {
    if (zeros_ == kAbsent) {
      const Vector<float> values(static_cast<std::size_t>(g_.batch * g_.hidden), 0.0f);
      zeros_ = floats({g_.batch, g_.hidden}, values);
    }
    return zeros_;
  }
  std::int32_t chosen(std::int32_t mask, std::int32_t yes, std::int32_t no) {
    if (no == kAbsent) no = zeros();
    return op(Op::Where, {mask, yes, no}, {g_.batch, g_.hidden});
  }

  Direction direction(std::int64_t d) {
    const bool after = node_.op == Op::GRU && node_.get_int("linear_before_reset", 0) != 0;
    const std::int64_t wide = gates_ * g_.hidden;
    const std::int32_t bias = node_.inputs[3], peepholes = node_.inputs[7];
    const std::int32_t w = turned(node_.inputs[1], d);
    Cell cell{turned(node_.inputs[2], d), kAbsent, {}, functions_.data() + index_of(d) * per_cell()};
    cell.peepholes = {kAbsent, kAbsent, kAbsent};
    if (after) cell.r_last_bias = row(bias, d, 2 * wide - g_.hidden, 2 * wide);
    for (std::int64_t i = 0; i < 3 && peepholes != kAbsent; ++i)
      cell.peepholes[index_of(i)] = row(peepholes, d, i * g_.hidden, (i + 1) * g_.hidden);
    // The input's part of every step at once.
    const std::int32_t from_x = sum(op(Op::MatMul, {x_, w}, {g_.sequence * g_.batch, wide}), bias_row(bias, d, after));
    const Vector<std::int32_t> x = split(from_x, 0, g_.sequence);
    Direction made;
    made.steps.resize(static_cast<std::size_t>(g_.sequence));
    made.h = state(5, d), made.c = node_.op == Op::LSTM ? state(6, d) : kAbsent;
    const bool backwards = g_.reverse || d == 1;
    for (std::int64_t step = 0; step < g_.sequence; ++step) {
      const std::int64_t t = backwards ? g_.sequence - 1 - step : step;
      const auto place = index_of(t);
      bool none = false;
      const std::int32_t mask = within(t, &none);
      if (none) {
        made.steps[place] = zeros();
        continue;
      }
      std::int32_t c = made.c;
      std::int32_t h = node_.op == Op::LSTM  ? lstm(cell, x[place], made.h, &c)
                       : node_.op == Op::GRU ? gru(cell, x[place], made.h)
                                             : rnn(cell, x[place], made.h);
      made.steps[place] = h;
      if (mask != kAbsent) {
        if (wants(0)) made.steps[place] = chosen(mask, h, kAbsent);
        h = chosen(mask, h, made.h);
        if (node_.op == Op::LSTM) c = chosen(mask, c, made.c);
      }
      made.h = h, made.c = c;
    }
    // No step was taken.
    if (made.h == kAbsent) made.h = zeros();
    if (made.c == kAbsent && node_.op == Op::LSTM) made.c = zeros();
    return made;
  }
  std::size_t per_cell() const { return node_.op == Op::LSTM ? 3 : node_.op == Op::GRU ? 2 : 1; }

  // The directions' parts as an output of the node; `perm` puts the batch first.
  void give(std::size_t output, Vector<std::int32_t> parts, std::int64_t axis, Vector<std::int64_t> perm) {
    if (!wants(output)) return;
    const std::int32_t out = node_.outputs[output];
    if (parts.size() == 1 && !g_.batch_first) {
      to_.emit(Op::Identity, node_, {parts[0]}, out);
      return;
    }
    std::int32_t whole = parts[0];
    if (parts.size() > 1) {
      qir::Shape shape = shape_of(whole);
      shape[index_of(axis)] = static_cast<std::int64_t>(parts.size());
      whole = g_.batch_first ? fresh(shape) : out;
      to_.emit(Op::Concat, node_, std::move(parts), whole).set("axis", axis);
    }
    if (g_.batch_first) to_.emit(Op::Transpose, node_, {whole}, out).set("perm", std::move(perm));
  }

  const qir::RnnGeometry g_;
  const Vector<Function> functions_;
  const std::int64_t gates_;
  const float clip_;
  std::int32_t x_ = kAbsent, lengths_ = kAbsent, zeros_ = kAbsent;
  OrderedMap<std::int32_t, std::pair<std::int32_t, std::int32_t>> r_first_;  // of GRU: parts_of
};

bool is_recurrent(const qir::Node &node) { return qir::op_row(node.op).family == qir::OpFamily::Recurrent; }

}  // namespace

void unroll_recurrent(qir::Graph &graph, Store &store, std::int64_t most_steps,
                      bool (*keep)(const qir::Graph &, const qir::Node &)) {
  if (std::ranges::none_of(graph.nodes, is_recurrent)) return;
  Rewriting rewriting(graph, store);
  for (qir::Node &node : rewriting.old) {
    if (stop_asked()) return;
    const auto plain = [&](std::int32_t id) {
      return id == kAbsent || (at(graph, id).dtype == DType::F32 && !at(graph, id).quant) ||
             (at(graph, id).dtype == DType::I32 && id == node.inputs[4]);
    };
    qir::RnnGeometry g;
    Vector<Function> functions;
    if (is_recurrent(node) && !(keep && keep(graph, node)) && std::ranges::all_of(node.inputs, plain) &&
        std::ranges::all_of(node.outputs, plain)) {
      const auto dims = [&](std::size_t i) {
        const qir::Shape &shape = at(graph, node.inputs[i]).shape;
        return qir::Dims{shape.data(), shape.size()};
      };
      const Status status = qir::resolve_rnn(node, dims(0), dims(1), dims(2), &g);
      if (status.ok() && g.sequence > 0 && g.sequence <= most_steps && g.batch > 0 && g.input > 0 && g.hidden > 0 &&
          read_cell_functions(node, g.directions, &functions)) {
        Unrolled(rewriting, node, g, std::move(functions)).run();
        continue;
      }
    }
    rewriting.keep(std::move(node));
  }
}

}  // namespace quarry::passes
