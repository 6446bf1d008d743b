// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN: one matrix multiplication for the inputs of all steps and directions, then a step for each
// direction.
#include <algorithm>
#include <limits>

#include "backends/cpu/lower/convolution.h"
#include "backends/cpu/lower/rules.h"
#include "kernels/cpu/pack/pack.h"
#include "passes/decompose/recurrent.h"

namespace quarry::cpu {

using kernels::Act;
using kernels::Activation;
using kernels::Cell;
using kernels::Kernel;
using qir::Op;

namespace {

std::optional<Activation> activation_named(const passes::CellFunction &f) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::string_view name = f.name;
  if (name == "Relu") return Activation{Act::Clip, 0, kInfinity, 0};
  if (name == "Tanh") return Activation{Act::Tanh, 0, 0, 0};
  if (name == "Sigmoid") return Activation{Act::Sigmoid, 0, 0, 0};
  if (name == "Affine") return Activation{Act::Linear, f.alpha, f.beta, 0};
  if (name == "LeakyRelu") return Activation{Act::LeakyRelu, f.alpha, 0, 0};
  if (name == "Elu") return Activation{Act::Elu, f.alpha, 0, 0};
  if (name == "HardSigmoid") return Activation{Act::HardSigmoid, f.alpha, f.beta, 0};
  if (name == "Softplus") return Activation{Act::Softplus, 0, 0, 0};
  return std::nullopt;
}

// A layer of all directions.
struct Layer {
  Lowering &l;
  const qir::Node &node;
  kernels::RecurrentF32 p;
  qir::RnnGeometry g;
  Vector<Activation> acts;                               // of each direction
  const float *w = nullptr, *r = nullptr, *b = nullptr;  // constants; others are known at run time

  std::int32_t input(std::size_t i) const { return l.input(node, i); }
  std::int64_t wide() const { return (node.op == Op::LSTM ? 4 : node.op == Op::GRU ? 3 : 1) * g.hidden; }
  Result<bool> match();
  Status emit();

 private:
  bool match_lengths();
  bool match_cell();
  bool has(std::size_t i) const { return input(i) != qir::kAbsent; }
  Vector<float> biases() const;
  Result<View> sums_of_biases();
  Result<Vector<std::uint32_t>> byte_weights(const Vector<float> &bias);
  Status emit_gates(const View &x, const Vector<float> &bias, View *out);
  Status emit_product(const View &x, const View &y);
  Status pack_state_weights(std::int64_t d, std::uint32_t *out);
  struct Operands {
    View x, from_x, y, last_h, last_c, h, c, peepholes, ends;
    Vector<std::uint32_t> bytes;  // weights of each direction, where they are bytes; then no from_x
  };
  void set_strides(bool bytes);
  Status emit_direction(const Operands &operands, std::int64_t d);
};

bool Layer::match_lengths() {
  const std::int32_t lengths = input(4);
  if (lengths == qir::kAbsent) return true;
  if (l.tensor(lengths).dtype != DType::I32 || count_of(l.tensor(lengths).shape) != g.batch) return false;
  const auto values = l.integers(lengths);
  p.has_lengths = !values || std::ranges::any_of(*values, [&](std::int64_t n) { return n != g.sequence; });
  return true;
}

bool Layer::match_cell() {
  const bool after = node.get_int("linear_before_reset", 0) != 0;
  p.cell = node.op == Op::LSTM ? Cell::Lstm : node.op == Op::RNN ? Cell::Rnn : after ? Cell::GruAfter : Cell::Gru;
  p.clip = std::max(0.0f, node.get_float("clip", 0));
  p.coupled = node.op == Op::LSTM && node.get_int("input_forget", 0) != 0;
  p.has_bias = after && has(3) && node.op == Op::GRU;
  Vector<passes::CellFunction> named;
  if (!passes::read_cell_functions(node, g.directions, &named)) return false;
  for (const passes::CellFunction &f : named) {
    const auto act = activation_named(f);
    if (!act) return false;
    acts.push_back(*act);
  }
  return true;
}

Result<bool> Layer::match() {
  w = qir::constant_floats(l.graph(), node.inputs[1]), r = qir::constant_floats(l.graph(), node.inputs[2]);
  b = has(3) ? qir::constant_floats(l.graph(), input(3)) : nullptr;
  for (const std::size_t i : {0, 1, 2, 3, 5, 6, 7})
    if (has(i) && !l.is_f32(input(i))) return false;
  const auto shape = [&](std::size_t i) -> const qir::Shape & { return l.tensor(node.inputs[i]).shape; };
  QR_RETURN_IF_ERROR(qir::resolve_rnn(node, shape(0), shape(1), shape(2), &g));
  if (g.sequence > 1 << 24 || g.batch > 1 << 20 || g.hidden > 1 << 16 || g.input > 1 << 20 ||
      g.sequence * g.batch > 1 << 24)
    return false;
  p.has_h = has(5), p.has_c = has(6), p.has_peepholes = has(7);
  p.steps = g.sequence, p.batch = g.batch, p.hidden = g.hidden;
  return match_lengths() && match_cell();
}

// Both biases of a gate as one; what is reset with its sums stays with them.
Vector<float> Layer::biases() const {
  Vector<float> made;
  for (std::int64_t d = 0; b && d < g.directions; ++d)
    for (std::int64_t i = 0; i < wide(); ++i) {
      const float *const of = b + d * 2 * wide();
      made.push_back(p.has_bias && i >= 2 * g.hidden ? of[i] : of[i] + of[wide() + i]);
    }
  return made;
}

// The weights of each direction as bytes, where the operator says that inputs and states may be rounded (as ONNX
// Runtime's DynamicQuantizeLSTM) and there are dot products of bytes; else none.
Result<Vector<std::uint32_t>> Layer::byte_weights(const Vector<float> &bias) {
  Vector<std::uint32_t> made;
  if (node.op != Op::LSTM || !w || !r || (has(3) && !b) || node.get_int("dynamic_quantize", 0) == 0 ||
      l.isa().int_group != 4 || g.input > 1 << 16)
    return made;
  kernels::RecurrentBytes bytes{p, g.input};
  bytes.layer.y_step = g.batch * g.hidden, bytes.layer.y_row = bytes.layer.state_row = g.hidden;
  kernels::Needs needs;
  QR_RETURN_IF_ERROR(l.check(Kernel::RecurrentBytes, &bytes, &needs));
  Vector<Vector<std::uint8_t>> packed(l.options().dry_run ? 0 : static_cast<std::size_t>(g.directions));
  for (std::size_t d = 0; d < packed.size(); ++d) {
    packed[d].resize(needs.operand_bytes[1]);
    const auto at = static_cast<std::int64_t>(d) * wide();
    if (!kernels::pack_recurrent_bytes(bytes, l.isa(), w + at * g.input, r + at * g.hidden,
                                       bias.empty() ? nullptr : bias.data() + at, packed[d].data()))
      return made;
  }
  for (std::int64_t d = 0; d < g.directions; ++d)
    made.push_back(l.packed_constant(needs.operand_bytes[1], [&](auto &to) { to = std::move(packed[index_of(d)]); }));
  return made;
}

// The same of biases that are known at run time.
Result<View> Layer::sums_of_biases() {
  const View given = l.row_major(input(3)), made = l.new_row_major({g.directions, wide()}, 4);
  const std::int64_t summed = p.has_bias ? 2 * g.hidden : wide();
  const auto part = [&](const View &view, std::int64_t first, std::int64_t step, std::int64_t count) {
    return View{view.value, view.offset + first, {g.directions, count}, {step, 1}};
  };
  kernels::BinaryF32 sum;
  sum.rank = 2;
  sum.dims[0] = g.directions, sum.dims[1] = summed;
  sum.a[0] = sum.b[0] = 2 * wide(), sum.a[1] = sum.b[1] = 1;
  if (summed == wide()) {
    const View of_w = part(given, 0, 2 * wide(), summed), of_r = part(given, wide(), 2 * wide(), summed);
    QR_RETURN_IF_ERROR(l.emit_step(Kernel::BinaryF32, sum, {arg(of_w), arg(of_r), arg(made)}));
    return made;
  }
  // (The kernel's result is dense.)
  const View sums = l.new_row_major({g.directions, summed}, 4);
  const View of_w = part(given, 0, 2 * wide(), summed), of_r = part(given, wide(), 2 * wide(), summed);
  QR_RETURN_IF_ERROR(l.emit_step(Kernel::BinaryF32, sum, {arg(of_w), arg(of_r), arg(sums)}));
  l.copy(sums, part(made, 0, wide(), summed), 4, input(3));
  l.copy(part(given, summed, 2 * wide(), wide() - summed), part(made, summed, wide(), wide() - summed), 4, input(3));
  return made;
}

// The inputs of all steps times the weights of all directions, and the biases: rows in the order of x.
Status Layer::emit_gates(const View &x, const Vector<float> &bias, View *out) {
  const std::int64_t rows = g.sequence * g.batch, columns = g.directions * wide();
  *out = l.new_row_major({rows, columns}, 4);
  if (!w || (has(3) && !b)) return emit_product(x, *out);
  kernels::ConvF32 product;
  product.window.iw = product.window.ow = narrow(rows);
  product.ic = product.x_stride = narrow(g.input), product.oc = product.y_stride = narrow(columns);
  product.has_bias = !bias.empty();
  Bias all;
  all.values = bias, all.channels = columns;
  return emit_conv(l, product, x, {{w, g.input, 1, 0, 0}, columns * g.input, {}}, all, *out);
}

// The same of weights or biases that are known at run time.
Status Layer::emit_product(const View &x, const View &y) {
  kernels::MatMulF32 product;
  product.m = y.dims[0], product.n = y.dims[1], product.k = g.input;
  product.a_row = product.b_col = g.input, product.b_row = 1, product.y_row = product.n;
  product.has_bias = has(3);
  const View weights = l.row_major(input(1));
  Vector<Arg> args{arg(x), arg(weights)};
  View bias;
  if (has(3)) {
    if (b) {
      bias = l.constant_floats(biases(), {product.n});
    } else {
      QR_ASSIGN_OR_RETURN(bias, sums_of_biases());
    }
    args.push_back(arg(bias));
  }
  args.push_back(arg(y));
  return l.emit(Kernel::MatMulF32, &product, args);
}

// The weights of a direction's state, as the kernel reads them.
Status Layer::pack_state_weights(std::int64_t d, std::uint32_t *out) {
  kernels::Needs needs;
  QR_RETURN_IF_ERROR(l.check(Kernel::RecurrentF32, &p, &needs));
  const std::int64_t first = d * wide() * g.hidden;
  if (r) {
    const qir::Bytes weights{r + first, static_cast<std::uint64_t>(wide() * g.hidden) * sizeof(float)};
    const String key = l.weights_key(" recurrent", weights, kernels::pack_form(p, l.isa()));
    *out = l.packed_weights(key, needs.operand_bytes[1],
                            [&](void *to) { kernels::pack_recurrent_f32(p, l.isa(), r + first, to); });
    return {};
  }
  View from = l.row_major(input(2));
  from.offset += first;
  *out = l.new_value(needs.operand_bytes[1]);
  const kernels::PackRecurrentF32 pack{p, l.isa().f32_lanes, 0};
  return l.emit_step(Kernel::PackRecurrentF32, pack, {arg(from), arg(*out)});
}

void Layer::set_strides(bool bytes) {
  const std::int64_t row = bytes ? g.input : g.directions * wide();  // of what the kernel reads
  p.x_step = g.batch_first ? row : g.batch * row, p.x_row = g.batch_first ? g.sequence * row : row;
  p.y_step = g.batch_first ? g.directions * g.hidden : g.directions * g.batch * g.hidden;
  p.y_row = g.batch_first ? g.sequence * g.directions * g.hidden : g.hidden;
  p.state_row = g.batch_first ? g.directions * g.hidden : g.hidden;
}

Status Layer::emit_direction(const Operands &operands, std::int64_t d) {
  const auto at = [](View view, std::int64_t offset) {
    view.offset += offset;
    return view;
  };
  p.backwards = g.reverse || d == 1;
  const std::size_t functions = node.op == Op::LSTM ? 3 : node.op == Op::GRU ? 2 : 1;
  const Activation *const of = &acts[index_of(d) * functions];
  p.f = of[0], p.g = functions > 1 ? of[1] : Activation{}, p.h = functions > 2 ? of[2] : Activation{};
  const std::int64_t step = d * (g.batch_first ? g.hidden : g.batch * g.hidden);  // between directions
  const View gates = at(operands.from_x, d * wide()), h = at(operands.h, step), c = at(operands.c, step),
             peepholes = at(operands.peepholes, d * 3 * g.hidden), y = at(operands.y, step),
             last_h = at(operands.last_h, step), last_c = at(operands.last_c, step);
  View reset_bias;
  Vector<Arg> args;
  const bool bytes = !operands.bytes.empty();
  if (bytes) {
    args = {arg(operands.x), arg(operands.bytes[index_of(d)])};
  } else {
    std::uint32_t weights = 0;
    QR_RETURN_IF_ERROR(pack_state_weights(d, &weights));
    args = {arg(gates), arg(weights)};
  }
  if (p.has_bias) {
    const std::int64_t from = (d * 2 + 1) * wide() + 2 * g.hidden;
    if (b) reset_bias = l.constant_floats(Vector<float>(b + from, b + from + g.hidden), {g.hidden});
    else reset_bias = at(l.row_major(input(3)), from);
    args.push_back(arg(reset_bias));
  }
  if (p.has_h) args.push_back(arg(h));
  if (p.has_c) args.push_back(arg(c));
  if (p.has_peepholes) args.push_back(arg(peepholes));
  if (p.has_lengths) args.push_back(arg(operands.ends));
  args.push_back(arg(y)), args.push_back(arg(last_h));
  if (p.cell == Cell::Lstm) args.push_back(arg(last_c));
  if (!bytes) return l.emit(Kernel::RecurrentF32, &p, args);
  const kernels::RecurrentBytes both{p, g.input};
  return l.emit(Kernel::RecurrentBytes, &both, args);
}

Status Layer::emit() {
  Operands all;
  all.x = l.row_major(node.inputs[0]);
  const Vector<float> bias = biases();
  QR_ASSIGN_OR_RETURN(all.bytes, byte_weights(bias));
  if (all.bytes.empty()) QR_RETURN_IF_ERROR(emit_gates(all.x, bias, &all.from_x));
  const Dims y_dims = g.batch_first ? Dims{g.batch, g.sequence, g.directions, g.hidden}
                                    : Dims{g.sequence, g.directions, g.batch, g.hidden};
  const Dims state_dims = g.batch_first ? Dims{g.batch, g.directions, g.hidden} : Dims{g.directions, g.batch, g.hidden};
  View *const made[] = {&all.y, &all.last_h, &all.last_c};
  for (View *const view : made) *view = l.new_row_major(view == &all.y ? y_dims : state_dims, 4);
  set_strides(!all.bytes.empty());
  if (p.has_h) all.h = l.row_major(input(5));
  if (p.has_c) all.c = l.row_major(input(6));
  if (p.has_peepholes) all.peepholes = l.row_major(input(7));
  if (p.has_lengths) all.ends = l.row_major(input(4));
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    if (node.outputs[i] != qir::kAbsent) l.define(node.outputs[i], *made[i]);
  for (std::int64_t d = 0; d < g.directions; ++d) QR_RETURN_IF_ERROR(emit_direction(all, d));
  return {};
}

}  // namespace

Result<Lowered> lower_recurrent(Lowering &l, const qir::Node &node) {
  Layer layer{.l = l, .node = node};
  QR_ASSIGN_OR_RETURN(const bool fits, layer.match());
  if (!fits) return Lowered::NotMine;
  return done(layer.emit());
}

}  // namespace quarry::cpu
