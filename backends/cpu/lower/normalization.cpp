// SPDX-License-Identifier: Apache-2.0
// Normalisations whose statistics are not those of a layer normalisation's rows: brought to such rows, and the
// channels' factors and offsets behind them.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

using kernels::BinaryOp;
using kernels::Kernel;
using kernels::ReduceOp;
using qir::Op;

namespace {

// y = x * scale + offset; y may be x.
Status emit_scaled(Lowering &l, const View &x, const View &scale, const View &offset, const View &y) {
  kernels::Elements p;
  p.op = kernels::ElementOp::MulAdd, p.dtype = static_cast<std::uint32_t>(DType::F32);
  const View *const operands[] = {&x, &scale, &offset};
  return emit_elements(l, p, operands, y);
}

// Whether the tensor has an element for each of a row, or one for several, and the same ones for all rows.
bool fits_row(const qir::Shape &shape, const Dims &row) {
  for (std::size_t i = 1; i <= shape.size(); ++i) {
    const std::int64_t extent = shape[shape.size() - i];
    if (extent != 1 && (i > row.size() || extent != row[row.size() - i])) return false;
  }
  return true;
}
// The tensor with all of them.
View whole_row(Lowering &l, std::int32_t id, const Dims &row) {
  View given = l.row_major(id);
  if (count_of(given.dims) == count_of(row)) return given;
  if (const std::size_t more = given.rank() > row.size() ? given.rank() - row.size() : 0) {  // ones
    given.dims.erase(given.dims.begin(), given.dims.begin() + static_cast<std::ptrdiff_t>(more));
    given.strides.erase(given.strides.begin(), given.strides.begin() + static_cast<std::ptrdiff_t>(more));
  }
  const View made = l.new_row_major(row, 4);
  l.copy(broadcast(given, row), made, 4, id);
  return made;
}

}  // namespace

Result<Lowered> lower_layer_norm(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t xi = node.inputs[0], gamma = node.inputs[1], beta = l.input(node, 2);
  if (!l.is_f32(xi) || !l.is_f32(gamma) || (beta != qir::kAbsent && !l.is_f32(beta)) || !l.is_f32(group.output))
    return Lowered::NotMine;
  const auto wanted = [&](std::size_t i) {
    return i < node.outputs.size() && node.outputs[i] != qir::kAbsent &&
           (!l.uses().users(node.outputs[i]).empty() || l.uses().is_output(node.outputs[i]));
  };
  const bool statistics = wanted(1) || wanted(2);
  for (const std::size_t i : {1u, 2u})
    if (wanted(i) && !l.is_f32(node.outputs[i])) return Lowered::NotMine;  // of another type that they are kept in
  const qir::Shape &shape = l.tensor(xi).shape;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), shape.size(), &axis));
  kernels::LayerNormF32 p;
  p.cols = 1;
  for (std::size_t d = axis; d < shape.size(); ++d) p.cols *= shape[d];
  p.rows = count_of(shape) / p.cols;
  const Dims row(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
  if (!fits_row(l.tensor(gamma).shape, row) || (beta != qir::kAbsent && !fits_row(l.tensor(beta).shape, row)))
    return Lowered::NotMine;
  p.epsilon = node.get_float("epsilon", 1e-5f);
  p.rms = node.op == Op::RMSNormalization;
  p.has_beta = beta != qir::kAbsent, p.has_statistics = statistics;
  p.act = group.act;
  const View x = l.row_major(xi), g = whole_row(l, gamma, row), y = l.new_row_major(shape, 4);
  View b, made[2];
  if (p.has_beta) b = whole_row(l, beta, row);
  l.define(group.output, y);
  Vector<Arg> args{arg(x), arg(g)};
  if (p.has_beta) args.push_back(arg(b));
  args.push_back(arg(y));
  for (std::size_t i = 0; i < 2 && statistics; ++i) {
    made[i] = l.new_row_major({p.rows}, 4);
    args.push_back(arg(made[i]));
    if (!wanted(i + 1)) continue;
    const qir::Shape &rows = l.tensor(node.outputs[i + 1]).shape;
    l.define(node.outputs[i + 1], View{made[i].value, 0, rows, cpu::row_major(rows)});
  }
  return l.finish(Kernel::LayerNormF32, &p, args);
}

namespace {

// Of parameters that are known at run time: (x - mean) * (scale / sqrt(variance + epsilon)) + offset.
Result<Lowered> emit_batch_norm(Lowering &l, const qir::Node &node, std::int64_t channels) {
  const qir::Shape &shape = l.tensor(node.inputs[0]).shape;
  View parameters[4];  // scale, offset, mean, variance
  for (std::size_t i = 0; i < 4; ++i) {
    parameters[i] = l.row_major(node.inputs[1 + i]);
    parameters[i].dims = {channels}, parameters[i].strides = {1};
  }
  View epsilon = l.constant_floats({node.get_float("epsilon", 1e-5f)}, {1});
  epsilon.dims = {channels}, epsilon.strides = {0};
  const View inverse = l.new_row_major({channels}, 4), factor = l.new_row_major({channels}, 4);
  QR_RETURN_IF_ERROR(emit_binary(l, BinaryOp::Add, parameters[3], epsilon, inverse, {kernels::Act::Rsqrt, 0, 0, 0}));
  QR_RETURN_IF_ERROR(emit_binary(l, BinaryOp::Mul, parameters[0], inverse, factor));
  const View y = l.elementwise_output(shape, std::span(node.inputs.data(), 1), 4), x = l.beside(node.inputs[0], y);
  const auto per_channel = [&](View view) {
    view.dims = shape, view.strides.assign(shape.size(), 0);
    if (shape.size() > 1) view.strides[1] = channels > 1 ? 1 : 0;
    return view;
  };
  const View difference = l.new_like(y, 4), scaled = l.new_like(y, 4);
  l.define(node.outputs[0], y);
  QR_RETURN_IF_ERROR(emit_binary(l, BinaryOp::Sub, x, per_channel(parameters[2]), difference));
  QR_RETURN_IF_ERROR(emit_binary(l, BinaryOp::Mul, difference, per_channel(factor), scaled));
  return done(emit_binary(l, BinaryOp::Add, scaled, per_channel(parameters[1]), y));
}

}  // namespace

// y = x * s + t per channel; most are folded into a convolution before.
Result<Lowered> lower_batch_norm(Lowering &l, const qir::Node &node) {
  if (!l.is_f32(node.inputs[0]) || !l.is_f32(node.outputs[0]) || node.get_int("training_mode", 0) != 0)
    return Lowered::NotMine;
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != qir::kAbsent) return Lowered::NotMine;
  const qir::Shape &shape = l.tensor(node.inputs[0]).shape;
  if (shape.size() > kernels::kLoopRank) return Lowered::NotMine;
  const std::size_t channels = static_cast<std::size_t>(shape.size() < 2 ? 1 : shape[1]);
  const float *parameters[4];
  bool known = true;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int32_t id = node.inputs[1 + i];
    if (!l.is_f32(id) || count_of(l.tensor(id).shape) != static_cast<std::int64_t>(channels)) return Lowered::NotMine;
    known = (parameters[i] = qir::constant_floats(l.graph(), id)) && known;
  }
  if (!known) return emit_batch_norm(l, node, static_cast<std::int64_t>(channels));
  // A mean that is large beside what elements differ by is taken off first: x * s and mean * s would be rounded where
  // their difference has no digits left.
  constexpr double kLarge = 256;
  Vector<float> s(channels), t(channels), one(channels, 1.0f), less(channels);
  bool apart = false;
  for (std::size_t c = 0; c < channels; ++c) {
    const double factor =
                     parameters[0][c] / std::sqrt(double{parameters[3][c]} + double{node.get_float("epsilon", 1e-5f)}),
                 moved = double{parameters[2][c]} * factor;
    apart |= std::fabs(moved) > kLarge * std::fabs(double{parameters[0][c]});
    s[c] = static_cast<float>(factor), less[c] = -parameters[2][c];
    t[c] = static_cast<float>(parameters[1][c] - moved);
  }
  const View y = l.elementwise_output(shape, std::span(node.inputs.data(), 1), 4), x = l.beside(node.inputs[0], y);
  const auto per_channel = [&](const Vector<float> &values) {
    View view = l.constant_floats(values, {static_cast<std::int64_t>(channels)});
    view.dims = shape, view.strides.assign(shape.size(), 0);
    if (shape.size() > 1) view.strides[1] = channels > 1 ? 1 : 0;
    return view;
  };
  l.define(node.outputs[0], y);
  if (!apart) return done(emit_scaled(l, x, per_channel(s), per_channel(t), y));
  for (std::size_t c = 0; c < channels; ++c) t[c] = parameters[1][c];
  QR_RETURN_IF_ERROR(emit_scaled(l, x, per_channel(one), per_channel(less), y));
  return done(emit_scaled(l, y, per_channel(s), per_channel(t), y));
}

// Instance and group normalisation: a row is what is left of a channel, or of a group of channels, of an image.
Result<Lowered> lower_group_norm(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  if (!l.is_f32(xi) || !l.is_f32(yi) || !l.is_f32(node.inputs[1]) || !l.is_f32(node.inputs[2])) return Lowered::NotMine;
  const qir::Shape &shape = l.tensor(xi).shape;
  if (shape.size() < 2 || (node.op == Op::InstanceNormalization && shape.size() < 3)) return Lowered::NotMine;
  const std::int64_t channels = shape[1],
                     groups = node.op == Op::GroupNormalization ? node.get_int("num_groups", 1) : channels;
  if (groups < 1 || channels % groups != 0 || count_of(l.tensor(node.inputs[1]).shape) != channels ||
      count_of(l.tensor(node.inputs[2]).shape) != channels)
    return Lowered::NotMine;
  kernels::LayerNormF32 p;
  p.rows = shape[0] * groups, p.cols = count_of(shape) / p.rows, p.plain = 1;
  p.epsilon = node.get_float("epsilon", 1e-5f);
  const View x = l.row_major(xi), y = l.new_row_major(shape, 4);
  l.define(yi, y);
  QR_RETURN_IF_ERROR(l.emit_step(Kernel::LayerNormF32, p, {arg(x), arg(y)}));
  View planes = y;
  planes.dims = {shape[0], channels, count_of(shape) / shape[0] / channels};
  planes.strides = cpu::row_major(planes.dims);
  View factors[2];
  for (int i = 0; i < 2; ++i) {
    factors[i] = l.row_major(node.inputs[index_of(1 + i)]);
    factors[i].dims = planes.dims, factors[i].strides = {0, channels > 1 ? 1 : 0, 0};
  }
  return done(emit_scaled(l, planes, factors[0], factors[1], planes));
}

// The axes of the statistics are brought to the end; what stands there is a row.
Result<Lowered> lower_mean_variance_norm(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  if (!l.is_f32(xi) || !l.is_f32(yi)) return Lowered::NotMine;
  const qir::Shape &shape = l.tensor(xi).shape;
  const Vector<std::int64_t> *const given = node.get_ints("axes");
  const std::int64_t usual[] = {0, 2, 3};
  qir::IntList axes;
  QR_RETURN_IF_ERROR(qir::resolve_axes(node, given ? qir::Dims(*given) : qir::Dims(usual), shape.size(), &axes));
  bool gone[qir::kMaxRank] = {};
  for (const std::int64_t axis : qir::Dims(axes)) gone[axis] = true;
  Vector<std::int64_t> order;
  kernels::LayerNormF32 p;
  p.rows = p.cols = 1, p.plain = 1;
  p.epsilon = 1e-18f;  // ONNX adds 1e-9 to the deviation: that of a row of equal values
  for (const bool last : {false, true})
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (gone[d] == last) {
        order.push_back(static_cast<std::int64_t>(d));
        (last ? p.cols : p.rows) *= shape[d];
      }
  const View moved = transposed(l.any(xi), order);
  View x = moved;
  if (!is_row_major(x)) {
    x = l.new_row_major(moved.dims, 4);
    l.copy(moved, x, 4, xi);
  }
  const View y = l.new_row_major(moved.dims, 4);
  Vector<std::int64_t> back(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) back[index_of(order[d])] = static_cast<std::int64_t>(d);
  l.define(yi, transposed(y, back));
  return l.finish_step(Kernel::LayerNormF32, p, {arg(x), arg(y)});
}

// x / |x| along an axis. The least number above zero in place of zero: a row of zeros stays zeros.
Result<Lowered> lower_lp_norm(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  if (!l.is_f32(xi) || !l.is_f32(yi)) return Lowered::NotMine;
  const qir::Shape &shape = l.tensor(xi).shape;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), shape.size(), &axis));
  const View x = l.row_major(xi), y = l.new_row_major(shape, 4);
  kernels::ReduceF32 r;
  r.outer = 1, r.reduced = shape[axis];
  for (std::size_t d = 0; d < axis; ++d) r.outer *= shape[d];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) r.inner *= shape[d];
  r.op = node.get_int("p", 2) == 1 ? ReduceOp::L1 : ReduceOp::L2;
  r.act = {kernels::Act::Clip, 1.40129846e-45f, __builtin_inff(), 0};
  const View norm = l.new_row_major({r.outer, 1, r.inner}, 4);
  kernels::BinaryF32 p;
  p.op = BinaryOp::Div, p.rank = 3;
  const std::int64_t dims[] = {r.outer, r.reduced, r.inner}, of_norm[] = {r.inner, 0, 1},
                     of_x[] = {r.reduced * r.inner, r.inner, 1};
  std::copy_n(dims, 3, p.dims), std::copy_n(of_x, 3, p.a), std::copy_n(of_norm, 3, p.b);
  if (r.inner == 1) {
    p.rank = 2;
    p.a[1] = 1, p.b[1] = 0;
  }
  l.define(yi, y);
  QR_RETURN_IF_ERROR(l.emit_step(Kernel::ReduceF32, r, {arg(x), arg(norm)}));
  return l.finish_step(Kernel::BinaryF32, p, {arg(x), arg(norm), arg(y)});
}

}  // namespace quarry::cpu
