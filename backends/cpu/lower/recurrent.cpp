// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN: the products with the inputs of all steps and directions are one, then each direction is a step.
#include <algorithm>
#include <limits>

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"
#include "kernels/cpu/pack/pack.h"
#include "passes/decompose/recurrent.h"

namespace quarry::cpu {

using kernels::Act;
using kernels::Activation;
using kernels::Cell;
using kernels::Kernel;
using qir::Op;

namespace {

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

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

}  // namespace

// The weights of each direction as bytes, where the operator says that inputs and states may be rounded (as ONNX
// Runtime's DynamicQuantizeLSTM) and there are dot products of bytes; else none.
Result<Vector<std::uint32_t>> Lowering::byte_weights(const qir::Node &node, const kernels::RecurrentF32 &layer,
                                                     const qir::RnnGeometry &g, const float *w, const float *r,
                                                     const Vector<float> &bias) {
  Vector<std::uint32_t> made;
  if (node.op != Op::LSTM || node.get_int("dynamic_quantize", 0) == 0 || plan_.isa->int_group != 4 || g.input > 1 << 16)
    return made;
  const std::int64_t wide = 4 * g.hidden;
  kernels::RecurrentBytes p{layer, g.input};
  p.layer.y_step = g.batch * g.hidden, p.layer.y_row = p.layer.state_row = g.hidden;
  kernels::Needs needs;
  QR_RETURN_IF_ERROR(check(Kernel::RecurrentBytes, &p, &needs));
  Vector<Vector<std::uint8_t>> packed(look_only_ ? 0 : static_cast<std::size_t>(g.directions));
  for (std::size_t d = 0; d < packed.size(); ++d) {
    packed[d].resize(needs.operand_bytes[1]);
    const auto at = static_cast<std::int64_t>(d) * wide;
    if (!kernels::pack_recurrent_bytes(p, *plan_.isa, w + at * g.input, r + at * g.hidden,
                                       bias.empty() ? nullptr : bias.data() + at, packed[d].data()))
      return made;
  }
  for (std::int64_t d = 0; d < g.directions; ++d)
    made.push_back(packed_constant(needs.operand_bytes[1],
                                   [&](auto &bytes) { bytes = std::move(packed[static_cast<std::size_t>(d)]); }));
  return made;
}

// Products with the inputs, and the biases: rows in the order of x.
Status Lowering::emit_gates(const View &x, std::int64_t rows, std::int64_t depth, std::int64_t columns, const float *w,
                            const Vector<float> &bias, View *out) {
  kernels::ConvF32 product;
  product.window.iw = product.window.ow = narrow(rows);
  product.ic = product.x_stride = narrow(depth), product.oc = product.y_stride = narrow(columns);
  product.has_bias = !bias.empty();
  *out = new_row_major({rows, columns}, 4);
  return emit_conv(product, x, {w, depth, 1, 0, 0}, columns * depth, bias, *out);
}

Status Lowering::lower_recurrent(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1], ri = node.inputs[2], bi = input(node, 3),
                     lengths = input(node, 4), hi = input(node, 5), ci = input(node, 6), pi = input(node, 7);
  const float *const w = qir::constant_floats(graph_, wi), *const r = qir::constant_floats(graph_, ri),
                     *const b = bi == qir::kAbsent ? nullptr : qir::constant_floats(graph_, bi);
  if (!is_f32(xi) || !w || !r || (bi != qir::kAbsent && !b)) return {};
  for (const std::int32_t id : {hi, ci, pi})
    if (id != qir::kAbsent && !is_f32(id)) return {};
  qir::RnnGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_rnn(node, tensor(xi).shape, tensor(wi).shape, tensor(ri).shape, &g));
  if (g.sequence > 1 << 24 || g.batch > 1 << 20 || g.hidden > 1 << 16 || g.input > 1 << 20 ||
      g.sequence * g.batch > 1 << 24)
    return {};
  kernels::RecurrentF32 p;
  if (lengths != qir::kAbsent) {
    if (tensor(lengths).dtype != DType::I32 || count_of(tensor(lengths).shape) != g.batch) return {};
    const auto values = integers(lengths);
    p.has_lengths = !values || std::ranges::any_of(*values, [&](std::int64_t n) { return n != g.sequence; });
  }
  const bool after = node.get_int("linear_before_reset", 0) != 0;
  p.cell = node.op == Op::LSTM ? Cell::Lstm : node.op == Op::RNN ? Cell::Rnn : after ? Cell::GruAfter : Cell::Gru;
  const std::size_t functions = node.op == Op::LSTM ? 3 : node.op == Op::GRU ? 2 : 1;
  Vector<passes::CellFunction> named;
  if (!passes::read_cell_functions(node, g.directions, &named)) return {};
  Vector<Activation> acts;
  for (const passes::CellFunction &f : named) {
    const auto act = activation_named(f);
    if (!act) return {};
    acts.push_back(*act);
  }
  const std::int64_t gates = node.op == Op::LSTM  ? 4
                             : node.op == Op::GRU ? 3
                                                  : 1,
                     wide = gates * g.hidden, all = g.directions * wide;
  p.clip = std::max(0.0f, node.get_float("clip", 0));
  p.coupled = node.op == Op::LSTM && node.get_int("input_forget", 0) != 0;
  p.has_bias = after && b && node.op == Op::GRU;
  p.has_h = hi != qir::kAbsent, p.has_c = ci != qir::kAbsent, p.has_peepholes = pi != qir::kAbsent;
  p.steps = g.sequence, p.batch = g.batch, p.hidden = g.hidden;

  const View x = row_major(xi);
  Vector<float> bias;
  if (b) {
    for (std::int64_t d = 0; d < g.directions; ++d)
      for (std::int64_t i = 0; i < wide; ++i) {
        const float *const of = b + d * 2 * wide;
        // What is reset with its product stays with it.
        bias.push_back(p.has_bias && i >= 2 * g.hidden ? of[i] : of[i] + of[wide + i]);
      }
  }
  QR_ASSIGN_OR_RETURN(const Vector<std::uint32_t> bytes, byte_weights(node, p, g, w, r, bias));
  View from_x;
  if (bytes.empty()) QR_RETURN_IF_ERROR(emit_gates(x, g.sequence * g.batch, g.input, all, w, bias, &from_x));

  const Dims y_dims = g.batch_first ? Dims{g.batch, g.sequence, g.directions, g.hidden}
                                    : Dims{g.sequence, g.directions, g.batch, g.hidden};
  const Dims state_dims = g.batch_first ? Dims{g.batch, g.directions, g.hidden} : Dims{g.directions, g.batch, g.hidden};
  const View y = new_row_major(y_dims, 4), last_h = new_row_major(state_dims, 4), last_c = new_row_major(state_dims, 4);
  const std::int64_t row = bytes.empty() ? all : g.input;  // of what the kernel reads
  p.x_step = g.batch_first ? row : g.batch * row, p.x_row = g.batch_first ? g.sequence * row : row;
  p.y_step = g.batch_first ? g.directions * g.hidden : g.directions * g.batch * g.hidden;
  p.y_row = g.batch_first ? g.sequence * g.directions * g.hidden : g.hidden;
  p.state_row = g.batch_first ? g.directions * g.hidden : g.hidden;
  const std::int64_t state_step = g.batch_first ? g.hidden : g.batch * g.hidden;  // between directions
  const std::int64_t y_direction = g.batch_first ? g.hidden : g.batch * g.hidden;
  View h, c, peepholes, ends;
  if (p.has_h) h = row_major(hi);
  if (p.has_c) c = row_major(ci);
  if (p.has_peepholes) peepholes = row_major(pi);
  if (p.has_lengths) ends = row_major(lengths);
  const View *const made[] = {&y, &last_h, &last_c};
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    if (node.outputs[i] != qir::kAbsent) define(node.outputs[i], *made[i]);
  *done = true;
  for (std::int64_t d = 0; d < g.directions; ++d) {
    const auto at = [](View view, std::int64_t offset) {
      view.offset += offset;
      return view;
    };
    p.backwards = g.reverse || d == 1;
    const Activation *const of = &acts[static_cast<std::size_t>(d) * functions];
    p.f = of[0], p.g = functions > 1 ? of[1] : Activation{}, p.h = functions > 2 ? of[2] : Activation{};
    const View gates_of = at(from_x, d * wide), h_of = at(h, d * state_step), c_of = at(c, d * state_step),
               peepholes_of = at(peepholes, d * 3 * g.hidden), y_of = at(y, d * y_direction),
               last_h_of = at(last_h, d * state_step), last_c_of = at(last_c, d * state_step);
    View reset_bias;
    Vector<Arg> args;
    if (!bytes.empty()) {
      args = {arg(x), arg(bytes[static_cast<std::size_t>(d)])};
    } else {
      kernels::Needs needs;
      QR_RETURN_IF_ERROR(check(Kernel::RecurrentF32, &p, &needs));
      args = {arg(gates_of), arg(packed_constant(needs.operand_bytes[1], [&](auto &packed) {
                kernels::pack_recurrent_f32(p, *plan_.isa, r + d * wide * g.hidden, packed.data());
              }))};
    }
    if (p.has_bias) {
      const float *const from = b + (d * 2 + 1) * wide + 2 * g.hidden;
      reset_bias = constant_floats(Vector<float>(from, from + g.hidden), {g.hidden});
      args.push_back(arg(reset_bias));
    }
    if (p.has_h) args.push_back(arg(h_of));
    if (p.has_c) args.push_back(arg(c_of));
    if (p.has_peepholes) args.push_back(arg(peepholes_of));
    if (p.has_lengths) args.push_back(arg(ends));
    args.push_back(arg(y_of)), args.push_back(arg(last_h_of));
    if (p.cell == Cell::Lstm) args.push_back(arg(last_c_of));
    if (bytes.empty()) {
      QR_RETURN_IF_ERROR(emit(Kernel::RecurrentF32, &p, args));
    } else {
      const kernels::RecurrentBytes both{p, g.input};
      QR_RETURN_IF_ERROR(emit(Kernel::RecurrentBytes, &both, args));
    }
  }
  return {};
}

}  // namespace quarry::cpu
